//! The choice between registers and the header vector, for each slot.
//!
//! A slot that only operations with machine code of their own use is a variable. A slot that the interpreter's
//! functions read or write stays in memory.

use super::super::Checksum;
use super::super::frame_access::FrameAccess;
use super::super::hash::{Calculation, HashInput};
use super::super::layout::VALID_SLOT;
use super::super::link::Linked;
use super::super::op::{Op, Opcode, OperandRole, Pc, Slot, WideOpcode, WideSlot};
use super::super::parser::ParseOp;
use super::super::table::limbs;
use super::row_actions;
use std::collections::BTreeSet;

/// A set of slots.
#[derive(Clone, Debug)]
pub(super) struct SlotSet(Vec<bool>);

impl SlotSet {
    pub fn new(slots: usize) -> SlotSet {
        SlotSet(vec![false; slots])
    }
    pub fn insert(&mut self, slot: Slot) {
        if let Some(is_in) = self.0.get_mut(usize::from(slot)) {
            *is_in = true;
        }
    }
    pub fn extend(&mut self, slots: impl IntoIterator<Item = Slot>) {
        slots.into_iter().for_each(|slot| self.insert(slot));
    }
    pub fn remove(&mut self, slots: std::ops::Range<Slot>) {
        slots.for_each(|slot| {
            if let Some(is_in) = self.0.get_mut(usize::from(slot)) {
                *is_in = false;
            }
        });
    }
    pub fn contains(&self, slot: Slot) -> bool {
        self.0.get(usize::from(slot)).copied().unwrap_or(false)
    }
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..).zip(&self.0).filter(|(_, is_in)| **is_in).map(|(slot, _)| slot)
    }
}

/// The addresses that code beginning at one of these can reach, and those that are jumped to.
pub(super) struct ReachableCode {
    pub code: BTreeSet<Pc>,
    pub targets: BTreeSet<Pc>,
}

impl ReachableCode {
    pub fn new(program: &Linked, starts: impl IntoIterator<Item = Pc>) -> ReachableCode {
        let mut waiting: Vec<Pc> = starts.into_iter().collect();
        let (mut code, mut targets) = (BTreeSet::new(), BTreeSet::new());
        targets.extend(&waiting);
        while let Some(mut pc) = waiting.pop() {
            while code.insert(pc) {
                let Some(op) = program.code.get(usize::from(pc)) else { break };
                let mut go = |target: Pc| {
                    targets.insert(target);
                    waiting.push(target);
                };
                match op.code {
                    Opcode::Return | Opcode::End => break,
                    Opcode::ApplyTable => {
                        let table = &program.tables[usize::from(op.a)];
                        let jumps = &table.successors;
                        let next = jumps.actions.iter().chain(&jumps.hit).chain(&jumps.miss);
                        next.chain([&jumps.base]).copied().for_each(&mut go);
                        let actions = row_actions(program, table);
                        let code = actions.iter().filter_map(|it| program.action_code.get(usize::from(it.0)));
                        code.copied().for_each(&mut go);
                        break;
                    }
                    Opcode::Jump | Opcode::JumpBack => {
                        go(op.d);
                        break;
                    }
                    _ if matches!(op.code.roles(), [OperandRole::Target, ..]) => go(op.d),
                    _ => {}
                }
                pc += 1;
            }
        }
        ReachableCode { code, targets }
    }

    pub fn ops<'a>(&'a self, program: &'a Linked) -> impl Iterator<Item = Op> + 'a {
        self.code.iter().filter_map(|pc| program.code.get(usize::from(*pc))).copied()
    }
}

/// Code that the parser runs: in its states, and for the lengths and conditions of their operations.
pub(super) fn parser_code(program: &Linked) -> Vec<Pc> {
    let mut starts = Vec::new();
    for op in program.parser.states.iter().flat_map(|state| &state.ops) {
        if let ParseOp::Run(code) = op {
            starts.push(*code);
        }
        op.map_conditions(|condition| {
            starts.extend(condition.code);
            condition
        });
    }
    starts
}

/// Returns the code of a checksum's condition, if it has one.
pub(super) fn checksum_code(checksum: &Checksum) -> Option<Pc> {
    checksum.condition.and_then(|condition| condition.code)
}

/// Returns whether an operation is left to the interpreter's functions.
pub(super) fn needs_helper(program: &Linked, op: &Op) -> bool {
    match op.code {
        Opcode::SetValid => const_base(program, op.a).is_none(),
        Opcode::SetInvalid => {
            const_base(program, op.a).is_none() || program.header_ops[usize::from(op.b)].varbit.is_some()
        }
        Opcode::Hash => program.calculations[usize::from(op.a)].byte_fields.is_none(),
        code => matches!(
            code,
            Opcode::Wide
                | Opcode::MeterExecute
                | Opcode::Random
                | Opcode::CopyHeader
                | Opcode::Push
                | Opcode::Pop
                | Opcode::CopyStack
                | Opcode::StackAt
                | Opcode::StackLast
                | Opcode::LoadAt
                | Opcode::StoreAt
                | Opcode::Truncate
                | Opcode::Assert
        ),
    }
}

