//! Differences between the targets of P4 programs: port numbers, group sizes, and the form of some entries.

mod ports;
mod ramp;
mod tofino;

pub use ports::PortMap;
pub use tofino::{Chip, Tofino};

use super::entry::TABLES;
use super::{Entry, PlanError};
use crate::route_table::Routes;
use crate::topology::{SwitchIx, Topology};
use p4runtime::p4info::Index;
use std::borrow::Cow;
use std::fmt;

/// A p4c target, as far as plans depend on it.
///
/// A plan is made with the port numbers of the topology and the entries of BMv2. The target converts it before
/// encoding, and converts port numbers back when entries are decoded.
pub trait P4Target: fmt::Debug {
    /// Returns the tables that a plan writes if the program has them.
    fn tables(&self) -> &'static [&'static str];

    /// Checks that the switch can serve the topology's ports with this program.
    ///
    /// # Errors
    ///
    /// A port has no device port number or shares it with another port, or the program cannot serve these ports.
    fn check(&self, topology: &Topology, ix: SwitchIx, p4info: &Index) -> Result<(), PlanError>;

    /// Converts a port of the topology to the port number of the device.
    ///
    /// # Errors
    ///
    /// The port has no number.
    fn device_port(&self, switch: &str, port: u16) -> Result<u16, PlanError>;

    /// Converts a port number of the device to the port of the topology.
    fn topology_port(&self, switch: &str, number: u16) -> Option<u16>;

    /// Returns the routes with groups and numbers of trees that programs for the target can select from.
    ///
    /// # Errors
    ///
    /// There are too many trees.
    fn routes<'a>(&self, routes: &'a Routes) -> Result<Cow<'a, Routes>, PlanError>;

    /// Converts the entries of one switch to the target's tables. Port numbers remain those of the topology.
    ///
    /// # Errors
    ///
    /// A value cannot be represented.
    fn entries(&self, entries: Vec<Entry>) -> Result<Vec<Entry>, PlanError>;

    /// Returns the clone sessions to which the entries refer.
    fn sessions(&self, entries: &[Entry]) -> Vec<CloneSession>;
}

/// A clone session; `port` is a port number of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloneSession {
    pub id: u16,
    pub port: u16,
    /// Number of bytes of each packet that are copied; 0: all.
    pub bytes: u16,
}

/// BMv2's v1model, the form in which plans are made: no conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bmv2;

impl P4Target for Bmv2 {
    fn tables(&self) -> &'static [&'static str] {
        &TABLES
    }

    fn check(&self, _: &Topology, _: SwitchIx, _: &Index) -> Result<(), PlanError> {
        Ok(())
    }

    fn device_port(&self, _: &str, port: u16) -> Result<u16, PlanError> {
        Ok(port)
    }

    fn topology_port(&self, _: &str, number: u16) -> Option<u16> {
        Some(number)
    }

    fn routes<'a>(&self, routes: &'a Routes) -> Result<Cow<'a, Routes>, PlanError> {
        Ok(Cow::Borrowed(routes))
    }

    fn entries(&self, entries: Vec<Entry>) -> Result<Vec<Entry>, PlanError> {
        Ok(entries)
    }

    fn sessions(&self, _: &[Entry]) -> Vec<CloneSession> {
        Vec::new()
    }
}

/// The target of all switches of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetConfig {
    /// BMv2, or another switch that runs its JSON.
    Bmv2(Bmv2),
    Tofino(Tofino),
}

impl Default for TargetConfig {
    fn default() -> TargetConfig {
        TargetConfig::Bmv2(Bmv2)
    }
}

impl TargetConfig {
    pub fn target(&self) -> &dyn P4Target {
        match self {
            TargetConfig::Bmv2(it) => it,
            TargetConfig::Tofino(it) => it,
        }
    }
}
