//! AF_PACKET sockets: the only module of the driver that passes raw pointers to the kernel.
//!
//! Frames are received from a ring of slots, one frame each, which the kernel fills and this process maps
//! (TPACKET_V2). Receiving a frame costs no system call. If the ring is full, the kernel drops the frame in the
//! sender's context. TPACKET_V3 passes frames in blocks: a single frame would wait for a timer of at least a
//! millisecond. Frames are sent by `sendmmsg`, many per call. In a transmit ring, a slot would be blocked as long as
//! the receiving stack keeps the frame.
//!
//! Next to each frame the kernel reports what its bytes lack: the VLAN tag that it removed, and a checksum
//! that the sending stack left to the network card, which a veth does not have (p4lang/behavioral-model issue
//! #919 and similar ones). [`RxFrame::write_to`] restores both.
#![allow(unsafe_code)]

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ffi::CString;
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Size of `struct virtio_net_hdr`, which the kernel puts before each frame (PACKET_VNET_HDR).
const VNET_HDR_LEN: usize = 10;
/// Flag of `virtio_net_hdr`: the checksum is not computed yet.
const VNET_NEEDS_CSUM: u8 = 1;
/// Bit of `virtio_net_hdr::gso_type` that is independent of segmentation: the sender uses ECN.
const VNET_GSO_ECN: u8 = 0x80;
/// Maximum number of bytes that the kernel puts before a frame in its slot: `tpacket2_hdr` and `sockaddr_ll`, aligned,
/// `virtio_net_hdr`, and the alignment of the network header (net/packet/af_packet.c, `tpacket_rcv`).
const MAX_SLOT_OVERHEAD: usize = 128;
/// Length of an Ethernet header with two VLAN tags, in bytes.
const MAX_L2_HEADER_LEN: usize = 14 + 2 * VLAN_TAG_LEN;
/// Size of a VLAN tag (IEEE 802.1Q).
const VLAN_TAG_LEN: usize = 4;
/// Offset of a VLAN tag in a frame, after both MAC addresses.
const VLAN_OFFSET: usize = 12;
/// Minimum size of a block in bytes. The kernel allocates the ring in blocks of whole slots, so a larger slot makes a
/// larger block.
const MIN_BLOCK_LEN: usize = 64 << 10;
/// Minimum size of a slot in bytes: it holds the frames of an interface with MTU 1500.
const MIN_SLOT_LEN: usize = 2048;
/// The UDP checksum that means "none" (RFC 768). A checksum that is computed as 0 is therefore sent as
/// 0xffff.
const NO_CHECKSUM: u16 = 0;
const NANOS_PER_SEC: u32 = 1_000_000_000;

/// The properties of an interface, as reported by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface index. It changes when the interface is removed and created again.
    pub index: u32,
    /// The MTU in bytes, without the Ethernet header.
    pub mtu: usize,
    /// True if the interface is up and has a carrier.
    pub running: bool,
}

impl Interface {
    /// Looks an interface up by name in this thread's network namespace.
    ///
    /// # Errors
    ///
    /// Unknown interface, or an error of the operating system.
    pub fn find(name: &str) -> io::Result<Interface> {
        let c_name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: `c_name` is a NUL-terminated string that lives through the call.
        let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = socket(libc::AF_INET, libc::SOCK_DGRAM)?;
        // SAFETY: `ifreq` is plain data, for which all-zero bytes are valid.
        let mut request: libc::ifreq = unsafe { zeroed() };
        if name.len() >= request.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let mut ioctl = |request_code: libc::c_ulong| {
            // SAFETY: both requests read the name from the valid `ifreq` and write an int or a short to it.
            check(unsafe { libc::ioctl(socket.as_raw_fd(), request_code as _, &raw mut request) })?;
            // SAFETY: the kernel has just written this union, and any bits are a valid int.
            io::Result::Ok(unsafe { request.ifr_ifru.ifru_mtu })
        };
        let mtu = usize::try_from(ioctl(libc::SIOCGIFMTU)?).unwrap_or(0);
        // The flags are a short at the same address; on little-endian hosts the low 16 bits hold IFF_UP and
        // IFF_RUNNING.
        let flags = ioctl(libc::SIOCGIFFLAGS)?;
        let required = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(Interface { index, mtu, running: flags & required == required })
    }

    /// Returns the slot size at which a ring holds every frame of this interface: a power of two.
    pub fn slot_bytes(&self) -> usize {
        (self.mtu + MAX_L2_HEADER_LEN + MAX_SLOT_OVERHEAD).next_power_of_two().max(MIN_SLOT_LEN)
    }
}

