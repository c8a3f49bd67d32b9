//! Resolves an [`ExperimentSpec`] to an [`Experiment`]: replaces names by indices, applies defaults, and rejects invalid
//! values with their key paths.

use super::error::ExperimentError;
use super::experiment::{DynamicWorkload, Experiment};
use super::flow::{Flow, FlowNamer, entropy_port};
use super::overrides::{self, Override};
use super::program::{Entries, EntriesSpec, Program, ProgramSpec};
use super::scale::{Scale, host_rate};
use super::scheme::{Scheme, configure};
use super::spec::ExperimentSpec;
use super::{changes, workload_names};
use crate::artifacts;
use crate::catalogue::Catalogue;
use crate::hosts;
use crate::input::read_file;
use crate::rng::{mix, stream_seed};
use crate::scalar::SchemeEntry;
use crate::workload::{
    DynWorkload, Flows, SenderAnnouncement, StaticFlow, WorkloadContext, host_set, undeclared_host,
};
use crate::yaml::{self, KeyError, Positions, join_path};
use serde_yaml::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use weir_controller::import::{import, with_formats};
use weir_controller::plan::{FORWARD, MAX_WEIGHTED_QUEUES};
use weir_controller::routes::RoutingMethod;
use weir_controller::thresholds::DeflectionConfig;
use weir_controller::topology::{
    self, HostIx, SwitchIx, Topology, TopologyError, TopologyFile, TopologyProblem, TopologySpec,
};
use weir_host::scheme::{Deflection, QueueThreshold, SchemeConfig};
use weir_host::schemes::Registry;
use weir_host::wire::{WEIR_PORT, max_announced_under_any_scheme};
use weir_switch::tm::PfcConfig;
use weir_units::{Bandwidth, Bytes, Time};

/// Resolves relative paths against the directory of `file`, and reads the topology file, if there is one.
pub(super) fn resolve_paths(
    catalogue: &Catalogue,
    spec: &mut ExperimentSpec,
    file: &str,
) -> Result<(), ExperimentError> {
    let base = Path::new(file).parent().unwrap_or(Path::new(""));
    // Absolute paths, because `run.yaml` is written to another directory.
    let base = base.canonicalize().unwrap_or_else(|_| base.to_owned());
    spec.edit_workloads(&catalogue.workloads, |workload| workload.resolve_paths(&base))
        .map_err(|(key_path, reason)| ExperimentError::at_key(file, &key_path, reason))?;
    let programs = spec.schemes.iter_mut().filter_map(|scheme| scheme.program.as_mut());
    programs.chain(&mut spec.program).for_each(|program| program.resolve_paths(&base));
    let entries = spec.schemes.iter_mut().filter_map(|scheme| scheme.entries.as_mut()).flatten();
    entries.chain(&mut spec.entries).for_each(|entries| entries.file = base.join(&entries.file));
    if let TopologySpec::File(TopologyFile { path }) = &spec.topology {
        let path = base.join(path);
        let invalid = |reason: String| {
            ExperimentError::at_key(file, "topology.path", format!("{}: {reason}", path.display()))
        };
        let text = read_file(&path).map_err(|error| invalid(error.to_string()))?;
        spec.topology = match import(&text).map_err(|error| invalid(error.to_string()))? {
            Some(imported) => imported.topology,
            None => serde_yaml::from_str(&text).map_err(|error| invalid(with_formats(&text, error)))?,
        };
    }
    Ok(())
}

