//! Options of a plan.

use super::priority::{EXPRESS_PRIORITY, PacketClass, PriorityTraffic};
use super::target::TargetConfig;
use crate::flood::FloodConfig;
use crate::port_params::PortParams;
use crate::thresholds::{DeflectionConfig, EcnConfig};
use std::collections::BTreeMap;
use weir_units::Bandwidth;

/// Kind DATA in the Weir header.
const KIND_DATA: u8 = 0;

/// Content of all tables other than routes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanOptions {
    /// ECN marking thresholds of the ports; `None`: never mark.
    pub ecn: Option<EcnConfig>,
    /// Priority queues of Weir packets. Queue 7 is served first; packets without an entry use queue 0.
    pub classes: BTreeMap<PacketClass, u8>,
    /// Refresh interval of the switches' copy of their ports' telemetry (FNCC's All_INT_Table), in ticks of their
    /// clock; `None`: at every dequeue.
    pub int_refresh: Option<u32>,
    /// Parameters of per-port computations by the rate of the port, for programs that have such computations.
    pub port_params: BTreeMap<Bandwidth, PortParams>,
    /// Weights of the queues 1, 2, ... of every port, for programs that select the queue of DATA by DSCP. Empty: strict
    /// priority.
    pub weights: Vec<u16>,
    /// Create a clone session for each port, with the number of the port as id, for programs that generate packets.
    pub port_clone_sessions: bool,
    /// Threshold above which a port counts as congested, for programs that deflect; `None`: never deflect. Needs two
    /// priority queues per deflection in addition to those of data and feedback.
    pub deflection: Option<DeflectionConfig>,
    /// Limits of the POLICY packets that a port accepts, for programs that flood them.
    pub flood: FloodConfig,
    /// Omit the routes, because the program has its own route tables, which another controller writes.
    pub skip_routes: bool,
    /// The target for which the program is compiled.
    pub target: TargetConfig,
}

impl PlanOptions {
    /// Assigns separate queues to this traffic, which switches serve before others (docs/wire.md#priorities). Each
    /// needs one more priority queue in the switches.
    pub fn prioritise(mut self, traffic: PriorityTraffic) -> PlanOptions {
        // ACK, NACK, CNP, PROBE_REPLY, RATE and POLICY; must match the kinds of the Weir header in `host/src/wire`.
        const FEEDBACK: [u8; 6] = [1, 2, 3, 5, 6, 7];
        if traffic.short_messages {
            self.classes.insert(PacketClass { kind: KIND_DATA, is_express: true }, EXPRESS_PRIORITY);
        }
        if traffic.feedback {
            let queue = traffic.feedback_queue();
            self.classes.extend(FEEDBACK.map(|kind| (PacketClass { kind, is_express: false }, queue)));
        }
        self
    }
}
