//! Several runs on one page: their schemes side by side, and what is different between them.

use super::chart::sample_line;
use super::figures::{self, LineStyle};
use super::load::LoadedRun;
use super::metrics::{BetterWhen, Metric, bottleneck, metrics_at, port_name};
use super::{RunDescription, VERSION, format, interactive, page, paper_value};
use maud::{Markup, html};
use serde_yaml::Value;
use std::collections::{BTreeMap, BTreeSet};
use weir_experiment::results::{Results, Summary};

/// More columns than this are set closer.
const MANY: usize = 4;

/// The schemes of all runs as those of one.
struct Merged {
    results: Results,
    /// For each scheme: its colour is the same in all runs, its dashes tell these apart.
    looks: Vec<LineStyle>,
    /// For each scheme, the port whose queue and utilisation are compared.
    ports: Vec<Option<String>>,
    /// For each scheme, the one of the same name in the first run that has it, if that is another.
    baseline: Vec<Option<usize>>,
}

impl Merged {
    /// Returns each run with the port that is compared, once.
    fn runs_and_ports(&self) -> BTreeSet<(&str, &str)> {
        let pairs = self.looks.iter().zip(&self.ports);
        pairs.filter_map(|(look, port)| Some((look.run.as_deref()?, port.as_deref()?))).collect()
    }
}

/// Returns the page.
pub fn page(runs: &[LoadedRun]) -> String {
    let names = names(runs);
    let merged = merge(runs, &names);
    let title = if runs.len() == 1 {
        names[0].clone()
    } else {
        format!("{} beside {}", names[0], names[1..].join(", "))
    };
    let mut sections = figures::sections_as(&merged.results, &merged.looks);
    let further = runs.first().map_or(&[][..], |first| &first.run.charts);
    sections.extend(further.iter().filter_map(|chart| chart(&merged.results)));
    let content = html! {
        header {
            h1 { (title) }
            @let abouts: BTreeSet<&String> = runs.iter().filter_map(|run| run.run.about.as_ref()).collect();
            @for about in abouts { p.about { (about) } }
            @for (run, name) in runs.iter().zip(&names).filter(|(run, _)| run.results.summary.partial) {
                p.partial role="note" {
                    strong { (name) " is not complete. " }
                    "Its numbers are of the first " (page::simulated(&run.results)) " that were simulated."
                }
            }
        }
        (list(runs, &names))
        @for (run, name) in runs.iter().zip(&names) {
            @if let Some(factor) = run.time_divisor {
                p.note {
                    (name) " is a scale model that ran " (format::significant_short(factor))
                    " times slower: its times are divided by that factor and its rates multiplied by it."
                }
            }
        }
        (differences(runs, &names))
        (comparison(&merged, runs.len()))
        (paper_section(runs, &names))
        @for section in &sections { (page::charts(section)) }
        (interactive::flows(&merged.results))
        (page::ports(&merged.results, &sections))
        section.origin { p.note { "Made by weir " (VERSION) " from the files of these runs: `weir report` with their directories makes it again." } }
    };
    page::html_page(&title, &content)
}

/// Returns the names of the runs, told apart.
fn names(runs: &[LoadedRun]) -> Vec<String> {
    let twice = |name: &str| runs.iter().filter(|run| run.name == name).count() > 1;
    let name = |(i, run): (usize, &LoadedRun)| {
        if twice(&run.name) { format!("{} ({})", run.name, i + 1) } else { run.name.clone() }
    };
    runs.iter().enumerate().map(name).collect()
}

