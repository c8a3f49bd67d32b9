//! `weir switch`: the embedded switch with the command line of simple_switch_grpc, or all switches of a
//! fabric in one process.

mod checks;
mod fabric;
mod fabric_links;
mod grpc;
mod log;
mod metrics;
mod options;
mod thrift;
mod wrappers;

use super::link;
use super::program::{Engine, load_program};
use crate::console::{Console, Failure};
use crate::control::Socket;
use crate::interrupt;
use crate::privilege;
use caps::Capability;
use checks::{check, warn, warnings};
use clap::Parser;
use fabric::Fabric;
pub(super) use options::Options as Args;
use options::TargetOptions;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;
use weir_server::p4runtime::{Programs, Server as P4RuntimeServer, ServerConfig};
use weir_server::thrift::{NotificationSocket, ThriftConfig, ThriftServer};
use weir_switch::Switch;
use weir_switch::driver::{
    CaptureConfig, DataplaneConfig, DataplaneHandle, FabricDataplane, FabricMember, FrameSource, StartError,
};
use weir_switch::tm::QueueLimits;
use weir_testbed::links::{LINKS, socket};
use weir_units::Time;

/// The newest version of BMv2 JSON that can be loaded, for `--json-version`.
const JSON_VERSION: &str = "2.23";

/// First port that any process may use. Lower ports require CAP_NET_BIND_SERVICE (`ip(7)`,
/// `ip_unprivileged_port_start`).
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

/// Interval at which the state of the data plane thread is checked.
const HEALTH_CHECK_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    if args.json_version {
        return Ok(writeln!(console.out, "{JSON_VERSION}")?);
    }
    if let Some(directory) = &args.install_as {
        return wrappers::install(directory, console);
    }
    let target = TargetOptions::parse_from(
        std::iter::once("weir switch --".into()).chain(args.target.iter().cloned()),
    );
    let (pcap, program) = args.pcap_and_program();
    check(args, &target, program.is_some())?;
    for warning in warnings(args, &target, program.is_some()) {
        warn(&warning)?;
    }
    let kinds = &console.extensions.catalogue.topologies;
    let topology = args.fabric.as_deref().map(|path| super::controller::topology(path, kinds)).transpose()?;
    let trace_packets = log::start(args)?;
    let program =
        program.filter(|_| !args.no_p4).map(|path| load_program(path, Engine::default())).transpose()?;
    let seed = args.seed();
    let fabric = match (&topology, &args.plan) {
        (Some(topology), _) => Some(Fabric::from_topology(topology, args, &target, program.as_ref(), seed)),
        (None, Some(plan)) => Some(Fabric::from_plan(plan)?),
        (None, None) => None,
    };
    let (names, endpoints) = match &fabric {
        // A single switch has no name.
        None => (vec![None], grpc::Endpoints::open(&target.grpc, grpc::DEFAULT_ADDRESS, 1)?),
        Some(fabric) => {
            fabric.check(args, &target)?;
            raise_file_limit();
            let names: Vec<_> = fabric.names().map(|name| Some(name.to_owned())).collect();
            let endpoints = grpc::Endpoints::open(&target.grpc, fabric::FIRST_GRPC_ADDRESS, names.len())?;
            (names, endpoints)
        }
    };
    let control = args.control.as_deref().or(args.plan.as_ref().map(|_| LINKS));
    let control = control.map(|name| Socket::bind_name(&socket(name))).transpose()?;
    let metrics_listener = args.metrics.open()?;
    let saved_state =
        args.restore_state.as_ref().map(|path| Ok::<_, Failure>((path, super::files::read(path)?)));
    let saved_state = saved_state.transpose()?;
    let notifications = match &fabric {
        None => thrift::notification_socket(args)?,
        Some(_) => None,
    };
    enter_sandbox(args, pcap, notifications.as_deref())?;
    let (quit_tx, quit_rx) = sync_channel(1);
    interrupt::on_signal(move || {
        // Fails only if a signal is already queued; a second one has no effect.
        let _ = quit_tx.try_send(());
    })?;

    let interface_count = fabric.as_ref().map_or(args.interfaces.len(), Fabric::interface_count);
    let config = dataplane_config(args, &target, pcap, interface_count, trace_packets);
    let members = match &fabric {
        None => {
            let switch =
                program.map(|program| Switch::new(program, config.switch_config(), seed).map(Box::new));
            let mut switch = switch.transpose().map_err(Failure::input)?;
            if let (Some((path, state)), Some(switch)) = (&saved_state, &mut switch) {
                let restored = switch.pipeline_mut().restore_state(state);
                restored.map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
            }
            vec![FabricMember { config, switch, ports: args.interfaces.clone(), internal_ports: Vec::new() }]
        }
        Some(fabric) => fabric.members(&config)?,
    };
    let dataplane = FabricDataplane::start(members).map_err(|error| match error {
        StartError::System(_) => Failure::work(error),
        StartError::Dataplane(_) => Failure::input(error),
    })?;
    let Servers { thrift: thrift_servers, p4runtime: servers, metrics: sources } =
        start_servers(args, &target, (&names, fabric.as_ref()), dataplane.handles(), (seed, notifications))?;
    let link_server = control.zip(fabric.as_ref()).map(|(control, fabric)| {
        // The socket speaks the protocol of a link emulator, so that `weir link` can control the fabric's
        // links.
        link::serve(control, fabric.link_controller(dataplane.handles()))
    });
    let link_server = link_server.transpose()?;
    let p4runtime = endpoints.serve(servers)?;
    announce(&names, &p4runtime, &thrift_servers, console)?;
    let metrics_server = metrics_listener.map(|listener| {
        writeln!(console.out, "Metrics at http://{}/metrics", listener.address())?;
        crate::metrics::serve(listener, move || metrics::page(&sources))
    });
    let metrics_server = metrics_server.transpose()?;
    console.out.flush()?;
    tracing::info!(device = args.device_id, switches = names.len(), ports = interface_count, "running");

    wait(&quit_rx, &dataplane, &p4runtime)?;
    drop((metrics_server, thrift_servers, link_server));
    p4runtime.stop().map_err(Failure::work)?;
    let stats = dataplane.stop();
    if args.stats {
        for (name, stats) in names.iter().zip(stats) {
            if let Some(name) = name {
                writeln!(console.out, "{name}")?;
            }
            write!(console.out, "{stats}")?;
        }
    }
    Ok(())
}

