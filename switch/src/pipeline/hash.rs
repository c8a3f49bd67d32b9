//! Hashes and checksums over header fields, bit for bit as in BMv2. Fields are read from slots, the 64-bit words of the
//! header vector.

use super::custom_crc::CustomCrc;
use crate::program::{Algorithm, Calculation, CrcTables, HashInput, MAX_HASH_BYTES, low_mask};
use crc::{CRC_16_ARC, CRC_16_IBM_3740, CRC_32_ISO_HDLC, Crc};
use std::sync::LazyLock;

/// The part of the packet after the parsed headers, which some calculations cover.
#[derive(Clone, Copy)]
pub(super) struct Payload<'a> {
    /// The stored bytes after the parsed headers.
    pub bytes: &'a [u8],
    /// Length of the virtual tail after `bytes`, which reads as zeros.
    pub virtual_len: u32,
}

impl<'a> Payload<'a> {
    /// Returns the payload of a frame of which `frame[..len]` is stored and the headers end at `parsed`. As in BMv2, a
    /// truncation counts from the payload's first byte here, because the headers are not in front of it yet.
    pub(super) fn new(frame: &'a [u8], parsed: usize, len: usize, virtual_len: u32, truncate: u32) -> Self {
        let bytes = frame.get(parsed..len).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(truncate as usize)];
        Payload { bytes, virtual_len: virtual_len.min(truncate - bytes.len() as u32) }
    }
}

/// The state of a calculation between packets.
#[derive(Clone, Debug, Default)]
pub(super) struct CalculationState {
    /// Number of calls; only a round-robin calculation counts them.
    calls: u64,
    /// The CRC of a custom algorithm, if a controller has set its parameters.
    pub crc: Option<Box<CustomCrc>>,
}

/// Returns the value of a calculation. `buffer` is scratch space.
pub(super) fn compute(
    calculation: &Calculation,
    slots: &[u64],
    payload: Payload,
    buffer: &mut Vec<u8>,
    state: &mut CalculationState,
) -> u64 {
    if let Some(headers) = &calculation.checksum_terms {
        let mut sum = 0;
        // Each field is shifted so that it aligns to the 16-bit words of the input. The ones'-complement sum of
        // the shifted fields then equals that of the words.
        for header in headers {
            if header.valid.is_none_or(|valid| slots[usize::from(valid)] != 0) {
                let fields = header.fields.iter();
                sum += fields.map(|(slot, up)| slots[usize::from(*slot)] << (up & 63)).sum::<u64>();
            }
        }
        return u64::from(!fold(u128::from(sum)));
    }
    if calculation.algorithm == Algorithm::RoundRobin {
        state.calls += 1;
        return state.calls - 1;
    }
    if let Some(fields) = &calculation.byte_fields {
        // Each field is written as a whole word; the next field overwrites the zeros after it.
        let (mut bytes, mut len) = ([0; MAX_HASH_BYTES + 8], 0);
        for (slot, size) in fields {
            let word = slots[usize::from(*slot)] << ((64 - 8 * size) & 63);
            if let Some(field) = bytes[len..].first_chunk_mut() {
                *field = word.to_be_bytes();
            }
            len += usize::from(*size);
        }
        return digest(calculation.algorithm, state, &bytes[..len]);
    }
    pack_inputs(calculation, slots, payload, buffer);
    digest(calculation.algorithm, state, buffer)
}

/// Returns the hash of bytes. Round-robin hashes no bytes: [`compute`] handles it.
#[inline]
pub(super) fn digest(algorithm: Algorithm, state: &CalculationState, bytes: &[u8]) -> u64 {
    match algorithm {
        Algorithm::Crc16 => u64::from(CRC16.checksum(bytes)),
        Algorithm::Crc32 => u64::from(CRC32.checksum(bytes)),
        Algorithm::Crc16Custom | Algorithm::Crc32Custom => match &state.crc {
            Some(crc) => crc.checksum(bytes),
            None if algorithm == Algorithm::Crc16Custom => u64::from(CRC16.checksum(bytes)),
            None => u64::from(CRC32.checksum(bytes)),
        },
        Algorithm::CrcCcitt => u64::from(CRC_CCITT.checksum(bytes)),
        Algorithm::Csum16 => u64::from(internet_checksum(bytes)),
        Algorithm::Xor16 => {
            let word = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low));
            bytes.chunks(2).fold(0, |xor, pair| xor ^ word(pair))
        }
        Algorithm::Identity => bytes.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte)),
        Algorithm::RoundRobin => 0,
    }
}

