//! Lowers the operations of a program to Cranelift IR. Actions are inlined where their table is applied.

use super::abi::{
    CallFrame, CrcTables, EXIT_ACTION_LOOP, EXIT_ASSERTION, NativeTable, ROW_ACTION_SHIFT, ROW_NEXT_SHIFT,
    row_actions,
};
use super::code::Unsupported;
use super::code_worklist::{InlineInstance, ReturnTarget};
use super::emitter::{BYTES, CALL, CELLS, Emitter, readonly};
use super::key_cache::KeyCacheFormat;
use super::slot_storage::needs_helper;
use crate::program::externs::RegisterArray;
use crate::program::hash::MAX_HASH_BYTES;
use crate::program::id_vec::Id as _;
use crate::program::layout::VALID_SLOT;
use crate::program::limbs::{limb_count, low_mask};
use crate::program::op::{LOOP_BUDGET, Op, Opcode, Pc, Slot};
use crate::program::signatures::TableId;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Type, Value, types};
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

    /// Loads the field at byte `offset` of a [`NativeTable`].
    fn load_table_field(&mut self, table: TableId, ty: Type, offset: usize) -> Value {
        let tables = self.load_pointer(offset_of!(CallFrame, tables));
        let offset = table.index() * size_of::<NativeTable>() + offset;
        self.builder.ins().load(ty, readonly(CALL), tables, offset as i32)
    }

    /// Returns the address of an entry's row.
    fn row_address(&mut self, table: TableId, entry: Value) -> Value {
        let rows = self.load_table_field(table, types::I64, offset_of!(NativeTable, rows));
        let offset =
            self.builder.ins().imul_imm(entry, 8 * (1 + self.program.tables[table].max_arg_words as i64));
        self.builder.ins().iadd(rows, offset)
    }

    /// Emits the lookup of a key of one word: in the entries of small keys, then in the key cache, then with a
    /// helper. Returns the address of the row, and the entry.
    fn emit_lookup(&mut self, id: TableId, word: Value) -> (Value, Value) {
        let table = &self.program.tables[id];
        let found = self.builder.create_block();
        let results = [(); 2].map(|()| self.builder.append_block_param(found, types::I64));
        if table.is_exact() {
            let len = self.load_table_field(id, types::I64, offset_of!(NativeTable, len));
            let is_small = self.compare(IntCC::UnsignedLessThan, word, len);
            let (small, other) = (self.builder.create_block(), self.builder.create_block());
            self.brif(is_small, small, other);
            self.switch_to(small);
            let entries = self.load_table_field(id, types::I64, offset_of!(NativeTable, entries));
            let offset = self.shift_left(word, size_of::<u32>().ilog2());
            let address = self.builder.ins().iadd(entries, offset);
            let entry = self.builder.ins().load(types::I32, CELLS, address, 0);
            let entry = self.builder.ins().uextend(types::I64, entry);
            let row = self.row_address(id, entry);
            self.builder.ins().jump(found, &[row.into(), entry.into()]);
            self.switch_to(other);
        }
        if !table.has_key_cache() {
            // `entries` has every key that has an entry, so any other key misses.
            let miss = self.iconst(0);
            let row = self.row_address(id, miss);
            self.builder.ins().jump(found, &[row.into(), miss.into()]);
        } else {
            let cached = self.builder.create_block();
            let entry = self.builder.append_block_param(cached, types::I64);
            let format = table.key_cache_format();
            let multiplier = self.iconst(KeyCacheFormat::HASH_MULTIPLIER);
            let slot = self.builder.ins().imul(word, multiplier);
            let slot = self.shift_right(slot, format.hash_shift());
            self.emit_cache_probe((id, format), (word, slot), cached);
            let neighbour = self.builder.ins().bxor_imm(slot, 1);
            self.emit_cache_probe((id, format), (word, neighbour), cached);
            let table = self.iconst(id.0.into());
            let call = self.call_helper(self.helpers.lookup_word, &[table, word], 2);
            let results = [self.result(call, 0), self.result(call, 1)];
            self.builder.ins().jump(found, &results.map(BlockArg::from));
            self.switch_to(cached);
            let row = self.row_address(id, entry);
            self.builder.ins().jump(found, &[row.into(), entry.into()]);
        }
        self.switch_to(found);
        results.into()
    }

    /// Emits a jump to `cached` with the entry of `key`, taken if the key is in slot `slot` of the table's key
    /// cache.
    fn emit_cache_probe(
        &mut self,
        (table, format): (TableId, KeyCacheFormat),
        (key, slot): (Value, Value),
        cached: Block,
    ) {
        let offset = self.shift_left(slot, (8 * format.slot_words()).ilog2());
        let key_cache = self.load_table_field(table, types::I64, offset_of!(NativeTable, key_cache));
        let key_cache = self.builder.ins().iadd(key_cache, offset);
        let first = self.builder.ins().load(types::I64, CELLS, key_cache, 0);
        let cached_key = match format {
            KeyCacheFormat::Narrow => self.shift_right(first, KeyCacheFormat::NARROW_BITS),
            KeyCacheFormat::Wide => first,
        };
        let (hit, other) = (self.builder.create_block(), self.builder.create_block());
        let is_equal = self.compare(IntCC::Equal, key, cached_key);
        self.brif(is_equal, hit, other);
        self.switch_to(hit);
        let entry = match format {
            KeyCacheFormat::Narrow => self.mask(first, low_mask(KeyCacheFormat::NARROW_BITS)),
            KeyCacheFormat::Wide => self.builder.ins().load(types::I64, CELLS, key_cache, 8),
        };
        self.builder.ins().jump(cached, &[entry.into()]);
        self.switch_to(other);
    }

    /// Emits the application of a table: the lookup, the inlined actions, and the jump to the next node.
    fn emit_table(&mut self, id: TableId, instance: usize) -> Result<(), Unsupported> {
        let table = &self.program.tables[id];
        let key_layout = &table.key_layout;
        let zero = self.iconst(0);
        let mut words = vec![zero; key_layout.words];
        for part in &key_layout.segments {
            let value = self.use_slot(part.slot);
            let value = self.mask(value, part.mask);
            let value = self.shift_left(value, u32::from(part.shift));
            let word = &mut words[usize::from(part.word)];
            *word = self.builder.ins().bor(*word, value);
        }
        let (row, entry) = match words.as_slice() {
            // A table without a key always misses: entry 0, the first row.
            [] if !table.needs_slow_apply => {
                (self.load_table_field(id, types::I64, offset_of!(NativeTable, rows)), zero)
            }
            [word] if !table.needs_slow_apply => self.emit_lookup(id, *word),
            words => {
                for (position, word) in words.iter().enumerate() {
                    self.store_key(position, *word)?;
                }
                let table = self.iconst(id.0.into());
                let call = self.call_helper(self.helpers.lookup_key, &[table], 2);
                (self.result(call, 0), self.result(call, 1))
            }
        };
        // Rows do not change while code runs, so loads of their words may move. For a table that needs the slow path,
        // the helper copies the row to a scratch buffer, which the next application overwrites: these loads must not
        // move.
        let flags = if table.needs_slow_apply { CELLS } else { readonly(CELLS) };
        let first_word = self.builder.ins().load(types::I64, flags, row, 0);
        let row_action = self.shift_right(first_word, ROW_ACTION_SHIFT);
        let actions = row_actions(self.program, table);
        for (position, action) in (1u64..).zip(&actions) {
            let next = |is_hit| table.successor(*action, is_hit);
            let return_target = ReturnTarget { instance, hit: next(true), miss: next(false), entry };
            let inlined = self.add_instance(InlineInstance {
                end: self.code_worklist.instances[instance].end,
                return_target: Some(return_target),
            });
            let (start, other) = (self.builder.create_block(), self.builder.create_block());
            let position = self.iconst(position);
            let is_selected = self.compare(IntCC::Equal, row_action, position);
            self.brif(is_selected, start, other);
            self.switch_to(start);
            let info = &self.program.actions[*action];
            for argument in 0..info.arg_words().min(table.max_arg_words) {
                let slot = self.program.first_param_slot + argument as u16;
                let value = self.builder.ins().load(types::I64, flags, row, 8 * (1 + argument as i32));
                self.declare_slot(slot, value);
            }
            let code = *self.program.action_code.of(*action).ok_or(Unsupported)?;
            let first = self.block_of(code, inlined);
            self.jump(first);
            self.switch_to(other);
        }
        // The row has no action: its first word has the address of the next node.
        let successors = &table.successors;
        let next = self.shift_right(first_word, ROW_NEXT_SHIFT);
        let next = self.mask(next, u64::from(Pc::MAX));
        for target in
            successors.hit.iter().chain(&successors.miss).filter(|target| **target != successors.base)
        {
            let (target, other) = (*target, self.builder.create_block());
            let (address, block) = (self.iconst(u64::from(target)), self.block_of(target, instance));
            let is_next = self.compare(IntCC::Equal, next, address);
            self.brif(is_next, block, other);
            self.switch_to(other);
        }
        let base = self.block_of(successors.base, instance);
        self.jump(base);
        Ok(())
    }
}
