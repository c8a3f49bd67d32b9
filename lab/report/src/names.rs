//! Names of the files in a run directory.

pub use weir_experiment::results::file_name;

/// Summary of a run. It is renamed into place last, so a directory that has it is complete.
pub const SUMMARY: &str = "summary.json";
/// SHA-256 of every file, in the format of `sha256sum`.
pub const MANIFEST: &str = "SHA256SUMS";
/// Measurements that only a network of real interfaces has, such as ping RTTs.
pub const FABRIC: &str = "fabric.json";
/// Trace of the run for the Perfetto UI.
pub const PERFETTO: &str = "perfetto.json";

/// The files of a run, except `*.svg` and `fct-*.txt`.
const FILES: [&str; 16] = [
    "run.yaml",
    SUMMARY,
    MANIFEST,
    FABRIC,
    PERFETTO,
    "report.html",
    "flows.csv",
    "queues.csv",
    "rates.csv",
    "pauses.csv",
    "fct.csv",
    "flows.parquet",
    "queues.parquet",
    "rates.parquet",
    "pauses.parquet",
    "fct.parquet",
];

/// Returns whether a run writes files of this name.
pub fn is_run_file(name: &str) -> bool {
    // One file per chart, and one per scheme.
    let is_chart_or_fct = name.ends_with(".svg") || (name.starts_with("fct-") && name.ends_with(".txt"));
    is_chart_or_fct || FILES.contains(&name)
}
