//! The slots (64-bit words of the header vector) that the stages of the pipeline read and write. Everything that
//! depends on which slots are live derives from this module.
//!
//! [`field_usage`](super::field_usage) decides which fields the parser has to load from the frame, and `native`
//! which slots machine code has to define and which are bridged, that is, passed from ingress to egress. If a new
//! part of the pipeline uses slots, add them here.

use super::declarations::FieldList;
use super::hash::{Calculation, Checksum, HashInput};
use super::layout::{FRAME_OFFSET_SLOT, Header, VALID_SLOT};
use super::limbs::limb_count;
use super::link::LinkedProgram;
use super::native::row_actions;
use super::op::{ComputedSlot, Op, Opcode, OperandRole, Pc, Slot, WideOpcode, WideSlot};
use super::parser::{ParseOp, SelectPart};
use super::signatures::TableId;
use super::table::Table;
use std::collections::BTreeSet;

/// The slots that a part of a program reads and writes.
#[derive(Debug, Default)]
pub(super) struct Access {
    pub read: BTreeSet<Slot>,
    pub written: BTreeSet<Slot>,
    /// Slots of headers and stacks that may be read or written, because an operation accesses the whole block.
    pub whole_blocks: BTreeSet<Slot>,
    /// Slots that only a trace reads: the values of `log_msg`.
    pub logged: BTreeSet<Slot>,
}

// The stages of the pipeline, in the order in which a packet passes through them.
impl Access {
    /// Returns the accesses of the parser, without the fields that it extracts, and of the verification of checksums
    /// after it. Checksums with an index in `frame_checksums` are left out: they are computed over the bytes of the
    /// frame.
    pub(super) fn parser(program: &LinkedProgram, frame_checksums: &[usize]) -> Access {
        let mut access = Access::code(program, &ReachableCode::new(program, parser_code(program)));
        for state in &program.parser.states {
            state.key.iter().for_each(|part| access.select_part(program, *part));
            state.ops.iter().for_each(|op| access.parse_op(program, op));
        }
        for checksum in checksums(program, frame_checksums).filter(|checksum| checksum.is_verified) {
            access.checksum(program, checksum);
            access.read.insert(checksum.target.slot);
        }
        access
    }

    /// Returns the accesses of ingress or egress, whose code begins at `start`.
    pub(super) fn control(program: &LinkedProgram, start: Pc) -> Access {
        Access::code(program, &ReachableCode::new(program, [start]))
    }

    /// Returns the accesses of the target after ingress: clone, digest, resubmit and the choice of the port, without
    /// the fields of field lists (see [`Access::lists`]).
    pub(super) fn after_ingress(program: &LinkedProgram) -> Access {
        let (standard, flags) = (&program.standard, &program.control_slots);
        let mut access = Access::default();
        access.read.extend([flags.clone_session, flags.clone_list, flags.digest, flags.resubmit]);
        access.read.extend([standard.mcast_grp, standard.egress_spec, standard.priority]);
        access.written.extend([standard.instance_type, flags.recirculate]);
        access
    }

    /// Returns the accesses of the target after egress: clone, recirculate and drop, without the fields of field lists
    /// (see [`Access::lists`]).
    pub(super) fn after_egress(program: &LinkedProgram) -> Access {
        let (standard, flags) = (&program.standard, &program.control_slots);
        let mut access = Access::default();
        access.read.extend([flags.clone_session, flags.clone_list, flags.recirculate]);
        access.read.extend([standard.egress_spec, standard.priority]);
        access
    }

    /// Returns the fields of field lists: digests send them, clones and re-entering packets keep them.
    pub(super) fn lists<'a>(lists: impl IntoIterator<Item = &'a FieldList>) -> Access {
        let mut access = Access::default();
        for (slot, bits) in lists.into_iter().flat_map(|list| &list.fields) {
            access.read_number(*slot, *bits);
        }
        access
    }

    /// Returns the accesses of the checksums that are updated, except those with an index in `frame_checksums`,
    /// and of the deparser.
    pub(super) fn deparser(program: &LinkedProgram, frame_checksums: &[usize]) -> Access {
        let mut access = Access::code(program, &ReachableCode::new(program, program.deparser.code));
        for checksum in checksums(program, frame_checksums).filter(|checksum| checksum.is_updated) {
            access.checksum(program, checksum);
            access.written.insert(checksum.target.slot);
        }
        access.read.extend(
            program.deparser.order.iter().flat_map(|(_, base)| [base + VALID_SLOT, base + FRAME_OFFSET_SLOT]),
        );
        access
    }

    /// Returns the accesses of all stages, without the checksums of `frame_checksums` (see [`Access::parser`]).
    pub(super) fn program(program: &LinkedProgram, frame_checksums: &[usize]) -> Access {
        let mut access = Access::parser(program, frame_checksums);
        access.extend(Access::control(program, program.ingress));
        access.extend(Access::after_ingress(program));
        access.extend(Access::control(program, program.egress));
        access.extend(Access::after_egress(program));
        access.extend(Access::lists(program.field_lists.iter().chain(&program.learn_lists)));
        access.extend(Access::deparser(program, frame_checksums));
        access
    }
}

