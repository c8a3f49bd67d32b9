//! Conversion of values between the runtime API (big-endian bytes) and slots (limbs, least significant first).

use super::api_types::TableError;
use crate::program::{ActionId, Program, limb_count, limbs_from_be_bytes};

/// Returns the limbs of a value, or an error if it does not fit `bits`. `what` names the value in the error.
pub(super) fn to_limbs(
    value: &[u8],
    bits: u32,
    what: impl FnOnce() -> String,
) -> Result<Vec<u64>, TableError> {
    let zeros = value.iter().take_while(|byte| **byte == 0).count();
    let digits = &value[zeros..];
    let used = digits.first().map_or(0, |top| digits.len() as u32 * 8 - top.leading_zeros());
    if used > bits {
        return Err(TableError::TooWide { what: format!("{} {}", what(), hex(value)), bits });
    }
    Ok(limbs_from_be_bytes(digits, limb_count(bits)).collect())
}

/// Formats a value for messages; a long one is shortened.
pub(crate) fn hex(value: &[u8]) -> String {
    /// The length of an IPv6 address in bytes.
    const MAX_SHOWN_LEN: usize = 16;
    let digits: String = value.iter().take(MAX_SHOWN_LEN).map(|byte| format!("{byte:02x}")).collect();
    match value.len() {
        ..=MAX_SHOWN_LEN => format!("0x{digits}"),
        len => format!("0x{digits}... ({len} bytes)"),
    }
}

/// Returns the value as ceil(bits / 8) bytes, at least one.
pub(super) fn to_bytes(limbs: &[u64], bits: u32) -> Vec<u8> {
    let bytes: Vec<u8> = limbs.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect();
    let len = (bits.div_ceil(8) as usize).max(1);
    bytes[bytes.len().saturating_sub(len)..].to_vec()
}

/// Splits the words of an action's arguments into one byte string per parameter.
pub(super) fn split_args(program: &Program, action: ActionId, args: &[u64]) -> Vec<Vec<u8>> {
    let (mut remaining, mut values) = (args, Vec::new());
    let params = program.actions.of(action).map_or(&[][..], |action| &action.params);
    for (_, bits) in params {
        let (value, rest) = remaining.split_at(limb_count(*bits).min(remaining.len()));
        values.push(to_bytes(value, *bits));
        remaining = rest;
    }
    values
}

/// Formats a number in decimal. If `is_signed`, its limbs are in two's complement.
pub(super) fn decimal(number: &[u64], is_signed: bool) -> String {
    let is_negative = is_signed && number.last().is_some_and(|top| top >> 63 == 1);
    let mut magnitude: Vec<u64> = number.to_vec();
    if is_negative {
        let mut carry = true;
        for limb in &mut magnitude {
            (*limb, carry) = (!*limb).overflowing_add(u64::from(carry));
        }
    }
    let mut digits = Vec::new();
    while magnitude.iter().any(|limb| *limb != 0) {
        let mut remainder = 0u128;
        for limb in magnitude.iter_mut().rev() {
            let value = remainder << 64 | u128::from(*limb);
            (*limb, remainder) = ((value / 10) as u64, value % 10);
        }
        digits.push(char::from(b'0' + remainder as u8));
    }
    if digits.is_empty() {
        return "0".to_string();
    }
    if is_negative {
        digits.push('-');
    }
    digits.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_limbs_are_converted() {
        let limbs = |value: &[u8], bits| to_limbs(value, bits, || "port".to_string());
        assert_eq!(limbs(&[0, 0, 1, 0xff], 9), Ok(vec![0x1ff]));
        assert_eq!(limbs(&[], 9), Ok(vec![0]));
        assert_eq!(limbs(&[1; 16], 128), Ok(vec![0x0101_0101_0101_0101; 2]));
        assert_eq!(limbs(&[2, 0], 9).unwrap_err().to_string(), "port 0x0200 does not fit 9 bits");
        assert_eq!(to_bytes(&[0x1ff], 9), [1, 0xff]);
        assert_eq!(to_bytes(&[7, 1], 65), [1, 0, 0, 0, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn numbers_are_formatted_in_decimal() {
        assert_eq!(decimal(&[0], false), "0");
        assert_eq!(decimal(&[u64::MAX], false), "18446744073709551615");
        assert_eq!(decimal(&[u64::MAX], true), "-1");
        assert_eq!(decimal(&[0, 1], false), "18446744073709551616");
    }
}
