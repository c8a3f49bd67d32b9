//! Code for the deparser: a block for each header and place at which it can stand, so that every offset is known when the
//! code is written.

use super::Unsupported;
use super::abi::{CallHead, SEND};
use super::emit::{FRAME, Gen, MOST_BLOCKS, Written};
use super::parse;
use super::scope::SlotSet;
use crate::program::asm::low_bits;
use crate::program::layout::{ORIGIN, VALID};
use crate::program::op::Slot;
use crate::program::wire::{Emission, Get, Group};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::Variable;
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;

/// A header of the deparser's order, and a byte.
type At = (usize, u32);

/// Bases of headers.
pub(super) struct Headers<'a> {
    /// Those that the program may make.
    pub made: &'a SlotSet,
    /// Those that are valid if the frame has them.
    pub lasting: &'a SlotSet,
}

/// The blocks of the deparser, and those that are still to be written.
#[derive(Default)]
struct Chain {
    blocks: HashMap<At, Block>,
    waiting: Vec<At>,
}

impl Gen<'_, '_> {
    /// Writes code that puts the packet together and returns. Cases that it does not cover jump to `slow`; the frame
    /// is then unchanged, except for fields of headers that keep their place.
    pub fn deparser(
        &mut self,
        emissions: &[Emission],
        headers: &Headers,
        slow: Block,
    ) -> Result<(), Unsupported> {
        let places = parse::places(self.program);
        let new_frame = self.b.declare_var(types::I64);
        let (mut kept, mut new) = (Chain::default(), Chain::default());
        let first = self.chain_block(&mut kept, (0, 0))?;
        self.goto(first);
        while let Some(at) = kept.waiting.pop() {
            let block = self.chain_block(&mut kept, at)?;
            self.at(block);
            self.keep(emissions, at, (&mut kept, &mut new), (&places, headers), (new_frame, slow))?;
        }
        while let Some(at) = new.waiting.pop() {
            let block = self.chain_block(&mut new, at)?;
            self.at(block);
            self.add_header(emissions, at, &mut new, (new_frame, headers.made))?;
        }
        Ok(())
    }

    fn chain_block(&mut self, chain: &mut Chain, at: At) -> Result<Block, Unsupported> {
        if let Some(block) = chain.blocks.get(&at) {
            return Ok(*block);
        }
        if chain.blocks.len() >= MOST_BLOCKS {
            return Err(Unsupported);
        }
        let block = self.b.create_block();
        chain.blocks.insert(at, block);
        chain.waiting.push(at);
        Ok(block)
    }

    /// The headers at the front that were next to each other in the frame, and still are, change where they are.
    fn keep(
        &mut self,
        emissions: &[Emission],
        (index, at): At,
        (kept, new): (&mut Chain, &mut Chain),
        (places, headers): (&HashSet<(Slot, u32)>, &Headers),
        (new_frame, slow): (Variable, Block),
    ) -> Result<(), Unsupported> {
        let rest = self.b.create_block();
        match emissions.get(index) {
            Some(emission) => {
                let next = self.chain_block(kept, (index + 1, at))?;
                if self.is_zero(emission.base + VALID) {
                    self.goto(next);
                    return Ok(());
                }
                // Where the parser does not put it, it cannot stay.
                if !places.contains(&(emission.base, at)) {
                    let valid = self.get(emission.base + VALID);
                    self.branch(valid, rest, next);
                    return self.rest(emissions, (index, at), new, (rest, headers.made), (new_frame, slow));
                }
                // Most headers stay, and those that do not last are asked for their validity first.
                let (place, other) = (self.b.create_block(), self.b.create_block());
                let lasts = headers.lasting.contains(emission.base);
                if lasts {
                    self.goto(place);
                } else {
                    let valid = self.get(emission.base + VALID);
                    self.branch(valid, place, next);
                }
                self.at(place);
                let (origin, here) = (self.get(emission.base + ORIGIN), self.imm(u64::from(at) + 1));
                let (stays, in_place) = (self.compare(IntCC::Equal, origin, here), self.b.create_block());
                self.branch(stays, in_place, other);
                self.at(other);
                if lasts {
                    let valid = self.get(emission.base + VALID);
                    self.branch(valid, rest, next);
                } else {
                    self.goto(rest);
                }
                self.at(in_place);
                let put = |group| self.put(at, group);
                let written: Vec<_> = emission.changed.iter().map(put).collect::<Result<_, _>>()?;
                self.finish(emission, self.frame, at, &written)?;
                let next = self.chain_block(kept, (index + 1, at + u32::from(emission.bytes)))?;
                self.goto(next);
            }
            None => {
                let (parsed, done) =
                    (self.load_call(types::I64, offset_of!(CallHead, parsed)), self.b.create_block());
                let here = self.imm(u64::from(at));
                let all = self.compare(IntCC::Equal, parsed, here);
                self.branch(all, done, rest);
                self.at(done);
                self.leave(SEND);
            }
        }
        self.rest(emissions, (index, at), new, (rest, headers.made), (new_frame, slow))
    }

