//! Plans how header fields are moved between the frame and the slots.
//!
//! Most fields of a header are neither read nor written by the program, and stay in the frame: the parser
//! loads only the fields that are used, and the deparser copies the header's old bytes and overwrites the
//! fields that may have changed.

use super::header_types::{Field, HeaderType};
use super::limbs::low_mask;

/// Bytes of a header, and slots of its block, that one window covers.
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

/// Moves within the same 64 bytes of a header and the same 64 slots, so that one bounds check of each covers
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MoveWindow {
    /// First byte, relative to the header's first byte.
    pub offset: u16,
    /// First slot, relative to the header's block.
    pub slot: u16,
    /// Moves of slots that one move fills.
    pub single: Vec<BitMove>,
    /// Moves of slots whose bits span nine bytes, with the shift of the moved bits in the slot: the upper piece
    /// with its shift, then the lower piece with 0.
    pub split: Vec<(BitMove, u8)>,
}

/// The moves of a list of fields, by window.
pub(crate) type MoveWindows = Vec<MoveWindow>;

/// Adds the moves of a field to `moves`, whose offsets count from bit `start` of the header.
fn add(moves: &mut MoveWindows, field: &Field, start: u32) {
    let end = field.offset + field.bits - start;
    let begin = field.offset - start;
    for limb in 0..field.slot_count {
        let high = end - 64 * u32::from(limb);
        let low = high.saturating_sub(64).max(begin);
        if low >= high {
            continue;
        }
        let slot = field.slot + limb;
        // The bits from `low` on that one 64-bit load at a byte boundary contains.
        let (loadable, bits) = (64 - low % 8, high - low);
        if bits <= loadable {
            let (window, step) = piece(moves, low, bits, slot);
            window.single.push(step);
        } else {
            let (window, step) = piece(moves, low, loadable, slot);
            window.split.push((step, (bits - loadable) as u8));
            let (window, step) = piece(moves, low + loadable, bits - loadable, slot);
            window.split.push((step, 0));
        }
    }
}

/// Returns the move of `bits` bits from bit `begin` of the header, and the window to which it belongs.
fn piece(moves: &mut MoveWindows, begin: u32, bits: u32, slot: u16) -> (&mut MoveWindow, BitMove) {
    let (byte, size) = ((begin / 8) as u16, WINDOW_LEN as u16);
    let fits = |window: &MoveWindow| {
        byte.checked_sub(window.offset).is_some_and(|offset| offset < size)
            && slot.checked_sub(window.slot).is_some_and(|offset| offset < size)
    };
    let index = match moves.iter().position(fits) {
        Some(index) => index,
        None => {
            // Windows begin at multiples of their size, because the limbs of a wide field are added from its
            // end to its start.
            let align = |value: u16| value - value % size;
            moves.push(MoveWindow { offset: align(byte), slot: align(slot), ..MoveWindow::default() });
            moves.len() - 1
        }
    };
    let window = &mut moves[index];
    let (offset, slot) = ((byte - window.offset) as u8, (slot - window.slot) as u8);
    let step = BitMove { mask: low_mask(bits), offset, slot, shift: (64 - begin % 8 - bits) as u8 };
    (window, step)
}

/// The moves of one header between the frame and the slots.
#[derive(Clone, Debug)]
pub(crate) struct HeaderMoves {
    /// Length in bytes without the varbit field.
    pub bytes: u16,
    /// Maximum length in bytes including the varbit field. Read only for headers that have one.
    pub max_bytes: u16,
    /// Fields that the parser extracts, and that the deparser writes if the program created the header.
    pub extract: MoveWindows,
    /// Fields that the deparser overwrites if the header came from this frame and `keeps_frame_bytes` is set.
    pub update: MoveWindows,
    /// The varbit field.
    pub varbit: Option<Varbit>,
    /// Whether the deparser may copy the header's old bytes.
    pub keeps_frame_bytes: bool,
}

/// The varbit field of a header: it begins at byte `offset`. Slot `slot` has its length in bits, and the
/// `limbs - 1` slots after it have its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Varbit {
    pub offset: u16,
    pub slot: u16,
    pub limbs: u16,
    /// The fields after the varbit field, with offsets from the first of them.
    pub tail: MoveWindows,
    /// Length of the fields of `tail` in bytes.
    pub tail_bytes: u16,
}

/// A predicate of a slot, given relative to its block.
type SlotPredicate<'a> = &'a dyn Fn(u16) -> bool;

impl HeaderMoves {
    /// Plans the moves of headers of a type. `used` has two predicates: whether the program reads a slot, and
    /// whether it writes it. With `None`, or for a header with a varbit field, all fields are moved.
    pub fn new(ty: &HeaderType, used: Option<(SlotPredicate, SlotPredicate)>) -> HeaderMoves {
        let used = used.filter(|_| ty.varbit_index.is_none());
        let mut moves = HeaderMoves {
            bytes: ty.bytes as u16,
            max_bytes: ty.max_bytes as u16,
            extract: MoveWindows::default(),
            update: MoveWindows::default(),
            varbit: None,
            keeps_frame_bytes: used.is_some(),
        };
        let split = ty.varbit_index.unwrap_or(ty.fields.len());
        for field in &ty.fields[..split] {
            let any = |predicate: &dyn Fn(u16) -> bool| (field.slot..field.slot + field.slot_count).any(predicate);
            let (read, written) = used.map_or((true, true), |(read, written)| (any(read), any(written)));
            // A written field is extracted too: on paths that do not write it, the deparser must restore its
            // old value.
            if read || written {
                add(&mut moves.extract, field, 0);
            }
            if written {
                add(&mut moves.update, field, 0);
            }
        }
        if let Some(index) = ty.varbit_index {
            let (field, mut tail) = (&ty.fields[index], MoveWindows::default());
            for following in &ty.fields[index + 1..] {
                add(&mut tail, following, field.offset);
            }
            moves.varbit = Some(Varbit {
                offset: (field.offset / 8) as u16,
                slot: field.slot,
                limbs: field.slot_count,
                tail,
                tail_bytes: (ty.bytes - field.offset / 8) as u16,
            });
        }
        moves
    }
}
