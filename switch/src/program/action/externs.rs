//! Registers, counters, meters, hashes, random numbers, log messages and assertions.

use super::{ActionCompiler, index_of_last};
use crate::program::error::LoadError;
use crate::program::expr::{BinOp, NumExpr};
use crate::program::json::JsonNode;
use crate::program::layout::SlotRef;
use crate::program::op::{LogMessage, Opcode, WideOp, WideOpcode, WideSlot};
use crate::program::source;

impl ActionCompiler<'_, '_> {
    /// Compiles the call of an extern; `false` if the primitive is another.
    pub(super) fn lower_extern(
        &mut self,
        name: &str,
        node: &JsonNode,
        parameters: &JsonNode,
    ) -> Result<bool, LoadError> {
        match name {
            "register_read" => {
                let [target, register, index] = parameters.tuple()?;
                self.lower_register_read(&target, &register, &index)?;
            }
            "register_write" => {
                let [register, index, value] = parameters.tuple()?;
                self.lower_register_write(&register, &index, &value)?;
            }
            "count" => {
                let [counter, index] = parameters.tuple()?;
                let names = self.declared.counters.iter().map(|array| array.name.as_str());
                let counter = index_of_last(&counter, "counter array", names)?;
                let index = self.lower_index(&index)?;
                self.builder.emit(Opcode::CounterCount, 64, 0, counter, index);
            }
            "execute_meter" => {
                let [meter, index, target] = parameters.tuple()?;
                let names = self.declared.meters.iter().map(|array| array.name.as_str());
                let meter = index_of_last(&meter, "meter array", names)?;
                let index = self.lower_index(&index)?;
                self.emit_in_out(&target, Opcode::MeterExecute, meter, index)?;
            }
            "modify_field_with_hash_based_offset" => {
                let [target, base, calculation, size] = parameters.tuple()?;
                self.lower_hash(&target, &base, &calculation, &size)?;
            }
            "modify_field_rng_uniform" => {
                let [target, low, high] = parameters.tuple()?;
                let (low, high) = (self.lower_index(&low)?, self.lower_index(&high)?);
                self.emit_in_out(&target, Opcode::Random, low, high)?;
            }
            "log_msg" => self.lower_log(parameters)?,
            "assert" | "assume" => {
                let [condition] = parameters.tuple()?;
                let condition = self.bindings.bool(&condition)?;
                let slot = self.builder.lower_bool(node, &condition)?;
                let text = match source::location(node.value) {
                    Some(location) => location.to_string(),
                    None => format!("{name} in {}", self.context),
                };
                let index = self.builder.assertion(text);
                self.builder.emit(Opcode::Assert, 64, 0, slot, index);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn lower_register_read(
        &mut self,
        target: &JsonNode,
        register: &JsonNode,
        index: &JsonNode,
    ) -> Result<(), LoadError> {
        let array = self.register_index(register)?;
        if self.declared.registers[usize::from(array)].bits <= 64 {
            let index = self.lower_index(index)?;
            return self.emit_in_out(target, Opcode::RegRead, array, index);
        }
        let value = NumExpr::Register { array, index: Box::new(self.bindings.num(index)?) };
        let dest = self.assign_target(target)?;
        self.assign(target, dest, &value)
    }

    fn lower_register_write(
        &mut self,
        register: &JsonNode,
        index: &JsonNode,
        value: &JsonNode,
    ) -> Result<(), LoadError> {
        let array = self.register_index(register)?;
        let bits = self.declared.registers[usize::from(array)].bits;
        let index = self.lower_index(index)?;
        let num = self.bindings.num(value)?;
        let limbs = bits.div_ceil(64) as u16;
        let slot = self.builder.temp(limbs);
        self.builder.assign(value, SlotRef::unsigned(slot, bits), &num)?;
        if limbs == 1 {
            // If the last operation is the `Mov` that `assign` has just emitted to the temporary, and it truncates
            // nothing (`clear_high` is 0), its source is stored directly, which saves the `Mov`. Any other
            // operation is put back.
            match self.builder.unlinked.code.pop() {
                Some(op) if op.opcode == Opcode::Mov && op.d == slot && op.clear_high == 0 => {
                    self.builder.emit(Opcode::RegWrite, 64, op.a, array, index);
                }
                Some(op) => {
                    self.builder.unlinked.code.push(op);
                    self.builder.emit(Opcode::RegWrite, 64, slot, array, index);
                }
                None => {}
            }
            return Ok(());
        }
        let a = WideSlot { slot, limbs, signed: false };
        let b = WideSlot { slot: index, limbs: 1, signed: false };
        self.builder.emit_wide_op(WideOp { kind: WideOpcode::RegWrite(array), bits, d: b, a, b });
        Ok(())
    }

    fn lower_hash(
        &mut self,
        target: &JsonNode,
        base: &JsonNode,
        calculation: &JsonNode,
        size: &JsonNode,
    ) -> Result<(), LoadError> {
        let names = self.declared.calculations.iter().map(|known| known.name.as_str());
        let calc = index_of_last(calculation, "calculation", names)?;
        let (base, size_num) = (self.bindings.num(base)?, self.bindings.num(size)?);
        let size = self.builder.lower_to_slot(size, &size_num)?;
        let slot = self.builder.temp(1);
        self.builder.emit(Opcode::Hash, 64, slot, calc, 0);
        match &size_num {
            NumExpr::Const(big) if big.to_u64().is_some_and(u64::is_power_of_two) => {
                let mask = self.builder.constant(big.to_u64().unwrap_or(1) - 1);
                self.builder.emit(Opcode::And, 64, slot, slot, mask);
            }
            // Modulo 0 gives 0. BMv2 has the same result: it treats a size of 0 as 1.
            _ => self.builder.emit(Opcode::Mod, 64, slot, slot, size),
        }
        let hashed = NumExpr::Slot(SlotRef::unsigned(slot, 64));
        let dest = self.assign_target(target)?;
        match &base {
            NumExpr::Const(big) if big.to_u64() == Some(0) => self.assign(target, dest, &hashed),
            _ => self.assign(target, dest, &NumExpr::Binary(BinOp::Add, Box::new(hashed), Box::new(base))),
        }
    }

    fn lower_log(&mut self, parameters: &JsonNode) -> Result<(), LoadError> {
        let [format, values] = parameters.tuple()?;
        let mut slots = Vec::new();
        // p4c writes an empty object instead of an empty list.
        let list = values.get("value")?;
        let is_empty = list.value.as_object().is_some_and(|members| members.is_empty());
        for value in if is_empty { Vec::new() } else { list.items()? } {
            let num = self.bindings.num(&value)?;
            slots.push(self.builder.lower_to_wide_slot(&value, &num)?);
        }
        let index = self.builder.unlinked.logs.len().min(usize::from(u16::MAX)) as u16;
        self.builder
            .unlinked
            .logs
            .push(LogMessage { format: format.get("value")?.str()?.to_string(), values: slots });
        self.builder.emit(Opcode::Log, 64, 0, index, 0);
        Ok(())
    }
}
