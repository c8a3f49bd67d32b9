//! BMv2.

use super::super::entry::Entry;
use super::super::error::PlanError;
use super::p4_target::{CloneSession, P4Target};
use crate::flood::Meter;
use crate::route_table::Routes;
use crate::topology::{SwitchIx, Topology};
use p4runtime::p4info::Index;
use std::borrow::Cow;

/// BMv2's v1model, the form in which plans are made: no conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bmv2;

impl P4Target for Bmv2 {
    fn check_ports(&self, _: &Topology, _: SwitchIx, _: &Index) -> Result<(), PlanError> {
        Ok(())
    }

    fn device_port(&self, _: &str, port: u16) -> Result<u16, PlanError> {
        Ok(port)
    }

    fn topology_port(&self, _: &str, number: u16) -> Option<u16> {
        Some(number)
    }

    fn adapt_routes<'a>(&self, routes: &'a Routes) -> Result<Cow<'a, Routes>, PlanError> {
        Ok(Cow::Borrowed(routes))
    }

    fn queue_limit(&self, bytes: u32) -> Result<u32, PlanError> {
        Ok(bytes)
    }

    fn meter(&self, meter: Meter) -> Meter {
        meter
    }

    fn clone_sessions(&self, _: &[Entry]) -> Vec<CloneSession> {
        Vec::new()
    }
}
