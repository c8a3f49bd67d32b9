//! `bm_mt_*`: reads tables, and reads and writes direct counters and meters.

use super::service::{CallResult, Service};
use super::structs::{decode_counter, decode_rates, encode_action_data, encode_counter, encode_rates};
use super::table_error::{TableErrorCode, code};
use super::tables::{handle, key, mask_key, on_table, param, priority, priority_option};
use super::value::{Fields, Value};
use thrift::protocol::TType;
use weir_switch::pipeline::{ActionCall, CounterValue, KeyMatch, Pipeline, TableEntry};
use weir_switch::program::{MatchKind, TableId, TableInfo};

/// `BmActionEntryType` (standard.thrift).
mod action_type {
    pub(super) const NONE: i32 = 0;
    pub(super) const ACTION_DATA: i32 = 1;
    pub(super) const MBR_HANDLE: i32 = 2;
    pub(super) const GRP_HANDLE: i32 = 3;
}

/// Number of table rows (entries or gaps between handles) read between two batches of frames. It bounds the time for
/// which frames wait.
const ROWS_AT_ONCE: usize = 128;
/// Priority in the options of an entry whose table has no priorities.
const NO_PRIORITY: i32 = -1;

/// Dispatches the methods of this file; `None` for any other.
pub(super) fn call(service: &mut Service, method: &str, args: &Fields) -> Option<CallResult> {
    let answer = match method {
        "bm_mt_get_num_entries" => on_table(service, args, |pipeline, table| {
            Ok(Value::I64(pipeline.table_entries(table).len() as i64))
        }),
        "bm_mt_get_entries" => get_entries(service, args),
        "bm_mt_get_entry" => get_entry(service, args),
        "bm_mt_get_entry_from_key" => get_entry_from_key(service, args),
        "bm_mt_get_default_entry" => on_table(service, args, |pipeline, table| {
            Ok(encode_action(pipeline, pipeline.table_default(table).as_ref()))
        }),
        "bm_mt_read_counter" => read_counter(service, args),
        "bm_mt_write_counter" => write_counter(service, args),
        "bm_mt_reset_counters" => reset_counters(service, args),
        "bm_mt_set_meter_rates" => set_meter_rates(service, args),
        "bm_mt_get_meter_rates" => get_meter_rates(service, args),
        _ => return None,
    };
    Some(answer)
}

fn info(pipeline: &Pipeline, table: TableId) -> Result<TableInfo, TableErrorCode> {
    let found = pipeline.program().tables().find(|(id, _)| *id == table);
    found.map(|(_, info)| info.clone()).ok_or(TableErrorCode(code::INVALID_TABLE_NAME))
}

/// Reads the entries in chunks, so that frames are processed in between.
fn get_entries(service: &mut Service, args: &Fields) -> CallResult {
    let rows = on_table(service, args, |pipeline, table| Ok(pipeline.table_rows(table)))?;
    let mut entries = Vec::new();
    for first in (0..rows).step_by(ROWS_AT_ONCE) {
        entries.extend(on_table(service, args, move |pipeline, table| {
            let info = info(pipeline, table)?;
            let found = pipeline.table_entries_in(table, first..rows.min(first + ROWS_AT_ONCE));
            Ok(found.iter().map(|entry| encode_entry(pipeline, table, &info, entry)).collect::<Vec<_>>())
        })?);
    }
    Ok(Value::List(TType::Struct, entries))
}

fn get_entry(service: &mut Service, args: &Fields) -> CallResult {
    let handle = handle(args)?;
    on_table(service, args, move |pipeline, table| {
        let (info, entry) = (info(pipeline, table)?, pipeline.table_entry(table, handle)?);
        Ok(encode_entry(pipeline, table, &info, &entry))
    })
}

fn get_entry_from_key(service: &mut Service, args: &Fields) -> CallResult {
    let (key, priority) = (key(args, 3)?, priority_option(args, 4)?);
    on_table(service, args, move |pipeline, table| {
        // An empty key selects the default entry.
        if key.is_empty() {
            let default = encode_action(pipeline, pipeline.table_default(table).as_ref());
            let empty_key = (1, Value::List(TType::Struct, Vec::new()));
            return Ok(Value::structure([
                empty_key,
                (2, encode_options(NO_PRIORITY)),
                (3, Value::I32(0)),
                (4, default),
            ]));
        }
        let info = info(pipeline, table)?;
        let key = mask_key(&pipeline.program().clone(), table, key);
        let found =
            pipeline.table_find(table, &key, priority).map_err(|_| TableErrorCode(code::BAD_MATCH_KEY))?;
        let entry = pipeline.table_entry(table, found.ok_or(TableErrorCode(code::BAD_MATCH_KEY))?)?;
        Ok(encode_entry(pipeline, table, &info, &entry))
    })
}

/// Encodes `BmMtEntry`. Only entries with an idle timeout have a `life`.
fn encode_entry(pipeline: &Pipeline, table: TableId, info: &TableInfo, entry: &TableEntry) -> Value {
    let idle = pipeline.ticks_since_hit(table, entry.handle).ok().flatten();
    let life = idle.filter(|_| entry.idle_timeout > 0).map(|idle| {
        let ms = |ticks| i32::try_from(pipeline.duration(ticks).as_millis()).unwrap_or(i32::MAX);
        Value::structure([(1, Value::I32(ms(entry.idle_timeout))), (2, Value::I32(ms(idle)))])
    });
    let key =
        info.key.iter().zip(&entry.key).map(|(field, part)| encode_match_param(field.kind, field.bits, part));
    let number = if info.has_priorities() { priority(entry.priority) } else { NO_PRIORITY };
    Value::structure([
        (1, Value::List(TType::Struct, key.collect())),
        (2, encode_options(number)),
        (3, Value::I32(entry.handle.0 as i32)),
        (4, encode_action(pipeline, Some(&entry.action))),
        (5, life.unwrap_or(Value::Void)),
    ])
}

