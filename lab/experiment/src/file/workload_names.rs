//! Names of workloads, by which results are divided.

use super::error::ExperimentError;
use super::spec::ExperimentSpec;
use crate::yaml::join_path;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The name of all workloads together in tables.
pub const ALL_WORKLOADS: &str = "all";

/// Returns the name of the flows that the key `flows` lists.
pub(super) fn listed_flows() -> Arc<str> {
    "flows".into()
}

/// Returns the name of each workload of the file, see [`Experiment::workload_names`].
pub(super) fn resolve(
    spec: &ExperimentSpec,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<Arc<str>>, ExperimentError> {
    let unnamed = || spec.workloads.iter().filter(|other| other.name.is_none());
    let mut used = BTreeSet::from([Arc::from(ALL_WORKLOADS)]);
    used.extend((!spec.flows.is_empty()).then(listed_flows));
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names = Vec::new();
    for (i, workload) in spec.workloads.iter().enumerate() {
        let key_path = format!("workloads[{i}]");
        let name: Arc<str> = match &workload.name {
            Some(name) => {
                let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                if name.is_empty() || !name.chars().all(is_valid) {
                    let reason = format!("invalid name \"{name}\": use letters, digits, '-' and '_'");
                    return Err(invalid(&join_path(&key_path, "name"), reason));
                }
                name.as_str().into()
            }
            None => {
                let kind = workload.kind.as_str();
                let number = numbers.entry(kind).or_default();
                *number += 1;
                match unnamed().filter(|other| other.kind == kind).count() {
                    1 => kind.into(),
                    _ => format!("{kind}-{number}").into(),
                }
            }
        };
        if !used.insert(Arc::clone(&name)) {
            let reason = match &*name {
                ALL_WORKLOADS => format!("\"{name}\" is the name of all workloads together; use another"),
                _ => format!("\"{name}\" is the name of another workload; set a different `name`"),
            };
            let key = if workload.name.is_some() { "name" } else { "" };
            return Err(invalid(&join_path(&key_path, key), reason));
        }
        names.push(name);
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use crate::Experiment;

    /// Returns the names of these workloads, beside a listed flow, or the error.
    fn names(workloads: &str) -> Result<Vec<String>, String> {
        let text = format!(
            "topology: {{kind: star, hosts: 4}}\nschemes: [fncc]\nflows: [{{from: h1, to: h2}}]\nduration: 1ms\nworkloads:\n{workloads}"
        );
        let experiment =
            Experiment::parse(&text, "x.yaml", "x", &[], None).map_err(|error| error.to_string())?;
        Ok(experiment.workload_names().iter().map(ToString::to_string).collect())
    }

    const POISSON: &str = "- {kind: poisson, sizes: 1KB, load: 10%}\n";
    const INCAST: &str = "- {kind: incast, senders: 2, size: 1KB, every: 100us}\n";

    #[test]
    fn a_workload_has_its_name_or_that_of_its_kind() {
        let named = POISSON.replace("sizes", "name: background, sizes");
        assert_eq!(names(&format!("{POISSON}{INCAST}")).unwrap(), ["flows", "poisson", "incast"]);
        assert_eq!(
            names(&format!("{POISSON}{INCAST}{POISSON}")).unwrap(),
            ["flows", "poisson-1", "incast", "poisson-2"]
        );
        assert_eq!(names(&format!("{POISSON}{named}")).unwrap(), ["flows", "poisson", "background"]);
    }

    #[test]
    fn names_are_unique_and_simple() {
        for (name, expected) in [
            ("poisson", "workloads[1]: \"poisson\" is the name of another workload"),
            ("flows", "workloads[1].name: \"flows\" is the name of another workload"),
            ("all", "workloads[1].name: \"all\" is the name of all workloads together"),
            ("a.b", "workloads[1].name: invalid name \"a.b\""),
        ] {
            let named = INCAST.replace("senders", &format!("name: {name}, senders"));
            let (first, second) =
                if name == "poisson" { (named.as_str(), POISSON) } else { (POISSON, named.as_str()) };
            let error = names(&format!("{first}{second}")).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
