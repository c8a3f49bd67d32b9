//! Lowers the operations of a program to Cranelift IR. Actions are inlined where their table is applied.

mod tables;

use super::abi::{CallFrame, CrcTables, EXIT_ACTION_LOOP, EXIT_ASSERTION};
use super::code::Unsupported;
use super::code_worklist::{InlineInstance, ReturnTarget};
use super::emitter::{BYTES, CELLS, Emitter, readonly};
use super::slot_storage::needs_helper;
use crate::program::externs::RegisterArray;
use crate::program::hash::MAX_HASH_BYTES;
use crate::program::layout::VALID_SLOT;
use crate::program::limbs::limb_count;
use crate::program::op::{LOOP_BUDGET, Op, Opcode, Pc, Slot};
use crate::program::signatures::TableId;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::Variable;
use std::mem::offset_of;

impl Emitter<'_, '_> {
    /// Emits the code at `start` and all code that it reaches. After its `End`, control continues at the block `end`.
    pub(super) fn emit_code(&mut self, start: Pc, end: Block) -> Result<(), Unsupported> {
        let budget = self.iconst(u64::from(LOOP_BUDGET));
        self.builder.def_var(self.code_worklist.budget, budget);
        let instance = self.add_instance(InlineInstance { end, return_target: None });
        let first = self.block_of(start, instance);
        self.jump(first);
        while let Some((pc, instance)) = self.code_worklist.waiting.pop() {
            let block = self.block_of(pc, instance);
            self.switch_to(block);
            self.emit_straight_line(pc, instance)?;
        }
        Ok(())
    }

    /// Emits the subtraction of a cost from a budget. If the budget is exhausted, the code returns with the exit code
    /// `exit`.
    pub(super) fn emit_budget_check(&mut self, budget: Variable, cost: u32, exit: u64) {
        let (remaining, cost) = (self.builder.use_var(budget), self.iconst(u64::from(cost)));
        let is_enough = self.compare(IntCC::UnsignedGreaterThan, remaining, cost);
        let (next, exhausted) = (self.builder.create_block(), self.create_cold_block());
        self.brif(is_enough, next, exhausted);
        self.switch_to(exhausted);
        self.emit_return(exit);
        self.switch_to(next);
        let remaining = self.builder.ins().isub(remaining, cost);
        self.builder.def_var(budget, remaining);
    }

    fn add_instance(&mut self, instance: InlineInstance) -> usize {
        self.code_worklist.instances.push(instance);
        self.code_worklist.instances.len() - 1
    }

    /// Returns the block of an operation of an inlined instance. The first call also adds it to the worklist.
    fn block_of(&mut self, pc: Pc, instance: usize) -> Block {
        if let Some(block) = self.code_worklist.blocks.get(&(pc, instance)) {
            return *block;
        }
        let block = self.builder.create_block();
        self.code_worklist.blocks.insert((pc, instance), block);
        self.code_worklist.waiting.push((pc, instance));
        block
    }

    /// Emits operations up to the next jump target.
    fn emit_straight_line(&mut self, mut pc: Pc, instance: usize) -> Result<(), Unsupported> {
        loop {
            let op = *self.program.code.get(usize::from(pc)).ok_or(Unsupported)?;
            if self.emit_op_or_terminator(pc, &op, instance)? {
                return Ok(());
            }
            pc += 1;
            if self.targets.contains(&pc) {
                let next = self.block_of(pc, instance);
                self.jump(next);
                return Ok(());
            }
        }
    }

