//! The HTML page of a sweep: the table, a chart for each metric, and links to the runs.

use super::measure::MetricColumn;
use super::table::{Row, SweepResults};
use crate::chart::{Axis, Chart, LegendPlacement, Line, Size};
use crate::figures::{Figure, Layout, Section};
use crate::names::file_name;
use crate::program::ProgramInfo;
use crate::{format, page};
use maud::{Markup, html};

/// Maximum number of charts; further metrics are only in the table.
const MAX_CHARTS: usize = 12;
/// Maximum number of listed runs; `runs.csv` has all.
const MAX_LISTED_RUNS: usize = 500;

/// Description of a sweep.
pub struct About<'a> {
    pub name: &'a str,
    /// Title of the experiment; may be empty.
    pub title: &'a str,
    /// Command that repeats the sweep.
    pub command: &'a str,
    /// The program that made the sweep.
    pub program: &'a ProgramInfo,
}

pub fn section(results: &SweepResults<'_>) -> Section {
    let figures = results.measures.iter().enumerate().take(MAX_CHARTS);
    let note = results.grid.axes.iter().any(|axis| axis.is_mean()).then(|| {
        "Dots are means over the seeds or the keys marked with ~, bars their 95 % confidence intervals (Student's t).".to_owned()
    });
    let figures = figures.filter_map(|(column, measure)| figure(results, column, measure)).collect();
    Section { title: "Charts".into(), note, figures }
}

fn figure(results: &SweepResults<'_>, column: usize, measure: &MetricColumn) -> Option<Figure> {
    let subjects = results.subjects();
    // The first axis with several values becomes the x axis; each combination of the others becomes a line.
    let x_axis = results.grid.compared().position(|(_, axis)| axis.values.len() > 1);
    let axis = x_axis.and_then(|index| results.grid.compared().nth(index)).map(|(_, axis)| axis);
    let numbers: Option<Vec<f64>> =
        axis.filter(|axis| axis.values.len() > 1).and_then(|axis| in_one_unit(&axis.values));
    let x_of = |row: &Row| -> f64 {
        let subject_index = || subjects.iter().position(|subject| **subject == row.subject).unwrap_or(0);
        let Some((axis, column)) = axis.zip(x_axis) else { return subject_index() as f64 };
        let index = axis.values.iter().position(|value| *value == row.point[column]).unwrap_or(0);
        numbers.as_ref().map_or(index as f64, |numbers| numbers[index])
    };
    let mut lines: Vec<Line> = Vec::new();
    for row in &results.rows {
        let Some(estimate) = row.estimates[column] else { continue };
        let others = row.point.iter().enumerate().filter(|(index, _)| Some(*index) != x_axis);
        let has_several_values =
            |index: usize| results.grid.compared().nth(index).is_some_and(|(_, a)| a.values.len() > 1);
        let mut name = row.subject.clone().unwrap_or_else(|| measure.name.clone());
        for (_, value) in others.filter(|(index, _)| has_several_values(*index)) {
            name = format!("{name}, {value}");
        }
        let index = lines.iter().position(|line| line.name == name).unwrap_or_else(|| {
            let colour = subjects.iter().position(|subject| **subject == row.subject).unwrap_or(0);
            lines.push(Line { name, colour, dash: lines.len(), ..Line::default() });
            lines.len() - 1
        });
        lines[index].points.push((x_of(row), estimate.mean));
        lines[index].spread.push(estimate.interval());
    }
    if lines.is_empty() {
        return None;
    }
    for line in &mut lines {
        let mut points_and_intervals: Vec<_> =
            line.points.iter().copied().zip(line.spread.iter().copied()).collect();
        points_and_intervals.sort_by(|a, b| a.0.0.total_cmp(&b.0.0));
        (line.points, line.spread) = points_and_intervals.into_iter().unzip();
    }
    let x = match (axis, &numbers) {
        (Some(axis), Some(numbers)) => numeric_axis(&title_of(&axis.key, &axis.values), numbers),
        (Some(axis), None) => Axis::named(axis.key.clone(), axis.values.clone()),
        (None, _) => Axis::named("", subjects.iter().map(|s| SweepResults::subject(s).to_owned()).collect()),
    };
    let unit = if measure.unit().is_empty() { String::new() } else { format!(" ({})", measure.unit()) };
    let intervals = || lines.iter().flat_map(|line| &line.spread);
    let means = || lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let low = if means().any(|mean| mean < 0.0) {
        intervals().map(|interval| interval.0).fold(0.0, f64::min)
    } else {
        0.0
    };
    let high = intervals().map(|interval| interval.1).fold(0.0, f64::max);
    let title = format!("{}{unit}", measure.name);
    let y = if low < 0.0 {
        Axis::exactly(title, 1.1 * low, (1.1 * high).max(-0.1 * low))
    } else {
        Axis::from_zero(title, high)
    };
    let alt = format!("{} over {}", measure.name, axis.map_or("schemes", |axis| axis.key.as_str()));
    let names = if axis.is_none() { LegendPlacement::None } else { LegendPlacement::Legend };
    let chart = Chart { alt, x, y, lines, marks: Vec::new(), names };
    Some(Figure {
        file: format!("sweep-{}", file_name(&measure.name)),
        title: measure.name.clone(),
        layout: Layout::Half,
        picture: chart.into(),
    })
}

