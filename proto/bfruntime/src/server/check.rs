//! Validates entries against the description of their table: fields, widths, match kinds, completeness.

use crate::bfrt_proto::data_field::Value;
use crate::bfrt_proto::key_field::MatchType as KeyMatch;
use crate::bfrt_proto::{DataField, TableData, TableEntry, TableKey, table_entry};
use crate::info::{DataField as Field, KeyField, Kind, MatchType, Scope, Table, TableType};
use crate::value::{max_value, width};
use p4runtime::value::bit_length;
use std::collections::BTreeSet;

/// Checks the key of an entry: every field of the table occurs once, with the width of the field.
pub(super) fn key<'a>(table: &Table, entry: &'a TableEntry) -> Result<&'a TableKey, String> {
    let Some(table_entry::Value::Key(key)) = &entry.value else {
        return Err(format!("{}: the entry has no key", table.name));
    };
    let ids = key.fields.iter().map(|field| field.field_id);
    check_fields(ids, table.key.iter().map(|field| (field.id, field.name.as_str(), true)))
        .map_err(|reason| format!("{}: key: {reason}", table.name))?;
    for given in &key.fields {
        let Some(field) = table.key.iter().find(|field| field.id == given.field_id) else { continue };
        let kind =
            given.match_type.as_ref().ok_or_else(|| format!("{}: {}: no value", table.name, field.name))?;
        key_field(field, kind).map_err(|reason| format!("{}: {}: {reason}", table.name, field.name))?;
    }
    Ok(key)
}

fn key_field(field: &KeyField, given: &KeyMatch) -> Result<(), String> {
    let Kind::Bits(bits) = field.kind else { return Err("not a number".to_owned()) };
    match (field.match_type, given) {
        (MatchType::Exact, KeyMatch::Exact(it)) => number(&it.value, bits),
        (MatchType::Lpm, KeyMatch::Lpm(it)) => {
            number(&it.value, bits)?;
            let len = u32::try_from(it.prefix_len).ok().filter(|&len| len <= bits);
            let len = len.ok_or_else(|| format!("prefix length {} of {bits} bits", it.prefix_len))?;
            match has_bits_below(&it.value, bits - len) {
                true => Err(format!("bits set beyond the prefix length {len}")),
                false => Ok(()),
            }
        }
        (MatchType::Ternary, KeyMatch::Ternary(it)) => {
            number(&it.value, bits)?;
            number(&it.mask, bits)?;
            match it.value.iter().zip(&it.mask).any(|(value, mask)| value & !mask != 0) {
                true => Err("value bits outside the mask".to_owned()),
                false => Ok(()),
            }
        }
        (MatchType::Range, KeyMatch::Range(it)) => {
            number(&it.low, bits)?;
            number(&it.high, bits)?;
            if it.low > it.high { Err("low is above high".to_owned()) } else { Ok(()) }
        }
        (MatchType::Optional, KeyMatch::Optional(it)) => number(&it.value, bits),
        (expected, _) => Err(format!("the match kind is not {expected:?}")),
    }
}

/// Returns whether any of the lowest `count` bits is set.
fn has_bits_below(value: &[u8], count: u32) -> bool {
    let low = max_value(count);
    value.iter().rev().zip(low.iter().rev()).any(|(byte, mask)| byte & mask != 0)
}

