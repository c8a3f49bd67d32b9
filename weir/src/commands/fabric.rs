//! `weir fabric`: runs a topology on this machine, without Mininet.

mod ip;
mod net;
mod state;

use super::controller::topology;
use crate::console::{Console, Failure, warn};
use crate::interrupt::{self, interrupted};
use crate::output::QueryOutput;
use clap::Subcommand;
use net::Net;
use serde_json::{Map, Value, json};
use state::{Ports, State};
use std::ffi::OsString;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_controller::topology::Topology;
use weir_report::files::create;

/// Time limit for the start of all switches, ample for a loaded machine.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);
/// Name of a fabric without `--name`.
const DEFAULT_NAME: &str = "weir";
/// Address at which the switches' servers listen.
const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Polling interval while waiting for the switches.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Start a topology on this machine without Mininet, or stop it
///
/// Each host of the topology gets a network namespace with its address and static neighbour entries. All
/// switches run in one process in the caller's namespace (`weir switch --fabric`), and links to hosts are
/// veth pairs. Needs root and iproute2.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo weir fabric up fabric.yaml --program p4src/build/fncc.json
  sudo weir fabric exec h1 -- ping -c 3 10.0.2.1
  weir top --topology fabric.yaml
  sudo weir fabric down

Exit status: 0 success; 1 failure, cleaned up; 2 invalid input.")]
pub(super) struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Start switches and namespaces; Ctrl-C during the start removes everything again
    Up(UpArgs),
    /// Stop the switches and remove the namespaces
    Down(DownArgs),
    /// Run a command in a host's namespace
    Exec(ExecArgs),
}

#[derive(Debug, clap::Args)]
struct NameArgs {
    /// Name of the fabric: host h1 of fabric x is the network namespace x-h1
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME)]
    name: String,
}

impl NameArgs {
    /// Returns the option that selects the fabric in later commands, with a leading space; empty for the default name.
    fn option(&self) -> String {
        if self.name == DEFAULT_NAME { String::new() } else { format!(" --name {}", self.name) }
    }
}

#[derive(Debug, clap::Args)]
struct DownArgs {
    #[command(flatten)]
    name: NameArgs,

    #[command(flatten)]
    output: QueryOutput,
}

#[derive(Debug, clap::Args)]
struct UpArgs {
    /// Topology file in any format that `weir controller --topology` accepts
    #[arg(value_name = "TOPOLOGY")]
    topology: PathBuf,

    /// Install this program (BMv2 JSON) and the topology's routes on the switches
    #[arg(long, short, value_name = "PROGRAM.json")]
    program: Option<PathBuf>,

    #[command(flatten)]
    name: NameArgs,

    /// MTU of the hosts' links in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=65_535))]
    mtu: u32,

    /// P4Runtime port of the first switch, others consecutive; use the same option with `weir controller` and `weir
    /// top`
    #[arg(long, value_name = "PORT", default_value_t = 50_051, value_parser = clap::value_parser!(u16).range(1..))]
    grpc_base_port: u16,

    /// Thrift port of the first switch, others consecutive
    #[arg(long, value_name = "PORT", default_value_t = 9_090, value_parser = clap::value_parser!(u16).range(1..))]
    thrift_base_port: u16,

    #[command(flatten)]
    output: QueryOutput,

    /// Additional options of `weir switch`, such as --stats or --pcap=DIR
    #[arg(last = true, value_name = "SWITCH OPTIONS")]
    switch: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
struct ExecArgs {
    /// Name of the host
    host: String,

    #[command(flatten)]
    name: NameArgs,

    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::input("weir fabric requires root; run it with sudo"));
    }
    match &args.task {
        Task::Up(args) => up(args, console),
        Task::Down(args) => {
            console.style(args.output);
            let name = &args.name.name;
            // Read before the log is removed.
            let ended = State::load(name).ok().and_then(|state| why_ended(&state));
            state::remove(name)?;
            if let Some(reason) = &ended {
                warn(&format!("the switches of fabric \"{name}\" had ended before: {reason}"));
            }
            if console.style.json {
                return console.print_json(&json!({"name": name, "switches_ended": ended}));
            }
            Ok(writeln!(console.out, "{name}: down")?)
        }
        Task::Exec(args) => exec(args),
    }
}

