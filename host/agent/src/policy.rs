//! Requests about the policy of a running agent, and its state across restarts.
//!
//! The agent opens no socket or file for this; its owner does. The owner sends [`PolicyCall`]s through a channel,
//! which the agent answers between two frames, and receives the state to save through another channel.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, Sender};
use weir_host::policy::{HeldPolicy, Origin, PolicyError, PolicyId};
use weir_host::trickle::TrickleConfig;
use weir_host::{Host, PolicyStatus};
use weir_units::Time;

/// Minimum time between two saves while the policy stays the same but packets are sent or received. A save contains
/// the last timestamp of each sender, so after a crash an attacker can replay at most the packets of this interval.
const SAVE_INTERVAL: Time = Time::from_secs(5);

/// A request to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum PolicyRequest {
    /// Reports the policy that the host holds, the active configuration, and the counters.
    Show {},
    /// Sets a new policy: the present configuration with these edits.
    Set {
        /// Keys and values, as for [`weir_host::policy::Policy::edit`].
        edits: Vec<(String, String)>,
    },
    /// Like `Show`, with all policies that the host has held.
    History {},
}

/// The reply to a request, or an error message.
pub type PolicyReply = Result<PolicyReport, String>;

/// A request with the channel for its reply.
pub struct PolicyCall {
    pub request: PolicyRequest,
    /// Channel for the reply. Its receiver may be dropped early.
    pub reply_tx: Sender<PolicyReply>,
}

/// The owner's channels to an agent.
pub struct PolicyChannel {
    pub requests: Receiver<PolicyCall>,
    /// Channel for the state to save across a restart; `None` saves nothing.
    pub state_tx: Option<Sender<Vec<u8>>>,
    /// State saved by an earlier run; `None` starts without a policy.
    pub saved_state: Option<SavedPolicyState>,
}

/// The policy state that an earlier run saved.
pub struct SavedPolicyState {
    /// The state as received from [`PolicyChannel::state_tx`].
    pub state: Vec<u8>,
    /// Time since the state was saved.
    pub downtime: Time,
}

/// A policy that a host holds or held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyEntry {
    /// Version number: 1 for the first policy that was set, 0 if none was set.
    pub version: u64,
    /// Address of the host at which the policy was set.
    pub writer: Ipv4Addr,
    /// Digest of the content, in hexadecimal.
    pub digest: String,
    /// Content as keys and values, the scheme first.
    #[serde(rename = "says")]
    pub settings: Vec<(String, String)>,
    /// Time since this host began to hold the policy.
    pub for_ns: u64,
    /// Origin: `set` at this host, `kept` across a restart, `none`, or the address of the host that sent it.
    pub from: String,
    /// True if the policy was set at this host and superseded by another one that was set at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

/// An agent's report about its policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyReport {
    pub addr: Ipv4Addr,
    /// Version and writer of the active policy; `None` if the configuration from the start is active.
    pub runs: Option<(u64, Ipv4Addr)>,
    /// The active scheme and all its parameters.
    pub scheme: Vec<(String, String)>,
    /// Why the held policy is not active; absent if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The held policy; in a reply to `history`, all policies held so far, oldest first.
    pub policies: Vec<PolicyEntry>,
    /// Number of outgoing messages that are not acknowledged in full.
    pub flows: usize,
    /// Current interval of the Trickle timer.
    pub interval_ns: u64,
    pub imin_ns: u64,
    pub imax_ns: u64,
    /// Trickle's redundancy constant; 0 means infinity.
    pub k: u32,
    /// POLICY packets sent, received and suppressed, and Trickle intervals and resets.
    pub counts: BTreeMap<Cow<'static, str>, u64>,
    /// Frames that the host dropped, by reason.
    pub drops: BTreeMap<Cow<'static, str>, u64>,
}

/// The agent's side of a [`PolicyChannel`].
pub(super) struct PolicyServer {
    channel: PolicyChannel,
    /// `None` before the first save.
    last_saved: Option<SavedVersion>,
    /// Earliest time of the next save if the held policy is still the same.
    next_save: Time,
}

/// Identifies the state of a host's policy protocol, to see whether it has changed since the last save.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SavedVersion {
    /// The held policy.
    held: PolicyId,
    /// Number of POLICY packets sent and accepted.
    packets: u64,
}

impl PolicyServer {
    /// Restores the host's policies from [`PolicyChannel::saved_state`]. Fails if that state cannot be used.
    pub(crate) fn open(
        mut channel: PolicyChannel,
        now: Time,
        host: &mut Host,
    ) -> Result<PolicyServer, weir_host::policy::StateError> {
        if let Some(SavedPolicyState { state, downtime }) = channel.saved_state.take() {
            host.restore_policy(now, &state, downtime)?;
        }
        Ok(PolicyServer { channel, last_saved: None, next_save: Time::ZERO })
    }

