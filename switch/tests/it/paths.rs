//! From a topology to packets: the plan of a fabric is applied through P4Runtime's entities to one switch each, and
//! packets are pushed by hand from every host to every other. Data arrives, its ACK takes the same switches in
//! reverse order, and every port is the one that `weir_controller`'s copy of the path hash predicts.

use p4runtime::p4info::Index;
use std::net::Ipv4Addr;
use std::sync::Arc;
use weir_controller::hash::{FiveTuple, UDP};
use weir_controller::plan::{Planner, Table, entry};
use weir_controller::routes::{RoutingMethod, routes};
use weir_controller::topology::{CPU_PORT, HostIx, LinkIx, Node, Topology, build};
use weir_controller::{Path, PlanOptions, Routes};
use weir_switch::control::Control;
use weir_switch::engine::ReadyPorts;
use weir_switch::{Packet, Program, Switch, SwitchConfig};
use weir_units::Time;

const HPCC: (&str, &str) =
    (include_str!("../../../p4src/build/hpcc.json"), include_str!("../../../p4src/build/hpcc.p4info.txtpb"));
const FNCC: (&str, &str) =
    (include_str!("../../../p4src/build/fncc.json"), include_str!("../../../p4src/build/fncc.p4info.txtpb"));

const HOST_TRAFFIC: (&str, &str) =
    (include_str!("../programs/host_traffic.json"), include_str!("../programs/host_traffic.p4info.txtpb"));

/// Values of `host/src/wire` and `p4src/include/constants.p4`.
const WEIR_PORT: u16 = 22341;
const DATA: u8 = 0;
const ACK: u8 = 1;
const FLAG_TELEMETRY: u8 = 4;
/// Offset of the Weir header, after Ethernet, IPv4 and UDP.
const WEIR_OFFSET: usize = 14 + 20 + 8;
const HEADERS: usize = WEIR_OFFSET + 24;
const RECORD: usize = 8;

struct Fabric {
    topology: Topology,
    routes: Routes,
    switches: Vec<Switch>,
    now: Time,
}

impl Fabric {
    fn new(topology: &str, method: RoutingMethod, program: (&str, &str)) -> Fabric {
        Fabric::with_tables(topology, method, program, Vec::new())
    }

    /// Fills further tables of the program.
    fn with_tables(
        topology: &str,
        method: RoutingMethod,
        program: (&str, &str),
        tables: Vec<Table>,
    ) -> Fabric {
        let topology = build(&serde_yaml::from_str(topology).unwrap()).unwrap();
        let routes = routes(&topology, method).unwrap();
        let (json, p4info) =
            (Program::from_json(program.0).unwrap(), Arc::new(Index::from_text(program.1).unwrap()));
        let planner = Planner::new(&topology, &routes, PlanOptions::default(), &p4info).unwrap();
        let planner = planner.with_tables(tables);
        let switches = topology.switch_ixs().map(|ix| {
            let switch_info = topology.switch(ix);
            let mut config = SwitchConfig::new(switch_info.ports().map(|(port, _)| port));
            config.cpu_port = Some(CPU_PORT);
            let mut switch = Switch::new(Arc::clone(&json), config, 1).unwrap();
            let mut control = Control::new(Arc::clone(&p4info), &switch).unwrap();
            control.apply_all(&mut switch, &planner.updates(ix).unwrap()).unwrap();
            switch
        });
        let switches = switches.collect();
        Fabric { topology, routes, switches, now: Time::from_us(1) }
    }

    /// Forwards a frame from a host until it arrives. Returns the destination, the links on the path and the frame.
    fn forward(&mut self, from: HostIx, frame: &[u8]) -> (HostIx, Vec<LinkIx>, Vec<u8>) {
        let mut frame = frame.to_vec();
        let host = self.topology.host(from);
        let (mut current, mut port, mut links) = (host.switch, host.switch_port, vec![host.link]);
        loop {
            self.now += Time::from_us(1);
            let switch = &mut self.switches[current.0 as usize];
            let mut out = ReadyPorts::default();
            switch.receive(self.now, port, Packet::from_bytes(&frame), &mut out);
            let ports: Vec<u16> = out.0.iter().copied().collect();
            let [ready] = ports[..] else { panic!("{ports:?} of {}", self.topology.switch(current).name) };
            let sent = switch.transmit(self.now, ready, &mut out).expect("a frame");
            assert!(switch.transmit(self.now, ready, &mut out).is_none() && switch.counters().is_balanced());
            frame = sent.bytes().to_vec();
            let (link, peer) = self.topology.peer(current, ready).expect("a link");
            links.push(link);
            match peer.node {
                Node::Host(host) => return (host, links, frame),
                Node::Switch(next) => (current, port) = (next, peer.port),
            }
        }
    }

