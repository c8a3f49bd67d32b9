//! Several switches in one process, with links between them.

use crate::lab::frames::{delivered, udp};
use crate::lab::{Lab, wait_for};
use crate::{CPU_PORT, Nic, Notification, TIMEOUT, hpcc, ports, read_pcap, scratch, subscribe, two_ports};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_switch::driver::{
    CaptureConfig, DataplaneConfig, DirectionStatus, FabricDataplane, FabricMember, FabricPort, IoDrop,
    PortLinkConfig,
};
use weir_switch::drops::DropReason;
use weir_switch::link::LinkDrop;
use weir_switch::pipeline::ActionCall;
use weir_switch::{Program, Switch};
use weir_units::{Bandwidth, Time};

/// Four switches in a row, `h1` at port 1 of the first and `h2` at port 2 of the last, on links of 1 Gbit/s and 1 ms.
fn chain(lab: &Lab, capture: Option<CaptureConfig>) -> (FabricDataplane, Nic, Nic) {
    lab.cable(("switch", "p1"), ("hosts", "h1"), 1500);
    lab.cable(("switch", "p2"), ("hosts", "h2"), 1500);
    let link = PortLinkConfig::new(Bandwidth::from_gbps(1), Time::from_ms(1));
    let member = |index: u16| {
        let internal = |port, peer| FabricPort { port, name: format!("s{index}-eth{port}"), peer };
        let (ports, internal_ports) = match index {
            0 => (vec![(1, "p1".to_owned())], vec![internal(2, (1, 1))]),
            3 => (vec![(2, "p2".to_owned())], vec![internal(1, (2, 2))]),
            _ => (vec![], vec![internal(1, (index - 1, 2)), internal(2, (index + 1, 1))]),
        };
        let port_links = internal_ports.iter().map(|internal| (internal.port, link)).collect();
        let config = DataplaneConfig { port_links, capture: capture.clone(), ..DataplaneConfig::default() };
        FabricMember { switch: hpcc(config.switch_config()), config, ports, internal_ports }
    };
    let fabric = lab.within("switch", || FabricDataplane::start((0..4).map(member).collect()).unwrap());
    (fabric, Nic::open(lab, "hosts", "h1"), Nic::open(lab, "hosts", "h2"))
}

#[test]
fn a_fabric_carries_frames_through_four_switches() {
    let Some(lab) = Lab::new("a_fabric_carries_frames", &["switch", "hosts"]) else { return };
    let directory = scratch("fabric");
    let capture = CaptureConfig { directory: directory.clone(), limit: CaptureConfig::LIMIT };
    let (fabric, mut h1, mut h2) = chain(&lab, Some(capture));
    let start = Instant::now();
    h1.send(&(0..50).map(|n: usize| udp(1, 2, 100 + n)).collect::<Vec<_>>());
    let expected = |n: usize| (0..4).fold(udp(1, 2, 100 + n), |frame, _| delivered(frame, 2));
    assert_eq!(h2.receive(50), (0..50).map(expected).collect::<Vec<_>>());
    assert!(start.elapsed() > Duration::from_millis(3), "three links of 1 ms: {:?}", start.elapsed());
    h2.send(&[udp(2, 1, 200)]);
    assert_eq!(h1.receive(1), [(0..4).fold(udp(2, 1, 200), |frame, _| delivered(frame, 1))]);

    let stats = fabric.stop();
    for (index, stats) in stats.iter().enumerate() {
        let counters = stats.switch.as_ref().unwrap();
        assert!(counters.is_balanced(), "switch {index}: {counters:?}");
        assert_eq!(
            (counters.received, counters.sent, counters.dropped.total().packets),
            (51, 51, 0),
            "switch {index}"
        );
        let ports: Vec<_> = stats.ports.iter().map(|port| &port.counters).collect();
        assert_eq!(
            ports.iter().map(|port| (port.received.packets, port.sent.packets)).collect::<Vec<_>>(),
            [(50, 1), (1, 50)]
        );
    }
    assert_eq!(read_pcap(&directory.join("s1-eth2_out.pcap")).len(), 50);
    std::fs::remove_dir_all(directory).unwrap();
}

