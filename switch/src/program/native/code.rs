//! The machine code of a program in executable memory.

use crate::program::layout::next_layout_id;
use crate::program::op::Slot;
use memmap2::{Mmap, MmapMut};

/// Alignment of a function, in bytes: one cache line.
const ALIGNMENT: usize = 64;

/// The error of code generation: the program uses a feature without machine code, or the system refuses executable
/// memory. The interpreter then runs everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsupported;

/// The machine code of a program.
#[derive(Debug)]
pub(crate) struct Native {
    /// Identifies the layout of the bridged words. Only the code that stored a packet's words may load them.
    pub layout_id: u32,
    code: Mmap,
    /// Offset of egress in `code` in bytes; ingress is at offset 0.
    egress_offset: usize,
    /// The bridged slots: the packet takes their values from ingress to egress, one word each in this order. The
    /// header vector stays with the switch.
    pub bridged: Vec<Slot>,
    /// Number of bytes that must be accessible at the frame's address, even if the frame is shorter.
    pub frame_room: usize,
    /// The points at which the interpreter may continue, in this order: after a completed ingress; after ingress that
    /// returned [`EXIT_FINISH`](super::abi::EXIT_FINISH); after egress that returned the same; after egress that
    /// returned [`EXIT_DEPARSE`](super::abi::EXIT_DEPARSE).
    pub resume_points: [ResumePoint; 4],
}

/// A point at which the interpreter may continue, with the slots that the header vector lacks there.
#[derive(Debug)]
pub(crate) struct ResumePoint {
    /// Slots to copy from the bridged words, each with the index of its word in [`Native::bridged`].
    pub bridged: Vec<(usize, Slot)>,
    /// Slots with undefined contents, to be zeroed or loaded from the frame.
    pub undefined: Vec<Slot>,
}

impl Native {
    /// Copies the two functions to executable memory.
    #[cfg_attr(not(all(target_arch = "x86_64", unix)), expect(dead_code))]
    pub(super) fn load(
        ingress: &[u8],
        egress: &[u8],
        bridged: Vec<Slot>,
        frame_room: usize,
        resume_points: [ResumePoint; 4],
    ) -> Result<Native, Unsupported> {
        let start = ingress.len().next_multiple_of(ALIGNMENT);
        let mut memory = MmapMut::map_anon(start + egress.len()).map_err(|_| Unsupported)?;
        memory[..ingress.len()].copy_from_slice(ingress);
        memory[start..].copy_from_slice(egress);
        // W^X: the memory is never writable and executable at once. Systems that forbid executable anonymous
        // memory make this fail; the interpreter then runs everything.
        let code = memory.make_exec().map_err(|_| Unsupported)?;
        Ok(Native {
            layout_id: next_layout_id(),
            code,
            egress_offset: start,
            bridged,
            frame_room,
            resume_points,
        })
    }

    /// Returns the address of the ingress function.
    pub(crate) fn ingress(&self) -> *const u8 {
        self.code.as_ptr()
    }

    /// Returns the address of the egress function.
    pub(crate) fn egress(&self) -> *const u8 {
        self.code.as_ptr().wrapping_add(self.egress_offset)
    }
}
