//! The telemetry of one path, in data-path order and plain units.

use crate::wire::{INT_RECORD_LEN, IntRecord, MAX_HOPS, QUEUE_FIELD_LEN, RecordFormat};
use weir_units::{Bandwidth, Bytes};

/// One hop of a path at the moment its record was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// Rate of the port; zero if the switch did not know it.
    pub rate: Bandwidth,
    /// Time of the record, in clock ticks modulo [`Hop::TIMESTAMP_MODULUS`].
    pub timestamp: u32,
    /// Bytes the port had sent, modulo [`Hop::TX_BYTES_MODULUS`].
    pub tx_bytes: u32,
    /// Length of the port's queue, in the unit of [`Telemetry::format`]: bytes, or ticks that the packet waited.
    pub queue: u32,
    /// Ids of switch and port, if the record has them; else 0.
    pub link: u32,
    /// The packet's own queue, if the record tells of it and the port serves several by weight.
    pub share: Option<QueueShare>,
}

/// A queue that a port serves by weight, beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueShare {
    /// The part of the port's rate that the queue has at least, in parts of [`QueueShare::FULL_SHARE`].
    pub share: u16,
    /// Bytes that the queue had sent, modulo [`Hop::TX_BYTES_MODULUS`].
    pub tx_bytes: u32,
}

impl QueueShare {
    /// The whole rate of a port.
    pub const FULL_SHARE: u16 = 1 << 12;

    /// Reads a queue from the wire: 12 bits of share, 20 bits of units sent. `Open`: the whole port is the queue's.
    fn read(word: u32) -> Option<QueueShare> {
        let (share, units) = ((word >> 20) as u16, word & 0xf_ffff);
        (share != 0).then(|| QueueShare { share, tx_bytes: units * IntRecord::TX_UNIT.get() as u32 })
    }

    /// Returns bytes sent from `earlier` to `self`, across at most one wrap.
    pub const fn bytes_since(&self, earlier: &QueueShare) -> u32 {
        self.tx_bytes.wrapping_sub(earlier.tx_bytes) & (Hop::TX_BYTES_MODULUS - 1)
    }
}

impl Hop {
    /// Range of timestamps.
    pub const TIMESTAMP_MODULUS: u32 = 1 << 24;
    /// Range of the byte counter: 2^20 units of 128 bytes.
    pub const TX_BYTES_MODULUS: u32 = 1 << 27;

    /// Ticks from `earlier` to `self`, across at most one wrap.
    pub const fn ticks_since(&self, earlier: &Hop) -> u32 {
        self.timestamp.wrapping_sub(earlier.timestamp) & (Self::TIMESTAMP_MODULUS - 1)
    }
    /// Returns bytes sent from `earlier` to `self`, across at most one wrap.
    pub const fn bytes_since(&self, earlier: &Hop) -> u32 {
        self.tx_bytes.wrapping_sub(earlier.tx_bytes) & (Self::TX_BYTES_MODULUS - 1)
    }
}

impl Hop {
    /// Reads a hop, in which the queue field is a time if the packet `waits`.
    fn read(record: IntRecord, is_sojourn: bool, link: u32, share: Option<QueueShare>) -> Hop {
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
            share,
        }
    }
}

/// Records of all hops of a path. `hops()[0]` is the first hop after the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telemetry<'a> {
    hops: [Hop; MAX_HOPS],
    len: u8,
    format: RecordFormat,
    /// Records of a program's own, as they lie on the wire.
    own: &'a [u8],
    gathered_by_data: bool,
}

