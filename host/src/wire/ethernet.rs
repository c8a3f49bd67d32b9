use super::layout::{ETHERNET_LEN, write_at};

/// A MAC address.
pub type MacAddr = [u8; 6];

/// Ethertype of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;

/// The bytes of an Ethernet frame, at least as long as its header.
#[derive(Clone, Copy, Debug)]
pub struct EthernetView<'a> {
    header: &'a [u8; ETHERNET_LEN],
    payload: &'a [u8],
}

impl<'a> EthernetView<'a> {
    /// Creates a view; `None` if `bytes` are shorter than the header.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (header, payload) = bytes.split_first_chunk()?;
        Some(EthernetView { header, payload })
    }
    /// Source address.
    pub fn source(&self) -> MacAddr {
        let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = *self.header;
        [a, b, c, d, e, f]
    }
    /// Destination address.
    pub fn destination(&self) -> MacAddr {
        let [a, b, c, d, e, f, ..] = *self.header;
        [a, b, c, d, e, f]
    }
    /// Ethertype.
    pub fn ethertype(&self) -> u16 {
        u16::from_be_bytes([self.header[12], self.header[13]])
    }
    /// Returns the bytes behind the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetRepr {
    /// Source address.
    pub source: MacAddr,
    /// Destination address.
    pub destination: MacAddr,
    /// Ethertype.
    pub ethertype: u16,
}

impl EthernetRepr {
    /// Reads the header from a view.
    pub fn parse(view: &EthernetView<'_>) -> Self {
        EthernetRepr { source: view.source(), destination: view.destination(), ethertype: view.ethertype() }
    }
    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; ETHERNET_LEN]) {
        write_at(out, 0, self.destination);
        write_at(out, 6, self.source);
        write_at(out, 12, self.ethertype.to_be_bytes());
    }
}
