//! Base RTTs of all pairs of hosts.

use crate::compiled::{CompiledRoutes, ForwardingDecision};
use crate::residue::HashConstraints;
use crate::route_table::Routes;
use crate::topology::{HostIx, Link, Node, SwitchIx, Topology};
use std::collections::HashMap;
use weir_units::{Bytes, Time};

/// Returns the contribution of a link to a base RTT: its propagation delay in both directions and the time to serialise
/// `payload` in one.
pub(super) fn link_cost(link: &Link, payload: Bytes) -> Time {
    link.delay * 2 + link.rate.tx_time(payload)
}

/// Base RTTs of all pairs of hosts, that is, the RTTs of an idle fabric: for each pair, that of the longest path that
/// the routes allow.
#[derive(Clone, Debug)]
pub struct BaseRtt {
    payload: Bytes,
    /// For each host, the index of its class ([`CompiledRoutes`]).
    class_of: Vec<usize>,
    /// `fabric[from][to]`: cost of the longest path between two classes of hosts, without the host links.
    fabric: Vec<Vec<Time>>,
}

impl BaseRtt {
    /// Computes the longest paths. `payload` is the packet payload size of the HPCC simulator (1000 bytes there).
    pub fn new(topology: &Topology, routes: &Routes, payload: Bytes) -> BaseRtt {
        let compiled = CompiledRoutes::new(topology, routes);
        let costs: Vec<Time> = topology.links.iter().map(|link| link_cost(link, payload)).collect();
        let count = compiled.classes.len();
        let mut fabric = vec![vec![Time::ZERO; count]; count];
        for to in 0..count {
            let (compiled, costs) = (&compiled, costs.as_slice());
            let mut longest = LongestPaths { topology, compiled, costs, to, known: HashMap::new() };
            for (row, class) in fabric.iter_mut().zip(&compiled.classes) {
                row[to] = longest.longest_from(class.switch, &HashConstraints::default());
            }
        }
        BaseRtt { payload, class_of: compiled.class_of, fabric }
    }
    /// Returns the base RTT between two hosts.
    pub fn pair(&self, topology: &Topology, src: HostIx, dst: HostIx) -> Time {
        let cost = |host: HostIx| link_cost(topology.link(topology.host(host).link), self.payload);
        let class = |host: HostIx| self.class_of[host.0 as usize];
        cost(src) + self.fabric[class(src)][class(dst)] + cost(dst)
    }
    /// Returns the largest base RTT of all pairs, the simulator's GLOBAL_T.
    pub fn max(&self, topology: &Topology) -> Time {
        // Within a class only host links differ, so the two costliest links of each class suffice.
        let mut costliest = vec![[Time::ZERO; 2]; self.fabric.len()];
        for (host, &class) in topology.hosts.iter().zip(&self.class_of) {
            let cost = link_cost(topology.link(host.link), self.payload);
            let [first, second] = &mut costliest[class];
            if cost > *first {
                (*first, *second) = (cost, *first);
            } else {
                *second = cost.max(*second);
            }
        }
        let max_between = |a: usize, b: usize| {
            if a == b {
                costliest[a][0] + costliest[a][1]
            } else {
                costliest[a][0] + self.fabric[a][b] + costliest[b][0]
            }
        };
        let classes = 0..self.fabric.len();
        classes
            .clone()
            .flat_map(|a| classes.clone().map(move |b| (a, b)))
            .map(|(a, b)| max_between(a, b))
            .max()
            .unwrap_or(Time::ZERO)
    }
}

/// Longest-path search to the switch of one class of hosts, with memoization.
struct LongestPaths<'a> {
    topology: &'a Topology,
    compiled: &'a CompiledRoutes,
    /// Cost of each link.
    costs: &'a [Time],
    /// Class of hosts to which the paths lead.
    to: usize,
    /// Cost of the longest path from a switch, for packets whose hash satisfies the constraints.
    known: HashMap<(SwitchIx, HashConstraints), Time>,
}

