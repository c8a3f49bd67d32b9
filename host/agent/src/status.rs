//! The status of a running agent, which other threads can read.

use super::counters::host_counters;
use super::nic::NicCounters;
use super::policy::{self, PolicyReport, ReportScope};
use super::recorder::FlowCounts;
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
    /// Flows that are acknowledged in full or have failed.
    pub finished: usize,
    /// Counters of the host.
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
    pub(crate) fn new(status: Arc<Mutex<Status>>) -> StatusPublisher {
        StatusPublisher { status, next_refresh: Time::ZERO }
    }

    /// Updates the status if [`REFRESH_INTERVAL`] has passed. `flow_counts` is a closure because counting takes time,
    /// which most calls need not spend.
    pub(crate) fn refresh(
        &mut self,
        now: Time,
        host: &Host,
        nic: &NicCounters,
        flow_counts: impl FnOnce() -> FlowCounts,
    ) {
        if now < self.next_refresh {
            return;
        }
        self.next_refresh = now.saturating_add(REFRESH_INTERVAL);
        let FlowCounts { waiting, sending, ended } = flow_counts();
        let stats = host.stats();
        let status = Status {
            waiting,
            sending,
            finished: ended,
            transport: host_counters(stats),
            drops: stats.drops.iter().map(|(reason, count)| (reason.name(), count)).collect(),
            nic: nic.clone(),
            policy: policy::report(now, host, ReportScope::Held),
        };
        // The lock is poisoned if a reader panicked. The status is replaced as a whole, so that does no harm.
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}
