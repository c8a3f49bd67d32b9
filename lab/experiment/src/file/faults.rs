//! The key `faults`: faults to inject.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::serde_as;
use weir_controller::topology::AsText;
use weir_units::{Ratio, Time};

/// A fault to inject.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
pub enum FaultSpec {
    /// Frames on links are lost, delayed, reordered, duplicated or corrupted, in both directions.
    #[serde(alias = "loss")]
    Impair {
        /// Probability that a frame is lost.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, alias = "rate", skip_serializing_if = "Option::is_none")]
        #[schemars(extend("maximum" = 1))]
        loss: Option<Ratio>,
        /// Maximum additional delay, uniformly distributed from 0; frames are not reordered.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        jitter: Option<Time>,
        /// Probability that a frame is delayed by `reorder_by`, so that later frames overtake it.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("maximum" = 1))]
        reorder: Option<Ratio>,
        /// Additional delay of a reordered frame.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reorder_by: Option<Time>,
        /// Probability that a frame arrives twice.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("maximum" = 1))]
        duplicate: Option<Ratio>,
        /// Probability that one bit of a frame is inverted.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("maximum" = 1))]
        corrupt: Option<Ratio>,
        /// Links: `<node>-<node>`, or a node for all of its links; absent: all links.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        links: Vec<String>,
        /// Start of the fault.
        #[serde_as(as = "AsText")]
        #[serde(default)]
        from: Time,
        /// End of the fault; absent: the end of the run.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Time>,
    },
    /// Links are down: frames in flight and frames sent on them are lost. Several links can partition the fabric.
    Down {
        /// Links: `<node>-<node>`, or a node for all of its links.
        links: Vec<String>,
        /// Start of the fault.
        #[serde_as(as = "AsText")]
        from: Time,
        /// End of the fault; absent: the end of the run.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Time>,
    },
    /// Routes avoid links from `from` to `to`, as after the controller has learned of a failure, or for maintenance. The links stay
    /// up unless a fault `down` names them too.
    Reroute {
        /// Links: `<node>-<node>`, or a node for all of its links.
        links: Vec<String>,
        /// Start of the fault.
        #[serde_as(as = "AsText")]
        from: Time,
        /// End of the fault; absent: the end of the run.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Time>,
    },
    /// The links of hosts are down from `from` to `to`. With `from: 0` the hosts join late.
    Away {
        /// Names of the hosts.
        hosts: Vec<String>,
        /// Start of the fault.
        #[serde_as(as = "AsText")]
        #[serde(default)]
        from: Time,
        /// End of the fault; absent: the end of the run.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Time>,
    },
    /// A switch restarts: its queued packets are lost and its tables are empty until the controller restores them.
    Restart {
        /// The switch that restarts.
        switch: String,
        /// Time of the restart.
        #[serde_as(as = "AsText")]
        at: Time,
        /// Time from the restart until the controller has restored the tables.
        #[serde_as(as = "AsText")]
        refill_after: Time,
    },
    /// A host that does not know the policy key sends POLICY packets.
    Attack {
        /// The attacking host.
        host: String,
        /// Kind of packets: `forged`, `replayed`, `malformed` or `unicast`.
        with: Attack,
        /// Time of the first packet.
        #[serde_as(as = "AsText")]
        at: Time,
        /// Interval between packets.
        #[serde_as(as = "AsText")]
        every: Time,
        /// Number of packets.
        times: u32,
    },
}

/// The kind of packets that an attacker sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Attack {
    /// A policy with a high version, authenticated with a different key.
    Forged,
    /// POLICY packets that the host received before, the oldest first.
    Replayed,
    /// Replayed packets, truncated.
    Malformed,
    /// Replayed packets, sent to a single host.
    Unicast,
}

impl FaultSpec {
    /// Returns whether the fault affects only links. Mininet supports these faults too.
    pub fn is_link_fault(&self) -> bool {
        match self {
            FaultSpec::Impair { .. } | FaultSpec::Down { .. } | FaultSpec::Away { .. } => true,
            FaultSpec::Reroute { .. } | FaultSpec::Restart { .. } | FaultSpec::Attack { .. } => false,
        }
    }

    /// Returns the end of the fault, if the file has one.
    pub(super) fn end(&self) -> Option<Time> {
        match self {
            FaultSpec::Impair { to, .. }
            | FaultSpec::Down { to, .. }
            | FaultSpec::Reroute { to, .. }
            | FaultSpec::Away { to, .. } => *to,
            FaultSpec::Restart { .. } | FaultSpec::Attack { .. } => None,
        }
    }

    /// Returns all times of the fault. A scale model multiplies them.
    pub(super) fn times_mut(&mut self) -> Vec<&mut Time> {
        match self {
            FaultSpec::Impair { from, to, jitter, reorder_by, .. } => {
                [from].into_iter().chain(to).chain(jitter).chain(reorder_by).collect()
            }
            FaultSpec::Down { from, to, .. }
            | FaultSpec::Reroute { from, to, .. }
            | FaultSpec::Away { from, to, .. } => [from].into_iter().chain(to).collect(),
            FaultSpec::Restart { at, refill_after, .. } => vec![at, refill_after],
            FaultSpec::Attack { at, every, .. } => vec![at, every],
        }
    }
}
