//! Events of `controller watch` for the operator.

use super::super::{ClientError, fleet::ApplySummary};
use std::fmt;
use std::time::Duration;
use weir_controller::watch::RolloutReason;

/// An event for the operator; its `Display` form is one line.
#[derive(Debug)]
pub enum WatchEvent {
    /// The controller has become primary and has read the tables.
    Connected {
        switch: String,
        /// The switch did not run the program, which was pushed.
        pushed: bool,
    },
    /// Another controller is primary; this one waits.
    Standby { switch: String },
    /// A switch cannot be reached. Reported once per outage.
    Lost { switch: String, error: ClientError },
    /// The state of a link between switches has changed.
    Link {
        /// Such as `s1:3 - s5:1`.
        link: String,
        is_up: bool,
    },
    /// A link loses all probes although its switches reply and its ports are up. Its routes are kept.
    ProbesLost {
        /// Such as `s1:3 - s5:1`.
        link: String,
    },
    /// A rollout has finished.
    RolledOut {
        reason: RolloutReason,
        /// Number of switches that were written.
        switches: usize,
        /// Sum of the changes over all switches.
        applied: ApplySummary,
        /// Number of links that are down.
        down_links: usize,
        /// Time from the start of the rollout to its last reply.
        duration: Duration,
    },
    /// A switch rejected updates or failed during the rollout. It is tried again.
    SwitchFailed { switch: String, error: ClientError },
    /// No routes exist for the remaining fabric; the current ones are kept.
    NoRoutes(String),
    /// Number of packet-ins since the last event of this kind that were not probes of this run.
    UnknownPacketIns(u64),
}

impl fmt::Display for WatchEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchEvent::Connected { switch, pushed: true } => {
                write!(f, "{switch}: connected, program pushed")
            }
            WatchEvent::Connected { switch, pushed: false } => write!(f, "{switch}: connected"),
            WatchEvent::Standby { switch } => {
                write!(f, "{switch}: another controller is the primary, standing by")
            }
            WatchEvent::Lost { switch, error } => write!(f, "{switch}: lost: {error}"),
            WatchEvent::Link { link, is_up: true } => write!(f, "link {link} is up"),
            WatchEvent::Link { link, is_up: false } => write!(f, "link {link} is down"),
            WatchEvent::ProbesLost { link } => {
                write!(f, "link {link} loses all probes, but its ports are up: its routes are kept")
            }
            WatchEvent::RolledOut { reason, switches, applied, down_links, duration } => {
                let ApplySummary { inserted, modified, deleted, unchanged, .. } = applied;
                let verb = match reason {
                    RolloutReason::Start => "started",
                    RolloutReason::Links => "rerouted",
                    RolloutReason::SwitchReady => "refilled",
                    RolloutReason::Drift => "repaired",
                };
                write!(
                    f,
                    "{verb}: {inserted} inserted, {modified} modified, {deleted} deleted, {unchanged} unchanged"
                )?;
                write!(f, " on {switches} switches in {:.0} ms", duration.as_secs_f64() * 1e3)?;
                if *down_links == 0 {
                    write!(f, "; all links up")
                } else {
                    write!(f, "; {down_links} links down")
                }
            }
            WatchEvent::SwitchFailed { switch, error } => write!(f, "{switch}: {error}"),
            WatchEvent::NoRoutes(reason) => write!(f, "no routes: {reason}; the current routes are kept"),
            WatchEvent::UnknownPacketIns(count) => {
                write!(f, "{count} packet-ins were not probes of this controller")
            }
        }
    }
}
