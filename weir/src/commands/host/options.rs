//! Options shared by all `weir host` subcommands.

use crate::console::Failure;
use crate::metrics::MetricsOptions;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_agent::{AgentError, DEFAULT_MAX_SPIN, Interface, StartAt};
use weir_experiment::SchemeEntry;
use weir_experiment::file::{RecoverySpec, TransportSpec};
use weir_experiment::rng::mix;
use weir_host::wire::MacAddr;
use weir_host::{DEFAULT_INITIAL_RTO, DEFAULT_MIN_RTO, DEFAULT_USER_TIMEOUT};
use weir_testbed::host_setup::HostSetup;
use weir_units::{Bandwidth, Bytes, Ratio, Time};

#[derive(Debug, clap::Args)]
pub(super) struct HostOptions {
    /// Network interface
    #[arg(long, value_name = "NAME")]
    iface: String,

    /// IPv4 address of the host [default: the first address of the interface]
    #[arg(long, value_name = "IP")]
    addr: Option<Ipv4Addr>,

    /// Congestion control scheme (see `weir schemes`)
    #[arg(long, default_value = "fncc")]
    scheme: String,

    /// Set a parameter of the scheme
    #[arg(long, value_name = "PARAMETER=VALUE")]
    set: Vec<String>,

    /// P4 program of the switches, if it differs from the scheme's default: a name such as `weir`, or the
    /// P4Info of a program
    ///
    /// A policy may then select any scheme whose requirements the program meets.
    #[arg(long, value_name = "NAME|P4INFO")]
    program: Option<String>,

    /// Rate of the NIC: the initial rate of each flow, and the limit for all flows together
    #[arg(long, default_value_t = DEFAULT_RATE)]
    rate: Bandwidth,

    /// Maximum Ethernet frame on the path, without frame check sequence [default: that of the interface]
    #[arg(long)]
    mtu: Option<Bytes>,

    /// Round-trip time of the idle network, slightly more than that of its longest path
    #[arg(long, default_value_t = DEFAULT_BASE_RTT, value_name = "TIME")]
    base_rtt: Time,

    /// Unit of telemetry timestamps; must equal `--clock` of the switches (BMv2: us)
    #[arg(long, default_value = "us", value_parser = parse_telemetry_clock)]
    telemetry_clock: Time,

    /// Number of packets per acknowledgement
    #[arg(long, default_value_t = 1, value_name = "M")]
    ack_every: u32,

    /// Loss recovery: go-back-n or selective (as in TCP) [default: that of the scheme]
    ///
    /// Must be the same at sender and receiver.
    #[arg(long, value_parser = parse_recovery)]
    recovery: Option<RecoverySpec>,

    /// Retransmission timeout with go-back-n [default: the larger of 16 base RTTs and the time for 50 MB at
    /// --rate, at most 100ms]
    #[arg(long, value_name = "TIME")]
    rto: Option<Time>,

    /// Minimum interval between NACKs for the same byte [default: the larger of 4 base RTTs and 500us]
    #[arg(long, value_name = "TIME")]
    nack_interval: Option<Time>,

    /// Minimum retransmission timeout with selective recovery
    #[arg(long, default_value_t = DEFAULT_MIN_RTO, value_name = "TIME")]
    min_rto: Time,

    /// Retransmission timeout with selective recovery before the first RTT measurement
    #[arg(long, default_value_t = DEFAULT_INITIAL_RTO, value_name = "TIME")]
    initial_rto: Time,

    /// Time without acknowledged progress after which a flow is aborted; checked when a retransmission timeout
    /// expires
    #[arg(long, default_value_t = DEFAULT_USER_TIMEOUT, value_name = "TIME")]
    user_timeout: Time,

    /// Time for which a receiver counts a flow in N after its last packet [default: the larger of 8 base RTTs and
    /// 1,024 frame times]
    #[arg(long, value_name = "TIME")]
    active_window: Option<Time>,

    /// Part of a pacing gap, at most 1, by which a late frame may shorten the gap behind it (Linux: 50%)
    #[arg(long, default_value = "0", value_name = "RATIO")]
    pacing_credit: Ratio,
}

#[derive(Debug, clap::Args)]
pub(super) struct RunOptions {
    /// Exit after this time
    #[arg(long = "for", value_name = "TIME")]
    pub duration: Option<Time>,

    /// Start of the run: now, +2s, mono:SECONDS (CLOCK_MONOTONIC) or wall:SECONDS (Unix time)
    ///
    /// Hosts on the same machine with the same mono: time start simultaneously.
    #[arg(long, default_value = "now", value_name = "TIME")]
    pub start_at: StartAt,

    /// Sampling interval of rate, goodput, window, RTT and N for --out, or `off`
    ///
    /// At most 4,194,304 samples (150 MB) are kept; the results report whether there were more.
    #[arg(long, default_value = "10ms", value_name = "TIME")]
    pub sample: SampleInterval,

    /// Maximum time to busy-wait instead of sleeping before a packet is due; 0us never busy-waits
    #[arg(long, default_value_t = DEFAULT_MAX_SPIN, value_name = "TIME")]
    pub spin: Time,

