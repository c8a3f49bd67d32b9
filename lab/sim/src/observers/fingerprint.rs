//! A hash of all arrivals, to compare two runs.

use super::events::{Arrival, Observer};

/// For each wire of a process, a running hash of the time and length of every arrival.
#[derive(Clone, Debug)]
pub struct Fingerprint {
    wires: Box<[u64]>,
}

impl Fingerprint {
    pub(crate) fn new(wires: usize) -> Fingerprint {
        Fingerprint { wires: vec![0; wires].into() }
    }

    /// Returns the hash of the wire with this index.
    pub(crate) fn wire(&self, index: u32) -> u64 {
        self.wires[index as usize]
    }

    /// Returns the hash of a fabric from those of its wires.
    pub(crate) fn merge(wires: impl Iterator<Item = u64>) -> u64 {
        wires.fold(0, hash_step)
    }
}

impl Observer for Fingerprint {
    #[inline(always)]
    fn on_arrival(&mut self, arrival: &Arrival<'_>) {
        let hash = &mut self.wires[arrival.wire as usize];
        *hash = hash_step(*hash, arrival.time.as_ps() ^ (u64::from(arrival.packet.len()) << 16));
    }
}

/// One step of a fingerprint: the rotate and multiply of FxHash, which is cheap and depends on the order.
#[inline]
fn hash_step(hash: u64, word: u64) -> u64 {
    const K: u64 = 0x517c_c1b7_2722_0a95;
    (hash.rotate_left(5) ^ word).wrapping_mul(K)
}
