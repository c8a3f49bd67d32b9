//! `weir switch`: the embedded switch with the command line of simple_switch_grpc, or all switches of a
//! fabric in one process.

mod fabric;
mod fabric_links;
mod grpc;
mod log;
mod metrics;
mod options;
mod thrift;
mod wrappers;

use super::{Engine, link, load_program};
use crate::console::{Console, Failure};
use crate::control::Socket;
use crate::privilege;
use caps::Capability;
use clap::Parser;
use fabric::Fabric;
pub use options::Options as Args;
use options::TargetOptions;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use weir_server::p4runtime::{Programs, ServerConfig};
use weir_server::thrift::ThriftConfig;
use weir_switch::Switch;
use weir_switch::driver::{CaptureConfig, DataplaneConfig, FabricDataplane, FabricMember, FrameSource};
use weir_switch::tm::QueueLimits;
use weir_testbed::links::{LINKS, socket};
use weir_units::Time;

/// The newest version of BMv2 JSON that can be loaded, for `--json-version`.
const JSON_VERSION: &str = "2.23";

/// Lower ports require CAP_NET_BIND_SERVICE (`ip(7)`, `ip_unprivileged_port_start`).
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

/// Interval at which the state of the data plane thread is checked.
const HEALTH_CHECK: Duration = Duration::from_secs(1);

pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
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
    let kinds = &console.kit.catalogue.topologies;
    let topology = args.fabric.as_deref().map(|path| super::controller::topology(path, kinds)).transpose()?;
    let traced = log::start(args)?;
    let program =
        program.filter(|_| !args.no_p4).map(|path| load_program(path, Engine::default())).transpose()?;
    let seed = args.seed();
    let fabric = match (&topology, &args.plan) {
        (Some(topology), _) => Some(Fabric::of_topology(topology, args, &target, program.as_ref(), seed)),
        (None, Some(plan)) => Some(Fabric::of_plan(plan)?),
        (None, None) => None,
    };
    let (names, endpoints) = match &fabric {
        None => (vec![None], grpc::Endpoints::open(&target.grpc, grpc::DEFAULT_ADDRESS, 1)?),
        Some(fabric) => {
            fabric.check(args, &target)?;
            raise_file_limit();
            let names: Vec<_> = fabric.names().map(|name| Some(name.to_owned())).collect();
            let endpoints = grpc::Endpoints::open(&target.grpc, fabric::FIRST_ADDRESS, names.len())?;
            (names, endpoints)
        }
    };
    let control = args.control.as_deref().or(args.plan.as_ref().map(|_| LINKS));
    let control = control.map(|name| Socket::bind_name(&socket(name))).transpose()?;
    let page = args.metrics.open()?;
    confine(args, pcap)?;
    let (quit, quit_requested) = sync_channel(1);
    ctrlc::set_handler(move || {
        // Fails only if a signal is already queued; a second one has no effect.
        let _ = quit.try_send(());
    })
    .map_err(|error| Failure::Work(format!("cannot install signal handler: {error}")))?;

    let interfaces = fabric.as_ref().map_or(args.interfaces.len(), Fabric::interfaces);
    let config = DataplaneConfig {
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
        ring_bytes: args.ring_bytes(interfaces),
        capture: pcap
            .map(|directory| CaptureConfig { directory: directory.to_owned(), limit: args.pcap_limit.get() }),
        dump_bytes: args.dump_packet_data,
        trace: traced,
    };
    let members = match &fabric {
        None => {
            let switch =
                program.map(|program| Switch::new(program, config.switch_config(), seed).map(Box::new));
            let switch = switch.transpose().map_err(Failure::input)?;
            vec![FabricMember { config, switch, ports: args.interfaces.clone(), inner: Vec::new() }]
        }
        Some(fabric) => fabric.members(&config)?,
    };
    let dataplane = FabricDataplane::start(members).map_err(Failure::input)?;
    let programs = Arc::new(Programs::default());
    let (mut servers, mut thrift, mut watched) = (Vec::new(), Vec::new(), Vec::new());
    for (n, (name, handle)) in names.iter().zip(dataplane.handles()).enumerate() {
        let device_id = args.device_id + n as u64;
        let seed = fabric.as_ref().map_or(seed, |fabric| fabric.seed(n));
        let config = ThriftConfig {
            listen: (args.thrift_addr(), ThriftConfig::PORT).into(),
            device_id,
            seed,
            allow_config_swap: !target.disable_swap,
            programs: programs.clone(),
        };
        thrift.push(thrift::start(args, n, config, handle.clone())?);
        let programs = programs.clone();
        let config = ServerConfig { device_id, seed, programs, ..ServerConfig::default() };
        watched.push(metrics::Watched {
            name: name.clone().unwrap_or_else(|| device_id.to_string()),
            dataplane: handle.clone(),
            lost: config.lost.clone(),
            calls: config.calls.clone(),
        });
        servers.push((handle.clone(), config));
    }
    let links = control.zip(fabric.as_ref()).map(|(control, fabric)| {
        // The socket speaks the protocol of a link emulator, so that `weir link` can control the fabric's
        // links.
        link::serve(control, fabric.carrier(dataplane.handles()))
    });
    let p4runtime = endpoints.serve(servers)?;
    for ((name, address), thrift) in names.iter().zip(p4runtime.addresses()).zip(&thrift) {
        // The wording is BMv2's. With port 0 the line is the only way to learn the port.
        let name = name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        writeln!(console.out, "{name}Server listening on {address}")?;
        if let Some(server) = thrift {
            writeln!(console.out, "{name}Thrift server listening on {}", server.address())?;
        }
    }
    let page = page.map(|page| {
        writeln!(console.out, "Metrics at http://{}/metrics", page.address())?;
        crate::metrics::serve(page, move || metrics::page(&watched))
    });
    let page = page.transpose()?;
    console.out.flush()?;
    tracing::info!(device = args.device_id, switches = names.len(), ports = interfaces, "running");

    while quit_requested.recv_timeout(HEALTH_CHECK) == Err(RecvTimeoutError::Timeout) {
        if !dataplane.is_running() {
            return Err(Failure::work("the data plane thread panicked; see the message above"));
        }
        if !p4runtime.is_running() {
            break;
        }
    }
    drop((page, thrift, links));
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

