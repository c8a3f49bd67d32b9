//! A part of a long read: tables and arrays can be long, and a reader may have to do other things in between.

use std::ops::Range;

/// Some of the rows that a read goes through, one table or array after the other.
#[derive(Clone, Debug)]
pub struct ReadPage {
    from: usize,
    end: usize,
    /// Rows that were gone through so far.
    passed: usize,
}

impl ReadPage {
    /// Returns a part of at most `most` rows, from row `from` on.
    pub fn new(from: usize, max: usize) -> ReadPage {
        ReadPage { from, end: from.saturating_add(max), passed: 0 }
    }

    /// Returns the part that is the whole.
    pub fn all() -> ReadPage {
        ReadPage::new(0, usize::MAX)
    }

    /// Returns those of the next `rows` rows that belong to the part.
    pub(super) fn take_rows(&mut self, rows: usize) -> Range<usize> {
        let inside = |row: usize| row.saturating_sub(self.passed).min(rows);
        let part = inside(self.from)..inside(self.end);
        self.passed += rows;
        part
    }

    /// Returns the first row of the next part; `None` if this is the last.
    pub fn next_row(&self) -> Option<usize> {
        (self.end < self.passed).then_some(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_up_the_whole() {
        let lengths = [3, 0, 5, 1];
        for max in 1..12 {
            let (mut rows, mut from) = (Vec::new(), Some(0));
            while let Some(start) = from {
                let mut part = ReadPage::new(start, max);
                let before = rows.len();
                for (array, &length) in lengths.iter().enumerate() {
                    rows.extend(part.take_rows(length).map(|row| (array, row)));
                }
                assert!(rows.len() - before <= max);
                from = part.next_row();
            }
            let whole: Vec<_> = lengths
                .iter()
                .enumerate()
                .flat_map(|(array, &length)| (0..length).map(move |row| (array, row)))
                .collect();
            assert_eq!(rows, whole, "{max} at once");
        }
    }
}
