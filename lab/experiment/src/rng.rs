//! Random number streams. Each entity has its own stream, derived from the experiment's seed and the entity's name, so that
//! adding an entity does not change the numbers of others.

use weir_switch::link::RandomBits;

/// Returns the seed of the stream `name` under `seed`: FNV-1a over the name, then SplitMix64's finaliser.
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

/// A counter-based random number stream.
#[derive(Clone, Debug)]
pub struct RandomStream {
    seed: u64,
    /// Number of values drawn so far.
    draw_count: u64,
}

impl RandomStream {
    /// Returns the stream `name` under `seed`.
    pub fn new(seed: u64, name: &str) -> RandomStream {
        RandomStream { seed: stream_seed(seed, name), draw_count: 0 }
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.draw_count += 1;
        mix(self.seed ^ self.draw_count)
    }

    /// Returns a number in 0 to `limit - 1`; `limit` must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        RandomBits::below(self, limit)
    }

    /// Returns a number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        /// Bits of a float's mantissa.
        const BITS: u32 = f64::MANTISSA_DIGITS;
        (self.next_u64() >> (u64::BITS - BITS)) as f64 / (1u64 << BITS) as f64
    }

    /// Returns an exponentially distributed number with mean 1. `libm` gives the same bits on every platform.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.uniform())
    }
}

impl RandomBits for RandomStream {
    fn next_bits(&mut self) -> u64 {
        self.next_u64()
    }
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

    #[test]
    fn drawn_numbers_have_the_expected_means() {
        let mut stream = RandomStream::new(1, "x");
        const DRAWS: u32 = 100_000;
        let mean = |draw: &mut dyn FnMut() -> f64| (0..DRAWS).map(|_| draw()).sum::<f64>() / f64::from(DRAWS);
        assert!((mean(&mut || stream.uniform()) - 0.5).abs() < 0.01);
        assert!((mean(&mut || stream.exponential()) - 1.0).abs() < 0.01);
        let mut seen = [0u32; 7];
        (0..7_000).for_each(|_| seen[stream.below(7) as usize] += 1);
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
    }
}
