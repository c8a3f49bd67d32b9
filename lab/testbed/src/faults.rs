//! Applies the link faults of an experiment to emulated links.
//!
//! Requests are sent directly to the control socket. Starting `weir link set` for each fault would delay it by half a
//! second and more on a busy machine.

use super::links::{LINKS, LinkRequest};
use super::plan::link_names;
use super::queue_sampler::sleep_until;
use serde::de::IgnoredAny;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use weir_experiment::Experiment;
use weir_experiment::backend::Error;
use weir_experiment::file::Change;
use weir_units::Time;

/// A thread that applies link faults at their times.
pub(crate) struct Faults {
    thread: JoinHandle<Result<(), Error>>,
    stop: Arc<AtomicBool>,
}

impl Faults {
    /// Starts the thread. `start` is time 0 of the experiment in seconds of CLOCK_MONOTONIC.
    pub(crate) fn start(experiment: &Experiment, start: f64) -> Result<Faults, Error> {
        let requests = requests(experiment);
        let stop = Arc::new(AtomicBool::new(false));
        let stop_flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("faults".to_owned()).spawn(move || {
            for (at, request) in requests {
                if !sleep_until(start + at.as_secs_f64(), &stop_flag) {
                    break;
                }
                request.send_in_run::<IgnoredAny>(LINKS)?;
            }
            Ok(())
        })?;
        Ok(Faults { thread, stop })
    }

    /// Stops the thread, if it has not ended yet, and returns its result.
    pub(crate) fn finish(self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Returns the requests for all faults, sorted by time. A link comes up when no fault keeps it down any more.
fn requests(experiment: &Experiment) -> Vec<(Time, LinkRequest)> {
    let names = link_names(&experiment.topology);
    let mut down = vec![0u32; names.len()];
    let mut requests = Vec::new();
    for scheduled in &experiment.changes {
        let (links, change): (Vec<usize>, String) = match &scheduled.change {
            Change::Impair(links, impairment) => (links.clone(), impairment.to_string()),
            Change::Down(links) => {
                links.iter().for_each(|&link| down[link] += 1);
                (links.clone(), "up=false".to_owned())
            }
            Change::Up(links) => {
                links.iter().for_each(|&link| down[link] = down[link].saturating_sub(1));
                let up = links.iter().copied().filter(|&link| down[link] == 0);
                (up.collect(), "up=true".to_owned())
            }
            // Rejected by `Mininet::check`.
            Change::Avoid(_)
            | Change::UseAgain(_)
            | Change::Restart(_)
            | Change::Refill(_)
            | Change::SetPolicy(_)
            | Change::Attack(..) => continue,
        };
        if !links.is_empty() {
            let links = links.iter().map(|&link| names[link].clone()).collect();
            requests.push((scheduled.at, LinkRequest::Set { links, change }));
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_become_link_requests() {
        let file = include_str!("../../../experiments/quickstart.yaml").to_owned()
            + "faults:\n\
               - {kind: loss, rate: 1%, links: [s1-s2], from: 1us, to: 9us}\n\
               - {kind: down, links: [s1-s2], from: 2us, to: 4us}\n\
               - {kind: down, links: [s2-s1], from: 3us, to: 5us}\n\
               - {kind: impair, links: [s2-s1], from: 6us, to: 8us, jitter: 1us, reorder: 2%, reorder_by: 3us}\n";
        let experiment = Experiment::parse(&file, "quickstart.yaml", "quickstart", &[], None).unwrap();
        let text = |(at, request): (Time, LinkRequest)| match request {
            LinkRequest::Set { links, change } => (at.as_us(), format!("{} {change}", links.join(" "))),
            other => panic!("{other:?}"),
        };
        let requests: Vec<_> = requests(&experiment).into_iter().map(text).collect();
        let expected = [
            (1, "s1-s2 loss=0.01"),
            (2, "s1-s2 up=false"),
            (3, "s1-s2 up=false"),
            (5, "s1-s2 up=true"),
            (6, "s1-s2 jitter=1000000ps,reorder=0.02,reorder_by=3000000ps"),
            (8, "s1-s2 jitter=0ps,reorder=0,reorder_by=3000000ps"),
            (9, "s1-s2 loss=0"),
        ];
        assert_eq!(requests, expected.map(|(at, text)| (at, text.to_owned())));
    }
}
