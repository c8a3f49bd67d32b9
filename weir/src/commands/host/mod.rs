//! `weir host`: sends and receives flows on a network interface.

mod flows;
mod metrics;
mod options;
mod output;
pub(super) mod policy;

use crate::commands::files::read;
use crate::console::{Console, Failure};
use crate::interrupt;
use crate::privilege;
use options::{HostOptions, Mac, RunOptions};
use policy::{PolicyEndpoints, PolicyOptions};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weir_agent::results::{AgentResults, Ended, FlowState};
use weir_agent::{Agent, AgentConfig, AgentError, FlowPlan, Status, StopCondition};
use weir_report::output::OutputFile;
use weir_testbed::host_setup::HostSetup;
use weir_units::{Bytes, Time};

/// Send and receive on a real network interface
///
/// Runs the host of the simulation, with the same transport and congestion control, on a raw socket next to
/// the kernel's own stack: in Mininet, in network namespaces, or between machines. One process is one host
/// with any number of flows. Needs root or CAP_NET_RAW.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  weir host recv --iface eth0 --for 10s
  weir host send --iface eth0 --to 10.0.2.2 --size 1MB --rate 10Mbps
  weir host send --iface eth0 --to 10.0.2.2 --for 5s --flows 4 --set lhcs=off
  weir host run --iface eth0 --flows-from flows.yaml --for 10s --out h1.json

Exit status: 0 success; 1 a flow failed or did not finish, or the interface was removed;
2 invalid input; 130 interrupted while sending, results are kept.";

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Receive until interrupted or --for elapses
    Recv(RecvArgs),
    /// Send flows to one peer and exit when they finish
    Send(SendArgs),
    /// Send the flows of a list and receive, until interrupted or --for elapses
    Run(ListArgs),
}

#[derive(Debug, clap::Args)]
struct RecvArgs {
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    policy: PolicyOptions,
    #[command(flatten)]
    run: RunOptions,
}

#[derive(Debug, clap::Args)]
struct SendArgs {
    /// Address of the receiver
    #[arg(long, value_name = "IP")]
    to: Ipv4Addr,

    /// Payload of each flow, such as 1MB [default: send until --for elapses]
    #[arg(long)]
    size: Option<Bytes>,

    /// Number of flows; all start at the same time
    #[arg(long, default_value_t = 1, value_name = "N")]
    flows: u16,

    /// UDP port of the first flow, which selects its path by hashing; further flows have consecutive ports
    #[arg(long, default_value_t = flows::FIRST_PORT, value_name = "PORT")]
    entropy_port: u16,

    /// MAC address of the next hop [default: from the kernel's neighbour table]
    #[arg(long, value_name = "MAC")]
    peer_mac: Option<Mac>,

    /// IP addresses of all senders of this message's incast, including this host, separated by commas
    ///
    /// The first packets list them, so that a receiver with dasr or dart can share its link among them before
    /// the others begin.
    #[arg(long, value_name = "IP,IP...")]
    announce: Option<String>,

    /// Number of the incast, the same at all of its senders; without a number, a list that arrives late
    /// counts finished senders again
    ///
    /// Use a different number for the next incast to the same receiver.
    #[arg(long, value_name = "N", requires = "announce")]
    incast: Option<u32>,

    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    policy: PolicyOptions,
    #[command(flatten)]
    run: RunOptions,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// List of flows: YAML (a list of {peer, size, start, stop, port, mac, announces, incast}) or CSV with
    /// these columns
    ///
    /// Only `peer` is required. A flow without a size sends until its `stop` or the end of the run; times are
    /// relative to the start of the run.
    #[arg(long, value_name = "FILE", alias = "flows", required_unless_present = "setup")]
    flows_from: Option<PathBuf>,