fn up(args: &UpArgs, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    interrupt::catch_ctrl_c()?;
    let name = &args.name.name;
    let topology = topology(&args.topology, &console.extensions.catalogue.topologies)?;
    // Checked before the interfaces, which exist if the fabric does.
    if let Ok(state) = State::load(name) {
        let ended = why_ended(&state)
            .map_or_else(String::new, |reason| format!(", and its switches have ended: {reason}"));
        return Err(Failure::Input(format!(
            "fabric \"{name}\" already exists{ended}; remove it with `weir fabric down{}`",
            args.name.option()
        )));
    }
    let net = Net::plan(name, &topology, args.mtu)?;
    let count = u16::try_from(topology.switches.len())
        .map_err(|_| Failure::input("too many switches: maximum 65535"))?;
    let ports = Ports { grpc: args.grpc_base_port, thrift: args.thrift_base_port, switches: count };
    // Removes every recorded object if a later step fails.
    let mut guard = FabricGuard(Some(State::create(name, ports)?));
    net.create(guard.state(), interrupted)?;
    let mut switches = start(args, guard.state())?;
    guard.state().set_switch_process(switches.id())?;
    wait_until_ready(&mut switches, &topology, guard.state())?;
    if let Some(program) = &args.program {
        install_program(args, program)?;
        check_running(&mut switches, guard.state())?;
    }
    if interrupted() {
        return Err(Failure::Interrupted(format!("{name}: cleaned up")));
    }
    guard.disarm();
    if console.style.json {
        let host = |host: &weir_controller::topology::Host| {
            (host.name.clone(), json!({"namespace": format!("{name}-{}", host.name), "ip": host.ip}))
        };
        let switch = |(index, switch): (u16, &weir_controller::topology::Switch)| {
            let (p4runtime, thrift) = (ports.grpc + index, ports.thrift + index);
            (
                switch.name.clone(),
                json!({"p4runtime": format!("127.0.0.1:{p4runtime}"), "thrift": format!("127.0.0.1:{thrift}")}),
            )
        };
        let hosts: Map<String, Value> = topology.hosts.iter().map(host).collect();
        let switches: Map<String, Value> = (0..).zip(&topology.switches).map(switch).collect();
        return console.print_json(&json!({"name": name, "hosts": hosts, "switches": switches}));
    }
    writeln!(console.out, "{name}: {} switches, {} hosts up", topology.switches.len(), topology.hosts.len())?;
    let example_host = topology.hosts.first().map_or("h1", |host| host.name.as_str());
    writeln!(
        console.out,
        "P4Runtime from 127.0.0.1:{}, Thrift from 127.0.0.1:{}, one port for each switch",
        ports.grpc, ports.thrift
    )?;
    writeln!(
        console.out,
        "weir fabric exec {example_host}{option} -- COMMAND runs a command on a host; weir fabric down{option} stops the fabric",
        option = args.name.option(),
    )?;
    Ok(())
}

/// Removes a fabric whose start fails: when dropped, unless `disarm` was called.
struct FabricGuard(Option<State>);

impl FabricGuard {
    fn state(&mut self) -> &mut State {
        self.0.as_mut().expect("the state is taken only by `disarm` and `drop`")
    }

    /// Disarms the guard: the fabric is complete.
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for FabricGuard {
    fn drop(&mut self) {
        if let Some(state) = self.0.take()
            && let Err(failure) = state.remove()
        {
            warn(&failure.to_string());
        }
    }
}

/// Starts the process that runs all switches. The process outlives this one.
fn start(args: &UpArgs, state: &State) -> Result<Child, Failure> {
    let log =
        create(&state.log()).map_err(|error| Failure::Work(format!("{}: {error}", state.log().display())))?;
    let Ports { grpc, thrift, .. } = state.ports();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["switch", "--no-p4", "--control", &args.name.name]);
    command.arg("--fabric").arg(&args.topology).arg(format!("--thrift-port={thrift}")).args(&args.switch);
    command.arg("--").arg(format!("--grpc-server-addr={LOCALHOST}:{grpc}"));
    // Port 255 is the CPU port that `weir controller watch` needs; 8 queues are the maximum.
    command.args(["--cpu-port", "255", "--priority-queues", "8"]);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    command.spawn().map_err(|error| Failure::Work(format!("weir switch: {error}")))
}

