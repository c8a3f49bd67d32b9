//! The faults of an experiment, on emulated links: `weir link set` at their times.

use super::plan::{link_names, own_program};
use super::probe::sleep_until;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use weir_experiment::Experiment;
use weir_experiment::backend::Error;
use weir_experiment::file::{Change, Impairment};
use weir_units::Time;

/// Changes links at their times.
pub struct Faults {
    thread: JoinHandle<Result<(), Error>>,
    stop: Arc<AtomicBool>,
}

impl Faults {
    /// Begins at `start` (seconds of CLOCK_MONOTONIC).
    pub fn start(experiment: &Experiment, start: f64) -> Result<Faults, Error> {
        let orders = orders(experiment);
        let weir = own_program().map_err(Error::Work)?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("faults".to_owned()).spawn(move || {
            for (at, options) in orders {
                if !sleep_until(start + at.as_secs_f64(), &told) {
                    break;
                }
                let done = Command::new(&weir).args(["link", "set", "--quiet"]).args(options).output()?;
                if !done.status.success() {
                    let why = String::from_utf8_lossy(&done.stderr);
                    return Err(Error::Work(why.trim().trim_start_matches("error: ").to_owned()));
                }
            }
            Ok(())
        })?;
        Ok(Faults { thread, stop })
    }

    /// Ends it if it has not ended by itself.
    pub fn finish(self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Returns the arguments of `weir link set` for each fault, by time. A link is up when no fault holds it down any
/// more.
fn orders(experiment: &Experiment) -> Vec<(Time, Vec<String>)> {
    let names = link_names(&experiment.topology);
    let mut down = vec![0u32; names.len()];
    let mut orders = Vec::new();
    for scheduled in &experiment.changes {
        let (links, options): (Vec<usize>, Vec<String>) = match &scheduled.change {
            Change::Impair(links, impairment) => (links.clone(), options(impairment)),
            Change::Down(links) => {
                links.iter().for_each(|&link| down[link] += 1);
                (links.clone(), vec!["--down".to_owned()])
            }
            Change::Up(links) => {
                links.iter().for_each(|&link| down[link] = down[link].saturating_sub(1));
                let up = links.iter().copied().filter(|&link| down[link] == 0);
                (up.collect(), vec!["--up".to_owned()])
            }
            // Refused by `Mininet::check`.
            Change::Restart(_) | Change::Refill(_) | Change::Set(_) | Change::Attack(..) => continue,
        };
        if !links.is_empty() {
            let links = links.iter().map(|&link| names[link].clone());
            orders.push((scheduled.at, links.chain(options).collect()));
        }
    }
    orders
}

/// Returns the options that change a link so.
fn options(impairment: &Impairment) -> Vec<String> {
    let time = |time: Time| format!("{}ps", time.as_ps());
    let options = [
        ("--loss", impairment.loss.map(|ratio| ratio.to_string())),
        ("--jitter", impairment.jitter.map(time)),
        ("--reorder", impairment.reorder.map(|(ratio, _)| ratio.to_string())),
        ("--reorder-by", impairment.reorder.map(|(_, by)| time(by))),
        ("--duplicate", impairment.duplicate.map(|ratio| ratio.to_string())),
        ("--corrupt", impairment.corrupt.map(|ratio| ratio.to_string())),
    ];
    options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_become_changes_of_links() {
        let file = include_str!("../../../experiments/quickstart.yaml").to_owned()
            + "faults:\n\
               - {kind: loss, rate: 1%, links: [s1-s2], from: 1us, to: 9us}\n\
               - {kind: down, links: [s1-s2], from: 2us, to: 4us}\n\
               - {kind: down, links: [s2-s1], from: 3us, to: 5us}\n\
               - {kind: impair, links: [s2-s1], from: 6us, to: 8us, jitter: 1us, reorder: 2%, reorder_by: 3us}\n";
        let experiment = Experiment::parse(&file, "quickstart.yaml", "quickstart", &[], None).unwrap();
        let orders: Vec<_> =
            orders(&experiment).into_iter().map(|(at, words)| (at.as_us(), words.join(" "))).collect();
        let expected = [
            (1, "s1-s2 --loss 0.01"),
            (2, "s1-s2 --down"),
            (3, "s1-s2 --down"),
            (5, "s1-s2 --up"),
            (6, "s1-s2 --jitter 1000000ps --reorder 0.02 --reorder-by 3000000ps"),
            (8, "s1-s2 --jitter 0ps --reorder 0 --reorder-by 3000000ps"),
            (9, "s1-s2 --loss 0"),
        ];
        assert_eq!(orders, expected.map(|(at, words)| (at, words.to_owned())));
    }
}
