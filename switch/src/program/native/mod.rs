//! Machine code for a program: ingress (parser, checksums, control) is one function, and egress (control, checksums,
//! deparser) another.
//!
//! The operations of the program are the same that the interpreter runs. The compiler specialises them: fields are
//! read from the frame where they are used, slots that nothing reads are not written, actions are inlined where their
//! table is applied, and every offset into the frame is a constant. For operations without code of their own (see
//! `scope::is_left`) it calls the interpreter's functions, or the code returns before it has changed anything
//! ([`EXIT_INTERPRET`]) and the interpreter runs the packet.
//!
//! # What the code may touch
//!
//! The code comes from here and from nowhere else, and reads and writes these pieces of memory:
//!
//! - Slots of the header vector, at constant offsets below the program's number of slots, and the words that a packet
//!   carries, at those below their number.
//! - The frame, at constant offsets: `Emitter::check` notes the highest, whatever the packet says, and the pipeline runs code
//!   only on memory of at least as many bytes ([`Native::frame_room`]). A frame that grows at the front takes free bytes in
//!   front of it if a comparison with their number says that they are enough.
//! - Register cells: an index is compared with the size of its array, or cut to its number of bits if that is a power of
//!   two, and arrays are checked against the memory of all.
//! - Rows of a table: as many words as the table's definition says, which is what the helpers return. Tables with small
//!   keys are looked up without a helper: a key is compared with the number of entries, and an entry has a row. So are
//!   keys that are remembered: of a key, the place among them is a number of as many bits as there are places.
//! - The call, the words of a key and the input of a hash, at constant offsets.
//!
//! The only numbers from the network that become part of an address are indices of registers, and keys of tables.

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

/// The word of a row begins with the number of its action, counted from 1 in the order of [`row_actions`]; 0: no action.
pub(crate) const ROW_ACTION_SHIFT: u32 = 48;
/// Behind it where control goes after the action, at this bit.
pub(crate) const ROW_NEXT_SHIFT: u32 = 16;

/// Functions begin at multiples of this.
const ALIGNMENT: usize = 64;

/// The program, or this host, has no machine code.
#[derive(Clone, Copy, Debug)]
struct Unsupported;

/// The machine code of a program.
#[derive(Debug)]
pub(crate) struct Native {
    /// Tells packets what code the words are for that they carry.
    pub stamp: u32,
    code: Mmap,
    /// Offset of egress; ingress is at offset 0.
    egress: usize,
    /// The slots that a packet carries from ingress to egress, while the header vector stays with the switch.
    pub carried: Vec<Slot>,
    /// Bytes of memory that must begin at the frame.
    pub frame_room: usize,
    /// Points at which the interpreter may go on: after ingress, after ingress that returned [`abi::EXIT_FINISH`], after egress that
    /// did, and after egress that returned [`abi::EXIT_DEPARSE`].
    pub resume_points: [ResumePoint; 4],
}

/// A point at which the interpreter may go on: what the header vector lacks there.
#[derive(Debug)]
pub(crate) struct ResumePoint {
    /// Slots that the packet carries, with their places among [`Native::carried`].
    pub carried: Vec<(usize, Slot)>,
    /// Slots that may hold anything.
    pub undefined: Vec<Slot>,
}

impl Native {
    /// Writes the code of a program; None if that is not possible: on another host, for a program that is too unusual, or
    /// where the system allows no new code.
    pub fn new(program: &Linked, wire: &FrameAccess, helpers: &Helpers) -> Option<Native> {
        #[cfg(all(target_arch = "x86_64", unix))]
        let written = compile::compile_program(program, wire, helpers).ok();
        #[cfg(not(all(target_arch = "x86_64", unix)))]
        let written = None;
        written
    }

    /// Puts two functions where they can be run.
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

    /// Returns the function that runs ingress.
    pub fn ingress(&self) -> *const u8 {
        self.code.as_ptr()
    }

    /// Returns the function that runs egress.
    pub fn egress(&self) -> *const u8 {
        self.code.as_ptr().wrapping_add(self.egress)
    }
}

/// Returns the actions that a table may run, in the order in which rows number them, from 1 on.
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
