//! The switch in real time: on veth pairs between network namespaces of its own, and on pcap files.
//!
//! Without root privileges, the tests that need them are skipped with a message.

mod fabric;
mod lab;
mod links;

use lab::frames::{self, HPCC, delivered, host, mac, udp};
use lab::{Lab, wait_for};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use weir_switch::driver::af_packet::{Interface, RxRing, TxSocket};
use weir_switch::driver::{
    CaptureConfig, Dataplane, DataplaneConfig, DataplaneError, DataplaneEvent, DataplaneHandle, Delivery,
    FrameSource, IoDrop, PcapReader, PcapWriter, PortLinkConfig,
};
use weir_switch::engine::{SwitchConfig, SwitchOutput};
use weir_switch::pipeline::Digest;
use weir_switch::tm::{PauseQuanta, QueueLimits, Rate};
use weir_switch::{Packet, Program, Switch};
use weir_units::{Bandwidth, Time};

/// Size of a test's receive ring in bytes.
const RING: usize = 1 << 20;
/// Timeout of every step, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// `CPU_PORT` of p4src/include/constants.p4.
const CPU_PORT: u16 = 255;

/// The far end of a cable: sends and receives as a host would.
struct Nic {
    sender: TxSocket,
    ring: RxRing,
}

impl Nic {
    fn open(lab: &Lab, namespace: &str, interface: &str) -> Nic {
        lab.within(namespace, || {
            let interface = Interface::find(interface).unwrap();
            Nic { sender: TxSocket::open(&interface).unwrap(), ring: RxRing::open(&interface, RING).unwrap() }
        })
    }

    fn send(&self, frames: &[Vec<u8>]) {
        let mut sent = 0;
        while sent < frames.len() {
            sent += self.sender.send(frames[sent..].iter().map(Vec::as_slice)).unwrap();
        }
    }

    /// Receives `count` frames, with VLAN tags and checksums restored.
    fn receive(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let deadline = Instant::now() + TIMEOUT;
        while frames.len() < count {
            assert!(Instant::now() < deadline, "{} of {count} frames arrived", frames.len());
            let received = self.ring.receive(count - frames.len(), |frame| {
                let mut bytes = Vec::new();
                frame.write_to(&mut bytes);
                frames.push(bytes);
            });
            if received == 0 {
                std::thread::yield_now();
            }
        }
        frames
    }
}

fn ports(interfaces: &[&str]) -> Vec<(u16, String)> {
    (1..).zip(interfaces).map(|(port, name)| (port, (*name).to_owned())).collect()
}

/// hpcc.p4 with routes to the hosts behind ports 1 to 3.
fn hpcc(config: SwitchConfig) -> Option<Box<Switch>> {
    let mut switch = Switch::new(Program::from_json(HPCC).unwrap(), config, 1).unwrap();
    frames::route(&mut switch, 1..=3);
    Some(Box::new(switch))
}

fn start(config: DataplaneConfig, interfaces: &[&str]) -> Dataplane {
    let switch = hpcc(config.switch_config());
    Dataplane::start(config, switch, &ports(interfaces)).unwrap()
}

/// A switch with p1 and p2, cabled to h1 and h2.
fn two_ports(lab: &Lab, config: DataplaneConfig) -> (Dataplane, Nic, Nic) {
    lab.cable(("switch", "p1"), ("hosts", "h1"), 1500);
    lab.cable(("switch", "p2"), ("hosts", "h2"), 1500);
    let dataplane = lab.within("switch", || start(config, &["p1", "p2"]));
    (dataplane, Nic::open(lab, "hosts", "h1"), Nic::open(lab, "hosts", "h2"))
}

