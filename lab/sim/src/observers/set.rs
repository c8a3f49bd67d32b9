//! The observers of a process, as one observer.

use super::counters::Counters;
use super::events::{Arrival, Departure, Observer, PauseEvent, PfcEvent};
use super::fingerprint::Fingerprint;
use super::path_trace::PathTrace;
use super::pause_watchdog::PauseWatchdog;
use super::pfc_log::PfcLog;
use super::policy::PolicyPackets;
use super::rx_stats::RxStats;
use super::slowdown::Slowdown;
use crate::messages::HostReportKind;
use weir_controller::topology::HostIx;
use weir_host::Host;
use weir_switch::link::LinkDrop;
use weir_units::Time;

/// What every run records.
pub struct BasicObservers {
    pub counters: Counters,
    pub fingerprint: Fingerprint,
    pub pfc_log: PfcLog,
    pub pause_watchdog: PauseWatchdog,
}

/// All observers of a process. Those that are `None` were not requested.
pub struct Observers {
    pub basic: BasicObservers,
    pub slowdown: Option<Slowdown>,
    pub policy: Option<Box<PolicyPackets>>,
    pub rx_stats: Option<Box<RxStats>>,
    pub path_trace: Option<Box<PathTrace>>,
}

impl Observers {
    /// Creates the basic observers, for a process with `wires` wires.
    pub(crate) fn new(wires: usize) -> Observers {
        let basic = BasicObservers {
            counters: Counters::default(),
            fingerprint: Fingerprint::new(wires),
            pfc_log: PfcLog::default(),
            pause_watchdog: PauseWatchdog::default(),
        };
        Observers { basic, slowdown: None, policy: None, rx_stats: None, path_trace: None }
    }

    /// Returns whether `basic` are the only observers. The event loop can then report to them alone.
    #[inline]
    pub(crate) fn is_basic(&self) -> bool {
        self.slowdown.is_none()
            && self.policy.is_none()
            && self.rx_stats.is_none()
            && self.path_trace.is_none()
    }
}

impl Observer for BasicObservers {
    #[inline(always)]
    fn on_arrival(&mut self, arrival: &Arrival<'_>) {
        self.counters.on_arrival(arrival);
        self.fingerprint.on_arrival(arrival);
    }
    fn on_loss(&mut self, reason: LinkDrop) {
        self.counters.on_loss(reason);
    }
    fn on_pfc(&mut self, event: &PfcEvent) {
        self.pfc_log.on_pfc(event);
    }
    fn on_pause(&mut self, event: &PauseEvent) {
        self.pause_watchdog.on_pause(event);
    }
}

/// Implements methods of [`Observer`] that pass events to all observers.
macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),+);)+) => {
        $(fn $method(&mut self, $($argument: $type),+) {
            self.basic.$method($($argument),+);
            self.slowdown.iter_mut().for_each(|observer| observer.$method($($argument),+));
            self.policy.iter_mut().for_each(|observer| observer.$method($($argument),+));
            self.rx_stats.iter_mut().for_each(|observer| observer.$method($($argument),+));
            self.path_trace.iter_mut().for_each(|observer| observer.$method($($argument),+));
        })+
    };
}

impl Observer for Observers {
    forward! {
        on_arrival(arrival: &Arrival<'_>);
        on_departure(departure: &Departure<'_>);
        on_loss(reason: LinkDrop);
        on_pfc(event: &PfcEvent);
        on_pause(event: &PauseEvent);
        on_host_event(host: HostIx, event: &HostReportKind);
        on_host_call(now: Time, ix: HostIx, host: &Host);
    }
}
