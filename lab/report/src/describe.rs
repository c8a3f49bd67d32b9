//! The description of an experiment in the heading of the report.

use super::{PaperValue, RunDescription, SectionBuilder, TableSelection};
use weir_experiment::Experiment;
use weir_experiment::file::CsvFile;

/// Returns the parts of the report that do not depend on the results.
pub fn describe(experiment: &Experiment, charts: &[SectionBuilder]) -> RunDescription {
    let spec = &experiment.spec;
    let asked = |file: CsvFile| spec.observe.csv.contains(&file);
    let pfc = match spec.pfc.on() {
        None => "off".to_owned(),
        Some(pfc) => {
            pfc.threshold.map_or("dynamic threshold".to_owned(), |threshold| format!("at {threshold}"))
        }
    };
    let facts = [
        ("topology", topology(experiment)),
        ("scale", scale(experiment)),
        ("traffic", traffic(experiment)),
        ("duration", spec.duration.to_string()),
        ("MTU", format!("{} B", spec.mtu.get())),
        ("PFC", pfc),
        ("routes", routes(experiment).unwrap_or_default()),
    ];
    RunDescription {
        name: spec.name.clone(),
        about: (!spec.title.is_empty()).then(|| spec.title.clone()),
        facts: facts
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(what, value)| (what.to_owned(), value))
            .collect(),
        yaml: experiment.resolved_yaml(),
        charts: charts.to_vec(),
        tables: TableSelection {
            flows: asked(CsvFile::Flows),
            queues: asked(CsvFile::Queues),
            rates: asked(CsvFile::Rates),
            pauses: asked(CsvFile::Pauses),
            fct: asked(CsvFile::Fct),
            format: spec.observe.format,
        },
        addresses: experiment.topology.hosts.iter().map(|host| (host.name.clone(), host.ip)).collect(),
        paper: spec
            .paper
            .iter()
            .map(|note| PaperValue {
                what: note.what.clone(),
                value: note.value.clone(),
                source: note.source.clone(),
                ours: note.ours.clone(),
                reason: note.reason.clone(),
            })
            .collect(),
    }
}

/// Describes the traffic: `2 flows`, and the titles of workloads.
pub fn traffic(experiment: &Experiment) -> String {
    let listed = match experiment.flows.len() {
        0 if experiment.has_dynamic_flows() => None,
        1 => Some("1 flow".to_owned()),
        n => Some(format!("{n} flows")),
    };
    listed.into_iter().chain(experiment.workload_titles().map(str::to_owned)).collect::<Vec<_>>().join("; ")
}

/// Describes the routes: `6 spanning trees, as ECMP is not symmetric here`; `None` unless trees replace ECMP.
pub fn routes(experiment: &Experiment) -> Option<String> {
    let trees = match experiment.trees_instead_of_ecmp()? {
        1 => "1 spanning tree".to_owned(),
        trees => format!("{trees} spanning trees"),
    };
    Some(format!("{trees}, as ECMP is not symmetric here"))
}

/// Describes a scale model: `100Gbps runs at 10Mbps, 10000 times slower`; empty otherwise.
fn scale(experiment: &Experiment) -> String {
    if experiment.scale.is_none() { String::new() } else { experiment.scale.to_string() }
}

/// Describes the topology: `3 switches, 3 hosts, links of 100Gbps and 1.5us`.
fn topology(experiment: &Experiment) -> String {
    let topology = &experiment.topology;
    let rate = range(topology.links.iter().map(|link| link.rate));
    let delay = range(topology.links.iter().map(|link| link.delay));
    let (switches, hosts) = (topology.switches.len(), topology.hosts.len());
    format!("{switches} switches, {hosts} hosts, links of {rate} and {delay}")
}

/// Formats the common value, or minimum and maximum if the values differ.
fn range<T: Copy + Ord + std::fmt::Display>(values: impl Iterator<Item = T> + Clone) -> String {
    match (values.clone().min(), values.max()) {
        (Some(min), Some(max)) if min == max => min.to_string(),
        (Some(min), Some(max)) => format!("{min} to {max}"),
        _ => "none".to_owned(),
    }
}
