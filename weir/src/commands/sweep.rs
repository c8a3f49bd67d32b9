//! `weir sweep`

use crate::console::{Console, Failure};
use crate::interrupt;
use crate::output::Output;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use weir_experiment::backend::Error;
use weir_report::sweep::dir::PAGE;
use weir_report::sweep::pool::Outcome;
use weir_report::sweep::table::Findings;
use weir_report::sweep::{Asked, Sweep};

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
    let sweep = Sweep::plan(Asked {
        kit: &console.kit,
        file: &args.file,
        set: &args.set,
        schemes: &args.schemes,
        over: &args.over,
        metrics: &args.metric,
        dir: args.out.as_deref(),
    })?;
    interrupt::catch_ctrl_c()?;
    interrupt::results_are_in(&sweep.dir);
    let outcomes = sweep.run(&super::pool(args.jobs, args.fresh, console));
    let findings = sweep.findings(&outcomes)?;
    let command = command(args, &sweep.over);
    let page = sweep.write(&findings, &command)?;
    if console.style.json {
        console.answer(&answer(&sweep, &findings))?;
    } else if console.style.quiet {
        writeln!(console.out, "{}", page.display())?;
    } else {
        print(&sweep, &findings, &outcomes, &page, console)?;
    }
    ending(&findings, &outcomes, &sweep.dir)
}

/// The result for programs: the means of `sweep.csv`, and which runs failed.
fn answer(sweep: &Sweep, findings: &Findings<'_>) -> Value {
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
    let failed = findings.runs.iter().zip(&sweep.dirs).filter_map(|((_, outcome), run)| {
        Some(json!({"run": run, "error": outcome.failure.as_ref()?.to_string()}))
    });
    json!({
        "experiment": sweep.name, "directory": sweep.dir, "report": sweep.dir.join(PAGE),
        "runs": {"done": findings.done(), "of": findings.runs.len(),
            "before": findings.runs.iter().filter(|(_, outcome)| outcome.kept).count(),
            "failed": failed.collect::<Vec<_>>()},
        "rows": rows.collect::<Vec<_>>(),
    })
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

fn print(
    sweep: &Sweep,
    findings: &Findings<'_>,
    outcomes: &[Outcome],
    page: &Path,
    console: &mut Console,
) -> Result<(), Failure> {
    let out = &mut console.out;
    writeln!(out, "{}", if sweep.title.is_empty() { &sweep.name } else { &sweep.title })?;
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
                Error::Input(why) => Failure::Input(told(why)),
                Error::Work(why) => Failure::Work(told(why)),
            })
        }
        Some(first) => Err(first.clone().into()),
        None if done < of => Err(Failure::Interrupted(format!(
            "{} has {done} of {of} runs; the same command goes on",
            dir.display()
        ))),
        None => Ok(()),
    }
}
