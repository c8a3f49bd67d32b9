//! `weir run`: runs the schemes of experiments and writes reports.

mod args;
#[cfg(not(feature = "full"))]
#[path = "run/bars.rs"]
mod live;
#[cfg(feature = "full")]
mod live;
#[cfg(feature = "full")]
mod mininet;

use super::estimate::Estimate;
use super::files::create_dir;
use super::program::Engine;
use super::threads::{Parallelism, thread_count};
use crate::console::{self, Console, Failure};
use crate::interrupt;
pub(super) use args::Args;
use args::BackendKind;
use live::{ProgressView, WebView};
use serde_json::json;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_experiment::backend::{Backend, CorePool, Error, RunOutcome};
use weir_experiment::file::with_position;
use weir_experiment::results::Results;
use weir_experiment::{Catalogue, Experiment};
use weir_report::sweep::{Sweep, SweepRequest, metric_check};
use weir_report::{
    self as report, CheckpointWriter, CheckpointingObserver, RunDescription, RunDir, files, format, metrics,
    names, perfetto, policy, table,
};
use weir_sim::Simulation;
use weir_switch::drops::DropReason;
use weir_units::Bandwidth;

/// The part of the help before the keys: an example and the structure of experiment files.
const FILES: &str = include_str!("run.txt");

/// Returns the part of `weir run --help` after the options: experiment files and their keys.
pub(super) fn help(keys: &str) -> String {
    format!("{FILES}\n{keys}{VALUES}")
}

/// The part of the help after the keys: how values are written.
const VALUES: &str = "
Sizes are written 64KB; websearch, fb_hadoop, alistorage, google_rpc2008 or
data_mining; a file of size,cumulative probability; {choice: [2KB, 8KB]};
{uniform: {min: 1KB, max: 1MB}}; {pareto: {mean: 192MB, shape: 1.5}}. Hosts:
h1-h64; h1-h128/2 (every second); h1,h5,h9-h12. Hosts are h1, h2.. and switches
s1, s2.. `weir schema --markdown` lists values and defaults of every key.";

/// Maximum rate of host links in Mininet. Software switches cannot forward at higher rates, so experiments with faster
/// links run as scale models at [`MININET_RATE`].
const MAX_MININET_RATE: Bandwidth = Bandwidth::from_mbps(100);
/// Rate of the slowest host links of such a scale model.
const MININET_RATE: Bandwidth = Bandwidth::from_mbps(10);

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    // All files are loaded first, so that an error in the last one does not cost the runs before it.
    let experiments = args
        .files
        .iter()
        .map(|file| load(file, args, &console.extensions.catalogue))
        .collect::<Result<Vec<_>, _>>()?;
    if args.out.is_some() && experiments.len() > 1 {
        return Err(Failure::input("--out requires a single experiment"));
    }
    check_backend(args)?;
    #[cfg(not(feature = "full"))]
    check_build(args, &experiments)?;
    if let Some(dir) = &args.out {
        RunDir::at(dir).map_err(Failure::input)?;
    }
    for (file, experiment) in args.files.iter().zip(&experiments) {
        let mut warnings = experiment.warnings();
        if args.schemes.is_empty() {
            warnings.extend(metric_check::unknown_paper_values(experiment));
        }
        warnings.iter().for_each(|warning| console::warn(&with_position(file, warning)));
        if has_sweep(experiment) && !args.check {
            Sweep::check_keys(sweep_request(file, args, console))?;
        }
    }
    if args.check {
        return args
            .files
            .iter()
            .zip(&experiments)
            .try_for_each(|(file, experiment)| check(file, experiment, args, console));
    }
    for (file, experiment) in args.files.iter().zip(&experiments) {
        create_backend(experiment, args, None)?
            .check(experiment)
            .map_err(|error| error.at(file.display()))?;
    }
    interrupt::catch_ctrl_c()?;
    let web = WebView::open(args.serve)?;
    if let Some(web) = &web {
        let _ = writeln!(io::stderr(), "Live view {}", web.url());
        if args.waits_for_browser() {
            let start = if args.live {
                "space or the button on the page starts it"
            } else {
                "the button on the page starts it"
            };
            let _ = writeln!(io::stderr(), "The run is paused: {start}; with --serve-now it starts at once.");
        }
    }
    for experiment in &experiments {
        run_one(experiment, args, web.as_ref(), console)?;
    }
    Ok(())
}

