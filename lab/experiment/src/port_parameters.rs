//! Converts the parameters of a scheme's port algorithm to the table entries of ports, in the fixed-point numbers of the P4
//! programs.

use weir_controller::PlanOptions;
use weir_controller::port_params::PortParams;
use weir_controller::topology::Topology;
use weir_host::port_algorithm::{
    CongestionThreshold, CreditLimit, GRANT_UNIT_BPS, PortAlgorithm, RcpParams, RoccParams,
};
use weir_units::{Bandwidth, Time};

/// Fixed-point scales of the P4 programs: gains are multiplied by 2^16, inverses by 2^32.
const GAIN: f64 = 65_536.0;
const INVERSE: f64 = 4_294_967_296.0;

/// A parameter that the tables of a port cannot represent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortParameterError {
    /// A value is out of the range of its field.
    #[error("{quantity} is {value} at {rate}, out of range 1 to {max}")]
    Number { rate: Bandwidth, quantity: &'static str, value: String, max: u32 },
    /// The refresh period is too short or too long for the switch's clock.
    #[error("refresh: {period} is out of range 1 to {MAX_REFRESH_TICKS} ticks of {tick}")]
    Refresh { period: Time, tick: Time },
}

/// Half the range of the 24-bit timestamps: with a longer period, serial number comparison fails.
const MAX_REFRESH_TICKS: u32 = 1 << 23;

/// Adds the port parameters of a port algorithm to the plan's options. `tick` is the period of the switches' clock.
///
/// # Errors
///
/// If a parameter does not fit its field at the rate of a link, or a period is out of the range of the clock.
pub fn apply_port_algorithm(
    algorithm: &PortAlgorithm,
    topology: &Topology,
    tick: Time,
    options: &mut PlanOptions,
) -> Result<(), PortParameterError> {
    let per_rate =
        |row: &dyn Fn(Port) -> Result<PortParams, PortParameterError>| -> Result<_, PortParameterError> {
            let rates = topology.links.iter().map(|link| link.rate);
            rates.map(|rate| Ok((rate, row(Port { rate, tick })?))).collect()
        };
    match algorithm {
        PortAlgorithm::IntRefresh(period) => options.int_refresh = Some(refresh_ticks(*period, tick)?),
        PortAlgorithm::Rocc(algorithm) => options.port_params = per_rate(&|port| rocc(algorithm, port))?,
        PortAlgorithm::Rcp(algorithm) => options.port_params = per_rate(&|port| rcp(algorithm, port))?,
        PortAlgorithm::Credits(algorithm) => {
            options.port_params = per_rate(&|port| credits(algorithm, port))?
        }
        PortAlgorithm::Congestion(algorithm) => {
            options.port_params = per_rate(&|port| congestion(algorithm, port))?
        }
    }
    Ok(())
}

fn refresh_ticks(period: Time, tick: Time) -> Result<u32, PortParameterError> {
    match u32::try_from(period / tick) {
        Ok(ticks) if (1..=MAX_REFRESH_TICKS).contains(&ticks) => Ok(ticks),
        _ => Err(PortParameterError::Refresh { period, tick }),
    }
}

/// Link rate and clock of a port.
#[derive(Clone, Copy)]
struct Port {
    rate: Bandwidth,
    tick: Time,
}

impl Port {
    fn bytes_per_s(self) -> f64 {
        self.rate.as_bps_f64() / 8.0
    }
    /// Rate in the unit of grants, kbit/s.
    fn rate(self) -> f64 {
        self.rate.as_bps_f64() / GRANT_UNIT_BPS as f64
    }
    fn ticks(self, time: Time) -> f64 {
        time.as_secs_f64() / self.tick.as_secs_f64()
    }
    /// Rounds a value for the table and checks that it is in 1 to `max`.
    fn number(self, quantity: &'static str, value: f64, max: u32) -> Result<u32, PortParameterError> {
        let rounded = value.round();
        if (1.0..=f64::from(max)).contains(&rounded) {
            return Ok(rounded as u32);
        }
        Err(PortParameterError::Number { rate: self.rate, quantity, value: format!("{value:.3}"), max })
    }
}

