use weir_units::Bandwidth;

/// A port's rate in 4 bits: the papers call the field B and leave its values open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateCode(u8);

const MBPS: [u64; 16] =
    [0, 1, 5, 10, 20, 50, 100, 1_000, 10_000, 25_000, 40_000, 50_000, 100_000, 200_000, 400_000, 800_000];

impl RateCode {
    /// The switch does not know.
    pub const UNKNOWN: RateCode = RateCode(0);

    /// From the low 4 bits.
    pub const fn from_bits(bits: u8) -> RateCode {
        RateCode(bits & 0xf)
    }
    /// As it stands on the wire.
    pub const fn bits(self) -> u8 {
        self.0
    }
    /// The rate; `None` if unknown.
    pub fn bandwidth(self) -> Option<Bandwidth> {
        match MBPS[usize::from(self.0 & 0xf)] {
            0 => None,
            mbps => Some(Bandwidth::from_mbps(mbps)),
        }
    }
    /// The code of a rate; `None` if the table does not hold it.
    pub fn from_bandwidth(rate: Bandwidth) -> Option<RateCode> {
        let code = MBPS.iter().position(|&mbps| mbps != 0 && Bandwidth::from_mbps(mbps) == rate)?;
        Some(RateCode(code as u8))
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
        for bits in 1..16 {
            let code = RateCode::from_bits(bits);
            assert_eq!(RateCode::from_bandwidth(code.bandwidth().unwrap()), Some(code));
        }
    }

    /// The table of `p4src/include/constants.p4`, spelled out.
    #[test]
    fn codes_are_those_of_the_switches() {
        let text: Vec<String> =
            (1..16).map(|bits| RateCode::from_bits(bits).bandwidth().unwrap().to_string()).collect();
        assert_eq!(
            text.join(" "),
            "1Mbps 5Mbps 10Mbps 20Mbps 50Mbps 100Mbps 1Gbps 10Gbps 25Gbps 40Gbps 50Gbps 100Gbps 200Gbps \
             400Gbps 800Gbps"
        );
    }
}
