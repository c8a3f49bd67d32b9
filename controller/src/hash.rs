//! The path hash, equal to the one in `p4src/include`.
//!
//! It covers only sums and XORs of the two endpoints, so that a packet and its ACK have the same hash (FNCC §3.1,
//! observation 2). Each tier of the fabric uses its own slice of the hash; `docs/routing.md` explains why a salt per
//! tier would not suffice.

use crc::{CRC_16_ARC, CRC_32_ISO_HDLC, Crc};
use std::net::Ipv4Addr;

/// v1model's `crc16`.
static CRC_16: Crc<u16> = Crc::<u16>::new(&CRC_16_ARC);
/// v1model's `crc32`.
pub(crate) static CRC_32: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// UDP's protocol number, for [`FiveTuple`].
pub const UDP: u8 = 17;

/// The header fields that determine the path of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiveTuple {
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    pub src_port: u16,
    pub dst_port: u16,
    pub protocol: u8,
}

impl FiveTuple {
    /// Returns the five-tuple of packets in the opposite direction.
    pub fn reversed(self) -> FiveTuple {
        FiveTuple {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            protocol: self.protocol,
        }
    }

    /// Returns CRC-32 over the sums and XORs of both endpoints, then the protocol. This is the hash of unfragmented TCP
    /// and UDP packets; for all others the data plane omits the ports.
    pub fn path_hash(self) -> PathHash {
        let (src, dst) = (self.src.to_bits(), self.dst.to_bits());
        let mut bytes = [0; 13];
        bytes[0..4].copy_from_slice(&src.wrapping_add(dst).to_be_bytes());
        bytes[4..8].copy_from_slice(&(src ^ dst).to_be_bytes());
        bytes[8..10].copy_from_slice(&self.src_port.wrapping_add(self.dst_port).to_be_bytes());
        bytes[10..12].copy_from_slice(&(self.src_port ^ self.dst_port).to_be_bytes());
        bytes[12] = self.protocol;
        PathHash(CRC_32.checksum(&bytes))
    }
}

/// The 32-bit hash from which every switch on the path selects its next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathHash(pub u32);

impl PathHash {
    /// Returns a 16-bit slice: CRC-16 over the hash shifted right by `slice` bits.
    pub fn slice(self, slice: u8) -> u16 {
        CRC_16.checksum(&self.0.checked_shr(u32::from(slice)).unwrap_or(0).to_be_bytes())
    }
    /// Returns the index of the selected member of an ECMP group of `size` members.
    pub fn member(self, slice: u8, size: u16) -> u16 {
        self.slice(slice) % size.max(1)
    }
    /// Returns the index of the selected tree, below `count`.
    pub fn tree(self, count: u8) -> u8 {
        (self.0 % u32::from(count.max(1))) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_have_the_same_hash_and_ports_distinguish_flows() {
        let tuple = FiveTuple {
            src: Ipv4Addr::new(10, 0, 1, 1),
            dst: Ipv4Addr::new(10, 0, 2, 7),
            src_port: 49152,
            dst_port: 22341,
            protocol: UDP,
        };
        assert_eq!(tuple.path_hash(), tuple.reversed().path_hash());
        assert_ne!(tuple.path_hash(), FiveTuple { src_port: 49153, ..tuple }.path_hash());
    }

    /// Rank over GF(2) of the map from a hash to the low `bits` bits of each slice. A CRC without preset is
    /// linear, so a full rank means that all combinations of indices are equally frequent.
    fn rank(slices: &[u8], bits: u32) -> u32 {
        let low = |hash: PathHash| {
            slices.iter().fold(0u64, |all, &s| all << bits | u64::from(hash.slice(s)) & ((1 << bits) - 1))
        };
        let mut rows: Vec<u64> = (0..u32::BITS).map(|i| low(PathHash(1 << i))).collect();
        let mut rank = 0;
        while let Some(row) = rows.pop() {
            if row != 0 {
                rank += 1;
                let pivot = row & row.wrapping_neg();
                rows.iter_mut().filter(|r| **r & pivot != 0).for_each(|r| *r ^= row);
            }
        }
        rank
    }

    #[test]
    fn two_tiers_select_independently_up_to_512_members_each() {
        for bits in 1..=9 {
            assert_eq!(rank(&[0, 16], bits), 2 * bits, "{bits} bits");
        }
    }

    /// Returns chi-squared per degree of freedom for the members selected by 64 consecutive ports, averaged over 256
    /// starts. A uniform random selection gives 1.
    fn chi_squared(slice: u8, size: u16) -> f64 {
        const PORTS: u16 = 64;
        let tuple = |src_port| FiveTuple {
            src: Ipv4Addr::new(10, 0, 1, 1),
            dst: Ipv4Addr::new(10, 0, 2, 7),
            src_port,
            dst_port: 22341,
            protocol: UDP,
        };
        let expected = f64::from(PORTS) / f64::from(size);
        let one = |start: u16| {
            let mut counts = vec![0.0; usize::from(size)];
            for port in 0..PORTS {
                counts[usize::from(tuple(start + port).path_hash().member(slice, size))] += 1.0;
            }
            counts.iter().map(|c: &f64| (c - expected).powi(2) / expected).sum::<f64>() / f64::from(size - 1)
        };
        (0..256).map(|i| one(10_000 + i * PORTS)).sum::<f64>() / 256.0
    }

    #[test]
    fn consecutive_ports_spread_evenly_on_slices_0_and_16_but_not_8() {
        for size in [2, 4, 8] {
            for slice in [0, 16] {
                let measured = chi_squared(slice, size);
                assert!(measured < 2.0, "slice {slice}, {size} members: {measured}");
            }
        }
        assert!(chi_squared(8, 2) > 5.0, "{}", chi_squared(8, 2));
    }

    #[test]
    fn slice_24_does_not_reach_all_of_four_members() {
        assert_eq!(rank(&[24], 2), 1);
    }

    #[test]
    fn a_salt_per_tier_would_polarise_flows() {
        // Flows that select member 0 of 4 in one tier meet a second tier that salts the same bits.
        let met: Vec<u32> = (0..4096u32)
            .map(|i| i.wrapping_mul(0x9e37_79b1))
            .filter(|&h| PathHash(h).member(0, 4) == 0)
            .collect();
        let salted = |salt: u32| {
            let mut seen: Vec<u16> = met.iter().map(|&h| PathHash(h ^ salt).member(0, 4)).collect();
            seen.sort_unstable();
            seen.dedup();
            seen.len()
        };
        assert!([0, 1, 0xdead_beef, 0x1234_5678].into_iter().all(|salt| salted(salt) == 1));
        let mut sliced: Vec<u16> = met.iter().map(|&h| PathHash(h).member(16, 4)).collect();
        sliced.sort_unstable();
        sliced.dedup();
        assert_eq!(sliced, [0, 1, 2, 3]);
    }
}
