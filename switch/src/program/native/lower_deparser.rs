//! Lowers the deparser: one block for each header and each frame offset at which the header can be, so that every
//! offset is a constant.
//!
//! A header that the parser extracted at this offset stays where it is in the frame; only its changed fields are
//! stored. From the first header that is new or moved on, headers are written to the new frame, which begins earlier
//! if the headers became longer. So the blocks form two chains: one for the old frame, one for the new frame.

use super::abi::{CallFrame, EXIT_SEND};
use super::code::Unsupported;
use super::emitter::{Emitter, FRAME, MAX_BLOCKS, StoredBytes};
use super::lower_parser;
use super::slot_storage::SlotSet;
use crate::program::frame_access::{FieldLoad, HeaderEmit, StoreGroup};
use crate::program::layout::{FRAME_OFFSET_SLOT, VALID_SLOT};
use crate::program::limbs::low_mask;
use crate::program::op::Slot;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::Variable;
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;

/// An index into the emit order, and the frame offset in bytes at which that header would begin.
type DeparsePoint = (usize, u32);

/// What is known about headers when code is generated, as sets of first slots.
pub(super) struct HeaderSets<'a> {
    /// Headers that may be valid without having been extracted from the frame.
    pub maybe_created: &'a SlotSet,
    /// Headers that stay valid once they are extracted.
    pub never_invalidated: &'a SlotSet,
}

/// The blocks of one chain, and a worklist of those still to be emitted.
#[derive(Default)]
struct BlockMap {
    blocks: HashMap<DeparsePoint, Block>,
    waiting: Vec<DeparsePoint>,
}

impl Emitter<'_, '_> {
    /// Emits code that deparses the packet and returns. In cases that it does not cover, it jumps to `slow`; until
    /// then the frame is unchanged, except for fields of headers that stay where they are.
    pub(super) fn deparser(
        &mut self,
        header_emits: &[HeaderEmit],
        headers: &HeaderSets,
        slow: Block,
    ) -> Result<(), Unsupported> {
        let offsets = lower_parser::extract_offsets(self.program);
        let new_frame = self.builder.declare_var(types::I64);
        // The two chains of the module documentation: the same header and offset may need a block in both.
        let (mut in_place_blocks, mut new_blocks) = (BlockMap::default(), BlockMap::default());
        let first = self.chain_block(&mut in_place_blocks, (0, 0))?;
        self.jump(first);
        while let Some(point) = in_place_blocks.waiting.pop() {
            let block = self.chain_block(&mut in_place_blocks, point)?;
            self.switch_to(block);
            self.emit_in_place(
                header_emits,
                point,
                (&mut in_place_blocks, &mut new_blocks),
                (&offsets, headers),
                (new_frame, slow),
            )?;
        }
        while let Some(point) = new_blocks.waiting.pop() {
            let block = self.chain_block(&mut new_blocks, point)?;
            self.switch_to(block);
            self.emit_new_header(header_emits, point, &mut new_blocks, (new_frame, headers.maybe_created))?;
        }
        Ok(())
    }

    /// Returns the block of a point in a chain. The first call also adds it to the worklist.
    fn chain_block(&mut self, chain: &mut BlockMap, point: DeparsePoint) -> Result<Block, Unsupported> {
        if let Some(block) = chain.blocks.get(&point) {
            return Ok(*block);
        }
        if chain.blocks.len() >= MAX_BLOCKS {
            return Err(Unsupported);
        }
        let block = self.builder.create_block();
        chain.blocks.insert(point, block);
        chain.waiting.push(point);
        Ok(block)
    }

