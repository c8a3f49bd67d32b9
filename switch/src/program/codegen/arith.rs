//! Lowers arithmetic.
//!
//! BMv2 computes with unbounded integers and truncates a result to its field's width when it is stored. When the
//! program is loaded, the range of every expression is known, and how many of its low bits are used. Almost every
//! operation therefore becomes one 64-bit operation: an exact one if the range fits, or one modulo 2^64 if only low
//! bits are used. The others become operations on several limbs ([`WideOp`]).

mod wide;

use super::builder::{CodeBuilder, FIRST_CONST, FIRST_TEMP};
use crate::program::error::LoadError;
use crate::program::expr::{BinOp, BoolExpr, FieldRef, HeaderExpr, NumExpr};
use crate::program::json::{BigInt, JsonNode};
use crate::program::layout::SlotRef;
use crate::program::limbs::low_mask;
use crate::program::op::{Op, Opcode, Slot, WideOpcode, WideSlot};

/// Maximum width of intermediate results: twice that of fields, so that any two fields can be multiplied.
const MAX_WIDE_BITS: u32 = 8192;

/// The range of a number: from -2^bits (or 0, unless it may be negative) to 2^bits - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueRange {
    pub may_be_negative: bool,
    pub bits: u32,
}

impl ValueRange {
    /// Returns the number of limbs that hold every number of the range in two's complement.
    fn limbs(self) -> u16 {
        (self.bits + u32::from(self.may_be_negative)).div_ceil(64).max(1) as u16
    }
    /// Returns the smallest range that contains both.
    fn union(self, other: ValueRange) -> ValueRange {
        ValueRange {
            may_be_negative: self.may_be_negative || other.may_be_negative,
            bits: self.bits.max(other.bits),
        }
    }
}

/// A lowered number: the slots that hold it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub slot: Slot,
    /// Number of slots.
    pub limbs: u16,
    /// The range of the exact number.
    pub range: ValueRange,
    /// If true, the slots hold only the low bits of the number (modulo 2^(64 * limbs)), which may be outside `range`.
    pub is_modular: bool,
}

impl Operand {
    fn wide(self) -> WideSlot {
        WideSlot {
            slot: self.slot,
            limbs: self.limbs,
            signed: self.range.may_be_negative && !self.is_modular,
        }
    }
}

