//! Parser, checksums and deparser as lists of accesses to the frame (the bytes of the packet), from which machine code
//! is generated.
//!
//! The interpreter moves every field that the program names, window by window ([`MoveWindows`]). Here the moves of a
//! header are one flat list with absolute slots. Internet checksums over whole headers are computed over the bytes of
//! the frame; fields that only a checksum reads are not moved. Headers with a varbit field or more than [`WINDOW_LEN`]
//! bytes do not fit this form and are left to the interpreter.

use super::access::Access;
use super::field_usage;
use super::hash::{Algorithm, Calculation, Checksum, HashInput};
use super::header_moves::{HeaderMoves, MoveWindows, WINDOW_LEN};
use super::layout::{HeaderId, VALID_SLOT};
use super::link::LinkedProgram;
use super::op::Slot;
use std::collections::BTreeSet;
use std::ops::Range;

/// The load of a field: the big-endian 64-bit word at byte `offset` of the header, shifted left and then right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldLoad {
    pub slot: Slot,
    pub offset: u8,
    /// Shift to the left in bits, which removes the bits before the field.
    pub left: u8,
    /// Shift to the right in bits, which removes the bits after the field: 64 minus the field's width.
    pub right: u8,
}

/// The store of a field as a part of a [`StoreGroup`]: the slot, shifted left and then right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldStore {
    pub slot: Slot,
    /// Shift to the left in bits: 64 minus the field's width.
    pub left: u8,
    /// Shift to the right in bits: the position of the field's first bit in the word.
    pub right: u8,
}

/// Fields that are stored as one big-endian word at byte `offset` of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreGroup {
    pub offset: u8,
    /// Mask of the word's bits that belong to other fields and are preserved.
    pub keep: u64,
    pub fields: Vec<FieldStore>,
}

/// The loads that extract a header.
#[derive(Clone, Debug)]
pub(crate) struct HeaderExtract {
    pub bytes: u16,
    /// Whether fields that the program does not use stay in the frame, so that its frame offset must be
    /// recorded.
    pub is_lazy: bool,
    pub loads: Vec<FieldLoad>,
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
    /// The stores for a header that keeps its position in the frame: the fields that may have changed.
    pub update: Vec<StoreGroup>,
    /// All fields, for a header that the program created. Bits between them are stored as 0. The shifts of each are
    /// those of a load; the deparser inverts them.
    pub create: Vec<FieldLoad>,
    /// A checksum over the header, computed and stored after its fields.
    pub checksum: Option<FrameChecksum>,
}

/// The compiled engine's parser, checksums and deparser.
#[derive(Debug)]
pub(crate) struct FrameAccess {
    /// For each header instance; `None` if the interpreter has to extract it.
    pub headers: Vec<Option<HeaderExtract>>,
    /// For each checksum of the program: `Some` if it is verified over the frame.
    pub verified: Vec<Option<FrameChecksum>>,
    /// Whether a checksum that is not computed over the frame has to be updated.
    pub has_slot_checksum_updates: bool,
    /// In the order of the deparser; `None` if the interpreter has to deparse.
    pub deparser: Option<Vec<HeaderEmit>>,
    /// The slots that the program may write, except by accesses to whole headers.
    pub written: BTreeSet<Slot>,
    /// For each header instance, the fields that machine code may leave in the frame although the interpreter expects
    /// them in slots. When the interpreter continues a packet, the pipeline loads them.
    pub left_in_frame: Vec<Vec<FieldLoad>>,
}

impl FrameAccess {
    /// Plans the accesses. `header_moves` are the interpreter's moves of each header instance.
    pub(crate) fn new(program: &LinkedProgram, header_moves: &[HeaderMoves]) -> FrameAccess {
        let checksums = || program.checksums.iter().enumerate();
        let candidates: Vec<_> = checksums().map(|(_, checksum)| frame_checksum(program, checksum)).collect();
        let fits_flat_list = |(id, _): &(HeaderId, Slot)| {
            let moves = &header_moves[usize::from(id.0)];
            moves.varbit.is_none() && field_loads(&moves.extract, 0).is_some()
        };
        let can_deparse = program.deparser.order.iter().all(fits_flat_list);
        let frame_checksums: Vec<usize> = checksums()
            .filter(|(index, checksum)| candidates[*index].is_some() && (can_deparse || !checksum.is_updated))
            .map(|(index, _)| index)
            .collect();
        let access = Access::program(program, &frame_checksums);
        let used_moves = field_usage::header_moves(program, &access);
        let base = |index: usize| program.layout.headers[index].first_slot;
        let over_frame = |index: usize| candidates[index].filter(|_| frame_checksums.contains(&index));
        let header_emit = |(header, base): &(HeaderId, Slot)| {
            let moves = &used_moves[usize::from(header.0)];
            let updates = checksums().filter(|(_, checksum)| checksum.is_updated);
            let mut checksums_of_header =
                updates.filter_map(|(index, _)| over_frame(index).filter(|checksum| checksum.base == *base));
            Some(HeaderEmit {
                base: *base,
                bytes: moves.bytes,
                update: store_groups(&moves.update, *base)?,
                create: field_loads(&moves.extract, *base)?,
                checksum: checksums_of_header.next(),
            })
        };
        let deparser = program.deparser.order.iter().map(header_emit).collect::<Option<Vec<_>>>();
        let written = access.written;
        let left_in_frame = |(index, moves): (usize, &HeaderMoves)| {
            let all = field_loads(&moves.extract, base(index)).filter(|_| moves.keeps_frame_bytes);
            let mut unwritten = all.unwrap_or_default();
            unwritten.retain(|load| !written.contains(&load.slot));
            unwritten
        };
        FrameAccess {
            headers: used_moves
                .iter()
                .enumerate()
                .map(|(index, moves)| header_extract(moves, base(index)))
                .collect(),
            verified: checksums()
                .map(|(index, checksum)| over_frame(index).filter(|_| checksum.is_verified))
                .collect(),
            has_slot_checksum_updates: checksums()
                .any(|(index, checksum)| checksum.is_updated && over_frame(index).is_none()),
            deparser: deparser.filter(|_| can_deparse),
            left_in_frame: header_moves.iter().enumerate().map(left_in_frame).collect(),
            written,
        }
    }
}

