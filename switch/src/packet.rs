//! A frame inside the switch, and the pool of packets.

use crate::prefetch::{CACHE_LINE, prefetch};
use std::fmt;
use std::ops::{Deref, DerefMut, Range};

/// Free bytes before a short frame, so that headers can grow without moving the payload. With 66 bytes of
/// headers and up to 40 bytes of telemetry before them, a Weir frame lies in two cache lines.
const HEADROOM: usize = 104;
/// Free bytes before a longer frame, such as an acknowledgement with telemetry: its headers fill two cache
/// lines from the start.
const SHORT_HEADROOM: usize = CACHE_LINE;
/// Cache lines that the headers of a packet usually take.
const HEADER_LINES: usize = 2;
/// Bytes of memory after every frame, so that a header can be read in windows of this size.
pub(crate) const SLACK: usize = 72;
/// Bytes of memory inside every packet, in whole cache lines. Headers of up to 184 bytes fit: all of Weir's
/// except lists of senders, policies, and telemetry of many hops. More would cost time, because address
/// translation for thousands of packets takes as long as the cache misses on their contents.
const INLINE_LEN: usize = 5 * CACHE_LINE;

/// The bytes of a frame with headroom for growth, and a virtual tail, which counts in the length but is not
/// stored. The virtual tail reads as zeros.
///
/// Used as `Box<Packet>` and recycled through a [`PacketPool`], so that the steady state allocates nothing.
/// The frame is in the same box as the fields, and the fields are in the first cache line, so that all lines
/// that a hop needs follow from one address.
#[repr(C, align(64))]
pub struct Packet {
    start: u32,
    end: u32,
    virtual_len: u32,
    /// The priority class in which the packet was sent, like the PCP bits of an IEEE 802.1Q tag; `None` if
    /// the sender gave none.
    pub class: Option<u8>,
    /// True after a resubmit or recirculate, which has prepared the metadata: ingress must keep it.
    pub(crate) reentered: bool,
    /// Whether the frame is in `large` instead of `memory`.
    is_large: bool,
    pub(crate) phv: Phv,
    /// Memory for a longer frame; kept for the next one when it is not in use.
    large: Option<Box<[u8]>>,
    memory: [u8; INLINE_LEN],
}

const _: () = assert!(std::mem::offset_of!(Packet, memory) == CACHE_LINE, "the other fields are in one line");

/// The packet header vector (PHV): the pipeline's state of a packet beyond its bytes.
#[derive(Clone, Default)]
pub(crate) struct Phv {
    /// Fields, validity, stack counters, temporaries and constants, in the layout of the program.
    pub slots: SlotVec,
    /// Bridged words: the slots that egress reads, in the layout of the machine code that ran ingress. Other
    /// fields are still in the frame. Empty if ingress was interpreted.
    pub bridged: SlotVec,
    /// Bytes that the parser consumed; the deparser replaces them.
    pub parsed: u32,
    /// BMv2's packet register 0: the ingress length, adjusted when headers are added or removed.
    pub length: u32,
    /// BMv2's `ingress_length`: the bytes that counters and byte meters count.
    pub ingress_length: u32,
    /// `truncate(n)`: the most bytes of the frame that are sent; `u32::MAX` for no limit. As in BMv2, clones,
    /// replicas and re-entering packets start without a limit.
    pub truncate: u32,
}

/// The slots of a header vector, or bridged words; both are optional. A packet on a link has neither, and a
/// packet in a queue usually has only bridged words.
#[derive(Clone, Default)]
pub(crate) struct SlotVec(Option<Box<SlotStorage>>);

#[derive(Clone)]
struct SlotStorage {
    /// Identifies the layout of `words`: for slots `Program::layout_id`, for bridged words `Native::layout_id`.
    layout_id: u32,
    words: Box<[u64]>,
}

impl SlotVec {
    /// Creates slots with this layout id.
    pub(crate) fn new(layout_id: u32, words: Vec<u64>) -> SlotVec {
        SlotVec(Some(Box::new(SlotStorage { layout_id, words: words.into_boxed_slice() })))
    }

    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether the slots exist and have this layout id.
    #[inline]
    pub(crate) fn has_layout(&self, layout_id: u32) -> bool {
        self.0.as_ref().is_some_and(|slots| slots.layout_id == layout_id)
    }

    /// Frees the slots. Out of line: only a packet that was dropped between ingress and egress still has any
    /// when it is used again.
    #[cold]
    #[inline(never)]
    fn free(&mut self) {
        self.0 = None;
    }

    /// Removes and returns the slots.
    #[inline]
    pub(crate) fn take(&mut self) -> SlotVec {
        SlotVec(self.0.take())
    }

