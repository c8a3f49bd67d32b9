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
pub(crate) enum ForwardingDecision {
    NoRoute,
    Port {
        port: u16,
        /// MAC that the last switch writes into the packet; `None` on other switches.
        dst_mac: Option<[u8; 6]>,
    },
    /// ECMP or trees: `ports[n % ports.len()]`, where the selector derives `n` from the path hash.
    Select {
        selector: Selector,
        /// `None`: the member or the tree entry is missing, and the packet is dropped.
        ports: Vec<Option<u16>>,
    },
}

/// Stands for the decision of the hosts' own switch, which does not split their class.
const OWN_SWITCH: u32 = u32::MAX;

/// Hosts of one switch that no other switch distinguishes.
#[derive(Clone, Debug)]
pub(crate) struct HostClass {
    pub switch: SwitchIx,
    pub hosts: Vec<HostIx>,
}

/// The decisions of all switches.
pub(crate) struct CompiledRoutes {
    pub classes: Vec<HostClass>,
    /// For each host, the index of its class.
    pub class_of: Vec<usize>,
    /// `table[class][switch]` is an index into `decisions`.
    table: Vec<Vec<u32>>,
    decisions: Vec<ForwardingDecision>,
    /// For each host, the decision of the switch to which it is attached.
    pub local: Vec<ForwardingDecision>,
}

impl CompiledRoutes {
    pub(crate) fn new(topology: &Topology, routes: &Routes) -> CompiledRoutes {
        let mut by_address: Vec<HostIx> = topology.host_ixs().collect();
        by_address.sort_by_key(|&host| topology.host(host).ip);
        let mut interner = DecisionInterner::default();
        // Partition refinement: hosts of one switch start in one class, and each other switch splits classes whose
        // hosts it treats differently.
        let mut class_of: Vec<usize> = topology.hosts.iter().map(|host| host.switch.0 as usize).collect();
        let mut local = vec![ForwardingDecision::NoRoute; topology.hosts.len()];
        for (ix, switch_routes) in topology.switch_ixs().zip(&routes.switches) {
            let column = decisions_of_switch(topology, switch_routes, &by_address, &mut interner);
            for &host in &topology.switch(ix).hosts {
                local[host.0 as usize] = interner.decisions[column[host.0 as usize] as usize].clone();
            }
            let mut new_classes = BTreeMap::new();
            for host in topology.host_ixs() {
                let i = host.0 as usize;
                let decision = if topology.host(host).switch == ix { OWN_SWITCH } else { column[i] };
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
            let column = decisions_of_switch(topology, switch_routes, &by_address, &mut interner);
            for (row, class) in table.iter_mut().zip(&classes) {
                row.push(column[class.hosts[0].0 as usize]);
            }
        }
        CompiledRoutes { classes, class_of, table, decisions: interner.decisions, local }
    }

    /// Returns the decision of a switch for class `to`, whose hosts are on another switch.
    pub(crate) fn decision(&self, switch: SwitchIx, to: usize) -> &ForwardingDecision {
        &self.decisions[self.table[to][switch.0 as usize] as usize]
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

/// Returns the decision of one switch for every host, by host index, as indices of `interner`. `by_address` holds the
/// hosts sorted by address, so that a prefix covers a contiguous range. Prefixes are applied from short to long: longer
/// ones overwrite shorter ones.
fn decisions_of_switch(
    topology: &Topology,
    routes: &SwitchRoutes,
    by_address: &[HostIx],
    interner: &mut DecisionInterner,
) -> Vec<u32> {
    let mut column = vec![interner.intern(ForwardingDecision::NoRoute); by_address.len()];
    let mut prefixes: Vec<_> = routes.forward.iter().collect();
    prefixes.sort_by_key(|(prefix, _)| prefix.len);
    for (prefix, hop) in prefixes {
        let start = by_address.partition_point(|&host| topology.host(host).ip < prefix.addr);
        let covered = by_address[start..].iter().take_while(|&&host| prefix.contains(topology.host(host).ip));
        let decision = match *hop {
            NextHop::Deliver { port, mac } => Some(ForwardingDecision::Port { port, dst_mac: Some(mac) }),
            NextHop::Via { port } => Some(ForwardingDecision::Port { port, dst_mac: None }),
            NextHop::Ecmp { group, size, slice } => {
                let ports = routes.groups.get(&group);
                let member = |i| ports.and_then(|ports| ports.get(usize::from(i)).copied());
                // BMv2 treats a group size of 0 as 1.
                Some(ForwardingDecision::Select {
                    selector: Selector::Slice(slice),
                    ports: (0..size.max(1)).map(member).collect(),
                })
            }
            // The ports differ from host to host.
            NextHop::Trees { .. } => None,
        };
        let shared = decision.map(|decision| interner.intern(decision));
        for &host in covered {
            column[host.0 as usize] = shared.unwrap_or_else(|| {
                let ip = topology.host(host).ip;
                // 0 counts as 1, as in `PathHash::tree`.
                let count = if let NextHop::Trees { count } = hop { (*count).max(1) } else { 1 };
                let port =
                    |tree: u8| routes.trees.get(usize::from(tree)).and_then(|table| table.get(&ip).copied());
                let ports = (0..count).map(port).collect();
                interner.intern(ForwardingDecision::Select { selector: Selector::FullHash, ports })
            });
        }
    }
    column
}
