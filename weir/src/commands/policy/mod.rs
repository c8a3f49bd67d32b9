//! `weir policy`: shows and sets the policies of agents, over their control sockets.

use crate::console::{Console, Failure};
use crate::control::socket_path;
use crate::output::{ActionOutput, QueryOutput};
use comfy_table::{Table, presets};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::Builder;
use std::time::{Duration, Instant};
use weir_agent::policy::{PolicyEntry, PolicyReport, PolicyRequest};
use weir_experiment::backend::Error;
use weir_report::format;
use weir_report::table::fit;
use weir_testbed::control;
use weir_units::Time;

/// Show and change the congestion-control parameters of running hosts
///
/// A policy that is set at one host is disseminated to all others with Trickle (RFC 6206), without a server.
/// Hosts that were disconnected or down catch up automatically. Running flows continue with the new
/// parameters. See docs/policy.md.
///
/// Agents started with --policy-key take part (`weir host run`, `weir run --backend mininet`). They share a
/// key and listen at /run/weir/NAME.sock (or in the directory of the variable WEIR_RUN).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  head -c 32 /dev/urandom > key; chmod 600 key
  sudo weir run x.yaml --backend mininet --policy-key key
  sudo weir policy show                        all agents of this machine
  sudo weir policy set eta=0.9 --via h1
  sudo weir policy set max_stage=3 lifetime=10min --via h1
  sudo weir policy history --via h16

Keys: the parameters of the scheme (`weir schemes hpcc`), and
  scheme          switch to this scheme, if the switches' program and tables support it
  T               base round-trip time, or `host`: each host's own
  ecn_thresholds  thresholds at which switches mark, for the controller that fills their tables
  lifetime        duration of the policy, or `forever`
  imin, imax, k   Trickle's timer, or `host`: each host's own

Exit status: 0 success; 1 an agent did not respond, or a policy set
concurrently has won; 2 invalid input, nothing was set.";

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the policies that hosts hold and use [default: of all agents on this machine]
    Show {
        #[command(flatten)]
        via: ViaArgs,
        #[command(flatten)]
        output: QueryOutput,
    },
    /// Change the policy of all hosts, at one of them
    Set {
        /// Changes to the current policy
        #[arg(required = true, value_name = "KEY=VALUE")]
        edits: Vec<String>,
        /// Host at which the policy is set: name or path of its agent's socket
        #[arg(long, value_name = "HOST")]
        via: String,
        /// Time to wait for a concurrent policy that wins
        #[arg(long, value_name = "TIME", default_value = "1s")]
        wait: Time,
        #[command(flatten)]
        output: ActionOutput,
    },
    /// Show the policies that a host has held, oldest first
    History {
        #[command(flatten)]
        via: ViaArgs,
        #[command(flatten)]
        output: QueryOutput,
    },
}

#[derive(Debug, clap::Args)]
struct ViaArgs {
    /// Hosts: names or paths of their agents' sockets
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    via: Vec<String>,
}

/// Polling interval while waiting for a concurrent policy.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    match &args.command {
        Command::Show { via, output } => {
            console.style(*output);
            show(&via.sockets()?, console)
        }
        Command::Set { edits, via, wait, output } => {
            console.style(*output);
            set(edits, via, *wait, console)
        }
        Command::History { via, output } => {
            console.style(*output);
            history(&via.sockets()?, console)
        }
    }
}

impl ViaArgs {
    /// Returns the sockets of the named agents, or of all agents on this machine.
    fn sockets(&self) -> Result<Vec<PathBuf>, Failure> {
        let sockets: Vec<PathBuf> = match self.via.is_empty() {
            true => socket_path::all(),
            false => self.via.iter().map(|name| socket_path::socket(name)).collect(),
        };
        match sockets.is_empty() {
            false => Ok(sockets),
            true => Err(Failure::Input(format!(
                "no agent found in {}; use --via, or start agents with --policy-key",
                socket_path::dir().display()
            ))),
        }
    }
}

/// Sends a request to one agent and waits for the reply.
fn send_request(path: &Path, request: &PolicyRequest) -> Result<PolicyReport, Failure> {
    Ok(control::request(socket_path::connect(path)?, &path.display(), request)?)
}

