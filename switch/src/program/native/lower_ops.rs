//! Lowers the operations of a program to Cranelift IR. Actions are inlined where their table is applied.

use super::abi::{ACTION_LOOP, CallFrame, CrcTables, KeyCacheFormat, NativeTable};
use super::emitter::{BYTES, CALL, CELLS, Emitter, readonly};
use super::slot_storage::needs_helper;
use super::{ROW_ACTION_SHIFT, ROW_NEXT_SHIFT, Unsupported, row_actions};
use crate::program::codegen::low_mask;
use crate::program::layout::VALID_SLOT;
use crate::program::op::{Op, Opcode, Pc, Slot};
use crate::program::table::limbs;
use crate::program::{LOOP_BUDGET, MAX_HASH_BYTES};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Type, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use std::collections::HashMap;
use std::mem::offset_of;

/// The basic blocks of a function's operations, and those of them that are still to be emitted. A block is
/// identified by the address of its first operation and an index into `runs`.
pub(super) struct CodeWorklist {
    blocks: HashMap<(Pc, usize), Block>,
    waiting: Vec<(Pc, usize)>,
    runs: Vec<InlineInstance>,
    /// What is left of the budget for loops.
    budget: Variable,
}

impl CodeWorklist {
    pub fn new(b: &mut FunctionBuilder) -> CodeWorklist {
        let budget = b.declare_var(types::I64);
        CodeWorklist { blocks: HashMap::new(), waiting: Vec::new(), runs: Vec::new(), budget }
    }
}

/// One inlined instance of a piece of code.
#[derive(Clone, Copy)]
struct InlineInstance {
    /// The block at which control continues after `End`.
    end: Block,
    /// The return target of an action; `None` for code outside actions.
    back: Option<ReturnTarget>,
}

/// The table application to which an action returns.
#[derive(Clone, Copy)]
struct ReturnTarget {
    /// Index of the instance that applied the table.
    run: usize,
    hit: Pc,
    miss: Pc,
    /// The matched entry; 0 for a miss.
    entry: Value,
}

impl Emitter<'_, '_> {
    /// Emits the code at `start`, with everything that it reaches. Control leaves it to the block `end`.
    pub fn emit_code(&mut self, start: Pc, end: Block) -> Result<(), Unsupported> {
        let budget = self.iconst(u64::from(LOOP_BUDGET));
        self.builder.def_var(self.code_worklist.budget, budget);
        let run = self.new_run(InlineInstance { end, back: None });
        let first = self.block_of(start, run);
        self.jump(first);
        while let Some((pc, run)) = self.code_worklist.waiting.pop() {
            let block = self.block_of(pc, run);
            self.switch_to(block);
            self.emit_straight_line(pc, run)?;
        }
        Ok(())
    }

    /// Takes a cost from a budget; where that is spent, the packet is done with this code.
    pub fn spend(&mut self, budget: Variable, cost: u32, code: u64) {
        let (left, cost) = (self.builder.use_var(budget), self.iconst(u64::from(cost)));
        let enough = self.compare(IntCC::UnsignedGreaterThan, left, cost);
        let (on, spent) = (self.builder.create_block(), self.create_cold_block());
        self.brif(enough, on, spent);
        self.switch_to(spent);
        self.emit_return(code);
        self.switch_to(on);
        let left = self.builder.ins().isub(left, cost);
        self.builder.def_var(budget, left);
    }

    fn new_run(&mut self, run: InlineInstance) -> usize {
        self.code_worklist.runs.push(run);
        self.code_worklist.runs.len() - 1
    }

    fn block_of(&mut self, pc: Pc, run: usize) -> Block {
        if let Some(block) = self.code_worklist.blocks.get(&(pc, run)) {
            return *block;
        }
        let block = self.builder.create_block();
        self.code_worklist.blocks.insert((pc, run), block);
        self.code_worklist.waiting.push((pc, run));
        block
    }

