//! Lowers the parser: one block for each state and each frame offset at which the state can begin, so that
//! every offset is a constant.

use super::Unsupported;
use super::abi::{CallFrame, MAX_FRAME_ACCESS, PARSER_LOOP};
use super::emitter::{Emitter, MAX_BLOCKS};
use crate::program::LOOP_BUDGET;
use crate::program::codegen::low_mask;
use crate::program::frame_access::{HeaderExtract, extraction};
use crate::program::layout::{FRAME_OFFSET_SLOT, VALID_SLOT};
use crate::program::link::Linked;
use crate::program::op::Slot;
use crate::program::parser::{Keyset, PackedSelect, ParseOp, ParserState, SelectCase, SelectPart};
use crate::program::table::limbs;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::Variable;
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;

/// A point of the parser's run: the state (`None`: accept), the frame offset in bytes, and the number of
/// elements extracted to each stack.
type ParsePoint = (Option<u16>, u32, Vec<u16>);

/// The blocks of the parser, and those of them that are still to be emitted.
pub(super) struct ParserEmitter {
    blocks: HashMap<ParsePoint, Block>,
    waiting: Vec<ParsePoint>,
    /// The block of accepted packets.
    accept: Block,
    /// The block that exits to the interpreter.
    bail: Block,
    /// For each checksum that is verified over the frame, a variable that is 1 if the checksum is wrong,
    /// otherwise 0.
    checksum_error: Vec<Option<Variable>>,
    /// What is left of the budget for loops, if the parser can spend it.
    budget: Option<Variable>,
    /// The first bit of each field that the present state has taken from the frame and not changed since.
    unmodified: HashMap<Slot, u32>,
}

/// Up to eight consecutive bytes of the frame that contain parts of a select key.
struct SelectWindow {
    first: u32,
    /// 1, 2, 4 or 8.
    bytes: u32,
    /// For each part of the key in this window: its shift in the key, its shift in the window's big-endian
    /// number, and its width in bits.
    parts: Vec<(u8, u32, u32)>,
}

impl SelectWindow {
    /// Returns the bits of a mask or value of a case that fall in this window, in memory byte order.
    fn in_memory_order(&self, word: u64) -> u64 {
        let part = |(up, shift, bits): &(u8, u32, u32)| (word >> up & low_mask(*bits)) << shift;
        let number = self.parts.iter().map(part).fold(0, |all, part| all | part);
        (number << (64 - 8 * self.bytes)).swap_bytes()
    }
}

/// The widest field that one 64-bit load holds at every bit offset within a byte: 64 - 7.
const MAX_UNALIGNED_BITS: u32 = 57;

/// Returns whether an 8-byte load from the byte after a field is within [`MAX_FRAME_ACCESS`]: then so is
/// every load of the field.
fn is_in_room(end: u32) -> bool {
    end as usize + 8 <= MAX_FRAME_ACCESS
}

/// Returns the pairs (first slot of a header, frame offset) at which the parser can extract. States after a
/// variable-length extraction or an `advance` are not followed, since their offset is not known when code is
/// generated.
pub(super) fn extract_offsets(program: &Linked) -> HashSet<(Slot, u32)> {
    let (mut places, mut seen) = (HashSet::new(), HashSet::new());
    let mut waiting = vec![(program.parser.start, 0)];
    while let Some(at) = waiting.pop() {
        let (Some(number), mut begin) = at else { continue };
        if seen.len() >= MAX_BLOCKS || begin as usize > MAX_FRAME_ACCESS || !seen.insert(at) {
            continue;
        }
        let Some(state) = program.parser.states.get(usize::from(number)) else { continue };
        let taken = state.ops.iter().all(|op| match *op {
            ParseOp::Extract { header, base, length: None, .. } => {
                places.insert((base, begin));
                begin += program.layout.header_type(header).bytes;
                true
            }
            ParseOp::ExtractNext { stack, block, length: None } => {
                let stack = &program.layout.stacks[usize::from(stack)];
                let (offset, ty) = stack.member_blocks[usize::from(block)];
                let element = |number| stack.base + number * stack.stride + offset;
                places.extend((0..stack.size).map(|number| (element(number), begin)));
                begin += program.layout.types[ty].bytes;
                true
            }
            ParseOp::Extract { .. } | ParseOp::ExtractNext { .. } | ParseOp::Advance(_) => false,
            _ => true,
        });
        if taken {
            let next = state.cases.iter().map(|case| case.next).chain([state.default]);
            waiting.extend(next.map(|next| (next, begin)));
        }
    }
    places
}

