//! Lengths of the headers, and writing of their fields.

use super::int::MAX_CUSTOM_RECORD_LEN;

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

/// Writes a field at byte `offset` of a header. The caller guarantees that the header has room for it.
#[inline(always)]
pub(super) fn write_at<const LEN: usize>(header: &mut [u8], offset: usize, field: [u8; LEN]) {
    // Not `copy_from_slice`, which calls `memcpy` even for two bytes.
    if let Some(bytes) = header.get_mut(offset..).and_then(|rest| rest.first_chunk_mut()) {
        *bytes = field;
    }
}
