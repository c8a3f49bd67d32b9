//! AF_PACKET: the one module that talks to the kernel by raw pointers.
//!
//! Frames are received from a ring that the kernel fills and this process maps (TPACKET_V2): a frame
//! costs no system call, and one that finds the ring full is dropped by the kernel on the sender's
//! time. V2 rather than V3, because V3 hands frames over by the block: a lone frame would wait for a
//! timer of at least a millisecond. Frames are sent by `sendmmsg`, many to a call; a transmit ring
//! would tie its slots to buffers that the receiving stack may hold for long.
//!
//! The kernel tells of every frame what its bytes leave out: the VLAN tag it took off, and the checksum
//! that the sending stack left to a network card that a veth does not have (issue p4lang/behavioral-model
//! #919 and its kin). [`RxFrame::write_to`] restores both.
#![allow(unsafe_code)]

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ffi::CString;
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Bytes of `struct virtio_net_hdr`, which the kernel puts in front of each frame (PACKET_VNET_HDR).
const VNET_HDR: usize = 10;
/// Flag of `virtio_net_hdr`: the checksum is still to be computed.
const VNET_NEEDS_CSUM: u8 = 1;
/// Bit of `virtio_net_hdr::gso_type` that says nothing about segmentation: the sender uses ECN.
const VNET_GSO_ECN: u8 = 0x80;
/// Bytes that the kernel may put in front of a frame in its slot: `tpacket2_hdr` and `sockaddr_ll`, aligned, the
/// `virtio_net_hdr`, and alignment of the network header (net/packet/af_packet.c, `tpacket_rcv`).
const SLOT_OVERHEAD: usize = 128;
/// Ethernet header and two VLAN tags.
const L2_HEADER: usize = 14 + 2 * VLAN_TAG;
/// Bytes of a VLAN tag (IEEE 802.1Q).
const VLAN_TAG: usize = 4;
/// Offset of a VLAN tag in a frame: behind both MAC addresses.
const VLAN_OFFSET: usize = 12;
/// The smallest unit the kernel allocates a ring in. Larger slots make larger blocks.
const BLOCK: usize = 64 << 10;
/// The smallest slot: holds what an Ethernet of MTU 1500 brings.
const MIN_SLOT: usize = 2048;
/// The UDP checksum that means "none" (RFC 768): a checksum that is computed as 0 is sent as 0xffff.
const NO_CHECKSUM: u16 = 0;
/// Nanoseconds of a second.
const NANOS: u32 = 1_000_000_000;

/// An interface's properties, as the kernel reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its index: another one after it was removed and made again.
    pub index: u32,
    /// Its MTU: bytes behind the Ethernet header.
    pub mtu: usize,
    /// It is up and its link has a carrier.
    pub running: bool,
}

impl Interface {
    /// Looks an interface up by name in this thread's network namespace.
    ///
    /// # Errors
    ///
    /// There is no such interface, or the system's error.
    pub fn find(name: &str) -> io::Result<Interface> {
        let c_name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: `c_name` is a NUL-terminated string that lives through the call.
        let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = socket(libc::AF_INET, libc::SOCK_DGRAM)?;
        // SAFETY: `ifreq` is plain data, for which all zeroes are a value.
        let mut request: libc::ifreq = unsafe { zeroed() };
        if name.len() >= request.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let mut ask = |what: libc::c_ulong| {
            // SAFETY: both requests read the name from and write an int to the `ifreq`, which is valid for it.
            check(unsafe { libc::ioctl(socket.as_raw_fd(), what as _, &raw mut request) })?;
            // SAFETY: the kernel has just written this union; any bits are an int.
            io::Result::Ok(unsafe { request.ifr_ifru.ifru_mtu })
        };
        let mtu = usize::try_from(ask(libc::SIOCGIFMTU)?).unwrap_or(0);
        // Flags are a short in the same place: the low 16 bits hold both that matter.
        let flags = ask(libc::SIOCGIFFLAGS)?;
        let wanted = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(Interface { index, mtu, running: flags & wanted == wanted })
    }

    /// Returns the slot size a ring needs to take every frame of this interface.
    pub fn slot_bytes(&self) -> usize {
        (self.mtu + L2_HEADER + SLOT_OVERHEAD).next_power_of_two().max(MIN_SLOT)
    }
}

