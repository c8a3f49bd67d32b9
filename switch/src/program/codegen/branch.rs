//! Lowers conditions: to a slot with 0 or 1, or to jumps.

use super::arith::{Operand, ValueRange};
use super::builder::CodeBuilder;
use crate::program::error::LoadError;
use crate::program::expr::{BoolExpr, CmpOp, HeaderExpr};
use crate::program::json::JsonNode;
use crate::program::layout::VALID_SLOT;
use crate::program::op::{Opcode, Slot, WideOp, WideOpcode, WideSlot};

impl CodeBuilder<'_> {
    /// Lowers a boolean to a slot with 0 or 1.
    pub(crate) fn lower_bool(&mut self, node: &JsonNode, value: &BoolExpr) -> Result<Slot, LoadError> {
        Ok(match value {
            BoolExpr::Const(value) => self.constant(u64::from(*value)),
            BoolExpr::NotZero(num) => {
                let value = self.lower_num(node, num, None)?;
                if value.limbs > 1 {
                    let zero = self.constant(0);
                    return self.wide_compare(node, WideOpcode::Ne, value, word_operand(zero));
                }
                // A slot that holds an exact number of one bit is 0 or 1 already; a modular one may hold more bits.
                if !value.is_modular && !value.range.may_be_negative && value.range.bits <= 1 {
                    return Ok(value.slot);
                }
                self.emit_to_temp(Opcode::IsNonZero, 64, value.slot, 0)
            }
            BoolExpr::Compare(op, left, right) => {
                let (left, right) = (self.lower_num(node, left, None)?, self.lower_num(node, right, None)?);
                self.compare(node, *op, left, right)?
            }
            BoolExpr::And(left, right) => {
                let (left, right) = (self.lower_bool(node, left)?, self.lower_bool(node, right)?);
                self.emit_to_temp(Opcode::And, 64, left, right)
            }
            BoolExpr::Or(left, right) => {
                let (left, right) = (self.lower_bool(node, left)?, self.lower_bool(node, right)?);
                self.emit_to_temp(Opcode::Or, 64, left, right)
            }
            BoolExpr::Not(inner) => {
                let inner = self.lower_bool(node, inner)?;
                self.emit_to_temp(Opcode::IsZero, 64, inner, 0)
            }
            BoolExpr::Eq(left, right) => {
                let (left, right) = (self.lower_bool(node, left)?, self.lower_bool(node, right)?);
                self.emit_to_temp(Opcode::Eq, 64, left, right)
            }
            BoolExpr::Select(cond, left, right) => {
                let cond = self.lower_bool(node, cond)?;
                let (left, right) = (self.lower_bool(node, left)?, self.lower_bool(node, right)?);
                let slot = self.emit_to_temp(Opcode::Mov, 64, right, 0);
                self.emit(Opcode::MovIf, 64, slot, left, cond);
                slot
            }
            BoolExpr::Valid(HeaderExpr::Static(id)) => self.layout.header(*id).first_slot + VALID_SLOT,
            BoolExpr::Valid(header) => {
                let base = self.header_base(node, header)?;
                let slot = self.temp(1);
                self.emit(Opcode::LoadAt, 64, slot, base, VALID_SLOT);
                slot
            }
            BoolExpr::ValidUnion(union) => {
                let mut any = self.constant(0);
                for member in 0..union.members(self.layout).len() {
                    let valid = BoolExpr::Valid(HeaderExpr::Member(union.clone(), member));
                    let valid = self.lower_bool(node, &valid)?;
                    any = self.emit_to_temp(Opcode::Or, 64, any, valid);
                }
                any
            }
            BoolExpr::VarbitEq { left, right, slot_count } => {
                let wide = |slot| WideSlot { slot, limbs: *slot_count, signed: false };
                let slot = self.temp(1);
                let d = WideSlot { slot, limbs: 1, signed: false };
                let (a, b) = (wide(*left), wide(*right));
                self.emit_wide_op(WideOp { kind: WideOpcode::EqSlots, bits: 1, d, a, b });
                slot
            }
            BoolExpr::HeaderEq(left, right) => self.header_eq(node, left, right)?,
            BoolExpr::UnionEq(left, right) => {
                // As in BMv2, unions are equal if the same member is valid in both, and equal.
                let mut any = self.constant(0);
                for member in 0..left.members(self.layout).len() {
                    let (left, right) = (left.clone(), right.clone());
                    let (left, right) = (HeaderExpr::Member(left, member), HeaderExpr::Member(right, member));
                    let same = self.header_eq(node, &left, &right)?;
                    any = self.emit_to_temp(Opcode::Or, 64, any, same);
                }
                any
            }
        })
    }

    fn compare(
        &mut self,
        node: &JsonNode,
        op: CmpOp,
        left: Operand,
        right: Operand,
    ) -> Result<Slot, LoadError> {
        let (l, r) = (left.range, right.range);
        let (are_unsigned, fit_signed) =
            (!l.may_be_negative && !r.may_be_negative, l.bits < 64 && r.bits < 64);
        if left.limbs == 1 && right.limbs == 1 && (are_unsigned || fit_signed) {
            let opcode = match (op, are_unsigned) {
                (CmpOp::Eq, _) => Opcode::Eq,
                (CmpOp::Lt, true) => Opcode::LtU,
                (CmpOp::Lt, false) => Opcode::LtS,
                (CmpOp::Le, true) => Opcode::LeU,
                (CmpOp::Le, false) => Opcode::LeS,
            };
            return Ok(self.emit_to_temp(opcode, 64, left.slot, right.slot));
        }
        let kind = match op {
            CmpOp::Eq => WideOpcode::Eq,
            CmpOp::Lt => WideOpcode::Lt,
            CmpOp::Le => WideOpcode::Le,
        };
        self.wide_compare(node, kind, left, right)
    }

    fn wide_compare(
        &mut self,
        node: &JsonNode,
        kind: WideOpcode,
        a: Operand,
        b: Operand,
    ) -> Result<Slot, LoadError> {
        let range = ValueRange { may_be_negative: false, bits: 1 };
        Ok(self.wide_limbs(node, kind, 1, range, a, Some(b))?.slot)
    }

    fn header_eq(
        &mut self,
        node: &JsonNode,
        left: &HeaderExpr,
        right: &HeaderExpr,
    ) -> Result<Slot, LoadError> {
        let slots = self.layout.types[left.ty(self.layout)].block_len;
        // The comparison reads whole headers; `escaping_header_base` records that all their fields are in use.
        let (left, right) = (self.escaping_header_base(node, left)?, self.escaping_header_base(node, right)?);
        self.wide_compare(node, WideOpcode::EqHeader(slots), word_operand(left), word_operand(right))
    }

    /// Emits code that jumps unless a condition holds, and falls through if it holds. The targets of the jumps are
    /// open: their indices are added to `jumps`, for [`CodeBuilder::patch`]. The right operand of `and` and `or` is
    /// evaluated only if the left one does not decide.
    pub(crate) fn jump_unless(
        &mut self,
        node: &JsonNode,
        value: &BoolExpr,
        jumps: &mut Vec<usize>,
    ) -> Result<(), LoadError> {
        match value {
            BoolExpr::Const(true) => {}
            BoolExpr::Not(inner) => self.jump_if(node, inner, jumps)?,
            BoolExpr::And(left, right) => {
                self.jump_unless(node, left, jumps)?;
                self.jump_unless(node, right, jumps)?;
            }
            BoolExpr::Or(left, right) => {
                let mut if_left = Vec::new();
                self.jump_if(node, left, &mut if_left)?;
                self.jump_unless(node, right, jumps)?;
                self.patch_all(&if_left);
            }
            BoolExpr::Compare(op, left, right) => {
                let (left, right) = (self.lower_num(node, left, None)?, self.lower_num(node, right, None)?);
                let jump = match (op, fit_unsigned_words(left, right)) {
                    (CmpOp::Eq, true) => self.emit_jump(Opcode::JumpNe, left.slot, right.slot),
                    // The negation of left < right is right <= left, and vice versa.
                    (CmpOp::Lt, true) => self.emit_jump(Opcode::JumpLe, right.slot, left.slot),
                    (CmpOp::Le, true) => self.emit_jump(Opcode::JumpLt, right.slot, left.slot),
                    (_, false) => {
                        let slot = self.compare(node, *op, left, right)?;
                        self.emit_jump(Opcode::JumpZ, slot, 0)
                    }
                };
                jumps.push(jump);
            }
            _ => {
                let slot = self.lower_to_nonzero(node, value)?;
                jumps.push(self.emit_jump(Opcode::JumpZ, slot, 0));
            }
        }
        Ok(())
    }

    /// Same as [`CodeBuilder::jump_unless`], but the jumps are taken if the condition holds.
    fn jump_if(
        &mut self,
        node: &JsonNode,
        value: &BoolExpr,
        jumps: &mut Vec<usize>,
    ) -> Result<(), LoadError> {
        match value {
            BoolExpr::Const(false) => {}
            BoolExpr::Not(inner) => self.jump_unless(node, inner, jumps)?,
            BoolExpr::Or(left, right) => {
                self.jump_if(node, left, jumps)?;
                self.jump_if(node, right, jumps)?;
            }
            BoolExpr::And(left, right) => {
                let mut unless_left = Vec::new();
                self.jump_unless(node, left, &mut unless_left)?;
                self.jump_if(node, right, jumps)?;
                self.patch_all(&unless_left);
            }
            BoolExpr::Compare(op, left, right) => {
                let (left, right) = (self.lower_num(node, left, None)?, self.lower_num(node, right, None)?);
                let jump = match (op, fit_unsigned_words(left, right)) {
                    (CmpOp::Eq, true) => self.emit_jump(Opcode::JumpEq, left.slot, right.slot),
                    (CmpOp::Lt, true) => self.emit_jump(Opcode::JumpLt, left.slot, right.slot),
                    (CmpOp::Le, true) => self.emit_jump(Opcode::JumpLe, left.slot, right.slot),
                    (_, false) => {
                        let slot = self.compare(node, *op, left, right)?;
                        self.emit_jump(Opcode::JumpNz, slot, 0)
                    }
                };
                jumps.push(jump);
            }
            _ => {
                let slot = self.lower_to_nonzero(node, value)?;
                jumps.push(self.emit_jump(Opcode::JumpNz, slot, 0));
            }
        }
        Ok(())
    }

    /// Lowers a condition to a slot that is 0 if it does not hold and not 0 if it holds: for a jump, a number need
    /// not be reduced to 0 or 1.
    fn lower_to_nonzero(&mut self, node: &JsonNode, value: &BoolExpr) -> Result<Slot, LoadError> {
        if let BoolExpr::NotZero(num) = value {
            let value = self.lower_num(node, num, None)?;
            if value.limbs == 1 {
                return Ok(value.slot);
            }
            let zero = self.constant(0);
            return self.wide_compare(node, WideOpcode::Ne, value, word_operand(zero));
        }
        self.lower_bool(node, value)
    }

    fn patch_all(&mut self, jumps: &[usize]) {
        for jump in jumps {
            self.patch(*jump);
        }
    }
}

/// Returns whether two numbers can be compared as unsigned words.
fn fit_unsigned_words(left: Operand, right: Operand) -> bool {
    left.limbs == 1 && right.limbs == 1 && !left.range.may_be_negative && !right.range.may_be_negative
}

fn word_operand(slot: Slot) -> Operand {
    Operand { slot, limbs: 1, range: ValueRange { may_be_negative: false, bits: 64 }, is_modular: false }
}
