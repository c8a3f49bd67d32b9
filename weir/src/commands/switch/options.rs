//! The two parts of the command line, before and after `--`, with BMv2's option names (options_parse.cpp,
//! targets/simple_switch_grpc/main.cpp).

use crate::console::Failure;
use crate::metrics::MetricsOptions;
use clap::{Parser, ValueEnum};
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_switch::driver::DataplaneConfig;
use weir_switch::engine::{Clock, SwitchConfig};
use weir_switch::tm::QueueLimits;
use weir_units::{Bandwidth, Bytes};

/// Run a switch on network interfaces, as a replacement of simple_switch_grpc
///
/// Accepts the command line of simple_switch_grpc. Options of the target follow `--`.
#[derive(Debug, clap::Args)]
#[command(
    disable_version_flag = true,
    version,
    after_help = "\
Examples:
  weir switch -i 1@veth0 -i 2@veth2 --no-p4 -- --grpc-server-addr 127.0.0.1:9559 --cpu-port 255
  weir switch -i 1@veth0 -i 2@veth2 --pcap=pcaps p4src/build/hpcc.json
  weir switch --fabric fabric.yaml --stats p4src/build/fncc.json
  weir switch --use-files 1 -i 1@a -i 2@b p4src/build/hpcc.json     (a_in.pcap -> a_out.pcap, b_out.pcap)
  weir switch -- --help                                             options of the target

Needs root (CAP_NET_RAW) unless frames come from files. Disable offloads at hosts on the same
machine: ethtool -K <veth> tso off gso off gro off. SIGINT and SIGTERM stop the switch.

Exit status: 0 stopped by a signal; 1 failure; 2 invalid command line or program."
)]
pub(crate) struct Options {
    /// Run all switches of a topology in this process, with the links between them in memory; accepts any
    /// file that `weir controller --topology` accepts. Ports to hosts are the interfaces s1-eth1 and so on
    /// (Weir only)
    #[arg(long, value_name = "TOPOLOGY", conflicts_with_all = ["interfaces", "use_files", "port_rates"])]
    pub fabric: Option<PathBuf>,

    /// Run all switches of a plan that the Mininet process has written, with individual options per switch
    #[arg(long, hide = true, conflicts_with_all = ["fabric", "interfaces", "use_files", "port_rates", "program"])]
    pub plan: Option<PathBuf>,

    /// Name by which `weir link show` and `set` find the links of a fabric in this network namespace (Weir
    /// only)
    #[arg(long, value_name = "NAME")]
    pub control: Option<String>,

    /// Attach an interface as a port (repeatable)
    #[arg(short = 'i', long = "interface", value_name = "PORT@INTERFACE", value_parser = parse_interface)]
    pub interfaces: Vec<(u16, String)>,

    /// Capture the frames of each port in <interface>_in.pcap and <interface>_out.pcap, in DIR or the current
    /// directory
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pcap: Option<PathBuf>,

    /// Maximum size of a capture file; later frames are counted but not written
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    pub pcap_limit: Bytes,

    /// Read frames from <interface>_in.pcap and write frames to <interface>_out.pcap, starting after WAIT
    /// seconds
    #[arg(long, value_name = "WAIT", allow_negative_numbers = true)]
    pub use_files: Option<i64>,

    /// TCP port of the Thrift server [default: 9090 if free]; with --fabric that of the first switch, others
    /// consecutive
    #[arg(long, value_name = "PORT")]
    pub thrift_port: Option<u16>,

    /// Address of the Thrift server [default: all addresses, as in BMv2; with --fabric 127.0.0.1] (Weir only)
    #[arg(long, value_name = "ADDR")]
    thrift_addr: Option<IpAddr>,

    /// P4Runtime device id; with --fabric that of the first switch, others consecutive
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub device_id: u64,

    /// Accepted and ignored
    #[arg(long, value_name = "ADDR")]
    pub nanolog: Option<String>,

    /// Log to standard output
    #[arg(long, conflicts_with = "log_file")]
    pub log_console: bool,

    /// Log to FILE.txt, rotated by size
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,

    /// Log level; trace logs the path of every packet through the program
    #[arg(short = 'L', long, value_name = "LEVEL", default_value = "trace")]
    pub log_level: LogLevel,

    /// Accepted; each line of the log file is flushed anyway
    #[arg(long)]
    pub log_flush: bool,