    /// The headers behind those that stay, in this block: only if the program made them all.
    fn rest(
        &mut self,
        emissions: &[Emission],
        (index, at): At,
        new: &mut Chain,
        (rest, made): (Block, &SlotSet),
        (new_frame, slow): (Variable, Block),
    ) -> Result<(), Unsupported> {
        self.at(rest);
        let (mut moved, zero) = (self.imm(0), self.imm(0));
        let mut total = self.imm(u64::from(at));
        for emission in emissions.get(index..).unwrap_or_default() {
            if self.is_zero(emission.base + VALID) {
                continue;
            }
            let valid = self.get(emission.base + VALID);
            if !self.can_be_new(emission, made) {
                moved = self.b.ins().bor(moved, valid);
                continue;
            }
            let origin = self.get(emission.base + ORIGIN);
            let bytes = self.imm(u64::from(emission.bytes));
            let bytes = self.b.ins().select(valid, bytes, zero);
            total = self.b.ins().iadd(total, bytes);
            let origin = self.b.ins().select(valid, origin, zero);
            moved = self.b.ins().bor(moved, origin);
        }
        let on = self.b.create_block();
        self.branch(moved, slow, on);
        self.at(on);
        let first = self.chain_block(new, (index, at))?;
        let (inside, outside) = (self.b.create_block(), self.cold());
        let parsed = self.load_call(types::I64, offset_of!(CallHead, parsed));
        let more = self.b.ins().isub(total, parsed);
        let headroom = self.load_call(types::I64, offset_of!(CallHead, headroom));
        // A frame that becomes shorter seems to need more than there ever is.
        let fits = self.compare(IntCC::UnsignedLessThanOrEqual, more, headroom);
        self.branch(fits, inside, outside);
        self.at(inside);
        let frame = self.b.ins().isub(self.frame, more);
        self.move_front(frame, at)?;
        self.store_call(more, offset_of!(CallHead, taken));
        self.b.def_var(new_frame, frame);
        self.goto(first);
        self.at(outside);
        let front = self.imm(u64::from(at));
        let call = self.helper(self.helpers.grow, &[front, total], 1);
        let frame = self.result(call, 0);
        self.b.def_var(new_frame, frame);
        self.goto(first);
        Ok(())
    }

    /// Copies the first `bytes` bytes of the frame to where it begins from now on: earlier, so the first ones go first.
    fn move_front(&mut self, frame: Value, bytes: u32) -> Result<(), Unsupported> {
        let sizes = [(types::I8X16, 16), (types::I64, 8), (types::I32, 4), (types::I16, 2), (types::I8, 1)];
        let mut from = 0;
        for (ty, size) in sizes {
            while from + size <= bytes {
                let offset = self.check(from, size)?;
                let value = self.b.ins().load(ty, FRAME, self.frame, offset);
                self.b.ins().store(FRAME, value, frame, offset);
                from += size;
            }
        }
        Ok(())
    }

