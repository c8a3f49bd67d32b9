//! Numbers.
//!
//! BMv2 computes with unbounded integers and cuts a result to its field's width when it is stored. Here every
//! expression's range is known when the program is loaded, and so is how many low bits of it are wanted. So almost
//! everything is done in one 64-bit operation, exact or modulo 2^64 where that is as good; what is left takes the
//! wide road ([`WideOp`]).

use super::{Asm, CONSTS, TEMPS, low_bits};
use crate::program::LoadError;
use crate::program::expr::{HeaderExpr, Num, NumOp};
use crate::program::json::{At, Big};
use crate::program::layout::Place;
use crate::program::op::{Code, Op, Slot, WideKind, WideOp, WideRef};

/// Numbers wider than this do not occur but by accident.
const MAX_WIDE_BITS: u32 = 8192;

/// The range of a number: from -2^bits (or 0, if not negative) to 2^bits - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub negative: bool,
    pub bits: u32,
}

impl Range {
    fn limbs(self) -> u16 {
        (self.bits + u32::from(self.negative)).div_ceil(64).max(1) as u16
    }
    fn union(self, other: Range) -> Range {
        Range { negative: self.negative || other.negative, bits: self.bits.max(other.bits) }
    }
}

/// A computed number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub slot: Slot,
    pub limbs: u16,
    pub range: Range,
    /// Right modulo 2^(64 limbs) only: `range` does not hold.
    pub modular: bool,
}

impl Value {
    fn wide(self) -> WideRef {
        WideRef { slot: self.slot, limbs: self.limbs, signed: self.range.negative && !self.modular }
    }
}

