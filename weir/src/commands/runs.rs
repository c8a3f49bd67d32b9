//! `weir runs`: lists the runs in a directory.

use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use comfy_table::CellAlignment;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_host::suggest::did_you_mean;
use weir_report::compare::flatten_yaml;
use weir_report::dir::{PARTIAL_SUFFIX, RUNS};
use weir_report::load::{self, RunHeader};
use weir_report::lock;
use weir_report::names::{MANIFEST, SUMMARY};
use weir_report::{format, table};

/// List the runs in a directory, newest first
///
/// Reads the summaries of complete and partial runs, also those in directories of sweeps. The last column has
/// the keys in which a run differs from the run of the same experiment before it in the same directory.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// Directory of runs, such as runs/quickstart-sweep
    #[arg(value_name = "DIR", default_value = RUNS)]
    dir: PathBuf,

    /// Compare all runs of the same experiment with this one, instead of with the run before
    #[arg(long, value_name = "RUN")]
    against: Option<String>,

    #[command(flatten)]
    output: QueryOutput,
}

const HELP: &str = "\
States:
  finished    all results are there
  running     a process still writes it
  partial     interrupted or killed; the results so far can be read
  failed      killed before its first results
  unreadable  the reason is below the table

Examples:
  weir runs
  weir runs runs/quickstart-sweep
  weir runs --against quickstart-1
  weir runs --json | jq -r '.runs[] | [.name, .digest] | @tsv'

The date is that of summary.json. Files are not compared with SHA256SUMS, as
`weir report` does.";

/// Maximum depth of directories between the listed one and a run: runs/results/<file>/<cell>.
const MAX_DEPTH: usize = 4;
/// Maximum number of differing keys, and of schemes, in a row of the table.
const MAX_LISTED: usize = 3;
/// Maximum width of a title in the table, in characters.
const MAX_TITLE: usize = 40;
/// Number of digits of a digest in the table.
const DIGEST_DIGITS: usize = 12;

/// A run directory and what could be read from it.
struct Run {
    /// Path relative to the listed directory.
    name: String,
    path: PathBuf,
    date: SystemTime,
    state: &'static str,
    header: Result<RunHeader, String>,
    /// Values of `run.yaml` by key path.
    keys: BTreeMap<String, String>,
}

/// How a run differs from another one of the same experiment.
struct Difference {
    /// Name of the other run.
    reference: String,
    /// The same, without the directory if that is the same.
    short: String,
    /// Value of each differing key; `None` for a key that only the other run has.
    keys: BTreeMap<String, Option<String>>,
    has_same_digest: bool,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let mut runs = Vec::new();
    if args.dir == Path::new(RUNS) && !args.dir.exists() {
        // Nothing has run here yet.
    } else if is_run(&args.dir) {
        runs.push(read(&args.dir, &args.dir.display().to_string()));
    } else {
        load::check_dir(&args.dir)
            .and_then(|()| fs::read_dir(&args.dir).map_err(|error| error.to_string()))
            .map_err(|reason| {
                let remedy = "expected a directory with runs of `weir run`";
                Failure::Input(format!("{}: {reason}; {remedy}", args.dir.display()))
            })?;
        find(&args.dir, "", MAX_DEPTH, &mut runs);
    }
    // Of runs with the same date, that with the highest number is the newest.
    runs.sort_by(|a, b| {
        b.date.cmp(&a.date).then_with(|| natural_order(&b.name).cmp(&natural_order(&a.name)))
    });
    let reference = args.against.as_deref().map(|name| reference(name, &runs)).transpose()?;
    let differences: Vec<Option<Difference>> = match reference {
        Some(reference) => runs.iter().map(|run| difference(run, reference)).collect(),
        None => (1..).zip(&runs).map(|(next, run)| difference(run, before(run, &runs[next..])?)).collect(),
    };
    if console.style.json {
        let list: Vec<Value> =
            runs.iter().zip(&differences).map(|(run, it)| to_json(run, it.as_ref())).collect();
        return console.print_json(&json!({"directory": args.dir, "runs": list}));
    }
    if runs.is_empty() {
        return Ok(writeln!(console.out, "{}: no runs yet", args.dir.display())?);
    }
    let head =
        ["run", "date (UTC)", "state", "schemes", "duration", "seed", "commit", "digest", "title", "changes"];
    let head: Vec<_> = head
        .map(|name| {
            let is_number = ["duration", "seed"].contains(&name);
            (name.to_owned(), if is_number { CellAlignment::Right } else { CellAlignment::Left })
        })
        .into();
    let rows = runs.iter().zip(&differences).map(|(run, it)| row(run, it.as_ref()));
    writeln!(console.out, "{}", table::columns(&head, rows, console.styled, console.width))?;
    for run in &runs {
        if let Err(reason) = &run.header {
            writeln!(console.out, "{}: {reason}", run.name)?;
        }
    }
    Ok(())
}

