use super::int::RecordFormat;
use super::layout::{MAX_HOPS, VERSION, WEIR_LEN, write_at};
use crate::drops::DropReason;
use std::ops::{BitOr, BitOrAssign};

/// The kind of a Weir packet. The numbers are those of the wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketKind {
    /// Payload of a message.
    Data = 0,
    /// Acknowledges every byte before `seq`.
    Ack = 1,
    /// Acknowledges every byte before `seq` and reports that the byte at `seq` is missing. Later bytes may have
    /// arrived and were discarded (go-back-N).
    Nack = 2,
    /// Congestion notification (CNP).
    Cnp = 3,
    /// Requests telemetry, or credits.
    Probe = 4,
    /// Returns the telemetry of a probe, or is a credit.
    ProbeReply = 5,
    /// An explicit rate from a switch.
    Rate = 6,
    /// A policy, disseminated by Trickle.
    Policy = 7,
}

impl PacketKind {
    /// All kinds, by number.
    pub const ALL: [PacketKind; 8] = [
        PacketKind::Data,
        PacketKind::Ack,
        PacketKind::Nack,
        PacketKind::Cnp,
        PacketKind::Probe,
        PacketKind::ProbeReply,
        PacketKind::Rate,
        PacketKind::Policy,
    ];

    /// Returns the kind with this number; `None` if it is undefined.
    pub fn from_number(number: u8) -> Option<PacketKind> {
        PacketKind::ALL.get(usize::from(number)).copied()
    }
}

/// Flags of the Weir header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No flags.
    pub const NONE: Flags = Flags(0);
    /// First packet of a subflow (`seq` 0), also when retransmitted.
    pub const START: Flags = Flags(0x01);
    /// Last packet of a message.
    pub const END: Flags = Flags(0x02);
    /// The packet requests telemetry.
    pub const TELEMETRY: Flags = Flags(0x04);
    /// The acknowledged packet had an ECN mark.
    pub const ECN_ECHO: Flags = Flags(0x08);
    /// The payload begins with an announcement of senders (Dart §III-D): their number (16 bits), the number of the
    /// incast (32 bits), and the low 16 bits of each address.
    pub const LOOKAHEAD: Flags = Flags(0x10);
    /// The bytes of the packet were sent before.
    pub const RETRANSMIT: Flags = Flags(0x20);
    /// The packet has been deflected (Dart's IOFD). Set by switches, so that a packet with no tokens left can be told
    /// from one that never had any.
    pub const ESCAPE: Flags = Flags(0x40);
    /// A packet of a short message, which is sent before longer ones at the host and in switches that have a class
    /// for it.
    pub const EXPRESS: Flags = Flags(0x80);

    /// Returns whether all of `flags` are set.
    pub const fn has(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}
impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

/// Path ids have 12 bits.
const PATH_ID_MASK: u32 = 0xfff;

/// The bytes of a Weir packet with a checked header.
#[derive(Clone, Copy, Debug)]
pub struct WeirView<'a> {
    header: &'a [u8; WEIR_LEN],
    payload: &'a [u8],
    kind: PacketKind,
}

