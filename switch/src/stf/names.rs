//! Resolves the names of a test, and converts its values to the widths of the program.

use super::ast::{Action, Entry, EntryAction, KeyValue};
use super::error::PositionedError;
use super::lexer::{Name, Number};
use crate::pipeline::{ActionCall, GroupHandle, KeyMatch, MemberHandle};
use crate::program::{ActionId, ActionInfo, KeyInfo, MatchKind, Program, TableId, TableInfo};

/// Returns the table with this name: the full name, or a suffix that is unique.
pub(super) fn table<'p>(
    program: &'p Program,
    name: &Name,
) -> Result<(TableId, &'p TableInfo), PositionedError> {
    let tables: Vec<_> = program.tables().collect();
    let index = find(tables.iter().map(|(_, info)| info.name.as_str()), "table", name)?;
    Ok(tables[index])
}

/// Returns the table with this direct meter; `None` if no direct meter has the name.
pub(super) fn metered_table(program: &Program, meter: &Name) -> Option<TableId> {
    let tables: Vec<_> = program.tables().filter(|(_, info)| info.direct_meter.is_some()).collect();
    let names = tables.iter().filter_map(|(_, info)| info.direct_meter.as_deref());
    find(names, "meter", meter).ok().map(|index| tables[index].0)
}

/// Returns the index in `names` of the name that `name` denotes: the full name, or a suffix that is unique.
fn find<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    kind: &str,
    name: &Name,
) -> Result<usize, PositionedError> {
    let text = name.text.as_str();
    if let Some(index) = names.clone().position(|name| name == text) {
        return Ok(index);
    }
    // p4c's own runner accepts any suffix. A suffix that starts after a dot takes precedence.
    let ends_after_dot = |name: &str| name.strip_suffix(text).is_some_and(|rest| rest.ends_with('.'));
    for matches in [&ends_after_dot as &dyn Fn(&str) -> bool, &|name: &str| name.ends_with(text)] {
        let mut matching = names.clone().enumerate().filter(|(_, name)| matches(name));
        match (matching.next(), matching.next()) {
            (Some((index, _)), None) => return Ok(index),
            (Some((_, one)), Some((_, other))) => {
                let message = format!("ambiguous name {text:?}: {kind} {one} or {other}");
                return Err((name.position, message));
            }
            (None, _) => {}
        }
    }
    // Tables named `tbl_...` are hidden: p4c makes them of statements outside of tables, and they have no entries.
    let known: Vec<&str> = names.filter(|name| !name.starts_with("tbl_")).collect();
    let message = match known.len() {
        0 => format!("there is no {kind} {text:?}; the program has none"),
        _ => format!("there is no {kind} {text:?}; there are {}", known.join(", ")),
    };
    Err((name.position, message))
}

/// Returns the match of an entry, one per key element of the table.
pub(super) fn key(info: &TableInfo, entry: &Entry) -> Result<Vec<KeyMatch>, PositionedError> {
    let mut given: Vec<Option<&KeyValue>> = vec![None; info.key.len()];
    for (name, value) in &entry.key {
        let index = key_index(info, name)?;
        if given[index].replace(value).is_some() {
            return Err((name.position, format!("key {} is given twice", info.key[index].name)));
        }
    }
    let matches = info.key.iter().zip(given).map(|(key, value)| match value {
        Some(value) => key_match(key, value),
        None if key.kind == MatchKind::Exact => {
            let message = format!("table {} needs a value for its exact key {}", info.name, key.name);
            Err((entry.table.position, message))
        }
        None => Ok(KeyMatch::Any),
    });
    matches.collect()
}

fn key_index(info: &TableInfo, name: &Name) -> Result<usize, PositionedError> {
    let names = || info.key.iter().map(|key| key.name.as_str());
    // p4c writes `stack$0` for `stack[0]`, and omits the `$` around `$valid$`.
    let spellings = [
        name.text.clone(),
        format!("{}$", name.text),
        format!("{}.$valid$", name.text),
        name.text.strip_suffix("valid").map_or(String::new(), |header| format!("{header}$valid$")),
        stack_index(&name.text),
    ];
    for text in spellings.into_iter().filter(|text| !text.is_empty()) {
        let spelling = Name { text, position: name.position };
        if let Ok(index) = find(names(), "key", &spelling) {
            return Ok(index);
        }
    }
    find(names(), &format!("key of table {}", info.name), name)
}

