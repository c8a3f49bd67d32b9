//! Commands for counters, registers and meters.

use super::{Runner, TestTracer, hex, set_direct_meter_rates, to_error};
use crate::pipeline::{CounterValue, EntryHandle, MeterRates};
use crate::stf::ast::{Cell, Check, Command, CounterUnit};
use crate::stf::error::{Position, PositionedError};
use crate::stf::lexer::{Name, Number};
use crate::stf::names;
use crate::stf::outcome::{Failure, FailureKind};

impl<T: TestTracer> Runner<T> {
    /// Runs commands for counters, registers and meters.
    pub(super) fn execute_extern(
        &mut self,
        position: Position,
        command: Command,
    ) -> Result<(), PositionedError> {
        let pipeline = self.switch.pipeline_mut();
        match command {
            Command::CheckCounter { counter, cell, check } => {
                self.check_counter(position, &counter, cell, check)
            }
            Command::CounterWrite { counter, index, packets, bytes } => {
                let value = CounterValue { packets, bytes };
                pipeline.counter_write(&counter.text, index, value).map_err(to_error(counter.position))
            }
            Command::RegisterRead { register, index } => {
                let value =
                    pipeline.register_read(&register.text, index).map_err(to_error(register.position))?;
                self.notes.push(format!(
                    "line {}: {}[{index}] = {}",
                    position.line,
                    register.text,
                    hex(&value)
                ));
                Ok(())
            }
            Command::RegisterCheck { register, index, value } => {
                self.check_register(position, &register, index, &value)
            }
            Command::RegisterWrite { register, index, value } => pipeline
                .register_write(&register.text, index, &value.value)
                .map_err(to_error(register.position)),
            Command::RegisterReset { register } => {
                let (cells, _) =
                    pipeline.register_info(&register.text).map_err(to_error(register.position))?;
                for index in 0..cells {
                    pipeline
                        .register_write(&register.text, index, &[0])
                        .map_err(to_error(register.position))?;
                }
                Ok(())
            }
            Command::MeterRead { meter, index } => {
                let rates = match names::metered_table(&self.program, &meter) {
                    Some(table) => pipeline.direct_meter_rates(table, EntryHandle(index as u32)),
                    None => pipeline.meter_rates(&meter.text, index),
                };
                let rates = rates.map_err(to_error(meter.position))?;
                self.notes.push(format!("line {}: {}[{index}] = {rates:?}", position.line, meter.text));
                Ok(())
            }
            Command::MeterSet { meter, index, committed, peak } => {
                const US_PER_SECOND: f64 = 1e6;
                let rates = MeterRates {
                    cir: (committed.per_us * US_PER_SECOND).round() as u64,
                    cburst: committed.burst,
                    pir: (peak.per_us * US_PER_SECOND).round() as u64,
                    pburst: peak.burst,
                };
                if let Some(table) = names::metered_table(&self.program, &meter) {
                    return set_direct_meter_rates(pipeline, table, &meter, index, rates);
                }
                let cells = match index {
                    Some(index) => index..index + 1,
                    None => 0..pipeline.meter_size(&meter.text).map_err(to_error(meter.position))?,
                };
                for index in cells {
                    pipeline
                        .meter_set_rates(&meter.text, index, Some(rates))
                        .map_err(to_error(meter.position))?;
                }
                Ok(())
            }
            // All other commands have been handled by the callers.
            _ => Ok(()),
        }
    }

    fn check_counter(
        &mut self,
        position: Position,
        counter: &Name,
        cell: Cell,
        check: Option<Check>,
    ) -> Result<(), PositionedError> {
        let pipeline = self.switch.pipeline();
        let (value, cell) = match cell {
            Cell::Index(index) => {
                let value =
                    pipeline.counter_read(&counter.text, index).map_err(to_error(counter.position))?;
                (value, index.to_string())
            }
            Cell::Alias(name) => {
                let alias = name.text.trim_start_matches('$');
                let Some(&(table, entry)) = self.aliases.get(alias) else {
                    let message = format!("no entry is named {alias:?}; name one with `add ... = {alias}`");
                    return Err((name.position, message));
                };
                let value = pipeline.direct_counter_read(table, entry).map_err(to_error(name.position))?;
                (value, alias.to_owned())
            }
        };
        let name = format!("{}({cell})", counter.text);
        let Some(Check { unit, relation, value: expected }) = check else {
            let CounterValue { packets, bytes } = value;
            self.notes.push(format!("line {}: {name} = {packets} packets, {bytes} bytes", position.line));
            return Ok(());
        };
        let (actual, unit) = match unit {
            CounterUnit::Packets => (value.packets, "packets"),
            CounterUnit::Bytes => (value.bytes, "bytes"),
        };
        let holds = match relation {
            "==" => actual == expected,
            "!=" => actual != expected,
            "<" => actual < expected,
            "<=" => actual <= expected,
            ">" => actual > expected,
            _ => actual >= expected,
        };
        if !holds {
            let what = format!("{name} counted {actual} {unit}, expected {relation} {expected}");
            self.failures.push(Failure { line: position.line, kind: FailureKind::Value(what) });
        }
        Ok(())
    }

    fn check_register(
        &mut self,
        position: Position,
        register: &Name,
        index: usize,
        number: &Number,
    ) -> Result<(), PositionedError> {
        let pipeline = self.switch.pipeline();
        let (_, bits) = pipeline.register_info(&register.text).map_err(to_error(register.position))?;
        let actual = pipeline.register_read(&register.text, index).map_err(to_error(register.position))?;
        let expected = names::to_width(number, &register.text, bits)?;
        if !names::matches_masked(&actual, &expected, number.mask.as_deref()) {
            let name = &register.text;
            let what = format!("{name}[{index}] is {}, expected {}", hex(&actual), hex(&expected));
            self.failures.push(Failure { line: position.line, kind: FailureKind::Value(what) });
        }
        Ok(())
    }
}
