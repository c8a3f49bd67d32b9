//! What a run gives back: a [`Summary`] (the content of `summary.json`) and, beside it, the time
//! series and records from which tables, CSV files and plots are drawn. All of it is plain data;
//! a backend (virtual time, Mininet) fills it, the report reads it.

mod series;
mod summary;

pub use series::{FlowRecord, PauseRecord, PortSeries, RateSeries, SchemeTrace};
pub use summary::{Fct, FctBucket, Percentiles, QueueSummary, SchemeSummary, Summary};

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// A whole run: every scheme of one experiment, under one seed.
#[derive(Clone, Debug)]
pub struct Results {
    /// The numbers of `summary.json`.
    pub summary: Summary,
    /// Scheme label to what was recorded over time, in the order of the experiment file.
    pub traces: BTreeMap<String, SchemeTrace>,
    /// Scheme labels in the order in which the experiment lists them.
    pub order: Vec<String>,
}

/// SHA-256 of all schemes' numbers: what a backend signs that has no events to sign.
pub fn digest(schemes: &BTreeMap<String, SchemeSummary>) -> String {
    let bytes = Sha256::digest(serde_json::to_vec(schemes).expect("plain data serialises"));
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
