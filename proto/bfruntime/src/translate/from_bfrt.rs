//! Converts entries read from a switch to P4Runtime entities.

use super::driver_fields::{
    CBS, CIR, DEV_PORT, EGRESS_PORT, ENABLE, LENGTH, MAX_PRIORITY, METER_UNIT_BYTES, MGID, MIRROR,
    NO_TRUNCATION, NODE, NODE_ID, PBS, PIR, RID, SESSION,
};
use super::translator::Translator;
use crate::bfrt_proto::data_field::Value;
use crate::bfrt_proto::key_field::MatchType as KeyMatch;
use crate::bfrt_proto::{DataField, KeyField, TableData, TableEntry, table_entry};
use crate::info::{MATCH_PRIORITY, Table, TableType};
use crate::value::max_value;
use p4runtime::p4::v1 as p4;
use p4runtime::p4::v1::action::Param;
use p4runtime::p4::v1::entity::Entity as P4Kind;
use p4runtime::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::replica::PortKind;
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::value::{canonical, to_u64};
use std::collections::BTreeMap;

impl Translator<'_> {
    /// Converts the entries of a switch. Omits entries that P4Runtime cannot express: those of other fixed tables, and
    /// multicast groups whose nodes were not read.
    pub fn entities(&self, entries: &[TableEntry]) -> Vec<p4::Entity> {
        let mut all = Vec::new();
        let (mut nodes, mut groups) = (BTreeMap::new(), Vec::new());
        for entry in entries {
            let Some(table) = self.info.id(entry.table_id) else { continue };
            match table.name.as_str() {
                NODE => nodes.extend(node(table, entry)),
                MGID => groups.extend(group(table, entry)),
                MIRROR => all.extend(mirror(table, entry).map(|it| replication(Pre::CloneSessionEntry(it)))),
                _ => all.extend(table_entry(table, entry)),
            }
        }
        for (id, members) in groups {
            let members = members.into_iter().filter_map(|member| nodes.get(&member));
            let replicas = members.flat_map(|(rid, ports)| ports.iter().map(|&port| replica(port, *rid)));
            let replicas = replicas.collect();
            let entry = p4::MulticastGroupEntry { multicast_group_id: id, replicas, ..Default::default() };
            all.push(replication(Pre::MulticastGroupEntry(entry)));
        }
        all
    }
}

