//! The charts of a run.

mod completion;
mod distribution;
mod load;
mod pauses;
mod queues;
mod rates;
mod scheme;
mod section;
mod senders;
#[cfg(test)]
mod tests;
mod time;
mod utilisation;

pub use scheme::LineStyle;
pub use section::{Figure, Layout, Section};
pub use utilisation::carry_over_utilisation;

use scheme::Scheme;
use time::TimeAxis;
use weir_experiment::results::Results;

/// Number of finished flows from which they count as a workload.
const MANY_FLOWS: usize = 50;

/// Returns all charts of a run, the most important first. Each scheme has its own style.
pub fn sections(results: &Results) -> Vec<Section> {
    let styles: Vec<LineStyle> =
        (0..results.order.len()).map(|i| LineStyle { colour: i, dash: i, run: None }).collect();
    sections_with_styles(results, &styles)
}

/// Like [`sections`], with the given style for each scheme.
pub fn sections_with_styles(results: &Results, styles: &[LineStyle]) -> Vec<Section> {
    let schemes: Vec<Scheme<'_>> = results
        .order
        .iter()
        .zip(styles)
        .filter_map(|(label, style)| Some(Scheme { label, style, trace: results.traces.get(label)? }))
        .collect();
    let time = TimeAxis::new(results, &schemes);
    // With many flows, completion times are the most important result.
    let flows = schemes.iter().map(|s| s.trace.flows.iter().filter(|f| f.fct.is_some()).count()).max();
    let whole_run = [completion::section(results, &schemes), load::section(results)];
    let (before, after) =
        if flows >= Some(MANY_FLOWS) { (whole_run, [None, None]) } else { ([None, None], whole_run) };
    let series = [
        queues::section(results, &schemes, &time),
        rates::section(&schemes, &time),
        utilisation::section(results, &schemes, &time),
    ];
    let senders = senders::sections(&schemes, &time).into_iter().map(Some);
    let pauses = pauses::section(&schemes, &time);
    before.into_iter().chain(series).chain(senders).chain(after).chain([pauses]).flatten().collect()
}
