//! The series recorded over time for one scheme.

use crate::file::flow_name;
use std::sync::Arc;
use weir_units::{Bandwidth, Bytes, Time};

/// Records of one scheme's run. Series have one value per [`interval`](Self::interval): value `i`
/// belongs to the time `(i + 1) * interval`.
#[derive(Clone, Debug, Default)]
pub struct SchemeTrace {
    /// Time between two samples.
    pub interval: Time,
    /// Virtual time at the end of the run.
    pub end: Time,
    /// Observed egress ports: queue and utilisation.
    pub ports: Vec<PortSeries>,
    /// Observed flows: sending rate.
    pub rates: Vec<RateSeries>,
    /// Every PFC pause and resume, in order of time.
    pub pauses: Vec<PauseRecord>,
    /// Every flow that started, in order of start.
    pub flows: Vec<FlowRecord>,
    /// A sample of packets, in the order in which they were sent; empty unless it was requested.
    pub packets: Vec<PacketPath>,
}

impl SchemeTrace {
    /// Returns the time of sample number `index`.
    pub fn sample_time(&self, index: usize) -> Time {
        self.interval * (index as u64 + 1)
    }
}

/// One egress port over time.
#[derive(Clone, Debug)]
pub struct PortSeries {
    /// `<switch>:<port>`.
    pub port: String,
    /// Name of the node at the other end, such as `s2` or `h3`.
    pub towards: String,
    /// Bytes queued at the sample.
    pub queue_bytes: Vec<u64>,
    /// Bytes sent since the sample before, over what the link could have sent.
    pub utilisation: Vec<f64>,
}

/// One flow's sender over time.
#[derive(Clone, Debug)]
pub struct RateSeries {
    /// `<from>-><to>`, with `#n` behind it if there are several.
    pub flow: String,
    /// Pacing rate at the sample, zero before the start and after the end.
    pub rate: Vec<Bandwidth>,
    /// Payload acknowledged since the sample before.
    pub goodput: Vec<Bandwidth>,
}

/// The path of a packet.
#[derive(Clone, Debug)]
pub struct PacketPath {
    /// `DATA`, `ACK` and so on.
    pub kind: &'static str,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// The sender's number of the message.
    pub message: u32,
    /// First byte of the payload, or the first byte that an ACK asks for.
    pub seq: u32,
    /// Length of the frame as the host sent it.
    pub bytes: u32,
    /// Times at which its first and its last bit left the host.
    pub sent: (Time, Time),
    /// Switches that it came to, in this order.
    pub hops: Vec<PacketHop>,
    /// Time of its arrival at a host; `None` if it was lost, or on its path when the run ended.
    pub delivered: Option<Time>,
}

/// A packet at a switch.
#[derive(Clone, Debug)]
pub struct PacketHop {
    /// The switch.
    pub switch: String,
    /// The egress port; `None` if it did not leave.
    pub port: Option<u16>,
    /// Time of its arrival.
    pub arrived: Time,
    /// Time at which its last bit left; `None` if it did not.
    pub left: Option<Time>,
}

/// A PFC frame.
#[derive(Clone, Debug)]
pub struct PauseRecord {
    /// Time at which it was sent.
    pub time: Time,
    /// The switch that sent it.
    pub switch: String,
    /// The egress port.
    pub port: u16,
    /// Priority class.
    pub priority: u8,
    /// Pause, or resume.
    pub is_pause: bool,
}

/// One flow. Runs have many: no text of its own.
#[derive(Clone, Debug)]
pub struct FlowRecord {
    /// Sending host.
    pub from: Arc<str>,
    /// Receiving host.
    pub to: Arc<str>,
    /// The how manieth of its pair of hosts, from 1.
    pub ordinal: u32,
    /// The UDP port that is its entropy.
    pub port: u16,
    /// One of an incast.
    pub incast: bool,
    /// Payload to carry; `None` if it runs until the end.
    pub size: Option<Bytes>,
    /// Time at which it was opened.
    pub start: Time,
    /// From opening to the last byte acknowledged at the sender; `None` if unfinished.
    pub fct: Option<Time>,
    /// The reason why the sender gave it up; `None` if it did not.
    pub error: Option<Arc<str>>,
    /// Completion time on an idle fabric (docs/algorithms/methods.md#completion-times); `None` if it has no size.
    pub ideal: Option<Time>,
    /// Payload acknowledged.
    pub acked: Bytes,
    /// Data packets sent again.
    pub retransmits: u64,
}

impl FlowRecord {
    /// `<from>-><to>`, with `#n` behind it if there are several.
    pub fn name(&self) -> String {
        flow_name(&self.from, &self.to, self.ordinal)
    }

    /// Completion time over ideal, at least 1.
    pub fn slowdown(&self) -> Option<f64> {
        let (fct, ideal) = (self.fct?, self.ideal?);
        Some((fct.as_ps() as f64 / ideal.as_ps() as f64).max(1.0))
    }
}