/// Returns the windows of the frame that cover a select key, or `None` if a part of the key is not an
/// unmodified field of the frame.
fn windows(parsing: &ParserEmitter, select: &PackedSelect, key: &[SelectPart]) -> Option<Vec<SelectWindow>> {
    let place = |((slot, up), part): (&(Slot, u8), &SelectPart)| {
        Some((*parsing.unmodified.get(slot)?, part.bits(), *up))
    };
    let mut places = select.parts.iter().zip(key).map(place).collect::<Option<Vec<_>>>()?;
    places.sort_unstable();
    let mut windows = Vec::new();
    let mut rest = places.as_slice();
    while let [(first, ..), ..] = rest {
        let first = first / 8;
        let end = |(begin, bits, _): &(u32, u32, u8)| begin + bits;
        let fits = rest.iter().take_while(|part| end(part) <= 8 * (first + 8)).count();
        let (here, others) = rest.split_at(fits);
        let bytes = here.iter().map(end).max()?.div_ceil(8) - first;
        let bytes = bytes.next_power_of_two();
        let part = |part: &(u32, u32, u8)| (part.2, 8 * (first + bytes) - end(part), part.1);
        windows.push(SelectWindow { first, bytes, parts: here.iter().map(part).collect() });
        rest = others;
    }
    Some(windows)
}

impl Emitter<'_, '_> {
    /// Emits the parser and the verification of checksums. Afterwards `parser_error` and `checksum_error` are
    /// set, and control can follow.
    pub fn parser(&mut self, bail: Block) -> Result<(), Unsupported> {
        let zero = self.iconst(0);
        let wrong = self.wire.verified.iter().map(|wire| {
            wire.as_ref().map(|_| {
                let variable = self.builder.declare_var(types::I64);
                self.builder.def_var(variable, zero);
                variable
            })
        });
        let wrong = wrong.collect();
        let accept = self.builder.create_block();
        let mut parsing = ParserEmitter {
            blocks: HashMap::new(),
            waiting: Vec::new(),
            accept,
            bail,
            checksum_error: wrong,
            budget: self.parser_budget(),
            unmodified: HashMap::new(),
        };
        let start = (self.program.parser.start, 0, vec![0; self.program.layout.stacks.len()]);
        let first = self.state_block(&mut parsing, start);
        self.jump(first);
        while let Some(at) = parsing.waiting.pop() {
            let block = self.state_block(&mut parsing, at.clone());
            self.switch_to(block);
            self.state(&mut parsing, at)?;
        }
        self.switch_to(accept);
        self.verify(&parsing)
    }

    /// Returns the budget for loops; `None` if no path through the blocks can spend it.
    fn parser_budget(&mut self) -> Option<Variable> {
        let parser = &self.program.parser;
        let costly =
            parser.states.iter().any(|state| state.cost as usize * MAX_BLOCKS >= LOOP_BUDGET as usize);
        (costly || parser.may_circle(&self.program.layout)).then(|| {
            let (budget, all) = (self.builder.declare_var(types::I64), self.iconst(u64::from(LOOP_BUDGET)));
            self.builder.def_var(budget, all);
            budget
        })
    }

    fn state_block(&mut self, parsing: &mut ParserEmitter, at: ParsePoint) -> Block {
        if let Some(block) = parsing.blocks.get(&at) {
            return *block;
        }
        if parsing.blocks.len() >= MAX_BLOCKS {
            return parsing.bail;
        }
        let block = self.builder.create_block();
        parsing.blocks.insert(at.clone(), block);
        parsing.waiting.push(at);
        block
    }

