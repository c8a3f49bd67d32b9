//! A POLICY packet of one host reaches all others once, through the real programs and the controller's own entries, and
//! a host that says too much is cut short.

use std::collections::BTreeMap;
use weir_controller::topology::{HostIx, Node, SwitchIx, Topology};
use weir_experiment::Experiment;
use weir_host::wire::{
    Ecn, FrameRepr, FrameView, MAX_HEADER_LEN, POLICY_GROUP, POLICY_GROUP_MAC, PacketKind, WEIR_PORT,
    WeirRepr,
};
use weir_sim::counters;
use weir_sim::fabric_builder::FabricBuilder;
use weir_sim::network::View;
use weir_switch::engine::ReadyPorts;
use weir_switch::packet::Packet;
use weir_switch::program::Engine;
use weir_units::Time;

const PAYLOAD: &[u8] = &[7; 200];

fn experiment(topology: &str, scheme: &str) -> Experiment {
    let text = format!(
        "topology: {topology}\nschemes: [{scheme}]\nflows: [{{from: h1, to: h2, size: 1KB}}]\nduration: 1ms\n"
    );
    Experiment::parse(&text, "test.yaml", "test", &[], None).unwrap_or_else(|e| panic!("{topology}: {e}"))
}

/// As host `from` sends it.
fn policy(topology: &Topology, from: HostIx) -> Vec<u8> {
    let host = topology.host(from);
    let weir = WeirRepr::of(PacketKind::Policy);
    let frame = FrameRepr {
        source_mac: host.mac,
        destination_mac: POLICY_GROUP_MAC,
        source: host.ip,
        destination: POLICY_GROUP,
        dscp: 0,
        ecn: Ecn::NotEct,
        entropy_port: WEIR_PORT,
        weir,
        payload_len: PAYLOAD.len() as u32,
    };
    let mut bytes = vec![0; MAX_HEADER_LEN];
    let head = frame.emit(&[], &mut bytes).expect("it fits");
    bytes.truncate(head);
    bytes.extend(PAYLOAD);
    bytes
}

/// Carries a frame through the fabric, link by link, without delay. Returns the number of copies that each host gets,
/// and the links used.
fn carry(
    topology: &Topology,
    network: &mut View<'_>,
    from: HostIx,
    frame: &[u8],
) -> (BTreeMap<HostIx, Vec<Vec<u8>>>, usize) {
    let host = topology.host(from);
    let (mut heard, mut links) = (BTreeMap::<_, Vec<_>>::new(), 1);
    let mut flying = vec![(host.switch, host.switch_port, Packet::from_bytes(frame))];
    while let Some((at, port, packet)) = flying.pop() {
        let switch = &mut network.switch_mut(at).switch;
        let mut ready = ReadyPorts::default();
        switch.receive(Time::ZERO, port, packet, &mut ready);
        for port in std::mem::take(&mut ready.0) {
            while let Some(packet) = switch.transmit(Time::ZERO, port, &mut ready) {
                links += 1;
                let (_, end) = topology.peer(at, port).expect("a link");
                match end.node {
                    Node::Switch(next) => flying.push((next, end.port, packet)),
                    Node::Host(host) => heard.entry(host).or_default().push(packet.to_vec()),
                }
            }
        }
        assert!(switch.counters().is_balanced());
        assert!(links < 10_000, "it goes in circles");
    }
    (heard, links)
}

const FABRICS: [&str; 4] = [
    "{kind: dumbbell, switches: 3, senders: 2, receivers: 2, rate: 100Gbps}",
    "{kind: fat-tree, k: 4, rate: 100Gbps}",
    "{kind: leaf-spine, leaves: 3, spines: 2, hosts_per_leaf: 2}",
    "{kind: custom, hosts: [h1, h2, h3], switches: [s1, s2, s3], links:
      [[h1, s1], [h2, s2], [h3, s3], [s1, s2], [s2, s3], [s3, s1]]}",
];

#[test]
fn every_host_hears_every_other_once_in_every_program() {
    for (number, topology) in FABRICS.iter().enumerate() {
        // Those that run different programs.
        let schemes = ["hpcc", "hpcc++", "fncc", "dctcp", "rocc", "rcp", "dart", "expresspass"];
        for scheme in schemes.iter().filter(|_| number < 2).chain(schemes.iter().take(1)) {
            let experiment = experiment(topology, scheme);
            let topology = &experiment.topology;
            let network = FabricBuilder::new(&experiment, &experiment.schemes[0], Engine::default())
                .and_then(|it| it.build())
                .unwrap();
            let mut network = network.view();
            for from in topology.host_ixs() {
                let frame = policy(topology, from);
                let (heard, links) = carry(topology, &mut network, from, &frame);
                let others: Vec<HostIx> = topology.host_ixs().filter(|&host| host != from).collect();
                assert_eq!(heard.keys().copied().collect::<Vec<_>>(), others, "{scheme}");
                for copies in heard.values() {
                    let [copy] = &copies[..] else { panic!("{scheme}: {} copies", copies.len()) };
                    let view = FrameView::new(copy, 0).expect("a frame of ours");
                    assert_eq!((view.weir.kind(), view.payload()), (PacketKind::Policy, PAYLOAD), "{scheme}");
                    assert_eq!(view.ethernet.destination(), POLICY_GROUP_MAC);
                    assert_eq!(
                        (view.ip.source(), view.ip.destination()),
                        (topology.host(from).ip, POLICY_GROUP)
                    );
                }
                // A tree: one link less than it has nodes.
                assert!(links < topology.hosts.len() + topology.switches.len(), "{scheme}: {links}");
            }
            assert!(
                counters::collect_counts(&network).drops.is_empty(),
                "{scheme}: {:?}",
                counters::collect_counts(&network).drops
            );
        }
    }
}

/// A host may send a sixteenth of 64 KB at once, and then nothing, as the clock stands still. When all hosts but one
/// have sent that much, everybody still receives that one's packets.
#[test]
fn flood_meter_limits_a_host() {
    let experiment = experiment(FABRICS[1], "fncc");
    let topology = &experiment.topology;
    let network = FabricBuilder::new(&experiment, &experiment.schemes[0], Engine::default())
        .and_then(|it| it.build())
        .unwrap();
    let mut network = network.view();
    let frame = policy(topology, HostIx(0));
    let burst = 64_000 / 16 / frame.len();
    for said in 0..burst + 50 {
        let (heard, _) = carry(topology, &mut network, HostIx(0), &frame);
        assert_eq!(heard.len(), if said < burst { 15 } else { 0 }, "packet {said}");
    }
    let drops = counters::collect_counts(&network).drops;
    assert_eq!(drops, BTreeMap::from([("policy_limit".to_owned(), 50)]));
    for host in 2..16 {
        let frame = policy(topology, HostIx(host));
        for _ in 0..burst + 1 {
            carry(topology, &mut network, HostIx(host), &frame);
        }
    }
    let (heard, _) = carry(topology, &mut network, HostIx(1), &policy(topology, HostIx(1)));
    assert_eq!(heard.len(), 15, "{heard:?}");
    assert_eq!(network.switches().count(), 20);
    assert_eq!(topology.host(HostIx(1)).switch, SwitchIx(0));
}
