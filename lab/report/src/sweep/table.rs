//! The results of a sweep: means and confidence intervals over seeds, as a text table and CSV files.

use super::grid::{Cell, Grid};
use super::measure::{MetricColumn, Subject};
use super::stats::Estimate;
use super::task::RunResult;
use crate::completion::enough_for;
use crate::tables::csv::escape_formula;
use comfy_table::CellAlignment;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use weir_experiment::results::Summary;

/// Breaks a path after some of its dots, so that a long one does not make its column wide.
fn broken_at_dots(name: &str) -> String {
    /// Longest line, if the path has enough dots.
    const MAX_LINE: usize = 18;
    let mut text = String::new();
    for part in name.split_inclusive('.') {
        let line = text.rsplit('\n').next().map_or(0, |line| line.chars().count());
        if line > 0 && line + part.chars().count() > MAX_LINE {
            text.push('\n');
        }
        text.push_str(part);
    }
    text
}

/// The results of a sweep.
pub struct SweepResults<'a> {
    pub grid: &'a Grid,
    /// Every run, in the order of the grid's cells.
    pub runs: Vec<(Cell, &'a RunResult)>,
    /// Metrics to show.
    pub measures: Vec<MetricColumn>,
    /// For each metric, the least and the largest number of flows or jobs of a run over which it was computed; `None` if
    /// it is not a mean or percentile of a sample.
    sample_sizes: Vec<Option<(u64, u64)>>,
    /// For each metric, whether its values are those of a run, and not of each scheme.
    is_of_run: Vec<bool>,
    /// One row for each point and subject, in the order of the grid and of the experiment.
    pub rows: Vec<Row>,
}

/// One row of the table.
pub struct Row {
    /// Values on the compared axes.
    pub point: Vec<String>,
    /// A scheme, or the whole run.
    pub subject: Subject,
    /// Number of runs of this point that are done.
    pub runs: usize,
    /// One estimate for each of [`SweepResults::measures`].
    pub estimates: Vec<Option<Estimate>>,
}

/// Marks a mean over fewer runs than are done.
const FEWER_RUNS: &str = "*";

impl Row {
    /// Returns the mark of a mean over fewer runs than are done, which `SweepResults::fewer_runs` explains; an empty text
    /// for others.
    pub fn mark(&self, estimate: &Estimate) -> &'static str {
        if estimate.runs < self.runs { FEWER_RUNS } else { "" }
    }
}

