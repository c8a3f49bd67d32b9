//! Rate codes: how four bits of telemetry name the speed of a port.

use weir_units::Bandwidth;

/// Rate by code; 0 means unknown. One table in three places (here, `p4src/include`,
/// `host/src/wire`), held equal by tests.
pub const CODES: [Bandwidth; 16] = [
    Bandwidth::ZERO,
    Bandwidth::from_mbps(1),
    Bandwidth::from_mbps(5),
    Bandwidth::from_mbps(10),
    Bandwidth::from_mbps(20),
    Bandwidth::from_mbps(50),
    Bandwidth::from_mbps(100),
    Bandwidth::from_gbps(1),
    Bandwidth::from_gbps(10),
    Bandwidth::from_gbps(25),
    Bandwidth::from_gbps(40),
    Bandwidth::from_gbps(50),
    Bandwidth::from_gbps(100),
    Bandwidth::from_gbps(200),
    Bandwidth::from_gbps(400),
    Bandwidth::from_gbps(800),
];

/// The code of a rate, `None` if it has none.
pub fn code(rate: Bandwidth) -> Option<u8> {
    CODES.iter().skip(1).position(|&r| r == rate).map(|i| i as u8 + 1)
}

/// The rates that have a code, for messages.
pub(crate) fn known() -> String {
    CODES[1..].iter().map(Bandwidth::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_and_zero_has_none() {
        for (i, &rate) in CODES.iter().enumerate().skip(1) {
            assert_eq!(code(rate), Some(i as u8));
        }
        assert_eq!(code(Bandwidth::ZERO), None);
        assert_eq!(code(Bandwidth::from_gbps(30)), None);
        assert!(known().starts_with("1Mbps, 5Mbps"));
    }

    /// The table is written in three places; host/src/wire has a test of its own.
    #[test]
    fn the_table_is_that_of_p4src() {
        let constants = include_str!("../../p4src/include/constants.p4");
        let comment = constants.split("// Rate codes").nth(1).expect("the table's comment");
        let words: Vec<&str> = comment.lines().skip(2).take(2).flat_map(str::split_whitespace).collect();
        let words: Vec<&str> = words.into_iter().filter(|word| *word != "//").collect();
        assert_eq!(words.len(), 2 * CODES.len(), "{words:?}");
        for (pair, (code, rate)) in words.chunks(2).zip(CODES.iter().enumerate()) {
            let (number, name) = (pair[0], pair[1]);
            assert_eq!(number, code.to_string());
            let expected = if code == 0 { "unknown".to_owned() } else { format!("{name}bps") };
            assert_eq!(if code == 0 { name.to_owned() } else { rate.to_string() }, expected);
        }
    }
}
