//! A frame inside the switch, and the pool its box comes from.

use crate::prefetch::{CACHE_LINE, prefetch};
use std::fmt;
use std::ops::{Deref, DerefMut, Range};

/// Free bytes kept in front of a frame, so that headers can grow without moving the payload. With 66 bytes of headers behind
/// and up to 40 of telemetry, a frame of Weir's is in two cache lines.
const HEADROOM: usize = 104;
/// Free bytes in front of a frame that has more headers from the beginning, as acknowledgements with telemetry have: it
/// begins with the first of these lines.
const SHORT_HEADROOM: usize = CACHE_LINE;
/// Lines that headers of one packet take, mostly.
const HEADER_LINES: usize = 2;
/// The memory has this many bytes behind the frame, so that a header can be looked at in windows of this size.
pub(crate) const SLACK: usize = 72;
/// Bytes of memory that every packet has: whole lines. Headers of up to 184 bytes fit, which are all of Weir's but lists of
/// senders, policies, and telemetry of many hops. More would cost time: translating the addresses of thousands of packets
/// takes as long as waiting for their contents.
const INLINE_LEN: usize = 5 * CACHE_LINE;

/// Frame bytes with headroom for growth, plus a virtual tail that is counted but not kept (reads of it give
/// zeros).
///
/// Used as `Box<Packet>` and recycled through a [`PacketPool`]: no allocation per packet in steady state. The frame is in the
/// same box, so that one address tells all lines that a hop needs: all other fields are in the first one.
#[repr(C, align(64))]
pub struct Packet {
    start: u32,
    end: u32,
    virtual_len: u32,
    /// The priority class in which the packet was sent, as the PCP bits of an IEEE 802.1Q tag carry it;
    /// `None` if the sender gave none.
    pub class: Option<u8>,
    /// Metadata was prepared by a resubmit or recirculate: ingress must keep it.
    pub(crate) reentered: bool,
    /// The frame is in `large`.
    is_large: bool,
    pub(crate) phv: Phv,
    /// Memory for a packet that needs more, kept for the next one that does.
    large: Option<Box<[u8]>>,
    memory: [u8; INLINE_LEN],
}

const _: () = assert!(std::mem::offset_of!(Packet, memory) == CACHE_LINE, "the other fields are in one line");

/// The parsed header vector: what the pipeline knows of a packet beyond its bytes. Only the pipeline looks inside.
#[derive(Clone, Default)]
pub(crate) struct Phv {
    /// Fields, validity, stack counters, temporaries and constants, laid out by the program.
    pub slots: SlotVec,
    /// Words for egress, laid out for the machine code that ran ingress: other fields are still in the frame. Without that
    /// there are none.
    pub bridged: SlotVec,
    /// Bytes that the parser consumed; the deparser replaces them by its headers.
    pub parsed: u32,
    /// BMv2's packet register 0: the ingress length, kept current by header additions and removals.
    pub length: u32,
    /// BMv2's `ingress_length`, the number of bytes that counters and byte meters count.
    pub ingress_length: u32,
    /// `truncate(n)`: the frame is cut to this many bytes when it is sent. As in BMv2, the copies that the program makes of
    /// a packet begin without it, and so does a packet that goes through the switch again.
    pub truncate: u32,
}

/// The slots of a header vector, or those of them that machine code carries from ingress to egress. A packet on a wire has
/// neither, and few packets in queues have the former: machine code leaves it with the switch.
#[derive(Clone, Default)]
pub(crate) struct SlotVec(Option<Box<SlotStorage>>);

#[derive(Clone)]
struct SlotStorage {
    /// The stamp of the program, or of the machine code, that `words` is laid out for.
    stamp: u32,
    words: Box<[u64]>,
}

impl SlotVec {
    /// Returns slots for the program, or the machine code, with this stamp.
    pub fn new(stamp: u32, words: Vec<u64>) -> SlotVec {
        SlotVec(Some(Box::new(SlotStorage { stamp, words: words.into_boxed_slice() })))
    }

    /// Returns whether there are none.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether they are laid out for the program, or the machine code, with this stamp.
    #[inline]
    pub fn has_layout(&self, stamp: u32) -> bool {
        self.0.as_ref().is_some_and(|slots| slots.stamp == stamp)
    }

