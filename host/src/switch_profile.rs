//! The abilities of the switches' program, compared with the needs of a scheme.

use crate::capabilities::Capabilities;
use crate::custom_record::{RECORD_HEADER, RecordLayout};
use crate::scheme::{Needs, TelemetrySource};
use std::fmt;

/// The abilities and telemetry records that the switches' program offers to schemes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchProfile {
    /// The abilities of the program.
    pub abilities: Capabilities,
    /// The layout of its telemetry records; `Open`: they are Weir's.
    pub record: Option<RecordLayout>,
    /// Ticks of the switch's clock in one unit of the records' timestamps: `@weir_telemetry("data, ticks_per_unit=8")`.
    pub ticks_per_unit: u32,
}

/// Something that a scheme needs and the switches' program lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnmetNeed {
    /// It does not do this.
    Abilities(Capabilities),
    /// Its telemetry records have no such field.
    Field(&'static str),
    /// Its telemetry records are not Weir's.
    WeirRecords,
}

impl From<Capabilities> for SwitchProfile {
    /// Returns the offer of a program with Weir's records and the switch's own ticks.
    fn from(abilities: Capabilities) -> SwitchProfile {
        SwitchProfile { abilities, record: None, ticks_per_unit: 1 }
    }
}

impl SwitchProfile {
    /// Returns what of `needs` the program lacks; `Open` if a scheme with these needs works with it.
    pub fn unmet_need(&self, needs: &Needs) -> Option<UnmetNeed> {
        let missing = self.abilities.missing(needs.abilities());
        if missing != Capabilities::NONE {
            return Some(UnmetNeed::Abilities(missing));
        }
        let has_field = |name: &str| self.record.as_ref().is_some_and(|record| record.field(name).is_some());
        let gathers = !matches!(needs.telemetry, TelemetrySource::None | TelemetrySource::RateNotifications);
        match needs.custom_record_fields {
            Some(fields) => fields.iter().find(|name| !has_field(name)).map(|name| UnmetNeed::Field(name)),
            None => (gathers && self.record.is_some()).then_some(UnmetNeed::WeirRecords),
        }
    }
}

impl fmt::Display for UnmetNeed {
    /// Writes what it is and the object of the program that declares it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnmetNeed::Abilities(abilities) => abilities.fmt(f),
            UnmetNeed::Field(name) => write!(
                f,
                "the field \"{name}\" in telemetry records of the program's own (@controller_header(\"{RECORD_HEADER}\"))"
            ),
            UnmetNeed::WeirRecords => write!(
                f,
                "Weir's telemetry records, and not the program's own (@controller_header(\"{RECORD_HEADER}\"))"
            ),
        }
    }
}
