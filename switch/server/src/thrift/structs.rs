//! Structs of standard.thrift that several files encode or decode.

use super::value::{Fields, Value};
use thrift::protocol::TType;
use weir_switch::pipeline::{CounterValue, MeterRates};

/// `MeterOperationErrorCode`.
const BAD_RATES_LIST: i32 = 3;
const INVALID_INFO_RATE_VALUE: i32 = 4;
const INVALID_BURST_SIZE_VALUE: i32 = 5;

/// Thrift has meter rates per microsecond, the pipeline per second.
const US_PER_SECOND: f64 = 1e6;

/// Encodes `BmActionData`. Leading zero bytes are removed, as in BMv2.
pub(super) fn encode_action_data(args: &[Vec<u8>]) -> Value {
    let trimmed = |arg: &Vec<u8>| {
        let zeros = arg.iter().take_while(|byte| **byte == 0).count().min(arg.len().saturating_sub(1));
        Value::Binary(arg[zeros..].to_vec())
    };
    Value::List(TType::String, args.iter().map(trimmed).collect())
}

/// Encodes `BmCounterValue`.
pub(super) fn encode_counter(value: CounterValue) -> Value {
    Value::structure([(1, Value::I64(value.bytes as i64)), (2, Value::I64(value.packets as i64))])
}

/// Decodes `BmCounterValue`.
pub(super) fn decode_counter(value: &Fields) -> thrift::Result<CounterValue> {
    Ok(CounterValue { bytes: value.i64(1)? as u64, packets: value.i64(2)? as u64 })
}

/// Decodes a list of two `BmMeterRateConfig`. The inner error is a code of `MeterOperationErrorCode`.
pub(super) fn decode_rates(args: &Fields, id: i16) -> thrift::Result<Result<MeterRates, i32>> {
    let mut rates = Vec::new();
    for rate in args.structs(id)? {
        rates.push((rate.double(1)? * US_PER_SECOND, rate.i32(2)?));
    }
    let [(cir, cburst), (pir, pburst)] = rates[..] else { return Ok(Err(BAD_RATES_LIST)) };
    if !(0.0..=pir).contains(&cir) || !pir.is_finite() {
        return Ok(Err(INVALID_INFO_RATE_VALUE));
    }
    let (Ok(cburst), Ok(pburst)) = (u64::try_from(cburst), u64::try_from(pburst)) else {
        return Ok(Err(INVALID_BURST_SIZE_VALUE));
    };
    Ok(Ok(MeterRates { cir: cir.round() as u64, cburst, pir: pir.round() as u64, pburst }))
}

/// Encodes a list of `BmMeterRateConfig`; empty for a meter without rates.
pub(super) fn encode_rates(rates: Option<MeterRates>) -> Value {
    let rate = |rate: u64, burst: u64| {
        let burst = i32::try_from(burst).unwrap_or(i32::MAX);
        Value::structure([(1, Value::Double(rate as f64 / US_PER_SECOND)), (2, Value::I32(burst))])
    };
    let both = rates.map(|rates| [rate(rates.cir, rates.cburst), rate(rates.pir, rates.pburst)]);
    Value::List(TType::Struct, both.into_iter().flatten().collect())
}