/// Checks an experiment like a run before its first event, and prints an estimate of the run's cost.
fn check(file: &Path, experiment: &Experiment, args: &Args, console: &mut Console) -> Result<(), Failure> {
    let at_file = |error: Error| error.at(file.display());
    // A run in Mininet takes as long as its traffic, so it needs no estimate. The estimate precedes the check, because
    // memory that the check frees would not count as memory of the run.
    let estimate = (args.backend == BackendKind::Sim)
        .then(|| Estimate::for_experiment(experiment, parallelism(args, experiment), args.engine.into()));
    let estimate = estimate.transpose().map_err(at_file)?;
    create_backend(experiment, args, None)?.check(experiment).map_err(at_file)?;
    let pfc_cycle = experiment.pfc_cycle();
    if let Some(cycle) = &pfc_cycle {
        console::warn(&format!(
            "{}: PFC can deadlock: the routes have the cycle {cycle}; `routing: up-down` has none, and with `pfc: off` \
             nothing waits",
            file.display()
        ));
    }
    let sweep_runs =
        has_sweep(experiment).then(|| Sweep::check(sweep_request(file, args, console))).transpose()?;
    let traffic = report::describe::traffic(experiment);
    let (pfc, routes) = (report::describe::pfc(experiment), report::describe::routes(experiment));
    if console.style.json {
        let schemes: Vec<&str> = experiment.schemes.iter().map(|scheme| scheme.label.as_str()).collect();
        let estimate = estimate.map(|estimate| {
            json!({
                "packet_hops": estimate.packet_hops, "flows": estimate.flows, "flows_by_class": estimate.flows_by_class, "at_most": estimate.is_upper_bound,
                "seconds": estimate.wall_time.map(|time| time.as_secs_f64()), "memory_bytes": estimate.memory_bytes,
            })
        });
        return console.print_json(&json!({
            "file": file, "schemes": schemes, "traffic": traffic, "pfc": pfc, "pfc_cycle": pfc_cycle,
            "routes": routes, "estimate": estimate, "sweep_runs": sweep_runs,
        }));
    }
    let schemes = experiment.schemes.len();
    let schemes = if schemes == 1 { "1 scheme".to_owned() } else { format!("{schemes} schemes") };
    write!(console.out, "{}: ok, {schemes}, {traffic}; PFC {pfc}", file.display())?;
    if let Some(routes) = routes {
        write!(console.out, "; routes: {routes}")?;
    }
    if let Some(estimate) = estimate {
        write!(console.out, "; {estimate}")?;
    }
    if let Some(runs) = sweep_runs {
        write!(console.out, "; the sweep has {runs} runs, all valid")?;
    }
    Ok(writeln!(console.out)?)
}

/// Returns whether the file's `sweep` block names values.
fn has_sweep(experiment: &Experiment) -> bool {
    experiment.spec.sweep.as_ref().is_some_and(|sweep| !sweep.over.is_empty())
}

/// Returns the sweep of the file's `sweep` block.
fn sweep_request<'a>(file: &'a Path, args: &'a Args, console: &'a Console) -> SweepRequest<'a> {
    let (set, schemes): (&[_], &[_]) = (&args.set, &args.schemes);
    let extensions = &console.extensions;
    SweepRequest { extensions, file, set, schemes, over: &[], metrics: &[], dir: None }
}

