//! Arrays of counters, meters and registers, parser value sets, and the parameters of hashes. A cell is an element of
//! such an array.

use super::service::{CallError, CallResult, Service, check_context};
use super::structs::{decode_counter, decode_rates, encode_counter, encode_rates};
use super::value::{Fields, Value};
use thrift::protocol::TType;
use weir_switch::pipeline::{CounterValue, CrcParameters, Pipeline, TableError};

/// Codes that counters, meters and registers share (`CounterOperationErrorCode` and others, standard.thrift).
const INVALID_NAME: i32 = 1;
const INVALID_INDEX: i32 = 2;
/// `RegisterOperationErrorCode` and `CounterOperationErrorCode`.
const ERROR: i32 = 3;
/// `ParseVSetOperationErrorCode`. Its code for an unknown name is [`INVALID_NAME`] too.
const VALUE_SET_ERROR: i32 = 2;
/// `CrcErrorCode` and `ToeplitzHashErrorCode`. Their code for an unknown name is [`INVALID_NAME`] too.
const WRONG_TYPE_CALCULATION: i32 = 2;

/// Maximum number of values in a value set. BMv2 has no limit; each value costs memory and time per packet.
const MAX_VALUES: usize = 1 << 16;

/// Number of cells read or written between two batches of frames. It bounds the time for which frames wait.
const CELLS_AT_ONCE: usize = 4096;

/// Dispatches the methods of this file; `None` for any other.
pub(super) fn call(service: &mut Service, method: &str, args: &Fields) -> Option<CallResult> {
    let answer = match method {
        "bm_counter_read" => on_array(service, args, index(args), |pipeline, name, index| {
            Ok(encode_counter(pipeline.counter_read(name, index)?))
        }),
        "bm_counter_write" => counter_write(service, args),
        "bm_counter_reset_all" => {
            for_each_cell(service, args, Pipeline::counter_size, |pipeline, name, index| {
                pipeline.counter_write(name, index, CounterValue::default())
            })
        }
        "bm_meter_set_rates" => set_rates(service, args, 4, Some(index(args))),
        "bm_meter_array_set_rates" => set_rates(service, args, 3, None),
        "bm_meter_get_rates" => on_array(service, args, index(args), |pipeline, name, index| {
            Ok(encode_rates(pipeline.meter_rates(name, index)?))
        }),
        "bm_register_read" => on_array(service, args, index(args), |pipeline, name, index| {
            Ok(Value::I64(low_64_bits(&pipeline.register_read(name, index)?)))
        }),
        "bm_register_read_all" => register_read_all(service, args),
        "bm_register_write" => register_write(service, args),
        "bm_register_write_range" => register_write_range(service, args),
        "bm_register_reset" => {
            let size = |pipeline: &Pipeline, name: &str| Ok(pipeline.register_info(name)?.0);
            for_each_cell(service, args, size, |pipeline, name, index| {
                pipeline.register_write(name, index, &[0])
            })
        }
        "bm_parse_vset_add" => on_value_set(service, args, value(args), |pipeline, name, value| {
            if pipeline.value_set_values(name)?.len() >= MAX_VALUES {
                return Err(TableError::Invalid(format!("value set {name} has {MAX_VALUES} values")));
            }
            pipeline.value_set_insert(name, &value)?;
            Ok(Value::Void)
        }),
        "bm_parse_vset_remove" => on_value_set(service, args, value(args), |pipeline, name, value| {
            pipeline.value_set_remove(name, &value)?;
            Ok(Value::Void)
        }),
        "bm_parse_vset_get" => on_value_set(service, args, Ok(()), |pipeline, name, ()| {
            let values = pipeline.value_set_values(name)?.into_iter().map(Value::Binary);
            Ok(Value::List(TType::String, values.collect()))
        }),
        "bm_parse_vset_clear" => on_value_set(service, args, Ok(()), |pipeline, name, ()| {
            pipeline.value_set_clear(name)?;
            Ok(Value::Void)
        }),
        "bm_set_crc16_custom_parameters" => set_crc(service, args, 16),
        "bm_set_crc32_custom_parameters" => set_crc(service, args, 32),
        "bm_set_toeplitz_hash_key" => toeplitz_key(service, args),
        _ => return None,
    };
    Some(answer)
}