/// Splits a text into a number and its unit.
fn quantity(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".-+".contains(c))).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim()))
}

/// Returns the values as numbers, if all have the same unit.
fn in_one_unit(values: &[String]) -> Option<Vec<f64>> {
    let all: Vec<(f64, &str)> = values.iter().map(|value| quantity(value)).collect::<Option<_>>()?;
    all.iter().all(|(_, unit)| *unit == all[0].1).then(|| all.iter().map(|(number, _)| *number).collect())
}

/// Returns the last part of a key with the unit of its values: `load (%)`.
fn title_of(key: &str, values: &[String]) -> String {
    let short = key.rsplit('.').next().unwrap_or(key);
    match values.first().and_then(|value| quantity(value)) {
        Some((_, unit)) if !unit.is_empty() => format!("{short} ({unit})"),
        _ => short.to_owned(),
    }
}

/// Returns an axis with a tick at each of `numbers`.
fn numeric_axis(title: &str, numbers: &[f64]) -> Axis {
    /// Ratio of largest to smallest value from which the axis is logarithmic.
    const MIN_LOG_RATIO: f64 = 20.0;
    /// Margin at both ends, as a share of the axis.
    const MARGIN: f64 = 0.04;
    let mut tick_values = numbers.to_vec();
    tick_values.sort_by(f64::total_cmp);
    let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low > 0.0 && high / low >= MIN_LOG_RATIO {
        let margin_factor = (high / low).powf(MARGIN);
        let mut axis = Axis::log(format!("{title} (log)"), low / margin_factor, high * margin_factor);
        axis.format = format::significant_short;
        return Axis { tick_values, ..axis };
    }
    let margin = MARGIN * (high - low);
    Axis { tick_values, ..Axis::exactly(title, low - margin, high + margin) }
}

/// Returns the page. `dirs` are the directories of the runs, relative to the page.
pub fn page(about: &About<'_>, results: &SweepResults<'_>, dirs: &[String]) -> String {
    let (done, total) = (results.completed(), results.runs.len());
    let content = html! {
        header {
            h1 { (about.name) }
            @if !about.title.is_empty() { p.about { (about.title) } }
            @if done < total {
                p.partial role="note" { strong { "Not complete. " } (done) " of " (total) " runs are done; repeat the command to continue." }
            }
            dl {
                @for axis in &results.grid.axes { div { dt { (axis.key) } dd { (axis.values.join(", ")) } } }
                div { dt { "runs" } dd { (done) " of " (total) } }
                div { dt { "generated by" } dd { (about.program) } }
                div.digest { dt { "command" } dd { code { (about.command) } } }
            }
        }
        section {
            h2 { "Means" }
            (means(results))
            @for sentence in results.notes() { p.note { (sentence) "." } }
        }
        (page::charts(&section(results)))
        (runs(results, dirs))
    };
    page::html_page(about.name, &content)
}

