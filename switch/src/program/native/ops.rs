//! Code for the operations of a program.

use super::abi::{CallHead, Direct, Effects, Recent};
use super::emit::{BYTES, CALL, CELLS, Gen, unchanging};
use super::scope::{base_of, constant, is_left};
use super::{CHOICE, NEXT, Unsupported, choices};
use crate::program::MAX_BYTES;
use crate::program::asm::low_bits;
use crate::program::layout::VALID;
use crate::program::op::{Code, Op, Pc, Slot};
use crate::program::table::limbs;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Type, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use std::collections::HashMap;
use std::mem::offset_of;

/// Code that is being written: what stands where, and what is still to come.
pub(super) struct Runs {
    blocks: HashMap<(Pc, usize), Block>,
    waiting: Vec<(Pc, usize)>,
    runs: Vec<Run>,
    /// Backward jumps that are left.
    budget: Variable,
}

impl Runs {
    pub fn new(b: &mut FunctionBuilder) -> Runs {
        let budget = b.declare_var(types::I64);
        Runs { blocks: HashMap::new(), waiting: Vec::new(), runs: Vec::new(), budget }
    }
}

/// One use of a piece of code.
#[derive(Clone, Copy)]
struct Run {
    /// The block that follows the end.
    end: Block,
    /// In an action: where it returns to.
    back: Option<Back>,
}

/// The return address of an action.
#[derive(Clone, Copy)]
struct Back {
    /// The run of the table.
    run: usize,
    hit: Pc,
    miss: Pc,
    /// The entry that matched, or 0.
    entry: Value,
}

impl Gen<'_, '_> {
    /// Writes code that begins here and leads to `end`.
    pub fn run(&mut self, start: Pc, end: Block) -> Result<(), Unsupported> {
        let budget = self.imm(u64::from(crate::program::JUMP_BUDGET));
        self.b.def_var(self.runs.budget, budget);
        let run = self.new_run(Run { end, back: None });
        let first = self.block_of(start, run);
        self.goto(first);
        while let Some((pc, run)) = self.runs.waiting.pop() {
            let block = self.block_of(pc, run);
            self.at(block);
            self.line(pc, run)?;
        }
        Ok(())
    }

    fn new_run(&mut self, run: Run) -> usize {
        self.runs.runs.push(run);
        self.runs.runs.len() - 1
    }

    fn block_of(&mut self, pc: Pc, run: usize) -> Block {
        if let Some(block) = self.runs.blocks.get(&(pc, run)) {
            return *block;
        }
        let block = self.b.create_block();
        self.runs.blocks.insert((pc, run), block);
        self.runs.waiting.push((pc, run));
        block
    }

    /// Writes operations up to the next that is jumped to.
    fn line(&mut self, mut pc: Pc, run: usize) -> Result<(), Unsupported> {
        loop {
            let op = *self.program.code.get(usize::from(pc)).ok_or(Unsupported)?;
            if self.ends(pc, &op, run)? {
                return Ok(());
            }
            pc += 1;
            if self.targets.contains(&pc) {
                let next = self.block_of(pc, run);
                self.goto(next);
                return Ok(());
            }
        }
    }