/// Concatenates the inputs bit by bit, without padding.
fn pack_inputs(calculation: &Calculation, slots: &[u64], payload: Payload, buffer: &mut Vec<u8>) {
    buffer.clear();
    let mut packer = Packer { buffer, pending: 0, count: 0 };
    let is_valid = |valid: &Option<u16>| valid.is_none_or(|valid| slots[usize::from(valid)] != 0);
    for input in &calculation.inputs {
        match input {
            HashInput::Field { slot, bits, valid } if is_valid(valid) => {
                let limbs = &slots[usize::from(*slot)..][..bits.div_ceil(64) as usize];
                packer.put_limbs(limbs, *bits);
            }
            HashInput::Varbit { slot, valid } if is_valid(valid) => {
                let slot = usize::from(*slot);
                // The first slot is the length in bits, the others are the value, left-aligned.
                let mut remaining_bits = slots[slot] as u32;
                for word in &slots[slot + 1..] {
                    if remaining_bits == 0 {
                        break;
                    }
                    let bits = remaining_bits.min(64);
                    packer.put(word >> (64 - bits), bits);
                    remaining_bits -= bits;
                }
            }
            HashInput::Const { limbs, bits } => packer.put_limbs(limbs, *bits),
            HashInput::Payload => {
                packer.flush();
                packer.buffer.extend_from_slice(payload.bytes);
                let len = packer.buffer.len() + payload.virtual_len as usize;
                packer.buffer.resize(len, 0);
            }
            HashInput::Field { .. } | HashInput::Varbit { .. } => {}
        }
    }
    packer.flush();
}

/// Appends values bit by bit to a buffer.
struct Packer<'a> {
    buffer: &'a mut Vec<u8>,
    /// The bits that do not fill a byte yet, as the low `count` bits.
    pending: u64,
    count: u32,
}

impl Packer<'_> {
    fn put_limbs(&mut self, limbs: &[u64], bits: u32) {
        for (index, limb) in limbs.iter().enumerate().rev() {
            self.put(*limb, (bits - 64 * index as u32).min(64));
        }
    }

    /// Appends the low `bits` of a value.
    #[inline]
    fn put(&mut self, value: u64, bits: u32) {
        let value = value & low_mask(bits);
        if self.count == 0 && bits.is_multiple_of(8) && bits > 0 {
            let bytes = (value << (64 - bits)).to_be_bytes();
            self.buffer.extend_from_slice(&bytes[..(bits / 8) as usize]);
            return;
        }
        let unwritten = u128::from(self.pending) << bits | u128::from(value);
        self.count += bits;
        while self.count >= 8 {
            self.count -= 8;
            self.buffer.push((unwritten >> self.count) as u8);
        }
        self.pending = unwritten as u64 & low_mask(self.count);
    }

    /// Pads the last byte with zeros and appends it.
    fn flush(&mut self) {
        if self.count > 0 {
            let padding_bits = 8 - self.count;
            self.buffer.push((self.pending << padding_bits) as u8);
            (self.pending, self.count) = (0, 0);
        }
    }
}

/// Folds a sum to 16 bits with end-around carry.
fn fold(mut sum: u128) -> u16 {
    while sum > u128::from(u16::MAX) {
        sum = (sum >> 16) + (sum & u128::from(u16::MAX));
    }
    sum as u16
}

/// The Internet checksum (RFC 1071).
pub(super) fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u128;
    for pair in bytes.chunks(2) {
        sum += u128::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    !fold(sum)
}

static CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_ARC);
static CRC32: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
static CRC_CCITT: Crc<u16> = Crc::<u16>::new(&CRC_16_IBM_3740);

/// Returns the byte tables of a CRC; `None` for other algorithms. Machine code contains their addresses, so the custom
/// CRCs, whose parameters can change at run time, have none.
pub(super) fn crc_tables(algorithm: Algorithm) -> Option<&'static CrcTables> {
    static CRC16_TABLES: LazyLock<Box<CrcTables>> =
        LazyLock::new(|| CrcTables::from_crc(|bytes| CRC16.checksum(bytes)));
    static CRC32_TABLES: LazyLock<Box<CrcTables>> =
        LazyLock::new(|| CrcTables::from_crc(|bytes| CRC32.checksum(bytes)));
    static CCITT_TABLES: LazyLock<Box<CrcTables>> =
        LazyLock::new(|| CrcTables::from_crc(|bytes| CRC_CCITT.checksum(bytes)));
    match algorithm {
        Algorithm::Crc16 => Some(&CRC16_TABLES),
        Algorithm::Crc32 => Some(&CRC32_TABLES),
        Algorithm::CrcCcitt => Some(&CCITT_TABLES),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of the catalogue of parametrised CRC algorithms, and RFC 1071's example.
    #[test]
    fn check_values_match() {
        let check = |algorithm| digest(algorithm, &CalculationState::default(), b"123456789");
        assert_eq!(check(Algorithm::Crc16), 0xbb3d);
        assert_eq!(check(Algorithm::CrcCcitt), 0x29b1);
        assert_eq!(check(Algorithm::Crc32), 0xcbf4_3926);
        assert_eq!(internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(internet_checksum(&[]), 0xffff);
        assert_eq!(internet_checksum(&[0xff; 64]), 0);
    }

    /// A CRC is the XOR of the CRC of as many zeros and of the contribution of each byte.
    #[test]
    fn crc_is_the_xor_of_byte_contributions() {
        let algorithms = [Algorithm::Crc16, Algorithm::Crc32, Algorithm::CrcCcitt];
        let bytes: Vec<u8> = (0..CrcTables::MAX_BYTES as u8).map(|i| i.wrapping_mul(73) ^ 0xa5).collect();
        for (algorithm, len) in
            algorithms.iter().flat_map(|algorithm| (0..=bytes.len()).map(move |len| (*algorithm, len)))
        {
            let CrcTables { zeros, byte_contributions } = crc_tables(algorithm).unwrap();
            let contribution = |(i, byte): (usize, &u8)| byte_contributions[len - 1 - i][usize::from(*byte)];
            let crc =
                bytes[..len].iter().enumerate().map(contribution).fold(zeros[len], |crc, part| crc ^ part);
            assert_eq!(
                u64::from(crc),
                digest(algorithm, &CalculationState::default(), &bytes[..len]),
                "{algorithm:?} of {len} bytes"
            );
        }
        assert!(crc_tables(Algorithm::Xor16).is_none());
    }

    #[test]
    fn inputs_are_packed_bit_by_bit() {
        let fields = [(0x5u64, 4), (0x3ff, 10), (1, 1), (0x1234_5678, 32)];
        let (mut buffer, mut slots, mut inputs) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (value, bits)) in fields.into_iter().enumerate() {
            slots.push(value);
            inputs.push(HashInput::Field { slot: index as u16, bits, valid: None });
        }
        let calculation = Calculation::new(String::new(), Algorithm::Identity, inputs);
        let payload = Payload { bytes: &[], virtual_len: 0 };
        let value = compute(&calculation, &slots, payload, &mut buffer, &mut CalculationState::default());
        // 0101 1111111111 1 00010010001101000101011001111000 0
        assert_eq!(buffer, [0x5f, 0xfe, 0x24, 0x68, 0xac, 0xf0]);
        assert_eq!(value, 0x5ffe_2468_acf0);
    }
}
