use super::layout::{UDP_LEN, write_at};

/// The bytes of a UDP datagram, at least as long as its header.
#[derive(Clone, Copy, Debug)]
pub struct UdpView<'a> {
    header: &'a [u8; UDP_LEN],
    payload: &'a [u8],
}

impl<'a> UdpView<'a> {
    /// Creates a view; `None` if `bytes` are shorter than the header.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (header, payload) = bytes.split_first_chunk()?;
        Some(UdpView { header, payload })
    }
    fn u16_at(&self, offset: usize) -> u16 {
        u16::from_be_bytes([self.header[offset], self.header[offset + 1]])
    }
    /// Source port.
    pub fn source(&self) -> u16 {
        self.u16_at(0)
    }
    /// Destination port.
    pub fn destination(&self) -> u16 {
        self.u16_at(2)
    }
    /// Returns the length of the datagram, including the header.
    pub fn length(&self) -> u16 {
        self.u16_at(4)
    }
    /// Checksum; 0 if the sender computed none.
    pub fn checksum(&self) -> u16 {
        self.u16_at(6)
    }
    /// Returns the bytes behind the header that are not virtual.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A UDP header without checksum: switches add records to the packet, and the checksum is optional over IPv4 (RFC
/// 768).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpRepr {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Length of the datagram in bytes, including the header.
    pub length: u16,
}

impl UdpRepr {
    /// Reads the header from a view.
    pub fn parse(view: &UdpView<'_>) -> Self {
        UdpRepr { source: view.source(), destination: view.destination(), length: view.length() }
    }
    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; UDP_LEN]) {
        write_at(out, 0, self.source.to_be_bytes());
        write_at(out, 2, self.destination.to_be_bytes());
        write_at(out, 4, self.length.to_be_bytes());
        write_at(out, 6, [0, 0]);
    }
}
