//! `report.html`: a self-contained page without external resources.

use super::chart::{Chart, LegendPlacement, Line, PLOT_CSS, Size, sample_line};
use super::figures::{Figure, Layout, Section};
use super::metrics::{Metric, bottleneck, metrics, port_name, ports_by_congestion};
use super::names::file_name;
use super::{RunDescription, VERSION, format, interactive, paper_value, policy};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use weir_experiment::results::{Results, SchemeTrace, Summary};
use weir_units::Time;

const PAGE_CSS: &str = include_str!("page.css");

/// Maximum number of ports on the page; `summary.json` has all.
const MAX_PORT_ROWS: usize = 24;

/// Returns an HTML page with this content.
pub fn html_page(title: &str, content: &Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // Defence in depth: even if a text were taken for markup, the page cannot load or send anything.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
                title { (title) " · Weir" }
                style { (PreEscaped(PLOT_CSS)) (PreEscaped(PAGE_CSS)) }
            }
            body {
                main { (content) }
                @if interactive::has_data(content) { (interactive::scripts()) }
            }
        }
    };
    markup.into_string()
}

/// Returns the page of a run.
pub fn page(run: &RunDescription, results: &Results, sections: &[Section]) -> String {
    let content = html! {
        (heading(run, results))
        (comparison(results))
        (published(run, &results.summary))
        @for section in sections { (charts(section)) }
        (policy::section(results))
        (interactive::flows(results))
        (ports(results, sections))
        (reproduce_section(run))
    };
    html_page(&run.name, &content)
}

fn heading(run: &RunDescription, results: &Results) -> Markup {
    let summary = &results.summary;
    html! {
        header {
            h1 { (run.name) }
            @if let Some(about) = &run.about { p.about { (about) } }
            @if summary.partial {
                p.partial role="note" { strong { "Not complete. " } "The run was interrupted, or is in progress: the numbers cover the time simulated so far." }
            }
            @for failure in super::failures(results) {
                p.partial role="note" { strong { "Not complete. " } (failure) "." }
            }
            dl {
                @for (what, value) in &run.facts { div { dt { (what) } dd { (value) } } }
                div { dt { "seed" } dd { (summary.seed) } }
                div { dt { "simulated" } dd {
                    (simulated(results)) " in " (format::significant(summary.wall_s)) " s, "
                    (format::count(summary.packet_hops)) " packet-hops"
                } }
                div { dt { "made by" } dd { "weir " (VERSION) " (" (summary.backend) ")" } }
                div.digest { dt { "digest" } dd { code { (summary.digest) } } }
            }
        }
    }
}

/// Returns the simulated time, such as `2 schemes of 1 ms` if it is the same for all.
pub fn simulated(results: &Results) -> String {
    let (seconds, schemes) = (results.summary.virtual_s, results.order.len());
    let each = seconds / schemes.max(1) as f64;
    let is_each = |trace: &SchemeTrace| (trace.end.as_secs_f64() - each).abs() <= 1e-6 * each;
    let duration = |seconds| format::duration(Time::from_secs_f64(seconds));
    match schemes {
        0 | 1 => duration(seconds),
        _ if results.traces.values().all(is_each) => format!("{schemes} schemes of {}", duration(each)),
        _ => format!("{schemes} schemes, together {}", duration(seconds)),
    }
}

fn comparison(results: &Results) -> Markup {
    let metrics: Vec<Metric> = metrics(results).into_iter().map(Metric::readable).collect();
    let port = bottleneck(&results.summary);
    html! {
        section {
            h2 { "Summary" }
            div.scroll {
                table.comparison {
                    thead { tr {
                        th {}
                        @for (index, scheme) in results.order.iter().enumerate() {
                            th scope="col" { (sample_line(index, index)) " " (scheme) }
                        }
                    } }
                    tbody { @for metric in &metrics { (metric_row(metric)) } }
                }
            }
            @if let Some(port) = port {
                p.note {
                    "Queue and utilisation are those of " (port_name(results, port))
                    ", the port with the longest queue. Bold: the best of a row."
                }
            }
            @for (label, scheme) in &results.summary.schemes {
                @if !scheme.drops.is_empty() {
                    p.note {
                        "Drops under " (label) ": "
                        @for (i, (reason, n)) in scheme.drops.iter().enumerate() {
                            @if i > 0 { ", " } (format::count(*n)) " " code { (reason) }
                        }
                        "."
                    }
                }
            }
        }
    }
}

fn metric_row(metric: &Metric) -> Markup {
    html! {
        tr {
            th scope="row" title=(metric.meaning) {
                (metric.name) @if !metric.unit.is_empty() { " " span.unit { (metric.unit) } }
            }
            @for index in 0..metric.values.len() {
                td.best[metric.is_best(index)] { (metric.text(index)) }
            }
        }
    }
}