/// A VLAN tag (IEEE 802.1Q).
#[derive(Clone, Copy, Debug)]
pub struct VlanTag {
    pub tpid: u16,
    pub tci: u16,
}

/// A checksum that has to be computed, see `complete_checksum`.
#[derive(Clone, Copy, Debug)]
pub struct MissingChecksum {
    /// Offset in the frame at which its coverage begins.
    pub start: u16,
    /// Offset of the checksum field from `start`.
    pub offset: u16,
}

/// A frame in the receive ring.
#[derive(Debug)]
pub struct RxFrame<'a> {
    /// The frame's bytes, as far as the slot holds them.
    pub bytes: &'a [u8],
    /// Length on the wire in bytes; more than `bytes` has if the slot was too short.
    pub len: usize,
    /// Time of arrival on the system clock, since 1970.
    pub received: Duration,
    /// The VLAN tag that the kernel removed.
    pub vlan: Option<VlanTag>,
    /// The checksum that the sender left to the network card.
    pub checksum: Option<MissingChecksum>,
    /// True if this is a GSO packet, which a network card would split into frames.
    pub segmented: bool,
}

impl RxFrame<'_> {
    /// Returns whether the ring holds the complete frame.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() == self.len
    }

    /// Returns whether the bytes equal those on the wire: no VLAN tag was removed and no checksum is missing.
    pub fn is_plain(&self) -> bool {
        self.vlan.is_none() && self.checksum.is_none()
    }

    /// Writes the frame as it would be on a wire, with checksum and VLAN tag restored.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.bytes);
        if let Some(MissingChecksum { start, offset }) = self.checksum {
            complete_checksum(out, usize::from(start), usize::from(offset));
        }
        if let Some(VlanTag { tpid, tci }) = self.vlan
            && out.len() >= VLAN_OFFSET
        {
            let tag = [tpid.to_be_bytes(), tci.to_be_bytes()];
            out.splice(VLAN_OFFSET..VLAN_OFFSET, tag.into_iter().flatten());
        }
    }
}