    /// Message id of the first flow [default: derived from the clock, because peers remember recent ids]
    #[arg(long, value_name = "ID")]
    pub first_message: Option<u32>,

    /// Write the results to FILE; - is standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Format of the results: json has everything, csv one line per flow (and a second file with the series)
    #[arg(long, value_enum, default_value_t = Format::Json)]
    pub format: Format,

    #[command(flatten)]
    pub metrics: MetricsOptions,
}

/// Default of `--rate`: about the rate at which one core can send full frames.
const DEFAULT_RATE: Bandwidth = Bandwidth::from_gbps(1);
/// Default of `--base-rtt`: the RTT of four BMv2 hops with scheduling delays, as in Mininet.
const DEFAULT_BASE_RTT: Time = Time::from_ms(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// All results
    Json,
    /// One line per flow, and a file with the series
    Csv,
}

/// Sampling interval; `None` for `off`.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleInterval(pub Option<Time>);

impl FromStr for SampleInterval {
    type Err = String;
    fn from_str(text: &str) -> Result<SampleInterval, String> {
        if text == "off" {
            return Ok(SampleInterval(None));
        }
        let time: Time = text.parse().map_err(|error| format!("{error}, or `off`"))?;
        if time < MIN_SAMPLE_INTERVAL {
            return Err(format!("minimum interval is {MIN_SAMPLE_INTERVAL}"));
        }
        Ok(SampleInterval(Some(time)))
    }
}

/// A few times the duration of one loop iteration with a full batch; shorter intervals would measure the
/// sampling itself.
const MIN_SAMPLE_INTERVAL: Time = Time::from_us(100);

/// A MAC address on the command line or in a list of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mac(pub MacAddr);

impl FromStr for Mac {
    type Err = String;
    fn from_str(text: &str) -> Result<Mac, String> {
        let byte = |part: &str| match part.as_bytes() {
            [a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => u8::from_str_radix(part, 16).ok(),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        bytes
            .and_then(|bytes| MacAddr::try_from(bytes).ok())
            .map(Mac)
            .ok_or_else(|| format!("invalid MAC address \"{text}\", expected for example 02:00:0a:00:02:02"))
    }
}

/// Parses the unit of `--telemetry-clock`.
fn parse_telemetry_clock(text: &str) -> Result<Time, String> {
    match text {
        "us" => Ok(Time::from_us(1)),
        "ns" => Ok(Time::from_ns(1)),
        _ => Err(format!("invalid unit \"{text}\"; expected us or ns")),
    }
}

/// Parses the value of `--recovery`.
fn parse_recovery(text: &str) -> Result<RecoverySpec, String> {
    match text {
        "go-back-n" => Ok(RecoverySpec::GoBackN),
        "selective" => Ok(RecoverySpec::Selective),
        _ => Err(format!("invalid recovery \"{text}\"; expected go-back-n or selective")),
    }
}

impl HostOptions {
    /// Finds the interface of `--iface`, with the address of `--addr` if given.
    pub(super) fn interface(&self) -> Result<Interface, AgentError> {
        Interface::find(&self.iface, self.addr)
    }

    /// Returns the setup that the options describe, without flows.
    pub(super) fn setup(&self) -> Result<HostSetup, Failure> {
        let parameter = |text: &String| match text.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(Failure::Input(format!("--set {text}: expected PARAMETER=VALUE"))),
        };
        let set = self.set.iter().map(parameter).collect::<Result<_, _>>()?;
        Ok(HostSetup {
            scheme: SchemeEntry { set, ..SchemeEntry::named(&self.scheme) },
            program: self.program.clone(),
            rate: self.rate,
            mtu: self.mtu,
            base_rtt: self.base_rtt,
            telemetry_clock: self.telemetry_clock,
            transport: TransportSpec {
                ack_every: self.ack_every,
                base_rtt: None,
                recovery: self.recovery,
                rto: self.rto,
                nack_interval: self.nack_interval,
                min_rto: Some(self.min_rto),
                initial_rto: Some(self.initial_rto),
                user_timeout: Some(self.user_timeout),
                active_window: self.active_window,
                pacing_credit: Some(self.pacing_credit),
            },
            flows: Vec::new(),
        })
    }
}

/// Returns a message id that an earlier run is unlikely to have used: time and pid, mixed.
pub(super) fn fresh_message_id() -> u32 {
    let unix_time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (mix(unix_time.as_nanos() as u64 ^ u64::from(std::process::id()) << 40) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses_are_parsed() {
        assert_eq!("02:00:0a:00:02:fF".parse(), Ok(Mac([2, 0, 10, 0, 2, 255])));
        for text in [
            "",
            "02:00:0a:00:02",
            "02:00:0a:00:02:2",
            "02-00-0a-00-02-02",
            "02:00:0a:00:02:02:03",
            "+2:00:0a:00:02:02",
        ] {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }

    #[test]
    fn sample_intervals_are_parsed() {
        assert_eq!("off".parse::<SampleInterval>().unwrap().0, None);
        assert_eq!("1ms".parse::<SampleInterval>().unwrap().0, Some(Time::from_ms(1)));
        for text in ["", "0us", "1us", "5"] {
            assert!(text.parse::<SampleInterval>().is_err(), "{text}");
        }
    }
}
