//! The lengths of announcements (Dart's look-ahead) in the payload of DATA packets. An announcement is a header and a
//! list of senders.

use super::int::{INT_RECORD_LEN, MAX_CUSTOM_RECORD_LEN, RECORD_WORD_LEN};
use super::layout::{HEADERS_LEN, MAX_HOPS};

/// Length in bytes of the header of an announcement (Dart's look-ahead): number of senders, number of the incast.
pub const LIST_HEADER_LEN: usize = 6;
/// Maximum number of senders in a packet: an announcement takes no more room than eight records of the base format.
/// Longer announcements take several packets.
pub const MAX_LIST_ENTRIES: usize = (MAX_HOPS * INT_RECORD_LEN - LIST_HEADER_LEN) / LIST_ENTRY_LEN;
/// Length in bytes of a sender in an announcement: the low 16 bits of its address.
pub const LIST_ENTRY_LEN: usize = 2;

/// Returns how many senders a message of `size` bytes can announce in packets of `payload` bytes.
pub fn max_announced(size: u64, payload: u64) -> u64 {
    let max_entries = |len: u64| {
        (len.saturating_sub(LIST_HEADER_LEN as u64) / LIST_ENTRY_LEN as u64).min(MAX_LIST_ENTRIES as u64)
    };
    (size / payload).saturating_mul(max_entries(payload)).saturating_add(max_entries(size % payload))
}

/// Returns how many senders a message of `size` bytes can announce with this MTU, whichever scheme the hosts use: the
/// minimum of [`max_announced`] over all record lengths for which a scheme may reserve room.
pub fn max_announced_under_any_scheme(size: u64, mtu: u64) -> u64 {
    let reserves =
        (0..=MAX_CUSTOM_RECORD_LEN).step_by(RECORD_WORD_LEN).map(|len| HEADERS_LEN + MAX_HOPS * len);
    let payloads =
        reserves.filter_map(|reserve| mtu.checked_sub(reserve as u64)).filter(|&payload| payload > 0);
    payloads.map(|payload| max_announced(size, payload)).min().unwrap_or(0)
}