    fn state(&mut self, parsing: &mut ParserEmitter, at: ParsePoint) -> Result<(), Unsupported> {
        let (number, mut begin, mut counts) = at;
        let program = self.program;
        let Some(state) = number.and_then(|number| program.parser.states.get(usize::from(number))) else {
            let parsed = self.iconst(u64::from(begin));
            self.store_call(parsed, offset_of!(CallFrame, parsed));
            self.jump(parsing.accept);
            return Ok(());
        };
        if let Some(budget) = parsing.budget {
            self.spend(budget, state.cost, PARSER_LOOP);
        }
        parsing.unmodified.clear();
        for op in &state.ops {
            if !self.parse_op(parsing, op, &mut begin, &mut counts)? {
                self.jump(parsing.bail);
                return Ok(());
            }
        }
        self.select(parsing, state, begin, &counts)
    }

    /// Emits an exit to the interpreter if the frame has fewer than `bytes` bytes.
    fn emit_length_check(&mut self, parsing: &ParserEmitter, bytes: u32) {
        let len = self.load_call(types::I64, offset_of!(CallFrame, len));
        let bytes = self.iconst(u64::from(bytes));
        let short = self.compare(IntCC::UnsignedLessThan, len, bytes);
        let next = self.builder.create_block();
        self.brif(short, parsing.bail, next);
        self.switch_to(next);
    }

