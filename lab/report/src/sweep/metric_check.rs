//! Validates the requested metrics before the first run, against an example summary with every key that the experiment can
//! produce. Its keys are those of the types in [`weir_experiment::results`].

use super::measure::MetricColumn;
use super::task::RunTask;
use crate::formula;
use serde_json::{Map, Value};
use weir_experiment::Experiment;
use weir_experiment::backend::Error;
use weir_experiment::results::{SchemeSummary, Summary};
use weir_experiment::schemars::schema_for;
use weir_experiment::yaml::join_path;

/// Length of lists in the example. Metrics refer to their entries by index; no run has more buckets, queues or policies.
const LIST_LEN: usize = 64;

/// Checks that the runs of these tasks can have every metric, so that typing errors are found before they run.
///
/// # Errors
///
/// If no task has one of the metrics, or an experiment is invalid. Comes with the index of the metric.
pub fn check(metrics: &[String], tasks: &[RunTask]) -> Result<(), (usize, Error)> {
    let mut unknown: Vec<(usize, &String)> = metrics.iter().enumerate().collect();
    let mut first_error = None;
    for task in tasks {
        if unknown.is_empty() {
            break;
        }
        let experiment = task.load().map_err(|error| (unknown[0].0, error))?;
        let (summary, order) = (summary(&experiment), order(&experiment));
        let mut errors = Vec::new();
        unknown.retain(|(_, text)| {
            let parsed = MetricColumn::parse_all(text, &summary, &order);
            parsed.map_err(|error| errors.push(format!("{error}{}", missing_key(text)))).is_err()
        });
        first_error = first_error.or(errors.into_iter().next());
    }
    match (unknown.first(), first_error) {
        (Some((index, _)), Some(reason)) => Err((*index, Error::Input(reason))),
        _ => Ok(()),
    }
}

/// Returns a warning, which begins with the path of its key, for each formula of `paper` of which no run of the experiment can
/// have a value.
pub fn unknown_paper_values(experiment: &Experiment) -> Vec<String> {
    let summary = summary(experiment);
    let first = experiment.schemes.first().map_or("fncc", |scheme| &scheme.label);
    let formulas =
        experiment.spec.paper.iter().enumerate().filter_map(|(i, note)| Some((i, note.ours.as_ref()?)));
    formulas
        .filter(|(_, formula)| formula::value(formula, &summary).is_none())
        .map(|(i, formula)| {
            format!(
                "paper[{i}].ours: {formula}: the experiment has no such value; write a path in a scheme's part of summary.json, \
                 such as {first}.marks"
            )
        })
        .collect()
}

/// Returns which key of the experiment the metric needs, for the end of a message.
fn missing_key(metric: &str) -> &'static str {
    match () {
        () if metric.contains("fct.classes.") => "; classes are those of the key observe.size_classes",
        () if metric.contains("fct.workloads.") => {
            "; workloads are those to which the experiment gives a `name`"
        }
        () => "",
    }
}

fn order(experiment: &Experiment) -> Vec<String> {
    experiment.schemes.iter().map(|scheme| scheme.label.clone()).collect()
}

/// Returns a summary with all keys that a run of this experiment can have. All values are 1, so that quotients are
/// defined.
fn summary(experiment: &Experiment) -> Summary {
    let schema = schema_for!(SchemeSummary).to_value();
    let example = Example { experiment, definitions: &schema["$defs"] };
    let scheme: SchemeSummary =
        serde_json::from_value(example.value(&schema, "")).expect("the schema is that of the type");
    Summary {
        experiment: String::new(),
        program: None,
        backend: String::new(),
        seed: 1,
        digest: String::new(),
        virtual_s: 1.0,
        wall_s: 1.0,
        packet_hops: 1,
        partial: false,
        schemes: order(experiment).into_iter().map(|label| (label, scheme.clone())).collect(),
    }
}

/// Makes values from a JSON Schema.
struct Example<'a> {
    experiment: &'a Experiment,
    /// The types to which the schema refers.
    definitions: &'a Value,
}