impl LongestPaths<'_> {
    /// Returns the cost of the longest path from a switch to the class.
    fn longest_from(&mut self, switch: SwitchIx, constraints: &HashConstraints) -> Time {
        let compiled = self.compiled;
        if switch == compiled.classes[self.to].switch {
            return Time::ZERO;
        }
        let state = (switch, constraints.clone());
        if let Some(&known) = self.known.get(&state) {
            return known;
        }
        // Loop guard: a path that returns to a state being explored finds 0 and ends. The key includes the hash
        // constraints, so a second visit under another hash is another state.
        self.known.insert(state.clone(), Time::ZERO);
        let longest = match compiled.decision(switch, self.to) {
            ForwardingDecision::NoRoute => Time::ZERO,
            &ForwardingDecision::Port { port, .. } => self.longest_via(switch, port, constraints),
            ForwardingDecision::Select { selector, ports } => {
                let choices = constraints.choices(*selector, ports.len() as u64);
                let costs =
                    choices.filter_map(|(index, rest)| Some(self.longest_via(switch, ports[index]?, &rest)));
                costs.max().unwrap_or(Time::ZERO)
            }
        };
        self.known.insert(state, longest);
        longest
    }

    /// Returns the cost of the longest path that leaves a switch by `port`.
    fn longest_via(&mut self, switch: SwitchIx, port: u16, constraints: &HashConstraints) -> Time {
        let Some((link, end)) = self.topology.peer(switch, port) else { return Time::ZERO };
        let rest = match end.node {
            Node::Switch(next) => self.longest_from(next, constraints),
            Node::Host(_) => Time::ZERO,
        };
        self.costs[link.0 as usize] + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::walk::for_each_path;
    use crate::{RoutingMethod, routes, topology};

    /// Delays differ between links, so that paths of equal length have different costs.
    #[test]
    fn each_pair_has_the_cost_of_its_longest_path() {
        let fabrics = [
            ("{kind: fat-tree, k: 4}", RoutingMethod::Ecmp),
            ("{kind: fat-tree, k: 4}", RoutingMethod::Trees),
            ("{kind: leaf-spine, spines: 3, leaves: 4, hosts_per_leaf: 2}", RoutingMethod::Auto),
            ("{kind: jellyfish, switches: 12, degree: 4, hosts_per_switch: 1, seed: 3}", RoutingMethod::Auto),
        ];
        for (spec, method) in fabrics {
            let mut topology = topology::build(&serde_yaml::from_str(spec).unwrap()).unwrap();
            for (number, link) in topology.links.iter_mut().enumerate() {
                link.delay = Time::from_ns(1_000 + 37 * (number as u64 * 29 % 61));
            }
            let routes = routes(&topology, method).unwrap();
            let compiled = CompiledRoutes::new(&topology, &routes);
            let rtt = BaseRtt::new(&topology, &routes, Bytes::new(1000));
            let cost = |ix| link_cost(topology.link(ix), Bytes::new(1000));
            let (mut pairs, mut paths) = (0, 0);
            for (from, row) in rtt.fabric.iter().enumerate() {
                for (to, found) in row.iter().enumerate().filter(|(to, _)| *to != from) {
                    let mut longest = Time::ZERO;
                    for_each_path(&topology, &compiled, from, to, &mut |path| {
                        let hops = &path.hops[..path.hops.len() - 1];
                        let links = hops.iter().map(|hop| topology.peer(hop.switch, hop.out_port).unwrap().0);
                        longest = longest.max(links.map(cost).sum());
                        paths += 1;
                        true
                    });
                    assert_eq!(*found, longest, "{spec}: {from} to {to}");
                    pairs += 1;
                }
            }
            assert!(pairs > 10 && paths > pairs, "{spec}: {paths} paths of {pairs} pairs");
        }
    }
}
