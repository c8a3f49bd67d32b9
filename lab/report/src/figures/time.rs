//! The time axis of a run's charts, and the events marked on it.

use super::scheme::Scheme;
use crate::chart::{Annotation, Axis, Unit};
use crate::format;
use weir_experiment::results::{Results, SchemeTrace};
use weir_units::Time;

/// Maximum number of marks in a chart.
const MAX_MARKS: usize = 5;

/// Time of an event, and the label of its mark.
type TimedEvent = (Time, String);

/// The common time axis of all charts of a run.
pub(super) struct TimeAxis {
    pub unit: Unit,
    end: Time,
    /// Events by scheme label.
    events: Vec<(String, Vec<TimedEvent>)>,
}

impl TimeAxis {
    /// Creates an axis from 0 to the end of the longest run.
    pub(super) fn new(results: &Results, schemes: &[Scheme<'_>]) -> TimeAxis {
        let end = schemes.iter().map(|s| s.trace.end).max().unwrap_or_default();
        let events = schemes.iter().map(|s| (s.label.to_owned(), events(results, s))).collect();
        TimeAxis { unit: Unit::for_time(end.as_ps() as f64), end, events }
    }

    pub(super) fn axis(&self) -> Axis {
        Axis::time(format!("virtual time ({})", self.unit.name), self.at(self.end))
    }

    /// Converts a time to a position on the axis.
    pub(super) fn at(&self, time: Time) -> f64 {
        time.as_ps() as f64 / self.unit.scale
    }

    /// Returns the points of a series with one value per sample.
    pub(super) fn samples(&self, trace: &SchemeTrace, values: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
        values.enumerate().map(|(i, value)| (self.at(trace.interval * (i as u64 + 1)), value)).collect()
    }

    /// Returns the marks for the events of the schemes that a chart shows. The label of an event that only some
    /// schemes have includes their names, or the names of their runs. Empty if there are too many events.
    pub(super) fn marks<'a>(&self, drawn: impl Iterator<Item = &'a Scheme<'a>>) -> Vec<Annotation> {
        let drawn: Vec<&Scheme<'_>> = drawn.collect();
        let events_of = |s: &Scheme<'_>| self.events.iter().find(|(label, _)| label == s.label);
        let mut events: Vec<(&TimedEvent, Vec<&Scheme<'_>>)> = Vec::new();
        for scheme in &drawn {
            for event in events_of(scheme).map_or(&[][..], |(_, events)| events) {
                match events.iter_mut().find(|(existing, _)| *existing == event) {
                    Some((_, schemes)) => schemes.push(scheme),
                    None => events.push((event, vec![scheme])),
                }
            }
        }
        let times = events.iter().map(|((time, _), _)| time).collect::<std::collections::BTreeSet<_>>();
        if times.len() > MAX_MARKS {
            return Vec::new();
        }
        let mark = |((time, text), schemes): (&TimedEvent, Vec<&Scheme<'_>>)| {
            let label = if schemes.len() == drawn.len() {
                text.clone()
            } else {
                // The schemes of a run are not neighbours if there are several.
                let mut names: Vec<&str> = Vec::new();
                for name in schemes.iter().map(|s| s.style.run.as_deref().unwrap_or(s.label)) {
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                format!("{text} ({})", names.join(", "))
            };
            Annotation { x: self.at(*time), label }
        };
        events.into_iter().map(mark).collect()
    }
}

/// Returns the events of a scheme's run: flows that joined, and policies that were set.
fn events(results: &Results, scheme: &Scheme<'_>) -> Vec<TimedEvent> {
    let mut events = later_starts(scheme);
    let policy = results.summary.schemes.get(scheme.label).and_then(|summary| summary.policy.as_ref());
    let sets = policy.map_or(&[][..], |policy| &policy.sets);
    if sets.len() <= MAX_MARKS {
        events.extend(sets.iter().map(|set| (Time::from_secs_f64(set.at_us / 1e6), set.change.clone())));
    }
    events
}

/// Returns the distinct start times of flows after the first one. Stops after a few more than are marked.
fn later_starts(scheme: &Scheme<'_>) -> Vec<TimedEvent> {
    let mut starts: Vec<(Time, Vec<String>)> = Vec::new();
    for flow in scheme.trace.flows.iter().filter(|flow| flow.start > Time::ZERO) {
        match starts.iter_mut().find(|(time, _)| *time == flow.start) {
            Some((_, names)) => names.push(flow.name()),
            None => starts.push((flow.start, vec![flow.name()])),
        }
        if starts.len() > MAX_MARKS {
            break;
        }
    }
    let label = |names: Vec<String>| match &names[..] {
        [name] => format!("{} starts", format::flow(name)),
        _ => format!("{} flows start", names.len()),
    };
    starts.into_iter().map(|(time, names)| (time, label(names))).collect()
}