    fn ip(&self, host: HostIx) -> Ipv4Addr {
        self.topology.host(host).ip
    }

    /// A data packet and its ACK between two hosts, checked on every count.
    fn exchange(&mut self, program: (&str, &str), src: HostIx, dst: HostIx, entropy: u16) -> Path {
        let tuple = FiveTuple {
            src: self.ip(src),
            dst: self.ip(dst),
            src_port: entropy,
            dst_port: WEIR_PORT,
            protocol: UDP,
        };
        let path = self.routes.path_of(&self.topology, tuple).unwrap().unwrap();
        let hops = path.hops.len();

        let (arrived, links, frame) = self.forward(src, &packet(tuple, DATA, FLAG_TELEMETRY));
        assert_eq!((arrived, &links), (dst, &path.links), "data of {tuple:?}");
        assert_eq!(frame[..6], self.topology.host(dst).mac, "the last switch writes the host's MAC");
        let recorded = if program == HPCC { hops } else { 0 };
        assert_eq!(usize::from(int_hops(&frame)), recorded);
        assert_eq!(frame.len(), HEADERS + recorded * RECORD);
        assert_eq!(path_id(&frame), path.path_id(&self.topology));
        assert_eq!(frame[22], 64 - hops as u8, "TTL");

        let (arrived, back, ack) = self.forward(dst, &packet(tuple.reversed(), ACK, FLAG_TELEMETRY));
        let reversed: Vec<LinkIx> = links.iter().rev().copied().collect();
        assert_eq!((arrived, back), (src, reversed), "ACK of {tuple:?}");
        assert_eq!(path_id(&ack), path_id(&frame));
        let recorded = if program == FNCC { hops } else { 0 };
        assert_eq!(usize::from(int_hops(&ack)), recorded);
        path
    }
}

fn int_hops(frame: &[u8]) -> u8 {
    frame[WEIR_OFFSET + 6] >> 4
}

fn path_id(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[WEIR_OFFSET + 6] & 0x0f, frame[WEIR_OFFSET + 7]])
}

/// Returns a frame without payload. Switches ignore MAC addresses; the last one rewrites them.
fn packet(tuple: FiveTuple, kind: u8, flags: u8) -> Vec<u8> {
    let mut frame = vec![0xff; 12];
    frame.extend([0x08, 0x00]);
    let total = (HEADERS - 14) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend(total.to_be_bytes());
    ip.extend([0, 0, 0, 0, 64, tuple.protocol, 0, 0]);
    ip.extend(tuple.src.octets());
    ip.extend(tuple.dst.octets());
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame.extend(ip);
    frame.extend(tuple.src_port.to_be_bytes());
    frame.extend(tuple.dst_port.to_be_bytes());
    frame.extend((total - 20).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend([1 << 4 | kind, flags]);
    frame.resize(HEADERS, 0);
    frame
}

/// Exchanges packets between all pairs of hosts, over several flows. Returns the number of distinct paths.
fn count_paths(topology: &str, method: RoutingMethod, program: (&str, &str), flows: u16) -> usize {
    let mut fabric = Fabric::new(topology, method, program);
    let mut seen = std::collections::BTreeSet::new();
    let hosts: Vec<HostIx> = fabric.topology.host_ixs().collect();
    for &src in &hosts {
        for &dst in hosts.iter().filter(|&&dst| dst != src) {
            for flow in 0..flows {
                seen.insert(fabric.exchange(program, src, dst, 40_000 + 7 * flow).links);
            }
        }
    }
    seen.len()
}

const DUMBBELL: &str = "{kind: dumbbell, switches: 3, senders: 2, receivers: 2}";
const LEAF_SPINE: &str = "{kind: leaf-spine, leaves: 3, spines: 4, hosts_per_leaf: 2}";
const FAT_TREE: &str = "{kind: fat-tree, k: 4}";
/// Six switches, so that opposite ones have two shortest paths and ECMP cannot be symmetric.
const RING: &str =
    "{kind: custom, hosts: [h1, h2, h3, h4, h5, h6], switches: [s1, s2, s3, s4, s5, s6], links:
  [[h1, s1], [h2, s2], [h3, s3], [h4, s4], [h5, s5], [h6, s6],
   [s1, s2], [s2, s3], [s3, s4], [s4, s5], [s5, s6], [s6, s1]]}";
