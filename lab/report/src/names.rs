//! Names of the files in a run directory.

use crate::tables::{self, file_name_of};
use weir_experiment::file::TableFormat;
pub use weir_experiment::results::file_name;

/// Summary of a run. It is renamed into place last, so a directory that has it is complete.
pub const SUMMARY: &str = "summary.json";
/// SHA-256 of every file, in the format of `sha256sum`.
pub const MANIFEST: &str = "SHA256SUMS";
/// Measurements that only a network of real interfaces has, such as ping RTTs.
pub const FABRIC: &str = "fabric.json";
/// Trace of the run for the Perfetto UI.
pub const PERFETTO: &str = "perfetto.json";

/// The files of a run, except its tables, `*.svg` and `fct-*.txt`.
const FILES: [&str; 6] = ["run.yaml", SUMMARY, MANIFEST, FABRIC, PERFETTO, "report.html"];

/// Returns whether a run writes files of this name.
pub fn is_run_file(name: &str) -> bool {
    // One file per chart, and one per scheme.
    let is_chart_or_fct = name.ends_with(".svg") || (name.starts_with("fct-") && name.ends_with(".txt"));
    is_chart_or_fct || FILES.contains(&name) || is_table(name)
}

/// Returns whether this is the file of a table of a run, in any format.
fn is_table(name: &str) -> bool {
    let formats = [TableFormat::Csv, TableFormat::Parquet];
    tables::ALL.iter().any(|table| formats.iter().any(|format| file_name_of(table.name, *format) == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_a_file_of_a_run() {
        for name in ["senders.csv", "senders.parquet", "fct.csv", "fct-fncc.txt", "queue.svg", SUMMARY] {
            assert!(is_run_file(name), "{name}");
        }
        for name in ["senders.txt", "thesis.csv", "csv"] {
            assert!(!is_run_file(name), "{name}");
        }
    }
}