/// Returns the loads that extract a header with these moves; `None` if the interpreter has to extract it.
pub(crate) fn header_extract(moves: &HeaderMoves, base: Slot) -> Option<HeaderExtract> {
    let loads = field_loads(&moves.extract, base).filter(|_| moves.varbit.is_none())?;
    Some(HeaderExtract { bytes: moves.bytes, is_lazy: moves.keeps_frame_bytes, loads })
}

/// Returns moves as one flat list; `None` if one begins beyond the first window or a field is moved in two
/// pieces.
fn field_loads(moves: &MoveWindows, base: Slot) -> Option<Vec<FieldLoad>> {
    let mut loads = Vec::new();
    for window in moves {
        if !window.split.is_empty() {
            return None;
        }
        for bit_move in &window.single {
            let offset = usize::from(window.offset) + usize::from(bit_move.offset);
            let bits = bit_move.mask.count_ones() as u8;
            loads.push(FieldLoad {
                slot: base + window.slot + u16::from(bit_move.slot),
                offset: u8::try_from(offset).ok().filter(|_| offset < WINDOW_LEN)?,
                left: 64 - bit_move.shift - bits,
                right: 64 - bits,
            });
        }
    }
    Some(loads)
}

/// Returns the stores for moves, with the fields grouped that share a 64-bit word; `None` as for [`field_loads`].
fn store_groups(moves: &MoveWindows, base: Slot) -> Option<Vec<StoreGroup>> {
    let mut loads = field_loads(moves, base)?;
    loads.sort_by_key(|load| u32::from(load.offset) * 8 + u32::from(load.left));
    let mut groups = Vec::<StoreGroup>::new();
    for load in loads {
        let bits = 64 - load.right;
        // Returns the first bit of the field in the group's word; `None` if the field does not fit.
        let position_in = |group: &StoreGroup| {
            let begin = (u32::from(load.offset) - u32::from(group.offset)) * 8 + u32::from(load.left);
            (begin + u32::from(bits) <= 64).then_some(begin as u8)
        };
        let begin = match groups.last().and_then(position_in) {
            Some(begin) => begin,
            None => {
                groups.push(StoreGroup { offset: load.offset, keep: u64::MAX, fields: Vec::new() });
                load.left
            }
        };
        let Some(group) = groups.last_mut() else { continue };
        group.keep &= !(u64::MAX << load.right >> begin);
        group.fields.push(FieldStore { slot: load.slot, left: load.right, right: begin });
    }
    Some(groups)
}

/// Returns whether code or a lookahead of the parser may write any of these slots.
fn parser_writes(program: &LinkedProgram, slots: Range<Slot>) -> bool {
    let Access { written, whole_blocks, .. } = Access::parser(program, &[]);
    written.iter().chain(&whole_blocks).any(|slot| slots.contains(slot))
}

/// Returns the checksum as one over the frame; `None` if that is not possible, for example because it does not cover
/// exactly one header, or because something else reads its field after the update.
pub(super) fn frame_checksum(program: &LinkedProgram, checksum: &Checksum) -> Option<FrameChecksum> {
    let Calculation { algorithm, inputs, .. } = &program.calculations[usize::from(checksum.calculation)];
    let valid = checksum.valid.filter(|_| *algorithm == Algorithm::Csum16 && checksum.target.bits == 16)?;
    let is_unconditional =
        checksum.condition.is_none_or(|computed| computed.code.is_none() && computed.slot == valid);
    let base = valid - VALID_SLOT;
    let header = program.layout.headers.iter().find(|header| header.first_slot == base)?;
    let ty = &program.layout.types[header.ty];
    if !is_unconditional
        || header.in_stack
        || header.union_member.is_some()
        || ty.varbit_index.is_some()
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
    let is_read = checksum.is_updated
        && {
            let is_target = |(slot, _): &(Slot, u32)| *slot == checksum.target.slot;
            let lists = program.field_lists.iter().any(|list| list.fields.iter().any(is_target));
            let reads = |other: &Checksum| {
                let inputs = &program.calculations[usize::from(other.calculation)].inputs;
                let is_input = |input: &HashInput| matches!(input, HashInput::Field { slot, .. } if *slot == checksum.target.slot);
                other.is_updated
                    && (inputs.iter().any(is_input)
                        || !std::ptr::eq(other, checksum) && other.target == checksum.target)
            };
            lists || program.deparser.code.is_some() || program.checksums.iter().any(reads)
        };
    let emitted = program.deparser.order.iter().filter(|(_, block)| *block == base).count();
    // The checksum is verified over the frame, so the parser must not have changed the fields in their slots.
    let is_unmodified = !checksum.is_verified || !parser_writes(program, base..base + ty.block_len);
    (expected.eq(inputs.iter().cloned())
        && !is_read
        && is_unmodified
        && (emitted == 1 || !checksum.is_updated))
        .then_some(FrameChecksum { base, bytes: ty.bytes as u16, offset: (field.offset / 8) as u16 })
}