fn rocc(algorithm: &RoccParams, port: Port) -> Result<PortParams, PortParameterError> {
    let bytes_per_period = port.bytes_per_s() * algorithm.period.as_secs_f64();
    // Factor from rate units per queue unit to kbit/s per byte.
    let per_byte = port.rate() * RoccParams::RATE_UNIT / (bytes_per_period * RoccParams::QUEUE_UNIT);
    let ticks = port.ticks(algorithm.period);
    let number = |quantity, value| port.number(quantity, value, u32::MAX);
    let alpha = (algorithm.alpha * per_byte * GAIN).round().min(f64::from(1 << 20)) as u32;
    let beta = (algorithm.beta * per_byte * GAIN).round().min(f64::from(u32::MAX)) as u32;
    // With alpha at most 2^20 and qref at most 2^28, alpha * qref fits the table's field of 48 bits.
    let qref = port.number("Qref in bytes", algorithm.q_ref * bytes_per_period, 1 << 28)?;
    let params = vec![
        ("period", number("the period in ticks", ticks)?.into()),
        ("inverse", ((INVERSE / ticks).min(f64::from(u32::MAX)) as u32).into()),
        ("qmid", number("Qmid in bytes", algorithm.q_mid * bytes_per_period)?.into()),
        ("qmax", number("Qmax in bytes", algorithm.q_max * bytes_per_period)?.into()),
        ("fmin", number("Fmin in kbit/s", (algorithm.min_share * port.rate()).max(1.0))?.into()),
        ("fmax", number("Fmax in kbit/s", port.rate())?.into()),
        // Gains in kbit/s per byte, for the distance from the reference queue and for its growth, times 2^16.
        ("alpha_qref", u128::from(alpha) * u128::from(qref)),
        ("alpha_gain", alpha.into()),
        ("beta_gain", beta.into()),
    ];
    Ok(PortParams { table: "rocc_port", action: "pi", params })
}

fn rcp(algorithm: &RcpParams, port: Port) -> Result<PortParams, PortParameterError> {
    let capacity = algorithm.target * port.bytes_per_s();
    /// 2^32 / 256: `p4src/controls/rcp_rate.p4` requires a bandwidth-delay product of at least 256 bytes. This bound and
    /// `MAX_BETA` keep its arithmetic from overflowing.
    const MAX_INVERSE: u32 = 1 << 24;
    const MAX_BETA: u32 = 1 << 29;
    let inverse_bdp = INVERSE / (capacity * algorithm.rtt.as_secs_f64());
    let capacity = capacity * port.tick.as_secs_f64() * GAIN;
    let beta = (algorithm.beta / port.ticks(algorithm.rtt) * INVERSE).round().min(f64::from(MAX_BETA)) as u32;
    let params = vec![
        ("period", port.number("the period in ticks", port.ticks(algorithm.period), (1 << 24) - 1)?.into()),
        (
            "rmin",
            port.number(
                "the minimum rate in kbit/s",
                (algorithm.min_share * port.rate()).max(1.0),
                u32::MAX,
            )?
            .into(),
        ),
        ("rmax", port.number("the maximum rate in kbit/s", algorithm.target * port.rate(), u32::MAX)?.into()),
        ("capacity", port.number("bytes per tick * 2^16", capacity, 1 << 30)?.into()),
        ("alpha_gain", ((algorithm.alpha * GAIN).round() as u32).into()),
        ("beta_gain", beta.into()),
        (
            "inverse_bdp",
            port.number("2^32 over the bandwidth-delay product", inverse_bdp, MAX_INVERSE)?.into(),
        ),
    ];
    Ok(PortParams { table: "rcp_port", action: "rcp", params })
}

fn credits(algorithm: &CreditLimit, port: Port) -> Result<PortParams, PortParameterError> {
    /// The P4 program counts time in 1/256 tick.
    const SUBTICKS: f64 = 256.0;
    let interval = SUBTICKS * port.ticks(algorithm.interval(port.rate));
    let burst =
        (interval * f64::from(algorithm.burst.saturating_sub(1))).round().min(f64::from(u32::MAX)) as u32;
    let interval = port.number("ticks between credits * 256", interval, u32::MAX)?;
    let params = vec![("interval", interval.into()), ("burst", burst.into())];
    Ok(PortParams { table: "credit_port", action: "shape", params })
}

