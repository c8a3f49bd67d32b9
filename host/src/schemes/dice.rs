//! Pseudo-random numbers for schemes.

/// Returns pseudo-random bits: MurmurHash3's finalizer. Schemes have no random generator, and results must not depend on
/// threads; a hash of what tells events apart, such as their time or number, is reproducible.
pub(super) fn hash(seed: u64) -> u64 {
    let mut x = seed;
    for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        x = (x ^ x >> 33).wrapping_mul(factor);
    }
    x
}
