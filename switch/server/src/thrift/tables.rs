//! `bm_mt_*`: writes tables.

use super::service::{CallError, CallResult, Service, check_context};
use super::table_error::{TableErrorCode, code};
use super::value::{Fields, Value};
use std::time::Duration;
use thrift::Result as Read;
use weir_switch::pipeline::{ActionCall, EntryHandle, GroupHandle, KeyMatch, MemberHandle, Pipeline};
use weir_switch::program::{MatchKind, Program, TableId};

/// Dispatches the methods of this file; `None` for any other.
pub(super) fn call(service: &mut Service, method: &str, args: &Fields) -> Option<CallResult> {
    // The numbers are ids of Thrift fields.
    let answer = match method {
        "bm_mt_add_entry" => add(service, args, 6, action(args, 4, 5)),
        "bm_mt_indirect_add_entry" => add(service, args, 5, member(args, 4)),
        "bm_mt_indirect_ws_add_entry" => add(service, args, 5, group(args, 4)),
        "bm_mt_modify_entry" => modify(service, args, action(args, 4, 5)),
        "bm_mt_indirect_modify_entry" => modify(service, args, member(args, 4)),
        "bm_mt_indirect_ws_modify_entry" => modify(service, args, group(args, 4)),
        "bm_mt_delete_entry" | "bm_mt_indirect_delete_entry" => delete(service, args),
        "bm_mt_clear_entries" => clear(service, args),
        "bm_mt_set_default_action" => set_default(service, args, action(args, 3, 4)),
        "bm_mt_indirect_set_default_member" => set_default(service, args, member(args, 3)),
        "bm_mt_indirect_ws_set_default_group" => set_default(service, args, group(args, 3)),
        "bm_mt_reset_default_entry" | "bm_mt_indirect_reset_default_entry" => {
            on_table(service, args, |pipeline, table| {
                Ok(pipeline.table_reset_default(table).map(|()| Value::Void)?)
            })
        }
        "bm_mt_set_entry_ttl" | "bm_mt_indirect_set_entry_ttl" => set_timeout(service, args),
        _ => return None,
    };
    Some(answer)
}

/// Runs an operation on the table named in field 2.
pub(super) fn on_table<R: Send + 'static>(
    service: &mut Service,
    args: &Fields,
    operation: impl FnOnce(&mut Pipeline, TableId) -> Result<R, TableErrorCode> + Send + 'static,
) -> Result<R, CallError> {
    check_context(args)?;
    let name = args.text(2)?;
    let answer = service.on_program(code::INVALID_TABLE_NAME, move |pipeline| {
        let table = pipeline.table_by_name(&name)?;
        operation(pipeline, table)
    })?;
    answer.map_err(|TableErrorCode(code)| CallError::Exception(code))
}

/// What a request wants of an entry.
enum EntryAction {
    /// An action by name.
    Action { name: String, args: Vec<Vec<u8>> },
    /// A member or group of the table's profile.
    Profile(ActionCall),
}

fn action(args: &Fields, name_field: i16, args_field: i16) -> Read<EntryAction> {
    Ok(EntryAction::Action { name: args.text(name_field)?, args: args.binaries(args_field)? })
}

fn member(args: &Fields, field: i16) -> Read<EntryAction> {
    Ok(EntryAction::Profile(ActionCall::Member(MemberHandle(args.i32(field)? as u32))))
}

fn group(args: &Fields, field: i16) -> Read<EntryAction> {
    Ok(EntryAction::Profile(ActionCall::Group(GroupHandle(args.i32(field)? as u32))))
}

/// Returns the entry handle in field 3.
pub(super) fn handle(args: &Fields) -> Read<EntryHandle> {
    Ok(EntryHandle(args.i32(3)? as u32))
}