fn congestion(algorithm: &CongestionThreshold, port: Port) -> Result<PortParams, PortParameterError> {
    let queue = algorithm.queue.as_f64() * port.rate.as_bps_f64() / algorithm.reference_rate.as_bps_f64();
    let bytes = port.number("the queue of a congested port in bytes", queue, u32::MAX)?;
    Ok(PortParams { table: "int_threshold", action: "set_threshold", params: vec![("bytes", bytes.into())] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_host::schemes::Registry;

    const NS: Time = Time::from_ns(1);

    fn row(algorithm: &PortAlgorithm, rate: Bandwidth, tick: Time) -> Result<PortParams, PortParameterError> {
        let port = Port { rate, tick };
        match algorithm {
            PortAlgorithm::Rocc(algorithm) => rocc(algorithm, port),
            PortAlgorithm::Rcp(algorithm) => rcp(algorithm, port),
            PortAlgorithm::Credits(algorithm) => credits(algorithm, port),
            PortAlgorithm::Congestion(algorithm) => congestion(algorithm, port),
            PortAlgorithm::IntRefresh(_) => panic!("INT refresh is not a port parameter"),
        }
    }

    #[test]
    fn the_refresh_period_must_fit_the_clock() {
        assert_eq!(refresh_ticks(Time::from_us(10), NS), Ok(10_000));
        assert_eq!(refresh_ticks(Time::from_us(10), Time::from_us(1)), Ok(10));
        for period in [Time::from_ps(999), Time::from_ms(9)] {
            assert!(refresh_ticks(period, NS).unwrap_err().to_string().starts_with("refresh: "));
        }
    }

    fn algorithm(name: &str) -> PortAlgorithm {
        Registry::builtin().get(name).unwrap().port_algorithm(Time::from_us(20)).unwrap()
    }

    fn value(row: &PortParams, name: &str) -> u128 {
        row.params.iter().find(|(param, _)| *param == name).unwrap().1
    }

    /// RoCC at 100 Gbit/s: 300, 600, 660 KB; 10 to 10,000 units of 10 Mbit/s; 0.45 and 2.25 units per 600 B.
    #[test]
    fn rocc_at_100_gbps_has_the_parameters_of_the_paper() {
        let row = row(&algorithm("rocc"), Bandwidth::from_gbps(100), NS).unwrap();
        let alpha = 7 * 65_536 + 32_768;
        let params = vec![
            ("period", 40_000),
            ("inverse", 107_374),
            ("qmid", 600_000),
            ("qmax", 660_000),
            ("fmin", 100_000),
            ("fmax", 100_000_000),
            ("alpha_qref", alpha * 300_000),
            ("alpha_gain", alpha),
            ("beta_gain", 37 * 65_536 + 32_768),
        ];
        assert_eq!(row, PortParams { table: "rocc_port", action: "pi", params });
    }

    /// A scale model ten thousand times slower has the same queues; its clock ticks in microseconds.
    #[test]
    fn parameters_fit_slow_ports() {
        let mbps = Bandwidth::from_mbps(10);
        let slow = Registry::builtin().make("rocc", &[("period", "400ms")]).unwrap();
        let slow = slow.port_algorithm(Time::from_ms(100)).unwrap();
        let row_of_slow = row(&slow, mbps, Time::from_us(1)).unwrap();
        let values =
            ["period", "alpha_qref", "fmin", "fmax", "alpha_gain"].map(|name| value(&row_of_slow, name));
        assert_eq!(values, [400_000, 49 * 300_000, 10, 10_000, 49]);
        let error = row(&algorithm("rocc"), Bandwidth::from_bps(1_000), NS).unwrap_err().to_string();
        assert_eq!(error, "Qref in bytes is 0.003 at 1Kbps, out of range 1 to 268435456");
        assert!(
            row(&algorithm("rcp"), mbps, NS).unwrap_err().to_string().contains("bandwidth-delay product")
        );
        assert!(row(&algorithm("rcp"), Bandwidth::from_gbps(800), NS).is_ok());
        // Credits of 66 B at 4 % of the rate: one per 132 ns at 100 Gbit/s, one per 33 ns at 400 Gbit/s.
        for (gbps, interval) in [(100, 33_792), (400, 8_448)] {
            let row = row(&algorithm("expresspass"), Bandwidth::from_gbps(gbps), NS).unwrap();
            assert_eq!((value(&row, "interval"), value(&row, "burst")), (interval, 7 * interval));
        }
    }
}
