//! Transfers between agents over a veth pair: pacing, loss, link failures, planned times, and invalid configurations.

use crate::harness::Test;
use crate::netns::{ADDRS, IFACE, Net};
use crate::probe::{IcmpCounts, IcmpMonitor, open_raw, ping};
use crate::{config, end_with_flows, flow, start};
use std::thread::sleep;
use std::time::{Duration, Instant};
use weir_agent::results::{Ended, FlowState};
use weir_agent::{Agent, AgentConfig, AgentError, Interface, StartAt};
use weir_host::wire::{Ecn, Flags, FrameRepr, MAX_HEADER_LEN, PacketKind, WeirRepr};
use weir_units::{Bandwidth, Bytes, Time};

pub(crate) const TESTS: &[Test] = &[
    ("one_megabyte_arrives", one_megabyte_arrives),
    ("many_flows_in_both_directions_beside_the_kernel", many_flows_in_both_directions_beside_the_kernel),
    ("without_an_agent_the_kernel_sends_icmp_errors", without_an_agent_the_kernel_sends_icmp_errors),
    ("pacing_keeps_the_rate", pacing_keeps_the_rate),
    ("losses_in_a_small_queue_are_retransmitted", losses_in_a_small_queue_are_retransmitted),
    ("transfer_survives_a_link_that_goes_down_and_up", transfer_survives_a_link_that_goes_down_and_up),
    ("a_removed_interface_ends_the_run", a_removed_interface_ends_the_run),
    ("flows_start_and_stop_at_planned_times", flows_start_and_stop_at_planned_times),
    ("an_interrupt_keeps_results", an_interrupt_keeps_results),
    ("a_restarted_receiver_fails_the_flow", a_restarted_receiver_fails_the_flow),
    ("invalid_configurations_are_rejected", invalid_configurations_are_rejected),
];

const MEGABYTE: Bytes = Bytes::new(1_000_000);

fn one_megabyte_arrives() {
    let net = Net::new();
    let monitor = IcmpMonitor::start(&net, 0);
    let receiver = start(&net, 1, vec![], |_| ());
    let sent = start(&net, 0, vec![flow(0, Some(MEGABYTE), 50_000)], end_with_flows).wait();
    let received = receiver.stop();
    let IcmpCounts { frames, unreachable } = monitor.stop();

    assert_eq!(sent.ended, Ended::Finished);
    let flow = &sent.flows[0];
    assert_eq!((flow.state, flow.acked_bytes), (FlowState::Finished, MEGABYTE.get()));
    // 1 MB at 100 Mbit/s of frames takes 84 ms; the goodput is below the rate.
    let fct = flow.fct_ns.unwrap();
    assert!(fct > 80_000_000, "{fct}");
    assert!(flow.goodput_bps.unwrap() < 100_000_000, "{flow:?}");
    let rtt = flow.rtt.unwrap();
    assert!(rtt.count > 100 && rtt.min_ns <= rtt.p50_ns && rtt.p50_ns <= rtt.max_ns, "{rtt:?}");
    assert_eq!(flow.ack_paths.len(), 1, "no switch, path 0");
    assert_eq!(flow.ack_paths[0].path_id, 0);
    assert_eq!(flow.data_paths, flow.ack_paths);
    let series = flow.series.as_ref().unwrap();
    let carried: u64 = series.goodput_bps.iter().map(|bps| bps / 800).sum(); // 10 ms of bits, in bytes
    assert!(carried <= MEGABYTE.get() && carried > MEGABYTE.get() * 8 / 10, "{carried}");

    assert_eq!(received.ended, Ended::Interrupted);
    assert_eq!(received.received.len(), 1);
    let message = &received.received[0];
    assert_eq!((message.peer, message.bytes, message.complete), (ADDRS[0], MEGABYTE.get(), true));
    assert_eq!((message.message, message.port), (flow.message, 50_000));

    assert!(frames > 1_000, "the monitor saw {frames} frames");
    assert_eq!(unreachable, 0);
    for side in 0..2 {
        assert_eq!(net.snmp(side, "Icmp", "OutDestUnreachs"), 0, "side {side}");
    }
}

