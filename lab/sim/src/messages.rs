//! Messages between a run (module [`run`](mod@crate::run)) and its logical processes: commands to hosts, and
//! reports of hosts.

use weir_controller::topology::HostIx;
use weir_host::{Announcement, FlowId, FlowSpec, HostEvent};
use weir_units::Time;

/// A command of the workload to a host.
#[derive(Debug)]
pub enum HostCommand {
    Start(Box<StartFlow>),
    /// Stops a flow, if it has not finished.
    Stop {
        /// Index in the run's flow records.
        flow_index: u32,
    },
}

/// Parameters of a flow to open.
#[derive(Debug)]
pub struct StartFlow {
    /// Index in the run's flow records.
    pub flow_index: u32,
    pub spec: FlowSpec,
    /// Senders that the flow's first packets announce.
    pub announcement: Option<Announcement>,
    /// True if a [`HostCommand::Stop`] will follow.
    pub will_stop: bool,
}

/// A report of a host to the run.
#[derive(Debug)]
pub struct HostReport {
    /// Time of the reported event.
    pub at: Time,
    pub host: HostIx,
    pub kind: HostReportKind,
}

/// The content of a [`HostReport`].
#[derive(Debug)]
pub enum HostReportKind {
    /// A flow was opened.
    Opened {
        /// Index in the run's flow records.
        flow_index: u32,
        /// The host's id of the flow.
        id: FlowId,
    },
    /// An event of the host itself.
    Host(HostEvent),
}
