//! Converts P4Runtime updates to updates of BF Runtime tables.

use super::driver_fields::{CBS, CIR, MAX_PRIORITY, METER_UNIT_BYTES, PBS, PIR, TABLES};
use super::message::{number, updated};
use super::translator::{TranslateError, Translator, invalid_value, no_field};
use crate::bfrt_proto::key_field::{Exact, Lpm, MatchType as KeyMatch, Optional, Range, Ternary};
use crate::bfrt_proto::{
    Entity, KeyField, TableData, TableEntry, TableFlags, TableKey, Update, entity, table_entry,
};
use crate::info::{self, MATCH_PRIORITY, MatchType, Table, TableType};
use crate::value::{max_value, resize};
use p4runtime::p4::v1 as p4;
use p4runtime::p4::v1::entity::Entity as P4Kind;
use p4runtime::p4::v1::field_match::FieldMatchType;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::p4::v1::update::Type as P4Type;

impl Translator<'_> {
    /// Returns the BF Runtime updates for one P4Runtime update, in order.
    ///
    /// # Errors
    ///
    /// The entity does not match the switch's tables, or has a kind that is not supported.
    pub fn update(&self, update: &p4::Update) -> Result<Vec<Update>, TranslateError> {
        let kind = update.r#type();
        match update.entity.as_ref().and_then(|it| it.entity.as_ref()) {
            Some(P4Kind::TableEntry(entry)) => {
                let mut entry = self.entry(entry)?;
                if kind == P4Type::Delete {
                    entry.data = None;
                }
                Ok(vec![updated(kind, entry)])
            }
            Some(P4Kind::PacketReplicationEngineEntry(it)) => match &it.r#type {
                Some(Pre::MulticastGroupEntry(group)) => self.multicast(kind, group),
                Some(Pre::CloneSessionEntry(session)) => Ok(vec![self.mirror(kind, session)?]),
                None => Err(TranslateError::Unsupported("a replication entry without a type")),
            },
            Some(_) => Err(TranslateError::Unsupported("this kind of entity")),
            None => Err(TranslateError::Unsupported("an update without an entity")),
        }
    }

    /// Returns the read requests for everything that [`entities`](Self::entities) converts.
    pub fn read_all_entities(&self) -> Vec<Entity> {
        let mut all = Vec::new();
        for table in self.info.tables() {
            let is_keyed = !table.key.is_empty();
            match &table.table_type {
                TableType::MatchAction => {
                    if is_keyed && !table.is_const {
                        all.push(read(table.id, false));
                    }
                    if !table.has_const_default && !table.is_const {
                        all.push(read(table.id, true));
                    }
                }
                TableType::RegisterParam => all.push(read(table.id, true)),
                TableType::Other(_) => {}
            }
        }
        let fixed = TABLES.into_iter().filter_map(|name| self.info.named(name));
        all.extend(fixed.map(|table| read(table.id, false)));
        all
    }

    fn entry(&self, entry: &p4::TableEntry) -> Result<TableEntry, TranslateError> {
        let table = self.info.id(entry.table_id).ok_or(TranslateError::Table(entry.table_id))?;
        let key = (!entry.is_default_action).then(|| key(table, entry)).transpose()?;
        Ok(TableEntry {
            table_id: table.id,
            value: key.map(table_entry::Value::Key),
            data: Some(data(table, entry)?),
            is_default_entry: entry.is_default_action,
            ..TableEntry::default()
        })
    }
}

/// Returns a read request. Default flags read from the driver's memory instead of the chip.
fn read(table_id: u32, is_default_entry: bool) -> Entity {
    let table_flags = Some(TableFlags::default());
    let entry = TableEntry { table_id, is_default_entry, table_flags, ..TableEntry::default() };
    Entity { entity: Some(entity::Entity::TableEntry(entry)) }
}

