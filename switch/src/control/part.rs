//! A part of a long read: tables and arrays can be long, and a reader may have to do other things in between.

use std::ops::Range;

/// Some of the rows that a read goes through, one table or array after the other.
#[derive(Clone, Debug)]
pub struct Part {
    from: usize,
    end: usize,
    /// Rows that were gone through so far.
    passed: usize,
}

impl Part {
    /// Returns a part of at most `most` rows, from row `from` on.
    pub fn new(from: usize, most: usize) -> Part {
        Part { from, end: from.saturating_add(most), passed: 0 }
    }

    /// Returns the part that is the whole.
    pub fn all() -> Part {
        Part::new(0, usize::MAX)
    }

    /// Returns those of the next `rows` rows that belong to the part.
    pub(super) fn of(&mut self, rows: usize) -> Range<usize> {
        let inside = |row: usize| row.saturating_sub(self.passed).min(rows);
        let part = inside(self.from)..inside(self.end);
        self.passed += rows;
        part
    }

    /// Returns the first row of the next part; `None` if this is the last.
    pub fn next(&self) -> Option<usize> {
        (self.end < self.passed).then_some(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_up_the_whole() {
        let lengths = [3, 0, 5, 1];
        for most in 1..12 {
            let (mut rows, mut from) = (Vec::new(), Some(0));
            while let Some(start) = from {
                let mut part = Part::new(start, most);
                let before = rows.len();
                for (array, &length) in lengths.iter().enumerate() {
                    rows.extend(part.of(length).map(|row| (array, row)));
                }
                assert!(rows.len() - before <= most);
                from = part.next();
            }
            let whole: Vec<_> = lengths
                .iter()
                .enumerate()
                .flat_map(|(array, &length)| (0..length).map(move |row| (array, row)))
                .collect();
            assert_eq!(rows, whole, "{most} at once");
        }
    }
}
