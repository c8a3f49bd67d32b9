//! Compares the capabilities of a switch program with the needs of a scheme.

use crate::capabilities::Capabilities;
use crate::custom_record::{RECORD_HEADER, RecordLayout};
use crate::scheme::{Needs, TelemetrySource};
use std::fmt;

/// The properties of a switch program on which schemes depend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchProfile {
    /// Capabilities of the program.
    pub capabilities: Capabilities,
    /// Layout of its custom telemetry records; `None` if the records have one of Weir's formats.
    pub record: Option<RecordLayout>,
    /// Clock ticks of the switch per unit of the records' timestamps: `@weir_telemetry("data, ticks=8")`.
    pub ticks_per_unit: u32,
}

/// A need of a scheme that a switch program does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnmetNeed {
    /// The program lacks these capabilities.
    Capabilities(Capabilities),
    /// The program's custom records lack this field.
    Field(&'static str),
    /// The program has custom records, but the scheme reads Weir's.
    WeirRecords,
}

impl From<Capabilities> for SwitchProfile {
    /// Returns the profile of a program with Weir's records and timestamps in ticks.
    fn from(capabilities: Capabilities) -> SwitchProfile {
        SwitchProfile { capabilities, record: None, ticks_per_unit: 1 }
    }
}

impl SwitchProfile {
    /// Returns the first of `needs` that the program does not meet; `None` if it meets all.
    pub fn unmet_need(&self, needs: &Needs) -> Option<UnmetNeed> {
        let missing = self.capabilities.missing(needs.capabilities());
        if missing != Capabilities::NONE {
            return Some(UnmetNeed::Capabilities(missing));
        }
        let has_field = |name: &str| self.record.as_ref().is_some_and(|record| record.field(name).is_some());
        let reads_records =
            !matches!(needs.telemetry, TelemetrySource::None | TelemetrySource::RateNotifications);
        match needs.custom_record_fields {
            Some(fields) => fields.iter().find(|name| !has_field(name)).map(|name| UnmetNeed::Field(name)),
            None => (reads_records && self.record.is_some()).then_some(UnmetNeed::WeirRecords),
        }
    }
}

impl fmt::Display for UnmetNeed {
    /// Writes a description of the need and the P4 object that would declare it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnmetNeed::Capabilities(capabilities) => capabilities.fmt(f),
            UnmetNeed::Field(name) => write!(
                f,
                "the field \"{name}\" in custom telemetry records (@controller_header(\"{RECORD_HEADER}\"))"
            ),
            UnmetNeed::WeirRecords => write!(
                f,
                "Weir's telemetry records instead of custom ones (@controller_header(\"{RECORD_HEADER}\"))"
            ),
        }
    }
}