const PARALLEL: &str = "{kind: custom, hosts: [h1, h2], switches: [s1, s2, s3, s4], links:
  [[h1, s1], [h2, s2], [s1, s3], [s1, s3], [s1, s4], [s1, s4], [s2, s3], [s2, s3], [s2, s4], [s2, s4]]}";

#[test]
fn a_dumbbell_has_one_path_per_pair() {
    assert_eq!(count_paths(DUMBBELL, RoutingMethod::Auto, HPCC, 3), 4 * 3);
    assert_eq!(count_paths(DUMBBELL, RoutingMethod::Auto, FNCC, 3), 4 * 3);
}

#[test]
fn leaf_spine_spreads_symmetrically() {
    for program in [HPCC, FNCC] {
        // 6 pairs in a rack with one path, 24 across with up to 4: nearly all are used.
        assert!(count_paths(LEAF_SPINE, RoutingMethod::Auto, program, 16) > 6 + 24 * 3);
    }
}

#[test]
fn fat_tree_spreads_symmetrically() {
    for program in [HPCC, FNCC] {
        // 16 pairs in a rack, 32 in a pod with 2 paths, 192 across with 4.
        assert!(count_paths(FAT_TREE, RoutingMethod::Auto, program, 12) > 16 + 32 + 192 * 3);
    }
}

#[test]
fn trees_are_symmetric_on_a_ring_and_on_a_fat_tree() {
    for program in [HPCC, FNCC] {
        assert!(count_paths(RING, RoutingMethod::Auto, program, 16) > 30 + 20);
        assert!(count_paths(FAT_TREE, RoutingMethod::Trees, program, 8) > 16 + 32 + 192 * 2);
    }
}

#[test]
fn parallel_links_are_all_used() {
    for program in [HPCC, FNCC] {
        assert_eq!(count_paths(PARALLEL, RoutingMethod::Ecmp, program, 64), 2 * 4);
    }
}

/// A new table is one control in P4 (`programs/host_traffic_control.p4`) and one entry per row here.
#[test]
fn a_table_of_ones_own_counts_the_packets_to_each_host() {
    let traffic = Table::new("host_traffic", |switch| {
        let hosts = switch.topology().hosts.iter();
        hosts.map(|host| entry!(host_traffic[dst_addr = host.ip] -> count())).collect()
    });
    let mut fabric = Fabric::with_tables(DUMBBELL, RoutingMethod::Auto, HOST_TRAFFIC, vec![traffic]);
    let hosts: Vec<HostIx> = fabric.topology.host_ixs().collect();
    for (flow, &dst) in (0..).zip(&hosts[1..]) {
        let (src, dst_ip) = (fabric.ip(hosts[0]), fabric.ip(dst));
        let tuple = FiveTuple { src, dst: dst_ip, src_port: flow, dst_port: WEIR_PORT, protocol: UDP };
        for _ in 0..=flow {
            assert_eq!(fabric.forward(hosts[0], &packet(tuple, DATA, 0)).0, dst);
        }
    }
    // The first switch has forwarded all packets: 1, 2 and 3 to the other hosts.
    let pipeline = fabric.switches[0].pipeline();
    let table = pipeline.table_by_name("host_traffic").unwrap();
    let counted = pipeline.table_entries(table).into_iter().map(|entry| {
        let counter = pipeline.direct_counter_read(table, entry.handle).unwrap();
        assert_eq!(counter.bytes, counter.packets * HEADERS as u64);
        counter.packets
    });
    assert_eq!(counted.collect::<Vec<_>>(), [0, 1, 2, 3]);
}
