//! Random streams: one per entity, drawn from the experiment's seed and the entity's name, so
//! that adding one entity never changes the draws of another.

/// The seed of the stream `name` under `seed`: FNV-1a over the name, then SplitMix64's finaliser.
pub fn stream_seed(seed: u64, name: &str) -> u64 {
    const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = name.bytes().fold(FNV_OFFSET, |h, b| (h ^ u64::from(b)).wrapping_mul(FNV_PRIME));
    mix(seed ^ mix(hash))
}

/// SplitMix64's finaliser: every output bit depends on every input bit.
pub fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_name_and_by_seed() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..50 {
            for name in ["s1", "s2", "h1", "flow 1", ""] {
                assert!(seen.insert(stream_seed(seed, name)));
            }
        }
    }
}
