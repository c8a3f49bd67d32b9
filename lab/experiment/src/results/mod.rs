//! The results of a run: a [`Summary`] (the content of `summary.json`), and the time series and records for tables and plots.
//! All types are plain data, written by a backend (simulator, Mininet) and read by the report.

mod deadlock;
mod long_pause;
mod policy;
mod series;
mod summary;

pub use deadlock::{DeadlockSummary, StuckQueue};
pub use long_pause::LongPause;
pub use policy::{PolicyInterval, PolicySetSummary, PolicySummary};
pub use series::{
    FctStatistic, FlowRecord, PacketHop, PacketPath, PauseRecord, PortSeries, RateSeries, SchemeTrace,
    SenderSeries,
};
pub use summary::Summary;

pub use crate::fct::{Fct, FctBucket, FctClass, GoodputSummary, JobTimes, Percentiles};
pub use crate::layers::LayerSummary;
pub use crate::observations::{PacketClass, PacketSummary, QueueSummary, SchemeSummary};

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use weir_units::Time;

/// The results of a run: every scheme of one experiment, under one seed.
#[derive(Clone, Debug)]
pub struct Results {
    /// The content of `summary.json`.
    pub summary: Summary,
    /// Time series and records by scheme label.
    pub traces: BTreeMap<String, SchemeTrace>,
    /// Scheme labels in the order of the experiment file.
    pub order: Vec<String>,
}

/// Complete or intermediate results of one scheme.
#[derive(Clone, Debug)]
pub struct SchemeSnapshot {
    /// Index of the scheme in the experiment, from 0.
    pub index: usize,
    pub label: String,
    pub summary: SchemeSummary,
    pub trace: SchemeTrace,
    /// Virtual time reached.
    pub now: Time,
    /// Packet-hops up to `now`.
    pub packet_hops: u64,
    /// Number of routes in the tables of all switches.
    pub routes: usize,
    /// Hash over all packet arrivals up to `now`.
    pub fingerprint: u64,
}

/// The part of a run's summary that does not depend on the scheme.
#[derive(Clone, Debug, Default)]
pub struct RunHeader {
    /// Name of the experiment.
    pub experiment: String,
    pub seed: u64,
    /// Wall-clock duration of the run in seconds.
    pub wall_s: f64,
    /// True if the run was interrupted, so that results are missing or incomplete.
    pub partial: bool,
}

impl Results {
    /// Combines the results of the schemes of a simulated run. The digest covers label, fingerprint and summary of every
    /// scheme, in the order of the experiment.
    #[expect(clippy::missing_panics_doc, reason = "plain data serialises")]
    pub fn from_parts(header: RunHeader, parts: impl IntoIterator<Item = SchemeSnapshot>) -> Results {
        let mut parts: Vec<SchemeSnapshot> = parts.into_iter().collect();
        parts.sort_by_key(|part| part.index);
        let (mut schemes, mut traces, mut order) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let (mut virtual_s, mut packet_hops, mut digest) = (0.0, 0, Sha256::new());
        for part in parts {
            virtual_s += part.now.as_secs_f64();
            packet_hops += part.packet_hops;
            digest.update(part.label.as_bytes());
            digest.update(part.fingerprint.to_le_bytes());
            digest.update(serde_json::to_vec(&part.summary).expect("plain data serialises"));
            order.push(part.label.clone());
            schemes.insert(part.label.clone(), part.summary);
            traces.insert(part.label, part.trace);
        }
        let RunHeader { experiment, seed, wall_s, partial } = header;
        let digest = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let backend = "sim".to_owned();
        let summary = Summary {
            experiment,
            program: None,
            backend,
            seed,
            digest,
            virtual_s,
            wall_s,
            packet_hops,
            partial,
            schemes,
        };
        Results { summary, traces, order }
    }
}

/// Returns the SHA-256 of the summaries in hexadecimal: the digest of a run on a backend that has no event fingerprints.
#[expect(clippy::missing_panics_doc, reason = "plain data serialises")]
pub fn digest(schemes: &BTreeMap<String, SchemeSummary>) -> String {
    let bytes = Sha256::digest(serde_json::to_vec(schemes).expect("plain data serialises"));
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns free text as a part of a file name: characters other than letters, digits, `.`, `_` and `-` become dashes.
pub fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect()
}
