use super::super::{ClientError, fleet::ApplySummary};
use std::fmt;
use std::time::Duration;
use weir_controller::watch::RolloutReason;

/// Something that the operator may want to know. Prints as a line.
#[derive(Debug)]
pub enum WatchEvent {
    /// A switch is in our hands.
    Connected {
        /// Its name.
        switch: String,
        /// It lacked the program.
        pushed: bool,
    },
    /// Another controller holds the switch; we wait.
    Standby {
        /// Its name.
        switch: String,
    },
    /// A switch cannot be reached, or no more. Said once until it changes.
    Lost {
        /// Its name.
        switch: String,
        /// The reason.
        error: ClientError,
    },
    /// A link between switches changed.
    Link {
        /// `s1:3 - s5:1`
        link: String,
        /// True if it carries probes now.
        is_up: bool,
    },
    /// No probe passes a link although its switches answer and its ports are up: its routes stay.
    ProbesLost {
        /// `s1:3 - s5:1`
        link: String,
    },
    /// Tables were brought in line.
    RolledOut {
        /// The cause.
        reason: RolloutReason,
        /// Switches that were written.
        switches: usize,
        /// The changes, over all switches.
        applied: ApplySummary,
        /// Links that are down.
        down: usize,
        /// From the beginning to the last answer.
        took: Duration,
    },
    /// A switch did not take its entries. It is tried again.
    Refused {
        /// Its name.
        switch: String,
        /// The reason.
        error: ClientError,
    },
    /// There are no routes for what is left of the fabric; the old ones stay.
    NoRoutes(String),
    /// Packet-ins that were no probes of ours, since the last notice.
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
                write!(f, "link {link} loses all probes, but its ports are up: its routes stay")
            }
            WatchEvent::RolledOut { reason: why, switches, applied, down, took } => {
                let ApplySummary { inserted, modified, deleted, unchanged, .. } = applied;
                let reason = match why {
                    RolloutReason::Start => "started",
                    RolloutReason::Links => "rerouted",
                    RolloutReason::Returned => "refilled",
                    RolloutReason::Drift => "repaired",
                };
                write!(
                    f,
                    "{reason}: {inserted} inserted, {modified} modified, {deleted} deleted, {unchanged} unchanged"
                )?;
                write!(f, " on {switches} switches in {:.0} ms", took.as_secs_f64() * 1e3)?;
                if *down == 0 { write!(f, "; all links up") } else { write!(f, "; {down} links down") }
            }
            WatchEvent::Refused { switch, error } => write!(f, "{switch}: {error}"),
            WatchEvent::NoRoutes(reason) => write!(f, "no routes: {reason}; the old ones stay"),
            WatchEvent::UnknownPacketIns(count) => write!(f, "{count} packet-ins were no probes of ours"),
        }
    }
}
