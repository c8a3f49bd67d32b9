//! Offsets: 64 bits in the transport, the low 32 bits on the wire.

/// Returns the 64-bit offset nearest to `near` whose low 32 bits are `wire`; `None` if that offset would be negative.
pub(super) fn unwrap_seq(near: u64, wire: u32) -> Option<u64> {
    let difference = wire.wrapping_sub(near as u32).cast_signed();
    near.checked_add_signed(i64::from(difference))
}

/// Upper bound of a window in bytes. Offsets travel as 32 bits; a quarter of that range ahead and a quarter behind,
/// with room for packets beyond the window, keeps [`unwrap_seq`] unambiguous.
pub(super) const MAX_WINDOW: u64 = crate::event::MAX_WINDOW.get();

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