impl<'a> WeirView<'a> {
    /// Creates a view after checking length, version, kind and number of hops.
    ///
    /// # Errors
    ///
    /// The reason for which a host drops the packet, one for each of these checks.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, DropReason> {
        let (header, payload) = bytes.split_first_chunk::<WEIR_LEN>().ok_or(DropReason::Truncated)?;
        if header[0] >> 4 != VERSION {
            return Err(DropReason::BadVersion);
        }
        let kind = PacketKind::from_number(header[0] & 0xf).ok_or(DropReason::BadKind)?;
        let view = WeirView { header, payload, kind };
        if usize::from(view.int_hops()) > MAX_HOPS {
            return Err(DropReason::TooManyHops);
        }
        Ok(view)
    }
    fn u16_at(&self, offset: usize) -> u16 {
        u16::from_be_bytes([self.header[offset], self.header[offset + 1]])
    }
    fn u32_at(&self, offset: usize) -> u32 {
        let header = self.header;
        u32::from_be_bytes([header[offset], header[offset + 1], header[offset + 2], header[offset + 3]])
    }
    /// Returns the kind of the packet.
    pub fn kind(&self) -> PacketKind {
        self.kind
    }
    /// Flags.
    pub fn flags(&self) -> Flags {
        Flags(self.header[1])
    }
    /// Remaining deflections.
    pub fn tokens(&self) -> u8 {
        self.header[2] >> 4
    }
    /// Index of the subflow within the message.
    pub fn subflow(&self) -> u8 {
        self.header[2] & 0xf
    }
    /// Returns the format of the telemetry records.
    pub fn format(&self) -> RecordFormat {
        RecordFormat::from_bits(self.header[3])
    }
    /// Returns the number of active flows at the receiver; 0 if it is not reported.
    pub fn concurrency(&self) -> u16 {
        self.u16_at(4)
    }
    /// Number of telemetry records behind the header.
    pub fn int_hops(&self) -> u8 {
        self.header[6] >> 4
    }
    /// XOR of the switch ids on the path.
    pub fn path_id(&self) -> u16 {
        self.u16_at(6) & PATH_ID_MASK as u16
    }
    /// Message id.
    pub fn message(&self) -> u32 {
        self.u32_at(8)
    }
    /// Offset, modulo 2^32; see [`WeirRepr::seq`].
    pub fn seq(&self) -> u32 {
        self.u32_at(12)
    }
    /// The sender's clock in ns, modulo 2^32.
    pub fn timestamp(&self) -> u32 {
        self.u32_at(16)
    }
    /// The grant field, whose meaning depends on the kind (docs/wire.md).
    pub fn grant(&self) -> u32 {
        self.u32_at(20)
    }
    /// The grant field of DATA with selective retransmission: the offset in the message, modulo 2^32.
    pub fn message_offset(&self) -> u32 {
        self.grant()
    }
    /// The grant field of DATA with credits: the number of the credit for which the packet was sent.
    pub fn credit_number(&self) -> u32 {
        self.grant()
    }
    /// The grant field of ACKs and replies to probes, unless the scheme uses it: the path id of the packet that they
    /// answer. The path id of the answer itself is that of the return path.
    pub fn echoed_path_id(&self) -> u16 {
        (self.grant() & PATH_ID_MASK) as u16
    }
    /// Returns the bytes behind the header that are not virtual: telemetry records, then payload.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A Weir header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeirRepr {
    /// Kind of the packet.
    pub kind: PacketKind,
    /// Flags.
    pub flags: Flags,
    /// Remaining deflections, 4 bits.
    pub tokens: u8,
    /// Index of the subflow within the message, 4 bits.
    pub subflow: u8,
    /// Format of the telemetry records.
    pub format: RecordFormat,
    /// Number of active flows at the receiver; 0 if it is not reported.
    pub concurrency: u16,
    /// Number of telemetry records behind the header, at most 8.
    pub int_hops: u8,
    /// XOR of the switch ids on the path, 12 bits.
    pub path_id: u16,
    /// Message id.
    pub message: u32,
    /// DATA: offset of the first payload byte; ACK: next byte expected; modulo 2^32.
    pub seq: u32,
    /// The sender's clock in ns, modulo 2^32; echoed in the answer.
    pub timestamp: u32,
    /// The grant field, whose meaning depends on the kind (docs/wire.md).
    pub grant: u32,
}

impl WeirRepr {
    /// Returns a header of this kind with all other fields zero.
    pub const fn of(kind: PacketKind) -> Self {
        WeirRepr {
            kind,
            flags: Flags::NONE,
            tokens: 0,
            subflow: 0,
            format: RecordFormat::BASE,
            concurrency: 0,
            int_hops: 0,
            path_id: 0,
            message: 0,
            seq: 0,
            timestamp: 0,
            grant: 0,
        }
    }

    /// Reads the header from a view.
    pub fn parse(view: &WeirView<'_>) -> Self {
        WeirRepr {
            kind: view.kind(),
            flags: view.flags(),
            tokens: view.tokens(),
            subflow: view.subflow(),
            format: view.format(),
            concurrency: view.concurrency(),
            int_hops: view.int_hops(),
            path_id: view.path_id(),
            message: view.message(),
            seq: view.seq(),
            timestamp: view.timestamp(),
            grant: view.grant(),
        }
    }
    /// Writes the header. Only the low bits of narrow fields are used.
    #[inline]
    pub fn emit(&self, out: &mut [u8; WEIR_LEN]) {
        out[0] = VERSION << 4 | self.kind as u8;
        out[1] = self.flags.0;
        out[2] = self.tokens << 4 | self.subflow & 0xf;
        out[3] = self.format.bits();
        write_at(out, 4, self.concurrency.to_be_bytes());
        write_at(out, 6, (u16::from(self.int_hops) << 12 | self.path_id & PATH_ID_MASK as u16).to_be_bytes());
        write_at(out, 8, self.message.to_be_bytes());
        write_at(out, 12, self.seq.to_be_bytes());
        write_at(out, 16, self.timestamp.to_be_bytes());
        write_at(out, 20, self.grant.to_be_bytes());
    }
}