fn key(table: &Table, entry: &p4::TableEntry) -> Result<TableKey, TranslateError> {
    if let Some(unknown) =
        entry.r#match.iter().find(|given| table.key.iter().all(|field| field.id != given.field_id))
    {
        return Err(no_field(table, unknown.field_id.to_string()));
    }
    let fields = table.key.iter().map(|field| {
        let given = entry.r#match.iter().find(|given| given.field_id == field.id);
        let given = given.and_then(|given| given.field_match_type.as_ref());
        let match_type = Some(match field.name.as_str() {
            MATCH_PRIORITY => {
                let rank = u32::try_from(entry.priority).ok().and_then(|it| MAX_PRIORITY.checked_sub(it));
                let rank = rank.ok_or_else(|| {
                    invalid_value(table, MATCH_PRIORITY, "the priority does not fit 24 bits")
                })?;
                KeyMatch::Exact(Exact { value: rank.to_be_bytes().to_vec() })
            }
            _ => key_match(table, field, given)?,
        });
        Ok(KeyField { field_id: field.id, match_type })
    });
    Ok(TableKey { fields: fields.collect::<Result<_, _>>()? })
}

fn key_match(
    table: &Table,
    field: &info::KeyField,
    given: Option<&FieldMatchType>,
) -> Result<KeyMatch, TranslateError> {
    let bits = field.kind.bits().unwrap_or_default();
    let resized =
        |bytes: &[u8]| resize(bytes, bits).ok_or_else(|| invalid_value(table, &field.name, "too wide"));
    Ok(match (field.match_type, given) {
        (MatchType::Exact, Some(FieldMatchType::Exact(it))) => {
            KeyMatch::Exact(Exact { value: resized(&it.value)? })
        }
        (MatchType::Exact, None) => {
            return Err(TranslateError::Missing { table: table.name.clone(), field: field.name.clone() });
        }
        (MatchType::Lpm, Some(FieldMatchType::Lpm(it))) => {
            KeyMatch::Lpm(Lpm { value: resized(&it.value)?, prefix_len: it.prefix_len })
        }
        (MatchType::Lpm, None) => KeyMatch::Lpm(Lpm { value: resized(&[])?, prefix_len: 0 }),
        (MatchType::Ternary, Some(FieldMatchType::Ternary(it))) => {
            KeyMatch::Ternary(Ternary { value: resized(&it.value)?, mask: resized(&it.mask)? })
        }
        (MatchType::Ternary, None) => {
            KeyMatch::Ternary(Ternary { value: resized(&[])?, mask: resized(&[])? })
        }
        (MatchType::Range, Some(FieldMatchType::Range(it))) => {
            KeyMatch::Range(Range { low: resized(&it.low)?, high: resized(&it.high)? })
        }
        (MatchType::Range, None) => KeyMatch::Range(Range { low: resized(&[])?, high: max_value(bits) }),
        (MatchType::Optional, Some(FieldMatchType::Optional(it))) => {
            KeyMatch::Optional(Optional { value: resized(&it.value)?, is_valid: true })
        }
        (MatchType::Optional, None) => KeyMatch::Optional(Optional { value: resized(&[])?, is_valid: false }),
        _ => return Err(invalid_value(table, &field.name, "another match kind")),
    })
}

fn data(table: &Table, entry: &p4::TableEntry) -> Result<TableData, TranslateError> {
    let action = match entry.action.as_ref().and_then(|it| it.r#type.as_ref()) {
        Some(ActionType::Action(action)) => Some(action),
        Some(_) => return Err(TranslateError::Unsupported("an entry with an action profile")),
        None => None,
    };
    let is_param = table.table_type == TableType::RegisterParam;
    let action_id = action.map(|it| it.action_id).filter(|_| !is_param).unwrap_or_default();
    let mut fields = Vec::new();
    for param in action.map(|it| it.params.as_slice()).unwrap_or_default() {
        let field = table.fields_with(action_id).find(|field| field.id == param.param_id);
        let field = field.ok_or_else(|| no_field(table, param.param_id.to_string()))?;
        fields.push(number(table, field, &param.value)?);
    }
    if let Some(meter) = &entry.meter_config {
        for (name, bytes) in [(CIR, meter.cir), (PIR, meter.pir), (CBS, meter.cburst), (PBS, meter.pburst)] {
            let field = table.field(name).ok_or_else(|| no_field(table, name.to_owned()))?;
            let units = u64::try_from(bytes).ok().filter(|bytes| bytes % METER_UNIT_BYTES == 0);
            let units = units.ok_or_else(|| invalid_value(table, name, "not a multiple of 1 kbit"))?
                / METER_UNIT_BYTES;
            fields.push(number(table, field, &units.to_be_bytes())?);
        }
    }
    Ok(TableData { action_id, fields })
}
