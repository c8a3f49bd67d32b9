//! Tofino, with the programs of `p4src/tna`.

use super::super::entry::Entry;
use super::super::error::PlanError;
use super::p4_target::{CloneSession, P4Target};
use super::ports::PortMap;
use super::ramp::{CELL_BYTES, MAX_DEPTH_CELLS};
use crate::flood::Meter;
use crate::route_table::{NextHop, Routes, SwitchRoutes};
use crate::topology::{SwitchIx, Topology};
use p4runtime::p4info::Index;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Maximum number of trees: the largest power of two in eight bits.
const MAX_TREES: usize = 128;
/// Table of the clone session by which egress reports queue lengths to ingress.
const REPORT: &str = "report";
/// Id of this clone session.
pub(super) const REPORT_SESSION: u16 = 1;
/// Length to which a report is truncated. Ingress needs nothing of the original packet, so this is the minimum frame
/// size.
const REPORT_BYTES: u16 = 64;
/// Meters count in kbit.
const BYTES_PER_KBIT: u64 = 125;
/// The low bits of a device port number are the port in the pipe, the others the number of the pipe.
const PIPE_PORT_BITS: u16 = 7;

/// The chip, which determines the device port numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chip {
    Tofino1,
    #[default]
    Tofino2,
}

/// Device port numbers of the front ports of the first pipe, and of its special ports.
struct PipePorts {
    first: u16,
    count: u16,
    cpu: u16,
    recirculation: u16,
}

impl Chip {
    /// Returns the port numbers of the p4studio model (`pkgsrc/bf-diags/ptf-tests/base/ports.json` and
    /// `ports_tof2.json` of p4lang/open-p4studio). The special ports are those of `p4src/tna/include/tofino.p4`.
    fn ports(self) -> PipePorts {
        match self {
            Chip::Tofino1 => PipePorts { first: 0, count: 64, cpu: 192, recirculation: 68 },
            Chip::Tofino2 => PipePorts { first: 8, count: 64, cpu: 0, recirculation: 6 },
        }
    }
}

/// Tofino with the programs of `p4src/tna`.
///
/// - Sizes of groups and numbers of trees are powers of two: a group of three has four members, the first of them
///   twice.
/// - ECN marking follows a staircase with one entry of `ecn_ramp` per step; queue lengths count units of 80 bytes.
/// - Deflection has its lifetime as a register parameter in ns, 16 candidate slots per port, and reports of queue
///   lengths by a clone session to the recirculation port.
/// - Meters count kilobits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tofino {
    pub chip: Chip,
    /// Device port numbers. If empty, port 1 is the first front port of the first pipe, and so on.
    pub ports: PortMap,
}

impl Tofino {
    fn recirculation(&self) -> u16 {
        self.ports.recirculation.unwrap_or(self.chip.ports().recirculation)
    }
}

impl P4Target for Tofino {
    fn check_ports(&self, topology: &Topology, ix: SwitchIx, p4info: &Index) -> Result<(), PlanError> {
        let switch = topology.switch(ix);
        let name = || switch.name.clone();
        let mut numbers: BTreeMap<u16, u16> = BTreeMap::new();
        for (port, _) in switch.ports() {
            let number = self.device_port(&switch.name, port)?;
            if let Some(other) = numbers.insert(number, port) {
                return Err(PlanError::DuplicatePort { switch: name(), ports: (other, port), number });
            }
            let reason = match number {
                _ if number == self.chip.ports().cpu => "the CPU port",
                _ if number == self.recirculation() => "the recirculation port",
                // A chip has at most four pipes.
                _ if number >> (PIPE_PORT_BITS + 2) != 0 => "not a port of this chip",
                _ => continue,
            };
            return Err(PlanError::PortTaken { switch: name(), port, number, reason });
        }
        // Each pipe has its own instance of a register, so ports of different pipes cannot share the state in these.
        let register =
            ["waiting", "all_int_time"].into_iter().find(|register| p4info.registers.named(register).is_ok());
        let mut pipes = numbers.iter().map(|(number, port)| (number >> PIPE_PORT_BITS, *port));
        let first = pipes.next();
        match (register, first, pipes.find(|(pipe, _)| first.is_some_and(|first| first.0 != *pipe))) {
            (Some(register), Some((_, one)), Some((_, other))) => {
                Err(PlanError::Pipes { switch: name(), ports: (one, other), register })
            }
            _ => Ok(()),
        }
    }

