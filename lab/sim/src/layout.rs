//! Divides a topology into logical processes, and tells where in them each node and each end of a link is.

use crate::bipartition::bipartition;
use crate::link::{DirectionSpec, LocalNode, Transmitter, Wire};
use crate::locality_order::{depth_first_order, neighbours};
use crate::nodes::{HostNode, SwitchNode, UNCONNECTED};
use crate::observers::Observers;
use crate::process::Process;
use weir_controller::topology::{Endpoint, HostIx, Link, Node, SwitchIx, Topology};
use weir_host::Host;
use weir_switch::Switch;
use weir_units::Time;

/// The nodes at both ends of a link with a smaller delay share a process. Weir's choice: about the transmission time
/// of one packet at 100 Gbit/s, because shorter windows contain too little work.
const MIN_LOOKAHEAD: Time = Time::from_ns(100);

/// Location of a node, transmitter or wire: the number of its process, and the index in the table of that process.
#[derive(Clone, Copy)]
pub(crate) struct TableIndex {
    pub process: u32,
    pub index: u32,
}

/// Locations of the two ends of a link direction.
pub(crate) struct DirectionEnds {
    pub transmitter: TableIndex,
    pub wire: TableIndex,
}

/// Locations of all nodes and links.
#[derive(Default)]
pub(crate) struct Locations {
    switches: Vec<TableIndex>,
    hosts: Vec<TableIndex>,
    /// By number of the link direction.
    directions: Vec<DirectionEnds>,
}

impl Locations {
    pub(crate) fn switch(&self, ix: SwitchIx) -> TableIndex {
        self.switches[ix.0 as usize]
    }
    pub(crate) fn host(&self, ix: HostIx) -> TableIndex {
        self.hosts[ix.0 as usize]
    }
    pub(crate) fn direction(&self, number: u32) -> &DirectionEnds {
        &self.directions[number as usize]
    }
    pub(crate) fn switch_count(&self) -> u32 {
        self.switches.len() as u32
    }
    pub(crate) fn host_count(&self) -> u32 {
        self.hosts.len() as u32
    }
    pub(crate) fn direction_count(&self) -> u32 {
        self.directions.len() as u32
    }
}

/// A process with its observers.
pub(crate) struct ObservedProcess {
    pub process: Process,
    pub observers: Observers,
}

/// The processes of a fabric, and the order in which threads run them.
pub(crate) struct Layout {
    /// By process number.
    pub processes: Vec<ObservedProcess>,
    pub locations: Locations,
    /// Processes that have hosts, in ascending order.
    pub with_hosts: Vec<u32>,
    /// All processes by side of the [bipartition](crate::bipartition), neighbours near each other.
    pub sides: Vec<Vec<u32>>,
    /// `sides` with the processes that have hosts moved to the end.
    pub run_order: Vec<Vec<u32>>,
    /// The least delay of all links between processes; [`Time::MAX`] if there is none.
    pub lookahead: Time,
}

impl Default for Layout {
    /// A fabric without nodes.
    fn default() -> Layout {
        Layout {
            processes: Vec::new(),
            locations: Locations::default(),
            with_hosts: Vec::new(),
            sides: Vec::new(),
            run_order: Vec::new(),
            lookahead: Time::MAX,
        }
    }
}

impl Layout {
    /// Direction `2i` is link `i` from its end `a` to `b`, direction `2i + 1` from `b` to `a`.
    pub(crate) fn new(topology: &Topology, switches: Vec<Switch>, hosts: Vec<Host>) -> Layout {
        let groups = ProcessGroups::of(topology);
        let directions = all_directions(topology);
        let locations = groups.locate(topology, &directions);
        let processes: Vec<ObservedProcess> = (0..)
            .zip(parts(topology, &locations, &directions, groups.count, switches, hosts))
            .map(|(number, ProcessParts { switches, hosts, transmitters, wires })| ObservedProcess {
                observers: Observers::new(wires.len()),
                process: Process::new(number, switches, hosts, transmitters, wires),
            })
            .collect();
        let has_hosts = |number: &u32| !processes[*number as usize].process.hosts.is_empty();
        let with_hosts: Vec<u32> = (0..groups.count).filter(has_hosts).collect();
        let ends = |link: &Link| (groups.process_of(link.a.node), groups.process_of(link.b.node));
        let neighbours = neighbours(processes.len(), topology.links.iter().map(ends));
        let sides = bipartition(&depth_first_order(neighbours.clone(), &with_hosts), &neighbours);
        let mut run_order = sides.clone();
        run_order
            .iter_mut()
            .for_each(|side| side.sort_by_key(|number| with_hosts.binary_search(number).is_ok()));
        let between_processes = topology.links.iter().filter(|link| {
            let (a, b) = ends(link);
            a != b
        });
        let lookahead = between_processes.map(|link| link.delay).min().unwrap_or(Time::MAX);
        Layout { processes, locations, with_hosts, sides, run_order, lookahead }
    }
}

/// The contents of a process before it is created.
#[derive(Default)]
struct ProcessParts {
    switches: Vec<SwitchNode>,
    hosts: Vec<HostNode>,
    transmitters: Vec<Transmitter>,
    wires: Vec<Wire>,
}

