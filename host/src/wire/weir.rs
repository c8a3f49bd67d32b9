use super::{MAX_HOPS, RecordFormat, VERSION, WEIR_LEN, write_at};
use crate::drops::DropReason;
use std::ops::{BitOr, BitOrAssign};

/// The kinds of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketKind {
    /// Payload of a message.
    Data = 0,
    /// Everything before `seq` arrived.
    Ack = 1,
    /// Everything before `seq` arrived, and what follows did not.
    Nack = 2,
    /// Congestion notification.
    Cnp = 3,
    /// Asks for telemetry.
    Probe = 4,
    /// Brings telemetry.
    ProbeReply = 5,
    /// An explicit rate from a switch.
    Rate = 6,
    /// Parameters that spread by Trickle.
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

    /// From its number.
    pub fn from_number(number: u8) -> Option<PacketKind> {
        PacketKind::ALL.get(usize::from(number)).copied()
    }
}

/// Flags of the Weir header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// None.
    pub const NONE: Flags = Flags(0);
    /// First packet of a message.
    pub const START: Flags = Flags(0x01);
    /// Last packet of a message.
    pub const END: Flags = Flags(0x02);
    /// The packet is to gather telemetry.
    pub const TELEMETRY: Flags = Flags(0x04);
    /// The acknowledged packet was marked.
    pub const ECN_ECHO: Flags = Flags(0x08);
    /// The payload begins with senders that are about to send too: their number, then the low 16 bits
    /// of each address, 16 bits each (Dart §III-D).
    pub const LOOKAHEAD: Flags = Flags(0x10);
    /// The packet was sent before.
    pub const RETRANSMIT: Flags = Flags(0x20);
    /// The last of its tokens is gone (Dart's IOFD): switches set it, so that those behind them know the packet from one
    /// that never had any.
    pub const ESCAPE: Flags = Flags(0x40);
    /// A packet of a short message that goes before long ones, here and in switches that have a class for it.
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

/// A Weir packet's bytes with a checked header.
#[derive(Clone, Copy, Debug)]
pub struct WeirView<'a> {
    header: &'a [u8; WEIR_LEN],
    payload: &'a [u8],
    kind: PacketKind,
}

impl<'a> WeirView<'a> {
    /// Parses a Weir header: checks length, version, kind and the number of hops.
    ///
    /// # Errors
    ///
    /// The reason for which a host drops such a packet, one for each of these checks.
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
    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }
    fn u32_at(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.header[at], self.header[at + 1], self.header[at + 2], self.header[at + 3]])
    }
    /// Returns what the packet is.
    pub fn kind(&self) -> PacketKind {
        self.kind
    }
    /// Flags.
    pub fn flags(&self) -> Flags {
        Flags(self.header[1])
    }
    /// Deflections left.
    pub fn tokens(&self) -> u8 {
        self.header[2] >> 4
    }
    /// Index within a multipath connection.
    pub fn subflow(&self) -> u8 {
        self.header[2] & 0xf
    }
    /// Returns what its telemetry records are made of.
    pub fn format(&self) -> RecordFormat {
        RecordFormat::from_bits(self.header[3])
    }
    /// Returns flows at the receiver.
    pub fn concurrency(&self) -> u16 {
        self.u16_at(4)
    }
    /// Telemetry records behind the header.
    pub fn int_hops(&self) -> u8 {
        self.header[6] >> 4
    }
    /// XOR of the switch ids on the path.
    pub fn path_id(&self) -> u16 {
        self.u16_at(6) & 0xfff
    }
    /// Message id.
    pub fn message(&self) -> u32 {
        self.u32_at(8)
    }
    /// Offset, modulo 2^32.
    pub fn seq(&self) -> u32 {
        self.u32_at(12)
    }
    /// Sender's clock.
    pub fn stamp(&self) -> u32 {
        self.u32_at(16)
    }
    /// Grant.
    pub fn grant(&self) -> u32 {
        self.u32_at(20)
    }
    /// Returns what follows the header and is not virtual: telemetry records, then payload.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A Weir header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeirRepr {
    /// The kind of packet.
    pub kind: PacketKind,
    /// Flags.
    pub flags: Flags,
    /// Deflections left, 4 bits.
    pub tokens: u8,
    /// Index within a multipath connection, 4 bits.
    pub subflow: u8,
    /// The content of its telemetry records.
    pub format: RecordFormat,
    /// Flows at the receiver.
    pub concurrency: u16,
    /// Telemetry records behind the header, at most 8.
    pub int_hops: u8,
    /// XOR of the switch ids on the path, 12 bits.
    pub path_id: u16,
    /// Message id.
    pub message: u32,
    /// DATA: offset of the first payload byte; ACK: next byte expected; modulo 2^32.
    pub seq: u32,
    /// Sender's clock in ns, modulo 2^32; echoed.
    pub timestamp: u32,
    /// Grant.
    pub grant: u32,
}

impl WeirRepr {
    /// Of that kind, and all else zero.
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

    /// From a view.
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
            timestamp: view.stamp(),
            grant: view.grant(),
        }
    }
    /// Writes the header; of narrow fields the low bits.
    pub fn emit(&self, out: &mut [u8; WEIR_LEN]) {
        out[0] = VERSION << 4 | self.kind as u8;
        out[1] = self.flags.0;
        out[2] = self.tokens << 4 | self.subflow & 0xf;
        out[3] = self.format.bits();
        write_at(out, 4, self.concurrency.to_be_bytes());
        write_at(out, 6, (u16::from(self.int_hops) << 12 | self.path_id & 0xfff).to_be_bytes());
        write_at(out, 8, self.message.to_be_bytes());
        write_at(out, 12, self.seq.to_be_bytes());
        write_at(out, 16, self.timestamp.to_be_bytes());
        write_at(out, 20, self.grant.to_be_bytes());
    }
}
