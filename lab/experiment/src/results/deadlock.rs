//! A deadlock as `summary.json` has it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The PFC deadlock that ended a scheme's run: ports of switches that wait for each other in a cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadlockSummary {
    /// Time at which it was found, in microseconds of virtual time.
    pub at_us: f64,
    /// Queues that wait in a cycle: each for the next, and the last for the first.
    pub cycle: Vec<StuckQueue>,
    /// All queues that will never send again, those that wait for the cycle too.
    pub queues: usize,
    /// Packets in them.
    pub packets: u64,
}

/// A queue of a deadlock's cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StuckQueue {
    /// `<switch>:<egress port>`
    pub port: String,
    /// Its priority class.
    pub class: u8,
    /// Packets in it.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Its first packet, `<source> message <id>`; `None` if that is no packet of a host.
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
