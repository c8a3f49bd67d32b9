//! `weir results`: runs the experiments of a list and compares them with the papers' numbers.

mod pages;

use super::threads;
use crate::console::{Console, Failure, warn};
use crate::interrupt;
use crate::output::ActionOutput;
use comfy_table::CellAlignment;
use pages::Pages;
use serde_json::{Value, json};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use weir_report::dir;
use weir_report::papers::claims;
use weir_report::papers::list::{self, PlannedExperiment, Section};
use weir_report::papers::markdown::{self, EntryResults};
use weir_report::sweep::engine;
use weir_report::sweep::metric_check;
use weir_report::sweep::pool::{self, RunResult, RunTask};

/// Reproduce the papers' experiments and update the comparison
///
/// Runs the experiments of a list, and all other experiments that have a paper's numbers to compare with
/// (`paper`, with `ours`), on all cores. Completed runs are not repeated. Then updates the tables between the
/// marks of Markdown documents; the text around them is preserved.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// Use the reduced variants (under ten minutes on two cores)
    #[arg(long)]
    quick: bool,

    /// Only these sections of the list, by id
    #[arg(long, value_name = "ID,..", value_delimiter = ',')]
    only: Vec<String>,

    /// List of experiments (YAML)
    #[arg(long, value_name = "FILE", default_value = "docs/results.yaml")]
    list: PathBuf,

    /// Directory of experiment files
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    experiments: PathBuf,

    /// Markdown document to update, or a directory of such documents
    #[arg(long, value_name = "PATH", default_value = "docs/results")]
    docs: PathBuf,

    /// Output directory of the runs
    #[arg(long, value_name = "DIR", default_value = "runs/results")]
    out: PathBuf,

    /// Number of concurrent runs [default: one per core]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    jobs: Option<u32>,

    /// Number of threads for all runs together [default: one per core]; does not affect results
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Repeat completed runs as well
    #[arg(long)]
    fresh: bool,

    #[command(flatten)]
    output: ActionOutput,
}

