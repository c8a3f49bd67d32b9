//! Plans a sweep from the user's request, executes its runs, and writes its files.

use super::dir::{self, PAGE, RUNS_TABLE, TABLE};
use super::engine::{self, Engine, PendingRun};
use super::fct::SweepFct;
use super::grid::{Grid, GridError};
use super::measure::MetricColumn;
use super::metric_check;
use super::page::{self, About};
use super::table::SweepResults;
use super::task::{self, RunResult, RunTask};
use crate::dir::{RUNS, lock};
use crate::files::{MODE_PUBLIC, write_atomic};
use crate::lock::DirLock;
use crate::{Extensions, ProgramInfo, file_name};
use std::io;
use std::path::{Path, PathBuf};
use weir_experiment::Experiment;
use weir_experiment::backend::Error;
use weir_experiment::file::{TableFormat, with_position};

/// The arguments of a sweep, in the syntax of `weir sweep`.
#[derive(Clone, Copy, Debug)]
pub struct SweepRequest<'a> {
    /// Schemes, workloads and topologies that the file can use.
    pub extensions: &'a Extensions,
    pub file: &'a Path,
    /// Keys to replace in every run: `key=value`.
    pub set: &'a [String],
    /// Labels of the schemes to run; empty: all.
    pub schemes: &'a [String],
    /// Keys and their values: `key=a,b,c`; empty: those of the file's `sweep`.
    pub over: &'a [String],
    /// Metrics to show; empty: those of the file's `sweep`, or of the report's summary table.
    pub metrics: &'a [String],
    /// Output directory; `None`: `runs/<name>-sweep`.
    pub dir: Option<&'a Path>,
}

impl SweepRequest<'_> {
    /// Returns the arguments of the equivalent command, with these keys and values.
    fn command_args(&self, over: &[String]) -> Vec<String> {
        let mut words = vec!["sweep".to_owned(), self.file.display().to_string()];
        for (option, values) in [("--set", self.set), ("--over", over), ("--metric", self.metrics)] {
            words.extend(values.iter().flat_map(|value| [option.to_owned(), value.clone()]));
        }
        if !self.schemes.is_empty() {
            words.extend(["--schemes".to_owned(), self.schemes.join(",")]);
        }
        words
    }
}

