//! Reasons why a host does not run a policy.

use std::fmt;

/// A reason why a host holds and forwards a policy, but does not run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyRefusal {
    /// This build has no such scheme, or the scheme no such parameter or value.
    Unknown,
    /// The program of the switches does not serve the scheme.
    SwitchProgram,
    /// Table entries of the switches would have to change.
    SwitchTables,
    /// The scheme needs ECN marks, and the switches are not configured to mark.
    NoMarks,
    /// The scheme needs another kind of loss recovery than the one in use.
    Transport,
    /// A host with this NIC and MTU cannot run the policy.
    Config,
}

impl PolicyRefusal {
    /// All reasons.
    pub const ALL: &[PolicyRefusal] = &[
        PolicyRefusal::Unknown,
        PolicyRefusal::SwitchProgram,
        PolicyRefusal::SwitchTables,
        PolicyRefusal::NoMarks,
        PolicyRefusal::Transport,
        PolicyRefusal::Config,
    ];

    /// Returns the name of the reason in reports.
    pub const fn name(self) -> &'static str {
        match self {
            PolicyRefusal::Unknown => "unknown_scheme",
            PolicyRefusal::SwitchProgram => "switch_program",
            PolicyRefusal::SwitchTables => "switch_tables",
            PolicyRefusal::NoMarks => "no_marks",
            PolicyRefusal::Transport => "transport",
            PolicyRefusal::Config => "config",
        }
    }
}

impl fmt::Display for PolicyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PolicyRefusal::Unknown => "names a scheme, a parameter or a value that this host does not know",
            PolicyRefusal::SwitchProgram => "needs another switch program",
            PolicyRefusal::SwitchTables => "needs other numbers in the switches' tables",
            PolicyRefusal::NoMarks => "needs ECN marks, but marking is disabled in the switches",
            PolicyRefusal::Transport => "needs the other transport",
            PolicyRefusal::Config => "does not go with this host's configuration",
        })
    }
}
