//! The description of a run besides its results, for the heading of the report and for `run.yaml`.

use super::figures::{self, Section};
use super::paper_value::PaperValue;
use super::program::ProgramInfo;
use super::tables::TableSelection;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use weir_experiment::Experiment;
use weir_experiment::file::CsvFile;
use weir_experiment::results::Results;

/// Creates a section of the report from the results of a run; `None` if the results have no data for it.
pub type SectionBuilder = fn(&Results) -> Option<Section>;

/// Description of a run besides its results.
#[derive(Clone, Debug, Default)]
pub struct RunDescription {
    pub name: String,
    /// One or two sentences on the experiment.
    pub about: Option<String>,
    /// Properties of the experiment as pairs of name and value: topology, duration...
    pub properties: Vec<(String, String)>,
    /// The program that executes the run.
    pub program: ProgramInfo,
    /// The experiment as YAML, with every default filled in.
    pub yaml: String,
    /// The tables to write.
    pub tables: TableSelection,
    /// IP address of each host.
    pub addresses: BTreeMap<String, Ipv4Addr>,
    /// Published values, to be compared with the results.
    pub paper: Vec<PaperValue>,
    /// Additional sections of the report, after the built-in ones.
    pub charts: Vec<SectionBuilder>,
}

impl RunDescription {
    /// Returns the content of `run.yaml`.
    pub fn to_yaml(&self) -> String {
        let ProgramInfo { name, .. } = &self.program;
        format!("# {}: `{name} run run.yaml` repeats this run.\n{}", self.program, self.yaml)
    }

    /// Returns the sections of the run's charts.
    pub fn sections(&self, results: &Results) -> Vec<Section> {
        let additional = self.charts.iter().filter_map(|chart| chart(results));
        figures::sections(results).into_iter().chain(additional).collect()
    }
}

/// Returns the description of an experiment, which does not depend on its results. The program is `weir` without a commit.
pub fn describe(experiment: &Experiment, charts: &[SectionBuilder]) -> RunDescription {
    let spec = &experiment.spec;
    let is_requested = |file: CsvFile| spec.observe.csv.contains(&file);
    let properties = [
        ("topology", topology(experiment)),
        ("scale", scale(experiment)),
        ("traffic", traffic(experiment)),
        ("duration", spec.duration.to_string()),
        ("MTU", format!("{} B", spec.mtu.get())),
        ("PFC", pfc(experiment)),
        ("routes", routes(experiment).unwrap_or_default()),
    ];
    RunDescription {
        name: spec.name.clone(),
        about: (!spec.title.is_empty()).then(|| spec.title.clone()),
        properties: properties
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        program: ProgramInfo::default(),
        yaml: experiment.resolved_yaml(),
        charts: charts.to_vec(),
        tables: TableSelection {
            flows: is_requested(CsvFile::Flows),
            queues: is_requested(CsvFile::Queues),
            rates: is_requested(CsvFile::Rates),
            // Recorded only on request.
            senders: !spec.observe.sender.is_empty(),
            pauses: is_requested(CsvFile::Pauses),
            fct: is_requested(CsvFile::Fct),
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
    let static_flows = match experiment.flows.len() {
        0 if experiment.has_dynamic_flows() => None,
        1 => Some("1 flow".to_owned()),
        n => Some(format!("{n} flows")),
    };
    static_flows
        .into_iter()
        .chain(experiment.workload_titles().map(str::to_owned))
        .collect::<Vec<_>>()
        .join("; ")
}

/// Describes priority flow control: `off`, `at 500KB` or `dynamic threshold`.
pub fn pfc(experiment: &Experiment) -> String {
    match experiment.spec.pfc.on().map(|pfc| pfc.threshold) {
        None => "off".to_owned(),
        Some(None) => "dynamic threshold".to_owned(),
        Some(Some(threshold)) => format!("at {threshold}"),
    }
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
    if experiment.scale.is_identity() { String::new() } else { experiment.scale.to_string() }
}

/// Describes the topology: `3 switches, 3 hosts, links of 100Gbps and 1.5us`.
fn topology(experiment: &Experiment) -> String {
    let topology = &experiment.topology;
    let rate = range(topology.links.iter().map(|link| link.rate));
    let delay = range(topology.links.iter().map(|link| link.delay));
    let switches = match topology.switches.len() {
        1 => "1 switch".to_owned(),
        count => format!("{count} switches"),
    };
    format!("{switches}, {} hosts, links of {rate} and {delay}", topology.hosts.len())
}

/// Formats the common value, or minimum and maximum if the values differ.
fn range<T: Copy + Ord + std::fmt::Display>(values: impl Iterator<Item = T> + Clone) -> String {
    match (values.clone().min(), values.max()) {
        (Some(min), Some(max)) if min == max => min.to_string(),
        (Some(min), Some(max)) => format!("{min} to {max}"),
        _ => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `weir` does not have the schemes of a program that extends it.
    #[test]
    fn the_first_line_of_run_yaml_names_the_program_that_repeats_the_run() {
        let mut run = RunDescription { yaml: "name: x\n".into(), ..RunDescription::default() };
        let version = run.program.to_string();
        assert_eq!(run.to_yaml(), format!("# {version}: `weir run run.yaml` repeats this run.\nname: x\n"));
        run.program = ProgramInfo { name: "my-lab".into(), commit: Some("3807f88a1b2c".into()) };
        let expected = format!(
            "# my-lab with {version} (3807f88a1b2c): `my-lab run run.yaml` repeats this run.\nname: x\n"
        );
        assert_eq!(run.to_yaml(), expected);
    }
}
