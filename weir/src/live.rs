//! A live view of a fabric: its contents ([`ViewModel`]), their drawing on a terminal ([`draw`]) and in browsers ([`WebView`]),
//! and the keys.
//!
//! Rendering is a function of the scene and of the user's choices ([`ViewState`]). Commands make
//! scenes and hand them to a [`View`], which returns what the user asks for.

mod draw;
mod screen;
mod view;
mod web;

pub use draw::draw;
pub use screen::TerminalView;
use serde::Serialize;
pub use view::View;
pub use web::{ServeOptions, WebView};

/// The contents of the view. Unknown numbers are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ViewModel {
    /// The title: a file, a scheme.
    pub title: String,
    /// Progress and speed.
    pub clock: String,
    /// Part of the run that is over, from 0 to 1.
    pub progress: Option<f64>,
    /// Nothing moves until the user says so.
    pub is_paused: bool,
    /// Nothing more comes.
    pub is_over: bool,
    /// Egress ports, in the order of the topology.
    pub ports: Vec<PortRow>,
    /// Switches, if more is known of them than their ports say.
    pub switches: Vec<SwitchRow>,
    /// Flows that are being sent.
    pub flows: Vec<FlowRow>,
    /// Totals: a word and its value.
    pub totals: Vec<(String, String)>,
    /// The last event.
    pub note: String,
    /// The keys that do something, beside those that move about: key and word.
    pub keys: Vec<(&'static str, &'static str)>,
}

/// An egress port and its link.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PortRow {
    /// `s1:2`
    pub name: String,
    /// The other end.
    pub peer: String,
    /// False if the link is down.
    pub is_up: bool,
    /// Part of the link's capacity in use, from 0 to 1.
    pub load: f64,
    /// Throughput, in bit/s.
    pub rate_bps: f64,
    /// Bytes queued.
    pub queue: Option<u64>,
    /// The most bytes queued.
    pub peak: Option<u64>,
}

/// A switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SwitchRow {
    /// Its name.
    pub name: String,
    /// The reason why it does not answer; `None` if it does.
    pub error: Option<String>,
    /// Routes in its table.
    pub routes: Option<u64>,
    /// Packets marked CE.
    pub marks: Option<u64>,
    /// Packets dropped, for all reasons.
    pub drops: Option<u64>,
}

/// A flow that is being sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowRow {
    /// Source and destination.
    pub name: String,
    /// Bytes to send; `None`: until it is stopped.
    pub size: Option<u64>,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Its rate in bit/s.
    pub rate_bps: Option<f64>,
}

/// The order of ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As in the topology.
    #[default]
    Topology,
    /// The most loaded first.
    Load,
    /// The longest queue first.
    Queue,
}

/// The user's selection and display options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewState {
    /// Row of the selected port, in the order shown.
    pub row: usize,
    /// The order of ports.
    pub order: Order,
    /// No colours (<https://no-color.org>).
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

    /// Selects another row.
    pub fn step(&mut self, rows: isize, scene: &ViewModel) {
        let last = scene.ports.len().saturating_sub(1);
        self.row = self.row.min(last).saturating_add_signed(rows).min(last);
    }

    /// Takes the next order.
    pub fn reorder(&mut self) {
        self.row = 0;
        self.order = match self.order {
            Order::Topology => Order::Load,
            Order::Load => Order::Queue,
            Order::Queue => Order::Topology,
        };
    }
}

/// A request of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserAction {
    /// Pause, or go on.
    Pause,
    /// One step while paused.
    Step,
    /// Take the link of a port down or up: an index into [`ViewModel::ports`].
    Link(usize),
    /// End.
    Quit,
}
