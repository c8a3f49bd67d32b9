//! Lowers the deparser: one block for each header and each frame offset at which the header can stand, so
//! that every offset is a constant.

use super::Unsupported;
use super::abi::{CallFrame, EXIT_SEND};
use super::emitter::{Emitter, FRAME, MAX_BLOCKS, StoredBytes};
use super::lower_parser;
use super::slot_storage::SlotSet;
use crate::program::codegen::low_mask;
use crate::program::frame_access::{FieldLoad, HeaderEmit, StoreGroup};
use crate::program::layout::{FRAME_OFFSET_SLOT, VALID_SLOT};
use crate::program::op::Slot;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::Variable;
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;

/// An index into the emit order, and the frame offset in bytes at which that header would begin.
type DeparsePoint = (usize, u32);

/// What is known of headers when code is generated, as sets of first slots.
pub(super) struct HeaderSets<'a> {
    /// Headers that may be valid without having been extracted from the frame.
    pub maybe_created: &'a SlotSet,
    /// Headers that stay valid once they were extracted.
    pub never_invalidated: &'a SlotSet,
}

/// The blocks of one chain of the deparser, and those of them that are still to be emitted.
#[derive(Default)]
struct BlockMap {
    blocks: HashMap<DeparsePoint, Block>,
    waiting: Vec<DeparsePoint>,
}

impl Emitter<'_, '_> {
    /// Emits code that deparses the packet and returns. Cases that it does not cover jump to `slow`; the
    /// frame is then unchanged, except for fields of headers that keep their place.
    pub fn deparser(
        &mut self,
        emissions: &[HeaderEmit],
        headers: &HeaderSets,
        slow: Block,
    ) -> Result<(), Unsupported> {
        let places = lower_parser::extract_offsets(self.program);
        let new_frame = self.builder.declare_var(types::I64);
        // A header that keeps its place is updated in the old frame; after the first that does not, the frame
        // may have moved, so every store goes to `new_frame`. The same (header, offset) needs code for both
        // cases.
        let (mut kept, mut new) = (BlockMap::default(), BlockMap::default());
        let first = self.chain_block(&mut kept, (0, 0))?;
        self.jump(first);
        while let Some(at) = kept.waiting.pop() {
            let block = self.chain_block(&mut kept, at)?;
            self.switch_to(block);
            self.emit_in_place(emissions, at, (&mut kept, &mut new), (&places, headers), (new_frame, slow))?;
        }
        while let Some(at) = new.waiting.pop() {
            let block = self.chain_block(&mut new, at)?;
            self.switch_to(block);
            self.add_header(emissions, at, &mut new, (new_frame, headers.maybe_created))?;
        }
        Ok(())
    }

    fn chain_block(&mut self, chain: &mut BlockMap, at: DeparsePoint) -> Result<Block, Unsupported> {
        if let Some(block) = chain.blocks.get(&at) {
            return Ok(*block);
        }
        if chain.blocks.len() >= MAX_BLOCKS {
            return Err(Unsupported);
        }
        let block = self.builder.create_block();
        chain.blocks.insert(at, block);
        chain.waiting.push(at);
        Ok(block)
    }

    /// Emits the block of a header that may keep its place. If it is valid and was extracted at this offset,
    /// its changed fields are stored in place; if it is invalid, the next header follows at the same offset;
    /// otherwise [`Emitter::emit_insertion`] takes over.
    fn emit_in_place(
        &mut self,
        emissions: &[HeaderEmit],
        (index, at): DeparsePoint,
        (kept, new): (&mut BlockMap, &mut BlockMap),
        (places, headers): (&HashSet<(Slot, u32)>, &HeaderSets),
        (new_frame, slow): (Variable, Block),
    ) -> Result<(), Unsupported> {
        let rest = self.builder.create_block();
        match emissions.get(index) {
            Some(emission) => {
                let next = self.chain_block(kept, (index + 1, at))?;
                if self.is_zero(emission.base + VALID_SLOT) {
                    self.jump(next);
                    return Ok(());
                }
                // The parser never extracts this header at this offset, so that it cannot keep its place.
                if !places.contains(&(emission.base, at)) {
                    let valid = self.use_slot(emission.base + VALID_SLOT);
                    self.brif(valid, rest, next);
                    return self.emit_insertion(
                        emissions,
                        (index, at),
                        new,
                        (rest, headers.maybe_created),
                        (new_frame, slow),
                    );
                }
                // A header that is never invalidated is valid if its frame offset matches, which saves the
                // test of its validity in the common case.
                let (place, other) = (self.builder.create_block(), self.builder.create_block());
                let lasts = headers.never_invalidated.contains(emission.base);
                if lasts {
                    self.jump(place);
                } else {
                    let valid = self.use_slot(emission.base + VALID_SLOT);
                    self.brif(valid, place, next);
                }
                self.switch_to(place);
                let (origin, here) =
                    (self.use_slot(emission.base + FRAME_OFFSET_SLOT), self.iconst(u64::from(at) + 1));
                let (stays, in_place) =
                    (self.compare(IntCC::Equal, origin, here), self.builder.create_block());
                self.brif(stays, in_place, other);
                self.switch_to(other);
                if lasts {
                    let valid = self.use_slot(emission.base + VALID_SLOT);
                    self.brif(valid, rest, next);
                } else {
                    self.jump(rest);
                }
                self.switch_to(in_place);
                let put = |group| self.emit_update(at, group);
                let written: Vec<_> = emission.updated.iter().map(put).collect::<Result<_, _>>()?;
                self.emit_checksum(emission, self.frame, at, &written)?;
                let next = self.chain_block(kept, (index + 1, at + u32::from(emission.bytes)))?;
                self.jump(next);
            }
            None => {
                let (parsed, done) =
                    (self.load_call(types::I64, offset_of!(CallFrame, parsed)), self.builder.create_block());
                let here = self.iconst(u64::from(at));
                let all = self.compare(IntCC::Equal, parsed, here);
                self.brif(all, done, rest);
                self.switch_to(done);
                self.emit_return(EXIT_SEND);
            }
        }
        self.emit_insertion(emissions, (index, at), new, (rest, headers.maybe_created), (new_frame, slow))
    }

