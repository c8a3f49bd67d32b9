//! Moves of headers between the frame and the slots.
//!
//! Most fields of a header are neither read nor written by the program, and stay in the frame: the parser takes only
//! the fields that are read, and the deparser copies the header's old bytes and overwrites the fields that may have
//! changed.

use super::codegen::low_mask;
use super::header_types::{Field, HeaderType};

/// Bytes of a header, and slots of its block, that one window of moves reaches.
pub(crate) const WINDOW_LEN: usize = 64;

/// Moves bits between frame and slot: those under `mask`, `shift` above the end of the big-endian 64-bit word at
/// byte `offset` of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitMove {
    pub mask: u64,
    pub offset: u8,
    pub slot: u8,
    pub shift: u8,
}

/// Moves that begin in the same 64 bytes of a header and end in the same 64 slots, so that neither needs to be
/// checked one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MoveWindow {
    /// First byte, relative to the header.
    pub offset: u16,
    /// First slot, relative to the block.
    pub slot: u16,
    /// Whole slots.
    pub single: Vec<BitMove>,
    /// Slots that reach over nine bytes come in two pieces: the upper one with how far up it belongs, then the lower.
    pub split: Vec<(BitMove, u8)>,
}

/// The moves of a list of fields.
pub(crate) type MoveWindows = Vec<MoveWindow>;

fn add(moves: &mut MoveWindows, field: &Field, origin: u32) {
    let end = field.offset + field.bits - origin;
    let begin = field.offset - origin;
    for limb in 0..field.limbs {
        let high = end - 64 * u32::from(limb);
        let low = high.saturating_sub(64).max(begin);
        if low >= high {
            continue;
        }
        let slot = field.slot + limb;
        let (room, bits) = (64 - low % 8, high - low);
        if bits <= room {
            let (window, step) = piece(moves, low, bits, slot);
            window.single.push(step);
        } else {
            let (window, step) = piece(moves, low, room, slot);
            window.split.push((step, (bits - room) as u8));
            let (window, step) = piece(moves, low + room, bits - room, slot);
            window.split.push((step, 0));
        }
    }
}

/// Returns a move, and the window it belongs to.
fn piece(moves: &mut MoveWindows, begin: u32, bits: u32, slot: u16) -> (&mut MoveWindow, BitMove) {
    let (byte, size) = ((begin / 8) as u16, WINDOW_LEN as u16);
    let fits = |window: &MoveWindow| {
        byte.checked_sub(window.offset).is_some_and(|at| at < size)
            && slot.checked_sub(window.slot).is_some_and(|at| at < size)
    };
    let index = match moves.iter().position(fits) {
        Some(index) => index,
        None => {
            // The limbs of a wide field are taken from its end: leave room to go back.
            let back = |value: u16| value - value % size;
            moves.push(MoveWindow { offset: back(byte), slot: back(slot), ..MoveWindow::default() });
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
    /// Bytes without the variable field.
    pub bytes: u16,
    /// Most bytes with it; 0 for no limit.
    pub max_bytes: u16,
    /// Fields that the parser takes, and that the deparser writes if the program made the header.
    pub extract: MoveWindows,
    /// Fields that the deparser overwrites if the header came from this frame, and `keeps_frame_bytes`.
    pub update: MoveWindows,
    /// The variable field, if there is one.
    pub varbit: Option<Varbit>,
    /// True if the deparser may copy the header's old bytes.
    pub keeps_frame_bytes: bool,
}

/// The variable field of a header: from byte `offset` on; slot of its length in bits, its bytes in the slots behind.
#[derive(Clone, Debug)]
pub(crate) struct Varbit {
    pub offset: u16,
    pub slot: u16,
    pub limbs: u16,
    /// The fields behind it, as if they began the header.
    pub tail: MoveWindows,
    /// Bytes of these fields.
    pub tail_bytes: u16,
}

type SlotPredicate<'a> = &'a dyn Fn(u16) -> bool;

impl HeaderMoves {
    /// `used`: tests of a slot relative to the block, whether the program reads and whether it writes it. None: all
    /// of them.
    pub fn new(ty: &HeaderType, used: Option<(SlotPredicate, SlotPredicate)>) -> HeaderMoves {
        let used = used.filter(|_| ty.varbit.is_none());
        let mut shape = HeaderMoves {
            bytes: ty.bytes as u16,
            max_bytes: ty.max_bytes as u16,
            extract: MoveWindows::default(),
            update: MoveWindows::default(),
            varbit: None,
            keeps_frame_bytes: used.is_some(),
        };
        let split = ty.varbit.unwrap_or(ty.fields.len());
        for field in &ty.fields[..split] {
            let any = |test: &dyn Fn(u16) -> bool| (field.slot..field.slot + field.limbs).any(test);
            let (read, written) = used.map_or((true, true), |(read, written)| (any(read), any(written)));
            // A field that is written is read too: where it is not written, its old value must come back.
            if read || written {
                add(&mut shape.extract, field, 0);
            }
            if written {
                add(&mut shape.update, field, 0);
            }
        }
        if let Some(index) = ty.varbit {
            let (field, mut tail) = (&ty.fields[index], MoveWindows::default());
            for behind in &ty.fields[index + 1..] {
                add(&mut tail, behind, field.offset);
            }
            shape.varbit = Some(Varbit {
                offset: (field.offset / 8) as u16,
                slot: field.slot,
                limbs: field.limbs,
                tail,
                tail_bytes: (ty.bytes - field.offset / 8) as u16,
            });
        }
        shape
    }
}