    /// Frees them. It is rare: a packet that was dropped had some.
    #[cold]
    #[inline(never)]
    fn free(&mut self) {
        self.0 = None;
    }

    /// Takes them out of a packet.
    #[inline]
    pub fn take(&mut self) -> SlotVec {
        SlotVec(self.0.take())
    }

    /// Becomes `slots` where there were none.
    #[inline(always)]
    pub fn replace_none(&mut self, slots: SlotVec) {
        debug_assert!(self.is_none());
        // There is nothing to drop: that would be a call.
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
    /// Returns a packet that holds a copy of `bytes`.
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

    /// Returns the memory, made at least `len` bytes long.
    #[inline]
    fn reserve(&mut self, len: usize) -> &mut [u8] {
        if self.memory().len() < len {
            self.grow(len, self.end as usize);
        }
        self.memory_mut()
    }

    /// Moves the first `kept` bytes of the memory to one that has at least `len`.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, len: usize, kept: usize) {
        let is_free = !self.is_large;
        let fits = self.large.take_if(|large| is_free && large.len() >= len);
        let mut large = fits.unwrap_or_else(|| vec![0; len.next_power_of_two()].into_boxed_slice());
        large[..kept].copy_from_slice(&self.memory()[..kept]);
        (self.large, self.is_large) = (Some(large), true);
    }

    /// Returns where in the memory the frame is.
    #[inline]
    fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Becomes a new packet that holds a copy of `bytes`.
    pub fn set_bytes(&mut self, bytes: &[u8]) {
        self.reset(bytes.len(), 0);
        let place = self.range();
        self.memory_mut()[place].copy_from_slice(bytes);
    }

    fn reset(&mut self, len: usize, virtual_len: u32) {
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

    /// Says that the packet will be looked at soon: its first line and those in which its headers probably are, are fetched.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self);
        for line in self.memory[SHORT_HEADROOM..].chunks(CACHE_LINE).take(HEADER_LINES) {
            prefetch(&line[0]);
        }
    }

    /// Returns the bytes that are kept: the whole frame but its virtual tail.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory()[self.range()]
    }

    /// Returns the number of bytes that are kept.
    #[inline]
    pub(crate) fn kept_len(&self) -> u32 {
        self.end - self.start
    }

    /// Returns the number of bytes behind [`Packet::bytes`] that are counted but not stored.
    #[inline]
    pub fn virtual_len(&self) -> u32 {
        self.virtual_len
    }

    /// Sets the number of bytes behind [`Packet::bytes`] that are counted but not stored. For senders that
    /// know the length of the payload only after they have written the headers.
    #[inline]
    pub fn set_virtual_len(&mut self, virtual_len: u32) {
        self.virtual_len = virtual_len;
    }

    /// Returns the length of the frame, virtual tail included: what P4 sees as `packet_length`.
    #[inline]
    pub fn len(&self) -> u32 {
        self.end - self.start + self.virtual_len
    }

    /// Returns whether the frame has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the whole frame with its virtual tail written out.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = self.bytes().to_vec();
        bytes.resize(self.len() as usize, 0);
        bytes
    }

    /// Becomes a copy of `other`: bytes and header vector.
    pub fn copy_from(&mut self, other: &Packet) {
        self.copy_bytes_from(other);
        self.reentered = other.reentered;
        self.phv.clone_from(&other.phv);
    }

    /// Becomes a new packet with the bytes of `other`.
    pub fn copy_bytes_from(&mut self, other: &Packet) {
        self.set_bytes(other.bytes());
        self.virtual_len = other.virtual_len;
    }

    /// Returns the frame with a few bytes behind it, its length, and the header vector, borrowed apart.
    #[inline]
    pub(crate) fn frame_and_phv(&mut self) -> (&mut [u8], usize, &mut Phv) {
        let place = self.range();
        let (memory, phv) = self.memory_and_phv();
        (&mut memory[place.start..place.end + SLACK], place.len(), phv)
    }

    /// Makes the first `len` bytes real, out of the virtual tail if need be. False if the frame is shorter.
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
        self.reserve(start + len + SLACK)[end..start + len].fill(0);
        self.end += missing as u32;
        self.virtual_len -= missing as u32;
        true
    }

    /// Returns the address of the frame, where at least `frame_ptr` bytes of memory begin, and the number of free bytes in front
    /// of it.
    #[inline(always)]
    pub(crate) fn frame_ptr(&mut self, room: usize) -> (*mut u8, u32) {
        let (start, end) = (self.start, self.start as usize + room);
        let memory =
            if self.is_large || end > INLINE_LEN { self.large_room(end) } else { self.memory.as_mut_ptr() };
        (memory.wrapping_add(start as usize), start)
    }

    #[cold]
    #[inline(never)]
    fn large_room(&mut self, end: usize) -> *mut u8 {
        self.reserve(end).as_mut_ptr()
    }

    /// Lets the frame begin `bytes` earlier, in the free bytes in front of it, where its first ones have been written.
    #[inline]
    pub(crate) fn extend_front(&mut self, bytes: u32) {
        self.start = self.start.saturating_sub(bytes);
    }

    /// Replaces the first `old` bytes by `new` bytes of room, and keeps the first `front`.
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

    /// Replaces the first `old` bytes by `new` bytes of room, whose contents are left undefined.
    #[inline]
    pub(crate) fn resize_front(&mut self, old: usize, new: usize) {
        let payload = self.start as usize + old;
        if new > payload {
            self.make_headroom(new - old);
        }
        self.start = (self.start as usize + old - new) as u32;
    }

    /// Moves the frame back so that it can grow at the front by `more`.
    #[cold]
    fn make_headroom(&mut self, more: usize) {
        let (place, start) = (self.range(), more + HEADROOM);
        let end = start + place.len();
        self.reserve(end + SLACK).copy_within(place, start);
        (self.start, self.end) = (start as u32, end as u32);
    }

    /// Inverts a bit of the bytes that are kept; one beyond them changes nothing.
    pub fn invert_bit(&mut self, bit: usize) {
        let place = self.range();
        if let Some(byte) = self.memory_mut()[place].get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }

    /// Cuts the frame to at most `len` bytes.
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

