//! Classic BPF programs for sockets. The kernel runs them before it queues a packet.

use socket2::SockFilter;
use weir_host::wire::{ETHERNET_LEN, ETHERTYPE_IPV4, PROTOCOL_UDP, WEIR_PORT};

// Instruction codes (linux/bpf_common.h): class | size | mode, or class | operation | source.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
/// Load 16 bits at offset X plus a constant.
const LOAD_HALF_AT_X: u16 = 0x48;
/// X = 4 * (low nibble of a byte), the length of an IPv4 header.
const LOAD_X_IP_HEADER: u16 = 0xb1;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Ancillary offset of the packet type (linux/filter.h: SKF_AD_OFF + SKF_AD_PKTTYPE).
const PACKET_TYPE: u32 = (-0x1000_i32 + 4) as u32;
/// Packet type of outgoing packets (linux/if_packet.h: PACKET_OUTGOING).
const OUTGOING: u32 = 4;

const ETHERTYPE_OFFSET: u32 = 12;
const FRAGMENT_FIELD_OFFSET: u32 = ETHERNET_LEN as u32 + 6;
const PROTOCOL_OFFSET: u32 = ETHERNET_LEN as u32 + 9;
const FRAGMENT_OFFSET_BITS: u32 = 0x1fff;
/// Return value that keeps the whole packet.
const ACCEPT_ALL: u32 = u32::MAX;
/// Ancillary offset of the VLAN tag that the kernel has taken out of the frame (SKF_AD_OFF + SKF_AD_VLAN_TAG).
const VLAN_TAG: u32 = (-0x1000_i32 + 44) as u32;
/// Bits of the VLAN in a tag; the others are priority and DEI.
const VLAN_BITS: u32 = 0xfff;
/// The filter cuts frames of a VLAN to this length. No other frame is as short.
pub(super) const VLAN_MARK_LEN: usize = 1;

/// An instruction that is not a jump (BPF_STMT in linux/filter.h).
const fn stmt(code: u16, k: u32) -> SockFilter {
    SockFilter::new(code, 0, 0, k)
}

/// Accepts received UDP packets over IPv4 with Weir's port as source or destination. Rejects all else: fragments
/// other than the first, and copies of packets that this machine sends through the interface. The kernel delivers frames of
/// every VLAN without their tags; of these only [`VLAN_MARK_LEN`] bytes are kept, for the agent to count.
pub(super) fn weir_frames() -> [SockFilter; 18] {
    let port = u32::from(WEIR_PORT);
    // The two numbers of a jump are the instructions to skip if the condition holds, and if not.
    [
        stmt(LOAD_WORD, PACKET_TYPE),
        SockFilter::new(JUMP_EQUAL, 11, 0, OUTGOING), // to `RETURN 0`
        stmt(LOAD_HALF, ETHERTYPE_OFFSET),
        SockFilter::new(JUMP_EQUAL, 0, 9, ETHERTYPE_IPV4 as u32), // else to `RETURN 0`
        stmt(LOAD_BYTE, PROTOCOL_OFFSET),
        SockFilter::new(JUMP_EQUAL, 0, 7, PROTOCOL_UDP as u32), // else to `RETURN 0`
        stmt(LOAD_HALF, FRAGMENT_FIELD_OFFSET),
        SockFilter::new(JUMP_ANY_BIT, 5, 0, FRAGMENT_OFFSET_BITS), // to `RETURN 0`
        stmt(LOAD_X_IP_HEADER, ETHERNET_LEN as u32),
        stmt(LOAD_HALF_AT_X, ETHERNET_LEN as u32),     // source port
        SockFilter::new(JUMP_EQUAL, 3, 0, port),       // to `LOAD_WORD VLAN_TAG`
        stmt(LOAD_HALF_AT_X, ETHERNET_LEN as u32 + 2), // destination port
        SockFilter::new(JUMP_EQUAL, 1, 0, port),       // to `LOAD_WORD VLAN_TAG`
        stmt(RETURN, 0),
        stmt(LOAD_WORD, VLAN_TAG),
        SockFilter::new(JUMP_ANY_BIT, 1, 0, VLAN_BITS), // to `RETURN VLAN_MARK_LEN`
        stmt(RETURN, ACCEPT_ALL),
        stmt(RETURN, VLAN_MARK_LEN as u32),
    ]
}

/// Rejects all packets.
pub(super) fn reject_all() -> [SockFilter; 1] {
    [stmt(RETURN, 0)]
}
