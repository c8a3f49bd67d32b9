//! Time series and records of the run of one scheme.

use crate::file::flow_name;
use std::borrow::Cow;
use std::sync::Arc;
use weir_units::{Bandwidth, Bytes, Time};

/// Time series and records of the run of one scheme. Series have one value per [`interval`](Self::interval): value `i` is the
/// sample at time `(i + 1) * interval`.
#[derive(Clone, Debug, Default)]
pub struct SchemeTrace {
    /// Sampling interval.
    pub interval: Time,
    /// Time at the end of the run.
    pub end: Time,
    /// Queues and utilisation of observed egress ports.
    pub ports: Vec<PortSeries>,
    /// Sending rates of observed flows.
    pub rates: Vec<RateSeries>,
    /// Quantities of the senders of observed flows, with `observe.sender`; flow by flow.
    pub senders: Vec<SenderSeries>,
    /// All PFC pauses and resumes, sorted by time.
    pub pauses: Vec<PauseRecord>,
    /// All flows that started, sorted by start.
    pub flows: Vec<FlowRecord>,
    /// Statistics of completion times, by workload and size class.
    pub fct: Vec<FctStatistic>,
    /// A sample of packets, in the order of sending; empty unless packet paths were requested.
    pub packets: Vec<PacketPath>,
}

impl SchemeTrace {
    /// Returns the time of sample number `index`.
    pub fn sample_time(&self, index: usize) -> Time {
        self.interval * (index as u64 + 1)
    }
}

/// A statistic of the completion times of the flows of one workload and size class.
#[derive(Clone, Debug, PartialEq)]
pub struct FctStatistic {
    /// Name of the workload; `all`: all workloads together, if there are several.
    pub workload: Arc<str>,
    /// Exclusive lower bound of the flow size.
    pub over_bytes: u64,
    /// Inclusive upper bound of the flow size; `None`: no bound.
    pub upto_bytes: Option<u64>,
    /// Number of finished flows, over which the value is computed.
    pub count: u64,
    /// Number of flows that started and had not finished at the end of the run.
    pub unfinished: u64,
    /// `slowdown`, or `fct_us`: the completion time in microseconds.
    pub quantity: Cow<'static, str>,
    /// `mean`, `p50`, `p95` or `p99`.
    pub statistic: Cow<'static, str>,
    /// `None` if no flow finished.
    pub value: Option<f64>,
    /// Ends of the 95 % confidence interval; `None` if there are too few flows for it.
    pub interval: Option<(f64, f64)>,
}

/// One egress port over time.
#[derive(Clone, Debug)]
pub struct PortSeries {
    /// `<switch>:<port>`.
    pub port: String,
    /// Name of the node at the other end, such as `s2` or `h3`.
    pub towards: String,
    /// Bytes queued at the time of the sample.
    pub queue_bytes: Vec<u64>,
    /// Bytes sent since the previous sample, as a share of the link's capacity.
    pub utilisation: Vec<f64>,
}

impl PortSeries {
    /// Returns the share of the capacity of a link of rate `rate` that `sent` bytes took in `interval`. May slightly exceed 1,
    /// as a frame counts when its serialisation starts.
    pub fn utilisation_in(interval: Time, sent: Bytes, rate: Bandwidth) -> f64 {
        sent.as_f64() / rate.bytes_in(interval).as_f64().max(1.0)
    }
}

/// One flow's sender over time.
#[derive(Clone, Debug)]
pub struct RateSeries {
    /// Name of the flow: `<from>-><to>`, followed by `#n` from the second flow between these hosts on.
    pub flow: String,
    /// Sending rate at the time of the sample; 0 before the start and after the end of the flow.
    pub rate: Vec<Bandwidth>,
    /// Rate at which payload was acknowledged since the previous sample.
    pub goodput: Vec<Bandwidth>,
}

/// One quantity of a flow's sender over time.
#[derive(Clone, Debug)]
pub struct SenderSeries {
    /// Name of the flow, as in [`RateSeries`].
    pub flow: String,
    /// `rtt` (microseconds), `window` (bytes), `rate` (bit/s), or the name of a scheme's gauge.
    pub quantity: String,
    /// Value at the time of the sample; `None` before the start and after the end of the flow, and while unknown.
    pub values: Vec<Option<f64>>,
}

/// The path of a packet.
#[derive(Clone, Debug)]
pub struct PacketPath {
    /// Packet type, such as `DATA` or `ACK`.
    pub kind: &'static str,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// Message id, assigned by the sender.
    pub message: u32,
    /// Sequence number of the first payload byte; in an ACK, of the next expected byte.
    pub seq: u32,
    /// Frame length as sent by the host.
    pub bytes: u32,
    /// Times at which the first and the last bit left the host.
    pub sent: (Time, Time),
    /// Switches in the order of arrival.
    pub hops: Vec<PacketHop>,
    /// Time of arrival at a host; `None` if the packet was lost, or in flight at the end of the run.
    pub delivered: Option<Time>,
}

/// A packet at a switch.
#[derive(Clone, Debug)]
pub struct PacketHop {
    pub switch: String,
    /// Egress port; `None` if the packet did not leave the switch.
    pub port: Option<u16>,
    /// Time of arrival.
    pub arrived: Time,
    /// Time at which the last bit left the switch; `None` if the packet did not leave.
    pub left: Option<Time>,
}

/// A PFC frame sent by a switch.
#[derive(Clone, Debug)]
pub struct PauseRecord {
    /// Time of sending.
    pub time: Time,
    /// Sending switch.
    pub switch: String,
    /// Egress port of the frame.
    pub port: u16,
    /// Priority class.
    pub priority: u8,
    /// True: pause; false: resume.
    pub is_pause: bool,
}

/// A flow that started. Runs have millions of flows, so host names are shared and the flow's name is not stored.
#[derive(Clone, Debug)]
pub struct FlowRecord {
    /// Sending host.
    pub from: Arc<str>,
    /// Receiving host.
    pub to: Arc<str>,
    /// Position among the flows of the same sender and receiver, from 1; the n of `h1->h2#n`.
    pub ordinal: u32,
    /// UDP source port; selects the path among those of equal cost.
    pub port: u16,
    /// True if the flow is part of an incast.
    pub incast: bool,
    /// Name of the workload, see [`Experiment::workload_names`](crate::Experiment::workload_names); empty in runs of
    /// earlier versions.
    pub workload: Arc<str>,
    /// Payload; `None` if the flow sends until the end of the run.
    pub size: Option<Bytes>,
    pub start: Time,
    /// Time from the start until the sender received the ACK of the last byte; `None` if unfinished.
    pub fct: Option<Time>,
    /// The reason why the sender aborted the flow; `None` if it did not.
    pub error: Option<Arc<str>>,
    /// Completion time on an idle fabric (docs/algorithms/methods.md#completion-times); `None` if the flow has no size.
    pub ideal: Option<Time>,
    /// Acknowledged payload.
    pub acked: Bytes,
    /// Retransmitted data packets.
    pub retransmits: u64,
}

impl FlowRecord {
    /// Returns the name of the flow, see [`flow_name`].
    pub fn name(&self) -> String {
        flow_name(&self.from, &self.to, self.ordinal)
    }
}
