//! Flows that cannot finish: the sender ends them with an error.

use crate::variants::{all_schemes, all_variants, scheme};
use weir_host::wire::PacketKind;
use weir_host::{FlowError, FlowId, HostEvent};
use weir_testkit::frames::from_peer;
use weir_testkit::net::{Faults, TestNetwork, addr, rebuild};
use weir_units::{Bytes, Time};

const SIZE: Bytes = Bytes::from_kb(10_000);

/// The process of the sender, then that of the receiver, is suspended for seconds in the middle of a flow, and handles all
/// that it missed when it resumes (SIGSTOP, a suspended virtual machine).
#[test]
fn a_suspended_host_continues_its_flows() {
    for scheme in all_schemes() {
        let name = scheme.name();
        for suspended in [0, 1] {
            let mut net = TestNetwork::star(2, &scheme);
            let flow = net.open(0, 1, Some(SIZE / 2));
            net.run_until(Time::from_us(200));
            let resumes = net.now + Time::from_secs(5);
            net.suspended = Some((suspended, resumes));
            net.run_until(resumes - Time::from_us(1));
            let acked = net.flow(0, flow).acked;
            assert!(acked < SIZE / 2, "{name}: {acked}");
            // Swift paces by the last RTT, in which a suspended receiver spent seconds, over a window below one packet.
            let limit = if name == "swift" { Time::from_secs(20) } else { Time::from_ms(20) };
            net.run_to_end(resumes + limit);
            assert_eq!((net.fcts().len(), failures(&net)), (1, vec![]), "{name}, host {suspended}");
        }
    }
}

/// Returns the errors of flows, each with its time and the bytes that had been acknowledged.
fn failures(net: &TestNetwork) -> Vec<(FlowId, Time, Bytes, FlowError)> {
    let of = |(_, event): &(usize, HostEvent)| match *event {
        HostEvent::FlowFailed { flow, end, acked, error, .. } => Some((flow, end, acked, error)),
        _ => None,
    };
    net.events.iter().filter_map(of).collect()
}

/// A restarted receiver requests the first byte. With every scheme the flow fails soon after, and the next flow to the
/// same receiver finishes.
#[test]
fn a_flow_whose_receiver_has_lost_it_fails() {
    for (name, scheme) in all_variants() {
        let mut net = TestNetwork::star(2, &scheme);
        let flow = net.open(0, 1, Some(SIZE));
        net.run_until(Time::from_us(300));
        let acked = net.flow(0, flow).acked;
        assert!(acked > Bytes::ZERO && acked < SIZE, "{name}: {acked}");
        net.restart(1);
        // Timeouts of selective retransmission begin at 200 ms.
        net.run_until(Time::from_secs(2));
        let [(failed, _, acked_at_end, error)] = failures(&net)[..] else {
            panic!("{name}: {:?}", net.events)
        };
        assert_eq!(
            (failed, error, net.hosts[0].flow_count()),
            (flow, FlowError::ForgottenByReceiver, 0),
            "{name}"
        );
        assert!(acked_at_end >= acked && acked_at_end < SIZE, "{name}: {acked_at_end} after {acked}");
        net.open(0, 1, Some(Bytes::from_kb(100)));
        net.run_to_end(net.now + Time::from_secs(5));
        assert_eq!((net.fcts().len(), failures(&net).len()), (1, 1), "{name}");
    }
}

/// A receiver that does not answer, either from the first packet on or from the middle of the flow.
#[test]
fn a_flow_without_answers_fails_after_the_user_timeout() {
    let after = Time::from_secs(3);
    for name in ["hpcc", "fncc", "dctcp", "expresspass", "xmp", "amp"] {
        for silent_from in [Time::ZERO, Time::from_us(300)] {
            let mut net = TestNetwork::with_config(2, &scheme(name, &[]), 1, |config| {
                config.transport.user_timeout = after
            });
            let flow = net.open(0, 1, Some(SIZE));
            net.run_until(silent_from);
            net.faults = Faults { loss: 1.0, ..Faults::default() };
            net.run_until(Time::from_secs(4));
            let [(failed, end, acked, error)] = failures(&net)[..] else {
                panic!("{name}: {:?}", net.events)
            };
            assert_eq!((failed, error), (flow, FlowError::Unanswered { after }), "{name}");
            assert_eq!(acked > Bytes::ZERO, silent_from > Time::ZERO, "{name}: {acked}");
            // The timeout counts from the last answer, which may have been in flight.
            let (waited, tolerance) = (end - silent_from, Time::from_us(300));
            assert!(waited > after - tolerance && waited < after + tolerance, "{name}: {waited}");
        }
    }
}

/// A flow survives a network that loses all packets for less than the user timeout, and late feedback from before.
#[test]
fn silence_and_late_feedback_end_no_flow() {
    for name in ["hpcc", "xmp"] {
        let mut net = TestNetwork::star(2, &scheme(name, &[]));
        let flow = net.open(0, 1, Some(SIZE));
        net.run_until(Time::from_us(100));
        let old = net.now;
        net.run_until(Time::from_us(300));
        net.faults = Faults { loss: 1.0, ..Faults::default() };
        net.run_until(Time::from_ms(1));
        let kind = if name == "xmp" { PacketKind::Ack } else { PacketKind::Nack };
        inject_lost_message(&mut net, flow, kind, old);
        net.run_until(Time::from_secs(20));
        net.faults = Faults::default();
        net.run_to_end(Time::from_secs(200));
        assert_eq!((net.fcts().len(), failures(&net)), (1, vec![]), "{name}");
    }
}

/// Forged feedback that claims that the receiver has lost the message does not end a flow while the receiver
/// acknowledges new bytes.
#[test]
fn an_acknowledged_flow_survives_forged_losses() {
    for name in ["hpcc", "dcqcn", "xmp"] {
        let mut net = TestNetwork::star(2, &scheme(name, &[]));
        let flow = net.open(0, 1, Some(SIZE));
        let kind = if name == "xmp" { PacketKind::Ack } else { PacketKind::Nack };
        net.run_until(Time::from_us(100));
        while net.hosts[0].flow_count() > 0 {
            let now = net.now;
            inject_lost_message(&mut net, flow, kind, now);
            net.run_until(now + Time::from_us(5));
        }
        assert!(net.hosts[0].stats().stale_feedback > 100, "{name}");
        assert_eq!((net.fcts().len(), failures(&net)), (1, vec![]), "{name}");
    }
}

/// Injects feedback that claims that the receiver lacks the first byte, in answer to a packet sent at `sent_at`.
fn inject_lost_message(net: &mut TestNetwork, flow: FlowId, kind: PacketKind, sent_at: Time) {
    let message = net.flow(0, flow).message;
    let mut repr = from_peer(kind, message, 0);
    (repr.source, repr.destination) = (addr(1), addr(0));
    repr.entropy_port = net.hosts[0].subflow(flow, 0).expect("the flow is open").entropy_port;
    repr.weir.timestamp = sent_at.as_ns() as u32;
    net.inject(0, &rebuild(&repr, &[]));
}