fn means(results: &SweepResults<'_>) -> Markup {
    html! {
        div.scroll {
            table.means {
                thead { tr {
                    @for key in results.keys() { th.name scope="col" { (key) } }
                    th.name scope="col" { "scheme" }
                    @for (column, measure) in results.measures.iter().enumerate() {
                        @let (name, count) = results.heading(column);
                        th scope="col" { (name) @if !measure.unit().is_empty() { " " span.unit { (measure.unit()) } } @if let Some(count) = count { " " span.unit { (count) } } }
                    }
                } }
                tbody {
                    @for row in &results.rows {
                        tr {
                            @for value in &row.point { th scope="row" { (value) } }
                            th scope="row" { (SweepResults::subject(&row.subject)) }
                            @for (measure, estimate) in results.measures.iter().zip(&row.estimates) {
                                td { @if let Some(estimate) = estimate {
                                    (measure.number(estimate.mean)) (row.mark(estimate))
                                    @if let Some(interval) = measure.interval_text(estimate) {
                                        " " span.unit { (interval) }
                                    }
                                } @else { "-" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn runs(results: &SweepResults<'_>, dirs: &[String]) -> Markup {
    html! {
        section.ports-section {
            h2 { "Runs" }
            details {
                summary { (results.runs.len()) " runs, each with a report of its own" }
                div.scroll {
                    table.ports {
                        thead { tr { th scope="col" { "run" } th scope="col" { "digest" } } }
                        tbody {
                            @for ((_, outcome), dir) in results.runs.iter().zip(dirs).take(MAX_LISTED_RUNS) {
                                tr {
                                    th scope="row" {
                                        @if outcome.summary.is_some() { a href=(format!("./{dir}/report.html")) { (dir) } } @else { (dir) }
                                    }
                                    td { @match (&outcome.summary, &outcome.failure) {
                                        (Some(summary), _) => code { (summary.digest.get(..16).unwrap_or(&summary.digest)) },
                                        (None, Some(_)) => "failed",
                                        (None, None) => "not done",
                                    } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the charts as SVG files: name and content.
pub fn svgs(results: &SweepResults<'_>) -> impl Iterator<Item = (String, String)> {
    let figures = section(results).figures.into_iter();
    figures.map(|figure| (format!("{}.svg", figure.file), figure.picture.svg_file(Size::Narrow)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::grid::Grid;
    use crate::sweep::task::RunResult;
    use crate::{RunDescription, fixtures};

    #[test]
    fn ticks_and_points_are_at_the_swept_values() {
        let grid = Grid::parse(&["workload.senders=8,16,32"]).unwrap();
        let results = fixtures::dumbbell();
        let outcome = RunResult {
            order: results.order.clone(),
            summary: Some(results.summary.clone()),
            failure: None,
            is_cached: false,
            description: RunDescription::default(),
        };
        let outcomes = vec![outcome; 3];
        let measure = MetricColumn::parse("peak queue", &results.summary, &results.order).unwrap();
        let section = section(&SweepResults::new(&grid, &outcomes, vec![measure]));
        let chart = section.figures[0].picture.chart().unwrap();
        assert_eq!(chart.x.ticks(4), [8.0, 16.0, 32.0]);
        assert_eq!(chart.lines.len(), 2);
        for line in &chart.lines {
            assert_eq!(line.points.iter().map(|point| point.0).collect::<Vec<_>>(), [8.0, 16.0, 32.0]);
        }
        assert_ne!(chart.lines[0].dash, chart.lines[1].dash);
    }
}