/// Returns whether a directory is that of a run, even if its summary is missing.
fn is_run(dir: &Path) -> bool {
    let is_partial = dir.file_name().is_some_and(|name| name.to_string_lossy().ends_with(PARTIAL_SUFFIX));
    is_partial || [SUMMARY, MANIFEST].iter().any(|file| dir.join(file).exists())
}

/// Adds the runs in `dir`, whose name is `parent`, and in its subdirectories. A directory that cannot be read is listed as
/// a run, with the reason.
fn find(dir: &Path, parent: &str, depth: usize, runs: &mut Vec<Run>) {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => {
            runs.push(unreadable(dir, parent, error.to_string()));
            return;
        }
    };
    for entry in entries.flatten() {
        let (path, file_name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if file_name.starts_with('.') || !path.is_dir() {
            continue;
        }
        let name = if parent.is_empty() { file_name } else { format!("{parent}/{file_name}") };
        if is_run(&path) {
            runs.push(read(&path, &name));
        } else if depth > 1 {
            find(&path, &name, depth - 1, runs);
        }
    }
}

fn read(dir: &Path, name: &str) -> Run {
    let is_partial = name.ends_with(PARTIAL_SUFFIX);
    let is_running = is_partial && lock::live_holder(dir).is_some();
    if is_partial && !dir.join(SUMMARY).exists() && fs::read_dir(dir).is_ok() {
        let (state, reason) = match is_running {
            true => ("running", "no results yet"),
            false => ("failed", "killed before its first results; it can be removed"),
        };
        return Run { state, ..unreadable(dir, name, reason.to_owned()) };
    }
    let header = match load::read_header(dir) {
        Ok(header) => header,
        Err(error) => return unreadable(dir, name, error.to_string()),
    };
    let state = match (is_running, header.summary.partial || is_partial) {
        (true, _) => "running",
        (false, true) => "partial",
        (false, false) => "finished",
    };
    let date = modified(&dir.join(SUMMARY));
    let keys = flatten_yaml(&header.yaml);
    Run { name: name.to_owned(), path: dir.to_owned(), date, state, header: Ok(header), keys }
}

fn unreadable(dir: &Path, name: &str, reason: String) -> Run {
    let (name, path) = (name.to_owned(), dir.to_owned());
    let (date, state) = (modified(dir), "unreadable");
    Run { name, path, date, state, header: Err(reason), keys: BTreeMap::new() }
}

fn modified(path: &Path) -> SystemTime {
    path.metadata().and_then(|metadata| metadata.modified()).unwrap_or(UNIX_EPOCH)
}

/// Returns a key that sorts `x-1-10` after `x-1-2`, and `x-2` after both: texts and numbers in turns.
fn natural_order(name: &str) -> Vec<(&str, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, after) = rest.split_at(text_end);
        let number_end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(number_end);
        // A number without a place in 64 bits is larger than all others.
        parts.push((text, if number.is_empty() { 0 } else { number.parse().unwrap_or(u64::MAX) }));
        rest = after;
    }
    parts
}

/// Returns the run to which `--against` refers.
fn reference<'r>(name: &str, runs: &'r [Run]) -> Result<&'r Run, Failure> {
    let found = runs.iter().find(|run| run.name == name || run.path == Path::new(name));
    found.ok_or_else(|| {
        let meant = did_you_mean(name, runs.iter().map(|run| run.name.as_str()));
        Failure::Input(format!("--against {name}: no such run{meant}"))
    })
}

/// Returns the newest of the `older` runs with the experiment and the directory of `run`.
fn before<'r>(run: &Run, older: &'r [Run]) -> Option<&'r Run> {
    older.iter().find(|other| {
        other.header.is_ok() && other.path.parent() == run.path.parent() && is_same_experiment(run, other)
    })
}

fn is_same_experiment(run: &Run, other: &Run) -> bool {
    let name = |run: &Run| run.header.as_ref().ok().map(|header| header.summary.experiment.clone());
    name(run) == name(other)
}

