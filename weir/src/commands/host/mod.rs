//! `weir host`

mod flows;
mod metrics;
mod options;
mod output;
pub(super) mod policy;

use crate::console::{Console, Failure};
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
use weir_units::{Bytes, Time};

/// Send and receive on a real network interface
///
/// The host of the simulation, with the same transport and congestion control, on a raw socket
/// beside the kernel's own stack: in Mininet, in network namespaces, or between machines. One
/// process is one host with any number of flows. Needs root or CAP_NET_RAW.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  weir host recv --iface eth0 --for 10s
  weir host send --iface eth0 --to 10.0.2.2 --size 1MB --rate 10Mbps
  weir host send --iface eth0 --to 10.0.2.2 --for 5s --flows 4 --set lhcs=off
  weir host run --iface eth0 --flows-from flows.yaml --for 10s --out h1.json

Exit status: 0 done; 1 a flow failed or did not finish, or the interface went away;
2 the input is wrong; 130 interrupted while sending, results are kept.";

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Receive until interrupted, or for a time
    Recv(RecvArgs),
    /// Send flows to one peer, and end with them
    Send(SendArgs),
    /// Send the flows of a list and receive, until interrupted or for a time
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
    /// Peer
    #[arg(long, value_name = "IP")]
    to: Ipv4Addr,

    /// Payload of each flow, like 1MB; absent: sends for the time of --for
    #[arg(long)]
    size: Option<Bytes>,

    /// Flows, all starting together
    #[arg(long, default_value_t = 1, value_name = "N")]
    flows: u16,

    /// UDP port that spreads flows over paths: of the first flow, the next ones count up
    #[arg(long, default_value_t = flows::FIRST_PORT, value_name = "PORT")]
    entropy_port: u16,

    /// MAC address of the next hop, instead of the kernel's neighbour entry
    #[arg(long, value_name = "MAC")]
    peer_mac: Option<Mac>,

    /// Senders of the incast that this message is part of, this host included, separated by commas
    ///
    /// The first packets list them, so that a receiver with dasr or dart shares its link before the others begin.
    #[arg(long, value_name = "IP,IP...")]
    announce: Option<String>,

    /// Number of the incast, the same at each of its senders; without one a late list counts finished senders again
    ///
    /// Give the next incast to the same receiver another number.
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
    /// List of flows: YAML (a list of {peer, size, start, stop, port, mac, announces, incast}) or CSV with these columns
    ///
    /// Only `peer` is needed. A flow without size sends until its stop, or until the end; times count
    /// from the start of the run.
    #[arg(long, value_name = "FILE", alias = "flows")]
    flows_from: PathBuf,

    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    policy: PolicyOptions,
    #[command(flatten)]
    run: RunOptions,
}

/// After a flow without size was told to stop, its last bytes may take so long.
const GRACE: Time = Time::from_secs(2);

/// Executes the command.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    match &args.command {
        Command::Recv(recv) => {
            let until = StopCondition { flows_finished: false, deadline: recv.run.duration };
            run_agent(&recv.host, &recv.policy, &recv.run, vec![], until, false, console)
        }
        Command::Send(send) => {
            let (flows, until) = plan_to_send(send)?;
            run_agent(&send.host, &send.policy, &send.run, flows, until, true, console)
        }
        Command::Run(list) => {
            let flows = flows::load(&list.flows_from)?;
            let until = StopCondition { flows_finished: false, deadline: list.run.duration };
            run_agent(&list.host, &list.policy, &list.run, flows, until, false, console)
        }
    }
}

