//! Makes flat code of expressions.

mod cond;
mod num;

use super::array::RegisterArray;
use super::expr::{HeaderExpr, Num, UnionExpr};
use super::json::At;
use super::layout::Layout;
use super::op::{Code, HeaderOp, Op, Pc, Slot, WideOp};
use super::types::MAX_VARS;
use super::{Condition, HeaderId, LoadError, LogMessage};
use std::collections::{BTreeSet, HashMap};

/// Until their number is known, temporaries are numbered from here...
pub(super) const TEMPS: u16 = MAX_VARS as u16;
/// ... and constants from here.
pub(super) const CONSTS: u16 = 0x8000;
/// No more temporaries than this; the widest number still fits behind the last.
const MAX_TEMPS: u16 = CONSTS - TEMPS - 256;

/// Code with its side tables, whose temporaries and constants have no slots yet.
#[derive(Debug, Default)]
pub(crate) struct Object {
    pub code: Vec<Op>,
    pub wide: Vec<WideOp>,
    pub header_ops: Vec<HeaderOp>,
    pub logs: Vec<LogMessage>,
    pub consts: Vec<u64>,
    /// The most temporaries that a statement needs.
    pub temps: u16,
    /// Headers whose every field some code may read and write.
    pub whole: BTreeSet<HeaderId>,
}

/// Makes code.
pub(crate) struct Asm<'p> {
    pub layout: &'p Layout,
    registers: &'p [RegisterArray],
    pub object: Object,
    const_index: HashMap<Vec<u64>, u16>,
    next_temp: u16,
    /// The last operation whose result may still be redirected; none behind a jump target.
    barrier: usize,
}

impl<'p> Asm<'p> {
    pub fn new(layout: &'p Layout, registers: &'p [RegisterArray]) -> Asm<'p> {
        let object = Object::default();
        Asm { layout, registers, object, const_index: HashMap::new(), next_temp: 0, barrier: 0 }
    }

    /// Returns the address of the next operation, and makes it a jump target.
    pub fn here(&mut self) -> Pc {
        self.barrier = self.object.code.len();
        self.object.code.len().min(usize::from(Pc::MAX)) as Pc
    }
    /// Makes code to be run by itself, if its value needs any.
    pub fn apart(
        &mut self,
        value: impl FnOnce(&mut Self) -> Result<Slot, LoadError>,
    ) -> Result<Condition, LoadError> {
        self.statement();
        let (start, before) = (self.here(), self.object.code.len());
        let slot = value(self)?;
        if self.object.code.len() == before {
            return Ok(Condition { code: None, slot });
        }
        self.emit(Code::End, 64, 0, 0, 0);
        Ok(Condition { code: Some(start), slot })
    }
    /// Starts a statement: temporaries of earlier ones are free again.
    pub fn statement(&mut self) {
        self.next_temp = 0;
    }
    /// Refuses code that has outgrown its addresses.
    pub fn check_size(&self, at: &At) -> Result<(), LoadError> {
        let Object { code, wide, header_ops, consts, temps, .. } = &self.object;
        let full = code.len() >= usize::from(Pc::MAX)
            || consts.len() >= usize::from(u16::MAX - CONSTS)
            || header_ops.len().max(wide.len()) >= usize::from(u16::MAX)
            || *temps >= MAX_TEMPS;
        if full { at.fail("the program is too large") } else { Ok(()) }
    }

    /// Emits an operation whose result is cut to this many bits.
    pub fn emit(&mut self, code: Code, bits: u8, d: u16, a: u16, b: u16) {
        self.object.code.push(Op::new(code, bits, d, a, b));
    }
    /// Emits a jump whose target is not known yet; [`Asm::patch`] sets it.
    pub fn emit_jump(&mut self, code: Code, a: u16, b: u16) -> usize {
        self.emit(code, 64, 0, a, b);
        self.object.code.len() - 1
    }
    /// Lets a jump end here.
    pub fn patch(&mut self, jump: usize) {
        let here = self.here();
        self.object.code[jump].d = here;
    }

    pub fn temp(&mut self, limbs: u16) -> Slot {
        let slot = TEMPS + self.next_temp;
        self.next_temp = (self.next_temp + limbs).min(MAX_TEMPS);
        self.object.temps = self.object.temps.max(self.next_temp);
        slot
    }
    pub fn constant(&mut self, value: u64) -> Slot {
        self.constants(vec![value])
    }
    pub fn constants(&mut self, limbs: Vec<u64>) -> Slot {
        if let Some(index) = self.const_index.get(&limbs) {
            return CONSTS + index;
        }
        let index = self.object.consts.len().min(usize::from(u16::MAX - CONSTS)) as u16;
        self.object.consts.extend(&limbs);
        self.const_index.insert(limbs, index);
        CONSTS + index
    }

    fn op(&mut self, code: Code, w: u8, a: Slot, b: Slot) -> Slot {
        let d = self.temp(1);
        self.emit(code, w, d, a, b);
        d
    }

    pub(super) fn emit_wide_refs(&mut self, op: WideOp) {
        let index = self.object.wide.len().min(usize::from(u16::MAX)) as u16;
        self.object.wide.push(op);
        self.emit(Code::Wide, 64, index, 0, 0);
    }

    /// Returns a slot with the base of a header.
    pub fn header(&mut self, at: &At, header: &HeaderExpr) -> Result<Slot, LoadError> {
        Ok(match header {
            HeaderExpr::Static(id) => self.constant(u64::from(self.layout.header(*id).base)),
            HeaderExpr::At(stack, index) => self.element(at, *stack, Some(index))?,
            HeaderExpr::Last(stack) => self.element(at, *stack, None)?,
            HeaderExpr::Member(union, member) => {
                let offset = union.members(self.layout)[*member].0;
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
            HeaderExpr::Static(id) => _ = self.object.whole.insert(*id),
            HeaderExpr::Member(UnionExpr::Static(union), member) => {
                self.object.whole.insert(self.layout.unions[*union].headers[*member]);
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
        self.object.whole.extend(ids);
    }

    /// Returns the side table entry for operations on a header.
    pub fn header_op(&mut self, header: &HeaderExpr) -> u16 {
        let ty = &self.layout.types[header.ty(self.layout)];
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
        let index = self.object.header_ops.iter().position(|known| *known == op).unwrap_or_else(|| {
            self.object.header_ops.push(op);
            self.object.header_ops.len() - 1
        });
        index as u16
    }

    fn members_but(&self, union: &UnionExpr, member: usize, offset: fn(u16, u16) -> i32) -> Vec<i32> {
        let members = union.members(self.layout);
        let from = members[member].0;
        let others = members.iter().enumerate().filter(|(other, _)| *other != member);
        others.map(|(_, (to, _))| offset(from, *to)).collect()
    }
}

/// Returns the largest number of this many bits, at most 64.
#[inline]
pub(crate) fn low_bits(bits: u32) -> u64 {
    match bits {
        0 => 0,
        bits => u64::MAX >> (64 - bits.min(64)),
    }
}