    /// Emits an operation of a state. Returns false if it has no machine code, so that the interpreter has to
    /// run the packet.
    fn parse_op(
        &mut self,
        parsing: &mut ParserEmitter,
        op: &ParseOp,
        begin: &mut u32,
        counts: &mut [u16],
    ) -> Result<bool, Unsupported> {
        let program = self.program;
        match *op {
            ParseOp::Extract { header, base, union: false, length: None } => {
                let Some(header) = &self.wire.headers[usize::from(header.0)] else { return Ok(false) };
                self.extract(parsing, header, base, begin)
            }
            ParseOp::ExtractNext { stack, block, length: None } => {
                let (index, stack) = (usize::from(stack), &program.layout.stacks[usize::from(stack)]);
                let number = counts[index];
                let (offset, ty) = stack.member_blocks[usize::from(block)];
                if number >= stack.size {
                    return Ok(false);
                }
                let element = stack.base + number * stack.stride;
                let Some(header) = extraction(&program.type_shapes[ty], element + offset) else {
                    return Ok(false);
                };
                if !self.extract(parsing, &header, element + offset, begin)? {
                    return Ok(false);
                }
                for (sibling, _) in stack.member_blocks.iter().filter(|(sibling, _)| *sibling != offset) {
                    self.set_imm(element + sibling + VALID_SLOT, 0);
                }
                counts[index] += 1;
                self.set_imm(stack.next_index_slot, u64::from(counts[index]));
                Ok(true)
            }
            ParseOp::Lookahead { slot, width, offset, bits }
                if limbs(width) == 1
                    && (1..=MAX_UNALIGNED_BITS).contains(&bits)
                    && is_in_room(*begin + (offset + bits) / 8) =>
            {
                let from = *begin * 8 + offset;
                self.emit_length_check(parsing, (from + bits).div_ceil(8));
                let value = self.load_bits(from, bits)?;
                let value = self.mask(value, low_mask(width));
                self.def_slot(slot, value);
                parsing.unmodified.remove(&slot);
                Ok(true)
            }
            ParseOp::Run(code) => {
                parsing.unmodified.clear();
                let next = self.builder.create_block();
                self.emit_code(code, next)?;
                self.switch_to(next);
                Ok(true)
            }
            ParseOp::Verify { condition, .. } => {
                if let Some(code) = condition.code {
                    let next = self.builder.create_block();
                    self.emit_code(code, next)?;
                    self.switch_to(next);
                }
                let (holds, next) = (self.use_slot(condition.slot), self.builder.create_block());
                self.brif(holds, next, parsing.bail);
                self.switch_to(next);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn extract(
        &mut self,
        parsing: &mut ParserEmitter,
        header: &HeaderExtract,
        base: Slot,
        begin: &mut u32,
    ) -> Result<bool, Unsupported> {
        let bytes = u32::from(header.bytes);
        if !is_in_room(*begin + bytes) {
            return Ok(false);
        }
        self.emit_length_check(parsing, *begin + bytes);
        for get in &header.gets {
            parsing.unmodified.insert(get.slot, (*begin + u32::from(get.offset)) * 8 + u32::from(get.left));
            if self.is_live(get.slot) {
                let value = self.load_field(*begin, get)?;
                self.def_slot(get.slot, value);
            }
        }
        self.set_imm(base + VALID_SLOT, 1);
        self.set_imm(base + FRAME_OFFSET_SLOT, if header.lazy { u64::from(*begin) + 1 } else { 0 });
        for (wire, wrong) in self.wire.verified.iter().zip(&parsing.checksum_error) {
            let (Some(wire), Some(wrong)) = (wire.filter(|wire| wire.base == base), wrong) else { continue };
            let sum = self.internet_checksum(*begin, bytes, u32::from(wire.offset), &[])?;
            let found = self.load_ne(*begin + u32::from(wire.offset), 2)?;
            let differs = self.compare(IntCC::NotEqual, sum, found);
            let differs = self.bool_to_i64(differs);
            self.builder.def_var(*wrong, differs);
        }
        *begin += bytes;
        Ok(true)
    }

    /// Emits the transition of a state.
    fn select(
        &mut self,
        parsing: &mut ParserEmitter,
        state: &ParserState,
        begin: u32,
        counts: &[u16],
    ) -> Result<(), Unsupported> {
        let to = |next: Option<u16>| (next, begin, counts.to_vec());
        let windows = state.packed.as_ref().and_then(|select| windows(parsing, select, &state.key));
        match &state.packed {
            Some(select) if windows.is_some() => {
                for (mask, value, next) in &select.cases {
                    let mut parts = Vec::new();
                    for window in windows.iter().flatten() {
                        let (mask, value) = (window.in_memory_order(*mask), window.in_memory_order(*value));
                        if (mask, value) != (0, 0) {
                            let raw = self.load_ne(window.first, window.bytes)?;
                            parts.push((self.mask(raw, mask), value));
                        }
                    }
                    let next = self.state_block(parsing, to(*next));
                    self.case(&parts, next);
                }
            }
            Some(select) => {
                let used = select.cases.iter().fold(0, |used, (mask, ..)| used | mask);
                let key = self.word_key(select, used);
                for (mask, value, next) in &select.cases {
                    let next = self.state_block(parsing, to(*next));
                    let masked = self.mask(key, *mask & used);
                    self.case(&[(masked, *value)], next);
                }
            }
            None => {
                let mut key = Vec::new();
                for part in &state.key {
                    let Some(value) = self.key_part(parsing, *part, begin, counts)? else {
                        self.jump(parsing.bail);
                        return Ok(());
                    };
                    key.push(value);
                }
                for SelectCase { pattern, next } in &state.cases {
                    let Keyset::Masked { value, mask } = pattern else {
                        self.jump(parsing.bail);
                        return Ok(());
                    };
                    let parts = key.iter().zip(mask).zip(value);
                    let parts: Vec<_> =
                        parts.map(|((part, mask), value)| (self.mask(*part, *mask), *value)).collect();
                    let next = self.state_block(parsing, to(*next));
                    self.case(&parts, next);
                }
            }
        }
        let default = self.state_block(parsing, to(state.default));
        self.jump(default);
        Ok(())
    }

    /// Emits a jump to `next`, taken if all parts have these values.
    fn case(&mut self, parts: &[(Value, u64)], next: Block) {
        let other = self.builder.create_block();
        for (index, (part, value)) in parts.iter().enumerate() {
            let value = self.iconst(*value);
            let equal = self.compare(IntCC::Equal, *part, value);
            let then = if index + 1 < parts.len() { self.builder.create_block() } else { next };
            self.brif(equal, then, other);
            if then != next {
                self.switch_to(then);
            }
        }
        if parts.is_empty() {
            self.jump(next);
        }
        self.switch_to(other);
    }

    /// Returns a select key packed into one word, without the parts that no case compares.
    fn word_key(&mut self, select: &PackedSelect, used: u64) -> Value {
        let mut key = None;
        for (index, (slot, up)) in select.parts.iter().enumerate() {
            let end = select.parts.get(index + 1).map_or(64, |(_, up)| u32::from(*up));
            if used & low_mask(end) & !low_mask(u32::from(*up)) == 0 {
                continue;
            }
            let part = self.use_slot(*slot);
            let part = self.shift_left(part, u32::from(*up));
            key = Some(match key {
                Some(key) => self.builder.ins().bor(key, part),
                None => part,
            });
        }
        match key {
            Some(key) => key,
            None => self.iconst(0),
        }
    }

    fn key_part(
        &mut self,
        parsing: &ParserEmitter,
        part: SelectPart,
        begin: u32,
        counts: &[u16],
    ) -> Result<Option<Value>, Unsupported> {
        if part.words() != 1 {
            return Ok(None);
        }
        Ok(match part {
            SelectPart::Slot { slot, .. } => Some(self.use_slot(slot)),
            SelectPart::StackLast { stack, offset, .. } => {
                let at = &self.program.layout.stacks[usize::from(stack)];
                let last = counts[usize::from(stack)].checked_sub(1);
                last.map(|last| self.use_slot(at.base + last * at.stride + offset))
            }
            SelectPart::Lookahead { offset, bits }
                if (1..=MAX_UNALIGNED_BITS).contains(&bits) && is_in_room(begin + (offset + bits) / 8) =>
            {
                let from = begin * 8 + offset;
                self.emit_length_check(parsing, (from + bits).div_ceil(8));
                Some(self.load_bits(from, bits)?)
            }
            SelectPart::Lookahead { .. } => None,
        })
    }

    fn verify(&mut self, parsing: &ParserEmitter) -> Result<(), Unsupported> {
        let program = self.program;
        let mut wrong = self.iconst(0);
        for (index, checksum) in program.checksums.iter().enumerate().filter(|(_, checksum)| checksum.verify)
        {
            let this = match parsing.checksum_error[index] {
                Some(variable) => self.builder.use_var(variable),
                None => {
                    let (next, zero) = (self.builder.create_block(), self.iconst(0));
                    let result = self.builder.append_block_param(next, types::I64);
                    let skip = |generator: &mut Self, counts: Value| {
                        let on = generator.builder.create_block();
                        generator.builder.ins().brif(counts, on, &[], next, &[zero.into()]);
                        generator.switch_to(on);
                    };
                    if let Some(valid) = checksum.valid {
                        let valid = self.use_slot(valid);
                        skip(self, valid);
                    }
                    if let Some(condition) = checksum.condition {
                        if let Some(code) = condition.code {
                            let done = self.builder.create_block();
                            self.emit_code(code, done)?;
                            self.switch_to(done);
                        }
                        let holds = self.use_slot(condition.slot);
                        skip(self, holds);
                    }
                    let calculation = self.iconst(u64::from(checksum.calculation));
                    let call = self.call_helper(self.helpers.hash, &[calculation], 1);
                    let (sum, found) = (self.result(call, 0), self.use_slot(checksum.target.slot));
                    let differs = self.compare(IntCC::NotEqual, sum, found);
                    let differs = self.bool_to_i64(differs);
                    self.builder.ins().jump(next, &[differs.into()]);
                    self.switch_to(next);
                    result
                }
            };
            wrong = self.builder.ins().bor(wrong, this);
        }
        let standard = &program.standard;
        self.set_imm(standard.parser_error, u64::from(program.parser.errors.no_error));
        self.def_slot(standard.checksum_error, wrong);
        Ok(())
    }
}
