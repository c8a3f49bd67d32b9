//! Values of fields: byte strings that are checked against a width (P4Runtime section 8.4).

use super::error::ControlError;
use p4runtime::value::{bit_length, to_u64};

/// Pads or shortens the value to ceil(bits / 8) bytes. Any number of leading zero bytes is accepted.
///
/// # Errors
///
/// The value is empty or does not fit `bits` bits, or the field has a translated type (`bits` is 0).
pub(super) fn to_width(value: &[u8], bits: i32) -> Result<Vec<u8>, ControlError> {
    let bits = u32::try_from(bits).ok().filter(|&bits| bits > 0);
    let bits =
        bits.ok_or_else(|| ControlError::unimplemented("fields of translated types are not supported"))?;
    if value.is_empty() {
        return Err(ControlError::invalid("the value is an empty byte string"));
    }
    if bit_length(value) > bits {
        return Err(ControlError::invalid(format!("{} does not fit {bits} bits", hex(value))));
    }
    let bytes = bits.div_ceil(8) as usize;
    let tail = &value[value.len().saturating_sub(bytes)..];
    let mut padded = vec![0; bytes - tail.len()];
    padded.extend_from_slice(tail);
    Ok(padded)
}

/// Returns the largest value of a field, which is also its full mask.
pub(super) fn ones(bits: i32) -> Vec<u8> {
    let bits = bits.unsigned_abs();
    let mut mask = vec![0xff; bits.div_ceil(8) as usize];
    if let (Some(first), partial @ 1..) = (mask.first_mut(), bits % 8) {
        *first = (1 << partial) - 1;
    }
    mask
}

/// Returns the mask of a prefix of `len` bits in a field of `bits` bits.
pub(super) fn prefix_mask(bits: i32, len: i32) -> Vec<u8> {
    let mut mask = ones(bits);
    // Clears the bits after the prefix, from the lowest bit up.
    for bit in 0..(bits - len).unsigned_abs() as usize {
        let last = mask.len() - 1;
        mask[last - bit / 8] &= !(1 << (bit % 8));
    }
    mask
}

/// Returns whether the value has no bit outside the mask; both have the same length.
pub(super) fn is_masked(value: &[u8], mask: &[u8]) -> bool {
    value.iter().zip(mask).all(|(v, m)| v & !m == 0)
}

/// Converts a port number; v1model's have 9 bits.
///
/// # Errors
///
/// The value is empty or does not fit 9 bits.
pub(super) fn port(value: &[u8]) -> Result<u16, ControlError> {
    const PORT_BITS: u32 = 9;
    to_u64(value)
        .filter(|_| !value.is_empty() && bit_length(value) <= PORT_BITS)
        .map(|port| port as u16)
        .ok_or_else(|| {
            ControlError::invalid(format!("{} is not a port number of {PORT_BITS} bits", hex(value)))
        })
}

/// Formats a value for messages; a long one is shortened.
pub(super) fn hex(value: &[u8]) -> String {
    /// The length of an IPv6 address in bytes.
    const MAX_SHOWN_LEN: usize = 16;
    let digits: String = value.iter().take(MAX_SHOWN_LEN).map(|byte| format!("{byte:02x}")).collect();
    match value.len() {
        ..=MAX_SHOWN_LEN => format!("0x{digits}"),
        len => format!("0x{digits}... ({len} bytes)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_zeros_do_not_count_towards_the_width() {
        assert_eq!(to_width(&[0, 0, 1, 0xff], 9).unwrap(), [1, 0xff]);
        assert_eq!(to_width(&[5], 48).unwrap(), [0, 0, 0, 0, 0, 5]);
        assert_eq!(to_width(&[2, 0], 9).unwrap_err().message, "0x0200 does not fit 9 bits");
        assert_eq!(to_width(&[], 9).unwrap_err().message, "the value is an empty byte string");
    }

    #[test]
    fn masks_have_the_fields_width() {
        assert_eq!(ones(9), [1, 0xff]);
        assert_eq!(ones(16), [0xff, 0xff]);
        assert_eq!(prefix_mask(32, 24), [0xff, 0xff, 0xff, 0]);
        assert_eq!(prefix_mask(9, 1), [1, 0]);
        assert_eq!(prefix_mask(12, 5), [0b1111, 0b1000_0000]);
        assert!(is_masked(&[1, 0], &[1, 0xff]) && !is_masked(&[1, 1], &[1, 0]));
    }

    #[test]
    fn ports_have_nine_bits() {
        assert_eq!(port(&[0, 0, 1, 0xfe]), Ok(510));
        assert!(port(&[2, 0]).is_err() && port(&[]).is_err());
    }
}
