//! Encodes the entries of a plan as P4Runtime entities and updates.

use super::entry::{Entry, Field};
use super::error::PlanError;
use super::target::CloneSession;
use crate::call::Call;
use crate::flood::Meter;
use p4runtime::p4::config::v1::match_field::{Match, MatchType};
use p4runtime::p4::config::v1::{Action as ActionInfo, MatchField, Table};
use p4runtime::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Range};
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::replica::PortKind;
use p4runtime::p4::v1::{
    Action, CloneSessionEntry, Entity, FieldMatch, MeterConfig, MulticastGroupEntry,
    PacketReplicationEngineEntry, Replica, TableAction, TableEntry, Update, action, entity, table_action,
    update,
};
use p4runtime::p4info::{Index, Object};
use p4runtime::value;

/// Converts typed entries into P4Runtime updates: names to ids and values to canonical byte strings. Names, match kinds
/// and widths are checked against the program's P4Info.
#[derive(Clone, Copy)]
pub struct Encoder<'a> {
    p4info: &'a Index,
}

impl<'a> Encoder<'a> {
    pub fn new(p4info: &'a Index) -> Encoder<'a> {
        Encoder { p4info }
    }

    /// Returns the update that writes the entry to an empty table: INSERT, or MODIFY for a default action.
    ///
    /// # Errors
    ///
    /// See [`entity`](Self::entity).
    pub fn update(&self, entry: &Entry) -> Result<Update, PlanError> {
        let kind = if entry.is_default() { update::Type::Modify } else { update::Type::Insert };
        Ok(Update { r#type: kind.into(), entity: Some(self.entity(entry)?) })
    }

    /// Returns the entry as a P4Runtime entity.
    ///
    /// # Errors
    ///
    /// The program lacks the table or the action, a key or parameter has another name or match kind, or a
    /// value does not fit its width.
    pub fn entity(&self, entry: &Entry) -> Result<Entity, PlanError> {
        let table = self.p4info.tables.named(entry.table())?;
        let table_entry = TableEntry {
            table_id: table.preamble().id,
            r#match: key(table, &entry.key())?,
            action: Some(self.action(table, entry.call())?),
            priority: entry.priority(),
            is_default_action: entry.is_default(),
            meter_config: entry.meter().map(meter),
            ..TableEntry::default()
        };
        Ok(Entity { entity: Some(entity::Entity::TableEntry(table_entry)) })
    }

    /// Encodes the action of an entry, whose parameters must be those of the program.
    fn action(&self, table: &Table, call: Call) -> Result<TableAction, PlanError> {
        let info = self.action_of(table, call.action)?;
        if info.params.len() != call.params.len()
            || call.params.iter().any(|(name, _)| info.param(name).is_none())
        {
            return Err(PlanError::Params {
                action: info.preamble().name.clone(),
                expected: list(call.params.iter().map(|(name, _)| *name)),
                found: list(info.params.iter().map(|param| param.name.as_str())),
            });
        }
        let mut params = Vec::with_capacity(info.params.len());
        for (name, number) in call.params {
            let Some(param) = info.param(name) else { continue };
            let value =
                encode_number(number, param.bitwidth, || format!("action \"{}\", {name}", call.action))?;
            params.push(action::Param { param_id: param.id, value });
        }
        let action = Action { action_id: info.preamble().id, params };
        Ok(TableAction { r#type: Some(table_action::Type::Action(action)) })
    }

    /// Finds an action of a table by name. Searches only this table's actions, since two controls may each have an
    /// action of this name.
    fn action_of(&self, table: &Table, name: &str) -> Result<&'a ActionInfo, PlanError> {
        let table_actions = table.action_refs.iter().filter_map(|action| self.p4info.actions.id(action.id));
        let has_name = |info: &&ActionInfo| info.preamble().name.rsplit('.').next() == Some(name);
        table_actions.into_iter().find(has_name).ok_or_else(|| PlanError::NotAnAction {
            table: table.preamble().name.clone(),
            action: name.to_owned(),
        })
    }
}

/// Returns the configuration of a meter. Committed and peak rate are equal: a packet is green or red.
fn meter(Meter { rate, burst }: Meter) -> MeterConfig {
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
fn key(table: &Table, key: &[(&'static str, Field)]) -> Result<Vec<FieldMatch>, PlanError> {
    let wrong_key = || PlanError::Key {
        table: table.preamble().name.clone(),
        expected: list(key.iter().map(|(name, _)| *name)),
        found: list(table.match_fields.iter().map(|field| field.name.as_str())),
    };
    if table.match_fields.len() != key.len() {
        return Err(wrong_key());
    }
    let mut fields = Vec::with_capacity(key.len());
    for (name, field) in key {
        let info = table.match_field(name).ok_or_else(wrong_key)?;
        let location = || format!("table \"{}\", {name}", table.preamble().name);
        let kind = match *field {
            Field::Exact(number) => {
                check_match_kind(info, MatchType::Exact, "exact", location)?;
                FieldMatchType::Exact(Exact { value: encode_number(number, info.bitwidth, location)? })
            }
            // P4Runtime requires that a prefix of length 0 be omitted.
            Field::Lpm { prefix_len: 0, .. } => {
                check_match_kind(info, MatchType::Lpm, "lpm", location)?;
                continue;
            }
            Field::Lpm { value, prefix_len } => {
                check_match_kind(info, MatchType::Lpm, "lpm", location)?;
                FieldMatchType::Lpm(Lpm {
                    value: encode_number(value, info.bitwidth, location)?,
                    prefix_len: prefix_len.into(),
                })
            }
            Field::Range { low, high } => {
                check_match_kind(info, MatchType::Range, "range", location)?;
                let (low, high) = (
                    encode_number(low, info.bitwidth, location)?,
                    encode_number(high, info.bitwidth, location)?,
                );
                FieldMatchType::Range(Range { low, high })
            }
        };
        fields.push(FieldMatch { field_id: info.id, field_match_type: Some(kind) });
    }
    Ok(fields)
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