#[test]
fn a_port_behaves_like_a_cable() {
    let Some(lab) = Lab::new("a_port_behaves_like_a_cable", &["switch", "hosts"]) else { return };
    // 100 frames of 1,250 bytes at 10 Mbit/s: 1 ms each, and 50 ms until the first bit is there.
    let link = PortLinkConfig::new(Bandwidth::from_mbps(10), Time::from_ms(50));
    let limits = QueueLimits { packets: 200, ..QueueLimits::BMV2 };
    let config =
        DataplaneConfig { port_links: BTreeMap::from([(2, link)]), limits, ..DataplaneConfig::default() };
    let (dataplane, h1, mut h2) = two_ports(&lab, config);
    let frames: Vec<_> = (0..100).map(|_| udp(1, 2, 1250)).collect();
    let start = Instant::now();
    h1.send(&frames);
    let handle = dataplane.handle();
    wait_for(TIMEOUT, || handle.with(|switch, _| switch.counters().received).unwrap() == 100);
    let queued = handle.with(|switch, _| switch.queue_packets(2)).unwrap();
    assert!(queued > 50, "the queue is in the switch: {queued}");
    h2.receive(1);
    let first = start.elapsed();
    assert!(first >= Duration::from_millis(51), "serialisation and delay: {first:?}");
    h2.receive(99);
    let last = start.elapsed();
    assert!(last >= Duration::from_millis(150), "not faster than the rate: {last:?}");
    // A busy machine adds delay, but twice the time would mean half the rate.
    assert!(last < Duration::from_millis(250), "about the rate: {last:?}");
    let counters = dataplane.stop().switch.unwrap();
    assert_eq!((counters.sent, counters.dropped.total().packets), (100, 0));
}

/// Packet-ins and port changes, in order.
#[derive(Debug, PartialEq)]
enum Notification {
    PacketIn(Vec<u8>),
    Port(u16, bool),
}

fn subscribe(handle: &DataplaneHandle) -> Receiver<Notification> {
    let (sender, receiver) = sync_channel(64);
    let subscribed = handle.subscribe(move |event| {
        let notification = match event {
            DataplaneEvent::PacketIn { frame } => Notification::PacketIn(frame.to_vec()),
            DataplaneEvent::Port { port, up } => Notification::Port(port, up),
            DataplaneEvent::Digest(_) => return Delivery::Ignored,
        };
        match sender.try_send(notification) {
            Ok(()) => Delivery::Accepted,
            Err(TrySendError::Full(_)) => Delivery::Full,
            Err(TrySendError::Disconnected(_)) => Delivery::Closed,
        }
    });
    subscribed.wait().unwrap();
    receiver
}

#[test]
fn forwards_in_both_directions_and_counts_every_packet() {
    let Some(lab) = Lab::new("forwards_both_ways", &["switch", "hosts"]) else { return };
    let (dataplane, mut h1, mut h2) = two_ports(&lab, DataplaneConfig::default());
    let lengths = [60, 61, 64, 590, 1514];
    let forward: Vec<_> = lengths.iter().map(|&len| udp(1, 2, len)).collect();
    let backward: Vec<_> = lengths.iter().map(|&len| udp(2, 1, len)).collect();
    h1.send(&forward);
    h2.send(&backward);
    let expected =
        |frames: Vec<Vec<u8>>, to| frames.into_iter().map(|f| delivered(f, to)).collect::<Vec<_>>();
    assert_eq!(h2.receive(5), expected(forward, 2));
    assert_eq!(h1.receive(5), expected(backward, 1));

    let stats = dataplane.stop();
    let counters = stats.switch.unwrap();
    assert!(counters.is_balanced(), "{counters:?}");
    assert_eq!((counters.received, counters.sent, counters.dropped.total().packets), (10, 10, 0));
    for port in &stats.ports {
        let counters = &port.counters;
        assert_eq!((counters.received.packets, counters.sent.packets, counters.dropped.total()), (5, 5, 0));
        assert_eq!(counters.sent.bytes, lengths.iter().sum::<usize>() as u64);
    }
}

#[test]
fn survives_garbage() {
    let Some(lab) = Lab::new("survives_garbage", &["switch", "hosts"]) else { return };
    let (dataplane, h1, mut h2) = two_ports(&lab, DataplaneConfig::default());
    // Noise, and truncated and corrupted versions of a valid frame, by a linear congruential generator (Knuth).
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let good = udp(1, 3, 200);
    let mut garbage = Vec::new();
    for round in 0..2000 {
        let mut frame = good[..14 + random() % 186].to_vec();
        let corrupted = if round % 2 == 0 { 3 } else { frame.len() };
        for _ in 0..corrupted {
            let index = random() % frame.len();
            frame[index] = random() as u8;
        }
        garbage.push(frame);
    }
    h1.send(&garbage);
    let last = udp(1, 2, 1000);
    h1.send(std::slice::from_ref(&last));
    // Noise may have been routed to h2 as well, before the last frame.
    let expected = delivered(last, 2);
    while h2.receive(1)[0] != expected {}
    let stats = dataplane.stop();
    let counters = stats.switch.unwrap();
    assert!(counters.is_balanced(), "{counters:?}");
    assert_eq!(counters.received, stats.ports[0].counters.received.packets);
    assert_eq!(counters.received + stats.ports[0].counters.dropped.total(), garbage.len() as u64 + 1);
}

