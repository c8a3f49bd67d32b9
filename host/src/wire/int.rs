use super::RateCode;
use weir_units::Bytes;

/// Length of a telemetry record without link ids.
pub const INT_RECORD_LEN: usize = 8;
/// Length of the switch and port ids in front of a record, 16 bits each.
const LINK_FIELD_LEN: usize = 4;
/// Length of a queue's share and byte count in front of a record, behind the ids.
pub const QUEUE_FIELD_LEN: usize = 4;
/// Length of the longest of Weir's records.
pub const MAX_RECORD_LEN: usize = LINK_FIELD_LEN + QUEUE_FIELD_LEN + INT_RECORD_LEN;
/// Own records are counted in words of this length in bytes.
pub(super) const RECORD_WORD_LEN: usize = 4;
/// Words of the longest own record.
const MAX_WORDS: usize = 16;
/// Length of the longest record of a program's own.
pub const MAX_CUSTOM_RECORD_LEN: usize = MAX_WORDS * RECORD_WORD_LEN;

/// The content of a packet's telemetry records. The sender of DATA sets these bits; every switch and the receiver keep
/// to them. Unknown bits have no meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordFormat(u8);

impl RecordFormat {
    /// The papers' 64 bits.
    pub const BASE: RecordFormat = RecordFormat(0);
    /// Switch and port in front of them (HPCC++ draft §6.1).
    pub const LINK: RecordFormat = RecordFormat(0x01);
    /// Instead of the queue's length the time that the packet was queued (HPCC++ draft §9.4).
    pub const SOJOURN: RecordFormat = RecordFormat(0x02);
    /// Only switches whose port is congested add a record (HPCC++ draft §6).
    pub const CONGESTED: RecordFormat = RecordFormat(0x04);
    /// Share and byte count of the packet's own queue in front of the record (HPCC++ draft §9.4).
    pub const QUEUE: RecordFormat = RecordFormat(0x08);
    /// The program's own records ([`own_record`](crate::own_record)); the low four bits are their words less one.
    const OWN: u8 = 0x80;

    /// From the wire.
    pub const fn from_bits(bits: u8) -> RecordFormat {
        match bits & Self::OWN {
            0 => RecordFormat(bits & (Self::LINK.0 | Self::SOJOURN.0 | Self::CONGESTED.0 | Self::QUEUE.0)),
            own => RecordFormat(own | bits & (MAX_WORDS as u8 - 1)),
        }
    }
    /// Returns the format of a program's own records of `len` bytes: 4, 8, ... 64.
    pub const fn custom(len: usize) -> Option<RecordFormat> {
        if len == 0 || !len.is_multiple_of(RECORD_WORD_LEN) || len > MAX_CUSTOM_RECORD_LEN {
            return None;
        }
        Some(RecordFormat(Self::OWN | (len / RECORD_WORD_LEN - 1) as u8))
    }
    /// Returns whether the records are a program's own.
    pub const fn is_custom(self) -> bool {
        self.0 & Self::OWN != 0
    }
    /// Returns the format as it is on the wire.
    pub const fn bits(self) -> u8 {
        self.0
    }
    /// Returns the format that has the fields of both.
    pub const fn union(self, other: RecordFormat) -> RecordFormat {
        RecordFormat(self.0 | other.0)
    }
    /// Returns whether the records are Weir's and all of `other` is set.
    pub const fn contains(self, other: RecordFormat) -> bool {
        !self.is_custom() && self.0 & other.0 == other.0
    }
    /// Returns length of a record in bytes.
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

/// One hop's telemetry in 64 bits (HPCC Fig. 7, FNCC Fig. 7): rate 4, timestamp 24, txBytes 20,
/// qLen 16, from the high end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntRecord {
    /// Rate of the port.
    pub rate: RateCode,
    /// Clock of the switch, 24 bits.
    pub timestamp: u32,
    /// Bytes sent in units of 128, 20 bits.
    pub tx_units: u32,
    /// Bytes queued in units of 80; or ticks queued in units of 4, if the format has it so.
    pub queue_units: u16,
}

impl IntRecord {
    /// Unit of `tx_units` (docs/algorithms/hpcc.md#telemetry-record).
    pub const TX_UNIT: Bytes = Bytes::new(128);
    /// Unit of `queue_units` (docs/algorithms/hpcc.md#telemetry-record).
    pub const QUEUE_UNIT: Bytes = Bytes::new(80);
    /// Unit of `queue_units` where they are time, in ticks. Ours: 16 bits hold 262 us of ns, and 262 ms of us.
    pub const SOJOURN_UNIT: u32 = 4;

    const TIMESTAMP_MASK: u32 = (1 << 24) - 1;
    const TX_MASK: u32 = (1 << 20) - 1;

    /// From plain units as a switch does it: counters wrap, the queue saturates.
    pub fn from_counters(rate: RateCode, ticks: u64, tx: Bytes, queue: Bytes) -> IntRecord {
        IntRecord {
            rate,
            timestamp: (ticks & u64::from(Self::TIMESTAMP_MASK)) as u32,
            tx_units: ((tx.get() / Self::TX_UNIT.get()) & u64::from(Self::TX_MASK)) as u32,
            queue_units: u16::try_from(queue.get() / Self::QUEUE_UNIT.get()).unwrap_or(u16::MAX),
        }
    }
    /// Returns bytes sent, modulo 2^27.
    pub fn tx_bytes(&self) -> Bytes {
        Self::TX_UNIT * u64::from(self.tx_units)
    }
    /// Returns bytes queued.
    pub fn queue_bytes(&self) -> Bytes {
        Self::QUEUE_UNIT * u64::from(self.queue_units)
    }
    /// As it stands on the wire, big-endian; of narrow fields the low bits.
    pub const fn pack(&self) -> u64 {
        (self.rate.bits() as u64) << 60
            | ((self.timestamp & Self::TIMESTAMP_MASK) as u64) << 36
            | ((self.tx_units & Self::TX_MASK) as u64) << 16
            | self.queue_units as u64
    }
    /// From the wire; every word is a record.
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
    fn golden_word_of_the_paper_layout() {
        let record = IntRecord {
            rate: RateCode::from_bits(2),
            timestamp: 0x12_3456,
            tx_units: 7812,
            queue_units: 2500,
        };
        assert_eq!(record.pack(), 0x2123_4560_1e84_09c4);
        assert_eq!(IntRecord::unpack(0x2123_4560_1e84_09c4), record);
        let plain = IntRecord::from_counters(
            RateCode::from_bits(2),
            0x12_3456,
            Bytes::new(1_000_000),
            Bytes::new(200_000),
        );
        assert_eq!(plain, record);
    }

    /// docs/algorithms/hpcc.md#telemetry-record: HPCC's released code packs the same hop differently, from the low
    /// end: rate 3, time 24, bytes 20, qlen 17. Ours is the papers' 4/24/20/16.
    #[test]
    fn trap_3_layout_is_the_papers_not_the_released_codes() {
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
    fn own_records_say_their_length() {
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
        fn every_word_survives(word: u64) {
            prop_assert_eq!(IntRecord::unpack(word).pack(), word);
        }
    }
}
