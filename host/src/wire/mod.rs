//! Wire formats: Ethernet, IPv4, UDP, the Weir header and telemetry records.
//!
//! Each layer has a checked *view* of bytes and a *value* (`Repr`) that is read from a view or written to bytes. No
//! input makes a view panic. docs/wire.md describes the fields; tests keep the layout equal to that of the P4
//! programs.

mod checksum;
mod ethernet;
mod frame;
mod int;
mod ipv4;
mod udp;
mod weir;

pub use checksum::internet_checksum;
pub use ethernet::{ETHERTYPE_IPV4, EthernetRepr, EthernetView, MacAddr};
pub use frame::{Direction, FrameRepr, FrameView};
pub(crate) use frame::{patch_data, patch_format, patch_grant};
pub use int::{
    INT_RECORD_LEN, IntRecord, MAX_CUSTOM_RECORD_LEN, MAX_RECORD_LEN, QUEUE_FIELD_LEN, RecordFormat,
};
pub use ipv4::{Ecn, INITIAL_TTL, Ipv4Repr, Ipv4View, PROTOCOL_UDP};
pub use udp::{UdpRepr, UdpView};
pub use weir::{Flags, PacketKind, WeirRepr, WeirView};
pub use weir_units::RateCode;

use std::net::Ipv4Addr;

/// Weir's UDP port: destination of forward packets, source of reverse packets.
pub const WEIR_PORT: u16 = 22_341;
/// Destination of POLICY packets. Switches flood them to this group and drop POLICY packets to other addresses.
pub const POLICY_GROUP: Ipv4Addr = Ipv4Addr::new(239, 87, 69, 73);
/// MAC address of the group: 23 bits of its IPv4 address (RFC 1112 §6.4).
pub const POLICY_GROUP_MAC: MacAddr = [0x01, 0x00, 0x5e, 0x57, 0x45, 0x49];
/// The only version of the Weir header.
pub const VERSION: u8 = 1;
/// Length of an Ethernet header in bytes.
pub const ETHERNET_LEN: usize = 14;
/// Length of an IPv4 header without options in bytes.
pub const IPV4_LEN: usize = 20;
/// Length of a UDP header in bytes.
pub const UDP_LEN: usize = 8;
/// Length of a Weir header in bytes.
pub const WEIR_LEN: usize = 24;
/// Length of all headers in bytes.
pub const HEADERS_LEN: usize = ETHERNET_LEN + IPV4_LEN + UDP_LEN + WEIR_LEN;
/// Maximum number of telemetry records in a packet.
pub const MAX_HOPS: usize = 8;
/// Maximum number of bytes that a host writes in front of the payload: all headers and eight records of the largest
/// format.
pub const MAX_HEADER_LEN: usize = HEADERS_LEN + MAX_HOPS * MAX_CUSTOM_RECORD_LEN;
/// Length in bytes of the header of an announcement (Dart's look-ahead): number of senders, number of the incast.
pub const LIST_HEADER_LEN: usize = 6;
/// Maximum number of senders in a packet: an announcement takes no more room than eight records of the base format.
/// Longer announcements take several packets.
pub const MAX_LIST_ENTRIES: usize = (MAX_HOPS * INT_RECORD_LEN - LIST_HEADER_LEN) / LIST_ENTRY_LEN;
/// Length in bytes of a sender in an announcement: the low 16 bits of its address.
pub const LIST_ENTRY_LEN: usize = 2;

/// Writes a field at byte `at` of a header. The caller guarantees that the header has room for it.
#[inline(always)]
fn write_at<const LEN: usize>(header: &mut [u8], at: usize, field: [u8; LEN]) {
    // `copy_from_slice` calls `memcpy` even for two bytes.
    if let Some(room) = header.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *room = field;
    }
}

/// Returns how many senders a message of `size` bytes can announce in packets of `payload` bytes.
pub fn max_announced(size: u64, payload: u64) -> u64 {
    let room = |len: u64| {
        (len.saturating_sub(LIST_HEADER_LEN as u64) / LIST_ENTRY_LEN as u64).min(MAX_LIST_ENTRIES as u64)
    };
    (size / payload).saturating_mul(room(payload)).saturating_add(room(size % payload))
}

/// Returns how many senders a message of `size` bytes can announce on a fabric with this MTU, whatever record format
/// its scheme reserves room for.
pub fn min_max_announced(size: u64, mtu: u64) -> u64 {
    let reserves =
        (0..=MAX_CUSTOM_RECORD_LEN).step_by(int::RECORD_WORD_LEN).map(|len| HEADERS_LEN + MAX_HOPS * len);
    let payloads =
        reserves.filter_map(|reserve| mtu.checked_sub(reserve as u64)).filter(|&payload| payload > 0);
    payloads.map(|payload| max_announced(size, payload)).min().unwrap_or(0)
}