#[test]
fn an_interface_may_go_down_disappear_and_return() {
    let Some(lab) = Lab::new("an_interface_may_vanish", &["switch", "hosts"]) else { return };
    let (dataplane, h1, mut h2) = two_ports(&lab, DataplaneConfig::default());
    let handle = dataplane.handle();
    let notifications = subscribe(&handle);
    let next = || notifications.recv_timeout(TIMEOUT).unwrap();
    let frame = udp(1, 2, 100);
    let passes = |h2: &mut Nic| {
        h1.send(std::slice::from_ref(&frame));
        assert_eq!(h2.receive(1), [delivered(frame.clone(), 2)]);
    };
    passes(&mut h2);

    lab.ip("switch", "link set p2 down");
    assert_eq!(next(), Notification::Port(2, false));
    h1.send(std::slice::from_ref(&frame));
    let lost = || handle.stats().wait().unwrap().ports[1].counters.dropped.get(IoDrop::PortDown);
    wait_for(TIMEOUT, || lost() == 1);
    lab.ip("switch", "link set p2 up");
    assert_eq!(next(), Notification::Port(2, true));
    passes(&mut h2);

    lab.ip("switch", "link del p2");
    assert_eq!(next(), Notification::Port(2, false));
    h1.send(std::slice::from_ref(&frame));
    wait_for(TIMEOUT, || lost() == 2);
    lab.cable(("switch", "p2"), ("hosts", "h2"), 1500);
    assert_eq!(next(), Notification::Port(2, true));
    passes(&mut Nic::open(&lab, "hosts", "h2"));
    assert_eq!(dataplane.stop().ports[1].counters.link_down_events, 2);
}

#[test]
fn restores_vlan_tags_and_checksums() {
    let Some(lab) = Lab::new("restores_tags_and_checksums", &["a", "b"]) else { return };
    lab.cable(("a", "a0"), ("b", "b0"), 1500);
    let (a, mut b) = (Nic::open(&lab, "a", "a0"), Nic::open(&lab, "b", "b0"));
    let mut tagged = udp(1, 2, 100);
    tagged.splice(12..12, [0x81, 0x00, 0x20, 0x07]);
    a.send(std::slice::from_ref(&tagged));
    assert_eq!(b.receive(1), [tagged]);

    // The kernel's UDP leaves the checksum to a card that a veth does not have.
    lab.ip("a", "addr add 10.9.0.1/24 dev a0");
    lab.ip("a", "neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev a0");
    lab.within("a", || {
        let socket = std::net::UdpSocket::bind("10.9.0.1:4000").unwrap();
        socket.send_to(b"odd", "10.9.0.2:4001").unwrap();
    });
    let frame = loop {
        let frame = b.receive(1).remove(0);
        if frame[12..14] == [0x08, 0x00] {
            break frame;
        }
    };
    let mut covered = frame[26..].to_vec(); // Addresses, UDP header, payload.
    covered.extend([0, 0, 17, 0, 11]); // Padding to even, protocol, UDP length.
    let sum: u32 = covered.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "checksum of {frame:02x?}");
}

#[test]
fn recognises_unsegmented_gso_packets() {
    let Some(lab) = Lab::new("recognises_trains", &["a", "b"]) else { return };
    lab.cable(("a", "a0"), ("b", "b0"), 1500);
    lab.ip("a", "addr add 10.9.0.1/24 dev a0");
    lab.ip("b", "addr add 10.9.0.2/24 dev b0");
    let mut b = Nic::open(&lab, "b", "b0");
    let listener = lab.within("b", || std::net::TcpListener::bind("10.9.0.2:4000").unwrap());
    // A veth has segmentation offload enabled by default.
    lab.within("a", || {
        let mut stream = std::net::TcpStream::connect("10.9.0.2:4000").unwrap();
        std::io::Write::write_all(&mut stream, &[7; 64 << 10]).unwrap();
    });
    drop(listener);
    let mut gso_packets = 0;
    wait_for(TIMEOUT, || {
        b.ring.receive(1, |frame| gso_packets += u32::from(frame.segmented && !frame.is_whole()));
        gso_packets > 0
    });
}