// Parts of stages.
impl Access {
    pub(super) fn extend(&mut self, other: Access) {
        self.read.extend(other.read);
        self.written.extend(other.written);
        self.whole_blocks.extend(other.whole_blocks);
        self.logged.extend(other.logged);
    }

    /// Returns the accesses of reachable code, including the tables that it applies.
    pub(super) fn code(program: &LinkedProgram, reachable: &ReachableCode) -> Access {
        let mut access = Access::default();
        reachable.ops(program).for_each(|op| access.op(program, &op));
        access
    }

    pub(super) fn op(&mut self, program: &LinkedProgram, op: &Op) {
        for (role, operand) in op.clone().operands() {
            if matches!(role, OperandRole::Read | OperandRole::ReadWrite) {
                self.read.insert(*operand);
            }
            if matches!(role, OperandRole::Write | OperandRole::ReadWrite) {
                self.written.insert(*operand);
            }
        }
        match op.opcode {
            Opcode::ApplyTable => {
                let table = &program.tables[TableId(op.a)];
                self.read.extend(table.key_layout.segments.iter().map(|part| part.slot));
                self.table_resources(program, table);
            }
            Opcode::Hash => self.calculation(program, &program.calculations[usize::from(op.a)]),
            Opcode::Log => {
                let values = program.logs.get(usize::from(op.a)).into_iter().flat_map(|log| &log.values);
                self.logged.extend(values.flat_map(|value| slots_of(*value)));
            }
            Opcode::SetValid | Opcode::SetInvalid => self.whole_header(program, op.a, op.b),
            Opcode::CopyHeader => {
                self.whole_header(program, op.a, op.b);
                self.whole_header(program, op.d, op.b);
            }
            Opcode::Push
            | Opcode::Pop
            | Opcode::CopyStack
            | Opcode::StackAt
            | Opcode::StackLast
            | Opcode::LoadAt
            | Opcode::StoreAt => self.all_stacks(program),
            Opcode::Wide => self.wide_op(program, usize::from(op.d)),
            _ => {}
        }
    }

    /// Adds the accesses of a table's action selector and direct meter. Its key is not included.
    pub(super) fn table_resources(&mut self, program: &LinkedProgram, table: &Table) {
        let profile = table.profile.and_then(|profile| program.profiles.get(usize::from(profile)));
        if let Some(selector) = profile.and_then(|profile| profile.selector.as_ref()) {
            self.calculation(program, selector);
        }
        self.written.extend(table.meter.map(|(_, target)| target.slot));
    }

    pub(super) fn calculation(&mut self, program: &LinkedProgram, calculation: &Calculation) {
        for input in &calculation.inputs {
            match input {
                HashInput::Field { slot, bits, valid } => {
                    self.read_number(*slot, *bits);
                    self.read.extend(*valid);
                }
                HashInput::Varbit { slot, valid } => {
                    let layout = &program.layout;
                    let block = |header: &Header| {
                        header.first_slot..header.first_slot + layout.types[header.ty].block_len
                    };
                    let header = layout.headers.iter().find(|header| block(header).contains(slot));
                    self.read.extend(header.into_iter().flat_map(block));
                    self.read.extend(*valid);
                }
                HashInput::Const { .. } | HashInput::Payload => {}
            }
        }
    }

    /// Adds a checksum's condition, the validity of its header and its input.
    fn checksum(&mut self, program: &LinkedProgram, checksum: &Checksum) {
        if let Some(ComputedSlot { code, slot }) = checksum.condition {
            self.extend(Access::code(program, &ReachableCode::new(program, code)));
            self.read.insert(slot);
        }
        self.read.extend(checksum.valid);
        self.calculation(program, &program.calculations[usize::from(checksum.calculation)]);
    }

    fn select_part(&mut self, program: &LinkedProgram, part: SelectPart) {
        match part {
            SelectPart::Slot { slot, bits } => self.read_number(slot, bits),
            SelectPart::StackLast { stack, offset, bits } => {
                let stack = &program.layout.stacks[usize::from(stack)];
                let field = |element: u16| stack.base + element * stack.stride + offset;
                (0..stack.size).for_each(|element| self.read_number(field(element), bits));
                self.read_number(program.layout.dummy_block + offset, bits);
                self.read.insert(stack.next_index_slot);
            }
            SelectPart::Lookahead { .. } => {}
        }
    }

    fn parse_op(&mut self, program: &LinkedProgram, op: &ParseOp) {
        op.map_computed_slots(|condition| {
            self.read.insert(condition.slot);
            condition
        });
        match *op {
            ParseOp::ExtractNext { stack, .. } => {
                self.read.insert(program.layout.stacks[usize::from(stack)].next_index_slot);
            }
            ParseOp::Lookahead { slot, width, .. } => {
                self.written.extend(slot..slot + limb_count(width) as u16)
            }
            ParseOp::Extract { .. } | ParseOp::Advance(_) | ParseOp::Run(_) | ParseOp::Verify { .. } => {}
        }
    }

    fn read_number(&mut self, slot: Slot, bits: u32) {
        self.read.extend(slot..slot + limb_count(bits) as u16);
    }

