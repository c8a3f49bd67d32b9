//! Watching a run: a bar on a terminal, and Ctrl-C.

use crate::console::Failure;
use crate::report::Keeper;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use weir_sim::results::Part;
use weir_sim::{Observer, Progress};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Ctrl-C belongs to a child that has the terminal.
static LENT: AtomicBool = AtomicBool::new(false);

/// Steps of the bar for one scheme.
const STEPS: u64 = 1000;

/// Signals that follow the first within this time are the same request: `timeout` sends one to its child and then one to
/// the child's process group, terminals and service managers do the like.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// When the first signal came.
static FIRST: OnceLock<Instant> = OnceLock::new();

/// Where the results up to now are found if the process ends at once.
static KEPT_IN: Mutex<Option<PathBuf>> = Mutex::new(None);

/// From now on Ctrl-C, SIGTERM and SIGHUP break a run off at its next step; a second request ends the process at once.
pub fn catch_ctrl_c() -> Result<(), Failure> {
    let handler = || {
        if LENT.load(Ordering::SeqCst) {
            return;
        }
        INTERRUPTED.store(true, Ordering::SeqCst);
        if FIRST.get_or_init(Instant::now).elapsed() >= SAME_REQUEST {
            if let Some(dir) = KEPT_IN.lock().unwrap_or_else(PoisonError::into_inner).as_deref() {
                let _ = writeln!(io::stderr(), "interrupted twice: {} has what was kept", dir.display());
            }
            process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::Work(format!("Ctrl-C cannot be caught: {error}")))
}

/// Tells a process that ends at once what to say: `dir` has the results up to now.
pub fn results_are_in(dir: &Path) {
    *KEPT_IN.lock().unwrap_or_else(PoisonError::into_inner) = Some(dir.to_owned());
}

/// Whether it was broken off.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Does something during which Ctrl-C does not mean us.
pub fn while_ctrl_c_is_the_childs<R>(action: impl FnOnce() -> R) -> R {
    LENT.store(true, Ordering::SeqCst);
    let result = action();
    LENT.store(false, Ordering::SeqCst);
    result
}

/// Shows how far a run has come, and breaks it off on Ctrl-C. The bar goes when this goes.
pub struct Watch {
    bar: ProgressBar,
    began: Instant,
    /// Of each scheme, how far it is in steps and its packet-hops.
    schemes: Vec<(u64, u64)>,
}

impl Watch {
    /// For one run, `shown` on standard error or not.
    pub fn new(shown: bool) -> Watch {
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{wide_msg} {bar:12} {percent:>3} %  {eta} left")
            .expect("the template is valid")
            .progress_chars("━━─");
        let bar = ProgressBar::with_draw_target(Some(STEPS), target).with_style(style);
        Watch { bar, began: Instant::now(), schemes: Vec::new() }
    }
}

impl Observer for Watch {
    fn progress(&mut self, p: &Progress<'_>) -> ControlFlow<()> {
        self.schemes.resize(p.of, (0, 0));
        let done = u128::from(STEPS) * u128::from(p.now.as_ps()) / u128::from(p.end.as_ps().max(1));
        self.schemes[p.index] = (done as u64, p.packet_hops);
        self.bar.set_length(p.of as u64 * STEPS);
        self.bar.set_position(self.schemes.iter().map(|(steps, _)| steps).sum());
        let hops: u64 = self.schemes.iter().map(|(_, hops)| hops).sum();
        let per_second = hops as f64 / self.began.elapsed().as_secs_f64().max(1e-3);
        // Fits beside the bar in 80 columns.
        self.bar.set_message(format!(
            "{} ({}/{})  {:.2}/{:.2} ms  {:.2} M packet-hops/s",
            p.scheme,
            p.index + 1,
            p.of,
            p.now.as_secs_f64() * 1e3,
            p.end.as_secs_f64() * 1e3,
            per_second / 1e6,
        ));
        if INTERRUPTED.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Watches a run and keeps what it comes to.
pub struct Kept<'a> {
    /// Watches.
    pub watch: Watch,
    /// Keeps.
    pub keeper: Keeper<'a>,
}

impl Observer for Kept<'_> {
    fn progress(&mut self, progress: &Progress<'_>) -> ControlFlow<()> {
        self.watch.progress(progress)
    }
    fn keeps(&mut self, index: usize) -> bool {
        self.keeper.is_due(index)
    }
    fn keep(&mut self, part: Part) {
        self.keeper.keep(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Time;

    #[test]
    fn counts_all_schemes_together() {
        let mut watch = Watch::new(false);
        let mut see = |index, now, packet_hops| {
            let now = Time::from_us(now);
            let end = Time::from_us(10);
            assert!(
                watch.progress(&Progress { scheme: "s", index, of: 2, now, end, packet_hops }).is_continue()
            );
            (watch.bar.position(), watch.schemes.iter().map(|(_, hops)| hops).sum::<u64>())
        };
        assert_eq!(see(0, 5, 100), (500, 100));
        assert_eq!(see(1, 2, 20), (700, 120), "both run at a time");
        assert_eq!(see(0, 10, 200), (1200, 220));
        assert_eq!(see(1, 5, 50), (1500, 250));
    }
}
