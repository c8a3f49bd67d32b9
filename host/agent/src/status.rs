//! The status of a running agent, which other threads can read.

use super::counters::transport;
use super::nic::NicCounters;
use super::policy::{self, PolicyReport};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use weir_host::Host;
use weir_units::Time;

/// Interval between two updates of the status.
const REFRESH_INTERVAL: Time = Time::from_ms(100);

/// The counters of a running agent, at most about 100 ms old.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Planned flows that have not started.
    pub waiting: usize,
    /// Flows in progress.
    pub sending: usize,
    /// Flows that are acknowledged in full.
    pub finished: usize,
    pub transport: BTreeMap<&'static str, u64>,
    /// Dropped frames by reason; only reasons that occurred.
    pub drops: Vec<(&'static str, u64)>,
    pub nic: NicCounters,
    /// The host's policy; `None` if policies are disabled.
    pub policy: Option<PolicyReport>,
}

/// Updates a [`Status`] that other threads read.
pub(super) struct StatusPublisher {
    status: Arc<Mutex<Status>>,
    next_refresh: Time,
}

impl StatusPublisher {
    pub fn new(status: Arc<Mutex<Status>>) -> StatusPublisher {
        StatusPublisher { status, next_refresh: Time::ZERO }
    }

    /// Updates the status if [`REFRESH_INTERVAL`] has passed. `flow_counts` returns the numbers of flows that are
    /// waiting, sending and finished.
    pub fn refresh(
        &mut self,
        now: Time,
        host: &Host,
        nic: &NicCounters,
        flow_counts: impl FnOnce() -> [usize; 3],
    ) {
        if now < self.next_refresh {
            return;
        }
        self.next_refresh = now.saturating_add(REFRESH_INTERVAL);
        let [waiting, sending, finished] = flow_counts();
        let stats = host.stats();
        let status = Status {
            waiting,
            sending,
            finished,
            transport: transport(stats),
            drops: stats.drops.iter().map(|(reason, count)| (reason.name(), count)).collect(),
            nic: nic.clone(),
            policy: policy::report(now, host, false),
        };
        // The whole status is replaced, so a panic of a reader leaves nothing half-written.
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}