    fn device_port(&self, switch: &str, port: u16) -> Result<u16, PlanError> {
        let PipePorts { first, count, .. } = self.chip.ports();
        let default_number = || port.checked_sub(1).filter(|&index| index < count).map(|index| first + index);
        let number = if self.ports.is_empty() { default_number() } else { self.ports.number(switch, port) };
        number.ok_or_else(|| PlanError::NoPort { switch: switch.to_owned(), port })
    }

    fn topology_port(&self, switch: &str, number: u16) -> Option<u16> {
        if self.ports.is_empty() {
            let PipePorts { first, count, .. } = self.chip.ports();
            return number.checked_sub(first).filter(|&index| index < count).map(|index| index + 1);
        }
        self.ports.port(switch, number)
    }

    fn adapt_routes<'a>(&self, routes: &'a Routes) -> Result<Cow<'a, Routes>, PlanError> {
        let switches = routes.switches.iter().map(powers_of_two).collect::<Result<_, _>>()?;
        Ok(Cow::Owned(Routes { method: routes.method, switches }))
    }

    fn queue_limit(&self, bytes: u32) -> Result<u32, PlanError> {
        let max = u32::from(MAX_DEPTH_CELLS - 1) * CELL_BYTES;
        let cells = bytes / CELL_BYTES;
        let error = PlanError::Depth { what: "deflection: threshold", max };
        if cells < MAX_DEPTH_CELLS.into() { Ok(cells) } else { Err(error) }
    }

    fn meter(&self, Meter { rate, burst }: Meter) -> Meter {
        // At least one unit: a meter with rate 0 would drop everything.
        let rate = (rate / BYTES_PER_KBIT).max(1) * BYTES_PER_KBIT;
        Meter { rate, burst: burst.div_ceil(BYTES_PER_KBIT) * BYTES_PER_KBIT }
    }

    fn clone_sessions(&self, entries: &[Entry]) -> Vec<CloneSession> {
        let reports = entries.iter().filter(|entry| entry.table == REPORT);
        let (port, bytes) = (self.recirculation(), REPORT_BYTES);
        reports.map(|_| CloneSession { id: REPORT_SESSION, port, bytes }).collect()
    }
}

/// Repeats the members of groups and the trees up to the next power of two.
fn powers_of_two(routes: &SwitchRoutes) -> Result<SwitchRoutes, PlanError> {
    let mut routes = routes.clone();
    for members in routes.groups.values_mut() {
        pad_to_power_of_two(members);
    }
    pad_to_power_of_two(&mut routes.trees);
    for hop in routes.forward.values_mut() {
        match hop {
            NextHop::Ecmp { size, .. } => *size = size.checked_next_power_of_two().unwrap_or(u16::MAX),
            NextHop::Trees { count } => {
                let trees = usize::from(*count).next_power_of_two();
                let new_count = u8::try_from(trees).ok().filter(|_| trees <= MAX_TREES);
                *count = new_count.ok_or(PlanError::Trees { count: *count, max: MAX_TREES })?;
            }
            NextHop::Deliver { .. } | NextHop::Via { .. } => {}
        }
    }
    Ok(routes)
}

/// Repeats the elements from the start until their number is a power of two.
fn pad_to_power_of_two<T: Clone>(items: &mut Vec<T>) {
    let count = items.len();
    if count > 0 {
        let more: Vec<T> =
            items.iter().cycle().skip(count).take(count.next_power_of_two() - count).cloned().collect();
        items.extend(more);
    }
}
