//! The content of `summary.json`. `docs/summary.md` defines each metric.

use crate::observations::SchemeSummary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Results of all schemes of an experiment. The same file and seed give the same bytes, except for `wall_s`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the experiment.
    pub experiment: String,
    /// The program that made the run, with its version and, if it was built in a git checkout, its commit. Not part of the
    /// digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// `sim` or `mininet`.
    pub backend: String,
    pub seed: u64,
    /// SHA-256 over the results and, in virtual time, all packet arrivals, without `wall_s`. Runs with equal digests are equal.
    pub digest: String,
    /// Virtual time in seconds, summed over the schemes.
    pub virtual_s: f64,
    /// Wall-clock duration of the run in seconds.
    pub wall_s: f64,
    /// Number of passes of packets through switches, ingress and egress counted as one.
    pub packet_hops: u64,
    /// True if the run was interrupted; the results then cover the time until the interruption.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Results by scheme label.
    pub schemes: BTreeMap<String, SchemeSummary>,
}