fn encode_options(priority: i32) -> Value {
    Value::structure([(1, Value::I32(priority))])
}

/// Encodes `BmMatchParam`.
fn encode_match_param(kind: MatchKind, bits: u32, part: &KeyMatch) -> Value {
    let bytes = bits.div_ceil(8) as usize;
    let (ty, fields) = match (kind, part) {
        (_, KeyMatch::Exact(value)) => (param::EXACT, vec![Value::Binary(value.clone())]),
        (_, KeyMatch::Lpm { value, prefix_len }) => {
            (param::LPM, vec![Value::Binary(value.clone()), Value::I32(i32::from(*prefix_len))])
        }
        (_, KeyMatch::Ternary { value, mask }) => {
            (param::TERNARY, vec![Value::Binary(value.clone()), Value::Binary(mask.clone())])
        }
        (_, KeyMatch::Range { low, high }) => {
            (param::RANGE, vec![Value::Binary(low.clone()), Value::Binary(high.clone())])
        }
        (MatchKind::Lpm, KeyMatch::Any) => (param::LPM, vec![Value::Binary(vec![0; bytes]), Value::I32(0)]),
        (MatchKind::Range, KeyMatch::Any) => {
            let mut high = vec![0xff; bytes];
            if let Some(first) = high.first_mut() {
                *first >>= 8 * bytes as u32 - bits;
            }
            (param::RANGE, vec![Value::Binary(vec![0; bytes]), Value::Binary(high)])
        }
        (MatchKind::Exact | MatchKind::Ternary, KeyMatch::Any) => {
            (param::TERNARY, vec![Value::Binary(vec![0; bytes]), Value::Binary(vec![0; bytes])])
        }
    };
    let value = Value::structure((1..).zip(fields));
    // See `param` for the field of the value.
    Value::structure([(1, Value::I32(ty)), (ty as i16 + 2, value)])
}

/// Encodes `BmActionEntry`.
fn encode_action(pipeline: &Pipeline, action: Option<&ActionCall>) -> Value {
    let of_type = |ty| (1, Value::I32(ty));
    Value::structure(match action {
        None => vec![of_type(action_type::NONE)],
        Some(ActionCall::Action { action, args }) => {
            let name = pipeline.program().action_name(*action);
            vec![of_type(action_type::ACTION_DATA), (2, Value::text(name)), (3, encode_action_data(args))]
        }
        Some(ActionCall::Member(member)) => {
            vec![of_type(action_type::MBR_HANDLE), (4, Value::I32(member.0 as i32))]
        }
        Some(ActionCall::Group(group)) => {
            vec![of_type(action_type::GRP_HANDLE), (5, Value::I32(group.0 as i32))]
        }
    })
}

// Counters and meters of entries.

fn require(condition: bool, code: i32) -> Result<(), TableErrorCode> {
    if condition { Ok(()) } else { Err(TableErrorCode(code)) }
}

fn read_counter(service: &mut Service, args: &Fields) -> CallResult {
    let entry = handle(args)?;
    on_table(service, args, move |pipeline, table| {
        require(info(pipeline, table)?.direct_counters, code::COUNTERS_DISABLED)?;
        Ok(encode_counter(pipeline.direct_counter_read(table, entry)?))
    })
}

fn write_counter(service: &mut Service, args: &Fields) -> CallResult {
    let (entry, value) = (handle(args)?, decode_counter(args.fields(4)?)?);
    on_table(service, args, move |pipeline, table| {
        require(info(pipeline, table)?.direct_counters, code::COUNTERS_DISABLED)?;
        pipeline.direct_counter_write(table, entry, value)?;
        Ok(Value::Void)
    })
}

fn reset_counters(service: &mut Service, args: &Fields) -> CallResult {
    on_table(service, args, move |pipeline, table| {
        require(info(pipeline, table)?.direct_counters, code::COUNTERS_DISABLED)?;
        for entry in pipeline.table_entries(table) {
            pipeline.direct_counter_write(table, entry.handle, CounterValue::default())?;
        }
        Ok(Value::Void)
    })
}

fn set_meter_rates(service: &mut Service, args: &Fields) -> CallResult {
    let (entry, rates) = (handle(args)?, decode_rates(args, 4)?);
    on_table(service, args, move |pipeline, table| {
        require(info(pipeline, table)?.direct_meter.is_some(), code::METERS_DISABLED)?;
        let rates = rates.map_err(|_| TableErrorCode(code::INVALID_METER_OPERATION))?;
        pipeline.direct_meter_set_rates(table, entry, Some(rates))?;
        Ok(Value::Void)
    })
}

fn get_meter_rates(service: &mut Service, args: &Fields) -> CallResult {
    let entry = handle(args)?;
    on_table(service, args, move |pipeline, table| {
        require(info(pipeline, table)?.direct_meter.is_some(), code::METERS_DISABLED)?;
        Ok(encode_rates(pipeline.direct_meter_rates(table, entry)?))
    })
}
