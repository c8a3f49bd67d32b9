//! Parser, checksums and deparser as lists of frame accesses, from which machine code is generated.
//!
//! The interpreter moves every field that the program names, window by window. Here the moves of a header are
//! one flat list with absolute slots, and Internet checksums over whole headers are computed over the bytes
//! of the frame, so that fields which only a checksum reads are not moved at all. A header that does not fit
//! this form (a varbit field, more than [`WINDOW_LEN`] bytes) is left to the interpreter.

use super::access::Access;
use super::header_moves::{HeaderMoves, MoveWindows, WINDOW_LEN};
use super::layout::VALID_SLOT;
use super::link::Linked;
use super::op::Slot;
use super::{Algorithm, Calculation, Checksum, HashInput, HeaderId, field_usage};
use std::collections::BTreeSet;
use std::ops::Range;

/// The load of a field: the big-endian word at byte `offset` of the header, shifted left and then right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldLoad {
    pub slot: Slot,
    pub offset: u8,
    pub left: u8,
    pub right: u8,
}

/// The store of a field as a part of a [`StoreGroup`]: the slot, shifted left and then right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldStore {
    pub slot: Slot,
    pub left: u8,
    pub right: u8,
}

/// Fields that are stored as one big-endian word at byte `offset` of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreGroup {
    pub offset: u8,
    /// Mask of the bits that belong to other fields and are preserved.
    pub keep: u64,
    pub fields: Vec<FieldStore>,
}

/// The loads that extract a header.
#[derive(Clone, Debug)]
pub(crate) struct HeaderExtract {
    pub bytes: u16,
    /// Whether fields that the program does not use stay in the frame, so that its frame offset must be
    /// recorded.
    pub lazy: bool,
    pub gets: Vec<FieldLoad>,
}

/// An Internet checksum of one header that covers all its other fields, computed over the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameChecksum {
    /// First slot of the header's block.
    pub base: Slot,
    /// Length of the header in bytes, a multiple of 4.
    pub bytes: u16,
    /// Byte offset of the checksum in the header, an even number.
    pub offset: u16,
}

/// The stores that emit a header.
#[derive(Clone, Debug)]
pub(crate) struct HeaderEmit {
    pub base: Slot,
    pub bytes: u16,
    /// The stores for a header that keeps its place in the frame: the fields that may have changed.
    pub updated: Vec<StoreGroup>,
    /// The fields of a header that the program created.
    pub whole: Vec<FieldLoad>,
    /// A checksum over the header, computed and stored after its fields.
    pub checksum: Option<FrameChecksum>,
}

/// The compiled engine's parser, checksums and deparser.
#[derive(Debug)]
pub(crate) struct FrameAccess {
    /// For each header instance; `None` if the interpreter has to extract it.
    pub headers: Vec<Option<HeaderExtract>>,
    /// For each checksum, its form if it is verified over the frame.
    pub verified: Vec<Option<FrameChecksum>>,
    /// Whether a checksum is to be updated that is not computed over the frame.
    pub has_slot_checksum_updates: bool,
    /// In the order of the deparser; `None` if the interpreter has to deparse.
    pub deparser: Option<Vec<HeaderEmit>>,
    /// The slots that code may write, except by accesses to whole headers.
    pub written: BTreeSet<Slot>,
    /// For each header instance, the fields that the interpreter expects in slots but machine code leaves in
    /// the frame.
    pub unloaded: Vec<Vec<FieldLoad>>,
}

impl FrameAccess {
    /// Builds the lists; `shapes` has the interpreter's moves of each header instance.
    pub fn new(program: &Linked, shapes: &[HeaderMoves]) -> FrameAccess {
        let checksums = || program.checksums.iter().enumerate();
        let wire: Vec<_> = checksums().map(|(_, checksum)| wire_checksum(program, checksum)).collect();
        let simple = |(id, _): &(HeaderId, Slot)| {
            let shape = &shapes[usize::from(id.0)];
            shape.varbit.is_none() && field_loads(&shape.extract, 0).is_some()
        };
        let deparses = program.deparser.order.iter().all(simple);
        let on_wire: Vec<usize> = checksums()
            .filter(|(number, checksum)| wire[*number].is_some() && (deparses || !checksum.update))
            .map(|(number, _)| number)
            .collect();
        let access = Access::program(program, &on_wire);
        let fast = field_usage::header_moves(program, &access);
        let base = |index: usize| program.layout.headers[index].first_slot;
        let taken = |number: usize| wire[number].filter(|_| on_wire.contains(&number));
        let emission = |(header, base): &(HeaderId, Slot)| {
            let shape = &fast[usize::from(header.0)];
            let updates = checksums().filter(|(_, checksum)| checksum.update);
            let mut own =
                updates.filter_map(|(number, _)| taken(number).filter(|checksum| checksum.base == *base));
            Some(HeaderEmit {
                base: *base,
                bytes: shape.bytes,
                updated: store_groups(&shape.update, *base)?,
                whole: field_loads(&shape.extract, *base)?,
                checksum: own.next(),
            })
        };
        let deparser = program.deparser.order.iter().map(emission).collect::<Option<Vec<_>>>();
        let written = access.written;
        let missing = |(index, shape): (usize, &HeaderMoves)| {
            let all = field_loads(&shape.extract, base(index)).filter(|_| shape.keeps_frame_bytes);
            let mut all = all.unwrap_or_default();
            all.retain(|get| !written.contains(&get.slot));
            all
        };
        FrameAccess {
            headers: fast.iter().enumerate().map(|(index, moves)| extraction(moves, base(index))).collect(),
            verified: checksums()
                .map(|(number, checksum)| taken(number).filter(|_| checksum.verify))
                .collect(),
            has_slot_checksum_updates: checksums()
                .any(|(number, checksum)| checksum.update && taken(number).is_none()),
            deparser: deparser.filter(|_| deparses),
            unloaded: shapes.iter().enumerate().map(missing).collect(),
            written,
        }
    }
}

