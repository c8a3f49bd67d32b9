//! The reasons why a host does not run the policy that it holds.

use std::fmt;

/// The reason why a host holds and forwards a policy but does not run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyRefusal {
    /// The scheme, a parameter or a value is unknown to this build.
    Unknown,
    /// The switch program lacks a capability that the scheme needs.
    SwitchProgram,
    /// The policy would require other table entries or classes in the switches.
    SwitchTables,
    /// The scheme needs ECN marks, and the switches are not configured to mark.
    NoMarks,
    /// The scheme needs another kind of loss recovery than the one in use.
    Transport,
    /// The policy is invalid with this host's NIC rate, MTU or other configuration.
    Config,
}

impl PolicyRefusal {
    /// All reasons, in the order of reports.
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
            PolicyRefusal::Unknown => "unknown scheme, parameter or value",
            PolicyRefusal::SwitchProgram => "requires another switch program",
            PolicyRefusal::SwitchTables => {
                "requires different switch table entries, which a policy does not write: start switches and hosts with these parameters"
            }
            PolicyRefusal::NoMarks => "requires ECN marks, but the switches are not configured to mark",
            PolicyRefusal::Transport => "requires the other kind of loss recovery",
            PolicyRefusal::Config => "incompatible with this host's configuration",
        })
    }
}