/// Needs no root: the switches have only the link between them.
#[test]
fn members_whose_watch_port_is_unplugged_are_not_selected() {
    let link = PortLinkConfig::new(Bandwidth::from_gbps(1), Time::from_ms(1));
    let program = Program::from_json(include_str!("../data/tables.json")).unwrap();
    let member = |index: u16| {
        let internal = FabricPort { port: 1, name: format!("s{index}-eth1"), peer: (1 - index, 1) };
        let config = DataplaneConfig {
            port_links: BTreeMap::from([(1, link)]),
            cpu_port: Some(CPU_PORT),
            ..DataplaneConfig::default()
        };
        let switch = Switch::new(program.clone(), config.switch_config(), 1).unwrap();
        FabricMember { config, switch: Some(Box::new(switch)), ports: vec![], internal_ports: vec![internal] }
    };
    let fabric = FabricDataplane::start((0..2).map(member).collect()).unwrap();
    let handles = fabric.handles();
    let watching = |switch: &mut Switch| {
        let pipeline = switch.pipeline_mut();
        let result = pipeline.member_action_by_name("chosen", "result").unwrap();
        let result = ActionCall::action(result, [vec![0, 1]]);
        let members = [0; 3].map(|_| pipeline.member_add("chosen", &result).unwrap());
        let group = pipeline.group_add("chosen", &members).unwrap();
        let ports = members.into_iter().zip([1, u32::from(CPU_PORT), 7]).collect();
        pipeline.group_set_watch_ports("chosen", group, &ports).unwrap();
        group
    };
    let groups = [0, 1].map(|n| handles[n].with(move |switch, _| watching(switch)).unwrap());
    let selectable = |n: usize| {
        let group = groups[n];
        let members = handles[n].with(move |switch, _| switch.pipeline().group_selectable("chosen", group));
        members.unwrap().unwrap().iter().map(|member| member.0).collect::<Vec<_>>()
    };
    assert_eq!([selectable(0), selectable(1)], [[0, 1], [0, 1]], "the link is up, port 7 does not exist");
    handles[0].remove_port(1).wait().unwrap();
    wait_for(TIMEOUT, || [selectable(0), selectable(1)] == [[1], [1]]);
    handles[0].add_port(1, "s0-eth1").wait().unwrap();
    wait_for(TIMEOUT, || [selectable(0), selectable(1)] == [[0, 1], [0, 1]]);
    // A new switch gets the port states when it is installed.
    handles[0].remove_port(1).wait().unwrap();
    let mut new =
        Box::new(Switch::new(program.clone(), handles[0].switch_config().wait().unwrap(), 1).unwrap());
    assert_eq!(watching(&mut new), groups[0]);
    handles[0].install(new).wait().unwrap();
    assert_eq!(selectable(0), [1]);
    fabric.stop();
}

#[test]
fn a_fabric_link_can_be_unplugged_and_plugged_in() {
    let Some(lab) = Lab::new("a_link_of_a_fabric_can_be_cut", &["switch", "hosts"]) else { return };
    let (fabric, h1, mut h2) = chain(&lab, None);
    let handles = fabric.handles();
    let (local, peer) = (subscribe(&handles[1]), subscribe(&handles[2]));
    handles[1].remove_port(2).wait().unwrap();
    assert_eq!(local.recv_timeout(TIMEOUT), Ok(Notification::Port(2, false)));
    assert_eq!(peer.recv_timeout(TIMEOUT), Ok(Notification::Port(1, false)), "both ends are notified");
    h1.send(&[udp(1, 2, 100)]);
    let dropped =
        |port: usize| handles[1].stats().wait().unwrap().ports[port].counters.dropped.get(IoDrop::PortDown);
    wait_for(TIMEOUT, || dropped(1) == 1);
    let refused = handles[1].add_port(2, "another").wait().unwrap_err();
    assert!(refused.to_string().contains("s1-eth2 is already port 2"), "{refused}");
    handles[1].add_port(2, "s1-eth2").wait().unwrap();
    assert_eq!(peer.recv_timeout(TIMEOUT), Ok(Notification::Port(1, true)));
    h1.send(&[udp(1, 2, 101)]);
    assert_eq!(h2.receive(1)[0].len(), 101);
    let stats = fabric.stop();
    assert_eq!(
        (stats[1].ports[1].counters.link_down_events, stats[2].ports[0].counters.link_down_events),
        (1, 1)
    );
}