impl Asm<'_> {
    fn range(&self, num: &Num) -> Range {
        let of = |bits, signed| Range { negative: signed, bits: if signed { bits - 1 } else { bits } };
        match num {
            Num::Const(big) => Range { negative: big.negative, bits: big.bits() },
            Num::Place(place) => of(place.bits, place.signed),
            Num::Field(_, at) => {
                let field = &self.layout.types[at.ty].fields[at.field];
                of(field.bits, field.signed)
            }
            Num::Register(register, _) => of(self.registers[usize::from(*register)].bits, false),
            Num::Binary(op, left, right) => self.range_of(*op, left, right),
            Num::Not(num) => Range { negative: true, ..self.range(num) },
            Num::Wrap(num, width) => {
                let (range, wrapped) = (self.range(num), of(*width, true));
                if range.bits <= wrapped.bits { range } else { wrapped }
            }
            Num::SatU(num, width) => {
                let range = self.range(num);
                Range { negative: false, bits: range.bits.min(*width) }
            }
            Num::SatS(num, width) => {
                let range = self.range(num);
                Range { negative: range.negative, bits: range.bits.min(width - 1) }
            }
            Num::Choose(_, left, right) => self.range(left).union(self.range(right)),
            Num::FromBool(_) => of(1, false),
            Num::StackCount(_, add) => Range { negative: *add < 0, bits: 16 },
        }
    }

    fn range_of(&self, op: NumOp, left: &Num, right: &Num) -> Range {
        let (l, r) = (self.range(left), self.range(right));
        let both = l.union(r);
        let shift = match right {
            Num::Const(big) => big.to_u64().unwrap_or(u64::MAX).min(u64::from(MAX_WIDE_BITS)) as u32,
            _ if r.bits < MAX_WIDE_BITS.ilog2() => (1 << r.bits) - 1,
            _ => MAX_WIDE_BITS,
        };
        match op {
            NumOp::Add => Range { bits: both.bits + 1, ..both },
            NumOp::Sub if both.negative => Range { negative: true, bits: both.bits + 1 },
            NumOp::Sub => Range { negative: true, bits: both.bits },
            NumOp::Mul => Range { bits: l.bits + r.bits + u32::from(both.negative), ..both },
            NumOp::Div => l,
            NumOp::Mod => Range { negative: l.negative, bits: both.bits },
            NumOp::And => match (l.negative, r.negative) {
                (false, false) => Range { negative: false, bits: l.bits.min(r.bits) },
                (false, true) => l,
                (true, false) => r,
                (true, true) => both,
            },
            NumOp::Or | NumOp::Xor => both,
            NumOp::Shl => Range { bits: l.bits.saturating_add(shift), ..l },
            NumOp::Shr => match right {
                Num::Const(_) => Range { bits: l.bits.saturating_sub(shift), ..l },
                _ => l,
            },
        }
    }

    /// Computes a number whose low `wanted` bits matter (all, if none is given).
    pub(super) fn num(&mut self, at: &At, num: &Num, wanted: Option<u32>) -> Result<Value, LoadError> {
        let range = self.range(num);
        let exact = |slot| Value { slot, limbs: range.limbs(), range, modular: false };
        Ok(match num {
            Num::Const(big) => {
                let limbs = big.twos_complement(usize::from(range.limbs()));
                exact(self.constants(limbs))
            }
            Num::Place(place) => self.load(*place, range),
            Num::Field(header, field) => {
                let field = &self.layout.types[field.ty].fields[field.field];
                let (rel, bits, signed, limbs) = (field.slot, field.bits, field.signed, field.limbs);
                if let HeaderExpr::Static(id) = **header {
                    let slot = self.layout.header(id).base + rel;
                    return Ok(self.load(Place { slot, bits, signed, saturating: false }, range));
                }
                let base = self.header(at, header)?;
                let slot = self.temp(limbs);
                if limbs == 1 {
                    self.emit(Code::LoadAt, 64, slot, base, rel);
                } else {
                    self.emit_wide(WideKind::LoadAt(rel), bits, (slot, limbs), None, Some(base));
                }
                self.load(Place { slot, bits, signed, saturating: false }, range)
            }
            Num::Register(register, index) => {
                let index = self.narrow(at, index)?;
                let (slot, bits) = (self.temp(range.limbs()), range.bits);
                // Out of bounds BMv2 throws; here it reads as 0.
                let zero = self.constants(vec![0; usize::from(range.limbs())]);
                if range.limbs() == 1 {
                    self.emit(Code::Mov, 64, slot, zero, 0);
                    self.emit(Code::RegRead, bits as u8, slot, *register, index);
                } else {
                    let zero = Value { slot: zero, limbs: range.limbs(), range, modular: false };
                    self.emit_wide(WideKind::Mov, bits, (slot, range.limbs()), Some(zero), None);
                    let kind = WideKind::RegRead(*register);
                    self.emit_wide(kind, bits, (slot, range.limbs()), None, Some(index));
                }
                exact(slot)
            }
            Num::Binary(NumOp::And, left, right) => self.and(at, left, right, range, wanted)?,
            Num::Binary(NumOp::Shr, left, right) => self.shift_right(at, left, right, range)?,
            Num::Binary(op @ (NumOp::Div | NumOp::Mod), left, right) => {
                if self.range(left).negative || self.range(right).negative {
                    return at.fail("division of signed numbers is not defined in P4");
                }
                let (left, right) = (self.num(at, left, None)?, self.num(at, right, None)?);
                let (code, kind) = match op {
                    NumOp::Div => (Code::Div, WideKind::Div),
                    _ => (Code::Mod, WideKind::Mod),
                };
                if left.limbs == 1 && right.limbs == 1 {
                    return Ok(exact(self.op(code, 64, left.slot, right.slot)));
                }
                self.wide_op(at, kind, range, left, Some(right))?
            }
            Num::Binary(op, left, right) => self.ring(at, *op, left, right, range, wanted)?,
            Num::Not(inner) => {
                let inner = self.num(at, inner, wanted)?;
                if inner.limbs == 1
                    && (inner.modular || range.limbs() == 1 || wanted.is_some_and(|n| n <= 64))
                {
                    let modular = inner.modular || range.limbs() > 1;
                    return Ok(Value {
                        modular,
                        limbs: 1,
                        range,
                        slot: self.op(Code::Not, 64, inner.slot, 0),
                    });
                }
                let modular = inner.modular;
                Value { modular, ..self.wide_op(at, WideKind::Not, range, inner, None)? }
            }
            Num::Wrap(inner, width) => {
                let inner_range = self.range(inner);
                if inner_range.bits < *width {
                    return self.num(at, inner, wanted);
                }
                let inner = self.num(at, inner, Some(*width))?;
                if *width <= 64 {
                    return Ok(exact(self.op(Code::Sext, *width as u8, inner.slot, 0)));
                }
                self.wide_to(at, WideKind::Sext, *width, range, inner, None)?
            }
            Num::SatU(inner, width) => self.saturate(at, inner, *width, range, Code::SatU, WideKind::SatU)?,
            Num::SatS(inner, width) => self.saturate(at, inner, *width, range, Code::SatS, WideKind::SatS)?,
            Num::Choose(cond, left, right) => {
                let cond = self.bool(at, cond)?;
                let (left, right) = (self.num(at, left, wanted)?, self.num(at, right, wanted)?);
                let narrow = wanted.is_some_and(|n| n <= 64) || range.limbs() == 1;
                let modular = left.modular || right.modular || (narrow && range.limbs() > 1);
                if narrow {
                    let slot = self.op(Code::Mov, 64, right.slot, 0);
                    self.emit(Code::MovIf, 64, slot, left.slot, cond);
                    return Ok(Value { slot, limbs: 1, range, modular });
                }
                let chosen = self.wide_op(at, WideKind::Mov, range, right, None)?;
                let d = (chosen.slot, chosen.limbs);
                self.emit_wide(WideKind::MovIf, u32::from(chosen.limbs) * 64, d, Some(left), Some(cond));
                Value { modular, ..chosen }
            }
            Num::FromBool(value) => exact(self.bool(at, value)?),
            Num::StackCount(stack, add) => {
                let count = self.layout.stacks[*stack].count;
                let add = self.constant(*add as i64 as u64);
                exact(self.op(Code::Add, 64, count, add))
            }
        })
    }

    fn load(&mut self, place: Place, range: Range) -> Value {
        let limbs = place.bits.div_ceil(64).max(1) as u16;
        let slot = match (place.signed, limbs) {
            (false, _) => place.slot,
            (true, 1) => self.op(Code::Sext, place.bits as u8, place.slot, 0),
            (true, _) => {
                let slot = self.temp(limbs);
                let unsigned = Range { negative: false, bits: place.bits };
                let value = Value { slot: place.slot, limbs, range: unsigned, modular: false };
                self.emit_wide(WideKind::Sext, place.bits, (slot, limbs), Some(value), None);
                slot
            }
        };
        Value { slot, limbs, range, modular: false }
    }

    /// +, -, *, |, ^ and <<: the low bits of the result need the low bits of the operands only.
    fn ring(
        &mut self,
        at: &At,
        op: NumOp,
        left: &Num,
        right: &Num,
        range: Range,
        wanted: Option<u32>,
    ) -> Result<Value, LoadError> {
        let shift = op == NumOp::Shl;
        let left = self.num(at, left, wanted)?;
        let right = self.num(at, right, if shift { None } else { wanted })?;
        let (code, kind) = match op {
            NumOp::Add => (Code::Add, WideKind::Add),
            NumOp::Sub => (Code::Sub, WideKind::Sub),
            NumOp::Mul => (Code::Mul, WideKind::Mul),
            NumOp::Or => (Code::Or, WideKind::Or),
            NumOp::Xor => (Code::Xor, WideKind::Xor),
            _ => (Code::Shl, WideKind::Shl),
        };
        if shift && right.limbs > 1 {
            return at.fail("shifts by numbers of more than 64 bits are not supported");
        }
        let modular = left.modular || (right.modular && !shift);
        if range.limbs() == 1 || wanted.is_some_and(|n| n <= 64) {
            let slot = self.op(code, 64, left.slot, right.slot);
            return Ok(Value { slot, limbs: 1, range, modular: modular || range.limbs() > 1 });
        }
        let limbs = wanted.map_or(range.limbs(), |n| (n.div_ceil(64) as u16).min(range.limbs()));
        let cut = limbs < range.limbs() || modular;
        let value = self.wide_limbs(at, kind, limbs, range, left, Some(right))?;
        Ok(Value { modular: cut, ..value })
    }

    fn and(
        &mut self,
        at: &At,
        left: &Num,
        right: &Num,
        range: Range,
        wanted: Option<u32>,
    ) -> Result<Value, LoadError> {
        let least = |wanted: Option<u32>, other: Range| match (wanted, other.negative) {
            (wanted, true) => wanted,
            (Some(n), false) => Some(n.min(other.bits)),
            (None, false) => Some(other.bits),
        };
        let (left_range, right_range) = (self.range(left), self.range(right));
        let l = self.num(at, left, least(wanted, right_range))?;
        // A mask of the low bits costs nothing where the operation before can cut its result itself.
        if let Num::Const(mask) = right {
            let mask_bits = mask.bits();
            let is_low = !mask.negative && mask_bits <= 64 && mask.to_u64() == Some(low_bits(mask_bits));
            if is_low && l.limbs >= 1 {
                if !l.modular && !l.range.negative && l.range.bits <= mask_bits {
                    return Ok(l);
                }
                if l.limbs == 1 && self.cut(l.slot, mask_bits) {
                    return Ok(Value { slot: l.slot, limbs: 1, range, modular: false });
                }
            }
        }
        let r = self.num(at, right, least(wanted, left_range))?;
        let bounded = (!left_range.negative && !l.modular) || (!right_range.negative && !r.modular);
        if range.limbs() == 1 || wanted.is_some_and(|n| n <= 64) {
            let slot = self.op(Code::And, 64, l.slot, r.slot);
            let modular = range.limbs() > 1 || (!bounded && (l.modular || r.modular));
            return Ok(Value { slot, limbs: 1, range, modular });
        }
        let value = self.wide_op(at, WideKind::And, range, l, Some(r))?;
        Ok(Value { modular: !bounded && (l.modular || r.modular), ..value })
    }

    /// Lets the last operation cut its own result to `bits`, if it made `slot` and can.
    fn cut(&mut self, slot: Slot, bits: u32) -> bool {
        match self.maker(slot).filter(|last| cuts(last.code) && (1..=64).contains(&bits)) {
            Some(last) => {
                last.cut(bits as u8);
                true
            }
            None => false,
        }
    }

    /// Returns the last operation if it computed this temporary and no jump leads behind it.
    fn maker(&mut self, slot: Slot) -> Option<&mut Op> {
        let reachable = self.object.code.len() > self.barrier && (TEMPS..CONSTS).contains(&slot);
        self.object.code.last_mut().filter(|last| reachable && last.d == slot)
    }

    fn shift_right(&mut self, at: &At, left: &Num, right: &Num, range: Range) -> Result<Value, LoadError> {
        let (left, right) = (self.num(at, left, None)?, self.num(at, right, None)?);
        if right.limbs > 1 {
            return at.fail("shifts by numbers of more than 64 bits are not supported");
        }
        if left.limbs == 1 {
            let code = if left.range.negative { Code::Sar } else { Code::Shr };
            let slot = self.op(code, 64, left.slot, right.slot);
            return Ok(Value { slot, limbs: 1, range, modular: false });
        }
        self.wide_op(at, WideKind::Shr, range, left, Some(right))
    }

    fn saturate(
        &mut self,
        at: &At,
        inner: &Num,
        width: u32,
        range: Range,
        code: Code,
        kind: WideKind,
    ) -> Result<Value, LoadError> {
        let value = self.num(at, inner, None)?;
        let signed = value.range.negative || value.range.bits < 64;
        if value.limbs == 1 && signed && width <= 64 {
            let slot = self.op(code, width as u8, value.slot, 0);
            return Ok(Value { slot, limbs: 1, range, modular: false });
        }
        self.wide_to(at, kind, width, range, value, None)
    }

    fn wide_op(
        &mut self,
        at: &At,
        kind: WideKind,
        range: Range,
        a: Value,
        b: Option<Value>,
    ) -> Result<Value, LoadError> {
        self.wide_limbs(at, kind, range.limbs(), range, a, b)
    }

    pub(super) fn wide_limbs(
        &mut self,
        at: &At,
        kind: WideKind,
        limbs: u16,
        range: Range,
        a: Value,
        b: Option<Value>,
    ) -> Result<Value, LoadError> {
        if u32::from(limbs) * 64 > MAX_WIDE_BITS {
            return at.fail(format_args!("a number of more than {MAX_WIDE_BITS} bits is not supported"));
        }
        let slot = self.temp(limbs);
        self.emit_wide(kind, u32::from(limbs) * 64, (slot, limbs), Some(a), b.map(|b| b.slot));
        if let Some(b) = b {
            self.set_wide_b(b);
        }
        Ok(Value { slot, limbs, range, modular: false })
    }

    /// Returns an operation whose `bits` say what it does and not where its result is cut.
    fn wide_to(
        &mut self,
        at: &At,
        kind: WideKind,
        bits: u32,
        range: Range,
        a: Value,
        b: Option<Value>,
    ) -> Result<Value, LoadError> {
        let value = self.wide_op(at, kind, range, a, b)?;
        if let Some(op) = self.object.wide.last_mut() {
            op.bits = bits;
        }
        Ok(value)
    }

    fn set_wide_b(&mut self, b: Value) {
        if let Some(op) = self.object.wide.last_mut() {
            op.b = b.wide();
        }
    }

    /// `b` as a single slot.
    fn emit_wide(&mut self, kind: WideKind, bits: u32, d: (Slot, u16), a: Option<Value>, b: Option<Slot>) {
        let none = WideRef { slot: d.0, limbs: 0, signed: false };
        let d = WideRef { slot: d.0, limbs: d.1, signed: false };
        let a = a.map_or(none, Value::wide);
        let b = b.map_or(none, |slot| WideRef { slot, limbs: 1, signed: false });
        self.emit_wide_refs(WideOp { kind, bits, d, a, b });
    }

    /// Returns a number as one slot, modulo 2^64: for indices, lengths and the like.
    pub fn narrow(&mut self, at: &At, num: &Num) -> Result<Slot, LoadError> {
        Ok(self.num(at, num, Some(64))?.slot)
    }

    /// Returns a number with all its limbs, for messages.
    pub fn wide_ref(&mut self, at: &At, num: &Num) -> Result<WideRef, LoadError> {
        Ok(self.num(at, num, None)?.wide())
    }

    /// Assigns a number to a place that is known now.
    pub fn assign(&mut self, at: &At, place: Place, num: &Num) -> Result<(), LoadError> {
        if place.saturating {
            let inner = Box::new(num.clone());
            let held = if place.signed { Num::SatS(inner, place.bits) } else { Num::SatU(inner, place.bits) };
            return self.assign(at, Place { saturating: false, ..place }, &held);
        }
        if place.bits == 0 {
            return Ok(());
        }
        let value = self.num(at, num, Some(place.bits))?;
        if place.bits > 64 {
            let d = (place.slot, place.bits.div_ceil(64) as u16);
            self.emit_wide(WideKind::Mov, place.bits, d, Some(value), None);
            return Ok(());
        }
        let fits = !value.modular && !value.range.negative && value.range.bits <= place.bits;
        let bits = if fits { 64 } else { place.bits as u8 };
        if let Some(last) = self.maker(value.slot) {
            if cuts(last.code) {
                last.d = place.slot;
                last.cut(bits);
                return Ok(());
            }
            if fits && writes_only(last.code) {
                last.d = place.slot;
                return Ok(());
            }
        }
        self.emit(Code::Mov, bits, place.slot, value.slot, 0);
        Ok(())
    }

    /// Assigns a number to a field of a header found at run time.
    pub fn assign_at(
        &mut self,
        at: &At,
        header: &HeaderExpr,
        (ty, field): (usize, usize),
        num: &Num,
    ) -> Result<(), LoadError> {
        let field = &self.layout.types[ty].fields[field];
        let (rel, bits, limbs) = (field.slot, field.bits, field.limbs);
        let (signed, saturating) = (field.signed, field.saturating);
        if let HeaderExpr::Static(id) = header {
            let slot = self.layout.header(*id).base + rel;
            return self.assign(at, Place { slot, bits, signed, saturating }, num);
        }
        let base = self.header(at, header)?;
        let slot = self.temp(limbs);
        self.assign(at, Place { slot, bits, signed, saturating }, num)?;
        if limbs == 1 {
            self.emit(Code::StoreAt, 64, base, slot, rel);
        } else {
            let range = Range { negative: false, bits };
            let value = Value { slot, limbs, range, modular: false };
            self.emit_wide(WideKind::StoreAt(rel), bits, (slot, 0), Some(value), Some(base));
        }
        Ok(())
    }
}

/// Returns whether an operation cuts its result to `w` bits.
fn cuts(code: Code) -> bool {
    use Code::*;
    matches!(code, Mov | Add | Sub | Mul | Div | Mod | And | Or | Xor | Not | Shl | Shr | Sar)
}

/// Returns whether an operation overwrites its target without reading it.
fn writes_only(code: Code) -> bool {
    use Code::*;
    matches!(code, Eq | LtU | LeU | LtS | LeS | IsZero | IsNonZero | SatU)
}

impl Num {
    /// Returns a small constant.
    pub fn small(value: u64) -> Num {
        Num::Const(Big::from_u64(value))
    }
}
