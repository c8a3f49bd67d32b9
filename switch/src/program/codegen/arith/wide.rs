//! Operations on numbers of more than 64 bits.

use super::{MAX_WIDE_BITS, Operand, ValueRange};
use crate::program::codegen::builder::CodeBuilder;
use crate::program::error::LoadError;
use crate::program::json::JsonNode;
use crate::program::op::{Slot, WideOp, WideOpcode, WideSlot};

impl CodeBuilder<'_> {
    /// Emits a wide operation into new temporaries, with as many limbs as `range` needs. Returns the result.
    pub(super) fn wide_op(
        &mut self,
        node: &JsonNode,
        kind: WideOpcode,
        range: ValueRange,
        a: Operand,
        b: Option<Operand>,
    ) -> Result<Operand, LoadError> {
        self.wide_limbs(node, kind, range.limbs(), range, a, b)
    }

    /// Same as [`CodeBuilder::wide_op`], with a result of `limbs` limbs.
    pub(in crate::program::codegen) fn wide_limbs(
        &mut self,
        node: &JsonNode,
        kind: WideOpcode,
        limbs: u16,
        range: ValueRange,
        a: Operand,
        b: Option<Operand>,
    ) -> Result<Operand, LoadError> {
        if u32::from(limbs) * 64 > MAX_WIDE_BITS {
            return node.err(format_args!("numbers wider than {MAX_WIDE_BITS} bits are not supported"));
        }
        let slot = self.temp(limbs);
        self.emit_wide(kind, u32::from(limbs) * 64, (slot, limbs), Some(a), b.map(|b| b.slot));
        if let Some(b) = b {
            self.set_wide_b(b);
        }
        Ok(Operand { slot, limbs, range, is_modular: false })
    }

    /// Emits a wide operation whose `bits` are a parameter, such as the width to extend from, instead of the
    /// width of its result. Returns the result.
    pub(super) fn emit_wide_resize(
        &mut self,
        node: &JsonNode,
        kind: WideOpcode,
        bits: u32,
        range: ValueRange,
        a: Operand,
        b: Option<Operand>,
    ) -> Result<Operand, LoadError> {
        let value = self.wide_op(node, kind, range, a, b)?;
        if let Some(op) = self.unlinked.wide.last_mut() {
            op.bits = bits;
        }
        Ok(value)
    }

    /// Replaces operand `b` of the last wide operation by a wide number.
    pub(super) fn set_wide_b(&mut self, b: Operand) {
        if let Some(op) = self.unlinked.wide.last_mut() {
            op.b = b.wide();
        }
    }

    /// Emits a wide operation. `d` is the first slot and the number of limbs of the result; operand `b` is a single
    /// slot.
    pub(super) fn emit_wide(
        &mut self,
        kind: WideOpcode,
        bits: u32,
        d: (Slot, u16),
        a: Option<Operand>,
        b: Option<Slot>,
    ) {
        // An operand of 0 limbs is not accessed.
        let none = WideSlot { slot: d.0, limbs: 0, signed: false };
        let d = WideSlot { slot: d.0, limbs: d.1, signed: false };
        let a = a.map_or(none, Operand::wide);
        let b = b.map_or(none, |slot| WideSlot { slot, limbs: 1, signed: false });
        self.emit_wide_op(WideOp { kind, bits, d, a, b });
    }
}
