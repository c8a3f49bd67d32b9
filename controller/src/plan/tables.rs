//! The tables that the controller fills, and their entries on one switch.

use super::entry::{Entry, Phase, Port, entry};
use super::priority::{EscapeClass, PacketClass, escape_classes};
use super::switch_plan::{DEFLECTION, DeflectingPort, PortPlan, SwitchPlan};
use super::target::{TargetConfig, tofino_tables};
use crate::routes::NextHop;
use crate::thresholds::EcnRamp;
use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;

/// Table of routes by destination prefix.
pub const FORWARD: &str = "forward";
/// Table that maps an ingress port to the multicast group for POLICY packets; programs without it do not flood them.
pub(super) const POLICY_FLOOD: &str = "policy_flood";

/// A table that the controller fills.
#[derive(Clone, Copy)]
pub struct Table {
    pub(super) name: &'static str,
    /// The only target whose programs have the table in this form; `None`: all do.
    target: Option<fn(&TargetConfig) -> bool>,
    /// Programs without the table do without its entries.
    is_optional: bool,
    entries: fn(&SwitchPlan) -> Vec<Entry<'static>>,
}

/// The tables that the controller fills, in the order in which it fills empty ones: a table follows those to which its
/// entries refer. Entries of tables that are not listed belong to other controllers.
const TABLES: [Table; 23] = [
    Table::new("switch_identity", |s| {
        vec![entry!(switch_identity[] -> identify(switch_id = s.switch().switch_id))]
    })
    .optional(),
    Table::new("int_refresh", |s| {
        let ticks = s.options.int_refresh.into_iter();
        ticks.map(|ticks| entry!(int_refresh[] -> refresh_every(ticks = ticks))).collect()
    }),
    Table::new("traffic_class", |s| {
        let class = |(packets, &priority): (&PacketClass, &u8)| {
            let &PacketClass { kind, is_express } = packets;
            entry!(traffic_class[kind = kind, express = is_express] -> classify(priority = priority))
        };
        s.options.classes.iter().map(class).collect()
    }),
    // Weighted queues are numbered from 1, and so are the DSCPs that select them.
    Table::new("data_class", |s| {
        let queues = (1..=s.options.weights.len()).map(|queue| queue as u8);
        queues.map(|queue| entry!(data_class[dscp = queue] -> set_priority(priority = queue))).collect()
    }),
    Table::new("port_profile", |s| {
        let profile = |(port, ecn): (&PortPlan, EcnRamp)| {
            entry!(port_profile[profile_port = Port(port.number)] -> profile(
                rate_code = port.rate_code, ecn_kmin = ecn.kmin, ecn_kmax = ecn.kmax, ecn_slope = ecn.slope,
                fabric = port.leads_to_switch))
        };
        s.profiled_ports().map(profile).collect()
    })
    .only(TargetConfig::is_bmv2),
    Table::new("ecn_ramp", tofino_tables::ecn_ramp).only(TargetConfig::is_tofino),
    Table::new("port_profile", tofino_tables::port_profile).only(TargetConfig::is_tofino),
    // Port numbers serve as ids of multicast groups.
    Table::new(POLICY_FLOOD, |s| {
        let flood = |(&port, _): (&u16, &Vec<u16>)| {
            let meter = s.flood_meter(port)?;
            let flood = entry!(policy_flood[port = Port(port)] -> flood(group = port));
            // The group gets its new ports last.
            Some(Entry { meter: Some(meter), phase: Phase::Last, ..flood })
        };
        s.routes().flood.iter().filter_map(flood).collect()
    })
    .optional(),
    Table::new("escape_class", |s| {
        let class = |class| {
            let EscapeClass { tokens, escape, detour } = class;
            entry!(escape_class[tokens = tokens] -> wait_in(escape = escape, detour = detour))
        };
        s.deflection_tokens().into_iter().flat_map(escape_classes).map(class).collect()
    }),
    Table::new("deflect_port", |s| {
        s.deflecting.iter().flat_map(|port| port.slots(port.candidates.len())).collect()
    })
    .only(TargetConfig::is_bmv2),
    Table::new("deflect_port", tofino_tables::deflect_port).only(TargetConfig::is_tofino),
    Table::new(DEFLECTION, |s| {
        let over = |port: &DeflectingPort| {
            entry!(deflection[port = Port(port.number)] -> over(
                limit = port.limit, ports = port.candidates.len() as u16, ticks = s.deflection_lifetime()))
        };
        s.deflecting.iter().map(over).collect()
    })
    .only(TargetConfig::is_bmv2),
    Table::new(DEFLECTION, tofino_tables::deflection).only(TargetConfig::is_tofino),
    Table::new("rocc_port", |s| s.port_params("rocc_port")),
    Table::new("rcp_port", |s| s.port_params("rcp_port")),
    Table::new("credit_port", |s| s.port_params("credit_port")),
    Table::new("int_threshold", |s| s.port_params("int_threshold")),
    Table::new("queue_share", |s| {
        let shares = |port: &PortPlan| {
            let port = Port(port.number);
            (1u8..).zip(shares(&s.options.weights)).map(move |(priority, share)| {
                entry!(queue_share[port = port, priority = priority] -> set_share(share = share))
            })
        };
        s.ports.iter().flat_map(shares).collect()
    }),
    Table::new("member", |s| {
        let members = |(&group, ports): (&u16, &Vec<u16>)| {
            let member = |(index, &port): (u16, &u16)| entry!(member[group = group, index = index] -> member_port(port = Port(port)));
            (0..).zip(ports).map(member).collect::<Vec<_>>()
        };
        s.planned_routes().flat_map(|routes| &routes.groups).flat_map(members).collect()
    }),
    Table::new("tree_route", |s| {
        let routes = |(tree, table): (u8, &BTreeMap<Ipv4Addr, u16>)| {
            let route = |(&dst, &port)| {
                entry!(tree_route[tree = tree, dst_addr = dst] -> tree_via(port = Port(port)))
                    .in_phase(Phase::Tree(tree, dst))
            };
            table.iter().map(route).collect::<Vec<_>>()
        };
        s.planned_routes().flat_map(|routes| (0..).zip(&routes.trees)).flat_map(routes).collect()
    }),
    Table::new(FORWARD, |s| {
        let route = |(&prefix, &hop)| {
            let entry = match hop {
                NextHop::Deliver { port, mac } => {
                    entry!(forward[dst_addr = prefix] -> deliver(port = Port(port), dst_mac = mac))
                }
                NextHop::Via { port } => entry!(forward[dst_addr = prefix] -> via(port = Port(port))),
                NextHop::Ecmp { group, size, slice } => {
                    entry!(forward[dst_addr = prefix] -> spread(group = group, size = size, slice = slice))
                }
                NextHop::Trees { count } => entry!(forward[dst_addr = prefix] -> trees(count = count)),
            };
            // `trees` refers to all trees at once.
            let is_trees = matches!(hop, NextHop::Trees { .. });
            entry.in_phase(if is_trees { Phase::Last } else { Phase::Prefix(prefix) })
        };
        s.planned_routes().flat_map(|routes| &routes.forward).map(route).collect()
    }),
    Table::new("lifetime", tofino_tables::lifetime).only(TargetConfig::is_tofino),
    // Reports begin when all other entries have been written.
    Table::new("report", tofino_tables::report).only(TargetConfig::is_tofino),
];