/// Converts `a$0.b` to `a[0].b`; returns an empty string if there is no such index.
fn stack_index(text: &str) -> String {
    let Some((before, after)) = text.split_once('$') else { return String::new() };
    let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    if digits == 0 { String::new() } else { format!("{before}[{}]{}", &after[..digits], &after[digits..]) }
}

fn key_match(key: &KeyInfo, value: &KeyValue) -> Result<KeyMatch, PositionedError> {
    let (name, bits) = (&key.name, key.bits);
    match (key.kind, value) {
        (MatchKind::Range, KeyValue::Range { low, high }) => {
            Ok(KeyMatch::Range { low: to_width(low, name, bits)?, high: to_width(high, name, bits)? })
        }
        (MatchKind::Lpm, KeyValue::Prefix { value, len }) => {
            Ok(KeyMatch::Lpm { value: to_width(value, name, bits)?, prefix_len: *len })
        }
        (MatchKind::Ternary, KeyValue::Prefix { value, len }) => {
            let mask = prefix_mask(bits, u32::from(*len));
            Ok(KeyMatch::Ternary { value: to_width(value, name, bits)?, mask })
        }
        (kind, KeyValue::Value(number)) => match (&number.mask, kind) {
            (Some(mask), MatchKind::Ternary) => {
                Ok(KeyMatch::Ternary { value: to_width(number, name, bits)?, mask: extend_mask(mask, bits) })
            }
            (Some(mask), MatchKind::Lpm) => {
                let mask = extend_mask(mask, bits);
                let ones: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
                if mask != prefix_mask(bits, ones) {
                    let message = format!("key {name} is matched by prefix: only its last digits can be *");
                    return Err((number.position, message));
                }
                Ok(KeyMatch::Lpm { value: to_width(number, name, bits)?, prefix_len: ones as u16 })
            }
            (Some(_), _) => {
                let message = format!("key {name} is not ternary: write all digits instead of *");
                Err((number.position, message))
            }
            (None, MatchKind::Exact | MatchKind::Ternary) => {
                Ok(KeyMatch::Exact(to_width(number, name, bits)?))
            }
            (None, MatchKind::Lpm) => {
                Ok(KeyMatch::Lpm { value: to_width(number, name, bits)?, prefix_len: bits as u16 })
            }
            (None, MatchKind::Range) => {
                let value = to_width(number, name, bits)?;
                Ok(KeyMatch::Range { low: value.clone(), high: value })
            }
        },
        (_, KeyValue::Prefix { value, .. }) => {
            Err((value.position, format!("key {name} is not matched by prefix; leave out the `/`")))
        }
        (_, KeyValue::Range { low, .. }) => {
            Err((low.position, format!("key {name} is not matched by range; write one value")))
        }
    }
}

/// Returns a number as ceil(bits / 8) bytes, big-endian. `what` names the field in the error.
pub(super) fn to_width(number: &Number, what: &str, bits: u32) -> Result<Vec<u8>, PositionedError> {
    let used_bits = number
        .value
        .iter()
        .position(|&byte| byte != 0)
        .map_or(0, |zeros| (number.value.len() - zeros) as u32 * 8 - number.value[zeros].leading_zeros());
    if used_bits > bits {
        return Err((number.position, format!("the value needs {used_bits} bits, but {what} has {bits}")));
    }
    Ok(resize(&number.value, 0, bits))
}

/// Extends the mask of a number to a field of `bits` bits. Digits that were not written are 0, so their mask bits are
/// 1.
fn extend_mask(mask: &[u8], bits: u32) -> Vec<u8> {
    let mut mask = resize(mask, 0xff, bits);
    if let (Some(first), true) = (mask.first_mut(), !bits.is_multiple_of(8)) {
        *first &= (1 << (bits % 8)) - 1;
    }
    mask
}