#[test]
fn drops_of_a_full_interface_queue_are_counted() {
    let Some(lab) = Lab::new("a_full_queue", &["switch", "hosts"]) else { return };
    let (dataplane, h1, _h2) = two_ports(&lab, DataplaneConfig::default());
    lab.tc("switch", "qdisc add dev p2 root tbf rate 8kbit burst 1600 limit 3000");
    h1.send(&vec![udp(1, 2, 1000); 30]);
    let handle = dataplane.handle();
    wait_for(TIMEOUT, || {
        let counters = handle.stats().wait().unwrap().ports[1].counters.clone();
        counters.sent.packets + counters.dropped.get(IoDrop::SendQueueFull) == 30
            && counters.sent.packets < 10
    });
}

#[test]
fn frames_for_a_slow_interface_wait_in_the_switch() {
    let Some(lab) = Lab::new("a_slow_interface", &["switch", "hosts"]) else { return };
    let (dataplane, h1, mut h2) = two_ports(&lab, DataplaneConfig::default());
    let handle = dataplane.handle();
    assert!(handle.set_queue_limits(Some(2), None, QueueLimits::NONE).wait().unwrap());
    // 400 frames exceed the send buffer of the socket, which is full and becomes writable again.
    lab.tc("switch", "qdisc add dev p2 root tbf rate 20mbit burst 3200 limit 10000000");
    let frames: Vec<_> = (0..400).map(|n| udp(1, 2, 1100 + n)).collect();
    h1.send(&frames);
    wait_for(TIMEOUT, || handle.stats().wait().unwrap().ports[1].queued > 0);
    assert_eq!(h2.receive(400), frames.into_iter().map(|frame| delivered(frame, 2)).collect::<Vec<_>>());
    assert_eq!(dataplane.stop().switch.unwrap().dropped.total().packets, 0);
}

#[test]
fn frames_too_long_for_the_interface_are_counted() {
    let Some(lab) = Lab::new("frames_too_long", &["switch", "hosts"]) else { return };
    lab.cable(("switch", "p1"), ("hosts", "h1"), 9000);
    lab.cable(("switch", "p2"), ("hosts", "h2"), 1500);
    lab.ip("switch", "link set p1 mtu 1500");
    let dataplane = lab.within("switch", || start(DataplaneConfig::default(), &["p1", "p2"]));
    let handle = dataplane.handle();
    let (h1, mut h2) = (Nic::open(&lab, "hosts", "h1"), Nic::open(&lab, "hosts", "h2"));
    lab.ip("switch", "link set p1 mtu 9000");
    // Now p1 receives frames that p2 cannot send.
    wait_for(TIMEOUT, || {
        h1.send(&[udp(1, 2, 4000)]);
        handle.stats().wait().unwrap().ports[1].counters.dropped.get(IoDrop::BadLength) > 0
    });
    h1.send(&[udp(1, 2, 1514)]);
    assert_eq!(h2.receive(1), [delivered(udp(1, 2, 1514), 2)]);
}

#[test]
fn the_controller_sends_and_receives_packets() {
    let Some(lab) = Lab::new("packet_in_and_out", &["switch", "hosts"]) else { return };
    let config = DataplaneConfig { cpu_port: Some(CPU_PORT), ..DataplaneConfig::default() };
    let (dataplane, h1, mut h2) = two_ports(&lab, config);
    let handle = dataplane.handle();
    let notifications = subscribe(&handle);
    let mut probe = vec![0xff; 60];
    probe[12..14].copy_from_slice(&[0x88, 0xb5]);
    h1.send(std::slice::from_ref(&probe));
    // Header: port in 9 bits, padding in 7.
    let with_port = |port: u16| [&(port << 7).to_be_bytes()[..], &probe[..]].concat();
    assert_eq!(notifications.recv_timeout(TIMEOUT).unwrap(), Notification::PacketIn(with_port(1)));
    handle.packet_out(with_port(2)).unwrap();
    assert_eq!(h2.receive(1), [probe.clone()]);
    let stats = dataplane.stop();
    assert_eq!((stats.packet_in, stats.packet_out), (1, 1));
    assert_eq!(handle.packet_out(vec![0; 60]), Err(DataplaneError::Stopped));
}

