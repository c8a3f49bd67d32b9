//! Executes runs as job arrays of Slurm: submits the jobs, waits for them, and reads their results. Each job executes
//! one run. The directory of the sweep must be on a file system that all nodes share.

use super::dir::SLURM;
use super::engine::{Engine, PendingRun, TaskResult};
use super::plan::shell_quote;
use crate::files::{MODE_PUBLIC, write_atomic};
use crate::names::SUMMARY;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use weir_experiment::backend::Error;

/// File with the ids of submitted jobs, one per line.
const JOB_IDS_FILE: &str = "jobs";
/// Slurm's default of `MaxArraySize`; array indices are below it.
const DEFAULT_MAX_ARRAY_SIZE: usize = 1001;
/// Interval between the first two polls of the queue; later ones are longer, to spare the cluster's scheduler.
const FIRST_POLL_INTERVAL: Duration = Duration::from_secs(1);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(15);
/// Number of consecutive failed polls after which the sweep fails.
const MAX_FAILED_POLLS: u32 = 20;

/// Executes tasks as Slurm jobs.
#[derive(Clone, Debug)]
pub struct Slurm {
    /// Name of the jobs.
    pub name: String,
    /// Directory of the sweep.
    pub dir: PathBuf,
    /// Command that executes a run; the index of the run is appended.
    pub command: Vec<String>,
    /// Further options of `sbatch`, such as `--partition=long`.
    pub options: Vec<String>,
    /// Maximum number of concurrent runs; `None`: unlimited.
    pub max_concurrent: Option<usize>,
    /// Number of retries of a run whose job ended without result and without error message, for example after a node
    /// failure.
    pub retries: u32,
    /// True: return as soon as the jobs are in the queue.
    pub detach: bool,
    /// Returns true if the jobs should be cancelled.
    pub is_cancelled: fn() -> bool,
    /// True if standard error is a terminal: show a progress bar.
    pub show_progress: bool,
}

/// A job array: index `i` is run `first_run + i` of the sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
struct JobArray {
    first_run: usize,
    indices: Vec<usize>,
}

impl JobArray {
    /// Divides runs, sorted in ascending order, into arrays with indices below `size`.
    fn split(runs: &[usize], size: usize) -> Vec<JobArray> {
        let mut arrays: Vec<JobArray> = Vec::new();
        for &run in runs {
            let first_run = run / size * size;
            match arrays.last_mut() {
                Some(last) if last.first_run == first_run => last.indices.push(run - first_run),
                _ => arrays.push(JobArray { first_run, indices: vec![run - first_run] }),
            }
        }
        arrays
    }

    /// Returns the indices in the syntax of `sbatch --array`: `0-5,7`.
    fn indices(&self) -> String {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for &index in &self.indices {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == index => *last = index,
                _ => ranges.push((index, index)),
            }
        }
        let range = |&(first, last): &(usize, usize)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        ranges.iter().map(range).collect::<Vec<_>>().join(",")
    }
}