    /// Size in bytes at which a log file is rotated
    #[arg(long, value_name = "BYTES", default_value_t = 5 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub log_file_max_size: u64,

    /// Number of rotated log files to keep
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub log_file_max_files: usize,

    /// Address at which digests are published over nanomsg: ipc://PATH or tcp://ADDRESS:PORT
    ///
    /// Default: ipc:///tmp/bmv2-DEVICE_ID-notifications.ipc, none with --fabric
    #[arg(long, value_name = "ADDR")]
    pub notifications_addr: Option<String>,

    #[arg(long, hide = true)]
    pub debugger: bool,

    #[arg(long, hide = true)]
    pub debugger_addr: Option<String>,

    /// Restore what `serialize_state` of simple_switch_CLI saved: tables, profiles, meters
    #[arg(long, value_name = "FILE")]
    pub restore_state: Option<PathBuf>,

    #[arg(long, hide = true)]
    pub packet_in: Option<String>,

    /// Log the first N bytes of each received or sent frame
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub dump_packet_data: usize,

    /// Start without a program; a P4Runtime client can load one later
    #[arg(long)]
    pub no_p4: bool,

    /// Maximum number of ports
    #[arg(long, value_name = "N", default_value_t = DataplaneConfig::MAX_PORTS)]
    pub max_port_count: usize,

    /// Write wrapper scripts named simple_switch_grpc and simple_switch to DIR and exit, for tools that start
    /// BMv2 by name (Weir only)
    #[arg(long, value_name = "DIR")]
    pub install_as: Option<PathBuf>,

    /// Print the newest supported version of BMv2 JSON
    #[arg(long)]
    pub json_version: bool,

    /// Print version
    #[arg(short = 'v', long, action = clap::ArgAction::Version)]
    version: Option<bool>,

    /// Unit of the program's timestamps (Weir only)
    #[arg(long, value_name = "UNIT", default_value = "us")]
    pub clock: ClockUnit,

    /// Seed of the program's random numbers [default: the time] (Weir only)
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Size of each interface's receive ring [default: 8 MiB, less with more than four interfaces] (Weir
    /// only)
    #[arg(long, value_name = "SIZE")]
    ring: Option<Bytes>,

    /// Limit a port to a rate (bit/s of whole frames), so that packets wait in its queue (repeatable; Weir
    /// only)
    #[arg(long = "port-rate", value_name = "PORT=RATE", value_parser = parse_port_rate)]
    pub port_rates: Vec<(u16, Bandwidth)>,

    /// Capacity of each queue in packets (Weir only; in BMv2 set over Thrift)
    #[arg(long, value_name = "PACKETS", default_value_t = QueueLimits::BMV2.packets, value_parser = clap::value_parser!(u32).range(1..))]
    pub queue_depth: u32,

    /// Print the counters at exit (Weir only)
    #[arg(long)]
    pub stats: bool,

    #[command(flatten)]
    pub metrics: MetricsOptions,

    /// Program compiled by p4c-bm2-ss (BMv2 JSON)
    #[arg(value_name = "PROGRAM.json")]
    program: Option<PathBuf>,

    /// Options of the target
    #[arg(last = true, value_name = "TARGET OPTIONS")]
    pub target: Vec<OsString>,
}

impl Options {
    /// Returns the capture directory and the program. The directory of `--pcap` is optional: in `--pcap
    /// basic.json` the argument is the program, as in BMv2.
    pub(crate) fn pcap_and_program(&self) -> (Option<&Path>, Option<&Path>) {
        let (pcap, program) = (self.pcap.as_deref(), self.program.as_deref());
        match pcap {
            Some(path)
                if program.is_none() && path.extension().is_some_and(|extension| extension == "json") =>
            {
                (Some(".".as_ref()), pcap)
            }
            _ => (pcap, program),
        }
    }

    /// Returns the Thrift address: that of the option, otherwise all addresses as in BMv2, or loopback for a
    /// fabric.
    pub(crate) fn thrift_addr(&self) -> IpAddr {
        let default = if self.fabric.is_some() || self.plan.is_some() {
            Ipv4Addr::LOCALHOST
        } else {
            Ipv4Addr::UNSPECIFIED
        };
        self.thrift_addr.unwrap_or(default.into())
    }