/// Sends a request to every agent. Returns the reports of the agents that respond, and the first failure.
fn request_all(
    sockets: &[PathBuf],
    request: &PolicyRequest,
) -> (Vec<(String, PolicyReport)>, Result<(), Failure>) {
    let (mut reports, mut outcome) = (Vec::new(), Ok(()));
    // In parallel, because an agent that is idle checks for requests only from time to time.
    std::thread::scope(|scope| {
        let requests: Vec<_> = sockets
            .iter()
            .map(|path| (path, Builder::new().spawn_scoped(scope, || send_request(path, request))))
            .collect();
        for (path, thread) in requests {
            let result = match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(error) => Err(Error::thread(&error).into()),
            };
            match result {
                Ok(report) => reports.push((socket_path::host_name(path), report)),
                // The first failure is kept.
                Err(failure) => outcome = outcome.clone().and(Err(failure)),
            }
        }
    });
    (reports, outcome)
}

/// Returns the policies that this machine's agents hold, with the number of hosts that hold each. Agents that
/// do not respond are omitted.
pub(super) fn held_policies() -> BTreeMap<String, usize> {
    let mut held = BTreeMap::new();
    for (_, report) in request_all(&socket_path::all(), &PolicyRequest::Show {}).0 {
        *held.entry(report.policies.last().map_or_else(|| "none".into(), version_label)).or_default() += 1;
    }
    held
}

fn show(sockets: &[PathBuf], console: &mut Console) -> Result<(), Failure> {
    let (reports, outcome) = request_all(sockets, &PolicyRequest::Show {});
    if console.style.json {
        print_json(&reports, console)?;
    } else if let [(name, report)] = &reports[..] {
        print_details(name, report, console)?;
    } else if !reports.is_empty() {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_header(["host", "holds", "age", "runs", "flows", "sent", "interval"]);
        for (name, report) in &reports {
            let held = report.policies.last();
            table.add_row([
                name.clone(),
                held.map_or_else(|| "none".into(), version_label),
                held.filter(|policy| is_set(policy))
                    .map_or_else(|| "-".into(), |policy| format_duration_ns(policy.for_ns)),
                running_scheme(report),
                report.flows.to_string(),
                report.counts.get("sent").copied().unwrap_or(0).to_string(),
                format_duration_ns(report.interval_ns),
            ]);
        }
        fit(&mut table, console.width);
        writeln!(console.out, "{}", table.trim_fmt())?;
    }
    outcome
}

/// Describes the scheme that the agent runs, and whether it is the scheme of the host's policy.
fn running_scheme(report: &PolicyReport) -> String {
    // The first entry is the scheme's name, the others are its parameters.
    let scheme = report.scheme.first().map_or("", |(_, name)| name);
    let held = report.policies.last().map(|policy| (policy.version, policy.writer));
    match (&report.runs, &report.refused) {
        (_, Some(reason)) => format!("{scheme}; policy not applied: {reason}"),
        (Some(runs), None) if Some(*runs) == held => format!("this policy, {scheme}"),
        (Some((version, writer)), None) => format!("{version} by {writer}, {scheme}"),
        (None, None) => format!("initial scheme, {scheme}"),
    }
}

/// Prints all details of one host.
fn print_details(name: &str, report: &PolicyReport, console: &mut Console) -> Result<(), Failure> {
    let out = &mut console.out;
    writeln!(out, "host      {name}, {}", report.addr)?;
    match report.policies.last().filter(|policy| is_set(policy)) {
        Some(held) => {
            writeln!(
                out,
                "holds     {}, digest {}, for {}, {}",
                version_label(held),
                held.digest,
                format_duration_ns(held.for_ns),
                origin(held)
            )?;
        }
        None => writeln!(out, "holds     no policy")?,
    }
    writeln!(out, "runs      {}", running_scheme(report))?;
    writeln!(out, "flows     {}", report.flows)?;
    // RFC 6206 allows an infinite redundancy constant, which agents report as 0.
    let k = if report.k == 0 { "infinite".to_owned() } else { report.k.to_string() };
    writeln!(
        out,
        "trickle   interval {}, Imin {}, Imax {}, k {k}",
        format_duration_ns(report.interval_ns),
        format_duration_ns(report.imin_ns),
        format_duration_ns(report.imax_ns)
    )?;
    let join_counts = |counts: &mut dyn Iterator<Item = (&str, u64)>| {
        counts.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    };
    writeln!(
        out,
        "packets   {}",
        join_counts(&mut report.counts.iter().map(|(name, count)| (&**name, *count)))
    )?;
    let mut drops = report
        .drops
        .iter()
        .filter(|(name, _)| name.starts_with("policy"))
        .map(|(name, count)| (&**name, *count))
        .peekable();
    if drops.peek().is_some() {
        writeln!(out, "dropped   {}", join_counts(&mut drops))?;
    }
    writeln!(out)?;
    for (key, value) in &report.scheme {
        writeln!(out, "{key:<18} {value}")?;
    }
    Ok(())
}