/// Enters the sandbox. CAP_NET_RAW is kept because an interface that was removed is opened again when it
/// returns.
fn confine(args: &Args, pcap: Option<&Path>) -> Result<(), Failure> {
    let mut capabilities = vec![Capability::CAP_NET_RAW];
    if args.thrift_port.is_some_and(|port| (1..FIRST_UNPRIVILEGED_PORT).contains(&port)) {
        capabilities.push(Capability::CAP_NET_BIND_SERVICE);
    }
    let here = args.use_files.map(|_| Path::new("."));
    let folders: Vec<&Path> =
        pcap.into_iter().chain(args.log_file.as_deref().map(privilege::folder)).chain(here).collect();
    privilege::sandbox(&capabilities, &folders)
}

/// Raises the limit of open files to the hard limit: a fabric has a socket and two capture files per port.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, opening a further file reports the error.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn warn(what: &str) -> std::io::Result<()> {
    writeln!(std::io::stderr(), "warning: {what}")
}

/// Rejects invalid combinations of options before anything is started.
fn check(args: &Args, target: &TargetOptions, program: bool) -> Result<(), Failure> {
    let refuse = |reason: &str| Err(Failure::input(reason));
    if args.debugger || args.debugger_addr.is_some() {
        return refuse(
            "--debugger: not supported; use `weir trace` or -L trace to see a packet's path through the program",
        );
    }
    if args.restore_state.is_some() {
        return refuse("--restore-state: not supported; let the controller rewrite the state");
    }
    if args.packet_in.is_some() {
        return refuse("--packet-in: not supported; use interfaces (-i) or files (--use-files)");
    }
    if target.dp_grpc_server_addr.is_some() {
        return refuse("--dp-grpc-server-addr: not supported; use interfaces (-i) or files (--use-files)");
    }
    if target.load_modules.is_some() {
        return refuse("--load-modules: not supported; only the externs of v1model are available");
    }
    if args.control.is_some() && args.fabric.is_none() && args.plan.is_none() {
        return refuse("--control requires --fabric");
    }
    if !program && !args.no_p4 && args.plan.is_none() {
        return refuse("specify a program (BMv2 JSON) or --no-p4");
    }
    if target.cpu_port == Some(target.drop_port) {
        return refuse("CPU port and drop port must differ");
    }
    target.grpc.check()
}

