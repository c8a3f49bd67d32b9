//! Lowers the parser: one block for each state and each frame offset at which the state can begin, so that
//! every offset is a constant.

use super::abi::{CallFrame, EXIT_PARSER_LOOP, MAX_FRAME_ACCESS};
use super::code::Unsupported;
use super::emitter::{Emitter, MAX_BLOCKS};
use crate::program::frame_access::{HeaderExtract, header_extract};
use crate::program::layout::{FRAME_OFFSET_SLOT, VALID_SLOT};
use crate::program::limbs::{limb_count, low_mask};
use crate::program::link::LinkedProgram;
use crate::program::op::{LOOP_BUDGET, Slot};
use crate::program::parser::{Keyset, PackedSelect, ParseOp, ParserState, SelectCase, SelectPart};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::Variable;
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;

/// A point of the parser's execution, for which one block is generated: the state (`None`: accept), the frame offset in
/// bytes, and the number of elements extracted to each stack.
type ParsePoint = (Option<u16>, u32, Vec<u16>);

/// The blocks of the parser, and a worklist of those still to be emitted.
pub(super) struct ParserEmitter {
    blocks: HashMap<ParsePoint, Block>,
    waiting: Vec<ParsePoint>,
    /// The block of accepted packets.
    accept: Block,
    /// The block that leaves the packet to the interpreter.
    interpreter_exit: Block,
    /// For each checksum of the program: if it is verified over the frame, a variable that is 1 if it is wrong,
    /// otherwise 0.
    checksum_error: Vec<Option<Variable>>,
    /// The remaining [`LOOP_BUDGET`]; `None` if the parser cannot exhaust it.
    budget: Option<Variable>,
    /// For each slot that still has the value which the current state loaded from the frame: the frame offset in bits
    /// of that value.
    frame_bits: HashMap<Slot, u32>,
}

/// Up to eight consecutive bytes of the frame that contain parts of a select key. The cases are compared with the
/// bytes as they are in the frame: the masks and values are swapped to native byte order when code is generated,
/// instead of the key at run time.
struct SelectWindow {
    /// Frame offset of the first byte.
    first: u32,
    /// Number of bytes: 1, 2, 4 or 8.
    bytes: u32,
    /// For each part of the key in this window: its shift in the key, its shift in the window's big-endian
    /// number, and its width in bits.
    parts: Vec<(u8, u32, u32)>,
}

impl SelectWindow {
    /// Returns the bits of `word`, a mask or value of a case, that belong to this window, in native byte order.
    fn in_native_order(&self, word: u64) -> u64 {
        let part = |(key_shift, shift, bits): &(u8, u32, u32)| (word >> key_shift & low_mask(*bits)) << shift;
        let window = self.parts.iter().map(part).fold(0, |all, part| all | part);
        (window << (64 - 8 * self.bytes)).swap_bytes()
    }
}

/// The widest field that one 64-bit load holds at every bit offset within a byte: 64 - 7.
const MAX_UNALIGNED_BITS: u32 = 57;

/// Returns whether an 8-byte load from `end`, the byte after a field, is within [`MAX_FRAME_ACCESS`]. Then every load
/// of the field is too.
fn is_in_room(end: u32) -> bool {
    end as usize + 8 <= MAX_FRAME_ACCESS
}