fn load(file: &Path, args: &Args, catalogue: &Catalogue) -> Result<Experiment, Failure> {
    let mut experiment =
        Experiment::load_with(catalogue, file, &args.set, args.seed).map_err(Failure::input)?;
    if !args.schemes.is_empty() {
        experiment.retain_schemes(&args.schemes).map_err(Failure::input)?;
    }
    let exceeds_mininet = args.backend == BackendKind::Mininet && experiment.host_rate() > MAX_MININET_RATE;
    if let Some(rate) = args.rate.or(exceeds_mininet.then_some(MININET_RATE)) {
        experiment = experiment.at_rate(rate).map_err(Failure::input)?;
    }
    if args.backend == BackendKind::Mininet {
        // Each agent gets the list of its flows before the traffic starts, so the flows cannot be generated on the way.
        experiment.list_flows().map_err(Failure::input)?;
    }
    Ok(experiment)
}

/// Returns the number of threads and of concurrent schemes. A run with a live view has one of each, so that
/// it can be paused.
fn parallelism(args: &Args, experiment: &Experiment) -> Parallelism {
    if args.has_live_view() {
        return Parallelism { threads: 1, jobs: 1 };
    }
    let jobs = args.jobs.map(NonZeroUsize::get);
    let threads = thread_count(jobs, args.threads);
    Parallelism { threads, jobs: jobs.unwrap_or(threads).min(threads).min(experiment.schemes.len().max(1)) }
}

/// Rejects options that have no effect with the chosen backend.
fn check_backend(args: &Args) -> Result<(), Failure> {
    let mininet_options = [
        ("--switch", args.switch.is_some()),
        ("--process-per-switch", args.process_per_switch),
        ("--cli", args.cli),
        ("--pcap", args.pcap.is_some()),
        ("--policy-key", args.policy_key.is_some()),
    ];
    if args.backend == BackendKind::Mininet && args.engine == Engine::Interpreter {
        return Err(Failure::input("--engine requires --backend sim"));
    }
    match mininet_options.iter().find(|(_, is_given)| *is_given && args.backend == BackendKind::Sim) {
        Some((name, _)) => Err(Failure::input(format!("{name} requires --backend mininet"))),
        None => Ok(()),
    }
}

/// Rejects what a build without the feature `full` cannot do.
#[cfg(not(feature = "full"))]
fn check_build(args: &Args, experiments: &[Experiment]) -> Result<(), Failure> {
    let writes_parquet = |experiment: &Experiment| {
        experiment.spec.observe.format == weir_experiment::file::TableFormat::Parquet
    };
    let parts = [
        ("--backend mininet", args.backend == BackendKind::Mininet),
        ("--live", args.live),
        ("--serve", args.serve.serve.is_some()),
        ("`format: parquet`", experiments.iter().any(writes_parquet)),
    ];
    match parts.iter().find(|(_, is_wanted)| *is_wanted) {
        Some((part, _)) => Err(Failure::left_out(part)),
        None => Ok(()),
    }
}