    /// Stores `slots`; there must be none yet.
    #[inline(always)]
    pub(crate) fn replace_none(&mut self, slots: SlotVec) {
        debug_assert!(self.is_none());
        // The old value is forgotten instead of dropped, because the compiler would emit a call to the drop
        // glue.
        std::mem::forget(std::mem::replace(self, slots));
    }
}

impl Deref for SlotVec {
    type Target = [u64];
    #[inline]
    fn deref(&self) -> &[u64] {
        self.0.as_ref().map_or(&[], |slots| &slots.words)
    }
}

impl DerefMut for SlotVec {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u64] {
        self.0.as_mut().map_or(&mut [], |slots| &mut slots.words)
    }
}

impl Default for Packet {
    fn default() -> Packet {
        Packet {
            start: 0,
            end: 0,
            virtual_len: 0,
            class: None,
            reentered: false,
            is_large: false,
            phv: Phv::default(),
            large: None,
            memory: [0; INLINE_LEN],
        }
    }
}

impl Packet {
    /// Creates a packet with a copy of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Box<Packet> {
        let mut packet = Box::<Packet>::default();
        packet.set_bytes(bytes);
        packet
    }

    #[inline]
    fn memory(&self) -> &[u8] {
        if self.is_large { self.large.as_deref().unwrap_or_default() } else { &self.memory }
    }

    #[inline]
    fn memory_mut(&mut self) -> &mut [u8] {
        self.memory_and_phv().0
    }

    #[inline]
    fn memory_and_phv(&mut self) -> (&mut [u8], &mut Phv) {
        let Packet { is_large, large, memory, phv, .. } = self;
        (if *is_large { large.as_deref_mut().unwrap_or_default() } else { memory }, phv)
    }

    /// Returns the memory, after growing it to at least `len` bytes.
    #[inline]
    fn reserve(&mut self, len: usize) -> &mut [u8] {
        if self.memory().len() < len {
            self.grow(len, self.end as usize);
        }
        self.memory_mut()
    }

    /// Moves the frame to `large` with at least `len` bytes, and copies the first `kept` bytes of the memory.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, len: usize, kept: usize) {
        let is_unused = !self.is_large;
        let reusable = self.large.take_if(|large| is_unused && large.len() >= len);
        let mut large = reusable.unwrap_or_else(|| vec![0; len.next_power_of_two()].into_boxed_slice());
        large[..kept].copy_from_slice(&self.memory()[..kept]);
        (self.large, self.is_large) = (Some(large), true);
    }

    /// Returns the range of the frame in the memory.
    #[inline]
    fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Resets the packet to a copy of `bytes`.
    pub fn set_bytes(&mut self, bytes: &[u8]) {
        self.reset(bytes.len(), 0);
        let range = self.range();
        self.memory_mut()[range].copy_from_slice(bytes);
    }

    fn reset(&mut self, len: usize, virtual_len: u32) {
        // The first bytes that a hop reads should lie in two cache lines. A frame whose headers fill both
        // starts at a line and leaves only one line of headroom.
        let fits = HEADROOM + len <= SHORT_HEADROOM + HEADER_LINES * CACHE_LINE;
        let start = if fits { HEADROOM } else { SHORT_HEADROOM };
        (self.start, self.end) = (start as u32, (start + len) as u32);
        self.virtual_len = virtual_len;
        self.class = None;
        (self.reentered, self.is_large) = (false, false);
        if !self.phv.bridged.is_none() {
            self.phv.bridged.free();
        }
        if start + len + SLACK > INLINE_LEN {
            self.grow(start + len + SLACK, 0);
        }
    }

    /// Prefetches the packet's fields and the cache lines that usually hold its headers.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self);
        for line in self.memory[SHORT_HEADROOM..].chunks(CACHE_LINE).take(HEADER_LINES) {
            prefetch(&line[0]);
        }
    }

    /// Returns the stored bytes: the frame without its virtual tail.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory()[self.range()]
    }

    /// Returns the length of [`Packet::bytes`].
    #[inline]
    pub(crate) fn stored_len(&self) -> u32 {
        self.end - self.start
    }

    /// Returns the length of the virtual tail, which counts in the length but is not stored.
    #[inline]
    pub fn virtual_len(&self) -> u32 {
        self.virtual_len
    }

    /// Sets the length of the virtual tail, for senders that learn the length of the payload only after the
    /// headers are written.
    #[inline]
    pub fn set_virtual_len(&mut self, virtual_len: u32) {
        self.virtual_len = virtual_len;
    }

    /// Returns the length of the frame including the virtual tail: P4's `packet_length`.
    #[inline]
    pub fn len(&self) -> u32 {
        self.end - self.start + self.virtual_len
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the frame with its virtual tail as zeros.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = self.bytes().to_vec();
        bytes.resize(self.len() as usize, 0);
        bytes
    }

    /// Copies bytes and header vector of `other`.
    pub fn copy_from(&mut self, other: &Packet) {
        self.copy_bytes_from(other);
        self.reentered = other.reentered;
        self.phv.clone_from(&other.phv);
    }

    /// Resets the packet to the bytes of `other`, without its header vector.
    pub fn copy_bytes_from(&mut self, other: &Packet) {
        self.set_bytes(other.bytes());
        self.virtual_len = other.virtual_len;
    }

    /// Returns the frame followed by [`SLACK`] bytes, the frame's length, and the header vector.
    #[inline]
    pub(crate) fn frame_and_phv(&mut self) -> (&mut [u8], usize, &mut Phv) {
        let range = self.range();
        let (memory, phv) = self.memory_and_phv();
        (&mut memory[range.start..range.end + SLACK], range.len(), phv)
    }

    /// Ensures that the first `len` bytes are stored, taking them from the virtual tail if necessary. Returns
    /// `false` if the frame is shorter.
    #[inline]
    pub(crate) fn materialise(&mut self, len: usize) -> bool {
        len <= self.range().len() || self.materialise_tail(len)
    }

    #[cold]
    fn materialise_tail(&mut self, len: usize) -> bool {
        let Range { start, end } = self.range();
        let missing = start + len - end;
        if missing > self.virtual_len as usize {
            return false;
        }
        // The memory is recycled and holds bytes of earlier packets; the virtual tail reads as zeros.
        self.reserve(start + len + SLACK)[end..start + len].fill(0);
        self.end += missing as u32;
        self.virtual_len -= missing as u32;
        true
    }

    /// Returns the address of the frame, after ensuring that `room` bytes of memory begin there, and the
    /// number of free bytes before it.
    #[inline(always)]
    pub(crate) fn frame_ptr(&mut self, room: usize) -> (*mut u8, u32) {
        let (start, end) = (self.start, self.start as usize + room);
        let memory = if self.is_large || end > INLINE_LEN {
            self.reserve_large(end)
        } else {
            self.memory.as_mut_ptr()
        };
        (memory.wrapping_add(start as usize), start)
    }

    #[cold]
    #[inline(never)]
    fn reserve_large(&mut self, end: usize) -> *mut u8 {
        self.reserve(end).as_mut_ptr()
    }

    /// Extends the frame by `bytes` at the front, into headroom that machine code has already written.
    #[inline]
    pub(crate) fn extend_front(&mut self, bytes: u32) {
        self.start = self.start.saturating_sub(bytes);
    }

    /// Replaces the first `old` bytes with `new` bytes. The first `front` bytes of the frame keep their
    /// contents; the contents of the other new bytes are undefined.
    #[inline]
    pub(crate) fn replace_front(&mut self, old: usize, new: usize, front: usize) {
        if new >= old {
            self.resize_front(old, new);
            let start = self.start as usize;
            self.memory_mut().copy_within(start + new - old..start + new - old + front, start);
        } else {
            let start = self.start as usize;
            self.memory_mut().copy_within(start..start + front, start + old - new);
            self.resize_front(old, new);
        }
    }

    /// Replaces the first `old` bytes with `new` bytes with undefined contents.
    #[inline]
    pub(crate) fn resize_front(&mut self, old: usize, new: usize) {
        let payload = self.start as usize + old;
        if new > payload {
            self.make_headroom(new - old);
        }
        self.start = (self.start as usize + old - new) as u32;
    }

    /// Moves the frame back in memory, so that it can grow by `more` at the front.
    #[cold]
    fn make_headroom(&mut self, more: usize) {
        let (range, start) = (self.range(), more + HEADROOM);
        let end = start + range.len();
        self.reserve(end + SLACK).copy_within(range, start);
        (self.start, self.end) = (start as u32, end as u32);
    }

    /// Inverts a bit of the stored bytes. A bit beyond them has no effect.
    pub fn invert_bit(&mut self, bit: usize) {
        let range = self.range();
        if let Some(byte) = self.memory_mut()[range].get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }

    /// Truncates the frame to at most `len` bytes.
    pub fn truncate(&mut self, len: u32) {
        let kept = (self.end - self.start).min(len);
        self.end = self.start + kept;
        self.virtual_len = self.virtual_len.min(len - kept);
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.bytes() {
            write!(f, "{byte:02x}")?;
        }
        match self.virtual_len {
            0 => Ok(()),
            n => write!(f, "+{n}"),
        }
    }
}

