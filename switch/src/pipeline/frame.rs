//! Words of a frame. Behind every frame there is slack, so that a word can be read from each of its bytes.

const WORD: usize = 8;

/// The big-endian word at a byte.
#[inline]
pub(super) fn read(frame: &[u8], at: usize) -> u64 {
    match frame.get(at..).and_then(|rest| rest.first_chunk::<WORD>()) {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => 0,
    }
}

/// Sets the big-endian word at a byte.
#[inline]
pub(super) fn write(frame: &mut [u8], at: usize, word: u64) {
    if let Some(bytes) = frame.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<WORD>()) {
        *bytes = word.to_be_bytes();
    }
}
