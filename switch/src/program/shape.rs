//! How headers are taken from the frame and put back.
//!
//! Most fields of a header are neither read nor written by the program. They stay in the frame: the parser takes
//! what is read, the deparser copies the header's old bytes and overlays what may have been written.

use super::layout::{Field, HeaderType};

/// Moves a piece of a field between frame and slot: `bits` bits of the big-endian 64-bit word at byte `offset`,
/// `shift` above its end, to the slot's bits from `drop` up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub offset: u16,
    /// Relative to the header's block.
    pub slot: u16,
    pub bits: u8,
    pub shift: u8,
    pub drop: u8,
}

/// The moves of a list of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moves {
    /// Whole slots.
    pub whole: Vec<Move>,
    /// The second pieces of slots that reach over nine bytes.
    pub rest: Vec<Move>,
}

impl Moves {
    fn add(&mut self, field: &Field, origin: u32) {
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
            self.whole.push(piece(low, bits.min(room), bits.saturating_sub(room), slot));
            if bits > room {
                self.rest.push(piece(low + room, bits - room, 0, slot));
            }
        }
    }
}

fn piece(begin: u32, bits: u32, drop: u32, slot: u16) -> Move {
    Move {
        offset: (begin / 8) as u16,
        slot,
        bits: bits as u8,
        shift: (64 - begin % 8 - bits) as u8,
        drop: drop as u8,
    }
}

/// How one header is taken from the frame and put back.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Bytes without the variable field.
    pub bytes: u16,
    /// Most bytes with it; 0 for no limit.
    pub max_bytes: u16,
    /// What the parser takes, and what the deparser writes of a header that the program made.
    pub reads: Moves,
    /// What the deparser overlays if the header came from this frame, and `lazy`.
    pub writes: Moves,
    /// The variable field, if there is one.
    pub varbit: Option<Varbit>,
    /// Whether the old bytes may be used at all.
    pub lazy: bool,
}

/// The variable field of a header: from byte `offset` on; slot of its length in bits, its bytes in the slots behind.
#[derive(Clone, Debug)]
pub(crate) struct Varbit {
    pub offset: u16,
    pub slot: u16,
    pub limbs: u16,
    /// The fields behind it, as if they began the header.
    pub tail: Moves,
    /// How many bytes they take.
    pub tail_bytes: u16,
}

impl Shape {
    /// `read` and `written` tell of a slot relative to the block whether the program does so; None: all of them.
    pub fn new(ty: &HeaderType, used: Option<(&dyn Fn(u16) -> bool, &dyn Fn(u16) -> bool)>) -> Shape {
        let used = used.filter(|_| ty.varbit.is_none());
        let mut shape = Shape {
            bytes: ty.bytes as u16,
            max_bytes: ty.max_bytes as u16,
            reads: Moves::default(),
            writes: Moves::default(),
            varbit: None,
            lazy: used.is_some(),
        };
        let split = ty.varbit.unwrap_or(ty.fields.len());
        for field in &ty.fields[..split] {
            let any = |test: &dyn Fn(u16) -> bool| (field.slot..field.slot + field.limbs).any(test);
            let (read, written) = used.map_or((true, true), |(read, written)| (any(read), any(written)));
            // A field that is written is read too: where it is not written, its old value must come back.
            if read || written {
                shape.reads.add(field, 0);
            }
            if written {
                shape.writes.add(field, 0);
            }
        }
        if let Some(index) = ty.varbit {
            let (field, mut tail) = (&ty.fields[index], Moves::default());
            for behind in &ty.fields[index + 1..] {
                tail.add(behind, field.offset);
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