    /// Emits a block of the in-place chain. If the header is valid and was extracted at this offset, its changed
    /// fields are stored in place. If it is invalid, the next header follows at the same offset. Otherwise the code
    /// of [`Emitter::emit_insertion`] follows.
    fn emit_in_place(
        &mut self,
        header_emits: &[HeaderEmit],
        (index, offset): DeparsePoint,
        (in_place_blocks, new_blocks): (&mut BlockMap, &mut BlockMap),
        (offsets, headers): (&HashSet<(Slot, u32)>, &HeaderSets),
        (new_frame, slow): (Variable, Block),
    ) -> Result<(), Unsupported> {
        let rest = self.builder.create_block();
        match header_emits.get(index) {
            Some(header_emit) => {
                let next = self.chain_block(in_place_blocks, (index + 1, offset))?;
                if self.is_known_zero(header_emit.base + VALID_SLOT) {
                    self.jump(next);
                    return Ok(());
                }
                // The parser never extracts this header at this offset, so it cannot stay in place.
                if !offsets.contains(&(header_emit.base, offset)) {
                    let valid = self.use_slot(header_emit.base + VALID_SLOT);
                    self.brif(valid, rest, next);
                    return self.emit_insertion(
                        header_emits,
                        (index, offset),
                        new_blocks,
                        (rest, headers.maybe_created),
                        (new_frame, slow),
                    );
                }
                // A header that is never invalidated is valid if its frame offset matches, which saves the
                // test of its validity in the common case.
                let (maybe_in_place, other) = (self.builder.create_block(), self.builder.create_block());
                let never_invalidated = headers.never_invalidated.contains(header_emit.base);
                if never_invalidated {
                    self.jump(maybe_in_place);
                } else {
                    let valid = self.use_slot(header_emit.base + VALID_SLOT);
                    self.brif(valid, maybe_in_place, next);
                }
                self.switch_to(maybe_in_place);
                let (recorded, expected) =
                    (self.use_slot(header_emit.base + FRAME_OFFSET_SLOT), self.iconst(u64::from(offset) + 1));
                let (is_unmoved, in_place) =
                    (self.compare(IntCC::Equal, recorded, expected), self.builder.create_block());
                self.brif(is_unmoved, in_place, other);
                self.switch_to(other);
                if never_invalidated {
                    let valid = self.use_slot(header_emit.base + VALID_SLOT);
                    self.brif(valid, rest, next);
                } else {
                    self.jump(rest);
                }
                self.switch_to(in_place);
                let update = |group| self.emit_update(offset, group);
                let stored: Vec<_> = header_emit.update.iter().map(update).collect::<Result<_, _>>()?;
                self.emit_checksum(header_emit, self.frame, offset, &stored)?;
                let next =
                    self.chain_block(in_place_blocks, (index + 1, offset + u32::from(header_emit.bytes)))?;
                self.jump(next);
            }
            None => {
                // All headers are in place. If the parser consumed exactly these bytes, the frame is complete.
                let (parsed, done) = (
                    self.load_call_field(types::I64, offset_of!(CallFrame, parsed)),
                    self.builder.create_block(),
                );
                let end = self.iconst(u64::from(offset));
                let is_complete = self.compare(IntCC::Equal, parsed, end);
                self.brif(is_complete, done, rest);
                self.switch_to(done);
                self.emit_return(EXIT_SEND);
            }
        }
        self.emit_insertion(
            header_emits,
            (index, offset),
            new_blocks,
            (rest, headers.maybe_created),
            (new_frame, slow),
        )
    }