    /// Emits the insertion of new headers after those that kept their place. Exits to `slow` if one of the
    /// remaining valid headers came from the frame, since it would have to move.
    fn emit_insertion(
        &mut self,
        emissions: &[HeaderEmit],
        (index, at): DeparsePoint,
        new: &mut BlockMap,
        (rest, made): (Block, &SlotSet),
        (new_frame, slow): (Variable, Block),
    ) -> Result<(), Unsupported> {
        self.switch_to(rest);
        let (mut moved, zero) = (self.iconst(0), self.iconst(0));
        let mut total = self.iconst(u64::from(at));
        for emission in emissions.get(index..).unwrap_or_default() {
            if self.is_zero(emission.base + VALID_SLOT) {
                continue;
            }
            let valid = self.use_slot(emission.base + VALID_SLOT);
            if !self.can_be_new(emission, made) {
                moved = self.builder.ins().bor(moved, valid);
                continue;
            }
            let origin = self.use_slot(emission.base + FRAME_OFFSET_SLOT);
            let bytes = self.iconst(u64::from(emission.bytes));
            let bytes = self.builder.ins().select(valid, bytes, zero);
            total = self.builder.ins().iadd(total, bytes);
            // The frame offset of an invalid header is stale: only valid headers that came from the frame
            // force the slow path.
            let origin = self.builder.ins().select(valid, origin, zero);
            moved = self.builder.ins().bor(moved, origin);
        }
        let on = self.builder.create_block();
        self.brif(moved, slow, on);
        self.switch_to(on);
        let first = self.chain_block(new, (index, at))?;
        let (inside, outside) = (self.builder.create_block(), self.create_cold_block());
        let parsed = self.load_call(types::I64, offset_of!(CallFrame, parsed));
        let more = self.builder.ins().isub(total, parsed);
        let headroom = self.load_call(types::I64, offset_of!(CallFrame, headroom));
        // `more` wraps around if the headers shrink: the unsigned comparison then fails, and `grow_front`
        // handles that case too.
        let fits = self.compare(IntCC::UnsignedLessThanOrEqual, more, headroom);
        self.brif(fits, inside, outside);
        self.switch_to(inside);
        let frame = self.builder.ins().isub(self.frame, more);
        self.emit_copy_front(frame, at)?;
        self.store_call(more, offset_of!(CallFrame, headroom_used));
        self.builder.def_var(new_frame, frame);
        self.jump(first);
        self.switch_to(outside);
        let front = self.iconst(u64::from(at));
        let call = self.call_helper(self.helpers.grow_front, &[front, total], 1);
        let frame = self.result(call, 0);
        self.builder.def_var(new_frame, frame);
        self.jump(first);
        Ok(())
    }

    /// Emits a copy of the frame's first `bytes` bytes to `frame`, its new address. The areas may overlap:
    /// the copy goes to a lower address, first bytes first, and loads each piece before it stores it, so that
    /// no byte is overwritten before it is read.
    fn emit_copy_front(&mut self, frame: Value, bytes: u32) -> Result<(), Unsupported> {
        let sizes = [(types::I8X16, 16), (types::I64, 8), (types::I32, 4), (types::I16, 2), (types::I8, 1)];
        let mut from = 0;
        for (ty, size) in sizes {
            while from + size <= bytes {
                let offset = self.frame_offset(from, size)?;
                let value = self.builder.ins().load(ty, FRAME, self.frame, offset);
                self.builder.ins().store(FRAME, value, frame, offset);
                from += size;
            }
        }
        Ok(())
    }

