//! Makes flat code of expressions.
//!
//! BMv2 computes with unbounded integers and cuts a result to its field's width when it is stored. Here every
//! expression's range is known when the program is loaded, and so is how many low bits of it are wanted. So almost
//! everything is done in one 64-bit operation, exact or modulo 2^64 where that is as good; what is left takes the
//! wide road ([`WideOp`]).

use super::expr::{Bool, CmpOp, HeaderExpr, Num, NumOp, Place, UnionExpr};
use super::json::{At, Big};
use super::layout::{Layout, MAX_VARS, VALID};
use super::op::{Code, HeaderOp, Op, Pc, Slot, WideKind, WideOp, WideRef};
use super::{HeaderId, LoadError};
use std::collections::{BTreeSet, HashMap};

/// Until their number is known, temporaries are numbered from here...
pub(super) const TEMPS: u16 = MAX_VARS as u16;
/// ... and constants from here.
pub(super) const CONSTS: u16 = 0x8000;
/// Numbers wider than this do not occur but by accident.
const MAX_WIDE_BITS: u32 = 8192;

/// What is known of a number: from -2^bits (or 0, if not negative) to 2^bits - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    negative: bool,
    bits: u32,
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
struct Value {
    slot: Slot,
    limbs: u16,
    range: Range,
    /// Right modulo 2^(64 limbs) only: `range` does not hold.
    modular: bool,
}

impl Value {
    fn wide(self) -> WideRef {
        WideRef { slot: self.slot, limbs: self.limbs, signed: self.range.negative && !self.modular }
    }
}

/// Code under construction.
pub(crate) struct Asm<'p> {
    pub layout: &'p Layout,
    /// Widths of the register arrays.
    pub register_bits: Vec<u32>,
    pub code: Vec<Op>,
    pub wide: Vec<WideOp>,
    pub header_ops: Vec<HeaderOp>,
    pub consts: Vec<u64>,
    pub temps: u16,
    /// Headers whose every field some code may read and write.
    pub whole: BTreeSet<HeaderId>,
    const_index: HashMap<Vec<u64>, u16>,
    next_temp: u16,
    /// The last operation whose result may still be redirected; none behind a jump target.
    barrier: usize,
}