    /// Emits, at block `rest`, the insertion of new headers after those that stay in place. Jumps to `slow` if one of
    /// the remaining valid headers came from the frame, since it would have to move.
    fn emit_insertion(
        &mut self,
        header_emits: &[HeaderEmit],
        (index, offset): DeparsePoint,
        new_blocks: &mut BlockMap,
        (rest, maybe_created): (Block, &SlotSet),
        (new_frame, slow): (Variable, Block),
    ) -> Result<(), Unsupported> {
        self.switch_to(rest);
        let (mut moved, zero) = (self.iconst(0), self.iconst(0));
        let mut total = self.iconst(u64::from(offset));
        for header_emit in header_emits.get(index..).unwrap_or_default() {
            if self.is_known_zero(header_emit.base + VALID_SLOT) {
                continue;
            }
            let valid = self.use_slot(header_emit.base + VALID_SLOT);
            if !self.can_be_new(header_emit, maybe_created) {
                moved = self.builder.ins().bor(moved, valid);
                continue;
            }
            let frame_offset = self.use_slot(header_emit.base + FRAME_OFFSET_SLOT);
            let bytes = self.iconst(u64::from(header_emit.bytes));
            let bytes = self.builder.ins().select(valid, bytes, zero);
            total = self.builder.ins().iadd(total, bytes);
            // The frame offset of an invalid header is stale: only valid headers that came from the frame
            // force the slow path.
            let frame_offset = self.builder.ins().select(valid, frame_offset, zero);
            moved = self.builder.ins().bor(moved, frame_offset);
        }
        let next = self.builder.create_block();
        self.brif(moved, slow, next);
        self.switch_to(next);
        let first = self.chain_block(new_blocks, (index, offset))?;
        let (in_headroom, grow) = (self.builder.create_block(), self.create_cold_block());
        let parsed = self.load_call_field(types::I64, offset_of!(CallFrame, parsed));
        let growth = self.builder.ins().isub(total, parsed);
        let headroom = self.load_call_field(types::I64, offset_of!(CallFrame, headroom));
        // `growth` wraps around if the headers shrink: the unsigned comparison then fails, and `grow_front`
        // handles that case too.
        let fits = self.compare(IntCC::UnsignedLessThanOrEqual, growth, headroom);
        self.brif(fits, in_headroom, grow);
        self.switch_to(in_headroom);
        let frame = self.builder.ins().isub(self.frame, growth);
        self.emit_copy_front(frame, offset)?;
        self.store_call_field(growth, offset_of!(CallFrame, headroom_used));
        self.builder.def_var(new_frame, frame);
        self.jump(first);
        self.switch_to(grow);
        let front = self.iconst(u64::from(offset));
        let call = self.call_helper(self.helpers.grow_front, &[front, total], 1);
        let frame = self.result(call, 0);
        self.builder.def_var(new_frame, frame);
        self.jump(first);
        Ok(())
    }

    /// Emits a copy of the frame's first `bytes` bytes to `frame`, its new address. The areas may overlap: the new
    /// address is lower, bytes are copied in ascending order, and each piece is loaded before it is stored. So no
    /// byte is overwritten before it is read.
    fn emit_copy_front(&mut self, frame: Value, bytes: u32) -> Result<(), Unsupported> {
        let sizes = [(types::I8X16, 16), (types::I64, 8), (types::I32, 4), (types::I16, 2), (types::I8, 1)];
        let mut position = 0;
        for (ty, size) in sizes {
            while position + size <= bytes {
                let offset = self.frame_offset(position, size)?;
                let value = self.builder.ins().load(ty, FRAME, self.frame, offset);
                self.builder.ins().store(FRAME, value, frame, offset);
                position += size;
            }
        }
        Ok(())
    }

    /// Returns whether the header, if it is valid, may be one that the program created.
    fn can_be_new(&self, header_emit: &HeaderEmit, maybe_created: &SlotSet) -> bool {
        maybe_created.contains(header_emit.base) || self.memory_slots.contains(header_emit.base + VALID_SLOT)
    }

    /// Emits a block of the chain for the new frame.
    fn emit_new_header(
        &mut self,
        header_emits: &[HeaderEmit],
        (index, offset): DeparsePoint,
        new_blocks: &mut BlockMap,
        (new_frame, maybe_created): (Variable, &SlotSet),
    ) -> Result<(), Unsupported> {
        let Some(header_emit) = header_emits.get(index) else {
            self.emit_return(EXIT_SEND);
            return Ok(());
        };
        let next = self.chain_block(new_blocks, (index + 1, offset))?;
        if !self.can_be_new(header_emit, maybe_created) || self.is_known_zero(header_emit.base + VALID_SLOT) {
            self.jump(next);
            return Ok(());
        }
        let (valid, store) = (self.use_slot(header_emit.base + VALID_SLOT), self.builder.create_block());
        self.brif(valid, store, next);
        self.switch_to(store);
        let frame = self.builder.use_var(new_frame);
        self.emit_header(frame, offset, u32::from(header_emit.bytes), &header_emit.create)?;
        self.emit_checksum(header_emit, frame, offset, &[])?;
        let next = self.chain_block(new_blocks, (index + 1, offset + u32::from(header_emit.bytes)))?;
        self.jump(next);
        Ok(())
    }

