//! Places the name of a line where it is read with that line and no other.

/// Height of a line of letters, in CSS pixels.
pub const LETTER_HEIGHT: f64 = 12.0;
/// Mean advance of a letter of that height in the usual sans-serif faces.
const LETTER_WIDTH: f64 = 6.4;
/// Between a line and its name.
const GAP: f64 = 5.0;
/// More room than this around a name is not better.
const MAX_USEFUL_GAP: f64 = 36.0;

/// About how wide `text` will be.
pub fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER_WIDTH
}

/// Extent of a line: lowest and highest y of each pixel column, `None` where it is absent.
type Profile = Vec<Option<(f64, f64)>>;

/// Finds a place for the name of each line (given in pixels, x from 0 to `size.0`, y downwards from 0
/// to `size.1`): close to its own line, far from the others and from names placed before. The place
/// is the left end of the base line.
pub fn place(lines: &[Vec<(f64, f64)>], names: &[&str], size: (f64, f64)) -> Vec<Option<(f64, f64)>> {
    let profiles: Vec<Profile> = lines.iter().map(|line| profile(line, size.0)).collect();
    let mut taken: Vec<Block> = Vec::new();
    let mut places = Vec::new();
    for (own, name) in names.iter().enumerate() {
        let best = candidates(&profiles[own], width(name), size).max_by(|a, b| {
            let score = |c: &Candidate| c.score(own, &profiles, &taken, size);
            // Of equals the leftmost, which max_by would not take by itself.
            score(a).total_cmp(&score(b)).then(b.block.left.total_cmp(&a.block.left))
        });
        places.push(best.map(|b| (b.block.left, b.block.bottom - 2.0)));
        taken.extend(best.map(|b| b.block));
    }
    places
}

/// A rectangle that a name would fill.
#[derive(Clone, Copy)]
struct Block {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Block {
    /// Vertical room between this block and what lies from `top` to `bottom`; negative if they meet.
    fn room(&self, top: f64, bottom: f64) -> f64 {
        (top - self.bottom).max(self.top - bottom)
    }
}

#[derive(Clone, Copy)]
struct Candidate {
    block: Block,
    /// By how much its own line rises and falls along the name.
    unrest: f64,
    /// Position of its lower edge.
    line_bottom: f64,
}

impl Candidate {
    fn score(&self, own: usize, profiles: &[Profile], taken: &[Block], size: (f64, f64)) -> f64 {
        let mut room = MAX_USEFUL_GAP;
        for (_, profile) in profiles.iter().enumerate().filter(|(i, _)| *i != own) {
            if let Some((top, bottom)) = extent(profile, self.block.left, self.block.right) {
                room = room.min(self.block.room(top, bottom));
            }
        }
        for other in taken {
            if other.left < self.block.right + GAP && self.block.left < other.right + GAP {
                room = room.min(other.room(self.block.top, self.block.bottom));
            }
        }
        // A flow that has not started lies on the zero line: its name says more where it sends.
        let idle = if self.line_bottom >= size.1 - 1.0 { MAX_USEFUL_GAP } else { 0.0 };
        room - 0.5 * self.unrest - idle
    }
}

fn candidates(own: &Profile, width: f64, size: (f64, f64)) -> impl Iterator<Item = Candidate> {
    const STRIDE: usize = 6;
    let last = (size.0 - width - GAP).max(0.0) as usize;
    (GAP as usize..=last).step_by(STRIDE).flat_map(move |left| {
        let (left, right) = (left as f64, left as f64 + width);
        let sides = extent(own, left, right).map(|(top, bottom)| {
            [(top - GAP - LETTER_HEIGHT, top), (bottom + GAP, bottom)].map(|(block_top, _)| Candidate {
                block: Block { left, right, top: block_top, bottom: block_top + LETTER_HEIGHT },
                unrest: bottom - top,
                line_bottom: bottom,
            })
        });
        let inside = move |c: &Candidate| c.block.top >= 0.0 && c.block.bottom <= size.1;
        sides.into_iter().flatten().filter(inside).collect::<Vec<_>>()
    })
}

fn extent(profile: &Profile, left: f64, right: f64) -> Option<(f64, f64)> {
    let columns = profile.iter().take(right.ceil() as usize + 1).skip(left.floor() as usize);
    columns.flatten().copied().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

fn profile(line: &[(f64, f64)], width: f64) -> Profile {
    let mut columns: Profile = vec![None; width.ceil() as usize + 1];
    let mut cover = |column: f64, y: f64| {
        if let Some(slot) = columns.get_mut(column.max(0.0) as usize) {
            let (top, bottom) = slot.unwrap_or((y, y));
            *slot = Some((top.min(y), bottom.max(y)));
        }
    };
    for pair in line.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        cover(x0, y0);
        cover(x1, y1);
        for column in x0.ceil() as i64..=x1.floor() as i64 {
            let along = if x1 > x0 { (column as f64 - x0) / (x1 - x0) } else { 0.0 };
            cover(column as f64, y0 + along * (y1 - y0));
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_where_the_lines_are_apart() {
        // Two lines far apart on the left half, together on the right half.
        let upper = vec![(0.0, 20.0), (200.0, 20.0), (201.0, 100.0), (400.0, 100.0)];
        let lower = vec![(0.0, 160.0), (200.0, 160.0), (201.0, 102.0), (400.0, 102.0)];
        let places = place(&[upper, lower], &["upper", "lower"], (400.0, 200.0));
        let (upper, lower) = (places[0].unwrap(), places[1].unwrap());
        assert!(upper.0 + width("upper") <= 200.0 && lower.0 + width("lower") <= 200.0);
        assert!(upper.1 < 60.0 && (120.0..200.0).contains(&lower.1), "{upper:?} {lower:?}");
    }

    #[test]
    fn names_do_not_cover_each_other() {
        let same = vec![(0.0, 100.0), (400.0, 100.0)];
        let lines = vec![same.clone(), same.clone(), same];
        let places: Vec<_> =
            place(&lines, &["one", "two", "three"], (400.0, 200.0)).into_iter().flatten().collect();
        assert_eq!(places.len(), 3);
        for (i, a) in places.iter().enumerate() {
            for b in &places[i + 1..] {
                assert!(
                    (a.0 - b.0).abs() > width("one") || (a.1 - b.1).abs() >= LETTER_HEIGHT,
                    "{a:?} {b:?}"
                );
            }
        }
    }

    #[test]
    fn a_line_without_points_gets_no_name() {
        assert_eq!(place(&[vec![]], &["nothing"], (400.0, 200.0)), [None]);
    }
}