    /// Writes one operation; true if nothing follows it.
    fn ends(&mut self, pc: Pc, op: &Op, run: usize) -> Result<bool, Unsupported> {
        let Run { end, back } = self.runs.runs[run];
        let jump = match op.code {
            Code::JumpZ => Some((IntCC::Equal, None)),
            Code::JumpNz => Some((IntCC::NotEqual, None)),
            Code::JumpEq => Some((IntCC::Equal, Some(op.b))),
            Code::JumpNe => Some((IntCC::NotEqual, Some(op.b))),
            Code::JumpLt => Some((IntCC::UnsignedLessThan, Some(op.b))),
            Code::JumpLe => Some((IntCC::UnsignedLessThanOrEqual, Some(op.b))),
            _ => None,
        };
        if let Some((cc, other)) = jump {
            let a = self.get(op.a);
            let b = match other {
                Some(slot) => self.get(slot),
                None => self.imm(0),
            };
            let (then, otherwise) = (self.block_of(op.d, run), self.block_of(pc + 1, run));
            let condition = self.compare(cc, a, b);
            self.branch(condition, then, otherwise);
            return Ok(true);
        }
        match op.code {
            Code::Jump => {
                let to = self.block_of(op.d, run);
                self.goto(to);
            }
            Code::JumpBack => {
                let left = self.b.use_var(self.runs.budget);
                let left = self.b.ins().iadd_imm(left, -1);
                self.b.def_var(self.runs.budget, left);
                let (on, runaway) = (self.block_of(op.d, run), self.cold());
                self.branch(left, on, runaway);
                self.at(runaway);
                self.helper(self.helpers.runaway, &[], 0);
                self.goto(end);
            }
            Code::End => self.goto(end),
            Code::EndIfExit => {
                let exit = self.get(op.a);
                let next = self.block_of(pc + 1, run);
                self.branch(exit, end, next);
            }
            Code::Return => {
                let Back { run, hit, miss, entry } = back.ok_or(Unsupported)?;
                let (on_hit, on_miss) = (self.block_of(hit, run), self.block_of(miss, run));
                match hit == miss {
                    true => self.goto(on_hit),
                    false => self.branch(entry, on_hit, on_miss),
                }
            }
            Code::Table => self.table(usize::from(op.a), run)?,
            _ => {
                self.op(pc, op)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn op(&mut self, pc: Pc, op: &Op) -> Result<(), Unsupported> {
        if is_left(self.program, op) {
            let pc = self.imm(u64::from(pc));
            match op.code {
                Code::Hash => {
                    let index = self.imm(u64::from(op.a));
                    let call = self.helper(self.helpers.hash, &[index], 1);
                    let value = self.result(call, 0);
                    let value = self.cut(value, op.w);
                    self.set(op.d, value);
                }
                _ => {
                    self.helper(self.helpers.one, &[pc], 0);
                }
            }
            return Ok(());
        }
        match op.code {
            Code::Log => return Ok(()),
            Code::SetValid => return self.set_valid(op),
            Code::SetInvalid => return self.set_invalid(op),
            Code::RegRead | Code::RegWrite => return self.register(op),
            Code::Count => {
                let (array, index) = (self.imm(u64::from(op.a)), self.get(op.b));
                self.helper(self.helpers.count, &[array, index], 0);
                return Ok(());
            }
            _ => {}
        }
        let value = self.value(op)?;
        self.set(op.d, value);
        Ok(())
    }

    /// Writes code that computes the value of an operation without other effects.
    fn value(&mut self, op: &Op) -> Result<Value, Unsupported> {
        let zero = self.imm(0);
        let value = match op.code {
            Code::Mov => self.get(op.a),
            Code::MovIf => {
                let (new, old, condition) = (self.get(op.a), self.get(op.d), self.get(op.b));
                let new = self.cut(new, op.w);
                return Ok(self.b.ins().select(condition, new, old));
            }
            Code::Hash => self.digest(usize::from(op.a))?,
            Code::Not => {
                let a = self.get(op.a);
                self.b.ins().bnot(a)
            }
            Code::Sext => {
                let (a, above) = (self.get(op.a), i64::from(op.w & 63));
                let high = self.b.ins().ishl_imm(a, above);
                return Ok(self.b.ins().sshr_imm(high, above));
            }
            Code::SatU | Code::SatS => {
                let most = if op.code == Code::SatU { u64::MAX } else { i64::MAX as u64 } >> (op.w & 63);
                let least = if op.code == Code::SatU { 0 } else { (-(most as i64) - 1) as u64 };
                let a = self.get(op.a);
                let (least, most) = (self.imm(least), self.imm(most));
                let below = self.compare(IntCC::SignedLessThan, a, least);
                // What is not negative compares the same with and without a sign, but for a bound of 64 bits.
                let cc = match op.code {
                    Code::SatU => IntCC::UnsignedGreaterThan,
                    _ => IntCC::SignedGreaterThan,
                };
                let above = self.compare(cc, a, most);
                let held = self.b.ins().select(above, most, a);
                return Ok(self.b.ins().select(below, least, held));
            }
            Code::IsZero | Code::IsNonZero => {
                let a = self.get(op.a);
                let cc = if op.code == Code::IsZero { IntCC::Equal } else { IntCC::NotEqual };
                let truth = self.compare(cc, a, zero);
                return Ok(self.number(truth));
            }
            _ => {
                let (a, b) = (self.get(op.a), self.get(op.b));
                let comparison = match op.code {
                    Code::Eq => Some(IntCC::Equal),
                    Code::LtU => Some(IntCC::UnsignedLessThan),
                    Code::LeU => Some(IntCC::UnsignedLessThanOrEqual),
                    Code::LtS => Some(IntCC::SignedLessThan),
                    Code::LeS => Some(IntCC::SignedLessThanOrEqual),
                    _ => None,
                };
                if let Some(cc) = comparison {
                    let truth = self.compare(cc, a, b);
                    return Ok(self.number(truth));
                }
                match op.code {
                    Code::Add => self.b.ins().iadd(a, b),
                    Code::Sub => self.b.ins().isub(a, b),
                    Code::Mul => self.b.ins().imul(a, b),
                    Code::And => self.b.ins().band(a, b),
                    Code::Or => self.b.ins().bor(a, b),
                    Code::Xor => self.b.ins().bxor(a, b),
                    Code::Div | Code::Mod => {
                        let one = self.imm(1);
                        let divisor = self.b.ins().select(b, b, one);
                        let result = match op.code {
                            Code::Div => self.b.ins().udiv(a, divisor),
                            _ => self.b.ins().urem(a, divisor),
                        };
                        self.b.ins().select(b, result, zero)
                    }
                    Code::Shl | Code::Shr | Code::Sar => self.shift(op, a, b),
                    _ => return Err(Unsupported),
                }
            }
        };
        Ok(self.cut(value, op.w))
    }

    fn shift(&mut self, op: &Op, a: Value, b: Value) -> Value {
        const MOST: u64 = 63;
        let most = self.imm(MOST);
        let fits = self.compare(IntCC::UnsignedLessThanOrEqual, b, most);
        if op.code == Code::Sar {
            let by = self.b.ins().select(fits, b, most);
            return self.b.ins().sshr(a, by);
        }
        let shifted = match op.code {
            Code::Shl => self.b.ins().ishl(a, b),
            _ => self.b.ins().ushr(a, b),
        };
        if constant(self.program, op.b).is_some_and(|by| by <= MOST) {
            return shifted;
        }
        let zero = self.imm(0);
        self.b.ins().select(fits, shifted, zero)
    }

    /// BMv2 clears a header that is added.
    fn set_valid(&mut self, op: &Op) -> Result<(), Unsupported> {
        let base = base_of(self.program, op.a).ok_or(Unsupported)?;
        let header = &self.program.header_ops[usize::from(op.b)];
        let valid = self.get(base + VALID);
        let (new, next) = (self.b.create_block(), self.b.create_block());
        self.branch(valid, next, new);
        self.at(new);
        for slot in base..base + header.slots {
            self.set_imm(slot, u64::from(slot == base + VALID));
        }
        self.lengthen(u64::from(header.bytes));
        for offset in &header.siblings {
            let sibling = Slot::try_from(i32::from(base) + offset).map_err(|_| Unsupported)?;
            self.set_imm(sibling + VALID, 0);
        }
        self.goto(next);
        self.at(next);
        Ok(())
    }

    fn set_invalid(&mut self, op: &Op) -> Result<(), Unsupported> {
        let base = base_of(self.program, op.a).ok_or(Unsupported)?;
        let bytes = u64::from(self.program.header_ops[usize::from(op.b)].bytes);
        let valid = self.get(base + VALID);
        let (old, next) = (self.b.create_block(), self.b.create_block());
        self.branch(valid, old, next);
        self.at(old);
        self.set_imm(base + VALID, 0);
        let length = self.length();
        let less = self.add(length, bytes.wrapping_neg());
        let bytes = self.imm(bytes);
        let fits = self.compare(IntCC::UnsignedGreaterThanOrEqual, length, bytes);
        let zero = self.imm(0);
        let length = self.b.ins().select(fits, less, zero);
        self.store_length(length);
        self.goto(next);
        self.at(next);
        Ok(())
    }

    fn lengthen(&mut self, bytes: u64) {
        let length = self.length();
        let length = self.add(length, bytes);
        self.store_length(length);
    }

    fn length(&mut self) -> Value {
        let length = self.load_call(types::I32, offset_of!(CallHead, length));
        self.b.ins().uextend(types::I64, length)
    }

    fn store_length(&mut self, length: Value) {
        let length = self.b.ins().ireduce(types::I32, length);
        self.store_call(length, offset_of!(CallHead, length));
    }

    /// A cell that does not exist is not read, and what is written to it is lost.
    fn register(&mut self, op: &Op) -> Result<(), Unsupported> {
        let array = &self.program.registers[usize::from(op.a)];
        if array.size == 0 {
            return Ok(());
        }
        let words = self.program.register_words;
        if limbs(array.bits) != 1 || array.base + (array.size - 1) * array.step >= words {
            return Err(Unsupported);
        }
        let cells = self.pointer(offset_of!(CallHead, registers));
        if self.is_below(op.b, array.size) {
            // Whatever the slot has: the cell is one of the array.
            let index = self.get(op.b);
            let index = self.mask(index, array.size as u64 - 1);
            let cell = self.cell(cells, index, array.base, array.step);
            if op.code == Code::RegRead {
                let read = self.b.ins().load(types::I64, CELLS, cell, 0);
                let read = self.cut(read, op.w);
                self.set(op.d, read);
            } else {
                let value = self.get(op.d);
                self.b.ins().store(CELLS, value, cell, 0);
            }
            return Ok(());
        }
        let (index, size) = (self.get(op.b), self.imm(array.size as u64));
        let exists = self.compare(IntCC::UnsignedLessThan, index, size);
        let value = self.get(op.d);
        if op.code == Code::RegRead {
            let zero = self.imm(0);
            let index = self.b.ins().select(exists, index, zero);
            let cell = self.cell(cells, index, array.base, array.step);
            let read = self.b.ins().load(types::I64, CELLS, cell, 0);
            let read = self.cut(read, op.w);
            let value = self.b.ins().select(exists, read, value);
            self.set(op.d, value);
        } else {
            let cell = self.cell(cells, index, array.base, array.step);
            let sink = self.add(self.call, offset_of!(CallHead, sink) as u64);
            let cell = self.b.ins().select(exists, cell, sink);
            self.b.ins().store(CELLS, value, cell, 0);
        }
        Ok(())
    }

    /// Returns whether a slot has a field whose every value is below this power of two.
    fn is_below(&self, slot: Slot, size: usize) -> bool {
        let field = self.program.layout.field_at(slot).map(|(_, field)| field);
        let field = field.filter(|field| field.limbs == 1 && !field.signed && !field.varbit);
        size.is_power_of_two() && field.is_some_and(|field| field.bits <= size.ilog2())
    }

    fn cell(&mut self, cells: Value, index: Value, base: usize, step: usize) -> Value {
        let offset = self.b.ins().imul_imm(index, step as i64 * 8);
        let cell = self.b.ins().iadd(cells, offset);
        self.add(cell, base as u64 * 8)
    }

    /// Returns the value of a calculation over narrow fields of whole bytes.
    fn digest(&mut self, index: usize) -> Result<Value, Unsupported> {
        let calculation = &self.program.calculations[index];
        let fields = calculation.bytes.as_ref().ok_or(Unsupported)?;
        let len = fields.iter().map(|(_, bytes)| usize::from(*bytes)).sum::<usize>();
        if len > MAX_BYTES {
            return Err(Unsupported);
        }
        if len <= Effects::MOST
            && let Some(effects) = (self.helpers.effects)(calculation.algorithm)
        {
            return Ok(self.crc(effects, fields, len));
        }
        // Whole words are stored: what is read in other pieces than it was written would be waited for.
        let (mut word, mut at) = (self.imm(0), 0);
        for (slot, bytes) in fields {
            let value = self.get(*slot);
            let value = self.shift_left(value, 64 - 8 * u32::from(*bytes));
            let (before, after) = (at % 8, at % 8 + usize::from(*bytes));
            let first = self.shift_right(value, 8 * before as u32);
            word = self.b.ins().bor(word, first);
            if after >= 8 {
                self.store_hashed(word, at);
                word = if after > 8 { self.shift_left(value, 8 * (8 - before) as u32) } else { self.imm(0) };
            }
            at += usize::from(*bytes);
        }
        if at % 8 > 0 {
            self.store_hashed(word, at);
        }
        let (index, len) = (self.imm(index as u64), self.imm(len as u64));
        let call = self.helper(self.helpers.digest, &[index, len], 1);
        Ok(self.result(call, 0))
    }

    /// Adds up what the bytes of a CRC do to it.
    fn crc(&mut self, effects: &'static Effects, fields: &[(Slot, u8)], len: usize) -> Value {
        let (mut behind, tables) = (len, self.imm(effects.of_byte.as_ptr() as u64));
        let mut sum = self.b.ins().iconst(types::I32, i64::from(effects.of_zeros[len]));
        for (slot, bytes) in fields {
            let value = self.get(*slot);
            for byte in (0..u32::from(*bytes)).rev() {
                behind -= 1;
                let number = self.shift_right(value, 8 * byte);
                let number = self.mask(number, u64::from(u8::MAX));
                let offset = self.shift_left(number, size_of::<u32>().ilog2());
                let effect = self.b.ins().iadd(tables, offset);
                let table = (behind * size_of_val(&effects.of_byte[0])) as i32;
                let effect = self.b.ins().load(types::I32, unchanging(CELLS), effect, table);
                sum = self.b.ins().bxor(sum, effect);
            }
        }
        self.b.ins().uextend(types::I64, sum)
    }

    /// Stores the word of a hash's input in which byte `at` is.
    fn store_hashed(&mut self, word: Value, at: usize) {
        let (word, input) = (self.b.ins().bswap(word), self.pointer(offset_of!(CallHead, bytes)));
        self.b.ins().store(BYTES, word, input, (at / 8 * 8) as i32);
    }

    /// Loads what a [`Direct`] has at this offset.
    fn direct(&mut self, table: usize, ty: Type, at: usize) -> Value {
        let tables = self.pointer(offset_of!(CallHead, tables));
        let at = table * size_of::<Direct>() + at;
        self.b.ins().load(ty, unchanging(CALL), tables, at as i32)
    }

    /// Returns the address of an entry's row.
    fn row(&mut self, table: usize, entry: Value) -> Value {
        let rows = self.direct(table, types::I64, offset_of!(Direct, rows));
        let offset = self.b.ins().imul_imm(entry, 8 * (1 + self.program.tables[table].params as i64));
        self.b.ins().iadd(rows, offset)
    }

    /// Looks a key of one word up. Returns the row and the entry.
    fn look_up(&mut self, index: usize, word: Value) -> (Value, Value) {
        let table = &self.program.tables[index];
        let found = self.b.create_block();
        let results = [(); 2].map(|()| self.b.append_block_param(found, types::I64));
        if table.is_exact() {
            let len = self.direct(index, types::I64, offset_of!(Direct, len));
            let is_small = self.compare(IntCC::UnsignedLessThan, word, len);
            let (small, other) = (self.b.create_block(), self.b.create_block());
            self.branch(is_small, small, other);
            self.at(small);
            let entries = self.direct(index, types::I64, offset_of!(Direct, entries));
            let offset = self.shift_left(word, size_of::<u32>().ilog2());
            let place = self.b.ins().iadd(entries, offset);
            let entry = self.b.ins().load(types::I32, CELLS, place, 0);
            let entry = self.b.ins().uextend(types::I64, entry);
            let row = self.row(index, entry);
            self.b.ins().jump(found, &[row.into(), entry.into()]);
            self.at(other);
        }
        if !table.remembers_keys() {
            let none = self.imm(0);
            let row = self.row(index, none);
            self.b.ins().jump(found, &[row.into(), none.into()]);
        } else {
            let known = self.b.create_block();
            let entry = self.b.append_block_param(known, types::I64);
            let form = table.recent();
            let factor = self.imm(Recent::FACTOR);
            let place = self.b.ins().imul(word, factor);
            let place = self.shift_right(place, form.shift());
            self.find_recent((index, form), (word, place), known);
            let beside = self.b.ins().bxor_imm(place, 1);
            self.find_recent((index, form), (word, beside), known);
            let number = self.imm(index as u64);
            let call = self.helper(self.helpers.table_word, &[number, word], 2);
            let results = [self.result(call, 0), self.result(call, 1)];
            self.b.ins().jump(found, &results.map(BlockArg::from));
            self.at(known);
            let row = self.row(index, entry);
            self.b.ins().jump(found, &[row.into(), entry.into()]);
        }
        self.at(found);
        results.into()
    }

    /// Goes to a block with the entry of a key, if the key is the recent one in this place.
    fn find_recent(&mut self, (table, form): (usize, Recent), (key, place): (Value, Value), known: Block) {
        let offset = self.shift_left(place, (8 * form.step()).ilog2());
        let recent = self.direct(table, types::I64, offset_of!(Direct, recent));
        let recent = self.b.ins().iadd(recent, offset);
        let first = self.b.ins().load(types::I64, CELLS, recent, 0);
        let there = match form {
            Recent::Narrow => self.shift_right(first, Recent::NARROW_BITS),
            Recent::Wide => first,
        };
        let (this, other) = (self.b.create_block(), self.b.create_block());
        let is_this = self.compare(IntCC::Equal, key, there);
        self.branch(is_this, this, other);
        self.at(this);
        let entry = match form {
            Recent::Narrow => self.mask(first, low_bits(Recent::NARROW_BITS)),
            Recent::Wide => self.b.ins().load(types::I64, CELLS, recent, 8),
        };
        self.b.ins().jump(known, &[entry.into()]);
        self.at(other);
    }

    /// Looks a table up and runs what it leads to.
    fn table(&mut self, index: usize, run: usize) -> Result<(), Unsupported> {
        let table = &self.program.tables[index];
        let plan = &table.plan;
        let zero = self.imm(0);
        let mut words = vec![zero; plan.words];
        for part in &plan.parts {
            let value = self.get(part.slot);
            let value = self.mask(value, part.mask);
            let value = self.shift_left(value, u32::from(part.shift));
            let word = &mut words[usize::from(part.word)];
            *word = self.b.ins().bor(*word, value);
        }
        let (row, entry) = match words.as_slice() {
            // It always misses.
            [] if !table.extras => (self.direct(index, types::I64, offset_of!(Direct, rows)), zero),
            [word] if !table.extras => self.look_up(index, *word),
            words => {
                for (at, word) in words.iter().enumerate() {
                    self.store_key(at, *word)?;
                }
                let number = self.imm(index as u64);
                let call = self.helper(self.helpers.table_any, &[number], 2);
                (self.result(call, 0), self.result(call, 1))
            }
        };
        // The rows of a table stay where they are; what stands for a member of a profile is written over.
        let flags = if table.extras { CELLS } else { unchanging(CELLS) };
        let hot = self.b.ins().load(types::I64, flags, row, 0);
        let choice = self.shift_right(hot, CHOICE);
        let actions = choices(self.program, table);
        for (number, action) in (1u64..).zip(&actions) {
            let next = |hit| table.next_of(*action, hit);
            let back = Back { run, hit: next(true), miss: next(false), entry };
            let own = self.new_run(Run { end: self.runs.runs[run].end, back: Some(back) });
            let (start, other) = (self.b.create_block(), self.b.create_block());
            let number = self.imm(number);
            let chosen = self.compare(IntCC::Equal, choice, number);
            self.branch(chosen, start, other);
            self.at(start);
            let info = &self.program.actions[usize::from(action.0)];
            for argument in 0..info.words().min(table.params) {
                let slot = self.program.params + argument as u16;
                let value = self.b.ins().load(types::I64, flags, row, 8 * (1 + argument as i32));
                self.declare(slot, value);
            }
            let code = *self.program.action_code.get(usize::from(action.0)).ok_or(Unsupported)?;
            let first = self.block_of(code, own);
            self.goto(first);
            self.at(other);
        }
        // No action at all: the row says where to go.
        let jumps = &table.jumps;
        let next = self.shift_right(hot, NEXT);
        let next = self.mask(next, u64::from(Pc::MAX));
        for target in jumps.hit.iter().chain(&jumps.miss).filter(|target| **target != jumps.base) {
            let (target, other) = (*target, self.b.create_block());
            let (number, block) = (self.imm(u64::from(target)), self.block_of(target, run));
            let chosen = self.compare(IntCC::Equal, next, number);
            self.branch(chosen, block, other);
            self.at(other);
        }
        let base = self.block_of(jumps.base, run);
        self.goto(base);
        Ok(())
    }
}
