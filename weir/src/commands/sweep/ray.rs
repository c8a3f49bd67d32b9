//! The Ray engine: `python3 -m weir.on_ray` submits the runs as tasks, and writes the results into the
//! sweep's directory.

use crate::interrupt::interrupted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;
use weir_experiment::backend::Error;
use weir_report::sweep::engine::{Engine, PendingRun, TaskResult};

/// Executes runs on the Ray cluster of RAY_ADDRESS, or on a local one.
pub(super) struct Ray {
    /// Maximum number of retries of a run after its worker has died.
    pub retries: u32,
    /// True if standard error is a terminal: show a progress bar.
    pub show_progress: bool,
}

/// Message of the Python process about a finished run.
#[derive(Deserialize)]
struct CompletionMessage {
    /// Index of the run.
    number: usize,
    /// The error if the run failed.
    error: Option<String>,
}

impl Engine for Ray {
    fn run(&self, pending: &[PendingRun<'_>]) -> Result<Vec<TaskResult>, Error> {
        if pending.is_empty() {
            return Ok(Vec::new());
        }
        let tasks: Vec<Value> = pending.iter().map(task).collect();
        let mut child = start(&json!({"tasks": tasks, "retries": self.retries}))?;
        let results = self.collect(&mut child, pending.len())?;
        let status = child.wait().map_err(Error::work)?;
        if results.is_empty() && !status.success() && !interrupted() {
            return Err(Error::Work(format!(
                "--engine ray: `python3 -m weir.on_ray` failed ({status}); install it with pip install 'weir-fabric[ray]'"
            )));
        }
        let outcome = |run: &PendingRun<'_>| match results.get(&run.index) {
            Some(error) => run.outcome(error.clone()),
            None if interrupted() => Ok(None),
            None => run.outcome(Some(format!("not completed by Ray ({status})"))),
        };
        Ok(pending.iter().map(outcome).collect())
    }
}

impl Ray {
    /// Collects the results of runs, by index, until the process exits: `None` if a run succeeded, otherwise its
    /// error. On Ctrl-C, makes the process exit.
    fn collect(&self, child: &mut Child, total: usize) -> Result<BTreeMap<usize, Option<String>>, Error> {
        const POLL_INTERVAL: Duration = Duration::from_millis(200);
        let bar = progress_bar(total, self.show_progress);
        let mut input = child.stdin.take();
        let lines =
            BufReader::new(child.stdout.take().expect("stdout is piped")).lines().map_while(Result::ok);
        // A thread reads the lines, so that this one can also check for Ctrl-C.
        let (sender, receiver) = mpsc::channel();
        let reader = thread::Builder::new().spawn(move || lines.for_each(|line| drop(sender.send(line))));
        let reader = reader.map_err(|error| Error::thread(&error))?;
        let mut results = BTreeMap::new();
        loop {
            match receiver.recv_timeout(POLL_INTERVAL) {
                Ok(line) => {
                    // Ray may print other lines.
                    if let Ok(CompletionMessage { number, error }) = serde_json::from_str(&line) {
                        results.insert(number, error);
                        bar.inc(1);
                    }
                }
                // The process cancels its tasks when its standard input is closed.
                Err(RecvTimeoutError::Timeout) if interrupted() => drop(input.take()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        bar.finish_and_clear();
        reader.join().expect("the reader thread does not panic");
        Ok(results)
    }
}

/// Returns the JSON description of a run for the Python process.
fn task(run: &PendingRun<'_>) -> Value {
    let (number, task) = (run.index, run.task);
    json!({
        "number": number, "file": task.file, "set": task.overrides(), "seed": task.seed,
        "schemes": task.schemes, "dir": task.dir,
    })
}

/// Starts the Python process and writes the request to its standard input.
fn start(request: &Value) -> Result<Child, Error> {
    let python_error = |error| Error::Work(format!("--engine ray: python3: {error}"));
    let mut command = Command::new("python3");
    command.args(["-m", "weir.on_ray"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(python_error)?;
    let input = child.stdin.as_mut().expect("stdin is piped");
    // If the process has already exited, its status is reported later.
    let _ = writeln!(input, "{request}");
    Ok(child)
}

fn progress_bar(total: usize, is_shown: bool) -> ProgressBar {
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style =
        ProgressStyle::with_template("{pos} of {len} runs done by Ray {wide_msg} {bar:20} {eta} left")
            .expect("the template is valid")
            .progress_chars("━━─");
    ProgressBar::with_draw_target(Some(total as u64), target).with_style(style)
}
