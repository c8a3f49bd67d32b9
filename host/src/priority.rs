//! The priorities in which a host's DATA waits for the NIC.

use crate::wire::Flags;

/// Priority of a message; the first variant is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Short messages, if the scheme sends them before longer ones.
    Express,
    /// All other messages.
    Ordinary,
}

impl Priority {
    /// Both priorities, in the order of service.
    pub(crate) const ALL: [Priority; 2] = [Priority::Express, Priority::Ordinary];

    /// Returns the priority of packets with these flags.
    pub(crate) fn of(flags: Flags) -> Priority {
        if flags.has(Flags::EXPRESS) { Priority::Express } else { Priority::Ordinary }
    }
}