fn error_code(error: &TableError) -> i32 {
    match error {
        TableError::Unknown { .. } => INVALID_NAME,
        TableError::OutOfBounds { .. } => INVALID_INDEX,
        _ => ERROR,
    }
}

/// Returns the index in field 3. As in BMv2, a negative index is read as a large unsigned one.
fn index(args: &Fields) -> thrift::Result<usize> {
    Ok(args.i32(3)? as u32 as usize)
}

/// Runs an operation on the array named in field 2.
fn on_array<R: Send + 'static>(
    service: &mut Service,
    args: &Fields,
    index: thrift::Result<usize>,
    operation: impl FnOnce(&mut Pipeline, &str, usize) -> Result<R, TableError> + Send + 'static,
) -> Result<R, CallError> {
    check_context(args)?;
    let (name, index) = (args.text(2)?, index?);
    service.on_pipeline(INVALID_NAME, error_code, move |pipeline| operation(pipeline, &name, index))
}

/// Runs an operation on every cell of the array named in field 2, in chunks so that frames are processed in between.
fn for_each_cell(
    service: &mut Service,
    args: &Fields,
    size: impl FnOnce(&Pipeline, &str) -> Result<usize, TableError> + Send + 'static,
    operation: impl Fn(&mut Pipeline, &str, usize) -> Result<(), TableError> + Copy + Send + 'static,
) -> CallResult {
    let cells = on_array(service, args, Ok(0), |pipeline, name, _| size(pipeline, name))?;
    for first in (0..cells).step_by(CELLS_AT_ONCE) {
        on_array(service, args, Ok(first), move |pipeline, name, first| {
            (first..cells.min(first + CELLS_AT_ONCE)).try_for_each(|index| operation(pipeline, name, index))
        })?;
    }
    Ok(Value::Void)
}

fn counter_write(service: &mut Service, args: &Fields) -> CallResult {
    let value = decode_counter(args.fields(4)?)?;
    on_array(service, args, index(args), move |pipeline, name, index| {
        pipeline.counter_write(name, index, value)?;
        Ok(Value::Void)
    })
}

// Meters.

/// Sets the rates of the cell with this index; `None`: of all cells.
fn set_rates(
    service: &mut Service,
    args: &Fields,
    rates_field: i16,
    index: Option<thrift::Result<usize>>,
) -> CallResult {
    let rates = decode_rates(args, rates_field)?;
    // Report an unknown meter before invalid rates.
    on_array(service, args, Ok(0), |pipeline, name, _| pipeline.meter_size(name))?;
    let rates = rates.map_err(CallError::Exception)?;
    match index {
        Some(index) => on_array(service, args, index, move |pipeline, name, index| {
            pipeline.meter_set_rates(name, index, Some(rates))?;
            Ok(Value::Void)
        }),
        None => for_each_cell(service, args, Pipeline::meter_size, move |pipeline, name, index| {
            pipeline.meter_set_rates(name, index, Some(rates))
        }),
    }
}

// Registers.

/// Returns the lowest 64 bits of a big-endian number.
fn low_64_bits(bytes: &[u8]) -> i64 {
    bytes.iter().fold(0, |value, &byte| value << 8 | i64::from(byte))
}

fn register_read_all(service: &mut Service, args: &Fields) -> CallResult {
    let cells = on_array(service, args, Ok(0), |pipeline, name, _| Ok(pipeline.register_info(name)?.0))?;
    let mut values = Vec::new();
    for first in (0..cells).step_by(CELLS_AT_ONCE) {
        values.extend(on_array(service, args, Ok(first), move |pipeline, name, first| {
            let cells = first..cells.min(first + CELLS_AT_ONCE);
            cells
                .map(|index| Ok(Value::I64(low_64_bits(&pipeline.register_read(name, index)?))))
                .collect::<Result<Vec<_>, _>>()
        })?);
    }
    Ok(Value::List(TType::I64, values))
}

