//! PFC deadlocks in `summary.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The PFC deadlock that ended the run of a scheme: paused ports that wait for each other in a cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeadlockSummary {
    /// Virtual time of the detection in microseconds.
    pub at_us: f64,
    /// Queues of the cycle: each waits for the next, and the last for the first.
    pub cycle: Vec<StuckQueue>,
    /// Number of blocked queues: those of the cycle, and those that wait for the cycle.
    pub queues: usize,
    /// Packets in the blocked queues.
    pub packets: u64,
}

/// A queue in the cycle of a deadlock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StuckQueue {
    /// `<switch>:<egress port>`
    pub port: String,
    /// Priority class.
    pub class: u8,
    pub packets: u32,
    pub bytes: u64,
    /// Packet at the head of the queue, `<source> message <id>`; `None` if it is not a packet of a host.
    pub first: Option<String>,
}

impl fmt::Display for DeadlockSummary {
    /// `deadlock at 999 us: s1:3 -> s4:1 -> s1:3 (class 0; 812 packets in 40 queues will never move)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deadlock at {} us: ", self.at_us)?;
        for queue in &self.cycle {
            write!(f, "{} -> ", queue.port)?;
        }
        let first = self.cycle.first().map_or("", |queue| &queue.port);
        let mut classes: Vec<u8> = self.cycle.iter().map(|queue| queue.class).collect();
        classes.sort_unstable();
        classes.dedup();
        let classes: Vec<String> = classes.iter().map(u8::to_string).collect();
        let (packets, queues) = (self.packets, self.queues);
        let classes = classes.join(", ");
        write!(f, "{first} (class {classes}; {packets} packets in {queues} queues will never move)")
    }
}
