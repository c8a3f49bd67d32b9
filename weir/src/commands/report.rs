//! `weir report`: compares runs on one page.

use super::files::open_output;
use crate::console::{Console, Failure, warn};
use crate::output::ActionOutput;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use weir_report::files::MODE_PUBLIC;
use weir_report::manifest::Integrity;
use weir_report::names::MANIFEST;
use weir_report::{compare, format, load, page, rescale, table};

/// Compare runs: one page with the schemes of several run directories side by side
///
/// Reads run directories of `weir run`, of both backends, complete or partial, and writes one HTML file: the
/// differences between the experiments, every number with its change from the first run, the papers' values,
/// and all schemes in the same plots. Runs nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// Run directories, such as runs/quickstart-1 or a run of a sweep
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,

    /// Output file; an existing one is replaced
    #[arg(long, short, value_name = "FILE", default_value = "comparison.html")]
    out: PathBuf,

    #[command(flatten)]
    output: ActionOutput,
}

const HELP: &str = "\
Examples:
  weir report runs/quickstart-1 runs/quickstart-2 --out both.html
  weir report runs/x-sweep/seed=1 runs/x-sweep/seed=2
  weir report runs/long-1.partial    the results of a killed run so far

Each file is verified with the run's SHA256SUMS. A damaged run is
an error; one without SHA256SUMS, of an earlier version, is read with a warning.";

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let runs = args
        .dirs
        .iter()
        .map(|dir| load::load(dir, &console.extensions.catalogue, &console.extensions.charts))
        .collect::<Result<Vec<_>, _>>();
    let mut runs = runs.map_err(Failure::input)?;
    // Scale models become comparable with runs at full speed.
    rescale::convert(&mut runs);
    let out = open_output("--out", &args.out)?;
    let write_error = |error: std::io::Error| Failure::work(format!("{}: {error}", args.out.display()));
    for (run, dir) in runs.iter().zip(&args.dirs) {
        // A partial run has no manifest yet.
        if run.integrity == Integrity::Unknown && !run.results.summary.partial {
            warn(&format!("{}: {MANIFEST} missing, files not verified", dir.display()));
        }
    }
    out.write(compare::comparison_page(&runs).as_bytes(), MODE_PUBLIC).map_err(write_error)?;
    if out.is_stdout() {
        return Ok(());
    }
    if console.style.json {
        let run_json = |run: &load::LoadedRun| {
            json!({
                "name": run.name, "slowdown": run.slowdown, "divided_by": run.time_divisor,
                "schemes": run.results.order, "without_tables": run.missing_tables, "summary": run.results.summary,
            })
        };
        return console
            .print_json(&json!({"report": args.out, "runs": runs.iter().map(run_json).collect::<Vec<_>>()}));
    }
    if !console.style.quiet {
        for (run, port) in runs.iter().zip(compare::ports(&runs)) {
            let incomplete = if run.results.summary.partial { " (incomplete)" } else { "" };
            let scale = run.time_divisor.map_or_else(String::new, |factor| {
                format!(" (scale model: times divided by {})", format::significant_short(factor))
            });
            writeln!(console.out, "{}{incomplete}{scale}", run.name)?;
            let table = table::table_at(&run.results, port.as_deref(), console.styled, console.width);
            writeln!(console.out, "{table}")?;
            for line in page::sample_notes(&run.results) {
                writeln!(console.out, "{line}.")?;
            }
        }
        for line in compare::port_sentence(&runs).into_iter().chain(compare::left_out(&runs)) {
            writeln!(console.out, "{line}.")?;
        }
        write!(console.out, "Report ")?;
    }
    writeln!(console.out, "{}", args.out.display())?;
    Ok(())
}
