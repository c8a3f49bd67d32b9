//! IPv4 prefixes.

use std::fmt;
use std::net::Ipv4Addr;

/// An IPv4 prefix; the host bits of the address are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    pub addr: Ipv4Addr,
    /// Number of significant leading bits, 0 to 32.
    pub len: u8,
}

impl Prefix {
    /// Returns the prefix of a single address.
    pub const fn host(addr: Ipv4Addr) -> Prefix {
        Prefix { addr, len: 32 }
    }
    /// Returns the prefix of this length that contains the address; `len` is at most 32.
    pub fn of(addr: Ipv4Addr, len: u8) -> Prefix {
        let mask = u32::MAX.checked_shl(32u32.saturating_sub(len.into())).unwrap_or(0);
        Prefix { addr: Ipv4Addr::from_bits(addr.to_bits() & mask), len }
    }
    pub fn contains(self, addr: Ipv4Addr) -> bool {
        Prefix::of(addr, self.len).addr == self.addr
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}
