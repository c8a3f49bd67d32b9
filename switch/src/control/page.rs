//! Paging of long reads, so that the reader can do other work between pages. A row is a row of a table or a cell of an
//! array.

use std::ops::Range;

/// A page of a long read: a range of rows, counted over all tables or arrays that the read covers.
#[derive(Clone, Debug)]
pub struct ReadPage {
    from: usize,
    end: usize,
    /// Rows of the read that came before, in the page or not.
    rows_seen: usize,
}

impl ReadPage {
    /// Creates a page of at most `max` rows, starting at row `from`.
    pub fn new(from: usize, max: usize) -> ReadPage {
        ReadPage { from, end: from.saturating_add(max), rows_seen: 0 }
    }

    /// Returns the page that covers the complete read.
    pub fn all() -> ReadPage {
        ReadPage::new(0, usize::MAX)
    }

    /// Advances the read by a table or array of `rows` rows. Returns the indices of its rows that are in the
    /// page.
    pub(super) fn take_rows(&mut self, rows: usize) -> Range<usize> {
        let index = |row: usize| row.saturating_sub(self.rows_seen).min(rows);
        let in_page = index(self.from)..index(self.end);
        self.rows_seen += rows;
        in_page
    }

    /// Returns the first row of the next page; `None` if this is the last one. Valid after the read.
    pub fn next_row(&self) -> Option<usize> {
        (self.end < self.rows_seen).then_some(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cover_each_row_once_in_order() {
        let lengths = [3, 0, 5, 1];
        for max in 1..12 {
            let (mut rows, mut from) = (Vec::new(), Some(0));
            while let Some(start) = from {
                let mut page = ReadPage::new(start, max);
                let before = rows.len();
                for (array, &length) in lengths.iter().enumerate() {
                    rows.extend(page.take_rows(length).map(|row| (array, row)));
                }
                assert!(rows.len() - before <= max);
                from = page.next_row();
            }
            let all_rows: Vec<_> = lengths
                .iter()
                .enumerate()
                .flat_map(|(array, &length)| (0..length).map(move |row| (array, row)))
                .collect();
            assert_eq!(rows, all_rows, "{max} rows per page");
        }
    }
}
