//! The two queues in which packets wait for the NIC.

use crate::wire::Flags;

/// A queue for the NIC. The first is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    Express,
    Ordinary,
}

impl Priority {
    /// Both, in the order in which they are served.
    pub const ALL: [Priority; 2] = [Priority::Express, Priority::Ordinary];

    /// Returns the queue of packets that have these flags.
    pub fn of(flags: Flags) -> Priority {
        if flags.has(Flags::EXPRESS) { Priority::Express } else { Priority::Ordinary }
    }
}
