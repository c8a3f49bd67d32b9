//! Tests of the traffic manager, with a simple reference model.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};
use weir_units::Bandwidth;

const PORTS: u16 = 4;
const PRIORITIES: u8 = 3;

impl<T> TrafficManager<T> {
    fn dequeue_packet(&mut self, now: Time, port: u16) -> Option<Departure<T>> {
        self.dequeue(now, port, |_| ())
    }
}

#[derive(Clone, Debug)]
enum Op {
    Enqueue(EnqueueRequest),
    Dequeue(u16),
    SetPaused(u16, u8, bool),
}

/// Generates an operation. Ports and priorities go one beyond the configured ones, so that missing ports and
/// priorities are tested too.
fn op() -> impl Strategy<Value = Op> {
    let arrival = (0..=PORTS, 0..=PRIORITIES, 0..=PORTS, 0..=PRIORITIES, 1u32..2000);
    let arrival = arrival.prop_map(|(ingress, ingress_priority, egress, priority, len)| EnqueueRequest {
        ingress,
        ingress_priority,
        egress,
        priority,
        len,
    });
    prop_oneof![
        6 => arrival.prop_map(Op::Enqueue),
        4 => (0..=PORTS).prop_map(Op::Dequeue),
        1 => (0..PORTS, 0..PRIORITIES, any::<bool>()).prop_map(|(p, c, on)| Op::SetPaused(p, c, on)),
    ]
}

fn config() -> impl Strategy<Value = TmConfig> {
    let limits = (prop_oneof![Just(u32::MAX), 1u32..20], prop_oneof![Just(u64::MAX), 1u64..20_000]);
    let limits = limits.prop_map(|(packets, bytes)| QueueLimits { packets, bytes: Bytes::new(bytes) });
    let mode = prop_oneof![
        Just(None),
        (1_001u64..20_000).prop_map(|t| Some(PfcMode::Fixed { threshold: Bytes::new(t) })),
        (0u64..3_000).prop_map(|r| Some(PfcMode::Dynamic { reserve: Bytes::new(r) })),
    ];
    let share = (0u64..6_000, 0u8..4).prop_map(|(headroom, alpha_shift)| PfcPort {
        headroom: Bytes::new(headroom),
        alpha_shift,
        ..PfcPort::default()
    });
    let shares = proptest::collection::vec(proptest::option::of(share), usize::from(PORTS));
    (limits, mode, shares, 40_000u64..120_000, any::<u8>()).prop_map(
        |(limits, mode, shares, buffer, exempt)| {
            let ports = shares.into_iter().zip(0..);
            TmConfig {
                ports: ports.map(|(pfc, n)| PortConfig { limits, pfc, ..PortConfig::new(n) }).collect(),
                priorities: PRIORITIES,
                weights: Vec::new(),
                buffer: Bytes::new(buffer),
                pfc: mode.map(|mode| PfcConfig {
                    mode,
                    resume_offset: Bytes::new(1_000),
                    exempt,
                    ..PfcConfig::dynamic()
                }),
            }
        },
    )
}

/// A simple reference model of the traffic manager.
struct Model {
    /// Id and length of the packets, by port and priority.
    queues: Vec<VecDeque<(u64, u32)>>,
    paused: Vec<bool>,
    neighbour_paused: Vec<bool>,
}

fn queue_index(port: u16, priority: u8) -> usize {
    usize::from(port) * usize::from(PRIORITIES) + usize::from(priority)
}

