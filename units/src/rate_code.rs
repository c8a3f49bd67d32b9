use super::Bandwidth;

/// The rate of a port as the 4-bit code of telemetry records. The papers call the field B and leave its values open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateCode(u8);

/// Rates in Mbit/s by code, as in `p4src/include/constants.p4`; 0 means unknown.
const MBPS_BY_CODE: [u64; 16] =
    [0, 1, 5, 10, 20, 50, 100, 1_000, 10_000, 25_000, 40_000, 50_000, 100_000, 200_000, 400_000, 800_000];

impl RateCode {
    /// The code of a port whose rate the switch does not know.
    pub const UNKNOWN: RateCode = RateCode(0);

    /// Returns the code in the low 4 bits of `bits`.
    pub const fn from_bits(bits: u8) -> RateCode {
        RateCode(bits & 0xf)
    }
    /// Returns the code as 4 bits of a telemetry record.
    pub const fn bits(self) -> u8 {
        self.0
    }
    /// Returns the rate; `None` if unknown.
    pub fn bandwidth(self) -> Option<Bandwidth> {
        match MBPS_BY_CODE[usize::from(self.0 & 0xf)] {
            0 => None,
            mbps => Some(Bandwidth::from_mbps(mbps)),
        }
    }
    /// Returns the code of `rate`; `None` if the table lacks it.
    pub fn from_bandwidth(rate: Bandwidth) -> Option<RateCode> {
        let code = MBPS_BY_CODE.iter().position(|&mbps| mbps != 0 && Bandwidth::from_mbps(mbps) == rate)?;
        Some(RateCode(code as u8))
    }
    /// Returns the rates that have a code, in ascending order.
    pub fn rates() -> impl Iterator<Item = Bandwidth> {
        MBPS_BY_CODE.into_iter().skip(1).map(Bandwidth::from_mbps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_one_rate() {
        assert_eq!(RateCode::UNKNOWN.bandwidth(), None);
        assert_eq!(RateCode::from_bandwidth(Bandwidth::ZERO), None);
        assert_eq!(RateCode::from_bandwidth(Bandwidth::from_gbps(3)), None);
        for (bits, rate) in (1..16).zip(RateCode::rates()) {
            let code = RateCode::from_bits(bits);
            assert_eq!(code.bandwidth(), Some(rate));
            assert_eq!(RateCode::from_bandwidth(rate), Some(code));
        }
    }
}