/// Writes the low bits of a number that fit the register.
fn write_truncated(pipeline: &mut Pipeline, name: &str, index: usize, value: i64) -> Result<(), TableError> {
    let (_, bits) = pipeline.register_info(name)?;
    let truncated = if bits < i64::BITS { value & ((1 << bits) - 1) } else { value };
    pipeline.register_write(name, index, &truncated.to_be_bytes())
}

fn register_write(service: &mut Service, args: &Fields) -> CallResult {
    let value = args.i64(4)?;
    on_array(service, args, index(args), move |pipeline, name, index| {
        write_truncated(pipeline, name, index, value)?;
        Ok(Value::Void)
    })
}

/// Writes the cells from the index in field 3 up to, but not including, the one in field 4. Writes none if the range is
/// invalid.
fn register_write_range(service: &mut Service, args: &Fields) -> CallResult {
    let (end, value) = (args.i32(4)? as u32 as usize, args.i64(5)?);
    let (cells, first) = on_array(service, args, index(args), |pipeline, name, first| {
        Ok((pipeline.register_info(name)?.0, first))
    })?;
    if first > end || end > cells {
        return Err(CallError::Exception(INVALID_INDEX));
    }
    for first in (first..end).step_by(CELLS_AT_ONCE) {
        on_array(service, args, Ok(first), move |pipeline, name, first| {
            (first..end.min(first + CELLS_AT_ONCE))
                .try_for_each(|index| write_truncated(pipeline, name, index, value))
        })?;
    }
    Ok(Value::Void)
}

// Value sets.

fn value(args: &Fields) -> thrift::Result<Vec<u8>> {
    args.binary(3)
}

/// Runs an operation on the value set named in field 2.
fn on_value_set<A: Send + 'static>(
    service: &mut Service,
    args: &Fields,
    argument: thrift::Result<A>,
    operation: impl FnOnce(&mut Pipeline, &str, A) -> Result<Value, TableError> + Send + 'static,
) -> CallResult {
    check_context(args)?;
    let (name, argument) = (args.text(2)?, argument?);
    let code = |error: &TableError| match error {
        TableError::Unknown { .. } => INVALID_NAME,
        _ => VALUE_SET_ERROR,
    };
    service.on_pipeline(INVALID_NAME, code, move |pipeline| operation(pipeline, &name, argument))
}

// Hashes.

/// Sets the parameters of the custom CRC named in field 2 from a `BmCrc16Config` or `BmCrc32Config`. Thrift's integers
/// are signed; their bits are read as unsigned parameters.
fn set_crc(service: &mut Service, args: &Fields, width: u32) -> CallResult {
    check_context(args)?;
    let (name, config) = (args.text(2)?, args.fields(3)?);
    let number = |id| match width {
        16 => config.i16(id).map(|value| u32::from(value as u16)),
        _ => config.i32(id).map(|value| value as u32),
    };
    let parameters = CrcParameters {
        width,
        polynomial: number(1)?,
        initial: number(2)?,
        final_xor: number(3)?,
        reflect_input: config.bool(4)?,
        reflect_output: config.bool(5)?,
    };
    let code = |error: &TableError| match error {
        TableError::Unknown { .. } => INVALID_NAME,
        _ => WRONG_TYPE_CALCULATION,
    };
    service.on_pipeline(INVALID_NAME, code, move |pipeline| {
        pipeline.set_crc_parameters(&name, parameters)?;
        Ok(Value::Void)
    })
}

/// Rejects the key of a Toeplitz hash: no calculation has that algorithm, which the loader does not support.
fn toeplitz_key(service: &mut Service, args: &Fields) -> CallResult {
    check_context(args)?;
    let name = args.text(2)?;
    match service.on_program(INVALID_NAME, move |pipeline| pipeline.has_calculation(&name))? {
        true => Err(CallError::Exception(WRONG_TYPE_CALCULATION)),
        false => Err(CallError::Exception(INVALID_NAME)),
    }
}
