//! Interprets parser, checksums and deparser.

use super::hash::{self, Payload};
use super::header_moves::{load_header, read_bits, store_header};
use super::headers::element;
use super::interpreter::ExecContext;
use super::state::State;
use super::trace::Tracer;
use super::{EgressMeta, TIMESTAMP_BITS, init_phv, native};
use crate::drops::DropReason;
use crate::packet::Packet;
use crate::program::{
    Checksum, ComputedSlot, FRAME_OFFSET_SLOT, HeaderId, HeaderMoves, Keyset, LOOP_BUDGET, MAX_SELECT_WORDS,
    PHV_CAPACITIES, ParseOp, Pc, Program, SelectPart, VALID_SLOT, limbs, low_mask,
};

/// The interpreter's context of one packet: parses it, runs control code on it, deparses it.
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
    /// A parser or a run of code exceeded [`LOOP_BUDGET`]; the packet must be dropped for this reason.
    pub fn ingress(&mut self, port: u16) -> Result<(), DropReason> {
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
    /// A parser or a run of code exceeded [`LOOP_BUDGET`]; the packet must be dropped for this reason.
    pub fn egress(&mut self, meta: EgressMeta, egress_spec: u64) -> Result<(), DropReason> {
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
        let zeros = self.packet.virtual_len();
        let (frame, len, phv) = self.packet.frame_and_phv();
        let mut run = ExecContext {
            program: self.program,
            state: &mut *self.state,
            length: &mut phv.length,
            truncate: &mut phv.truncate,
            ingress_length: phv.ingress_length,
            payload: Payload { bytes: frame.get(parsed..len).unwrap_or_default(), virtual_len: zeros },
            now: self.now,
            tracer: &mut *self.tracer,
            open_condition: None,
        };
        let slots = &mut *phv.slots;
        if let Ok(slots) = <&mut [u64; PHV_CAPACITIES[0]]>::try_from(&mut *slots) {
            run.run(slots, code)
        } else if let Ok(slots) = <&mut [u64; PHV_CAPACITIES[1]]>::try_from(&mut *slots) {
            run.run(slots, code)
        } else if let Ok(slots) = <&mut [u64; PHV_CAPACITIES[2]]>::try_from(&mut *slots) {
            run.run(slots, code)
        } else if let Ok(slots) = <&mut [u64; PHV_CAPACITIES[3]]>::try_from(slots) {
            run.run(slots, code)
        } else {
            Ok(())
        }
    }

    /// Parses the packet and verifies its checksums. Returns the parser's error, and whether all checksums are
    /// correct.
    ///
    /// # Errors
    ///
    /// [`DropReason::ParserLoop`]: the parser exceeded [`LOOP_BUDGET`].
    pub fn parse_and_verify(&mut self) -> Result<(u32, bool), DropReason> {
        Ok((self.parse()?, self.verify_checksums()))
    }

    /// Runs code of an expression or of the parser, which has no backward jumps and therefore cannot fail.
    fn run_straight(&mut self, code: Pc, parsed: usize) {
        let ended = self.run(code, parsed);
        debug_assert_eq!(ended, Ok(()));
    }

    #[inline]
    fn slots(&mut self) -> &mut [u64] {
        &mut self.packet.phv.slots
    }

    fn value(&mut self, condition: ComputedSlot, parsed: usize) -> u64 {
        if let Some(code) = condition.code {
            self.run_straight(code, parsed);
        }
        self.slots()[usize::from(condition.slot)]
    }

    /// Parses the packet from its first byte. Returns the parser's error, `NoError` if there was none.
    ///
    /// # Errors
    ///
    /// [`DropReason::ParserLoop`]: the parser exceeded [`LOOP_BUDGET`].
    fn parse(&mut self) -> Result<u32, DropReason> {
        let mut at = 0;
        let program = self.program;
        let error = match self.states(&mut at) {
            Ok(true) => program.parser.errors.no_error,
            Ok(false) => return Err(DropReason::ParserLoop),
            Err(error) => {
                if T::ENABLED {
                    self.tracer.parser_error(program, error, program.parser.errors.name(error));
                }
                error
            }
        };
        self.packet.phv.parsed = at as u32;
        Ok(error)
    }

    /// Runs the parser's states. Returns `false` if [`LOOP_BUDGET`] is exceeded. `Err` is a parser error.
    fn states(&mut self, at: &mut usize) -> Result<bool, u32> {
        let parser = &self.program.parser;
        let (mut next, mut budget) = (parser.start, LOOP_BUDGET);
        while let Some(number) = next {
            let state = &parser.states[usize::from(number)];
            if T::ENABLED {
                self.tracer.parser_state(self.program, &state.name);
            }
            budget = budget.saturating_sub(state.cost);
            if budget == 0 {
                return Ok(false);
            }
            for op in &state.ops {
                self.step(op, at)?;
            }
            next = self.transition(number, *at)?;
        }
        Ok(true)
    }

    /// Returns the next state; `None`: accept.
    #[inline]
    fn transition(&mut self, number: u16, at: usize) -> Result<Option<u16>, u32> {
        let state = &self.program.parser.states[usize::from(number)];
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
                    self.key_part(*part, at, &mut key[len..len + part.words()])?;
                    len += part.words();
                }
                self.select(number, &key[..len])
            }
        })
    }

    /// Executes one operation of a parser state.
    fn step(&mut self, op: &ParseOp, at: &mut usize) -> Result<(), u32> {
        let program = self.program;
        let errors = &program.parser.errors;
        match *op {
            ParseOp::Extract { header, base, union, length } => {
                let shape = &program.header_moves[usize::from(header.0)];
                let length = length.map(|length| self.value(length, *at));
                self.extract(shape, header, base, length, at)?;
                if union {
                    self.invalidate_siblings(header);
                }
                Ok(())
            }
            ParseOp::ExtractNext { stack, block, length } => {
                let length = length.map(|length| self.value(length, *at));
                self.extract_next(stack, block, length, at)
            }
            ParseOp::Lookahead { slot, width, offset, bits } => {
                let begin = *at * 8 + offset as usize;
                if !self.packet.materialise((begin + bits as usize).div_ceil(8)) {
                    return Err(errors.packet_too_short);
                }
                let (frame, _, phv) = self.packet.frame_and_phv();
                let to = &mut phv.slots[usize::from(slot)..][..limbs(width)];
                read_bits(frame, begin, bits, to);
                for (index, limb) in to.iter_mut().enumerate() {
                    *limb &= low_mask(width.saturating_sub(64 * index as u32));
                }
                Ok(())
            }
            ParseOp::Advance(bits) => {
                let bits = self.value(bits, *at);
                if !bits.is_multiple_of(8) {
                    return Err(errors.invalid_argument);
                }
                let end = usize::try_from(bits / 8).ok().and_then(|bytes| at.checked_add(bytes));
                match end.filter(|end| *end <= self.packet.len() as usize) {
                    Some(end) if self.packet.materialise(end) => {
                        *at = end;
                        Ok(())
                    }
                    _ => Err(errors.packet_too_short),
                }
            }
            ParseOp::Run(code) => {
                self.run_straight(code, *at);
                Ok(())
            }
            ParseOp::Verify { condition, error } => match self.value(condition, *at) {
                0 => Err(self.value(error, *at) as u32),
                _ => Ok(()),
            },
        }
    }

    fn extract_next(
        &mut self,
        stack: u16,
        block: u16,
        length: Option<u64>,
        at: &mut usize,
    ) -> Result<(), u32> {
        let program = self.program;
        let stack = &program.layout.stacks[usize::from(stack)];
        let next = self.slots()[usize::from(stack.next_index_slot)];
        let Some(base) = element(stack, next) else { return Err(program.parser.errors.stack_out_of_bounds) };
        let (offset, ty) = stack.member_blocks[usize::from(block)];
        let base = base + offset;
        let header = if T::ENABLED { program.layout.header_at(base) } else { HeaderId(0) };
        self.extract(&program.type_shapes[ty], header, base, length, at)?;
        for (sibling, _) in stack.member_blocks.iter().filter(|(sibling, _)| *sibling != offset) {
            self.slots()[usize::from(base - offset + sibling + VALID_SLOT)] = 0;
        }
        self.slots()[usize::from(stack.next_index_slot)] = next + 1;
        Ok(())
    }

    /// Extracts a header. `length` is the number of bits of its varbit field, `None` if it has none.
    #[inline]
    fn extract(
        &mut self,
        shape: &HeaderMoves,
        header: HeaderId,
        base: u16,
        length: Option<u64>,
        at: &mut usize,
    ) -> Result<(), u32> {
        let begin = *at;
        let fixed = begin + usize::from(shape.bytes);
        let end = match length {
            None => fixed,
            Some(bits) => self.varbit_end(shape, bits, fixed)?,
        };
        if !self.packet.materialise(end) {
            return Err(self.program.parser.errors.packet_too_short);
        }
        let (frame, _, phv) = self.packet.frame_and_phv();
        load_header(&shape.extract, frame, begin, &mut phv.slots, usize::from(base));
        if length.is_some() {
            self.take_varbit(shape, base, begin, end - fixed);
        }
        *at = end;
        let slots = self.slots();
        slots[usize::from(base + VALID_SLOT)] = 1;
        slots[usize::from(base + FRAME_OFFSET_SLOT)] =
            if shape.keeps_frame_bytes { begin as u64 + 1 } else { 0 };
        if T::ENABLED {
            self.tracer.extract(self.program, header, begin, *at - begin);
        }
        Ok(())
    }

    /// Returns the end of a header with a varbit field of `bits` bits, or the parser error. Errors are
    /// checked in BMv2's order.
    #[cold]
    fn varbit_end(&self, shape: &HeaderMoves, bits: u64, fixed: usize) -> Result<usize, u32> {
        let errors = &self.program.parser.errors;
        if !bits.is_multiple_of(8) {
            return Err(errors.invalid_argument);
        }
        let bytes = usize::try_from(bits / 8).unwrap_or(usize::MAX);
        let end = fixed.saturating_add(bytes);
        if end > self.packet.len() as usize {
            return Err(errors.packet_too_short);
        }
        if bytes + usize::from(shape.bytes) > usize::from(shape.max_bytes) {
            return Err(errors.header_too_short);
        }
        Ok(end)
    }

    /// Extracts the varbit field of a header and the fields after it.
    #[cold]
    fn take_varbit(&mut self, shape: &HeaderMoves, base: u16, begin: usize, bytes: usize) {
        let Some(varbit) = &shape.varbit else { return };
        let (frame, _, phv) = self.packet.frame_and_phv();
        let from = begin + usize::from(varbit.offset);
        let to = from + bytes;
        let words = &mut phv.slots[usize::from(base + varbit.slot)..][..usize::from(varbit.limbs)];
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
    fn invalidate_siblings(&mut self, header: HeaderId) {
        let layout = &self.program.layout;
        if let Some((union, _)) = layout.header(header).union {
            for other in layout.unions[union].headers.iter().filter(|other| **other != header) {
                self.slots()[usize::from(layout.header(*other).first_slot + VALID_SLOT)] = 0;
            }
        }
    }

    fn key_part(&mut self, part: SelectPart, at: usize, key: &mut [u64]) -> Result<(), u32> {
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
                let begin = at * 8 + offset as usize;
                if !self.packet.materialise((begin + bits as usize).div_ceil(8)) {
                    return Err(program.parser.errors.packet_too_short);
                }
                let (frame, ..) = self.packet.frame_and_phv();
                read_bits(frame, begin, bits, key);
            }
        }
        Ok(())
    }

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
    pub fn verify_checksums(&mut self) -> bool {
        let program = self.program;
        let mut all = true;
        for checksum in program.checksums.iter().filter(|checksum| checksum.verify) {
            all &= self.verify(checksum);
        }
        all
    }

    /// Returns whether a checksum is correct. One whose header is invalid or whose condition is false counts
    /// as correct.
    fn verify(&mut self, checksum: &Checksum) -> bool {
        if checksum.valid.is_some_and(|valid| self.slots()[usize::from(valid)] == 0) {
            return true;
        }
        let parsed = self.packet.phv.parsed as usize;
        if checksum.condition.is_some_and(|condition| self.value(condition, parsed) == 0) {
            return true;
        }
        let value = self.calculate(checksum.calculation);
        let correct = self.slots()[usize::from(checksum.target.slot)] == value;
        if T::ENABLED {
            self.tracer.checksum(self.program, &checksum.name, correct);
        }
        correct
    }

    fn update_checksums(&mut self) {
        let program = self.program;
        let parsed = self.packet.phv.parsed as usize;
        for checksum in program.checksums.iter().filter(|checksum| checksum.update) {
            if checksum.condition.is_some_and(|condition| self.value(condition, parsed) == 0) {
                continue;
            }
            let value = self.calculate(checksum.calculation) & low_mask(checksum.target.bits);
            self.slots()[usize::from(checksum.target.slot)] = value;
        }
    }

    fn calculate(&mut self, calculation: u16) -> u64 {
        let index = usize::from(calculation);
        let zeros = self.packet.virtual_len();
        let (frame, len, phv) = self.packet.frame_and_phv();
        let payload =
            Payload { bytes: frame.get(phv.parsed as usize..len).unwrap_or_default(), virtual_len: zeros };
        let State { scratch, round_robin_calls: calls, .. } = &mut *self.state;
        let (calculation, buffer) = (&self.program.calculations[index], &mut scratch.buffer);
        hash::compute(calculation, &phv.slots, payload, buffer, &mut calls[index])
    }

    /// Updates checksums, then emits the valid headers before the payload.
    ///
    /// # Errors
    ///
    /// A parser or a run of code exceeded [`LOOP_BUDGET`]; the packet must be dropped for this reason.
    pub fn deparse(&mut self) -> Result<(), DropReason> {
        let program = self.program;
        let parsed = self.packet.phv.parsed as usize;
        self.update_checksums();
        if let Some(code) = program.deparser.code {
            self.run(code, parsed)?;
        }
        // The leading headers that were adjacent at the start of the frame, and still are, are updated in
        // place.
        let (mut total, mut kept, mut joined, mut rest_is_new) = (0, 0, true, true);
        let slots = &self.packet.phv.slots;
        for (header, base) in &program.deparser.order {
            if slots[usize::from(*base + VALID_SLOT)] == 0 {
                continue;
            }
            let origin = slots[usize::from(*base + FRAME_OFFSET_SLOT)];
            joined &= origin == total as u64 + 1;
            total += length(&program.header_moves[usize::from(header.0)], &slots[usize::from(*base)..]);
            if joined {
                kept = total;
            } else {
                rest_is_new &= origin == 0;
            }
        }
        let old = &mut self.state.scratch.old;
        let moved = rest_is_new && total >= parsed;
        if moved {
            // The kept headers move to the new start of the frame. All headers after them are new, so nothing is
            // overwritten that is still needed.
            self.packet.resize_front(parsed, total);
            let (frame, ..) = self.packet.frame_and_phv();
            if total > parsed {
                frame.copy_within(total - parsed..total - parsed + kept, 0);
            }
        } else {
            let (frame, len, _) = self.packet.frame_and_phv();
            old.clear();
            old.extend_from_slice(&frame[..parsed.min(len)]);
            self.packet.resize_front(parsed, total);
        }
        let (frame, _, phv) = self.packet.frame_and_phv();
        let mut at = 0;
        for (header, base) in &program.deparser.order {
            let (base, shape) = (usize::from(*base), &program.header_moves[usize::from(header.0)]);
            if phv.slots[base + usize::from(VALID_SLOT)] == 0 {
                continue;
            }
            let len = length(shape, &phv.slots[base..]);
            if moved && at < kept {
                store_header(&shape.update, frame, at, &phv.slots, base);
            } else {
                emit(shape, &phv.slots, base, old, &mut frame[at..], len);
            }
            if T::ENABLED {
                self.tracer.emit(program, *header, len);
            }
            at += len;
        }
        phv.parsed = 0;
        Ok(())
    }
}

/// Returns the length of a header in bytes.
#[inline]
fn length(shape: &HeaderMoves, block: &[u64]) -> usize {
    let variable = shape.varbit.as_ref().map_or(0, |varbit| block[usize::from(varbit.slot)] / 8);
    usize::from(shape.bytes) + variable as usize
}

fn emit(shape: &HeaderMoves, slots: &[u64], base: usize, old: &[u8], frame: &mut [u8], len: usize) {
    let origin = (slots[base + usize::from(FRAME_OFFSET_SLOT)] as usize).checked_sub(1);
    if let Some(from) = origin.and_then(|at| old.get(at..at + len)) {
        frame[..len].copy_from_slice(from);
        store_header(&shape.update, frame, 0, slots, base);
        return;
    }
    frame[..len].fill(0);
    store_header(&shape.extract, frame, 0, slots, base);
    if let Some(varbit) = &shape.varbit {
        let from = usize::from(varbit.offset);
        let to = len - usize::from(varbit.tail_bytes);
        let words = &slots[base + usize::from(varbit.slot) + 1..];
        for (bytes, word) in frame[from..to].chunks_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes()[..bytes.len()]);
        }
        store_header(&varbit.tail, frame, to, slots, base);
    }
}