    /// Returns the size of each receive ring: that of the option, or one that depends on the number of
    /// interfaces.
    pub(crate) fn ring_bytes(&self, interface_count: usize) -> usize {
        let default_size = DataplaneConfig::ring_bytes_for(interface_count);
        self.ring.map_or(default_size, |ring| usize::try_from(ring.get()).unwrap_or(usize::MAX))
    }

    /// Returns the seed of the option, otherwise the current time.
    pub(crate) fn seed(&self) -> u64 {
        let current_time =
            || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        self.seed.unwrap_or_else(current_time)
    }
}

/// Parses `PORT@INTERFACE`, such as `1@veth0`.
fn parse_interface(text: &str) -> Result<(u16, String), String> {
    let (port, name) = text.split_once('@').ok_or("expected PORT@INTERFACE, for example 1@veth0")?;
    let port = port.parse().map_err(|_| format!("invalid port number {port:?}"))?;
    if name.is_empty() {
        return Err("missing interface name".into());
    }
    Ok((port, name.to_owned()))
}

/// Parses `PORT=RATE`, such as `1=10Mbps`.
fn parse_port_rate(text: &str) -> Result<(u16, Bandwidth), String> {
    let (port, rate) = text.split_once('=').ok_or("expected PORT=RATE, for example 1=10Mbps")?;
    let port = port.parse().map_err(|_| format!("invalid port number {port:?}"))?;
    let rate: Bandwidth = rate.parse().map_err(|error| format!("{error}"))?;
    match rate {
        Bandwidth::ZERO => Err("rate must be positive".into()),
        rate => Ok((port, rate)),
    }
}

/// Log levels, with BMv2's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
    Off,
}

/// The value of `--clock`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ClockUnit {
    /// Microseconds, as in BMv2
    Us,
    /// Nanoseconds, as in hardware
    Ns,
}

impl From<ClockUnit> for Clock {
    fn from(unit: ClockUnit) -> Clock {
        match unit {
            ClockUnit::Us => Clock::Us,
            ClockUnit::Ns => Clock::Ns,
        }
    }
}

/// Options of the target, simple_switch_grpc; on the command line they follow `--`
#[derive(Debug, Parser)]
#[command(name = "weir switch --", max_term_width = 100)]
pub(super) struct TargetOptions {
    #[command(flatten)]
    pub grpc: GrpcOptions,

    /// Port for packet-ins and packet-outs [default: none]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=511))]
    pub cpu_port: Option<u16>,

    /// Egress port that drops packets
    #[arg(long, value_name = "PORT", default_value_t = SwitchConfig::DROP_PORT)]
    pub drop_port: u16,

    #[arg(long, hide = true)]
    pub dp_grpc_server_addr: Option<String>,

    #[arg(long, hide = true)]
    pub load_modules: Option<String>,

    /// Accepted; Thrift clients may load programs unless --disable-swap is set
    #[arg(long, conflicts_with = "disable_swap")]
    pub enable_swap: bool,

    /// Number of strict-priority queues of each port
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub priority_queues: u8,

    /// Do not allow Thrift clients to load programs
    #[arg(long)]
    pub disable_swap: bool,

    /// Maximum number of multicast groups
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_mc_groups: u32,

    /// Maximum number of first-level multicast entries
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_l1_entries: u32,

    /// Maximum number of second-level multicast entries
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_l2_entries: u32,
}

#[derive(Debug, clap::Args)]
pub(super) struct GrpcOptions {
    /// Address of the P4Runtime server [default: 0.0.0.0:9559]; with --fabric that of the first switch
    /// [default: 127.0.0.1:50051], others on consecutive ports
    #[arg(long = "grpc-server-addr", value_name = "ADDR:PORT")]
    pub addr: Option<String>,

    /// Serve P4Runtime over TLS
    #[arg(long = "grpc-server-ssl")]
    pub ssl: bool,

    /// CA certificates for verifying clients (PEM)
    #[arg(long = "grpc-server-cacert", value_name = "FILE")]
    pub cacert: Option<PathBuf>,

    /// Certificate of the server (PEM)
    #[arg(long = "grpc-server-cert", value_name = "FILE")]
    pub cert: Option<PathBuf>,

    /// Private key of the server (PEM)
    #[arg(long = "grpc-server-key", value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// Require client certificates
    #[arg(long = "grpc-server-with-client-auth")]
    pub with_client_auth: bool,
}

