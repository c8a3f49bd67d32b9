//! The tables of a run: one row for each flow, sample or PFC frame, with the scheme in the first column. Times are in
//! microseconds.
//!
//! The columns are defined here, for the files ([`csv`], [`parquet`]) and for the Python package.

pub mod csv;
mod fct;
pub mod parquet;

use super::names::file_name;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::{io, path::Path};
use weir_experiment::file::TableFormat;
use weir_experiment::results::{Results, SchemeTrace};
use weir_units::Time;

/// Selection of the tables to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSelection {
    /// One row for each flow.
    pub flows: bool,
    /// Queue and utilisation of each observed port at each sample.
    pub queues: bool,
    /// Pacing rate and goodput of each observed flow at each sample.
    pub rates: bool,
    pub pauses: bool,
    /// `fct-<scheme>.txt`: finished flows in the HPCC simulator's eight columns.
    pub fct: bool,
    /// Format of all tables except `fct`.
    pub format: TableFormat,
}

/// Kind of the values in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text with few distinct values.
    Text,
    Time,
    Count,
    Number,
}

/// A value in a row; `None`: no value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    Text(&'a str),
    Time(Option<Time>),
    Count(Option<u64>),
    Number(Option<f64>),
}

/// Called for each row of a table, with one cell per column.
pub type TakeRow<'a> = dyn FnMut(&[Cell<'_>]) -> io::Result<()> + 'a;

/// Definition of a table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// File name without extension.
    pub name: &'static str,
    /// Name and kind of each column.
    pub columns: &'static [(&'static str, Kind)],
    rows: fn(&str, &SchemeTrace, &mut TakeRow<'_>) -> io::Result<()>,
}

impl Table {
    /// Calls `take` for all rows, scheme by scheme.
    ///
    /// # Errors
    ///
    /// The first error of `take`.
    pub fn rows(&self, results: &Results, take: &mut TakeRow<'_>) -> io::Result<()> {
        let traces = results.order.iter().filter_map(|label| Some((label, results.traces.get(label)?)));
        traces.into_iter().try_for_each(|(label, trace)| (self.rows)(label, trace, take))
    }
}

/// One row for each flow that started.
pub const FLOWS: Table = Table {
    name: "flows",
    columns: &[
        ("scheme", Kind::Text),
        ("flow", Kind::Text),
        ("from", Kind::Text),
        ("to", Kind::Text),
        ("size_bytes", Kind::Count),
        ("start_us", Kind::Time),
        ("fct_us", Kind::Time),
        ("ideal_us", Kind::Time),
        ("slowdown", Kind::Number),
        ("acked_bytes", Kind::Count),
        ("retransmits", Kind::Count),
    ],
    rows: |scheme, trace, take| {
        trace.flows.iter().try_for_each(|flow| {
            take(&[
                Cell::Text(scheme),
                Cell::Text(&flow.name()),
                Cell::Text(&flow.from),
                Cell::Text(&flow.to),
                Cell::Count(flow.size.map(|size| size.get())),
                Cell::Time(Some(flow.start)),
                Cell::Time(flow.fct),
                Cell::Time(flow.ideal),
                Cell::Number(flow.slowdown()),
                Cell::Count(Some(flow.acked.get())),
                Cell::Count(Some(flow.retransmits)),
            ])
        })
    },
};

/// Queue and utilisation of each observed port at each sample.
pub const QUEUES: Table = Table {
    name: "queues",
    columns: &[
        ("scheme", Kind::Text),
        ("time_us", Kind::Time),
        ("port", Kind::Text),
        ("towards", Kind::Text),
        ("queue_bytes", Kind::Count),
        ("utilisation", Kind::Number),
    ],
    rows: |scheme, trace, take| {
        trace.ports.iter().try_for_each(|port| {
            let mut samples = port.queue_bytes.iter().zip(&port.utilisation).enumerate();
            samples.try_for_each(|(index, (&bytes, &utilisation))| {
                take(&[
                    Cell::Text(scheme),
                    Cell::Time(Some(trace.sample_time(index))),
                    Cell::Text(&port.port),
                    Cell::Text(&port.towards),
                    Cell::Count(Some(bytes)),
                    Cell::Number(Some(utilisation)),
                ])
            })
        })
    },
};