    /// Emits one operation. Returns true if it terminates the block.
    fn emit_op_or_terminator(&mut self, pc: Pc, op: &Op, instance: usize) -> Result<bool, Unsupported> {
        let InlineInstance { end, return_target } = self.code_worklist.instances[instance];
        let jump = match op.opcode {
            Opcode::JumpZ => Some((IntCC::Equal, None)),
            Opcode::JumpNz => Some((IntCC::NotEqual, None)),
            Opcode::JumpEq => Some((IntCC::Equal, Some(op.b))),
            Opcode::JumpNe => Some((IntCC::NotEqual, Some(op.b))),
            Opcode::JumpLt => Some((IntCC::UnsignedLessThan, Some(op.b))),
            Opcode::JumpLe => Some((IntCC::UnsignedLessThanOrEqual, Some(op.b))),
            _ => None,
        };
        if let Some((cc, b)) = jump {
            let a = self.use_slot(op.a);
            let b = match b {
                Some(slot) => self.use_slot(slot),
                None => self.iconst(0),
            };
            let (then, otherwise) = (self.block_of(op.d, instance), self.block_of(pc + 1, instance));
            let condition = self.compare(cc, a, b);
            self.brif(condition, then, otherwise);
            return Ok(true);
        }
        match op.opcode {
            Opcode::Jump => {
                let target = self.block_of(op.d, instance);
                self.jump(target);
            }
            Opcode::JumpBack => {
                let target = self.block_of(op.d, instance);
                self.emit_budget_check(self.code_worklist.budget, u32::from(op.a), EXIT_ACTION_LOOP);
                self.jump(target);
            }
            Opcode::End => self.jump(end),
            Opcode::EndIfExit => {
                let exit = self.use_slot(op.a);
                let next = self.block_of(pc + 1, instance);
                self.brif(exit, end, next);
            }
            Opcode::Return => {
                let ReturnTarget { instance, hit, miss, entry } = return_target.ok_or(Unsupported)?;
                let (on_hit, on_miss) = (self.block_of(hit, instance), self.block_of(miss, instance));
                match hit == miss {
                    true => self.jump(on_hit),
                    false => self.brif(entry, on_hit, on_miss),
                }
            }
            Opcode::ApplyTable => self.emit_table(TableId(op.a), instance)?,
            _ => {
                self.emit_op(pc, op)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn emit_op(&mut self, pc: Pc, op: &Op) -> Result<(), Unsupported> {
        if needs_helper(self.program, op) {
            match op.opcode {
                Opcode::Hash => {
                    let index = self.iconst(u64::from(op.a));
                    let call = self.call_helper(self.helpers.hash, &[index], 1);
                    let value = self.result(call, 0);
                    let value = self.truncate(value, op.clear_high);
                    self.def_slot(op.d, value);
                }
                _ => {
                    let pc = self.iconst(u64::from(pc));
                    self.call_helper(self.helpers.exec_op, &[pc], 0);
                }
            }
            return Ok(());
        }
        match op.opcode {
            // Only traces show log messages, and the interpreter runs traced packets.
            Opcode::Log => return Ok(()),
            Opcode::Assert => {
                self.emit_assertion(pc, op);
                return Ok(());
            }
            Opcode::SetValid => return self.emit_set_valid(op),
            Opcode::SetInvalid => return self.emit_set_invalid(op),
            Opcode::RegRead | Opcode::RegWrite => return self.emit_register_access(op),
            Opcode::CounterCount => {
                let (array, index) = (self.iconst(u64::from(op.a)), self.use_slot(op.b));
                self.call_helper(self.helpers.count_packet, &[array, index], 0);
                return Ok(());
            }
            _ => {}
        }
        let value = self.compute(op)?;
        self.def_slot(op.d, value);
        Ok(())
    }

    /// Emits an assertion. If it fails, a helper records the failure and the code returns [`EXIT_ASSERTION`].
    fn emit_assertion(&mut self, pc: Pc, op: &Op) {
        let holds = self.use_slot(op.a);
        let (next, failed) = (self.builder.create_block(), self.create_cold_block());
        self.brif(holds, next, failed);
        self.switch_to(failed);
        let pc = self.iconst(u64::from(pc));
        self.call_helper(self.helpers.exec_op, &[pc], 0);
        self.emit_return(EXIT_ASSERTION);
        self.switch_to(next);
    }

    /// Emits an operation that only computes a value. Returns the value of its destination.
    fn compute(&mut self, op: &Op) -> Result<Value, Unsupported> {
        let zero = self.iconst(0);
        let value = match op.opcode {
            Opcode::Mov => self.use_slot(op.a),
            Opcode::MovIf => {
                let (new, old, condition) = (self.use_slot(op.a), self.use_slot(op.d), self.use_slot(op.b));
                let new = self.truncate(new, op.clear_high);
                return Ok(self.builder.ins().select(condition, new, old));
            }
            Opcode::Hash => self.emit_byte_hash(usize::from(op.a))?,
            Opcode::Not => {
                let a = self.use_slot(op.a);
                self.builder.ins().bnot(a)
            }
            Opcode::Sext => {
                let (a, shift) = (self.use_slot(op.a), i64::from(op.clear_high & 63));
                let high = self.builder.ins().ishl_imm(a, shift);
                return Ok(self.builder.ins().sshr_imm(high, shift));
            }
            Opcode::SatU | Opcode::SatS => {
                let max = if op.opcode == Opcode::SatU { u64::MAX } else { i64::MAX as u64 }
                    >> (op.clear_high & 63);
                let min = if op.opcode == Opcode::SatU { 0 } else { (-(max as i64) - 1) as u64 };
                let a = self.use_slot(op.a);
                let (min, max) = (self.iconst(min), self.iconst(max));
                let below = self.compare(IntCC::SignedLessThan, a, min);
                // For `SatU`, values that are not negative compare the same signed and unsigned, and a negative
                // value is replaced by the second select. Only the unsigned comparison is right for a bound of
                // 2^64 - 1.
                let cc = match op.opcode {
                    Opcode::SatU => IntCC::UnsignedGreaterThan,
                    _ => IntCC::SignedGreaterThan,
                };
                let above = self.compare(cc, a, max);
                let at_most_max = self.builder.ins().select(above, max, a);
                return Ok(self.builder.ins().select(below, min, at_most_max));
            }
            Opcode::IsZero | Opcode::IsNonZero => {
                let a = self.use_slot(op.a);
                let cc = if op.opcode == Opcode::IsZero { IntCC::Equal } else { IntCC::NotEqual };
                let comparison = self.compare(cc, a, zero);
                return Ok(self.bool_to_i64(comparison));
            }
            _ => {
                let (a, b) = (self.use_slot(op.a), self.use_slot(op.b));
                let comparison = match op.opcode {
                    Opcode::Eq => Some(IntCC::Equal),
                    Opcode::LtU => Some(IntCC::UnsignedLessThan),
                    Opcode::LeU => Some(IntCC::UnsignedLessThanOrEqual),
                    Opcode::LtS => Some(IntCC::SignedLessThan),
                    Opcode::LeS => Some(IntCC::SignedLessThanOrEqual),
                    _ => None,
                };
                if let Some(cc) = comparison {
                    let comparison = self.compare(cc, a, b);
                    return Ok(self.bool_to_i64(comparison));
                }
                match op.opcode {
                    Opcode::Add => self.builder.ins().iadd(a, b),
                    Opcode::Sub => self.builder.ins().isub(a, b),
                    Opcode::Mul => self.builder.ins().imul(a, b),
                    Opcode::And => self.builder.ins().band(a, b),
                    Opcode::Or => self.builder.ins().bor(a, b),
                    Opcode::Xor => self.builder.ins().bxor(a, b),
                    Opcode::Div | Opcode::Mod => {
                        // Division by 0 would raise a CPU exception, and P4 programs get 0.
                        let one = self.iconst(1);
                        let divisor = self.builder.ins().select(b, b, one);
                        let result = match op.opcode {
                            Opcode::Div => self.builder.ins().udiv(a, divisor),
                            _ => self.builder.ins().urem(a, divisor),
                        };
                        self.builder.ins().select(b, result, zero)
                    }
                    Opcode::Shl | Opcode::Shr | Opcode::Sar => self.emit_shift(op, a, b),
                    _ => return Err(Unsupported),
                }
            }
        };
        Ok(self.truncate(value, op.clear_high))
    }

    /// Emits a shift that is defined for every amount; Cranelift's shifts use the amount modulo 64.
    fn emit_shift(&mut self, op: &Op, a: Value, b: Value) -> Value {
        const MAX_SHIFT: u64 = 63;
        let max = self.iconst(MAX_SHIFT);
        let fits = self.compare(IntCC::UnsignedLessThanOrEqual, b, max);
        if op.opcode == Opcode::Sar {
            let amount = self.builder.ins().select(fits, b, max);
            return self.builder.ins().sshr(a, amount);
        }
        let shifted = match op.opcode {
            Opcode::Shl => self.builder.ins().ishl(a, b),
            _ => self.builder.ins().ushr(a, b),
        };
        if self.program.const_value(op.b).is_some_and(|amount| amount <= MAX_SHIFT) {
            return shifted;
        }
        let zero = self.iconst(0);
        self.builder.ins().select(fits, shifted, zero)
    }

    /// Makes a header valid. As in BMv2, a header that was invalid is cleared.
    fn emit_set_valid(&mut self, op: &Op) -> Result<(), Unsupported> {
        let base = self.program.const_base(op.a).ok_or(Unsupported)?;
        let header = &self.program.header_ops[usize::from(op.b)];
        let valid = self.use_slot(base + VALID_SLOT);
        let (was_invalid, next) = (self.builder.create_block(), self.builder.create_block());
        self.brif(valid, next, was_invalid);
        self.switch_to(was_invalid);
        for slot in base..base + header.slots {
            self.set_imm(slot, u64::from(slot == base + VALID_SLOT));
        }
        let length = self.load_length();
        let length = self.add_imm(length, u64::from(header.bytes));
        self.store_length(length);
        for offset in &header.union_member_offsets {
            let sibling = Slot::try_from(i32::from(base) + offset).map_err(|_| Unsupported)?;
            self.set_imm(sibling + VALID_SLOT, 0);
        }
        self.jump(next);
        self.switch_to(next);
        Ok(())
    }

    fn emit_set_invalid(&mut self, op: &Op) -> Result<(), Unsupported> {
        let base = self.program.const_base(op.a).ok_or(Unsupported)?;
        let bytes = u64::from(self.program.header_ops[usize::from(op.b)].bytes);
        let valid = self.use_slot(base + VALID_SLOT);
        let (was_valid, next) = (self.builder.create_block(), self.builder.create_block());
        self.brif(valid, was_valid, next);
        self.switch_to(was_valid);
        self.set_imm(base + VALID_SLOT, 0);
        // The length saturates at 0.
        let length = self.load_length();
        let shorter = self.add_imm(length, bytes.wrapping_neg());
        let bytes = self.iconst(bytes);
        let fits = self.compare(IntCC::UnsignedGreaterThanOrEqual, length, bytes);
        let zero = self.iconst(0);
        let length = self.builder.ins().select(fits, shorter, zero);
        self.store_length(length);
        self.jump(next);
        self.switch_to(next);
        Ok(())
    }

    fn load_length(&mut self) -> Value {
        let length = self.load_call_field(types::I32, offset_of!(CallFrame, length));
        self.builder.ins().uextend(types::I64, length)
    }

    fn store_length(&mut self, length: Value) {
        let length = self.builder.ins().ireduce(types::I32, length);
        self.store_call_field(length, offset_of!(CallFrame, length));
    }

    /// Emits an access to a register without a branch on the index. Out of bounds, a read leaves the
    /// destination unchanged and a write goes to [`CallFrame::discard`].
    fn emit_register_access(&mut self, op: &Op) -> Result<(), Unsupported> {
        let array = &self.program.registers[usize::from(op.a)];
        if array.size == 0 {
            return Ok(());
        }
        let words = self.program.register_words;
        if limb_count(array.bits) != 1 || array.base + (array.size - 1) * array.stride >= words {
            return Err(Unsupported);
        }
        let cells = self.load_pointer(offset_of!(CallFrame, registers));
        if self.is_always_below(op.b, array.size) {
            // The field's width already bounds the index. The mask repeats the bound, so that memory safety does not
            // depend on the value of the slot.
            let index = self.use_slot(op.b);
            let index = self.mask(index, array.size as u64 - 1);
            let cell = self.cell_address(cells, index, array);
            if op.opcode == Opcode::RegRead {
                let read = self.builder.ins().load(types::I64, CELLS, cell, 0);
                let read = self.truncate(read, op.clear_high);
                self.def_slot(op.d, read);
            } else {
                let value = self.use_slot(op.d);
                self.builder.ins().store(CELLS, value, cell, 0);
            }
            return Ok(());
        }
        let (index, size) = (self.use_slot(op.b), self.iconst(array.size as u64));
        let is_in_bounds = self.compare(IntCC::UnsignedLessThan, index, size);
        let value = self.use_slot(op.d);
        if op.opcode == Opcode::RegRead {
            let zero = self.iconst(0);
            let index = self.builder.ins().select(is_in_bounds, index, zero);
            let cell = self.cell_address(cells, index, array);
            let read = self.builder.ins().load(types::I64, CELLS, cell, 0);
            let read = self.truncate(read, op.clear_high);
            let value = self.builder.ins().select(is_in_bounds, read, value);
            self.def_slot(op.d, value);
        } else {
            let cell = self.cell_address(cells, index, array);
            let discard = self.add_imm(self.call_frame, offset_of!(CallFrame, discard) as u64);
            let cell = self.builder.ins().select(is_in_bounds, cell, discard);
            self.builder.ins().store(CELLS, value, cell, 0);
        }
        Ok(())
    }

    /// Returns whether `size` is a power of two and every value of the slot's field is below it: a mask then
    /// replaces the bounds check.
    fn is_always_below(&self, slot: Slot, size: usize) -> bool {
        let field = self.program.layout.field_at(slot).map(|(_, field)| field);
        let field = field.filter(|field| field.slot_count == 1 && !field.signed && !field.is_varbit);
        size.is_power_of_two() && field.is_some_and(|field| field.bits <= size.ilog2())
    }

    fn cell_address(&mut self, cells: Value, index: Value, array: &RegisterArray) -> Value {
        let offset = self.builder.ins().imul_imm(index, array.stride as i64 * 8);
        let cell = self.builder.ins().iadd(cells, offset);
        self.add_imm(cell, array.base as u64 * 8)
    }

    /// Emits a calculation over its [`byte_fields`](crate::program::Calculation::byte_fields). Returns its value.
    fn emit_byte_hash(&mut self, index: usize) -> Result<Value, Unsupported> {
        let calculation = &self.program.calculations[index];
        let fields = calculation.byte_fields.as_ref().ok_or(Unsupported)?;
        let len = fields.iter().map(|(_, bytes)| usize::from(*bytes)).sum::<usize>();
        if len > MAX_HASH_BYTES {
            return Err(Unsupported);
        }
        if len <= CrcTables::MAX_BYTES
            && let Some(crc_tables) = (self.helpers.crc_tables)(calculation.algorithm)
        {
            return Ok(self.emit_crc(crc_tables, fields, len));
        }
        // The input is stored in whole words: a load that spans several smaller stores cannot be forwarded
        // from the store buffer and stalls.
        let (mut word, mut offset) = (self.iconst(0), 0);
        for (slot, bytes) in fields {
            let value = self.use_slot(*slot);
            let value = self.shift_left(value, 64 - 8 * u32::from(*bytes));
            let (before, after) = (offset % 8, offset % 8 + usize::from(*bytes));
            let first = self.shift_right(value, 8 * before as u32);
            word = self.builder.ins().bor(word, first);
            if after >= 8 {
                self.store_hash_input(word, offset);
                word =
                    if after > 8 { self.shift_left(value, 8 * (8 - before) as u32) } else { self.iconst(0) };
            }
            offset += usize::from(*bytes);
        }
        if offset % 8 > 0 {
            self.store_hash_input(word, offset);
        }
        let (index, len) = (self.iconst(index as u64), self.iconst(len as u64));
        let call = self.call_helper(self.helpers.digest, &[index, len], 1);
        Ok(self.result(call, 0))
    }

    /// Emits a CRC: that of `len` zero bytes, XORed with one table value per byte. A CRC is affine in its input, so the
    /// contribution of a byte depends only on its value and its distance from the end.
    fn emit_crc(&mut self, crc_tables: &'static CrcTables, fields: &[(Slot, u8)], len: usize) -> Value {
        let (mut following, tables) = (len, self.iconst(crc_tables.byte_contributions.as_ptr() as u64));
        let mut sum = self.builder.ins().iconst(types::I32, i64::from(crc_tables.zeros[len]));
        for (slot, bytes) in fields {
            let value = self.use_slot(*slot);
            for byte in (0..u32::from(*bytes)).rev() {
                following -= 1;
                let byte = self.shift_right(value, 8 * byte);
                let byte = self.mask(byte, u64::from(u8::MAX));
                let offset = self.shift_left(byte, size_of::<u32>().ilog2());
                let address = self.builder.ins().iadd(tables, offset);
                let table = (following * size_of_val(&crc_tables.byte_contributions[0])) as i32;
                let contribution = self.builder.ins().load(types::I32, readonly(CELLS), address, table);
                sum = self.builder.ins().bxor(sum, contribution);
            }
        }
        self.builder.ins().uextend(types::I64, sum)
    }

    /// Stores the word of a hash's input that contains byte `offset`.
    fn store_hash_input(&mut self, word: Value, offset: usize) {
        let (word, input) = (self.builder.ins().bswap(word), self.load_pointer(offset_of!(CallFrame, bytes)));
        self.builder.ins().store(BYTES, word, input, (offset / 8 * 8) as i32);
    }
}
