//! The contents of a live view, as the terminal and the browsers show them. The page (`page.html`) reads them as JSON.

use serde::Serialize;

/// The contents of the view. Unknown values are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct ViewModel {
    /// The title, such as a file name or a scheme.
    pub title: String,
    /// Time and speed of a run, or the number of switches that respond, as text.
    #[serde(rename = "clock")]
    pub status: String,
    /// Completed share of the run, from 0 to 1.
    pub progress: Option<f64>,
    /// Paused until the user continues.
    pub is_paused: bool,
    /// The run has ended; there will be no more updates.
    pub is_over: bool,
    /// Egress ports, in the order of the topology.
    pub ports: Vec<PortRow>,
    /// Switches; empty if nothing is known beyond their ports.
    pub switches: Vec<SwitchRow>,
    /// Flows in progress.
    pub flows: Vec<FlowRow>,
    /// Why there are no flows, where they are not known during a run; empty otherwise.
    pub flows_note: &'static str,
    /// Totals, as label and value.
    pub totals: Vec<(String, String)>,
    /// The last event or error.
    pub note: String,
    /// Keys specific to this view, as key and label; the keys for selection and quitting are not listed.
    pub keys: Vec<(&'static str, &'static str)>,
}

/// An egress port and its link.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct PortRow {
    /// Name of the port, such as `s1:2`.
    pub name: String,
    /// Name of the node or port at the other end.
    pub peer: String,
    /// False if the link is down.
    pub is_up: bool,
    /// Share of the link's capacity in use, from 0 to 1.
    pub load: f64,
    /// Throughput, in bit/s.
    pub rate_bps: f64,
    /// Bytes queued.
    pub queue: Option<u64>,
    /// Maximum of the bytes queued.
    pub peak: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct SwitchRow {
    pub name: String,
    /// The error if the switch did not respond.
    pub error: Option<String>,
    /// Routes in the table of the switch.
    pub routes: Option<u64>,
    /// Packets marked CE.
    pub marks: Option<u64>,
    /// Packets that the program dropped, for any reason.
    pub drops: Option<u64>,
}

/// A flow in progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct FlowRow {
    /// Source and destination.
    pub name: String,
    /// Size in bytes; `None` for a flow without a size.
    pub size: Option<u64>,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Rate in bit/s.
    pub rate_bps: Option<f64>,
}