impl CodeBuilder<'_> {
    fn range(&self, num: &NumExpr) -> ValueRange {
        let range_of_width =
            |bits, signed| ValueRange { may_be_negative: signed, bits: if signed { bits - 1 } else { bits } };
        match num {
            NumExpr::Const(big) => ValueRange { may_be_negative: big.negative, bits: big.bits() },
            NumExpr::Slot(slot_ref) => range_of_width(slot_ref.bits, slot_ref.signed),
            NumExpr::Field { field, .. } => {
                let field = &self.layout.types[field.ty].fields[field.field];
                range_of_width(field.bits, field.signed)
            }
            NumExpr::Register { array, .. } => {
                range_of_width(self.registers[usize::from(*array)].bits, false)
            }
            NumExpr::Binary(op, left, right) => self.binary_range(*op, left, right),
            NumExpr::Not(num) => ValueRange { may_be_negative: true, ..self.range(num) },
            NumExpr::SignedWrap(num, width) => {
                let (range, wrapped) = (self.range(num), range_of_width(*width, true));
                if range.bits <= wrapped.bits { range } else { wrapped }
            }
            NumExpr::SatU(num, width) => {
                let range = self.range(num);
                ValueRange { may_be_negative: false, bits: range.bits.min(*width) }
            }
            NumExpr::SatS(num, width) => {
                let range = self.range(num);
                ValueRange { may_be_negative: range.may_be_negative, bits: range.bits.min(width - 1) }
            }
            NumExpr::Select(_, left, right) => self.range(left).union(self.range(right)),
            NumExpr::FromBool(_) => range_of_width(1, false),
            NumExpr::StackIndex { add, .. } => ValueRange { may_be_negative: *add < 0, bits: 16 },
        }
    }

    fn binary_range(&self, op: BinOp, left: &NumExpr, right: &NumExpr) -> ValueRange {
        let (l, r) = (self.range(left), self.range(right));
        let both = l.union(r);
        // The largest possible shift amount in bits.
        let max_shift = match right {
            NumExpr::Const(big) => big.to_u64().unwrap_or(u64::MAX).min(u64::from(MAX_WIDE_BITS)) as u32,
            _ if r.bits < MAX_WIDE_BITS.ilog2() => (1 << r.bits) - 1,
            _ => MAX_WIDE_BITS,
        };
        match op {
            BinOp::Add => ValueRange { bits: both.bits + 1, ..both },
            BinOp::Sub if both.may_be_negative => ValueRange { may_be_negative: true, bits: both.bits + 1 },
            BinOp::Sub => ValueRange { may_be_negative: true, bits: both.bits },
            BinOp::Mul => ValueRange { bits: l.bits + r.bits + u32::from(both.may_be_negative), ..both },
            BinOp::Div => l,
            BinOp::Mod => ValueRange { may_be_negative: l.may_be_negative, bits: both.bits },
            BinOp::And => match (l.may_be_negative, r.may_be_negative) {
                (false, false) => ValueRange { may_be_negative: false, bits: l.bits.min(r.bits) },
                (false, true) => l,
                (true, false) => r,
                (true, true) => both,
            },
            BinOp::Or | BinOp::Xor => both,
            BinOp::Shl => ValueRange { bits: l.bits.saturating_add(max_shift), ..l },
            BinOp::Shr => match right {
                NumExpr::Const(_) => ValueRange { bits: l.bits.saturating_sub(max_shift), ..l },
                _ => l,
            },
        }
    }

    /// Emits the computation of a number. If only its low `demanded_bits` bits are used, the result may be
    /// modular; `None` requires the exact number.
    pub(super) fn lower_num(
        &mut self,
        node: &JsonNode,
        num: &NumExpr,
        demanded_bits: Option<u32>,
    ) -> Result<Operand, LoadError> {
        let range = self.range(num);
        let exact = |slot| Operand { slot, limbs: range.limbs(), range, is_modular: false };
        Ok(match num {
            NumExpr::Const(big) => {
                let limbs = big.twos_complement(usize::from(range.limbs()));
                exact(self.constants(limbs))
            }
            NumExpr::Slot(slot_ref) => self.load(*slot_ref, range),
            NumExpr::Field { header, field } => self.load_field(node, header, *field, range)?,
            NumExpr::Register { array, index } => exact(self.load_register(node, *array, index, range)?),
            NumExpr::Binary(BinOp::And, left, right) => self.and(node, left, right, range, demanded_bits)?,
            NumExpr::Binary(BinOp::Shr, left, right) => self.shift_right(node, left, right, range)?,
            NumExpr::Binary(op @ (BinOp::Div | BinOp::Mod), left, right) => {
                if self.range(left).may_be_negative || self.range(right).may_be_negative {
                    return node.err("division of signed numbers is not defined in P4");
                }
                let (left, right) = (self.lower_num(node, left, None)?, self.lower_num(node, right, None)?);
                let (opcode, kind) = match op {
                    BinOp::Div => (Opcode::Div, WideOpcode::Div),
                    _ => (Opcode::Mod, WideOpcode::Mod),
                };
                if left.limbs == 1 && right.limbs == 1 {
                    return Ok(exact(self.emit_to_temp(opcode, 64, left.slot, right.slot)));
                }
                self.wide_op(node, kind, range, left, Some(right))?
            }
            NumExpr::Binary(op, left, right) => {
                self.lower_modular(node, *op, left, right, range, demanded_bits)?
            }
            NumExpr::Not(inner) => self.not(node, inner, range, demanded_bits)?,
            NumExpr::SignedWrap(inner, width) => {
                let inner_range = self.range(inner);
                if inner_range.bits < *width {
                    return self.lower_num(node, inner, demanded_bits);
                }
                let inner = self.lower_num(node, inner, Some(*width))?;
                if *width <= 64 {
                    return Ok(exact(self.emit_to_temp(Opcode::Sext, *width as u8, inner.slot, 0)));
                }
                self.emit_wide_resize(node, WideOpcode::Sext, *width, range, inner, None)?
            }
            NumExpr::SatU(inner, width) => {
                self.saturate(node, inner, *width, range, Opcode::SatU, WideOpcode::SatU)?
            }
            NumExpr::SatS(inner, width) => {
                self.saturate(node, inner, *width, range, Opcode::SatS, WideOpcode::SatS)?
            }
            NumExpr::Select(cond, left, right) => {
                self.select(node, cond, (left.as_ref(), right.as_ref()), range, demanded_bits)?
            }
            NumExpr::FromBool(value) => exact(self.lower_bool(node, value)?),
            NumExpr::StackIndex { stack, add } => {
                let next_index = self.layout.stacks[*stack].next_index_slot;
                let add = self.constant(*add as i64 as u64);
                exact(self.emit_to_temp(Opcode::Add, 64, next_index, add))
            }
        })
    }

    fn load_field(
        &mut self,
        node: &JsonNode,
        header: &HeaderExpr,
        field: FieldRef,
        range: ValueRange,
    ) -> Result<Operand, LoadError> {
        let field = &self.layout.types[field.ty].fields[field.field];
        let (rel, bits, signed, limbs) = (field.slot, field.bits, field.signed, field.slot_count);
        if let HeaderExpr::Static(id) = *header {
            let slot = self.layout.header(id).first_slot + rel;
            return Ok(self.load(SlotRef { slot, bits, signed, saturating: false }, range));
        }
        let base = self.header_base(node, header)?;
        let slot = self.temp(limbs);
        if limbs == 1 {
            self.emit(Opcode::LoadAt, 64, slot, base, rel);
        } else {
            self.emit_wide(WideOpcode::LoadAt(rel), bits, (slot, limbs), None, Some(base));
        }
        Ok(self.load(SlotRef { slot, bits, signed, saturating: false }, range))
    }

    /// Emits the read of a register's cell. Returns its first slot.
    fn load_register(
        &mut self,
        node: &JsonNode,
        array: u16,
        index: &NumExpr,
        range: ValueRange,
    ) -> Result<Slot, LoadError> {
        let index = self.lower_to_slot(node, index)?;
        let (slot, bits) = (self.temp(range.limbs()), range.bits);
        // BMv2 throws on an index out of bounds; here it reads as 0.
        let zero = self.constants(vec![0; usize::from(range.limbs())]);
        if range.limbs() == 1 {
            self.emit(Opcode::Mov, 64, slot, zero, 0);
            self.emit(Opcode::RegRead, bits as u8, slot, array, index);
        } else {
            let zero = Operand { slot: zero, limbs: range.limbs(), range, is_modular: false };
            self.emit_wide(WideOpcode::Mov, bits, (slot, range.limbs()), Some(zero), None);
            self.emit_wide(WideOpcode::RegRead(array), bits, (slot, range.limbs()), None, Some(index));
        }
        Ok(slot)
    }

    fn not(
        &mut self,
        node: &JsonNode,
        inner: &NumExpr,
        range: ValueRange,
        demanded_bits: Option<u32>,
    ) -> Result<Operand, LoadError> {
        let inner = self.lower_num(node, inner, demanded_bits)?;
        if inner.limbs == 1
            && (inner.is_modular || range.limbs() == 1 || demanded_bits.is_some_and(|n| n <= 64))
        {
            let is_modular = inner.is_modular || range.limbs() > 1;
            let slot = self.emit_to_temp(Opcode::Not, 64, inner.slot, 0);
            return Ok(Operand { is_modular, limbs: 1, range, slot });
        }
        let is_modular = inner.is_modular;
        Ok(Operand { is_modular, ..self.wide_op(node, WideOpcode::Not, range, inner, None)? })
    }

    fn select(
        &mut self,
        node: &JsonNode,
        cond: &BoolExpr,
        (left, right): (&NumExpr, &NumExpr),
        range: ValueRange,
        demanded_bits: Option<u32>,
    ) -> Result<Operand, LoadError> {
        let cond = self.lower_bool(node, cond)?;
        let left = self.lower_num(node, left, demanded_bits)?;
        let right = self.lower_num(node, right, demanded_bits)?;
        let narrow = demanded_bits.is_some_and(|n| n <= 64) || range.limbs() == 1;
        let is_modular = left.is_modular || right.is_modular || (narrow && range.limbs() > 1);
        if narrow {
            let slot = self.emit_to_temp(Opcode::Mov, 64, right.slot, 0);
            self.emit(Opcode::MovIf, 64, slot, left.slot, cond);
            return Ok(Operand { slot, limbs: 1, range, is_modular });
        }
        let chosen = self.wide_op(node, WideOpcode::Mov, range, right, None)?;
        let d = (chosen.slot, chosen.limbs);
        self.emit_wide(WideOpcode::MovIf, u32::from(chosen.limbs) * 64, d, Some(left), Some(cond));
        Ok(Operand { is_modular, ..chosen })
    }

    /// Returns the operand in a slot, sign-extended to a temporary if it is signed.
    fn load(&mut self, slot_ref: SlotRef, range: ValueRange) -> Operand {
        let limbs = slot_ref.bits.div_ceil(64).max(1) as u16;
        let slot = match (slot_ref.signed, limbs) {
            (false, _) => slot_ref.slot,
            (true, 1) => self.emit_to_temp(Opcode::Sext, slot_ref.bits as u8, slot_ref.slot, 0),
            (true, _) => {
                let slot = self.temp(limbs);
                let unsigned = ValueRange { may_be_negative: false, bits: slot_ref.bits };
                let value = Operand { slot: slot_ref.slot, limbs, range: unsigned, is_modular: false };
                self.emit_wide(WideOpcode::Sext, slot_ref.bits, (slot, limbs), Some(value), None);
                slot
            }
        };
        Operand { slot, limbs, range, is_modular: false }
    }

    /// Lowers +, -, *, |, ^ and <<. The low bits of the result depend only on the low bits of the operands,
    /// so if at most 64 bits are demanded they are computed modulo 2^64.
    fn lower_modular(
        &mut self,
        node: &JsonNode,
        op: BinOp,
        left: &NumExpr,
        right: &NumExpr,
        range: ValueRange,
        demanded_bits: Option<u32>,
    ) -> Result<Operand, LoadError> {
        let shift = op == BinOp::Shl;
        let left = self.lower_num(node, left, demanded_bits)?;
        let right = self.lower_num(node, right, if shift { None } else { demanded_bits })?;
        let (opcode, kind) = match op {
            BinOp::Add => (Opcode::Add, WideOpcode::Add),
            BinOp::Sub => (Opcode::Sub, WideOpcode::Sub),
            BinOp::Mul => (Opcode::Mul, WideOpcode::Mul),
            BinOp::Or => (Opcode::Or, WideOpcode::Or),
            BinOp::Xor => (Opcode::Xor, WideOpcode::Xor),
            _ => (Opcode::Shl, WideOpcode::Shl),
        };
        if shift && right.limbs > 1 {
            return node.err("shift amounts wider than 64 bits are not supported");
        }
        let modular = left.is_modular || (right.is_modular && !shift);
        if range.limbs() == 1 || demanded_bits.is_some_and(|n| n <= 64) {
            let slot = self.emit_to_temp(opcode, 64, left.slot, right.slot);
            return Ok(Operand { slot, limbs: 1, range, is_modular: modular || range.limbs() > 1 });
        }
        let limbs = demanded_bits.map_or(range.limbs(), |n| (n.div_ceil(64) as u16).min(range.limbs()));
        let modular = limbs < range.limbs() || modular;
        let value = self.wide_limbs(node, kind, limbs, range, left, Some(right))?;
        Ok(Operand { is_modular: modular, ..value })
    }

    fn and(
        &mut self,
        node: &JsonNode,
        left: &NumExpr,
        right: &NumExpr,
        range: ValueRange,
        demanded_bits: Option<u32>,
    ) -> Result<Operand, LoadError> {
        // The high bits of an operand do not matter if the other operand has zeros there.
        let min = |demanded_bits: Option<u32>, other: ValueRange| match (demanded_bits, other.may_be_negative)
        {
            (demanded_bits, true) => demanded_bits,
            (Some(n), false) => Some(n.min(other.bits)),
            (None, false) => Some(other.bits),
        };
        let (left_range, right_range) = (self.range(left), self.range(right));
        let l = self.lower_num(node, left, min(demanded_bits, right_range))?;
        // An operation truncates its own result (`Op::clear_high`), so a mask of the low bits needs no
        // operation if the operand was just computed, or if its range is already within the mask.
        if let NumExpr::Const(mask) = right {
            let mask_bits = mask.bits();
            let is_low = !mask.negative && mask_bits <= 64 && mask.to_u64() == Some(low_mask(mask_bits));
            if is_low && l.limbs >= 1 {
                if !l.is_modular && !l.range.may_be_negative && l.range.bits <= mask_bits {
                    return Ok(l);
                }
                if l.limbs == 1 && self.truncate_def(l.slot, mask_bits) {
                    return Ok(Operand { slot: l.slot, limbs: 1, range, is_modular: false });
                }
            }
        }
        let r = self.lower_num(node, right, min(demanded_bits, left_range))?;
        // The result is exact if one operand is exact and not negative: its zeros clear the high bits, in which a
        // modular operand may be wrong.
        let is_bounded =
            (!left_range.may_be_negative && !l.is_modular) || (!right_range.may_be_negative && !r.is_modular);
        if range.limbs() == 1 || demanded_bits.is_some_and(|n| n <= 64) {
            let slot = self.emit_to_temp(Opcode::And, 64, l.slot, r.slot);
            let modular = range.limbs() > 1 || (!is_bounded && (l.is_modular || r.is_modular));
            return Ok(Operand { slot, limbs: 1, range, is_modular: modular });
        }
        let value = self.wide_op(node, WideOpcode::And, range, l, Some(r))?;
        Ok(Operand { is_modular: !is_bounded && (l.is_modular || r.is_modular), ..value })
    }

    /// Truncates the result of the last operation to `bits`, if that operation defined `slot` and its opcode truncates.
    /// Returns whether this was possible.
    fn truncate_def(&mut self, slot: Slot, bits: u32) -> bool {
        match self.last_def(slot).filter(|last| truncates_result(last.opcode) && (1..=64).contains(&bits)) {
            Some(last) => {
                last.truncate_result(bits as u8);
                true
            }
            None => false,
        }
    }

    /// Returns the last operation if it defined this temporary and no label was bound since. After a label, another
    /// path could lead to the use of the temporary.
    fn last_def(&mut self, slot: Slot) -> Option<&mut Op> {
        let may_change =
            self.unlinked.code.len() > self.last_label && (FIRST_TEMP..FIRST_CONST).contains(&slot);
        self.unlinked.code.last_mut().filter(|last| may_change && last.d == slot)
    }

    fn shift_right(
        &mut self,
        node: &JsonNode,
        left: &NumExpr,
        right: &NumExpr,
        range: ValueRange,
    ) -> Result<Operand, LoadError> {
        let (left, right) = (self.lower_num(node, left, None)?, self.lower_num(node, right, None)?);
        if right.limbs > 1 {
            return node.err("shift amounts wider than 64 bits are not supported");
        }
        if left.limbs == 1 {
            let opcode = if left.range.may_be_negative { Opcode::Sar } else { Opcode::Shr };
            let slot = self.emit_to_temp(opcode, 64, left.slot, right.slot);
            return Ok(Operand { slot, limbs: 1, range, is_modular: false });
        }
        self.wide_op(node, WideOpcode::Shr, range, left, Some(right))
    }

    fn saturate(
        &mut self,
        node: &JsonNode,
        inner: &NumExpr,
        width: u32,
        range: ValueRange,
        opcode: Opcode,
        kind: WideOpcode,
    ) -> Result<Operand, LoadError> {
        let value = self.lower_num(node, inner, None)?;
        // The narrow operations read their operand as a signed number.
        let fits_signed = value.range.may_be_negative || value.range.bits < 64;
        if value.limbs == 1 && fits_signed && width <= 64 {
            let slot = self.emit_to_temp(opcode, width as u8, value.slot, 0);
            return Ok(Operand { slot, limbs: 1, range, is_modular: false });
        }
        self.emit_wide_resize(node, kind, width, range, value, None)
    }

    /// Lowers a number to one slot, modulo 2^64: for indices, lengths and shift amounts.
    pub(crate) fn lower_to_slot(&mut self, node: &JsonNode, num: &NumExpr) -> Result<Slot, LoadError> {
        Ok(self.lower_num(node, num, Some(64))?.slot)
    }

    /// Lowers a number to consecutive slots with all its limbs, for `log_msg`.
    pub(crate) fn lower_to_wide_slot(
        &mut self,
        node: &JsonNode,
        num: &NumExpr,
    ) -> Result<WideSlot, LoadError> {
        Ok(self.lower_num(node, num, None)?.wide())
    }

    /// Emits the assignment of a number to a field whose slot is known when the program is loaded.
    pub(crate) fn assign(
        &mut self,
        node: &JsonNode,
        slot_ref: SlotRef,
        num: &NumExpr,
    ) -> Result<(), LoadError> {
        if slot_ref.saturating {
            let inner = Box::new(num.clone());
            let saturated = if slot_ref.signed {
                NumExpr::SatS(inner, slot_ref.bits)
            } else {
                NumExpr::SatU(inner, slot_ref.bits)
            };
            return self.assign(node, SlotRef { saturating: false, ..slot_ref }, &saturated);
        }
        if slot_ref.bits == 0 {
            return Ok(());
        }
        let value = self.lower_num(node, num, Some(slot_ref.bits))?;
        if slot_ref.bits > 64 {
            let d = (slot_ref.slot, slot_ref.bits.div_ceil(64) as u16);
            self.emit_wide(WideOpcode::Mov, slot_ref.bits, d, Some(value), None);
            return Ok(());
        }
        let fits = !value.is_modular && !value.range.may_be_negative && value.range.bits <= slot_ref.bits;
        let bits = if fits { 64 } else { slot_ref.bits as u8 };
        // The last operation may write the destination itself if it defined the temporary, no label was bound
        // since, and it either truncates its own result or its result fits. The temporary is not read again:
        // each is used once.
        if let Some(last) = self.last_def(value.slot) {
            if truncates_result(last.opcode) {
                last.d = slot_ref.slot;
                last.truncate_result(bits);
                return Ok(());
            }
            if fits && is_pure_def(last.opcode) {
                last.d = slot_ref.slot;
                return Ok(());
            }
        }
        self.emit(Opcode::Mov, bits, slot_ref.slot, value.slot, 0);
        Ok(())
    }

    /// Emits the assignment of a number to a field of a header that may be known only at run time.
    pub(crate) fn assign_at(
        &mut self,
        node: &JsonNode,
        header: &HeaderExpr,
        field: FieldRef,
        num: &NumExpr,
    ) -> Result<(), LoadError> {
        let field = &self.layout.types[field.ty].fields[field.field];
        let (rel, bits, limbs) = (field.slot, field.bits, field.slot_count);
        let (signed, saturating) = (field.signed, field.saturating);
        if let HeaderExpr::Static(id) = header {
            let slot = self.layout.header(*id).first_slot + rel;
            return self.assign(node, SlotRef { slot, bits, signed, saturating }, num);
        }
        let base = self.header_base(node, header)?;
        let slot = self.temp(limbs);
        self.assign(node, SlotRef { slot, bits, signed, saturating }, num)?;
        if limbs == 1 {
            self.emit(Opcode::StoreAt, 64, base, slot, rel);
        } else {
            let range = ValueRange { may_be_negative: false, bits };
            let value = Operand { slot, limbs, range, is_modular: false };
            // `d` has 0 limbs: the operation writes the slots that `base` selects.
            self.emit_wide(WideOpcode::StoreAt(rel), bits, (slot, 0), Some(value), Some(base));
        }
        Ok(())
    }
}

/// Returns whether `clear_high` of an operation is the truncation of its result. Other operations ignore it or use it
/// as a parameter.
fn truncates_result(opcode: Opcode) -> bool {
    use Opcode::*;
    matches!(opcode, Mov | Add | Sub | Mul | Div | Mod | And | Or | Xor | Not | Shl | Shr | Sar)
}

/// Returns whether an operation that does not truncate overwrites its destination without reading it.
fn is_pure_def(opcode: Opcode) -> bool {
    use Opcode::*;
    matches!(opcode, Eq | LtU | LeU | LtS | LeS | IsZero | IsNonZero | SatU)
}

impl NumExpr {
    pub(crate) fn from_u64(value: u64) -> NumExpr {
        NumExpr::Const(BigInt::from_u64(value))
    }
}
