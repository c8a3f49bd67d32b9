//! `weir run`

use super::estimate::Estimate;
use super::folder;
use super::host::policy::check_key;
use super::progress::{Kept, Watch};
use crate::console::{Console, Failure};
use crate::interrupt;
use crate::mininet::{self, FabricFacts, SwitchKind};
use crate::output::Output;
use crate::report::{self, Keeper, Run, RunDir, format, metrics, perfetto, policy, table};
use crate::sweep::pool;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use weir_sim::Catalogue;
use weir_sim::experiment::Experiment;
use weir_sim::results::Results;
use weir_units::Bandwidth;

/// Everything about experiment files.
const FILES: &str = include_str!("run.txt");

/// Returns what `weir run --help` says beside the options: about experiment files, and their keys.
pub fn help(keys: &str) -> String {
    format!("{FILES}\n{keys}{VALUES}")
}

const VALUES: &str = "
Sizes are written 64KB; websearch, fb_hadoop, alistorage, google_rpc2008 or
data_mining; a .csv file of size,cumulative probability; {choice: [2KB, 8KB]};
{uniform: {least: 1KB, most: 1MB}}; {pareto: {mean: 192MB, shape: 1.5}}. Hosts:
h1-h64; h1-h128/2 (every second); h1,h5,h9-h12. Hosts are h1, h2.. and switches
s1, s2.. `weir schema --markdown` says what every key takes, and its default.";

/// Run an experiment and write a report
///
/// Runs every scheme of the experiment by itself on the same fabric, with the same flows and the
/// same seed, in virtual time or in Mininet. Prints a table and leaves a directory with the report.
#[derive(Debug, clap::Args)]
#[command(after_help = "`weir run --help` explains experiment files.")]
pub struct Args {
    /// Experiment files (YAML), run one after the other
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Replace a key: dots go down, numbers count list entries from 0
    ///
    /// The value is read as YAML, so `--set schemes=[fncc]` and `--set flows.1.start=200us` work.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Seed of every random stream, instead of the file's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Run only these of the file's schemes, by label
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    schemes: Vec<String>,

    /// Where it runs: in virtual time, or in real time on Mininet's hosts and links (needs root)
    #[arg(long, value_enum, default_value = "sim", value_name = "BACKEND")]
    on: Backend,

    /// Run as a scale model whose hosts have this rate, all times longer in proportion
    ///
    /// Bytes stay: queues, windows and what is under way are those of the file. Mininet takes 10Mbps if the
    /// file says more than 100Mbps.
    #[arg(long, value_name = "RATE")]
    rate: Option<Bandwidth>,

    /// The switch in Mininet; absent: bmv2 where simple_switch_grpc is installed, else weir
    #[arg(long, value_enum, value_name = "SWITCH")]
    switch: Option<SwitchKind>,

    /// Open Mininet's command line before the traffic starts
    #[arg(long)]
    cli: bool,

    /// Capture what passes the ports of Mininet's switches, in a folder for each scheme in DIR or pcaps/
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "pcaps")]
    pcap: Option<PathBuf>,

    /// Mininet's hosts take part in policies with the key in this file: `weir policy` reaches them by name
    #[arg(long, value_name = "FILE")]
    policy_key: Option<PathBuf>,

    /// Write perfetto.json too: queues, loads, pauses, flows and rates for the Perfetto UI, https://ui.perfetto.dev
    #[arg(long)]
    perfetto: bool,

    /// Where to write, instead of runs/<name>-<seed>; an earlier run there is replaced
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Schemes run at a time, each on a thread; absent: as many as keep all cores busy. The results are the same
    #[arg(long, short, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    /// Check the files and estimate packet-hops, time and memory; run nothing
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    output: Output,
}

/// Where an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Backend {
    /// Virtual time
    Sim,
    /// Mininet, in real time
    Mininet,
}