    /// Emits operations up to the next jump target.
    fn emit_straight_line(&mut self, mut pc: Pc, run: usize) -> Result<(), Unsupported> {
        loop {
            let op = *self.program.code.get(usize::from(pc)).ok_or(Unsupported)?;
            if self.emit_op_or_terminator(pc, &op, run)? {
                return Ok(());
            }
            pc += 1;
            if self.targets.contains(&pc) {
                let next = self.block_of(pc, run);
                self.jump(next);
                return Ok(());
            }
        }
    }

    /// Emits one operation. Returns true if it terminates the block.
    fn emit_op_or_terminator(&mut self, pc: Pc, op: &Op, run: usize) -> Result<bool, Unsupported> {
        let InlineInstance { end, back } = self.code_worklist.runs[run];
        let jump = match op.code {
            Opcode::JumpZ => Some((IntCC::Equal, None)),
            Opcode::JumpNz => Some((IntCC::NotEqual, None)),
            Opcode::JumpEq => Some((IntCC::Equal, Some(op.b))),
            Opcode::JumpNe => Some((IntCC::NotEqual, Some(op.b))),
            Opcode::JumpLt => Some((IntCC::UnsignedLessThan, Some(op.b))),
            Opcode::JumpLe => Some((IntCC::UnsignedLessThanOrEqual, Some(op.b))),
            _ => None,
        };
        if let Some((cc, other)) = jump {
            let a = self.use_slot(op.a);
            let b = match other {
                Some(slot) => self.use_slot(slot),
                None => self.iconst(0),
            };
            let (then, otherwise) = (self.block_of(op.d, run), self.block_of(pc + 1, run));
            let condition = self.compare(cc, a, b);
            self.brif(condition, then, otherwise);
            return Ok(true);
        }
        match op.code {
            Opcode::Jump => {
                let to = self.block_of(op.d, run);
                self.jump(to);
            }
            Opcode::JumpBack => {
                let on = self.block_of(op.d, run);
                self.spend(self.code_worklist.budget, u32::from(op.a), ACTION_LOOP);
                self.jump(on);
            }
            Opcode::End => self.jump(end),
            Opcode::EndIfExit => {
                let exit = self.use_slot(op.a);
                let next = self.block_of(pc + 1, run);
                self.brif(exit, end, next);
            }
            Opcode::Return => {
                let ReturnTarget { run, hit, miss, entry } = back.ok_or(Unsupported)?;
                let (on_hit, on_miss) = (self.block_of(hit, run), self.block_of(miss, run));
                match hit == miss {
                    true => self.jump(on_hit),
                    false => self.brif(entry, on_hit, on_miss),
                }
            }
            Opcode::ApplyTable => self.table(usize::from(op.a), run)?,
            _ => {
                self.op(pc, op)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn op(&mut self, pc: Pc, op: &Op) -> Result<(), Unsupported> {
        if needs_helper(self.program, op) {
            let pc = self.iconst(u64::from(pc));
            match op.code {
                Opcode::Hash => {
                    let index = self.iconst(u64::from(op.a));
                    let call = self.call_helper(self.helpers.hash, &[index], 1);
                    let value = self.result(call, 0);
                    let value = self.truncate(value, op.clear_high);
                    self.def_slot(op.d, value);
                }
                _ => {
                    self.call_helper(self.helpers.exec_op, &[pc], 0);
                }
            }
            return Ok(());
        }
        match op.code {
            Opcode::Log => return Ok(()),
            Opcode::SetValid => return self.set_valid(op),
            Opcode::SetInvalid => return self.set_invalid(op),
            Opcode::RegRead | Opcode::RegWrite => return self.register(op),
            Opcode::CounterCount => {
                let (array, index) = (self.iconst(u64::from(op.a)), self.use_slot(op.b));
                self.call_helper(self.helpers.count_packet, &[array, index], 0);
                return Ok(());
            }
            _ => {}
        }
        let value = self.value(op)?;
        self.def_slot(op.d, value);
        Ok(())
    }

    /// Emits an operation that only computes a value. Returns the value of its destination.
    fn value(&mut self, op: &Op) -> Result<Value, Unsupported> {
        let zero = self.iconst(0);
        let value = match op.code {
            Opcode::Mov => self.use_slot(op.a),
            Opcode::MovIf => {
                let (new, old, condition) = (self.use_slot(op.a), self.use_slot(op.d), self.use_slot(op.b));
                let new = self.truncate(new, op.clear_high);
                return Ok(self.builder.ins().select(condition, new, old));
            }
            Opcode::Hash => self.digest(usize::from(op.a))?,
            Opcode::Not => {
                let a = self.use_slot(op.a);
                self.builder.ins().bnot(a)
            }
            Opcode::Sext => {
                let (a, above) = (self.use_slot(op.a), i64::from(op.clear_high & 63));
                let high = self.builder.ins().ishl_imm(a, above);
                return Ok(self.builder.ins().sshr_imm(high, above));
            }
            Opcode::SatU | Opcode::SatS => {
                let max =
                    if op.code == Opcode::SatU { u64::MAX } else { i64::MAX as u64 } >> (op.clear_high & 63);
                let min = if op.code == Opcode::SatU { 0 } else { (-(max as i64) - 1) as u64 };
                let a = self.use_slot(op.a);
                let (min, max) = (self.iconst(min), self.iconst(max));
                let below = self.compare(IntCC::SignedLessThan, a, min);
                // Values that are not negative compare the same signed and unsigned, and a negative one is
                // replaced by the second select. Only the unsigned comparison is right for a bound of 2^64 -
                // 1.
                let cc = match op.code {
                    Opcode::SatU => IntCC::UnsignedGreaterThan,
                    _ => IntCC::SignedGreaterThan,
                };
                let above = self.compare(cc, a, max);
                let held = self.builder.ins().select(above, max, a);
                return Ok(self.builder.ins().select(below, min, held));
            }
            Opcode::IsZero | Opcode::IsNonZero => {
                let a = self.use_slot(op.a);
                let cc = if op.code == Opcode::IsZero { IntCC::Equal } else { IntCC::NotEqual };
                let truth = self.compare(cc, a, zero);
                return Ok(self.bool_to_i64(truth));
            }
            _ => {
                let (a, b) = (self.use_slot(op.a), self.use_slot(op.b));
                let comparison = match op.code {
                    Opcode::Eq => Some(IntCC::Equal),
                    Opcode::LtU => Some(IntCC::UnsignedLessThan),
                    Opcode::LeU => Some(IntCC::UnsignedLessThanOrEqual),
                    Opcode::LtS => Some(IntCC::SignedLessThan),
                    Opcode::LeS => Some(IntCC::SignedLessThanOrEqual),
                    _ => None,
                };
                if let Some(cc) = comparison {
                    let truth = self.compare(cc, a, b);
                    return Ok(self.bool_to_i64(truth));
                }
                match op.code {
                    Opcode::Add => self.builder.ins().iadd(a, b),
                    Opcode::Sub => self.builder.ins().isub(a, b),
                    Opcode::Mul => self.builder.ins().imul(a, b),
                    Opcode::And => self.builder.ins().band(a, b),
                    Opcode::Or => self.builder.ins().bor(a, b),
                    Opcode::Xor => self.builder.ins().bxor(a, b),
                    Opcode::Div | Opcode::Mod => {
                        let one = self.iconst(1);
                        let divisor = self.builder.ins().select(b, b, one);
                        let result = match op.code {
                            Opcode::Div => self.builder.ins().udiv(a, divisor),
                            _ => self.builder.ins().urem(a, divisor),
                        };
                        self.builder.ins().select(b, result, zero)
                    }
                    Opcode::Shl | Opcode::Shr | Opcode::Sar => self.shift(op, a, b),
                    _ => return Err(Unsupported),
                }
            }
        };
        Ok(self.truncate(value, op.clear_high))
    }

    fn shift(&mut self, op: &Op, a: Value, b: Value) -> Value {
        const MAX_SHIFT: u64 = 63;
        let max = self.iconst(MAX_SHIFT);
        let fits = self.compare(IntCC::UnsignedLessThanOrEqual, b, max);
        if op.code == Opcode::Sar {
            let by = self.builder.ins().select(fits, b, max);
            return self.builder.ins().sshr(a, by);
        }
        let shifted = match op.code {
            Opcode::Shl => self.builder.ins().ishl(a, b),
            _ => self.builder.ins().ushr(a, b),
        };
        if self.program.const_value(op.b).is_some_and(|by| by <= MAX_SHIFT) {
            return shifted;
        }
        let zero = self.iconst(0);
        self.builder.ins().select(fits, shifted, zero)
    }

    /// Makes a header valid. As in BMv2, a header that was invalid is cleared.
    fn set_valid(&mut self, op: &Op) -> Result<(), Unsupported> {
        let base = self.program.const_base(op.a).ok_or(Unsupported)?;
        let header = &self.program.header_ops[usize::from(op.b)];
        let valid = self.use_slot(base + VALID_SLOT);
        let (new, next) = (self.builder.create_block(), self.builder.create_block());
        self.brif(valid, next, new);
        self.switch_to(new);
        for slot in base..base + header.slots {
            self.set_imm(slot, u64::from(slot == base + VALID_SLOT));
        }
        self.add_to_length(u64::from(header.bytes));
        for offset in &header.siblings {
            let sibling = Slot::try_from(i32::from(base) + offset).map_err(|_| Unsupported)?;
            self.set_imm(sibling + VALID_SLOT, 0);
        }
        self.jump(next);
        self.switch_to(next);
        Ok(())
    }

    fn set_invalid(&mut self, op: &Op) -> Result<(), Unsupported> {
        let base = self.program.const_base(op.a).ok_or(Unsupported)?;
        let bytes = u64::from(self.program.header_ops[usize::from(op.b)].bytes);
        let valid = self.use_slot(base + VALID_SLOT);
        let (old, next) = (self.builder.create_block(), self.builder.create_block());
        self.brif(valid, old, next);
        self.switch_to(old);
        self.set_imm(base + VALID_SLOT, 0);
        let length = self.length();
        let less = self.add(length, bytes.wrapping_neg());
        let bytes = self.iconst(bytes);
        let fits = self.compare(IntCC::UnsignedGreaterThanOrEqual, length, bytes);
        let zero = self.iconst(0);
        let length = self.builder.ins().select(fits, less, zero);
        self.store_length(length);
        self.jump(next);
        self.switch_to(next);
        Ok(())
    }

    fn add_to_length(&mut self, bytes: u64) {
        let length = self.length();
        let length = self.add(length, bytes);
        self.store_length(length);
    }

    fn length(&mut self) -> Value {
        let length = self.load_call(types::I32, offset_of!(CallFrame, length));
        self.builder.ins().uextend(types::I64, length)
    }

    fn store_length(&mut self, length: Value) {
        let length = self.builder.ins().ireduce(types::I32, length);
        self.store_call(length, offset_of!(CallFrame, length));
    }

    /// Emits an access to a register without a branch on the index. Out of bounds, a read leaves the
    /// destination unchanged and a write goes to [`CallFrame::discard`].
    fn register(&mut self, op: &Op) -> Result<(), Unsupported> {
        let array = &self.program.registers[usize::from(op.a)];
        if array.size == 0 {
            return Ok(());
        }
        let words = self.program.register_words;
        if limbs(array.bits) != 1 || array.base + (array.size - 1) * array.stride >= words {
            return Err(Unsupported);
        }
        let cells = self.pointer(offset_of!(CallFrame, registers));
        if self.is_always_below(op.b, array.size) {
            // The mask repeats the bound that the field's width implies: memory safety does not depend on the
            // slot.
            let index = self.use_slot(op.b);
            let index = self.mask(index, array.size as u64 - 1);
            let cell = self.cell(cells, index, array.base, array.stride);
            if op.code == Opcode::RegRead {
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
        let exists = self.compare(IntCC::UnsignedLessThan, index, size);
        let value = self.use_slot(op.d);
        if op.code == Opcode::RegRead {
            let zero = self.iconst(0);
            let index = self.builder.ins().select(exists, index, zero);
            let cell = self.cell(cells, index, array.base, array.stride);
            let read = self.builder.ins().load(types::I64, CELLS, cell, 0);
            let read = self.truncate(read, op.clear_high);
            let value = self.builder.ins().select(exists, read, value);
            self.def_slot(op.d, value);
        } else {
            let cell = self.cell(cells, index, array.base, array.stride);
            let sink = self.add(self.call, offset_of!(CallFrame, discard) as u64);
            let cell = self.builder.ins().select(exists, cell, sink);
            self.builder.ins().store(CELLS, value, cell, 0);
        }
        Ok(())
    }

    /// Returns whether `size` is a power of two and every value of the slot's field is below it: a mask then
    /// replaces the bounds check.
    fn is_always_below(&self, slot: Slot, size: usize) -> bool {
        let field = self.program.layout.field_at(slot).map(|(_, field)| field);
        let field = field.filter(|field| field.limbs == 1 && !field.signed && !field.varbit);
        size.is_power_of_two() && field.is_some_and(|field| field.bits <= size.ilog2())
    }

    fn cell(&mut self, cells: Value, index: Value, base: usize, step: usize) -> Value {
        let offset = self.builder.ins().imul_imm(index, step as i64 * 8);
        let cell = self.builder.ins().iadd(cells, offset);
        self.add(cell, base as u64 * 8)
    }

    /// Emits a calculation over fields of whole bytes, each of at most 64 bits. Returns its value.
    fn digest(&mut self, index: usize) -> Result<Value, Unsupported> {
        let calculation = &self.program.calculations[index];
        let fields = calculation.byte_fields.as_ref().ok_or(Unsupported)?;
        let len = fields.iter().map(|(_, bytes)| usize::from(*bytes)).sum::<usize>();
        if len > MAX_HASH_BYTES {
            return Err(Unsupported);
        }
        if len <= CrcTables::MAX_BYTES
            && let Some(effects) = (self.helpers.effects)(calculation.algorithm)
        {
            return Ok(self.crc(effects, fields, len));
        }
        // The input is stored in whole words: a load that spans several smaller stores cannot be forwarded
        // from the store buffer and stalls.
        let (mut word, mut at) = (self.iconst(0), 0);
        for (slot, bytes) in fields {
            let value = self.use_slot(*slot);
            let value = self.shift_left(value, 64 - 8 * u32::from(*bytes));
            let (before, after) = (at % 8, at % 8 + usize::from(*bytes));
            let first = self.shift_right(value, 8 * before as u32);
            word = self.builder.ins().bor(word, first);
            if after >= 8 {
                self.store_hash_input(word, at);
                word =
                    if after > 8 { self.shift_left(value, 8 * (8 - before) as u32) } else { self.iconst(0) };
            }
            at += usize::from(*bytes);
        }
        if at % 8 > 0 {
            self.store_hash_input(word, at);
        }
        let (index, len) = (self.iconst(index as u64), self.iconst(len as u64));
        let call = self.call_helper(self.helpers.digest, &[index, len], 1);
        Ok(self.result(call, 0))
    }

    /// Computes a CRC as the CRC of `len` zero bytes, exclusive-or one table value per byte. A CRC is affine
    /// in its input, so the contribution of a byte depends only on its value and its distance from the end.
    fn crc(&mut self, effects: &'static CrcTables, fields: &[(Slot, u8)], len: usize) -> Value {
        let (mut behind, tables) = (len, self.iconst(effects.of_byte.as_ptr() as u64));
        let mut sum = self.builder.ins().iconst(types::I32, i64::from(effects.zeros[len]));
        for (slot, bytes) in fields {
            let value = self.use_slot(*slot);
            for byte in (0..u32::from(*bytes)).rev() {
                behind -= 1;
                let number = self.shift_right(value, 8 * byte);
                let number = self.mask(number, u64::from(u8::MAX));
                let offset = self.shift_left(number, size_of::<u32>().ilog2());
                let effect = self.builder.ins().iadd(tables, offset);
                let table = (behind * size_of_val(&effects.of_byte[0])) as i32;
                let effect = self.builder.ins().load(types::I32, readonly(CELLS), effect, table);
                sum = self.builder.ins().bxor(sum, effect);
            }
        }
        self.builder.ins().uextend(types::I64, sum)
    }

    /// Stores the word of a hash's input that contains byte `at`.
    fn store_hash_input(&mut self, word: Value, at: usize) {
        let (word, input) = (self.builder.ins().bswap(word), self.pointer(offset_of!(CallFrame, bytes)));
        self.builder.ins().store(BYTES, word, input, (at / 8 * 8) as i32);
    }

    /// Loads the member at byte `at` of a [`NativeTable`].
    fn direct(&mut self, table: usize, ty: Type, at: usize) -> Value {
        let tables = self.pointer(offset_of!(CallFrame, tables));
        let at = table * size_of::<NativeTable>() + at;
        self.builder.ins().load(ty, readonly(CALL), tables, at as i32)
    }

    /// Returns the address of an entry's row.
    fn row(&mut self, table: usize, entry: Value) -> Value {
        let rows = self.direct(table, types::I64, offset_of!(NativeTable, rows));
        let offset = self.builder.ins().imul_imm(entry, 8 * (1 + self.program.tables[table].params as i64));
        self.builder.ins().iadd(rows, offset)
    }

    /// Emits the lookup of a key of one word: in the entries of small keys, then in the key cache, then by a
    /// helper. Returns the address of the row, and the entry.
    fn emit_lookup(&mut self, index: usize, word: Value) -> (Value, Value) {
        let table = &self.program.tables[index];
        let found = self.builder.create_block();
        let results = [(); 2].map(|()| self.builder.append_block_param(found, types::I64));
        if table.is_exact() {
            let len = self.direct(index, types::I64, offset_of!(NativeTable, len));
            let is_small = self.compare(IntCC::UnsignedLessThan, word, len);
            let (small, other) = (self.builder.create_block(), self.builder.create_block());
            self.brif(is_small, small, other);
            self.switch_to(small);
            let entries = self.direct(index, types::I64, offset_of!(NativeTable, entries));
            let offset = self.shift_left(word, size_of::<u32>().ilog2());
            let place = self.builder.ins().iadd(entries, offset);
            let entry = self.builder.ins().load(types::I32, CELLS, place, 0);
            let entry = self.builder.ins().uextend(types::I64, entry);
            let row = self.row(index, entry);
            self.builder.ins().jump(found, &[row.into(), entry.into()]);
            self.switch_to(other);
        }
        if !table.has_key_cache() {
            let none = self.iconst(0);
            let row = self.row(index, none);
            self.builder.ins().jump(found, &[row.into(), none.into()]);
        } else {
            let known = self.builder.create_block();
            let entry = self.builder.append_block_param(known, types::I64);
            let form = table.key_cache_format();
            let factor = self.iconst(KeyCacheFormat::HASH_MULTIPLIER);
            let place = self.builder.ins().imul(word, factor);
            let place = self.shift_right(place, form.shift());
            self.emit_cache_probe((index, form), (word, place), known);
            let neighbour = self.builder.ins().bxor_imm(place, 1);
            self.emit_cache_probe((index, form), (word, neighbour), known);
            let number = self.iconst(index as u64);
            let call = self.call_helper(self.helpers.lookup_word, &[number, word], 2);
            let results = [self.result(call, 0), self.result(call, 1)];
            self.builder.ins().jump(found, &results.map(BlockArg::from));
            self.switch_to(known);
            let row = self.row(index, entry);
            self.builder.ins().jump(found, &[row.into(), entry.into()]);
        }
        self.switch_to(found);
        results.into()
    }

    /// Emits a jump to `known` with the entry of `key`, taken if the key is in slot `place` of the table's
    /// key cache.
    fn emit_cache_probe(
        &mut self,
        (table, form): (usize, KeyCacheFormat),
        (key, place): (Value, Value),
        known: Block,
    ) {
        let offset = self.shift_left(place, (8 * form.step()).ilog2());
        let recent = self.direct(table, types::I64, offset_of!(NativeTable, recent));
        let recent = self.builder.ins().iadd(recent, offset);
        let first = self.builder.ins().load(types::I64, CELLS, recent, 0);
        let cached_key = match form {
            KeyCacheFormat::Narrow => self.shift_right(first, KeyCacheFormat::NARROW_BITS),
            KeyCacheFormat::Wide => first,
        };
        let (this, other) = (self.builder.create_block(), self.builder.create_block());
        let is_this = self.compare(IntCC::Equal, key, cached_key);
        self.brif(is_this, this, other);
        self.switch_to(this);
        let entry = match form {
            KeyCacheFormat::Narrow => self.mask(first, low_mask(KeyCacheFormat::NARROW_BITS)),
            KeyCacheFormat::Wide => self.builder.ins().load(types::I64, CELLS, recent, 8),
        };
        self.builder.ins().jump(known, &[entry.into()]);
        self.switch_to(other);
    }

    /// Emits the application of a table: the lookup, the inlined actions, and the jump to the next node.
    fn table(&mut self, index: usize, run: usize) -> Result<(), Unsupported> {
        let table = &self.program.tables[index];
        let plan = &table.key_layout;
        let zero = self.iconst(0);
        let mut words = vec![zero; plan.words];
        for part in &plan.parts {
            let value = self.use_slot(part.slot);
            let value = self.mask(value, part.mask);
            let value = self.shift_left(value, u32::from(part.shift));
            let word = &mut words[usize::from(part.word)];
            *word = self.builder.ins().bor(*word, value);
        }
        let (row, entry) = match words.as_slice() {
            // A table without a key always misses: entry 0, whose row is the first.
            [] if !table.needs_slow_apply => {
                (self.direct(index, types::I64, offset_of!(NativeTable, rows)), zero)
            }
            [word] if !table.needs_slow_apply => self.emit_lookup(index, *word),
            words => {
                for (at, word) in words.iter().enumerate() {
                    self.store_key(at, *word)?;
                }
                let number = self.iconst(index as u64);
                let call = self.call_helper(self.helpers.lookup_key, &[number], 2);
                (self.result(call, 0), self.result(call, 1))
            }
        };
        // Rows do not change while code runs, so their words may be loaded late. A table that needs the slow
        // path returns the row in a scratch buffer, which its next application overwrites.
        let flags = if table.needs_slow_apply { CELLS } else { readonly(CELLS) };
        let hot = self.builder.ins().load(types::I64, flags, row, 0);
        let choice = self.shift_right(hot, ROW_ACTION_SHIFT);
        let actions = row_actions(self.program, table);
        for (number, action) in (1u64..).zip(&actions) {
            let next = |hit| table.successor(*action, hit);
            let back = ReturnTarget { run, hit: next(true), miss: next(false), entry };
            let own =
                self.new_run(InlineInstance { end: self.code_worklist.runs[run].end, back: Some(back) });
            let (start, other) = (self.builder.create_block(), self.builder.create_block());
            let number = self.iconst(number);
            let chosen = self.compare(IntCC::Equal, choice, number);
            self.brif(chosen, start, other);
            self.switch_to(start);
            let info = &self.program.actions[usize::from(action.0)];
            for argument in 0..info.words().min(table.params) {
                let slot = self.program.params + argument as u16;
                let value = self.builder.ins().load(types::I64, flags, row, 8 * (1 + argument as i32));
                self.declare_slot(slot, value);
            }
            let code = *self.program.action_code.get(usize::from(action.0)).ok_or(Unsupported)?;
            let first = self.block_of(code, own);
            self.jump(first);
            self.switch_to(other);
        }
        // The row has no action: its word contains the address of the next node.
        let jumps = &table.successors;
        let next = self.shift_right(hot, ROW_NEXT_SHIFT);
        let next = self.mask(next, u64::from(Pc::MAX));
        for target in jumps.hit.iter().chain(&jumps.miss).filter(|target| **target != jumps.base) {
            let (target, other) = (*target, self.builder.create_block());
            let (number, block) = (self.iconst(u64::from(target)), self.block_of(target, run));
            let chosen = self.compare(IntCC::Equal, next, number);
            self.brif(chosen, block, other);
            self.switch_to(other);
        }
        let base = self.block_of(jumps.base, run);
        self.jump(base);
        Ok(())
    }
}