/// Reads the keys of an experiment file, with `overrides` applied and topologies of users expanded.
pub(super) fn read(
    catalogue: &Catalogue,
    text: &str,
    file: &str,
    overrides: &[Override<'_>],
    positions: &mut Positions,
) -> Result<ExperimentSpec, ExperimentError> {
    let invalid = |error: KeyError| ExperimentError::key(file, error);
    let mut root: Value = yaml::read_with_positions(text, positions).map_err(invalid)?;
    overrides::apply_all(&mut root, overrides, positions)
        .map_err(|reason| ExperimentError::Override { reason })?;
    let positions = &*positions;
    let expanded = root.get_mut("topology").map_or(Ok(false), |topology| {
        let expanded = catalogue.topologies.expand(topology);
        expanded.map_err(|(key, reason)| invalid(positions.error(join_path("topology", &key), reason)))
    })?;
    let spec = if overrides.is_empty() && !expanded {
        // Parsed a second time: a YAML `Value` turns 1.50 into a float and loses the written form, which `run.yaml` and
        // messages show. Only overrides and topologies of users have to go through `Value`.
        yaml::read_with_positions(text, positions)
    } else {
        yaml::read_value(root.clone(), positions).map_err(|error| overrides::with_full_paths(error, &root))
    };
    let mut spec: ExperimentSpec =
        spec.map_err(|error| invalid(with_range_of_topology_key(error, &root, positions)))?;
    spec.merge_workloads();
    spec.keep_default_pfc_threshold();
    Ok(spec)
}

/// Names the range of a key of the topology whose value is a negative number: the range depends on the kind, and serde
/// rejects the number before it is checked.
fn with_range_of_topology_key(error: KeyError, root: &Value, positions: &Positions) -> KeyError {
    let key = error.key_path.strip_prefix("topology.").filter(|_| error.reason.contains("integer `-"));
    let range = key.and_then(|key| {
        let mut topology = root.get("topology")?.clone();
        let value = std::mem::replace(topology.get_mut(key)?, Value::from(0));
        let spec: TopologySpec = serde_yaml::from_value(topology).ok()?;
        match topology::build(&spec).err().filter(|error| error.field() == Some(key))?.problem {
            TopologyProblem::OutOfRange { min, max, .. } => {
                Some(format!("{} is out of range, use {min} to {max}", value.as_i64()?))
            }
            _ => None,
        }
    });
    match range {
        Some(reason) => positions.error(error.key_path, reason),
        None => error,
    }
}

/// Checks the keys of an experiment file and resolves them. `file` is the path of the file, for error messages.
pub(super) fn resolve(
    spec: ExperimentSpec,
    file: &str,
    catalogue: &Catalogue,
) -> Result<Experiment, ExperimentError> {
    let registry = &catalogue.schemes;
    let invalid = |key_path: &str, reason: String| ExperimentError::at_key(file, key_path, reason);
    if spec.name.contains(['/', '\\', '\0']) || spec.name.starts_with('.') {
        let reason =
            format!("invalid name \"{}\": must not start with '.' or contain '/' or '\\'", spec.name);
        return Err(invalid("name", reason));
    }
    let topology =
        topology::build(&spec.topology).map_err(|error| match key_of_error(&error, &spec.topology) {
            Some(key) => invalid(&join_path("topology", &key), error.problem.to_string()),
            None => invalid("topology", error.to_string()),
        })?;
    let schemes = resolve_schemes(&spec, registry, &topology, &invalid)?;
    if spec.duration == Time::ZERO {
        return Err(invalid("duration", "must be positive, for example 1ms".to_owned()));
    }
    if spec.observe.interval == Time::ZERO {
        return Err(invalid("observe.interval", "must be positive, for example 1us".to_owned()));
    }
    if spec.transport.ack_every == 0 {
        return Err(invalid("transport.ack_every", "must be at least 1: senders depend on ACKs".to_owned()));
    }
    if spec.buffer == Bytes::ZERO {
        return Err(invalid(
            "buffer",
            "must be positive, for example 32MB: no packet fits into an empty buffer".to_owned(),
        ));
    }
    if spec.queue_packets == Some(0) {
        return Err(invalid(
            "queue_packets",
            "must be at least 1: no packet fits into an empty queue".to_owned(),
        ));
    }
    check_pfc(&spec, &invalid)?;
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
    let parsed_workloads = read_workloads(&spec, catalogue, &invalid)?;
    let workload_names = workload_names::resolve(&spec, &invalid)?;
    let (static_flows, workloads) =
        resolve_workloads(&spec, &topology, (&parsed_workloads, &workload_names), &invalid)?;
    let workload_names = (!spec.flows.is_empty())
        .then(workload_names::listed_flows)
        .into_iter()
        .chain(workload_names)
        .collect();
    let flows = resolve_flows(&spec, &topology, static_flows, &invalid)?;
    let changes = changes::resolve(&spec, registry, &topology, &schemes, &invalid)?;
    if spec.flows.is_empty() && spec.workloads.is_empty() && spec.policy.is_none() {
        return Err(invalid("flows", "no traffic: specify `flows`, `workload` or `workloads`".to_owned()));
    }
    if !spec.observe.size_classes.is_sorted() {
        return Err(invalid("observe.size_classes", "sizes must be in ascending order".to_owned()));
    }
    let scheme_overrides =
        resolve_scheme_overrides(&spec, registry, &topology, &schemes, &parsed_workloads, &invalid)?;
    let classes = resolve_queues(&spec, &topology, &schemes, &scheme_overrides, &invalid)?;
    let observed_ports = resolve_ports(&spec, &topology, &invalid)?;
    let scale = Scale::identity(host_rate(&topology));
    let original_spec = spec.clone();
    let routes = OnceLock::new();
    if spec.routing == RoutingMethod::Ecmp {
        let ecmp = weir_controller::routes(&topology, spec.routing);
        let ecmp = ecmp.map_err(|error| invalid("routing", error.to_string()))?;
        changes::check_reroutes(&topology, &ecmp, &changes, &invalid)?;
        // The cell is new, so that `set` cannot fail.
        let _ = routes.set(ecmp);
    }
    let experiment = Experiment {
        spec,
        topology,
        schemes,
        scheme_overrides,
        flows,
        changes,
        workloads,
        workload_names,
        classes,
        observed_ports,
        scale,
        catalogue: catalogue.clone(),
        original_spec,
        routes,
    };
    experiment.check_reroutes(&invalid)?;
    hosts::check(&experiment)
        .and_then(|()| experiment.check_sender_quantities())
        .map_err(|(key_path, reason)| invalid(&key_path, reason))?;
    Ok(experiment)
}

/// Returns the key of the topology to which an error refers. Links of a kind of topology are not in the file, but their rate
/// is.
fn key_of_error(error: &TopologyError, spec: &TopologySpec) -> Option<String> {
    if let Some(field) = error.field() {
        return Some(field.to_owned());
    }
    let link = error.link()?;
    let keys = serde_yaml::to_value(spec).ok()?;
    if keys.get("links").is_some_and(Value::is_sequence) {
        return Some(format!("links[{link}]"));
    }
    let wrong = match &error.problem {
        TopologyProblem::NoRateCode(rate) => *rate,
        TopologyProblem::ZeroRate => Bandwidth::ZERO,
        _ => return None,
    };
    let is_wrong = |value: &Value| value.as_str().and_then(|text| text.parse().ok()) == Some(wrong);
    keys.as_mapping()?.iter().find(|(_, value)| is_wrong(value))?.0.as_str().map(str::to_owned)
}

/// Checks the times of PFC.
fn check_pfc(
    spec: &ExperimentSpec,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<(), ExperimentError> {
    /// PFC frames of all eight classes, which have the minimum size of Ethernet frames.
    const PFC_FRAMES: u64 = 8 * 64;
    /// Bytes in the time of a unit of `quanta`, 512 bits.
    const UNIT: u64 = 64;
    let Some(pfc) = spec.pfc.on() else { return Ok(()) };
    // A pause is refreshed after half of the time, and the frame may then wait for a data frame and for other classes.
    let min = (2 * (spec.mtu.get() + PFC_FRAMES)).div_ceil(UNIT);
    if let Some(quanta) = pfc.quanta.filter(|quanta| u64::from(quanta.get()) < min) {
        let reason = format!(
            "{quanta} is too short: the pause would expire before it is refreshed; choose {min} or more"
        );
        return Err(invalid("pfc.quanta", reason));
    }
    let resume_offset = pfc.resume_offset.unwrap_or(PfcConfig::RESUME_OFFSET);
    if let Some(threshold) = pfc.threshold.filter(|&threshold| threshold <= resume_offset) {
        let reason = format!(
            "{threshold} is not above the resume offset, {resume_offset}, so that a pause would never end; raise the threshold"
        );
        return Err(invalid("pfc.threshold", reason));
    }
    if pfc.watchdog == Some(Time::ZERO) {
        return Err(invalid("pfc.watchdog", "must be greater than zero, for example 1ms".to_owned()));
    }
    Ok(())
}

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

fn resolve_schemes(
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
fn resolve_scheme_overrides(
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
        let hosts = workload.senders(&context).map_err(|e| invalid(&join_path(key_path, e.key), e.reason))?;
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

/// The key path of a workload in the file, and the workload.
type ParsedWorkload = (String, Box<dyn DynWorkload>);

fn read_workloads(
    spec: &ExperimentSpec,
    catalogue: &Catalogue,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<ParsedWorkload>, ExperimentError> {
    let read = |(i, workload)| {
        let key_path = format!("workloads[{i}]");
        match catalogue.workloads.read(workload) {
            Ok(workload) => Ok((key_path, workload)),
            Err((key, reason)) => Err(invalid(&join_path(&key_path, &key), reason)),
        }
    };
    spec.workloads.iter().enumerate().map(read).collect()
}

/// A flow that is known before the run, and the name of its workload.
type NamedFlow = (Arc<str>, StaticFlow);

/// Returns the flows that are known before the run, and the workloads that create others.
fn resolve_workloads(
    spec: &ExperimentSpec,
    topology: &Topology,
    (workloads, names): (&[ParsedWorkload], &[Arc<str>]),
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<(Vec<NamedFlow>, Vec<DynamicWorkload>), ExperimentError> {
    let context = WorkloadContext { topology, seed: spec.seed, duration: spec.duration, mtu: spec.mtu };
    let (mut static_flows, mut dynamic) = (Vec::new(), Vec::new());
    for ((key_path, workload), name) in workloads.iter().zip(names) {
        if topology.hosts.len() < 2 {
            return Err(invalid(key_path, "requires at least two hosts".to_owned()));
        }
        match workload.flows(&context).map_err(|e| invalid(&join_path(key_path, e.key), e.reason))? {
            Flows::Static(flows) => {
                static_flows.extend(flows.into_iter().map(|flow| (Arc::clone(name), flow)));
            }
            Flows::Dynamic(make) => {
                let (key_path, name, title) = (key_path.clone(), Arc::clone(name), workload.title());
                dynamic.push(DynamicWorkload { key_path, name, title, make });
            }
        }
    }
    Ok((static_flows, dynamic))
}

/// A flow that is known before the run, without name and ordinal.
struct UnnamedFlow {
    from: HostIx,
    to: HostIx,
    start: Time,
    stop: Option<Time>,
    size: Option<Bytes>,
    announces: Option<SenderAnnouncement>,
    /// UDP source port; `None`: drawn from the seed.
    port: Option<u16>,
    incast: bool,
    workload: Arc<str>,
}

/// Returns all flows that are known before the run, sorted by start: those of the key `flows`, and `from_workloads`.
fn resolve_flows(
    spec: &ExperimentSpec,
    topology: &Topology,
    from_workloads: Vec<NamedFlow>,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<Flow>, ExperimentError> {
    let host = |key_path: String, name: &str| {
        topology.host_named(name).ok_or_else(|| invalid(&key_path, undeclared_host(topology, name)))
    };
    let listed_flows = workload_names::listed_flows();
    let mut unnamed_flows = Vec::new();
    for (i, flow) in spec.flows.iter().enumerate() {
        let key_path = |key: &str| format!("flows[{i}].{key}");
        let from = host(key_path("from"), &flow.from)?;
        let to = host(key_path("to"), &flow.to)?;
        if from == to {
            return Err(invalid(&key_path("to"), format!("\"{}\" cannot send to itself", flow.to)));
        }
        if flow.size == Some(Bytes::ZERO) {
            return Err(invalid(&key_path("size"), "must be at least 1B".to_owned()));
        }
        if flow.start >= spec.duration {
            let reason = format!("{} is not before the end of the run ({})", flow.start, spec.duration);
            return Err(invalid(&key_path("start"), reason));
        }
        if let Some(stop) = flow.stop.filter(|&stop| stop <= flow.start) {
            return Err(invalid(&key_path("stop"), format!("stop {stop} is not after start {}", flow.start)));
        }
        let announced = flow.announces.iter().map(|name| host(key_path("announces"), name));
        let announced = announced.collect::<Result<Vec<_>, _>>()?;
        let max = max_announced_under_any_scheme(flow.size.map_or(u64::MAX, Bytes::get), spec.mtu.get());
        if announced.len() as u64 > max {
            let reason = format!("too many senders: {}; the packets can list at most {max}", announced.len());
            return Err(invalid(&key_path("announces"), reason));
        }
        // 0: no number, see `SenderAnnouncement::incast_number`.
        let incast_number = flow.incast.map_or(0, NonZeroU32::get);
        let announced =
            (!announced.is_empty()).then(|| SenderAnnouncement { incast_number, senders: announced.into() });
        if flow.port.is_some_and(|port| port == 0 || port == WEIR_PORT) {
            let port = flow.port.unwrap_or_default();
            let reason = format!("port {port} is reserved; use another, for example 50000");
            return Err(invalid(&key_path("port"), reason));
        }
        unnamed_flows.push(UnnamedFlow {
            from,
            to,
            start: flow.start,
            stop: flow.stop,
            size: flow.size,
            announces: announced,
            port: flow.port,
            incast: false,
            workload: Arc::clone(&listed_flows),
        });
    }
    let unnamed = |(workload, StaticFlow { from, to, start, size, announces, incast })| UnnamedFlow {
        from,
        to,
        start,
        stop: None,
        size,
        announces,
        port: None,
        incast,
        workload,
    };
    unnamed_flows.extend(from_workloads.into_iter().map(unnamed));
    let port_seed = stream_seed(spec.seed, "entropy ports");
    let mut flows: Vec<Flow> = Vec::with_capacity(unnamed_flows.len());
    let mut namer = FlowNamer::new(topology, &[]);
    for (i, flow) in unnamed_flows.into_iter().enumerate() {
        let UnnamedFlow { from, to, start, stop, size, announces, port, incast, workload } = flow;
        let (name, ordinal) = namer.next_name(from, to);
        let entropy_port = port.unwrap_or_else(|| entropy_port(mix(port_seed ^ i as u64)));
        flows.push(Flow {
            name,
            ordinal,
            from,
            to,
            start,
            stop,
            size,
            entropy_port,
            announces,
            incast,
            workload,
        });
    }
    flows.sort_by_key(|f| f.start); // stable: ties keep the file's order
    Ok(flows)
}

/// Returns the priority class of DATA for each host that `queues` lists; entry n of `queues` is class n + 1.
fn resolve_queues(
    spec: &ExperimentSpec,
    topology: &Topology,
    schemes: &[Scheme],
    scheme_overrides: &BTreeMap<HostIx, Arc<dyn SchemeConfig>>,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<BTreeMap<HostIx, u8>, ExperimentError> {
    let mut classes = BTreeMap::new();
    if spec.queues.is_empty() {
        return Ok(classes);
    }
    if spec.queues.len() > MAX_WEIGHTED_QUEUES {
        let reason = format!("at most {MAX_WEIGHTED_QUEUES} queues, found {}", spec.queues.len());
        return Err(invalid("queues", reason));
    }
    if !spec.ack_priority {
        let reason = "requires `ack_priority: true`: otherwise feedback would queue behind data".to_owned();
        return Err(invalid("queues", reason));
    }
    let own = schemes.iter().map(|scheme| (&scheme.config, scheme.artifact()));
    // Hosts with another scheme share the switches of each run.
    let others = scheme_overrides.values().flat_map(|config| {
        schemes
            .iter()
            .map(move |scheme| (config, Scheme { config: Arc::clone(config), ..scheme.clone() }.artifact()))
    });
    for (config, artifact) in own.chain(others) {
        let needs = config.needs();
        let has_table = artifact.index().is_ok_and(|p4info| p4info.tables.named("data_class").is_ok());
        if !has_table || needs.deflection.is_some() || needs.express_max_size.is_some() {
            let reason = format!("{} does not support weighted queues; hpcc++ does", config.name());
            return Err(invalid("queues", reason));
        }
    }
    for (i, (queue, class)) in spec.queues.iter().zip(1..).enumerate() {
        let key_path = format!("queues[{i}].hosts");
        for host in host_set(topology, Some(&queue.hosts)).map_err(|reason| invalid(&key_path, reason))? {
            if classes.insert(host, class).is_some() {
                let reason = format!("{} is already assigned to another queue", topology.host(host).name);
                return Err(invalid(&key_path, reason));
            }
        }
    }
    Ok(classes)
}

/// Resolves `observe.ports`: `<switch>:<port>`, `<switch>:<neighbour>` (all parallel links) or `all`.
fn resolve_ports(
    spec: &ExperimentSpec,
    topology: &Topology,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<(SwitchIx, u16)>, ExperimentError> {
    let all_ports =
        || topology.switch_ixs().flat_map(|ix| topology.switch(ix).ports().map(move |(port, _)| (ix, port)));
    let mut ports = BTreeSet::new();
    for (i, name) in spec.observe.ports.iter().enumerate() {
        let is_named = |&(ix, port): &(SwitchIx, u16)| {
            let Some((switch, port_or_peer)) = name.split_once(':') else { return name == "all" };
            let neighbour = topology.peer(ix, port).map(|(_, peer)| topology.node_name(peer.node));
            topology.switch(ix).name == switch
                && (port_or_peer == port.to_string() || Some(port_or_peer) == neighbour)
        };
        ports.extend(all_ports().filter(is_named));
        if !all_ports().any(|port| is_named(&port)) {
            let (switch, _) = name.split_once(':').unwrap_or((name, ""));
            let own: Vec<String> = all_ports()
                .filter(|(ix, _)| topology.switch(*ix).name == switch)
                .map(|(_, port)| port.to_string())
                .collect();
            let known = match (own.first(), own.last()) {
                (Some(first), Some(last)) => format!("; {switch} has the ports {first} to {last}"),
                _ => String::new(),
            };
            let reason = format!(
                "\"{name}\" is not a switch port{known}; expected for example s1:2, s1:s2 (by neighbour) or all"
            );
            return Err(invalid(&format!("observe.ports[{i}]"), reason));
        }
    }
    Ok(ports.into_iter().collect())
}