    /// Read scheme, program, rate, MTU, base RTT, transport and flows from FILE (JSON), in place of the options for them:
    /// what a run in Mininet writes for each of its hosts
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "flows_from", "scheme", "set", "program", "rate", "mtu", "base_rtt", "telemetry_clock", "ack_every", "recovery",
        "rto", "nack_interval", "min_rto", "initial_rto", "user_timeout", "active_window",
        "pacing_credit",
    ])]
    setup: Option<PathBuf>,

    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    policy: PolicyOptions,
    #[command(flatten)]
    run: RunOptions,
}

/// Exit status after an interrupt. It is a failure if the run should end when its flows finish; for other runs it is
/// the normal end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnInterrupt {
    Fail,
    Succeed,
}

/// With `--for`, extra time after flows without a size stop, in which their last bytes are acknowledged.
const ACK_TIMEOUT: Time = Time::from_secs(2);

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    match &args.command {
        Command::Recv(recv) => {
            let until = StopCondition { flows_finished: false, deadline: recv.run.duration };
            let setup = recv.host.setup()?;
            let host = Host { options: &recv.host, setup: &setup, policy: &recv.policy };
            run_agent(host, &recv.run, vec![], until, OnInterrupt::Succeed, console)
        }
        Command::Send(send) => {
            let (flows, until) = plan_to_send(send)?;
            let setup = send.host.setup()?;
            let host = Host { options: &send.host, setup: &setup, policy: &send.policy };
            run_agent(host, &send.run, flows, until, OnInterrupt::Fail, console)
        }
        Command::Run(list) => {
            let (setup, flows) = setup_and_flows(list)?;
            let until = StopCondition { flows_finished: false, deadline: list.run.duration };
            let host = Host { options: &list.host, setup: &setup, policy: &list.policy };
            run_agent(host, &list.run, flows, until, OnInterrupt::Succeed, console)
        }
    }
}

/// Returns the setup and the flows of `weir host run`.
fn setup_and_flows(list: &ListArgs) -> Result<(HostSetup, Vec<FlowPlan>), Failure> {
    if let Some(path) = &list.flows_from {
        return Ok((list.host.setup()?, flows::load(path)?));
    }
    let path = list.setup.as_deref().expect("clap requires --flows-from or --setup");
    let invalid = |reason: &dyn std::fmt::Display| Failure::Input(format!("{}: {reason}", path.display()));
    let setup: HostSetup = serde_json::from_str(&read(path)?).map_err(|error| invalid(&error))?;
    let flows = flows::plans(&setup.flows).map_err(|reason| invalid(&reason))?;
    Ok((setup, flows))
}

/// Returns the flows of `weir host send`, and when the run ends.
fn plan_to_send(send: &SendArgs) -> Result<(Vec<FlowPlan>, StopCondition), Failure> {
    let (stop, deadline) = match (send.size, send.run.duration) {
        (None, None) => {
            return Err(Failure::input("specify --size, for example 1MB, or --for to send for a fixed time"));
        }
        (None, Some(duration)) => (Some(duration), Some(duration.saturating_add(ACK_TIMEOUT))),
        (Some(_), duration) => (None, duration),
    };
    if send.flows == 0 {
        return Err(Failure::input("--flows must be at least 1"));
    }
    let announcement = send.announce.as_deref().map(|list| flows::announcement(list, send.incast));
    let announcement = announcement.transpose().map_err(Failure::input)?;
    let flows = (0..send.flows).map(|i| FlowPlan {
        peer: send.to,
        peer_mac: send.peer_mac.map(|mac| mac.0),
        entropy_port: flows::port(send.entropy_port, i),
        start: Time::ZERO,
        stop,
        size: send.size,
        announcement: announcement.clone(),
    });
    Ok((flows.collect(), StopCondition { flows_finished: true, deadline }))
}

/// The host of a subcommand: its options, and the setup that they or a file describe.
#[derive(Clone, Copy)]
struct Host<'a> {
    options: &'a HostOptions,
    setup: &'a HostSetup,
    policy: &'a PolicyOptions,
}