fn table_entry(table: &Table, bfrt_entry: &TableEntry) -> Option<p4::Entity> {
    let fields = key(bfrt_entry);
    // A read of all entries may also return the default entry, without marking it.
    if matches!(table.table_type, TableType::Other(_)) || fields.is_empty() && !bfrt_entry.is_default_entry {
        return None;
    }
    let data = bfrt_entry.data.as_ref()?;
    let priority = table.key.iter().find(|field| field.name == MATCH_PRIORITY);
    let priority = priority.and_then(|it| fields.iter().find(|field| field.field_id == it.id));
    let rank = priority.and_then(|field| match field.match_type.as_ref()? {
        KeyMatch::Exact(it) => to_u64(&it.value),
        _ => None,
    });
    let rank = rank.map_or(0, |rank| u64::from(MAX_PRIORITY).saturating_sub(rank));
    let is_param = table.table_type == TableType::RegisterParam;
    let action_id = if is_param { table.id } else { data.action_id };
    let params = match is_param {
        true => table.fields.as_slice(),
        false => table.action(action_id).map(|it| it.fields.as_slice()).unwrap_or_default(),
    };
    let params = params.iter().filter_map(|field| {
        let value = canonical(stream(data, field.id)?);
        Some(Param { param_id: field.id, value })
    });
    let action = p4::Action { action_id, params: params.collect() };
    let entry = p4::TableEntry {
        table_id: table.id,
        r#match: fields.iter().filter_map(|field| field_match(table, field)).collect(),
        action: (action_id != 0).then_some(p4::TableAction { r#type: Some(ActionType::Action(action)) }),
        priority: i32::try_from(rank).unwrap_or(i32::MAX),
        is_default_action: bfrt_entry.is_default_entry,
        meter_config: meter(table, data),
        ..p4::TableEntry::default()
    };
    Some(p4::Entity { entity: Some(P4Kind::TableEntry(entry)) })
}

/// Returns `None` if the field matches any value.
fn field_match(table: &Table, given: &KeyField) -> Option<p4::FieldMatch> {
    let field = table.key.iter().find(|field| field.id == given.field_id && field.name != MATCH_PRIORITY)?;
    let kind = match given.match_type.as_ref()? {
        KeyMatch::Exact(it) => FieldMatchType::Exact(Exact { value: canonical(&it.value) }),
        KeyMatch::Lpm(it) if it.prefix_len == 0 => return None,
        KeyMatch::Lpm(it) => {
            FieldMatchType::Lpm(Lpm { value: canonical(&it.value), prefix_len: it.prefix_len })
        }
        KeyMatch::Ternary(it) if it.mask.iter().all(|&byte| byte == 0) => return None,
        KeyMatch::Ternary(it) => {
            FieldMatchType::Ternary(Ternary { value: canonical(&it.value), mask: canonical(&it.mask) })
        }
        KeyMatch::Range(it)
            if it.low.iter().all(|&byte| byte == 0)
                && it.high == max_value(field.kind.bits().unwrap_or_default()) =>
        {
            return None;
        }
        KeyMatch::Range(it) => {
            FieldMatchType::Range(Range { low: canonical(&it.low), high: canonical(&it.high) })
        }
        KeyMatch::Optional(it) if !it.is_valid => return None,
        KeyMatch::Optional(it) => FieldMatchType::Optional(Optional { value: canonical(&it.value) }),
    };
    Some(p4::FieldMatch { field_id: field.id, field_match_type: Some(kind) })
}

/// Returns `None` if the entry is unlimited: every meter field has its default.
fn meter(table: &Table, data: &TableData) -> Option<p4::MeterConfig> {
    let mut is_unlimited = true;
    let mut bytes = |name: &str| {
        let field = table.field(name)?;
        let units = to_u64(stream(data, field.id)?)?;
        is_unlimited &= Some(units) == field.default;
        Some(i64::try_from(units.saturating_mul(METER_UNIT_BYTES)).unwrap_or(i64::MAX))
    };
    let (cir, pir, cburst, pburst) = (bytes(CIR)?, bytes(PIR)?, bytes(CBS)?, bytes(PBS)?);
    (!is_unlimited).then(|| p4::MeterConfig { cir, cburst, pir, pburst, ..p4::MeterConfig::default() })
}

/// Returns the id of a multicast node, with its replication id and ports.
fn node(table: &Table, bfrt_entry: &TableEntry) -> Option<(u32, (u32, Vec<u32>))> {
    let data = bfrt_entry.data.as_ref()?;
    let rid = table.field(RID).and_then(|field| to_u64(stream(data, field.id)?));
    let rid = rid.and_then(|rid| u32::try_from(rid).ok()).unwrap_or_default();
    Some((number(table, bfrt_entry, NODE_ID)?, (rid, integers(table, data, DEV_PORT))))
}

fn group(table: &Table, bfrt_entry: &TableEntry) -> Option<(u32, Vec<u32>)> {
    Some((number(table, bfrt_entry, "$MGID")?, integers(table, bfrt_entry.data.as_ref()?, NODE_ID)))
}

fn mirror(table: &Table, bfrt_entry: &TableEntry) -> Option<p4::CloneSessionEntry> {
    let data = bfrt_entry.data.as_ref()?;
    let value = |name: &str| field(data, table.field(name)?.id);
    // A disabled session copies nothing, so it counts as absent.
    if !matches!(value(ENABLE), Some(Value::BoolVal(true))) {
        return None;
    }
    let integer = |name: &str| match value(name)? {
        Value::Stream(bytes) => to_u64(bytes),
        _ => None,
    };
    let port = integer(EGRESS_PORT).and_then(|port| u32::try_from(port).ok())?;
    let length = integer(LENGTH).filter(|&length| length != NO_TRUNCATION).unwrap_or_default();
    Some(p4::CloneSessionEntry {
        session_id: number(table, bfrt_entry, SESSION)?,
        replicas: vec![replica(port, 0)],
        packet_length_bytes: i32::try_from(length).unwrap_or(i32::MAX),
        ..p4::CloneSessionEntry::default()
    })
}

fn key(bfrt_entry: &TableEntry) -> &[KeyField] {
    match &bfrt_entry.value {
        Some(table_entry::Value::Key(key)) => &key.fields,
        _ => &[],
    }
}

/// Returns the value of the numeric key field with this name.
fn number(table: &Table, bfrt_entry: &TableEntry, name: &str) -> Option<u32> {
    let id = table.key.iter().find(|field| field.name == name)?.id;
    match key(bfrt_entry).iter().find(|field| field.field_id == id)?.match_type.as_ref()? {
        KeyMatch::Exact(it) => u32::try_from(to_u64(&it.value)?).ok(),
        _ => None,
    }
}

fn field(data: &TableData, id: u32) -> Option<&Value> {
    let found: Option<&DataField> = data.fields.iter().find(|field| field.field_id == id);
    found?.value.as_ref()
}

fn stream(data: &TableData, id: u32) -> Option<&[u8]> {
    match field(data, id)? {
        Value::Stream(bytes) => Some(bytes),
        _ => None,
    }
}

fn integers(table: &Table, data: &TableData, name: &str) -> Vec<u32> {
    match table.field(name).and_then(|it| field(data, it.id)) {
        Some(Value::IntArrVal(it)) => it.val.clone(),
        _ => Vec::new(),
    }
}

/// Uses BMv2's deprecated form of a port, which is the canonical one of the controller.
#[expect(deprecated)]
fn replica(port: u32, instance: u32) -> p4::Replica {
    p4::Replica { port_kind: Some(PortKind::EgressPort(port)), instance, ..p4::Replica::default() }
}

fn replication(kind: Pre) -> p4::Entity {
    let entry = p4::PacketReplicationEngineEntry { r#type: Some(kind) };
    p4::Entity { entity: Some(P4Kind::PacketReplicationEngineEntry(entry)) }
}
