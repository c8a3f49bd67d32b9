//! What switches reported about one path, in data-path order and plain units.

use crate::wire::{INT_RECORD_LEN, IntRecord, MAX_HOPS};
use weir_units::{Bandwidth, Bytes, Time};

/// Unit of the 24-bit timestamps that switches write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Nanoseconds: virtual time and the embedded switch.
    #[default]
    Ns,
    /// Microseconds: BMv2.
    Us,
}

impl Clock {
    /// One tick.
    pub const fn tick(self) -> Time {
        match self {
            Clock::Ns => Time::from_ns(1),
            Clock::Us => Time::from_us(1),
        }
    }
}

/// One hop of a path at the moment its record was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// Rate of the port; zero if the switch did not know it.
    pub rate: Bandwidth,
    /// When the record was taken, in clock ticks modulo [`Hop::TICKS`].
    pub at: u32,
    /// Bytes the port had sent, modulo [`Hop::TX_BYTES`].
    pub tx_bytes: u32,
    /// Bytes queued at the port.
    pub queue: u32,
}

impl Hop {
    /// Where timestamps wrap.
    pub const TICKS: u32 = 1 << 24;
    /// Where the byte counter wraps: 2^20 units of 128 bytes.
    pub const TX_BYTES: u32 = 1 << 27;

    /// Ticks from `earlier` to `self`, across at most one wrap.
    pub const fn ticks_since(&self, earlier: &Hop) -> u32 {
        self.at.wrapping_sub(earlier.at) & (Self::TICKS - 1)
    }
    /// Bytes sent from `earlier` to `self`, across at most one wrap.
    pub const fn bytes_since(&self, earlier: &Hop) -> u32 {
        self.tx_bytes.wrapping_sub(earlier.tx_bytes) & (Self::TX_BYTES - 1)
    }
}

impl From<IntRecord> for Hop {
    fn from(record: IntRecord) -> Hop {
        Hop {
            rate: record.rate.bandwidth().unwrap_or(Bandwidth::ZERO),
            at: record.timestamp,
            tx_bytes: record.tx_bytes().get() as u32,
            queue: record.queue_bytes().get() as u32,
        }
    }
}

/// Records of all hops of a path. `hops()[0]` is the first hop after the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    hops: [Hop; MAX_HOPS],
    len: u8,
}

impl Telemetry {
    /// No records.
    pub const EMPTY: Telemetry =
        Telemetry { hops: [Hop { rate: Bandwidth::ZERO, at: 0, tx_bytes: 0, queue: 0 }; MAX_HOPS], len: 0 };

    /// From hops in data-path order; those beyond the eighth are left out.
    pub fn new(hops: &[Hop]) -> Telemetry {
        let mut telemetry = Telemetry::EMPTY;
        for (slot, hop) in telemetry.hops.iter_mut().zip(hops) {
            *slot = *hop;
            telemetry.len += 1;
        }
        telemetry
    }

    /// From records as they lie on the wire, newest first.
    ///
    /// What DATA gathered has its last hop first and is turned round. What an ACK gathered on its
    /// way back has the sender's own switch first, which is data-path order already (FNCC's
    /// `ack.L[0]` in the paper's order is thereby the last element here).
    pub fn from_wire(records: &[u8], gathered_by_data: bool) -> Telemetry {
        let mut telemetry = Telemetry::EMPTY;
        let (chunks, _) = records.as_chunks::<INT_RECORD_LEN>();
        let count = chunks.len().min(MAX_HOPS);
        for (i, chunk) in chunks.iter().take(count).enumerate() {
            let place = if gathered_by_data { count - 1 - i } else { i };
            telemetry.hops[place] = IntRecord::unpack(u64::from_be_bytes(*chunk)).into();
        }
        telemetry.len = count as u8;
        telemetry
    }

    /// The hops, first one after the sender first.
    pub fn hops(&self) -> &[Hop] {
        &self.hops[..usize::from(self.len)]
    }
}

/// Telemetry that was left out because it cannot be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TelemetryChecks {
    /// Records whose port rate is unknown.
    pub unknown_rate: u64,
    /// Records that claim more bytes than the port can have sent.
    pub too_fast: u64,
    /// Records older than the one before them.
    pub backwards: u64,
}

impl TelemetryChecks {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.unknown_rate + self.too_fast + self.backwards
    }
}

/// Bytes a port sends between two records, at most, before the wire's counter wraps.
pub(crate) const TX_WRAP: Bytes = Bytes::new(Hop::TX_BYTES as u64);
