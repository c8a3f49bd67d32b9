//! The binary interface between machine code and the pipeline.

use crate::program::hash::Algorithm;
use crate::program::link::LinkedProgram;
use crate::program::signatures::ActionId;
use crate::program::table::Table;
use std::array::from_fn;
use std::mem::MaybeUninit;

/// Code accesses only the first bytes of a frame, at most this many.
/// [`Native::frame_room`](super::Native::frame_room) is the bound for one program. Both hold for frames of any
/// length: the memory behind a short frame must be accessible.
pub(crate) const MAX_FRAME_ACCESS: usize = 512;

/// Maximum length of a table key in words that machine code can build.
pub(crate) const MAX_KEY_WORDS: usize = 16;

/// The values that the pipeline passes to machine code, as indices of [`CallFrame::inputs`].
#[derive(Clone, Copy)]
pub(crate) enum NativeInput {
    /// The ingress port in ingress, the egress port in egress.
    Port,
    PacketLength,
    /// The time in ticks of the pipeline's clock.
    Now,
    DropPort,
    EnqTimestamp,
    EnqDepth,
    DeqTimedelta,
    DeqDepth,
    Qid,
    /// The egress replication id of a multicast copy.
    Rid,
}

/// The number of [`NativeInput`]s.
pub(crate) const INPUTS: usize = 10;

/// Pointers to one table for machine code, valid until the table changes. Code looks up a key of one word in
/// `entries` if it is below `len`, then in the key cache, and then with a helper. Every entry is a valid index
/// into the rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NativeTable {
    /// Address of the entries of all keys below `len`, as 32-bit integers.
    pub entries: usize,
    /// Number of `entries`; 0 if the table has none.
    pub len: u64,
    /// Address of the rows, indexed by entry.
    pub rows: usize,
    /// Address of the table's key cache, see [`KeyCacheFormat`](super::KeyCacheFormat).
    pub key_cache: usize,
}

/// For exact tables with keys up to this width, [`NativeTable::entries`] has every key that has an entry: a
/// key that is not below [`NativeTable::len`] misses.
pub(crate) const DIRECT_KEY_BITS: u32 = 8;

/// The arguments of machine code, which it addresses at constant offsets. Pointers are valid for the duration of the
/// call.
#[repr(C)]
pub(crate) struct CallFrame {
    /// The header vector, with exactly as many slots as the program's `capacity`.
    pub slots: *mut u64,
    /// The bridged words, one for each slot of [`Native::bridged`](super::Native::bridged). Ingress writes
    /// them, egress reads them.
    pub bridged: *mut u64,
    /// The frame: at least [`Native::frame_room`](super::Native::frame_room) bytes of memory, whatever its
    /// length.
    pub frame: *mut u8,
    /// Length of the stored part of the frame in bytes. A frame may end with a virtual tail: bytes that are counted but
    /// not stored.
    pub len: u64,
    /// Free bytes before the frame.
    pub headroom: u64,
    /// Bytes of `headroom` that the deparser has used for new headers.
    pub headroom_used: u64,
    /// The cells of all register arrays.
    pub registers: *mut u64,
    /// Number of bytes that the parser consumed; set by ingress, read by egress.
    pub parsed: u64,
    /// The packet's length in bytes, adjusted when headers become valid or invalid: BMv2's packet register 0.
    pub length: u32,
    /// Register writes beyond the end of an array go here, so that they need no branch.
    pub discard: u64,
    /// One for each table of the program.
    pub tables: *const NativeTable,
    /// [`MAX_KEY_WORDS`] words, in which code passes a key to [`Helpers::lookup_key`].
    pub key: *mut u64,
    /// [`MAX_HASH_BYTES`](crate::program::MAX_HASH_BYTES) bytes, in which code passes the input to
    /// [`Helpers::digest`].
    pub bytes: *mut u8,
    /// Indexed by [`NativeInput`]. Ingress reads those up to [`NativeInput::DropPort`], egress all.
    pub inputs: [MaybeUninit<u64>; INPUTS],
}

/// The bit of a row's first word at which the index of its action begins: counted from 1 in the order of
/// [`row_actions`], 0 for no action.
pub(crate) const ROW_ACTION_SHIFT: u32 = 48;

/// The bit of a row's first word at which the address of the next node begins.
pub(crate) const ROW_NEXT_SHIFT: u32 = 16;

/// Returns the actions that a table may run, in the order of the action indices in its rows (see
/// [`ROW_ACTION_SHIFT`]).
pub(crate) fn row_actions(program: &LinkedProgram, table: &Table) -> Vec<ActionId> {
    let mut actions = table.info.actions.clone();
    let defaults = table.default.iter().map(|(action, _)| *action);
    let others = defaults.chain(table.entries.iter().map(|entry| entry.action));
    let members = table.profile.iter().flat_map(|profile| program.profile_actions(usize::from(*profile)));
    for action in others.chain(members) {
        if !actions.contains(&action) {
            actions.push(action);
        }
    }
    actions
}