/// Returns warnings about options that are accepted without effect.
fn warnings(args: &Args, target: &TargetOptions, program: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |when: bool, what: &str| warnings.extend(when.then(|| what.to_owned()));
    warn(args.nanolog.is_some(), "--nanolog is ignored: nanomsg is not supported; see --log-file");
    warn(
        args.notifications_addr.is_some(),
        "--notifications-addr is ignored: digests and idle timeouts are sent over P4Runtime",
    );
    warn(args.no_p4 && program, "the program is not loaded, because of --no-p4");
    warn(args.log_file.is_none() && args.log_flush, "--log-flush has no effect without --log-file");
    warn(target.grpc.pem_without_ssl(), "the certificate options have no effect without --grpc-server-ssl");
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// The generic half, as a command of its own.
    #[derive(Debug, Parser)]
    struct Generic {
        #[command(flatten)]
        options: Args,
    }

    /// Warnings on a command line, or why it is refused. `None`: it only prints something.
    fn outcome(line: &str) -> Option<Result<Vec<String>, String>> {
        let (generic, target) = line.split_once("-- ").unwrap_or((line, ""));
        let words = |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        let prints = |kind: clap::error::ErrorKind| {
            matches!(kind, clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion)
        };
        let generic = [vec!["switch".to_owned()], words(generic), vec!["--no-p4".to_owned()]].concat();
        let args = match Generic::try_parse_from(generic) {
            Ok(generic) => generic.options,
            Err(error) if prints(error.kind()) => return None,
            Err(error) => return Some(Err(error.to_string())),
        };
        let target = [vec!["--".to_owned()], words(target)].concat();
        let target = match TargetOptions::try_parse_from(target) {
            Ok(target) => target,
            Err(error) => return Some(Err(error.to_string())),
        };
        let refused = check(&args, &target, false).map(|()| warnings(&args, &target, false));
        Some(refused.map_err(|failure| failure.to_string()))
    }

    #[test]
    fn options_of_bmv2_are_taken_as_the_table_says() {
        let table = include_str!("../../assets/switch-options.md");
        let mut rows = 0;
        for row in table.lines().filter_map(|line| line.strip_prefix("| `-")) {
            let mut cells = row.split('|').map(str::trim);
            let line = format!("-{}", cells.next().unwrap().trim_end_matches('`'));
            let line = line.replace("--no-p4", "");
            let outcome = outcome(&line);
            match cells.next().unwrap() {
                "as BMv2" => assert!(matches!(&outcome, None | Some(Ok(_))), "{line}: {outcome:?}"),
                "no effect" => {
                    let option = line.trim_start_matches("-- ").split(' ').next().unwrap();
                    let Some(Ok(warnings)) = outcome else { panic!("{line}: {outcome:?}") };
                    assert!(warnings.iter().any(|it| it.starts_with(option)), "{line}: {warnings:?}");
                }
                "refused" => {
                    let option = line.trim_start_matches("-- ").split(' ').next().unwrap().to_owned();
                    let Some(Err(reason)) = outcome else { panic!("{line}: {outcome:?}") };
                    assert!(option.starts_with(reason.split(':').next().unwrap()), "{line}: {reason}");
                }
                other => panic!("{line}: \"{other}\""),
            }
            rows += 1;
        }
        assert_eq!(rows, 36);
    }
}
