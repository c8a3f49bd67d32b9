//! A sweep from what was asked for to the files that it leaves.

use super::dir::{self, PAGE, RUNS_TABLE, TABLE};
use super::grid::Grid;
use super::measure::Measure;
use super::page::{self, About};
use super::plausible;
use super::pool::{self, Outcome, Pool, Task};
use super::table::Findings;
use crate::dir::{RUNS, lock};
use crate::files::{PUBLIC, write_whole};
use crate::lock::DirLock;
use crate::{Kit, file_name};
use std::io;
use std::path::{Path, PathBuf};
use weir_experiment::Experiment;
use weir_experiment::backend::Error;

/// What a sweep is asked to do, in the words of `weir sweep`.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The names that the file can use.
    pub kit: &'a Kit,
    /// The experiment's file.
    pub file: &'a Path,
    /// Keys to replace in every run: `key=value`.
    pub set: &'a [String],
    /// Only these schemes; all if empty.
    pub schemes: &'a [String],
    /// Keys and their values: `key=a,b,c`. If empty, those of the file's `sweep`.
    pub over: &'a [String],
    /// Numbers to show of each run; if empty, those of the file's `sweep`, or of the report.
    pub metrics: &'a [String],
    /// Where to write, instead of `runs/<name>-sweep`.
    pub dir: Option<&'a Path>,
}

/// A sweep that is checked, and whose directory is locked.
pub struct Sweep {
    /// The experiment's name.
    pub name: String,
    /// The experiment's title; may be empty.
    pub title: String,
    /// The keys and their values.
    pub over: Vec<String>,
    /// Where it writes.
    pub dir: PathBuf,
    /// The directory of each run, in `dir`.
    pub dirs: Vec<String>,
    grid: Grid,
    metrics: Vec<String>,
    tasks: Vec<Task>,
    /// Of each task before any has run.
    outcomes: Vec<Outcome>,
    _lock: DirLock,
}

impl Sweep {
    /// Reads and checks all experiments, and locks the directory.
    ///
    /// # Errors
    ///
    /// If anything that was asked for is wrong, or another process writes into the directory.
    pub fn plan(asked: Asked<'_>) -> Result<Sweep, Error> {
        let Asked { kit, file, set, schemes, .. } = asked;
        let base = Experiment::load_with(&kit.catalogue, file, set, None).map_err(Error::input)?;
        let in_file = base.spec.sweep.clone().unwrap_or_default();
        let (over, origin) = match asked.over {
            [] => (in_file.over, "sweep.over"),
            over => (over.to_vec(), "--over"),
        };
        if over.is_empty() {
            return Err(Error::Input(format!(
                "{}: nothing to vary, give --over seed=1..5 or the like, or a sweep block in the file",
                file.display()
            )));
        }
        let grid = Grid::parse(&over).map_err(|why| Error::Input(format!("{origin} {why}")))?;
        let metrics = if asked.metrics.is_empty() { in_file.metrics } else { asked.metrics.to_vec() };
        let default = || Path::new(RUNS).join(format!("{}-sweep", file_name(&base.spec.name)));
        let dir = asked.dir.map_or_else(default, Path::to_owned);
        dir::check(&dir)?;
        let cells = grid.cells();
        let dirs: Vec<String> = cells.iter().map(|cell| grid.dir_name(cell)).collect();
        let tasks = cells.iter().zip(&dirs).map(|(cell, name)| Task {
            kit: kit.clone(),
            file: file.to_owned(),
            set: set.iter().cloned().chain(grid.overrides(cell)).collect(),
            seed: grid.seed(cell),
            schemes: schemes.to_vec(),
            dir: dir.join(name),
        });
        let tasks: Vec<Task> = tasks.collect();
        let outcomes = pool::check(&tasks)?;
        plausible::check(&metrics, &tasks).map_err(|error| error.at("--metric"))?;
        let (name, title) = (base.spec.name, base.spec.title);
        let _lock = lock(&dir, &dir)?;
        Ok(Sweep { name, title, over, dir, dirs, grid, metrics, tasks, outcomes, _lock })
    }

    /// Does the runs that are not done, and returns the outcome of each.
    pub fn run(&self, pool: &Pool) -> Vec<Outcome> {
        pool.run(&self.tasks, self.outcomes.clone())
    }

    /// Returns the means over what is done.
    ///
    /// # Errors
    ///
    /// If a metric is in no run.
    pub fn findings<'a>(&'a self, outcomes: &'a [Outcome]) -> Result<Findings<'a>, Error> {
        let done = outcomes.iter().filter_map(|it| Some((it.summary.as_ref()?, it.order.as_slice())));
        let done: Vec<_> = done.collect();
        let read = |text: &String| {
            let (first, order) = done.first()?;
            let why = |why| Error::Input(format!("--metric {why}; the runs are kept"));
            Some(Measure::parse(text, first, order).map_err(why))
        };
        let measures = match &self.metrics[..] {
            [] => Measure::usual(&done),
            metrics => metrics.iter().filter_map(read).collect::<Result<_, _>>()?,
        };
        Ok(Findings::new(&self.grid, outcomes, measures))
    }

    /// Writes tables, charts and the page, and returns the page's path. Each file is complete at any moment.
    /// `command` is what repeats the sweep.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn write(&self, findings: &Findings<'_>, command: &str) -> Result<PathBuf, Error> {
        let put = |name: &str, content: &[u8]| write_whole(&self.dir.join(name), content, PUBLIC);
        let about = About { name: &self.name, title: &self.title, command };
        let all = || -> io::Result<()> {
            put(TABLE, &findings.csv()?)?;
            put(RUNS_TABLE, &findings.runs_csv()?)?;
            for (name, svg) in page::svgs(findings) {
                put(&name, svg.as_bytes())?;
            }
            put(PAGE, page::page(&about, findings, &self.dirs).as_bytes())
        };
        all().map_err(|error| Error::work(error).at(self.dir.display()))?;
        Ok(self.dir.join(PAGE))
    }
}