/// Returns which headers the parser can extract at which frame offsets, as pairs of the header's first slot and the
/// offset in bytes. States after a variable-length extraction or an `advance` are not followed, since their offset is
/// not known when code is generated.
pub(super) fn extract_offsets(program: &LinkedProgram) -> HashSet<(Slot, u32)> {
    let (mut offsets, mut visited) = (HashSet::new(), HashSet::new());
    let mut waiting = vec![(program.parser.start, 0)];
    while let Some(point) = waiting.pop() {
        let (Some(state), mut begin) = point else { continue };
        if visited.len() >= MAX_BLOCKS || begin as usize > MAX_FRAME_ACCESS || !visited.insert(point) {
            continue;
        }
        let Some(state) = program.parser.states.get(usize::from(state)) else { continue };
        let has_fixed_offset = state.ops.iter().all(|op| match *op {
            ParseOp::Extract { header, base, length: None, .. } => {
                offsets.insert((base, begin));
                begin += program.layout.header_type(header).bytes;
                true
            }
            ParseOp::ExtractNext { stack, block, length: None } => {
                let stack = &program.layout.stacks[usize::from(stack)];
                let (offset, ty) = stack.member_blocks[usize::from(block)];
                let element = |index| stack.base + index * stack.stride + offset;
                offsets.extend((0..stack.size).map(|index| (element(index), begin)));
                begin += program.layout.types[ty].bytes;
                true
            }
            ParseOp::Extract { .. } | ParseOp::ExtractNext { .. } | ParseOp::Advance(_) => false,
            _ => true,
        });
        if has_fixed_offset {
            let next = state.cases.iter().map(|case| case.next).chain([state.default]);
            waiting.extend(next.map(|next| (next, begin)));
        }
    }
    offsets
}

/// Returns the windows of the frame that cover a select key; `None` if a part of the key does not have its value from
/// the frame.
fn select_windows(
    parser: &ParserEmitter,
    select: &PackedSelect,
    key: &[SelectPart],
) -> Option<Vec<SelectWindow>> {
    // For each part of the key: its first bit in the frame, its width in bits, and its shift in the key.
    let source = |((slot, key_shift), part): (&(Slot, u8), &SelectPart)| {
        Some((*parser.frame_bits.get(slot)?, part.bits(), *key_shift))
    };
    let mut sources = select.parts.iter().zip(key).map(source).collect::<Option<Vec<_>>>()?;
    sources.sort_unstable();
    let mut windows = Vec::new();
    let mut remaining = sources.as_slice();
    while let [(first, ..), ..] = remaining {
        let first = first / 8;
        let end = |(begin, bits, _): &(u32, u32, u8)| begin + bits;
        let fits = remaining.iter().take_while(|part| end(part) <= 8 * (first + 8)).count();
        let (inside, outside) = remaining.split_at(fits);
        let bytes = inside.iter().map(end).max()?.div_ceil(8) - first;
        let bytes = bytes.next_power_of_two();
        let part = |part: &(u32, u32, u8)| (part.2, 8 * (first + bytes) - end(part), part.1);
        windows.push(SelectWindow { first, bytes, parts: inside.iter().map(part).collect() });
        remaining = outside;
    }
    Some(windows)
}

impl Emitter<'_, '_> {
    /// Emits the parser and the verification of checksums. Afterwards the slots `parser_error` and `checksum_error`
    /// are set, and the code of the ingress control can follow.
    pub(super) fn parser(&mut self, interpreter_exit: Block) -> Result<(), Unsupported> {
        let zero = self.iconst(0);
        let checksum_error = self.frame_access.verified.iter().map(|checksum| {
            checksum.as_ref().map(|_| {
                let variable = self.builder.declare_var(types::I64);
                self.builder.def_var(variable, zero);
                variable
            })
        });
        let checksum_error = checksum_error.collect();
        let accept = self.builder.create_block();
        let mut parser = ParserEmitter {
            blocks: HashMap::new(),
            waiting: Vec::new(),
            accept,
            interpreter_exit,
            checksum_error,
            budget: self.parser_budget(),
            frame_bits: HashMap::new(),
        };
        let start = (self.program.parser.start, 0, vec![0; self.program.layout.stacks.len()]);
        let first = self.state_block(&mut parser, start);
        self.jump(first);
        while let Some(point) = parser.waiting.pop() {
            let block = self.state_block(&mut parser, point.clone());
            self.switch_to(block);
            self.emit_state(&mut parser, point)?;
        }
        self.switch_to(accept);
        self.emit_verification(&parser)
    }

