//! The builder of a program's code: emits operations and jumps, allocates temporaries and constants.

use crate::program::error::LoadError;
use crate::program::expr::{HeaderExpr, NumExpr, UnionExpr};
use crate::program::externs::RegisterArray;
use crate::program::header_types::MAX_PHV_SLOTS;
use crate::program::json::JsonNode;
use crate::program::layout::{HeaderId, Layout, UnionMember};
use crate::program::op::{Assertion, ComputedSlot, HeaderInfo, LogMessage, Op, Opcode, Pc, Slot, WideOp};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::AtomicBool;

/// The operand index of the first temporary in unlinked code.
/// [`LinkedProgram::new`](crate::program::link::LinkedProgram::new) replaces these indices by slots.
pub(crate) const FIRST_TEMP: u16 = MAX_PHV_SLOTS as u16;
/// The operand index of the first constant in unlinked code.
pub(crate) const FIRST_CONST: u16 = 0x8000;
/// Maximum number of temporaries of a statement. The margin below [`FIRST_CONST`] has room for one more number of any
/// width, since the limit is checked only after a statement.
const MAX_TEMPS: u16 = FIRST_CONST - FIRST_TEMP - 256;

/// Code with its side tables, in which temporaries and constants are numbered from [`FIRST_TEMP`] and
/// [`FIRST_CONST`].
#[derive(Debug, Default)]
pub(crate) struct UnlinkedCode {
    pub code: Vec<Op>,
    pub wide: Vec<WideOp>,
    pub header_ops: Vec<HeaderInfo>,
    pub logs: Vec<LogMessage>,
    pub assertions: Vec<Assertion>,
    pub consts: Vec<u64>,
    /// Maximum number of temporaries of any statement. Statements share the slots of temporaries.
    pub temp_count: u16,
    /// Headers whose fields may all be read and written: an operation accesses the whole header, or computes which
    /// header it accesses.
    pub address_taken: BTreeSet<HeaderId>,
}

/// Builds the code of a program, statement by statement.
pub(crate) struct CodeBuilder<'p> {
    pub layout: &'p Layout,
    pub(super) registers: &'p [RegisterArray],
    pub unlinked: UnlinkedCode,
    /// Index of the first limb of each constant.
    const_index: HashMap<Vec<u64>, u16>,
    /// Index of each assertion by its text.
    assertion_index: HashMap<String, u16>,
    /// Number of temporaries of the current statement.
    next_temp: u16,
    /// Index of the first operation after the last label (jump target). Only operations from there on may be changed
    /// afterwards: another path may reach the label without running the earlier ones.
    pub(super) last_label: usize,
}