fn many_flows_in_both_directions_beside_the_kernel() {
    const FLOWS: u16 = 100;
    const SIZE: Bytes = Bytes::new(30_000);
    let net = Net::new();
    let flows = |from| (0..FLOWS).map(|i| flow(from, Some(SIZE), 50_000 + i)).collect();
    // Both agents are up before either sends: the kernel answers earlier packets with ICMP errors.
    let start_later = |config: &mut AgentConfig| config.start = StartAt::In(Time::from_ms(500));
    let a = start(&net, 0, flows(0), start_later);
    let b = start(&net, 1, flows(1), start_later);
    assert!(ping(&net, 0) && ping(&net, 1), "the kernel answers beside two agents");
    sleep(Duration::from_secs(4));
    assert!(ping(&net, 0));
    for (results, peer) in [(a.stop(), ADDRS[1]), (b.stop(), ADDRS[0])] {
        let finished = results.flows.iter().filter(|flow| flow.state == FlowState::Finished).count();
        assert_eq!(finished, usize::from(FLOWS), "{:?}", results.transport);
        assert_eq!(results.received.len(), usize::from(FLOWS));
        for message in &results.received {
            assert_eq!((message.peer, message.bytes, message.complete), (peer, SIZE.get(), true));
        }
    }
    for side in 0..2 {
        assert_eq!(net.snmp(side, "Icmp", "OutDestUnreachs"), 0);
    }
}

/// Without the port guard the kernel answers with ICMP errors. Proves that the ICMP counters of the other tests work.
fn without_an_agent_the_kernel_sends_icmp_errors() {
    let net = Net::new();
    let monitor = IcmpMonitor::start(&net, 0);
    net.on(0, || {
        let (mut sender, _receiver) = open_raw();
        let frame = data(8);
        sender.send_to(&frame, None).expect("pnet sends").expect("the link is up");
    });
    let deadline = Instant::now() + Duration::from_secs(2);
    while net.snmp(1, "Icmp", "OutDestUnreachs") == 0 && Instant::now() < deadline {
        sleep(Duration::from_millis(10));
    }
    assert_eq!(net.snmp(1, "Icmp", "OutDestUnreachs"), 1);
    // The monitor stops only after it has read all frames.
    assert_eq!(monitor.stop().unreachable, 1);
}

/// A DATA frame from side 0 to side 1.
fn data(payload_len: u32) -> Vec<u8> {
    let repr = FrameRepr {
        source_mac: [2, 0, 10, 99, 0, 1],
        destination_mac: [2, 0, 10, 99, 0, 2],
        source: ADDRS[0],
        destination: ADDRS[1],
        dscp: 0,
        ecn: Ecn::NotEct,
        entropy_port: 50_000,
        weir: WeirRepr { flags: Flags::START, message: 1, ..WeirRepr::of(PacketKind::Data) },
        payload_len,
    };
    let mut frame = vec![0; MAX_HEADER_LEN];
    let head = repr.emit(&[], &mut frame).expect("the buffer holds all headers");
    frame.resize(head, 0);
    frame.resize(head + payload_len as usize, 0);
    frame
}

fn pacing_keeps_the_rate() {
    let net = Net::new();
    let receiver = start(&net, 1, vec![], |_| ());
    let slow_nic = |config: &mut AgentConfig| {
        end_with_flows(config);
        config.host.nic_rate = Bandwidth::from_mbps(10);
        config.host.base_rtt = Time::from_ms(5);
    };
    let (sent, sender_cpu_wait) = start(&net, 0, vec![flow(0, Some(MEGABYTE), 50_000)], slow_nic).finish();
    receiver.interrupt();
    let (_, receiver_cpu_wait) = receiver.finish();
    assert_eq!(sent.ended, Ended::Finished);
    let seconds = sent.flows[0].fct_ns.unwrap() as f64 / 1e9;
    let bits = sent.nic.bytes_sent as f64 * 8.0;
    // Time in which an agent was runnable but waited for a CPU does not count against pacing.
    let cpu_wait = (sender_cpu_wait + receiver_cpu_wait).as_secs_f64();
    let (rate, rate_with_cpu) = (bits / seconds, bits / (seconds - cpu_wait).max(0.0));
    assert!(rate < 10.1e6, "{rate} bit/s on a NIC of 10 Mbit/s");
    assert!(
        rate_with_cpu > 9.0e6,
        "{rate} bit/s on a NIC of 10 Mbit/s, waited {cpu_wait} s of {seconds} s for a CPU"
    );
}