fn merge(runs: &[LoadedRun], names: &[String]) -> Merged {
    // One scheme of all runs, then the next: what is to be compared stands side by side.
    let mut labels: Vec<&String> = Vec::new();
    for label in runs.iter().flat_map(|run| &run.results.order) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let mut summary = runs[0].results.summary.clone();
    summary.partial = runs.iter().any(|run| run.results.summary.partial);
    summary.schemes.clear();
    let (mut traces, mut order, mut looks, mut base) = (BTreeMap::new(), Vec::new(), Vec::new(), Vec::new());
    let mut run_of = Vec::new();
    for (colour, label) in labels.into_iter().enumerate() {
        let having = || runs.iter().enumerate().filter(|(_, run)| run.results.order.contains(label));
        let first = order.len();
        for (place, (index, run)) in having().enumerate() {
            let alone = having().count() == 1;
            let name = if alone { label.clone() } else { format!("{label} · {}", names[index]) };
            summary.schemes.extend(run.results.summary.schemes.get(label).map(|s| (name.clone(), s.clone())));
            traces.extend(run.results.traces.get(label).map(|t| (name.clone(), t.clone())));
            order.push(name);
            let run = (runs.len() > 1).then(|| names[index].clone());
            looks.push(LineStyle { colour, dash: index, run });
            run_of.push(index);
            base.push((place > 0).then_some(first));
        }
    }
    let ports = ports(runs, &summary);
    let ports = run_of.into_iter().map(|run| ports[run].clone()).collect();
    Merged { results: Results { summary, traces, order }, looks, ports, baseline: base }
}

/// For each run the port to compare: the one with the longest queue of all, if every run has it, else its own.
fn ports(runs: &[LoadedRun], all: &Summary) -> Vec<Option<String>> {
    let has = |run: &LoadedRun, port: &str| {
        run.results.summary.schemes.values().any(|s| s.queues.contains_key(port))
    };
    let shared = bottleneck(all).filter(|port| runs.iter().all(|run| has(run, port)));
    runs.iter().map(|run| shared.or_else(|| bottleneck(&run.results.summary)).map(str::to_owned)).collect()
}

