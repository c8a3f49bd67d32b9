//! A live view of a fabric: its contents ([`ViewModel`]), their rendering on a terminal ([`draw`]) and in
//! browsers ([`WebView`]), and the keys.
//!
//! Rendering is a function of the contents and of the user's choices ([`ViewState`]). Commands create the
//! contents and pass them to a [`View`], which returns the user's requests.

mod draw;
mod screen;
mod view;
mod web;

pub use draw::draw;
pub use screen::TerminalView;
use serde::Serialize;
pub use view::View;
pub use web::{ServeOptions, WebView};

/// The contents of the view. Unknown values are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ViewModel {
    /// The title, such as a file name or a scheme.
    pub title: String,
    /// Progress and speed as text.
    pub clock: String,
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
    /// Totals, as label and value.
    pub totals: Vec<(String, String)>,
    /// The last event or error.
    pub note: String,
    /// Keys with a function in this view, without those for selection: key and label.
    pub keys: Vec<(&'static str, &'static str)>,
}

/// An egress port and its link.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PortRow {
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
pub struct SwitchRow {
    pub name: String,
    /// The error if the switch did not respond.
    pub error: Option<String>,
    /// Routes in the table of the switch.
    pub routes: Option<u64>,
    /// Packets marked CE.
    pub marks: Option<u64>,
    /// Packets dropped, for any reason.
    pub drops: Option<u64>,
}

/// A flow in progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowRow {
    /// Source and destination.
    pub name: String,
    /// Size in bytes; `None` for a flow without a size.
    pub size: Option<u64>,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Rate in bit/s.
    pub rate_bps: Option<f64>,
}

/// The order of ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Topology order.
    #[default]
    Topology,
    /// By load, highest first.
    Load,
    /// By queue length, longest first.
    Queue,
}

/// The user's selection and display options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewState {
    /// Row of the selected port, in the order shown.
    pub row: usize,
    pub order: Order,
    /// No colours (NO_COLOR, <https://no-color.org>).
    pub is_plain: bool,
}

impl ViewState {
    /// Returns the ports in the order shown, as indices into [`ViewModel::ports`].
    pub fn order(&self, scene: &ViewModel) -> Vec<usize> {
        let mut order: Vec<usize> = (0..scene.ports.len()).collect();
        match self.order {
            Order::Topology => {}
            Order::Load => order.sort_by(|&a, &b| scene.ports[b].load.total_cmp(&scene.ports[a].load)),
            Order::Queue => order.sort_by_key(|&at| std::cmp::Reverse(scene.ports[at].queue)),
        }
        order
    }

    /// Returns the selected port, as an index into [`ViewModel::ports`].
    pub fn selected(&self, scene: &ViewModel) -> Option<usize> {
        let order = self.order(scene);
        order.get(self.row.min(order.len().checked_sub(1)?)).copied()
    }

    /// Moves the selection by `rows`, limited to the first and last row.
    pub fn step(&mut self, rows: isize, scene: &ViewModel) {
        let last = scene.ports.len().saturating_sub(1);
        self.row = self.row.min(last).saturating_add_signed(rows).min(last);
    }

    /// Changes to the next order and selects the first row.
    pub fn reorder(&mut self) {
        self.row = 0;
        self.order = match self.order {
            Order::Topology => Order::Load,
            Order::Load => Order::Queue,
            Order::Queue => Order::Topology,
        };
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserAction {
    /// Pause or continue.
    Pause,
    /// Advance by one step, while paused.
    Step,
    /// Take the link of a port down or up; the index is into [`ViewModel::ports`].
    Link(usize),
    /// Quit.
    Quit,
}
