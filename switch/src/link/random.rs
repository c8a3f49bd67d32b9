//! Random numbers of links.

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use weir_units::Ratio;

/// A source of random numbers. The driver's links draw from a PCG, those in virtual time from the streams of the
/// experiment.
pub trait RandomBits {
    /// Returns 64 random bits.
    fn next_bits(&mut self) -> u64;

    /// Returns a number in `0..limit`; 0 if `limit` is 0.
    fn below(&mut self, limit: u64) -> u64 {
        // Multiply-shift without rejection: the bias is at most limit / 2^64.
        ((u128::from(self.next_bits()) * u128::from(limit)) >> u64::BITS) as u64
    }

    /// Returns true with this probability. A probability of 0 draws no random number, so that a fault that is not
    /// configured does not change the random numbers of the others.
    fn bernoulli(&mut self, probability: Ratio) -> bool {
        /// Bits of a float's mantissa.
        const BITS: u32 = f64::MANTISSA_DIGITS;
        let threshold = (probability.get() * (1u64 << BITS) as f64) as u64;
        threshold > 0 && self.next_bits() >> (u64::BITS - BITS) < threshold
    }
}

impl RandomBits for Pcg64Mcg {
    fn next_bits(&mut self) -> u64 {
        self.next_u64()
    }
}
