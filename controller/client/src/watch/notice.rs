use super::super::{ClientError, fleet::Applied};
use std::fmt;
use std::time::Duration;

/// Something that the operator may want to know. Prints as a line.
#[derive(Debug)]
pub enum Notice {
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
    Kept {
        /// `s1:3 - s5:1`
        link: String,
    },
    /// Tables were brought in line.
    Written {
        /// The cause.
        why: Why,
        /// Switches that were written.
        switches: usize,
        /// The changes, over all switches.
        applied: Applied,
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
    Strange(u64),
}

/// The cause of a rollout.
///
/// Ordered by importance, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The first one.
    Start,
    /// Links failed or returned.
    Links,
    /// A switch came back.
    Returned,
    /// Somebody else changed tables, or a write had failed.
    Drift,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Connected { switch, pushed: true } => write!(f, "{switch}: connected, program pushed"),
            Notice::Connected { switch, pushed: false } => write!(f, "{switch}: connected"),
            Notice::Standby { switch } => {
                write!(f, "{switch}: another controller is the primary, standing by")
            }
            Notice::Lost { switch, error } => write!(f, "{switch}: lost: {error}"),
            Notice::Link { link, is_up: true } => write!(f, "link {link} is up"),
            Notice::Link { link, is_up: false } => write!(f, "link {link} is down"),
            Notice::Kept { link } => {
                write!(f, "link {link} loses all probes, but its ports are up: its routes stay")
            }
            Notice::Written { why, switches, applied, down, took } => {
                let Applied { inserted, modified, deleted, unchanged, .. } = applied;
                let why = match why {
                    Why::Start => "started",
                    Why::Links => "rerouted",
                    Why::Returned => "refilled",
                    Why::Drift => "repaired",
                };
                write!(
                    f,
                    "{why}: {inserted} inserted, {modified} modified, {deleted} deleted, {unchanged} unchanged"
                )?;
                write!(f, " on {switches} switches in {:.0} ms", took.as_secs_f64() * 1e3)?;
                if *down == 0 { write!(f, "; all links up") } else { write!(f, "; {down} links down") }
            }
            Notice::Refused { switch, error } => write!(f, "{switch}: {error}"),
            Notice::NoRoutes(why) => write!(f, "no routes: {why}; the old ones stay"),
            Notice::Strange(count) => write!(f, "{count} packet-ins were no probes of ours"),
        }
    }
}
