use super::checksum::internet_checksum;
use super::ethernet::{ETHERTYPE_IPV4, EthernetRepr, EthernetView, MacAddr};
use super::ipv4::{Ecn, Ipv4Repr, Ipv4View, PROTOCOL_UDP};
use super::layout::{ETHERNET_LEN, HEADERS_LEN, IPV4_LEN, MAX_HOPS, UDP_LEN, WEIR_LEN};
use super::udp::{UdpRepr, UdpView};
use super::weir::{PacketKind, WeirRepr, WeirView};
use crate::drops::DropReason;
use std::net::Ipv4Addr;

/// Weir's UDP port: destination of forward packets, source of reverse packets.
pub const WEIR_PORT: u16 = 22_341;
/// Destination of POLICY packets. Switches flood them to this group and drop POLICY packets to other addresses.
pub const POLICY_GROUP: Ipv4Addr = Ipv4Addr::new(239, 87, 69, 73);
/// MAC address of the group: 23 bits of its IPv4 address (RFC 1112 §6.4).
pub const POLICY_GROUP_MAC: MacAddr = [0x01, 0x00, 0x5e, 0x57, 0x45, 0x49];

/// The direction of a packet relative to its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the sender of DATA: Weir's port is the destination.
    Forward,
    /// To the sender of DATA: Weir's port is the source.
    Reverse,
}

impl PacketKind {
    /// Returns the direction of packets of this kind.
    pub const fn direction(self) -> Direction {
        match self {
            PacketKind::Data | PacketKind::Probe | PacketKind::Policy => Direction::Forward,
            PacketKind::Ack
            | PacketKind::Nack
            | PacketKind::Cnp
            | PacketKind::ProbeReply
            | PacketKind::Rate => Direction::Reverse,
        }
    }
}

/// A frame whose headers were all checked, also against each other.
///
/// The end of the payload may be *virtual*: zero bytes that are counted but not stored, so that a simulator need not
/// copy them.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    /// The Ethernet frame.
    pub ethernet: EthernetView<'a>,
    /// The IPv4 packet.
    pub ip: Ipv4View<'a>,
    /// The UDP datagram.
    pub udp: UdpView<'a>,
    /// The Weir packet.
    pub weir: WeirView<'a>,
    records: &'a [u8],
    payload_len: u32,
}

impl<'a> FrameView<'a> {
    /// Parses `bytes`, which are followed by `virtual_payload` zero bytes. Headers and telemetry records must be in
    /// `bytes`; any part of the payload may be virtual.
    ///
    /// # Errors
    ///
    /// The reason for which a host drops the frame: it is truncated, is not a Weir packet, or its lengths contradict
    /// each other.
    #[inline]
    pub fn new(bytes: &'a [u8], virtual_payload: u32) -> Result<Self, DropReason> {
        let ethernet = EthernetView::new(bytes).ok_or(DropReason::Truncated)?;
        if ethernet.ethertype() != ETHERTYPE_IPV4 {
            return Err(DropReason::NotIpv4);
        }
        let ip = Ipv4View::new(ethernet.payload(), virtual_payload)?;
        if ip.protocol() != PROTOCOL_UDP {
            return Err(DropReason::NotWeir);
        }
        let udp = UdpView::new(ip.payload()).ok_or(DropReason::Truncated)?;
        if usize::from(udp.length()) + IPV4_LEN != usize::from(ip.total_length()) {
            return Err(DropReason::LengthMismatch);
        }
        if udp.source() != WEIR_PORT && udp.destination() != WEIR_PORT {
            return Err(DropReason::NotWeir);
        }
        let weir = WeirView::new(udp.payload())?;
        let port = match weir.kind().direction() {
            Direction::Forward => udp.destination(),
            Direction::Reverse => udp.source(),
        };
        if port != WEIR_PORT {
            return Err(DropReason::NotWeir);
        }
        let records_len = usize::from(weir.int_hops()) * weir.format().record_len();
        let weir_payload_len = usize::from(udp.length()) - UDP_LEN - WEIR_LEN;
        let payload_len =
            weir_payload_len.checked_sub(records_len).ok_or(DropReason::RecordsLengthMismatch)? as u32;
        let records = weir.payload().get(..records_len).ok_or(DropReason::Truncated)?;
        Ok(FrameView { ethernet, ip, udp, weir, records, payload_len })
    }
    /// Returns whether the UDP checksum is 0 or correct (RFC 768). The payload must not be virtual.
    pub fn has_valid_udp_checksum(&self) -> bool {
        if self.udp.checksum() == 0 {
            return true;
        }
        let mut pseudo_header = [0; 12];
        pseudo_header[..4].copy_from_slice(&self.ip.source().octets());
        pseudo_header[4..8].copy_from_slice(&self.ip.destination().octets());
        pseudo_header[9] = PROTOCOL_UDP;
        pseudo_header[10..].copy_from_slice(&self.udp.length().to_be_bytes());
        // One's complement sums, added with end-around carry.
        let [a, b] = [&pseudo_header, self.ip.payload()].map(|bytes| u32::from(!internet_checksum(bytes)));
        (a + b) % 0xffff == 0
    }
    /// Returns the telemetry records in wire format, newest first.
    pub fn records(&self) -> &'a [u8] {
        self.records
    }
    /// Returns the part of the payload that is not virtual.
    pub fn payload(&self) -> &'a [u8] {
        let bytes = self.weir.payload().get(self.records.len()..).unwrap_or_default();
        bytes.get(..self.payload_len as usize).unwrap_or(bytes)
    }
    /// Returns the length of the payload in bytes, including its virtual part.
    pub fn payload_len(&self) -> u32 {
        self.payload_len
    }
    /// Returns the UDP port other than Weir's, by which switches spread flows over paths.
    pub fn entropy_port(&self) -> u16 {
        match self.weir.kind().direction() {
            Direction::Forward => self.udp.source(),
            Direction::Reverse => self.udp.destination(),
        }
    }
}