fn plan_to_send(send: &SendArgs) -> Result<(Vec<FlowPlan>, StopCondition), Failure> {
    let (stop, deadline) = match (send.size, send.run.duration) {
        (None, None) => {
            return Err(Failure::input("how much? Give --size 1MB, or --for 5s to send for a time"));
        }
        (None, Some(lasts)) => (Some(lasts), Some(lasts.saturating_add(GRACE))),
        (Some(_), lasts) => (None, lasts),
    };
    if send.flows == 0 {
        return Err(Failure::input("--flows 0 sends nothing"));
    }
    let announces = send.announce.as_deref().map(|list| flows::announcement(list, send.incast));
    let announces = announces.transpose().map_err(Failure::input)?;
    let flows = (0..send.flows).map(|i| FlowPlan {
        peer: send.to,
        peer_mac: send.peer_mac.map(|mac| mac.0),
        entropy_port: flows::port(send.entropy_port, i),
        start: Time::ZERO,
        stop,
        size: send.size,
        announces: announces.clone(),
    });
    Ok((flows.collect(), StopCondition { flows_finished: true, deadline }))
}

fn run_agent(
    host: &HostOptions,
    policy: &PolicyOptions,
    run: &RunOptions,
    flows: Vec<FlowPlan>,
    until: StopCondition,
    is_sender: bool,
    console: &mut Console,
) -> Result<(), Failure> {
    let out = output::open(run)?;
    let refused = |error: AgentError| match error {
        AgentError::System { .. } => Failure::work(error),
        _ => Failure::input(error),
    };
    let interface = host.interface().map_err(refused)?;
    let mut host = host.config(&interface, &console.kit.catalogue.schemes)?;
    host.policy = policy.config(host.base_rtt)?;
    let addr = interface.addr;
    let config = AgentConfig {
        host,
        interface,
        flows,
        start: run.start_at,
        until,
        // Nothing else shows the series, and a run of hours would gather them for nobody.
        sample: run.sample.0.filter(|_| run.out.is_some()),
        spin: run.spin,
        first_message: run.first_message.unwrap_or_else(options::fresh_message),
    };
    let mut agent = Agent::new(config).map_err(refused)?;
    // Behind the agent, which no second one can be of an address.
    let opened = policy.open(addr)?;
    let results = out.as_ref().and_then(OutputFile::dir);
    let folders: Vec<&Path> =
        results.into_iter().chain(opened.iter().flat_map(PolicyEndpoints::folders)).collect();
    // The sockets are open, and an interface that is gone ends the run.
    let metrics = run.metrics.open()?;
    privilege::sandbox(&[], &folders)?;
    let metrics = match metrics {
        Some(opened) => {
            let status = Arc::new(Mutex::new(Status::default()));
            agent = agent.with_status(status.clone());
            let status = move || status.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Some(crate::metrics::serve(opened, move || metrics::page(&addr.to_string(), &status()))?)
        }
        None => None,
    };
    let interrupted = catch_interrupts()?;
    let desk = match opened.map(PolicyEndpoints::serve) {
        Some((desk, orders)) => {
            agent = agent.with_policy(orders).map_err(refused)?;
            Some(desk)
        }
        None => None,
    };
    let results = agent.run(interrupted);
    drop(metrics);
    if let Some(desk) = desk {
        desk.close();
    }
    output::write(&results, run, out, console)?;
    exit_result(&results, is_sender)
}

/// From now on Ctrl-C and SIGTERM end the run and keep its results; a second one ends the process.
fn catch_interrupts() -> Result<&'static AtomicBool, Failure> {
    static INTERRUPTED: AtomicBool = AtomicBool::new(false);
    ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    })
    .map_err(|error| Failure::Work(format!("Ctrl-C cannot be caught: {error}")))?;
    Ok(&INTERRUPTED)
}

fn exit_result(results: &AgentResults, is_sender: bool) -> Result<(), Failure> {
    let sized = results.flows.iter().filter(|flow| flow.size_bytes.is_some());
    let unfinished = sized.filter(|flow| flow.state != FlowState::Finished).count();
    let errors: Vec<&str> = results.flows.iter().filter_map(|flow| flow.error.as_deref()).collect();
    match results.ended {
        Ended::InterfaceGone => Err(Failure::Work(format!("{} disappeared", results.iface))),
        Ended::Interrupted if is_sender => Err(Failure::Interrupted("results are kept".to_owned())),
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