    /// Declares the variable for the remaining [`LOOP_BUDGET`]; `None` if no path through at most [`MAX_BLOCKS`]
    /// blocks can exhaust it.
    fn parser_budget(&mut self) -> Option<Variable> {
        let parser = &self.program.parser;
        let is_costly =
            parser.states.iter().any(|state| state.cost as usize * MAX_BLOCKS >= LOOP_BUDGET as usize);
        (is_costly || parser.has_empty_cycle(&self.program.layout)).then(|| {
            let (budget, initial) =
                (self.builder.declare_var(types::I64), self.iconst(u64::from(LOOP_BUDGET)));
            self.builder.def_var(budget, initial);
            budget
        })
    }

    /// Returns the block of a point of the parser; beyond [`MAX_BLOCKS`], the block that leaves the packet to the
    /// interpreter. The first call for a point also adds its block to the worklist.
    fn state_block(&mut self, parser: &mut ParserEmitter, point: ParsePoint) -> Block {
        if let Some(block) = parser.blocks.get(&point) {
            return *block;
        }
        if parser.blocks.len() >= MAX_BLOCKS {
            return parser.interpreter_exit;
        }
        let block = self.builder.create_block();
        parser.blocks.insert(point.clone(), block);
        parser.waiting.push(point);
        block
    }

    fn emit_state(&mut self, parser: &mut ParserEmitter, point: ParsePoint) -> Result<(), Unsupported> {
        let (state, mut begin, mut counts) = point;
        let program = self.program;
        let Some(state) = state.and_then(|state| program.parser.states.get(usize::from(state))) else {
            let parsed = self.iconst(u64::from(begin));
            self.store_call_field(parsed, offset_of!(CallFrame, parsed));
            self.jump(parser.accept);
            return Ok(());
        };
        if let Some(budget) = parser.budget {
            self.emit_budget_check(budget, state.cost, EXIT_PARSER_LOOP);
        }
        parser.frame_bits.clear();
        for op in &state.ops {
            if !self.emit_parse_op(parser, op, &mut begin, &mut counts)? {
                self.jump(parser.interpreter_exit);
                return Ok(());
            }
        }
        self.emit_select(parser, state, begin, &counts)
    }

    /// Emits a check that the frame has at least `bytes` bytes. The interpreter gets shorter frames.
    fn emit_length_check(&mut self, parser: &ParserEmitter, bytes: u32) {
        let len = self.load_call_field(types::I64, offset_of!(CallFrame, len));
        let bytes = self.iconst(u64::from(bytes));
        let is_short = self.compare(IntCC::UnsignedLessThan, len, bytes);
        let next = self.builder.create_block();
        self.brif(is_short, parser.interpreter_exit, next);
        self.switch_to(next);
    }

