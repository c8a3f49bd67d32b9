//! The serde types of bfrt.json.

use super::table::{Action, DataField, KeyField, Kind, MatchType, Scope, Table, TableType};
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    tables: Vec<RawTable>,
}

#[derive(Deserialize)]
struct RawTable {
    name: String,
    id: u32,
    table_type: String,
    size: u64,
    #[serde(default)]
    attributes: Vec<String>,
    #[serde(default)]
    has_const_default_action: bool,
    #[serde(default)]
    key: Vec<RawKey>,
    #[serde(default)]
    action_specs: Vec<RawAction>,
    #[serde(default)]
    data: Vec<RawData>,
}

#[derive(Deserialize)]
struct RawKey {
    id: u32,
    name: String,
    match_type: RawMatch,
    r#type: RawType,
}

#[derive(Deserialize)]
enum RawMatch {
    Exact,
    #[serde(alias = "LPM")]
    Lpm,
    Ternary,
    Range,
    Optional,
}

#[derive(Deserialize)]
struct RawAction {
    id: u32,
    name: String,
    action_scope: Option<RawScope>,
    #[serde(default)]
    data: Vec<RawData>,
}

#[derive(Clone, Copy, Deserialize)]
enum RawScope {
    TableAndDefault,
    TableOnly,
    DefaultOnly,
}

/// A data field. Action parameters are plain; other fields are wrapped in `singleton` or `oneof`.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawData {
    Singleton {
        #[serde(default)]
        mandatory: bool,
        #[serde(default)]
        read_only: bool,
        singleton: RawField,
    },
    OneOf {
        #[serde(default)]
        read_only: bool,
        oneof: Vec<RawField>,
    },
    Plain(RawField),
}

#[derive(Deserialize)]
struct RawField {
    id: u32,
    name: String,
    #[serde(default)]
    repeated: bool,
    #[serde(default)]
    mandatory: bool,
    #[serde(default)]
    read_only: bool,
    /// `None` for a container of fields.
    r#type: Option<RawType>,
}

#[derive(Deserialize)]
struct RawType {
    r#type: String,
    #[serde(default)]
    width: u32,
    #[serde(default)]
    choices: Vec<String>,
    default_value: Option<serde_json::Value>,
}

pub(super) fn tables(json: &[u8]) -> Result<Vec<Table>, serde_json::Error> {
    // Files of drivers repeat keys in objects, which serde rejects in structs; `Value` keeps the last one.
    let file: File = serde_json::from_value(serde_json::from_slice(json)?)?;
    Ok(file.tables.into_iter().map(table).collect())
}

fn table(raw: RawTable) -> Table {
    let table_type = match raw.table_type.as_str() {
        "MatchAction_Direct" => TableType::MatchAction,
        "RegisterParam" => TableType::RegisterParam,
        _ => TableType::Other(raw.table_type),
    };
    Table {
        name: raw.name,
        id: raw.id,
        table_type,
        size: raw.size,
        is_const: raw.attributes.iter().any(|attribute| attribute == "ConstTable"),
        has_const_default: raw.has_const_default_action,
        key: raw.key.into_iter().map(key_field).collect(),
        actions: raw.action_specs.into_iter().map(action).collect(),
        fields: raw.data.into_iter().flat_map(fields).collect(),
    }
}

fn key_field(raw: RawKey) -> KeyField {
    let match_type = match raw.match_type {
        RawMatch::Exact => MatchType::Exact,
        RawMatch::Lpm => MatchType::Lpm,
        RawMatch::Ternary => MatchType::Ternary,
        RawMatch::Range => MatchType::Range,
        RawMatch::Optional => MatchType::Optional,
    };
    KeyField { id: raw.id, name: raw.name, match_type, kind: kind(raw.r#type) }
}

fn action(raw: RawAction) -> Action {
    let scope = match raw.action_scope {
        Some(RawScope::DefaultOnly) => Scope::DefaultOnly,
        Some(RawScope::TableOnly) => Scope::TableOnly,
        Some(RawScope::TableAndDefault) | None => Scope::TableAndDefault,
    };
    Action { id: raw.id, name: raw.name, scope, fields: raw.data.into_iter().flat_map(fields).collect() }
}

fn fields(raw: RawData) -> Vec<DataField> {
    match raw {
        RawData::Singleton { mandatory, read_only, singleton } => {
            vec![field(singleton, mandatory, read_only)]
        }
        // Alternatives are never mandatory.
        RawData::OneOf { read_only, oneof } => {
            oneof.into_iter().map(|raw| field(raw, false, read_only)).collect()
        }
        RawData::Plain(raw) => {
            let (mandatory, read_only) = (raw.mandatory, raw.read_only);
            vec![field(raw, mandatory, read_only)]
        }
    }
}

fn field(raw: RawField, mandatory: bool, read_only: bool) -> DataField {
    let default = raw.r#type.as_ref().and_then(|it| it.default_value.as_ref()?.as_u64());
    let kind = raw.r#type.map_or(Kind::Other, kind);
    DataField { id: raw.id, name: raw.name, kind, repeated: raw.repeated, mandatory, read_only, default }
}

fn kind(raw: RawType) -> Kind {
    match raw.r#type.as_str() {
        "bool" => Kind::Bool,
        "string" => Kind::Text(raw.choices),
        "float" => Kind::Float,
        "uint8" | "int8" => Kind::Bits(8),
        "uint16" | "int16" => Kind::Bits(16),
        "uint32" | "int32" => Kind::Bits(32),
        "uint64" | "int64" => Kind::Bits(64),
        "bytes" => Kind::Bits(raw.width),
        _ => Kind::Other,
    }
}
