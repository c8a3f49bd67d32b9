//! Maps by message id.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by message id. Only looked up, never iterated: the order would make runs irreproducible.
pub(super) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Hashes message ids, which are dense and not secret, with one multiplication. A peer that picks colliding ids slows
/// down only the receiver that it sends to, and [`max_inbound`](crate::TransportConfig) bounds how many such ids that
/// receiver holds.
#[derive(Default)]
pub(super) struct IdHasher(u64);

/// 2^64 divided by the golden ratio, rounded to an odd number (Knuth, TAOCP 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u32(&mut self, id: u32) {
        self.write_u64(u64::from(id));
    }
    fn write_u64(&mut self, id: u64) {
        let spread = (self.0 ^ id).wrapping_mul(GOLDEN);
        // The table takes its index from the low bits, where a product is weakest.
        self.0 = spread ^ spread >> 32;
    }
}
