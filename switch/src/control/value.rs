//! Values of fields: byte strings that are checked against a width (P4Runtime section 8.4).

use super::error::ControlError;
use crate::pipeline::hex;
use p4runtime::value::{bit_length, to_u64};

/// Pads or shortens the value to ceil(bits / 8) bytes. Any number of leading zero bytes is accepted.
///
/// # Errors
///
/// The value is empty or does not fit `bits` bits, or the field has a translated type (`bits` is 0).
pub(super) fn to_width(value: &[u8], bits: i32) -> Result<Vec<u8>, ControlError> {
    check_form(value, bits)?;
    let bits = bits.unsigned_abs();
    if bit_length(value) > bits {
        return Err(ControlError::invalid(format!("{} does not fit {bits} bits", hex(value))));
    }
    let bytes = bits.div_ceil(8) as usize;
    let tail = &value[value.len().saturating_sub(bytes)..];
    let mut padded = vec![0; bytes - tail.len()];
    padded.extend_from_slice(tail);
    Ok(padded)
}

/// Checks that P4Runtime allows the byte string as a value of a field, however large the number is.
///
/// # Errors
///
/// The value is empty, or the field has a translated type (`bits` is 0).
pub(super) fn check_form(value: &[u8], bits: i32) -> Result<(), ControlError> {
    if bits <= 0 {
        return Err(ControlError::unimplemented("fields of translated types are not supported"));
    }
    if value.is_empty() {
        return Err(ControlError::invalid("the value is an empty byte string"));
    }
    Ok(())
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
    }

    #[test]
    fn ports_have_nine_bits() {
        assert_eq!(port(&[0, 0, 1, 0xfe]), Ok(510));
        assert!(port(&[2, 0]).is_err() && port(&[]).is_err());
    }
}
