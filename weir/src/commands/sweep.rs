//! `weir sweep`

use crate::console::{Console, Failure};
use crate::files::{PUBLIC, write_whole};
use crate::interrupt;
use crate::output::Output;
use crate::report::dir::{RUNS, file_name};
use crate::sweep::dir::{PAGE, RUNS_TABLE, TABLE};
use crate::sweep::grid::Grid;
use crate::sweep::measure::Measure;
use crate::sweep::page::{self, About};
use crate::sweep::plausible;
use crate::sweep::pool::{self, Outcome, Task};
use crate::sweep::table::Findings;
use crate::{report, sweep};
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use weir_sim::experiment::Experiment;

/// Run an experiment many times, keys and seeds varied, and compare
///
/// Every combination of the values is a run of its own, `jobs` of them at a time. The table gives the mean and the
/// 95 % confidence interval over the seeds and over keys marked with ~.
#[derive(Debug, clap::Args)]
#[command(after_help = "`weir sweep --help` has examples.", after_long_help = HELP)]
pub struct Args {
    /// Experiment file (YAML)
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// A key and the values it takes: key=a,b,c or seed=1..5
    ///
    /// Keys are those of `weir run --set`. Commas within brackets belong to a value. Without any, those of the
    /// file's `sweep` block. Keys that change together: a+b=1+10,2+20. Times at even distances: key=0us..12us/25. A key
    /// with ~ before it is not compared: numbers are means over its values, as they are over seeds.
    #[arg(long, value_name = "KEY=VALUES")]
    over: Vec<String>,

    /// A number to show of every run; absent: those of the report
    ///
    /// A place in a scheme's part of summary.json such as fct.slowdown.p95, a formula over schemes as in the
    /// experiment's `paper.ours`, or a row of the report such as "peak queue". HEADING=.. names it.
    #[arg(long, value_name = "PLACE")]
    metric: Vec<String>,

    /// Replace a key in every run, as in `weir run`
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Run only these of the file's schemes, by label
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    schemes: Vec<String>,

    /// Runs at a time; absent: one for each core
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    jobs: Option<u32>,

    /// Where to write, instead of runs/<name>-sweep
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Do again what is done
    #[arg(long)]
    fresh: bool,

    #[command(flatten)]
    output: Output,
}

const HELP: &str = "\
Examples:
  weir sweep experiments/quickstart.yaml --over topology.rate=100Gbps,400Gbps
  weir sweep x.yaml --over workload.load=0.2,0.4,0.6 --over seed=1..5 \\
    --metric fct.slowdown.p95 --metric \"pauses\" --jobs 2
  weir sweep x.yaml --over seed=1..10 \\
    --metric \"less queue=fncc.queues.s1:3.peak_bytes vs hpcc.queues.s1:3.peak_bytes\"

In the experiment file, for `weir sweep x.yaml` alone:
  sweep:
    over: [\"workload.load=0.2,0.4,0.6\", \"seed=1..5\"]
    metrics: [fct.slowdown.p95]

What a sweep leaves in its directory:
  report.html    table, a chart for each metric, links to the runs
  sweep.csv      mean and 95 % confidence interval of each metric
  runs.csv       the values of every run, and its digest
  <key>=<value>,seed=<n>/    what `weir run` leaves, one for each run

A run that is done is not done again: the same command goes on after Ctrl-C or
`kill`, and a longer list of values runs what is new. A run whose experiment has
changed is done again, and one whose files do not match its SHA256SUMS. The same
runs give the same bytes in sweep.csv and runs.csv, however many ran at a time.

Exit status: as of `weir run`.";

/// Does it.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let base =
        Experiment::load_with(&console.kit.catalogue, &args.file, &args.set, None).map_err(Failure::input)?;
    let in_file = base.spec.sweep.clone().unwrap_or_default();
    let (over, origin) =
        if args.over.is_empty() { (in_file.over, "sweep.over") } else { (args.over.clone(), "--over") };
    if over.is_empty() {
        return Err(Failure::input(format!(
            "{}: nothing to vary, give --over seed=1..5 or the like, or a sweep block in the file",
            args.file.display()
        )));
    }
    let grid = Grid::parse(&over).map_err(|why| Failure::input(format!("{origin} {why}")))?;
    let asked = if args.metric.is_empty() { in_file.metrics } else { args.metric.clone() };
    let dir = match &args.out {
        Some(dir) => dir.clone(),
        None => Path::new(RUNS).join(format!("{}-sweep", file_name(&base.spec.name))),
    };
    sweep::dir::check(&dir).map_err(Failure::input)?;
    let cells = grid.cells();
    let dirs: Vec<String> = cells.iter().map(|cell| grid.dir_name(cell)).collect();
    let tasks: Vec<Task> = cells
        .iter()
        .zip(&dirs)
        .map(|(cell, name)| Task {
            kit: console.kit.clone(),
            file: args.file.clone(),
            set: args.set.iter().cloned().chain(grid.overrides(cell)).collect(),
            seed: grid.seed(cell),
            schemes: args.schemes.clone(),
            dir: dir.join(name),
        })
        .collect();
    let outcomes = pool::check(&tasks)?;
    plausible::check(&asked, &tasks).map_err(|failure| failure.at("--metric"))?;
    let _lock = report::dir::lock(&dir, &dir)?;
    interrupt::catch_ctrl_c()?;
    interrupt::results_are_in(&dir);
    let jobs = args.jobs.map_or_else(pool::cores, |jobs| jobs as usize);
    let outcomes = pool::run(&tasks, outcomes, jobs, args.fresh, console);

    let measures = measures(&asked, &outcomes)?;
    let findings = Findings::new(&grid, &outcomes, measures);
    let command = command(args, &over);
    let about = About { name: &base.spec.name, title: &base.spec.title, command: &command };
    let page = dir.join(PAGE);
    write(&dir, &about, &findings, &dirs)
        .map_err(|error| Failure::work(format!("{}: {error}", dir.display())))?;
    if console.style.json {
        console.answer(&answer(&about, &findings, &dir, &dirs))?;
    } else if console.style.quiet {
        writeln!(console.out, "{}", page.display())?;
    } else {
        print(&about, &findings, &outcomes, &page, console)?;
    }
    ending(&findings, &outcomes, &dir)
}