/// Checks the data of an entry: an action allowed for the entry, with its fields. New entries need all mandatory
/// fields.
pub(super) fn data<'a>(table: &Table, entry: &'a TableEntry, is_new: bool) -> Result<&'a TableData, String> {
    let invalid = |reason: String| format!("{}: {reason}", table.name);
    let data = entry.data.as_ref().ok_or_else(|| invalid("the entry has no data".to_owned()))?;
    match table.action(data.action_id) {
        None if data.action_id != 0 => return Err(invalid(format!("no action {:#010x}", data.action_id))),
        None if !table.actions.is_empty() => return Err(invalid("the entry has no action".to_owned())),
        Some(action) if entry.is_default_entry && action.scope == Scope::TableOnly => {
            return Err(invalid(format!("{} is not for the default entry", action.name)));
        }
        Some(action) if !entry.is_default_entry && action.scope == Scope::DefaultOnly => {
            return Err(invalid(format!("{} is for the default entry only", action.name)));
        }
        _ => {}
    }
    let fields: Vec<&Field> = table.fields_with(data.action_id).collect();
    let ids = data.fields.iter().map(|field| field.field_id);
    let known = fields.iter().map(|field| (field.id, field.name.as_str(), field.mandatory && is_new));
    check_fields(ids, known).map_err(|reason| invalid(format!("data: {reason}")))?;
    for given in &data.fields {
        let Some(field) = fields.iter().find(|field| field.id == given.field_id) else { continue };
        data_field(field, given).map_err(|reason| invalid(format!("{}: {reason}", field.name)))?;
    }
    Ok(data)
}

fn data_field(field: &Field, given: &DataField) -> Result<(), String> {
    if field.read_only {
        return Err("the field is read-only".to_owned());
    }
    let fits = |bits: u32, value: u32| match u32::BITS - value.leading_zeros() <= bits {
        true => Ok(()),
        false => Err(format!("{value} does not fit in {bits} bits")),
    };
    match (&field.kind, field.repeated, given.value.as_ref().ok_or("no value")?) {
        (Kind::Bits(bits), false, Value::Stream(value)) => number(value, *bits),
        (Kind::Bits(bits), true, Value::IntArrVal(all)) => all.val.iter().try_for_each(|&it| fits(*bits, it)),
        (Kind::Bool, false, Value::BoolVal(_)) | (Kind::Bool, true, Value::BoolArrVal(_)) => Ok(()),
        (Kind::Float, false, Value::FloatVal(_)) => Ok(()),
        (Kind::Text(choices), false, Value::StrVal(it)) if choices.is_empty() || choices.contains(it) => {
            Ok(())
        }
        (Kind::Text(choices), false, Value::StrVal(it)) => Err(format!("\"{it}\" is not one of {choices:?}")),
        (kind, repeated, _) => Err(format!("expected a value of kind {kind:?}, repeated: {repeated}")),
    }
}

/// Checks a number: the exact number of bytes for its width, and no bit above it.
fn number(value: &[u8], bits: u32) -> Result<(), String> {
    let bytes = width(bits);
    if value.len() != bytes {
        return Err(format!("{} bytes; a field of {bits} bits takes {bytes}", value.len()));
    }
    if bit_length(value) > bits { Err(format!("the value does not fit in {bits} bits")) } else { Ok(()) }
}

/// Checks that every id is known and occurs once, and that no mandatory one is missing. `known` lists id, name and
/// whether the field is mandatory.
fn check_fields<'a>(
    ids: impl Iterator<Item = u32>,
    known: impl Iterator<Item = (u32, &'a str, bool)>,
) -> Result<(), String> {
    let known: Vec<_> = known.collect();
    let mut seen = BTreeSet::new();
    for id in ids {
        let (_, name, _) = known.iter().find(|it| it.0 == id).ok_or_else(|| format!("no field {id}"))?;
        if !seen.insert(id) {
            return Err(format!("{name} occurs twice"));
        }
    }
    match known.iter().find(|(id, _, is_mandatory)| *is_mandatory && !seen.contains(id)) {
        Some((_, name, _)) => Err(format!("{name} is missing")),
        None => Ok(()),
    }
}

/// Checks that clients may write this entry of the table.
pub(super) fn writable(table: &Table, entry: &TableEntry) -> Result<(), String> {
    let is_param = table.table_type == TableType::RegisterParam;
    match entry.is_default_entry {
        _ if table.is_const => Err(format!("{}: the entries are const", table.name)),
        true if table.has_const_default => Err(format!("{}: the default action is const", table.name)),
        true if entry.value.is_some() => Err(format!("{}: the default entry has a key", table.name)),
        false if is_param || table.key.is_empty() => {
            Err(format!("{}: a table without a key has a default entry only", table.name))
        }
        _ => Ok(()),
    }
}