/// Returns the loads that extract a header with these moves; `None` if the interpreter has to extract it.
pub(crate) fn extraction(shape: &HeaderMoves, base: Slot) -> Option<HeaderExtract> {
    let gets = field_loads(&shape.extract, base).filter(|_| shape.varbit.is_none())?;
    Some(HeaderExtract { bytes: shape.bytes, lazy: shape.keeps_frame_bytes, gets })
}

/// Returns moves as one flat list; `None` if one begins beyond the first window or a field is moved in two
/// pieces.
fn field_loads(moves: &MoveWindows, base: Slot) -> Option<Vec<FieldLoad>> {
    let mut gets = Vec::new();
    for window in moves {
        if !window.split.is_empty() {
            return None;
        }
        for step in &window.single {
            let offset = usize::from(window.offset) + usize::from(step.offset);
            let bits = step.mask.count_ones() as u8;
            gets.push(FieldLoad {
                slot: base + window.slot + u16::from(step.slot),
                offset: u8::try_from(offset).ok().filter(|_| offset < WINDOW_LEN)?,
                left: 64 - step.shift - bits,
                right: 64 - bits,
            });
        }
    }
    Some(gets)
}

/// Returns the stores for the same moves, with the fields that share a 64-bit word grouped.
fn store_groups(moves: &MoveWindows, base: Slot) -> Option<Vec<StoreGroup>> {
    let mut gets = field_loads(moves, base)?;
    gets.sort_by_key(|get| u32::from(get.offset) * 8 + u32::from(get.left));
    let mut groups = Vec::<StoreGroup>::new();
    for get in gets {
        let bits = 64 - get.right;
        // The first bit of the field in the group's word, if the field fits.
        let within = |group: &StoreGroup| {
            let begin = (u32::from(get.offset) - u32::from(group.offset)) * 8 + u32::from(get.left);
            (begin + u32::from(bits) <= 64).then_some(begin as u8)
        };
        let begin = match groups.last().and_then(within) {
            Some(begin) => begin,
            None => {
                groups.push(StoreGroup { offset: get.offset, keep: u64::MAX, fields: Vec::new() });
                get.left
            }
        };
        let Some(group) = groups.last_mut() else { continue };
        group.keep &= !(u64::MAX << get.right >> begin);
        group.fields.push(FieldStore { slot: get.slot, left: get.right, right: begin });
    }
    Some(groups)
}

/// Returns whether code or a lookahead of the parser may write one of these slots.
fn parser_writes(program: &Linked, slots: Range<Slot>) -> bool {
    let Access { written, whole, .. } = Access::parser(program, &[]);
    written.iter().chain(&whole).any(|slot| slots.contains(slot))
}

/// Returns the form of a checksum over the frame, if it covers one header without gaps and nothing else reads
/// its field.
pub(super) fn wire_checksum(program: &Linked, checksum: &Checksum) -> Option<FrameChecksum> {
    let Calculation { algorithm, inputs, .. } = &program.calculations[usize::from(checksum.calculation)];
    let valid = checksum.valid.filter(|_| *algorithm == Algorithm::Csum16 && checksum.target.bits == 16)?;
    let plain = checksum.condition.is_none_or(|computed| computed.code.is_none() && computed.slot == valid);
    let base = valid - VALID_SLOT;
    let header = program.layout.headers.iter().find(|header| header.first_slot == base)?;
    let ty = &program.layout.types[header.ty];
    if !plain
        || header.in_stack
        || header.union.is_some()
        || ty.varbit.is_some()
        || !ty.bytes.is_multiple_of(4)
    {
        return None;
    }
    let target = checksum.target.slot.checked_sub(base)?;
    let field = ty.fields.iter().find(|field| field.slot == target && field.offset % 16 == 0)?;
    let others = ty.fields.iter().filter(|field| field.slot != target);
    let expected = others.map(|field| HashInput::Field {
        slot: base + field.slot,
        bits: field.bits,
        valid: Some(valid),
    });
    // The sum is stored when the header is emitted. A field list, another checksum or deparser code would
    // still read the old value from the slot.
    let touched = checksum.update
        && {
            let kept = |(slot, _): &(Slot, u32)| *slot == checksum.target.slot;
            let lists = program.field_lists.iter().any(|list| list.fields.iter().any(kept));
            let reads = |other: &Checksum| {
                let inputs = &program.calculations[usize::from(other.calculation)].inputs;
                let is_target = |input: &HashInput| matches!(input, HashInput::Field { slot, .. } if *slot == checksum.target.slot);
                other.update
                    && (inputs.iter().any(is_target)
                        || !std::ptr::eq(other, checksum) && other.target == checksum.target)
            };
            lists || program.deparser.code.is_some() || program.checksums.iter().any(reads)
        };
    let emitted = program.deparser.order.iter().filter(|(_, block)| *block == base).count();
    // Code of the parser must not change a field that is verified against the frame.
    let clean = !checksum.verify || !parser_writes(program, base..base + ty.slots);
    (expected.eq(inputs.iter().cloned()) && !touched && clean && (emitted == 1 || !checksum.update))
        .then_some(FrameChecksum { base, bytes: ty.bytes as u16, offset: (field.offset / 8) as u16 })
}
