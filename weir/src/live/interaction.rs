//! The user's selection, display options and requests.

use super::model::ViewModel;

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
    pub fn order(&self, model: &ViewModel) -> Vec<usize> {
        let mut order: Vec<usize> = (0..model.ports.len()).collect();
        match self.order {
            Order::Topology => {}
            Order::Load => order.sort_by(|&a, &b| model.ports[b].load.total_cmp(&model.ports[a].load)),
            Order::Queue => order.sort_by_key(|&port| std::cmp::Reverse(model.ports[port].queue)),
        }
        order
    }

    /// Returns the selected port, as an index into [`ViewModel::ports`].
    pub fn selected(&self, model: &ViewModel) -> Option<usize> {
        let order = self.order(model);
        order.get(self.row.min(order.len().checked_sub(1)?)).copied()
    }

    /// Moves the selection by `rows`, limited to the first and last row.
    pub fn step(&mut self, rows: isize, model: &ViewModel) {
        let last = model.ports.len().saturating_sub(1);
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
