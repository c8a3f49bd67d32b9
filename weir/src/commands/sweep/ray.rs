//! Runs as tasks of Ray: `python3 -m weir.on_ray` submits them, and puts the results into the sweep's directory.

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

/// Executes tasks on a Ray cluster: that of RAY_ADDRESS, or one of this machine.
pub struct Ray {
    /// Times that a run is repeated whose worker died.
    pub retries: u32,
    /// True if somebody watches standard error, so that it shows progress.
    pub watched: bool,
}

/// The Python process's message about a run.
#[derive(Deserialize)]
struct Ended {
    number: usize,
    error: Option<String>,
}

impl Engine for Ray {
    fn run(&self, open: &[PendingRun<'_>]) -> Result<Vec<TaskResult>, Error> {
        if open.is_empty() {
            return Ok(Vec::new());
        }
        let tasks: Vec<Value> = open.iter().map(task).collect();
        let mut child = start(&json!({"tasks": tasks, "retries": self.retries}))?;
        let ended = self.watch(&mut child, open.len());
        let status = child.wait().map_err(Error::work)?;
        if ended.is_empty() && !status.success() && !interrupted() {
            return Err(Error::Work(format!(
                "--engine ray: `python3 -m weir.on_ray` failed, {status}; it needs pip install 'weir-fabric[ray]'"
            )));
        }
        let outcome = |open: &PendingRun<'_>| match ended.get(&open.number) {
            Some(error) => open.outcome(error.clone()),
            None if interrupted() => Ok(None),
            None => open.outcome(Some(format!("Ray did not end it, {status}"))),
        };
        Ok(open.iter().map(outcome).collect())
    }
}

impl Ray {
    /// Reads what the process says of each run until it ends, and ends it on Ctrl-C.
    fn watch(&self, child: &mut Child, of: usize) -> BTreeMap<usize, Option<String>> {
        const STEP: Duration = Duration::from_millis(200);
        let bar = bar(of, self.watched);
        let mut input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
        let (sender, receiver) = mpsc::channel();
        let reader = thread::spawn(move || lines.for_each(|line| drop(sender.send(line))));
        let mut all = BTreeMap::new();
        loop {
            match receiver.recv_timeout(STEP) {
                Ok(line) => {
                    if let Ok(Ended { number, error }) = serde_json::from_str(&line) {
                        all.insert(number, error);
                        bar.inc(1);
                    }
                }
                // The process cancels its tasks when its input ends.
                Err(RecvTimeoutError::Timeout) if interrupted() => drop(input.take()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        bar.finish_and_clear();
        reader.join().expect("a reader sends lines");
        all
    }
}

/// Returns a run as the process is told of it.
fn task(open: &PendingRun<'_>) -> Value {
    let (number, task) = (open.number, open.task);
    json!({
        "number": number, "file": task.file, "set": task.overrides(), "seed": task.seed,
        "schemes": task.schemes, "dir": task.dir,
    })
}

/// Starts the process and tells it what to do.
fn start(request: &Value) -> Result<Child, Error> {
    let failed = |error| Error::Work(format!("--engine ray: python3: {error}"));
    let mut command = Command::new("python3");
    command.args(["-m", "weir.on_ray"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let input = child.stdin.as_mut().expect("it is piped");
    // A process that has ended by now says so by its status.
    let _ = writeln!(input, "{request}");
    Ok(child)
}

fn bar(of: usize, shown: bool) -> ProgressBar {
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style =
        ProgressStyle::with_template("{pos} of {len} runs done by Ray {wide_msg} {bar:20} {eta} left")
            .expect("the template is valid")
            .progress_chars("━━─");
    ProgressBar::with_draw_target(Some(of as u64), target).with_style(style)
}
