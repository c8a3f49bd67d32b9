//! The layout of a table's key: the 64-bit words into which its elements are packed. An element of at most 64 bits
//! does not cross a word boundary; a wider one begins at a word boundary.

use super::limbs::{limb_count, low_mask, prefix_mask};
use super::op::Slot;
use super::signatures::MatchKind;

/// A key element in the header vector.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub slot: Slot,
    pub bits: u32,
    pub kind: MatchKind,
    /// The bits that are compared (P4's mask in the key expression), least significant limb first.
    pub mask: Vec<u64>,
}

/// The positions of a key's elements in the header vector and in the words of the key.
#[derive(Clone, Debug)]
pub(crate) struct KeyLayout {
    /// Length of the key in words.
    pub words: usize,
    /// Total width of the elements in bits.
    pub bits: u32,
    /// The mask of the whole key for each prefix length of its LPM element, from 0 on; empty for a key without LPM
    /// element.
    pub prefix_masks: Vec<Vec<u64>>,
    pub segments: Vec<KeySegment>,
    elements: Vec<ElementPosition>,
}

/// The position of an element in the words of the key.
#[derive(Clone, Copy, Debug)]
struct ElementPosition {
    first_word: usize,
    shift: u8,
    limb_count: usize,
}

/// The bits of one slot in a word of the key: `(slot & mask) << shift`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySegment {
    pub slot: Slot,
    pub word: u16,
    pub shift: u8,
    pub mask: u64,
}

impl KeyLayout {
    pub(crate) fn new(keys: &[Key]) -> KeyLayout {
        let (mut segments, mut elements) = (Vec::new(), Vec::new());
        let (mut word, mut used) = (0usize, 0u32);
        for key in keys {
            let count = limb_count(key.bits);
            if used > 0 && (count > 1 || used + key.bits > 64) {
                (word, used) = (word + 1, 0);
            }
            elements.push(ElementPosition { first_word: word, shift: used as u8, limb_count: count });
            for (limb, mask) in key.mask.iter().enumerate() {
                let (slot, word) = (key.slot + limb as u16, (word + limb) as u16);
                segments.push(KeySegment { slot, word, shift: used as u8, mask: *mask });
            }
            used += key.bits;
            if count > 1 || used >= 64 {
                (word, used) = (word + count, 0);
            }
        }
        let words = word + usize::from(used > 0);
        let bits = keys.iter().map(|key| key.bits).sum();
        let mut layout = KeyLayout { words, bits, prefix_masks: Vec::new(), segments, elements };
        if let Some(lpm) = keys.iter().find(|key| key.kind == MatchKind::Lpm) {
            layout.prefix_masks = (0..=lpm.bits).map(|length| layout.key_prefix_mask(keys, length)).collect();
        }
        layout
    }

    /// Returns the mask of the whole key with a prefix of `length` bits in its LPM element.
    fn key_prefix_mask(&self, keys: &[Key], length: u32) -> Vec<u64> {
        let mut mask = vec![0; self.words];
        for (element, key) in keys.iter().enumerate() {
            let length = if key.kind == MatchKind::Lpm { length } else { key.bits };
            self.insert_element(element, &prefix_mask(key.bits, length), &mut mask);
        }
        mask
    }

    /// Builds the key of a packet from its slots in `key`.
    pub(crate) fn build_key(&self, slots: &[u64], key: &mut Vec<u64>) {
        key.clear();
        key.resize(self.words, 0);
        for segment in &self.segments {
            key[usize::from(segment.word)] |=
                (slots[usize::from(segment.slot)] & segment.mask) << segment.shift;
        }
    }

    /// Inserts the limbs of an element into a key. The key's bits at the position of the element must be 0.
    pub(crate) fn insert_element(&self, element: usize, value: &[u64], key: &mut [u64]) {
        let ElementPosition { first_word, shift, limb_count } = self.elements[element];
        for (limb, value) in value.iter().enumerate().take(limb_count) {
            key[first_word + limb] |= value << shift;
        }
    }

    /// Returns the limbs of an element of a key.
    pub(crate) fn extract_element(&self, element: usize, bits: u32, key: &[u64]) -> Vec<u64> {
        let ElementPosition { first_word, shift, limb_count } = self.elements[element];
        match limb_count {
            1 => vec![key.get(first_word).map_or(0, |word| word >> shift) & low_mask(bits)],
            count => key[first_word..first_word + count].to_vec(),
        }
    }
}
