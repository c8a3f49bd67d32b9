//! A frame inside the switch, and the pool its box comes from.

use crate::prefetch::prefetch;
use std::fmt;

/// Free bytes kept in front of a frame, so that headers can grow without moving the payload.
const HEADROOM: usize = 128;
/// Bytes of the buffer that [`Packet::write_head`] passes to its writer.
const HEAD_ROOM_TO_WRITE: usize = 640;
/// Bytes that one prefetch loads.
const CACHE_LINE: usize = 64;
/// Headers of one packet take this many lines.
const HEAD_LINES: usize = 3;
/// The buffer has this many bytes behind the frame, so that a header can be looked at in windows of this size.
pub(crate) const SLACK: usize = 72;

/// Frame bytes with headroom for growth, plus a virtual tail that is counted but not kept (reads of it give
/// zeros). It carries the parsed header vector from ingress to egress, so that nothing is copied between them.
///
/// Used as `Box<Packet>` and recycled through a [`PacketPool`]: no allocation per packet in steady state. It takes two
/// cache lines; the first one has all fields that links and queues read.
#[repr(align(64))]
pub struct Packet {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    virtual_len: u32,
    /// The priority class in which the packet was sent, as the PCP bits of an IEEE 802.1Q tag carry it;
    /// `None` if the sender gave none.
    pub class: Option<u8>,
    pub(crate) phv: Phv,
}

/// The parsed header vector: what the pipeline knows of a packet beyond its bytes. Only the pipeline looks inside.
#[derive(Default)]
pub(crate) struct Phv {
    /// Fields, validity, stack counters, temporaries and constants, laid out by the program.
    pub slots: Vec<u64>,
    /// The stamp of the program that `slots` is laid out for; 0 for none.
    pub stamp: u64,
    /// Bytes that the parser consumed; the deparser replaces them by its headers.
    pub parsed: u32,
    /// BMv2's packet register 0: the ingress length, kept current by header additions and removals.
    pub length: u32,
    /// BMv2's `ingress_length`, the number of bytes that counters and byte meters count.
    pub ingress_length: u32,
    /// `truncate(n)`: the frame is cut to this many bytes when it is sent. As in BMv2, the copies that the program makes of
    /// a packet begin without it, and so does a packet that goes through the switch again.
    pub truncate: u32,
    /// The fields that only the interpreter reads are still in the frame.
    pub partial: bool,
    /// Metadata was prepared by a resubmit or recirculate: ingress must keep it.
    pub carried: bool,
}

impl Default for Packet {
    fn default() -> Packet {
        Packet { buffer: vec![0; SLACK], start: 0, end: 0, virtual_len: 0, class: None, phv: Phv::default() }
    }
}