/// A frame in the receive ring.
#[derive(Debug)]
pub struct RxFrame<'a> {
    /// Its bytes, as far as the slot holds them.
    pub bytes: &'a [u8],
    /// Length on the wire, in bytes; more than `data` has if the slot was too short.
    pub len: usize,
    /// Time of arrival, on the system's clock (since 1970).
    pub received: Duration,
    /// The VLAN tag the kernel took off: TPID and TCI.
    pub vlan: Option<(u16, u16)>,
    /// The checksum the sender left open: where its coverage begins, and where it goes, from there.
    pub checksum: Option<(u16, u16)>,
    /// It is a train of segments for a network card to cut (GSO), not a frame.
    pub segmented: bool,
}

impl RxFrame<'_> {
    /// Returns whether the ring holds the whole frame.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() == self.len
    }

    /// Returns whether the bytes are those of the wire: no VLAN tag was taken out and no checksum is missing.
    pub fn is_plain(&self) -> bool {
        self.vlan.is_none() && self.checksum.is_none()
    }

    /// Writes the frame as it would be on a wire, with its checksum and its VLAN tag.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.bytes);
        if let Some((start, offset)) = self.checksum {
            complete_checksum(out, usize::from(start), usize::from(offset));
        }
        if let Some((tpid, tci)) = self.vlan
            && out.len() >= VLAN_OFFSET
        {
            let tag = [tpid.to_be_bytes(), tci.to_be_bytes()];
            out.splice(VLAN_OFFSET..VLAN_OFFSET, tag.into_iter().flatten());
        }
    }
}

/// Sums from `start` (where the field holds the sum of the pseudo-header) and puts the complement at
/// `start + offset` (linux/Documentation/networking/checksum-offloads.rst).
fn complete_checksum(frame: &mut [u8], start: usize, offset: usize) {
    let at = start + offset;
    if at + 2 > frame.len() {
        return;
    }
    let mut sum: u64 = 0;
    for pair in frame[start..].chunks(2) {
        sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > u64::from(u16::MAX) {
        sum = (sum & u64::from(u16::MAX)) + (sum >> 16);
    }
    let checksum = match !(sum as u16) {
        NO_CHECKSUM => u16::MAX,
        checksum => checksum,
    };
    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// A ring that the kernel fills with the frames an interface receives.
#[derive(Debug)]
pub struct RxRing {
    socket: OwnedFd,
    map: ptr::NonNull<u8>,
    map_len: usize,
    slot: usize,
    slots: usize,
    next: usize,
}

// SAFETY: the ring owns its mapping; nothing in it is bound to the thread that made it.
unsafe impl Send for RxRing {}

impl RxRing {
    /// Opens a ring of about `ring_bytes` on an interface, in promiscuous mode, without the frames that this machine
    /// sends.
    ///
    /// # Errors
    ///
    /// The caller may not open raw sockets, the interface is gone, or the kernel has no memory for the ring.
    pub fn open(interface: &Interface, ring_bytes: usize) -> io::Result<RxRing> {
        // Protocol 0: nothing is received before the ring stands.
        let socket = socket(libc::AF_PACKET, libc::SOCK_RAW)?;
        let slot = interface.slot_bytes();
        let block = slot.max(BLOCK);
        let blocks = (ring_bytes / block).max(1);
        let slots = blocks * block / slot;
        set_packet_option(
            &socket,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V2 as libc::c_int),
        )?;
        set_packet_option(&socket, libc::PACKET_VNET_HDR, &1i32)?;
        set_packet_option(&socket, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        let request = libc::tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: slots as u32,
        };
        set_packet_option(&socket, libc::PACKET_RX_RING, &request)?;
        let map_len = blocks * block;
        // SAFETY: a fresh mapping of the ring just made, of exactly its size; the kernel chooses the address.
        let map = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), map_len, protection, libc::MAP_SHARED, socket.as_raw_fd(), 0)
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = ptr::NonNull::new(map.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let ring = RxRing { socket, map, map_len, slot, slots, next: 0 };
        bind(&ring.socket, interface, libc::ETH_P_ALL as u16)?;
        // SAFETY: `packet_mreq` is plain data, for which all zeroes are a value.
        let mut promiscuous: libc::packet_mreq = unsafe { zeroed() };
        promiscuous.mr_ifindex = interface.index as libc::c_int;
        promiscuous.mr_type = libc::PACKET_MR_PROMISC as u16;
        set_packet_option(&ring.socket, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)?;
        Ok(ring)
    }

    /// Returns the bytes of a slot, with the kernel's share.
    pub fn slot_bytes(&self) -> usize {
        self.slot
    }

    /// Gives the oldest frames to `take`, at most `budget`. Returns how many there were.
    #[inline]
    pub fn receive(&mut self, budget: usize, mut take: impl FnMut(RxFrame<'_>)) -> usize {
        for taken in 0..budget {
            // SAFETY: `next` is below `slots`, and `slots * slot == map_len`: the slot lies in the mapping.
            // It begins with a `tpacket2_hdr`, whose first field is the status that hands the slot over.
            let (base, status) = unsafe {
                let base = self.map.as_ptr().add(self.next * self.slot);
                (base, AtomicU32::from_ptr(base.cast()))
            };
            let state = status.load(Ordering::Acquire);
            if state & libc::TP_STATUS_USER == 0 {
                return taken;
            }
            // SAFETY: TP_STATUS_USER, read with Acquire: until the status is given back the kernel leaves
            // the slot alone, so it may be borrowed until then.
            take(unsafe { frame_in_slot(base, self.slot, state) });
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = if self.next + 1 == self.slots { 0 } else { self.next + 1 };
        }
        budget
    }

    /// Returns the number of frames that the kernel has dropped since the last call because the ring was full.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn take_drops(&self) -> io::Result<u64> {
        // SAFETY: `tpacket_stats` is plain data, for which all zeroes are a value.
        let mut stats: libc::tpacket_stats = unsafe { zeroed() };
        let mut len = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `stats`, which has as many.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &mut len,
            )
        })?;
        Ok(u64::from(stats.tp_drops))
    }

    /// Returns the error that waits at the socket, such as ENETDOWN when the interface went down.
    pub fn take_error(&self) -> Option<io::Error> {
        rustix::net::sockopt::socket_error(&self.socket).ok()?.err().map(io::Error::from)
    }
}