impl<'p> CodeBuilder<'p> {
    pub(crate) fn new(layout: &'p Layout, registers: &'p [RegisterArray]) -> CodeBuilder<'p> {
        let unlinked = UnlinkedCode::default();
        CodeBuilder {
            layout,
            registers,
            unlinked,
            const_index: HashMap::new(),
            assertion_index: HashMap::new(),
            next_temp: 0,
            last_label: 0,
        }
    }

    /// Returns the index of the assertion with this text. The copies of an assertion in an inlined action share one.
    pub(crate) fn assertion(&mut self, text: String) -> u16 {
        let assertions = &mut self.unlinked.assertions;
        *self.assertion_index.entry(text).or_insert_with_key(|text| {
            let index = assertions.len().min(usize::from(u16::MAX)) as u16;
            assertions.push(Assertion { text: text.clone(), is_reported: AtomicBool::new(false) });
            index
        })
    }

    /// Makes the next operation a jump target and returns its address.
    pub(crate) fn bind_label(&mut self) -> Pc {
        self.last_label = self.unlinked.code.len();
        self.unlinked.code.len().min(usize::from(Pc::MAX)) as Pc
    }
    /// Builds standalone code, which computes one value and ends with `End`. Emits nothing if the value is already in a
    /// slot.
    pub(crate) fn standalone(
        &mut self,
        value: impl FnOnce(&mut Self) -> Result<Slot, LoadError>,
    ) -> Result<ComputedSlot, LoadError> {
        self.begin_statement();
        let (start, old_len) = (self.bind_label(), self.unlinked.code.len());
        let slot = value(self)?;
        if self.unlinked.code.len() == old_len {
            return Ok(ComputedSlot { code: None, slot });
        }
        self.emit(Opcode::End, 64, 0, 0, 0);
        Ok(ComputedSlot { code: Some(start), slot })
    }
    /// Starts a statement, which reuses the temporaries of earlier statements.
    pub(crate) fn begin_statement(&mut self) {
        self.next_temp = 0;
    }
    /// Fails if the code has outgrown its addresses. Checked after each statement; until then indices
    /// saturate.
    pub(crate) fn check_size(&self, node: &JsonNode) -> Result<(), LoadError> {
        let UnlinkedCode { code, wide, header_ops, consts, temp_count, .. } = &self.unlinked;
        let is_full = code.len() >= usize::from(Pc::MAX)
            || consts.len() >= usize::from(u16::MAX - FIRST_CONST)
            || header_ops.len().max(wide.len()) >= usize::from(u16::MAX)
            || *temp_count >= MAX_TEMPS;
        if is_full {
            node.err("the program exceeds the limits of 16-bit code addresses or side tables")
        } else {
            Ok(())
        }
    }

    /// Emits an operation whose result is truncated to `bits` bits; 64 truncates nothing.
    pub(crate) fn emit(&mut self, opcode: Opcode, bits: u8, d: u16, a: u16, b: u16) {
        self.unlinked.code.push(Op::new(opcode, bits, d, a, b));
    }
    /// Emits a jump and returns its index, for [`CodeBuilder::patch`] to set the target.
    pub(crate) fn emit_jump(&mut self, opcode: Opcode, a: u16, b: u16) -> usize {
        self.emit(opcode, 64, 0, a, b);
        self.unlinked.code.len() - 1
    }
    /// Sets the target of a jump to the next operation.
    pub(crate) fn patch(&mut self, jump: usize) {
        let target = self.bind_label();
        self.unlinked.code[jump].d = target;
    }

    /// Allocates consecutive temporaries of the current statement and returns the first.
    pub(crate) fn temp(&mut self, limbs: u16) -> Slot {
        let slot = FIRST_TEMP + self.next_temp;
        self.next_temp = (self.next_temp + limbs).min(MAX_TEMPS);
        self.unlinked.temp_count = self.unlinked.temp_count.max(self.next_temp);
        slot
    }
    /// Returns the operand index of a constant.
    pub(crate) fn constant(&mut self, value: u64) -> Slot {
        self.constants(vec![value])
    }
    /// Returns the operand index of the first limb of a constant. Equal constants are stored once.
    pub(crate) fn constants(&mut self, limbs: Vec<u64>) -> Slot {
        if let Some(index) = self.const_index.get(&limbs) {
            return FIRST_CONST + index;
        }
        let index = self.unlinked.consts.len().min(usize::from(u16::MAX - FIRST_CONST)) as u16;
        self.unlinked.consts.extend(&limbs);
        self.const_index.insert(limbs, index);
        FIRST_CONST + index
    }

    pub(super) fn emit_to_temp(&mut self, opcode: Opcode, bits: u8, a: Slot, b: Slot) -> Slot {
        let d = self.temp(1);
        self.emit(opcode, bits, d, a, b);
        d
    }

    pub(crate) fn emit_wide_op(&mut self, op: WideOp) {
        let index = self.unlinked.wide.len().min(usize::from(u16::MAX)) as u16;
        self.unlinked.wide.push(op);
        self.emit(Opcode::Wide, 64, index, 0, 0);
    }

    /// Returns a slot whose value is the base (the index of the first slot) of a header.
    pub(crate) fn header_base(&mut self, node: &JsonNode, header: &HeaderExpr) -> Result<Slot, LoadError> {
        Ok(match header {
            HeaderExpr::Static(id) => self.constant(u64::from(self.layout.header(*id).first_slot)),
            HeaderExpr::StackElement(stack, index) => self.element_base(node, *stack, Some(index))?,
            HeaderExpr::StackLast(stack) => self.element_base(node, *stack, None)?,
            HeaderExpr::Member(union, member) => {
                let offset = union.members(self.layout)[*member].0;
                let base = match union {
                    UnionExpr::Static(union) => {
                        let id = self.layout.unions[*union].headers[*member];
                        return self.header_base(node, &HeaderExpr::Static(id));
                    }
                    UnionExpr::StackElement(stack, index) => self.element_base(node, *stack, Some(index))?,
                };
                let offset = self.constant(u64::from(offset));
                self.emit_to_temp(Opcode::Add, 64, base, offset)
            }
        })
    }

    /// Returns a slot whose value is the base of a stack element. Without `index` it is the last extracted element.
    fn element_base(
        &mut self,
        node: &JsonNode,
        stack: usize,
        index: Option<&NumExpr>,
    ) -> Result<Slot, LoadError> {
        self.mark_stack_address_taken(stack);
        let index = index.map(|index| self.lower_to_slot(node, index)).transpose()?;
        let slot = self.temp(1);
        match index {
            Some(index) => self.emit(Opcode::StackAt, 64, slot, stack as u16, index),
            None => self.emit(Opcode::StackLast, 64, slot, stack as u16, 0),
        }
        Ok(slot)
    }

    /// Same as [`CodeBuilder::header_base`], for an operation that accesses the header as a whole.
    pub(crate) fn escaping_header_base(
        &mut self,
        node: &JsonNode,
        header: &HeaderExpr,
    ) -> Result<Slot, LoadError> {
        match header {
            HeaderExpr::Static(id) => _ = self.unlinked.address_taken.insert(*id),
            HeaderExpr::Member(UnionExpr::Static(union), member) => {
                self.unlinked.address_taken.insert(self.layout.unions[*union].headers[*member]);
            }
            _ => {}
        }
        self.header_base(node, header)
    }

    /// Records that an operation may read and write every field of a stack's headers.
    pub(crate) fn mark_stack_address_taken(&mut self, stack: usize) {
        let stack = &self.layout.stacks[stack];
        let end = stack.base + stack.stride * stack.size;
        let inside = |base: Slot| base >= stack.base && base < end;
        let headers = self.layout.headers.iter().enumerate();
        let ids = headers.filter(|(_, header)| inside(header.first_slot)).map(|(id, _)| HeaderId(id as u16));
        self.unlinked.address_taken.extend(ids);
    }

    /// Returns the index in `header_ops` of the layout of a header.
    pub(crate) fn header_op(&mut self, header: &HeaderExpr) -> u16 {
        let ty = &self.layout.types[header.ty(self.layout)];
        let union_member_offsets = match header {
            HeaderExpr::Static(id) => match self.layout.header(*id).union_member {
                Some(UnionMember { union, member }) => {
                    self.sibling_offsets(&UnionExpr::Static(union), member)
                }
                None => Vec::new(),
            },
            HeaderExpr::Member(union, member) => self.sibling_offsets(union, *member),
            HeaderExpr::StackElement(..) | HeaderExpr::StackLast(_) => Vec::new(),
        };
        let varbit_length_slot = ty.varbit_index.map(|field| ty.fields[field].slot);
        let bytes = ty.bytes as u16;
        let op = HeaderInfo { slots: ty.block_len, bytes, varbit_length_slot, union_member_offsets };
        let index = self.unlinked.header_ops.iter().position(|known| *known == op).unwrap_or_else(|| {
            self.unlinked.header_ops.push(op);
            self.unlinked.header_ops.len() - 1
        });
        index as u16
    }

    /// Returns the offsets in slots from the block of a union's member to those of the other members.
    fn sibling_offsets(&self, union: &UnionExpr, member: usize) -> Vec<i32> {
        let members = union.members(self.layout);
        let from = members[member].0;
        let others = members.iter().enumerate().filter(|(other, _)| *other != member);
        others.map(|(_, (to, _))| i32::from(*to) - i32::from(from)).collect()
    }
}
