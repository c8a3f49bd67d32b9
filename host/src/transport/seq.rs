//! Values that the wire carries in fewer bits than the transport has: offsets, and path ids.

/// Returns the 64-bit offset nearest to `near` whose low 32 bits are `wire`; `None` if that offset would be negative.
pub(super) fn unwrap_seq(near: u64, wire: u32) -> Option<u64> {
    let difference = wire.wrapping_sub(near as u32).cast_signed();
    near.checked_add_signed(i64::from(difference))
}

/// Returns the path id of the acknowledged DATA packet. The receiver writes it into the grant field if the scheme
/// does not use that field; the path id of the ACK itself is that of the return path.
pub(super) fn echoed_path(grant: u32) -> u16 {
    (grant & 0xfff) as u16
}

/// Upper bound of a window in bytes. Offsets travel as 32 bits; a quarter of that range ahead and a quarter behind,
/// with room for packets beyond the window, keeps [`unwrap_seq`] unambiguous.
pub(super) const MAX_WINDOW: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwrap_seq_picks_the_nearest_offset() {
        assert_eq!(unwrap_seq(0, 5), Some(5));
        assert_eq!(unwrap_seq(0, u32::MAX), None);
        assert_eq!(unwrap_seq(1 << 32, u32::MAX), Some((1 << 32) - 1));
        assert_eq!(unwrap_seq((1 << 32) - 1, 0), Some(1 << 32));
        assert_eq!(unwrap_seq(5 << 32, 7), Some((5 << 32) + 7));
    }
}
