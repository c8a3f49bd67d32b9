//! The completion times of all runs of a sweep in one tidy table: the rows of each run's `fct.csv`, after the values of the
//! swept keys and the seed.

use super::grid::SEED;
use super::table::SweepResults;
use crate::files::{MODE_PUBLIC, write_atomic_with};
use crate::format;
use crate::load::fct_rows;
use crate::tables::{self, Cell, FCT, Kind, RowCallback, fct_cells};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use weir_experiment::file::TableFormat;

/// The table of a sweep. Its rows are read from the directories of the runs.
#[derive(Clone, Copy)]
pub struct SweepFct<'a> {
    results: &'a SweepResults<'a>,
    dir: &'a Path,
    /// Directory of each run, relative to `dir`.
    dirs: &'a [String],
}

impl<'a> SweepFct<'a> {
    pub(super) fn new(results: &'a SweepResults<'a>, dir: &'a Path, dirs: &'a [String]) -> SweepFct<'a> {
        SweepFct { results, dir, dirs }
    }

    /// Returns names and kinds of the columns: the swept keys, the seed, and those of [`FCT`].
    pub fn columns(&self) -> Vec<(String, Kind)> {
        let own = FCT.columns.iter().map(|&(name, kind)| (name.to_owned(), kind));
        let is_own = |key: &str| FCT.columns.iter().any(|(name, _)| *name == key);
        // A key such as `workload`, whose values are whole workloads, must not hide the column of this name.
        let key = |key: &str| (if is_own(key) { format!("over.{key}") } else { key.to_owned() }, Kind::Text);
        let keys: Vec<_> = self.results.grid.keys().into_iter().map(key).collect();
        keys.into_iter().chain([(SEED.to_owned(), Kind::Count)]).chain(own).collect()
    }

    /// Calls `on_row` for each row of each complete run, in the order of the runs.
    ///
    /// # Errors
    ///
    /// If the table of a run cannot be read, or the first error of `on_row`.
    pub fn rows(&self, on_row: &mut RowCallback<'_>) -> io::Result<()> {
        for ((cell, outcome), dir) in self.results.runs.iter().zip(self.dirs) {
            let Some(summary) = &outcome.summary else { continue };
            let values = self.results.grid.values_of_keys(cell);
            let mut failure = None;
            let read = fct_rows(&self.dir.join(dir), |scheme, row| {
                let class = format::size_range(row.over_bytes, row.upto_bytes);
                let keys =
                    values.iter().map(|value| Cell::Text(value)).chain([Cell::Count(Some(summary.seed))]);
                let cells: Vec<Cell<'_>> = keys.chain(fct_cells(scheme, &row, &class)).collect();
                on_row(&cells).map_err(|error| failure.insert(error).to_string())
            });
            if let Some(error) = failure {
                return Err(error);
            }
            read.map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Writes `fct.csv`, or `fct.parquet`, into the directory of the sweep; no file if no run has the table.
    pub(super) fn write(&self, format: TableFormat) -> io::Result<()> {
        let path = |format| -> PathBuf { self.dir.join(tables::file_name_of(FCT.name, format)) };
        // That of an earlier sweep, or in the other format.
        let remove = |format| match fs::remove_file(path(format)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        let has_table = |dir: &String| {
            let formats = [TableFormat::Csv, TableFormat::Parquet];
            formats
                .iter()
                .any(|&format| self.dir.join(dir).join(tables::file_name_of(FCT.name, format)).exists())
        };
        let runs = self.results.runs.iter().zip(self.dirs);
        if !runs.filter(|((_, outcome), _)| outcome.summary.is_some()).any(|(_, dir)| has_table(dir)) {
            return [TableFormat::Csv, TableFormat::Parquet].into_iter().try_for_each(remove);
        }
        let columns = self.columns();
        write_atomic_with(&path(format), MODE_PUBLIC, |file| match format {
            TableFormat::Csv => tables::csv::write_rows(file, &columns, |on_row| self.rows(on_row)),
            TableFormat::Parquet => {
                tables::parquet::write_rows(file, FCT.name, &columns, |on_row| self.rows(on_row))
            }
        })?;
        remove(match format {
            TableFormat::Csv => TableFormat::Parquet,
            TableFormat::Parquet => TableFormat::Csv,
        })
    }
}
