//! Progress of a run on the terminal: one bar for each running scheme.

use crate::interrupt::interrupted;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::ops::ControlFlow;
use std::time::Instant;
use weir_experiment::{Observer, Progress};
use weir_report::format;

/// Resolution of a bar.
const STEPS: u64 = 1000;
/// Layout of a bar, for 80 columns.
const TEMPLATE: &str = "{prefix:12!} {bar:8} {percent:>3} %  {wide_msg}  {eta} left";

/// Observer that shows the progress of each scheme, and stops the run on Ctrl-C. Dropping it removes the
/// bars.
pub(super) struct ProgressBars {
    bars: MultiProgress,
    /// Schemes that have started, by index.
    schemes: Vec<Option<SchemeBar>>,
}

/// The bar of a running scheme.
struct SchemeBar {
    bar: ProgressBar,
    start: Instant,
}

impl ProgressBars {
    /// Creates the bars; they are drawn on standard error if `is_shown`.
    pub(super) fn new(is_shown: bool) -> ProgressBars {
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        ProgressBars { bars: MultiProgress::with_draw_target(target), schemes: Vec::new() }
    }

    /// Returns the bar of a scheme, creating it at the first call.
    fn bar_of(&mut self, progress: &Progress<'_>) -> &SchemeBar {
        self.schemes.resize_with(progress.scheme_count.max(self.schemes.len()), || None);
        let bars = &self.bars;
        self.schemes[progress.index].get_or_insert_with(|| {
            let style = ProgressStyle::with_template(TEMPLATE).expect("the template is valid");
            let bar = bars.add(ProgressBar::new(STEPS).with_style(style.progress_chars("━━─")));
            bar.set_prefix(progress.scheme.to_owned());
            SchemeBar { bar, start: Instant::now() }
        })
    }
}

impl Observer for ProgressBars {
    fn progress(&mut self, progress: &Progress<'_>) -> ControlFlow<()> {
        let &Progress { now, end, packet_hops, .. } = progress;
        let position = u128::from(STEPS) * u128::from(now.as_ps()) / u128::from(end.as_ps().max(1));
        let SchemeBar { bar, start } = self.bar_of(progress);
        let per_second = packet_hops as f64 / start.elapsed().as_secs_f64().max(1e-3);
        bar.set_position(position as u64);
        bar.set_message(format!(
            "{}/{} ms  {:.2} M packet-hops/s",
            format::significant_short(now.as_secs_f64() * 1e3),
            format::significant_short(end.as_secs_f64() * 1e3),
            per_second / 1e6,
        ));
        if now >= end {
            bar.finish_and_clear();
        }
        if interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Drop for ProgressBars {
    fn drop(&mut self) {
        for scheme in self.schemes.iter().flatten() {
            scheme.bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Time;

    #[test]
    fn every_running_scheme_has_a_bar() {
        let mut progress_bars = ProgressBars::new(false);
        let mut report = |scheme, index, now, packet_hops| {
            let (now, end) = (Time::from_us(now), Time::from_us(10));
            assert!(
                progress_bars
                    .progress(&Progress { scheme, index, scheme_count: 3, now, end, packet_hops })
                    .is_continue()
            );
            let bars = progress_bars.schemes.iter().flatten().map(|scheme| &scheme.bar);
            bars.map(|bar| (bar.prefix(), bar.position(), bar.is_finished())).collect::<Vec<_>>()
        };
        assert_eq!(report("fncc", 0, 2, 100), [("fncc".to_owned(), 200, false)]);
        let (fncc, hpcc) = (("fncc".to_owned(), 200, false), ("hpcc".to_owned(), 500, false));
        assert_eq!(report("hpcc", 1, 5, 2_000_000), [fncc, hpcc.clone()], "both run concurrently");
        assert_eq!(report("fncc", 0, 10, 200), [("fncc".to_owned(), 1000, true), hpcc]);
        let message = progress_bars.schemes[1].as_ref().unwrap().bar.message();
        assert!(message.starts_with("0.005/0.01 ms") && message.ends_with("M packet-hops/s"), "{message}");
    }
}
