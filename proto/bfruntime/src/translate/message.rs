//! Parts of BF Runtime messages.

use super::translator::{TranslateError, invalid_value};
use crate::bfrt_proto::{DataField, Entity, TableEntry, Update, data_field, entity, update};
use crate::info::{self, Kind, Table};
use crate::value::resize;
use p4runtime::p4::v1::update::Type as P4Type;

pub(super) fn updated(kind: P4Type, entry: TableEntry) -> Update {
    let kind = match kind {
        P4Type::Insert => update::Type::Insert,
        P4Type::Modify => update::Type::Modify,
        P4Type::Delete => update::Type::Delete,
        P4Type::Unspecified => update::Type::Unspecified,
    };
    let entity = Some(Entity { entity: Some(entity::Entity::TableEntry(entry)) });
    Update { r#type: kind.into(), entity }
}

/// Converts a number to the width of its field.
pub(super) fn number(
    table: &Table,
    field: &info::DataField,
    value: &[u8],
) -> Result<DataField, TranslateError> {
    let Kind::Bits(bits) = field.kind else { return Err(invalid_value(table, &field.name, "not a number")) };
    let value = resize(value, bits).ok_or_else(|| invalid_value(table, &field.name, "too wide"))?;
    Ok(DataField { field_id: field.id, value: Some(data_field::Value::Stream(value)) })
}
