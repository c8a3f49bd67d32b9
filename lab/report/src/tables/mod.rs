//! The tables of a run: one row for each flow, sample or PFC frame, with the scheme in the first column. Times are in
//! microseconds.

pub mod csv;
mod fct;
#[cfg(feature = "parquet")]
pub mod parquet;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet.rs"]
pub mod parquet;
mod schema;

pub(crate) use schema::fct_cells;
pub use schema::{ALL, Cell, FCT, FLOWS, Kind, PAUSES, QUEUES, RATES, RowCallback, SENDERS, Table, us};

use super::files::stage_file;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::{io, path::Path};
use weir_experiment::file::TableFormat;
use weir_experiment::results::{Results, file_name};

/// Selection of the tables to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSelection {
    /// One row for each flow.
    pub flows: bool,
    /// Queue and utilisation of each observed port at each sample.
    pub queues: bool,
    /// Sending rate and goodput of each observed flow at each sample.
    pub rates: bool,
    /// Quantities of each observed flow's sender at each sample.
    pub senders: bool,
    /// One row for each PFC pause or resume frame.
    pub pauses: bool,
    /// `fct-<scheme>.txt`, beside the table `fct`: finished flows in the HPCC simulator's eight columns.
    pub fct: bool,
    /// Format of all tables except `fct`.
    pub format: TableFormat,
}

/// Returns the file name of a table.
pub fn file_name_of(table: &str, format: TableFormat) -> String {
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
    // Like `summary.json`, completion times are small and always written.
    let has_fct = results.traces.values().any(|trace| !trace.fct.is_empty());
    let selection = [
        (tables.flows, FLOWS),
        (has_fct, FCT),
        (tables.queues, QUEUES),
        (tables.rates, RATES),
        (tables.senders, SENDERS),
        (tables.pauses, PAUSES),
    ];
    for (_, table) in selection.iter().filter(|(is_selected, _)| *is_selected) {
        let path = dir.join(file_name_of(table.name, tables.format));
        match tables.format {
            TableFormat::Csv => csv::write(&path, table, results),
            TableFormat::Parquet => parquet::write(&path, table, results),
        }?;
    }
    if tables.fct {
        for (label, trace) in &results.traces {
            stage_file(dir, &format!("fct-{}.txt", file_name(label)), &fct::text(trace, addresses))?;
        }
    }
    Ok(())
}

/// Reads a table of a run in the format in which it was written, and calls `on_row` for each row. Succeeds without rows
/// if the table was not written. Errors consist of the name of the file and a message.
///
/// # Errors
///
/// If the file is not a table with these columns, or `on_row` fails.
pub fn read<R: DeserializeOwned>(
    dir: &Path,
    table: &Table,
    mut on_row: impl FnMut(R) -> Result<(), String>,
) -> Result<(), (String, String)> {
    for format in [TableFormat::Csv, TableFormat::Parquet] {
        let name = file_name_of(table.name, format);
        let path = dir.join(&name);
        if path.exists() {
            let result = match format {
                TableFormat::Csv => csv::read(&path, &mut on_row),
                TableFormat::Parquet => parquet::read(&path, table, &mut on_row),
            };
            return result.map_err(|reason| (name, reason));
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
        let on_row = |row: Row| {
            rows.push(row);
            Ok(())
        };
        read(dir, table, on_row).unwrap();
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
    fn names_that_look_like_formulas_are_preserved() {
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
        for results in [fixtures::dumbbell(), fixtures::workload(), fixtures::senders()] {
            let (in_csv, in_parquet) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let tables = fixtures::all_tables();
            write(in_csv.path(), tables, &BTreeMap::new(), &results).unwrap();
            let tables = TableSelection { format: TableFormat::Parquet, ..tables };
            write(in_parquet.path(), tables, &BTreeMap::new(), &results).unwrap();
            for table in [FLOWS, FCT, QUEUES, RATES, SENDERS, PAUSES] {
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
    fn tables_with_several_row_groups_are_complete() {
        let dir = tempfile::tempdir().unwrap();
        let results = fixtures::dumbbell_with_samples(70_000);
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
        parquet::write(&path, &QUEUES, &fixtures::dumbbell_with_samples(3)).unwrap();
        let whole = fs::read(&path).unwrap();
        let mut errors = 0;
        for offset in (0..whole.len()).step_by(3) {
            for damaged in [whole[..offset].to_vec(), {
                let mut damaged = whole.clone();
                damaged[offset] ^= 0xff;
                damaged
            }] {
                fs::write(&path, damaged).unwrap();
                errors += usize::from(read(dir.path(), &QUEUES, |_: Row| Ok(())).is_err());
            }
        }
        // A changed value may still be valid; only the manifest detects that.
        assert!(errors > whole.len() / 3, "{errors} of {}", 2 * whole.len() / 3);
    }

    #[test]
    fn csv_rows_are_exact() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), fixtures::all_tables(), &BTreeMap::new(), &fixtures::dumbbell_with_samples(4))
            .unwrap();
        let rows = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let queues = rows("queues.csv");
        assert!(
            queues.starts_with("scheme,time_us,port,towards,queue_bytes,utilisation\nfncc,250,s1:3,s2,"),
            "{queues}"
        );
        assert_eq!(queues.lines().count(), 1 + 2 * 2 * 4, "header, two schemes, two ports, four samples");
        assert_eq!(rows("rates.csv").lines().count(), 1 + 2 * 2 * 4);
        assert!(rows("flows.csv").contains("\nfncc,h2->h3,h2,h3,,300,,,,"), "{}", rows("flows.csv"));
        assert_eq!(rows("pauses.csv"), "scheme,time_us,switch,port,priority,event\n");
    }

    #[test]
    fn completion_times_are_in_the_hpcc_simulators_columns() {
        let tables = TableSelection { fct: true, ..TableSelection::default() };
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), tables, &BTreeMap::new(), &fixtures::workload()).unwrap();
        let text = fs::read_to_string(dir.path().join("fct-fncc.txt")).unwrap();
        let columns: Vec<&str> = text.lines().nth(1).unwrap().split(' ').collect();
        assert_eq!(columns[..6], ["00000000", "00000000", "50000", "100", "800", "5000"]);
        assert_eq!((columns.len(), columns[7]), (8, "12306"), "the ideal, in whole nanoseconds");
    }
}
