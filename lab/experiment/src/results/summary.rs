//! The shape of `summary.json` (`docs/summary.md` says what each number means).

use super::{DeadlockSummary, PolicySummary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One experiment, all schemes. The same file and seed give the same bytes, `wall_s` apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The experiment's name.
    pub experiment: String,
    /// `sim` (virtual time) or `mininet`.
    pub backend: String,
    /// The seed of every random stream.
    pub seed: u64,
    /// SHA-256 over everything that happened, `wall_s` apart: equal digests, equal runs.
    pub digest: String,
    /// Virtual seconds simulated, all schemes together.
    pub virtual_s: f64,
    /// Seconds it took.
    pub wall_s: f64,
    /// Packets through switches: one packet through one switch, ingress and egress, is one hop.
    pub packet_hops: u64,
    /// True when the run was interrupted: the numbers cover what had been simulated until then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Scheme label to its results.
    pub schemes: BTreeMap<String, SchemeSummary>,
}

/// Summary of one scheme.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SchemeSummary {
    /// `<switch>:<port>` to its egress queue, for every port that sent a packet.
    pub queues: BTreeMap<String, QueueSummary>,
    /// `<switch>:<port>` to bytes sent over bytes possible, for the same ports.
    pub utilisation: BTreeMap<String, f64>,
    /// Time at which the first flow reduced its rate after a later flow had joined, in microseconds of virtual time;
    /// `None` if it never did, or no flow joined later.
    pub first_slowdown_us: Option<f64>,
    /// Jain's fairness index of goodput over the fairness window; `None` with fewer than two flows.
    pub jain: Option<f64>,
    /// Drop reason to packets dropped, over all switches and hosts; only reasons that occurred.
    pub drops: BTreeMap<String, u64>,
    /// Packets that switches marked ECN CE.
    pub marks: u64,
    /// PFC pause frames sent (resumes not counted).
    pub pauses: u64,
    /// Packets deflected by IOFD.
    pub deflections: u64,
    /// Data packets that hosts sent again.
    pub retransmits: u64,
    /// Retransmission timeouts, where there were any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timeouts: u64,
    /// Number of times that a message fell back from several subflows to one (AMP), if any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub suppressions: u64,
    /// Completion times of flows with a size.
    pub fct: Fct,
    /// The deadlock that ended the run, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlock: Option<DeadlockSummary>,
    /// Statistics of policies, if hosts take part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySummary>,
    /// Completion times of a workload's jobs, if it has jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<JobTimes>,
    /// Statistics of packets, in total and by class of size, with `observe.packets`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<PacketSummary>,
    /// Goodput of flows without a size, with `observe.goodput`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<GoodputSummary>,
    /// Utilisation of the layers of the fabric, that of hosts' links first, with `observe.layers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerSummary>,
    /// Queues that share ports by weight: the goodput in the fairness window of flows that ran all through it, in
    /// Gbit/s, by the queue of their DATA.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_gbps: Vec<f64>,
}

/// The goodput of flows without a size: payload acknowledged over the time since the flow was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GoodputSummary {
    /// Number of flows.
    pub flows: u64,
    /// Arithmetic mean, in Gbit/s.
    pub mean_gbps: f64,
    /// 5th percentile.
    pub p5_gbps: f64,
    /// Median.
    pub p50_gbps: f64,
    /// 95th percentile.
    pub p95_gbps: f64,
}

/// The switch ports to links of one layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerSummary {
    /// Number of ports, of both ends of a link between switches.
    pub ports: u64,
    /// Mean of their utilisations over the whole run, 0..1.
    pub utilisation: f64,
}

/// Packets on links, and data packets where they arrived.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacketSummary {
    /// As that of the whole [`Summary`], of this scheme.
    pub packet_hops: u64,
    /// Frame bytes of all packets on all links, those of hosts too: a packet over three links counts three times.
    pub link_bytes: u64,
    /// The classes of `observe.size_classes`, small to large, or one of all; the last has no upper bound.
    pub classes: Vec<PacketClass>,
}

/// The data packets of flows of one class of sizes, as their receivers got them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacketClass {
    /// Their flows are larger than this.
    pub over_bytes: u64,
    /// And no larger than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upto_bytes: Option<u64>,
    /// Packets received, including retransmissions.
    pub received: u64,
    /// Packets among them that were marked CE.
    pub marked: u64,
    /// ACKs that told senders of a mark: receivers may keep it to themselves.
    pub echoed: u64,
    /// `marked` over `received`; `None` if nothing was.
    pub marked_share: Option<f64>,
    /// `echoed` over `received`.
    pub echoed_share: Option<f64>,
    /// Links that a packet crossed, those of the two hosts too, on average.
    pub mean_links: Option<f64>,
}

/// From the first request of a job to the last byte of its last answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobTimes {
    /// Number of finished jobs.
    pub count: u64,
    /// Arithmetic mean, in microseconds.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One egress queue over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueSummary {
    /// The most it ever held.
    pub peak_bytes: u64,
    /// Mean over the samples.
    pub mean_bytes: f64,
    /// 99th percentile over the samples, upper edge of its 1000-byte bin (as HPCC's queue monitor).
    pub p99_bytes: u64,
}

/// Flow completion times, as slowdown against an idle fabric (docs/algorithms/methods.md#completion-times).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fct {
    /// Flows finished.
    pub count: u64,
    /// Flows with a size that had started and not finished at the end, failed ones included.
    pub unfinished: u64,
    /// Flows that their senders gave up, with a size or without, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, u64>,
    /// Over all finished flows; `None` when there are none.
    pub slowdown: Option<Percentiles>,
    /// Equal-count buckets by flow size, small to large, as HPCC's `fct_analysis.py` cuts them.
    pub by_size: Vec<FctBucket>,
    /// The classes of `observe.size_classes`, small to large; the last has no upper bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<FctClass>,
}

/// The flows of one class of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FctClass {
    /// They are larger than this.
    pub over_bytes: u64,
    /// And no larger than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upto_bytes: Option<u64>,
    /// Number of finished flows.
    pub count: u64,
    /// Their slowdown; `None` if there are none.
    pub slowdown: Option<Percentiles>,
    /// Their completion times in microseconds.
    pub fct_us: Option<Percentiles>,
    /// Mean of their throughputs, each the flow's size over its completion time, in Gbit/s.
    #[serde(default)]
    pub goodput_gbps: Option<f64>,
}

/// Mean and percentiles of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// The flows up to one size and above the bucket before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FctBucket {
    /// Size of the largest flow in the bucket.
    pub upto_bytes: u64,
    /// Flows in the bucket.
    pub count: u64,
    /// Their slowdown.
    #[serde(flatten)]
    pub slowdown: Percentiles,
}
