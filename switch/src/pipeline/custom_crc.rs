//! CRCs whose parameters a controller sets at run time, for the algorithms `crc16_custom` and `crc32_custom`.

use std::array::from_fn;

/// The parameters of a CRC, in the model of the catalogue of parametrised CRC algorithms. In a CRC of 16 bits, only
/// the low 16 bits of a number count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrcParameters {
    /// Width of the CRC in bits: 16 or 32.
    pub width: u32,
    /// The polynomial without its highest term.
    pub polynomial: u32,
    /// Initial value of the register.
    pub initial: u32,
    /// The value XORed with the register at the end, after the reflection.
    pub final_xor: u32,
    /// Whether each input byte is processed from its lowest bit on.
    pub reflect_input: bool,
    /// Whether the bits of the register are reversed at the end.
    pub reflect_output: bool,
}

/// A CRC with a table for one input byte.
#[derive(Clone, Debug)]
pub(super) struct CustomCrc {
    parameters: CrcParameters,
    /// The register after a byte, for a register of 0.
    table: [u32; 256],
}

impl CustomCrc {
    pub(super) fn new(parameters: CrcParameters) -> CustomCrc {
        // The register occupies the highest bits of a word of 32, so that all widths share the code.
        let polynomial = parameters.polynomial << (32 - parameters.width);
        let divide = |register: u32| register << 1 ^ if register >> 31 == 1 { polynomial } else { 0 };
        let table = from_fn(|byte| (0..8).fold((byte as u32) << 24, |register, _| divide(register)));
        CustomCrc { parameters, table }
    }

    pub(super) fn checksum(&self, bytes: &[u8]) -> u64 {
        let CrcParameters { width, initial, final_xor, reflect_input, reflect_output, .. } = self.parameters;
        let mut register = initial << (32 - width);
        for &byte in bytes {
            let byte = if reflect_input { byte.reverse_bits() } else { byte };
            register = register << 8 ^ self.table[(register >> 24) as usize ^ usize::from(byte)];
        }
        // Reversing the whole word also moves the register to the lowest bits.
        let register = if reflect_output { register.reverse_bits() } else { register >> (32 - width) };
        u64::from(register) ^ u64::from(final_xor << (32 - width) >> (32 - width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of the catalogue: CRC-16/ARC, XMODEM, GENIBUS, X-25; CRC-32/ISO-HDLC, BZIP2, ISCSI.
    #[test]
    fn check_values_match() {
        for (width, polynomial, initial, final_xor, reflect, check) in [
            (16, 0x8005, 0, 0, true, 0xbb3d),
            (16, 0x1021, 0, 0, false, 0x31c3),
            (16, 0x1021, 0xffff, 0xffff, false, 0xd64e),
            (16, 0xffff_1021, 0xffff_ffff, 0xffff_ffff, true, 0x906e),
            (32, 0x04c1_1db7, 0xffff_ffff, 0xffff_ffff, true, 0xcbf4_3926),
            (32, 0x04c1_1db7, 0xffff_ffff, 0xffff_ffff, false, 0xfc89_1918),
            (32, 0x1edc_6f41, 0xffff_ffff, 0xffff_ffff, true, 0xe306_9283),
        ] {
            let (reflect_input, reflect_output) = (reflect, reflect);
            let parameters =
                CrcParameters { width, polynomial, initial, final_xor, reflect_input, reflect_output };
            assert_eq!(CustomCrc::new(parameters).checksum(b"123456789"), check, "{parameters:x?}");
        }
    }

    /// Input and output are reflected independently of each other.
    #[test]
    fn output_is_reversed_at_the_end() {
        let crc = |reflect_output| {
            let parameters = CrcParameters {
                width: 16,
                polynomial: 0x1021,
                initial: 0x1d0f,
                final_xor: 0,
                reflect_input: false,
                reflect_output,
            };
            CustomCrc::new(parameters).checksum(b"123456789")
        };
        assert_eq!(crc(false), 0xe5cc, "CRC-16/SPI-FUJITSU");
        assert_eq!(crc(true), u64::from(0xe5cc_u16.reverse_bits()));
    }
}
