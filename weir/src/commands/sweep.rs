//! `weir sweep`: runs an experiment for all combinations of keys and seeds.

mod ray;

use super::threads;
use crate::console::{Console, Failure, warn};
use crate::interrupt;
use crate::output::ActionOutput;
use serde_json::{Map, Value, json};
use std::fs;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf, absolute};
use weir_experiment::backend::Error;
use weir_report::dir::PARTIAL_SUFFIX;
use weir_report::sweep::dir::PAGE;
use weir_report::sweep::engine::Engine;
use weir_report::sweep::pool::RunResult;
use weir_report::sweep::slurm::Slurm;
use weir_report::sweep::table::SweepResults;
use weir_report::sweep::{Sweep, SweepRequest};

/// Run an experiment for all combinations of keys and seeds, and compare
///
/// Every combination of the values is a run. The table shows the mean and the 95 % confidence interval over
/// the seeds and over keys marked with ~.
#[derive(Debug, clap::Args)]
#[command(after_help = "`weir sweep --help` has examples.", after_long_help = HELP)]
pub(super) struct Args {
    /// Experiment file (YAML)
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// A key and its values: key=a,b,c or seed=1..5 (repeatable)
    ///
    /// Keys are those of `weir run --set`; commas inside brackets belong to a value. Without --over, the
    /// `sweep` block of the file applies. Keys that change together: a+b=1+10,2+20. Evenly spaced values:
    /// key=0us..12us/25. Prefix a key with ~ to average over its values, like seeds.
    #[arg(long, value_name = "KEY=VALUES")]
    over: Vec<String>,

    /// Metric to report (repeatable) [default: those of the report]
    ///
    /// A path in a scheme's part of summary.json such as fct.slowdown.p95, a formula over schemes as in
    /// `paper.ours` of an experiment, or a row of the report such as "peak queue". A * stands for every key at
    /// its place: fct.classes.*.slowdown.p99. Prefix HEADING= to set the column heading.
    #[arg(long, value_name = "PLACE")]
    metric: Vec<String>,

    /// Override a key in every run, as in `weir run`
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Run only the schemes with these labels
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    schemes: Vec<String>,

    /// Number of concurrent runs [default: one per core; unlimited with Slurm]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    jobs: Option<u32>,

    /// Number of threads for all runs together [default: one per core]; does not affect results
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Engine that executes the runs; does not affect results
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t)]
    engine: EngineKind,

    /// Slurm: print the scripts for `sbatch` without submitting them
    #[arg(long)]
    dry_run: bool,

    /// Slurm: return once the jobs are queued; the same command waits for them later
    #[arg(long)]
    detach: bool,

    /// Slurm: option for `sbatch`, as in --sbatch=--partition=long
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch: Vec<String>,

    /// Slurm and Ray: retries after a node or process failure
    #[arg(long, value_name = "N", default_value_t = 3)]
    retries: u32,

    /// Execute only run N (row of runs.csv, from 0) and write no tables; for job arrays
    #[arg(long, visible_alias = "only", value_name = "N")]
    run_index: Option<usize>,

    /// Output directory, instead of runs/<name>-sweep
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Repeat completed runs as well
    #[arg(long)]
    fresh: bool,

    #[command(flatten)]
    output: ActionOutput,
}

impl Args {
    /// Returns true if this process runs experiments in virtual time.
    pub(super) fn runs_in_virtual_time(&self) -> bool {
        self.engine == EngineKind::Local
    }
}

/// The engine of a sweep's runs
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum EngineKind {
    /// The cores of this machine
    #[default]
    Local,
    /// Slurm job arrays; the directory must be on a file system shared by the nodes
    Slurm,
    /// Ray tasks, through the Python package: `pip install weir-fabric[ray]`
    Ray,
}

const HELP: &str = "\
Examples:
  weir sweep experiments/quickstart.yaml --over topology.rate=100Gbps,400Gbps
  weir sweep x.yaml --over workload.load=0.2,0.4,0.6 --over seed=1..5 \\
    --metric fct.slowdown.p95 --metric \"pauses\" --jobs 2
  weir sweep x.yaml --over seed=1..100 --engine slurm --sbatch=--time=1:00:00
  weir sweep x.yaml --over seed=1..10 \\
    --metric \"less queue=fncc.queues.s1:3.peak_bytes vs hpcc.queues.s1:3.peak_bytes\"

