//! The interpreter of parsers, checksums and deparsers.
//!
//! Slots are the 64-bit words of the header vector. A header has a block of consecutive slots: its validity, its frame
//! offset plus 1 (0: the header was not extracted from the frame), then its fields.

use super::hash::{self, Payload};
use super::header_moves::{load_header, read_bits, store_header};
use super::headers::element;
use super::interpreter::ExecContext;
use super::io::EgressMeta;
use super::native;
use super::phv::init_phv;
use super::state::State;
use super::trace::Tracer;
use crate::drops::DropReason;
use crate::packet::Packet;
use crate::program::{
    Checksum, ComputedSlot, FRAME_OFFSET_SLOT, HeaderId, HeaderMoves, Keyset, LOOP_BUDGET, MAX_SELECT_WORDS,
    PHV_CAPACITIES, ParseOp, Pc, Program, SelectPart, VALID_SLOT, limb_count, low_mask,
};

/// The width of v1model's timestamp fields.
const TIMESTAMP_BITS: u32 = 48;

/// The reason why the parser stopped before it accepted the packet.
#[derive(Clone, Copy, Debug)]
enum ParserStop {
    /// A parser error, by its number in the program. Ingress runs all the same.
    Error(u32),
    /// The packet must be dropped.
    Abort(DropReason),
}

impl From<u32> for ParserStop {
    fn from(error: u32) -> ParserStop {
        ParserStop::Error(error)
    }
}

/// The interpreter's context for one packet: parses it, runs control code on it, deparses it.
pub(super) struct PacketContext<'a, T> {
    pub program: &'a Program,
    pub state: &'a mut State,
    pub packet: &'a mut Packet,
    pub now: u64,
    pub tracer: &'a mut T,
}