/// Resolves what a request wants of an entry, and checks that the table accepts it: an action, or a member or group of
/// its profile.
fn resolve(pipeline: &Pipeline, table: TableId, action: EntryAction) -> Result<ActionCall, TableErrorCode> {
    let Some((_, info)) = pipeline.program().tables().find(|(id, _)| *id == table) else {
        return Err(TableErrorCode(code::INVALID_TABLE_NAME));
    };
    match (action, &info.profile) {
        (EntryAction::Action { name, args }, None) => match pipeline.action_by_name(table, &name) {
            Ok(action) => Ok(ActionCall::Action { action, args }),
            Err(_) => Err(TableErrorCode(code::INVALID_ACTION_NAME)),
        },
        (EntryAction::Profile(call), Some(_)) => Ok(call),
        _ => Err(TableErrorCode(code::WRONG_TABLE_TYPE)),
    }
}

/// Converts a priority between BMv2, in which the lowest number wins, and the pipeline, in which the highest wins. The
/// conversion is the same in both directions.
pub(super) fn priority(number: i32) -> i32 {
    i32::MAX.saturating_sub(number.max(0))
}

/// Returns the pipeline priority from the `BmAddEntryOptions` in this field.
pub(super) fn priority_option(args: &Fields, field: i16) -> Read<i32> {
    let options = args.fields(field)?;
    let number = if options.get(1).is_some() { options.i32(1)? } else { 0 };
    Ok(priority(number))
}

fn add(service: &mut Service, args: &Fields, options_field: i16, action: Read<EntryAction>) -> CallResult {
    let (key, priority, action) = (key(args, 3)?, priority_option(args, options_field)?, action?);
    on_table(service, args, move |pipeline, table| {
        let program = pipeline.program().clone();
        let call = resolve(pipeline, table, action)?;
        if program.tables().any(|(id, info)| id == table && info.key.is_empty()) {
            return Err(TableErrorCode(code::NO_TABLE_KEY));
        }
        let key = mask_key(&program, table, key);
        // All errors of the key are reported here, so that `table_add` can only fail for the action data.
        pipeline.table_find(table, &key, priority).map_err(|_| TableErrorCode(code::BAD_MATCH_KEY))?;
        let entry = pipeline.table_add(table, &key, priority, &call)?;
        Ok(Value::I32(entry.0 as i32))
    })
}

fn modify(service: &mut Service, args: &Fields, action: Read<EntryAction>) -> CallResult {
    let (entry, action) = (handle(args)?, action?);
    on_table(service, args, move |pipeline, table| {
        let call = resolve(pipeline, table, action)?;
        pipeline.table_modify(table, entry, &call)?;
        Ok(Value::Void)
    })
}

fn delete(service: &mut Service, args: &Fields) -> CallResult {
    let entry = handle(args)?;
    on_table(service, args, move |pipeline, table| {
        pipeline.table_delete(table, entry)?;
        Ok(Value::Void)
    })
}

fn clear(service: &mut Service, args: &Fields) -> CallResult {
    let reset_default = args.bool(3)?;
    on_table(service, args, move |pipeline, table| {
        for entry in pipeline.table_entries(table) {
            pipeline.table_delete(table, entry.handle)?;
        }
        if reset_default {
            pipeline.table_reset_default(table)?;
        }
        Ok(Value::Void)
    })
}

fn set_default(service: &mut Service, args: &Fields, action: Read<EntryAction>) -> CallResult {
    let action = action?;
    on_table(service, args, move |pipeline, table| {
        let call = resolve(pipeline, table, action)?;
        pipeline.table_set_default(table, &call)?;
        Ok(Value::Void)
    })
}

fn set_timeout(service: &mut Service, args: &Fields) -> CallResult {
    let (entry, timeout_ms) = (handle(args)?, args.i32(4)?);
    on_table(service, args, move |pipeline, table| {
        if !pipeline.program().tables().any(|(id, info)| id == table && info.idle_timeout) {
            return Err(TableErrorCode(code::AGEING_DISABLED));
        }
        // A negative number is read as a large unsigned one.
        let timeout = Duration::from_millis(u64::from(timeout_ms as u32));
        pipeline.table_set_timeout(table, entry, pipeline.ticks(timeout))?;
        Ok(Value::Void)
    })
}