/// A pool of free packets.
#[derive(Debug, Default)]
// The pool recycles the boxes; a packet never moves in memory.
#[allow(clippy::vec_box)]
pub struct PacketPool {
    free: Vec<Box<Packet>>,
}

impl PacketPool {
    /// The most packets that a pool keeps, about 1.6 MB. Without a bound the pool of a switch where multicast
    /// copies end would grow forever.
    pub const MAX_FREE: usize = 4_096;

    pub fn new() -> PacketPool {
        PacketPool::default()
    }
    /// Returns a packet with undefined contents: reset it with [`Packet::set_bytes`] or copy to it before
    /// use.
    pub fn get(&mut self) -> Box<Packet> {
        self.free.pop().unwrap_or_default()
    }
    /// Returns a packet to the pool, or frees it if the pool has [`Self::MAX_FREE`] packets.
    pub fn put(&mut self, packet: Box<Packet>) {
        if self.free.len() < Self::MAX_FREE {
            self.free.push(packet);
        }
    }
    /// Returns a copy of `packet` with its bytes and header vector.
    pub fn copy(&mut self, packet: &Packet) -> Box<Packet> {
        let mut copy = self.get();
        copy.copy_from(packet);
        copy
    }
    pub fn len(&self) -> usize {
        self.free.len()
    }
    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_only_receives_packets_is_bounded() {
        let (mut source, mut sink) = (PacketPool::new(), PacketPool::new());
        let packet = Packet::from_bytes(&[1, 2, 3]);
        for _ in 0..2 * PacketPool::MAX_FREE {
            sink.put(source.copy(&packet));
        }
        assert_eq!((source.len(), sink.len()), (0, PacketPool::MAX_FREE));
    }

