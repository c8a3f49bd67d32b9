//! Plans how header fields are moved between the frame (the bytes of the packet) and the slots (the 64-bit words of
//! the header vector).
//!
//! Most fields of a header are neither read nor written by the program, and stay in the frame: the parser
//! loads only the fields that are used, and the deparser copies the header's old bytes and overwrites the
//! fields that may have changed.

use super::header_types::{Field, HeaderType};
use super::limbs::low_mask;

/// Number of bytes of a header, and of slots of its block, that one [`MoveWindow`] covers.
pub(crate) const WINDOW_LEN: usize = 64;

/// One move of bits between frame and slot: the bits `mask` of the slot are the bits `mask << shift` of the
/// big-endian 64-bit word at byte `offset` of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitMove {
    pub mask: u64,
    pub offset: u8,
    /// Slot relative to the window.
    pub slot: u8,
    pub shift: u8,
}

/// Moves within the same [`WINDOW_LEN`] bytes of a header and the same [`WINDOW_LEN`] slots of its block: one bounds
/// check of the frame and one of the slots covers all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MoveWindow {
    /// First byte, relative to the header's first byte.
    pub offset: u16,
    /// First slot, relative to the header's block.
    pub slot: u16,
    /// Moves that fill a slot alone.
    pub single: Vec<BitMove>,
    /// Moves in pairs, for slots whose bits span nine bytes, more than one 64-bit load has: the upper bits of the slot
    /// with their shift in the slot, then the lower bits with shift 0.
    pub split: Vec<(BitMove, u8)>,
}

/// The moves of a list of fields, by window.
pub(crate) type MoveWindows = Vec<MoveWindow>;

/// Adds the moves of a field to `moves`. Their offsets count from bit `start` of the header.
fn add_field(moves: &mut MoveWindows, field: &Field, start: u32) {
    let end = field.offset + field.bits - start;
    let begin = field.offset - start;
    // The last slot of a field has its first bits: limbs are stored least significant first.
    for limb in 0..field.slot_count {
        let high = end - 64 * u32::from(limb);
        let low = high.saturating_sub(64).max(begin);
        if low >= high {
            continue;
        }
        let slot = field.slot + limb;
        // `loadable`: the bits from `low` on that a 64-bit load at a byte boundary contains.
        let (loadable, bits) = (64 - low % 8, high - low);
        if bits <= loadable {
            let (window, bit_move) = new_move(moves, low, bits, slot);
            window.single.push(bit_move);
        } else {
            let (window, bit_move) = new_move(moves, low, loadable, slot);
            window.split.push((bit_move, (bits - loadable) as u8));
            let (window, bit_move) = new_move(moves, low + loadable, bits - loadable, slot);
            window.split.push((bit_move, 0));
        }
    }
}

/// Returns a move of `bits` bits from bit `begin` of the header to a slot, and the window to which it belongs. Adds
/// the window if it is missing.
fn new_move(moves: &mut MoveWindows, begin: u32, bits: u32, slot: u16) -> (&mut MoveWindow, BitMove) {
    let (byte, size) = ((begin / 8) as u16, WINDOW_LEN as u16);
    let fits = |window: &MoveWindow| {
        byte.checked_sub(window.offset).is_some_and(|offset| offset < size)
            && slot.checked_sub(window.slot).is_some_and(|offset| offset < size)
    };
    let index = match moves.iter().position(fits) {
        Some(index) => index,
        None => {
            // Windows begin at multiples of their size, not at the first move: the moves of a wide field are added from
            // its end to its start.
            let align = |value: u16| value - value % size;
            moves.push(MoveWindow { offset: align(byte), slot: align(slot), ..MoveWindow::default() });
            moves.len() - 1
        }
    };
    let window = &mut moves[index];
    let (offset, slot) = ((byte - window.offset) as u8, (slot - window.slot) as u8);
    let bit_move = BitMove { mask: low_mask(bits), offset, slot, shift: (64 - begin % 8 - bits) as u8 };
    (window, bit_move)
}

/// The moves of one header between the frame and the slots.
#[derive(Clone, Debug)]
pub(crate) struct HeaderMoves {
    /// Length in bytes without the varbit field.
    pub bytes: u16,
    /// Maximum length in bytes including the varbit field. Unused without a varbit field.
    pub max_bytes: u16,
    /// Fields that the parser extracts, and that the deparser writes if the program created the header.
    pub extract: MoveWindows,
    /// Fields that the deparser overwrites if the header came from this frame and `keeps_frame_bytes` is set.
    pub update: MoveWindows,
    pub varbit: Option<Varbit>,
    /// Whether the deparser may keep the header's bytes in the frame and overwrite only the fields of `update`.
    pub keeps_frame_bytes: bool,
}

/// The varbit field of a header. Slot `slot` has its length in bits, and the `slot_count - 1` slots after it have its
/// bytes.
#[derive(Clone, Debug)]
pub(crate) struct Varbit {
    /// First byte, relative to the header's first byte.
    pub offset: u16,
    /// First slot, relative to the header's block.
    pub slot: u16,
    pub slot_count: u16,
    /// The fields after the varbit field, with offsets from the first of them.
    pub tail: MoveWindows,
    /// Length of the fields of `tail` in bytes.
    pub tail_bytes: u16,
}

/// How the program uses the slots of a header, as functions of a slot's offset in the header's block.
#[derive(Clone, Copy)]
pub(crate) struct SlotUsage<'a> {
    pub is_read: &'a dyn Fn(u16) -> bool,
    pub is_written: &'a dyn Fn(u16) -> bool,
}

impl HeaderMoves {
    /// Plans the moves of headers of a type. Without `usage`, or for a header with a varbit field, all fields are
    /// moved.
    pub(crate) fn new(ty: &HeaderType, usage: Option<SlotUsage>) -> HeaderMoves {
        let usage = usage.filter(|_| ty.varbit_index.is_none());
        let mut moves = HeaderMoves {
            bytes: ty.bytes as u16,
            max_bytes: ty.max_bytes as u16,
            extract: MoveWindows::default(),
            update: MoveWindows::default(),
            varbit: None,
            keeps_frame_bytes: usage.is_some(),
        };
        // The offsets of fields after the varbit field depend on its length: they become its `tail`.
        let fixed_count = ty.varbit_index.unwrap_or(ty.fields.len());
        for field in &ty.fields[..fixed_count] {
            let any =
                |predicate: &dyn Fn(u16) -> bool| (field.slot..field.slot + field.slot_count).any(predicate);
            let (read, written) =
                usage.map_or((true, true), |usage| (any(usage.is_read), any(usage.is_written)));
            // A written field is extracted too: on paths that do not write it, the deparser must restore its
            // old value.
            if read || written {
                add_field(&mut moves.extract, field, 0);
            }
            if written {
                add_field(&mut moves.update, field, 0);
            }
        }
        if let Some(index) = ty.varbit_index {
            let (field, mut tail) = (&ty.fields[index], MoveWindows::default());
            for following in &ty.fields[index + 1..] {
                add_field(&mut tail, following, field.offset);
            }
            moves.varbit = Some(Varbit {
                offset: (field.offset / 8) as u16,
                slot: field.slot,
                slot_count: field.slot_count,
                tail,
                tail_bytes: (ty.bytes - field.offset / 8) as u16,
            });
        }
        moves
    }
}
