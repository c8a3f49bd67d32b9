//! Watches the sending rate of the experiment's first flow.

use super::events::Observer;
use crate::messages::HostReportKind;
use weir_controller::topology::HostIx;
use weir_experiment::slowdown::FirstSlowdown;
use weir_host::{FlowId, Host};
use weir_units::Time;

/// The rate of one flow. Only the process of the flow's sender has this observer.
pub struct Slowdown {
    sender: HostIx,
    /// Index of the flow in the run's flow records; `None` before the flow starts.
    flow_index: Option<u32>,
    /// The host's id of the flow; `None` before the host has opened it.
    id: Option<FlowId>,
    first: FirstSlowdown,
}

impl Slowdown {
    /// Creates the observer of a flow that `sender` will start.
    pub(crate) fn new(sender: HostIx, first: FirstSlowdown) -> Slowdown {
        Slowdown { sender, flow_index: None, id: None, first }
    }

    /// Tells the index of the flow, before its host opens it.
    pub(crate) fn set_flow(&mut self, flow_index: u32) {
        self.flow_index = Some(flow_index);
    }

    /// Returns when the flow first reduced its rate.
    pub(crate) fn time(&self) -> Option<Time> {
        self.first.time()
    }
}

impl Observer for Slowdown {
    fn on_host_event(&mut self, _: HostIx, event: &HostReportKind) {
        if let HostReportKind::Opened { flow_index, id } = event
            && self.flow_index == Some(*flow_index)
        {
            self.id = Some(*id);
        }
    }

    fn on_host_call(&mut self, now: Time, ix: HostIx, host: &Host) {
        if ix == self.sender
            && let Some(flow) = self.id.and_then(|id| host.flow(id))
        {
            self.first.observe(now, flow.sending_rate);
        }
    }
}
