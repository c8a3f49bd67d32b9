//! Watching a run: a bar on a terminal, and Ctrl-C.

use crate::console::{Console, Failure};
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::ops::ControlFlow;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weir_sim::{Observer, Progress};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Steps of the bar for one scheme.
const STEPS: u64 = 1000;

/// Shows how far a run has come, and breaks it off on Ctrl-C.
pub struct Watch {
    bar: ProgressBar,
    began: Instant,
    /// Packet-hops of the schemes before this one.
    before: u64,
    /// Which scheme, and its packet-hops.
    current: (usize, u64),
}

impl Watch {
    /// From now on Ctrl-C breaks a run off at its next step, and a
    /// second one ends the process at once.
    pub fn new(console: &Console, quiet: bool) -> Result<Watch, Failure> {
        ctrlc::set_handler(|| {
            if INTERRUPTED.swap(true, Ordering::SeqCst) {
                process::exit(130);
            }
        })
        .map_err(|error| Failure::Work(format!("Ctrl-C cannot be caught: {error}")))?;
        let shown = console.watched && !quiet;
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(STEPS), target);
        let style = ProgressStyle::with_template("{wide_msg} {bar:24} {percent:>3} %  {eta} left")
            .map_err(|error| Failure::Work(format!("progress bar: {error}")))?;
        bar.set_style(style.progress_chars("━━─"));
        Ok(Watch { bar, began: Instant::now(), before: 0, current: (0, 0) })
    }
}

impl Observer for Watch {
    fn progress(&mut self, p: &Progress<'_>) -> ControlFlow<()> {
        if (p.index, p.packet_hops) < self.current || p.index > self.current.0 {
            self.before += self.current.1;
        }
        self.current = (p.index, p.packet_hops);
        let done = u128::from(STEPS) * u128::from(p.now.as_ps()) / u128::from(p.end.as_ps().max(1));
        self.bar.set_length(p.of as u64 * STEPS);
        self.bar.set_position(p.index as u64 * STEPS + done as u64);
        let per_second = (self.before + p.packet_hops) as f64 / self.began.elapsed().as_secs_f64().max(1e-3);
        self.bar.set_message(format!(
            "{} ({} of {})  {:.3} of {:.3} ms  {} packet-hops/s",
            p.scheme,
            p.index + 1,
            p.of,
            p.now.as_secs_f64() * 1e3,
            p.end.as_secs_f64() * 1e3,
            HumanCount(per_second as u64),
        ));
        if INTERRUPTED.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