    fn can_be_new(&self, emission: &Emission, made: &SlotSet) -> bool {
        made.contains(emission.base) || self.memory.contains(emission.base + VALID)
    }

    /// Writes a header that the program made.
    fn add_header(
        &mut self,
        emissions: &[Emission],
        (index, at): At,
        new: &mut Chain,
        (new_frame, made): (Variable, &SlotSet),
    ) -> Result<(), Unsupported> {
        let Some(emission) = emissions.get(index) else {
            self.leave(SEND);
            return Ok(());
        };
        let next = self.chain_block(new, (index + 1, at))?;
        if !self.can_be_new(emission, made) || self.is_zero(emission.base + VALID) {
            self.goto(next);
            return Ok(());
        }
        let (valid, is_valid) = (self.get(emission.base + VALID), self.b.create_block());
        self.branch(valid, is_valid, next);
        self.at(is_valid);
        let frame = self.b.use_var(new_frame);
        self.put_all(frame, at, u32::from(emission.bytes), &emission.whole)?;
        self.finish(emission, frame, at, &[])?;
        let next = self.chain_block(new, (index + 1, at + u32::from(emission.bytes)))?;
        self.goto(next);
        Ok(())
    }

    /// Writes the checksum that a header ends with.
    fn finish(
        &mut self,
        emission: &Emission,
        frame: Value,
        at: u32,
        written: &[Written],
    ) -> Result<(), Unsupported> {
        let Some(wire) = &emission.checksum else { return Ok(()) };
        let before = std::mem::replace(&mut self.frame, frame);
        let sum = self.internet_checksum(at, u32::from(wire.bytes), u32::from(wire.offset), written);
        self.frame = before;
        let sum = self.b.ins().ireduce(types::I16, sum?);
        let offset = self.check(at + u32::from(wire.offset), 2)?;
        self.b.ins().store(FRAME, sum, frame, offset);
        Ok(())
    }

    /// Writes fields of a header in place, with as few bytes around them as go together.
    fn put(&mut self, header: u32, group: &Group) -> Result<Written, Unsupported> {
        let changed = !group.keep;
        let (first, last) = (changed.leading_zeros() / 8, 7 - changed.trailing_zeros() / 8);
        let bytes = (last - first + 1).next_power_of_two();
        let first = first.min(8 - bytes);
        let below = 64 - 8 * (first + bytes);
        let at = header + u32::from(group.offset) + first;
        let keep = group.keep >> below & low_bits(8 * bytes);
        let mut word = self.imm(0);
        for field in &group.fields {
            let value = self.get(field.slot);
            let bits = 64 - u32::from(field.left);
            let value = self.mask(value, low_bits(bits));
            let value = self.shift_left(value, 64 - u32::from(field.right) - bits - below);
            word = self.b.ins().bor(word, value);
        }
        if keep != 0 {
            let old = self.load_number(at, bytes)?;
            let old = self.mask(old, keep);
            word = self.b.ins().bor(word, old);
        }
        self.store_number(self.frame, at, bytes, word)
    }

    /// Writes a whole header: its fields, and zeros between them.
    fn put_all(&mut self, frame: Value, header: u32, bytes: u32, fields: &[Get]) -> Result<(), Unsupported> {
        let mut from = 0;
        while from < bytes {
            let size = [8, 4, 2, 1].into_iter().find(|size| from + size <= bytes).unwrap_or(1);
            let (begin, end) = (from * 8, (from + size) * 8);
            let mut word = self.imm(0);
            for get in fields {
                let bits = 64 - u32::from(get.right);
                let first = u32::from(get.offset) * 8 + u32::from(get.left);
                let last = first + bits;
                if last <= begin || first >= end {
                    continue;
                }
                let value = self.get(get.slot);
                let value = self.mask(value, low_bits(bits));
                let value = match last <= end {
                    true => self.shift_left(value, end - last),
                    false => self.shift_right(value, last - end),
                };
                word = self.b.ins().bor(word, value);
            }
            self.store_number(frame, header + from, size, word)?;
            from += size;
        }
        Ok(())
    }
}
