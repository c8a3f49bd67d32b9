//! What the PFC watchdog found, in `summary.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use weir_units::Time;

/// A port, or the NIC of a host, that PFC paused in one class for `pfc.watchdog` or longer without interruption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LongPause {
    /// `<switch>:<egress port>`, or the host.
    pub port: String,
    /// Priority class.
    pub class: u8,
    /// The port at the other end of the link, which sent the pause frames.
    pub by: String,
    /// Number of such pauses.
    pub times: u64,
    /// Start of the longest one in microseconds.
    pub since_us: f64,
    /// Its length in microseconds, at most until the end of the run.
    pub longest_us: f64,
}

impl fmt::Display for LongPause {
    /// `s1:3 was paused by s4:1 for 250ms from 12ms on (class 0), the longest of 3 pauses`, rounded to microseconds
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LongPause { port, class, by, .. } = self;
        let [length, since] = [self.longest_us, self.since_us].map(|us| Time::from_us(us.round() as u64));
        write!(f, "{port} was paused by {by} for {length} from {since} on (class {class})")?;
        if self.times > 1 {
            write!(f, ", the longest of {} pauses", self.times)?;
        }
        Ok(())
    }
}