impl Slurm {
    /// Returns the job scripts for these runs.
    pub fn scripts(&self, pending: &[PendingRun<'_>]) -> Vec<String> {
        let runs: Vec<usize> = pending.iter().map(|run| run.index).collect();
        JobArray::split(&runs, array_size()).iter().map(|array| self.script(array)).collect()
    }

    /// Returns the ids of the jobs that were submitted last.
    pub fn jobs(&self) -> Vec<String> {
        let text = fs::read_to_string(self.slurm_dir().join(JOB_IDS_FILE)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn script(&self, array: &JobArray) -> String {
        let max_concurrent = self.max_concurrent.map(|jobs| format!("%{jobs}")).unwrap_or_default();
        let current_dir = std::env::current_dir().unwrap_or_default();
        // In the names of Slurm's logs, a percent sign starts a replacement pattern.
        let logs = self.slurm_dir().display().to_string();
        let mut script = "#!/bin/bash\n".to_owned();
        for option in [
            format!("--job-name=weir-{}", self.name),
            format!("--array={}{max_concurrent}", array.indices()),
            format!("--chdir=\"{}\"", current_dir.display()),
            format!("--output=\"{}/%A_%a.log\"", logs.replace('%', "%%")),
            "--requeue".to_owned(),
        ]
        .iter()
        .chain(&self.options)
        {
            // Writing to a String does not fail.
            let _ = writeln!(script, "#SBATCH {option}");
        }
        let run = match array.first_run {
            0 => "$SLURM_ARRAY_TASK_ID".to_owned(),
            first => format!("$(({first} + SLURM_ARRAY_TASK_ID))"),
        };
        let _ = write!(
            script,
            "run={run}\nexec {} \"$run\" --threads \"${{SLURM_CPUS_PER_TASK:-1}}\" >{}/run-\"$run\".log 2>&1\n",
            shell_quote(&self.command),
            shell_quote(&[logs]),
        );
        script
    }

    /// Returns the directory of job scripts and logs.
    fn slurm_dir(&self) -> PathBuf {
        self.dir.join(SLURM)
    }

    fn log(&self, run: usize) -> PathBuf {
        self.slurm_dir().join(format!("run-{run}.log"))
    }

    /// Submits runs and returns the job ids.
    fn submit(&self, runs: &[usize]) -> Result<Vec<String>, Error> {
        let mut jobs = Vec::new();
        for array in JobArray::split(runs, array_size()) {
            for index in &array.indices {
                // The log of an earlier job would be taken for that of this job. Usually there is none.
                let _ = fs::remove_file(self.log(array.first_run + index));
            }
            let script = self.script(&array);
            let path = self.slurm_dir().join(format!("from-{}.sbatch", array.first_run));
            write_atomic(&path, script.as_bytes(), MODE_PUBLIC)
                .map_err(|error| Error::work(error).at(path.display()))?;
            let output = Command::new("sbatch").arg("--parsable").arg(&path).output().map_err(|error| {
                Error::Work(format!(
                    "sbatch: {error}; run --engine slurm on a machine where jobs can be submitted"
                ))
            })?;
            if !output.status.success() {
                self.cancel(&jobs);
                return Err(Error::Work(format!("sbatch: {}", last_line(&output.stderr))));
            }
            // The output is `<job>` or `<job>;<cluster>`.
            let text = String::from_utf8_lossy(&output.stdout);
            jobs.push(text.trim().split(';').next().unwrap_or_default().to_owned());
            let listed = jobs.join("\n") + "\n";
            write_atomic(&self.slurm_dir().join(JOB_IDS_FILE), listed.as_bytes(), MODE_PUBLIC)
                .map_err(Error::work)?;
        }
        Ok(jobs)
    }

    /// Waits until none of the jobs is in the queue. Returns false if they were cancelled.
    fn wait(&self, jobs: &[String], pending: &[PendingRun<'_>], bar: &ProgressBar) -> Result<bool, Error> {
        /// Maximum delay of a cancellation.
        const CANCELLATION_CHECK_INTERVAL: Duration = Duration::from_millis(200);
        let (mut poll_interval, mut last_poll, mut failed_polls) = (FIRST_POLL_INTERVAL, Instant::now(), 0);
        while !jobs.is_empty() {
            if (self.is_cancelled)() {
                self.cancel(jobs);
                return Ok(false);
            }
            thread::sleep(CANCELLATION_CHECK_INTERVAL);
            if last_poll.elapsed() < poll_interval {
                continue;
            }
            let finished = pending.iter().filter(|run| run.task.dir.join(SUMMARY).exists()).count();
            bar.set_position(finished as u64);
            match queued_jobs() {
                Ok(queued) if jobs.iter().all(|job| !queued.contains(job)) => break,
                Ok(_) => failed_polls = 0,
                Err(reason) if failed_polls == MAX_FAILED_POLLS => return Err(Error::Work(reason)),
                Err(_) => failed_polls += 1,
            }
            (poll_interval, last_poll) = (MAX_POLL_INTERVAL.min(poll_interval * 3 / 2), Instant::now());
        }
        Ok(true)
    }

    fn cancel(&self, jobs: &[String]) {
        if !jobs.is_empty() {
            // scancel fails if a job has ended meanwhile, which is fine here.
            let _ = Command::new("scancel").args(jobs).stderr(Stdio::null()).status();
        }
    }

    /// Returns the error message of a run from its log, if there is one.
    fn reported_error(&self, run: usize) -> Option<String> {
        let text = fs::read_to_string(self.log(run)).ok()?;
        text.lines().rev().find_map(|line| line.strip_prefix("error: ")).map(str::to_owned)
    }
}

impl Engine for Slurm {
    fn run(&self, pending: &[PendingRun<'_>]) -> Result<Vec<TaskResult>, Error> {
        let dir = self.slurm_dir();
        fs::create_dir_all(&dir).map_err(|error| Error::work(error).at(dir.display()))?;
        let bar = bar(pending.len(), self.show_progress);
        // Jobs of an earlier command that are still in the queue execute some of the runs.
        let earlier = self.jobs();
        let queued = if earlier.is_empty() { BTreeSet::new() } else { queued_jobs().map_err(Error::Work)? };
        let mut jobs: Vec<String> = earlier.into_iter().filter(|job| queued.contains(job)).collect();
        let (mut attempts, mut has_waited) = (0, !jobs.is_empty());
        let has_finished = loop {
            if self.detach && !jobs.is_empty() {
                break false;
            }
            if !self.wait(&jobs, pending, &bar)? {
                break false;
            }
            let mut remaining: Vec<usize> =
                pending.iter().filter(|run| run.completed().is_none()).map(|run| run.index).collect();
            if has_waited {
                // A run that reported an error would fail again.
                remaining.retain(|&run| self.reported_error(run).is_none());
            }
            if remaining.is_empty() || attempts > self.retries {
                break true;
            }
            if attempts > 0 {
                let runs = JobArray { first_run: 0, indices: remaining.clone() }.indices();
                bar.suspend(|| {
                    let _ =
                        writeln!(io::stderr(), "repeating runs {runs}: their jobs ended without a result");
                });
            }
            jobs = self.submit(&remaining)?;
            (attempts, has_waited) = (attempts + 1, true);
        };
        bar.finish_and_clear();
        let outcome = |run: &PendingRun<'_>| {
            let reason = || format!("job ended without a result; see the logs in {}", dir.display());
            match run.completed() {
                None if !has_finished => Ok(None),
                None => run.outcome(Some(self.reported_error(run.index).unwrap_or_else(reason))),
                summary => Ok(summary),
            }
        };
        Ok(pending.iter().map(outcome).collect())
    }
}

/// Returns this cluster's `MaxArraySize`.
fn array_size() -> usize {
    let output = Command::new("scontrol").args(["show", "config"]).stderr(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MaxArraySize"));
    let size = line.and_then(|rest| rest.trim_start_matches([' ', '=']).trim().parse().ok());
    size.filter(|&size| size > 0).unwrap_or(DEFAULT_MAX_ARRAY_SIZE)
}

/// Returns the ids of this user's jobs in the queue.
fn queued_jobs() -> Result<BTreeSet<String>, String> {
    let output = Command::new("squeue").args(["--noheader", "--me", "--format=%F"]).output();
    let output = output.map_err(|error| format!("squeue: {error}"))?;
    if !output.status.success() {
        return Err(format!("squeue: {}", last_line(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect())
}

fn last_line(text: &[u8]) -> String {
    String::from_utf8_lossy(text).trim().lines().last().unwrap_or("failed without a message").to_owned()
}

fn bar(total: usize, is_shown: bool) -> ProgressBar {
    let target =
        if is_shown && total > 0 { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style =
        ProgressStyle::with_template("{pos} of {len} runs done by Slurm {wide_msg} {bar:20} {elapsed}")
            .expect("the template is valid")
            .progress_chars("━━─");
    ProgressBar::with_draw_target(Some(total as u64), target).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slurm() -> Slurm {
        Slurm {
            name: "quickstart".into(),
            dir: "/shared/my runs/100%".into(),
            command: ["/opt/weir", "sweep", "x.yaml", "--over", "a=[1, 2]", "--run-index"]
                .map(String::from)
                .into(),
            options: vec!["--partition=long".into()],
            max_concurrent: Some(4),
            retries: 1,
            detach: false,
            is_cancelled: || false,
            show_progress: false,
        }
    }

    #[test]
    fn runs_are_divided_into_arrays() {
        let one = JobArray::split(&[0, 1, 2, 5, 7, 8], 1001);
        assert_eq!(one, [JobArray { first_run: 0, indices: vec![0, 1, 2, 5, 7, 8] }]);
        assert_eq!(one[0].indices(), "0-2,5,7-8");
        let many = JobArray::split(&[3, 9, 10, 25], 10);
        let array = |first_run, indices: &[usize]| JobArray { first_run, indices: indices.into() };
        assert_eq!(many, [array(0, &[3, 9]), array(10, &[0]), array(20, &[5])]);
        assert!(JobArray::split(&[], 10).is_empty());
    }

    #[test]
    fn a_script_is_complete_and_quoted() {
        let script = slurm().script(&JobArray { first_run: 1001, indices: vec![0, 1, 2] });
        for line in [
            "#!/bin/bash",
            "#SBATCH --job-name=weir-quickstart",
            "#SBATCH --array=0-2%4",
            "#SBATCH --output=\"/shared/my runs/100%%/slurm/%A_%a.log\"",
            "#SBATCH --partition=long",
            "run=$((1001 + SLURM_ARRAY_TASK_ID))",
            "exec /opt/weir sweep x.yaml --over 'a=[1, 2]' --run-index \"$run\" --threads \"${SLURM_CPUS_PER_TASK:-1}\" >'/shared/my runs/100%/slurm'/run-\"$run\".log 2>&1",
        ] {
            assert!(script.lines().any(|script_line| script_line == line), "{line}\nis not in\n{script}");
        }
    }
}
