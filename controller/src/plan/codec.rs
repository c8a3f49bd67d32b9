//! Encodes the entries of a plan as P4Runtime entities, and decodes table entries.

use super::entry::{Entry, Field, Phase, Value};
use super::error::PlanError;
use super::target::CloneSession;
use crate::flood::Meter;
use p4runtime::p4::config::v1::match_field::{Match, MatchType};
use p4runtime::p4::config::v1::{Action as ActionInfo, MatchField, Table};
use p4runtime::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Range};
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::replica::PortKind;
use p4runtime::p4::v1::{
    Action, CloneSessionEntry, Entity, FieldMatch, MeterConfig, MulticastGroupEntry,
    PacketReplicationEngineEntry, Replica, TableAction, TableEntry, action, entity, table_action,
};
use p4runtime::p4info::{Index, Object};
use p4runtime::value;

/// Converts entries between names and P4Runtime, as the program's P4Info describes its tables.
#[derive(Clone, Copy)]
pub struct EntryCodec<'a> {
    p4info: &'a Index,
}

impl<'a> EntryCodec<'a> {
    pub fn new(p4info: &'a Index) -> EntryCodec<'a> {
        EntryCodec { p4info }
    }

    /// Returns the entry as a P4Runtime entity.
    ///
    /// # Errors
    ///
    /// The program lacks the table or the action, a key or parameter has another name or match kind, or a
    /// value does not fit its width.
    pub fn encode(&self, entry: &Entry) -> Result<Entity, PlanError> {
        let table = self.p4info.tables.named(entry.table)?;
        let table_entry = TableEntry {
            table_id: table.preamble().id,
            r#match: encode_key(table, &entry.key)?,
            action: Some(self.encode_action(table, entry)?),
            priority: entry.priority,
            is_default_action: entry.is_default(),
            meter_config: entry.meter.map(meter_config),
            ..TableEntry::default()
        };
        Ok(Entity { entity: Some(entity::Entity::TableEntry(table_entry)) })
    }

    /// Returns the names and numbers of an entry, the inverse of [`encode`](Self::encode); which numbers are ports is
    /// lost, and so are phase and meter. Returns `None` if the entry is not of this program, or has no form by names:
    /// its action is a member of a profile, or a value exceeds 128 bits.
    pub fn decode(&self, entry: &TableEntry) -> Option<Entry<'a>> {
        let table = self.p4info.tables.id(entry.table_id)?;
        let fields = table.match_fields.iter().filter(|_| !entry.is_default_action);
        let key = fields.map(|info| Some((info.name.as_str(), decode_field(info, entry)?)));
        let table_action::Type::Action(action) = entry.action.as_ref()?.r#type.as_ref()? else { return None };
        let info = self.p4info.actions.id(action.action_id)?;
        let params = action.params.iter().map(|param| {
            Some((info.param_by_id(param.param_id)?.name.as_str(), number(&param.value)?.into()))
        });
        Some(Entry {
            table: last_component(&table.preamble().name),
            key: key.collect::<Option<_>>()?,
            action: last_component(&info.preamble().name),
            params: params.collect::<Option<_>>()?,
            priority: entry.priority,
            meter: None,
            phase: Phase::Base,
        })
    }