    /// Answers all pending requests and saves the state if that is due. Returns true if there was a request, after
    /// which the host may have a frame to send.
    pub(crate) fn serve(&mut self, now: Time, host: &mut Host) -> bool {
        let mut had_request = false;
        while let Ok(PolicyCall { request, reply_tx }) = self.channel.requests.try_recv() {
            had_request = true;
            // The requester may have gone away; its reply is then dropped.
            let _ = reply_tx.send(reply(now, host, &request));
        }
        self.save_if_due(now, host);
        had_request
    }

    /// Sends the state to the owner if another policy is held than at the last save, or if packets were sent or
    /// received since then and [`SAVE_INTERVAL`] has passed.
    fn save_if_due(&mut self, now: Time, host: &Host) {
        let (Some(state_tx), Some(status)) = (&self.channel.state_tx, host.policy()) else { return };
        let stats = status.node.stats();
        let packets = stats.sent + stats.consistent + stats.older + stats.newer;
        let current = SavedVersion { held: status.node.held().id, packets };
        let is_due = match self.last_saved {
            None => true,
            Some(saved) if saved.held != current.held => true,
            Some(saved) => saved != current && now >= self.next_save,
        };
        if is_due && let Some(state) = host.export_policy(now) {
            // The owner may have stopped saving.
            let _ = state_tx.send(state);
            (self.last_saved, self.next_save) = (Some(current), now.saturating_add(SAVE_INTERVAL));
        }
    }

    /// Sends the state to the owner at the end of the run, whether or not a save is due.
    pub(crate) fn save_final(mut self, now: Time, host: &Host) {
        self.last_saved = None;
        self.save_if_due(now, host);
    }
}

/// Executes a request and returns the reply.
fn reply(now: Time, host: &mut Host, request: &PolicyRequest) -> PolicyReply {
    let scope = match request {
        PolicyRequest::Show {} => ReportScope::Held,
        PolicyRequest::History {} => ReportScope::History,
        PolicyRequest::Set { edits } => {
            if edits.is_empty() {
                return Err("no edits given".to_owned());
            }
            host.set_policy(now, edits).map_err(|error| error.to_string())?;
            ReportScope::Held
        }
    };
    report(now, host, scope).ok_or_else(|| PolicyError::Disabled.to_string())
}

/// The policies that a report contains.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReportScope {
    /// The held one.
    Held,
    /// All that the host has held.
    History,
}

/// Returns the report about the host's policy; `None` if policies are disabled.
pub(super) fn report(now: Time, host: &Host, scope: ReportScope) -> Option<PolicyReport> {
    let PolicyStatus { node, active, refused } = host.policy()?;
    let config = host.config();
    let scheme = &config.scheme;
    let parameters = scheme.values().into_iter().map(|(name, value)| (name.to_owned(), value));
    let policies = match scope {
        ReportScope::History => node.history().map(|record| entry(now, record)).collect(),
        ReportScope::Held => vec![match node.history().next_back() {
            Some(record) if record.id == node.held().id => entry(now, record),
            // No policy has been set yet.
            _ => empty_entry(node.held()),
        }],
    };
    let stats = node.stats();
    let counts = [
        ("sent", stats.sent),
        ("suppressed", stats.suppressed),
        ("intervals", stats.intervals),
        ("resets", stats.resets),
        ("consistent", stats.consistent),
        ("newer", stats.newer),
        ("older", stats.older),
    ];
    let trickle: &TrickleConfig = node.trickle().config();
    Some(PolicyReport {
        addr: config.addr,
        runs: active.map(|id| (id.version, id.writer())),
        scheme: std::iter::once(("scheme".to_owned(), scheme.name().to_owned())).chain(parameters).collect(),
        refused: refused.map(|reason| reason.to_string()),
        policies,
        flows: host.flow_count(),
        interval_ns: node.trickle().interval().as_ns(),
        imin_ns: trickle.imin.as_ns(),
        imax_ns: trickle.imax().as_ns(),
        k: trickle.redundancy(),
        counts: counts.into_iter().map(|(name, n)| (name.into(), n)).collect(),
        drops: host.stats().drops.iter().map(|(reason, n)| (reason.name().into(), n)).collect(),
    })
}

fn entry(now: Time, record: &weir_host::policy::PolicyRecord) -> PolicyEntry {
    PolicyEntry {
        version: record.id.version,
        writer: record.id.writer(),
        digest: record.digest.to_string(),
        settings: record.policy.as_ref().map(|policy| policy.entries()).unwrap_or_default(),
        for_ns: now.saturating_sub(record.at).as_ns(),
        from: match record.origin {
            Origin::Local => "set".to_owned(),
            Origin::Restored => "kept".to_owned(),
            Origin::Received(from) => from.to_string(),
        },
        lost: record.superseded,
    }
}

fn empty_entry(held: &HeldPolicy) -> PolicyEntry {
    PolicyEntry {
        version: held.id.version,
        writer: held.id.writer(),
        digest: held.digest.to_string(),
        settings: Vec::new(),
        for_ns: 0,
        from: "none".to_owned(),
        lost: false,
    }
}