/// Links faster than this are too much for software switches, and are modelled at [`MININET_RATE`].
const MININET_LIMIT: Bandwidth = Bandwidth::from_mbps(100);
const MININET_RATE: Bandwidth = Bandwidth::from_mbps(10);

/// Does it.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    // All files first: a mistake in the last one should not cost the runs before it.
    let experiments = args
        .files
        .iter()
        .map(|file| load(file, args, &console.kit.catalogue))
        .collect::<Result<Vec<_>, _>>()?;
    if args.out.is_some() && experiments.len() > 1 {
        return Err(Failure::input(
            "--out names one directory, and there are several experiments: run them one by one",
        ));
    }
    check_backend(args)?;
    if args.check {
        for (file, experiment) in args.files.iter().zip(&experiments) {
            if console.style.json {
                console.answer(&checked(file, experiment, args))?;
                continue;
            }
            let (schemes, flows) = (experiment.schemes.len(), report::describe::traffic(experiment));
            write!(console.out, "{}: ok, {schemes} schemes, {flows}", file.display())?;
            match args.on {
                Backend::Sim => {
                    let estimate = Estimate::of(experiment, jobs(args, experiment));
                    writeln!(console.out, "; {estimate}")?;
                }
                // Mininet takes as long as the traffic.
                Backend::Mininet => writeln!(console.out)?,
            }
        }
        return Ok(());
    }
    interrupt::catch_ctrl_c()?;
    for experiment in &experiments {
        run_one(experiment, args, console)?;
    }
    Ok(())
}

/// What `--check` found out about an experiment.
fn checked(file: &Path, experiment: &Experiment, args: &Args) -> Value {
    let estimate = (args.on == Backend::Sim).then(|| Estimate::of(experiment, jobs(args, experiment)));
    let schemes: Vec<&str> = experiment.schemes.iter().map(|scheme| scheme.label.as_str()).collect();
    let estimate = estimate.map(|estimate| {
        json!({
            "packet_hops": estimate.packet_hops, "at_most": estimate.at_most,
            "seconds": estimate.time.map(|time| time.as_secs_f64()), "memory_bytes": estimate.memory,
        })
    });
    let traffic = report::describe::traffic(experiment);
    json!({"file": file, "schemes": schemes, "traffic": traffic, "estimate": estimate})
}

fn load(file: &Path, args: &Args, catalogue: &Catalogue) -> Result<Experiment, Failure> {
    let mut experiment =
        Experiment::load_with(catalogue, file, &args.set, args.seed).map_err(Failure::input)?;
    if !args.schemes.is_empty() {
        experiment.retain_schemes(&args.schemes).map_err(Failure::input)?;
    }
    let in_mininet = args.on == Backend::Mininet && experiment.host_rate() > MININET_LIMIT;
    if let Some(rate) = args.rate.or(in_mininet.then_some(MININET_RATE)) {
        experiment = experiment.at_rate(rate).map_err(Failure::input)?;
    }
    if args.on == Backend::Mininet {
        // Agents have their flows before the traffic starts.
        experiment.list_flows().map_err(Failure::input)?;
    }
    Ok(experiment)
}

/// As many as asked for, else as keep all cores busy.
fn jobs(args: &Args, experiment: &Experiment) -> usize {
    args.jobs.map_or_else(|| pool::at_a_time(experiment.schemes.len(), pool::cores()), NonZeroUsize::get)
}

/// Refuses options that would do nothing.
fn check_backend(args: &Args) -> Result<(), Failure> {
    let given = [
        ("--switch", args.switch.is_some()),
        ("--cli", args.cli),
        ("--pcap", args.pcap.is_some()),
        ("--policy-key", args.policy_key.is_some()),
    ];
    match given.iter().find(|(_, given)| *given && args.on == Backend::Sim) {
        Some((name, _)) => Err(Failure::input(format!("{name} is for --on mininet"))),
        None => Ok(()),
    }
}

