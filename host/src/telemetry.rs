//! The telemetry of a path, in data-path order (from the sender of DATA to the receiver) and in plain units.

use crate::wire::{INT_RECORD_LEN, IntRecord, MAX_HOPS, QUEUE_FIELD_LEN, RecordFormat};
use weir_units::{Bandwidth, Bytes};

/// The state of a port on the path at the time when its record was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// Rate of the port; zero if the switch does not know it.
    pub rate: Bandwidth,
    /// Time of the record, in clock ticks modulo [`Hop::TIMESTAMP_MODULUS`].
    pub timestamp: u32,
    /// Bytes sent by the port, modulo [`Hop::TX_BYTES_MODULUS`].
    pub tx_bytes: u32,
    /// Queue of the port, in the unit of [`Telemetry::format`]: length in bytes, or sojourn time of the packet in
    /// ticks.
    pub queue: u32,
    /// The link that leaves the port: switch id (high 16 bits) and port id; 0 if the record has none.
    pub link: u32,
    /// The packet's own queue; `None` if the record does not describe it, or if it is the only queue of the port.
    pub queue_share: Option<QueueShare>,
}

/// A queue that shares its port with others by weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueShare {
    /// Guaranteed share of the port's rate, in units of 1/[`QueueShare::FULL_SHARE`].
    pub share: u16,
    /// Bytes sent from the queue, modulo [`Hop::TX_BYTES_MODULUS`].
    pub tx_bytes: u32,
}

impl QueueShare {
    /// The denominator of [`share`](QueueShare::share): the full rate of the port.
    pub const FULL_SHARE: u16 = 1 << 12;

    /// Decodes 12 bits of share and 20 bits of the byte counter; `None` for a share of 0, which means that the port
    /// has no other queue.
    fn from_word(word: u32) -> Option<QueueShare> {
        let (share, units) = ((word >> 20) as u16, word & 0xf_ffff);
        (share != 0).then(|| QueueShare { share, tx_bytes: units * IntRecord::TX_UNIT.get() as u32 })
    }

    /// Returns the bytes sent between `earlier` and `self`; correct across at most one wrap.
    pub const fn bytes_since(&self, earlier: &QueueShare) -> u32 {
        self.tx_bytes.wrapping_sub(earlier.tx_bytes) & (Hop::TX_BYTES_MODULUS - 1)
    }
}

impl Hop {
    /// Modulus of timestamps: they have 24 bits.
    pub const TIMESTAMP_MODULUS: u32 = 1 << 24;
    /// Modulus of byte counters: 2^20 units of 128 bytes.
    pub const TX_BYTES_MODULUS: u32 = 1 << 27;

    /// Returns the ticks between `earlier` and `self`; correct across at most one wrap.
    pub const fn ticks_since(&self, earlier: &Hop) -> u32 {
        self.timestamp.wrapping_sub(earlier.timestamp) & (Self::TIMESTAMP_MODULUS - 1)
    }
    /// Returns the bytes sent between `earlier` and `self`; correct across at most one wrap.
    pub const fn bytes_since(&self, earlier: &Hop) -> u32 {
        self.tx_bytes.wrapping_sub(earlier.tx_bytes) & (Self::TX_BYTES_MODULUS - 1)
    }
}

impl Hop {
    /// Converts a record; `is_sojourn` if its queue field is a sojourn time.
    fn from_record(record: IntRecord, is_sojourn: bool, link: u32, queue_share: Option<QueueShare>) -> Hop {
        let queue = match is_sojourn {
            true => u32::from(record.queue_units) * IntRecord::SOJOURN_UNIT,
            false => record.queue_bytes().get() as u32,
        };
        Hop {
            rate: record.rate.bandwidth().unwrap_or(Bandwidth::ZERO),
            timestamp: record.timestamp,
            tx_bytes: record.tx_bytes().get() as u32,
            queue,
            link,
            queue_share,
        }
    }
}

/// The packet to which switches added telemetry records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatheredBy {
    /// A DATA packet or a probe, from sender to receiver.
    Data,
    /// An ACK, on its return path.
    #[default]
    Ack,
}

/// The telemetry records of a path. `hops()[0]` is the first hop after the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telemetry<'a> {
    hops: [Hop; MAX_HOPS],
    len: u8,
    format: RecordFormat,
    /// Custom records in wire format; empty if the records have one of Weir's formats.
    custom: &'a [u8],
    /// The packet that gathered the records, which determines the order of custom ones.
    gathered_by: GatheredBy,
}