fn run_agent(
    Host { options, setup, policy }: Host<'_>,
    run: &RunOptions,
    flows: Vec<FlowPlan>,
    until: StopCondition,
    on_interrupt: OnInterrupt,
    console: &mut Console,
) -> Result<(), Failure> {
    let out = output::open(run)?;
    let agent_failure = |error: AgentError| match error {
        AgentError::System { .. } => Failure::work(error),
        _ => Failure::input(error),
    };
    let interface = options.interface().map_err(agent_failure)?;
    let registry = &console.extensions.catalogue.schemes;
    let mut host = setup.config(&interface, registry).map_err(Failure::Input)?;
    host.policy = policy.config(host.base_rtt)?;
    let addr = interface.addr;
    let config = AgentConfig {
        host,
        interface,
        flows,
        start: run.start_at,
        until,
        // Without --out the series are not written, so they are not recorded either: they would only use memory.
        sample_interval: run.sample.0.filter(|_| run.out.is_some()),
        max_spin: run.spin,
        first_message: run.first_message.unwrap_or_else(options::fresh_message_id),
    };
    let mut agent = Agent::new(config).map_err(agent_failure)?;
    // Opened after the agent, whose port guard excludes a second agent with the same address.
    let endpoints = policy.open(addr)?;
    let results_dir = out.as_ref().and_then(OutputFile::dir);
    let dirs: Vec<&Path> =
        results_dir.into_iter().chain(endpoints.iter().flat_map(PolicyEndpoints::dirs)).collect();
    // No capability is needed from here on: all sockets are open, and if the interface is removed, the agent ends
    // instead of opening a new socket.
    let metrics_listener = run.metrics.open()?;
    privilege::sandbox(&[], &dirs, &[])?;
    let metrics_server = match metrics_listener {
        Some(listener) => {
            let status = Arc::new(Mutex::new(Status::default()));
            agent = agent.with_status(status.clone());
            let status = move || status.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Some(crate::metrics::serve(listener, move || metrics::page(&addr.to_string(), &status()))?)
        }
        None => None,
    };
    let interrupted = catch_interrupts()?;
    let service = match endpoints.map(PolicyEndpoints::serve).transpose()? {
        Some((service, channel)) => {
            agent = agent.with_policy(channel).map_err(agent_failure)?;
            Some(service)
        }
        None => None,
    };
    let results = agent.run(interrupted);
    drop(metrics_server);
    if let Some(service) = service {
        service.close();
    }
    output::write(&results, run, out, console)?;
    exit_result(&results, on_interrupt)
}

/// From now on Ctrl-C and SIGTERM end the run and keep its results; a second signal exits immediately.
fn catch_interrupts() -> Result<&'static AtomicBool, Failure> {
    static INTERRUPTED: AtomicBool = AtomicBool::new(false);
    interrupt::on_signal(|| {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    })?;
    Ok(&INTERRUPTED)
}

/// Returns the exit status of a run.
fn exit_result(results: &AgentResults, on_interrupt: OnInterrupt) -> Result<(), Failure> {
    let sized_flows = results.flows.iter().filter(|flow| flow.size_bytes.is_some());
    let unfinished = sized_flows.filter(|flow| flow.state != FlowState::Finished).count();
    let errors: Vec<&str> = results.flows.iter().filter_map(|flow| flow.error.as_deref()).collect();
    match results.ended {
        Ended::InterfaceGone => Err(Failure::Work(format!("interface {} was removed", results.iface))),
        Ended::Interrupted if on_interrupt == OnInterrupt::Fail => {
            Err(Failure::Interrupted("results are kept".to_owned()))
        }
        Ended::Deadline if unfinished > 0 => Err(Failure::Work(format!(
            "{unfinished} of {} flows did not finish in time",
            results.flows.len()
        ))),
        _ => match errors.first() {
            Some(first) => Err(Failure::Work(format!(
                "{} of {} flows failed, the first: {first}",
                errors.len(),
                results.flows.len()
            ))),
            None => Ok(()),
        },
    }
}
