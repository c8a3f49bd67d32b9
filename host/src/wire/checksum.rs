/// Returns the Internet checksum (RFC 1071) of `bytes`. Over bytes that include a correct checksum the result is 0.
#[inline]
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    // The one's complement sum is independent of byte order (RFC 1071 §2), so words are added in little-endian order,
    // four bytes at a time, and only the result is swapped.
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|&word| u64::from(u32::from_le_bytes(word))).sum();
    for (shift, byte) in (0..).step_by(8).zip(rest) {
        sum += u64::from(*byte) << shift;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16).swap_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071 §3: the words 0001 f203 f4f5 f6f7 add up to ddf2.
    #[test]
    fn rfc_1071_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(internet_checksum(&bytes), !0xddf2);
    }

    /// An incomplete last word is padded with zeros.
    #[test]
    fn odd_lengths() {
        let bytes = [0xff, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6];
        for len in 0..bytes.len() {
            let mut padded = [0; 8];
            padded[..len].copy_from_slice(&bytes[..len]);
            let words = padded.as_chunks::<2>().0.iter().map(|&word| u32::from(u16::from_be_bytes(word)));
            let sum = words.sum::<u32>();
            assert_eq!(internet_checksum(&bytes[..len]), !((sum & 0xffff) + (sum >> 16)) as u16, "{len}");
        }
    }

    #[test]
    fn sum_over_a_correct_checksum_is_zero() {
        let mut header =
            [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
        let sum = internet_checksum(&header);
        assert_eq!(sum, 0xb861);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(internet_checksum(&header), 0);
    }
}
