//! The content of `summary.json`. `docs/summary.md` defines each metric.

use crate::observations::SchemeSummary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Results of all schemes of an experiment. The same file and seed give the same bytes, except for `wall_s`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the experiment.
    pub experiment: String,
    /// The program that made the run, with its version and, if it was built in a git checkout, its commit. Not part of the
    /// digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// `sim` or `mininet`.
    pub backend: String,
    pub seed: u64,
    /// SHA-256 over the results and, in virtual time, all packet arrivals, without `wall_s`. Runs with equal digests are equal.
    pub digest: String,
    /// Virtual time in seconds, summed over the schemes.
    pub virtual_s: f64,
    /// Wall-clock duration of the run in seconds.
    pub wall_s: f64,
    /// Number of passes of packets through switches, ingress and egress counted as one.
    pub packet_hops: u64,
    /// True if the run was interrupted; the results then cover the time until the interruption.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Results by scheme label.
    pub schemes: BTreeMap<String, SchemeSummary>,
}

/// Packet counts of one scheme.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PacketSummary {
    /// [`Summary::packet_hops`] of this scheme.
    pub packet_hops: u64,
    /// Frame bytes summed over all links, including those of hosts: a packet over three links counts three times.
    pub link_bytes: u64,
    /// The classes of `observe.size_classes` in ascending order; one class of all flows if there are none.
    pub classes: Vec<PacketClass>,
}

/// Data packets that receivers got from the flows of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PacketClass {
    /// Exclusive lower bound of the flow size.
    pub over_bytes: u64,
    /// Inclusive upper bound of the flow size; `None` for the last class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upto_bytes: Option<u64>,
    /// Packets received, including retransmissions.
    pub received: u64,
    /// Received packets with an ECN CE mark.
    pub marked: u64,
    /// ACKs with an ECN echo. May be less than `marked`, because a receiver may suppress the echo.
    pub echoed: u64,
    /// `marked` over `received`; `None` if no packet was received.
    pub marked_share: Option<f64>,
    /// `echoed` over `received`; `None` if no packet was received.
    pub echoed_share: Option<f64>,
    /// Mean number of links that a packet crossed, including those of the two hosts.
    pub mean_links: Option<f64>,
}