In the experiment file, for `weir sweep x.yaml` alone:
  sweep:
    over: [\"workload.load=0.2,0.4,0.6\", \"seed=1..5\"]
    metrics: [fct.slowdown.p95]

Files of a sweep in its directory:
  report.html    table, a chart for each metric, links to the runs
  sweep.csv      mean and 95 % confidence interval of each metric
  runs.csv       the values of every run, and its digest
  fct.csv        completion times of every run by workload and size class: the
                 rows of each run's fct.csv after the swept keys and the seed
  <key>=<value>,seed=<n>/    the directory of each run, as in `weir run`

A completed run is not repeated: the same command continues after Ctrl-C or
`kill`, and more values add only the new runs. A run is repeated if its experiment has
changed or its files do not match its SHA256SUMS. The same
runs give the same bytes in sweep.csv and runs.csv, on any engine and with any
number of concurrent runs.

With Slurm, scripts and logs are in slurm/ of the directory. Ctrl-C cancels the
jobs. Failed runs are listed with their reasons, and the same command repeats
them. With another scheduler, give each job one run, `weir sweep
x.yaml --run-index N`; after them `weir sweep x.yaml` writes the tables.

Exit status: as in `weir run`.";

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    check_options(args)?;
    let extensions = console.extensions.clone();
    let request = SweepRequest {
        extensions: &extensions,
        file: &args.file,
        set: &args.set,
        schemes: &args.schemes,
        over: &args.over,
        metrics: &args.metric,
        dir: args.out.as_deref(),
    };
    if let Some(index) = args.run_index {
        return run_single(request, index, args, console);
    }
    let mut sweep = Sweep::plan(request)?;
    if args.dry_run {
        let slurm = slurm(&sweep, args, console)?;
        for script in slurm.scripts(&sweep.pending_runs(warn)) {
            write!(console.out, "{script}")?;
        }
        let dir = sweep.dir.clone();
        drop(sweep);
        // Dropping the sweep removed its lock file. `remove_dir` fails if the directory has runs, which then stay.
        let _ = fs::remove_dir(dir);
        return Ok(());
    }
    sweep.warnings.iter().for_each(|warning| warn(warning));
    interrupt::catch_ctrl_c()?;
    interrupt::set_results_dir(&sweep.dir);
    let engine: Box<dyn Engine> = match args.engine {
        EngineKind::Local => Box::new(threads::pool(args.jobs, args.threads, console)),
        EngineKind::Slurm => Box::new(slurm(&sweep, args, console)?),
        EngineKind::Ray => Box::new(ray::Ray { retries: args.retries, show_progress: console.show_progress }),
    };
    let outcomes = sweep.run(&*engine, args.fresh, warn)?;
    let results = sweep.results(&outcomes);
    let page = sweep.write(&results)?;
    if console.style.json {
        console.print_json(&sweep_json(&sweep, &results))?;
    } else if console.style.quiet {
        writeln!(console.out, "{}", page.display())?;
    } else {
        print(&sweep, &results, &outcomes, &page, console)?;
    }
    if args.detach && results.completed() < outcomes.len() && !interrupt::interrupted() {
        if !console.style.json && !console.style.quiet {
            let jobs = slurm(&sweep, args, console)?.jobs().join(", ");
            writeln!(console.out, "Queued: jobs {jobs}. The same command waits for them.")?;
        }
        return Ok(());
    }
    exit_result(&results, &outcomes, &sweep.dir)
}

/// Rejects options that have no effect with the chosen engine.
fn check_options(args: &Args) -> Result<(), Failure> {
    let (is_local, is_slurm, is_ray) =
        (args.engine == EngineKind::Local, args.engine == EngineKind::Slurm, args.engine == EngineKind::Ray);
    // Option, whether it is given, whether it has an effect, and the requirement for the message.
    let options = [
        ("--dry-run", args.dry_run, is_slurm, "--engine slurm"),
        ("--detach", args.detach, is_slurm, "--engine slurm"),
        ("--sbatch", !args.sbatch.is_empty(), is_slurm, "--engine slurm"),
        ("--jobs", args.jobs.is_some(), !is_ray, "--engine local or slurm; Ray has its own limits"),
        ("--threads", args.threads.is_some(), is_local, "--engine local"),
        ("--fresh", args.fresh, is_local, "--engine local; remove the directory instead"),
        ("--run-index", args.run_index.is_some(), is_local, "--engine local"),
    ];
    match options.iter().find(|(_, is_given, is_applicable, _)| *is_given && !is_applicable) {
        Some((option, .., requirement)) => Err(Failure::Input(format!("{option} requires {requirement}"))),
        None => Ok(()),
    }
}

/// Executes one run of the sweep, for `--run-index`.
fn run_single(
    request: SweepRequest<'_>,
    index: usize,
    args: &Args,
    console: &mut Console,
) -> Result<(), Failure> {
    interrupt::catch_ctrl_c()?;
    let pool = threads::pool(args.jobs, args.threads, console);
    let (dir, outcome) = Sweep::run_one(request, index, &pool, args.fresh, warn)?;
    match outcome {
        RunResult { failure: Some(failure), .. } => Err(failure.into()),
        RunResult { summary: None, .. } => {
            Err(Failure::Interrupted(format!("{}{PARTIAL_SUFFIX} has the results so far", dir.display())))
        }
        _ if console.style.json => console.print_json(&json!({"directory": dir})),
        _ => Ok(writeln!(console.out, "{}", dir.display())?),
    }
}