#[test]
fn an_access_link_has_two_directions_and_can_be_changed() {
    let Some(lab) = Lab::new("the_link_to_a_host", &["switch", "hosts"]) else { return };
    let link = PortLinkConfig::new(Bandwidth::from_mbps(10), Time::from_ms(50));
    let config = DataplaneConfig { port_links: BTreeMap::from([(1, link)]), ..DataplaneConfig::default() };
    let (dataplane, mut h1, mut h2) = two_ports(&lab, config);
    let handle = dataplane.handle();
    let link = || handle.links().wait().unwrap().ports.remove(0);
    let start = Instant::now();
    h1.send(&[udp(1, 2, 1250), udp(1, 2, 1250)]);
    h2.receive(2);
    assert!(start.elapsed() >= Duration::from_millis(52), "towards the switch: {:?}", start.elapsed());
    let start = Instant::now();
    h2.send(&[udp(2, 1, 1250)]);
    h1.receive(1);
    assert!(start.elapsed() >= Duration::from_millis(51), "from the switch: {:?}", start.elapsed());
    let status = link();
    let counts = |status: &DirectionStatus| {
        (status.counters.offered.packets, status.counters.delivered.packets, status.in_flight)
    };
    assert_eq!((status.port, counts(&status.received), counts(&status.sent)), (1, (2, 2, 0), (1, 1, 0)));
    assert_eq!(handle.links().wait().unwrap().lateness.len(), 1, "one frame left for an interface");

    let change = |change: &str| handle.change_links(vec![1, 7], change.parse().unwrap()).wait().unwrap();
    change("loss=100%");
    h1.send(&[udp(1, 2, 100)]);
    h2.send(&[udp(2, 1, 100)]);
    let lost = |reason| [link().received, link().sent].map(|direction| direction.counters.dropped(reason));
    wait_for(TIMEOUT, || lost(LinkDrop::Loss) == [1, 1]);
    change("loss=0,up=false");
    h1.send(&[udp(1, 2, 100)]);
    wait_for(TIMEOUT, || lost(LinkDrop::Down) == [1, 0]);
    change("up=true,delay=1ms,rate=100Mbps");
    // A busy machine delays some frames.
    let mut sent = 0;
    wait_for(TIMEOUT, || {
        sent += 1;
        let start = Instant::now();
        h1.send(&[udp(1, 2, 101)]);
        assert_eq!(h2.receive(1)[0].len(), 101);
        start.elapsed() < Duration::from_millis(50)
    });
    assert_eq!(link().link.rate, Some(Bandwidth::from_mbps(100)));
    handle.remove_port(1).wait().unwrap();
    assert_eq!(link().received.counters.offered.packets, 4 + sent, "the counters are kept");
    handle.add_port(1, "p1").wait().unwrap();
    h1.send(&[udp(1, 2, 102)]);
    assert_eq!(h2.receive(1)[0].len(), 102);
    assert_eq!(link().received.counters.offered.packets, 5 + sent);
    let counters = dataplane.stop().switch.unwrap();
    assert_eq!(
        (counters.received, counters.sent),
        (5 + sent, 5 + sent),
        "frames lost on the link did not reach the switch"
    );
}