fn run_one(experiment: &Experiment, args: &Args, console: &mut Console) -> Result<(), Failure> {
    let place = match &args.out {
        Some(dir) => RunDir::at(dir).map_err(Failure::input)?,
        None => RunDir::numbered(&experiment.spec.name, experiment.spec.seed),
    };
    let mut described = report::describe(experiment, &console.kit.charts);
    let before = described.clone();
    let keeper = Keeper::new(place, &before, experiment)?;
    interrupt::results_are_in(keeper.partial());
    for (what, value) in &described.facts {
        console.detail(format_args!("{}: {what} {value}", described.name));
    }
    let mut kept = Kept { watch: Watch::new(console.watched), keeper };
    let outcome = match args.on {
        Backend::Sim => {
            let results = weir_sim::run_on(experiment, jobs(args, experiment), &mut kept);
            results.map_err(Failure::of_run).map(|results| (results, None, None))
        }
        Backend::Mininet => in_mininet(experiment, args, &mut kept),
    };
    let Kept { watch, keeper } = kept;
    drop(watch);
    let (results, facts, failure) = match outcome {
        Ok((results, _, Some(failure))) if results.order.is_empty() => {
            keeper.discard();
            return Err(failure);
        }
        Err(failure) => {
            keeper.discard();
            return Err(failure);
        }
        Ok(outcome) => outcome,
    };
    described.facts.extend(facts.iter().flat_map(fabric_facts));
    let written = keeper.finish(&results, &described, |dir| {
        if args.perfetto {
            let mut file = BufWriter::new(File::create(dir.join(perfetto::FILE))?);
            perfetto::write(&results, &mut file)?;
            file.flush()?;
        }
        facts.as_ref().map_or(Ok(()), |facts| report::write_fabric(dir, facts))
    });
    let dir = written.map_err(Failure::work)?;
    let page = dir.join("report.html");
    if console.style.json {
        let answer = json!({
            "experiment": results.summary.experiment, "directory": dir, "report": page,
            "summary": results.summary, "fabric": facts,
        });
        console.answer(&answer)?;
    } else if console.style.quiet {
        writeln!(console.out, "{}", page.display())?;
    } else {
        print(&results, &described, &page, console)?;
        if let Some(facts) = &facts {
            print_fabric(facts, console)?;
        }
    }
    let deadlocks = report::deadlocks(&results);
    match (failure, results.summary.partial) {
        (Some(failure), _) => Err(failure),
        (None, true) => Err(Failure::Interrupted(format!("{} has what was done until then", dir.display()))),
        (None, false) if deadlocks.is_empty() => Ok(()),
        (None, false) => Err(Failure::Work(format!("{}: {}", experiment.spec.name, deadlocks.join("; ")))),
    }
}

type Outcome = (Results, Option<FabricFacts>, Option<Failure>);

fn in_mininet(experiment: &Experiment, args: &Args, kept: &mut Kept<'_>) -> Result<Outcome, Failure> {
    let pcaps = args.pcap.as_deref().map(folder).transpose()?;
    let policy_key = args.policy_key.as_deref().map(check_key).transpose()?;
    let spec = &experiment.spec;
    if !spec.faults.is_empty()
        || spec.policy.as_ref().is_some_and(|it| !it.set.is_empty() || !it.tune.is_empty())
    {
        return Err(Failure::input(
            "`faults`, and `set` and `tune` of `policy`, are for virtual time; in Mininet it is you who cuts links, and \
             `weir policy set` that sets policies",
        ));
    }
    if spec.policy.is_some() && policy_key.is_none() {
        return Err(Failure::input(
            "`policy`: Mininet's hosts need a key that is a secret, give --policy-key FILE",
        ));
    }
    let options = mininet::Options { switch: args.switch, cli: args.cli, pcaps, policy_key };
    let outcome = mininet::run(experiment, &options, &mut kept.watch)?;
    Ok((outcome.results, Some(outcome.facts), outcome.failure))
}