fn list(runs: &[LoadedRun], names: &[String]) -> Markup {
    html! {
        section {
            h2 { "Runs" }
            div.scroll {
                table.published {
                    thead { tr {
                        th scope="col" { "run" } th scope="col" { "what" } th scope="col" { "seed" }
                        th scope="col" { "simulated" } th scope="col" { "digest" }
                    } }
                    tbody {
                        @for (run, name) in runs.iter().zip(names) {
                            @let summary = &run.results.summary;
                            @let same = runs.iter().filter(|other| other.results.summary.digest == summary.digest).count() > 1;
                            tr {
                                th scope="row" { (name) }
                                td data-label="what" { @for (i, (what, value)) in run.run.facts.iter().take(3).enumerate() { @if i > 0 { ", " } (what) " " (value) } }
                                td data-label="seed" { (summary.seed) }
                                td data-label="simulated" { (page::simulated(&run.results)) " (" (summary.backend) ")" @if summary.partial { ", " strong { "partial" } } }
                                td data-label="digest" { code { (summary.digest.get(..12).unwrap_or(&summary.digest)) } @if same { " same bytes" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the keys of `run.yaml` whose values are not the same in all runs.
fn differences(runs: &[LoadedRun], names: &[String]) -> Markup {
    let flat: Vec<BTreeMap<String, String>> = runs.iter().map(|run| flatten(&run.run)).collect();
    let keys: BTreeSet<&String> = flat.iter().flat_map(BTreeMap::keys).collect();
    let differ: Vec<&String> =
        keys.into_iter().filter(|key| flat.iter().any(|run| run.get(*key) != flat[0].get(*key))).collect();
    html! {
        @if runs.len() > 1 {
            section {
                h2 { "What is different" }
                @if differ.is_empty() { p.note { "Nothing: the experiments are the same, key by key." } } @else {
                    div.scroll {
                        table.published {
                            thead { tr { th scope="col" { "key" } @for name in names { th scope="col" { (name) } } } }
                            tbody {
                                @for key in differ {
                                    tr {
                                        th scope="row" { code { (key) } }
                                        @for (run, name) in flat.iter().zip(names) { td data-label=(name) { (run.get(key).map_or("absent", String::as_str)) } }
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

/// Returns every value with its path, but for what a run says of itself.
fn flatten(run: &RunDescription) -> BTreeMap<String, String> {
    fn text(scalar: &Value) -> String {
        let text = serde_yaml::to_string(scalar).unwrap_or_default();
        text.trim().trim_matches('\'').replace('\n', " ")
    }
    fn walk(at: &str, value: &Value, into: &mut BTreeMap<String, String>) {
        let below = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
        match value {
            Value::Mapping(map) => {
                for (key, inner) in map {
                    walk(&below(key.as_str().unwrap_or("?")), inner, into);
                }
            }
            Value::Sequence(list) if list.iter().any(|item| item.is_mapping()) => {
                for (i, inner) in list.iter().enumerate() {
                    walk(&below(&i.to_string()), inner, into);
                }
            }
            Value::Sequence(list) => {
                let items: Vec<String> = list.iter().map(text).collect();
                into.insert(at.to_owned(), format!("[{}]", items.join(", ")));
            }
            scalar => {
                into.insert(at.to_owned(), text(scalar));
            }
        }
    }
    let mut flat = BTreeMap::new();
    if let Ok(value) = serde_yaml::from_str::<Value>(&run.yaml) {
        walk("", &value, &mut flat);
    }
    flat.retain(|key, _| !["name", "title"].contains(&key.as_str()) && !key.starts_with("paper."));
    flat
}

fn comparison(merged: &Merged, runs: usize) -> Markup {
    let results = &merged.results;
    let ports: Vec<Option<&str>> = merged.ports.iter().map(Option::as_deref).collect();
    let metrics = metrics_at(results, &ports);
    let mut distinct: Vec<&str> = ports.into_iter().flatten().collect();
    distinct.dedup();
    html! {
        section {
            h2 { "Summary" }
            div.scroll {
                table.comparison.many[results.order.len() > MANY] {
                    thead { tr {
                        th {}
                        @for (index, scheme) in results.order.iter().enumerate() {
                            th scope="col" { (sample_line(merged.looks[index].colour, merged.looks[index].dash)) " " (scheme) }
                        }
                    } }
                    tbody { @for metric in &metrics { (row(metric, merged)) } }
                }
            }
            p.note {
                @match distinct[..] {
                    [] => {}
                    [port] => { "Queue and utilisation are those of " (port_name(results, port)) ", the port with the longest queue. " }
                    _ => {
                        "The runs have different ports: queue and utilisation are those of the port with the longest queue of each, "
                        @for (i, (run, port)) in merged.runs_and_ports().iter().enumerate() {
                            @if i > 0 { ", " } (port) " of " (run)
                        }
                        ". "
                    }
                }
                "Bold: the best of a row."
                @if merged.baseline.iter().any(Option::is_some) {
                    " Below a number: by how much it differs from the same scheme in the first of the " (runs) " runs that has it, ▲ better, ▼ worse; nothing where they are the same."
                }
            }
        }
    }
}

fn row(metric: &Metric, merged: &Merged) -> Markup {
    html! {
        tr {
            th scope="row" title=(metric.meaning) {
                (metric.name) @if !metric.unit.is_empty() { " " span.unit { (metric.unit) } }
            }
            @for index in 0..metric.values.len() {
                td.best[metric.is_best(index)] {
                    (metric.text(index)) (change(metric, index, merged.baseline[index]))
                }
            }
        }
    }
}

/// By how much a value differs from its base.
fn change(metric: &Metric, index: usize, base: Option<usize>) -> Markup {
    /// In percent; less is the same.
    const NOTHING: f64 = 0.05;
    let value = |index: usize| metric.values.get(index).copied().flatten();
    let Some((value, base)) = base.and_then(|base| Some((value(index)?, value(base)?))) else {
        return html! {};
    };
    let percent = 100.0 * (value / base - 1.0);
    if value == base || percent.abs() < NOTHING {
        return html! {};
    }
    let (sign, class) = match (metric.better, value < base) {
        (BetterWhen::Lower, true) | (BetterWhen::Higher, false) => ("▲", "better"),
        (BetterWhen::Lower, false) | (BetterWhen::Higher, true) => ("▼", "worse"),
        (BetterWhen::Neither, _) => ("", "other"),
    };
    html! {
        span.change.(class) {
            (sign) " " @if percent.is_finite() { (format!("{percent:+.1} %")) } @else { (format!("{:+}", value - base)) }
        }
    }
}

fn paper_section(runs: &[LoadedRun], names: &[String]) -> Markup {
    let mut notes: Vec<&paper_value::PaperValue> = Vec::new();
    for note in runs.iter().flat_map(|run| &run.run.paper) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    html! {
        @if !notes.is_empty() {
            section {
                h2 { "Beside the paper" }
                div.scroll {
                    table.published {
                        thead { tr {
                            th scope="col" { "what" } th scope="col" { "the paper says" }
                            @for name in names { th scope="col" { (name) } }
                            th scope="col" { "source" }
                        } }
                        tbody {
                            @for note in notes {
                                tr {
                                    th scope="row" { (note.what) }
                                    td data-label="the paper says" { (note.value) }
                                    @for (run, name) in runs.iter().zip(names) {
                                        td data-label=(name) { (paper_value::ours(note, &run.results.summary).unwrap_or_else(|| "-".to_owned())) }
                                    }
                                    td.source data-label="source" { (note.source) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use crate::manifest::Integrity;

    fn run(name: &str, queue: u64, seed: u64) -> LoadedRun {
        let mut results = fixtures::dumbbell();
        results.summary.seed = seed;
        for scheme in results.summary.schemes.values_mut() {
            scheme.queues.get_mut("s1:3").unwrap().peak_bytes = queue;
        }
        LoadedRun {
            name: name.into(),
            run: RunDescription { yaml: format!("seed: {seed}\nmtu: 1518B\n"), ..fixtures::run() },
            results,
            integrity: Integrity::Verified,
            slowdown: 1.0,
            time_divisor: None,
        }
    }

    #[test]
    fn runs_without_a_common_bottleneck_are_compared_at_their_own() {
        let mut other = run("b", 150_000, 1);
        for scheme in other.results.summary.schemes.values_mut() {
            let queue = scheme.queues.remove("s1:3").unwrap();
            scheme.queues.insert("tor2:2".into(), queue);
            let share = scheme.utilisation.remove("s1:3").unwrap();
            scheme.utilisation.insert("tor2:2".into(), share);
        }
        let page = page(&[run("a", 100_000, 1), other]);
        assert!(page.contains("s1:3 of a, tor2:2 of b"));
        assert!(page.contains("▼ +50.0 %"), "the queues are compared");
    }

    #[test]
    fn schemes_stand_side_by_side_and_differences_are_marked() {
        let page = page(&[run("a", 100_000, 1), run("b", 150_000, 2)]);
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
        assert!(place("fncc · a") < place("fncc · b") && place("fncc · b") < place("hpcc eta=0.95 · a"));
        assert!(page.contains("▼ +50.0 %"), "a longer queue is worse");
        assert!(page.contains("<code>seed</code>") && !page.contains("<code>mtu</code>"));
        assert!(page.contains("Beside the paper") && page.contains("same bytes"));
    }

    #[test]
    fn a_list_is_written_as_one_and_an_absent_key_is_not() {
        let mut other = run("b", 1, 1);
        other.run.yaml = "seed: 1\nmtu: 1518B\nschemes:\n- fncc\n- hpcc\n".into();
        let page = page(&[run("a", 1, 1), other]);
        assert!(page.contains(">[fncc, hpcc]<") && page.contains(">absent<"));
    }

    #[test]
    fn runs_of_one_name_are_told_apart() {
        let page = page(&[run("x", 1, 1), run("x", 2, 1)]);
        assert!(page.contains("fncc · x (1)") && page.contains("fncc · x (2)"));
        let alone = super::page(&[run("x", 1, 1)]);
        assert!(!alone.contains("What is different") && !alone.contains("fncc ·"));
    }
}
