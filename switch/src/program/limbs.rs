//! Helpers for numbers of any width as a list of limbs: 64-bit words, least significant first.

/// Returns a mask of the low `bits` bits; all 64 if `bits` is larger.
#[inline]
pub(crate) fn low_mask(bits: u32) -> u64 {
    match bits {
        0 => 0,
        bits => u64::MAX >> (64 - bits.min(64)),
    }
}

/// Returns the number of limbs of a value of `bits` bits; at least 1, because a value of width 0 has a slot too.
pub(crate) fn limb_count(bits: u32) -> usize {
    bits.div_ceil(64).max(1) as usize
}

/// Returns a mask of the lowest `bits` bits, as `count` limbs.
pub(crate) fn mask_limbs(bits: u32, count: usize) -> Vec<u64> {
    (0..count as u32).map(|limb| low_mask(bits.saturating_sub(limb * 64))).collect()
}

/// Returns a mask of the first `prefix_len` bits of a number of `bits` bits, as limbs.
pub(crate) fn prefix_mask(bits: u32, prefix_len: u32) -> Vec<u64> {
    let count = limb_count(bits);
    let low = mask_limbs(bits.saturating_sub(prefix_len), count);
    mask_limbs(bits, count).iter().zip(low).map(|(all, low)| all & !low).collect()
}

/// Returns the bitwise AND of two numbers with the same number of limbs.
pub(crate) fn and(a: &[u64], b: &[u64]) -> Vec<u64> {
    a.iter().zip(b).map(|(a, b)| a & b).collect()
}

/// Returns the lowest `count` limbs of a big-endian number, least significant first. Limbs beyond its bytes are 0.
pub(crate) fn limbs_from_be_bytes(bytes: &[u8], count: usize) -> impl Iterator<Item = u64> {
    let mut chunks = bytes.rchunks(8);
    let limb = |chunk: &[u8]| chunk.iter().fold(0, |limb, byte| limb << 8 | u64::from(*byte));
    (0..count).map(move |_| chunks.next().map_or(0, limb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_low_bits_and_prefixes() {
        assert_eq!(mask_limbs(9, 1), [0x1ff]);
        assert_eq!(mask_limbs(128, 2), [u64::MAX, u64::MAX]);
        assert_eq!(mask_limbs(65, 2), [u64::MAX, 1]);
        assert_eq!(prefix_mask(32, 24), [0xffff_ff00]);
        assert_eq!(prefix_mask(128, 64), [0, u64::MAX]);
        assert_eq!(prefix_mask(32, 0), [0]);
    }
}
