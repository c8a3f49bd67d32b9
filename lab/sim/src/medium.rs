//! Simulates policy nodes on a lossy broadcast medium, without hosts, frames or switches. This tests Trickle alone,
//! with a thousand nodes in seconds.
//!
//! A message reaches every other node of the sender's partition after a fixed delay, unless it is lost at that node.
//! For policies in a fabric with switches, run an experiment with `policy:`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::Ipv4Addr;
use std::rc::Rc;
use weir_experiment::rng::{mix, stream_seed};
use weir_host::DropReason;
use weir_host::policy::{Comparison, Policy, PolicyConfig, PolicyError, PolicyId, PolicyNode};
use weir_units::Time;

/// Returns the IPv4 address of a node.
pub fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + node as u32)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The Trickle timer of this node.
    Timer(usize),
    /// The message with this index arrives at all receivers.
    Arrival(usize),
}

struct Message {
    /// The sending node; `None` for an injected message.
    from: Option<usize>,
    /// The source address that receivers see.
    source: Ipv4Addr,
    /// Partition in which the message is broadcast.
    partition: u8,
    bytes: Rc<[u8]>,
}

/// A broadcast medium and its nodes.
pub struct Medium {
    pub now: Time,
    pub nodes: Vec<PolicyNode>,
    /// Partition of each node. Messages reach only nodes of the same partition; nodes in partition 0 receive nothing.
    pub partitions: Vec<u8>,
    /// Probability that a node does not receive a message.
    pub loss: f64,
    /// Time and sender of each message sent by a node.
    pub sent: Vec<(Time, usize)>,
    /// Node and drop reason of each packet that a node rejected.
    pub rejected: Vec<(usize, DropReason)>,
    delay: Time,
    /// Time of the pending `Timer` event of each node. Events at other times are stale.
    timer_at: Vec<Option<Time>>,
    /// By message index; `None` once older than the last 64.
    messages: Vec<Option<Message>>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    /// Number of events scheduled, which breaks ties of time.
    last_seq: u64,
    /// Seed of the random numbers; `rng_counter` counts those drawn.
    stream: u64,
    rng_counter: u64,
}

impl Medium {
    /// Creates one node per configuration, with seeds derived from `seed`. `delay` is the propagation delay.
    pub fn new(configs: Vec<PolicyConfig>, delay: Time, loss: f64, seed: u64) -> Medium {
        let count = configs.len();
        let node = |(i, config): (usize, PolicyConfig)| {
            let seed = stream_seed(seed, &format!("node {i}"));
            PolicyNode::new(&PolicyConfig { seed, ..config }, address(i), usize::MAX)
        };
        let mut medium = Medium {
            now: Time::ZERO,
            nodes: configs.into_iter().enumerate().map(node).collect(),
            partitions: vec![1; count],
            loss,
            sent: Vec::new(),
            rejected: Vec::new(),
            delay,
            timer_at: vec![None; count],
            messages: Vec::new(),
            events: BinaryHeap::new(),
            last_seq: 0,
            stream: stream_seed(seed, "medium"),
            rng_counter: 0,
        };
        (0..count).for_each(|node| medium.schedule_wakeup(node));
        medium
    }

    fn push_event(&mut self, time: Time, event: Event) {
        self.last_seq += 1;
        self.events.push(Reverse((time, self.last_seq, event)));
    }

    fn schedule_wakeup(&mut self, node: usize) {
        let due = self.nodes[node].next_wakeup().max(self.now);
        if self.timer_at[node].is_none_or(|pending| due < pending) {
            self.timer_at[node] = Some(due);
            self.push_event(due, Event::Timer(node));
        }
    }

    /// Draws whether the next message at a node is lost.
    fn is_lost(&mut self) -> bool {
        self.rng_counter += 1;
        ((mix(self.stream ^ self.rng_counter) >> 11) as f64) < self.loss * (1u64 << 53) as f64
    }

