//! Options that all host commands share.

use crate::console::Failure;
use crate::metrics::MetricsOptions;
use p4runtime::p4info::Index;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_agent::{AgentError, DEFAULT_MAX_SPIN, Interface, StartAt};
use weir_experiment::artifacts::offer;
use weir_host::scheme::{LossRecovery, SwitchProgram};
use weir_host::schemes::Registry;
use weir_host::switch_profile::SwitchProfile;
use weir_host::wire::MacAddr;
use weir_host::{DEFAULT_INITIAL_RTO, DEFAULT_MIN_RTO, DEFAULT_USER_TIMEOUT, HostConfig};
use weir_units::{Bandwidth, Bytes, Time};

/// The properties of the host.
#[derive(Debug, clap::Args)]
pub struct HostOptions {
    /// Network interface
    #[arg(long, value_name = "NAME")]
    iface: String,

    /// The host's address, instead of the interface's first one
    #[arg(long, value_name = "IP")]
    addr: Option<Ipv4Addr>,

    /// Congestion control (`weir schemes` lists them)
    #[arg(long, default_value = "fncc")]
    scheme: String,

    /// Tune a parameter of the scheme
    #[arg(long, value_name = "PARAMETER=VALUE")]
    set: Vec<String>,

    /// The P4 program that switches run, if it is not the scheme's own: a name like `weir`, or the P4Info of a program
    ///
    /// A policy may then change to every scheme that needs no more than the program offers.
    #[arg(long, value_name = "NAME|P4INFO", value_parser = program)]
    program: Option<SwitchProfile>,

    /// Rate of the NIC: flows start at it, and together never exceed it
    #[arg(long, default_value_t = DEFAULT_RATE)]
    rate: Bandwidth,

    /// Largest Ethernet frame on the path, without frame check sequence; absent: the interface's
    #[arg(long)]
    mtu: Option<Bytes>,

    /// A little more than the longest round trip of an idle network
    #[arg(long, default_value_t = DEFAULT_BASE_RTT, value_name = "TIME")]
    base_rtt: Time,

    /// Unit of the switches' timestamps: us for BMv2, ns for the embedded switch
    #[arg(long, default_value = "us", value_parser = telemetry_clock)]
    telemetry_clock: Time,

    /// Packets for each acknowledgement
    #[arg(long, default_value_t = 1, value_name = "M")]
    ack_every: u32,

    /// Loss recovery, go-back-n or selective (as in TCP); absent: the scheme's
    ///
    /// Sender and receiver must agree.
    #[arg(long, value_parser = recovery)]
    recovery: Option<LossRecovery>,

    /// Shortest retransmission timeout with selective recovery
    #[arg(long, default_value_t = DEFAULT_MIN_RTO, value_name = "TIME")]
    min_rto: Time,

    /// Retransmission timeout with selective recovery until a round-trip time is known
    #[arg(long, default_value_t = DEFAULT_INITIAL_RTO, value_name = "TIME")]
    initial_rto: Time,

    /// Time for which nothing new may be acknowledged before a flow is given up, looked at when a retransmission timeout
    /// expires
    #[arg(long, default_value_t = DEFAULT_USER_TIMEOUT, value_name = "TIME")]
    user_timeout: Time,

    /// Time for which a receiver counts a flow in N after its last packet; absent: the larger of 8 base RTTs and
    /// 1,024 frame times
    #[arg(long, value_name = "TIME")]
    active_window: Option<Time>,
}

/// The options of a run.
#[derive(Debug, clap::Args)]
pub struct RunOptions {
    /// End after this time
    #[arg(long = "for", value_name = "TIME")]
    pub duration: Option<Time>,

    /// Start of the run: now, +2s, mono:SECONDS (CLOCK_MONOTONIC) or wall:SECONDS (Unix time)
    ///
    /// Hosts of one machine that are given the same mono: time start together.
    #[arg(long, default_value = "now", value_name = "TIME")]
    pub start_at: StartAt,

    /// Distance of samples of rate, goodput, window, RTT and N in --out; off takes none
    ///
    /// At most 4,194,304 samples are kept, in 150 MB; the results say if there were more.
    #[arg(long, default_value = "10ms", value_name = "TIME")]
    pub sample: SampleInterval,

    /// Longest time to spin, rather than sleep, before a packet is due; 0us never spins
    #[arg(long, default_value_t = DEFAULT_MAX_SPIN, value_name = "TIME")]
    pub spin: Time,