    /// Encodes the action of an entry, whose parameters must be those of the program.
    fn encode_action(&self, table: &Table, entry: &Entry) -> Result<TableAction, PlanError> {
        let info = self.action_of(table, entry.action)?;
        if info.params.len() != entry.params.len()
            || entry.params.iter().any(|(name, _)| info.param(name).is_none())
        {
            return Err(PlanError::Params {
                action: info.preamble().name.clone(),
                expected: list(entry.params.iter().map(|(name, _)| *name)),
                found: list(info.params.iter().map(|param| param.name.as_str())),
            });
        }
        let mut params = Vec::with_capacity(info.params.len());
        for &(name, Value { number, .. }) in &entry.params {
            let Some(param) = info.param(name) else { continue };
            let value =
                encode_number(number, param.bitwidth, || format!("action \"{}\", {name}", entry.action))?;
            params.push(action::Param { param_id: param.id, value });
        }
        let action = Action { action_id: info.preamble().id, params };
        Ok(TableAction { r#type: Some(table_action::Type::Action(action)) })
    }

    /// Finds an action of a table by name. Searches only this table's actions, since two controls may each have an
    /// action of this name.
    fn action_of(&self, table: &Table, name: &str) -> Result<&'a ActionInfo, PlanError> {
        let table_actions = table.action_refs.iter().filter_map(|action| self.p4info.actions.id(action.id));
        let has_name = |info: &&ActionInfo| last_component(&info.preamble().name) == name;
        table_actions.into_iter().find(has_name).ok_or_else(|| PlanError::NotAnAction {
            table: table.preamble().name.clone(),
            action: name.to_owned(),
        })
    }
}

/// Returns the last component of a dotted name.
pub(super) fn last_component(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Returns the configuration of a meter. Committed and peak rate are equal: a packet is green or red.
fn meter_config(Meter { rate, burst }: Meter) -> MeterConfig {
    let saturated = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let (rate, burst) = (saturated(rate), saturated(burst));
    MeterConfig { cir: rate, cburst: burst, pir: rate, pburst: burst, ..MeterConfig::default() }
}

/// Returns a clone session with one copy of each packet.
pub(super) fn clone_session(session: CloneSession) -> Entity {
    let session = CloneSessionEntry {
        session_id: session.id.into(),
        replicas: vec![replica(session.port)],
        packet_length_bytes: session.bytes.into(),
        ..CloneSessionEntry::default()
    };
    replication(Pre::CloneSessionEntry(session))
}

/// Returns the multicast group to which POLICY packets from one port are flooded.
pub(super) fn flood_group(group: u16, ports: &[u16]) -> Entity {
    let group = MulticastGroupEntry {
        multicast_group_id: group.into(),
        replicas: ports.iter().copied().map(replica).collect(),
        ..MulticastGroupEntry::default()
    };
    replication(Pre::MulticastGroupEntry(group))
}

fn replication(kind: Pre) -> Entity {
    let entry = PacketReplicationEngineEntry { r#type: Some(kind) };
    Entity { entity: Some(entity::Entity::PacketReplicationEngineEntry(entry)) }
}

// BMv2 supports only this deprecated form of a port, as in runtime_json.
#[expect(deprecated)]
fn replica(port: u16) -> Replica {
    Replica { port_kind: Some(PortKind::EgressPort(port.into())), ..Replica::default() }
}

/// Encodes the key of an entry, whose fields must be those of the table.
fn encode_key(table: &Table, key: &[(&str, Field)]) -> Result<Vec<FieldMatch>, PlanError> {
    let wrong_key = || PlanError::Key {
        table: table.preamble().name.clone(),
        expected: list(key.iter().map(|(name, _)| *name)),
        found: list(table.match_fields.iter().map(|field| field.name.as_str())),
    };
    if table.match_fields.len() != key.len() {
        return Err(wrong_key());
    }
    let mut fields = Vec::with_capacity(key.len());
    for &(name, field) in key {
        let info = table.match_field(name).ok_or_else(wrong_key)?;
        let location = || format!("table \"{}\", {name}", table.preamble().name);
        let number = |number| encode_number(number, info.bitwidth, location);
        let kind = match field {
            Field::Exact(value) => {
                check_match_kind(info, MatchType::Exact, "exact", location)?;
                FieldMatchType::Exact(Exact { value: number(value.number)? })
            }
            Field::Lpm { value, prefix_len } => {
                check_match_kind(info, MatchType::Lpm, "lpm", location)?;
                // P4Runtime requires that a prefix of length 0 be omitted.
                if prefix_len == 0 {
                    continue;
                }
                FieldMatchType::Lpm(Lpm { value: number(value)?, prefix_len: prefix_len.into() })
            }
            Field::Range { low, high } => {
                check_match_kind(info, MatchType::Range, "range", location)?;
                FieldMatchType::Range(Range { low: number(low)?, high: number(high)? })
            }
        };
        fields.push(FieldMatch { field_id: info.id, field_match_type: Some(kind) });
    }
    Ok(fields)
}

/// Decodes one key field of an entry. P4Runtime omits a field that matches any value.
fn decode_field(info: &MatchField, entry: &TableEntry) -> Option<Field> {
    let field = entry.r#match.iter().find(|field| field.field_id == info.id);
    Some(match field.map(|field| field.field_match_type.as_ref()) {
        Some(kind) => match kind? {
            FieldMatchType::Exact(exact) => Field::Exact(number(&exact.value)?.into()),
            FieldMatchType::Lpm(lpm) => {
                Field::Lpm { value: number(&lpm.value)?, prefix_len: u8::try_from(lpm.prefix_len).ok()? }
            }
            FieldMatchType::Range(range) => {
                Field::Range { low: number(&range.low)?, high: number(&range.high)? }
            }
            _ => return None,
        },
        None if info.r#match == Some(Match::MatchType(MatchType::Lpm.into())) => {
            Field::Lpm { value: 0, prefix_len: 0 }
        }
        None => return None,
    })
}

/// Decodes a byte string of at most 128 bits.
fn number(bytes: &[u8]) -> Option<u128> {
    let bytes = value::canonical(bytes);
    (bytes.len() <= 16).then(|| bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte)))
}

/// Checks the match kind of a field. `expected` and `field` are names for the error.
fn check_match_kind(
    info: &MatchField,
    kind: MatchType,
    expected: &'static str,
    field: impl Fn() -> String,
) -> Result<(), PlanError> {
    if info.r#match == Some(Match::MatchType(kind.into())) {
        return Ok(());
    }
    Err(PlanError::MatchKind { field: field(), expected })
}

/// Returns the canonical byte string of a number, which must fit in `bits` bits.
fn encode_number(number: u128, bits: i32, field: impl Fn() -> String) -> Result<Vec<u8>, PlanError> {
    let needed = (u128::BITS - number.leading_zeros()) as i32;
    if needed > bits {
        return Err(PlanError::TooWide { field: field(), value: number, bits });
    }
    Ok(value::from_uint(number))
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    format!("({})", names.collect::<Vec<_>>().join(", "))
}