fn losses_in_a_small_queue_are_retransmitted() {
    let net = Net::new();
    net.tc(1, &["qdisc", "add", "dev", "lo", "root", "pfifo"]); // on lo only: the queue of the veth is unchanged here
    net.tc(
        0,
        &["qdisc", "add", "dev", IFACE, "root", "tbf", "rate", "10mbit", "burst", "4kb", "limit", "8kb"],
    );
    let receiver = start(&net, 1, vec![], |_| ());
    let sent = start(&net, 0, vec![flow(0, Some(Bytes::new(200_000)), 50_000)], end_with_flows).wait();
    let received = receiver.stop();
    assert_eq!(sent.ended, Ended::Finished, "{:?} {:?}", sent.transport, sent.nic);
    assert!(sent.nic.queue_drops > 0 && sent.flows[0].retransmits > 0, "{:?}", sent.nic);
    assert_eq!(received.received[0].bytes, 200_000);
    assert!(received.received[0].complete);
}

fn transfer_survives_a_link_that_goes_down_and_up() {
    let net = Net::new();
    let receiver = start(&net, 1, vec![], |_| ());
    let sender = start(&net, 0, vec![flow(0, Some(Bytes::new(5_000_000)), 50_000)], end_with_flows);
    sleep(Duration::from_millis(150));
    net.ip(0, &["link", "set", IFACE, "down"]);
    sleep(Duration::from_millis(200));
    net.ip(0, &["link", "set", IFACE, "up"]);
    let sent = sender.wait();
    let received = receiver.stop();
    assert_eq!(sent.ended, Ended::Finished, "{:?}", sent.transport);
    assert!(sent.nic.down > 0, "{:?}", sent.nic);
    assert!(received.received[0].complete);
    assert_eq!(received.received[0].bytes, 5_000_000);
}

fn a_removed_interface_ends_the_run() {
    let net = Net::new();
    let receiver = start(&net, 1, vec![], |_| ());
    let sender = start(&net, 0, vec![flow(0, None, 50_000)], |_| ());
    sleep(Duration::from_millis(100));
    net.ip(0, &["link", "del", IFACE]); // also removes the other end of the veth pair
    let (sent, received) = (sender.wait(), receiver.wait());
    for results in [&sent, &received] {
        assert_eq!(results.ended, Ended::InterfaceGone);
        assert!(results.ran_ns < 5_000_000_000, "{}", results.ran_ns);
    }
    assert_eq!(sent.flows[0].state, FlowState::Unfinished);
    assert!(sent.flows[0].acked_bytes > 0);
}

fn flows_start_and_stop_at_planned_times() {
    let net = Net::new();
    let start_later = |config: &mut AgentConfig| {
        end_with_flows(config);
        config.start = StartAt::In(Time::from_ms(200));
    };
    let receiver = start(&net, 1, vec![], |_| ());
    let mut early = flow(0, None, 50_000);
    early.stop = Some(Time::from_ms(300));
    let mut late = flow(0, Some(Bytes::new(20_000)), 50_001);
    late.start = Time::from_ms(100);
    let sent = start(&net, 0, vec![late, early], start_later).wait();
    receiver.stop();
    assert_eq!(sent.ended, Ended::Finished);
    let [late, early] = &sent.flows[..] else { panic!("two flows") };
    assert_eq!((late.planned_ns, early.planned_ns), (100_000_000, 0));
    // Within 50 ms, because a loaded machine may delay the thread.
    let on_time =
        |at: Option<u64>, planned: u64| at.is_some_and(|at| (planned..planned + 50_000_000).contains(&at));
    assert!(on_time(late.start_ns, 100_000_000) && on_time(early.start_ns, 0), "{late:?}");
    // The flow was sent until its stop time, however late it started.
    let end = early.start_ns.unwrap() + early.fct_ns.unwrap();
    assert!(end >= 300_000_000, "{end}");
    // A sample every 10 ms, from the one after the flow was opened.
    let (first, opened) = (late.series.as_ref().unwrap().first, late.start_ns.unwrap() / 10_000_000);
    assert!((opened..=opened + 1).contains(&first), "{first} {opened}");
}

