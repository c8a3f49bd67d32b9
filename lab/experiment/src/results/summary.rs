//! The content of `summary.json`. `docs/summary.md` defines each metric.

use super::{DeadlockSummary, LongPause, PolicySummary};
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

/// Summary of one scheme.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SchemeSummary {
    /// Egress queues by `<switch>:<port>`, for every port that sent a packet.
    pub queues: BTreeMap<String, QueueSummary>,
    /// Bytes sent as a share of the link's capacity, by `<switch>:<port>`, for the same ports.
    pub utilisation: BTreeMap<String, f64>,
    /// Time in microseconds at which the first flow reduced its rate after a later flow had joined; `None` if it never did,
    /// or no flow joined later.
    pub first_slowdown_us: Option<f64>,
    /// Jain's fairness index of goodput over the fairness window; `None` with fewer than two flows.
    pub jain: Option<f64>,
    /// Dropped packets by reason, over all switches and hosts, without zeros.
    pub drops: BTreeMap<String, u64>,
    /// Packets that switches marked ECN CE.
    pub marks: u64,
    /// PFC pause frames sent, without resumes and refreshes.
    pub pauses: u64,
    /// Packets deflected by IOFD.
    pub deflections: u64,
    /// Data packets that hosts retransmitted.
    pub retransmits: u64,
    /// Retransmission timeouts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timeouts: u64,
    /// Number of times that a message fell back from several subflows to one (AMP).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub suppressions: u64,
    /// Telemetry that senders ignored or found to be of another path than their data's, by check, without zeros.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub telemetry: BTreeMap<String, u64>,
    /// Completion times of flows with a size.
    pub fct: Fct,
    /// The PFC deadlock that ended the run; `None` if there was no deadlock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlock: Option<DeadlockSummary>,
    /// Ports that PFC paused for `pfc.watchdog` or longer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub long_pauses: Vec<LongPause>,
    /// Policy statistics; `None` without the key `policy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySummary>,
    /// Completion times of jobs; `None` if no job finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<JobTimes>,
    /// Packet statistics, in total and by size class, with `observe.packets`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<PacketSummary>,
    /// Goodput of flows without a size, with `observe.goodput`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<GoodputSummary>,
    /// Utilisation by layer of the fabric, starting with the links of hosts, with `observe.layers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerSummary>,
    /// Goodput in Gbit/s over the fairness window by weighted queue, of the flows that ran during the whole window; empty
    /// without the key `queues`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_gbps: Vec<f64>,
}

/// Goodput of flows without a size: acknowledged payload over the time since the start of the flow.
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

/// Utilisation of the links of one layer of the fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerSummary {
    /// Number of switch ports; a link between switches counts twice.
    pub ports: u64,
    /// Mean utilisation of these ports over the whole run, 0 to 1.
    pub utilisation: f64,
}

/// Packet counts of one scheme.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacketSummary {
    /// [`Summary::packet_hops`] of this scheme.
    pub packet_hops: u64,
    /// Frame bytes summed over all links, including those of hosts: a packet over three links counts three times.
    pub link_bytes: u64,
    /// The classes of `observe.size_classes` in ascending order; one class of all flows if there are none.
    pub classes: Vec<PacketClass>,
}

/// Data packets that receivers got from the flows of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacketClass {
    /// Exclusive lower bound of the flow size.
    pub over_bytes: u64,
    /// Inclusive upper bound of the flow size; `None` for the last class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upto_bytes: Option<u64>,
    /// Packets received, including retransmissions.
    pub received: u64,
    /// Received packets with an ECN CE mark.
    pub marked: u64,
    /// ACKs with an ECN echo. May be less than `marked`, because a receiver may suppress the echo.
    pub echoed: u64,
    /// `marked` over `received`; `None` if no packet was received.
    pub marked_share: Option<f64>,
    /// `echoed` over `received`; `None` if no packet was received.
    pub echoed_share: Option<f64>,
    /// Mean number of links that a packet crossed, including those of the two hosts.
    pub mean_links: Option<f64>,
}

/// Job completion times, from the first request of a job to the last byte of its last response.
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

#[allow(clippy::trivially_copy_pass_by_ref)] // Signature required by serde.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One egress queue over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueSummary {
    /// Maximum over the run.
    pub peak_bytes: u64,
    /// Mean over the samples.
    pub mean_bytes: f64,
    /// 99th percentile over the samples: the upper edge of its 1000-byte bin, as in HPCC's queue monitor.
    pub p99_bytes: u64,
}

/// Flow completion times, as slowdown relative to an idle fabric (docs/algorithms/methods.md#completion-times).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fct {
    /// Number of finished flows.
    pub count: u64,
    /// Flows with a size that started and did not finish before the end of the run, including aborted flows.
    pub unfinished: u64,
    /// Flows that their senders aborted, with or without a size, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, u64>,
    /// Slowdown of all finished flows; `None` if there are none.
    pub slowdown: Option<Percentiles>,
    /// Buckets of equal counts in ascending order of flow size, as in HPCC's `fct_analysis.py`.
    pub by_size: Vec<FctBucket>,
    /// The classes of `observe.size_classes` in ascending order; the last has no upper bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<FctClass>,
    /// The same for the flows of each workload, by its name; empty unless the experiment names a workload.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workloads: BTreeMap<String, Fct>,
}

/// Completion times of the flows of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FctClass {
    /// Exclusive lower bound of the flow size.
    pub over_bytes: u64,
    /// Inclusive upper bound of the flow size; `None` for the last class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upto_bytes: Option<u64>,
    /// Number of finished flows.
    pub count: u64,
    /// Slowdown; `None` if no flow finished.
    pub slowdown: Option<Percentiles>,
    /// Completion times in microseconds.
    pub fct_us: Option<Percentiles>,
    /// Mean over the flows of size divided by completion time, in Gbit/s.
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

/// Slowdowns of the flows up to one size that are larger than those of the previous bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FctBucket {
    /// Size of the largest flow in the bucket.
    pub upto_bytes: u64,
    /// Number of flows in the bucket.
    pub count: u64,
    #[serde(flatten)]
    pub slowdown: Percentiles,
}
