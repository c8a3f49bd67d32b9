//! Places the names of lines in a chart, so that each is close to its own line and far from the others.

/// Height of letters in CSS pixels.
pub(super) const LETTER_HEIGHT: f64 = 12.0;
/// Mean width of letters of that height in common sans-serif fonts.
const LETTER_WIDTH: f64 = 6.4;
/// Distance between a line and its name.
const GAP: f64 = 5.0;
/// Free space around a name beyond this does not count, in CSS pixels.
const MAX_USEFUL_GAP: f64 = 36.0;

/// Returns the approximate width of `text` in CSS pixels.
pub(super) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER_WIDTH
}

/// Minimum and maximum y of a line in each pixel column; `None` where the line is absent.
type Profile = Vec<Option<(f64, f64)>>;

/// Returns the position of each line's name: the left end of the baseline. Lines are in pixels, with x from 0 to
/// `size.0` and y downwards from 0 to `size.1`. Names are placed greedily, away from other lines and from names
/// placed before.
pub(super) fn place_names(
    lines: &[Vec<(f64, f64)>],
    names: &[&str],
    size: (f64, f64),
) -> Vec<Option<(f64, f64)>> {
    let profiles: Vec<Profile> = lines.iter().map(|line| profile(line, size.0)).collect();
    let mut placed: Vec<Block> = Vec::new();
    let mut positions = Vec::new();
    for (own, name) in names.iter().enumerate() {
        let best = candidates(&profiles[own], width(name), size).max_by(|a, b| {
            let score = |c: &Candidate| c.score(own, &profiles, &placed, size);
            // Among equals the leftmost; max_by alone would return the last.
            score(a).total_cmp(&score(b)).then(b.block.left.total_cmp(&a.block.left))
        });
        positions.push(best.map(|b| (b.block.left, b.block.bottom - 2.0)));
        placed.extend(best.map(|b| b.block));
    }
    positions
}

/// The rectangle of a name.
#[derive(Clone, Copy)]
struct Block {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Block {
    /// Returns the vertical distance to the range from `top` to `bottom`; negative if they overlap.
    fn distance(&self, top: f64, bottom: f64) -> f64 {
        (top - self.bottom).max(self.top - bottom)
    }
}

/// A possible position of a name.
#[derive(Clone, Copy)]
struct Candidate {
    block: Block,
    /// Range of the line's height along the name, in CSS pixels.
    line_range: f64,
    /// Lowest position of the line along the name.
    line_bottom: f64,
}

impl Candidate {
    /// Returns the score; higher is better.
    fn score(&self, own: usize, profiles: &[Profile], placed: &[Block], size: (f64, f64)) -> f64 {
        let mut free_space = MAX_USEFUL_GAP;
        for (_, profile) in profiles.iter().enumerate().filter(|(i, _)| *i != own) {
            if let Some((top, bottom)) = extent(profile, self.block.left, self.block.right) {
                free_space = free_space.min(self.block.distance(top, bottom));
            }
        }
        for other in placed {
            if other.left < self.block.right + GAP && self.block.left < other.right + GAP {
                free_space = free_space.min(other.distance(self.block.top, self.block.bottom));
            }
        }
        // The line of a flow that has not started is at zero. Prefer positions where the flow sends.
        let idle_penalty = if self.line_bottom >= size.1 - 1.0 { MAX_USEFUL_GAP } else { 0.0 };
        free_space - 0.5 * self.line_range - idle_penalty
    }
}

/// Returns candidates above and below the line, every few pixels.
fn candidates(own: &Profile, width: f64, size: (f64, f64)) -> impl Iterator<Item = Candidate> {
    const STRIDE: usize = 6;
    let last = (size.0 - width - GAP).max(0.0) as usize;
    (GAP as usize..=last).step_by(STRIDE).flat_map(move |left| {
        let (left, right) = (left as f64, left as f64 + width);
        let sides = extent(own, left, right).map(|(top, bottom)| {
            [top - GAP - LETTER_HEIGHT, bottom + GAP].map(|block_top| Candidate {
                block: Block { left, right, top: block_top, bottom: block_top + LETTER_HEIGHT },
                line_range: bottom - top,
                line_bottom: bottom,
            })
        });
        let is_inside = move |c: &Candidate| c.block.top >= 0.0 && c.block.bottom <= size.1;
        sides.into_iter().flatten().filter(is_inside).collect::<Vec<_>>()
    })
}

/// Returns the lowest and the highest y of a line between two x positions.
fn extent(profile: &Profile, left: f64, right: f64) -> Option<(f64, f64)> {
    let columns = profile.iter().take(right.ceil() as usize + 1).skip(left.floor() as usize);
    columns.flatten().copied().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Returns the profile of a line in a chart of `width` pixels.
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
            let fraction = if x1 > x0 { (column as f64 - x0) / (x1 - x0) } else { 0.0 };
            cover(column as f64, y0 + fraction * (y1 - y0));
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_placed_where_lines_are_apart() {
        // Two lines far apart on the left half, together on the right half.
        let upper = vec![(0.0, 20.0), (200.0, 20.0), (201.0, 100.0), (400.0, 100.0)];
        let lower = vec![(0.0, 160.0), (200.0, 160.0), (201.0, 102.0), (400.0, 102.0)];
        let positions = place_names(&[upper, lower], &["upper", "lower"], (400.0, 200.0));
        let (upper, lower) = (positions[0].unwrap(), positions[1].unwrap());
        assert!(upper.0 + width("upper") <= 200.0 && lower.0 + width("lower") <= 200.0);
        assert!(upper.1 < 60.0 && (120.0..200.0).contains(&lower.1), "{upper:?} {lower:?}");
    }

    #[test]
    fn names_do_not_cover_each_other() {
        let same = vec![(0.0, 100.0), (400.0, 100.0)];
        let lines = vec![same.clone(), same.clone(), same];
        let positions: Vec<_> =
            place_names(&lines, &["one", "two", "three"], (400.0, 200.0)).into_iter().flatten().collect();
        assert_eq!(positions.len(), 3);
        for (i, a) in positions.iter().enumerate() {
            for b in &positions[i + 1..] {
                assert!(
                    (a.0 - b.0).abs() > width("one") || (a.1 - b.1).abs() >= LETTER_HEIGHT,
                    "{a:?} {b:?}"
                );
            }
        }
    }

    #[test]
    fn a_line_without_points_gets_no_name() {
        assert_eq!(place_names(&[vec![]], &["nothing"], (400.0, 200.0)), [None]);
    }
}