impl<'a> SweepResults<'a> {
    /// Computes the means over the runs that are done.
    pub fn new(grid: &'a Grid, outcomes: &'a [RunResult], measures: Vec<MetricColumn>) -> SweepResults<'a> {
        let runs: Vec<(Cell, &RunResult)> = grid.cells().into_iter().zip(outcomes).collect();
        let mut rows: Vec<Row> = Vec::new();
        let mut samples: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        let summaries = || outcomes.iter().filter_map(|run| Some((run.summary.as_ref()?, &run.order)));
        let is_of_run = |measure: &MetricColumn| {
            summaries().any(|(summary, order)| measure.values(summary, order).contains_key(&None))
        };
        let is_of_run: Vec<bool> = measures.iter().map(is_of_run).collect();
        let has_scheme_rows = is_of_run.contains(&false);
        for (cell, outcome) in &runs {
            let Some(summary) = &outcome.summary else { continue };
            let point = grid.point(cell);
            // Also for a scheme without any value, so that its run is not left out.
            for subject in outcome.order.iter().filter(|_| has_scheme_rows).cloned().map(Some) {
                if !rows.iter().any(|row| row.point == point && row.subject == subject) {
                    rows.push(Row { point: point.clone(), subject, runs: 0, estimates: Vec::new() });
                }
            }
            for (column, measure) in measures.iter().enumerate() {
                let mut values = measure.values(summary, &outcome.order);
                let order = outcome.order.iter().cloned().map(Some).chain([None]);
                for (subject, value) in order.filter_map(|s| values.remove(&s).map(|value| (s, value))) {
                    let existing = rows.iter().position(|row| row.point == point && row.subject == subject);
                    let row = existing.unwrap_or_else(|| {
                        rows.push(Row { point: point.clone(), subject, runs: 0, estimates: Vec::new() });
                        rows.len() - 1
                    });
                    samples.entry((row, column)).or_default().push(value);
                }
            }
        }
        for (index, row) in rows.iter_mut().enumerate() {
            let estimate = |(column, measure): (usize, &MetricColumn)| {
                measure.estimate(samples.get(&(index, column)).map_or(&[], Vec::as_slice))
            };
            row.estimates = measures.iter().enumerate().map(estimate).collect();
        }
        // Rows of the whole run follow the schemes of the same point.
        let points: Vec<Vec<String>> = runs.iter().map(|(cell, _)| grid.point(cell)).collect();
        for row in &mut rows {
            let of_point = points.iter().zip(&runs).filter(|(point, _)| **point == row.point);
            row.runs = of_point.filter(|(_, (_, outcome))| outcome.summary.is_some()).count();
        }
        rows.sort_by_key(|row| points.iter().position(|point| *point == row.point));
        let sample_sizes = measures.iter().map(|measure| {
            let sizes = || summaries().flat_map(|(summary, order)| measure.sample_sizes(summary, order));
            // Without any flow or job there is no mean or percentile.
            sizes().filter(|size| *size > 0).min().zip(sizes().max())
        });
        let sample_sizes = sample_sizes.collect();
        SweepResults { grid, runs, measures, sample_sizes, is_of_run, rows }
    }

    /// Returns the number of runs that are done.
    pub fn completed(&self) -> usize {
        self.runs.iter().filter(|(_, outcome)| outcome.summary.is_some()).count()
    }

    /// Returns the metrics that apply to the subject of a row, each with its estimate; `None` if no run has a value.
    pub fn estimates(&self, row: &Row) -> impl Iterator<Item = (&MetricColumn, Option<Estimate>)> {
        let columns = self.measures.iter().zip(&row.estimates).zip(&self.is_of_run);
        let applies = columns.filter(|(_, is_of_run)| **is_of_run == row.subject.is_none());
        applies.map(|((measure, estimate), _)| (measure, *estimate))
    }

    /// Returns the subjects; schemes are in the order of the experiment.
    pub fn subjects(&self) -> Vec<&Subject> {
        let mut all = Vec::new();
        for row in &self.rows {
            if !all.contains(&&row.subject) {
                all.push(&row.subject);
            }
        }
        all
    }

    /// Returns the keys of the compared axes with more than one value.
    pub fn keys(&self) -> Vec<&str> {
        self.grid.compared().map(|(_, axis)| axis.key.as_str()).collect()
    }

    /// Returns the name of a subject in a table.
    pub fn subject(subject: &Subject) -> &str {
        subject.as_deref().unwrap_or("-")
    }

    /// Returns the heading of a metric's column: its name with the size class, and the number of flows in a run.
    pub fn heading(&self, column: usize) -> (String, Option<String>) {
        let count = self.sample_sizes[column].map(|(min, max)| match min == max {
            true => format!("n {min}"),
            false => format!("n {min} to {max}"),
        });
        (self.measures[column].heading(), count)
    }

    /// Returns the sentences below the table: at which port queues were measured, and what limits the meaning of means and
    /// percentiles.
    pub fn notes(&self) -> Vec<String> {
        let notes = self.port_rule().into_iter().chain(self.fewer_runs()).chain(self.unfinished());
        notes.chain(self.small_samples()).chain(self.unknown_reasons()).collect()
    }

    /// Returns a sentence that says at which port queue and utilisation were measured, if the table has them.
    fn port_rule(&self) -> Option<String> {
        self.measures.iter().any(MetricColumn::is_at_port).then(|| {
            "Queue and utilisation of a run at its port with the largest mean queue over all schemes; its report names the port"
                .to_owned()
        })
    }

    /// Returns a sentence for each count of a reason, such as `drops.buffer_full`, that did not occur in any run: its name may
    /// be a misspelling.
    fn unknown_reasons(&self) -> Vec<String> {
        let schemes = self.runs.iter().filter_map(|(_, outcome)| outcome.summary.as_ref());
        let schemes: Vec<Value> = schemes
            .flat_map(|summary| summary.schemes.values())
            .filter_map(|scheme| serde_json::to_value(scheme).ok())
            .collect();
        let sentence = |(map, reason): (&str, &str)| {
            let path = if map == "failed" { "/fct/failed".to_owned() } else { format!("/{map}") };
            let counts = schemes.iter().filter_map(|scheme| scheme.pointer(&path)?.as_object());
            let known: BTreeSet<&String> = counts.flat_map(|counts| counts.keys()).collect();
            let list = known.iter().map(|known| known.as_str()).collect::<Vec<_>>().join(", ");
            let others = if list.is_empty() { String::new() } else { format!("; these runs have {list}") };
            (!known.iter().any(|known| *known == reason))
                .then(|| format!("No run has {map} with the reason {reason}{others}"))
        };
        self.measures.iter().filter_map(MetricColumn::reason).filter_map(sentence).collect()
    }

    /// Returns a sentence if the table has statistics of completion times, and some flows had not finished.
    fn unfinished(&self) -> Option<String> {
        let summaries = self.runs.iter().filter_map(|(_, outcome)| outcome.summary.as_ref());
        let unfinished =
            |summary: &Summary| summary.schemes.values().map(|scheme| scheme.fct.unfinished).max();
        let counts: Vec<u64> = summaries.filter_map(unfinished).filter(|count| *count > 0).collect();
        let max = counts.iter().max().filter(|_| self.measures.iter().any(MetricColumn::is_of_flows))?;
        Some(format!(
            "Flows that had not finished at the end (in {} of {} runs, up to {max} of a scheme) are in no completion time: \
             means and percentiles are too low",
            counts.len(),
            self.completed()
        ))
    }

    /// Returns a sentence that explains the mark of means over fewer runs than are done, if the table has any.
    fn fewer_runs(&self) -> Option<String> {
        let marked =
            |row: &Row| row.estimates.iter().flatten().any(|estimate| !row.mark(estimate).is_empty());
        self.rows.iter().any(marked).then(|| {
            format!("{FEWER_RUNS} mean over fewer runs: the others have no such value; sweep.csv has the number of runs")
        })
    }

    /// Returns a sentence for each high percentile that is over so few flows that it is the maximum or close to it.
    fn small_samples(&self) -> Vec<String> {
        /// Maximum number of metrics in a sentence.
        const MAX_LISTED: usize = 3;
        let mut ranks: Vec<u8> = self.measures.iter().filter_map(MetricColumn::percentile).collect();
        ranks.sort_unstable_by(|a, b| b.cmp(a));
        ranks.dedup();
        let sentence = |rank: u8| {
            let enough = enough_for(rank)?;
            let measures = self.measures.iter().zip(&self.sample_sizes);
            let of_rank = measures.filter(|(measure, _)| measure.percentile() == Some(rank));
            let few: Vec<String> = of_rank
                .filter_map(|(measure, sizes)| Some((measure, sizes.filter(|(min, _)| *min < enough)?)))
                .map(|(measure, (min, _))| format!("{}: {min}", measure.heading()))
                .collect();
            let rest = few.len().saturating_sub(MAX_LISTED);
            let rest = if rest > 0 { format!("; and {rest} more") } else { String::new() };
            (!few.is_empty()).then(|| {
                format!(
                    "p{rank} over fewer than {enough} flows or jobs in a run is close to the slowest one ({}{rest})",
                    few[..few.len().min(MAX_LISTED)].join("; ")
                )
            })
        };
        ranks.into_iter().filter_map(sentence).collect()
    }

    /// Returns the table for the terminal.
    pub fn text(&self, styled: bool, width: Option<usize>) -> String {
        let mut head: Vec<(String, CellAlignment)> =
            self.keys().into_iter().map(|key| (key.to_owned(), CellAlignment::Left)).collect();
        head.push(("scheme".to_owned(), CellAlignment::Left));
        head.extend(self.measures.iter().enumerate().map(|(column, measure)| {
            let (name, count) = self.heading(column);
            let count = count.map(|count| format!("\n{count}")).unwrap_or_default();
            let unit =
                if measure.unit().is_empty() { String::new() } else { format!("\n({})", measure.unit()) };
            // A class keeps its bounds in one line.
            let (name, class) = name.split_once(" (").unwrap_or((&name, ""));
            let class = if class.is_empty() { String::new() } else { format!("\n({class}") };
            (broken_at_dots(&name.replace(' ', "\n")) + &class + &unit + &count, CellAlignment::Right)
        }));
        let rows = self.rows.iter().map(|row| {
            let mut cells = row.point.clone();
            cells.push(Self::subject(&row.subject).to_owned());
            cells.extend(self.measures.iter().zip(&row.estimates).map(|(measure, estimate)| {
                estimate
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), |estimate| measure.text(estimate) + row.mark(estimate))
            }));
            cells
        });
        let keys = self.keys().len() + 1;
        crate::table::transposable(&head, keys, &rows.collect::<Vec<_>>(), styled, width)
    }

    /// Returns `sweep.csv`: one row for each point, subject and metric.
    ///
    /// # Errors
    ///
    /// If a record cannot be encoded.
    pub fn csv(&self) -> io::Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let fixed = ["scheme", "metric", "unit", "runs", "mean", "ci95_low", "ci95_high"];
        writer.write_record(
            self.keys().into_iter().chain(fixed).map(|name| escape_formula(name).into_owned()),
        )?;
        for row in &self.rows {
            for (measure, estimate) in self.estimates(row) {
                let mean = estimate.map(|estimate| estimate.mean);
                let interval = estimate.filter(|it| it.half_width.is_some()).map(|it| it.interval());
                let text = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
                let names = [row.subject.as_deref().unwrap_or_default(), &measure.name, measure.unit()];
                let names = row.point.iter().map(String::as_str).chain(names);
                let numbers = [
                    estimate.map_or(0, |estimate| estimate.runs).to_string(),
                    text(mean),
                    text(interval.map(|(low, _)| low)),
                    text(interval.map(|(_, high)| high)),
                ];
                writer.write_record(names.map(|name| escape_formula(name).into_owned()).chain(numbers))?;
            }
        }
        writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
    }

    /// Returns `runs.csv`: one row for each run and scheme, with digest and values.
    ///
    /// # Errors
    ///
    /// If a record cannot be encoded.
    pub fn runs_csv(&self) -> io::Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let axes = self.grid.axes.iter().map(|axis| axis.key.as_str());
        let names = self.measures.iter().map(|measure| measure.name.as_str());
        writer.write_record(
            axes.chain(["scheme", "digest"]).chain(names).map(|name| escape_formula(name).into_owned()),
        )?;
        for (cell, outcome) in &self.runs {
            let Some(summary) = &outcome.summary else { continue };
            let values: Vec<_> = self.measures.iter().map(|m| m.values(summary, &outcome.order)).collect();
            for subject in outcome.order.iter().cloned().map(Some).chain([None]) {
                if !self.is_of_run.contains(&subject.is_none()) {
                    continue;
                }
                let numbers =
                    values.iter().map(|values| values.get(&subject).map(f64::to_string).unwrap_or_default());
                let names = [subject.as_deref().unwrap_or_default(), &summary.digest];
                let names = cell.values.iter().map(String::as_str).chain(names);
                writer.write_record(names.map(|name| escape_formula(name).into_owned()).chain(numbers))?;
            }
        }
        writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_are_broken_at_dots() {
        assert_eq!(broken_at_dots("fct.slowdown.p99"), "fct.slowdown.p99");
        assert_eq!(broken_at_dots("fct.classes.0.slowdown.p99"), "fct.classes.0.\nslowdown.p99");
        assert_eq!(broken_at_dots("peak\nqueue"), "peak\nqueue");
        assert_eq!(
            broken_at_dots("a_key_without_any_dot_that_is_long"),
            "a_key_without_any_dot_that_is_long"
        );
    }
}
