//! Proves that PFC cannot deadlock the fabric: the channel dependency graph has no cycle (docs/controller.md).
//!
//! The terms: a *rack* is a switch with hosts. A *class* is one of the eight priority classes that PFC distinguishes,
//! each with a queue of its own. A packet has a number of *tokens*, and each deflection takes one.
//!
//! With priority flow control (PFC) a packet waits until the next switch has room in the packet's class. A *channel*
//! is one direction of a link between switches, in one class. Channel A *depends* on channel B if a packet that
//! arrived on A may wait for room in B. If the dependency graph is acyclic, some packet can always advance (Dally and
//! Seitz 1987): there is no deadlock, whatever the traffic and the buffer sizes.
//!
//! The walk follows every path that the tables allow between any two racks, with every deflection that a packet's
//! tokens allow at every switch. It ignores hash values and is therefore conservative: a reported cycle may need a
//! combination of paths that no hash selects, but no possible cycle is missed.

use crate::deflect::{candidates, ports};
use crate::plan::{DATA_PRIORITY, EscapeClass, escape_classes};
use crate::routes::{NextHop, Routes, SwitchRoutes};
use crate::thresholds::{DeflectionConfig, MAX_DEFLECTIONS};
use crate::topology::{Endpoint, HOST_PORT, Node, SwitchIx, Topology};
use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;

/// Number of priority classes that PFC distinguishes.
const PFC_CLASSES: usize = 8;

/// Size of the dependency graph that was proved acyclic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelProof {
    /// Number of channels that packets use.
    pub channels: usize,
    /// Number of edges of the graph.
    pub dependencies: usize,
}

/// A cycle in the dependency graph: each channel depends on the next, and the last on the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelCycle(Vec<ChannelId>);

/// A channel as messages name it: egress port of a switch, and class.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ChannelId {
    switch: String,
    port: u16,
    class: u8,
}

impl ChannelCycle {
    /// Returns the classes of the channels, in the order of the cycle.
    pub fn classes(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.iter().map(|channel| channel.class)
    }

    /// Returns the switches of the cycle as `s1 -> s2 -> s3 -> s1`.
    pub fn switches(&self) -> String {
        let names: Vec<&str> =
            self.0.iter().chain(self.0.first()).map(|channel| channel.switch.as_str()).collect();
        names.join(" -> ")
    }
}

impl fmt::Display for ChannelCycle {
    /// Formats the cycle as `s1:3 (class 0) -> s4:1 (class 0) -> s1:3 (class 0)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, ChannelId { switch, port, class }) in self.0.iter().chain(self.0.first()).enumerate() {
            let arrow = if n == 0 { "" } else { " -> " };
            write!(f, "{arrow}{switch}:{port} (class {class})")?;
        }
        Ok(())
    }
}

/// Proves that the channel dependency graph of these routes is acyclic, so that PFC cannot deadlock. The proof
/// includes deflected packets in the classes of [`escape_classes`].
///
/// # Errors
///
/// Returns the first cycle that was found.
pub fn verify_channels(
    topology: &Topology,
    routes: &Routes,
    deflection: Option<&DeflectionConfig>,
) -> Result<ChannelProof, ChannelCycle> {
    let deflection = deflection.map(|config| {
        // `plan` rejects a configuration with more tokens.
        let tokens = config.tokens.min(MAX_DEFLECTIONS);
        DeflectionModel { tokens, at_hosts: config.at_hosts, classes: escape_classes(tokens).collect() }
    });
    prove(topology, routes, deflection.as_ref())
}

/// The deflections that the plan allows.
struct DeflectionModel {
    /// Maximum number of deflections per packet.
    tokens: u8,
    /// Packets are also deflected from ports that lead to hosts.
    at_hosts: bool,
    /// Indexed by the number of tokens that a packet still has.
    classes: Vec<EscapeClass>,
}

/// Walks every path and checks the dependency graph.
fn prove(
    topology: &Topology,
    routes: &Routes,
    deflection: Option<&DeflectionModel>,
) -> Result<ChannelProof, ChannelCycle> {
    let mut walk = ChannelWalk::new(topology, routes, deflection);
    for rack in topology.switch_ixs() {
        let Some(&host) = topology.switch(rack).hosts.first() else { continue };
        // One host per rack suffices: only the rack's own switch distinguishes its hosts.
        let destination = topology.host(host).ip;
        for tree in 0..trees_to(routes, destination) {
            walk.follow(destination, tree);
        }
    }
    walk.graph.check()
}

