//! The built-in kinds of topologies: one function per kind, from parameters to names and links.
//!
//! A new kind needs a struct in `spec.rs`, a function here and a line in [`draft`].

use super::error::{Location, TopologyError, TopologyProblem};
use super::limits::{MAX_PORTS, MAX_SWITCHES};
use super::random_graph::random_regular;
use super::spec::{
    AddressSpec, Butterfly, Custom, Dragonfly, Dumbbell, FatTree, Jellyfish, LeafSpine, ParkingLot, Star,
    TopologySpec,
};
use std::collections::BTreeMap;
use weir_units::{Bandwidth, Time};

/// A topology before the checks: names, and links by name.
#[derive(Default)]
pub(super) struct Draft {
    pub hosts: Vec<String>,
    pub switches: Vec<String>,
    pub links: Vec<DraftLink>,
    /// Host addresses by name; empty: assign them by rack.
    pub addresses: BTreeMap<String, AddressSpec>,
}

/// A link of a [`Draft`].
pub(super) struct DraftLink {
    pub a: String,
    pub b: String,
    pub rate: Bandwidth,
    pub delay: Time,
    /// Requested switch ports of `a` and `b`; `None`: the next port.
    pub ports: [Option<u16>; 2],
}

impl Draft {
    /// Creates hosts `h1..` and switches `s1..`.
    fn numbered(hosts: u64, switches: u64) -> Draft {
        Draft {
            hosts: (1..=hosts).map(|n| format!("h{n}")).collect(),
            switches: (1..=switches).map(|n| format!("s{n}")).collect(),
            links: Vec::new(),
            addresses: BTreeMap::new(),
        }
    }
    /// Links a host to a switch; both are indices from 0.
    fn attach(&mut self, host: u64, switch: u64, rate: Bandwidth, delay: Time) {
        let (a, b) = (self.hosts[host as usize].clone(), self.switches[switch as usize].clone());
        self.links.push(DraftLink { a, b, rate, delay, ports: [None; 2] });
    }
    /// Links two switches; both are indices from 0.
    fn connect(&mut self, one: u64, other: u64, rate: Bandwidth, delay: Time) {
        let (a, b) = (self.switches[one as usize].clone(), self.switches[other as usize].clone());
        self.links.push(DraftLink { a, b, rate, delay, ports: [None; 2] });
    }
}

/// Checks a number of the specification before nodes are allocated from it: a typo such as `hosts: 10000000` must not
/// exhaust memory.
fn check_range(field: &'static str, value: u64, min: u64, max: u64) -> Result<u64, TopologyError> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(TopologyError::at(Location::Field(field), TopologyProblem::OutOfRange { value, min, max }))
}

/// Creates the nodes and links of a topology.
pub(super) fn draft(spec: &TopologySpec) -> Result<Draft, TopologyError> {
    match spec {
        TopologySpec::Dumbbell(spec) => dumbbell(spec),
        TopologySpec::Star(spec) => star(spec),
        TopologySpec::LeafSpine(spec) => leaf_spine(spec),
        TopologySpec::FatTree(spec) => fat_tree(spec),
        TopologySpec::ParkingLot(spec) => parking_lot(spec),
        TopologySpec::Jellyfish(spec) => jellyfish(spec),
        TopologySpec::Dragonfly(spec) => dragonfly(spec),
        TopologySpec::Butterfly(spec) => butterfly(spec),
        TopologySpec::Custom(spec) => Ok(custom(spec)),
        TopologySpec::File(spec) => {
            Err(TopologyError::at(Location::Field("path"), TopologyProblem::NotRead(spec.path.clone())))
        }
    }
}

fn dumbbell(spec: &Dumbbell) -> Result<Draft, TopologyError> {
    let switches = check_range("switches", spec.switches, 1, MAX_SWITCHES as u64)?;
    let senders = check_range("senders", spec.senders, 1, MAX_PORTS as u64)?;
    let receivers = check_range("receivers", spec.receivers, 1, MAX_PORTS as u64)?;
    let mut draft = Draft::numbered(senders + receivers, switches);
    for host in 0..senders {
        draft.attach(host, 0, spec.rate, spec.delay);
    }
    for host in senders..senders + receivers {
        draft.attach(host, switches - 1, spec.rate, spec.delay);
    }
    for left in 0..switches - 1 {
        draft.connect(left, left + 1, spec.fabric_rate.unwrap_or(spec.rate), spec.delay);
    }
    Ok(draft)
}