/// The result of a lookup: the index of the matched entry (0 for a miss) and the address of its row. A row is a word
/// with action and next node (see [`ROW_ACTION_SHIFT`]), followed by the action's arguments.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LookupResult {
    pub words: *const u64,
    pub entry: u64,
}

/// Lookup tables for a CRC of short inputs. The CRC of an input is the CRC of as many zero bytes, XORed with the
/// contribution of each byte.
pub(crate) struct CrcTables {
    /// The CRC of zero bytes, indexed by their number.
    pub zeros: [u32; CrcTables::MAX_BYTES + 1],
    /// The contribution of a byte, indexed by the number of bytes that follow it, then by the byte's value.
    pub byte_contributions: [[u32; 256]; CrcTables::MAX_BYTES],
}

impl CrcTables {
    /// Maximum length of the input. The usual key for IPv6 flows (addresses, ports, protocol) has 37 bytes. Each byte
    /// costs a table of 1 KiB, which competes for the L1 cache.
    pub(crate) const MAX_BYTES: usize = 40;

    /// Computes the tables of a CRC function.
    pub(crate) fn from_crc<W: Into<u32>>(crc: impl Fn(&[u8]) -> W) -> Box<CrcTables> {
        let mut bytes = [0; CrcTables::MAX_BYTES];
        let zeros = from_fn(|len| crc(&bytes[..len]).into());
        let mut crc_tables =
            Box::new(CrcTables { zeros, byte_contributions: [[0; 256]; CrcTables::MAX_BYTES] });
        for (following, contributions) in crc_tables.byte_contributions.iter_mut().enumerate() {
            for (byte, contribution) in (0..=u8::MAX).zip(contributions) {
                bytes[0] = byte;
                *contribution = crc(&bytes[..=following]).into() ^ zeros[following + 1];
            }
        }
        crc_tables
    }
}

/// Addresses of the functions that code calls. Each takes the address of the [`CallFrame`] and the arguments
/// named in its comment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Helpers {
    /// Looks up a key of one word. Arguments: table, key. Returns a [`LookupResult`].
    pub lookup_word: usize,
    /// Looks up the key at [`CallFrame::key`] in any table. Argument: table. Returns a [`LookupResult`].
    pub lookup_key: usize,
    /// Returns the value of a calculation over slots. Argument: calculation.
    pub hash: usize,
    /// Returns the value of a calculation over the bytes at [`CallFrame::bytes`]. Arguments: calculation,
    /// number of bytes.
    pub digest: usize,
    /// Returns the tables of a CRC, which code reads inline; `None` for algorithms that have none,
    /// or whose parameters change at run time.
    pub crc_tables: fn(Algorithm) -> Option<&'static CrcTables>,
    /// Executes a bytecode operation that has no machine code. Argument: its address.
    pub exec_op: usize,
    /// Counts the packet in a counter. Arguments: array, index.
    pub count_packet: usize,
    /// Makes room for new headers. Arguments: bytes at the front of the frame that keep their contents, bytes of
    /// all headers afterwards. Returns the frame's address, at which
    /// [`Native::frame_room`](super::Native::frame_room) bytes are accessible again.
    pub grow_front: usize,
}

// Exit codes: the lowest byte of the return value of machine code.

/// Nothing was changed; the interpreter runs the packet from the start.
pub(crate) const EXIT_INTERPRET: u64 = 0;
/// The control (ingress or egress) has run. Every slot that is not bridged is in the header vector. The pipeline does
/// the rest: clone, digest, resubmit or recirculate, verdict, deparser.
pub(crate) const EXIT_FINISH: u64 = 1;
/// The packet goes to the port in bits 16 to 31 of the return value, with the priority class in bits 8 to 15.
pub(crate) const EXIT_UNICAST: u64 = 2;
/// The packet is dropped.
pub(crate) const EXIT_DROP: u64 = 3;
/// Egress has deparsed the packet; its bytes are ready to send.
pub(crate) const EXIT_SEND: u64 = 4;
/// The packet goes to the multicast group in bits 16 to 31, with the priority class in bits 8 to 15.
pub(crate) const EXIT_MULTICAST: u64 = 5;
/// Same as [`EXIT_FINISH`] after egress, but no clone or recirculation is pending, so only the slots that the
/// deparser and the verdict read were stored.
pub(crate) const EXIT_DEPARSE: u64 = 6;
/// The parser exceeded [`LOOP_BUDGET`](crate::program::LOOP_BUDGET).
pub(crate) const EXIT_PARSER_LOOP: u64 = 7;
/// An action exceeded [`LOOP_BUDGET`](crate::program::LOOP_BUDGET).
pub(crate) const EXIT_ACTION_LOOP: u64 = 8;
/// An assertion failed.
pub(crate) const EXIT_ASSERTION: u64 = 9;