impl<T: Tracer> PacketContext<'_, T> {
    /// Parses the packet and runs ingress on it.
    ///
    /// # Errors
    ///
    /// The parser or the control code exceeded [`LOOP_BUDGET`], or an assertion failed; the packet must be dropped for
    /// this reason.
    pub(super) fn ingress(&mut self, port: u16) -> Result<(), DropReason> {
        let program = self.program;
        let standard = &program.standard;
        let drop_port = u64::from(self.state.drop_port);
        if !std::mem::take(&mut self.packet.reentered) {
            init_phv(program, self.state, self.packet);
            let (len, now) = (self.packet.len(), self.now);
            let slots = self.slots();
            slots[usize::from(standard.ingress_port)] = u64::from(port);
            slots[usize::from(standard.packet_length)] = u64::from(len);
            slots[usize::from(standard.ingress_timestamp)] = now & low_mask(TIMESTAMP_BITS);
        }
        self.slots()[usize::from(program.control_slots.drop_port)] = drop_port;
        let (error, correct) = self.parse_and_verify()?;
        let slots = self.slots();
        slots[usize::from(standard.parser_error)] = u64::from(error);
        slots[usize::from(standard.checksum_error)] = u64::from(!correct);
        let parsed = self.packet.phv.parsed as usize;
        self.run(program.ingress, parsed)
    }

    /// Runs egress on the packet.
    ///
    /// # Errors
    ///
    /// The control code exceeded [`LOOP_BUDGET`], or an assertion failed; the packet must be dropped for this reason.
    pub(super) fn egress(&mut self, meta: EgressMeta, egress_spec: u64) -> Result<(), DropReason> {
        let program = self.program;
        let (standard, flags) = (&program.standard, &program.control_slots);
        let drop_port = u64::from(self.state.drop_port);
        native::restore_phv(program, self.state, self.packet);
        if !self.packet.phv.slots.has_layout(program.layout_id) {
            // A packet that was injected into egress: it has no valid headers.
            init_phv(program, self.state, self.packet);
        }
        let (parsed, length) = (self.packet.phv.parsed as usize, u64::from(self.packet.phv.length));
        let slots = self.slots();
        let mut set = |slot: u16, value: u64| slots[usize::from(slot)] = value;
        set(standard.egress_timestamp, meta.now & low_mask(TIMESTAMP_BITS));
        set(standard.enq_timestamp, meta.enq_timestamp & low_mask(standard.enq_timestamp_bits));
        set(standard.enq_qdepth, u64::from(meta.enq_qdepth) & low_mask(standard.qdepth_bits));
        set(standard.deq_timedelta, meta.deq_timedelta & low_mask(standard.deq_timedelta_bits));
        set(standard.deq_qdepth, u64::from(meta.deq_qdepth) & low_mask(standard.qdepth_bits));
        set(standard.qid, u64::from(meta.qid));
        set(standard.egress_rid, u64::from(meta.rid));
        set(standard.egress_port, u64::from(meta.port));
        set(standard.egress_spec, egress_spec);
        set(standard.packet_length, length);
        set(flags.drop_port, drop_port);
        set(flags.exit, 0);
        self.run(program.egress, parsed)
    }

    /// Runs code on the packet. The payload begins at byte `parsed`.
    fn run(&mut self, code: Pc, parsed: usize) -> Result<(), DropReason> {
        let virtual_len = self.packet.virtual_len();
        let (frame, len, phv) = self.packet.frame_and_phv();
        let mut context = ExecContext {
            program: self.program,
            state: &mut *self.state,
            length: &mut phv.length,
            payload: Payload::new(frame, parsed, len, virtual_len, phv.truncate),
            truncate: &mut phv.truncate,
            ingress_length: phv.ingress_length,
            now: self.now,
            tracer: &mut *self.tracer,
            open_condition: None,
        };
        let slots = &mut *phv.slots;
        if let Ok(slots) = <&mut [u64; PHV_CAPACITIES[0]]>::try_from(&mut *slots) {
            context.run(slots, code)
        } else if let Ok(slots) = <&mut [u64; PHV_CAPACITIES[1]]>::try_from(&mut *slots) {
            context.run(slots, code)
        } else if let Ok(slots) = <&mut [u64; PHV_CAPACITIES[2]]>::try_from(&mut *slots) {
            context.run(slots, code)
        } else if let Ok(slots) = <&mut [u64; PHV_CAPACITIES[3]]>::try_from(slots) {
            context.run(slots, code)
        } else {
            // Not reached: every loaded program has one of these capacities.
            Ok(())
        }
    }

    /// Parses the packet and verifies its checksums. Returns the parser's error, and whether all checksums are
    /// correct.
    ///
    /// # Errors
    ///
    /// [`DropReason::ParserLoop`]: the parser exceeded [`LOOP_BUDGET`]; [`DropReason::AssertionFailed`].
    pub(super) fn parse_and_verify(&mut self) -> Result<(u32, bool), DropReason> {
        Ok((self.parse()?, self.verify_checksums()))
    }

    /// Runs the code of an expression, which has no backward jumps and therefore cannot fail.
    fn run_expression(&mut self, code: Pc, parsed: usize) {
        let result = self.run(code, parsed);
        debug_assert_eq!(result, Ok(()));
    }

    #[inline]
    fn slots(&mut self) -> &mut [u64] {
        &mut self.packet.phv.slots
    }

    /// Evaluates an expression and returns its value.
    fn eval(&mut self, expression: ComputedSlot, parsed: usize) -> u64 {
        if let Some(code) = expression.code {
            self.run_expression(code, parsed);
        }
        self.slots()[usize::from(expression.slot)]
    }

    /// Parses the packet from its first byte. Returns the parser's error, which may be `NoError`.
    ///
    /// # Errors
    ///
    /// [`DropReason::ParserLoop`]: the parser exceeded [`LOOP_BUDGET`]; [`DropReason::AssertionFailed`].
    fn parse(&mut self) -> Result<u32, DropReason> {
        let mut position = 0;
        let program = self.program;
        let error = match self.run_states(&mut position) {
            Ok(()) => program.parser.errors.no_error,
            Err(ParserStop::Abort(reason)) => return Err(reason),
            Err(ParserStop::Error(error)) => {
                if T::ENABLED {
                    self.tracer.parser_error(program, error, program.parser.errors.name(error));
                }
                error
            }
        };
        self.packet.phv.parsed = position as u32;
        Ok(error)
    }

    /// Runs the parser's states from byte `position` on, which it advances.
    fn run_states(&mut self, position: &mut usize) -> Result<(), ParserStop> {
        let parser = &self.program.parser;
        let (mut next, mut budget) = (parser.start, LOOP_BUDGET);
        while let Some(state_index) = next {
            let state = &parser.states[usize::from(state_index)];
            if T::ENABLED {
                self.tracer.parser_state(self.program, &state.name);
            }
            budget = budget.saturating_sub(state.cost);
            if budget == 0 {
                return Err(ParserStop::Abort(DropReason::ParserLoop));
            }
            for op in &state.ops {
                self.exec_op(op, position)?;
            }
            next = self.transition(state_index, *position)?;
        }
        Ok(())
    }

    /// Returns the next state; `None`: accept.
    #[inline]
    fn transition(&mut self, state_index: u16, position: usize) -> Result<Option<u16>, u32> {
        let state = &self.program.parser.states[usize::from(state_index)];
        Ok(match &state.packed {
            Some(select) => {
                let slots = self.slots();
                let parts = select.parts.iter();
                let key = parts.fold(0, |key, (slot, up)| key | slots[usize::from(*slot)] << (up & 63));
                let found = select.cases.iter().find(|(mask, value, _)| key & mask == *value);
                found.map_or(state.default, |(_, _, next)| *next)
            }
            None if state.key.is_empty() => state.default,
            None => {
                let (mut key, mut len) = ([0; MAX_SELECT_WORDS], 0);
                for part in &state.key {
                    self.read_select_part(*part, position, &mut key[len..len + part.words()])?;
                    len += part.words();
                }
                self.select(state_index, &key[..len])
            }
        })
    }

    /// Executes one operation of a parser state.
    fn exec_op(&mut self, op: &ParseOp, position: &mut usize) -> Result<(), ParserStop> {
        let program = self.program;
        let errors = &program.parser.errors;
        match *op {
            ParseOp::Extract { header, base, in_union, length } => {
                let moves = &program.header_moves[usize::from(header.0)];
                let length = length.map(|length| self.eval(length, *position));
                self.extract(moves, header, base, length, position)?;
                if in_union {
                    self.invalidate_other_union_members(header);
                }
                Ok(())
            }
            ParseOp::ExtractNext { stack, block, length } => {
                let length = length.map(|length| self.eval(length, *position));
                Ok(self.extract_next(stack, block, length, position)?)
            }
            ParseOp::Lookahead { slot, width, offset, bits } => {
                let begin = *position * 8 + offset as usize;
                if !self.packet.materialise((begin + bits as usize).div_ceil(8)) {
                    return Err(errors.packet_too_short.into());
                }
                let (frame, _, phv) = self.packet.frame_and_phv();
                let to = &mut phv.slots[usize::from(slot)..][..limb_count(width)];
                read_bits(frame, begin, bits, to);
                for (index, limb) in to.iter_mut().enumerate() {
                    *limb &= low_mask(width.saturating_sub(64 * index as u32));
                }
                Ok(())
            }
            ParseOp::Advance(bits) => {
                let bits = self.eval(bits, *position);
                if !bits.is_multiple_of(8) {
                    return Err(errors.invalid_argument.into());
                }
                let end = usize::try_from(bits / 8).ok().and_then(|bytes| position.checked_add(bytes));
                match end.filter(|end| *end <= self.packet.len() as usize) {
                    Some(end) if self.packet.materialise(end) => {
                        *position = end;
                        Ok(())
                    }
                    _ => Err(errors.packet_too_short.into()),
                }
            }
            ParseOp::Run(code) => self.run(code, *position).map_err(ParserStop::Abort),
            ParseOp::Verify { condition, error } => match self.eval(condition, *position) {
                0 => Err(ParserStop::Error(self.eval(error, *position) as u32)),
                _ => Ok(()),
            },
        }
    }

    fn extract_next(
        &mut self,
        stack: u16,
        block: u16,
        length: Option<u64>,
        position: &mut usize,
    ) -> Result<(), u32> {
        let program = self.program;
        let stack = &program.layout.stacks[usize::from(stack)];
        let next = self.slots()[usize::from(stack.next_index_slot)];
        let Some(base) = element(stack, next) else { return Err(program.parser.errors.stack_out_of_bounds) };
        let (offset, ty) = stack.member_blocks[usize::from(block)];
        let base = base + offset;
        // Only the tracer uses the header's id.
        let header = if T::ENABLED { program.layout.header_at(base) } else { HeaderId(0) };
        self.extract(&program.type_moves[ty], header, base, length, position)?;
        // An element of a union stack has one block per member of the union; the other members become invalid.
        for (other, _) in stack.member_blocks.iter().filter(|(other, _)| *other != offset) {
            self.slots()[usize::from(base - offset + other + VALID_SLOT)] = 0;
        }
        self.slots()[usize::from(stack.next_index_slot)] = next + 1;
        Ok(())
    }

    /// Extracts a header. `length` is the number of bits of its varbit field, `None` if it has none.
    #[inline]
    fn extract(
        &mut self,
        moves: &HeaderMoves,
        header: HeaderId,
        base: u16,
        length: Option<u64>,
        position: &mut usize,
    ) -> Result<(), u32> {
        let begin = *position;
        let fixed = begin + usize::from(moves.bytes);
        let end = match length {
            None => fixed,
            Some(bits) => self.varbit_end(moves, bits, fixed)?,
        };
        if !self.packet.materialise(end) {
            return Err(self.program.parser.errors.packet_too_short);
        }
        let (frame, _, phv) = self.packet.frame_and_phv();
        load_header(&moves.extract, frame, begin, &mut phv.slots, usize::from(base));
        if length.is_some() {
            self.extract_varbit(moves, base, begin, end - fixed);
        }
        *position = end;
        let slots = self.slots();
        slots[usize::from(base + VALID_SLOT)] = 1;
        slots[usize::from(base + FRAME_OFFSET_SLOT)] =
            if moves.keeps_frame_bytes { begin as u64 + 1 } else { 0 };
        if T::ENABLED {
            self.tracer.extract(self.program, header, begin, *position - begin);
        }
        Ok(())
    }

    /// Returns the end of a header with a varbit field of `bits` bits, or the parser error. Errors are
    /// checked in BMv2's order.
    #[cold]
    fn varbit_end(&self, moves: &HeaderMoves, bits: u64, fixed: usize) -> Result<usize, u32> {
        let errors = &self.program.parser.errors;
        if !bits.is_multiple_of(8) {
            return Err(errors.invalid_argument);
        }
        let bytes = usize::try_from(bits / 8).unwrap_or(usize::MAX);
        let end = fixed.saturating_add(bytes);
        if end > self.packet.len() as usize {
            return Err(errors.packet_too_short);
        }
        if bytes + usize::from(moves.bytes) > usize::from(moves.max_bytes) {
            return Err(errors.header_too_short);
        }
        Ok(end)
    }

    /// Extracts the varbit field of a header and the fields after it.
    #[cold]
    fn extract_varbit(&mut self, moves: &HeaderMoves, base: u16, begin: usize, bytes: usize) {
        let Some(varbit) = &moves.varbit else { return };
        let (frame, _, phv) = self.packet.frame_and_phv();
        let from = begin + usize::from(varbit.offset);
        let to = from + bytes;
        let words = &mut phv.slots[usize::from(base + varbit.slot)..][..usize::from(varbit.slot_count)];
        words.fill(0);
        words[0] = bytes as u64 * 8;
        for (word, bytes) in words[1..].iter_mut().zip(frame[from..to].chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_be_bytes(whole);
        }
        load_header(&varbit.tail, frame, to, &mut phv.slots, usize::from(base));
    }

    /// Makes the other members of the header's union invalid.
    #[inline]
    fn invalidate_other_union_members(&mut self, header: HeaderId) {
        let layout = &self.program.layout;
        if let Some(place) = layout.header(header).union_member {
            for other in layout.unions[place.union].headers.iter().filter(|other| **other != header) {
                self.slots()[usize::from(layout.header(*other).first_slot + VALID_SLOT)] = 0;
            }
        }
    }

    fn read_select_part(&mut self, part: SelectPart, position: usize, key: &mut [u64]) -> Result<(), u32> {
        let program = self.program;
        match part {
            SelectPart::Slot { slot, .. } => {
                let from = usize::from(slot);
                key.copy_from_slice(&self.slots()[from..from + key.len()]);
            }
            SelectPart::StackLast { stack, offset, .. } => {
                let stack = &program.layout.stacks[usize::from(stack)];
                let last = self.slots()[usize::from(stack.next_index_slot)].wrapping_sub(1);
                let from = usize::from(element(stack, last).unwrap_or(program.layout.dummy_block) + offset);
                key.copy_from_slice(&self.slots()[from..from + key.len()]);
            }
            SelectPart::Lookahead { offset, bits } => {
                let begin = position * 8 + offset as usize;
                if !self.packet.materialise((begin + bits as usize).div_ceil(8)) {
                    return Err(program.parser.errors.packet_too_short);
                }
                let (frame, ..) = self.packet.frame_and_phv();
                read_bits(frame, begin, bits, key);
            }
        }
        Ok(())
    }

    /// Returns the next state for a key; `None`: accept.
    fn select(&self, state: u16, key: &[u64]) -> Option<u16> {
        let state = &self.program.parser.states[usize::from(state)];
        for case in &state.cases {
            let matches = match &case.pattern {
                Keyset::Masked { value, mask } => {
                    key.iter().zip(mask).zip(value).all(|((word, mask), value)| word & mask == *value)
                }
                Keyset::ValueSet { list, mask } => {
                    self.state.value_lists[usize::from(*list)].iter().any(|value| match mask {
                        None => value == key,
                        Some(mask) => key
                            .iter()
                            .zip(value)
                            .zip(mask)
                            .all(|((word, value), mask)| word & mask == value & mask),
                    })
                }
            };
            if matches {
                return case.next;
            }
        }
        state.default
    }

    /// Verifies the checksums. Returns whether all are correct.
    pub(super) fn verify_checksums(&mut self) -> bool {
        let program = self.program;
        let mut all_correct = true;
        for checksum in program.checksums.iter().filter(|checksum| checksum.is_verified) {
            all_correct &= self.verify(checksum);
        }
        all_correct
    }

    /// Returns whether a checksum is correct. It counts as correct if its header is invalid or its condition is
    /// false.
    fn verify(&mut self, checksum: &Checksum) -> bool {
        if checksum.valid.is_some_and(|valid| self.slots()[usize::from(valid)] == 0) {
            return true;
        }
        let parsed = self.packet.phv.parsed as usize;
        if checksum.condition.is_some_and(|condition| self.eval(condition, parsed) == 0) {
            return true;
        }
        let value = self.calculate(checksum.calculation);
        let correct = self.slots()[usize::from(checksum.target.slot)] == value;
        if T::ENABLED {
            self.tracer.checksum(self.program, &checksum.name, correct);
        }
        correct
    }

    /// Recalculates the checksums for deparsing.
    fn update_checksums(&mut self) {
        let program = self.program;
        let parsed = self.packet.phv.parsed as usize;
        for checksum in program.checksums.iter().filter(|checksum| checksum.is_updated) {
            if checksum.condition.is_some_and(|condition| self.eval(condition, parsed) == 0) {
                continue;
            }
            let value = self.calculate(checksum.calculation) & low_mask(checksum.target.bits);
            self.slots()[usize::from(checksum.target.slot)] = value;
        }
    }

    fn calculate(&mut self, calculation: u16) -> u64 {
        let index = usize::from(calculation);
        let virtual_len = self.packet.virtual_len();
        let (frame, len, phv) = self.packet.frame_and_phv();
        let payload = Payload::new(frame, phv.parsed as usize, len, virtual_len, phv.truncate);
        let State { scratch, calculations, .. } = &mut *self.state;
        let (calculation, buffer) = (&self.program.calculations[index], &mut scratch.hash_input);
        hash::compute(calculation, &phv.slots, payload, buffer, &mut calculations[index])
    }

    /// Updates checksums, then emits the valid headers before the payload.
    ///
    /// # Errors
    ///
    /// The deparser's code exceeded [`LOOP_BUDGET`], or an assertion failed; the packet must be dropped for this
    /// reason.
    pub(super) fn deparse(&mut self) -> Result<(), DropReason> {
        let program = self.program;
        let parsed = self.packet.phv.parsed as usize;
        self.update_checksums();
        if let Some(code) = program.deparser.code {
            self.run(code, parsed)?;
        }
        // The leading headers that keep their position at the start of the frame are updated in place.
        // `total_len`: bytes of all headers so far; `kept_len`: bytes of the leading headers; `adjacent`: every
        // header so far keeps its position; `rest_is_new`: no later header was extracted from the frame.
        let (mut total_len, mut kept_len, mut adjacent, mut rest_is_new) = (0, 0, true, true);
        let slots = &self.packet.phv.slots;
        for (header, base) in &program.deparser.order {
            if slots[usize::from(*base + VALID_SLOT)] == 0 {
                continue;
            }
            // Frame offset plus 1; 0 for a new header.
            let origin = slots[usize::from(*base + FRAME_OFFSET_SLOT)];
            adjacent &= origin == total_len as u64 + 1;
            total_len += length(&program.header_moves[usize::from(header.0)], &slots[usize::from(*base)..]);
            if adjacent {
                kept_len = total_len;
            } else {
                rest_is_new &= origin == 0;
            }
        }
        let old = &mut self.state.scratch.old_headers;
        let in_place = rest_is_new && total_len >= parsed;
        if in_place {
            // The kept headers move to the new start of the frame. All headers after them are new, so no old
            // bytes are needed that this overwrites.
            self.packet.resize_front(parsed, total_len);
            let (frame, ..) = self.packet.frame_and_phv();
            if total_len > parsed {
                frame.copy_within(total_len - parsed..total_len - parsed + kept_len, 0);
            }
        } else {
            let (frame, len, _) = self.packet.frame_and_phv();
            old.clear();
            old.extend_from_slice(&frame[..parsed.min(len)]);
            self.packet.resize_front(parsed, total_len);
        }
        let (frame, _, phv) = self.packet.frame_and_phv();
        let mut position = 0;
        for (header, base) in &program.deparser.order {
            let (base, moves) = (usize::from(*base), &program.header_moves[usize::from(header.0)]);
            if phv.slots[base + usize::from(VALID_SLOT)] == 0 {
                continue;
            }
            let len = length(moves, &phv.slots[base..]);
            if in_place && position < kept_len {
                store_header(&moves.update, frame, position, &phv.slots, base);
            } else {
                emit(moves, &phv.slots, base, old, &mut frame[position..], len);
            }
            if T::ENABLED {
                self.tracer.emit(program, *header, len);
            }
            position += len;
        }
        phv.parsed = 0;
        Ok(())
    }
}

