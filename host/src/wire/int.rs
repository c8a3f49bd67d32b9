use weir_units::{Bytes, RateCode};

/// Length in bytes of a telemetry record without ids and queue.
pub const INT_RECORD_LEN: usize = 8;
/// Length in bytes of the switch and port ids in front of a record, 16 bits each.
const LINK_FIELD_LEN: usize = 4;
/// Length in bytes of a queue's share and byte count, between ids and record.
pub const QUEUE_FIELD_LEN: usize = 4;
/// Maximum length in bytes of a record in one of Weir's formats.
pub const MAX_RECORD_LEN: usize = LINK_FIELD_LEN + QUEUE_FIELD_LEN + INT_RECORD_LEN;
/// Unit in bytes of the length of custom records.
pub(super) const RECORD_WORD_LEN: usize = 4;
/// Maximum length of a custom record in words.
const MAX_WORDS: usize = 16;
/// Maximum length in bytes of a custom record.
pub const MAX_CUSTOM_RECORD_LEN: usize = MAX_WORDS * RECORD_WORD_LEN;

/// The format of a packet's telemetry records. The sender of DATA sets these bits; all switches and the receiver use
/// the same format. Unknown bits are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordFormat(u8);

impl RecordFormat {
    /// The 64-bit record of the papers.
    pub const BASE: RecordFormat = RecordFormat(0);
    /// Switch and port ids in front of the record (HPCC++ draft §6.1).
    pub const LINK: RecordFormat = RecordFormat(0x01);
    /// Sojourn time of the packet in place of the queue length (HPCC++ draft §9.4).
    pub const SOJOURN: RecordFormat = RecordFormat(0x02);
    /// Only switches whose port is congested add a record (HPCC++ draft §6).
    pub const CONGESTED: RecordFormat = RecordFormat(0x04);
    /// Share and byte count of the packet's own queue in front of the record (HPCC++ draft §9.4).
    pub const QUEUE: RecordFormat = RecordFormat(0x08);
    /// Custom records ([`custom_record`](crate::custom_record)); the low four bits are their length in words, minus
    /// one.
    const CUSTOM: u8 = 0x80;

    /// Decodes the format field of the Weir header.
    pub const fn from_bits(bits: u8) -> RecordFormat {
        match bits & Self::CUSTOM {
            0 => RecordFormat(bits & (Self::LINK.0 | Self::SOJOURN.0 | Self::CONGESTED.0 | Self::QUEUE.0)),
            custom => RecordFormat(custom | bits & (MAX_WORDS as u8 - 1)),
        }
    }
    /// Returns the format of custom records of `len` bytes; `None` unless `len` is 4, 8, ... 64.
    pub const fn custom(len: usize) -> Option<RecordFormat> {
        if len == 0 || !len.is_multiple_of(RECORD_WORD_LEN) || len > MAX_CUSTOM_RECORD_LEN {
            return None;
        }
        Some(RecordFormat(Self::CUSTOM | (len / RECORD_WORD_LEN - 1) as u8))
    }
    /// Returns whether the records are custom ones.
    pub const fn is_custom(self) -> bool {
        self.0 & Self::CUSTOM != 0
    }
    /// Returns the format field of the Weir header.
    pub const fn bits(self) -> u8 {
        self.0
    }
    /// Returns the format with the bits of both.
    pub const fn union(self, other: RecordFormat) -> RecordFormat {
        RecordFormat(self.0 | other.0)
    }
    /// Returns whether all bits of `other` are set; false for custom records.
    pub const fn contains(self, other: RecordFormat) -> bool {
        !self.is_custom() && self.0 & other.0 == other.0
    }
    /// Returns the length of a record in bytes.
    pub const fn record_len(self) -> usize {
        if self.is_custom() {
            RECORD_WORD_LEN * ((self.0 & (MAX_WORDS as u8 - 1)) as usize + 1)
        } else {
            let ids = if self.contains(Self::LINK) { LINK_FIELD_LEN } else { 0 };
            let queue = if self.contains(Self::QUEUE) { QUEUE_FIELD_LEN } else { 0 };
            ids + queue + INT_RECORD_LEN
        }
    }
}

/// The telemetry of one hop in 64 bits (HPCC Fig. 7, FNCC Fig. 7): from the high end, rate 4, timestamp 24, txBytes
/// 20 and qLen 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntRecord {
    /// Code of the port's rate.
    pub rate: RateCode,
    /// Clock of the switch in ticks, 24 bits.
    pub timestamp: u32,
    /// Bytes sent by the port in units of 128, 20 bits.
    pub tx_units: u32,
    /// Queue length in units of 80 bytes, or sojourn time in units of 4 ticks, depending on the format.
    pub queue_units: u16,
}

