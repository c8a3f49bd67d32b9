//! The part of `summary.json` about policies.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Statistics of policies, all hosts together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicySummary {
    /// Imin of the hosts without one of their own, in microseconds.
    pub imin_us: f64,
    /// Number of doublings of the interval.
    pub imax: u32,
    /// The redundancy constant; 0: infinity.
    pub k: u32,
    /// Every policy that was set, by time.
    pub sets: Vec<PolicySetSummary>,
    /// Messages sent.
    pub sent: u64,
    /// Messages not sent because others had said the same.
    pub suppressed: u64,
    /// Timers reset.
    pub resets: u64,
    /// Messages heard that said what the host held.
    pub consistent: u64,
    /// Messages heard that said more.
    pub newer: u64,
    /// Messages heard that said less.
    pub older: u64,
    /// Reasons why hosts did not run the policy that they hold, with counts; only reasons that occurred.
    pub refused: BTreeMap<String, u64>,
    /// Hosts told that what was set there has lost.
    pub lost: u64,
    /// Lifetimes that ended.
    pub expired: u64,
    /// POLICY packets over all packets that switches took, over the whole run.
    pub fabric_share: f64,
    /// The same over the last half of the run.
    pub fabric_share_late: f64,
    /// Messages per interval since the last policy: the first interval is Imin, and each is twice as long as the one
    /// before. The incomplete interval at the end is left out.
    pub intervals: Vec<PolicyInterval>,
}

/// A policy that was set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicySetSummary {
    /// Time in microseconds.
    pub at_us: f64,
    /// At which host.
    pub via: String,
    /// Id of the new policy, such as `3 by 10.0.0.1`; empty if it was refused.
    pub id: String,
    /// The change.
    pub change: String,
    /// The reason of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Hosts that came to run it.
    pub hosts: u64,
    /// Time until all hosts ran it, in microseconds; `None` if some never did.
    pub all_after_us: Option<f64>,
    /// The same in Imin.
    pub all_after_imin: Option<f64>,
}

/// Messages in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyInterval {
    /// From here, in microseconds,
    pub from_us: f64,
    /// to here.
    pub to_us: f64,
    /// Messages that all hosts sent.
    pub messages: u64,
    /// The same per host.
    pub per_host: f64,
}