impl AsFd for RxRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for RxRing {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `open`, unmapped once; no frame outlives its call of `receive`.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.map_len) };
    }
}

/// Returns the frame in a slot that the kernel handed over.
///
/// # Safety
/// `base` must point to a slot of `slot` bytes with status TP_STATUS_USER, which stays so for `'a`.
unsafe fn frame_in_slot<'a>(base: *mut u8, slot: usize, state: u32) -> RxFrame<'a> {
    // SAFETY: the slot begins with the header (packet_mmap.rst); slots are aligned to their power of two.
    let header = unsafe { base.cast::<libc::tpacket2_hdr>().read() };
    // The kernel keeps to the slot; a frame that did not would be cut, not read beyond it.
    let start = usize::from(header.tp_mac).clamp(VNET_HDR, slot);
    let kept = (header.tp_snaplen as usize).min(slot - start);
    // SAFETY: `VNET_HDR <= start` and `start + kept <= slot`: both slices lie in the slot, which is ours for `'a`.
    let (vnet, bytes) = unsafe {
        (
            std::slice::from_raw_parts(base.add(start - VNET_HDR), VNET_HDR),
            std::slice::from_raw_parts(base.add(start), kept),
        )
    };
    // struct virtio_net_hdr: flags 1, gso_type 1, hdr_len 2, gso_size 2, csum_start 2, csum_offset 2.
    let word = |at: usize| u16::from_ne_bytes([vnet[at], vnet[at + 1]]);
    let vlan = (state & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
        let tpid = if state & libc::TP_STATUS_VLAN_TPID_VALID != 0 {
            header.tp_vlan_tpid
        } else {
            libc::ETH_P_8021Q as u16
        };
        (tpid, header.tp_vlan_tci)
    });
    RxFrame {
        bytes,
        len: header.tp_len as usize,
        received: Duration::new(u64::from(header.tp_sec), header.tp_nsec.min(NANOS - 1)),
        vlan,
        checksum: (vnet[0] & VNET_NEEDS_CSUM != 0).then(|| (word(6), word(8))),
        segmented: vnet[1] & !VNET_GSO_ECN != 0,
    }
}

/// A socket that sends frames by an interface, many to a call. It receives nothing.
#[derive(Debug)]
pub struct TxSocket {
    socket: OwnedFd,
}

impl TxSocket {
    /// The most frames of one call.
    pub const BATCH: usize = 64;

    /// Opens a socket on an interface. Frames pass the interface's queueing discipline, so that a bandwidth or a
    /// delay that Mininet configured applies.
    ///
    /// # Errors
    ///
    /// The caller may not open raw sockets, or the interface is gone.
    pub fn open(interface: &Interface) -> io::Result<TxSocket> {
        let socket = socket(libc::AF_PACKET, libc::SOCK_RAW)?;
        bind(&socket, interface, 0)?;
        Ok(TxSocket { socket })
    }