impl<'a> Telemetry<'a> {
    /// No records.
    pub const EMPTY: Telemetry<'static> = Telemetry {
        hops: [Hop { rate: Bandwidth::ZERO, timestamp: 0, tx_bytes: 0, queue: 0, link: 0, share: None };
            MAX_HOPS],
        len: 0,
        format: RecordFormat::BASE,
        own: &[],
        gathered_by_data: false,
    };

    /// From hops in data-path order; those beyond the eighth are left out.
    pub fn new(hops: &[Hop], format: RecordFormat) -> Telemetry<'a> {
        let mut telemetry = Telemetry { format, ..Telemetry::EMPTY };
        for (slot, hop) in telemetry.hops.iter_mut().zip(hops) {
            *slot = *hop;
            telemetry.len += 1;
        }
        telemetry
    }

    /// Parses the records of a packet, which are on the wire with the newest first.
    ///
    /// Records that DATA gathered have the last hop first and are reversed. Records that an ACK gathered on its return
    /// path have the sender's own switch first, which is data-path order already. FNCC's `ack.L[0]`, in the paper's
    /// order, is therefore the last element here.
    pub fn from_wire(records: &'a [u8], format: RecordFormat, gathered_by_data: bool) -> Telemetry<'a> {
        if format.is_custom() {
            return Telemetry { format, own: records, gathered_by_data, ..Telemetry::EMPTY };
        }
        let mut telemetry = Telemetry { format, ..Telemetry::EMPTY };
        if records.is_empty() {
            return telemetry;
        }
        let record_len = format.record_len();
        let count = (records.len() / record_len).min(MAX_HOPS);
        let (has_queue, waits) =
            (format.contains(RecordFormat::QUEUE), format.contains(RecordFormat::SOJOURN));
        for (i, record) in records.chunks_exact(record_len).take(count).enumerate() {
            let place = if gathered_by_data { count - 1 - i } else { i };
            // Ids and queue, if there are any, lie in front of the entry.
            let Some((mut front, entry)) = record.split_last_chunk::<INT_RECORD_LEN>() else { continue };
            let mut share = None;
            if has_queue && let Some((ids, queue)) = front.split_last_chunk::<QUEUE_FIELD_LEN>() {
                (front, share) = (ids, QueueShare::read(u32::from_be_bytes(*queue)));
            }
            let link = front.first_chunk().map_or(0, |ids| u32::from_be_bytes(*ids));
            let record = IntRecord::unpack(u64::from_be_bytes(*entry));
            telemetry.hops[place] = Hop::read(record, waits, link, share);
        }
        telemetry.len = count as u8;
        telemetry
    }

    /// Returns the content of the records.
    pub fn format(&self) -> RecordFormat {
        self.format
    }

    /// Returns the hops, first one after the sender first; none if the records are a program's own.
    pub fn hops(&self) -> &[Hop] {
        &self.hops[..usize::from(self.len)]
    }

    /// Returns the records of a program's own, that of the first hop after the sender first;
    /// [`RecordField::read`](crate::own_record::RecordField::read) reads their fields. None if the records are Weir's.
    pub fn records(&self) -> impl Iterator<Item = &'a [u8]> {
        let newest_first = self.own.chunks_exact(self.format.record_len());
        let (last_hop_first, first_hop_first) = match self.gathered_by_data {
            true => (Some(newest_first), None),
            false => (None, Some(newest_first)),
        };
        last_hop_first.into_iter().flat_map(Iterator::rev).chain(first_hop_first.into_iter().flatten())
    }
}

/// Numbers of telemetry records and ACKs that were ignored because they are implausible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TelemetryCounters {
    /// Records whose port rate is unknown.
    pub unknown_rate: u64,
    /// Records that claim more bytes than the port can have sent.
    pub too_fast: u64,
    /// Records older than the one before them.
    pub stale: u64,
    /// ACKs whose records are of another path than the one that DATA takes.
    pub other_path: u64,
    /// Records of a congested port that is not on the flow's path.
    pub other_port: u64,
}

impl TelemetryCounters {
    /// Returns the sum of all counters.
    pub fn total(&self) -> u64 {
        self.unknown_rate + self.too_fast + self.stale + self.other_path + self.other_port
    }
}

/// Bytes a port sends between two records, at most, before the wire's counter wraps.
pub(crate) const TX_WRAP: Bytes = Bytes::new(Hop::TX_BYTES_MODULUS as u64);