impl<'p> Asm<'p> {
    pub fn new(layout: &'p Layout, register_bits: Vec<u32>) -> Asm<'p> {
        Asm {
            layout,
            register_bits,
            code: Vec::new(),
            wide: Vec::new(),
            header_ops: Vec::new(),
            consts: Vec::new(),
            temps: 0,
            whole: BTreeSet::new(),
            const_index: HashMap::new(),
            next_temp: 0,
            barrier: 0,
        }
    }

    /// Where the next operation goes. Code may jump here.
    pub fn here(&mut self) -> Pc {
        self.barrier = self.code.len();
        self.code.len().min(usize::from(Pc::MAX)) as Pc
    }
    /// Starts a statement: temporaries of earlier ones are free again.
    pub fn statement(&mut self) {
        self.next_temp = 0;
    }
    /// Refuses code that has outgrown its addresses.
    pub fn check_size(&self, at: &At) -> Result<(), LoadError> {
        let full = self.code.len() >= usize::from(Pc::MAX)
            || self.consts.len() >= usize::from(u16::MAX - CONSTS)
            || self.header_ops.len().max(self.wide.len()) >= usize::from(u16::MAX)
            || self.temps >= CONSTS - TEMPS - 256;
        if full { at.fail("the program is too large") } else { Ok(()) }
    }

    pub fn emit(&mut self, code: Code, w: u8, d: u16, a: u16, b: u16) {
        self.code.push(Op::new(code, w, d, a, b));
    }
    /// Emits a jump whose target is not known yet; [`Asm::patch`] sets it.
    pub fn emit_jump(&mut self, code: Code, a: u16, b: u16) -> usize {
        self.emit(code, 64, 0, a, b);
        self.code.len() - 1
    }
    /// Lets a jump end here.
    pub fn patch(&mut self, jump: usize) {
        let here = self.here();
        self.code[jump].d = here;
    }

    pub fn temp(&mut self, limbs: u16) -> Slot {
        let slot = TEMPS + self.next_temp;
        self.next_temp = (self.next_temp + limbs).min(CONSTS - TEMPS - 256);
        self.temps = self.temps.max(self.next_temp);
        slot
    }
    pub fn constant(&mut self, value: u64) -> Slot {
        self.constants(vec![value])
    }
    pub fn constants(&mut self, limbs: Vec<u64>) -> Slot {
        if let Some(index) = self.const_index.get(&limbs) {
            return CONSTS + index;
        }
        let index = self.consts.len().min(usize::from(u16::MAX - CONSTS)) as u16;
        self.consts.extend(&limbs);
        self.const_index.insert(limbs, index);
        CONSTS + index
    }

    fn op(&mut self, code: Code, w: u8, a: Slot, b: Slot) -> Slot {
        let d = self.temp(1);
        self.emit(code, w, d, a, b);
        d
    }

    fn range(&self, num: &Num) -> Range {
        let of = |bits, signed| Range { negative: signed, bits: if signed { bits - 1 } else { bits } };
        match num {
            Num::Const(big) => Range { negative: big.negative, bits: big.bits() },
            Num::Place(place) => of(place.bits, place.signed),
            Num::Field(_, at) => {
                let field = &self.layout.types[at.ty].fields[at.field];
                of(field.bits, field.signed)
            }
            Num::Register(register, _) => of(self.register_bits[usize::from(*register)], false),
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

    /// Computes a number of which only the low `wanted` bits matter (all, if none is given).
    fn num(&mut self, at: &At, num: &Num, wanted: Option<u32>) -> Result<Value, LoadError> {
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
        if self.code.len() <= self.barrier || !(1..=64).contains(&bits) {
            return false;
        }
        let Some(last) = self.code.last_mut() else { return false };
        if last.d != slot || slot < TEMPS || slot >= CONSTS || !cuts(last.code) {
            return false;
        }
        last.w = last.w.min(bits as u8);
        true
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

    fn wide_limbs(
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

    /// An operation whose `bits` say what it does and not where its result is cut.
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
        if let Some(op) = self.wide.last_mut() {
            op.bits = bits;
        }
        Ok(value)
    }

    fn set_wide_b(&mut self, b: Value) {
        if let Some(op) = self.wide.last_mut() {
            op.b = b.wide();
        }
    }

    pub(super) fn emit_wide_refs(&mut self, op: WideOp) {
        let index = self.wide.len().min(usize::from(u16::MAX)) as u16;
        self.wide.push(op);
        self.emit(Code::Wide, 64, index, 0, 0);
    }

    /// `b` as a single slot.
    fn emit_wide(&mut self, kind: WideKind, bits: u32, d: (Slot, u16), a: Option<Value>, b: Option<Slot>) {
        let none = WideRef { slot: d.0, limbs: 0, signed: false };
        let d = WideRef { slot: d.0, limbs: d.1, signed: false };
        let a = a.map_or(none, Value::wide);
        let b = b.map_or(none, |slot| WideRef { slot, limbs: 1, signed: false });
        self.emit_wide_refs(WideOp { kind, bits, d, a, b });
    }

    /// A number as one slot, modulo 2^64: for indices, lengths and the like.
    pub fn narrow(&mut self, at: &At, num: &Num) -> Result<Slot, LoadError> {
        Ok(self.num(at, num, Some(64))?.slot)
    }

    /// A truth value as a slot: 0 or 1.
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
                for member in 0..self.members(union).len() {
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
                for member in 0..self.members(left).len() {
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
        let slots = self.header_type(left).slots;
        let (left, right) = (self.whole_header(at, left)?, self.whole_header(at, right)?);
        self.wide_compare(at, WideKind::EqHeader(slots), narrow_value(left), narrow_value(right))
    }

    /// Falls through if a condition holds; otherwise jumps, by jumps that [`Asm::patch`] lets end somewhere. What
    /// decides first is computed first, the rest only if it must be.
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

    /// A slot that is 0 unless a condition holds.
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
        if self.code.len() > self.barrier && value.slot >= TEMPS && value.slot < CONSTS {
            if let Some(last) = self.code.last_mut().filter(|last| last.d == value.slot) {
                if cuts(last.code) || (fits && writes_only(last.code)) {
                    last.d = place.slot;
                    if cuts(last.code) {
                        last.w = last.w.min(bits);
                    }
                    return Ok(());
                }
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

    pub fn header_type(&self, header: &HeaderExpr) -> &'p super::layout::HeaderType {
        let layout = self.layout;
        let ty = match header {
            HeaderExpr::Static(id) => layout.header(*id).ty,
            HeaderExpr::At(stack, _) | HeaderExpr::Last(stack) => layout.stacks[*stack].blocks[0].1,
            HeaderExpr::Member(union, member) => self.members(union)[*member].1,
        };
        &layout.types[ty]
    }

    /// Where the members of a union are, relative to it, and their types.
    fn members(&self, union: &UnionExpr) -> Vec<(u16, usize)> {
        match union {
            UnionExpr::At(stack, _) => self.layout.stacks[*stack].blocks.clone(),
            UnionExpr::Static(union) => {
                let headers = &self.layout.unions[*union].headers;
                let first = self.layout.header(headers[0]).base;
                let place =
                    |id: &HeaderId| (self.layout.header(*id).base - first, self.layout.header(*id).ty);
                headers.iter().map(place).collect()
            }
        }
    }

    /// A slot with the base of a header.
    pub fn header(&mut self, at: &At, header: &HeaderExpr) -> Result<Slot, LoadError> {
        Ok(match header {
            HeaderExpr::Static(id) => self.constant(u64::from(self.layout.header(*id).base)),
            HeaderExpr::At(stack, index) => self.element(at, *stack, Some(index))?,
            HeaderExpr::Last(stack) => self.element(at, *stack, None)?,
            HeaderExpr::Member(union, member) => {
                let offset = self.members(union)[*member].0;
                let base = match union {
                    UnionExpr::Static(union) => {
                        let id = self.layout.unions[*union].headers[*member];
                        return self.header(at, &HeaderExpr::Static(id));
                    }
                    UnionExpr::At(stack, index) => self.element(at, *stack, Some(index))?,
                };
                let offset = self.constant(u64::from(offset));
                self.op(Code::Add, 64, base, offset)
            }
        })
    }

    fn element(&mut self, at: &At, stack: usize, index: Option<&Num>) -> Result<Slot, LoadError> {
        self.whole_stack(stack);
        let index = index.map(|index| self.narrow(at, index)).transpose()?;
        let slot = self.temp(1);
        match index {
            Some(index) => self.emit(Code::StackAt, 64, slot, stack as u16, index),
            None => self.emit(Code::StackLast, 64, slot, stack as u16, 0),
        }
        Ok(slot)
    }

    /// As [`Asm::header`], of a header that is about to be treated as a whole.
    pub fn whole_header(&mut self, at: &At, header: &HeaderExpr) -> Result<Slot, LoadError> {
        match header {
            HeaderExpr::Static(id) => _ = self.whole.insert(*id),
            HeaderExpr::Member(UnionExpr::Static(union), member) => {
                self.whole.insert(self.layout.unions[*union].headers[*member]);
            }
            _ => {}
        }
        self.header(at, header)
    }

    /// Every field of a stack's headers may be read and written.
    pub fn whole_stack(&mut self, stack: usize) {
        let stack = &self.layout.stacks[stack];
        let end = stack.base + stack.stride * stack.size;
        let inside = |base: Slot| base >= stack.base && base < end;
        let headers = self.layout.headers.iter().enumerate();
        let ids = headers.filter(|(_, header)| inside(header.base)).map(|(id, _)| HeaderId(id as u16));
        self.whole.extend(ids);
    }

    /// The side table entry for operations on a header.
    pub fn header_op(&mut self, header: &HeaderExpr) -> u16 {
        let ty = self.header_type(header);
        let offset = |from: u16, to: u16| i32::from(to) - i32::from(from);
        let siblings = match header {
            HeaderExpr::Static(id) => match self.layout.header(*id).union {
                Some((union, member)) => self.members_but(&UnionExpr::Static(union), member, offset),
                None => Vec::new(),
            },
            HeaderExpr::Member(union, member) => self.members_but(union, *member, offset),
            HeaderExpr::At(..) | HeaderExpr::Last(_) => Vec::new(),
        };
        let varbit = ty.varbit.map(|field| ty.fields[field].slot);
        let op = HeaderOp { slots: ty.slots, bytes: ty.bytes as u16, varbit, siblings };
        let index = self.header_ops.iter().position(|known| *known == op).unwrap_or_else(|| {
            self.header_ops.push(op);
            self.header_ops.len() - 1
        });
        index as u16
    }

    fn members_but(&self, union: &UnionExpr, member: usize, offset: fn(u16, u16) -> i32) -> Vec<i32> {
        let members = self.members(union);
        let from = members[member].0;
        let others = members.iter().enumerate().filter(|(other, _)| *other != member);
        others.map(|(_, (to, _))| offset(from, *to)).collect()
    }
}

/// Whether two numbers can be compared as unsigned words.
fn unsigned(left: Value, right: Value) -> bool {
    left.limbs == 1 && right.limbs == 1 && !left.range.negative && !right.range.negative
}

fn narrow_value(slot: Slot) -> Value {
    Value { slot, limbs: 1, range: Range { negative: false, bits: 64 }, modular: false }
}

/// The largest number of this many bits, at most 64.
pub(crate) fn low_bits(bits: u32) -> u64 {
    match bits {
        0 => 0,
        bits => u64::MAX >> (64 - bits.min(64)),
    }
}

/// Whether an operation cuts its result to `w` bits.
fn cuts(code: Code) -> bool {
    use Code::*;
    matches!(code, Mov | Add | Sub | Mul | Div | Mod | And | Or | Xor | Not | Shl | Shr | Sar)
}

/// Whether an operation writes its result whatever was there.
fn writes_only(code: Code) -> bool {
    use Code::*;
    matches!(code, Eq | LtU | LeU | LtS | LeS | IsZero | IsNonZero | SatU)
}

impl Num {
    /// A small constant.
    pub fn small(value: u64) -> Num {
        Num::Const(Big::from_u64(value))
    }
}

impl Asm<'_> {
    /// A number with all its limbs, for messages.
    pub fn wide_ref(&mut self, at: &At, num: &Num) -> Result<WideRef, LoadError> {
        Ok(self.num(at, num, None)?.wide())
    }
}