impl Example<'_> {
    /// Returns a value of the type with this schema, which is at `path` below a scheme.
    fn value(&self, schema: &Value, path: &str) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap_or_default();
            return self.value(&self.definitions[name], path);
        }
        // An optional value: the first is its type, the second `null`.
        if let Some(types) = schema["anyOf"].as_array() {
            return self.value(&types[0], path);
        }
        match schema["type"].as_str().or(schema["type"][0].as_str()) {
            Some("object") => {
                let of_map = |name: String| (name, &schema["additionalProperties"]);
                let fixed = schema["properties"].as_object().into_iter().flatten();
                let keys = fixed.map(|(key, schema)| (key.clone(), schema));
                let keys = keys.chain(self.keys_of_map(path).into_iter().map(of_map));
                let value = |(key, schema): (String, &Value)| {
                    let value = self.value(schema, &join_path(path, &key));
                    (key, value)
                };
                Value::Object(keys.map(value).collect::<Map<_, _>>())
            }
            Some("array") => vec![self.value(&schema["items"], path); self.list_len(path)].into(),
            Some("string") => String::new().into(),
            _ => 1.into(),
        }
    }

    /// Returns the keys of the map at `path`. Maps of counts by reason are empty: a metric may have any reason.
    fn keys_of_map(&self, path: &str) -> Vec<String> {
        let topology = &self.experiment.topology;
        let ports = topology.switch_ixs().flat_map(|ix| {
            let switch = topology.switch(ix);
            switch.ports().map(move |(port, _)| format!("{}:{port}", switch.name))
        });
        match path {
            "queues" | "utilisation" => ports.collect(),
            "fct.workloads" => {
                self.experiment.named_workloads().iter().map(|name| name.to_string()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the length of the list at `path`.
    fn list_len(&self, path: &str) -> usize {
        match self.experiment.spec.observe.size_classes.len() {
            _ if !(path.starts_with("fct.") && path.ends_with(".classes")) => LIST_LEN,
            0 => 0,
            bounds => bounds + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extensions::Extensions;
    use std::fs;
    use std::path::PathBuf;
    use weir_experiment::file::PaperNote;

    fn task(dir: &std::path::Path) -> RunTask {
        let file = dir.join("x.yaml");
        let yaml = "topology: {kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 100Gbps, delay: 1us}\nschemes: [fncc, hpcc]\nflows: [{from: h1, to: h3}]\nduration: 1us\nobserve: {size_classes: [10KB, 100KB]}\n";
        fs::write(&file, yaml).unwrap();
        RunTask {
            extensions: Extensions::default(),
            file,
            set: Vec::new(),
            over: Vec::new(),
            over_origin: "--over",
            seed: None,
            schemes: Vec::new(),
            dir: PathBuf::from("x"),
        }
    }

    #[test]
    fn formulas_of_the_paper_without_a_value_are_warnings() {
        let dir = tempfile::tempdir().unwrap();
        let mut experiment = task(dir.path()).load().unwrap();
        let formulas = [
            "fncc.marks vs hpcc.marks",
            "marks",
            "dctcp.marks",
            "fncc.queues.s1:3.peak_bytes",
            "hpcc.marks /",
        ];
        experiment.spec.paper = formulas.map(note).into();
        let warnings = unknown_paper_values(&experiment);
        let keys: Vec<&str> = warnings.iter().filter_map(|warning| warning.split(": ").next()).collect();
        assert_eq!(keys, ["paper[1].ours", "paper[2].ours", "paper[4].ours"]);
        assert!(
            warnings[0].starts_with("paper[1].ours: marks: ") && warnings[0].ends_with("such as fncc.marks")
        );
    }

    fn note(ours: &str) -> PaperNote {
        let text = || "x".to_owned();
        PaperNote { what: text(), value: text(), source: text(), ours: Some(ours.to_owned()), reason: None }
    }

    #[test]
    fn unknown_metrics_are_errors_and_optional_values_are_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let tasks = [task(dir.path())];
        for valid in [
            "peak queue",
            "FCT slowdown p95",
            "deflections",
            "fct.slowdown.p95",
            "fct.by_size.19.p50",
            "fct.classes.2.fct_us.mean",
            "fct.classes.*.slowdown.p99",
            "tail=fct.classes.*.slowdown.p99",
            "queues.*.peak_bytes",
            "queues.s1:3.peak_bytes",
            "packets.classes.0.marked_share",
            "telemetry.other_path",
            "fct.failed.timeout",
            "policy.sets.0.all_after_us",
            "drops",
            "drops.buffer_full",
            "less queue=fncc.queues.s1:3.peak_bytes vs hpcc.queues.s1:3.peak_bytes",
            "fncc.marks / hpcc.marks",
            "jobs.p90_us",
            "deadlock.packets",
        ] {
            check(&[valid.to_owned()], &tasks).unwrap_or_else(|reason| panic!("{valid}: {reason:?}"));
        }
        for invalid in [
            "peak queu",
            "fct.slowdown.p96",
            "fct.classes.*.slowdwon.p99",
            "fct.classes.3.slowdown.p99",
            "queues.s9:1.peak_bytes",
            "dcqcn.marks",
            "fncc.marks vs hpc.marks",
            "",
        ] {
            let metrics = ["marks".to_owned(), invalid.to_owned()];
            let Err((1, Error::Input(reason))) = check(&metrics, &tasks) else {
                panic!("{invalid} is accepted")
            };
            assert!(reason.starts_with(invalid) && reason.contains("unknown metric"), "{reason}");
        }
    }

    #[test]
    fn a_metric_of_one_run_is_sufficient() {
        let dir = tempfile::tempdir().unwrap();
        let both_schemes = task(dir.path());
        let only_hpcc = RunTask { schemes: vec!["hpcc".to_owned()], ..both_schemes.clone() };
        let metrics = ["fncc.marks".to_owned()];
        assert!(check(&metrics, std::slice::from_ref(&only_hpcc)).is_err());
        assert!(check(&metrics, &[only_hpcc, both_schemes]).is_ok());
    }
}