fn star(spec: &Star) -> Result<Draft, TopologyError> {
    let hosts = check_range("hosts", spec.hosts, 1, MAX_PORTS as u64)?;
    let mut draft = Draft::numbered(hosts, 1);
    for host in 0..hosts {
        draft.attach(host, 0, spec.rate, spec.delay);
    }
    Ok(draft)
}

fn leaf_spine(spec: &LeafSpine) -> Result<Draft, TopologyError> {
    let leaves = check_range("leaves", spec.leaves, 1, MAX_PORTS as u64)?;
    let spines = check_range("spines", spec.spines, 1, MAX_PORTS as u64)?;
    let per_leaf = check_range("hosts_per_leaf", spec.hosts_per_leaf, 1, MAX_PORTS as u64)?;
    let mut draft = Draft::numbered(leaves * per_leaf, leaves + spines);
    for host in 0..leaves * per_leaf {
        draft.attach(host, host / per_leaf, spec.host_rate.unwrap_or(spec.rate), spec.delay);
    }
    for leaf in 0..leaves {
        for spine in 0..spines {
            draft.connect(leaf, leaves + spine, spec.fabric_rate.unwrap_or(spec.rate), spec.delay);
        }
    }
    Ok(draft)
}

fn fat_tree(spec: &FatTree) -> Result<Draft, TopologyError> {
    /// A fat-tree has 5k²/4 switches; 56 is the largest even k below the limit of 4,095 switches.
    const MAX_K: u64 = 56;
    let k = check_range("k", spec.k, 2, MAX_K)?;
    if k % 2 == 1 {
        return Err(TopologyError::at(Location::Field("k"), TopologyProblem::OddArity(k)));
    }
    let half = k / 2;
    let pods = check_range("pods", spec.pods.unwrap_or(k), 1, MAX_PORTS as u64)?;
    let per_edge = check_range("hosts_per_edge", spec.hosts_per_edge.unwrap_or(half), 1, MAX_PORTS as u64)?;
    let (edges, cores) = (pods * half, half * half);
    if 2 * edges + cores > MAX_SWITCHES as u64 {
        return Err(TopologyError::at(
            Location::Topology,
            TopologyProblem::TooManySwitches((2 * edges + cores) as usize),
        ));
    }
    let fabric = spec.fabric_rate.unwrap_or(spec.rate);
    let mut draft = Draft::numbered(edges * per_edge, 2 * edges + cores);
    for host in 0..edges * per_edge {
        draft.attach(host, host / per_edge, spec.rate, spec.delay);
    }
    // Every edge switch connects to the aggregation switches of its pod in the same order, and the n-th aggregation
    // switch of every pod to the n-th plane of cores. This makes ECMP symmetric.
    for pod in 0..pods {
        for edge in 0..half {
            for plane in 0..half {
                draft.connect(pod * half + edge, edges + pod * half + plane, fabric, spec.delay);
            }
        }
    }
    for pod in 0..pods {
        for plane in 0..half {
            for core in 0..half {
                draft.connect(
                    edges + pod * half + plane,
                    2 * edges + plane * half + core,
                    fabric,
                    spec.delay,
                );
            }
        }
    }
    Ok(draft)
}

/// Creates the nodes of a direct network, in which every switch has hosts.
fn direct_network(switches: u64, per_switch: u64) -> Result<Draft, TopologyError> {
    if switches > MAX_SWITCHES as u64 {
        return Err(TopologyError::at(
            Location::Topology,
            TopologyProblem::TooManySwitches(switches as usize),
        ));
    }
    Ok(Draft::numbered(switches * per_switch, switches))
}

fn parking_lot(spec: &ParkingLot) -> Result<Draft, TopologyError> {
    let switches = check_range("switches", spec.switches, 1, MAX_SWITCHES as u64)?;
    let per_switch = check_range("hosts_per_switch", spec.hosts_per_switch, 1, MAX_PORTS as u64)?;
    let mut draft = direct_network(switches, per_switch)?;
    for host in 0..switches * per_switch {
        draft.attach(host, host / per_switch, spec.rate, spec.delay);
    }
    for left in 0..switches - 1 {
        draft.connect(left, left + 1, spec.fabric_rate.unwrap_or(spec.rate), spec.delay);
    }
    Ok(draft)
}

