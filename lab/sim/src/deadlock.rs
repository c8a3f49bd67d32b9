//! Detects PFC deadlocks: queues that wait for each other in a cycle, so that none of their packets ever moves again.
//!
//! A queue is stuck if its neighbour has paused it and can never resume it: the packets of that link and class that
//! the neighbour buffers wait in queues that are stuck themselves, and exceed the resume threshold even after
//! everything else has drained.
//! [`detect`] computes the greatest set of such queues: it starts with all paused queues and removes those that could
//! be resumed if everything outside the set drained, until the set is empty or does not change. Congestion, however
//! long, is therefore never reported; only a fault or a restart can resolve what is found. With dynamic thresholds a
//! deadlock may be missed.

use crate::link::PfcFrame;
use crate::network::View;
use crate::nodes::UNCONNECTED;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use weir_controller::topology::{Node, SwitchIx, Topology};
use weir_experiment::results::{DeadlockSummary, StuckQueue};
use weir_host::wire::FrameView;
use weir_units::Time;

/// A queue of a switch: an egress port and a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueId {
    pub switch: SwitchIx,
    pub port: u16,
    pub class: u8,
}

/// A stuck queue of the cycle, which waits for the next queue of the cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedQueue {
    pub queue: QueueId,
    pub packets: u32,
    pub bytes: u64,
    /// Source address and message id of the packet at the head of the queue; `None` if it does not parse.
    pub first: Option<(Ipv4Addr, u32)>,
}

/// A deadlock: a cycle of queues, and the size of all that is stuck because of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// In order of waiting; the last queue waits for the first.
    pub cycle: Vec<BlockedQueue>,
    /// Number of stuck queues, including those that wait for the cycle without being part of it.
    pub queues: usize,
    /// Number of packets in all stuck queues.
    pub packets: u64,
}

impl Deadlock {
    /// Returns the deadlock for the report, with names in place of indices.
    pub fn summarise(&self, topology: &Topology, now: Time) -> DeadlockSummary {
        let named = |ip| topology.hosts.iter().find(|host| host.ip == ip).map(|host| host.name.clone());
        let name = |ip: Ipv4Addr| named(ip).unwrap_or_else(|| ip.to_string());
        let stuck = |blocked: &BlockedQueue| StuckQueue {
            port: format!("{}:{}", topology.switch(blocked.queue.switch).name, blocked.queue.port),
            class: blocked.queue.class,
            packets: blocked.packets,
            bytes: blocked.bytes,
            first: blocked.first.map(|(source, message)| format!("{} message {message}", name(source))),
        };
        DeadlockSummary {
            at_us: now.as_us_f64(),
            cycle: self.cycle.iter().map(stuck).collect(),
            queues: self.queues,
            packets: self.packets,
        }
    }
}

/// Returns the present deadlock, if there is one.
pub fn detect(network: &View<'_>) -> Option<Deadlock> {
    let mut stuck: BTreeSet<QueueId> = paused(network).collect();
    loop {
        let permanent_pauses = |switch: SwitchIx| {
            let tm = network.switch(switch).switch.queues();
            tm.deadlocked_pauses(|port, class| stuck.contains(&QueueId { switch, port, class }))
        };
        let permanent: Vec<Vec<(u16, u8)>> =
            network.switches().map(|node| permanent_pauses(node.ix)).collect();
        let previous = stuck.len();
        stuck.retain(|&queue| {
            let receiver = far_end(network, queue);
            receiver.is_some_and(|(next, port)| permanent[next.0 as usize].contains(&(port, queue.class)))
        });
        if stuck.is_empty() {
            return None;
        }
        if stuck.len() == previous {
            return Some(describe(network, &stuck));
        }
    }
}

/// Returns the non-empty queues that a neighbouring switch has paused, unless a resume frame from it is in flight.
fn paused<'v>(network: &'v View<'v>) -> impl Iterator<Item = QueueId> + use<'v> {
    let queues = network.switches().flat_map(|node| {
        let switch = node.ix;
        let tm = node.switch.queues();
        let queues = tm.ports().flat_map(move |port| (0..tm.priorities()).map(move |class| (port, class)));
        queues
            .filter(move |&(port, class)| tm.has_paused_backlog(port, class))
            .map(move |(port, class)| QueueId { switch, port, class })
    });
    queues.filter(|&queue| {
        far_end(network, queue).is_some_and(|(next, port)| {
            let tm = network.switch(next).switch.queues();
            tm.is_pausing(port, queue.class) && !resume_in_flight(network, next, port, queue.class)
        })
    })
}

/// Returns the switch to which a queue sends, and the ingress port there; `None` if the queue sends to a host.
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

fn resume_in_flight(network: &View<'_>, from: SwitchIx, port: u16, class: u8) -> bool {
    let is_resume = |frame: &PfcFrame| frame.priority == class && !frame.quanta.is_pause();
    direction(network, from, port).is_some_and(|index| network.wire(index).pfc.any(is_resume))
}

/// Returns a cycle among the stuck queues and the totals of all stuck queues.
fn describe(network: &View<'_>, stuck: &BTreeSet<QueueId>) -> Deadlock {
    let level = |queue: &QueueId| {
        let tm = network.switch(queue.switch).switch.queues();
        tm.queue_occupancy(queue.port, queue.class)
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

/// Returns a shortest cycle through one of the stuck queues. Each stuck queue waits for another one, so following the
/// first wait of each, until a queue repeats, finds a queue on a cycle.
fn cycle(network: &View<'_>, stuck: &BTreeSet<QueueId>) -> Vec<QueueId> {
    let mut followed = BTreeSet::new();
    let mut from = stuck.first().copied();
    while let Some(queue) = from.filter(|&queue| followed.insert(queue)) {
        from = waits_for(network, stuck, queue).first().copied();
    }
    let Some(from) = from else { return Vec::new() };
    // Breadth-first search from that queue. Each entry holds the index of its predecessor.
    let mut reached = vec![(from, None)];
    let mut seen = BTreeSet::new();
    let mut index = 0;
    while let Some(&(queue, _)) = reached.get(index) {
        for next in waits_for(network, stuck, queue) {
            if next == from {
                let predecessor = |&index: &usize| reached[index].1;
                let mut path: Vec<_> =
                    std::iter::successors(Some(index), predecessor).map(|index| reached[index].0).collect();
                path.reverse();
                return path;
            }
            if seen.insert(next) {
                reached.push((next, Some(index)));
            }
        }
        index += 1;
    }
    Vec::new()
}

/// Returns the stuck queues of the next switch that hold packets received from `queue`'s link in its class.
fn waits_for(network: &View<'_>, stuck: &BTreeSet<QueueId>, queue: QueueId) -> Vec<QueueId> {
    let Some((next, ingress)) = far_end(network, queue) else { return Vec::new() };
    let tm = network.switch(next).switch.queues();
    let charge = Some((ingress, queue.class));
    let id = |port, class| QueueId { switch: next, port, class };
    let stuck_at_next = stuck.range(id(0, 0)..=id(u16::MAX, u8::MAX)).copied();
    stuck_at_next
        .filter(|queue| tm.queued_packets(queue.port, queue.class).any(|(_, charged)| charged == charge))
        .collect()
}

fn first_packet(network: &View<'_>, queue: QueueId) -> Option<(Ipv4Addr, u32)> {
    let tm = network.switch(queue.switch).switch.queues();
    let (queued, _) = tm.queued_packets(queue.port, queue.class).next()?;
    let packet = queued.packet();
    let frame = FrameView::new(packet.bytes(), packet.virtual_len()).ok()?;
    Some((frame.ip.source(), frame.weir.message()))
}
