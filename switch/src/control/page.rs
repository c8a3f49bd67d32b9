//! Paging of long reads, so that the reader can do other work between pages.

use std::ops::Range;

/// A page of a long read: a range of rows, counted over all tables or arrays that the read covers.
#[derive(Clone, Debug)]
pub struct ReadPage {
    from: usize,
    end: usize,
    /// Rows that the read has covered so far.
    passed: usize,
}

impl ReadPage {
    /// Creates a page of at most `max` rows, starting at row `from`.
    pub fn new(from: usize, max: usize) -> ReadPage {
        ReadPage { from, end: from.saturating_add(max), passed: 0 }
    }

    /// Returns the page that covers the complete read.
    pub fn all() -> ReadPage {
        ReadPage::new(0, usize::MAX)
    }

    /// Consumes the next `rows` rows of the read. Returns those that are in the page, counted from the first
    /// of them.
    pub(super) fn take_rows(&mut self, rows: usize) -> Range<usize> {
        let inside = |row: usize| row.saturating_sub(self.passed).min(rows);
        let part = inside(self.from)..inside(self.end);
        self.passed += rows;
        part
    }

    /// Returns the first row of the next page; `None` if this is the last one. Valid after the read.
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