#[test]
fn a_rate_limits_a_port() {
    let Some(lab) = Lab::new("keeps_to_a_rate", &["switch", "hosts"]) else { return };
    let (dataplane, h1, mut h2) = two_ports(&lab, DataplaneConfig::default());
    let handle = dataplane.handle();
    assert!(handle.set_rate(2, None, Rate::Packets(500)).wait().unwrap());
    assert!(!handle.set_rate(2, Some(3), Rate::Packets(1)).wait().unwrap(), "there is one queue");
    let start = Instant::now();
    h1.send(&vec![udp(1, 2, 100); 51]);
    h2.receive(51);
    // 50 gaps of 2 ms, less 1 ms of lateness for which the shaper compensates.
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(99), "{took:?}");
    assert!(handle.set_rate(2, None, Rate::Unlimited).wait().unwrap());
    // Of 70 frames at once, the queue holds 64 at this rate, which also applies to programs installed later.
    assert!(handle.set_rate(2, None, Rate::Packets(1)).wait().unwrap());
    let config = handle.switch_config().wait().unwrap();
    assert!(handle.install(hpcc(config).unwrap()).wait().unwrap().is_some());
    h1.send(&vec![udp(1, 2, 100); 70]);
    wait_for(TIMEOUT, || handle.stats().wait().unwrap().switch.unwrap().dropped.total().packets >= 5);
    let counters = dataplane.stop().switch.unwrap();
    assert!(counters.is_balanced() && counters.queued >= 60, "{counters:?}");
}