/// Completes a checksum over the bytes from `start`, stored at `start + offset`, where the field holds the
/// sum of the pseudo-header (linux/Documentation/networking/checksum-offloads.rst).
fn complete_checksum(frame: &mut [u8], start: usize, offset: usize) {
    let field = start + offset;
    if field + 2 > frame.len() {
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
    frame[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// A ring that the kernel fills with the frames that an interface receives.
#[derive(Debug)]
pub struct RxRing {
    socket: OwnedFd,
    map: ptr::NonNull<u8>,
    map_len: usize,
    slot_len: usize,
    slot_count: usize,
    /// Index of the slot that the kernel fills next.
    next: usize,
}

// SAFETY: the ring owns its mapping, and nothing in it depends on the thread that created it.
unsafe impl Send for RxRing {}

impl RxRing {
    /// Opens a ring of about `ring_bytes` on an interface, in promiscuous mode. Frames that this host sends
    /// are not received.
    ///
    /// # Errors
    ///
    /// The caller may not open raw sockets, the interface is gone, or the kernel has no memory for the ring.
    pub fn open(interface: &Interface, ring_bytes: usize) -> io::Result<RxRing> {
        // The socket is created with protocol 0, which receives nothing. With ETH_P_ALL it would receive from all
        // interfaces into its ordinary queue until the ring is in place; `bind` sets ETH_P_ALL then.
        let socket = socket(libc::AF_PACKET, libc::SOCK_RAW)?;
        let slot_len = interface.slot_bytes();
        let block = slot_len.max(MIN_BLOCK_LEN);
        let blocks = (ring_bytes / block).max(1);
        let slot_count = blocks * block / slot_len;
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
            tp_frame_size: slot_len as u32,
            tp_frame_nr: slot_count as u32,
        };
        set_packet_option(&socket, libc::PACKET_RX_RING, &request)?;
        let map_len = blocks * block;
        // SAFETY: a new mapping of the ring, of exactly its size, at an address that the kernel chooses.
        let map = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), map_len, protection, libc::MAP_SHARED, socket.as_raw_fd(), 0)
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = ptr::NonNull::new(map.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let ring = RxRing { socket, map, map_len, slot_len, slot_count, next: 0 };
        bind(&ring.socket, interface, libc::ETH_P_ALL as u16)?;
        // SAFETY: `packet_mreq` is plain data, for which all-zero bytes are valid.
        let mut promiscuous: libc::packet_mreq = unsafe { zeroed() };
        promiscuous.mr_ifindex = interface.index as libc::c_int;
        promiscuous.mr_type = libc::PACKET_MR_PROMISC as u16;
        set_packet_option(&ring.socket, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)?;
        Ok(ring)
    }

    /// Returns the size of a slot, including the kernel's headers.
    pub fn slot_bytes(&self) -> usize {
        self.slot_len
    }

    /// Passes the oldest frames to `on_frame`, at most `budget`. Returns their number.
    #[inline]
    pub fn receive(&mut self, budget: usize, mut on_frame: impl FnMut(RxFrame<'_>)) -> usize {
        self.receive_while(budget, |frame| {
            on_frame(frame);
            true
        })
    }

    /// Passes the oldest frames to `on_frame`, at most `budget`, until it returns `false`. Returns their number.
    #[inline]
    pub fn receive_while(&mut self, budget: usize, mut on_frame: impl FnMut(RxFrame<'_>) -> bool) -> usize {
        for received in 0..budget {
            // SAFETY: `next` is below `slot_count`, and `slot_count * slot_len == map_len`, so the slot lies in the
            // mapping. It begins with a `tpacket2_hdr`, whose first field is the status that passes ownership
            // of the slot.
            let (base, status) = unsafe {
                let base = self.map.as_ptr().add(self.next * self.slot_len);
                (base, AtomicU32::from_ptr(base.cast()))
            };
            // Acquire makes the frame visible that the kernel wrote before the status. The Release below
            // returns the slot only after the last read of it.
            let state = status.load(Ordering::Acquire);
            if state & libc::TP_STATUS_USER == 0 {
                return received;
            }
            // SAFETY: the status TP_STATUS_USER was read with Acquire. The kernel does not touch the slot
            // until the status is stored below, and the borrow ends before that.
            let should_continue = on_frame(unsafe { frame_in_slot(base, self.slot_len, state) });
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = if self.next + 1 == self.slot_count { 0 } else { self.next + 1 };
            if !should_continue {
                return received + 1;
            }
        }
        budget
    }

    /// Returns the number of frames that the kernel dropped since the last call because the ring was full.
    ///
    /// # Errors
    ///
    /// An error of the operating system.
    pub fn take_drops(&self) -> io::Result<u64> {
        // SAFETY: `tpacket_stats` is plain data, for which all-zero bytes are valid.
        let mut stats: libc::tpacket_stats = unsafe { zeroed() };
        let mut len = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes, the size of `stats`.
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

    /// Returns and clears the pending error of the socket, such as ENETDOWN after the interface went down.
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
        // SAFETY: the mapping was created in `open` and is unmapped once; no frame outlives its call of
        // `receive`.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.map_len) };
    }
}

/// Returns the frame in a slot that the kernel has passed to this process.
///
/// # Safety
/// `base` must point to a slot of `slot_len` bytes whose status is TP_STATUS_USER throughout `'a`.
unsafe fn frame_in_slot<'a>(base: *mut u8, slot_len: usize, state: u32) -> RxFrame<'a> {
    // SAFETY: the slot begins with the header (packet_mmap.rst), and slots are aligned to their size, a power
    // of two.
    let header = unsafe { base.cast::<libc::tpacket2_hdr>().read() };
    // The kernel stays within the slot. The clamps keep the slices in bounds even if it did not.
    let start = usize::from(header.tp_mac).clamp(VNET_HDR_LEN, slot_len);
    let captured_len = (header.tp_snaplen as usize).min(slot_len - start);
    // SAFETY: `VNET_HDR_LEN <= start` and `start + captured_len <= slot_len`, so both slices lie in the slot, which
    // belongs to this process for `'a`.
    let (vnet, bytes) = unsafe {
        (
            std::slice::from_raw_parts(base.add(start - VNET_HDR_LEN), VNET_HDR_LEN),
            std::slice::from_raw_parts(base.add(start), captured_len),
        )
    };
    // struct virtio_net_hdr: flags 1, gso_type 1, hdr_len 2, gso_size 2, csum_start 2, csum_offset 2.
    let word = |offset: usize| u16::from_ne_bytes([vnet[offset], vnet[offset + 1]]);
    let vlan = (state & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
        let tpid = if state & libc::TP_STATUS_VLAN_TPID_VALID != 0 {
            header.tp_vlan_tpid
        } else {
            libc::ETH_P_8021Q as u16
        };
        VlanTag { tpid, tci: header.tp_vlan_tci }
    });
    RxFrame {
        bytes,
        len: header.tp_len as usize,
        received: Duration::new(u64::from(header.tp_sec), header.tp_nsec.min(NANOS_PER_SEC - 1)),
        vlan,
        checksum: (vnet[0] & VNET_NEEDS_CSUM != 0)
            .then(|| MissingChecksum { start: word(6), offset: word(8) }),
        segmented: vnet[1] & !VNET_GSO_ECN != 0,
    }
}

/// A socket that sends frames on an interface, many per call. It receives nothing.
#[derive(Debug)]
pub struct TxSocket {
    socket: OwnedFd,
}

impl TxSocket {
    /// Maximum number of frames per call.
    pub const BATCH: usize = 64;

    /// Opens a socket on an interface. Frames pass the interface's queueing discipline, so that a bandwidth
    /// or delay that Mininet configured applies.
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
    /// An error of the operating system.
    pub fn bypass_qdisc(&self) -> io::Result<()> {
        set_packet_option(&self.socket, libc::PACKET_QDISC_BYPASS, &1i32)
    }

    /// Sends the first frames, at most [`TxSocket::BATCH`]. Returns the number of frames sent.
    ///
    /// # Errors
    ///
    /// The error of the operating system for the first frame; no frame was sent.
    pub fn send<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) -> io::Result<usize> {
        // SAFETY: `iovec` and `mmsghdr` are plain data, for which all-zero bytes are valid.
        let (mut iovecs, mut messages): ([libc::iovec; Self::BATCH], [libc::mmsghdr; Self::BATCH]) =
            unsafe { (zeroed(), zeroed()) };
        let mut count = 0;
        for ((frame, iovec), message) in frames.zip(&mut iovecs).zip(&mut messages) {
            iovec.iov_base = frame.as_ptr().cast_mut().cast();
            iovec.iov_len = frame.len();
            message.msg_hdr.msg_iov = iovec;
            message.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        // SAFETY: each of the first `count` messages points to one iovec, which points to a frame. The kernel
        // reads only these, and all of them outlive the call.
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
    // SAFETY: no pointers are passed, and the returned descriptor is new and has no other owner.
    unsafe {
        let fd = check(libc::socket(domain, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn bind(socket: &OwnedFd, interface: &Interface, protocol: u16) -> io::Result<()> {
    // SAFETY: `sockaddr_ll` is plain data, for which all-zero bytes are valid.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface.index as libc::c_int;
    // SAFETY: the kernel reads `len` bytes, the size of the address.
    check(unsafe {
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len)
    })?;
    Ok(())
}

fn set_packet_option<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads the size of `value` in bytes.
    check(unsafe {
        let len = size_of::<T>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, ptr::from_ref(value).cast(), len)
    })?;
    Ok(())
}

/// Returns the result of a system call, with errno if it failed.
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
    fn restores_the_tag_after_the_addresses() {
        let bytes: Vec<u8> = (0..20).collect();
        let mut out = Vec::new();
        RxFrame { vlan: Some(VlanTag { tpid: 0x88a8, tci: 0x2007 }), ..frame(&bytes) }.write_to(&mut out);
        assert_eq!(out[..12], bytes[..12]);
        assert_eq!(out[12..16], [0x88, 0xa8, 0x20, 0x07]);
        assert_eq!(out[16..], bytes[12..]);
        // A frame too short to hold addresses has no place for a tag.
        RxFrame { vlan: Some(VlanTag { tpid: 0x8100, tci: 1 }), ..frame(&bytes[..5]) }.write_to(&mut out);
        assert_eq!(out, bytes[..5]);
    }

    #[test]
    fn completes_a_checksum_that_the_sender_left_to_the_network_card() {
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
        RxFrame { checksum: Some(MissingChecksum { start: 34, offset: 6 }), ..frame(&bytes) }
            .write_to(&mut out);
        // ports, length, payload and the pseudo-header: 1 + 2 + b + 6869 + 2100 + 141f = 9d96.
        assert_eq!(out, udp(!0x9d96));
        // Offsets beyond the frame change nothing.
        RxFrame { checksum: Some(MissingChecksum { start: 40, offset: 9 }), ..frame(&bytes) }
            .write_to(&mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    fn slots_hold_a_tagged_frame_of_the_whole_mtu() {
        let slot = |mtu| Interface { index: 1, mtu, running: true }.slot_bytes();
        assert_eq!((slot(1500), slot(1800), slot(9000)), (2048, 2048, 16384));
        assert_eq!(slot(1900), 4096);
    }
}
