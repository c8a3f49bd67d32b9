//! Up*/down* routes: PFC cannot deadlock on any graph (Schroeder et al., Autonet, 1991).
//!
//! All switches have one order. A link leads up towards the switch that comes first in it, and a path goes up any number
//! of times, then down any number of times. Number the channels: first those that lead up, from the bottom to the top, then
//! those that lead down, from the top to the bottom. Every path uses channels in ascending order, so there is no cycle.
//!
//! Autonet's switches know by which port a packet arrived. Here a switch sees the destination alone, and both directions
//! of a flow must use the same links. Both hold for these paths: from a switch to a rack, up to the *lowest* switch from
//! which both can be reached downwards, and down from there, each part along the shortest path. Whatever is above the
//! next switch is above this one as well, so that the lowest switch stays the same all the way up; and it does not
//! depend on which end asks. Several planes, which differ in how they resolve ties, share the links; they take the place
//! of the trees in the tables.

use super::racks::deliver_locally;
use super::trees::{best_root, max_trees};
use crate::route_table::{NextHop, Routes, RoutingMethod};
use crate::split_mix::SplitMix64;
use crate::topology::{Neighbour, SwitchIx, Topology};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

/// For each switch, the port to each rack.
type Plane = Vec<BTreeMap<SwitchIx, u16>>;

/// Computes routes in `count` planes, or, if `count` is `None`, in as many as differ.
pub(super) fn routes(topology: &Topology, count: Option<usize>) -> Routes {
    let order = SwitchOrder::new(topology);
    let mut planes: Vec<Plane> = Vec::new();
    for number in 0..count.unwrap_or_else(|| max_trees(topology)) as u64 {
        let plane = compute_plane(topology, &order, number);
        if count.is_some() || !planes.contains(&plane) {
            planes.push(plane);
        }
    }
    let mut switches = deliver_locally(topology);
    for (ix, routes) in switches.iter_mut().enumerate() {
        routes.forward.insert(topology.fabric, NextHop::Trees { count: planes.len() as u8 });
        let table = |plane: &Plane| -> BTreeMap<Ipv4Addr, u16> {
            let racks = plane[ix].iter();
            let entries = racks.flat_map(|(&rack, &port)| {
                topology.switch(rack).hosts.iter().map(move |&host| (topology.host(host).ip, port))
            });
            entries.collect()
        };
        routes.trees = planes.iter().map(table).collect();
    }
    Routes { method: RoutingMethod::UpDown, switches }
}

/// The order of the switches, from the top.
struct SwitchOrder {
    /// By switch. Of two neighbours, the one with the smaller key is up. Switches with equal first and second parts are
    /// at the same level.
    keys: Vec<Key>,
    /// All switches, the lowest first.
    ascending: Vec<SwitchIx>,
}

/// Whether the switch is to be avoided; its level, 0 at the top; its index.
type Key = (bool, u32, SwitchIx);

impl SwitchOrder {
    /// Orders the switches by tier, which in a Clos fabric permits all shortest paths. If some racks then have no switch
    /// above both, orders them by their distance from one root, which is above all others but those to be avoided.
    fn new(topology: &Topology) -> SwitchOrder {
        let top = topology.switches.iter().map(|switch| switch.tier).max().unwrap_or(0);
        let by_tier = |ix: SwitchIx| {
            let switch = topology.switch(ix);
            (switch.is_avoided, u32::from(top - switch.tier), ix)
        };
        let depth = depths(topology);
        let by_depth = |ix: SwitchIx| (topology.switch(ix).is_avoided, depth[ix.0 as usize], ix);
        // Avoids no switch: connects whatever is connected.
        let by_depth_alone = |ix: SwitchIx| (false, depth[ix.0 as usize], ix);
        let order_by =
            |key: &dyn Fn(SwitchIx) -> Key| SwitchOrder::from_keys(topology.switch_ixs().map(key).collect());
        let preferred: [&dyn Fn(SwitchIx) -> Key; 2] = [&by_tier, &by_depth];
        let mut orders = preferred.into_iter().map(order_by);
        orders.find(|order| order.connects_all(topology)).unwrap_or_else(|| order_by(&by_depth_alone))
    }

    fn from_keys(keys: Vec<Key>) -> SwitchOrder {
        let mut ascending: Vec<SwitchIx> = keys.iter().map(|&(.., ix)| ix).collect();
        ascending.sort_unstable_by_key(|ix| Reverse(keys[ix.0 as usize]));
        SwitchOrder { keys, ascending }
    }

    fn key(&self, ix: SwitchIx) -> Key {
        self.keys[ix.0 as usize]
    }

    /// Returns the links up from a switch.
    fn up<'a>(&'a self, topology: &'a Topology, from: SwitchIx) -> impl Iterator<Item = Neighbour> + 'a {
        topology.neighbours(from).filter(move |n| self.key(n.switch) < self.key(from))
    }

    /// Returns whether each two racks of a connected part of the fabric have a switch above both.
    fn connects_all(&self, topology: &Topology) -> bool {
        let labels = topology.components();
        let racks: Vec<SwitchIx> = racks(topology).collect();
        let above: Vec<Vec<bool>> = racks
            .iter()
            .map(|&rack| {
                let paths = UpPaths::new(topology, self, rack, 0);
                topology.switch_ixs().map(|ix| paths.reaches(ix)).collect()
            })
            .collect();
        let meet = |a: usize, b: usize| above[a].iter().zip(&above[b]).any(|(a, b)| *a && *b);
        (0..racks.len())
            .all(|a| (0..a).all(|b| labels[racks[a].0 as usize] != labels[racks[b].0 as usize] || meet(a, b)))
    }

