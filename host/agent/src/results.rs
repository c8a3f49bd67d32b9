//! The results of an agent, in the format that the command line writes as JSON and the testbed reads. Times are in ns
//! since the start of the run, rates in bit/s.

pub use super::nic::NicCounters;
use super::policy::PolicyReport;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The results of one agent's run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentResults {
    pub iface: String,
    pub addr: Ipv4Addr,
    pub scheme: String,
    /// All parameters of the scheme, defaults included.
    pub parameters: BTreeMap<String, String>,
    /// Configured rate of the NIC.
    pub rate_bps: u64,
    pub mtu_bytes: u64,
    pub base_rtt_ns: u64,
    pub start: StartResult,
    /// Duration of the run.
    pub ran_ns: u64,
    pub ended: Ended,
    /// Sent flows, in the order of the plan.
    pub flows: Vec<FlowResult>,
    /// Received messages, by peer and message id.
    pub received: Vec<ReceivedResult>,
    /// Number of complete messages that are not in `received`, because there were too many.
    pub received_unlisted: u64,
    /// Payload of the messages counted in `received_unlisted`.
    #[serde(default)]
    pub received_unlisted_bytes: u64,
    /// Counters of the transport.
    pub transport: BTreeMap<Cow<'static, str>, u64>,
    /// Dropped frames by reason; only reasons that occurred.
    pub drops: BTreeMap<Cow<'static, str>, u64>,
    pub nic: NicCounters,
    pub lateness: LatenessResult,
    /// Time between two samples; absent if none were taken.
    pub sample_ns: Option<u64>,
    /// True if the maximum number of samples was reached; the series then end early.
    pub series_cut: bool,
    /// The host's policy at the end of the run; absent if policies are disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyReport>,
}

/// Start of a run, by CLOCK_MONOTONIC and as Unix time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct StartResult {
    pub monotonic_ns: u64,
    pub wall_ns: u64,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All flows have finished or failed.
    Finished,
    /// The configured duration was over.
    Deadline,
    Interrupted,
    InterfaceGone,
}

/// State of a flow at the end of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowState {
    /// The run ended before the start of the flow.
    NotStarted,
    /// The flow was in progress.
    Unfinished,
    /// The flow was acknowledged in full.
    Finished,
    /// The sender gave up the flow.
    Failed,
}

/// A flow, as seen by its sender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowResult {
    pub peer: Ipv4Addr,
    pub port: u16,
    pub message: u32,
    /// Bytes to send; absent if it ran until stopped.
    pub size_bytes: Option<u64>,
    pub state: FlowState,
    /// Why the flow failed; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Planned start.
    pub planned_ns: u64,
    pub start_ns: Option<u64>,
    /// Time from opening the flow to the acknowledgement of its last byte; absent if unfinished.
    pub fct_ns: Option<u64>,
    pub acked_bytes: u64,
    /// Retransmitted data packets.
    pub retransmits: u64,
    /// Acknowledged payload divided by the time that the flow was open.
    pub goodput_bps: Option<u64>,
    /// Round-trip times of acknowledged packets.
    pub rtt: Option<RttResult>,
    /// Path ids of DATA, as the receiver echoed them. Empty if the scheme uses that field.
    pub data_paths: Vec<PathResult>,
    /// Path ids of ACKs.
    pub ack_paths: Vec<PathResult>,
    /// Concurrency (FNCC's N) in ACKs.
    pub concurrency: Option<RangeResult>,
    pub series: Option<SeriesResult>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RttResult {
    /// Number of samples.
    pub count: u64,
    pub min_ns: u64,
    pub mean_ns: u64,
    /// Median, up to 6 % too high.
    pub p50_ns: u64,
    /// 99th percentile, up to 6 % too high.
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// Number of packets on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathResult {
    /// XOR of the ids of the switches on the path.
    pub path_id: u16,
    pub packets: u64,
}

/// Minimum, maximum and last of a series of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeResult {
    pub min: u16,
    pub max: u16,
    pub last: u16,
}

/// Samples of a flow. Value `i` was taken at the time `(first + i + 1) * sample_ns`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SeriesResult {
    /// Number of sampling intervals before the first value.
    pub first: u64,
    /// Goodput since the previous sample.
    pub goodput_bps: Vec<u64>,
    /// Sending rate at the sample: the pacing rate, or, of a window-based scheme, window over RTT if that is less; 0 once
    /// the flow is finished.
    pub rate_bps: Vec<u64>,
    pub window_bytes: Vec<u64>,
    /// Newest round-trip time; 0 before the first.
    pub rtt_ns: Vec<u64>,
    /// Newest N; 0 before the first.
    pub concurrency: Vec<u16>,
    /// Gauges of the scheme by name; 0 once the flow is finished. Absent if the scheme has none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gauges: BTreeMap<String, Vec<f64>>,
}

/// A received message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReceivedResult {
    /// Address of the sender.
    pub peer: Ipv4Addr,
    pub message: u32,
    pub port: u16,
    /// Payload received, each byte once: with go-back-N in order, with selective retransmission also behind gaps.
    pub bytes: u64,
    /// True if the whole message was received.
    pub complete: bool,
    pub first_ns: u64,
    pub last_ns: u64,
    /// Path ids of DATA.
    pub paths: Vec<PathResult>,
}

/// How late the loop was at the deadlines for which it waited precisely.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LatenessResult {
    pub count: u64,
    pub mean_ns: u64,
    pub max_ns: u64,
    /// Number of waits that ended at most 1 us late.
    pub within_1us: u64,
    /// More than 1 us and at most 10 us late.
    pub within_10us: u64,
    /// More than 10 us and at most 60 us late.
    pub within_60us: u64,
    /// More than 60 us and at most 200 us late.
    pub within_200us: u64,
    /// More than 200 us and at most 1 ms late.
    pub within_1ms: u64,
    /// More than 1 ms late.
    pub later: u64,
}