/// The result for programs: the means of `sweep.csv`, and which runs failed.
fn answer(about: &About<'_>, findings: &Findings<'_>, dir: &Path, dirs: &[String]) -> Value {
    let rows = findings.rows.iter().map(|row| {
        let metrics = findings.measures.iter().zip(&row.estimates).filter_map(|(measure, estimate)| {
            let estimate = estimate.as_ref()?;
            let value = json!({
                "unit": measure.unit(), "runs": estimate.runs, "mean": estimate.mean, "ci95_half": estimate.half,
            });
            Some((measure.name.clone(), value))
        });
        let point: Map<String, Value> =
            findings.keys().into_iter().map(str::to_owned).zip(row.point.iter().cloned().map(Value::from)).collect();
        json!({"point": point, "scheme": row.subject, "metrics": metrics.collect::<Map<_, _>>()})
    });
    let failed = findings.runs.iter().zip(dirs).filter_map(|((_, outcome), run)| {
        Some(json!({"run": run, "error": outcome.failure.as_ref()?.to_string()}))
    });
    json!({
        "experiment": about.name, "directory": dir, "report": dir.join(PAGE),
        "runs": {"done": findings.done(), "of": findings.runs.len(),
            "before": findings.runs.iter().filter(|(_, outcome)| outcome.kept).count(),
            "failed": failed.collect::<Vec<_>>()},
        "rows": rows.collect::<Vec<_>>(),
    })
}

/// Returns the numbers to show of the runs that are done.
fn measures(asked: &[String], outcomes: &[Outcome]) -> Result<Vec<Measure>, Failure> {
    let done: Vec<_> =
        outcomes.iter().filter_map(|o| Some((o.summary.as_ref()?, o.order.as_slice()))).collect();
    if asked.is_empty() {
        return Ok(Measure::usual(&done));
    }
    let Some((first, order)) = done.first() else { return Ok(Vec::new()) };
    let read = |text: &String| Measure::parse(text, first, order);
    let list: Result<_, _> = asked.iter().map(read).collect();
    list.map_err(|why| Failure::input(format!("--metric {why}; the runs are kept")))
}

fn command(args: &Args, over: &[String]) -> String {
    let quoted = |text: &String| {
        let plain = text.chars().all(|c| c.is_alphanumeric() || "=.,:_-+/%".contains(c));
        if plain { text.clone() } else { format!("'{}'", text.replace('\'', "'\\''")) }
    };
    let mut words = vec!["weir sweep".to_owned(), args.file.display().to_string()];
    for (option, values) in [("--set", &args.set[..]), ("--over", over), ("--metric", &args.metric)] {
        words.extend(values.iter().map(|value| format!("{option} {}", quoted(value))));
    }
    if !args.schemes.is_empty() {
        words.push(format!("--schemes {}", args.schemes.join(",")));
    }
    words.join(" ")
}

/// Every file is whole at any moment.
fn write(dir: &Path, about: &About<'_>, findings: &Findings<'_>, dirs: &[String]) -> io::Result<()> {
    let put = |name: &str, content: &[u8]| write_whole(&dir.join(name), content, PUBLIC);
    put(TABLE, &findings.csv()?)?;
    put(RUNS_TABLE, &findings.runs_csv()?)?;
    for (name, svg) in page::svgs(findings) {
        put(&name, svg.as_bytes())?;
    }
    put(PAGE, page::page(about, findings, dirs).as_bytes())
}

fn print(
    about: &About<'_>,
    findings: &Findings<'_>,
    outcomes: &[Outcome],
    page: &Path,
    console: &mut Console,
) -> Result<(), Failure> {
    let out = &mut console.out;
    writeln!(out, "{}", if about.title.is_empty() { about.name } else { about.title })?;
    if !findings.rows.is_empty() {
        writeln!(out, "{}", findings.text(console.styled, console.width))?;
    }
    let kept = outcomes.iter().filter(|outcome| outcome.kept).count();
    let before = if kept > 0 { format!(", {kept} of them before") } else { String::new() };
    writeln!(out, "{} of {} runs done{before}.", findings.done(), outcomes.len())?;
    writeln!(out, "Report {}", page.display())?;
    Ok(())
}

/// The exit status: wrong input, failed work, broken off, or none of it.
fn ending(findings: &Findings<'_>, outcomes: &[Outcome], dir: &Path) -> Result<(), Failure> {
    let (done, of) = (findings.done(), outcomes.len());
    let mut failures = outcomes.iter().filter_map(|outcome| outcome.failure.as_ref());
    match failures.next() {
        Some(first) if of > 1 => {
            let count = 1 + failures.count();
            let told = |why: &String| format!("{why} ({count} of {of} runs failed)");
            Err(match first {
                Failure::Input(why) => Failure::Input(told(why)),
                Failure::Work(why) => Failure::Work(told(why)),
                other => other.clone(),
            })
        }
        Some(first) => Err(first.clone()),
        None if done < of => Err(Failure::Interrupted(format!(
            "{} has {done} of {of} runs; the same command goes on",
            dir.display()
        ))),
        None => Ok(()),
    }
}