    /// Returns the height of each switch within its level, 0 at the bottom: a switch that is above another one of its
    /// level is higher.
    fn heights(&self, topology: &Topology) -> Vec<u32> {
        let mut heights = vec![0; self.keys.len()];
        for &here in &self.ascending {
            let (avoided, level, _) = self.key(here);
            for n in self.up(topology, here) {
                let (next_avoided, next_level, _) = self.key(n.switch);
                if (next_avoided, next_level) == (avoided, level) {
                    let above = heights[here.0 as usize] + 1;
                    heights[n.switch.0 as usize] = above.max(heights[n.switch.0 as usize]);
                }
            }
        }
        heights
    }
}

fn racks(topology: &Topology) -> impl Iterator<Item = SwitchIx> + '_ {
    topology.switch_ixs().filter(|&ix| !topology.switch(ix).hosts.is_empty())
}

/// Returns each switch's distance in hops from the root of its component.
fn depths(topology: &Topology) -> Vec<u32> {
    let mut components: BTreeMap<usize, Vec<SwitchIx>> = BTreeMap::new();
    for (ix, label) in topology.switch_ixs().zip(topology.components()) {
        components.entry(label).or_default().push(ix);
    }
    let mut depth = vec![None; topology.switches.len()];
    let roots = components.into_values().filter_map(|component| best_root(topology, &component));
    let mut queue: VecDeque<(SwitchIx, u32)> = roots.map(|root| (root, 0)).collect();
    while let Some((here, distance)) = queue.pop_front() {
        if depth[here.0 as usize].is_none() {
            depth[here.0 as usize] = Some(distance);
            queue.extend(topology.neighbours(here).map(|n| (n.switch, distance + 1)));
        }
    }
    depth.into_iter().map(|depth| depth.unwrap_or(0)).collect()
}

/// The shortest paths that lead up from one switch.
struct UpPaths {
    /// By switch above: hops and weight of the path, and its last link.
    paths: Vec<Option<UpPath>>,
    from: SwitchIx,
}

#[derive(Clone, Copy)]
struct UpPath {
    /// The second part resolves ties.
    cost: (u32, u64),
    /// First port on the way up, at the switch below.
    first_port: u16,
    /// First port on the way down, at the switch above.
    down_port: u16,
}

impl UpPaths {
    fn new(topology: &Topology, order: &SwitchOrder, from: SwitchIx, plane: u64) -> UpPaths {
        let mut paths: Vec<Option<UpPath>> = vec![None; topology.switches.len()];
        paths[from.0 as usize] = Some(UpPath { cost: (0, 0), first_port: 0, down_port: 0 });
        // Links lead from lower switches to higher ones, so the cost of a switch is final when its turn comes.
        let start = order.ascending.iter().skip_while(|&&ix| ix != from);
        for &here in start {
            let Some(path) = paths[here.0 as usize] else { continue };
            for n in order.up(topology, here) {
                let (hops, weight) = path.cost;
                // 32 bits, so that no sum overflows.
                let cost = (hops + 1, weight + (hash(plane, n.link.0.into()) >> u32::BITS));
                let known = &mut paths[n.switch.0 as usize];
                if known.is_none_or(|known| cost < known.cost) {
                    let first_port = if here == from { n.port } else { path.first_port };
                    *known = Some(UpPath { cost, first_port, down_port: n.peer_port });
                }
            }
        }
        UpPaths { paths, from }
    }

    /// Returns whether `switch` is above the first switch, or is that switch.
    fn reaches(&self, switch: SwitchIx) -> bool {
        self.paths[switch.0 as usize].is_some()
    }
}

fn compute_plane(topology: &Topology, order: &SwitchOrder, plane: u64) -> Plane {
    let up: Vec<UpPaths> = topology.switch_ixs().map(|ix| UpPaths::new(topology, order, ix, plane)).collect();
    // The position of each switch in an order that agrees with the links and is different in each plane: a switch comes
    // before all that are above it.
    let heights = order.heights(topology);
    let mut lowest_first: Vec<SwitchIx> = topology.switch_ixs().collect();
    lowest_first.sort_by_key(|&ix| {
        let (avoided, level, _) = order.key(ix);
        (Reverse((avoided, level)), heights[ix.0 as usize], hash(plane, u64::from(ix.0) << u32::BITS), ix)
    });
    let next_port = |paths: &UpPaths, to_rack: &UpPaths| {
        if let Some(path) = to_rack.paths[paths.from.0 as usize] {
            return Some(path.down_port);
        }
        let lowest = lowest_first.iter().find(|&&ix| paths.reaches(ix) && to_rack.reaches(ix))?;
        paths.paths[lowest.0 as usize].map(|path| path.first_port)
    };
    let ports = |paths: &UpPaths| {
        let others = racks(topology).filter(|&rack| rack != paths.from);
        others.filter_map(|rack| Some((rack, next_port(paths, &up[rack.0 as usize])?))).collect()
    };
    up.iter().map(ports).collect()
}

/// Returns a number for each plane and input.
fn hash(plane: u64, input: u64) -> u64 {
    SplitMix64::new(input.wrapping_add(plane.wrapping_mul(SplitMix64::INCREMENT))).next()
}
