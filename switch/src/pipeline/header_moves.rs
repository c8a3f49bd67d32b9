//! Moves header fields between frame and slots, window by window.

use crate::packet::SLACK;
use crate::program::{BitMove, MoveWindows, WINDOW_LEN, low_mask};

/// The bytes that a move can reach: a window and one word more.
pub(super) type Window = [u8; SLACK];

const WORD: usize = 8;
const _: () = assert!(WINDOW_LEN + WORD <= SLACK, "a move may begin at the last byte of a window");

/// Returns the big-endian word at which a move begins.
#[inline(always)]
fn word(bytes: &Window, step: &BitMove) -> u64 {
    let at = usize::from(step.offset) % WINDOW_LEN;
    let mut word = [0; WORD];
    word.copy_from_slice(&bytes[at..at + WORD]);
    u64::from_be_bytes(word)
}

#[inline(always)]
fn slot(step: &BitMove) -> usize {
    usize::from(step.slot) % WINDOW_LEN
}

/// Loads a header from the frame into slots. Both the frame and the slots have slack at their end, so that a
/// whole window can be read.
#[inline]
pub(super) fn load_header(moves: &MoveWindows, frame: &[u8], at: usize, slots: &mut [u64], base: usize) {
    for window in moves {
        let bytes = frame.get(at + usize::from(window.offset)..).and_then(|rest| rest.first_chunk());
        let block = slots
            .get_mut(base + usize::from(window.slot)..)
            .and_then(|rest| rest.first_chunk_mut::<WINDOW_LEN>());
        let (Some(bytes), Some(block)) = (bytes, block) else { return };
        for step in &window.single {
            block[slot(step)] = word(bytes, step) >> (step.shift & 63) & step.mask;
        }
        for (step, up) in &window.split {
            let piece = word(bytes, step) >> (step.shift & 63) & step.mask;
            let to = &mut block[slot(step)];
            *to = if *up > 0 { piece << (up & 63) } else { *to | piece };
        }
    }
}

/// Stores a header from slots into the frame. Bits between the fields keep their values.
#[inline]
pub(super) fn store_header(moves: &MoveWindows, frame: &mut [u8], at: usize, slots: &[u64], base: usize) {
    for window in moves {
        let bytes = frame.get_mut(at + usize::from(window.offset)..).and_then(|rest| rest.first_chunk_mut());
        let block =
            slots.get(base + usize::from(window.slot)..).and_then(|rest| rest.first_chunk::<WINDOW_LEN>());
        let (Some(bytes), Some(block)) = (bytes, block) else { return };
        for step in &window.single {
            set(bytes, step, block[slot(step)]);
        }
        for (step, up) in &window.split {
            set(bytes, step, block[slot(step)] >> (up & 63));
        }
    }
}

#[inline(always)]
fn set(bytes: &mut Window, step: &BitMove, value: u64) {
    let at = usize::from(step.offset) % WINDOW_LEN;
    let new =
        word(bytes, step) & !(step.mask << (step.shift & 63)) | (value & step.mask) << (step.shift & 63);
    bytes[at..at + WORD].copy_from_slice(&new.to_be_bytes());
}

/// Reads `bits` bits at bit offset `begin` as limbs, least significant first. Bits beyond the frame are 0.
pub(super) fn read_bits(frame: &[u8], begin: usize, bits: u32, to: &mut [u64]) {
    let end = begin + bits as usize;
    for (index, limb) in to.iter_mut().enumerate() {
        let high = end.saturating_sub(64 * index);
        let low = high.saturating_sub(64).max(begin);
        *limb = 0;
        let mut at = low;
        while at < high {
            let taken = (8 - at % 8).min(high - at);
            let byte = u64::from(frame.get(at / 8).copied().unwrap_or(0));
            let piece = byte >> (8 - at % 8 - taken) & low_mask(taken as u32);
            *limb = *limb << taken | piece;
            at += taken;
        }
    }
}
