//! Finds out which fields a program uses at all: only those are moved between the frame and the header vector.

use super::header_moves::HeaderMoves;
use super::layout::Header;
use super::link::Linked;
use super::op::{Opcode, OperandRole, Slot};
use super::parser::{ParseOp, SelectPart};
use super::table::limbs;
use super::{HashInput, HeaderId};
use std::collections::BTreeSet;

/// Returns how each header instance is taken from the frame and put back, if the checksums at the indices `on_wire` are
/// computed over the frame.
pub(super) fn header_moves(program: &Linked, frame_checksums: &[usize]) -> Vec<HeaderMoves> {
    let (read, written) = slot_uses(program, frame_checksums);
    let shape = |(id, header): (HeaderId, &Header)| {
        let ty = &program.layout.types[header.ty];
        if program.address_taken.contains(&id) {
            return HeaderMoves::new(ty, None);
        }
        let test = |set: &BTreeSet<Slot>, rel: u16| set.contains(&(header.first_slot + rel));
        HeaderMoves::new(ty, Some((&|rel| test(&read, rel), &|rel| test(&written, rel))))
    };
    (0..).map(HeaderId).zip(&program.layout.headers).map(shape).collect()
}

/// Returns the slots that the program reads and writes, other than through headers as a whole. The checksums at the
/// indices `on_wire` do not count, nor do calculations that only they use.
pub(super) fn slot_uses(program: &Linked, on_wire: &[usize]) -> (BTreeSet<Slot>, BTreeSet<Slot>) {
    let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
    let range = |slot: Slot, bits: u32| slot..slot + limbs(bits) as u16;
    for op in &program.code {
        for (role, operand) in op.clone().operands() {
            if matches!(role, OperandRole::Read | OperandRole::ReadWrite) {
                read.insert(*operand);
            }
            if matches!(role, OperandRole::Write | OperandRole::ReadWrite) {
                written.insert(*operand);
            }
        }
    }
    for op in &program.wide {
        read.extend([op.a, op.b].iter().flat_map(|operand| operand.slot..operand.slot + operand.limbs));
        written.extend(op.d.slot..op.d.slot + op.d.limbs);
    }
    let checksums = program.checksums.iter().enumerate().filter(|(number, _)| !on_wire.contains(number));
    let slotted = |index: usize| {
        let hashed = program.code.iter().any(|op| op.code == Opcode::Hash && usize::from(op.a) == index);
        let mut users = checksums.clone();
        on_wire.is_empty() || hashed || users.any(|(_, it)| usize::from(it.calculation) == index)
    };
    let calculations = program.calculations.iter().enumerate().filter(|(index, _)| slotted(*index));
    let selectors = program.profiles.iter().filter_map(|profile| profile.selector.as_ref());
    for calculation in calculations.map(|(_, calculation)| calculation).chain(selectors) {
        for input in &calculation.inputs {
            if let HashInput::Field { slot, bits, .. } = input {
                read.extend(range(*slot, *bits));
            }
        }
    }
    for (_, checksum) in checksums {
        read.insert(checksum.target.slot);
        if checksum.update {
            written.insert(checksum.target.slot);
        }
        read.extend(checksum.condition.map(|condition| condition.slot));
    }
    for table in &program.tables {
        read.extend(table.key.iter().flat_map(|key| range(key.slot, key.bits)));
        written.extend(table.meter.map(|(_, target)| target.slot));
    }
    for list in program.field_lists.iter().chain(&program.learn_lists) {
        read.extend(list.fields.iter().flat_map(|(slot, bits)| range(*slot, *bits)));
    }
    for state in &program.parser.states {
        for part in &state.key {
            if let SelectPart::Slot { slot, bits } = part {
                read.extend(range(*slot, *bits));
            }
        }
        for op in &state.ops {
            op.map_conditions(|condition| {
                read.insert(condition.slot);
                condition
            });
            if let ParseOp::Lookahead { slot, width, .. } = op {
                written.extend(range(*slot, *width));
            }
        }
    }
    for value in program.logs.iter().flat_map(|log| &log.values) {
        read.extend(value.slot..value.slot + value.limbs);
    }
    (read, written)
}