/// Returns the length of a header in bytes.
#[inline]
fn length(moves: &HeaderMoves, block: &[u64]) -> usize {
    let variable = moves.varbit.as_ref().map_or(0, |varbit| block[usize::from(varbit.slot)] / 8);
    usize::from(moves.bytes) + variable as usize
}

/// Writes a header to the start of `frame`. Bits that belong to no field are copied from `old`, the headers of the
/// packet as received, if the header was extracted; otherwise they are 0.
fn emit(moves: &HeaderMoves, slots: &[u64], base: usize, old: &[u8], frame: &mut [u8], len: usize) {
    let origin = (slots[base + usize::from(FRAME_OFFSET_SLOT)] as usize).checked_sub(1);
    if let Some(old_bytes) = origin.and_then(|origin| old.get(origin..origin + len)) {
        frame[..len].copy_from_slice(old_bytes);
        store_header(&moves.update, frame, 0, slots, base);
        return;
    }
    frame[..len].fill(0);
    store_header(&moves.extract, frame, 0, slots, base);
    if let Some(varbit) = &moves.varbit {
        let from = usize::from(varbit.offset);
        let to = len - usize::from(varbit.tail_bytes);
        let words = &slots[base + usize::from(varbit.slot) + 1..];
        for (bytes, word) in frame[from..to].chunks_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes()[..bytes.len()]);
        }
        store_header(&varbit.tail, frame, to, slots, base);
    }
}
