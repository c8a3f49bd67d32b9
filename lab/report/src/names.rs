//! The names of the files that a run leaves.

pub use weir_experiment::results::file_name;

/// The numbers. A directory that has this file has the others, too.
pub const SUMMARY: &str = "summary.json";
/// The SHA-256 of every file, as `sha256sum -c` reads it.
pub const MANIFEST: &str = "SHA256SUMS";
/// Facts about a fabric of real interfaces.
pub const FABRIC: &str = "fabric.json";
/// The run as a trace for the Perfetto UI.
pub const PERFETTO: &str = "perfetto.json";

/// The files of a run; `*.svg` besides.
const FILES: [&str; 14] = [
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
    "flows.parquet",
    "queues.parquet",
    "rates.parquet",
    "pauses.parquet",
];

/// Returns whether a run writes files of this name.
pub fn is_run_file(name: &str) -> bool {
    // As many as there are charts, and schemes.
    let is_numbered = name.ends_with(".svg") || (name.starts_with("fct-") && name.ends_with(".txt"));
    is_numbered || FILES.contains(&name)
}
