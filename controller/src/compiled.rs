//! Routes with everything looked up: what each switch does with each destination.
//!
//! Hosts that every switch but their own treats alike form a class (a rack, mostly), so that
//! whole-fabric checks need not look at pairs of hosts.

use crate::residue::Selector;
use crate::route_table::{NextHop, Routes, SwitchRoutes};
use crate::topology::{HostIx, SwitchIx, Topology};
use std::collections::BTreeMap;

/// The treatment of packets for a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForwardingDecision {
    /// Drops it.
    NoRoute,
    /// One port, and the MAC it writes if it delivers.
    Port(u16, Option<[u8; 6]>),
    /// `ports[intern % ports.len()]`; `None` is a member or tree entry that is not there.
    Select(Selector, Vec<Option<u16>>),
}

/// Hosts on one switch which no other switch tells apart.
#[derive(Clone, Debug)]
pub struct HostClass {
    pub switch: SwitchIx,
    /// Never empty.
    pub hosts: Vec<HostIx>,
}

/// The routes of a fabric, looked up.
pub struct CompiledRoutes {
    pub classes: Vec<HostClass>,
    pub class_of: Vec<usize>,
    /// By class, then switch: index into `decisions`.
    table: Vec<Vec<u32>>,
    decisions: Vec<ForwardingDecision>,
    /// By host: what its own switch does.
    pub local: Vec<ForwardingDecision>,
}

impl CompiledRoutes {
    pub fn new(topology: &Topology, routes: &Routes) -> CompiledRoutes {
        let mut order: Vec<HostIx> = topology.host_ixs().collect();
        order.sort_by_key(|&h| topology.host(h).ip);
        let mut pool = DecisionInterner::default();
        // First which hosts belong together: two hosts part where a switch parts them.
        let mut class_of: Vec<usize> = topology.hosts.iter().map(|h| h.switch.0 as usize).collect();
        let mut local = vec![ForwardingDecision::NoRoute; topology.hosts.len()];
        for (ix, it) in topology.switch_ixs().zip(&routes.switches) {
            let column = decisions_of_switch(topology, it, &order, &mut pool);
            for &host in &topology.switch(ix).hosts {
                local[host.0 as usize] = pool.decisions[column[host.0 as usize] as usize].clone();
            }
            let mut split = BTreeMap::new();
            for host in topology.host_ixs() {
                let i = host.0 as usize;
                let seen = if topology.host(host).switch == ix { u32::MAX } else { column[i] };
                let fresh = split.len();
                class_of[i] = *split.entry((class_of[i], seen)).or_insert(fresh);
            }
        }
        let count = class_of.iter().max().map_or(0, |&last| last + 1);
        let mut classes: Vec<HostClass> = vec![HostClass { switch: SwitchIx(0), hosts: Vec::new() }; count];
        for host in topology.host_ixs() {
            let class = &mut classes[class_of[host.0 as usize]];
            class.switch = topology.host(host).switch;
            class.hosts.push(host);
        }
        // Then what every switch does with each class.
        let mut table = vec![Vec::with_capacity(routes.switches.len()); count];
        for it in &routes.switches {
            let column = decisions_of_switch(topology, it, &order, &mut pool);
            for (row, class) in table.iter_mut().zip(&classes) {
                row.push(column[class.hosts[0].0 as usize]);
            }
        }
        CompiledRoutes { classes, class_of, table, decisions: pool.decisions, local }
    }

    /// Returns the treatment at `at` of packets for a class on another switch.
    pub fn decision(&self, at: SwitchIx, to: usize) -> &ForwardingDecision {
        &self.decisions[self.table[to][at.0 as usize] as usize]
    }
}

/// Every different decision once.
#[derive(Default)]
struct DecisionInterner {
    decisions: Vec<ForwardingDecision>,
    numbers: BTreeMap<ForwardingDecision, u32>,
}

impl DecisionInterner {
    fn intern(&mut self, decision: ForwardingDecision) -> u32 {
        if let Some(&number) = self.numbers.get(&decision) {
            return number;
        }
        let number = self.decisions.len() as u32;
        self.decisions.push(decision.clone());
        self.numbers.insert(decision, number);
        number
    }
}

/// One switch's decision for every host. `order` holds the hosts by address: a prefix is a range of it, and
/// longer prefixes, coming later, overwrite shorter ones.
fn decisions_of_switch(
    topology: &Topology,
    it: &SwitchRoutes,
    order: &[HostIx],
    pool: &mut DecisionInterner,
) -> Vec<u32> {
    let mut column = vec![pool.intern(ForwardingDecision::NoRoute); order.len()];
    let mut prefixes: Vec<_> = it.forward.iter().collect();
    prefixes.sort_by_key(|(prefix, _)| prefix.len);
    for (prefix, hop) in prefixes {
        let start = order.partition_point(|&h| topology.host(h).ip < prefix.addr);
        let covered = order[start..].iter().take_while(|&&h| prefix.contains(topology.host(h).ip));
        let same = match *hop {
            NextHop::Deliver { port, mac } => Some(ForwardingDecision::Port(port, Some(mac))),
            NextHop::Via { port } => Some(ForwardingDecision::Port(port, None)),
            NextHop::Ecmp { group, size, slice } => {
                let ports = it.groups.get(&group);
                let member = |i| ports.and_then(|ports| ports.get(usize::from(i)).copied());
                // BMv2 takes a size of 0 as 1.
                Some(ForwardingDecision::Select(
                    Selector::Slice(slice),
                    (0..size.max(1)).map(member).collect(),
                ))
            }
            NextHop::Trees { .. } => None,
        };
        let same = same.map(|decision| pool.intern(decision));
        for &host in covered {
            column[host.0 as usize] = same.unwrap_or_else(|| {
                let ip = topology.host(host).ip;
                let count = if let NextHop::Trees { count } = hop { (*count).max(1) } else { 1 };
                let port =
                    |tree: u8| it.trees.get(usize::from(tree)).and_then(|table| table.get(&ip).copied());
                pool.intern(ForwardingDecision::Select(Selector::FullHash, (0..count).map(port).collect()))
            });
        }
    }
    column
}
