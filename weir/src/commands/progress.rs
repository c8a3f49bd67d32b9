//! Watching a run: a bar on a terminal.

use crate::interrupt::interrupted;
use crate::report::Keeper;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::ops::ControlFlow;
use std::time::Instant;
use weir_sim::results::Part;
use weir_sim::{Observer, Progress};

/// Steps of the bar for one scheme.
const STEPS: u64 = 1000;

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
        if interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
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
