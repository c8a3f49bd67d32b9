//! What a backend observes of the run of one scheme, and the summary that follows from it. `docs/summary.md` defines each
//! metric.

use crate::counts::Counts;
use crate::fct::{self, Fct, GoodputSummary, JobTimes};
use crate::file::Experiment;
use crate::histogram::QueueHistogram;
use crate::layers::{self, LayerSummary};
use crate::results::{DeadlockSummary, FlowRecord, LongPause, PolicySummary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_units::{Bandwidth, Bytes, Time};

/// Summary of one scheme.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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

#[allow(clippy::trivially_copy_pass_by_ref)] // Signature required by serde.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One egress queue over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueSummary {
    /// Maximum over the run.
    pub peak_bytes: u64,
    /// Mean over the samples.
    pub mean_bytes: f64,
    /// 99th percentile over the samples: the upper edge of its 1000-byte bin, as in HPCC's queue monitor.
    pub p99_bytes: u64,
}

/// Packet counts of one scheme.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PacketSummary {
    /// [`Summary::packet_hops`](crate::results::Summary::packet_hops) of this scheme.
    pub packet_hops: u64,
    /// Frame bytes summed over all links, including those of hosts: a packet over three links counts three times.
    pub link_bytes: u64,
    /// The classes of `observe.size_classes` in ascending order; one class of all flows if there are none.
    pub classes: Vec<PacketClass>,
}

/// Data packets that receivers got from the flows of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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

/// The observations of a run. What a backend does not measure keeps its default.
#[derive(Debug, Default)]
pub struct Observations<'a> {
    /// End of the run.
    pub end: Time,
    pub ports: Vec<PortObservation>,
    /// All flows that started.
    pub flows: &'a [FlowRecord],
    /// Goodput over the fairness window of each flow that ran throughout; only the proportions matter.
    pub goodputs: Vec<f64>,
    /// Time at which the first flow reduced its rate after a later flow had joined.
    pub first_slowdown: Option<Time>,
    pub counts: Counts,
    /// PFC pause frames sent, without resumes and repeated frames.
    pub pauses: u64,
    pub jobs: Option<JobTimes>,
    pub deadlock: Option<DeadlockSummary>,
    pub long_pauses: Vec<LongPause>,
    pub policy: Option<PolicySummary>,
    pub packets: Option<PacketSummary>,
    /// Goodput in Gbit/s over the fairness window by weighted queue.
    pub queue_gbps: Vec<f64>,
}

/// A switch port and its egress queue.
#[derive(Clone, Debug, PartialEq)]
pub struct PortObservation {
    /// `<switch>:<port>`.
    pub name: String,
    pub queue: QueueSummary,
    /// Bytes of frames that the port has begun to send.
    pub sent: Bytes,
    /// Rate of the link.
    pub rate: Bandwidth,
}

impl PortObservation {
    /// `peak_bytes` is the largest length of the queue, also between two samples.
    pub fn new(
        name: String,
        samples: &QueueHistogram,
        peak_bytes: u64,
        sent: Bytes,
        rate: Bandwidth,
    ) -> PortObservation {
        let queue = QueueSummary {
            peak_bytes,
            mean_bytes: samples.mean(),
            // The upper edge of a bin may exceed every length.
            p99_bytes: samples.p99().min(peak_bytes),
        };
        PortObservation { name, queue, sent, rate }
    }

    /// Returns the share of the link's capacity up to `end` that was used.
    fn utilisation(&self, end: Time) -> f64 {
        let capacity_bytes = self.rate.as_bytes_per_sec_f64() * end.as_secs_f64();
        // At least 1 byte, to avoid a division by 0. A frame counts when its serialisation starts, and counters of the
        // kernel are read late, so the quotient may slightly exceed 1.
        (self.sent.as_f64() / capacity_bytes.max(1.0)).min(1.0)
    }
}

impl Observations<'_> {
    /// Returns the summary of a run of `experiment`. Ports that sent nothing are omitted.
    pub fn summarise(self, experiment: &Experiment) -> SchemeSummary {
        let observe = &experiment.spec.observe;
        let (mut queues, mut utilisation) = (BTreeMap::new(), BTreeMap::new());
        for port in self.ports.into_iter().filter(|port| port.sent > Bytes::ZERO) {
            utilisation.insert(port.name.clone(), port.utilisation(self.end));
            queues.insert(port.name, port.queue);
        }
        let layers =
            if observe.layers { layers::summarise(&experiment.topology, &utilisation) } else { Vec::new() };
        SchemeSummary {
            queues,
            utilisation,
            first_slowdown_us: self.first_slowdown.map(Time::as_us_f64),
            jain: fct::jain(&self.goodputs),
            drops: self.counts.drops,
            marks: self.counts.marks,
            pauses: self.pauses,
            deflections: self.counts.deflections,
            retransmits: self.counts.retransmits,
            timeouts: self.counts.timeouts,
            suppressions: self.counts.suppressions,
            telemetry: self.counts.telemetry,
            fct: fct::summarise(
                &fct::measured(self.flows, observe.warmup),
                &observe.size_classes,
                experiment.named_workloads(),
            ),
            jobs: self.jobs,
            deadlock: self.deadlock,
            long_pauses: self.long_pauses,
            policy: self.policy,
            packets: self.packets,
            goodput: observe.goodput.then(|| fct::goodputs(self.flows, self.end)).flatten(),
            layers,
            queue_gbps: self.queue_gbps,
        }
    }
}
