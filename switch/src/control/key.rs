//! Converts match keys between P4Runtime and the pipeline.

use super::error::ControlError;
use super::value::{is_masked, ones, prefix_mask, to_width};
use crate::pipeline::KeyMatch;
use p4runtime::p4::config::v1::match_field::{Match, MatchType};
use p4runtime::p4::config::v1::{MatchField, Table};
use p4runtime::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use p4runtime::p4::v1::{FieldMatch, TableEntry};
use p4runtime::p4info::Object;
use p4runtime::value::canonical;

/// Returns the match kind of a field; `None` for an architecture-specific kind.
fn match_kind(field: &MatchField) -> Option<MatchType> {
    match field.r#match {
        Some(Match::MatchType(kind)) => MatchType::try_from(kind).ok(),
        _ => None,
    }
}

/// Returns whether entries of the table have priorities.
pub(super) fn has_priorities(table: &Table) -> bool {
    let needs_priority = [MatchType::Ternary, MatchType::Range, MatchType::Optional];
    table
        .match_fields
        .iter()
        .any(|field| match_kind(field).is_some_and(|kind| needs_priority.contains(&kind)))
}

/// Converts a key to the pipeline's form: one match per field, in the table's order.
///
/// # Errors
///
/// A field is unknown, is given twice, has another match kind, or is too wide; an exact field is missing; or a
/// value has bits outside its mask.
pub(super) fn to_key(table: &Table, matches: &[FieldMatch]) -> Result<Vec<KeyMatch>, ControlError> {
    let name = &table.preamble().name;
    for (i, given) in matches.iter().enumerate() {
        if table.match_field_by_id(given.field_id).is_none() {
            return Err(ControlError::invalid(format!("table {name} has no match field {}", given.field_id)));
        }
        if matches[..i].iter().any(|other| other.field_id == given.field_id) {
            return Err(ControlError::invalid(format!(
                "table {name}: field {} is given twice",
                given.field_id
            )));
        }
    }
    let key = table.match_fields.iter().map(|field| {
        let given = matches.iter().find(|given| given.field_id == field.id);
        match given {
            Some(given) => to_match(field, given),
            None if match_kind(field) == Some(MatchType::Exact) => {
                Err(ControlError::invalid("an exact match field is missing"))
            }
            None => Ok(KeyMatch::Any),
        }
        .map_err(|e| e.context(format_args!("table {name}, field {}", field.name)))
    });
    key.collect()
}