/// Returns the facts about a real fabric for the report's heading.
fn fabric_facts(facts: &FabricFacts) -> Vec<(String, String)> {
    let rtts = facts.schemes.values().map(|scheme| scheme.base_rtt_us / 1e3).fold(0.0, f64::max);
    vec![
        ("switch".to_owned(), facts.switch.name().to_owned()),
        ("base RTT".to_owned(), format!("{} ms, measured", format::decimal(rtts, 1))),
    ]
}

fn print_fabric(facts: &FabricFacts, console: &mut Console) -> Result<(), Failure> {
    let out = &mut console.out;
    for (label, scheme) in &facts.schemes {
        let (flows, astray) =
            (scheme.flows.len(), scheme.flows.iter().filter(|flow| !flow.same_path).count());
        writeln!(
            out,
            "{label}: {} pairs answer a ping, in {} ms at most; data and ACKs of {} of {flows} flows took the planned path.",
            scheme.pairs,
            format::decimal(scheme.ping_rtt_us / 1e3, 1),
            flows - astray,
        )?;
    }
    Ok(())
}

fn print(results: &Results, described: &Run, page: &Path, console: &mut Console) -> Result<(), Failure> {
    let summary = &results.summary;
    let out = &mut console.out;
    writeln!(out, "{}", described.about.as_ref().unwrap_or(&described.name))?;
    writeln!(out, "{}", table::table(results, console.styled, console.width))?;
    for line in report::deadlocks(results) {
        writeln!(out, "{line}.")?;
    }
    for line in policy::lines(results) {
        writeln!(out, "{line}.")?;
    }
    if let Some(port) = metrics::bottleneck(summary) {
        let port = metrics::port_name(results, port);
        writeln!(out, "Queue and utilisation at {port}, the port with the longest queue.")?;
    }
    writeln!(
        out,
        "{} {} in {} s: {} packet-hops, {} a second.",
        report::page::simulated(results),
        if summary.backend == "sim" { "simulated" } else { "of traffic" },
        format::significant(summary.wall_s),
        format::count(summary.packet_hops),
        format::count((summary.packet_hops as f64 / summary.wall_s.max(1e-9)) as u64),
    )?;
    writeln!(out, "Digest {}", summary.digest)?;
    writeln!(out, "Report {}", page.display())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;
    use weir_sim::Catalogue;

    fn parse(text: &str) -> Result<Experiment, String> {
        Experiment::parse(text, "help.yaml", "help", &[], None).map_err(|error| error.to_string())
    }

    /// The experiment in the help, as a file.
    fn example() -> String {
        let (_, rest) = FILES.split_once("A complete experiment file:\n\n").unwrap();
        let (example, _) = rest.split_once("\n\n").unwrap();
        example.lines().map(|line| format!("{}\n", &line[2..])).collect()
    }

    #[test]
    fn the_example_in_the_help_is_an_experiment() {
        let experiment = parse(&example()).unwrap();
        assert_eq!((experiment.schemes.len(), experiment.flows.len()), (3, 2));
    }

    /// The text is made from the schema, and the schema from the types that read the file: this tests the whole chain.
    #[test]
    fn the_help_names_every_key() {
        let help = help(&reference::terminal(&Catalogue::builtin().schema()));
        for key in ["transport.ack_every", "observe.fairness_window", "flows[].from", "pfc.threshold"] {
            assert!(help.contains(&format!("\n  {key} ")), "{key}");
        }
        for kind in ["incast", "all-to-all", "fat-tree", "custom", "attack"] {
            assert!(help.contains(&format!("\n  {kind} ")), "{kind}");
        }
        assert!(help.contains("hosts_per_edge") && help.contains("senders*"), "{help}");
    }

    #[test]
    fn the_help_fits_a_narrow_terminal() {
        let help = help(&reference::terminal(&Catalogue::builtin().schema()));
        assert_eq!(help.lines().find(|line| line.chars().count() > 79), None);
    }
}
