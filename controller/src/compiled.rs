//! Routes compiled for whole-fabric checks: the forwarding decision of every switch for every class of hosts.
//!
//! Hosts of one switch that all other switches treat alike form a class, usually a rack. Checks then iterate over pairs
//! of classes instead of pairs of hosts.

use crate::residue::Selector;
use crate::route_table::{NextHop, Routes, SwitchRoutes};
use crate::topology::{HostIx, SwitchIx, Topology};
use std::collections::BTreeMap;

/// The forwarding decision of a switch for packets to a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForwardingDecision {
    NoRoute,
    /// Forward by this port. The MAC is the destination's, written by the last switch.
    Port(u16, Option<[u8; 6]>),
    /// ECMP or trees: `ports[n % ports.len()]`, where the selector derives `n` from the path hash. `None`: the selected
    /// member or tree entry is missing and the packet is dropped.
    Select(Selector, Vec<Option<u16>>),
}

/// Hosts of one switch that no other switch distinguishes.
#[derive(Clone, Debug)]
pub struct HostClass {
    pub switch: SwitchIx,
    pub hosts: Vec<HostIx>,
}

/// The decisions of all switches. `class_of` maps a host index to the index of its class.
pub struct CompiledRoutes {
    pub classes: Vec<HostClass>,
    pub class_of: Vec<usize>,
    /// `table[class][switch]` is an index into `decisions`.
    table: Vec<Vec<u32>>,
    decisions: Vec<ForwardingDecision>,
    /// For each host, the decision of the switch to which it is attached.
    pub local: Vec<ForwardingDecision>,
}

impl CompiledRoutes {
    pub fn new(topology: &Topology, routes: &Routes) -> CompiledRoutes {
        let mut order: Vec<HostIx> = topology.host_ixs().collect();
        order.sort_by_key(|&h| topology.host(h).ip);
        let mut interner = DecisionInterner::default();
        // Partition refinement: hosts of one switch start in one class, and each other switch splits classes whose
        // hosts it treats differently.
        let mut class_of: Vec<usize> = topology.hosts.iter().map(|h| h.switch.0 as usize).collect();
        let mut local = vec![ForwardingDecision::NoRoute; topology.hosts.len()];
        for (ix, switch_routes) in topology.switch_ixs().zip(&routes.switches) {
            let column = decisions_of_switch(topology, switch_routes, &order, &mut interner);
            for &host in &topology.switch(ix).hosts {
                local[host.0 as usize] = interner.decisions[column[host.0 as usize] as usize].clone();
            }
            let mut new_classes = BTreeMap::new();
            for host in topology.host_ixs() {
                let i = host.0 as usize;
                // The hosts' own switch does not split their class.
                let decision = if topology.host(host).switch == ix { u32::MAX } else { column[i] };
                let next = new_classes.len();
                class_of[i] = *new_classes.entry((class_of[i], decision)).or_insert(next);
            }
        }
        let count = class_of.iter().max().map_or(0, |&last| last + 1);
        let mut classes: Vec<HostClass> = vec![HostClass { switch: SwitchIx(0), hosts: Vec::new() }; count];
        for host in topology.host_ixs() {
            let class = &mut classes[class_of[host.0 as usize]];
            class.switch = topology.host(host).switch;
            class.hosts.push(host);
        }
        // The first host of a class represents the class.
        let mut table = vec![Vec::with_capacity(routes.switches.len()); count];
        for switch_routes in &routes.switches {
            let column = decisions_of_switch(topology, switch_routes, &order, &mut interner);
            for (row, class) in table.iter_mut().zip(&classes) {
                row.push(column[class.hosts[0].0 as usize]);
            }
        }
        CompiledRoutes { classes, class_of, table, decisions: interner.decisions, local }
    }

    /// Returns the decision of switch `at` for class `to`, whose hosts are on another switch.
    pub fn decision(&self, at: SwitchIx, to: usize) -> &ForwardingDecision {
        &self.decisions[self.table[to][at.0 as usize] as usize]
    }
}

/// Stores each distinct decision once.
#[derive(Default)]
struct DecisionInterner {
    decisions: Vec<ForwardingDecision>,
    indices: BTreeMap<ForwardingDecision, u32>,
}

impl DecisionInterner {
    /// Returns the index of the decision in `decisions`.
    fn intern(&mut self, decision: ForwardingDecision) -> u32 {
        if let Some(&index) = self.indices.get(&decision) {
            return index;
        }
        let index = self.decisions.len() as u32;
        self.decisions.push(decision.clone());
        self.indices.insert(decision, index);
        index
    }
}

/// Returns the decision of one switch for every host, by host index. `order` holds the hosts sorted by address, so that
/// a prefix covers a contiguous range. Prefixes are applied from short to long: longer ones overwrite shorter ones.
fn decisions_of_switch(
    topology: &Topology,
    routes: &SwitchRoutes,
    order: &[HostIx],
    interner: &mut DecisionInterner,
) -> Vec<u32> {
    let mut column = vec![interner.intern(ForwardingDecision::NoRoute); order.len()];
    let mut prefixes: Vec<_> = routes.forward.iter().collect();
    prefixes.sort_by_key(|(prefix, _)| prefix.len);
    for (prefix, hop) in prefixes {
        let start = order.partition_point(|&h| topology.host(h).ip < prefix.addr);
        let covered = order[start..].iter().take_while(|&&h| prefix.contains(topology.host(h).ip));
        let decision = match *hop {
            NextHop::Deliver { port, mac } => Some(ForwardingDecision::Port(port, Some(mac))),
            NextHop::Via { port } => Some(ForwardingDecision::Port(port, None)),
            NextHop::Ecmp { group, size, slice } => {
                let ports = routes.groups.get(&group);
                let member = |i| ports.and_then(|ports| ports.get(usize::from(i)).copied());
                // BMv2 treats a group size of 0 as 1.
                Some(ForwardingDecision::Select(
                    Selector::Slice(slice),
                    (0..size.max(1)).map(member).collect(),
                ))
            }
            // The ports differ from host to host.
            NextHop::Trees { .. } => None,
        };
        let shared = decision.map(|decision| interner.intern(decision));
        for &host in covered {
            column[host.0 as usize] = shared.unwrap_or_else(|| {
                let ip = topology.host(host).ip;
                let count = if let NextHop::Trees { count } = hop { (*count).max(1) } else { 1 };
                let port =
                    |tree: u8| routes.trees.get(usize::from(tree)).and_then(|table| table.get(&ip).copied());
                interner
                    .intern(ForwardingDecision::Select(Selector::FullHash, (0..count).map(port).collect()))
            });
        }
    }
    column
}