/// Waits for a signal, or until the P4Runtime server ends, whose error `stop` returns.
fn wait(
    quit: &Receiver<()>,
    dataplane: &FabricDataplane,
    p4runtime: &P4RuntimeServer,
) -> Result<(), Failure> {
    while quit.recv_timeout(HEALTH_CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        if !dataplane.is_running() {
            return Err(Failure::work("the data plane thread panicked; see the message above"));
        }
        if !p4runtime.is_running() {
            break;
        }
    }
    Ok(())
}

fn dataplane_config(
    args: &Args,
    target: &TargetOptions,
    pcap: Option<&Path>,
    interface_count: usize,
    trace_packets: bool,
) -> DataplaneConfig {
    DataplaneConfig {
        frames: match args.use_files {
            None => FrameSource::Interfaces,
            Some(seconds) => FrameSource::Files {
                directory: ".".into(),
                wait: Time::from_secs(u64::try_from(seconds).unwrap_or(0)),
            },
        },
        clock: args.clock.into(),
        priorities: target.priority_queues,
        limits: QueueLimits { packets: args.queue_depth, ..QueueLimits::BMV2 },
        port_links: BTreeMap::new(),
        port_rates: args.port_rates.iter().copied().collect(),
        cpu_port: target.cpu_port,
        drop_port: target.drop_port,
        max_ports: args.max_port_count,
        ring_bytes: args.ring_bytes(interface_count),
        capture: pcap
            .map(|directory| CaptureConfig { directory: directory.to_owned(), limit: args.pcap_limit.get() }),
        dump_bytes: args.dump_packet_data,
        trace: trace_packets,
    }
}

