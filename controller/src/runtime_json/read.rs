//! Converts the entries of a file to entities, and checks their names against the program.

use super::{ReplicaJson, RuntimeJson, RuntimeJsonError, TableEntryJson, value};
use crate::reconcile::{BASE, DesiredState};
use p4runtime::p4::config::v1::match_field::{Match, MatchType};
use p4runtime::p4::config::v1::{Action as ActionInfo, MatchField, Table};
use p4runtime::p4::v1::action::Param;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::replica::PortKind;
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::p4::v1::{
    Action, CloneSessionEntry, Entity, FieldMatch, MeterConfig, MulticastGroupEntry,
    PacketReplicationEngineEntry, Replica, TableAction, TableEntry,
};
use p4runtime::p4info::{Index, Object};
use serde_json::Value;

impl RuntimeJson {
    /// Returns the desired state of a switch with this program: exactly the entries of the file.
    ///
    /// # Errors
    ///
    /// A table, field, action or parameter is not in the P4Info, an exact field or a parameter is missing, a value
    /// does not parse or fit, a priority is missing or superfluous, the id of a group or session is 0, or two entries
    /// have the same key. The error contains the key path, such as `table_entries[3].match`.
    pub fn desired_state(&self, p4info: &Index) -> Result<DesiredState, RuntimeJsonError> {
        let mut desired = DesiredState::default();
        for (index, group) in self.multicast_group_entries.iter().enumerate() {
            let location = || format!("multicast_group_entries[{index}]");
            check_id(group.multicast_group_id).map_err(|reason| RuntimeJsonError::at(location(), reason))?;
            desired.insert(
                BASE,
                replication(Pre::MulticastGroupEntry(MulticastGroupEntry {
                    multicast_group_id: group.multicast_group_id,
                    replicas: replicas(&group.replicas),
                    ..MulticastGroupEntry::default()
                })),
            );
        }
        for (index, session) in self.clone_session_entries.iter().enumerate() {
            let location = || format!("clone_session_entries[{index}]");
            check_id(session.clone_session_id).map_err(|reason| RuntimeJsonError::at(location(), reason))?;
            desired.insert(
                BASE,
                replication(Pre::CloneSessionEntry(CloneSessionEntry {
                    session_id: session.clone_session_id,
                    replicas: replicas(&session.replicas),
                    packet_length_bytes: session.packet_length_bytes.unwrap_or(0),
                    ..CloneSessionEntry::default()
                })),
            );
        }
        // The tables to which entries refer have lower ranks and are written first.
        let mut insertion_order = p4info.deletion_order();
        insertion_order.reverse();
        for (index, entry) in self.table_entries.iter().enumerate() {
            let error_at = |part: &str, reason: String| {
                RuntimeJsonError::at(format!("table_entries[{index}]{part}"), reason)
            };
            let table = p4info.tables.named(&entry.table).map_err(|error| {
                let known: Vec<&str> =
                    p4info.tables.iter().map(|table| table.preamble().name.as_str()).collect();
                error_at(".table", format!("{error}, it has {}", known.join(", ")))
            })?;
            let read = table_entry(entry, table, p4info).map_err(|(part, reason)| error_at(part, reason))?;
            let id = table.preamble().id;
            let rank = (BASE + 1..)
                .zip(&insertion_order)
                .find(|(_, table)| **table == id)
                .map_or(BASE, |(rank, _)| rank);
            let before = desired.len();
            desired.insert(rank, Entity { entity: Some(Kind::TableEntry(read)) });
            // `insert` replaces an entity with the same identity, and then the number does not grow.
            if desired.len() == before {
                return Err(error_at("", "an earlier entry has the same key".to_owned()));
            }
        }
        Ok(desired)
    }
}

/// Checks the id of a multicast group or clone session.
fn check_id(id: u32) -> Result<(), String> {
    if id == 0 { Err("the id is 0, which P4Runtime does not allow".to_owned()) } else { Ok(()) }
}

fn replication(kind: Pre) -> Entity {
    Entity {
        entity: Some(Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(kind) })),
    }
}

#[allow(deprecated)] // BMv2 supports no other form of a port
fn replicas(list: &[ReplicaJson]) -> Vec<Replica> {
    let replica = |json: &ReplicaJson| Replica {
        port_kind: Some(PortKind::EgressPort(json.egress_port)),
        instance: json.instance,
        ..Replica::default()
    };
    list.iter().map(replica).collect()
}

