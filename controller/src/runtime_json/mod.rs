//! Reads and writes the `sX-runtime.json` files of the P4 tutorials: the entries of a switch by name, with numbers and
//! addresses in the usual notation. [`RuntimeJson::desired_state`] checks a file against the program and converts it to
//! entities for [`reconcile`](crate::reconcile); [`RuntimeJson::from_entities`] is the inverse.

mod read;
mod value;
mod write;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use thiserror::Error;

/// A `runtime.json` file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuntimeJson {
    /// Always `bmv2`.
    pub target: String,
    /// Path of the P4Info; may be empty if the program is given elsewhere.
    #[serde(default)]
    pub p4info: String,
    /// Path of the compiled program; may be empty like `p4info`.
    #[serde(default)]
    pub bmv2_json: String,
    #[serde(default)]
    pub table_entries: Vec<TableEntryJson>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multicast_group_entries: Vec<MulticastJson>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clone_session_entries: Vec<CloneJson>,
}

/// An entry, or a default action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableEntryJson {
    pub table: String,
    /// Field name -> value. An lpm field has value and prefix length, a ternary field value and mask, a range field
    /// its lower and upper bound.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub r#match: BTreeMap<String, Value>,
    /// True for the default action of the table.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default_action: bool,
    /// For entries of tables with ternary, range or optional fields; the larger priority wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    pub action_name: String,
    #[serde(default)]
    pub action_params: BTreeMap<String, Value>,
    /// Direct meter of the entry. An extension of Weir, which the tutorials' controller ignores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter_config: Option<MeterJson>,
}

/// The rates of a meter (RFC 2698), in bytes or packets per second, depending on the meter's declaration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeterJson {
    /// Committed rate and burst.
    pub cir: i64,
    pub cburst: i64,
    /// Peak rate and burst.
    pub pir: i64,
    pub pburst: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MulticastJson {
    pub multicast_group_id: u32,
    pub replicas: Vec<ReplicaJson>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloneJson {
    pub clone_session_id: u32,
    pub replicas: Vec<ReplicaJson>,
    /// Length to which copies are truncated; 0: whole packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_length_bytes: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaJson {
    pub egress_port: u32,
    /// Value of `egress_rid` in the program.
    #[serde(default)]
    pub instance: u32,
}

/// An error in a runtime.json file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{location}: {problem}")]
pub struct RuntimeJsonError {
    /// Key path such as `table_entries[3].match`, or `line:column` if the text is not valid JSON.
    pub location: String,
    pub problem: String,
}

impl RuntimeJsonError {
    fn at(location: impl Into<String>, problem: impl std::fmt::Display) -> RuntimeJsonError {
        RuntimeJsonError { location: location.into(), problem: problem.to_string() }
    }
}

/// Splits a JSON error into its location, `line:column`, and the message without it.
pub fn split_json_error(error: &serde_json::Error) -> (String, String) {
    let message = error.to_string();
    let problem = message.split(" at line ").next().unwrap_or_default();
    (format!("{}:{}", error.line(), error.column()), problem.to_owned())
}

impl RuntimeJson {
    /// Parses the text of a `runtime.json` file.
    ///
    /// # Errors
    ///
    /// The text is not JSON, has a key or value that the format lacks, or is for a target other than `bmv2`.
    pub fn parse(text: &str) -> Result<RuntimeJson, RuntimeJsonError> {
        let file: RuntimeJson = serde_json::from_str(text).map_err(|error| {
            let (location, reason) = split_json_error(&error);
            RuntimeJsonError::at(location, format!("not a runtime.json: {reason}"))
        })?;
        if file.target != "bmv2" {
            let problem = format!("\"{}\" is not supported; only bmv2 is", file.target);
            return Err(RuntimeJsonError::at("target", problem));
        }
        Ok(file)
    }
}