/// Boxes of packets that are done, to be used again.
#[derive(Debug, Default)]
// The boxes are what is recycled: they travel, the packets in them stay where they are.
#[allow(clippy::vec_box)]
pub struct PacketPool {
    free: Vec<Box<Packet>>,
}

impl PacketPool {
    /// Packets that a pool keeps: about 2 MB. Copies of multicast packets come from one pool and end in another, which would
    /// grow for ever.
    pub const MAX_FREE: usize = 4_096;

    /// Returns an empty pool.
    pub fn new() -> PacketPool {
        PacketPool::default()
    }
    /// Returns a packet with undefined contents: write it before use.
    pub fn get(&mut self) -> Box<Packet> {
        self.free.pop().unwrap_or_default()
    }
    /// Takes a packet back, unless [`Self::MAX_FREE`] wait already.
    pub fn put(&mut self, packet: Box<Packet>) {
        if self.free.len() < Self::MAX_FREE {
            self.free.push(packet);
        }
    }
    /// Returns a copy of `packet`: bytes and header vector.
    pub fn copy(&mut self, packet: &Packet) -> Box<Packet> {
        let mut copy = self.get();
        copy.copy_from(packet);
        copy
    }
    /// Returns the number of boxes in the pool.
    pub fn len(&self) -> usize {
        self.free.len()
    }
    /// Returns whether the pool holds no box.
    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_only_takes_is_bounded() {
        let (mut from, mut into) = (PacketPool::new(), PacketPool::new());
        let packet = Packet::from_bytes(&[1, 2, 3]);
        for _ in 0..2 * PacketPool::MAX_FREE {
            into.put(from.copy(&packet));
        }
        assert_eq!((from.len(), into.len()), (0, PacketPool::MAX_FREE));
    }

    /// Memory for a large frame is kept, and only large frames are in it.
    #[test]
    fn frames_of_all_sizes_follow_each_other() {
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

    /// Whatever is kept at the front, and however little it moves.
    #[test]
    fn headers_in_front_of_new_ones_are_kept() {
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
        let whole = packet.to_vec();
        packet.truncate(3);
        assert_eq!((packet.to_vec(), whole.len()), (vec![7, 8, 0], 102));
        packet.truncate(50);
        assert_eq!(packet.len(), 3);
    }
}
