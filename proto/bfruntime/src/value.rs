//! Field values of BF Runtime: big-endian byte strings with the width of the field.

/// Returns the length in bytes of a field of this width.
pub(crate) fn width(bits: u32) -> usize {
    bits.div_ceil(u8::BITS) as usize
}

/// Pads or shortens a value to the width of its field; `None` if it does not fit.
pub(crate) fn resize(value: &[u8], bits: u32) -> Option<Vec<u8>> {
    if p4runtime::value::bit_length(value) > bits {
        return None;
    }
    let start = value.iter().position(|&byte| byte != 0).unwrap_or(value.len());
    let digits = &value[start..];
    let mut wide = vec![0; width(bits)];
    let at = wide.len() - digits.len();
    wide[at..].copy_from_slice(digits);
    Some(wide)
}

/// Returns the largest value of a field of this width.
pub(crate) fn max_value(bits: u32) -> Vec<u8> {
    let mut all = vec![0xFF; width(bits)];
    if let Some(first) = all.first_mut() {
        *first >>= (u8::BITS - bits % u8::BITS) % u8::BITS;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_wide_as_their_fields() {
        assert_eq!(resize(&[1], 9), Some(vec![0, 1]));
        assert_eq!(resize(&[0, 0, 1, 0xff], 9), Some(vec![1, 0xff]));
        assert_eq!(resize(&[2, 0], 9), None);
        assert_eq!(resize(&[], 32), Some(vec![0; 4]));
        assert_eq!((max_value(9), max_value(16), max_value(3)), (vec![1, 0xff], vec![0xff; 2], vec![7]));
    }
}
