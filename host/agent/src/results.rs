//! The results of an agent as plain data: written as JSON by the command line, read by programs
//! that drive many agents. Times are nanoseconds since the start of the run, rates bits per second.

pub use super::nic::NicCounters;
use super::policy::PolicyReport;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// A whole run of one agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentResults {
    /// Network interface.
    pub iface: String,
    /// The host's address.
    pub addr: Ipv4Addr,
    /// Name of the scheme.
    pub scheme: String,
    /// Every parameter of the scheme.
    pub parameters: BTreeMap<String, String>,
    /// Rate of the NIC.
    pub rate_bps: u64,
    /// Largest frame.
    pub mtu_bytes: u64,
    /// Base round-trip time.
    pub base_rtt_ns: u64,
    /// Start of the run.
    pub start: StartResult,
    /// Duration of the run.
    pub ran_ns: u64,
    /// The reason of its end.
    pub ended: Ended,
    /// Flows to send, in the order of the plan.
    pub flows: Vec<FlowResult>,
    /// Messages that came in, by peer and message id.
    pub received: Vec<ReceivedResult>,
    /// Complete messages that came in and are not listed, because there were too many.
    pub received_unlisted: u64,
    /// Payload of those.
    #[serde(default)]
    pub received_unlisted_bytes: u64,
    /// Counters of the transport.
    pub transport: BTreeMap<Cow<'static, str>, u64>,
    /// Frames thrown away, by reason; only reasons that occurred.
    pub drops: BTreeMap<Cow<'static, str>, u64>,
    /// Counters of the raw socket.
    pub nic: NicCounters,
    /// Lateness of the loop at the times for which it waited.
    pub lateness: LatenessResult,
    /// Distance of samples in series; absent if none were taken.
    pub sample_ns: Option<u64>,
    /// True if there were more samples than are kept; the series end early.
    pub series_cut: bool,
    /// Report about the host's policy at the end; absent if it took no part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyReport>,
}

/// Start of a run on both clocks.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct StartResult {
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// Unix time.
    pub wall_ns: u64,
}

/// A reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All flows were finished or had failed.
    Finished,
    /// The time was over.
    Deadline,
    /// Somebody interrupted it.
    Interrupted,
    /// The interface disappeared.
    InterfaceGone,
}

/// The progress of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowState {
    /// Its start was never reached.
    NotStarted,
    /// It was being sent at the end.
    Unfinished,
    /// All of it was acknowledged.
    Finished,
    /// The sender gave it up.
    Failed,
}

/// One flow, seen by its sender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowResult {
    /// The receiver's address.
    pub peer: Ipv4Addr,
    /// Entropy port.
    pub port: u16,
    /// Message id.
    pub message: u32,
    /// Bytes to send; absent if it ran until stopped.
    pub size_bytes: Option<u64>,
    /// Its progress.
    pub state: FlowState,
    /// The reason why the sender gave it up; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Planned start.
    pub planned_ns: u64,
    /// Actual start.
    pub start_ns: Option<u64>,
    /// From opening to the last byte acknowledged.
    pub fct_ns: Option<u64>,
    /// Payload acknowledged.
    pub acked_bytes: u64,
    /// Data packets sent again.
    pub retransmits: u64,
    /// Payload acknowledged over the time it ran.
    pub goodput_bps: Option<u64>,
    /// Round-trip times of acknowledged packets.
    pub rtt: Option<RttResult>,
    /// Path ids of DATA, as the receiver echoed them. Empty if the scheme uses that field.
    pub data_paths: Vec<PathResult>,
    /// Path ids of ACKs.
    pub ack_paths: Vec<PathResult>,
    /// N as ACKs told it.
    pub concurrency: Option<RangeResult>,
    /// Samples over time.
    pub series: Option<SeriesResult>,
}

/// Round-trip times.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RttResult {
    /// Number of samples.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: u64,
    /// Median, up to 6 % too high.
    pub p50_ns: u64,
    /// 99th percentile, up to 6 % too high.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// A path and how many packets took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathResult {
    /// XOR of switch ids.
    pub path_id: u16,
    /// Packets.
    pub packets: u64,
}

/// Least, greatest and last of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeResult {
    /// The least.
    pub min: u16,
    /// The greatest.
    pub max: u16,
    /// The last.
    pub last: u16,
}

/// Samples of a flow. Value `i` belongs to the time `(first + i + 1) * sample_ns`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SeriesResult {
    /// Intervals of the run before the first value.
    pub first: u64,
    /// Payload acknowledged since the sample before.
    pub goodput_bps: Vec<u64>,
    /// Pacing rate at the sample; 0 once the flow is finished.
    pub rate_bps: Vec<u64>,
    /// Window at the sample.
    pub window_bytes: Vec<u64>,
    /// Newest round-trip time; 0 before the first.
    pub rtt_ns: Vec<u64>,
    /// Newest N; 0 before the first.
    pub concurrency: Vec<u16>,
}

/// A message that came in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReceivedResult {
    /// Address of the sender.
    pub peer: Ipv4Addr,
    /// Its message id.
    pub message: u32,
    /// Entropy port.
    pub port: u16,
    /// Payload taken in order.
    pub bytes: u64,
    /// True if its last byte came.
    pub complete: bool,
    /// Its first packet.
    pub first_ns: u64,
    /// Its last packet.
    pub last_ns: u64,
    /// Path ids of DATA.
    pub paths: Vec<PathResult>,
}

/// Lateness of the loop at the times for which it waited.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LatenessResult {
    /// Waits.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ns: u64,
    /// The worst.
    pub max_ns: u64,
    /// At most 1 us.
    pub within_1us: u64,
    /// Above that and at most 10 us.
    pub within_10us: u64,
    /// Above that and at most 60 us.
    pub within_60us: u64,
    /// Above that and at most 200 us.
    pub within_200us: u64,
    /// Above that and at most 1 ms.
    pub within_1ms: u64,
    /// Later.
    pub later: u64,
}