    /// The memory of a large frame is kept, but only large frames use it.
    #[test]
    fn a_packet_is_reused_for_frames_of_all_sizes() {
        let bytes: Vec<u8> = (0..=255).cycle().take(2_000).collect();
        let mut packet = PacketPool::new().get();
        for len in [60, 184, 185, 100, 1_500, 2_000, 300, 0] {
            packet.set_bytes(&bytes[..len]);
            assert_eq!((packet.bytes(), packet.is_large), (&bytes[..len], len > 184), "{len}");
            packet.resize_front(len / 2, len / 2 + 300);
            assert_eq!(packet.bytes()[len / 2 + 300..], bytes[len / 2..len], "{len}");
            packet.set_virtual_len(500);
            assert!(packet.materialise(len + 800));
            assert_eq!(packet.bytes()[len + 300..], [0; 500], "{len}");
        }
    }

    #[test]
    fn grows_and_shrinks_at_the_front() {
        let mut packet = Packet::from_bytes(&[1, 2, 3, 4]);
        packet.resize_front(2, 4);
        assert_eq!((packet.len(), &packet.bytes()[4..]), (6, &[3u8, 4][..]));
        packet.resize_front(4, 1000);
        assert_eq!((packet.len(), &packet.bytes()[1000..]), (1002, &[3u8, 4][..]));
        packet.resize_front(1000, 0);
        assert_eq!(packet.bytes(), [3, 4]);
    }

    #[test]
    fn replace_front_keeps_the_first_bytes_and_the_payload() {
        let bytes: Vec<u8> = (0..100).collect();
        for (front, old, new) in
            [(0, 0, 8), (66, 66, 74), (66, 66, 67), (34, 66, 66), (16, 20, 44), (50, 60, 58)]
        {
            let mut packet = Packet::from_bytes(&bytes);
            packet.replace_front(old, new, front);
            assert_eq!(packet.bytes()[..front], bytes[..front], "{front} {old} {new}");
            assert_eq!(packet.bytes()[new..], bytes[old..], "{front} {old} {new}");
        }
    }

    #[test]
    fn virtual_tail_reads_as_zeros() {
        let mut packet = PacketPool::new().get();
        packet.set_bytes(&[7, 8]);
        packet.set_virtual_len(100);
        assert_eq!((packet.bytes(), packet.len()), (&[7u8, 8][..], 102));
        assert!(packet.materialise(4));
        assert_eq!((packet.bytes(), packet.len(), packet.virtual_len()), (&[7u8, 8, 0, 0][..], 102, 98));
        assert!(!packet.materialise(103));
        let with_tail = packet.to_vec();
        packet.truncate(3);
        assert_eq!((packet.to_vec(), with_tail.len()), (vec![7, 8, 0], 102));
        packet.truncate(50);
        assert_eq!(packet.len(), 3);
    }
}
