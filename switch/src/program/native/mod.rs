//! The compiled engine: machine code for a program. Ingress (parser, checksums, control) is one function, and
//! egress (control, checksums, deparser) another.
//!
//! The code is generated from the same operations that the interpreter runs. The compiler specialises them:
//! fields are read from the frame where they are used, slots that no operation reads are not written, actions
//! are inlined where their table is applied, and every offset into the frame is a constant. For operations
//! without machine code of their own (see `slot_storage::needs_helper`) the code calls helpers of the
//! interpreter, or it returns before it has changed anything ([`EXIT_INTERPRET`]) and the interpreter runs
//! the packet.
//!
//! # What the code may touch
//!
//! The code is generated in this module only, and accesses these pieces of memory:
//!
//! - Slots of the header vector and bridged words, at constant offsets below the program's number of slots
//!   and the number of bridged words.
//! - The frame, at constant offsets. `Emitter::frame_offset` records the highest, which does not depend on
//!   the packet, and the pipeline runs code only on memory of at least as many bytes
//!   ([`Native::frame_room`]). A frame that grows at the front uses the headroom only after a comparison with
//!   its size.
//! - Register cells. An index is compared with the size of its array, or masked if the size is a power of
//!   two, and arrays are checked against the memory of all registers.
//! - Rows of a table: as many words as the table's definition states, which is the length that helpers
//!   return. Tables with small keys are looked up without a helper: a key is compared with the number of
//!   entries, and every entry has a row. The key cache is addressed by a hash of as many bits as it has
//!   slots.
//! - The call, the words of a key and the input of a hash, at constant offsets.
//!
//! The only numbers from the network that become part of an address are indices of registers, bytes of the
//! input of a CRC, and keys of tables.

mod abi;
#[cfg(all(target_arch = "x86_64", unix))]
mod compile;
#[cfg(all(target_arch = "x86_64", unix))]
mod emitter;
#[cfg(all(target_arch = "x86_64", unix))]
mod lower_deparser;
#[cfg(all(target_arch = "x86_64", unix))]
mod lower_ops;
#[cfg(all(target_arch = "x86_64", unix))]
mod lower_parser;
#[cfg(all(target_arch = "x86_64", unix))]
mod slot_storage;

pub(crate) use abi::{
    ACTION_LOOP, CallFrame, CrcTables, DIRECT_KEY_BITS, DROP, EXIT_DEPARSE, EXIT_INTERPRET, EXIT_SEND,
    Helpers, INPUTS, KeyCacheFormat, LookupResult, MAX_KEY_WORDS, MULTICAST, NativeInput, NativeTable,
    PARSER_LOOP, UNICAST,
};

use super::frame_access::FrameAccess;
use super::link::Linked;
use super::op::Slot;
use super::table::Table;
use super::{ActionId, next_layout_id};
use memmap2::{Mmap, MmapMut};

/// The bit of a row's first word at which the index of its action begins: counted from 1 in the order of
/// [`row_actions`], 0 for no action.
pub(crate) const ROW_ACTION_SHIFT: u32 = 48;
/// The bit of a row's first word at which the address of the next node begins.
pub(crate) const ROW_NEXT_SHIFT: u32 = 16;

/// Alignment of a function, in bytes: one cache line.
const ALIGNMENT: usize = 64;

/// The error of code generation: the program uses a feature that is not compiled, or the host is not x86-64
/// Unix. The interpreter then runs everything.
#[derive(Clone, Copy, Debug)]
struct Unsupported;

/// The machine code of a program.
#[derive(Debug)]
pub(crate) struct Native {
    /// Identifies the layout of the bridged words. Only the code that stored a packet's words may load them.
    pub stamp: u32,
    code: Mmap,
    /// Offset of egress; ingress is at offset 0.
    egress: usize,
    /// The bridged slots: their values travel with the packet from ingress to egress, one word each in this
    /// order, while the header vector stays with the switch.
    pub carried: Vec<Slot>,
    /// Bytes of memory that must be accessible at the frame's address, whatever the frame's length.
    pub frame_room: usize,
    /// Points at which the interpreter may continue: after ingress, after ingress that returned
    /// [`abi::EXIT_FINISH`], after egress that did, and after egress that returned [`abi::EXIT_DEPARSE`].
    pub resume_points: [ResumePoint; 4],
}

/// A point at which the interpreter may continue, with the slots that the header vector lacks there.
#[derive(Debug)]
pub(crate) struct ResumePoint {
    /// Slots to copy from the bridged words, each with the index of its word in [`Native::carried`].
    pub carried: Vec<(usize, Slot)>,
    /// Slots with undefined contents, to be zeroed or loaded from the frame.
    pub undefined: Vec<Slot>,
}

impl Native {
    /// Generates the code of a program. Returns `None` if that is not possible: on another host, for a
    /// program with an operation or layout that is not supported, or where the system forbids new executable
    /// memory.
    pub fn new(program: &Linked, wire: &FrameAccess, helpers: &Helpers) -> Option<Native> {
        #[cfg(all(target_arch = "x86_64", unix))]
        let written = compile::compile_program(program, wire, helpers).ok();
        #[cfg(not(all(target_arch = "x86_64", unix)))]
        let written = None;
        written
    }

    /// Copies the two functions to executable memory.
    #[cfg_attr(not(all(target_arch = "x86_64", unix)), expect(dead_code))]
    fn load(
        ingress: &[u8],
        egress: &[u8],
        carried: Vec<Slot>,
        room: usize,
        points: [ResumePoint; 4],
    ) -> Result<Native, Unsupported> {
        let start = ingress.len().next_multiple_of(ALIGNMENT);
        let mut memory = MmapMut::map_anon(start + egress.len()).map_err(|_| Unsupported)?;
        memory[..ingress.len()].copy_from_slice(ingress);
        memory[start..].copy_from_slice(egress);
        // W^X: the memory is never writable and executable at once. Systems that forbid executable anonymous
        // memory make this fail; the interpreter then runs everything.
        let code = memory.make_exec().map_err(|_| Unsupported)?;
        Ok(Native {
            stamp: next_layout_id(),
            code,
            egress: start,
            carried,
            frame_room: room,
            resume_points: points,
        })
    }

    /// Returns the address of the ingress function.
    pub fn ingress(&self) -> *const u8 {
        self.code.as_ptr()
    }

    /// Returns the address of the egress function.
    pub fn egress(&self) -> *const u8 {
        self.code.as_ptr().wrapping_add(self.egress)
    }
}

/// Returns the actions that a table may run, in the order in which rows number them from 1 on.
pub(crate) fn row_actions(program: &Linked, table: &Table) -> Vec<ActionId> {
    let mut choices = table.info.actions.clone();
    let others = table.default.iter().map(|(action, _)| *action);
    let others = others.chain(table.entries.iter().map(|entry| entry.action));
    let members = table.profile.iter().flat_map(|profile| program.profile_actions(usize::from(*profile)));
    for action in others.chain(members) {
        if !choices.contains(&action) {
            choices.push(action);
        }
    }
    choices
}