const HELP: &str = "\
The list has sections, each with tables in a document between
<!-- results:begin ID --> and <!-- results:end -->:

  - id: join
    title: A second flow joins
    runs:
      - file: quickstart.yaml            # in experiments/
        over: [\"seed=1..5\"]              # as weir sweep --over; also set, schemes
        columns: [peak queue, \"Jain=jain\"]    # a table, as weir sweep --metric
        quick: {over: [\"seed=1\"]}        # overrides for --quick; false: skip

Each experiment has its command and a row for each `paper` note with `ours`: the
paper's value, Weir's mean and 95 % confidence interval over the seeds, and the
note's `reason`. Experiments that are not run, or not all of whose runs are complete,
keep what the document has. Ctrl-C keeps the results so far; the same command continues.
In a directory of documents, a section that none has is appended to the first by name.";

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let mut plan = list::plan(&console.extensions, &args.list, &args.experiments, args.quick, &args.out)?;
    if let Some(unknown) = args.only.iter().find(|id| !plan.iter().any(|(section, _)| section.id == **id)) {
        let ids: Vec<&str> = plan.iter().map(|(section, _)| section.id.as_str()).collect();
        return Err(Failure::Input(format!(
            "--only {unknown}: unknown section, expected one of {}",
            ids.join(", ")
        )));
    }
    if !args.only.is_empty() {
        plan.retain(|(section, _)| args.only.contains(&section.id));
    }
    // The runs may take hours, so the marks of the pages are checked before the runs.
    let mut pages = Pages::open(&args.docs)?;
    for (section, _) in &plan {
        pages.replace(&section.id, &section.title, |_| String::new())?;
    }
    let tasks: Vec<RunTask> =
        plan.iter().flat_map(|(_, entries)| entries).flat_map(|planned| planned.tasks.clone()).collect();
    let (outcomes, _) = pool::check(&tasks)?;
    for planned in plan.iter().flat_map(|(_, entries)| entries) {
        let location = format!("{}: {}", args.list.display(), planned.entry.file);
        metric_check::check(&planned.entry.columns, &planned.tasks)
            .map_err(|(_, failure)| failure.at(&location))?;
    }
    // Held until the command ends: two commands must not write the same directory.
    let _lock = dir::lock(&args.out, &args.out)?;
    interrupt::catch_ctrl_c()?;
    interrupt::set_results_dir(&args.out);
    let pool = threads::pool(args.jobs, args.threads, console);
    let outcomes = engine::run(&pool, &tasks, outcomes, args.fresh, warn)?;

    let mut sections = Vec::new();
    pages.reload()?;
    update(&mut pages, &plan, &outcomes, |title, results| {
        sections.push(json!({"title": title, "claims": claims_of(results).collect::<Vec<_>>()}));
        print(title, results, console)
    })?;
    pages.write()?;
    let done = outcomes.iter().filter(|outcome| outcome.summary.is_some()).count();
    let cached = outcomes.iter().filter(|outcome| outcome.is_cached).count();
    if console.style.json {
        let runs = json!({"done": done, "of": outcomes.len(), "before": cached});
        console.print_json(&json!({"tables": args.docs, "runs": runs, "sections": sections}))?;
    } else {
        if !console.style.quiet {
            writeln!(console.out, "{} runs: {done} complete ({cached} cached).", outcomes.len())?;
        }
        writeln!(console.out, "Tables {}", args.docs.display())?;
    }
    if let Some(failure) = outcomes.iter().find_map(|outcome| outcome.failure.clone()) {
        return Err(failure.into());
    }
    if done < outcomes.len() {
        return Err(Failure::Interrupted(format!(
            "{} has the results so far; repeat the command to continue",
            args.out.display()
        )));
    }
    Ok(())
}

/// Updates the tables of all sections, and passes the results of each section to `show`. `outcomes` are in the order of
/// the plan's tasks.
fn update(
    pages: &mut Pages,
    plan: &[(Section, Vec<PlannedExperiment>)],
    outcomes: &[RunResult],
    mut show: impl FnMut(&str, &[EntryResults]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut remaining = outcomes;
    for (section, entries) in plan {
        let mut results = Vec::new();
        for planned in entries {
            let (own_outcomes, others) = remaining.split_at(planned.tasks.len());
            remaining = others;
            results.push(EntryResults {
                name: planned.name.clone(),
                command: planned.command(),
                claims: claims::claims(planned, own_outcomes),
                means: claims::means(planned, own_outcomes).map_err(Failure::Work)?,
                has_means_table: !planned.entry.columns.is_empty(),
            });
        }
        show(&section.title, &results)?;
        pages.replace(&section.id, &section.title, |existing| markdown::content(&results, existing))?;
    }
    Ok(())
}

/// Returns the claims of a section as JSON objects.
fn claims_of(results: &[EntryResults]) -> impl Iterator<Item = Value> {
    results.iter().flat_map(|results| {
        results.claims.iter().map(move |claim| {
            json!({
                "what": claim.what, "paper": claim.paper, "ours": claim.ours,
                "command": results.command, "reason": claim.reason,
            })
        })
    })
}

fn print(title: &str, results: &[EntryResults], console: &mut Console) -> Result<(), Failure> {
    if console.style.json || console.style.quiet {
        return Ok(());
    }
    let header = ["claim", "paper", "measured"].map(|text| (text.to_owned(), CellAlignment::Left));
    let rows: Vec<Vec<String>> = results
        .iter()
        .flat_map(|results| &results.claims)
        .filter_map(|claim| Some(vec![claim.what.clone(), claim.paper.clone(), claim.ours.clone()?]))
        .collect();
    if !rows.is_empty() {
        writeln!(console.out, "{title}")?;
        writeln!(
            console.out,
            "{}\n",
            weir_report::table::columns(&header, rows.into_iter(), console.styled, console.width)
        )?;
    }
    Ok(())
}