/// `BmMatchParamType` (standard.thrift). The value of a parameter is in the field with number type + 2.
pub(super) mod param {
    pub(crate) const EXACT: i32 = 0;
    pub(crate) const LPM: i32 = 1;
    pub(crate) const TERNARY: i32 = 2;
    pub(crate) const VALID: i32 = 3;
    pub(crate) const RANGE: i32 = 4;
}

/// Decodes the key in this field, a list of `BmMatchParam`.
pub(super) fn key(args: &Fields, field: i16) -> Read<Vec<KeyMatch>> {
    args.structs(field)?.into_iter().map(decode_match_param).collect()
}

fn decode_match_param(encoded: &Fields) -> Read<KeyMatch> {
    Ok(match encoded.i32(1)? {
        param::EXACT => KeyMatch::Exact(encoded.fields(2)?.binary(1)?),
        param::LPM => {
            let prefix = encoded.fields(3)?;
            // An invalid length is rejected by the table together with the key.
            let prefix_len = u16::try_from(prefix.i32(2)?).unwrap_or(u16::MAX);
            KeyMatch::Lpm { value: prefix.binary(1)?, prefix_len }
        }
        param::TERNARY => {
            let ternary = encoded.fields(4)?;
            KeyMatch::Ternary { value: ternary.binary(1)?, mask: ternary.binary(2)? }
        }
        param::VALID => KeyMatch::Exact(vec![u8::from(encoded.fields(5)?.bool(1)?)]),
        param::RANGE => {
            let range = encoded.fields(6)?;
            KeyMatch::Range { low: range.binary(1)?, high: range.binary(2)? }
        }
        other => {
            let what = format!("unknown match parameter type {other}");
            return Err(thrift::ProtocolError::new(thrift::ProtocolErrorKind::InvalidData, what).into());
        }
    })
}

/// Clears the bits of a key outside its masks, prefixes and widths. BMv2 accepts `10.0.1.1/24` as `10.0.1.0/24`, and
/// 1000 in 9 bits as 488 (match_units.cpp, `format_ternary_key`, `get_byte0_mask`); the pipeline rejects both.
pub(super) fn mask_key(program: &Program, table: TableId, mut key: Vec<KeyMatch>) -> Vec<KeyMatch> {
    let Some((_, info)) = program.tables().find(|(id, _)| *id == table) else { return key };
    for (part, field) in key.iter_mut().zip(&info.key) {
        let bytes = field.bits.div_ceil(8);
        let fit = |value: &mut Vec<u8>| {
            if value.len() == bytes as usize {
                value[0] &= u8::MAX >> (8 * bytes - field.bits);
            }
        };
        match part {
            KeyMatch::Exact(value) | KeyMatch::Lpm { value, .. } => fit(value),
            KeyMatch::Ternary { value, mask } => [value, mask].into_iter().for_each(fit),
            KeyMatch::Range { low, high } => [low, high].into_iter().for_each(fit),
            KeyMatch::Any => {}
        }
        match part {
            KeyMatch::Ternary { value, mask }
                if field.kind == MatchKind::Ternary && value.len() == mask.len() =>
            {
                value.iter_mut().zip(mask).for_each(|(value, mask)| *value &= *mask);
            }
            KeyMatch::Lpm { value, prefix_len } if field.kind == MatchKind::Lpm => {
                let wildcard_bits = (field.bits as usize).saturating_sub(usize::from(*prefix_len));
                for (index, byte) in value.iter_mut().rev().enumerate() {
                    let bits = wildcard_bits.saturating_sub(8 * index).min(8) as u32;
                    *byte &= u8::MAX.checked_shl(bits).unwrap_or(0);
                }
            }
            _ => {}
        }
    }
    key
}
