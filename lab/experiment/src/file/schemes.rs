//! Resolves the schemes of the run, and those that flows and workloads specify.

use super::error::ExperimentError;
use super::flow::ParsedWorkload;
use super::program::{Entries, EntriesSpec, Program, ProgramSpec};
use super::scheme::{Scheme, SchemeEntry, configure};
use super::spec::ExperimentSpec;
use crate::artifacts;
use crate::workload::WorkloadContext;
use crate::yaml::join_path;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weir_controller::plan::FORWARD;
use weir_controller::thresholds::DeflectionConfig;
use weir_controller::topology::{HostIx, Topology};
use weir_host::scheme::{Deflection, QueueThreshold, SchemeConfig};
use weir_host::schemes::Registry;

/// Reads the program of the key `key_path`.
fn resolve_program(
    spec: &ProgramSpec,
    key_path: &str,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Program, ExperimentError> {
    let invalid = |reason: String| invalid(key_path, reason);
    let artifact = spec.artifact().map_err(invalid)?;
    let p4info = artifact.index().map_err(invalid)?;
    let profile = artifacts::switch_profile(&p4info)
        .map_err(|error| invalid(format!("{}: {error}", artifact.title())))?;
    Ok(Program { spec: spec.clone(), artifact, profile })
}

/// Checks that the controller can write routes, or that `entries` provide them.
fn check_routes(
    program: &Program,
    entries: &[Entries],
    key_path: &str,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<(), ExperimentError> {
    let artifact = &program.artifact;
    let p4info = artifact.index().map_err(|reason| invalid(key_path, reason))?;
    match p4info.tables.named(FORWARD) {
        Err(error) if entries.is_empty() => {
            let reason = format!("{}: {error}; provide routes with `entries`", artifact.title());
            Err(invalid(key_path, reason))
        }
        _ => Ok(()),
    }
}

/// Translates the entries of the key `key_path` for every switch, so that names that the scheme's program lacks are found
/// before the run. `hint` follows the reason of an error.
fn check_entries(
    scheme: &Scheme,
    (key_path, hint): (&str, &str),
    topology: &Topology,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<(), ExperimentError> {
    if scheme.entries.is_empty() {
        return Ok(());
    }
    let artifact = scheme.artifact();
    let p4info = artifact.index().map_err(|reason| invalid("program", reason))?;
    for (i, entries) in scheme.entries.iter().enumerate() {
        let entry_error = |reason: String| {
            invalid(&format!("{key_path}[{i}]"), format!("{reason} ({}{hint})", artifact.title()))
        };
        topology
            .switch_ixs()
            .try_for_each(|ix| entries.desired_state(ix, &p4info).map(|_| ()))
            .map_err(entry_error)?;
    }
    Ok(())
}

pub(super) fn resolve_schemes(
    spec: &ExperimentSpec,
    registry: &Registry,
    topology: &Topology,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<Scheme>, ExperimentError> {
    if spec.schemes.is_empty() {
        return Err(invalid("schemes", "at least one scheme is required (see `weir schemes`)".to_owned()));
    }
    let read_entries = |specs: &[EntriesSpec], key_path: &str| {
        let entries = Entries::read(specs, key_path, topology);
        entries.map(Arc::from).map_err(|(key_path, reason)| invalid(&key_path, reason))
    };
    // Schemes without entries of their own may have programs of their own, so each of them checks these again.
    let common_entries: Arc<[Entries]> = read_entries(&spec.entries, "entries")?;
    let common_program =
        spec.program.as_ref().map(|program| resolve_program(program, "program", invalid)).transpose()?;
    let mut labels = BTreeSet::new();
    let mut resolved = Vec::new();
    for (i, entry) in spec.schemes.iter().enumerate() {
        let key_path = format!("schemes[{i}]");
        let config = configure(registry, entry, &key_path, invalid)?;
        if entry.label.is_empty() {
            return Err(invalid(&format!("{key_path}.label"), "must not be empty".to_owned()));
        }
        if !labels.insert(entry.label.clone()) {
            let reason = format!("duplicate label \"{}\"; set a different `label`", entry.label);
            return Err(invalid(&key_path, reason));
        }
        let (entries, entries_key) = match &entry.entries {
            Some(specs) => {
                let key_path = format!("{key_path}.entries");
                (read_entries(specs, &key_path)?, key_path)
            }
            None => (Arc::clone(&common_entries), "entries".to_owned()),
        };
        let (program, program_key) = match &entry.program {
            Some(program) => {
                let key_path = format!("{key_path}.program");
                (Some(resolve_program(program, &key_path, invalid)?), key_path)
            }
            None => (common_program.clone(), "program".to_owned()),
        };
        if let Some(program) = &program {
            check_routes(program, &entries, &program_key, invalid)?;
        }
        if let Some(program) = &program
            && let Some(missing) = program.profile.unmet_need(&config.needs())
        {
            let reason = format!(
                "{} requires {missing}, which {} does not provide",
                entry.scheme,
                program.artifact.title()
            );
            return Err(invalid(&key_path, reason));
        }
        let scheme = Scheme { label: entry.label.clone(), config, program, entries };
        let hint = match &entry.program {
            Some(_) if entry.entries.is_none() => {
                format!(", the program of {key_path}; set `entries` there, possibly to []")
            }
            _ => String::new(),
        };
        check_entries(&scheme, (&entries_key, &hint), topology, invalid)?;
        resolved.push(scheme);
    }
    Ok(resolved)
}

/// The scheme of the hosts that send the flows of a key.
struct SchemeAssignment {
    /// Path of the key `scheme`.
    key_path: String,
    hosts: Vec<HostIx>,
    /// `None`: the scheme of the run.
    scheme: Option<SchemeEntry>,
}

/// Returns the schemes that flows and workloads specify, by sending host.
pub(super) fn resolve_scheme_overrides(
    spec: &ExperimentSpec,
    registry: &Registry,
    topology: &Topology,
    schemes: &[Scheme],
    workloads: &[ParsedWorkload],
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<BTreeMap<HostIx, Arc<dyn SchemeConfig>>, ExperimentError> {
    let mut assignments: Vec<SchemeAssignment> = Vec::new();
    for (i, flow) in spec.flows.iter().enumerate() {
        let hosts = topology.host_named(&flow.from).into_iter().collect();
        let key_path = format!("flows[{i}].scheme");
        assignments.push(SchemeAssignment { key_path, hosts, scheme: flow.scheme.clone() });
    }
    let context = WorkloadContext { topology, seed: spec.seed, duration: spec.duration, mtu: spec.mtu };
    for (key_path, workload) in workloads {
        let hosts =
            workload.senders(&context).map_err(|e| invalid(&join_path(key_path, &e.key), e.reason))?;
        let key_path = join_path(key_path, "scheme");
        assignments.push(SchemeAssignment { key_path, hosts, scheme: workload.scheme() });
    }
    let mut overrides: BTreeMap<HostIx, Arc<dyn SchemeConfig>> = BTreeMap::new();
    let mut assigned = BTreeMap::new();
    for SchemeAssignment { key_path, hosts, scheme: entry } in &assignments {
        let assignment = entry.as_ref().map(|entry| (entry.scheme.as_str(), &entry.set));
        for host in hosts {
            if *assigned.entry(*host).or_insert(assignment) != assignment {
                let name = &topology.host(*host).name;
                let reason = format!("flows of {name} have different schemes, but a host uses a single one");
                return Err(invalid(key_path, reason));
            }
        }
        let Some(entry) = entry else { continue };
        for (key, is_set) in [("program", entry.program.is_some()), ("entries", entry.entries.is_some())] {
            if is_set {
                let reason = format!("switches run one program for all hosts; set `{key}` under `schemes`");
                return Err(invalid(&join_path(key_path, key), reason));
            }
        }
        let config = configure(registry, entry, key_path, invalid)?;
        // Both schemes share switches and receivers, so telemetry, grants and recovery must be the same.
        for run_scheme in schemes {
            let (own_needs, run_needs) = (config.needs(), run_scheme.config.needs());
            let has_same_recovery = spec.transport.recovery.is_some()
                || own_needs.transport.recovery == run_needs.transport.recovery;
            if own_needs.telemetry != run_needs.telemetry
                || own_needs.writes_grant != run_needs.writes_grant
                || own_needs.reports_endpoint_delay != run_needs.reports_endpoint_delay
                || !has_same_recovery
            {
                let reason = format!(
                    "{} and {} have different requirements for switches or receivers; they cannot run together",
                    entry.scheme, run_scheme.label
                );
                return Err(invalid(key_path, reason));
            }
        }
        overrides.extend(hosts.iter().map(|&host| (host, Arc::clone(&config))));
    }
    Ok(overrides)
}

/// Checks that the thresholds of marks and deflections can be scaled to the rate of each link.
pub(super) fn check_thresholds(
    spec: &ExperimentSpec,
    topology: &Topology,
    schemes: &[Scheme],
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<(), ExperimentError> {
    for (i, scheme) in schemes.iter().enumerate() {
        if let Some(Deflection { threshold: QueueThreshold { queue, reference_rate }, tokens, .. }) =
            scheme.config.needs().deflection
        {
            let config = DeflectionConfig {
                threshold: queue,
                reference_rate: Some(reference_rate),
                // `scaled_threshold` does not depend on these two.
                at_hosts: false,
                lifetime: 0,
                tokens,
            };
            for link in &topology.links {
                config
                    .scaled_threshold(link.rate)
                    .map_err(|e| invalid(&format!("schemes[{i}]"), e.to_string()))?;
            }
        }
        let key_path = if spec.ecn.is_some() { "ecn".to_owned() } else { format!("schemes[{i}]") };
        let Some(ecn) = spec.ecn_for(&*scheme.config) else { continue };
        for link in &topology.links {
            // Only the check: the ramp itself is computed for each switch when the run starts.
            ecn.ramp(link.rate).map_err(|e| match spec.ecn.is_some() {
                true => invalid(&join_path(&key_path, e.key()), e.to_string()),
                false => invalid(&key_path, e.to_string()),
            })?;
        }
    }
    Ok(())
}