fn an_interrupt_keeps_results() {
    let net = Net::new();
    let receiver = start(&net, 1, vec![], |_| ());
    let sender = start(&net, 0, vec![flow(0, None, 50_000)], |_| ());
    sleep(Duration::from_millis(100));
    let sent = sender.stop();
    receiver.stop();
    assert_eq!((sent.ended, sent.flows[0].state), (Ended::Interrupted, FlowState::Unfinished));
    assert!(sent.flows[0].acked_bytes > 0 && sent.ran_ns < 5_000_000_000);
}

fn a_restarted_receiver_fails_the_flow() {
    let net = Net::new();
    let first_receiver = start(&net, 1, vec![], |_| ());
    let sender = start(&net, 0, vec![flow(0, Some(MEGABYTE), 50_000)], end_with_flows);
    sleep(Duration::from_millis(40));
    let received_before = first_receiver.stop();
    let second_receiver = start(&net, 1, vec![], |_| ());
    let sent = sender.wait();
    second_receiver.stop();
    let flow = &sent.flows[0];
    assert_eq!((sent.ended, flow.state, flow.fct_ns), (Ended::Finished, FlowState::Failed, None), "{flow:?}");
    assert_eq!(flow.error.as_deref(), Some("the receiver has lost the message"));
    assert!(flow.acked_bytes > 0 && flow.acked_bytes <= received_before.received[0].bytes, "{flow:?}");
}

fn invalid_configurations_are_rejected() {
    let net = Net::new();
    let running = start(&net, 0, vec![], |_| ());
    net.on(0, || {
        let message = |error: Option<AgentError>| error.expect("the call fails").to_string();
        let no_interface = message(Interface::find("eth7", None).err());
        assert_eq!(no_interface, "no network interface \"eth7\"; available: lo, eth0");
        let agent_error = |flows, change: fn(&mut AgentConfig)| {
            let mut config = config(0, flows).unwrap();
            change(&mut config);
            message(Agent::new(config).err())
        };
        let mut far = flow(0, Some(MEGABYTE), 50_000);
        far.peer = [10, 99, 0, 77].into();
        assert!(
            agent_error(vec![far], |_| ())
                .starts_with("the kernel has no neighbour entry for 10.99.0.77 on eth0")
        );
        let mut own = flow(0, Some(MEGABYTE), 50_000);
        own.peer = ADDRS[0];
        assert!(agent_error(vec![own], |_| ()).contains("own address"));
        let endless = agent_error(vec![flow(0, None, 50_000)], |config| {
            (config.until.flows_finished, config.until.deadline) = (true, None);
        });
        assert!(endless.contains("neither size nor stop"), "{endless}");
        assert!(agent_error(vec![flow(0, Some(MEGABYTE), 22_341)], |_| ()).contains("entropy port"));
        assert!(agent_error(vec![], |config| config.host.mtu = Bytes::new(1_518)).contains("mtu 1504"));
        assert!(agent_error(vec![], |_| ()).starts_with("UDP port 22341 of 10.99.0.1 is in use"));
    });
    net.ip(1, &["link", "set", IFACE, "down"]);
    let down = net.on(1, || Interface::find(IFACE, None).expect_err("the interface is down").to_string());
    assert_eq!(down, "eth0 is down; bring it up with `ip link set eth0 up`");
    running.stop();
}