fn jellyfish(spec: &Jellyfish) -> Result<Draft, TopologyError> {
    let switches = check_range("switches", spec.switches, 2, MAX_SWITCHES as u64)?;
    let degree = check_range("degree", spec.degree, 1, (switches - 1).min(MAX_PORTS as u64))?;
    let per_switch = check_range("hosts_per_switch", spec.hosts_per_switch, 1, MAX_PORTS as u64)?;
    let graph = random_regular(switches as usize, degree as usize, spec.seed);
    let graph = graph.ok_or_else(|| {
        TopologyError::at(Location::Field("degree"), TopologyProblem::NoRegularGraph { switches, degree })
    })?;
    let mut draft = direct_network(switches, per_switch)?;
    for host in 0..switches * per_switch {
        draft.attach(host, host / per_switch, spec.rate, spec.delay);
    }
    for (one, other) in graph {
        draft.connect(one as u64, other as u64, spec.fabric_rate.unwrap_or(spec.rate), spec.delay);
    }
    Ok(draft)
}

/// Kim et al., ISCA 2008: groups of `a` routers, each linked to all others of its group, to `p` hosts and to `h` other
/// groups. The links of a group lead to the other groups in cyclic order, so that each pair of groups has one link.
fn dragonfly(spec: &Dragonfly) -> Result<Draft, TopologyError> {
    let a = check_range("a", spec.a, 1, MAX_PORTS as u64)?;
    let p = check_range("p", spec.p, 1, MAX_PORTS as u64)?;
    let h = check_range("h", spec.h, 1, MAX_PORTS as u64)?;
    let groups = check_range("groups", spec.groups.unwrap_or(a * h + 1), 1, a * h + 1)?;
    let mut draft = direct_network(groups * a, p)?;
    for host in 0..groups * a * p {
        draft.attach(host, host / p, spec.rate, spec.delay);
    }
    for group in 0..groups {
        for one in 0..a {
            for other in one + 1..a {
                let rate = spec.fabric_rate.unwrap_or(spec.rate);
                draft.connect(group * a + one, group * a + other, rate, spec.delay);
            }
        }
    }
    // Link n of a group belongs to its router n / h and leads n + 1 groups ahead, whose link back is number
    // groups - 2 - n.
    for group in 0..groups {
        for n in 0..groups - 1 - group {
            let far = group + n + 1;
            let (near_router, far_router) = (group * a + n / h, far * a + (groups - 2 - n) / h);
            let (rate, delay) =
                (spec.global_rate.or(spec.fabric_rate), spec.global_delay.unwrap_or(spec.delay));
            draft.connect(near_router, far_router, rate.unwrap_or(spec.rate), delay);
        }
    }
    Ok(draft)
}

/// Returns a k-ary n-fly: `stages` columns of k^(stages - 1) switches, with k hosts on each switch of the first and
/// of the last column. Two hosts on opposite sides have one shortest path, so that paths are symmetric by
/// construction (FNCC §3.1).
fn butterfly(spec: &Butterfly) -> Result<Draft, TopologyError> {
    let k = check_range("k", spec.k, 2, MAX_PORTS as u64 / 2)?;
    let stages = check_range("stages", spec.stages, 1, u64::from(u16::BITS))?;
    let too_many =
        || TopologyError::at(Location::Topology, TopologyProblem::TooManySwitches(MAX_SWITCHES + 1));
    let column = k.checked_pow(stages as u32 - 1).filter(|&column| column <= MAX_SWITCHES as u64 / stages);
    let column = column.ok_or_else(too_many)?;
    let side = column * k;
    let mut draft = Draft::numbered(2 * side, column * stages);
    for host in 0..side {
        draft.attach(host, host / k, spec.rate, spec.delay);
    }
    for host in 0..side {
        draft.attach(side + host, (stages - 1) * column + host / k, spec.rate, spec.delay);
    }
    // Each stage fixes one digit of the destination, the most significant first.
    for stage in 0..stages - 1 {
        let weight = k.pow((stages - 2 - stage) as u32);
        for switch in 0..column {
            let digit = switch / weight % k;
            for to in 0..k {
                let next = switch - digit * weight + to * weight;
                let rate = spec.fabric_rate.unwrap_or(spec.rate);
                draft.connect(stage * column + switch, (stage + 1) * column + next, rate, spec.delay);
            }
        }
    }
    Ok(draft)
}

fn custom(spec: &Custom) -> Draft {
    let links = spec.links.iter().map(|link| DraftLink {
        a: link.a.clone(),
        b: link.b.clone(),
        rate: link.rate.unwrap_or(spec.rate),
        delay: link.delay.unwrap_or(spec.delay),
        ports: [link.a_port, link.b_port],
    });
    Draft {
        hosts: spec.hosts.clone(),
        switches: spec.switches.clone(),
        links: links.collect(),
        addresses: spec.addresses.clone(),
    }
}
