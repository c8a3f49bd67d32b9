//! Messages between a run and its processes: what hosts are to do, and what they report.

use weir_controller::topology::HostIx;
use weir_host::{Announcement, FlowId, FlowSpec, HostEvent};
use weir_units::Time;

/// Something that a workload does at a host.
#[derive(Debug)]
pub enum HostCommand {
    /// Opens a flow.
    Start(Box<StartFlow>),
    /// Stops the flow that was opened under this number, if it has not finished.
    Stop(u32),
}

/// A flow that is to be opened.
#[derive(Debug)]
pub struct StartFlow {
    /// Its number.
    pub flow_index: u32,
    /// As the host wants it.
    pub spec: FlowSpec,
    /// Senders that its first packets announce.
    pub announces: Option<Announcement>,
    /// True if it will be stopped.
    pub stops: bool,
    /// True if it is the experiment's first flow.
    pub first: bool,
}

/// Something that the rest of the run is to know of a host.
#[derive(Debug)]
pub struct HostReport {
    /// Time of the event.
    pub at: Time,
    /// The host.
    pub host: HostIx,
    /// The event.
    pub news: HostReportKind,
}

/// An event that a host reports.
#[derive(Debug)]
pub enum HostReportKind {
    /// The flow of this number is open.
    Opened(u32, FlowId),
    /// Something of its own.
    Host(HostEvent),
}
