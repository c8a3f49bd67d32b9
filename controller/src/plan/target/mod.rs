//! What differs between the targets that programs are compiled for: ports, sizes of groups, and the form of some entries.

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

/// A target of p4c, as far as plans differ between targets.
///
/// A plan is made in the topology's port numbers and with BMv2's entries. The target changes it before it is encoded, and
/// takes a switch's numbers back when entries are decoded.
pub trait P4Target: fmt::Debug {
    /// Returns the tables whose entries a plan writes, in programs that have them.
    fn tables(&self) -> &'static [&'static str];

    /// Checks that a switch can have the topology's ports while it runs the program.
    ///
    /// # Errors
    ///
    /// A port has no number or shares one, or the program cannot serve these ports.
    fn check(&self, topology: &Topology, ix: SwitchIx, p4info: &Index) -> Result<(), PlanError>;

    /// Returns the number by which a switch knows a port.
    ///
    /// # Errors
    ///
    /// The port has none.
    fn device_port(&self, switch: &str, port: u16) -> Result<u16, PlanError>;

    /// Returns the port that a switch knows by a number.
    fn topology_port(&self, switch: &str, number: u16) -> Option<u16>;

    /// Returns the same routes with groups and numbers of trees that the program can select from.
    ///
    /// # Errors
    ///
    /// There are too many trees.
    fn routes<'a>(&self, routes: &'a Routes) -> Result<Cow<'a, Routes>, PlanError>;

    /// Returns the entries of a switch in the form of the target's tables, ports still being the topology's.
    ///
    /// # Errors
    ///
    /// A value has no form there.
    fn entries(&self, entries: Vec<Entry>) -> Result<Vec<Entry>, PlanError>;

    /// Returns the clone sessions to which these entries refer.
    fn sessions(&self, entries: &[Entry]) -> Vec<CloneSession>;
}

/// A clone session, with the switch's own port number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloneSession {
    /// The session.
    pub id: u16,
    /// Copies leave by this port.
    pub port: u16,
    /// Bytes of each packet that are copied; 0: all.
    pub bytes: u16,
}

/// BMv2's v1model, for which plans are made: nothing differs.
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

/// The target of a fabric's switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetConfig {
    /// BMv2, or a switch that runs its JSON.
    Bmv2(Bmv2),
    /// Tofino.
    Tofino(Tofino),
}

impl Default for TargetConfig {
    fn default() -> TargetConfig {
        TargetConfig::Bmv2(Bmv2)
    }
}

impl TargetConfig {
    /// Returns the target.
    pub fn target(&self) -> &dyn P4Target {
        match self {
            TargetConfig::Bmv2(it) => it,
            TargetConfig::Tofino(it) => it,
        }
    }
}