    /// Makes frames bypass the queueing discipline.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn bypass_qdisc(&self) -> io::Result<()> {
        set_packet_option(&self.socket, libc::PACKET_QDISC_BYPASS, &1i32)
    }

    /// Sends the first frames, at most [`TxSocket::BATCH`]. Returns the number sent.
    ///
    /// # Errors
    ///
    /// The system's error for the first frame; then no frame was sent.
    pub fn send<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) -> io::Result<usize> {
        // SAFETY: `iovec` and `mmsghdr` are plain data, for which all zeroes are a value.
        let (mut parts, mut messages): ([libc::iovec; Self::BATCH], [libc::mmsghdr; Self::BATCH]) =
            unsafe { (zeroed(), zeroed()) };
        let mut count = 0;
        for ((frame, part), message) in frames.zip(&mut parts).zip(&mut messages) {
            part.iov_base = frame.as_ptr().cast_mut().cast();
            part.iov_len = frame.len();
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        // SAFETY: the first `count` messages each point to one part, and that to a frame; all of them
        // outlive the call, which only reads the frames.
        let sent = check(unsafe {
            libc::sendmmsg(self.socket.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT)
        })?;
        Ok(sent as usize)
    }
}

impl AsFd for TxSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn socket(domain: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the descriptor returned is new and nobody else's.
    unsafe {
        let fd = check(libc::socket(domain, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn bind(socket: &OwnedFd, interface: &Interface, protocol: u16) -> io::Result<()> {
    // SAFETY: `sockaddr_ll` is plain data, for which all zeroes are a value.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface.index as libc::c_int;
    // SAFETY: the kernel reads as many bytes as the address has.
    check(unsafe {
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len)
    })?;
    Ok(())
}

fn set_packet_option<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as `value` has.
    check(unsafe {
        let len = size_of::<T>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, ptr::from_ref(value).cast(), len)
    })?;
    Ok(())
}

/// Returns a system call's result, with errno if it failed.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: &[u8]) -> RxFrame<'_> {
        RxFrame {
            bytes,
            len: bytes.len(),
            received: Duration::ZERO,
            vlan: None,
            checksum: None,
            segmented: false,
        }
    }

    #[test]
    fn restores_the_tag_behind_the_addresses() {
        let bytes: Vec<u8> = (0..20).collect();
        let mut out = Vec::new();
        RxFrame { vlan: Some((0x88a8, 0x2007)), ..frame(&bytes) }.write_to(&mut out);
        assert_eq!(out[..12], bytes[..12]);
        assert_eq!(out[12..16], [0x88, 0xa8, 0x20, 0x07]);
        assert_eq!(out[16..], bytes[12..]);
        // A frame too short to hold addresses has no place for a tag.
        RxFrame { vlan: Some((0x8100, 1)), ..frame(&bytes[..5]) }.write_to(&mut out);
        assert_eq!(out, bytes[..5]);
    }

    #[test]
    fn completes_the_checksum_a_sender_left_to_the_card() {
        // UDP 10.0.0.1:1 -> 10.0.0.2:2, payload "hi" plus an odd byte; the field holds the folded sum of
        // the pseudo-header: 0a00 + 0001 + 0a00 + 0002 + 0011 + 000b.
        let udp = |field: u16| {
            let mut bytes = vec![0xee; 34];
            bytes.extend([0, 1, 0, 2, 0, 11, (field >> 8) as u8, field as u8, b'h', b'i', b'!']);
            bytes
        };
        let pseudo: u16 = 0x0a00 + 1 + 0x0a00 + 2 + 0x11 + 0x0b;
        let bytes = udp(pseudo);
        let mut out = Vec::new();
        RxFrame { checksum: Some((34, 6)), ..frame(&bytes) }.write_to(&mut out);
        // ports, length, payload and the pseudo-header: 1 + 2 + b + 6869 + 2100 + 141f = 9d96.
        assert_eq!(out, udp(!0x9d96));
        // Offsets beyond the frame change nothing.
        RxFrame { checksum: Some((40, 9)), ..frame(&bytes) }.write_to(&mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    fn slots_hold_a_tagged_frame_of_the_whole_mtu() {
        let slot = |mtu| Interface { index: 1, mtu, running: true }.slot_bytes();
        assert_eq!((slot(1500), slot(1800), slot(9000)), (2048, 2048, 16384));
        assert_eq!(slot(1900), 4096);
    }
}
