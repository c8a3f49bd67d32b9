use super::checksum::internet_checksum;
use super::layout::{IPV4_LEN, write_at};
use crate::drops::DropReason;
use std::net::Ipv4Addr;

/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// Initial time to live, far more than the longest path of any fabric.
pub const INITIAL_TTL: u8 = 64;
/// The flag "don't fragment".
const DONT_FRAGMENT: u16 = 0x4000;
/// The flag "more fragments" and the fragment offset.
const FRAGMENT_BITS: u16 = 0x3fff;

/// Explicit congestion notification (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0,
    /// ECN-capable, ECT(1).
    Ect1 = 1,
    /// ECN-capable, ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// Decodes the low two bits of `bits`.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// The bytes of an IPv4 packet with a checked header without options.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4View<'a> {
    header: &'a [u8; IPV4_LEN],
    payload: &'a [u8],
}

impl<'a> Ipv4View<'a> {
    /// Creates a view after checking version, header length, checksum and fragmentation, and that `bytes`, followed by
    /// `virtual_payload` zero bytes, are at least as long as the total length. Padding behind the packet is cut off.
    ///
    /// # Errors
    ///
    /// The reason for which a host drops the packet, one for each of these checks.
    #[inline]
    pub fn new(bytes: &'a [u8], virtual_payload: u32) -> Result<Self, DropReason> {
        let (header, payload) = bytes.split_first_chunk::<IPV4_LEN>().ok_or(DropReason::Truncated)?;
        match header[0] {
            // Version 4, and a header of 5 words.
            0x45 => {}
            // Version 4, but with options or a header length below the minimum.
            byte if byte >> 4 == 4 => return Err(DropReason::BadIpHeader),
            _ => return Err(DropReason::NotIpv4),
        }
        if internet_checksum(header) != 0 {
            return Err(DropReason::BadIpChecksum);
        }
        let view = Ipv4View { header, payload };
        if view.u16_at(6) & FRAGMENT_BITS != 0 {
            return Err(DropReason::Fragment);
        }
        let total_len = u64::from(view.total_length());
        if total_len < IPV4_LEN as u64 || total_len > bytes.len() as u64 + u64::from(virtual_payload) {
            return Err(DropReason::LengthMismatch);
        }
        // The rest of the payload, if any, is virtual.
        let stored_len = payload.len().min(total_len as usize - IPV4_LEN);
        Ok(Ipv4View { header, payload: &payload[..stored_len] })
    }
    fn u16_at(&self, offset: usize) -> u16 {
        u16::from_be_bytes([self.header[offset], self.header[offset + 1]])
    }
    fn addr_at(&self, offset: usize) -> Ipv4Addr {
        let header = self.header;
        Ipv4Addr::new(header[offset], header[offset + 1], header[offset + 2], header[offset + 3])
    }
    /// Returns the total length of the packet in bytes.
    pub fn total_length(&self) -> u16 {
        self.u16_at(2)
    }
    /// Differentiated services code point, 6 bits.
    pub fn dscp(&self) -> u8 {
        self.header[1] >> 2
    }
    /// ECN bits.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.header[1])
    }
    /// Time to live: remaining hops.
    pub fn ttl(&self) -> u8 {
        self.header[8]
    }
    /// Returns the protocol number of the payload.
    pub fn protocol(&self) -> u8 {
        self.header[9]
    }
    /// Source address.
    pub fn source(&self) -> Ipv4Addr {
        self.addr_at(12)
    }
    /// Destination address.
    pub fn destination(&self) -> Ipv4Addr {
        self.addr_at(16)
    }
    /// Returns the bytes behind the header that are not virtual.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An IPv4 header as hosts send it: without options, carrying UDP, never fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Repr {
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Differentiated services code point, 6 bits.
    pub dscp: u8,
    /// ECN bits.
    pub ecn: Ecn,
    /// Length of the payload in bytes.
    pub payload_len: u16,
}

impl Ipv4Repr {
    /// Reads the header from a view.
    pub fn parse(view: &Ipv4View<'_>) -> Self {
        Ipv4Repr {
            source: view.source(),
            destination: view.destination(),
            dscp: view.dscp(),
            ecn: view.ecn(),
            payload_len: view.total_length() - IPV4_LEN as u16,
        }
    }
    /// Writes the header with its checksum.
    pub fn emit(&self, out: &mut [u8; IPV4_LEN]) {
        out[0] = 0x45;
        out[1] = self.dscp << 2 | self.ecn as u8;
        write_at(out, 2, self.payload_len.saturating_add(IPV4_LEN as u16).to_be_bytes());
        // The identification is used for fragments only (RFC 6864 §4.1).
        write_at(out, 4, [0, 0]);
        write_at(out, 6, DONT_FRAGMENT.to_be_bytes());
        out[8] = INITIAL_TTL;
        out[9] = PROTOCOL_UDP;
        write_at(out, 10, [0, 0]);
        write_at(out, 12, self.source.octets());
        write_at(out, 16, self.destination.octets());
        let sum = internet_checksum(out);
        write_at(out, 10, sum.to_be_bytes());
    }
}