impl IntRecord {
    /// Unit of `tx_units` (docs/algorithms/hpcc.md#telemetry-record).
    pub const TX_UNIT: Bytes = Bytes::new(128);
    /// Unit of `queue_units` (docs/algorithms/hpcc.md#telemetry-record).
    pub const QUEUE_UNIT: Bytes = Bytes::new(80);
    /// Unit of `queue_units` in ticks if it is a sojourn time. Weir's choice: 16 bits cover 262 us with ticks of 1
    /// ns, and 262 ms with ticks of 1 us.
    pub const SOJOURN_UNIT: u32 = 4;

    const TIMESTAMP_MASK: u32 = (1 << 24) - 1;
    const TX_MASK: u32 = (1 << 20) - 1;

    /// Creates a record as a switch does: the counters wrap, the queue length saturates.
    pub fn from_counters(rate: RateCode, ticks: u64, tx: Bytes, queue: Bytes) -> IntRecord {
        IntRecord {
            rate,
            timestamp: (ticks & u64::from(Self::TIMESTAMP_MASK)) as u32,
            tx_units: ((tx.get() / Self::TX_UNIT.get()) & u64::from(Self::TX_MASK)) as u32,
            queue_units: u16::try_from(queue.get() / Self::QUEUE_UNIT.get()).unwrap_or(u16::MAX),
        }
    }
    /// Returns the bytes sent by the port, modulo 2^27.
    pub fn tx_bytes(&self) -> Bytes {
        Self::TX_UNIT * u64::from(self.tx_units)
    }
    /// Returns the queue length in bytes.
    pub fn queue_bytes(&self) -> Bytes {
        Self::QUEUE_UNIT * u64::from(self.queue_units)
    }
    /// Encodes the record, which is big-endian on the wire. Only the low bits of narrow fields are used.
    pub const fn pack(&self) -> u64 {
        (self.rate.bits() as u64) << 60
            | ((self.timestamp & Self::TIMESTAMP_MASK) as u64) << 36
            | ((self.tx_units & Self::TX_MASK) as u64) << 16
            | self.queue_units as u64
    }
    /// Decodes a record. Every value is a valid record.
    pub const fn unpack(word: u64) -> IntRecord {
        IntRecord {
            rate: RateCode::from_bits((word >> 60) as u8),
            timestamp: (word >> 36) as u32 & Self::TIMESTAMP_MASK,
            tx_units: (word >> 16) as u32 & Self::TX_MASK,
            queue_units: word as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// docs/algorithms/hpcc.md#telemetry-record: B 2, TS 0x123456, tx 7812, qLen 2500.
    #[test]
    fn packed_record_has_the_layout_of_the_papers() {
        let record = IntRecord {
            rate: RateCode::from_bits(2),
            timestamp: 0x12_3456,
            tx_units: 7812,
            queue_units: 2500,
        };
        assert_eq!(record.pack(), 0x2123_4560_1e84_09c4);
        assert_eq!(IntRecord::unpack(0x2123_4560_1e84_09c4), record);
        let from_counters = IntRecord::from_counters(
            RateCode::from_bits(2),
            0x12_3456,
            Bytes::new(1_000_000),
            Bytes::new(200_000),
        );
        assert_eq!(from_counters, record);
    }

    /// docs/algorithms/hpcc.md#telemetry-record: HPCC's released code packs the same hop differently, from the low
    /// end: rate 3, time 24, bytes 20, qlen 17 bits. Weir has the papers' layout of 4/24/20/16 bits.
    #[test]
    fn layout_is_that_of_the_papers_not_of_the_released_code() {
        let code_layout = |r: &IntRecord| {
            u64::from(r.rate.bits())
                | u64::from(r.timestamp) << 3
                | u64::from(r.tx_units) << 27
                | u64::from(r.queue_units) << 47
        };
        let record = IntRecord::unpack(0x2123_4560_1e84_09c4);
        assert_eq!(code_layout(&record), 0x04e2_00f4_2091_a2b2);
        assert_ne!(record.pack(), code_layout(&record));
    }

    #[test]
    fn queue_saturates_and_counters_wrap() {
        let rate = RateCode::from_bits(12);
        let record = IntRecord::from_counters(rate, 1 << 24, Bytes::new(1 << 27), Bytes::new(1 << 40));
        assert_eq!((record.timestamp, record.tx_units, record.queue_units), (0, 0, u16::MAX));
    }

    #[test]
    fn custom_formats_encode_the_record_length() {
        let lengths: Vec<usize> =
            (0..80).filter_map(|len| Some(RecordFormat::custom(len)?.record_len())).collect();
        assert_eq!(lengths, (1..=16).map(|words| 4 * words).collect::<Vec<_>>());
        for bits in 0..=u8::MAX {
            let format = RecordFormat::from_bits(bits);
            assert_eq!(RecordFormat::from_bits(format.bits()), format);
            assert!(format.record_len() >= 4 && !(format.is_custom() && format.contains(RecordFormat::LINK)));
        }
    }

    proptest! {
        #[test]
        fn unpack_and_pack_are_inverse(word: u64) {
            prop_assert_eq!(IntRecord::unpack(word).pack(), word);
        }
    }
}