/// A program of `replicate.p4` that does not end: its parser's start state leads to itself, or a packet whose first byte
/// is 3 is resubmitted, or one whose first byte is 4 is recirculated, for ever.
fn endless(parser: bool) -> String {
    let mut json: serde_json::Value =
        serde_json::from_str(include_str!("../programs/replicate.json")).unwrap();
    if parser {
        let start = &mut json["parsers"][0]["parse_states"][0];
        start["parser_ops"] = serde_json::json!([]);
        start["transitions"][0]["next_state"] = "start".into();
        return json.to_string();
    }
    for action in json["actions"].as_array_mut().unwrap() {
        for statement in action["primitives"].as_array_mut().unwrap() {
            if statement.to_string().contains("m.tag + 1") {
                *statement = serde_json::from_str(&statement.to_string().replace("0x01", "0x00")).unwrap();
            }
        }
    }
    json.to_string()
}

/// One switch of a process runs programs that do not end. Another one goes on, and so do the control calls of both.
#[test]
fn a_program_that_does_not_end_stops_no_other_switch() {
    let Some(lab) = Lab::new("a_program_that_does_not_end", &["switch", "hosts"]) else { return };
    for number in 1..=3 {
        lab.cable(("switch", &format!("p{number}")), ("hosts", &format!("h{number}")), 1500);
    }
    let link = PortLinkConfig::new(Bandwidth::from_gbps(1), Time::from_us(10));
    let member = |ports: Vec<(u16, String)>, port: u16, peer: (u16, u16)| {
        let internal_ports = vec![FabricPort { port, name: format!("eth{port}"), peer }];
        let config =
            DataplaneConfig { port_links: BTreeMap::from([(port, link)]), ..DataplaneConfig::default() };
        FabricMember { switch: None, config, ports, internal_ports }
    };
    let members =
        vec![member(ports(&["p1", "p2"]), 3, (1, 2)), member(vec![(1, "p3".to_owned())], 2, (0, 3))];
    let fabric = lab.within("switch", || FabricDataplane::start(members).unwrap());
    let handles = fabric.handles();
    let config = DataplaneConfig::default().switch_config();
    handles[0].install(hpcc(config.clone()).unwrap()).wait().unwrap();
    let (h1, h3) = (Nic::open(&lab, "hosts", "h1"), Nic::open(&lab, "hosts", "h3"));
    let mut h2 = Nic::open(&lab, "hosts", "h2");

    let bad_frame = |op: u8| (0..200).map(|_| [vec![op; 64]].concat()).collect::<Vec<_>>();
    for (parser, op, reason) in [
        (true, 0, DropReason::ParserLoop),
        (false, 3, DropReason::ResubmitLimit),
        (false, 4, DropReason::RecirculateLimit),
    ] {
        let program = Program::from_json(&endless(parser)).unwrap();
        let switch = Switch::new(program, config.clone(), 1).unwrap();
        handles[1].install(Box::new(switch)).wait().unwrap();
        h3.send(&bad_frame(op));
        if parser {
            // Frames for host 3 reach the other switch on the link between the two.
            h1.send(&(0..50).map(|_| udp(1, 3, 100)).collect::<Vec<_>>());
        }
        let dropped = || handles[1].with(move |switch, _| switch.drops().get(reason).packets).unwrap();
        wait_for(TIMEOUT, || dropped() > 0);
        let before = dropped();
        let start = Instant::now();
        h1.send(&(0..20).map(|_| udp(1, 2, 100)).collect::<Vec<_>>());
        h2.receive(20);
        let took = start.elapsed();
        let during = dropped() - before;
        // Each packet that is dropped meanwhile takes milliseconds; the frames do not wait for all of them.
        assert!(during < 100, "{}: {during} drops in {took:?}", reason.name());
        handles[1].stats().wait().unwrap();
    }
    let start = Instant::now();
    for stats in fabric.stop() {
        let counters = stats.switch.unwrap();
        assert!(counters.is_balanced(), "{counters:?}");
    }
    assert!(start.elapsed() < TIMEOUT, "{:?}", start.elapsed());
}