/// Returns the number in a slot, if it is a constant.
pub(super) fn const_value(program: &Linked, slot: Slot) -> Option<u64> {
    let index = usize::from(slot).checked_sub(program.vars + program.temps)?;
    program.consts.get(index).copied()
}

/// Returns the base of a header, if it is always the same.
pub(super) fn const_base(program: &Linked, slot: Slot) -> Option<Slot> {
    const_value(program, slot).and_then(|base| Slot::try_from(base).ok())
}

/// Returns the slots that stay in memory, constants aside.
pub(super) fn memory_slots(program: &Linked, wire: &FrameAccess, reach: &ReachableCode) -> SlotSet {
    let mut memory = MemorySlots { program, set: SlotSet::new(program.capacity), stacks: false };
    for op in reach.ops(program).filter(|op| needs_helper(program, op)) {
        memory.op(&op);
    }
    for profile in &program.profiles {
        profile.selector.iter().for_each(|selector| memory.calculation(selector));
    }
    for table in &program.tables {
        memory.set.extend(table.meter.map(|(_, target)| target.slot));
    }
    let verified = program.checksums.iter().zip(&wire.verified);
    for (checksum, _) in verified.filter(|(checksum, wire)| checksum.verify && wire.is_none()) {
        memory.calculation(&program.calculations[usize::from(checksum.calculation)]);
    }
    let layout = &program.layout;
    if memory.stacks {
        for stack in &layout.stacks {
            memory.set.extend(stack.base..stack.base + stack.size * stack.stride);
            memory.set.insert(stack.next_index_slot);
        }
        let widest = layout.types.iter().map(|ty| ty.slots);
        let widest = widest.chain(layout.stacks.iter().map(|stack| stack.stride)).max().unwrap_or(0);
        memory.set.extend(layout.dummy_block..layout.dummy_block + widest);
    }
    // A number of several limbs is in one place.
    for header in &layout.headers {
        for field in &layout.types[header.ty].fields {
            let slots = header.first_slot + field.slot..header.first_slot + field.slot + field.limbs;
            if field.limbs > 1 && slots.clone().any(|slot| memory.set.contains(slot)) {
                memory.set.extend(slots);
            }
        }
    }
    memory.set
}

struct MemorySlots<'a> {
    program: &'a Linked,
    set: SlotSet,
    /// The blocks of all stacks.
    stacks: bool,
}

impl MemorySlots<'_> {
    fn op(&mut self, op: &Op) {
        for (role, operand) in op.clone().operands() {
            if matches!(role, OperandRole::Read | OperandRole::Write | OperandRole::ReadWrite) {
                self.set.insert(*operand);
            }
        }
        match op.code {
            Opcode::Hash => self.calculation(&self.program.calculations[usize::from(op.a)]),
            Opcode::SetValid | Opcode::SetInvalid => self.header(op.a, op.b),
            Opcode::CopyHeader => {
                self.header(op.a, op.b);
                self.header(op.d, op.b);
            }
            Opcode::Push | Opcode::Pop | Opcode::CopyStack | Opcode::StackAt | Opcode::StackLast => {
                self.stacks = true
            }
            Opcode::LoadAt | Opcode::StoreAt => self.stacks = true,
            Opcode::Wide => self.wide(usize::from(op.d)),
            _ => {}
        }
    }

    /// The block of a header whose base is in this slot, and its union.
    fn header(&mut self, slot: Slot, index: u16) {
        let Some(base) = const_base(self.program, slot) else {
            self.stacks = true;
            return;
        };
        let op = &self.program.header_ops[usize::from(index)];
        self.set.extend(base..base + op.slots);
        for offset in &op.siblings {
            let sibling = i32::from(base) + offset;
            self.set.extend(Slot::try_from(sibling).ok().map(|sibling| sibling + VALID_SLOT));
        }
    }

    fn wide(&mut self, index: usize) {
        let op = self.program.wide[index];
        let number = |it: WideSlot| it.slot..it.slot + it.limbs;
        self.set.extend(number(op.d).chain(number(op.a)).chain(number(op.b)));
        match op.kind {
            WideOpcode::LoadAt(_) | WideOpcode::StoreAt(_) => self.stacks = true,
            WideOpcode::EqHeader(slots) => {
                for side in [op.a.slot, op.b.slot] {
                    match const_base(self.program, side) {
                        Some(base) => self.set.extend(base..base + slots),
                        None => self.stacks = true,
                    }
                }
            }
            _ => {}
        }
    }

    fn calculation(&mut self, calculation: &Calculation) {
        for input in &calculation.inputs {
            match input {
                HashInput::Field { slot, bits, valid } => {
                    self.set.extend(*slot..*slot + limbs(*bits) as u16);
                    self.set.extend(*valid);
                }
                HashInput::Varbit { slot, valid } => {
                    let layout = &self.program.layout;
                    let around = |header: &&super::super::layout::Header| {
                        (header.first_slot..header.first_slot + layout.types[header.ty].slots).contains(slot)
                    };
                    if let Some(header) = layout.headers.iter().find(around) {
                        self.set.extend(header.first_slot..header.first_slot + layout.types[header.ty].slots);
                    }
                    self.set.extend(*valid);
                }
                HashInput::Const { .. } | HashInput::Payload => {}
            }
        }
    }
}
