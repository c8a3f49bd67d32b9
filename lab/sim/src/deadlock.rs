//! Finds PFC deadlocks: ports that wait for each other in a cycle, so that none of their packets ever moves again.
//!
//! A queue is stuck if its neighbour has paused it and will never let it go on: what the neighbour holds of that link and class
//! waits in queues that are stuck themselves, and is too much for a resume even when all else has drained. [`detect`] takes
//! all queues that are paused now and removes those that could go on, until none is left or nothing changes. So what it
//! finds is no congestion, however long: only a fault or a restart could end it. With dynamic thresholds it may miss one.

use crate::network::View;
use crate::process::UNCONNECTED;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use weir_controller::topology::{Node, SwitchIx, Topology};
use weir_experiment::results::{DeadlockSummary, StuckQueue};
use weir_host::wire::FrameView;
use weir_units::Time;

/// A queue of a switch: an egress port and a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueId {
    /// The switch of the port.
    pub switch: SwitchIx,
    /// The egress port.
    pub port: u16,
    /// The priority class.
    pub class: u8,
}

/// A stuck queue of a deadlock's cycle. It waits for the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedQueue {
    /// The queue.
    pub queue: QueueId,
    /// Packets in it.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Source and message of its first packet.
    pub first: Option<(Ipv4Addr, u32)>,
}

/// Queues that wait in a cycle, each for the next and the last for the first, and the packets behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The queues, in order.
    pub cycle: Vec<BlockedQueue>,
    /// All queues that are stuck, those behind the cycle too.
    pub queues: usize,
    /// Packets in them.
    pub packets: u64,
}

impl Deadlock {
    /// As the summary has it, with names.
    pub fn summarise(&self, topology: &Topology, now: Time) -> DeadlockSummary {
        let named = |ip| topology.hosts.iter().find(|host| host.ip == ip).map(|host| host.name.clone());
        let name = |ip: Ipv4Addr| named(ip).unwrap_or_else(|| ip.to_string());
        let stuck = |it: &BlockedQueue| StuckQueue {
            port: format!("{}:{}", topology.switch(it.queue.switch).name, it.queue.port),
            class: it.queue.class,
            packets: it.packets,
            bytes: it.bytes,
            first: it.first.map(|(source, message)| format!("{} message {message}", name(source))),
        };
        DeadlockSummary {
            at_us: now.as_us_f64(),
            cycle: self.cycle.iter().map(stuck).collect(),
            queues: self.queues,
            packets: self.packets,
        }
    }
}

/// Returns the deadlock that there is now, if there is one.
pub fn detect(network: &View<'_>) -> Option<Deadlock> {
    let mut stuck: BTreeSet<QueueId> = paused(network).collect();
    loop {
        let lasting = |switch: SwitchIx| {
            let tm = network.switch(switch).switch.queues();
            tm.deadlocked_pauses(|port, class| stuck.contains(&QueueId { switch, port, class }))
        };
        let lasting: Vec<Vec<(u16, u8)>> = network.switches().map(|chassis| lasting(chassis.ix)).collect();
        let before = stuck.len();
        stuck.retain(|&queue| {
            let end = far_end(network, queue);
            end.is_some_and(|(next, port)| lasting[next.0 as usize].contains(&(port, queue.class)))
        });
        if stuck.is_empty() {
            return None;
        }
        if stuck.len() == before {
            return Some(describe(network, &stuck));
        }
    }
}

/// Returns the queues with packets that a neighbouring switch has paused without a resume frame in flight.
fn paused<'v>(network: &'v View<'v>) -> impl Iterator<Item = QueueId> + use<'v> {
    let queues = network.switches().flat_map(|chassis| {
        let switch = chassis.ix;
        let tm = chassis.switch.queues();
        let queues = tm.ports().flat_map(move |port| (0..tm.priorities()).map(move |class| (port, class)));
        queues
            .filter(move |&(port, class)| tm.has_paused_backlog(port, class))
            .map(move |(port, class)| QueueId { switch, port, class })
    });
    queues.filter(|&queue| {
        far_end(network, queue).is_some_and(|(next, port)| {
            let tm = network.switch(next).switch.queues();
            tm.is_pausing(port, queue.class) && !pfc_in_flight(network, next, port)
        })
    })
}