impl GrpcOptions {
    /// Rejects the same combinations as BMv2.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.ssl && self.cert.is_none() {
            return Err(Failure::input("--grpc-server-ssl requires --grpc-server-cert"));
        }
        if self.ssl && self.key.is_none() {
            return Err(Failure::input("--grpc-server-ssl requires --grpc-server-key"));
        }
        if self.ssl && self.with_client_auth && self.cacert.is_none() {
            return Err(Failure::input("--grpc-server-with-client-auth requires --grpc-server-cacert"));
        }
        Ok(())
    }

    /// Returns true if certificate options are set without TLS, and thus have no effect.
    pub(super) fn has_pem_without_ssl(&self) -> bool {
        let has_files = [&self.cacert, &self.cert, &self.key].into_iter().any(Option::is_some);
        !self.ssl && (has_files || self.with_client_auth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_switch::driver::CaptureConfig;

    /// The options before `--`, as a command of their own.
    #[derive(Debug, Parser)]
    struct SwitchCommand {
        #[command(flatten)]
        options: Options,
    }

    fn parse(line: &str) -> Result<Options, clap::Error> {
        SwitchCommand::try_parse_from(std::iter::once("switch").chain(line.split(' ')))
            .map(|command| command.options)
    }

    #[test]
    fn defaults_are_those_of_the_driver() {
        let options = parse("--no-p4").unwrap();
        assert_eq!(options.pcap_limit.get(), CaptureConfig::LIMIT);
        assert_eq!(options.ring_bytes(0), DataplaneConfig::default().ring_bytes);
        assert_eq!(parse("--no-p4 --ring 1MiB").unwrap().ring_bytes(9), 1 << 20);
        let target = TargetOptions::parse_from(["--"]);
        assert_eq!((target.drop_port, target.priority_queues, target.cpu_port), (511, 1, None));
    }

    #[test]
    fn a_tutorials_command_line_is_parsed() {
        let line = "-i 1@s1-eth1 -i 2@s1-eth2 --pcap /tmp --nanolog ipc:///tmp/bm-0-log.ipc --device-id 0 \
                    build/basic.json --log-console --thrift-port 9090 -- --grpc-server-addr 0.0.0.0:50051 --cpu-port 510";
        let options = parse(line).unwrap();
        assert_eq!(options.interfaces, [(1, "s1-eth1".to_owned()), (2, "s1-eth2".to_owned())]);
        let (pcap, program) = options.pcap_and_program();
        assert_eq!((pcap, program), (Some("/tmp".as_ref()), Some("build/basic.json".as_ref())));
        assert_eq!(options.target.len(), 4);
        let target = TargetOptions::parse_from(std::iter::once("--".into()).chain(options.target));
        assert_eq!((target.cpu_port, target.grpc.addr.as_deref()), (Some(510), Some("0.0.0.0:50051")));
    }

    #[test]
    fn a_json_file_after_pcap_is_the_program() {
        let options = parse("--pcap basic.json").unwrap();
        assert_eq!(options.pcap_and_program(), (Some(".".as_ref()), Some("basic.json".as_ref())));
        let options = parse("basic.json --pcap").unwrap();
        assert_eq!(options.pcap_and_program(), (Some(".".as_ref()), Some("basic.json".as_ref())));
        let options = parse("--pcap=x basic.json").unwrap();
        assert_eq!(options.pcap_and_program(), (Some("x".as_ref()), Some("basic.json".as_ref())));
    }

    #[test]
    fn invalid_interfaces_and_rates_are_rejected() {
        let error_of = |text| parse_interface(text).unwrap_err();
        assert!(error_of("veth0").contains("PORT@INTERFACE"));
        assert!(error_of("x@veth0").contains("invalid port number"));
        assert!(error_of("1@").contains("missing interface name"));
        let error_of = |text| parse_port_rate(text).unwrap_err();
        assert!(error_of("10Mbps").contains("PORT=RATE"));
        assert!(error_of("1=10").contains("unit"));
        assert!(error_of("1=0bps").contains("must be positive"));
        assert_eq!(parse_port_rate("3=10Mbps"), Ok((3, Bandwidth::from_mbps(10))));
        assert!(parse("--no-p4 --cpu-port 255").is_err(), "options of the target follow --");
        assert!(TargetOptions::try_parse_from(["--", "--cpu-port", "0"]).is_err());
    }
}
