//! Decides for each slot whether machine code keeps it in a Cranelift variable (a register) or in the memory of the
//! header vector.
//!
//! A slot that only operations with machine code of their own use is a variable. A slot that helpers of the
//! interpreter read or write stays in memory.

use crate::program::access::{Access, ReachableCode};
use crate::program::frame_access::FrameAccess;
use crate::program::link::LinkedProgram;
use crate::program::op::{Op, Opcode, Slot};
use crate::program::signatures::TableId;

/// A set of slots below the size given to [`SlotSet::new`]. Higher slots are ignored.
#[derive(Clone, Debug)]
pub(super) struct SlotSet(Vec<bool>);

impl SlotSet {
    pub(super) fn new(size: usize) -> SlotSet {
        SlotSet(vec![false; size])
    }
    pub(super) fn insert(&mut self, slot: Slot) {
        if let Some(is_member) = self.0.get_mut(usize::from(slot)) {
            *is_member = true;
        }
    }
    pub(super) fn extend(&mut self, slots: impl IntoIterator<Item = Slot>) {
        slots.into_iter().for_each(|slot| self.insert(slot));
    }
    pub(super) fn remove(&mut self, slots: std::ops::Range<Slot>) {
        slots.for_each(|slot| {
            if let Some(is_member) = self.0.get_mut(usize::from(slot)) {
                *is_member = false;
            }
        });
    }
    pub(super) fn contains(&self, slot: Slot) -> bool {
        self.0.get(usize::from(slot)).copied().unwrap_or(false)
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..).zip(&self.0).filter(|(_, is_member)| **is_member).map(|(slot, _)| slot)
    }
}

/// Returns whether an operation has no machine code of its own and is left to a helper.
pub(super) fn needs_helper(program: &LinkedProgram, op: &Op) -> bool {
    match op.opcode {
        Opcode::SetValid => program.const_base(op.a).is_none(),
        Opcode::SetInvalid => {
            program.const_base(op.a).is_none()
                || program.header_ops[usize::from(op.b)].varbit_length_slot.is_some()
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
        ),
    }
}

/// Returns the slots that stay in memory because helpers read or write them. Constants are not included.
pub(super) fn memory_slots(
    program: &LinkedProgram,
    frame_access: &FrameAccess,
    reachable: &ReachableCode,
) -> SlotSet {
    let mut access = Access::default();
    for op in reachable.ops(program) {
        if op.opcode == Opcode::ApplyTable {
            access.table_resources(program, &program.tables[TableId(op.a)]);
        } else if needs_helper(program, &op) {
            access.op(program, &op);
        }
    }
    let verified = program.checksums.iter().zip(&frame_access.verified);
    for (checksum, _) in
        verified.filter(|(checksum, frame_checksum)| checksum.is_verified && frame_checksum.is_none())
    {
        access.calculation(program, &program.calculations[usize::from(checksum.calculation)]);
    }
    let mut memory = SlotSet::new(program.capacity);
    memory.extend(access.read.into_iter().chain(access.written).chain(access.whole_blocks));
    // Helpers address all limbs of a wide number in memory, so the limbs are stored together.
    for header in &program.layout.headers {
        for field in &program.layout.types[header.ty].fields {
            let slots = header.first_slot + field.slot..header.first_slot + field.slot + field.slot_count;
            if field.slot_count > 1 && slots.clone().any(|slot| memory.contains(slot)) {
                memory.extend(slots);
            }
        }
    }
    memory
}