fn set(edits: &[String], via: &str, wait: Time, console: &mut Console) -> Result<(), Failure> {
    let edits = edits.iter().map(|edit| match edit.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(Failure::Input(format!("\"{edit}\": expected KEY=VALUE, for example eta=0.9"))),
    });
    let edits = edits.collect::<Result<Vec<_>, _>>()?;
    let path = socket_path::socket(via);
    let report = send_request(&path, &PolicyRequest::Set { edits })?;
    let Some(new_policy) = report.policies.last().cloned() else {
        return Err(Failure::Work(format!("{via} did not report the new policy")));
    };
    // The policy may still lose to one that was set at another host at the same time.
    let deadline = Instant::now() + Duration::from_nanos(wait.as_ns());
    loop {
        let report = send_request(&path, &PolicyRequest::History {})?;
        let entry = report
            .policies
            .iter()
            .find(|policy| policy.digest == new_policy.digest && policy.version == new_policy.version);
        if let (Some(true), Some(winner)) = (entry.map(|entry| entry.lost), report.policies.last()) {
            return Err(Failure::Work(format!(
                "{} was set at {via} but lost to {}, which was set concurrently; inspect it with \
                 `weir policy show --via {via}` and repeat the changes that are still needed",
                version_label(&new_policy),
                version_label(winner)
            )));
        }
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            break;
        }
        std::thread::sleep(remaining.min(POLL_INTERVAL));
    }
    if console.style.json {
        return console.print_json(&json!({"policy": new_policy}));
    }
    if !console.style.quiet {
        writeln!(
            console.out,
            "policy {} is set and is being disseminated to all hosts",
            version_label(&new_policy)
        )?;
    }
    Ok(())
}

fn history(sockets: &[PathBuf], console: &mut Console) -> Result<(), Failure> {
    let (reports, outcome) = request_all(sockets, &PolicyRequest::History {});
    if console.style.json {
        print_json(&reports, console)?;
        return outcome;
    }
    for (name, report) in &reports {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(["host", "policy", "held since", "from", "changed"]);
        let mut previous: &[(String, String)] = &[];
        for policy in &report.policies {
            let changed = policy.settings.iter().filter(|entry| !previous.contains(entry));
            let changed: Vec<String> = changed.map(|(key, value)| format!("{key}={value}")).collect();
            let is_first = previous.is_empty();
            table.add_row([
                name.clone(),
                version_label(policy),
                format!("{} ago", format_duration_ns(policy.for_ns)),
                format!("{}{}", origin(policy), if policy.lost { ", and lost" } else { "" }),
                if is_first {
                    // The first entry is the scheme.
                    policy
                        .settings
                        .first()
                        .map_or_else(String::new, |(_, scheme)| format!("{scheme}, all parameters"))
                } else {
                    changed.join(" ")
                },
            ]);
            previous = &policy.settings;
        }
        if report.policies.is_empty() {
            writeln!(console.out, "{name}: no policy")?;
        } else {
            fit(&mut table, console.width);
            writeln!(console.out, "{}", table.trim_fmt())?;
        }
    }
    outcome
}

fn print_json(reports: &[(String, PolicyReport)], console: &mut Console) -> Result<(), Failure> {
    let hosts: serde_json::Map<_, _> =
        reports.iter().map(|(name, report)| (name.clone(), json!(report))).collect();
    console.print_json(&hosts)
}

/// Returns false for the entry of a host at which no policy was set yet; its version is 0.
fn is_set(policy: &PolicyEntry) -> bool {
    policy.version > 0
}

/// Formats version and writer of a policy: `3 by 10.0.1.1`; `none` if no policy was set.
fn version_label(policy: &PolicyEntry) -> String {
    if is_set(policy) { format!("{} by {}", policy.version, policy.writer) } else { "none".to_owned() }
}

/// Formats how the host received a policy.
fn origin(policy: &PolicyEntry) -> String {
    match policy.from.as_str() {
        "set" => "set here".to_owned(),
        "kept" => "kept over a restart".to_owned(),
        from => format!("received from {from}"),
    }
}

fn format_duration_ns(ns: u64) -> String {
    format::duration(Time::from_ns(ns))
}
