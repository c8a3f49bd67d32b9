//! The abilities of the switches' program, compared with the needs of a scheme.

use crate::abilities::Abilities;
use crate::own_record::{RECORD_HEADER, RecordLayout};
use crate::scheme::{Needs, TelemetryOn};
use std::fmt;

/// The abilities and telemetry records that the switches' program offers to schemes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The abilities of the program.
    pub abilities: Abilities,
    /// The layout of its telemetry records; `None`: they are Weir's.
    pub record: Option<RecordLayout>,
    /// Ticks of the switch's clock in one unit of the records' timestamps: `@weir_telemetry("data, ticks=8")`.
    pub ticks: u32,
}

/// Something that a scheme needs and the switches' program lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It does not do this.
    Abilities(Abilities),
    /// Its telemetry records have no such field.
    Field(&'static str),
    /// Its telemetry records are not Weir's.
    WeirRecords,
}

impl From<Abilities> for Offer {
    /// Returns the offer of a program with Weir's records and the switch's own ticks.
    fn from(abilities: Abilities) -> Offer {
        Offer { abilities, record: None, ticks: 1 }
    }
}

impl Offer {
    /// Returns what of `needs` the program lacks; `None` if a scheme with these needs works with it.
    pub fn lacks(&self, needs: &Needs) -> Option<Missing> {
        let missing = self.abilities.missing(needs.abilities());
        if missing != Abilities::NONE {
            return Some(Missing::Abilities(missing));
        }
        let has_field = |name: &str| self.record.as_ref().is_some_and(|record| record.field(name).is_some());
        let gathers = !matches!(needs.telemetry, TelemetryOn::Nothing | TelemetryOn::Notices);
        match needs.own_record {
            Some(fields) => fields.iter().find(|name| !has_field(name)).map(|name| Missing::Field(name)),
            None => (gathers && self.record.is_some()).then_some(Missing::WeirRecords),
        }
    }
}

impl fmt::Display for Missing {
    /// Writes what it is and the object of the program that declares it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Abilities(abilities) => abilities.fmt(f),
            Missing::Field(name) => write!(
                f,
                "the field \"{name}\" in telemetry records of the program's own (@controller_header(\"{RECORD_HEADER}\"))"
            ),
            Missing::WeirRecords => write!(
                f,
                "Weir's telemetry records, and not the program's own (@controller_header(\"{RECORD_HEADER}\"))"
            ),
        }
    }
}