/// Distributes the nodes and the ends of all links over the processes.
fn parts(
    topology: &Topology,
    locations: &Locations,
    all_directions: &[Direction],
    count: u32,
    switches: Vec<Switch>,
    hosts: Vec<Host>,
) -> Vec<ProcessParts> {
    let mut parts: Vec<ProcessParts> = (0..count).map(|_| ProcessParts::default()).collect();
    for (ix, switch) in topology.switch_ixs().zip(switches) {
        let (mut directions, mut transmitters) = (Vec::new(), Vec::new());
        for (port, link) in topology.switch(ix).ports() {
            let port = usize::from(port);
            directions.resize(directions.len().max(port + 1), UNCONNECTED);
            transmitters.resize(directions.len(), UNCONNECTED);
            directions[port] = outgoing_direction(topology, Node::Switch(ix), link.0 as usize);
            transmitters[port] = locations.direction(directions[port]).transmitter.index;
        }
        let node = SwitchNode { ix, switch, directions, transmitters };
        parts[locations.switch(ix).process as usize].switches.push(node);
    }
    for (ix, host) in topology.host_ixs().zip(hosts) {
        let direction = outgoing_direction(topology, Node::Host(ix), topology.host(ix).link.0 as usize);
        let transmitter = locations.direction(direction).transmitter.index;
        parts[locations.host(ix).process as usize].hosts.push(HostNode::new(ix, host, transmitter));
    }
    let local_node = |node: Node| match node {
        Node::Switch(ix) => LocalNode::Switch(locations.switch(ix).index),
        Node::Host(ix) => LocalNode::Host(locations.host(ix).index),
    };
    for Direction { spec, from, to } in all_directions {
        let &DirectionEnds { transmitter, wire } = locations.direction(spec.number);
        // The two directions of a link have adjacent numbers.
        let reverse = locations.direction(spec.number ^ 1).transmitter;
        let sending_end = spec.transmitter(local_node(from.node), from.port, wire.process, wire.index);
        parts[transmitter.process as usize].transmitters.push(sending_end);
        parts[wire.process as usize].wires.push(spec.wire(local_node(to.node), to.port, reverse.index));
    }
    parts
}

/// The process of each node.
struct ProcessGroups {
    /// By switch, then by host.
    processes: Vec<u32>,
    /// Number of switches.
    switches: usize,
    /// Number of processes.
    count: u32,
}

impl ProcessGroups {
    /// Both ends of a link with a delay below [`MIN_LOOKAHEAD`] are in the same process, since such a link would make
    /// every window as short as its delay.
    fn of(topology: &Topology) -> ProcessGroups {
        let switches = topology.switches.len();
        let count = switches + topology.hosts.len();
        let mut first: Vec<usize> = (0..count).collect();
        let root = |first: &[usize], mut node: usize| {
            while first[node] != node {
                node = first[node];
            }
            node
        };
        for link in topology.links.iter().filter(|link| link.delay < MIN_LOOKAHEAD) {
            let ends = [link.a.node, link.b.node].map(|node| root(&first, node_index(switches, node)));
            // Union-find with the least index as root, which numbers the processes in topology order.
            let min = ends[0].min(ends[1]);
            ends.into_iter().for_each(|end| first[end] = min);
        }
        let (mut processes, mut next) = (vec![0; count], 0);
        for node in 0..count {
            let root = root(&first, node);
            processes[node] = if root == node {
                next += 1;
                next - 1
            } else {
                processes[root]
            };
        }
        ProcessGroups { processes, switches, count: next }
    }

    fn process_of(&self, node: Node) -> u32 {
        self.processes[node_index(self.switches, node)]
    }

    /// Allocates the indices of nodes, transmitters and wires, in each process from 0.
    fn locate(&self, topology: &Topology, directions: &[Direction]) -> Locations {
        let mut used = vec![IndicesUsed::default(); self.count as usize];
        let mut next = |node: Node, field: fn(&mut IndicesUsed) -> &mut u32| {
            let process = self.process_of(node);
            let count = field(&mut used[process as usize]);
            *count += 1;
            TableIndex { process, index: *count - 1 }
        };
        let switches = topology.switch_ixs().map(|ix| next(Node::Switch(ix), |used| &mut used.switches));
        let switches = switches.collect();
        let hosts = topology.host_ixs().map(|ix| next(Node::Host(ix), |used| &mut used.hosts)).collect();
        let ends = |Direction { from, to, .. }: &Direction| DirectionEnds {
            transmitter: next(from.node, |used| &mut used.transmitters),
            wire: next(to.node, |used| &mut used.wires),
        };
        Locations { switches, hosts, directions: directions.iter().map(ends).collect() }
    }
}

/// Numbers of indices that are allocated in one process.
#[derive(Clone, Default)]
struct IndicesUsed {
    switches: u32,
    hosts: u32,
    transmitters: u32,
    wires: u32,
}

/// Returns the index of a node among all nodes, switches first.
fn node_index(switches: usize, node: Node) -> usize {
    match node {
        Node::Switch(ix) => ix.0 as usize,
        Node::Host(ix) => switches + ix.0 as usize,
    }
}

/// A link direction with its sending and its receiving port.
struct Direction {
    spec: DirectionSpec,
    from: Endpoint,
    to: Endpoint,
}

/// Returns both directions of every link, in the order of their numbers.
fn all_directions(topology: &Topology) -> Vec<Direction> {
    let both = |(i, link): (u32, &Link)| {
        let spec = |number| DirectionSpec { number, rate: link.rate, delay: link.delay };
        let (a, b) = (link.a, link.b);
        [Direction { spec: spec(2 * i), from: a, to: b }, Direction { spec: spec(2 * i + 1), from: b, to: a }]
    };
    (0..).zip(&topology.links).flat_map(both).collect()
}

/// Returns the number of the direction in which `node` sends on `link`.
fn outgoing_direction(topology: &Topology, node: Node, link: usize) -> u32 {
    let from_a = topology.links[link].a.node == node;
    2 * link as u32 + u32::from(!from_a)
}