    /// Message id of the first flow; absent: from the clock, because peers remember ids for a while
    #[arg(long, value_name = "ID")]
    pub first_message: Option<u32>,

    /// Write results here; - is standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// As what: json has everything, csv a line for each flow (and a file of series beside it)
    #[arg(long, value_enum, default_value_t = Format::Json)]
    pub format: Format,

    #[command(flatten)]
    pub metrics: MetricsOptions,
}

/// About what one core fills with full frames.
const DEFAULT_RATE: Bandwidth = Bandwidth::from_gbps(1);
/// Four BMv2 hops and a scheduler, as in Mininet.
const DEFAULT_BASE_RTT: Time = Time::from_ms(5);

/// File formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Everything.
    Json,
    /// Tables.
    Csv,
}

/// Distance of samples, or none.
#[derive(Clone, Copy, Debug)]
pub struct SampleInterval(pub Option<Time>);

impl FromStr for SampleInterval {
    type Err = String;
    fn from_str(text: &str) -> Result<SampleInterval, String> {
        if text == "off" {
            return Ok(SampleInterval(None));
        }
        let time: Time = text.parse().map_err(|error| format!("{error}, or write off"))?;
        if time < MIN_SAMPLE_INTERVAL {
            return Err(format!("samples closer than {MIN_SAMPLE_INTERVAL} would measure the sampling"));
        }
        Ok(SampleInterval(Some(time)))
    }
}

/// A few times what one loop takes with a full batch.
const MIN_SAMPLE_INTERVAL: Time = Time::from_us(100);

/// A MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub MacAddr);

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
            .ok_or_else(|| format!("\"{text}\" is no MAC address, write it like 02:00:0a:00:02:02"))
    }
}

fn telemetry_clock(text: &str) -> Result<Time, String> {
    match text {
        "us" => Ok(Time::from_us(1)),
        "ns" => Ok(Time::from_ns(1)),
        _ => Err(format!("\"{text}\" is neither us nor ns")),
    }
}

fn program(text: &str) -> Result<SwitchProfile, String> {
    if !Path::new(text).is_file() {
        return text.parse().map(|program: SwitchProgram| program.abilities().into());
    }
    let words = std::fs::read_to_string(text).map_err(|e| e.to_string())?;
    offer(&Index::from_text(&words).map_err(|e| e.to_string())?)
}

fn recovery(text: &str) -> Result<LossRecovery, String> {
    match text {
        "go-back-n" => Ok(LossRecovery::GoBackN),
        "selective" => Ok(LossRecovery::Selective),
        _ => Err(format!("\"{text}\" is neither go-back-n nor selective")),
    }
}

impl HostOptions {
    /// Looks the interface up.
    pub fn interface(&self) -> Result<Interface, AgentError> {
        Interface::find(&self.iface, self.addr)
    }

    /// Returns the host on that interface.
    pub fn config(&self, interface: &Interface, registry: &Registry) -> Result<HostConfig, Failure> {
        let parameters = self.set.iter().map(|set| {
            set.split_once('=')
                .ok_or_else(|| Failure::Input(format!("--set {set}: write it PARAMETER=VALUE")))
        });
        let parameters = parameters.collect::<Result<Vec<_>, _>>()?;
        let scheme = registry.make(&self.scheme, &parameters).map_err(Failure::input)?;
        let mut config = HostConfig::new(interface.addr, self.rate, self.base_rtt, scheme);
        config.registry = registry.clone();
        config.switch_profile = self.program.clone();
        config.mtu = self.mtu.unwrap_or(interface.max_frame);
        config.tick = self.telemetry_clock;
        config.ack_every = self.ack_every;
        config.transport.recovery = self.recovery;
        config.transport.min_rto = self.min_rto;
        config.transport.initial_rto = self.initial_rto;
        config.transport.user_timeout = self.user_timeout;
        config.transport.active_window = self.active_window;
        Ok(config)
    }
}

/// Returns a message id that an earlier run hardly had: the clock, mixed (the finaliser of SplitMix64).
pub fn fresh_message() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut mixed = since.as_nanos() as u64 ^ u64::from(std::process::id()) << 40;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses_are_read() {
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
    fn samples_are_read() {
        assert_eq!("off".parse::<SampleInterval>().unwrap().0, None);
        assert_eq!("1ms".parse::<SampleInterval>().unwrap().0, Some(Time::from_ms(1)));
        for text in ["", "0us", "1us", "5"] {
            assert!(text.parse::<SampleInterval>().is_err(), "{text}");
        }
    }
}