    /// Adds the block of the header that begins at the slot index in `base_slot`, and the validity of the other
    /// members of its union. `index` is an index into `header_ops`.
    fn whole_header(&mut self, program: &LinkedProgram, base_slot: Slot, index: u16) {
        let Some(base) = program.const_base(base_slot) else { return self.all_stacks(program) };
        let op = &program.header_ops[usize::from(index)];
        let siblings = op.union_member_offsets.iter().map(|offset| i32::from(base) + offset);
        self.whole_blocks.extend(base..base + op.slots);
        self.whole_blocks
            .extend(siblings.filter_map(|base| Slot::try_from(base).ok()).map(|base| base + VALID_SLOT));
        self.read.insert(base + VALID_SLOT);
    }

    /// Adds the blocks of all stacks: which element an operation accesses is known only at run time.
    fn all_stacks(&mut self, program: &LinkedProgram) {
        let layout = &program.layout;
        for stack in &layout.stacks {
            self.whole_blocks
                .extend((stack.base..stack.base + stack.size * stack.stride).chain([stack.next_index_slot]));
        }
        let blocks = layout.types.iter().map(|ty| ty.block_len);
        let dummy_len = blocks.chain(layout.stacks.iter().map(|stack| stack.stride)).max().unwrap_or(0);
        self.whole_blocks.extend(layout.dummy_block..layout.dummy_block + dummy_len);
    }

    fn wide_op(&mut self, program: &LinkedProgram, index: usize) {
        let op = program.wide[index];
        self.read.extend(slots_of(op.a).chain(slots_of(op.b)));
        self.written.extend(slots_of(op.d));
        match op.kind {
            WideOpcode::LoadAt(_) | WideOpcode::StoreAt(_) => self.all_stacks(program),
            WideOpcode::EqHeader(slots) => {
                for side in [op.a.slot, op.b.slot] {
                    match program.const_base(side) {
                        Some(base) => self.whole_blocks.extend(base..base + slots),
                        None => self.all_stacks(program),
                    }
                }
            }
            _ => {}
        }
    }
}

fn slots_of(wide: WideSlot) -> std::ops::Range<Slot> {
    wide.slot..wide.slot + wide.limbs
}

/// Returns the checksums except those with an index in `excluded`.
fn checksums<'a>(program: &'a LinkedProgram, excluded: &'a [usize]) -> impl Iterator<Item = &'a Checksum> {
    let checksums = program.checksums.iter().enumerate();
    checksums.filter(move |(index, _)| !excluded.contains(index)).map(|(_, checksum)| checksum)
}

/// Returns the start addresses of the code that the parser runs: statements in its states, and the lengths and
/// conditions of its operations.
pub(super) fn parser_code(program: &LinkedProgram) -> Vec<Pc> {
    let mut starts = Vec::new();
    for op in program.parser.states.iter().flat_map(|state| &state.ops) {
        if let ParseOp::Run(code) = op {
            starts.push(*code);
        }
        op.map_computed_slots(|condition: ComputedSlot| {
            starts.extend(condition.code);
            condition
        });
    }
    starts
}

/// The code that is reachable from some start addresses.
pub(super) struct ReachableCode {
    /// Addresses of the reachable operations.
    pub code: BTreeSet<Pc>,
    /// The start addresses and the targets of jumps, tables and actions.
    pub targets: BTreeSet<Pc>,
}

impl ReachableCode {
    pub(super) fn new(program: &LinkedProgram, starts: impl IntoIterator<Item = Pc>) -> ReachableCode {
        let mut waiting: Vec<Pc> = starts.into_iter().collect();
        let (mut code, mut targets) = (BTreeSet::new(), BTreeSet::new());
        targets.extend(&waiting);
        while let Some(mut pc) = waiting.pop() {
            while code.insert(pc) {
                let Some(op) = program.code.get(usize::from(pc)) else { break };
                let mut visit = |target: Pc| {
                    targets.insert(target);
                    waiting.push(target);
                };
                match op.opcode {
                    Opcode::Return | Opcode::End => break,
                    Opcode::ApplyTable => {
                        let table = &program.tables[TableId(op.a)];
                        let successors = &table.successors;
                        let next = successors.actions.iter().chain(&successors.hit).chain(&successors.miss);
                        next.chain([&successors.base]).copied().for_each(&mut visit);
                        let actions = row_actions(program, table);
                        let code = actions.iter().filter_map(|action| program.action_code.of(*action));
                        code.copied().for_each(&mut visit);
                        break;
                    }
                    Opcode::Jump | Opcode::JumpBack => {
                        visit(op.d);
                        break;
                    }
                    _ if matches!(op.opcode.roles(), [OperandRole::Target, ..]) => visit(op.d),
                    _ => {}
                }
                pc += 1;
            }
        }
        ReachableCode { code, targets }
    }

    pub(super) fn ops<'a>(&'a self, program: &'a LinkedProgram) -> impl Iterator<Item = Op> + 'a {
        self.code.iter().filter_map(|pc| program.code.get(usize::from(*pc))).copied()
    }
}
