//! The two queues in which packets wait for the NIC.

use crate::wire::Flags;

/// A queue for the NIC. The first is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Express,
    Ordinary,
}

impl Lane {
    /// Both, in the order in which they are served.
    pub const ALL: [Lane; 2] = [Lane::Express, Lane::Ordinary];

    /// Returns the queue of packets that have these flags.
    pub fn of(flags: Flags) -> Lane {
        if flags.has(Flags::EXPRESS) { Lane::Express } else { Lane::Ordinary }
    }
}