/// Waits until the last switch reports in the log that its server is listening. A connection to its port would be
/// no proof: if the switches could not bind their ports, another program may be listening there.
fn wait_until_ready(switches: &mut Child, topology: &Topology, state: &State) -> Result<(), Failure> {
    let Ports { grpc, switches: count, .. } = state.ports();
    let last_switch = topology.switches.last().map_or("", |switch| &switch.name);
    let ready_line =
        format!("{last_switch}: Server listening on {LOCALHOST}:{}", grpc + count.saturating_sub(1));
    let deadline = Instant::now() + STARTUP_TIMEOUT;
    loop {
        check_running(switches, state)?;
        if read_log(state).lines().any(|line| line == ready_line) {
            return Ok(());
        }
        if interrupted() {
            return Err(Failure::Interrupted("cleaned up".into()));
        }
        if Instant::now() > deadline {
            return Err(Failure::Work(format!("switches not ready after {} s", STARTUP_TIMEOUT.as_secs())));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Returns the log of the switches; empty if it cannot be read.
fn read_log(state: &State) -> String {
    let log = std::fs::read(state.log()).unwrap_or_default();
    String::from_utf8_lossy(&log).into_owned()
}

/// Returns why the switches of a fabric no longer run; `None` while they do. A process that is killed, as for lack of
/// memory, says nothing.
fn why_ended(state: &State) -> Option<String> {
    let log = state.switches_have_ended().then(|| read_log(state))?;
    let error = log.lines().last().and_then(|line| line.strip_prefix("error: "));
    Some(
        error
            .unwrap_or("without an error in their log; a signal, or the kernel for lack of memory")
            .to_owned(),
    )
}

/// Fails if the process of the switches has exited. The error has the last error or line of its log.
fn check_running(switches: &mut Child, state: &State) -> Result<(), Failure> {
    let Some(status) = switches.try_wait()? else { return Ok(()) };
    let log = read_log(state);
    // After a usage error, clap's usage text follows the line with the error.
    let error = log.lines().rev().find_map(|line| line.strip_prefix("error: "));
    let reason = error.or(log.lines().last()).unwrap_or_default();
    let is_port_error =
        ["--grpc-server-addr", "--thrift-port"].iter().any(|option| reason.starts_with(option));
    let remedy =
        if is_port_error { " (--grpc-base-port and --thrift-base-port of `weir fabric up`)" } else { "" };
    Err(Failure::Work(format!("weir switch ended ({status}): {reason}{remedy}")))
}

/// Runs `weir controller apply` to install the program and the routes.
fn install_program(args: &UpArgs, program: &PathBuf) -> Result<(), Failure> {
    let mut apply = Command::new(std::env::current_exe()?);
    apply.args(["controller", "apply", "--quiet", "--topology"]).arg(&args.topology);
    apply.arg(format!("--grpc-base-port={}", args.grpc_base_port));
    let output = apply.arg("--program").arg(program).output()?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    let reason = reason.trim().trim_start_matches("error: ").to_owned();
    Err(if output.status.code() == Some(2) { Failure::Input(reason) } else { Failure::Work(reason) })
}

/// Replaces this process by the command in the namespace of a host.
fn exec(args: &ExecArgs) -> Result<(), Failure> {
    let state = State::load(&args.name.name)?;
    let namespace = format!("{}-{}", args.name.name, args.host);
    if !state.has_namespace(&namespace) {
        return Err(Failure::Input(format!("unknown host {} in fabric {}", args.host, args.name.name)));
    }
    if let Some(reason) = why_ended(&state) {
        let (name, option) = (&args.name.name, args.name.option());
        warn(&format!(
            "the switches of fabric \"{name}\" have ended: {reason}; start it again with `weir fabric down{option}` and `up`"
        ));
    }
    let mut command = Command::new("ip");
    // `exec` returns only on failure.
    let error = command.args(["netns", "exec", &namespace]).args(&args.command).exec();
    Err(Failure::Work(format!("ip: {error}")))
}