impl Model {
    fn sendable(&self, port: u16) -> Option<u8> {
        (0..PRIORITIES)
            .rev()
            .find(|&p| !self.queues[queue_index(port, p)].is_empty() && !self.paused[queue_index(port, p)])
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn counters_balance_and_order_holds_at_every_step(
        config in config(), ops in proptest::collection::vec(op(), 1..400)
    ) {
        let mut tm = TrafficManager::<u64>::new(&config).unwrap();
        let queue_count = usize::from(PORTS) * usize::from(PRIORITIES);
        let mut model = Model {
            queues: vec![VecDeque::new(); queue_count],
            paused: vec![false; queue_count],
            neighbour_paused: vec![false; queue_count],
        };
        for (id, op) in ops.into_iter().enumerate() {
            match op {
                Op::Enqueue(request) => check_enqueue(&mut tm, &mut model, &config, request, id as u64)?,
                Op::Dequeue(port) => check_dequeue(&mut tm, &mut model, port)?,
                Op::SetPaused(port, priority, on) => {
                    let before = model.sendable(port);
                    model.paused[queue_index(port, priority)] = on;
                    let became_sendable = tm.set_paused(port, priority, on.then_some(Time::MAX));
                    prop_assert_eq!(became_sendable, before.is_none() && model.sendable(port).is_some());
                }
            }
            prop_assert_eq!(tm.audit(), Ok(()));
            for port in 0..PORTS {
                prop_assert_eq!(tm.next_ready(port).is_some(), model.sendable(port).is_some());
                for priority in 0..PRIORITIES {
                    // Only the departure of a charged packet resumes a neighbour, so a paused one has charged
                    // packets here.
                    if model.neighbour_paused[queue_index(port, priority)] {
                        prop_assert!(tm.ingress_use(port, priority) > Bytes::ZERO);
                    }
                }
            }
        }
    }
}

fn check_enqueue(
    tm: &mut TrafficManager<u64>,
    model: &mut Model,
    config: &TmConfig,
    request: EnqueueRequest,
    id: u64,
) -> Result<(), TestCaseError> {
    let before = tm.buffered().get();
    let outcome = tm.enqueue(Time::ZERO, request, id);
    if request.egress >= PORTS || request.priority >= PRIORITIES {
        let reason =
            if request.egress >= PORTS { DropReason::NoSuchPort } else { DropReason::NoSuchPriority };
        let rejected = outcome.unwrap_err();
        prop_assert_eq!((rejected.reason, rejected.item), (reason, id));
        return Ok(());
    }
    let idle = model.sendable(request.egress).is_none();
    let queue = &mut model.queues[queue_index(request.egress, request.priority)];
    let limits = config.ports[usize::from(request.egress)].limits;
    let bytes: u64 = queue.iter().map(|&(_, len)| u64::from(len)).sum();
    let exceeds_queue =
        queue.len() >= limits.packets as usize || bytes + u64::from(request.len) > limits.bytes.get();
    match outcome {
        Ok(admission) => {
            prop_assert!(!exceeds_queue);
            queue.push_back((id, request.len));
            prop_assert_eq!(admission.ready, idle && model.sendable(request.egress).is_some());
            if admission.pause {
                let neighbour =
                    &mut model.neighbour_paused[queue_index(request.ingress, request.ingress_priority)];
                prop_assert!(!*neighbour, "paused twice");
                *neighbour = true;
                let exempt = config.pfc.unwrap().exempt & (1 << request.ingress_priority) != 0;
                prop_assert!(!exempt && config.ports[usize::from(request.ingress)].pfc.is_some());
            }
        }
        Err(rejected) => {
            prop_assert_eq!(rejected.item, id);
            match rejected.reason {
                DropReason::TailDrop => prop_assert!(exceeds_queue),
                DropReason::BufferFull => {
                    prop_assert!(before + u64::from(request.len) > config.buffer.get());
                }
                DropReason::PfcHeadroom => prop_assert!(config.pfc.is_some()),
                other => prop_assert!(false, "dropped for {}", other.name()),
            }
        }
    }
    Ok(())
}

fn check_dequeue(tm: &mut TrafficManager<u64>, model: &mut Model, port: u16) -> Result<(), TestCaseError> {
    let departure = tm.dequeue_packet(Time::ZERO, port);
    let expected = if port < PORTS { model.sendable(port) } else { None };
    let Some(priority) = expected else {
        prop_assert!(departure.is_none());
        return Ok(());
    };
    let departure = departure.unwrap();
    let queue = &mut model.queues[queue_index(port, priority)];
    let (id, len) = queue.pop_front().unwrap();
    prop_assert_eq!((departure.item, departure.len, departure.priority), (id, len, priority));
    prop_assert_eq!(departure.dequeue_depth as usize, queue.len());
    if let Some((ingress, class)) = departure.resume {
        let neighbour = &mut model.neighbour_paused[queue_index(ingress, class)];
        prop_assert!(*neighbour, "resumed without a pause");
        *neighbour = false;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The prediction of pauses when some queues are stuck equals the result of draining all others. With a
    /// dynamic threshold a pause may last longer, since it is only checked when one of its own packets leaves.
    #[test]
    fn deadlocked_pauses_are_those_that_remain_after_draining(
        config in config(), ops in proptest::collection::vec(op(), 1..400)
    ) {
        let mut tm = TrafficManager::<u64>::new(&config).unwrap();
        for op in ops {
            match op {
                Op::Enqueue(request) => drop(tm.enqueue(Time::ZERO, request, 0)),
                Op::Dequeue(port) => drop(tm.dequeue_packet(Time::ZERO, port)),
                Op::SetPaused(port, priority, on) => drop(tm.set_paused(port, priority, on.then_some(Time::MAX))),
            }
        }
        let classes = || (0..PORTS).flat_map(|port| (0..PRIORITIES).map(move |class| (port, class)));
        let stuck: BTreeSet<_> = classes().filter(|&(port, class)| tm.has_paused_backlog(port, class)).collect();
        let predicted = tm.deadlocked_pauses(|port, class| stuck.contains(&(port, class)));
        for port in 0..PORTS {
            while tm.dequeue_packet(Time::ZERO, port).is_some() {}
        }
        let remaining: Vec<_> = classes().filter(|&(port, class)| tm.is_pausing(port, class)).collect();
        prop_assert!(predicted.iter().all(|class| remaining.contains(class)), "{predicted:?} {remaining:?}");
        if !matches!(config.pfc, Some(PfcConfig { mode: PfcMode::Dynamic { .. }, .. })) {
            prop_assert_eq!(predicted, remaining);
        }
        for (port, class) in classes() {
            let charged = tm.queued_packets(port, class).filter(|(_, charged)| charged.is_some()).count();
            prop_assert!(charged <= tm.queue_occupancy(port, class).packets as usize);
        }
    }
}

/// PFC pauses the class in which the neighbour sent the packet, not the priority of the egress queue.
#[test]
fn a_packet_is_charged_to_its_ingress_class() {
    let ports = (0..2).map(|n| PortConfig { pfc: Some(PfcPort::default()), ..PortConfig::new(n) }).collect();
    let pfc = Some(PfcConfig::fixed(Bytes::from_kb(5)));
    let config = TmConfig { ports, priorities: 4, weights: Vec::new(), buffer: Bytes::MAX, pfc };
    let mut tm = TrafficManager::new(&config).unwrap();
    let request = EnqueueRequest { ingress: 0, ingress_priority: 0, egress: 1, priority: 3, len: 5_000 };
    assert!(tm.enqueue(Time::ZERO, request, ()).unwrap().pause);
    assert!(tm.is_pausing(0, 0) && !tm.is_pausing(0, 3));
    assert_eq!(tm.queued_packets(1, 3).map(|(_, charged)| charged).collect::<Vec<_>>(), [Some((0, 0))]);
    assert_eq!(tm.dequeue_packet(Time::ZERO, 1).unwrap().resume, Some((0, 0)));
    assert!(!tm.is_pausing(0, 0));
}

/// A pause ends by itself, and is refreshed before it ends while the use stays above the threshold.
#[test]
fn pauses_expire_and_are_refreshed() {
    let (rate, quanta) = (Bandwidth::from_gbps(100), PauseQuanta(1_000));
    let share = PfcPort { rate, ..PfcPort::default() };
    let ports = (0..2).map(|n| PortConfig { pfc: Some(share), ..PortConfig::new(n) }).collect();
    let pfc = Some(PfcConfig { quanta, ..PfcConfig::fixed(Bytes::from_kb(5)) });
    let config = TmConfig { ports, priorities: 4, weights: Vec::new(), buffer: Bytes::MAX, pfc };
    let mut tm = TrafficManager::new(&config).unwrap();
    let request = EnqueueRequest { ingress: 0, ingress_priority: 2, egress: 1, priority: 3, len: 5_000 };
    let ns = Time::from_ns;
    assert_eq!(tm.next_pause_deadline(0), None);
    assert!(tm.enqueue(ns(100), request, ()).unwrap().pause);
    // 1,000 units of 512 bits at 100 Gbit/s are 5,120 ns. The pause is refreshed after half of that.
    assert_eq!(tm.next_pause_deadline(0), Some(ns(2_660)));
    assert_eq!(tm.take_refreshes(ns(2_659), 0), 0);
    assert_eq!((tm.take_refreshes(ns(2_660), 0), tm.next_pause_deadline(0)), (1 << 2, Some(ns(5_220))));
    // The neighbour of port 1 pauses two priorities.
    assert!(!tm.set_paused(1, 3, Some(ns(4_000))) && !tm.set_paused(1, 0, Some(ns(5_000))));
    assert_eq!((tm.next_pause_deadline(1), tm.next_ready(1)), (Some(ns(4_000)), None));
    assert!(!tm.expire_pauses(ns(3_999), 1) && tm.dequeue_packet(ns(3_999), 1).is_none());
    assert!(tm.expire_pauses(ns(4_000), 1));
    assert_eq!(tm.next_pause_deadline(1), Some(ns(5_000)));
    assert_eq!(tm.dequeue_packet(ns(4_000), 1).unwrap().resume, Some((0, 2)));
    assert_eq!(tm.next_pause_deadline(0), None);
    assert!(!tm.expire_pauses(ns(5_000), 1));
    assert_eq!(tm.next_pause_deadline(1), None);
}

/// Returns the drops if each neighbour sends `in_flight` bytes more after it was paused. An operation is (ingress port,
/// egress port, enqueue): it enqueues a packet if `enqueue` is true, otherwise it dequeues one at the egress port.
fn drops_with_delayed_pauses(ops: &[(u16, u16, bool)], in_flight: u64, headroom: u64) -> Drops {
    const MTU: u32 = 1_000;
    let share = PfcPort { headroom: Bytes::new(headroom), alpha_shift: 1, ..PfcPort::default() };
    let ports = (0..PORTS).map(|n| PortConfig { pfc: Some(share), ..PortConfig::new(n) });
    let config = TmConfig {
        ports: ports.collect(),
        priorities: 1,
        weights: Vec::new(),
        buffer: Bytes::new(100_000),
        pfc: Some(PfcConfig::dynamic()),
    };
    let mut tm = TrafficManager::<()>::new(&config).unwrap();
    // Bytes that a paused neighbour may still send; `None` if it is not paused.
    let mut budgets = [None::<u64>; PORTS as usize];
    for &(ingress, egress, enqueue) in ops {
        if enqueue {
            let budget = &mut budgets[usize::from(ingress)];
            match budget {
                Some(bytes) if *bytes < u64::from(MTU) => continue,
                Some(bytes) => *bytes -= u64::from(MTU),
                None => {}
            }
            let request = EnqueueRequest { ingress, egress, ingress_priority: 0, priority: 0, len: MTU };
            if tm.enqueue(Time::ZERO, request, ()).is_ok_and(|admission| admission.pause) {
                *budget = Some(in_flight);
            }
        } else if let Some(departure) = tm.dequeue_packet(Time::ZERO, egress)
            && let Some((port, _)) = departure.resume
        {
            budgets[usize::from(port)] = None;
        }
        assert!(tm.buffered() <= config.buffer);
    }
    tm.counters().dropped
}

proptest! {
    #[test]
    fn nothing_is_lost_if_headroom_covers_the_bytes_in_flight(
        ops in proptest::collection::vec((0..PORTS, 0..PORTS, proptest::bool::weighted(0.7)), 1..2000)
    ) {
        // The packet that triggers the pause may itself lie in the headroom.
        let drops = drops_with_delayed_pauses(&ops, 9_000, 10_000);
        prop_assert_eq!(drops, Drops::default());
    }
}

#[test]
fn too_little_headroom_loses_frames_and_counts_them() {
    let ops: Vec<_> = (0..400).map(|_| (0, 1, true)).collect();
    assert_eq!(drops_with_delayed_pauses(&ops, 9_000, 10_000), Drops::default());
    let drops = drops_with_delayed_pauses(&ops, 20_000, 10_000);
    assert!(drops.get(DropReason::PfcHeadroom).packets > 0);
    assert_eq!(drops.total(), drops.get(DropReason::PfcHeadroom));
}

fn two_ports(rate: Rate) -> TrafficManager<u32> {
    let ports = vec![PortConfig { rate, ..PortConfig::new(1) }, PortConfig::new(2)];
    let config = TmConfig { ports, priorities: 8, weights: Vec::new(), buffer: Bytes::MAX, pfc: None };
    TrafficManager::new(&config).unwrap()
}

fn to(egress: u16, priority: u8) -> EnqueueRequest {
    EnqueueRequest { ingress: 2, ingress_priority: priority, egress, priority, len: 1_250 }
}

#[test]
fn a_packet_rate_is_kept_although_polls_are_late() {
    let mut tm = two_ports(Rate::Packets(100_000));
    for n in 0..4 {
        tm.enqueue(Time::from_us(5), to(1, 0), n).unwrap();
    }
    assert_eq!(tm.next_ready(1), Some(Time::ZERO));
    assert_eq!(tm.dequeue_packet(Time::from_us(5), 1).unwrap().item, 0);
    assert_eq!(tm.next_ready(1), Some(Time::from_us(15)));
    assert!(tm.dequeue_packet(Time::from_us(14), 1).is_none());
    // 9 us late: the next packet is due as if this one had left on time.
    assert_eq!(tm.dequeue_packet(Time::from_us(24), 1).unwrap().item, 1);
    assert_eq!(tm.next_ready(1), Some(Time::from_us(25)));
    // Much later: the shaper makes up for at most MAX_CATCH_UP, not for the whole pause.
    assert_eq!(tm.dequeue_packet(Time::from_ms(50), 1).unwrap().item, 2);
    assert_eq!(tm.next_ready(1), Some(Time::from_ms(30) + Time::from_us(10)));
}

#[test]
fn a_bit_rate_serialises_and_a_queue_rate_lets_others_pass() {
    let mut tm = two_ports(Rate::Bits(Bandwidth::from_mbps(10)));
    tm.enqueue(Time::ZERO, to(1, 7), 0).unwrap();
    tm.enqueue(Time::ZERO, to(1, 7), 1).unwrap();
    assert_eq!(tm.dequeue_packet(Time::ZERO, 1).unwrap().item, 0);
    assert_eq!(tm.next_ready(1), Some(Time::from_ms(1)));

    assert!(tm.set_rate(1, Rate::Unlimited) && tm.set_queue_rate(1, 7, Rate::Packets(10)));
    assert!(!tm.enqueue(Time::from_ms(1), to(1, 7), 2).unwrap().ready);
    assert!(
        tm.enqueue(Time::from_ms(1), to(1, 0), 3).unwrap().ready,
        "the port waits for the rate of the other queue"
    );
    assert_eq!(tm.dequeue_packet(Time::from_ms(1), 1).unwrap().item, 3);
    assert_eq!(tm.next_ready(1), Some(Time::from_ms(100)));
    assert_eq!(tm.dequeue_packet(Time::from_ms(100), 1).unwrap().item, 1);
    assert_eq!(tm.next_ready(1), Some(Time::from_ms(200)));
    assert!(!tm.set_rate(9, Rate::Unlimited) && !tm.set_queue_rate(1, 8, Rate::Unlimited));
}

#[test]
fn the_highest_due_priority_goes_first_even_if_another_was_due_earlier() {
    let mut tm = two_ports(Rate::Unlimited);
    for priority in 0..3 {
        tm.set_queue_rate(1, priority, Rate::Packets(1_000));
        tm.enqueue(Time::ZERO, to(1, priority), u32::from(priority)).unwrap();
        assert_eq!(tm.dequeue_packet(Time::from_us(u64::from(priority)), 1).unwrap().priority, priority);
        tm.enqueue(Time::from_us(9), to(1, priority), 0).unwrap();
    }
    assert_eq!(tm.next_ready(1), Some(Time::from_ms(1)));
    assert!(tm.dequeue_packet(Time::from_us(999), 1).is_none());
    let order: Vec<u8> =
        (0..3).map(|_| tm.dequeue_packet(Time::from_us(1_010), 1).unwrap().priority).collect();
    assert_eq!(order, [2, 1, 0]);
}

#[test]
fn a_rate_change_lets_no_packet_leave_early() {
    let mut tm = two_ports(Rate::Unlimited);
    for n in 0..3 {
        tm.enqueue(Time::ZERO, to(1, 0), n).unwrap();
    }
    assert_eq!(tm.dequeue_packet(Time::from_ms(1), 1).unwrap().item, 0);
    tm.set_queue_rate(1, 0, Rate::Packets(10));
    assert_eq!(tm.next_ready(1), Some(Time::from_ms(101)));
    tm.set_queue_rate(1, 0, Rate::Packets(10));
    assert_eq!(tm.next_ready(1), Some(Time::from_ms(101)), "setting the same rate again");
    tm.set_queue_rate(1, 0, Rate::Packets(100));
    assert_eq!(tm.next_ready(1), Some(Time::from_ms(11)));
    tm.set_queue_rate(1, 0, Rate::Packets(0));
    assert_eq!(tm.next_ready(1), Some(Time::ZERO), "unlimited: due at once");
}

#[test]
fn occupancy_peaks_and_queue_depths_are_recorded() {
    let mut tm = two_ports(Rate::Unlimited);
    for n in 0..3 {
        tm.enqueue(Time::from_us(n), to(1, 3), n as u32).unwrap();
    }
    tm.enqueue(Time::from_us(3), to(1, 5), 3).unwrap();
    let high = tm.dequeue_packet(Time::from_us(9), 1).unwrap();
    assert_eq!((high.item, high.enqueue_depth, high.dequeue_depth), (3, 0, 0));
    let first = tm.dequeue_packet(Time::from_us(9), 1).unwrap();
    assert_eq!((first.item, first.enqueue_depth, first.dequeue_depth), (0, 0, 2));
    assert_eq!(first.enqueued, Time::ZERO);
    assert_eq!(tm.port_occupancy(1), Occupancy { packets: 2, bytes: 2_500, peak_bytes: 5_000 });
    assert_eq!(tm.queue_occupancy(1, 3), Occupancy { packets: 2, bytes: 2_500, peak_bytes: 3_750 });
    tm.reset_peaks();
    assert_eq!(tm.port_occupancy(1).peak_bytes, 2_500);
    assert_eq!(tm.port_occupancy(7), Occupancy::default());
}

fn weighted(weights: &[u16]) -> TrafficManager<u32> {
    let ports = vec![PortConfig::new(1), PortConfig::new(2)];
    let weights = weights.to_vec();
    let config = TmConfig { ports, priorities: 8, weights, buffer: Bytes::MAX, pfc: None };
    TrafficManager::new(&config).unwrap()
}

/// Returns the bytes that each queue sends in `rounds` departures while the queues of `lens` (queue, packet
/// length) never run empty.
fn bytes_sent(tm: &mut TrafficManager<u32>, lens: &[(u8, u32)], rounds: u32) -> [u64; 8] {
    let mut sent = [0; 8];
    for &(priority, len) in lens {
        for n in 0..2 {
            tm.enqueue(Time::ZERO, EnqueueRequest { len, ..to(1, priority) }, n).unwrap();
        }
    }
    for _ in 0..rounds {
        let departure = tm.dequeue_packet(Time::ZERO, 1).unwrap();
        sent[usize::from(departure.priority)] += u64::from(departure.len);
        tm.enqueue(Time::ZERO, EnqueueRequest { len: departure.len, ..to(1, departure.priority) }, 0)
            .unwrap();
    }
    sent
}

/// Shreedhar and Varghese: bytes are shared by weight, independently of packet lengths; empty queues get no share.
#[test]
fn weights_share_bytes_independently_of_packet_lengths() {
    let mut tm = weighted(&[4, 2, 1]);
    let sent = bytes_sent(&mut tm, &[(1, 1_518), (2, 200), (3, 9_000)], 40_000);
    let total: u64 = sent.iter().sum();
    for (queue, expected) in [(1, 4.0 / 7.0), (2, 2.0 / 7.0), (3, 1.0 / 7.0)] {
        let share = sent[queue] as f64 / total as f64;
        assert!((share - expected).abs() < 0.005, "queue {queue}: {share}");
    }
    let mut two = weighted(&[4, 2, 1]);
    let sent = bytes_sent(&mut two, &[(2, 700), (3, 1_400)], 30_000);
    assert!((sent[2] as f64 / sent[3] as f64 - 2.0).abs() < 0.01, "{sent:?}");
}

#[test]
fn weighted_queues_are_served_between_the_highest_and_the_lowest() {
    let mut tm = weighted(&[1, 1]);
    for priority in [0, 1, 2, 3, 0, 1, 2, 3] {
        tm.enqueue(Time::ZERO, to(1, priority), 0).unwrap();
    }
    let order: Vec<u8> =
        std::iter::from_fn(|| tm.dequeue_packet(Time::ZERO, 1)).map(|departure| departure.priority).collect();
    assert_eq!((&order[..2], &order[6..]), (&[3, 3][..], &[0, 0][..]));
    // A queue that is paused or waits for its rate is not served.
    let mut tm = weighted(&[1, 1, 1]);
    for priority in [1, 2, 3] {
        tm.enqueue(Time::ZERO, to(1, priority), 0).unwrap();
        tm.enqueue(Time::ZERO, to(1, priority), 0).unwrap();
    }
    tm.set_paused(1, 3, Some(Time::MAX));
    tm.set_queue_rate(1, 2, Rate::Packets(1_000));
    let order: Vec<u8> =
        std::iter::from_fn(|| tm.dequeue_packet(Time::ZERO, 1)).map(|departure| departure.priority).collect();
    assert_eq!(order.iter().filter(|&&priority| priority == 1).count(), 2, "{order:?}");
    assert_eq!(order.iter().filter(|&&priority| priority == 2).count(), 1, "{order:?}");
    assert!(!order.contains(&3));
    assert!(tm.set_paused(1, 3, None) || tm.next_ready(1).is_some());
}