/// Joins words with the quoting that a shell requires.
pub fn shell_quote<S: AsRef<str>>(words: &[S]) -> String {
    let quoted = words.iter().map(|word| {
        let word = word.as_ref();
        let is_plain =
            !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "=.,:_-+/%".contains(c));
        if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// A checked sweep whose directory is locked.
pub struct Sweep {
    pub name: String,
    /// Title of the experiment; may be empty.
    pub title: String,
    pub dir: PathBuf,
    /// Directory of each run, relative to `dir`.
    pub dirs: Vec<String>,
    /// Arguments of `weir` for this sweep, without output directory and engine.
    pub words: Vec<String>,
    /// Things in the experiment that are probably not meant.
    pub warnings: Vec<String>,
    program: ProgramInfo,
    /// Format of the table of completion times.
    format: TableFormat,
    grid: Grid,
    metrics: Vec<String>,
    tasks: Vec<RunTask>,
    /// The outcome of each task before any run: the order of its schemes, without a result.
    outcomes: Vec<RunResult>,
    _lock: DirLock,
}

/// The key of an experiment file with the keys of a sweep, in messages.
const OVER_IN_FILE: &str = "sweep.over";

/// A sweep before its runs are checked and its directory is locked.
struct Draft {
    base: Experiment,
    over: Vec<String>,
    grid: Grid,
    dir: PathBuf,
    dirs: Vec<String>,
    tasks: Vec<RunTask>,
}

impl Draft {
    fn new(request: SweepRequest<'_>) -> Result<Draft, Error> {
        let SweepRequest { extensions, file, set, schemes, .. } = request;
        let base = Experiment::load_with(&extensions.catalogue, file, set, None).map_err(Error::input)?;
        let (over, origin) = match request.over {
            [] => (base.spec.sweep.clone().unwrap_or_default().over, OVER_IN_FILE),
            over => (over.to_vec(), "--over"),
        };
        if over.is_empty() {
            return Err(Error::Input(format!(
                "{}: nothing to vary; use --over, for example --over seed=1..5, or a `sweep` block in the file",
                file.display()
            )));
        }
        let grid = Grid::parse(&over).map_err(|GridError { index, reason }| {
            let index = index.map_or_else(String::new, |index| format!("[{index}]"));
            Error::Input(match origin {
                OVER_IN_FILE => with_position(file, &format!("{origin}{index}: {reason}")),
                _ => format!("{origin} {reason}"),
            })
        })?;
        let default_dir = || Path::new(RUNS).join(format!("{}-sweep", file_name(&base.spec.name)));
        let dir = request.dir.map_or_else(default_dir, Path::to_owned);
        let cells = grid.cells();
        let dirs: Vec<String> = cells.iter().map(|cell| grid.dir_name(cell)).collect();
        let tasks = cells.iter().zip(&dirs).map(|(cell, name)| RunTask {
            extensions: extensions.clone(),
            file: file.to_owned(),
            set: set.to_vec(),
            over: grid.overrides(cell),
            over_origin: origin,
            seed: grid.seed(cell),
            schemes: schemes.to_vec(),
            dir: dir.join(name),
        });
        let tasks = tasks.collect();
        Ok(Draft { base, over, grid, dir, dirs, tasks })
    }
}

/// Returns the metrics of a sweep, all of which its runs can have.
fn check_metrics(
    request: SweepRequest<'_>,
    base: &Experiment,
    tasks: &[RunTask],
) -> Result<Vec<String>, Error> {
    let in_file = base.spec.sweep.as_ref().map_or(&[][..], |sweep| &sweep.metrics);
    if !request.metrics.is_empty() {
        metric_check::check(request.metrics, tasks).map_err(|(_, error)| error.at("--metric"))?;
        return Ok(request.metrics.to_vec());
    }
    let at_key = |(index, error): (usize, Error)| match error {
        Error::Input(reason) => {
            Error::Input(with_position(request.file, &format!("sweep.metrics[{index}]: {reason}")))
        }
        other => other,
    };
    metric_check::check(in_file, tasks).map_err(at_key)?;
    Ok(in_file.to_vec())
}

/// Returns the different warnings of all runs, with file and position. A warning that not all runs have says how many do.
fn warnings_of_runs(file: &Path, warnings: &[String], runs: usize) -> Vec<String> {
    let mut texts: Vec<&String> = Vec::new();
    for warning in warnings {
        if !texts.contains(&warning) {
            texts.push(warning);
        }
    }
    let text = |warning: &&String| {
        let count = warnings.iter().filter(|other| other == warning).count();
        let share = if count < runs { format!(" ({count} of {runs} runs)") } else { String::new() };
        format!("{}{share}", with_position(file, warning))
    };
    texts.iter().map(text).collect()
}

impl Sweep {
    /// Checks the keys and values of a sweep, but not the experiment of each run.
    ///
    /// # Errors
    ///
    /// If they are invalid, or there are none.
    pub fn check_keys(request: SweepRequest<'_>) -> Result<(), Error> {
        Draft::new(request).map(|_| ())
    }

    /// Reads and checks all experiments and the metrics, as before a sweep, and returns the number of runs. Touches no
    /// directory.
    ///
    /// # Errors
    ///
    /// If the request is invalid.
    pub fn check(request: SweepRequest<'_>) -> Result<usize, Error> {
        let Draft { base, tasks, .. } = Draft::new(request)?;
        tasks.iter().try_for_each(|task| task.load().map(|_| ()))?;
        check_metrics(request, &base, &tasks)?;
        Ok(tasks.len())
    }

    /// Reads and checks all experiments, and locks the directory.
    ///
    /// # Errors
    ///
    /// If the request is invalid, or another process has locked the directory.
    pub fn plan(request: SweepRequest<'_>) -> Result<Sweep, Error> {
        let Draft { base, over, grid, dir, dirs, tasks } = Draft::new(request)?;
        dir::check(&dir)?;
        let (outcomes, warnings) = task::check(&tasks)?;
        let warnings = warnings_of_runs(request.file, &warnings, tasks.len());
        let metrics = check_metrics(request, &base, &tasks)?;
        let format = base.spec.observe.format;
        let (name, title) = (base.spec.name, base.spec.title);
        let _lock = lock(&dir, &dir)?;
        dir::remove_drafts(&dir)?;
        let words = request.command_args(&over);
        let program = request.extensions.program.clone();
        Ok(Sweep {
            name,
            title,
            dir,
            dirs,
            words,
            warnings,
            program,
            format,
            grid,
            metrics,
            tasks,
            outcomes,
            _lock,
        })
    }

    /// Executes a single run of a sweep, by its index from 0, unless it is done. Does not lock the directory of the
    /// sweep, which the process of the sweep may hold.
    ///
    /// # Errors
    ///
    /// If the request is invalid, or the index is out of range.
    ///
    /// # Panics
    ///
    /// If the engine violates its contract and returns no outcome.
    pub fn run_one(
        request: SweepRequest<'_>,
        index: usize,
        engine: &dyn Engine,
        fresh: bool,
        warn: fn(&str),
    ) -> Result<(PathBuf, RunResult), Error> {
        let tasks = Draft::new(request)?.tasks;
        let total = tasks.len();
        let Some(task) = tasks.into_iter().nth(index) else {
            return Err(Error::Input(format!("run {index}: the sweep has {total} runs, numbered from 0")));
        };
        let tasks = [task];
        let outcomes = engine::run(engine, &tasks, task::check(&tasks)?.0, fresh, warn)?;
        let [task] = tasks;
        Ok((task.dir, outcomes.into_iter().next().expect("one outcome per task")))
    }

    /// Returns the runs that are not done. `warn` is called with warnings.
    pub fn pending_runs(&mut self, warn: fn(&str)) -> Vec<PendingRun<'_>> {
        engine::mark_completed(&self.tasks, &mut self.outcomes, warn);
        engine::pending_runs(&self.tasks, &self.outcomes)
    }

    /// Executes with `engine` the runs that are not done, or all runs if `fresh`, and returns the outcome of each.
    /// `warn` is called with warnings.
    ///
    /// # Errors
    ///
    /// If no run could be started.
    pub fn run(&self, engine: &dyn Engine, fresh: bool, warn: fn(&str)) -> Result<Vec<RunResult>, Error> {
        engine::run(engine, &self.tasks, self.outcomes.clone(), fresh, warn)
    }

    /// Returns the means over the runs that are done.
    pub fn results<'a>(&'a self, outcomes: &'a [RunResult]) -> SweepResults<'a> {
        let done = outcomes.iter().filter_map(|run| Some((run.summary.as_ref()?, run.order.as_slice())));
        let done: Vec<_> = done.collect();
        let measures = match &self.metrics[..] {
            [] => MetricColumn::default_columns(&done),
            metrics => metrics.iter().flat_map(|text| MetricColumn::parse_for_runs(text, &done)).collect(),
        };
        SweepResults::new(&self.grid, outcomes, measures)
    }

    /// Returns the completion times of all runs that are done.
    pub fn fct<'a>(&'a self, results: &'a SweepResults<'a>) -> SweepFct<'a> {
        SweepFct::new(results, &self.dir, &self.dirs)
    }

    /// Writes tables, charts and the HTML page, and returns the path of the page. Each file is replaced atomically.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn write(&self, results: &SweepResults<'_>) -> Result<PathBuf, Error> {
        let write_file =
            |name: &str, content: &[u8]| write_atomic(&self.dir.join(name), content, MODE_PUBLIC);
        let command = format!("weir {}", shell_quote(&self.words));
        let about = About { name: &self.name, title: &self.title, command: &command, program: &self.program };
        let write_all = || -> io::Result<()> {
            write_file(TABLE, &results.csv()?)?;
            write_file(RUNS_TABLE, &results.runs_csv()?)?;
            self.fct(results).write(self.format)?;
            let charts: Vec<(String, String)> = page::svgs(results).collect();
            dir::remove_other_charts(&self.dir, |name| charts.iter().any(|(chart, _)| chart == name))?;
            for (name, svg) in &charts {
                write_file(name, svg.as_bytes())?;
            }
            write_file(PAGE, page::page(&about, results, &self.dirs).as_bytes())
        };
        write_all().map_err(|error| Error::work(error).at(self.dir.display()))?;
        Ok(self.dir.join(PAGE))
    }
}
