//! A POLICY packet of one host reaches all others once, through the P4 programs with the controller's table entries,
//! and a meter limits hosts that send too many of them.

use std::collections::BTreeMap;
use weir_controller::topology::{HostIx, Node, SwitchIx, Topology};
use weir_experiment::Experiment;
use weir_host::wire::{
    Ecn, FrameRepr, FrameView, MAX_HEADER_LEN, POLICY_GROUP, POLICY_GROUP_MAC, PacketKind, WEIR_PORT,
    WeirRepr,
};
use weir_sim::counts;
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

/// Returns a POLICY frame as host `from` sends it.
fn policy_frame(topology: &Topology, from: HostIx) -> Vec<u8> {
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
    let head = frame.emit(&[], &mut bytes).expect("the buffer is large enough");
    bytes.truncate(head);
    bytes.extend(PAYLOAD);
    bytes
}

/// Carries a frame through the fabric, link by link, without delay. Returns the number of copies that each host gets,
/// and the links used.
fn forward(
    topology: &Topology,
    network: &mut View<'_>,
    from: HostIx,
    frame: &[u8],
) -> (BTreeMap<HostIx, Vec<Vec<u8>>>, usize) {
    let host = topology.host(from);
    let (mut received, mut links) = (BTreeMap::<_, Vec<_>>::new(), 1);
    let mut in_flight = vec![(host.switch, host.switch_port, Packet::from_bytes(frame))];
    while let Some((switch_ix, port, packet)) = in_flight.pop() {
        let switch = &mut network.switch_mut(switch_ix).switch;
        let mut ready = ReadyPorts::default();
        switch.receive(Time::ZERO, port, packet, &mut ready);
        for port in std::mem::take(&mut ready.0) {
            while let Some(packet) = switch.transmit(Time::ZERO, port, &mut ready) {
                links += 1;
                let (_, end) = topology.peer(switch_ix, port).expect("a link");
                match end.node {
                    Node::Switch(next) => in_flight.push((next, end.port, packet)),
                    Node::Host(host) => received.entry(host).or_default().push(packet.to_vec()),
                }
            }
        }
        assert!(switch.counters().is_balanced());
        assert!(links < 10_000, "the packet loops");
    }
    (received, links)
}

const FABRICS: [&str; 4] = [
    "{kind: dumbbell, switches: 3, senders: 2, receivers: 2, rate: 100Gbps}",
    "{kind: fat-tree, k: 4, rate: 100Gbps}",
    "{kind: leaf-spine, leaves: 3, spines: 2, hosts_per_leaf: 2}",
    "{kind: custom, hosts: [h1, h2, h3], switches: [s1, s2, s3], links:
      [[h1, s1], [h2, s2], [h3, s3], [s1, s2], [s2, s3], [s3, s1]]}",
];

#[test]
fn every_host_receives_each_policy_once_in_every_program() {
    for (number, topology) in FABRICS.iter().enumerate() {
        // Schemes with different programs.
        let schemes = ["hpcc", "hpcc++", "fncc", "dctcp", "rocc", "rcp", "dart", "expresspass"];
        for scheme in schemes.iter().filter(|_| number < 2).chain(schemes.iter().take(1)) {
            let experiment = experiment(topology, scheme);
            let topology = &experiment.topology;
            let network = FabricBuilder::new(&experiment, &experiment.schemes[0], Engine::default())
                .and_then(|builder| builder.build())
                .unwrap();
            let mut network = network.view();
            for from in topology.host_ixs() {
                let frame = policy_frame(topology, from);
                let (received, links) = forward(topology, &mut network, from, &frame);
                let others: Vec<HostIx> = topology.host_ixs().filter(|&host| host != from).collect();
                assert_eq!(received.keys().copied().collect::<Vec<_>>(), others, "{scheme}");
                for copies in received.values() {
                    let [copy] = &copies[..] else { panic!("{scheme}: {} copies", copies.len()) };
                    let view = FrameView::new(copy, 0).expect("a valid frame");
                    assert_eq!((view.weir.kind(), view.payload()), (PacketKind::Policy, PAYLOAD), "{scheme}");
                    assert_eq!(view.ethernet.destination(), POLICY_GROUP_MAC);
                    assert_eq!(
                        (view.ip.source(), view.ip.destination()),
                        (topology.host(from).ip, POLICY_GROUP)
                    );
                }
                // A tree has one link fewer than nodes.
                assert!(links < topology.hosts.len() + topology.switches.len(), "{scheme}: {links}");
            }
            assert!(
                counts::collect_counts(&network).drops.is_empty(),
                "{scheme}: {:?}",
                counts::collect_counts(&network).drops
            );
        }
    }
}

/// A host may send a burst of 64 KB / 16, and then nothing, because the clock stands still. After all hosts but one
/// have exhausted their bursts, the packets of the remaining one still reach everybody.
#[test]
fn flood_meter_limits_a_host() {
    let experiment = experiment(FABRICS[1], "fncc");
    let topology = &experiment.topology;
    let network = FabricBuilder::new(&experiment, &experiment.schemes[0], Engine::default())
        .and_then(|builder| builder.build())
        .unwrap();
    let mut network = network.view();
    let frame = policy_frame(topology, HostIx(0));
    let burst = 64_000 / 16 / frame.len();
    for sent in 0..burst + 50 {
        let (received, _) = forward(topology, &mut network, HostIx(0), &frame);
        assert_eq!(received.len(), if sent < burst { 15 } else { 0 }, "packet {sent}");
    }
    let drops = counts::collect_counts(&network).drops;
    assert_eq!(drops, BTreeMap::from([("policy_limit".to_owned(), 50)]));
    for host in 2..16 {
        let frame = policy_frame(topology, HostIx(host));
        for _ in 0..burst + 1 {
            forward(topology, &mut network, HostIx(host), &frame);
        }
    }
    let (received, _) = forward(topology, &mut network, HostIx(1), &policy_frame(topology, HostIx(1)));
    assert_eq!(received.len(), 15, "{received:?}");
    assert_eq!(network.switches().count(), 20);
    assert_eq!(topology.host(HostIx(1)).switch, SwitchIx(0));
}