    /// Emits an operation of a state. Returns false if the operation has no machine code: then the interpreter has
    /// to run the packet.
    fn emit_parse_op(
        &mut self,
        parser: &mut ParserEmitter,
        op: &ParseOp,
        begin: &mut u32,
        counts: &mut [u16],
    ) -> Result<bool, Unsupported> {
        let program = self.program;
        match *op {
            ParseOp::Extract { header, base, in_union: false, length: None } => {
                let Some(header) = &self.frame_access.headers[usize::from(header.0)] else {
                    return Ok(false);
                };
                self.emit_extract(parser, header, base, begin)
            }
            ParseOp::ExtractNext { stack, block, length: None } => {
                let (index, stack) = (usize::from(stack), &program.layout.stacks[usize::from(stack)]);
                let element_index = counts[index];
                let (offset, ty) = stack.member_blocks[usize::from(block)];
                if element_index >= stack.size {
                    return Ok(false);
                }
                let element = stack.base + element_index * stack.stride;
                let Some(header) = header_extract(&program.type_moves[ty], element + offset) else {
                    return Ok(false);
                };
                if !self.emit_extract(parser, &header, element + offset, begin)? {
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
                if limb_count(width) == 1
                    && (1..=MAX_UNALIGNED_BITS).contains(&bits)
                    && is_in_room(*begin + (offset + bits) / 8) =>
            {
                let from = *begin * 8 + offset;
                self.emit_length_check(parser, (from + bits).div_ceil(8));
                let value = self.load_bits(from, bits)?;
                let value = self.mask(value, low_mask(width));
                self.def_slot(slot, value);
                parser.frame_bits.remove(&slot);
                Ok(true)
            }
            ParseOp::Run(code) => {
                parser.frame_bits.clear();
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
                self.brif(holds, next, parser.interpreter_exit);
                self.switch_to(next);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Emits the extraction of a header at byte `begin` of the frame, and advances `begin`. Returns false if it
    /// has no machine code.
    fn emit_extract(
        &mut self,
        parser: &mut ParserEmitter,
        header: &HeaderExtract,
        base: Slot,
        begin: &mut u32,
    ) -> Result<bool, Unsupported> {
        let bytes = u32::from(header.bytes);
        if !is_in_room(*begin + bytes) {
            return Ok(false);
        }
        self.emit_length_check(parser, *begin + bytes);
        for field in &header.loads {
            let first_bit = (*begin + u32::from(field.offset)) * 8 + u32::from(field.left);
            parser.frame_bits.insert(field.slot, first_bit);
            if self.is_live(field.slot) {
                let value = self.load_field(*begin, field)?;
                self.def_slot(field.slot, value);
            }
        }
        self.set_imm(base + VALID_SLOT, 1);
        self.set_imm(base + FRAME_OFFSET_SLOT, if header.is_lazy { u64::from(*begin) + 1 } else { 0 });
        for (checksum, error) in self.frame_access.verified.iter().zip(&parser.checksum_error) {
            let (Some(checksum), Some(error)) = (checksum.filter(|checksum| checksum.base == base), error)
            else {
                continue;
            };
            let sum = self.internet_checksum(*begin, bytes, u32::from(checksum.offset), &[])?;
            let found = self.load_ne(*begin + u32::from(checksum.offset), 2)?;
            let differs = self.compare(IntCC::NotEqual, sum, found);
            let differs = self.bool_to_i64(differs);
            self.builder.def_var(*error, differs);
        }
        *begin += bytes;
        Ok(true)
    }

    /// Emits the transition of a state.
    fn emit_select(
        &mut self,
        parser: &mut ParserEmitter,
        state: &ParserState,
        begin: u32,
        counts: &[u16],
    ) -> Result<(), Unsupported> {
        let point_of = |next: Option<u16>| (next, begin, counts.to_vec());
        let windows = state.packed.as_ref().and_then(|select| select_windows(parser, select, &state.key));
        match &state.packed {
            Some(select) if windows.is_some() => {
                for (mask, value, next) in &select.cases {
                    let mut parts = Vec::new();
                    for window in windows.iter().flatten() {
                        let (mask, value) = (window.in_native_order(*mask), window.in_native_order(*value));
                        // A window that the case does not compare needs no load.
                        if (mask, value) != (0, 0) {
                            let raw = self.load_ne(window.first, window.bytes)?;
                            parts.push((self.mask(raw, mask), value));
                        }
                    }
                    let next = self.state_block(parser, point_of(*next));
                    self.emit_case(&parts, next);
                }
            }
            Some(select) => {
                let used = select.cases.iter().fold(0, |used, (mask, ..)| used | mask);
                let key = self.emit_packed_key(select, used);
                for (mask, value, next) in &select.cases {
                    let next = self.state_block(parser, point_of(*next));
                    let masked = self.mask(key, *mask & used);
                    self.emit_case(&[(masked, *value)], next);
                }
            }
            None => {
                let mut key = Vec::new();
                for part in &state.key {
                    let Some(value) = self.emit_key_part(parser, *part, begin, counts)? else {
                        self.jump(parser.interpreter_exit);
                        return Ok(());
                    };
                    key.push(value);
                }
                for SelectCase { pattern, next } in &state.cases {
                    let Keyset::Masked { value, mask } = pattern else {
                        self.jump(parser.interpreter_exit);
                        return Ok(());
                    };
                    let parts = key.iter().zip(mask).zip(value);
                    let parts: Vec<_> =
                        parts.map(|((part, mask), value)| (self.mask(*part, *mask), *value)).collect();
                    let next = self.state_block(parser, point_of(*next));
                    self.emit_case(&parts, next);
                }
            }
        }
        let default = self.state_block(parser, point_of(state.default));
        self.jump(default);
        Ok(())
    }

    /// Emits a jump to `next`, taken if all parts have these values.
    fn emit_case(&mut self, parts: &[(Value, u64)], next: Block) {
        let other = self.builder.create_block();
        for (index, (part, value)) in parts.iter().enumerate() {
            let value = self.iconst(*value);
            let is_equal = self.compare(IntCC::Equal, *part, value);
            let then = if index + 1 < parts.len() { self.builder.create_block() } else { next };
            self.brif(is_equal, then, other);
            if then != next {
                self.switch_to(then);
            }
        }
        if parts.is_empty() {
            self.jump(next);
        }
        self.switch_to(other);
    }

    /// Emits a select key packed into one word, without the parts that no case compares (`used` has the compared bits).
    fn emit_packed_key(&mut self, select: &PackedSelect, used: u64) -> Value {
        let mut key = None;
        for (index, (slot, shift)) in select.parts.iter().enumerate() {
            let end = select.parts.get(index + 1).map_or(64, |(_, shift)| u32::from(*shift));
            if used & low_mask(end) & !low_mask(u32::from(*shift)) == 0 {
                continue;
            }
            let part = self.use_slot(*slot);
            let part = self.shift_left(part, u32::from(*shift));
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

    /// Emits the value of a part of a select key. Returns `None` if it has no machine code.
    fn emit_key_part(
        &mut self,
        parser: &ParserEmitter,
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
                let index = usize::from(stack);
                let stack = &self.program.layout.stacks[index];
                let last = counts[index].checked_sub(1);
                last.map(|last| self.use_slot(stack.base + last * stack.stride + offset))
            }
            SelectPart::Lookahead { offset, bits }
                if (1..=MAX_UNALIGNED_BITS).contains(&bits) && is_in_room(begin + (offset + bits) / 8) =>
            {
                let from = begin * 8 + offset;
                self.emit_length_check(parser, (from + bits).div_ceil(8));
                Some(self.load_bits(from, bits)?)
            }
            SelectPart::Lookahead { .. } => None,
        })
    }

    /// Emits the verification of checksums: those over the frame were compared when their headers were extracted,
    /// the others are computed over slots here.
    fn emit_verification(&mut self, parser: &ParserEmitter) -> Result<(), Unsupported> {
        let program = self.program;
        let mut any_error = self.iconst(0);
        for (index, checksum) in
            program.checksums.iter().enumerate().filter(|(_, checksum)| checksum.is_verified)
        {
            let error = match parser.checksum_error[index] {
                Some(variable) => self.builder.use_var(variable),
                None => {
                    let (next, zero) = (self.builder.create_block(), self.iconst(0));
                    let result = self.builder.append_block_param(next, types::I64);
                    let skip_unless = |emitter: &mut Self, condition: Value| {
                        let verify = emitter.builder.create_block();
                        emitter.builder.ins().brif(condition, verify, &[], next, &[zero.into()]);
                        emitter.switch_to(verify);
                    };
                    if let Some(valid) = checksum.valid {
                        let valid = self.use_slot(valid);
                        skip_unless(self, valid);
                    }
                    if let Some(condition) = checksum.condition {
                        if let Some(code) = condition.code {
                            let done = self.builder.create_block();
                            self.emit_code(code, done)?;
                            self.switch_to(done);
                        }
                        let holds = self.use_slot(condition.slot);
                        skip_unless(self, holds);
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
            any_error = self.builder.ins().bor(any_error, error);
        }
        let standard = &program.standard;
        self.set_imm(standard.parser_error, u64::from(program.parser.errors.no_error));
        self.def_slot(standard.checksum_error, any_error);
        Ok(())
    }
}