/// The servers of the switches, in their order.
struct Servers {
    /// `None` for a switch without Thrift.
    thrift: Vec<Option<ThriftServer>>,
    /// Data plane and configuration of each P4Runtime server, which is not started yet.
    p4runtime: Vec<(DataplaneHandle, ServerConfig)>,
    metrics: Vec<metrics::MetricsSource>,
}

/// Starts the Thrift servers, and configures the others. `names` are the names of the switches in the fabric.
fn start_servers(
    args: &Args,
    target: &TargetOptions,
    (names, fabric): (&[Option<String>], Option<&Fabric>),
    handles: &[DataplaneHandle],
    (seed, notifications): (u64, Option<Arc<NotificationSocket>>),
) -> Result<Servers, Failure> {
    let programs = Arc::new(Programs::default());
    let mut servers = Servers { thrift: Vec::new(), p4runtime: Vec::new(), metrics: Vec::new() };
    for (index, (name, handle)) in names.iter().zip(handles).enumerate() {
        let device_id = args.device_id + index as u64;
        let seed = fabric.map_or(seed, |fabric| fabric.seed(index));
        let config = ThriftConfig {
            // `thrift::start` sets the port.
            listen: (args.thrift_addr(), ThriftConfig::DEFAULT_PORT).into(),
            device_id,
            seed,
            allow_config_swap: !target.disable_swap,
            programs: programs.clone(),
            notifications: notifications.clone(),
        };
        servers.thrift.push(thrift::start(args, index, config, handle.clone())?);
        let programs = programs.clone();
        let config = ServerConfig { device_id, seed, programs, ..ServerConfig::default() };
        servers.metrics.push(metrics::MetricsSource {
            name: name.clone().unwrap_or_else(|| device_id.to_string()),
            dataplane: handle.clone(),
            dropped_messages: config.lost.clone(),
            calls: config.calls.clone(),
        });
        servers.p4runtime.push((handle.clone(), config));
    }
    Ok(servers)
}

/// Prints the addresses of the servers.
fn announce(
    names: &[Option<String>],
    p4runtime: &P4RuntimeServer,
    thrift_servers: &[Option<ThriftServer>],
    console: &mut Console,
) -> Result<(), Failure> {
    for ((name, address), thrift_server) in names.iter().zip(p4runtime.addresses()).zip(thrift_servers) {
        // The wording is BMv2's. With port 0 the line is the only way to learn the port.
        let name = name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        writeln!(console.out, "{name}Server listening on {address}")?;
        if let Some(server) = thrift_server {
            writeln!(console.out, "{name}Thrift server listening on {}", server.address())?;
        }
    }
    Ok(())
}

/// Enters the sandbox. CAP_NET_RAW is kept because an interface that was removed is opened again when it
/// returns.
fn enter_sandbox(
    args: &Args,
    pcap: Option<&Path>,
    notifications: Option<&NotificationSocket>,
) -> Result<(), Failure> {
    let mut capabilities = vec![Capability::CAP_NET_RAW];
    if args.thrift_port.is_some_and(|port| (1..FIRST_UNPRIVILEGED_PORT).contains(&port)) {
        capabilities.push(Capability::CAP_NET_BIND_SERVICE);
    }
    let files_dir = args.use_files.map(|_| Path::new("."));
    let dirs: Vec<&Path> = pcap
        .into_iter()
        .chain(args.log_file.as_deref().map(privilege::parent_dir))
        .chain(files_dir)
        .collect();
    // The file of the notifications socket is removed at the end.
    let socket_dir = notifications.and_then(NotificationSocket::path).map(privilege::parent_dir);
    privilege::sandbox(&capabilities, &dirs, socket_dir.as_slice())
}

/// Raises the limit of open files to the hard limit: a fabric has a socket and two capture files per port.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, opening a further file reports the error.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
