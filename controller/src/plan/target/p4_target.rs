//! The interface of a target: what a plan depends on.

use super::super::entry::Entry;
use super::super::error::PlanError;
use crate::flood::Meter;
use crate::route_table::Routes;
use crate::topology::{SwitchIx, Topology};
use p4runtime::p4info::Index;
use std::borrow::Cow;
use std::fmt;

/// A p4c target, as far as plans depend on it.
///
/// A plan is made with the port numbers of the topology. The target converts them before entries are encoded, and back
/// when they are decoded. Tables that have another form on a target are listed with it in `plan/tables.rs`.
pub trait P4Target: fmt::Debug {
    /// Checks that the switch can serve the topology's ports with this program.
    ///
    /// # Errors
    ///
    /// A port has no device port number or shares it with another port, or the program cannot serve these ports.
    fn check_ports(&self, topology: &Topology, ix: SwitchIx, p4info: &Index) -> Result<(), PlanError>;

    /// Converts a port of the topology to the port number of the device.
    ///
    /// # Errors
    ///
    /// The port has no number.
    fn device_port(&self, switch: &str, port: u16) -> Result<u16, PlanError>;

    /// Converts a port number of the device to the port of the topology.
    fn topology_port(&self, switch: &str, number: u16) -> Option<u16>;

    /// Returns the routes with group sizes and numbers of trees from which the target's programs can select.
    ///
    /// # Errors
    ///
    /// There are too many trees.
    fn adapt_routes<'a>(&self, routes: &'a Routes) -> Result<Cow<'a, Routes>, PlanError>;

    /// Converts a queue length in bytes to the unit of the program's tables.
    ///
    /// # Errors
    ///
    /// The target cannot count queues of this length.
    fn queue_limit(&self, bytes: u32) -> Result<u32, PlanError>;

    /// Returns the meter with rates that the target supports.
    fn meter(&self, meter: Meter) -> Meter;

    /// Returns the clone sessions to which the entries refer.
    fn clone_sessions(&self, entries: &[Entry]) -> Vec<CloneSession>;
}

/// A clone session; `port` is a port number of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloneSession {
    pub id: u16,
    pub port: u16,
    /// Number of bytes of each packet that are copied; 0: all.
    pub bytes: u16,
}
