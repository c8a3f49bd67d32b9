//! The compiled engine: machine code for a program. Ingress (parser, checksums, control) is one function, and
//! egress (control, checksums, deparser) another.
//!
//! The code is generated from the same bytecode that the interpreter runs. The compiler specialises it: fields are read
//! from the frame where they are used, slots (64-bit words of the header vector) that no operation reads are not
//! written, actions are inlined where their table is applied, and every offset into the frame is a constant. For
//! operations without machine code of their own (see `slot_storage::needs_helper`) the code calls helpers, which are
//! functions of the interpreter, or it returns [`EXIT_INTERPRET`] before it has changed anything and the interpreter
//! runs the packet.
//!
//! # What the code may touch
//!
//! The code is generated in this module only, and accesses these pieces of memory:
//!
//! - Slots of the header vector, and bridged words (the slots that pass from ingress to egress), at constant offsets
//!   below the number of slots or bridged words.
//! - The frame, at constant offsets. `Emitter::frame_offset` records the highest, which does not depend on
//!   the packet, and the pipeline runs code only on memory of at least as many bytes
//!   ([`Native::frame_room`]). A frame that grows at the front uses the headroom only after a comparison with
//!   its size.
//! - Register cells. An index is compared with the size of its array, or masked if the size is a power of
//!   two, and arrays are checked against the memory of all registers.
//! - Rows of a table, one for each entry: a word with the action and the next node, and the words of the longest action
//!   arguments. Rows that helpers return have this length. Small keys are looked up without a helper: a key is
//!   compared with the number of entries, and every entry has a row. The index of a key cache slot is the upper bits
//!   of a hash, exactly as many as the number of slots needs.
//! - The [`CallFrame`], the words of a key and the input of a hash, at constant offsets.
//!
//! The only numbers from the network that become part of an address are indices of registers, bytes of the
//! input of a CRC, and keys of tables.

mod abi;
mod code;
#[cfg(all(target_arch = "x86_64", unix))]
mod code_worklist;
#[cfg(all(target_arch = "x86_64", unix))]
mod compile;
#[cfg(all(target_arch = "x86_64", unix))]
mod emitter;
mod key_cache;
#[cfg(all(target_arch = "x86_64", unix))]
mod lower_deparser;
#[cfg(all(target_arch = "x86_64", unix))]
mod lower_ops;
#[cfg(all(target_arch = "x86_64", unix))]
mod lower_parser;
#[cfg(all(target_arch = "x86_64", unix))]
mod slot_storage;

pub(crate) use abi::{
    CallFrame, CrcTables, DIRECT_KEY_BITS, EXIT_ACTION_LOOP, EXIT_ASSERTION, EXIT_DEPARSE, EXIT_DROP,
    EXIT_INTERPRET, EXIT_MULTICAST, EXIT_PARSER_LOOP, EXIT_SEND, EXIT_UNICAST, Helpers, INPUTS, LookupResult,
    MAX_KEY_WORDS, NativeInput, NativeTable, ROW_ACTION_SHIFT, ROW_NEXT_SHIFT, row_actions,
};
pub(crate) use code::Native;
pub(crate) use key_cache::KeyCacheFormat;

use super::frame_access::FrameAccess;
use super::link::LinkedProgram;

impl Native {
    /// Generates the code of a program. Returns `None` if that is not possible: the host is not x86-64 Unix, the
    /// program has an operation or layout that is not supported, or the system forbids new executable memory.
    pub(crate) fn new(
        program: &LinkedProgram,
        frame_access: &FrameAccess,
        helpers: &Helpers,
    ) -> Option<Native> {
        #[cfg(all(target_arch = "x86_64", unix))]
        let native = compile::compile_program(program, frame_access, helpers).ok();
        #[cfg(not(all(target_arch = "x86_64", unix)))]
        let native = None;
        native
    }
}