/// Checks an entry's priority and converts its key.
///
/// # Errors
///
/// The table has priorities and the entry has none, or the reverse; or the key is invalid.
pub(super) fn checked_key(table: &Table, entry: &TableEntry) -> Result<Vec<KeyMatch>, ControlError> {
    let name = &table.preamble().name;
    match (has_priorities(table), entry.priority) {
        (true, ..=0) => {
            return Err(ControlError::invalid(format!(
                "entries of table {name} need a priority of 1 or more"
            )));
        }
        (false, 1.. | ..=-1) => {
            return Err(ControlError::invalid(format!(
                "entries of table {name} have no priority; set it to 0"
            )));
        }
        _ => {}
    }
    to_key(table, &entry.r#match)
}

fn to_match(field: &MatchField, given: &FieldMatch) -> Result<KeyMatch, ControlError> {
    let given = given.field_match_type.as_ref().ok_or_else(|| ControlError::invalid("no match is given"))?;
    let bits = field.bitwidth;
    match (match_kind(field), given) {
        (Some(MatchType::Exact), FieldMatchType::Exact(m)) => Ok(KeyMatch::Exact(to_width(&m.value, bits)?)),
        (Some(MatchType::Optional), FieldMatchType::Optional(m)) => {
            Ok(KeyMatch::Exact(to_width(&m.value, bits)?))
        }
        (Some(MatchType::Lpm), FieldMatchType::Lpm(m)) => {
            let value = to_width(&m.value, bits)?;
            let prefix_len = u16::try_from(m.prefix_len).ok().filter(|_| (1..=bits).contains(&m.prefix_len));
            let prefix_len = prefix_len.ok_or_else(|| {
                ControlError::invalid(format!(
                    "prefix length {} is not between 1 and {bits}; omit the field for don't care",
                    m.prefix_len
                ))
            })?;
            if !is_masked(&value, &prefix_mask(bits, m.prefix_len)) {
                return Err(ControlError::invalid("the value has bits set beyond its prefix"));
            }
            Ok(KeyMatch::Lpm { value, prefix_len })
        }
        (Some(MatchType::Ternary), FieldMatchType::Ternary(m)) => {
            let (value, mask) = (to_width(&m.value, bits)?, to_width(&m.mask, bits)?);
            if mask.iter().all(|&byte| byte == 0) {
                return Err(ControlError::invalid("the mask is zero; omit the field for don't care"));
            }
            if !is_masked(&value, &mask) {
                return Err(ControlError::invalid("the value has bits set outside its mask"));
            }
            Ok(KeyMatch::Ternary { value, mask })
        }
        (Some(MatchType::Range), FieldMatchType::Range(m)) => {
            let (low, high) = (to_width(&m.low, bits)?, to_width(&m.high, bits)?);
            if low > high {
                return Err(ControlError::invalid("low is greater than high"));
            }
            if low.iter().all(|&byte| byte == 0) && high == ones(bits) {
                return Err(ControlError::invalid(
                    "the range covers every value; omit the field for don't care",
                ));
            }
            Ok(KeyMatch::Range { low, high })
        }
        (Some(kind), _) => {
            Err(ControlError::invalid(format!("the field has match kind {}", kind.as_str_name())))
        }
        (None, _) => Err(ControlError::unimplemented("the match kind is not supported")),
    }
}

/// Converts a key of the pipeline to P4Runtime's form: values are canonical, and a field that matches any
/// value is omitted.
pub(super) fn from_key(table: &Table, key: &[KeyMatch]) -> Vec<FieldMatch> {
    table
        .match_fields
        .iter()
        .zip(key)
        .filter_map(|(field, key_match)| {
            let field_match_type = Some(from_match(field, key_match)?);
            Some(FieldMatch { field_id: field.id, field_match_type })
        })
        .collect()
}

fn from_match(field: &MatchField, key_match: &KeyMatch) -> Option<FieldMatchType> {
    let bits = field.bitwidth;
    let lpm = |value: &[u8], prefix_len: i32| {
        (prefix_len > 0).then(|| FieldMatchType::Lpm(Lpm { value: canonical(value), prefix_len }))
    };
    Some(match (match_kind(field)?, key_match) {
        (_, KeyMatch::Any) => return None,
        (MatchType::Exact, KeyMatch::Exact(value)) => {
            FieldMatchType::Exact(Exact { value: canonical(value) })
        }
        (MatchType::Lpm, KeyMatch::Lpm { value, prefix_len }) => lpm(value, i32::from(*prefix_len))?,
        (MatchType::Lpm, KeyMatch::Exact(value)) => lpm(value, bits)?,
        // BMv2's compiler makes a table with LPM and ternary fields ternary.
        (MatchType::Lpm, KeyMatch::Ternary { value, mask }) => {
            lpm(value, mask.iter().map(|byte| byte.count_ones() as i32).sum())?
        }
        (MatchType::Ternary, KeyMatch::Ternary { value, mask }) => {
            if mask.iter().all(|&byte| byte == 0) {
                return None;
            }
            FieldMatchType::Ternary(Ternary { value: canonical(value), mask: canonical(mask) })
        }
        (MatchType::Ternary, KeyMatch::Exact(value)) => {
            FieldMatchType::Ternary(Ternary { value: canonical(value), mask: canonical(&ones(bits)) })
        }
        (MatchType::Range, KeyMatch::Range { low, high }) => {
            if low.iter().all(|&byte| byte == 0) && *high == ones(bits) {
                return None;
            }
            FieldMatchType::Range(Range { low: canonical(low), high: canonical(high) })
        }
        (MatchType::Optional, KeyMatch::Exact(value)) => {
            FieldMatchType::Optional(Optional { value: canonical(value) })
        }
        (MatchType::Optional, KeyMatch::Ternary { value, mask }) => {
            if mask.iter().all(|&byte| byte == 0) {
                return None;
            }
            FieldMatchType::Optional(Optional { value: canonical(value) })
        }
        _ => return None,
    })
}

/// Removes leading zero bytes from the values of a match.
pub(super) fn canonicalise(field: &mut FieldMatch) {
    let values = match &mut field.field_match_type {
        Some(FieldMatchType::Exact(m)) => vec![&mut m.value],
        Some(FieldMatchType::Optional(m)) => vec![&mut m.value],
        Some(FieldMatchType::Lpm(m)) => vec![&mut m.value],
        Some(FieldMatchType::Ternary(m)) => vec![&mut m.value, &mut m.mask],
        Some(FieldMatchType::Range(m)) => vec![&mut m.low, &mut m.high],
        Some(FieldMatchType::Other(_)) | None => Vec::new(),
    };
    values.into_iter().for_each(|value| *value = canonical(value));
}
