//! The time axis of a run's charts, and the events that are marked on it.

use super::Scheme;
use crate::chart::{Annotation, Axis, Unit};
use crate::format;
use weir_experiment::results::{Results, SchemeTrace};
use weir_units::Time;

/// The most times that are marked in a chart.
const MAX_MARKS: usize = 5;

/// An event: its time and the text of its mark.
type TimedEvent = (Time, String);

/// The time axis that all charts of a run share.
pub struct TimeAxis {
    /// Unit of the axis.
    pub unit: Unit,
    end: Time,
    /// Events of each scheme, by its label.
    moments: Vec<(String, Vec<TimedEvent>)>,
}

impl TimeAxis {
    /// Returns an axis from zero to the end of the longest of these runs.
    pub fn new(results: &Results, schemes: &[Scheme<'_>]) -> TimeAxis {
        let end = schemes.iter().map(|s| s.trace.end).max().unwrap_or_default();
        let moments = schemes.iter().map(|s| (s.label.to_owned(), events(results, s))).collect();
        TimeAxis { unit: Unit::of_time(end.as_ps() as f64), end, moments }
    }

    /// Returns the axis of a chart.
    pub fn axis(&self) -> Axis {
        Axis::time(format!("virtual time ({})", self.unit.name), self.at(self.end))
    }

    /// Returns a position on the axis.
    pub fn at(&self, time: Time) -> f64 {
        time.as_ps() as f64 / self.unit.scale
    }

    /// Returns the points of a series that has one value per sample.
    pub fn samples(&self, trace: &SchemeTrace, values: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
        values.enumerate().map(|(i, value)| (self.at(trace.interval * (i as u64 + 1)), value)).collect()
    }

    /// Returns the events of the schemes that a chart shows. An event that only some of them have names these, or
    /// their runs. None if there are many.
    pub fn marks<'a>(&self, drawn: impl Iterator<Item = &'a Scheme<'a>>) -> Vec<Annotation> {
        let drawn: Vec<&Scheme<'_>> = drawn.collect();
        let of = |s: &Scheme<'_>| self.moments.iter().find(|(label, _)| label == s.label);
        let mut events: Vec<(&TimedEvent, Vec<&Scheme<'_>>)> = Vec::new();
        for scheme in &drawn {
            for moment in of(scheme).map_or(&[][..], |(_, moments)| moments) {
                match events.iter_mut().find(|(known, _)| *known == moment) {
                    Some((_, having)) => having.push(scheme),
                    None => events.push((moment, vec![scheme])),
                }
            }
        }
        let times = events.iter().map(|((time, _), _)| time).collect::<std::collections::BTreeSet<_>>();
        if times.len() > MAX_MARKS {
            return Vec::new();
        }
        let mark = |((time, text), having): (&TimedEvent, Vec<&Scheme<'_>>)| {
            let label = if having.len() == drawn.len() {
                text.clone()
            } else {
                let mut names: Vec<&str> =
                    having.iter().map(|s| s.look.run.as_deref().unwrap_or(s.label)).collect();
                names.dedup();
                format!("{text} ({})", names.join(", "))
            };
            Annotation { x: self.at(*time), label }
        };
        events.into_iter().map(mark).collect()
    }
}

/// Returns what happened during the run of a scheme: flows that joined, policies that were set.
fn events(results: &Results, scheme: &Scheme<'_>) -> Vec<TimedEvent> {
    let mut moments = later_starts(scheme);
    let policy = results.summary.schemes.get(scheme.label).and_then(|summary| summary.policy.as_ref());
    let sets = policy.map_or(&[][..], |policy| &policy.sets);
    if sets.len() <= MAX_MARKS {
        moments.extend(sets.iter().map(|set| (Time::from_secs_f64(set.at_us / 1e6), set.change.clone())));
    }
    moments
}

/// Returns the times at which flows join after the beginning, each once; of many only more than are marked.
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
    let words = |names: Vec<String>| match &names[..] {
        [one] => format!("{} starts", format::flow(one)),
        _ => format!("{} flows start", names.len()),
    };
    starts.into_iter().map(|(time, names)| (time, words(names))).collect()
}