    /// Runs all events up to and including `until`.
    pub fn run_until(&mut self, until: Time) {
        while let Some(&Reverse((time, _, event))) = self.events.peek()
            && time <= until
        {
            self.events.pop();
            self.now = time;
            match event {
                Event::Timer(node) if self.timer_at[node] == Some(time) => {
                    self.timer_at[node] = None;
                    self.nodes[node].wakeup(time);
                    self.transmit_if_due(node);
                    self.schedule_wakeup(node);
                }
                Event::Timer(_) => {}
                Event::Arrival(message) => self.deliver(message),
            }
        }
        self.now = until;
    }

    /// Runs until every node, whatever its partition, holds the policy `id`, and returns that time; `None` if that
    /// does not happen by `deadline`.
    pub fn run_until_converged(&mut self, id: PolicyId, deadline: Time) -> Option<Time> {
        while self.count_holding(id) < self.nodes.len() {
            let &Reverse((next, ..)) = self.events.peek()?;
            if next > deadline {
                return None;
            }
            self.run_until(next);
        }
        Some(self.now)
    }

    /// Returns the number of nodes that hold the policy `id`.
    pub fn count_holding(&self, id: PolicyId) -> usize {
        self.nodes.iter().filter(|node| node.held().id == id).count()
    }

    /// Returns the number of messages that nodes sent in `from..to`.
    pub fn sent_within(&self, from: Time, to: Time) -> usize {
        self.sent.iter().filter(|(at, _)| (from..to).contains(at)).count()
    }

    /// Sets a policy at a node.
    ///
    /// # Errors
    ///
    /// Same as for [`weir_host::policy::PolicyNode::set`].
    pub fn set(&mut self, node: usize, policy: Policy) -> Result<PolicyId, PolicyError> {
        let id = self.nodes[node].set(self.now, policy)?;
        self.schedule_wakeup(node);
        Ok(id)
    }

    fn transmit_if_due(&mut self, node: usize) {
        if !self.nodes[node].is_due(self.now) {
            return;
        }
        let mut bytes = Vec::new();
        self.nodes[node].transmit(self.now, &mut bytes);
        self.sent.push((self.now, node));
        self.broadcast(Some(node), address(node), self.partitions[node], bytes.into());
    }

    fn broadcast(&mut self, from: Option<usize>, source: Ipv4Addr, partition: u8, bytes: Rc<[u8]>) {
        self.messages.push(Some(Message { from, source, partition, bytes }));
        self.push_event(self.now + self.delay, Event::Arrival(self.messages.len() - 1));
    }

    /// Broadcasts `bytes` with the source address `source` to all nodes of a partition, from outside the set of nodes
    /// (an attacker). Subject to loss and delay like any message.
    pub fn inject(&mut self, source: Ipv4Addr, partition: u8, bytes: &[u8]) {
        self.broadcast(None, source, partition, bytes.into());
    }

    /// Returns the last message of a node if it is among the last 64 messages of the medium.
    pub fn last_message_of(&mut self, node: usize) -> Option<Vec<u8>> {
        let is_from_node = |message: &&Message| message.from == Some(node);
        self.messages.iter().rev().flatten().find(is_from_node).map(|message| message.bytes.to_vec())
    }

    fn deliver(&mut self, number: usize) {
        let Some(message) = &self.messages[number] else { return };
        let (from, source, partition, bytes) =
            (message.from, message.source, message.partition, Rc::clone(&message.bytes));
        for node in 0..self.nodes.len() {
            let is_receiver = Some(node) != from && partition != 0 && self.partitions[node] == partition;
            if !is_receiver || self.is_lost() {
                continue;
            }
            match self.nodes[node].on_packet(self.now, source, &bytes) {
                Ok(Comparison::Consistent) => {}
                Ok(_) => self.schedule_wakeup(node),
                Err(reason) => self.rejected.push((node, reason)),
            }
        }
        // Recent messages are kept for `last_message_of`.
        const KEPT_MESSAGES: usize = 64;
        if let Some(old) = number.checked_sub(KEPT_MESSAGES) {
            self.messages[old] = None;
        }
    }
}