/// Returns the number of trees to a destination, or 1 if its routes do not use trees.
fn trees_to(routes: &Routes, destination: Ipv4Addr) -> usize {
    let count = |switch: &SwitchRoutes| match switch.lookup(destination) {
        Some((_, NextHop::Trees { count })) => usize::from(count),
        _ => 1,
    };
    routes.switches.iter().map(count).max().unwrap_or(1)
}

/// State of the walk: a packet that has arrived at a switch.
#[derive(Clone, Copy)]
struct PacketState {
    switch: SwitchIx,
    in_port: u16,
    /// Channel that the packet occupies; `None` if it came from a host.
    arrival_channel: Option<usize>,
    /// Number of deflections so far.
    deflected: u8,
}

/// A step of the walk: a packet leaves a switch.
struct Step {
    out_port: u16,
    /// Class in which the packet waits.
    class: u8,
    /// Number of deflections after the step.
    deflected: u8,
}

/// The walk over all paths of packets, which adds the dependencies between channels.
struct ChannelWalk<'a> {
    topology: &'a Topology,
    routes: &'a Routes,
    deflection: Option<&'a DeflectionModel>,
    /// Ports to which packets for each port may be deflected.
    candidates: BTreeMap<(SwitchIx, u16), Vec<u16>>,
    graph: ChannelDependencyGraph<'a>,
}

impl<'a> ChannelWalk<'a> {
    fn new(
        topology: &'a Topology,
        routes: &'a Routes,
        deflection: Option<&'a DeflectionModel>,
    ) -> ChannelWalk<'a> {
        let mut candidates_of = BTreeMap::new();
        for switch in topology.switch_ixs() {
            let Some(deflection) = deflection else { break };
            let ports = topology.switch(switch).ports().map(|(port, _)| port);
            for port in ports.filter(|&port| deflection.at_hosts || !topology.leads_to_host(switch, port)) {
                candidates_of.insert((switch, port), candidates(topology, routes, switch, port));
            }
        }
        ChannelWalk {
            topology,
            routes,
            deflection,
            candidates: candidates_of,
            graph: ChannelDependencyGraph::new(topology),
        }
    }

    /// Follows packets from all racks to one destination. If the routes use trees, follows only those of tree `tree`.
    fn follow(&mut self, destination: Ipv4Addr, tree: usize) {
        let next_ports: Vec<Vec<u16>> = self
            .topology
            .switch_ixs()
            .map(|switch| {
                let routes = self.routes.of(switch);
                match routes.lookup(destination) {
                    Some((_, NextHop::Trees { .. })) => routes
                        .trees
                        .get(tree)
                        .and_then(|tree| tree.get(&destination))
                        .copied()
                        .into_iter()
                        .collect(),
                    _ => ports(routes, destination),
                }
            })
            .collect();
        // A channel is visited once for each number of deflections, since this decides the further ones.
        let levels = self.deflection.map_or(0, |model| usize::from(model.tokens)) + 1;
        let mut seen = vec![false; self.graph.channels() * levels];
        let racks = self.topology.switch_ixs().filter(|&ix| !self.topology.switch(ix).hosts.is_empty());
        let start = |switch| PacketState { switch, in_port: HOST_PORT, arrival_channel: None, deflected: 0 };
        let mut stack: Vec<PacketState> = racks.map(start).collect();
        while let Some(packet) = stack.pop() {
            for &port in &next_ports[packet.switch.0 as usize] {
                for Step { out_port, class, deflected } in self.next_steps(packet, port) {
                    let Some((channel, end)) = self.graph.channel_out(packet.switch, out_port, class) else {
                        continue;
                    };
                    self.graph.add_dependency(packet.arrival_channel, channel);
                    let Node::Switch(switch) = end.node else { continue };
                    if !std::mem::replace(&mut seen[channel * levels + usize::from(deflected)], true) {
                        stack.push(PacketState {
                            switch,
                            in_port: end.port,
                            arrival_channel: Some(channel),
                            deflected,
                        });
                    }
                }
            }
        }
    }

    /// Returns the possible next steps of a packet whose route names `port`.
    fn next_steps(&self, packet: PacketState, port: u16) -> Vec<Step> {
        let PacketState { switch, in_port, deflected, .. } = packet;
        let classes_of = |model: &DeflectionModel| model.classes[usize::from(model.tokens - deflected)];
        let class = match self.deflection {
            Some(model) if deflected > 0 => classes_of(model).escape,
            _ => DATA_PRIORITY,
        };
        // A packet that was never deflected does not leave by its ingress port.
        if port == in_port && deflected == 0 {
            return Vec::new();
        }
        let mut steps = vec![Step { out_port: port, class, deflected }];
        if let Some(model) = self.deflection.filter(|model| model.tokens > deflected)
            && let Some(others) = self.candidates.get(&(switch, port))
        {
            let others = others.iter().filter(|&&other| other != in_port);
            let class = classes_of(model).detour;
            steps.extend(others.map(|&out_port| Step { out_port, class, deflected: deflected + 1 }));
        }
        steps
    }
}