/// Pacing rate and goodput of each observed flow at each sample.
pub const RATES: Table = Table {
    name: "rates",
    columns: &[
        ("scheme", Kind::Text),
        ("time_us", Kind::Time),
        ("flow", Kind::Text),
        ("rate_bps", Kind::Count),
        ("goodput_bps", Kind::Count),
    ],
    rows: |scheme, trace, take| {
        trace.rates.iter().try_for_each(|flow| {
            let mut samples = flow.rate.iter().zip(&flow.goodput).enumerate();
            samples.try_for_each(|(index, (rate, goodput))| {
                take(&[
                    Cell::Text(scheme),
                    Cell::Time(Some(trace.sample_time(index))),
                    Cell::Text(&flow.flow),
                    Cell::Count(Some(rate.as_bps())),
                    Cell::Count(Some(goodput.as_bps())),
                ])
            })
        })
    },
};

pub const PAUSES: Table = Table {
    name: "pauses",
    columns: &[
        ("scheme", Kind::Text),
        ("time_us", Kind::Time),
        ("switch", Kind::Text),
        ("port", Kind::Count),
        ("priority", Kind::Count),
        ("event", Kind::Text),
    ],
    rows: |scheme, trace, take| {
        trace.pauses.iter().try_for_each(|pause| {
            take(&[
                Cell::Text(scheme),
                Cell::Time(Some(pause.time)),
                Cell::Text(&pause.switch),
                Cell::Count(Some(pause.port.into())),
                Cell::Count(Some(pause.priority.into())),
                Cell::Text(if pause.is_pause { "pause" } else { "resume" }),
            ])
        })
    },
};

/// Returns a time in microseconds, equal to the parsed text of a CSV file.
pub fn us(time: Time) -> f64 {
    // Division rounds once; multiplication with the inexact 1e-6 would round twice.
    time.as_ps() as f64 / 1e6
}

pub fn file(table: &str, format: TableFormat) -> String {
    let extension = match format {
        TableFormat::Csv => "csv",
        TableFormat::Parquet => "parquet",
    };
    format!("{table}.{extension}")
}

/// Writes the selected tables to `dir`. `addresses` are those of the hosts, by name.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write(
    dir: &Path,
    tables: TableSelection,
    addresses: &BTreeMap<String, Ipv4Addr>,
    results: &Results,
) -> io::Result<()> {
    let chosen =
        [(tables.flows, FLOWS), (tables.queues, QUEUES), (tables.rates, RATES), (tables.pauses, PAUSES)];
    for (_, table) in chosen.iter().filter(|(chosen, _)| *chosen) {
        let path = dir.join(file(table.name, tables.format));
        match tables.format {
            TableFormat::Csv => csv::write(&path, table, results),
            TableFormat::Parquet => parquet::write(&path, table, results),
        }?;
    }
    if tables.fct {
        for (label, trace) in &results.traces {
            crate::put(dir, &format!("fct-{}.txt", file_name(label)), &fct::text(trace, addresses))?;
        }
    }
    Ok(())
}