/// Compares a run with `reference`; `None` if that is the run itself, or has another experiment.
fn difference(run: &Run, reference: &Run) -> Option<Difference> {
    let (summary, reference_summary) =
        (&run.header.as_ref().ok()?.summary, &reference.header.as_ref().ok()?.summary);
    if reference.name == run.name || !is_same_experiment(run, reference) {
        return None;
    }
    let changed = run.keys.iter().filter(|(key, value)| reference.keys.get(*key) != Some(value));
    let absent = reference.keys.keys().filter(|key| !run.keys.contains_key(*key));
    // A run in the same directory needs no path to it.
    let file_name = reference.path.file_name().map(|name| name.to_string_lossy().into_owned());
    let short = file_name.filter(|_| reference.path.parent() == run.path.parent());
    Some(Difference {
        reference: reference.name.clone(),
        short: short.unwrap_or_else(|| reference.name.clone()),
        keys: changed
            .map(|(key, value)| (key.clone(), Some(value.clone())))
            .chain(absent.map(|key| (key.clone(), None)))
            .collect(),
        has_same_digest: summary.digest == reference_summary.digest,
    })
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.keys.is_empty() {
            let digest = if self.has_same_digest { "" } else { ", other digest" };
            return write!(f, "repeats {}{digest}", self.short);
        }
        let texts = self.keys.iter().map(|(key, value)| match value {
            Some(value) => format!("{key}={value}"),
            None => format!("no {key}"),
        });
        write!(f, "since {}: {}", self.short, shortened(texts))
    }
}

/// Joins the first texts, and says how many more there are.
fn shortened(texts: impl ExactSizeIterator<Item = String>) -> String {
    let rest = texts.len().saturating_sub(MAX_LISTED);
    let listed = texts.take(MAX_LISTED).collect::<Vec<_>>().join(", ");
    if rest > 0 { format!("{listed} and {rest} more") } else { listed }
}

/// Returns the commit in a program's name: `3807f88a1b2c, modified` of `weir 0.1.0 (3807f88a1b2c, modified)`.
fn commit(program: Option<&str>) -> Option<&str> {
    let (_, rest) = program?.split_once('(')?;
    rest.strip_suffix(')')
}

/// Returns a scalar of the experiment file.
fn key_of(yaml: &str, key: &str) -> Option<String> {
    let file: BTreeMap<String, serde_yaml::Value> = serde_yaml::from_str(yaml).ok()?;
    file.get(key)?.as_str().map(str::to_owned).filter(|text| !text.is_empty())
}

fn row(run: &Run, difference: Option<&Difference>) -> Vec<String> {
    // Seconds are not needed to recognise a run: 2026-11-26 21:31.
    let date = format::utc(run.date).replace('T', " ").chars().take(16).collect();
    let mut row = vec![run.name.clone(), date, run.state.to_owned()];
    let Ok(header) = &run.header else { return row };
    let RunHeader { summary, yaml } = header;
    let title = key_of(yaml, "title").unwrap_or_default();
    let title = match title.chars().count() > MAX_TITLE {
        true => format!("{}…", title.chars().take(MAX_TITLE - 1).collect::<String>().trim_end()),
        false => title,
    };
    row.extend([
        shortened(header.schemes().into_iter()),
        key_of(yaml, "duration").unwrap_or_default(),
        summary.seed.to_string(),
        commit(summary.program.as_deref()).unwrap_or("-").to_owned(),
        summary.digest.chars().take(DIGEST_DIGITS).collect(),
        title,
        difference.map_or_else(String::new, Difference::to_string),
    ]);
    row
}

fn to_json(run: &Run, difference: Option<&Difference>) -> Value {
    let mut object = json!({
        "name": run.name, "directory": run.path, "date": format::utc(run.date), "state": run.state,
        "reason": run.header.as_ref().err(),
    });
    if let Ok(header) = &run.header {
        let RunHeader { summary, yaml } = header;
        object["experiment"] = json!(summary.experiment);
        object["title"] = json!(key_of(yaml, "title"));
        object["schemes"] = json!(header.schemes());
        object["duration"] = json!(key_of(yaml, "duration"));
        object["seed"] = json!(summary.seed);
        object["backend"] = json!(summary.backend);
        object["program"] = json!(summary.program);
        object["commit"] = json!(commit(summary.program.as_deref()));
        object["digest"] = json!(summary.digest);
        object["compared_with"] = json!(difference.map(|it| &it.reference));
        object["differs"] = json!(difference.map(|it| &it.keys));
        object["same_digest"] = json!(difference.map(|it| it.has_same_digest));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_the_first_items_and_count_the_others() {
        let text =
            |count: usize| shortened((1..=count).map(|n| format!("k{n}")).collect::<Vec<_>>().into_iter());
        assert_eq!((text(0), text(3)), (String::new(), "k1, k2, k3".to_owned()));
        assert_eq!(text(5), "k1, k2, k3 and 2 more");
        for (first, second) in [("x-1-2", "x-1-10"), ("x-1-10", "x-2"), ("x-1", "x-1-2"), ("a-9", "b-1")] {
            assert!(natural_order(first) < natural_order(second), "{first} {second}");
        }
    }

    #[test]
    fn the_commit_is_part_of_the_programs_name() {
        assert_eq!(
            commit(Some("my-lab with weir 0.1.0 (3807f88a1b2c, modified)")),
            Some("3807f88a1b2c, modified")
        );
        assert_eq!((commit(Some("weir 0.1.0")), commit(None)), (None, None));
    }
}