fn published(run: &RunDescription, summary: &Summary) -> Markup {
    // Notes may have no measured value; if none has one, the column is omitted.
    let measured = run.paper.iter().any(|note| note.ours.is_some());
    let reasons = run.paper.iter().any(|note| note.reason.is_some());
    html! {
        @if !run.paper.is_empty() {
            section {
                h2 { "Comparison with the paper" }
                div.scroll {
                    table.published {
                        thead { tr {
                            th scope="col" { "what" } th scope="col" { "paper" }
                            @if measured { th scope="col" { "measured" } }
                            th scope="col" { "source" }
                            @if reasons { th scope="col" { "reason for difference" } }
                        } }
                        tbody {
                            @for note in &run.paper {
                                tr {
                                    th scope="row" { (note.what) }
                                    td data-label="paper" { (note.value) }
                                    @if measured { td data-label="measured" { (paper_value::ours(note, summary).unwrap_or_else(|| "-".to_owned())) } }
                                    td.source data-label="source" { (note.source) }
                                    @if reasons { td.source data-label="reason for difference" { (note.reason.as_deref().unwrap_or_default()) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns a section of charts with a common legend.
pub fn charts(section: &Section) -> Markup {
    html! {
        section {
            h2 { (section.title) }
            @if let Some(note) = &section.note { p.note { (note) } }
            (legend(section))
            @let alone = section.figures.len() == 1;
            div.figures { @for figure in &section.figures { (chart(figure, alone || figure.layout == Layout::Full)) } }
        }
    }
}

/// Returns the legend: each line of the section's charts once.
fn legend(section: &Section) -> Markup {
    let charts = section.figures.iter().filter_map(|figure| figure.picture.chart());
    let mut entries: Vec<&Line> = Vec::new();
    for line in charts.filter(|chart| chart.names == LegendPlacement::Legend).flat_map(|chart| &chart.lines) {
        if !entries.iter().any(|entry| entry.name == line.name) {
            entries.push(line);
        }
    }
    html! {
        @if !entries.is_empty() {
            p.legend {
                @for line in entries { span data-name=(line.name) { (sample_line(line.colour, line.dash)) " " (line.name) } " " }
            }
        }
    }
}

/// A full-width chart is drawn for two widths, and the style sheet shows the one that fits the window.
fn chart(figure: &Figure, full: bool) -> Markup {
    let chart = figure.picture.chart().filter(|chart| chart.names == LegendPlacement::Legend);
    let notes: Vec<(&Line, &str)> = chart.map_or_else(Vec::new, |chart| {
        chart.lines.iter().filter_map(|line| Some((line, line.note.as_deref()?))).collect()
    });
    html! {
        figure.full[full] id=(figure.file) {
            @if !figure.title.is_empty() { figcaption { (figure.title) } }
            @if !notes.is_empty() {
                p.values { @for (line, note) in notes { span { (sample_line(line.colour, line.dash)) " " (note) } " " } }
            }
            @if let Some(sentence) = chart.and_then(Chart::coincidence) { p.note { (sentence) } }
            @if full {
                div.wide { (figure.picture.svg(Size::Wide)) }
                div.narrow { (figure.picture.svg(Size::Narrow)) }
            } @else {
                (figure.picture.svg(Size::Narrow))
            }
            @if let Some(chart) = figure.picture.chart() { (interactive::data(chart)) }
        }
    }
}

/// Returns the table of ports. Ports with a chart of their queue link to it.
pub(super) fn ports(results: &Results, sections: &[Section]) -> Markup {
    let chart = |port: &str| {
        let name = format!("queue-{}", file_name(port));
        sections.iter().flat_map(|section| &section.figures).any(|figure| figure.file == name).then_some(name)
    };
    let summary = &results.summary;
    let ports = ports_by_congestion(summary);
    let schemes: Vec<_> = results.order.iter().filter_map(|s| Some((s, summary.schemes.get(s)?))).collect();
    html! {
        section.ports-section {
            h2 { "Ports" }
            details {
                summary { "Queue and utilisation of " (ports.len().min(MAX_PORT_ROWS)) " of " (ports.len()) " ports that sent" }
                div.scroll {
                    table.ports {
                        thead { tr {
                            th scope="col" { "port" } th scope="col" { "scheme" }
                            th scope="col" { "peak " span.unit { "KB" } } th scope="col" { "mean " span.unit { "KB" } }
                            th scope="col" { "p99 " span.unit { "KB" } } th scope="col" { "utilisation " span.unit { "%" } }
                        } }
                        @for port in ports.iter().take(MAX_PORT_ROWS) {
                            tbody {
                                @for (row, (label, scheme)) in schemes.iter().enumerate() {
                                    tr {
                                        @if row == 0 { th scope="rowgroup" rowspan=(schemes.len()) {
                                            @if let Some(chart) = chart(port) { a href=(format!("#{chart}")) { (port) } } @else { (port) }
                                        } }
                                        th scope="row" { (label) }
                                        @if let Some(queue) = scheme.queues.get(*port) {
                                            td { (format::decimal(queue.peak_bytes as f64 / 1e3, 1)) }
                                            td { (format::decimal(queue.mean_bytes / 1e3, 1)) }
                                            td { (format::decimal(queue.p99_bytes as f64 / 1e3, 1)) }
                                        } @else { td { "-" } td { "-" } td { "-" } }
                                        td { (scheme.utilisation.get(*port).map_or("-".to_owned(), |u| format::decimal(100.0 * u, 1))) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn reproduce_section(run: &RunDescription) -> Markup {
    html! {
        section.origin {
            h2 { "Reproduce this run" }
            p { "The file below, with every default filled in and saved next to this page as " code { "run.yaml" }
                ", gives the same digest again: " code { "weir run run.yaml" } "." }
            details {
                summary { "run.yaml" }
                pre { (run.yaml) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn the_time_of_several_schemes_is_given_for_each() {
        let mut results = fixtures::dumbbell();
        assert_eq!(simulated(&results), "2 schemes of 1 ms");
        results.traces.get_mut("fncc").unwrap().end = Time::from_us(400);
        results.summary.virtual_s = 0.0014;
        assert_eq!(simulated(&results), "2 schemes, together 1.4 ms");
        results.order.truncate(1);
        assert_eq!(simulated(&results), "1.4 ms");
    }
}