/// Reads a table of a run in the format in which it was written, and calls `take` for each row. Succeeds without rows if the
/// table was not written. Errors consist of the name of the file and a message.
///
/// # Errors
///
/// If the file is not a table with these columns, or `take` fails.
pub fn read<R: DeserializeOwned>(
    dir: &Path,
    table: &Table,
    mut take: impl FnMut(R) -> Result<(), String>,
) -> Result<(), (String, String)> {
    for format in [TableFormat::Csv, TableFormat::Parquet] {
        let name = file(table.name, format);
        let path = dir.join(&name);
        if path.exists() {
            let read = match format {
                TableFormat::Csv => csv::read(&path, &mut take),
                TableFormat::Parquet => parquet::read(&path, table, &mut take),
            };
            return read.map_err(|reason| (name, reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use serde_json::Value;
    use std::fs;

    type Row = BTreeMap<String, Value>;

    fn rows(dir: &Path, table: &Table) -> Vec<Row> {
        let mut rows = Vec::new();
        let take = |row: Row| {
            rows.push(row);
            Ok(())
        };
        read(dir, table, take).unwrap();
        rows
    }

    /// Returns a value as text, rounded as in CSV.
    fn text(kind: Kind, value: &Value) -> String {
        match (kind, value) {
            (_, Value::Null) => String::new(),
            (_, Value::String(text)) => text.clone(),
            (Kind::Number, number) => format!("{:.4}", number.as_f64().unwrap()),
            (_, number) => number.to_string(),
        }
    }

    #[test]
    fn names_that_look_like_formulas_are_read_as_they_were() {
        let mut results = fixtures::dumbbell();
        let label = results.order[0].clone();
        let mut trace = results.traces.remove(&label).unwrap();
        trace.flows[0].from = "@h1".into();
        trace.flows[0].to = "-h3".into();
        results.traces.insert("=cmd()".to_owned(), trace);
        results.order[0] = "=cmd()".to_owned();
        let dir = tempfile::tempdir().unwrap();
        let tables = TableSelection { flows: true, ..TableSelection::default() };
        write(dir.path(), tables, &BTreeMap::new(), &results).unwrap();
        let text = std::fs::read_to_string(dir.path().join("flows.csv")).unwrap();
        let line = text.lines().nth(1).unwrap();
        assert!(line.starts_with("'=cmd(),") && line.contains(",'@h1,'-h3,"), "{line}");
        let row = rows(dir.path(), &FLOWS).remove(0);
        assert_eq!(
            (&row["scheme"], &row["from"], &row["to"]),
            (&"=cmd()".into(), &"@h1".into(), &"-h3".into())
        );
    }

    #[test]
    fn parquet_has_the_rows_of_csv() {
        for results in [fixtures::dumbbell(), fixtures::workload()] {
            let (in_csv, in_parquet) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let tables = fixtures::all_tables();
            write(in_csv.path(), tables, &BTreeMap::new(), &results).unwrap();
            let tables = TableSelection { format: TableFormat::Parquet, ..tables };
            write(in_parquet.path(), tables, &BTreeMap::new(), &results).unwrap();
            for table in [FLOWS, QUEUES, RATES, PAUSES] {
                let (expected, rows) = (rows(in_csv.path(), &table), rows(in_parquet.path(), &table));
                assert_eq!(rows.len(), expected.len(), "{}", table.name);
                for (row, expected) in rows.iter().zip(&expected) {
                    assert_eq!(row.len(), table.columns.len());
                    for &(column, kind) in table.columns {
                        let (value, expected) = (text(kind, &row[column]), text(kind, &expected[column]));
                        assert_eq!(value, expected, "{} {column}", table.name);
                    }
                }
            }
        }
    }

    #[test]
    fn tables_of_many_rows_are_whole() {
        let dir = tempfile::tempdir().unwrap();
        let results = fixtures::dumbbell_of(70_000);
        parquet::write(&dir.path().join("queues.parquet"), &QUEUES, &results).unwrap();
        let rows = rows(dir.path(), &QUEUES);
        assert_eq!(rows.len(), 2 * 2 * 70_000, "more than one group");
        let last = &rows[rows.len() - 1];
        assert_eq!((&last["scheme"], &last["time_us"]), (&"hpcc eta=0.95".into(), &"999.95".into()));
    }

    #[test]
    fn damaged_files_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queues.parquet");
        parquet::write(&path, &QUEUES, &fixtures::dumbbell_of(3)).unwrap();
        let whole = fs::read(&path).unwrap();
        let mut refused = 0;
        for place in (0..whole.len()).step_by(3) {
            for damaged in [whole[..place].to_vec(), {
                let mut damaged = whole.clone();
                damaged[place] ^= 0xff;
                damaged
            }] {
                fs::write(&path, damaged).unwrap();
                refused += usize::from(read(dir.path(), &QUEUES, |_: Row| Ok(())).is_err());
            }
        }
        // A changed value is still a value; the manifest tells.
        assert!(refused > whole.len() / 3, "{refused} of {}", 2 * whole.len() / 3);
    }
}
