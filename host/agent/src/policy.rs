//! A running agent's policy: what may be asked of it, and what of it is kept.
//!
//! The owner of the agent owns the sockets and files. It hands over [`PolicyCall`]s, the agent answers them between
//! two frames, and gives out its state whenever that is worth keeping.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, Sender};
use weir_host::policy::{HeldPolicy, Origin, PolicyError, PolicyId};
use weir_host::trickle::TrickleConfig;
use weir_host::{Host, PolicyStatus};
use weir_units::Time;

/// While the policy stays, the stamps of its senders are kept this often: what is older than that could be replayed to
/// an agent that was killed, and would be taken for a host that speaks again.
const SAVE_INTERVAL: Time = Time::from_secs(5);

/// A request to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum PolicyRequest {
    /// Returns the policy that it holds and runs, and its counters.
    Show {},
    /// Sets a policy: what holds with these keys changed.
    Set {
        /// Keys and values ([`weir_host::policy::Policy::edit`]).
        edits: Vec<(String, String)>,
    },
    /// Returns the policies that it held, the oldest first.
    History {},
}

/// The answer, or in words why there is none.
pub type PolicyReply = Result<PolicyReport, String>;

/// A request and where its answer goes.
pub struct PolicyCall {
    /// The request.
    pub request: PolicyRequest,
    /// Takes the answer; nobody need wait for it.
    pub answer: Sender<PolicyReply>,
}

/// The channel between an agent and its owner.
pub struct PolicyChannel {
    /// Requests to the agent.
    pub requests: Receiver<PolicyCall>,
    /// Takes what is to be kept over a restart.
    pub state_tx: Option<Sender<Vec<u8>>>,
    /// State kept by an earlier run, and its age.
    pub saved_state: Option<(Vec<u8>, Time)>,
}

/// A policy that a host holds or held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyEntry {
    /// The policy's number: 1 for the first that was set; 0: none was set.
    pub version: u64,
    /// Address of the host where it was set.
    pub writer: Ipv4Addr,
    /// Of its content, in hexadecimal.
    pub digest: String,
    /// Its content, the scheme first.
    pub says: Vec<(String, String)>,
    /// Time for which the host has held it.
    pub for_ns: u64,
    /// `set` here, `saved_state` over a restart, or heard from `10.0.1.1`.
    pub from: String,
    /// It was set here and has lost against another that was set at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

/// An agent's report about its policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyReport {
    /// The host.
    pub addr: Ipv4Addr,
    /// Version and writer of what it runs; absent: what it was started with.
    pub runs: Option<(u64, Ipv4Addr)>,
    /// The scheme that its flows follow, and all parameters.
    pub scheme: Vec<(String, String)>,
    /// The reason why it does not run the policy that it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The policy that it holds; in an answer to `history` also those that it held, the oldest first.
    pub policies: Vec<PolicyEntry>,
    /// Messages that it is sending.
    pub flows: usize,
    /// The interval of its timer.
    pub interval_ns: u64,
    /// The shortest.
    pub imin_ns: u64,
    /// The longest.
    pub imax_ns: u64,
    /// Number of other messages that make its own redundant; 0: infinity.
    pub k: u32,
    /// Packets sent, heard and suppressed, intervals and resets.
    pub counts: BTreeMap<Cow<'static, str>, u64>,
    /// Frames that it dropped, by reason.
    pub drops: BTreeMap<Cow<'static, str>, u64>,
}

/// The agent's end of it.
pub(super) struct PolicyServer {
    orders: PolicyChannel,
    held: Option<(PolicyId, u64)>,
    next_keep: Time,
}

impl PolicyServer {
    /// Restores the host's policies from the state file. A state that cannot be used is logged and ignored.
    pub fn open(
        mut orders: PolicyChannel,
        now: Time,
        host: &mut Host,
    ) -> Result<PolicyServer, weir_host::policy::StateError> {
        if let Some((state, asleep)) = orders.saved_state.take() {
            host.restore_policy(now, &state, asleep)?;
        }
        Ok(PolicyServer { orders, held: None, next_keep: Time::ZERO })
    }

    /// Answers what was asked meanwhile. True if the host may have something to send now.
    pub fn serve(&mut self, now: Time, host: &mut Host) -> bool {
        let mut any = false;
        while let Ok(PolicyCall { request, answer }) = self.orders.requests.try_recv() {
            any = true;
            // Who does not wait does not want to know.
            let _ = answer.send(reply(now, host, &request));
        }
        self.save_if_due(now, host);
        any
    }

    /// Gives out the state if the policy is another, or packets came for a while.
    fn save_if_due(&mut self, now: Time, host: &Host) {
        let (Some(keep), Some(view)) = (&self.orders.state_tx, host.policy()) else { return };
        let stats = view.node.stats();
        let heard = stats.sent + stats.consistent + stats.older + stats.newer;
        let state = (view.node.held().id, heard);
        let due = match self.held {
            None => true,
            Some((id, _)) if id != state.0 => true,
            Some(kept) => kept != state && now >= self.next_keep,
        };
        if due && let Some(bytes) = host.export_policy(now) {
            // Who does not keep it any more does not need it.
            let _ = keep.send(bytes);
            (self.held, self.next_keep) = (Some(state), now.saturating_add(SAVE_INTERVAL));
        }
    }

    /// The last state.
    pub fn save_final(mut self, now: Time, host: &Host) {
        self.held = None;
        self.save_if_due(now, host);
    }
}

fn reply(now: Time, host: &mut Host, request: &PolicyRequest) -> PolicyReply {
    let mut past = false;
    match request {
        PolicyRequest::Show {} => {}
        PolicyRequest::History {} => past = true,
        PolicyRequest::Set { edits } => {
            if edits.is_empty() {
                return Err("nothing to set".to_owned());
            }
            host.set_policy(now, edits).map_err(|error| error.to_string())?;
        }
    }
    report(now, host, past).ok_or_else(|| PolicyError::Off.to_string())
}

/// Returns what the host has to say of its policy; `None` if it takes no part.
pub(super) fn report(now: Time, host: &Host, past: bool) -> Option<PolicyReport> {
    let PolicyStatus { node, runs, refused } = host.policy()?;
    let config = host.config();
    let scheme = &config.scheme;
    let parameters = scheme.values().into_iter().map(|(name, value)| (name.to_owned(), value));
    let policies = match past {
        true => node.history().map(|record| entry(now, record)).collect(),
        false => vec![match node.history().next_back() {
            Some(record) if record.id == node.held().id => entry(now, record),
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
        runs: runs.map(|id| (id.version, id.writer())),
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
        says: record.policy.as_ref().map(|policy| policy.entries()).unwrap_or_default(),
        for_ns: now.saturating_sub(record.at).as_ns(),
        from: match record.origin {
            Origin::Local => "set".to_owned(),
            Origin::Restored => "kept".to_owned(),
            Origin::Received(from) => from.to_string(),
        },
        lost: record.lost,
    }
}

fn empty_entry(held: &HeldPolicy) -> PolicyEntry {
    PolicyEntry {
        version: held.id.version,
        writer: held.id.writer(),
        digest: held.digest.to_string(),
        says: Vec::new(),
        for_ns: 0,
        from: "none".to_owned(),
        lost: false,
    }
}
