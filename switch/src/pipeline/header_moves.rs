//! Moves header fields between frame and slots, window by window.

use crate::packet::SLACK;
use crate::program::{BitMove, MoveWindows, WINDOW_LEN, low_mask};

/// The bytes that a move can access: a window and the word after it.
pub(super) type Window = [u8; SLACK];

const WORD: usize = 8;
const _: () = assert!(WINDOW_LEN + WORD <= SLACK, "a move may begin at the last byte of a window");

/// Returns the big-endian word at which a move begins.
#[inline(always)]
fn word(bytes: &Window, bit_move: &BitMove) -> u64 {
    let offset = usize::from(bit_move.offset) % WINDOW_LEN;
    let mut word = [0; WORD];
    word.copy_from_slice(&bytes[offset..offset + WORD]);
    u64::from_be_bytes(word)
}

#[inline(always)]
fn slot(bit_move: &BitMove) -> usize {
    usize::from(bit_move.slot) % WINDOW_LEN
}

/// Loads a header from the frame into slots. Both the frame and the slots have slack at their end, so that a
/// whole window can be read.
#[inline]
pub(super) fn load_header(moves: &MoveWindows, frame: &[u8], offset: usize, slots: &mut [u64], base: usize) {
    for window in moves {
        let bytes = frame.get(offset + usize::from(window.offset)..).and_then(|rest| rest.first_chunk());
        let block = slots
            .get_mut(base + usize::from(window.slot)..)
            .and_then(|rest| rest.first_chunk_mut::<WINDOW_LEN>());
        let (Some(bytes), Some(block)) = (bytes, block) else { return };
        for bit_move in &window.single {
            block[slot(bit_move)] = word(bytes, bit_move) >> (bit_move.shift & 63) & bit_move.mask;
        }
        for (bit_move, up) in &window.split {
            let piece = word(bytes, bit_move) >> (bit_move.shift & 63) & bit_move.mask;
            let field = &mut block[slot(bit_move)];
            // The upper piece comes first and overwrites the slot; the lower piece is or-ed in.
            *field = if *up > 0 { piece << (up & 63) } else { *field | piece };
        }
    }
}

/// Stores a header from slots into the frame. Bits that no move covers keep their values.
#[inline]
pub(super) fn store_header(moves: &MoveWindows, frame: &mut [u8], offset: usize, slots: &[u64], base: usize) {
    for window in moves {
        let bytes =
            frame.get_mut(offset + usize::from(window.offset)..).and_then(|rest| rest.first_chunk_mut());
        let block =
            slots.get(base + usize::from(window.slot)..).and_then(|rest| rest.first_chunk::<WINDOW_LEN>());
        let (Some(bytes), Some(block)) = (bytes, block) else { return };
        for bit_move in &window.single {
            store_bits(bytes, bit_move, block[slot(bit_move)]);
        }
        for (bit_move, up) in &window.split {
            store_bits(bytes, bit_move, block[slot(bit_move)] >> (up & 63));
        }
    }
}

#[inline(always)]
fn store_bits(bytes: &mut Window, bit_move: &BitMove, value: u64) {
    let offset = usize::from(bit_move.offset) % WINDOW_LEN;
    let new = word(bytes, bit_move) & !(bit_move.mask << (bit_move.shift & 63))
        | (value & bit_move.mask) << (bit_move.shift & 63);
    bytes[offset..offset + WORD].copy_from_slice(&new.to_be_bytes());
}

/// Reads `bits` bits at bit offset `begin` as limbs, least significant first. Bits beyond the frame are 0.
pub(super) fn read_bits(frame: &[u8], begin: usize, bits: u32, to: &mut [u64]) {
    let end = begin + bits as usize;
    for (index, limb) in to.iter_mut().enumerate() {
        let high = end.saturating_sub(64 * index);
        let low = high.saturating_sub(64).max(begin);
        *limb = 0;
        let mut bit = low;
        while bit < high {
            let count = (8 - bit % 8).min(high - bit);
            let byte = u64::from(frame.get(bit / 8).copied().unwrap_or(0));
            let piece = byte >> (8 - bit % 8 - count) & low_mask(count as u32);
            *limb = *limb << count | piece;
            bit += count;
        }
    }
}
