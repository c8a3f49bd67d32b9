//! Checks of received frames that a network stack makes before it delivers a datagram. The simulator delivers no such
//! frames, so they are not part of `Host`.

use super::filter::VLAN_MARK_LEN;
use std::net::Ipv4Addr;
use weir_host::DropReason;
use weir_host::wire::{FrameView, MacAddr, POLICY_GROUP, PacketKind};

/// Checks VLAN, MAC addresses, source address and UDP checksum of a received frame.
///
/// # Errors
///
/// The reason for which the agent drops the frame.
pub(super) fn check(bytes: &[u8], mac: MacAddr, addr: Ipv4Addr) -> Result<(), DropReason> {
    if bytes.len() == VLAN_MARK_LEN {
        return Err(DropReason::Vlan);
    }
    // `Host` counts what is wrong with such a frame.
    let Ok(frame) = FrameView::new(bytes, 0) else { return Ok(()) };
    // `Host` checks both destinations of policies, and recognises its own, which switches flood back.
    let is_policy = frame.weir.kind() == PacketKind::Policy || frame.ip.destination() == POLICY_GROUP;
    let is_group = |mac: MacAddr| mac[0] & 1 != 0;
    if is_group(frame.ethernet.source()) || (!is_policy && frame.ethernet.destination() != mac) {
        return Err(DropReason::WrongMac);
    }
    let source = frame.ip.source();
    let is_host = source.octets()[0] != 0
        && !source.is_multicast()
        && !source.is_broadcast()
        && source.is_loopback() == addr.is_loopback();
    if !is_host || (!is_policy && source == addr) {
        return Err(DropReason::BadSource);
    }
    if !frame.has_valid_udp_checksum() {
        return Err(DropReason::BadUdpChecksum);
    }
    Ok(())
}