/// Key path in the entry, such as `.match`, and the problem.
type FieldError = (&'static str, String);

/// Converts an entry or a default action of `table`.
fn table_entry(entry: &TableEntryJson, table: &Table, p4info: &Index) -> Result<TableEntry, FieldError> {
    let name = &table.preamble().name;
    if entry.default_action && !entry.r#match.is_empty() {
        return Err((".match", "a default action has no match fields".to_owned()));
    }
    if !entry.default_action && table.match_fields.is_empty() {
        return Err(("", format!("table {name} has no key; only \"default_action\": true is allowed")));
    }
    for field in entry.r#match.keys() {
        if table.match_field(field).is_none() {
            let known: Vec<&str> = table.match_fields.iter().map(|field| field.name.as_str()).collect();
            return Err((
                ".match",
                format!("table {name} has no field \"{field}\", it has {}", known.join(", ")),
            ));
        }
    }
    let mut fields = Vec::new();
    for info in table.match_fields.iter().filter(|_| !entry.default_action) {
        let read = field(info, entry.r#match.get(&info.name))
            .map_err(|reason| (".match", format!("{}: {reason}", info.name)))?;
        fields.extend(read.map(|kind| FieldMatch { field_id: info.id, field_match_type: Some(kind) }));
    }
    let priority = entry.priority.unwrap_or(0);
    let needs_priority = !entry.default_action
        && table
            .match_fields
            .iter()
            .any(|field| !matches!(kind_of(field), MatchType::Exact | MatchType::Lpm));
    match (needs_priority, priority) {
        (true, ..=0) => {
            return Err((
                ".priority",
                format!("table {name} requires a priority of at least 1; the larger wins"),
            ));
        }
        (false, 1..) => return Err((".priority", format!("table {name} has no priorities"))),
        _ => {}
    }
    let has_meter = table.direct_resource_ids.iter().any(|&id| p4info.direct_meters.id(id).is_some());
    if entry.meter_config.is_some() && (!has_meter || entry.default_action) {
        return Err((".meter_config", format!("entries of table {name} have no meter")));
    }
    let meter_config = entry.meter_config.map(|json| MeterConfig {
        cir: json.cir,
        cburst: json.cburst,
        pir: json.pir,
        pburst: json.pburst,
        ..MeterConfig::default()
    });
    let action = action(&entry.action_name, &entry.action_params, table, p4info)?;
    Ok(TableEntry {
        table_id: table.preamble().id,
        r#match: fields,
        action: Some(TableAction { r#type: Some(ActionType::Action(action)) }),
        priority,
        is_default_action: entry.default_action,
        meter_config,
        ..TableEntry::default()
    })
}

/// Returns the match kind of a field.
fn kind_of(info: &MatchField) -> MatchType {
    match info.r#match {
        Some(Match::MatchType(kind)) => MatchType::try_from(kind).unwrap_or(MatchType::Unspecified),
        _ => MatchType::Unspecified,
    }
}

/// Converts a match field. Returns `None` if the field matches any value.
fn field(info: &MatchField, json: Option<&Value>) -> Result<Option<FieldMatchType>, String> {
    let kind = kind_of(info);
    let Some(json) = json else {
        return if kind == MatchType::Exact { Err("an exact field needs a value".into()) } else { Ok(None) };
    };
    let bits = info.bitwidth;
    let pair = |what: &str| match json.as_array().map(Vec::as_slice) {
        Some([first, second]) => Ok((first, second)),
        _ => Err(format!("{json} is not [{what}]")),
    };
    Ok(Some(match kind {
        MatchType::Exact => FieldMatchType::Exact(Exact { value: value::read(json, bits)? }),
        MatchType::Optional => FieldMatchType::Optional(Optional { value: value::read(json, bits)? }),
        MatchType::Lpm => {
            let (number, len) = pair("value, prefix length")?;
            let len = len.as_u64().and_then(|len| i32::try_from(len).ok()).filter(|len| *len <= bits);
            let prefix_len = len.ok_or_else(|| format!("the prefix length is not 0 to {bits}"))?;
            if prefix_len == 0 {
                return Ok(None);
            }
            let bytes = value::read(number, bits)?;
            let bits_set = bytes.iter().fold(0u128, |all, &byte| all << 8 | u128::from(byte));
            let suffix_len = (bits - prefix_len) as u32;
            if suffix_len > 0 && bits_set & ((1u128 << suffix_len) - 1) != 0 {
                return Err(format!("{number} has bits set beyond the first {prefix_len}"));
            }
            FieldMatchType::Lpm(Lpm { value: bytes, prefix_len })
        }
        MatchType::Ternary => {
            let (number, mask) = pair("value, mask")?;
            let (bytes, mask) = (value::read(number, bits)?, value::read(mask, bits)?);
            if mask == [0] {
                return Ok(None);
            }
            FieldMatchType::Ternary(Ternary { value: bytes, mask })
        }
        MatchType::Range => {
            let (low, high) = pair("low, high")?;
            FieldMatchType::Range(Range { low: value::read(low, bits)?, high: value::read(high, bits)? })
        }
        MatchType::Unspecified => {
            return Err("runtime.json does not support the match kind of this field".into());
        }
    }))
}

/// Converts an action of `table` with its parameters.
fn action(
    name: &str,
    params: &std::collections::BTreeMap<String, Value>,
    table: &Table,
    p4info: &Index,
) -> Result<Action, FieldError> {
    let table_actions = table.action_refs.iter().filter_map(|action| p4info.actions.id(action.id));
    let is_named = |info: &&ActionInfo| {
        let preamble = info.preamble();
        preamble.name == name || preamble.alias == name || preamble.name.ends_with(&format!(".{name}"))
    };
    let info = table_actions.clone().find(is_named).ok_or_else(|| {
        let known: Vec<&str> = table_actions.map(|info| info.preamble().name.as_str()).collect();
        (
            ".action_name",
            format!("table {} has no action \"{name}\", it has {}", table.preamble().name, known.join(", ")),
        )
    })?;
    if let Some(unknown) = params.keys().find(|name| info.param(name).is_none()) {
        let known: Vec<&str> = info.params.iter().map(|param| param.name.as_str()).collect();
        let reason = format!("action {name} has no parameter \"{unknown}\", it has [{}]", known.join(", "));
        return Err((".action_params", reason));
    }
    let mut read = Vec::with_capacity(info.params.len());
    for param in &info.params {
        let json = params.get(&param.name);
        let json = json
            .ok_or_else(|| (".action_params", format!("\"{}\" of action {name} is missing", param.name)))?;
        let value = value::read(json, param.bitwidth)
            .map_err(|reason| (".action_params", format!("{}: {reason}", param.name)))?;
        read.push(Param { param_id: param.id, value });
    }
    Ok(Action { action_id: info.preamble().id, params: read })
}
