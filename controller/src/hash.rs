//! The path hash, the twin of the one in `p4src/include`.
//!
//! It is made of sums and XORs of both ends, so a packet and its ACK hash alike (FNCC §3.1,
//! observation 2). Each tier of the fabric then takes its own slice of it, see `docs/routing.md` for why
//! a salt would not do.

use std::net::Ipv4Addr;

/// The slice that chooses a spanning tree.
pub const TREE_SLICE: u8 = 0;
/// UDP's protocol number, for [`FiveTuple`].
pub const UDP: u8 = 17;

/// What decides the path of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiveTuple {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// IP protocol.
    pub protocol: u8,
}

impl FiveTuple {
    /// The five-tuple of the answer.
    pub fn reversed(self) -> FiveTuple {
        FiveTuple {
            src: self.dst,
            dst: self.src,
            src_port: self.dst_port,
            dst_port: self.src_port,
            protocol: self.protocol,
        }
    }

    /// CRC-32 over the sums and XORs of both ends, then the protocol.
    pub fn path_hash(self) -> PathHash {
        let (src, dst) = (self.src.to_bits(), self.dst.to_bits());
        let mut bytes = [0; 13];
        bytes[0..4].copy_from_slice(&src.wrapping_add(dst).to_be_bytes());
        bytes[4..8].copy_from_slice(&(src ^ dst).to_be_bytes());
        bytes[8..10].copy_from_slice(&self.src_port.wrapping_add(self.dst_port).to_be_bytes());
        bytes[10..12].copy_from_slice(&(self.src_port ^ self.dst_port).to_be_bytes());
        bytes[12] = self.protocol;
        PathHash(crc32fast::hash(&bytes))
    }
}

/// The 32 bits from which every switch on the way chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathHash(pub u32);

impl PathHash {
    /// The 16 bits that a slice gives: CRC-16 over the hash, shifted right.
    pub fn slice(self, slice: u8) -> u16 {
        crc16(&self.0.checked_shr(u32::from(slice)).unwrap_or(0).to_be_bytes())
    }
    /// Which member of an ECMP group of `size`.
    pub fn member(self, slice: u8, size: u16) -> u16 {
        self.slice(slice) % size.max(1)
    }
    /// Which of `count` spanning trees: slice 0 decides, on every switch alike.
    pub fn tree(self, count: u8) -> u8 {
        self.member(TREE_SLICE, u16::from(count)) as u8
    }
}

/// CRC-16/ARC, which v1model calls `crc16`.
fn crc16(bytes: &[u8]) -> u16 {
    /// x^16 + x^15 + x^2 + 1, reflected.
    const POLYNOMIAL: u16 = 0xa001;
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(
            crc ^ u16::from(byte),
            |crc, _| if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc16_is_arc() {
        // The check value of CRC-16/ARC in the catalogue of parametrised CRCs.
        assert_eq!(crc16(b"123456789"), 0xbb3d);
    }
}