fn run_one(
    experiment: &Experiment,
    args: &Args,
    web: Option<&WebView>,
    console: &mut Console,
) -> Result<(), Failure> {
    let run_dir = match &args.out {
        Some(dir) => RunDir::at(dir).map_err(Failure::input)?,
        None => RunDir::numbered(&experiment.spec.name, experiment.spec.seed),
    };
    let mut description = console.extensions.describe(experiment);
    if let (Some(about), false) = (&mut description.about, args.set.is_empty()) {
        // The title describes the file, which these keys change.
        *about += &format!(" (with {})", args.set.join(", "));
    }
    // For the checkpoints; properties that are known only after the run are added below.
    let initial_description = description.clone();
    let pcaps = args.pcap.as_deref().map(create_dir).transpose()?;
    #[cfg(feature = "full")]
    if args.backend == BackendKind::Mininet {
        mininet::retain_capabilities()?;
    }
    let backend = create_backend(experiment, args, pcaps)?;
    let checkpoints = CheckpointWriter::new(run_dir, &initial_description, experiment)?;
    interrupt::set_results_dir(checkpoints.partial());
    for (label, value) in &description.properties {
        console.detail(format_args!("{}: {label} {value}", description.name));
    }
    let view = ProgressView::open(experiment, args, web, console)?;
    let mut observer = CheckpointingObserver { inner: view, checkpoints };
    let outcome = backend.run(experiment, &mut observer);
    let CheckpointingObserver { inner: view, checkpoints } = observer;
    let (view_result, link_changes) = view.close();
    let RunOutcome { mut results, fabric, failure } = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            checkpoints.discard();
            return Err(error.into());
        }
    };
    results.summary.program = Some(description.program.to_string());
    description.properties.extend(fabric.iter().flat_map(|fabric| fabric.heading.clone()));
    if !link_changes.is_empty() {
        // The experiment file alone does not reproduce these results.
        description.properties.push(("Links changed manually".to_owned(), link_changes.join("; ")));
    }
    let partial_dir = checkpoints.partial().to_owned();
    let written = checkpoints.finish(&results, &description, |dir| {
        if args.perfetto {
            let mut file = BufWriter::new(files::create(&dir.join(names::PERFETTO))?);
            perfetto::write(&results, &mut file)?;
            file.flush()?;
        }
        fabric.as_ref().map_or(Ok(()), |fabric| report::write_fabric(dir, fabric))
    });
    let dir = match written {
        Ok(dir) => dir,
        Err(error) => {
            // If the results cannot be saved, for example because the disk is full, at least print them.
            if !console.style.json && !console.style.quiet {
                print(&results, &description, None, console)?;
            }
            // Left by the last checkpoint.
            let earlier_results = match partial_dir.join(names::SUMMARY).exists() {
                true => format!("; {} has earlier results of this run", partial_dir.display()),
                false => String::new(),
            };
            return Err(Failure::Work(format!("{error}{earlier_results}")));
        }
    };
    // An error of the view is reported only now, when the results are saved.
    view_result?;
    let page = dir.join("report.html");
    if let Some(web) = web {
        web.end(format!("Report {}", page.display()));
    }
    if console.style.json {
        let output = json!({
            "experiment": results.summary.experiment, "directory": dir, "report": page, "schemes": results.order,
            "summary": results.summary, "fabric": fabric.as_ref().map(|fabric| &fabric.json),
        });
        console.print_json(&output)?;
    } else if console.style.quiet {
        writeln!(console.out, "{}", page.display())?;
    } else {
        print(&results, &description, Some(&page), console)?;
        for line in fabric.iter().flat_map(|fabric| &fabric.lines) {
            writeln!(console.out, "{line}")?;
        }
    }
    warn_of_stopped_programs(&results);
    warn_of_telemetry(&results);
    warn_of_long_pauses(&results);
    fabric.iter().flat_map(|fabric| &fabric.warnings).for_each(|warning| console::warn(warning));
    let failures = report::failures(&results);
    match (failure, results.summary.partial) {
        (Some(failure), _) => Err(failure.into()),
        (None, true) => Err(Failure::Interrupted(format!("{} has the results up to then", dir.display()))),
        (None, false) if failures.is_empty() => Ok(()),
        (None, false) => Err(Failure::Work(format!("{}: {}", experiment.spec.name, failures.join("; ")))),
    }
}

/// Warns of packets for which a switch stopped the program. The results list them as drops like others, but they show a
/// fault of the program.
fn warn_of_stopped_programs(results: &Results) {
    for (label, scheme) in &results.summary.schemes {
        for reason in DropReason::ALL.iter().filter(|reason| reason.is_stopped_program()) {
            if let Some(packets) = scheme.drops.get(reason.name()) {
                console::warn(&format!(
                    "{label}: the switches dropped {packets} packets as {}: the program did not end, or an assertion in \
                     it failed",
                    reason.name()
                ));
            }
        }
    }
}