#[test]
fn captures_up_to_a_limit() {
    let Some(lab) = Lab::new("captures_up_to_a_limit", &["switch", "hosts"]) else { return };
    let directory = scratch("capture");
    let limit = 24 + 2 * (16 + 100);
    let capture = CaptureConfig { directory: directory.clone(), limit };
    let config = DataplaneConfig { capture: Some(capture), ..DataplaneConfig::default() };
    let (dataplane, h1, mut h2) = two_ports(&lab, config);
    h1.send(&vec![udp(1, 2, 100); 5]);
    h2.receive(5);
    let stats = dataplane.stop();
    assert_eq!(read_pcap(&directory.join("p1_in.pcap")), vec![udp(1, 2, 100); 2]);
    assert_eq!(read_pcap(&directory.join("p2_out.pcap")), vec![delivered(udp(1, 2, 100), 2); 2]);
    assert!(read_pcap(&directory.join("p1_out.pcap")).is_empty());
    assert_eq!([0, 1].map(|index| stats.ports[index].counters.not_captured), [3, 3]);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn ports_can_be_added_and_removed() {
    let Some(lab) = Lab::new("ports_come_and_go", &["switch", "hosts"]) else { return };
    let (dataplane, h1, _h2) = two_ports(&lab, DataplaneConfig::default());
    let handle = dataplane.handle();
    let refused = |port, name: &str| handle.add_port(port, name).wait().unwrap_err().to_string();
    assert!(refused(1, "p3").contains("p1 is already port 1"));
    assert!(refused(511, "p3").contains("invalid port number"));
    assert!(refused(3, "p3").contains("No such device"));
    lab.cable(("switch", "p3"), ("hosts", "h3"), 1500);
    let mut h3 = Nic::open(&lab, "hosts", "h3");
    h1.send(&[udp(1, 3, 100)]);
    wait_for(TIMEOUT, || handle.stats().wait().unwrap().portless_drops.get(IoDrop::NoInterface) == 1);
    handle.add_port(3, "p3").wait().unwrap();
    h1.send(&[udp(1, 3, 100)]);
    assert_eq!(h3.receive(1), [delivered(udp(1, 3, 100), 3)]);
    handle.remove_port(2).wait().unwrap();
    assert!(handle.remove_port(2).wait().is_err());
    h1.send(&[udp(1, 3, 101)]);
    assert_eq!(h3.receive(1), [delivered(udp(1, 3, 101), 3)]);
}

#[test]
fn a_panic_in_a_control_operation_does_not_end_forwarding() {
    let dataplane = Dataplane::start(DataplaneConfig::default(), None, &[]).unwrap();
    let handle = dataplane.handle();
    assert_eq!(handle.with(|_, _| ()), Err(DataplaneError::NoProgram));
    let config = handle.switch_config().wait().unwrap();
    assert!(handle.install(hpcc(config).unwrap()).wait().unwrap().is_none());
    assert_eq!(handle.with(|_, _| panic!("on purpose")), Err::<(), _>(DataplaneError::Panicked));
    let (before, after) = (handle.with(|_, now| now).unwrap(), handle.with(|_, now| now).unwrap());
    assert!(before < after);
    assert_eq!(handle.packet_out(vec![]), Err(DataplaneError::NoCpuPort));
    drop(dataplane);
    assert_eq!(handle.with(|_, _| ()), Err(DataplaneError::Stopped));
}

/// Compares `--use-files` with the same switch without a driver, frame by frame.
#[test]
fn replayed_files_give_the_frames_of_the_engine() {
    let directory = scratch("files");
    let mut input = BTreeMap::from([(1u16, Vec::new()), (2, Vec::new())]);
    for n in 0..300usize {
        let (from, to) = if n % 3 == 0 { (2, 1) } else { (1, 2 + (n % 2) as u8) };
        let mut frame = udp(from, to, 60 + 4 * n);
        if n % 7 == 0 {
            frame[22] = 1; // The TTL expires, and the header checksum is wrong.
        }
        input.get_mut(&u16::from(from)).unwrap().push((Duration::from_micros(n as u64), frame));
    }
    for (port, frames) in &input {
        let mut file = PcapWriter::create(&directory.join(format!("e{port}_in.pcap")), u64::MAX).unwrap();
        for (time, frame) in frames {
            assert!(file.write(*time, frame).unwrap());
        }
        file.flush().unwrap();
    }
    let total = input.values().map(Vec::len).sum::<usize>() as u64;

    let frames = FrameSource::Files { directory: directory.clone(), wait: Time::ZERO };
    let config = DataplaneConfig { frames, ..DataplaneConfig::default() };
    let engine_config = config.switch_config();
    let dataplane = start(config, &["e1", "e2"]);
    let handle = dataplane.handle();
    wait_for(TIMEOUT, || handle.with(|switch, _| switch.counters().received).unwrap() == total);
    let stats = dataplane.stop();
    assert!(stats.portless_drops.get(IoDrop::NoInterface) > 0, "port 3 has no interface");

    let mut merged: Vec<_> =
        input.iter().flat_map(|(port, frames)| frames.iter().map(move |f| (f, *port))).collect();
    merged.sort_by_key(|((time, _), _)| *time);
    let mut switch = hpcc(engine_config).unwrap();
    let mut expected = BTreeMap::<u16, Vec<Vec<u8>>>::new();
    for ((time, frame), port) in merged {
        let now = Time::from_us(time.as_micros() as u64);
        switch.receive(now, port, Packet::from_bytes(frame), &mut NoOutput);
        for port in 1..=2 {
            while let Some(packet) = switch.transmit(now, port, &mut NoOutput) {
                expected.entry(port).or_default().push(packet.to_vec());
            }
        }
    }
    for port in 1..=2 {
        let written = read_pcap(&directory.join(format!("e{port}_out.pcap")));
        assert!(written.len() > 50, "port {port} sent {}", written.len());
        assert!(written == expected[&port], "the frames of port {port} differ");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

struct NoOutput;
impl SwitchOutput for NoOutput {
    fn ready(&mut self, _: u16) {}
    fn pause(&mut self, _: u16, _: u8, _: PauseQuanta) {}
    fn recycle(&mut self, _: Box<Packet>) {}
    fn digest(&mut self, _: Digest) {}
}

#[test]
fn the_test_frames_are_valid() {
    // Checks the offsets of addresses, so that an error in the test frames is not mistaken for one of the driver.
    let frame = udp(1, 2, 64);
    assert_eq!((&frame[6..12], &frame[26..30], &frame[30..34]), (&mac(1)[..], &host(1)[..], &host(2)[..]));
}

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("weir-driver-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let mut file = PcapReader::open(path).unwrap();
    let (mut frames, mut frame) = (Vec::new(), Vec::new());
    while file.read(&mut frame).unwrap().is_some() {
        frames.push(frame.clone());
    }
    frames
}
