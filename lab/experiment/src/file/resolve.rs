//! Resolves an [`ExperimentSpec`] to an [`Experiment`]: replaces names by indices, applies defaults, and rejects invalid
//! values with their key paths.

use super::assignment::Override;
use super::error::ExperimentError;
use super::experiment::Experiment;
use super::flows::{read_workloads, resolve_flows, resolve_workloads};
use super::overrides;
use super::scale::{Scale, host_rate};
use super::scheme::Scheme;
use super::schemes::{check_thresholds, resolve_scheme_overrides, resolve_schemes};
use super::spec::ExperimentSpec;
use super::{changes, pfc, workload_names};
use crate::catalogue::Catalogue;
use crate::hosts;
use crate::input::read_file;
use crate::workload::host_set;
use crate::yaml::{self, KeyError, Positions, join_path};
use serde_yaml::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use weir_controller::import::{import, with_formats};
use weir_controller::plan::MAX_WEIGHTED_QUEUES;
use weir_controller::routes::RoutingMethod;
use weir_controller::topology::{
    self, HostIx, SwitchIx, Topology, TopologyError, TopologyFile, TopologyProblem, TopologySpec,
};
use weir_host::scheme::SchemeConfig;
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
    check_values(&spec, &invalid)?;
    pfc::check(&spec, &topology, &invalid)?;
    check_thresholds(&spec, &topology, &schemes, &invalid)?;
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
        return Err(invalid("", "no traffic: specify `flows`, `workload` or `workloads`".to_owned()));
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

/// Checks keys that depend on no other.
fn check_values(
    spec: &ExperimentSpec,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<(), ExperimentError> {
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
    if spec.observe.fairness_window == Some(Time::ZERO) {
        return Err(invalid("observe.fairness_window", "must be positive, for example 1ms".to_owned()));
    }
    let mut bounds = (0..).zip(spec.observe.size_classes.windows(2));
    if let Some((i, [below, bound])) = bounds.find(|(_, pair)| pair[0] >= pair[1]) {
        let reason = format!("{bound} is not above {below}; list the bounds in ascending order");
        return Err(invalid(&format!("observe.size_classes[{}]", i + 1), reason));
    }
    Ok(())
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
