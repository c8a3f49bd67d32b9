//! Conditions, as values and as jumps.

use super::Asm;
use super::num::{Range, Value};
use crate::program::LoadError;
use crate::program::expr::{Bool, CmpOp, HeaderExpr};
use crate::program::json::At;
use crate::program::layout::VALID;
use crate::program::op::{Code, Slot, WideKind, WideOp, WideRef};

impl Asm<'_> {
    /// Returns a truth value as a slot: 0 or 1.
    pub fn bool(&mut self, at: &At, value: &Bool) -> Result<Slot, LoadError> {
        Ok(match value {
            Bool::Const(value) => self.constant(u64::from(*value)),
            Bool::NotZero(num) => {
                let value = self.num(at, num, None)?;
                if value.limbs > 1 {
                    let zero = self.constant(0);
                    return self.wide_compare(at, WideKind::Ne, value, narrow_value(zero));
                }
                if !value.modular && !value.range.negative && value.range.bits <= 1 {
                    return Ok(value.slot);
                }
                self.op(Code::IsNonZero, 64, value.slot, 0)
            }
            Bool::Compare(op, left, right) => {
                let (left, right) = (self.num(at, left, None)?, self.num(at, right, None)?);
                self.compare(at, *op, left, right)?
            }
            Bool::And(left, right) => {
                let (left, right) = (self.bool(at, left)?, self.bool(at, right)?);
                self.op(Code::And, 64, left, right)
            }
            Bool::Or(left, right) => {
                let (left, right) = (self.bool(at, left)?, self.bool(at, right)?);
                self.op(Code::Or, 64, left, right)
            }
            Bool::Not(inner) => {
                let inner = self.bool(at, inner)?;
                self.op(Code::IsZero, 64, inner, 0)
            }
            Bool::Same(left, right) => {
                let (left, right) = (self.bool(at, left)?, self.bool(at, right)?);
                self.op(Code::Eq, 64, left, right)
            }
            Bool::Choose(cond, left, right) => {
                let cond = self.bool(at, cond)?;
                let (left, right) = (self.bool(at, left)?, self.bool(at, right)?);
                let slot = self.op(Code::Mov, 64, right, 0);
                self.emit(Code::MovIf, 64, slot, left, cond);
                slot
            }
            Bool::Valid(HeaderExpr::Static(id)) => self.layout.header(*id).base + VALID,
            Bool::Valid(header) => {
                let base = self.header(at, header)?;
                let slot = self.temp(1);
                self.emit(Code::LoadAt, 64, slot, base, VALID);
                slot
            }
            Bool::ValidUnion(union) => {
                let mut any = self.constant(0);
                for member in 0..union.members(self.layout).len() {
                    let valid = Bool::Valid(HeaderExpr::Member(union.clone(), member));
                    let valid = self.bool(at, &valid)?;
                    any = self.op(Code::Or, 64, any, valid);
                }
                any
            }
            Bool::SameVarbit(left, right, limbs) => {
                let wide = |slot| WideRef { slot, limbs: *limbs, signed: false };
                let slot = self.temp(1);
                let d = WideRef { slot, limbs: 1, signed: false };
                let (a, b) = (wide(*left), wide(*right));
                self.emit_wide_refs(WideOp { kind: WideKind::EqSlots, bits: 1, d, a, b });
                slot
            }
            Bool::SameHeader(left, right) => self.same_header(at, left, right)?,
            Bool::SameUnion(left, right) => {
                // As in BMv2: equal if the same member is valid in both and equal.
                let mut any = self.constant(0);
                for member in 0..left.members(self.layout).len() {
                    let (left, right) = (left.clone(), right.clone());
                    let (left, right) = (HeaderExpr::Member(left, member), HeaderExpr::Member(right, member));
                    let same = self.same_header(at, &left, &right)?;
                    any = self.op(Code::Or, 64, any, same);
                }
                any
            }
        })
    }

    fn compare(&mut self, at: &At, op: CmpOp, left: Value, right: Value) -> Result<Slot, LoadError> {
        let (l, r) = (left.range, right.range);
        let (unsigned, fit_signed) = (!l.negative && !r.negative, l.bits < 64 && r.bits < 64);
        if left.limbs == 1 && right.limbs == 1 && (unsigned || fit_signed) {
            let code = match (op, unsigned) {
                (CmpOp::Eq, _) => Code::Eq,
                (CmpOp::Lt, true) => Code::LtU,
                (CmpOp::Lt, false) => Code::LtS,
                (CmpOp::Le, true) => Code::LeU,
                (CmpOp::Le, false) => Code::LeS,
            };
            return Ok(self.op(code, 64, left.slot, right.slot));
        }
        let kind = match op {
            CmpOp::Eq => WideKind::Eq,
            CmpOp::Lt => WideKind::Lt,
            CmpOp::Le => WideKind::Le,
        };
        self.wide_compare(at, kind, left, right)
    }

    fn wide_compare(&mut self, at: &At, kind: WideKind, a: Value, b: Value) -> Result<Slot, LoadError> {
        let range = Range { negative: false, bits: 1 };
        Ok(self.wide_limbs(at, kind, 1, range, a, Some(b))?.slot)
    }

    fn same_header(&mut self, at: &At, left: &HeaderExpr, right: &HeaderExpr) -> Result<Slot, LoadError> {
        let slots = self.layout.types[left.ty(self.layout)].slots;
        let (left, right) = (self.whole_header(at, left)?, self.whole_header(at, right)?);
        self.wide_compare(at, WideKind::EqHeader(slots), narrow_value(left), narrow_value(right))
    }

    /// Falls through if a condition holds; otherwise jumps, by jumps whose target [`Asm::patch`] sets. Operands are
    /// evaluated from left to right, and the right one only if the left one does not decide.
    pub fn jump_unless(&mut self, at: &At, value: &Bool, jumps: &mut Vec<usize>) -> Result<(), LoadError> {
        match value {
            Bool::Const(true) => {}
            Bool::Not(inner) => self.jump_if(at, inner, jumps)?,
            Bool::And(left, right) => {
                self.jump_unless(at, left, jumps)?;
                self.jump_unless(at, right, jumps)?;
            }
            Bool::Or(left, right) => {
                let mut holds = Vec::new();
                self.jump_if(at, left, &mut holds)?;
                self.jump_unless(at, right, jumps)?;
                self.patch_all(&holds);
            }
            Bool::Compare(op, left, right) => {
                let (left, right) = (self.num(at, left, None)?, self.num(at, right, None)?);
                let jump = match (op, unsigned(left, right)) {
                    (CmpOp::Eq, true) => self.emit_jump(Code::JumpNe, left.slot, right.slot),
                    (CmpOp::Lt, true) => self.emit_jump(Code::JumpLe, right.slot, left.slot),
                    (CmpOp::Le, true) => self.emit_jump(Code::JumpLt, right.slot, left.slot),
                    (_, false) => {
                        let slot = self.compare(at, *op, left, right)?;
                        self.emit_jump(Code::JumpZ, slot, 0)
                    }
                };
                jumps.push(jump);
            }
            _ => {
                let slot = self.truth(at, value)?;
                jumps.push(self.emit_jump(Code::JumpZ, slot, 0));
            }
        }
        Ok(())
    }

    /// Jumps if a condition holds, otherwise falls through.
    fn jump_if(&mut self, at: &At, value: &Bool, jumps: &mut Vec<usize>) -> Result<(), LoadError> {
        match value {
            Bool::Const(false) => {}
            Bool::Not(inner) => self.jump_unless(at, inner, jumps)?,
            Bool::Or(left, right) => {
                self.jump_if(at, left, jumps)?;
                self.jump_if(at, right, jumps)?;
            }
            Bool::And(left, right) => {
                let mut fails = Vec::new();
                self.jump_unless(at, left, &mut fails)?;
                self.jump_if(at, right, jumps)?;
                self.patch_all(&fails);
            }
            Bool::Compare(op, left, right) => {
                let (left, right) = (self.num(at, left, None)?, self.num(at, right, None)?);
                let jump = match (op, unsigned(left, right)) {
                    (CmpOp::Eq, true) => self.emit_jump(Code::JumpEq, left.slot, right.slot),
                    (CmpOp::Lt, true) => self.emit_jump(Code::JumpLt, left.slot, right.slot),
                    (CmpOp::Le, true) => self.emit_jump(Code::JumpLe, left.slot, right.slot),
                    (_, false) => {
                        let slot = self.compare(at, *op, left, right)?;
                        self.emit_jump(Code::JumpNz, slot, 0)
                    }
                };
                jumps.push(jump);
            }
            _ => {
                let slot = self.truth(at, value)?;
                jumps.push(self.emit_jump(Code::JumpNz, slot, 0));
            }
        }
        Ok(())
    }

    /// Returns a slot that is 0 unless a condition holds.
    fn truth(&mut self, at: &At, value: &Bool) -> Result<Slot, LoadError> {
        if let Bool::NotZero(num) = value {
            let value = self.num(at, num, None)?;
            if value.limbs == 1 {
                return Ok(value.slot);
            }
            let zero = self.constant(0);
            return self.wide_compare(at, WideKind::Ne, value, narrow_value(zero));
        }
        self.bool(at, value)
    }

    fn patch_all(&mut self, jumps: &[usize]) {
        for jump in jumps {
            self.patch(*jump);
        }
    }
}

/// Returns whether two numbers can be compared as unsigned words.
fn unsigned(left: Value, right: Value) -> bool {
    left.limbs == 1 && right.limbs == 1 && !left.range.negative && !right.range.negative
}

fn narrow_value(slot: Slot) -> Value {
    Value { slot, limbs: 1, range: Range { negative: false, bits: 64 }, modular: false }
}