/// The headers of a frame: everything except records and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRepr {
    /// Source MAC address.
    pub source_mac: MacAddr,
    /// Destination MAC address.
    pub destination_mac: MacAddr,
    /// Source IPv4 address.
    pub source: Ipv4Addr,
    /// Destination IPv4 address.
    pub destination: Ipv4Addr,
    /// Differentiated services code point, 6 bits. Some P4 programs choose the queue of DATA by it.
    pub dscp: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// UDP port other than Weir's, by which switches spread flows over paths.
    pub entropy_port: u16,
    /// Weir header. [`emit`](Self::emit) sets its hop count from the records.
    pub weir: WeirRepr,
    /// Length of the payload in bytes.
    pub payload_len: u32,
}

impl FrameRepr {
    /// Reads the headers from a view.
    pub fn parse(view: &FrameView<'_>) -> Self {
        FrameRepr {
            source_mac: view.ethernet.source(),
            destination_mac: view.ethernet.destination(),
            source: view.ip.source(),
            destination: view.ip.destination(),
            dscp: view.ip.dscp(),
            ecn: view.ip.ecn(),
            entropy_port: view.entropy_port(),
            weir: WeirRepr::parse(&view.weir),
            payload_len: view.payload_len(),
        }
    }

    /// Writes the headers and `records`, which are in wire format, and returns their length. Returns `None` if `out` is
    /// too short, if `records` has an incomplete record or more than eight, or if the packet is too long for IPv4.
    pub fn emit(&self, records: &[u8], out: &mut [u8]) -> Option<usize> {
        let record_len = self.weir.format.record_len();
        let hops = records.len() / record_len;
        if hops > MAX_HOPS || !records.len().is_multiple_of(record_len) {
            return None;
        }
        let head_len = HEADERS_LEN + records.len();
        let udp_len = (UDP_LEN + WEIR_LEN + records.len()) as u32;
        let udp_len = u16::try_from(udp_len.checked_add(self.payload_len)?).ok()?;
        udp_len.checked_add(IPV4_LEN as u16)?;
        let (ethernet, rest) = out.get_mut(..head_len)?.split_first_chunk_mut::<ETHERNET_LEN>()?;
        let (ip, rest) = rest.split_first_chunk_mut::<IPV4_LEN>()?;
        let (udp, rest) = rest.split_first_chunk_mut::<UDP_LEN>()?;
        let (weir, rest) = rest.split_first_chunk_mut::<WEIR_LEN>()?;
        EthernetRepr {
            source: self.source_mac,
            destination: self.destination_mac,
            ethertype: ETHERTYPE_IPV4,
        }
        .emit(ethernet);
        Ipv4Repr {
            source: self.source,
            destination: self.destination,
            dscp: self.dscp,
            ecn: self.ecn,
            payload_len: udp_len,
        }
        .emit(ip);
        let (source, destination) = match self.weir.kind.direction() {
            Direction::Forward => (self.entropy_port, WEIR_PORT),
            Direction::Reverse => (WEIR_PORT, self.entropy_port),
        };
        UdpRepr { source, destination, length: udp_len }.emit(udp);
        WeirRepr { int_hops: hops as u8, ..self.weir }.emit(weir);
        rest.copy_from_slice(records);
        Some(head_len)
    }
}
