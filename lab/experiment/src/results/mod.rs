//! The results of a run: a [`Summary`] (the content of `summary.json`) and, beside it, the time
//! series and records from which tables, CSV files and plots are drawn. All of it is plain data;
//! a backend (virtual time, Mininet) fills it, the report reads it.

mod deadlock;
mod policy;
mod series;
mod summary;

pub use deadlock::{DeadlockSummary, StuckQueue};
pub use policy::{PolicyInterval, PolicySetSummary, PolicySummary};
pub use series::{FlowRecord, PacketHop, PacketPath, PauseRecord, PortSeries, RateSeries, SchemeTrace};
pub use summary::{
    Fct, FctBucket, FctClass, GoodputSummary, JobTimes, LayerSummary, PacketClass, PacketSummary,
    Percentiles, QueueSummary, SchemeSummary, Summary,
};

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use weir_units::Time;

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

/// Results of one scheme, at its end or so far.
#[derive(Clone, Debug)]
pub struct SchemeSnapshot {
    /// Its place in the experiment's list.
    pub index: usize,
    /// Its label.
    pub label: String,
    /// Its numbers.
    pub summary: SchemeSummary,
    /// The recorded series.
    pub trace: SchemeTrace,
    /// Virtual time reached.
    pub now: Time,
    /// Packet-hops until then.
    pub packet_hops: u64,
    /// Routes of all switches.
    pub routes: usize,
    /// Over every packet arrival until then.
    pub fingerprint: u64,
}

/// Identifies the run whose parts are kept.
#[derive(Clone, Debug, Default)]
pub struct RunHeader {
    /// The experiment's name.
    pub experiment: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// Seconds it took.
    pub wall_s: f64,
    /// True if something of it is missing.
    pub partial: bool,
}

impl Results {
    /// Combines the schemes of a run in virtual time, in the experiment's order.
    #[expect(clippy::missing_panics_doc, reason = "plain data serialises")]
    pub fn from_parts(heading: RunHeader, parts: impl IntoIterator<Item = SchemeSnapshot>) -> Results {
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
        let RunHeader { experiment, seed, wall_s, partial } = heading;
        let digest = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let backend = "sim".to_owned();
        let summary =
            Summary { experiment, backend, seed, digest, virtual_s, wall_s, packet_hops, partial, schemes };
        Results { summary, traces, order }
    }
}

/// Returns SHA-256 of all schemes' numbers in hexadecimal, the digest of a back end without events.
#[expect(clippy::missing_panics_doc, reason = "plain data serialises")]
pub fn digest(schemes: &BTreeMap<String, SchemeSummary>) -> String {
    let bytes = Sha256::digest(serde_json::to_vec(schemes).expect("plain data serialises"));
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns free text as part of a file name: what does not belong there becomes a dash.
pub fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect()
}