    fn can_be_new(&self, emission: &HeaderEmit, made: &SlotSet) -> bool {
        made.contains(emission.base) || self.memory_slots.contains(emission.base + VALID_SLOT)
    }

    /// Emits the block of a header after the first one that did not keep its place.
    fn add_header(
        &mut self,
        emissions: &[HeaderEmit],
        (index, at): DeparsePoint,
        new: &mut BlockMap,
        (new_frame, made): (Variable, &SlotSet),
    ) -> Result<(), Unsupported> {
        let Some(emission) = emissions.get(index) else {
            self.emit_return(EXIT_SEND);
            return Ok(());
        };
        let next = self.chain_block(new, (index + 1, at))?;
        if !self.can_be_new(emission, made) || self.is_zero(emission.base + VALID_SLOT) {
            self.jump(next);
            return Ok(());
        }
        let (valid, is_valid) = (self.use_slot(emission.base + VALID_SLOT), self.builder.create_block());
        self.brif(valid, is_valid, next);
        self.switch_to(is_valid);
        let frame = self.builder.use_var(new_frame);
        self.emit_header(frame, at, u32::from(emission.bytes), &emission.whole)?;
        self.emit_checksum(emission, frame, at, &[])?;
        let next = self.chain_block(new, (index + 1, at + u32::from(emission.bytes)))?;
        self.jump(next);
        Ok(())
    }

    /// Emits the checksum of a header, if it has one that is computed over the frame.
    fn emit_checksum(
        &mut self,
        emission: &HeaderEmit,
        frame: Value,
        at: u32,
        written: &[StoredBytes],
    ) -> Result<(), Unsupported> {
        let Some(wire) = &emission.checksum else { return Ok(()) };
        let before = std::mem::replace(&mut self.frame, frame);
        let sum = self.internet_checksum(at, u32::from(wire.bytes), u32::from(wire.offset), written);
        self.frame = before;
        let sum = self.builder.ins().ireduce(types::I16, sum?);
        let offset = self.frame_offset(at + u32::from(wire.offset), 2)?;
        self.builder.ins().store(FRAME, sum, frame, offset);
        Ok(())
    }

    /// Emits the store of a group of changed fields in place, as the smallest power-of-two number of bytes
    /// that contains them. Other bits of these bytes are preserved.
    fn emit_update(&mut self, header: u32, group: &StoreGroup) -> Result<StoredBytes, Unsupported> {
        let changed = !group.keep;
        let (first, last) = (changed.leading_zeros() / 8, 7 - changed.trailing_zeros() / 8);
        let bytes = (last - first + 1).next_power_of_two();
        let first = first.min(8 - bytes);
        let below = 64 - 8 * (first + bytes);
        let at = header + u32::from(group.offset) + first;
        let keep = group.keep >> below & low_mask(8 * bytes);
        let mut word = self.iconst(0);
        for field in &group.fields {
            let value = self.use_slot(field.slot);
            let bits = 64 - u32::from(field.left);
            let value = self.mask(value, low_mask(bits));
            let value = self.shift_left(value, 64 - u32::from(field.right) - bits - below);
            word = self.builder.ins().bor(word, value);
        }
        if keep != 0 {
            let old = self.load_be(at, bytes)?;
            let old = self.mask(old, keep);
            word = self.builder.ins().bor(word, old);
        }
        self.store_be(self.frame, at, bytes, word)
    }

    /// Emits the stores of a whole header: its fields, with zeros between them.
    fn emit_header(
        &mut self,
        frame: Value,
        header: u32,
        bytes: u32,
        fields: &[FieldLoad],
    ) -> Result<(), Unsupported> {
        let mut from = 0;
        while from < bytes {
            let size = [8, 4, 2, 1].into_iter().find(|size| from + size <= bytes).unwrap_or(1);
            let (begin, end) = (from * 8, (from + size) * 8);
            let mut word = self.iconst(0);
            for get in fields {
                let bits = 64 - u32::from(get.right);
                let first = u32::from(get.offset) * 8 + u32::from(get.left);
                let last = first + bits;
                if last <= begin || first >= end {
                    continue;
                }
                let value = self.use_slot(get.slot);
                let value = self.mask(value, low_mask(bits));
                let value = match last <= end {
                    true => self.shift_left(value, end - last),
                    false => self.shift_right(value, last - end),
                };
                word = self.builder.ins().bor(word, value);
            }
            self.store_be(frame, header + from, size, word)?;
            from += size;
        }
        Ok(())
    }
}