/// Warns of ports that PFC paused for too long.
fn warn_of_long_pauses(results: &Results) {
    /// Number of ports that are named; `summary.json` has all.
    const MAX_WARNINGS: usize = 5;
    let pauses = report::page::long_pauses(results);
    for pause in pauses.iter().take(MAX_WARNINGS) {
        console::warn(&format!("PFC watchdog: {pause}"));
    }
    if pauses.len() > MAX_WARNINGS {
        let more = pauses.len() - MAX_WARNINGS;
        console::warn(&format!("PFC watchdog: {more} more; `long_pauses` in summary.json has all"));
    }
}

/// Warns of telemetry that senders could not use. Records of another path are no fault of a fabric that deflects packets, or
/// whose paths changed.
fn warn_of_telemetry(results: &Results) {
    const OTHER_PATH: &str = "other_path";
    const PATH_CHANGES: &str = "path_changes";
    for (label, scheme) in &results.summary.schemes {
        let has_one_path = scheme.deflections == 0 && !scheme.telemetry.contains_key(PATH_CHANGES);
        let other_path = scheme.telemetry.get(OTHER_PATH).filter(|_| has_one_path);
        if let Some(acks) = other_path {
            console::warn(&format!(
                "{label}: {acks} ACKs had records of another path than that of their data: with telemetry on ACKs, \
                 ACKs must take the path of their data in reverse; are the routes symmetric?"
            ));
        }
        let ignored = scheme
            .telemetry
            .iter()
            .filter(|(check, _)| ![OTHER_PATH, PATH_CHANGES].contains(&check.as_str()));
        let ignored: Vec<String> = ignored.map(|(check, count)| format!("{check} {count}")).collect();
        if !ignored.is_empty() {
            console::warn(&format!("{label}: senders ignored telemetry records: {}", ignored.join(", ")));
        }
    }
}

/// Returns the backend that runs the experiment. `pcaps` is the directory for captures.
fn create_backend(
    experiment: &Experiment,
    args: &Args,
    #[cfg_attr(not(feature = "full"), expect(unused))] pcaps: Option<PathBuf>,
) -> Result<Box<dyn Backend>, Failure> {
    if args.backend == BackendKind::Sim {
        let Parallelism { threads, jobs } = parallelism(args, experiment);
        let (cores, engine) = (Arc::new(CorePool::new(threads)), args.engine.into());
        let virtual_time =
            Simulation { jobs, engine, trace_paths: args.perfetto, ..Simulation::with_cores(cores) };
        return Ok(Box::new(virtual_time));
    }
    #[cfg(feature = "full")]
    return mininet::backend(experiment, args, pcaps);
    // `check_build` rejects it before.
    #[cfg(not(feature = "full"))]
    return Err(Failure::left_out("--backend mininet"));
}

fn print(
    results: &Results,
    description: &RunDescription,
    page: Option<&Path>,
    console: &mut Console,
) -> Result<(), Failure> {
    let summary = &results.summary;
    let out = &mut console.out;
    writeln!(out, "{}", description.about.as_ref().unwrap_or(&description.name))?;
    writeln!(out, "{}", table::table(results, console.styled, console.width))?;
    for line in report::failures(results) {
        writeln!(out, "{line}.")?;
    }
    for line in policy::lines(results) {
        writeln!(out, "{line}.")?;
    }
    if let Some(port) = metrics::bottleneck(summary) {
        writeln!(out, "{}.", metrics::port_note(results, port))?;
    }
    for line in report::page::sample_notes(results) {
        writeln!(out, "{line}.")?;
    }
    if let Some((_, routes)) = description.properties.iter().find(|(label, _)| label == "routes") {
        writeln!(out, "Routes: {routes}.")?;
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
    if let Some(page) = page {
        writeln!(out, "Report {}", page.display())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;
    use weir_experiment::Catalogue;

    fn parse(text: &str) -> Result<Experiment, String> {
        Experiment::parse(text, "help.yaml", "help", &[], None).map_err(|error| error.to_string())
    }

    /// Returns the experiment in the help, as a file.
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

    /// The help is generated from the JSON Schema, and the schema from the types that parse the file; this tests all of
    /// it.
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
