//! The entries of the tables of which Tofino's programs have another form than BMv2's.

use super::super::entry::{Entry, Port, entry};
use super::super::switch_plan::SwitchPlan;
use super::ramp::EcnRamps;
use super::tofino::REPORT_SESSION;

/// Number of entries in `deflect_port` per port; a random number of four bits selects one.
const DEFLECT_SLOTS: usize = 16;
/// Maximum `lifetime`, and the program's default. The program compares time differences as signed 32-bit numbers.
const MAX_LIFETIME_NS: u64 = 0x7FFF_FFFF;
/// The program's `lifetime` is in ns, BMv2's in ticks of 1 us.
const NS_PER_TICK: u64 = 1_000;

pub(in super::super) fn ecn_ramp(switch: &SwitchPlan) -> Vec<Entry<'static>> {
    let mut ramps = EcnRamps::default();
    switch.profiled_ports().flat_map(|(_, ecn)| ramps.number(ecn).1).collect()
}

pub(in super::super) fn port_profile(switch: &SwitchPlan) -> Vec<Entry<'static>> {
    let mut ramps = EcnRamps::default();
    let mut profiles = Vec::new();
    for (port, ecn) in switch.profiled_ports() {
        let (ramp, _) = ramps.number(ecn);
        profiles.push(entry!(port_profile[profile_port = Port(port.number)] -> profile(
            rate_code = port.rate_code, ecn_ramp = ramp, fabric = port.leads_to_switch)));
    }
    profiles
}

pub(in super::super) fn deflect_port(switch: &SwitchPlan) -> Vec<Entry<'static>> {
    switch.deflecting.iter().flat_map(|port| port.slots(DEFLECT_SLOTS)).collect()
}

pub(in super::super) fn deflection(switch: &SwitchPlan) -> Vec<Entry<'static>> {
    let ports = switch.deflecting.iter();
    ports.map(|port| entry!(deflection[port = Port(port.number)] -> over(limit = port.limit))).collect()
}

/// The parameter of a register, not of a table.
pub(in super::super) fn lifetime(switch: &SwitchPlan) -> Vec<Entry<'static>> {
    let ns = match switch.deflection_lifetime() {
        0 => MAX_LIFETIME_NS,
        ticks => ticks.saturating_mul(NS_PER_TICK).min(MAX_LIFETIME_NS),
    };
    switch.deflecting.first().map(|_| entry!(lifetime[] -> set(value = ns))).into_iter().collect()
}

pub(in super::super) fn report(switch: &SwitchPlan) -> Vec<Entry<'static>> {
    let report = |_| entry!(report[] -> report_to(session = REPORT_SESSION));
    switch.deflecting.first().map(report).into_iter().collect()
}
