//! Differences between the targets of P4 programs: port numbers, group sizes, and the form of some entries.

mod bmv2;
mod p4_target;
mod ports;
mod ramp;
mod tofino;
pub(super) mod tofino_tables;

pub use bmv2::Bmv2;
pub use p4_target::{CloneSession, P4Target};
pub use ports::PortMap;
pub use tofino::{Chip, Tofino};

/// The target of all switches of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetConfig {
    /// BMv2, or another switch that runs its JSON.
    Bmv2(Bmv2),
    Tofino(Tofino),
}

impl Default for TargetConfig {
    fn default() -> TargetConfig {
        TargetConfig::Bmv2(Bmv2)
    }
}

impl TargetConfig {
    pub(super) fn is_bmv2(&self) -> bool {
        matches!(self, TargetConfig::Bmv2(_))
    }

    pub(super) fn is_tofino(&self) -> bool {
        matches!(self, TargetConfig::Tofino(_))
    }

    pub fn target(&self) -> &dyn P4Target {
        match self {
            TargetConfig::Bmv2(bmv2) => bmv2,
            TargetConfig::Tofino(tofino) => tofino,
        }
    }
}
