//! The description of a fabric for the Python process, derived from an experiment's topology.

use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_controller::topology::{CPU_PORT, Endpoint, Host, SwitchIx, Topology};
use weir_experiment::rng::stream_seed;
use weir_experiment::{Experiment, Scheme};
use weir_host::HostConfig;
use weir_host::wire::{HEADERS_LEN, INT_RECORD_LEN};
use weir_units::{Bandwidth, Bytes, Time};

/// Length of the Ethernet header, which the MTU of an interface does not include.
const ETHERNET_LEN: u64 = weir_host::wire::ETHERNET_LEN as u64;
/// gRPC port of the first switch, as in the p4 tutorials; the others have consecutive ports.
const GRPC_PORT: u16 = 50_051;
/// Thrift port of the first switch, likewise.
const THRIFT_PORT: u16 = 9_090;
/// Queue limit of emulated links; large enough that links never drop.
const LARGE_QUEUE: &str = "1TB";
/// BMv2's switch with a P4Runtime server.
const BMV2: &str = "simple_switch_grpc";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SwitchKind {
    Bmv2,
    Weir,
}

impl SwitchKind {
    /// Returns BMv2 if it is installed, else the embedded switch.
    pub fn installed() -> SwitchKind {
        if find_in_path(BMV2).is_some() { SwitchKind::Bmv2 } else { SwitchKind::Weir }
    }

    /// Returns the path of the switch's executable.
    ///
    /// # Errors
    ///
    /// If BMv2 is not installed, or the path of the current executable is unknown.
    pub fn program(self) -> Result<PathBuf, String> {
        match self {
            SwitchKind::Weir => own_program(),
            SwitchKind::Bmv2 => find_in_path(BMV2)
                .ok_or_else(|| format!("--switch bmv2: {BMV2} not found in PATH; use --switch weir")),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            SwitchKind::Bmv2 => BMV2,
            SwitchKind::Weir => "weir switch",
        }
    }
}

fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Description of a fabric, read by `mininet/weir_mininet/plan.py` and `weir switch`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Working directory of the run.
    pub(super) work: PathBuf,
    pub(super) switch: SwitchKind,
    /// True if one process runs all switches and emulates the links.
    pub(super) one_process: bool,
    /// Executable of the switches.
    pub(super) exe: PathBuf,
    /// This executable, which also emulates links.
    pub(super) weir: PathBuf,
    /// Seed for random events on links.
    pub seed: u64,
    /// Length of a full frame in bytes, with which BMv2's packet rates are computed.
    pub(super) frame: u64,
    /// MTU of the interfaces in bytes.
    pub(super) mtu: u64,
    pub(super) hosts: Vec<PlannedHost>,
    /// The switches, in the order of their P4Runtime and Thrift ports.
    pub switches: Vec<PlannedSwitch>,
    pub links: Vec<PlannedLink>,
    /// Hosts get ARP entries for all others.
    pub(super) static_arp: bool,
    /// Directory for captures; `None`: no captures.
    pub(super) pcaps: Option<PathBuf>,
    /// Directory for logs; `None`: no logs.
    pub(super) logs: Option<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PlannedHost {
    pub(super) name: String,
    /// Address with prefix length; `None` if the host has none.
    pub(super) ip: Option<String>,
    pub(super) mac: String,
    pub(super) commands: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct PlannedSwitch {
    pub name: String,
    pub(super) device_id: u64,
    pub(super) grpc_port: u16,
    pub(super) thrift_port: u16,
    /// CPU port; `None` if the switch has none.
    pub cpu_port: Option<u16>,
    /// Number of strict priority queues per port.
    pub priorities: u8,
    /// BMv2 JSON to load at start; `None`: a P4Runtime client loads the program.
    pub program: Option<PathBuf>,
    /// Further options of `weir switch`.
    pub options: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct PlannedLink {
    /// First end: name of the node, and port (0 for hosts).
    pub a: (String, u16),
    pub b: (String, u16),
    pub name: String,
    /// Rate and delay, in the syntax of `weir link run`.
    pub properties: String,
}

pub fn grpc_port(switch: SwitchIx) -> u16 {
    GRPC_PORT + switch.0 as u16
}

pub(crate) fn thrift_port(switch: SwitchIx) -> u16 {
    THRIFT_PORT + switch.0 as u16
}

pub fn thrift_address(switch: SwitchIx) -> String {
    format!("127.0.0.1:{}", thrift_port(switch))
}

/// Device ids start at 0, as in the p4 tutorials.
pub fn device_id(switch: SwitchIx) -> u64 {
    u64::from(switch.0)
}

/// Returns the queue limit in packets: the whole buffer of a switch, because there is no PFC that would limit the
/// queue.
pub(crate) fn queue_depth(experiment: &Experiment) -> u32 {
    let packets = experiment.spec.buffer.get() / experiment.spec.mtu.get().max(1);
    u32::try_from(packets.max(1)).unwrap_or(u32::MAX)
}

/// The switches of a testbed, and paths of its files.
#[derive(Clone, Debug)]
pub struct TestbedConfig {
    pub switch: SwitchKind,
    /// Run each embedded switch in its own process. BMv2 always has one process per switch.
    pub process_per_switch: bool,
    pub exe: PathBuf,
    /// Directory for captures; `None`: no captures.
    pub pcaps: Option<PathBuf>,
}

impl TestbedConfig {
    /// Returns whether one process runs all switches. BMv2 runs one switch per process.
    pub fn one_process(&self) -> bool {
        self.switch == SwitchKind::Weir && !self.process_per_switch
    }
}

impl Plan {
    /// Returns the fabric of an experiment for the run of `scheme`.
    ///
    /// # Errors
    ///
    /// If the path of the current executable is unknown.
    pub fn new(
        experiment: &Experiment,
        scheme: &Scheme,
        config: &TestbedConfig,
        work_dir: &Path,
    ) -> Result<Plan, String> {
        let (topology, spec) = (&experiment.topology, &experiment.spec);
        let switches = topology.switch_ixs().map(|ix| PlannedSwitch {
            name: topology.switch(ix).name.clone(),
            device_id: device_id(ix),
            grpc_port: grpc_port(ix),
            thrift_port: thrift_port(ix),
            cpu_port: Some(CPU_PORT),
            priorities: experiment.priorities(scheme),
            program: None,
            options: switch_options(experiment, ix),
        });
        let end = |end: Endpoint| (topology.node_name(end.node).to_owned(), end.port);
        let names = link_names(topology);
        let links = topology.links.iter().zip(names).map(|(link, name)| PlannedLink {
            a: end(link.a),
            b: end(link.b),
            name,
            properties: properties(Some(link.rate), link.delay),
        });
        Ok(Plan {
            work: work_dir.to_owned(),
            switch: config.switch,
            one_process: config.one_process(),
            exe: config.exe.clone(),
            weir: own_program()?,
            seed: stream_seed(spec.seed, "links"),
            frame: full_frame(spec.mtu, scheme).get(),
            mtu: spec.mtu.saturating_sub(Bytes::new(ETHERNET_LEN)).get(),
            hosts: hosts(topology),
            switches: switches.collect(),
            links: links.collect(),
            static_arp: true,
            pcaps: config.pcaps.clone(),
            logs: None,
        })
    }
}

pub(super) fn hosts(topology: &Topology) -> Vec<PlannedHost> {
    let host = |host: &Host| PlannedHost {
        name: host.name.clone(),
        ip: Some(format!("{}/{}", host.ip, topology.fabric.len)),
        mac: host.mac.map(|byte| format!("{byte:02x}")).join(":"),
        commands: Vec::new(),
    };
    topology.hosts.iter().map(host).collect()
}

/// Returns the name of each link: `s1-s2`, and `s1-s2#2` for a second link between the same nodes.
pub fn link_names(topology: &Topology) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for link in &topology.links {
        let between = [link.a, link.b].map(|end| topology.node_name(end.node)).join("-");
        let mut name = between.clone();
        let mut number = 1;
        while names.contains(&name) {
            number += 1;
            name = format!("{between}#{number}");
        }
        names.push(name);
    }
    names
}

/// Returns rate and delay of a link in the syntax of `weir link run`. Queueing belongs to the switches, so the queue of
/// the emulated link is large enough never to drop.
pub(super) fn properties(rate: Option<Bandwidth>, delay: Time) -> String {
    let rate = rate.map_or_else(|| "unlimited".to_owned(), |rate| format!("{}bps", rate.as_bps()));
    format!("rate={rate},delay={}ps,queue={LARGE_QUEUE}", delay.as_ps())
}

/// Returns the path of the current executable, which also emulates links.
pub(super) fn own_program() -> Result<PathBuf, String> {
    std::env::current_exe()
        .map_err(|error| format!("cannot determine the path of the current executable: {error}"))
}

/// Returns the length of a full DATA frame after the first switch. If the program appends telemetry to frames, this
/// includes one record.
pub(crate) fn full_frame(mtu: Bytes, scheme: &Scheme) -> Bytes {
    let mut host = HostConfig::new(
        Ipv4Addr::LOCALHOST,
        Bandwidth::from_mbps(1),
        Time::from_ms(1),
        Arc::clone(&scheme.config),
    );
    host.mtu = mtu;
    let frame = host.max_payload().unwrap_or(mtu) + Bytes::new(HEADERS_LEN as u64);
    if frame < mtu { frame + Bytes::new(INT_RECORD_LEN as u64) } else { mtu }
}

/// Returns the options that limit the ports of the embedded switch to the rates of their links, so that packets queue
/// in the switch, where the P4 program sees them, and not in the link emulator.
fn switch_options(experiment: &Experiment, ix: SwitchIx) -> Vec<String> {
    let topology = &experiment.topology;
    let mut options = vec!["--queue-depth".to_owned(), queue_depth(experiment).to_string()];
    options.extend([
        "--seed".to_owned(),
        stream_seed(experiment.spec.seed, &topology.switch(ix).name).to_string(),
    ]);
    for (port, link) in topology.switch(ix).ports() {
        let rate = topology.link(link).rate.as_bps();
        options.extend(["--port-rate".to_owned(), format!("{port}={rate}bps")]);
    }
    options
}
