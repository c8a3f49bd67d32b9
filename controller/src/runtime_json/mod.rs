//! The `sX-runtime.json` files of p4 tutorials: a switch's entries by names, with numbers and addresses as people write
//! them. [`RuntimeJson::goal`] checks one against the program and makes it something to
//! [`reconcile`](crate::reconcile); [`RuntimeJson::of`] writes one.

mod read;
mod value;
mod write;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use thiserror::Error;

/// One file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuntimeJson {
    /// Always `bmv2`.
    pub target: String,
    /// Path of the P4Info; may be absent where the program is named elsewhere.
    #[serde(default)]
    pub p4info: String,
    /// Path of the compiled program, as `p4info`.
    #[serde(default)]
    pub bmv2_json: String,
    /// Entries and default actions.
    #[serde(default)]
    pub table_entries: Vec<TableEntryJson>,
    /// Multicast groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multicast_group_entries: Vec<MulticastJson>,
    /// Clone sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clone_session_entries: Vec<CloneJson>,
}

/// An entry, or a default action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableEntryJson {
    /// Name of the table.
    pub table: String,
    /// By name of the field: a value; for lpm a value and a length, for ternary a value and a mask, for range the
    /// least and the greatest value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub r#match: BTreeMap<String, Value>,
    /// It is the table's default action.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default_action: bool,
    /// Of entries of ternary, range and optional tables; the larger wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Name of the action.
    pub action_name: String,
    /// Values by name.
    #[serde(default)]
    pub action_params: BTreeMap<String, Value>,
    /// Its own meter, in tables that have one. Ours: the tutorials' own controller passes over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter_config: Option<MeterJson>,
}

/// The rates of a meter (RFC 2698), in bytes or packets a second as the program has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeterJson {
    /// Committed rate,
    pub cir: i64,
    /// and burst.
    pub cburst: i64,
    /// Peak rate,
    pub pir: i64,
    /// and burst.
    pub pburst: i64,
}

/// A multicast group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MulticastJson {
    /// Its number.
    pub multicast_group_id: u32,
    /// Destinations of the copies.
    pub replicas: Vec<ReplicaJson>,
}

/// A clone session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloneJson {
    /// Its number.
    pub clone_session_id: u32,
    /// Destinations of the copies.
    pub replicas: Vec<ReplicaJson>,
    /// Copies are cut to this; 0: whole packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_length_bytes: Option<i32>,
}

/// One copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaJson {
    /// The port.
    pub egress_port: u32,
    /// Value of `egress_rid` in the program.
    #[serde(default)]
    pub instance: u32,
}

/// A problem of a file, with the place in it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}")]
pub struct RuntimeJsonError {
    /// `table_entries[3].match`, or `line:column` in a text that does not parse.
    pub place: String,
    /// In words.
    pub problem: String,
}

impl RuntimeJsonError {
    fn at(place: impl Into<String>, problem: impl std::fmt::Display) -> RuntimeJsonError {
        RuntimeJsonError { place: place.into(), problem: problem.to_string() }
    }
}

/// Returns where an error of JSON is, as `line:column`, and what it is without that.
pub fn place_and_problem(error: &serde_json::Error) -> (String, String) {
    let message = error.to_string();
    let problem = message.split(" at line ").next().unwrap_or_default();
    (format!("{}:{}", error.line(), error.column()), problem.to_owned())
}

impl RuntimeJson {
    /// Parses the text of a `runtime.json` file.
    ///
    /// # Errors
    ///
    /// The text is not JSON, has a key or value that the format does not have, or is for another target than `bmv2`.
    pub fn parse(text: &str) -> Result<RuntimeJson, RuntimeJsonError> {
        let file: RuntimeJson = serde_json::from_str(text).map_err(|error| {
            let (place, reason) = place_and_problem(&error);
            RuntimeJsonError::at(place, format!("not a runtime.json: {reason}"))
        })?;
        if file.target != "bmv2" {
            let problem = format!("\"{}\" is not supported, only bmv2 is", file.target);
            return Err(RuntimeJsonError::at("target", problem));
        }
        Ok(file)
    }
}