impl Packet {
    /// Returns a packet that holds a copy of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Box<Packet> {
        let mut packet = Box::<Packet>::default();
        packet.set_bytes(bytes);
        packet
    }

    /// Becomes a new packet that holds a copy of `bytes`.
    pub fn set_bytes(&mut self, bytes: &[u8]) {
        self.reset(bytes.len(), 0);
        self.buffer[self.start..self.end].copy_from_slice(bytes);
    }

    /// Becomes a new packet: `write` fills in the head and returns its length; `virtual_len` bytes follow it that
    /// are not kept. The writer gets 640 bytes that hold anything: it writes all that it counts.
    pub fn write_head(&mut self, virtual_len: u32, write: impl FnOnce(&mut [u8]) -> usize) {
        self.reset(HEAD_ROOM_TO_WRITE, virtual_len);
        let room = &mut self.buffer[HEADROOM..HEADROOM + HEAD_ROOM_TO_WRITE];
        let written = write(room).min(HEAD_ROOM_TO_WRITE);
        self.end = self.start + written;
    }

    fn reset(&mut self, len: usize, virtual_len: u32) {
        self.start = HEADROOM;
        self.end = HEADROOM + len;
        self.virtual_len = virtual_len;
        self.class = None;
        self.phv.carried = false;
        // Machine code wants some room even for a short frame.
        let least = self.start + len.max(HEAD_ROOM_TO_WRITE) + SLACK;
        if self.buffer.len() < least {
            self.buffer.resize(least, 0);
        }
    }

    /// Says that the packet will be looked at soon: its first line is fetched.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self);
        prefetch(&self.phv);
    }

    /// Says that the frame will be parsed soon. The packet itself should be at hand by now.
    #[inline]
    pub fn prefetch_frame(&self) {
        for line in self.bytes().chunks(CACHE_LINE).take(HEAD_LINES) {
            prefetch(&line[0]);
        }
    }

    /// Returns the bytes that are kept: the whole frame but its virtual tail.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
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
        (self.end - self.start) as u32 + self.virtual_len
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
        self.phv.slots.clone_from(&other.phv.slots);
        self.phv.stamp = other.phv.stamp;
        self.phv.parsed = other.phv.parsed;
        self.phv.length = other.phv.length;
        self.phv.ingress_length = other.phv.ingress_length;
        self.phv.truncate = other.phv.truncate;
        self.phv.carried = other.phv.carried;
        self.phv.partial = other.phv.partial;
    }

    /// Becomes a new packet with the bytes of `other`.
    pub fn copy_bytes_from(&mut self, other: &Packet) {
        self.set_bytes(other.bytes());
        self.virtual_len = other.virtual_len;
    }

    /// Returns the frame with a few bytes behind it, its length, and the header vector, borrowed apart.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut [u8], usize, &mut Phv) {
        let len = self.end - self.start;
        (&mut self.buffer[self.start..self.end + SLACK], len, &mut self.phv)
    }

    /// Makes the first `len` bytes real, out of the virtual tail if need be. False if the frame is shorter.
    #[inline]
    pub(crate) fn materialise(&mut self, len: usize) -> bool {
        len <= self.end - self.start || self.materialise_tail(len)
    }

    #[cold]
    fn materialise_tail(&mut self, len: usize) -> bool {
        let missing = len - (self.end - self.start);
        if missing > self.virtual_len as usize {
            return false;
        }
        let end = self.end + missing;
        if self.buffer.len() < end + SLACK {
            self.buffer.resize(end + SLACK, 0);
        }
        self.buffer[self.end..end].fill(0);
        self.end = end;
        self.virtual_len -= missing as u32;
        true
    }

    /// Returns the address of the frame, if at least `room` bytes of memory begin there.
    #[inline]
    pub(crate) fn room(&mut self, room: usize) -> Option<*mut u8> {
        let is_there = self.buffer.len() - self.start >= room;
        is_there.then(|| self.buffer.as_mut_ptr().wrapping_add(self.start))
    }

    /// As [`Packet::room`], with the memory if there is not enough.
    #[inline]
    pub(crate) fn make_room(&mut self, room: usize) -> *mut u8 {
        if self.buffer.len() < self.start + room {
            self.buffer.resize(self.start + room, 0);
        }
        self.buffer.as_mut_ptr().wrapping_add(self.start)
    }

    /// Replaces the first `old` bytes by `new` bytes of room, and keeps the first `front`.
    #[inline]
    pub(crate) fn replace_front(&mut self, old: usize, new: usize, front: usize) {
        if new >= old {
            self.resize_front(old, new);
            self.buffer.copy_within(self.start + new - old..self.start + new - old + front, self.start);
        } else {
            self.buffer.copy_within(self.start..self.start + front, self.start + old - new);
            self.resize_front(old, new);
        }
    }

    /// Replaces the first `old` bytes by `new` bytes of room, whose contents are left undefined.
    #[inline]
    pub(crate) fn resize_front(&mut self, old: usize, new: usize) {
        let payload = self.start + old;
        if new > payload {
            self.make_headroom(new - old);
        }
        self.start = self.start + old - new;
    }

    /// Moves the frame back so that it can grow at the front by `more`.
    #[cold]
    fn make_headroom(&mut self, more: usize) {
        let len = self.end - self.start;
        let start = more + HEADROOM;
        if self.buffer.len() < start + len + SLACK {
            self.buffer.resize(start + len + SLACK, 0);
        }
        self.buffer.copy_within(self.start..self.end, start);
        self.start = start;
        self.end = start + len;
    }

    /// Inverts a bit of the bytes that are kept; one beyond them changes nothing.
    pub fn invert_bit(&mut self, bit: usize) {
        let end = self.end;
        if let Some(byte) = self.buffer[..end].get_mut(self.start + bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }

    /// Cuts the frame to at most `len` bytes.
    pub fn truncate(&mut self, len: u32) {
        let kept = ((self.end - self.start) as u32).min(len);
        self.end = self.start + kept as usize;
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
    /// Packets that a pool keeps: about 5 MB. Copies of multicast packets come from one pool and end in another, which would
    /// grow for ever.
    pub const MOST: usize = 4_096;

    /// Returns an empty pool.
    pub fn new() -> PacketPool {
        PacketPool::default()
    }
    /// Returns a packet with undefined contents: write it before use.
    pub fn get(&mut self) -> Box<Packet> {
        self.free.pop().unwrap_or_default()
    }
    /// Takes a packet back, unless [`Self::MOST`] wait already.
    pub fn put(&mut self, packet: Box<Packet>) {
        if self.free.len() < Self::MOST {
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
        for _ in 0..2 * PacketPool::MOST {
            into.put(from.copy(&packet));
        }
        assert_eq!((from.len(), into.len()), (0, PacketPool::MOST));
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
    fn virtual_tail_reads_as_zeros() {
        let mut packet = PacketPool::new().get();
        packet.write_head(100, |head| {
            head[..2].copy_from_slice(&[7, 8]);
            2
        });
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