/// Returns the Slurm engine for the runs of a sweep. Each job executes this program with `--run-index`.
fn slurm(sweep: &Sweep, args: &Args, console: &Console) -> Result<Slurm, Failure> {
    let program = std::env::current_exe().map_err(Failure::work)?;
    let dir = absolute(&sweep.dir).map_err(Failure::work)?;
    let mut command = vec![program.display().to_string()];
    command.extend(sweep.words.iter().cloned());
    command.extend(["--out".to_owned(), dir.display().to_string(), "--run-index".to_owned()]);
    Ok(Slurm {
        name: sweep.name.clone(),
        dir,
        command,
        options: args.sbatch.clone(),
        max_concurrent: args.jobs.map(|jobs| jobs as usize),
        retries: args.retries,
        detach: args.detach,
        is_cancelled: interrupt::interrupted,
        show_progress: console.show_progress,
    })
}

/// Returns the JSON output: the means of `sweep.csv`, and the failed runs.
fn sweep_json(sweep: &Sweep, results: &SweepResults<'_>) -> Value {
    let rows = results.rows.iter().map(|row| {
        let metrics = results.estimates(row).map(|(measure, estimate)| {
            let interval = estimate.filter(|it| it.half_width.is_some()).map(|it| it.interval());
            let value = json!({
                "unit": measure.unit(), "runs": estimate.map_or(0, |it| it.runs), "mean": estimate.map(|it| it.mean),
                "ci95_half": estimate.and_then(|it| it.half_width),
                "ci95_low": interval.map(|(low, _)| low), "ci95_high": interval.map(|(_, high)| high),
            });
            (measure.name.clone(), value)
        });
        let point: Map<String, Value> =
            results.keys().into_iter().map(str::to_owned).zip(row.point.iter().cloned().map(Value::from)).collect();
        json!({"point": point, "scheme": row.subject, "metrics": metrics.collect::<Map<_, _>>()})
    });
    let failed = results.runs.iter().zip(&sweep.dirs).filter_map(|((_, outcome), run)| {
        Some(json!({"run": run, "error": outcome.failure.as_ref()?.to_string()}))
    });
    json!({
        "experiment": sweep.name, "directory": sweep.dir, "report": sweep.dir.join(PAGE),
        "runs": {"done": results.completed(), "of": results.runs.len(),
            "before": results.runs.iter().filter(|(_, outcome)| outcome.is_cached).count(),
            "failed": failed.collect::<Vec<_>>()},
        "rows": rows.collect::<Vec<_>>(),
    })
}

fn print(
    sweep: &Sweep,
    results: &SweepResults<'_>,
    outcomes: &[RunResult],
    page: &Path,
    console: &mut Console,
) -> Result<(), Failure> {
    /// Width of the table in files and pipes: a line of several hundred characters is not readable there either.
    const WIDTH_WITHOUT_TERMINAL: usize = 100;
    let width = console.width.unwrap_or(WIDTH_WITHOUT_TERMINAL);
    let out = &mut console.out;
    writeln!(out, "{}", if sweep.title.is_empty() { &sweep.name } else { &sweep.title })?;
    if !results.rows.is_empty() {
        writeln!(out, "{}", results.text(console.styled, Some(width)))?;
    }
    for sentence in results.notes() {
        writeln!(out, "{sentence}.")?;
    }
    let cached = outcomes.iter().filter(|outcome| outcome.is_cached).count();
    let cached = if cached > 0 { format!(" ({cached} cached)") } else { String::new() };
    writeln!(out, "{} runs: {} complete{cached}.", outcomes.len(), results.completed())?;
    writeln!(out, "Report {}", page.display())?;
    Ok(())
}

/// Returns the first failure of a run, [`Failure::Interrupted`] if runs are missing, or success.
fn exit_result(results: &SweepResults<'_>, outcomes: &[RunResult], dir: &Path) -> Result<(), Failure> {
    let (completed, total) = (results.completed(), outcomes.len());
    let mut failures = outcomes.iter().filter_map(|outcome| outcome.failure.as_ref());
    match failures.next() {
        Some(first) if total > 1 => {
            let failed = 1 + failures.count();
            let with_count = |reason: &String| format!("{reason} ({failed} of {total} runs failed)");
            Err(match first {
                Error::Input(reason) => Failure::Input(with_count(reason)),
                Error::Work(reason) => Failure::Work(with_count(reason)),
            })
        }
        Some(first) => Err(first.clone().into()),
        None if completed < total => Err(Failure::Interrupted(format!(
            "{} has {completed} of {total} runs; repeat the command to continue",
            dir.display()
        ))),
        None => Ok(()),
    }
}
