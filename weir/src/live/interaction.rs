//! The user's selection, display options and requests.

use super::model::ViewModel;
use crate::console::Console;

/// The order of ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
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
pub(super) struct ViewState {
    /// Row of the selected port, in the order shown. It may exceed the number of ports, which then means the last one.
    pub row: usize,
    pub order: Order,
    pub colours: Colours,
}

/// Whether the view has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Colours {
    #[default]
    On,
    /// The user has set NO_COLOR (<https://no-color.org>).
    Off,
}

impl Colours {
    /// Returns the setting of the user's environment.
    pub(crate) fn of(console: &Console) -> Colours {
        if console.styled { Colours::On } else { Colours::Off }
    }
}

impl ViewState {
    /// Returns the ports in the order shown, as indices into [`ViewModel::ports`].
    pub(super) fn order(&self, model: &ViewModel) -> Vec<usize> {
        let mut order: Vec<usize> = (0..model.ports.len()).collect();
        match self.order {
            Order::Topology => {}
            Order::Load => order.sort_by(|&a, &b| model.ports[b].load.total_cmp(&model.ports[a].load)),
            Order::Queue => order.sort_by_key(|&port| std::cmp::Reverse(model.ports[port].queue)),
        }
        order
    }

    /// Returns the selected port, as an index into [`ViewModel::ports`].
    pub(super) fn selected(&self, model: &ViewModel) -> Option<usize> {
        let order = self.order(model);
        order.get(self.row.min(order.len().checked_sub(1)?)).copied()
    }

    /// Moves the selection by `rows`, limited to the first and last row.
    pub(super) fn move_selection(&mut self, rows: isize, model: &ViewModel) {
        let last = model.ports.len().saturating_sub(1);
        self.row = self.row.min(last).saturating_add_signed(rows).min(last);
    }

    /// Changes to the next order and selects the first row.
    pub(super) fn next_order(&mut self) {
        self.row = 0;
        self.order = match self.order {
            Order::Topology => Order::Load,
            Order::Load => Order::Queue,
            Order::Queue => Order::Topology,
        };
    }
}

/// A request of the user to the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserAction {
    /// Pause or continue.
    Pause,
    /// Run until the next snapshot, then pause.
    Step,
    /// Take the link of a port down or up; the index is into [`ViewModel::ports`].
    ToggleLink(usize),
    Quit,
}
