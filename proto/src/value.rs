//! Field values of P4Runtime: big-endian byte strings.

/// Returns the canonical byte string of a number, which is the shortest one (P4Runtime §8.4). Zero is one byte.
///
/// ```
/// # use p4runtime::value::*;
/// assert_eq!(from_uint(0), [0]);
/// assert_eq!(from_uint(0x1ff), [1, 0xff]);
/// ```
pub fn from_uint(value: u128) -> Vec<u8> {
    canonical(&value.to_be_bytes())
}

/// Removes leading zero bytes, but keeps at least one byte.
pub fn canonical(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|&b| b != 0).unwrap_or(bytes.len());
    match &bytes[start..] {
        [] => vec![0],
        rest => rest.to_vec(),
    }
}

/// Converts a byte string to a number; `None` if it does not fit.
pub fn to_u64(bytes: &[u8]) -> Option<u64> {
    let start = bytes.iter().position(|&b| b != 0).unwrap_or(bytes.len());
    let digits = &bytes[start..];
    (digits.len() <= 8).then(|| digits.iter().fold(0, |n, &b| n << 8 | u64::from(b)))
}

/// Returns the number of significant bits.
pub fn bit_length(bytes: &[u8]) -> u32 {
    match bytes.iter().position(|&b| b != 0) {
        None => 0,
        Some(start) => (bytes.len() - start) as u32 * 8 - bytes[start].leading_zeros(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_is_shortest_and_never_empty() {
        assert_eq!(canonical(&[]), [0]);
        assert_eq!(canonical(&[0, 0]), [0]);
        assert_eq!(canonical(&[0, 1, 0]), [1, 0]);
        assert_eq!(to_u64(&[0; 20]), Some(0));
        assert_eq!(to_u64(&[1; 9]), None);
        assert_eq!(to_u64(&[0, 1, 0xff]), Some(0x1ff));
        assert_eq!((bit_length(&[0]), bit_length(&[0, 1]), bit_length(&[1, 0xff])), (0, 1, 9));
    }
}