impl<'a> Telemetry<'a> {
    /// No records.
    pub const EMPTY: Telemetry<'static> = Telemetry {
        hops: [Hop { rate: Bandwidth::ZERO, timestamp: 0, tx_bytes: 0, queue: 0, link: 0, queue_share: None };
            MAX_HOPS],
        len: 0,
        format: RecordFormat::BASE,
        custom: &[],
        gathered_by: GatheredBy::Ack,
    };

    /// Creates telemetry from hops in data-path order; hops beyond the eighth are ignored.
    pub fn new(hops: &[Hop], format: RecordFormat) -> Telemetry<'a> {
        let mut telemetry = Telemetry { format, ..Telemetry::EMPTY };
        for (slot, hop) in telemetry.hops.iter_mut().zip(hops) {
            *slot = *hop;
            telemetry.len += 1;
        }
        telemetry
    }

    /// Parses the records of a packet, which are newest first on the wire.
    ///
    /// Records gathered by DATA start with the last hop and are reversed. Records gathered by an ACK on its return
    /// path start with the sender's own switch, which is data-path order. FNCC's `ack.L[0]`, in the paper's order, is
    /// therefore the last element here.
    pub fn from_wire(records: &'a [u8], format: RecordFormat, gathered_by: GatheredBy) -> Telemetry<'a> {
        if format.is_custom() {
            return Telemetry { format, custom: records, gathered_by, ..Telemetry::EMPTY };
        }
        let mut telemetry = Telemetry { format, gathered_by, ..Telemetry::EMPTY };
        if records.is_empty() {
            return telemetry;
        }
        let record_len = format.record_len();
        let count = (records.len() / record_len).min(MAX_HOPS);
        let has_queue = format.contains(RecordFormat::QUEUE);
        let is_sojourn = format.contains(RecordFormat::SOJOURN);
        for (i, record) in records.chunks_exact(record_len).take(count).enumerate() {
            let index = match gathered_by {
                GatheredBy::Data => count - 1 - i,
                GatheredBy::Ack => i,
            };
            // Ids and queue, if present, precede the 64-bit record.
            let Some((mut front, word)) = record.split_last_chunk::<INT_RECORD_LEN>() else { continue };
            let mut queue_share = None;
            if has_queue && let Some((ids, queue)) = front.split_last_chunk::<QUEUE_FIELD_LEN>() {
                (front, queue_share) = (ids, QueueShare::from_word(u32::from_be_bytes(*queue)));
            }
            let link = front.first_chunk().map_or(0, |ids| u32::from_be_bytes(*ids));
            let record = IntRecord::unpack(u64::from_be_bytes(*word));
            telemetry.hops[index] = Hop::from_record(record, is_sojourn, link, queue_share);
        }
        telemetry.len = count as u8;
        telemetry
    }

    /// Returns the format of the records.
    pub fn format(&self) -> RecordFormat {
        self.format
    }

    /// Returns the same records as gathered by this packet.
    pub fn with_gathered_by(self, gathered_by: GatheredBy) -> Telemetry<'a> {
        Telemetry { gathered_by, ..self }
    }

    /// Returns the packet that gathered the records.
    pub fn gathered_by(&self) -> GatheredBy {
        self.gathered_by
    }

    /// Returns the hops, first hop after the sender first; empty if the records are custom ones.
    pub fn hops(&self) -> &[Hop] {
        &self.hops[..usize::from(self.len)]
    }

    /// Returns the custom records, that of the first hop after the sender first; empty if the records have one of
    /// Weir's formats. [`RecordField::read`](crate::custom_record::RecordField::read) reads their fields.
    pub fn records(&self) -> impl Iterator<Item = &'a [u8]> {
        let newest_first = self.custom.chunks_exact(self.format.record_len());
        // Two optional iterators, one of which is empty, because the two orders have different types.
        let (last_hop_first, first_hop_first) = match self.gathered_by {
            GatheredBy::Data => (Some(newest_first), None),
            GatheredBy::Ack => (None, Some(newest_first)),
        };
        last_hop_first.into_iter().flat_map(Iterator::rev).chain(first_hop_first.into_iter().flatten())
    }
}

/// Counters of implausible telemetry, and of changes of the path. Implausible records are ignored, except those counted as
/// `other_path`, which only some schemes ignore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TelemetryCounters {
    /// Records whose port rate is unknown.
    pub unknown_rate: u64,
    /// Records with a byte count that exceeds what the port can have sent.
    pub too_fast: u64,
    /// Records older than the previous one of the same hop.
    pub stale: u64,
    /// ACKs whose records describe another path than that of DATA.
    pub other_path: u64,
    /// Records of a congested port that is not on the flow's path.
    pub other_port: u64,
    /// Times that the path of a flow changed, so that its measurement began anew.
    pub path_changes: u64,
}

impl TelemetryCounters {
    /// Returns the counters with their names in results.
    pub fn by_name(&self) -> [(&'static str, u64); 6] {
        [
            ("telemetry_unknown_rate", self.unknown_rate),
            ("telemetry_too_fast", self.too_fast),
            ("telemetry_backwards", self.stale),
            ("telemetry_other_path", self.other_path),
            ("telemetry_other_port", self.other_port),
            ("telemetry_path_changes", self.path_changes),
        ]
    }

    /// Returns the number of implausible records.
    pub fn total(&self) -> u64 {
        self.unknown_rate + self.too_fast + self.stale + self.other_path + self.other_port
    }
}

/// Number of sent bytes after which the counter of a record wraps.
pub(crate) const TX_WRAP: Bytes = Bytes::new(Hop::TX_BYTES_MODULUS as u64);
