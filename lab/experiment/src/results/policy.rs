//! Policy statistics in `summary.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Policy statistics, summed over all hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicySummary {
    /// Imin in microseconds, of the hosts that are not listed in `policy.tune`.
    pub imin_us: f64,
    /// Maximum number of doublings of the interval.
    pub imax: u32,
    /// Redundancy constant; 0: infinity.
    pub k: u32,
    /// All policies that were set, sorted by time.
    pub sets: Vec<PolicySetSummary>,
    /// Messages sent.
    pub sent: u64,
    /// Messages suppressed by Trickle's redundancy constant.
    pub suppressed: u64,
    /// Resets of Trickle timers.
    pub resets: u64,
    /// Received messages with the policy that the host has.
    pub consistent: u64,
    /// Received messages with a newer policy.
    pub newer: u64,
    /// Received messages with an older policy.
    pub older: u64,
    /// Rejected policies by reason, without zeros: the host stores such a policy, but does not apply it.
    pub refused: BTreeMap<String, u64>,
    /// Hosts that were notified that a policy set at them was superseded by a concurrent one.
    pub lost: u64,
    /// Policies whose lifetime ended.
    pub expired: u64,
    /// Share of POLICY packets among all packets that switches received, over the whole run.
    pub fabric_share: f64,
    /// Share of POLICY packets over the second half of the run.
    pub fabric_share_late: f64,
    /// Messages per interval since the last policy was set. The first interval is Imin, and each is twice as long as the one
    /// before. An incomplete interval at the end is omitted.
    pub intervals: Vec<PolicyInterval>,
}

/// A policy that was set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicySetSummary {
    /// Time in microseconds.
    pub at_us: f64,
    /// Host at which the policy was set.
    pub via: String,
    /// Id of the new policy, such as `3 by 10.0.0.1`; empty if the policy was rejected.
    pub id: String,
    /// Changed values, such as `eta=0.9`, separated by spaces.
    pub change: String,
    /// Reason of the rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Number of hosts that applied the policy.
    pub hosts: u64,
    /// Time from `at_us` until all hosts had applied the policy, in microseconds; `None` if some never did.
    pub all_after_us: Option<f64>,
    /// `all_after_us` in units of Imin.
    pub all_after_imin: Option<f64>,
}

/// Number of messages in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyInterval {
    /// Start in microseconds.
    pub from_us: f64,
    /// End in microseconds.
    pub to_us: f64,
    /// Messages sent by all hosts.
    pub messages: u64,
    /// Mean number of messages per host.
    pub per_host: f64,
}