/// Returns the switch that a queue sends to, and its ingress port.
fn far_end(network: &View<'_>, queue: QueueId) -> Option<(SwitchIx, u16)> {
    let direction = direction(network, queue.switch, queue.port)?;
    match network.far_end(direction) {
        Node::Switch(next) => Some((next, network.wire(direction).to_port)),
        Node::Host(_) => None,
    }
}

fn direction(network: &View<'_>, switch: SwitchIx, port: u16) -> Option<u32> {
    let directions = &network.switch(switch).directions;
    directions.get(usize::from(port)).copied().filter(|&index| index != UNCONNECTED)
}

fn pfc_in_flight(network: &View<'_>, from: SwitchIx, port: u16) -> bool {
    direction(network, from, port).is_some_and(|index| !network.wire(index).pfc.is_empty())
}

/// Returns a cycle among the stuck queues, and how much is stuck.
fn describe(network: &View<'_>, stuck: &BTreeSet<QueueId>) -> Deadlock {
    let level = |queue: &QueueId| {
        let tm = network.switch(queue.switch).switch.queues();
        tm.queue_level(queue.port, queue.class)
    };
    let describe = |queue: QueueId| {
        let level = level(&queue);
        BlockedQueue {
            queue,
            packets: level.packets,
            bytes: level.bytes,
            first: first_packet(network, queue),
        }
    };
    Deadlock {
        cycle: cycle(network, stuck).into_iter().map(describe).collect(),
        queues: stuck.len(),
        packets: stuck.iter().map(|queue| u64::from(level(queue).packets)).sum(),
    }
}

/// Returns the shortest cycle through a queue that lies on one. Each stuck queue waits for another: following them leads to a
/// cycle.
fn cycle(network: &View<'_>, stuck: &BTreeSet<QueueId>) -> Vec<QueueId> {
    let mut followed = BTreeSet::new();
    let mut from = stuck.first().copied();
    while let Some(queue) = from.filter(|&queue| followed.insert(queue)) {
        from = waits_for(network, stuck, queue).first().copied();
    }
    let Some(from) = from else { return Vec::new() };
    // Breadth first, each queue with the place of the one before it.
    let mut reached = vec![(from, None)];
    let mut seen = BTreeSet::new();
    let mut at = 0;
    while let Some(&(queue, _)) = reached.get(at) {
        for next in waits_for(network, stuck, queue) {
            if next == from {
                let before = |&place: &usize| reached[place].1;
                let mut path: Vec<_> =
                    std::iter::successors(Some(at), before).map(|place| reached[place].0).collect();
                path.reverse();
                return path;
            }
            if seen.insert(next) {
                reached.push((next, Some(at)));
            }
        }
        at += 1;
    }
    Vec::new()
}

/// Returns the stuck queues of the next switch in which packets of this link and class wait.
fn waits_for(network: &View<'_>, stuck: &BTreeSet<QueueId>, queue: QueueId) -> Vec<QueueId> {
    let Some((next, ingress)) = far_end(network, queue) else { return Vec::new() };
    let tm = network.switch(next).switch.queues();
    let charge = Some((ingress, queue.class));
    let place = |port, class| QueueId { switch: next, port, class };
    let there = stuck.range(place(0, 0)..=place(u16::MAX, u8::MAX)).copied();
    there.filter(|it| tm.waiting(it.port, it.class).any(|(_, charged)| charged == charge)).collect()
}

fn first_packet(network: &View<'_>, queue: QueueId) -> Option<(Ipv4Addr, u32)> {
    let tm = network.switch(queue.switch).switch.queues();
    let (queued, _) = tm.waiting(queue.port, queue.class).next()?;
    let packet = queued.packet();
    let frame = FrameView::new(packet.bytes(), packet.virtual_len()).ok()?;
    Some((frame.ip.source(), frame.weir.message()))
}