/// The dependency graph. The index of a channel is the index of its direction times [`PFC_CLASSES`], plus its class.
struct ChannelDependencyGraph<'a> {
    topology: &'a Topology,
    /// For each switch, the index of the direction that leaves by port 0; the other ports follow.
    first_direction: Vec<usize>,
    directions: usize,
    /// For each channel, whether packets use it.
    used: Vec<bool>,
    /// For each channel, a bit set of the channels on which it depends. Bit 0 is the first channel that leaves the
    /// switch at the end of the channel: dependencies lead only to channels that leave this switch.
    dependencies: Vec<Vec<u64>>,
}

impl<'a> ChannelDependencyGraph<'a> {
    fn new(topology: &'a Topology) -> ChannelDependencyGraph<'a> {
        let mut directions = 0;
        let first_direction = topology.switches.iter().map(|switch| {
            let last = switch.ports().map(|(port, _)| usize::from(port)).max().unwrap_or(0);
            let first = directions;
            directions += last + 1;
            first
        });
        let first_direction = first_direction.collect();
        let channels = directions * PFC_CLASSES;
        ChannelDependencyGraph {
            topology,
            first_direction,
            directions,
            used: vec![false; channels],
            dependencies: vec![Vec::new(); channels],
        }
    }

    fn channels(&self) -> usize {
        self.directions * PFC_CLASSES
    }

    /// Returns the channel that leaves a switch by `port` in `class`, and its far end. Returns `None` if the port
    /// leads to a host, where no packet waits.
    fn channel_out(&mut self, switch: SwitchIx, port: u16, class: u8) -> Option<(usize, Endpoint)> {
        let (_, end) = self.topology.peer(switch, port)?;
        if let Node::Host(_) = end.node {
            return None;
        }
        let channel =
            (self.first_direction[switch.0 as usize] + usize::from(port)) * PFC_CLASSES + usize::from(class);
        self.used[channel] = true;
        Some((channel, end))
    }

    /// Records that a packet in channel `from` may wait for channel `to`, which leaves the switch at the end of `from`.
    /// Packets from hosts occupy no channel and add no dependency.
    fn add_dependency(&mut self, from: Option<usize>, to: usize) {
        let Some(from) = from else { return };
        let bit = to - self.first_direction[self.end_of(from).0 as usize] * PFC_CLASSES;
        let bits = &mut self.dependencies[from];
        if bits.len() <= bit / 64 {
            bits.resize(bit / 64 + 1, 0);
        }
        bits[bit / 64] |= 1 << (bit % 64);
    }

    /// Returns the switch and the egress port of a channel.
    fn start_of(&self, channel: usize) -> (SwitchIx, u16) {
        let direction = channel / PFC_CLASSES;
        let switch = self.first_direction.partition_point(|&first| first <= direction) - 1;
        (SwitchIx(switch as u32), (direction - self.first_direction[switch]) as u16)
    }

    /// Returns the switch at the end of a channel.
    fn end_of(&self, channel: usize) -> SwitchIx {
        let (switch, port) = self.start_of(channel);
        match self.topology.peer(switch, port) {
            Some((_, end)) if let Node::Switch(next) = end.node => next,
            _ => switch,
        }
    }

    /// Returns the channels on which a channel depends.
    fn dependencies(&self, channel: usize) -> impl Iterator<Item = usize> + '_ {
        let base = self.first_direction[self.end_of(channel).0 as usize] * PFC_CLASSES;
        let words = self.dependencies[channel].iter().enumerate();
        words.flat_map(move |(n, &word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| base + n * 64 + bit)
        })
    }

    /// Kahn's algorithm on the reversed graph: repeatedly removes channels without outgoing dependencies. It removes
    /// all channels if and only if there is no cycle; otherwise a cycle among the remaining channels is returned.
    fn check(&self) -> Result<ChannelProof, ChannelCycle> {
        let all = || (0..self.channels()).filter(|&channel| self.used[channel]);
        let mut out_degree = vec![0; self.channels()];
        let mut dependents = vec![Vec::new(); self.channels()];
        for channel in all() {
            for to in self.dependencies(channel) {
                out_degree[channel] += 1;
                dependents[to].push(channel);
            }
        }
        let proof = ChannelProof { channels: all().count(), dependencies: out_degree.iter().sum() };
        let mut free: Vec<usize> = all().filter(|&channel| out_degree[channel] == 0).collect();
        let mut remaining = proof.channels;
        while let Some(channel) = free.pop() {
            remaining -= 1;
            for &dependent in &dependents[channel] {
                out_degree[dependent] -= 1;
                if out_degree[dependent] == 0 {
                    free.push(dependent);
                }
            }
        }
        if remaining == 0 {
            return Ok(proof);
        }
        // Every remaining channel depends on another remaining one, so following dependencies closes a cycle.
        let next = |channel: usize| self.dependencies(channel).find(|&to| out_degree[to] > 0);
        let mut path: Vec<usize> = all().find(|&channel| out_degree[channel] > 0).into_iter().collect();
        while let Some(to) = path.last().copied().and_then(next) {
            if let Some(start) = path.iter().position(|&channel| channel == to) {
                path.drain(..start);
                break;
            }
            path.push(to);
        }
        let id = |channel: usize| {
            let (switch, port) = self.start_of(channel);
            let class = (channel % PFC_CLASSES) as u8;
            ChannelId { switch: self.topology.switch(switch).name.clone(), port, class }
        };
        Err(ChannelCycle(path.into_iter().map(id).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::{RoutingMethod, routes};
    use crate::topology::build;

    fn fabric(yaml: &str) -> Topology {
        build(&serde_yaml::from_str(yaml).unwrap()).unwrap()
    }

    const LEAF_SPINE: &str = "{kind: leaf-spine, leaves: 3, spines: 2, hosts_per_leaf: 1}";
    const FAT_TREE: &str = "{kind: fat-tree, k: 4}";

    /// An earlier scheme: a packet changes its class only after its last deflection. Packets that still have tokens go
    /// down and up again in the class of data.
    fn last_token_escapes(tokens: u8) -> DeflectionModel {
        let class = |left| EscapeClass {
            tokens: left,
            escape: if left == 0 { 2 } else { DATA_PRIORITY },
            detour: DATA_PRIORITY,
        };
        DeflectionModel { tokens, at_hosts: false, classes: (0..=tokens).map(class).collect() }
    }

    /// One class for a packet from its first deflection on.
    fn one_escape_class(tokens: u8) -> DeflectionModel {
        let class = |left| EscapeClass { tokens: left, escape: 2, detour: 2 };
        DeflectionModel { tokens, at_hosts: false, classes: (0..=tokens).map(class).collect() }
    }

    #[test]
    fn changing_the_class_only_after_the_last_deflection_has_a_cycle() {
        for yaml in [LEAF_SPINE, FAT_TREE] {
            let topology = fabric(yaml);
            let routes = routes(&topology, RoutingMethod::Ecmp).unwrap();
            for tokens in [2, 4] {
                let cycle = prove(&topology, &routes, Some(&last_token_escapes(tokens))).unwrap_err();
                assert!(
                    cycle.classes().all(|class| class == DATA_PRIORITY),
                    "{yaml}, {tokens} tokens: {cycle}"
                );
                assert!(cycle.classes().count() >= 4, "{yaml}, {tokens} tokens: {cycle}");
            }
        }
    }

    /// The hop after the deflection may lead down to a rack, from which the packet must go up again.
    #[test]
    fn one_class_for_all_deflected_packets_has_a_cycle() {
        for yaml in [LEAF_SPINE, FAT_TREE] {
            let topology = fabric(yaml);
            let routes = routes(&topology, RoutingMethod::Ecmp).unwrap();
            let cycle = prove(&topology, &routes, Some(&one_escape_class(1))).unwrap_err();
            assert!(cycle.classes().all(|class| class == 2), "{yaml}: {cycle}");
        }
    }

    #[test]
    fn a_cycle_is_formatted_link_by_link() {
        let topology = fabric(LEAF_SPINE);
        let routes = routes(&topology, RoutingMethod::Ecmp).unwrap();
        let cycle = prove(&topology, &routes, Some(&one_escape_class(1))).unwrap_err();
        let hops = &cycle.0;
        for (channel, next) in hops.iter().zip(hops.iter().cycle().skip(1)) {
            let at = topology.switch_named(&channel.switch).unwrap();
            let (_, end) = topology.peer(at, channel.port).unwrap();
            assert_eq!(topology.node_name(end.node), next.switch, "{cycle}");
        }
        let text = cycle.to_string();
        assert!(text.ends_with(&format!(" -> {}:{} (class 2)", hops[0].switch, hops[0].port)), "{text}");
    }
}
