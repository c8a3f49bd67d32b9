//! Numbers as limbs: 64-bit words, least significant first.

/// Returns a mask of the low `bits` bits; all 64 if `bits` is larger.
#[inline]
pub(crate) fn low_mask(bits: u32) -> u64 {
    match bits {
        0 => 0,
        bits => u64::MAX >> (64 - bits.min(64)),
    }
}

/// Returns the number of limbs of a value of `bits` bits; at least 1.
pub(crate) fn limb_count(bits: u32) -> usize {
    bits.div_ceil(64).max(1) as usize
}

/// Returns a mask of the lowest `bits` bits, as `limbs` limbs.
pub(crate) fn mask_limbs(bits: u32, limbs: usize) -> Vec<u64> {
    (0..limbs as u32).map(|limb| low_mask(bits.saturating_sub(limb * 64))).collect()
}

/// Returns a mask of the highest `prefix` of `bits` bits, as limbs.
pub(crate) fn prefix_mask(bits: u32, prefix: u32) -> Vec<u64> {
    let limbs = limb_count(bits);
    let below = mask_limbs(bits.saturating_sub(prefix), limbs);
    mask_limbs(bits, limbs).iter().zip(below).map(|(all, below)| all & !below).collect()
}

pub(crate) fn and(a: &[u64], b: &[u64]) -> Vec<u64> {
    a.iter().zip(b).map(|(a, b)| a & b).collect()
}

/// Returns `count` limbs of a big-endian number, least significant first. Missing limbs are 0.
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
