//! Compares the results of an experiment's runs with values published in papers.

use super::list::PlannedExperiment;
use crate::sweep::measure::MetricColumn;
use crate::sweep::pool::RunResult;
use crate::sweep::stats::Estimate;
use crate::sweep::table::SweepResults;
use crate::{formula, paper_value};

/// A published value with the measured one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The quantity, and the point of the grid if there are several.
    pub what: String,
    /// The paper's value, and its figure or section.
    pub paper: String,
    /// The measured value; `None` if not all runs are done.
    pub ours: Option<String>,
    /// Reason for a difference; may be empty.
    pub reason: String,
}

/// A table of means.
pub struct Means {
    /// Column heads.
    pub head: Vec<String>,
    /// Rows in the order of the grid.
    pub rows: Vec<Vec<String>>,
}

/// Returns the comparisons of an experiment. `outcomes` has one entry per task.
pub fn claims(planned: &PlannedExperiment, outcomes: &[RunResult]) -> Vec<Claim> {
    let mut points: Vec<Vec<String>> = Vec::new();
    for cell in planned.grid.cells() {
        let point = planned.grid.point(&cell);
        if !points.contains(&point) {
            points.push(point);
        }
    }
    let keys: Vec<&str> =
        planned.grid.compared().map(|(_, a)| a.key.rsplit('.').next().unwrap_or(&a.key)).collect();
    let mut lines = Vec::new();
    for note in planned.notes.iter().filter(|note| note.ours.is_some()) {
        let formula = note.ours.as_deref().unwrap_or_default();
        for point in &points {
            let point_text: Vec<String> =
                keys.iter().zip(point).map(|(key, value)| format!("{key} {value}")).collect();
            let what = [&[note.what.clone()][..], &point_text].concat().join(", ");
            let paper = match note.source.as_str() {
                "" => note.value.clone(),
                source => format!("{} ({source})", note.value),
            };
            let pairs = planned.grid.cells().into_iter().zip(outcomes);
            let pairs = pairs.filter(|(cell, _)| planned.grid.point(cell) == *point);
            let runs: Vec<&RunResult> = pairs.map(|(_, outcome)| outcome).collect();
            let reason = note.reason.clone().unwrap_or_default();
            lines.push(Claim { what, paper, ours: measured(formula, &runs), reason });
        }
    }
    lines
}

/// Returns the measured value with its confidence interval; `None` if not all runs are done.
fn measured(formula: &str, runs: &[&RunResult]) -> Option<String> {
    let done: Vec<_> = runs.iter().map(|run| run.summary.as_ref()).collect::<Option<_>>()?;
    if done.is_empty() {
        return None;
    }
    let values: Vec<f64> = done.iter().filter_map(|summary| formula::value(formula, summary)).collect();
    let Some(Estimate { mean, half_width, .. }) = Estimate::from_values(&values) else {
        return Some("none".to_owned());
    };
    let mean = paper_value::text(formula, mean);
    Some(match half_width {
        // The half width has no sign: `-12.3 % ± 1.0 %`.
        Some(half) => format!("{mean} ± {}", paper_value::text(formula, half).trim_start_matches('+')),
        None => mean,
    })
}

/// Returns the table of an entry's `columns`; `None` if it has no columns or not all runs are done.
///
/// # Errors
///
/// If the summary lacks the value of a column.
pub fn means(planned: &PlannedExperiment, outcomes: &[RunResult]) -> Result<Option<Means>, String> {
    let all_done = outcomes.iter().all(|outcome| outcome.summary.is_some());
    let first = outcomes.first().and_then(|outcome| Some((outcome.summary.as_ref()?, &outcome.order)));
    let (true, false, Some((summary, order))) = (all_done, planned.entry.columns.is_empty(), first) else {
        return Ok(None);
    };
    let measures = planned.entry.columns.iter().map(|column| MetricColumn::parse_all(column, summary, order));
    let measures = measures
        .collect::<Result<Vec<_>, _>>()
        .map(|columns| columns.concat())
        .map_err(|reason| format!("{}: {reason}", planned.file.display()))?;
    let results = SweepResults::new(&planned.grid, outcomes, measures);
    let mut head: Vec<String> =
        results.keys().into_iter().map(|key| key.rsplit('.').next().unwrap_or(key).to_owned()).collect();
    head.push("scheme".to_owned());
    head.extend(results.measures.iter().map(|measure| match measure.unit() {
        "" => measure.name.clone(),
        unit => format!("{} ({unit})", measure.name),
    }));
    let rows = results.rows.iter().map(|row| {
        let values = results.measures.iter().zip(&row.estimates);
        let values =
            values.map(|(measure, value)| value.as_ref().map_or("-".to_owned(), |value| measure.text(value)));
        row.point
            .iter()
            .cloned()
            .chain([SweepResults::subject(&row.subject).to_owned()])
            .chain(values)
            .collect()
    });
    Ok(Some(Means { head, rows: rows.collect() }))
}
