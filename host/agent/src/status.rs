//! The status of a running agent, for other threads to read.

use super::counters::transport;
use super::nic::NicCounters;
use super::policy::{self, PolicyReport};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use weir_host::Host;
use weir_units::Time;

/// Interval at which it is updated.
const REFRESH_INTERVAL: Time = Time::from_ms(100);

/// The counters of a running agent, at most about 100 ms old.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Planned flows that have not begun.
    pub waiting: usize,
    /// Flows that are being sent.
    pub sending: usize,
    /// Flows that are acknowledged in full.
    pub finished: usize,
    /// Counters of the transport.
    pub transport: BTreeMap<&'static str, u64>,
    /// Frames thrown away, by reason; only reasons that occurred.
    pub drops: Vec<(&'static str, u64)>,
    /// Counters of the raw socket.
    pub nic: NicCounters,
    /// The host's policy; absent if it takes no part.
    pub policy: Option<PolicyReport>,
}

/// The agent's end of a [`Status`] that others read.
pub(super) struct StatusPublisher {
    shown: Arc<Mutex<Status>>,
    next: Time,
}

impl StatusPublisher {
    pub fn new(shown: Arc<Mutex<Status>>) -> StatusPublisher {
        StatusPublisher { shown, next: Time::ZERO }
    }

    /// Brings it up to date if it is time. `flows`: waiting, sending, finished.
    pub fn refresh(&mut self, now: Time, host: &Host, nic: &NicCounters, flows: impl FnOnce() -> [usize; 3]) {
        if now < self.next {
            return;
        }
        self.next = now.saturating_add(REFRESH_INTERVAL);
        let [waiting, sending, finished] = flows();
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
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}
