//! The choice between registers and the header vector, for each slot.
//!
//! A slot that only operations with machine code of their own use is a variable. A slot that the interpreter's
//! functions read or write stays in memory.

use super::super::Checksum;
use super::super::calc::{Calculation, Input};
use super::super::layout::VALID;
use super::super::link::Linked;
use super::super::op::{Code, Op, Pc, Role, Slot, WideKind, WideRef};
use super::super::parser::ParseOp;
use super::super::table::limbs;
use super::super::wire::Wire;
use super::choices;
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
pub(super) struct Reach {
    pub code: BTreeSet<Pc>,
    pub targets: BTreeSet<Pc>,
}

impl Reach {
    pub fn new(program: &Linked, starts: impl IntoIterator<Item = Pc>) -> Reach {
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
                    Code::Return | Code::End => break,
                    Code::Table => {
                        let table = &program.tables[usize::from(op.a)];
                        let jumps = &table.jumps;
                        let next = jumps.actions.iter().chain(&jumps.hit).chain(&jumps.miss);
                        next.chain([&jumps.base]).copied().for_each(&mut go);
                        let actions = choices(program, table);
                        let code = actions.iter().filter_map(|it| program.action_code.get(usize::from(it.0)));
                        code.copied().for_each(&mut go);
                        break;
                    }
                    Code::Jump | Code::JumpBack => {
                        go(op.d);
                        break;
                    }
                    _ if matches!(op.code.roles(), [Role::Target, ..]) => go(op.d),
                    _ => {}
                }
                pc += 1;
            }
        }
        Reach { code, targets }
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
        op.with(|condition| {
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
pub(super) fn is_left(program: &Linked, op: &Op) -> bool {
    match op.code {
        Code::SetValid => base_of(program, op.a).is_none(),
        Code::SetInvalid => {
            base_of(program, op.a).is_none() || program.header_ops[usize::from(op.b)].varbit.is_some()
        }
        Code::Hash => program.calculations[usize::from(op.a)].bytes.is_none(),
        code => matches!(
            code,
            Code::Wide
                | Code::Meter
                | Code::Random
                | Code::CopyHeader
                | Code::Push
                | Code::Pop
                | Code::CopyStack
                | Code::StackAt
                | Code::StackLast
                | Code::LoadAt
                | Code::StoreAt
                | Code::Truncate
                | Code::Assert
        ),
    }
}

/// Returns the number in a slot, if it is a constant.
pub(super) fn constant(program: &Linked, slot: Slot) -> Option<u64> {
    let index = usize::from(slot).checked_sub(program.vars + program.temps)?;
    program.consts.get(index).copied()
}

/// Returns the base of a header, if it is always the same.
pub(super) fn base_of(program: &Linked, slot: Slot) -> Option<Slot> {
    constant(program, slot).and_then(|base| Slot::try_from(base).ok())
}

/// Returns the slots that stay in memory, constants aside.
pub(super) fn in_memory(program: &Linked, wire: &Wire, reach: &Reach) -> SlotSet {
    let mut memory = Memory { program, set: SlotSet::new(program.capacity), stacks: false };
    for op in reach.ops(program).filter(|op| is_left(program, op)) {
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
            memory.set.insert(stack.count);
        }
        let widest = layout.types.iter().map(|ty| ty.slots);
        let widest = widest.chain(layout.stacks.iter().map(|stack| stack.stride)).max().unwrap_or(0);
        memory.set.extend(layout.spare..layout.spare + widest);
    }
    // A number of several limbs is in one place.
    for header in &layout.headers {
        for field in &layout.types[header.ty].fields {
            let slots = header.base + field.slot..header.base + field.slot + field.limbs;
            if field.limbs > 1 && slots.clone().any(|slot| memory.set.contains(slot)) {
                memory.set.extend(slots);
            }
        }
    }
    memory.set
}

struct Memory<'a> {
    program: &'a Linked,
    set: SlotSet,
    /// The blocks of all stacks.
    stacks: bool,
}

impl Memory<'_> {
    fn op(&mut self, op: &Op) {
        for (role, operand) in op.clone().operands() {
            if matches!(role, Role::Read | Role::Write | Role::Update) {
                self.set.insert(*operand);
            }
        }
        match op.code {
            Code::Hash => self.calculation(&self.program.calculations[usize::from(op.a)]),
            Code::SetValid | Code::SetInvalid => self.header(op.a, op.b),
            Code::CopyHeader => {
                self.header(op.a, op.b);
                self.header(op.d, op.b);
            }
            Code::Push | Code::Pop | Code::CopyStack | Code::StackAt | Code::StackLast => self.stacks = true,
            Code::LoadAt | Code::StoreAt => self.stacks = true,
            Code::Wide => self.wide(usize::from(op.d)),
            _ => {}
        }
    }

    /// The block of a header whose base is in this slot, and its union.
    fn header(&mut self, slot: Slot, index: u16) {
        let Some(base) = base_of(self.program, slot) else {
            self.stacks = true;
            return;
        };
        let op = &self.program.header_ops[usize::from(index)];
        self.set.extend(base..base + op.slots);
        for offset in &op.siblings {
            let sibling = i32::from(base) + offset;
            self.set.extend(Slot::try_from(sibling).ok().map(|sibling| sibling + VALID));
        }
    }

    fn wide(&mut self, index: usize) {
        let op = self.program.wide[index];
        let number = |it: WideRef| it.slot..it.slot + it.limbs;
        self.set.extend(number(op.d).chain(number(op.a)).chain(number(op.b)));
        match op.kind {
            WideKind::LoadAt(_) | WideKind::StoreAt(_) => self.stacks = true,
            WideKind::EqHeader(slots) => {
                for side in [op.a.slot, op.b.slot] {
                    match base_of(self.program, side) {
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
                Input::Field { slot, bits, valid } => {
                    self.set.extend(*slot..*slot + limbs(*bits) as u16);
                    self.set.extend(*valid);
                }
                Input::Varbit { slot, valid } => {
                    let layout = &self.program.layout;
                    let around = |header: &&super::super::layout::Header| {
                        (header.base..header.base + layout.types[header.ty].slots).contains(slot)
                    };
                    if let Some(header) = layout.headers.iter().find(around) {
                        self.set.extend(header.base..header.base + layout.types[header.ty].slots);
                    }
                    self.set.extend(*valid);
                }
                Input::Const { .. } | Input::Payload => {}
            }
        }
    }
}