impl Table {
    /// A table with these entries on each switch. The program must have it if there are any.
    pub const fn new(name: &'static str, entries: fn(&SwitchPlan) -> Vec<Entry<'static>>) -> Table {
        Table { name, target: None, is_optional: false, entries }
    }

    /// The table is filled only if the program has it.
    pub const fn optional(self) -> Table {
        Table { is_optional: true, ..self }
    }

    const fn only(self, target: fn(&TargetConfig) -> bool) -> Table {
        Table { target: Some(target), ..self }
    }

    /// Returns the entries on a switch; none if the program has no such table and may do without.
    pub(super) fn entries(&self, switch: &SwitchPlan) -> Vec<Entry<'static>> {
        if self.is_optional && !switch.has(self.name) { Vec::new() } else { (self.entries)(switch) }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Returns the tables of a target that the controller fills.
pub(super) fn tables(target: &TargetConfig) -> impl Iterator<Item = &'static Table> {
    TABLES.iter().filter(|table| table.target.is_none_or(|is_target| is_target(target)))
}

/// Returns each queue's share of the port rate in units of 1/4096, at least 1. A single queue needs no share.
fn shares(weights: &[u16]) -> impl Iterator<Item = u16> + '_ {
    let sum: u32 = weights.iter().map(|&weight| u32::from(weight)).sum();
    let share = move |&weight| (u32::from(weight) * 4096 / sum.max(1)).clamp(1, 4095) as u16;
    weights.iter().filter(|_| weights.len() > 1).map(share)
}
