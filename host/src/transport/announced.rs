use crate::wire::{Flags, FrameView, MAX_LIST_ENTRIES};

/// The announcement in a packet with LOOKAHEAD (Dart's look-ahead): the number of the incast and the low 16 bits of
/// each sender's address.
#[derive(Clone, Copy, Default)]
pub(super) struct AnnouncedSenders<'a> {
    pub incast: u32,
    pub senders: &'a [[u8; 2]],
}

/// Parses the announcement of a packet; empty if the packet has no LOOKAHEAD flag, `None` if the list is truncated or
/// longer than [`MAX_LIST_ENTRIES`].
pub(super) fn parse_announcement<'a>(frame: &FrameView<'a>) -> Option<AnnouncedSenders<'a>> {
    if !frame.weir.flags().has(Flags::LOOKAHEAD) {
        return Some(AnnouncedSenders::default());
    }
    let (count, rest) = frame.payload().split_first_chunk()?;
    let (incast, ids) = rest.split_first_chunk()?;
    let count = usize::from(u16::from_be_bytes(*count));
    if count > MAX_LIST_ENTRIES {
        return None;
    }
    Some(AnnouncedSenders { incast: u32::from_be_bytes(*incast), senders: ids.as_chunks().0.get(..count)? })
}