/// Returns a big-endian number in ceil(bits / 8) bytes: cut, or filled with `fill`, at the front.
fn resize(bytes: &[u8], fill: u8, bits: u32) -> Vec<u8> {
    let len = bits.div_ceil(8) as usize;
    let mut resized = vec![fill; len.saturating_sub(bytes.len())];
    resized.extend(&bytes[bytes.len().saturating_sub(len)..]);
    resized
}

fn prefix_mask(bits: u32, prefix_len: u32) -> Vec<u8> {
    let mut mask = vec![0u8; bits.div_ceil(8) as usize];
    // Bits of the first byte before the field.
    let padding = mask.len() as u32 * 8 - bits;
    for bit in padding..(padding + prefix_len).min(mask.len() as u32 * 8) {
        mask[(bit / 8) as usize] |= 0x80 >> (bit % 8);
    }
    mask
}

/// Returns the action profile with this name, and the actions that its members may run.
pub(super) fn profile<'p>(
    program: &'p Program,
    name: &Name,
) -> Result<(&'p str, Vec<ActionId>), PositionedError> {
    let names = program.profiles.iter().map(|profile| profile.name.as_str());
    let index = find(names, "action profile", name)?;
    Ok((program.profiles[index].name.as_str(), program.profile_actions(index)))
}

/// Resolves what an entry of a table does.
pub(super) fn entry_action(
    program: &Program,
    info: &TableInfo,
    action_spec: &EntryAction,
) -> Result<ActionCall, PositionedError> {
    match action_spec {
        EntryAction::Action(call) => {
            action(program, &format!("action of table {}", info.name), &info.actions, call)
        }
        EntryAction::Member(handle) => Ok(ActionCall::Member(MemberHandle(handle.number))),
        EntryAction::Group(handle) => Ok(ActionCall::Group(GroupHandle(handle.number))),
    }
}

/// Resolves one of these actions, and puts its arguments in the program's order. `kind` describes the actions in
/// errors.
pub(super) fn action(
    program: &Program,
    kind: &str,
    permitted: &[ActionId],
    call: &Action,
) -> Result<ActionCall, PositionedError> {
    let actions: Vec<(ActionId, &ActionInfo)> =
        program.actions().filter(|(id, _)| permitted.contains(id)).collect();
    let names = actions.iter().map(|(_, action)| action.name.as_str());
    let (id, action) = actions[find(names, kind, &call.name)?];
    for (name, _) in &call.args {
        if action.params.iter().all(|(param, _)| *param != name.text) {
            let known: Vec<&str> = action.params.iter().map(|(param, _)| param.as_str()).collect();
            let message = format!(
                "action {} has no argument {:?}; it has [{}]",
                action.name,
                name.text,
                known.join(", ")
            );
            return Err((name.position, message));
        }
        if call.args.iter().filter(|(other, _)| other.text == name.text).count() > 1 {
            return Err((name.position, format!("argument {} is given twice", name.text)));
        }
    }
    let args = action.params.iter().map(|(param, bits)| {
        let given = call.args.iter().find(|(name, _)| name.text == *param);
        match given {
            Some((_, value)) => to_width(value, param, *bits),
            None => {
                let message = format!("action {} needs an argument {param}", action.name);
                Err((call.name.position, message))
            }
        }
    });
    Ok(ActionCall::Action { action: id, args: args.collect::<Result<_, _>>()? })
}

/// Returns whether two values are equal in the bits of `mask`; `None` compares all bits.
pub(super) fn matches_masked(one: &[u8], other: &[u8], mask: Option<&[u8]>) -> bool {
    let len = one.len().max(other.len());
    let bits = len as u32 * 8;
    let mask = mask.map_or(vec![0xff; len], |mask| resize(mask, 0xff, bits));
    let (one, other) = (resize(one, 0, bits), resize(other, 0, bits));
    one.iter().zip(&other).zip(&mask).all(|((one, other), mask)| (one ^ other) & mask == 0)
}