    /// Emits the checksum of the header at byte `header` of `frame`, if it has one that is computed over the
    /// frame. `stored` has the bytes of the header that have just been stored.
    fn emit_checksum(
        &mut self,
        header_emit: &HeaderEmit,
        frame: Value,
        header: u32,
        stored: &[StoredBytes],
    ) -> Result<(), Unsupported> {
        let Some(checksum) = &header_emit.checksum else { return Ok(()) };
        // `internet_checksum` loads from `self.frame`, but this header may be in the new frame.
        let old_frame = std::mem::replace(&mut self.frame, frame);
        let sum =
            self.internet_checksum(header, u32::from(checksum.bytes), u32::from(checksum.offset), stored);
        self.frame = old_frame;
        let sum = self.builder.ins().ireduce(types::I16, sum?);
        let offset = self.frame_offset(header + u32::from(checksum.offset), 2)?;
        self.builder.ins().store(FRAME, sum, frame, offset);
        Ok(())
    }

    /// Emits the store of a group of changed fields in place, as the smallest power-of-two number of bytes
    /// that contains them. Other bits of these bytes are preserved.
    fn emit_update(&mut self, header: u32, group: &StoreGroup) -> Result<StoredBytes, Unsupported> {
        let changed = !group.keep;
        let (first, last) = (changed.leading_zeros() / 8, 7 - changed.trailing_zeros() / 8);
        let bytes = (last - first + 1).next_power_of_two();
        // The rounding up must not lead beyond the 8 bytes of the word.
        let first = first.min(8 - bytes);
        // Bits of the 64-bit word below these bytes.
        let low_bits = 64 - 8 * (first + bytes);
        let offset = header + u32::from(group.offset) + first;
        let keep = group.keep >> low_bits & low_mask(8 * bytes);
        let mut word = self.iconst(0);
        for field in &group.fields {
            let value = self.use_slot(field.slot);
            let bits = 64 - u32::from(field.left);
            let value = self.mask(value, low_mask(bits));
            let value = self.shift_left(value, 64 - u32::from(field.right) - bits - low_bits);
            word = self.builder.ins().bor(word, value);
        }
        if keep != 0 {
            let old = self.load_be(offset, bytes)?;
            let old = self.mask(old, keep);
            word = self.builder.ins().bor(word, old);
        }
        self.store_be(self.frame, offset, bytes, word)
    }

    /// Emits the stores of a whole header: its fields, with zeros between them.
    fn emit_header(
        &mut self,
        frame: Value,
        header: u32,
        bytes: u32,
        fields: &[FieldLoad],
    ) -> Result<(), Unsupported> {
        let mut position = 0;
        while position < bytes {
            let size = [8, 4, 2, 1].into_iter().find(|size| position + size <= bytes).unwrap_or(1);
            let (begin, end) = (position * 8, (position + size) * 8);
            let mut word = self.iconst(0);
            for field in fields {
                let bits = 64 - u32::from(field.right);
                let first = u32::from(field.offset) * 8 + u32::from(field.left);
                let last = first + bits;
                if last <= begin || first >= end {
                    continue;
                }
                let value = self.use_slot(field.slot);
                let value = self.mask(value, low_mask(bits));
                let value = match last <= end {
                    true => self.shift_left(value, end - last),
                    false => self.shift_right(value, last - end),
                };
                word = self.builder.ins().bor(word, value);
            }
            self.store_be(frame, header + position, size, word)?;
            position += size;
        }
        Ok(())
    }
}
