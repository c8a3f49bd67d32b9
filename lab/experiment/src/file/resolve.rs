//! Resolves an [`ExperimentSpec`] to an [`Experiment`]: replaces names by indices, applies defaults, and rejects invalid
//! values with their key paths.

use super::program::Entries;
use super::{
    Experiment, ExperimentError, ExperimentSpec, Flow, Program, Scale, Scheme, SchemeEntry, faults,
    flow_name, overrides,
};
use crate::artifacts::{self, Artifact};
use crate::catalogue::Catalogue;
use crate::hosts;
use crate::input::read_file;
use crate::rng::{mix, stream_seed};
use crate::workload::{
    DynWorkload, Flows, SenderAnnouncement, SourceFactory, StaticFlow, WorkloadContext, host_set,
};
use crate::yaml::{self, KeyError, Positions, join_path};
use serde_yaml::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use weir_controller::import::{import, with_formats};
use weir_controller::plan::{FORWARD, MAX_WEIGHTED_QUEUES};
use weir_controller::profile::DeflectionConfig;
use weir_controller::routes::RoutingMethod;
use weir_controller::topology::{self, HostIx, SwitchIx, Topology, TopologyFile, TopologySpec};
use weir_host::parameter::ParameterError;
use weir_host::scheme::{Deflection, QueueThreshold, SchemeConfig};
use weir_host::schemes::{Registry, SchemeError};
use weir_host::suggest::did_you_mean;
use weir_host::wire::{WEIR_PORT, min_max_announced};
use weir_units::{Bandwidth, Bytes, Time};

/// Resolves relative paths against the directory of `file`, and reads the topology file, if there is one.
pub(super) fn locate(
    catalogue: &Catalogue,
    spec: &mut ExperimentSpec,
    file: &str,
) -> Result<(), ExperimentError> {
    let base = Path::new(file).parent().unwrap_or(Path::new(""));
    // Absolute paths, because `run.yaml` is written to another directory.
    let base = base.canonicalize().unwrap_or_else(|_| base.to_owned());
    spec.edit_workloads(&catalogue.workloads, |workload| workload.locate(&base))
        .map_err(|(place, reason)| ExperimentError::at_key(file, &place, reason))?;
    spec.program.iter_mut().for_each(|program| program.locate(&base));
    spec.entries.iter_mut().for_each(|entries| entries.file = base.join(&entries.file));
    if let TopologySpec::File(TopologyFile { path }) = &spec.topology {
        let path = base.join(path);
        let wrong = |reason: String| {
            ExperimentError::at_key(file, "topology.path", format!("{}: {reason}", path.display()))
        };
        let text = read_file(&path).map_err(|error| wrong(error.to_string()))?;
        spec.topology = match import(&text).map_err(|error| wrong(error.to_string()))? {
            Some(imported) => imported.topology,
            None => serde_yaml::from_str(&text).map_err(|error| wrong(with_formats(&text, error)))?,
        };
    }
    Ok(())
}

pub(super) fn read(
    catalogue: &Catalogue,
    text: &str,
    file: &str,
    overrides: &[String],
    positions: &Positions,
) -> Result<ExperimentSpec, ExperimentError> {
    let wrong = |error: KeyError| ExperimentError::key(file, error);
    let mut root: Value = yaml::read_at(text, positions).map_err(wrong)?;
    for assignment in overrides {
        overrides::apply(&mut root, assignment).map_err(|reason| ExperimentError::Override { reason })?;
    }
    let expanded = root.get_mut("topology").map_or(Ok(false), |topology| {
        let expanded = catalogue.topologies.expand(topology);
        expanded.map_err(|(key, reason)| wrong(positions.error(join_path("topology", &key), reason)))
    })?;
    if overrides.is_empty() && !expanded {
        // A YAML `Value` turns 1.50 into a float and loses the written form, which `run.yaml` and messages show. Only
        // overrides and topologies of users need the detour through `Value`.
        return yaml::read_at(text, positions).map_err(wrong);
    }
    yaml::read_value(root, positions).map_err(wrong)
}

pub(super) fn resolve(
    spec: ExperimentSpec,
    file: &str,
    catalogue: &Catalogue,
) -> Result<Experiment, ExperimentError> {
    let registry = &catalogue.schemes;
    let wrong = |place: &str, reason: String| ExperimentError::at_key(file, place, reason);
    if spec.name.contains(['/', '\\', '\0']) || spec.name.starts_with('.') {
        let reason =
            format!("invalid name \"{}\": must not start with '.' or contain '/' or '\\'", spec.name);
        return Err(wrong("name", reason));
    }
    let topology = topology::build(&spec.topology).map_err(|e| wrong("topology", e.to_string()))?;
    let program = resolve_program(&spec, &wrong)?;
    let schemes = resolve_schemes(&spec, registry, program.as_ref(), &wrong)?;
    let entries = resolve_entries(&spec, &topology, &schemes, program.as_ref(), &wrong)?;
    if spec.duration == Time::ZERO {
        return Err(wrong("duration", "must be positive, for example 1ms".to_owned()));
    }
    if spec.observe.interval == Time::ZERO {
        return Err(wrong("observe.interval", "must be positive, for example 1us".to_owned()));
    }
    if spec.transport.ack_every == 0 {
        return Err(wrong("transport.ack_every", "must be at least 1: senders depend on ACKs".to_owned()));
    }
    for (i, scheme) in schemes.iter().enumerate() {
        if let Some(Deflection { threshold: QueueThreshold { queue, per }, tokens, .. }) =
            scheme.config.needs().deflection
        {
            let (at_hosts, lifetime) = (false, 0);
            let config = DeflectionConfig { threshold: queue, per: Some(per), at_hosts, lifetime, tokens };
            for link in &topology.links {
                config.limit(link.rate).map_err(|e| wrong(&format!("schemes[{i}]"), e.to_string()))?;
            }
        }
        let place = if spec.ecn.is_some() { "ecn".to_owned() } else { format!("schemes[{i}]") };
        let Some(ecn) = spec.ecn_for(&*scheme.config) else { continue };
        for link in &topology.links {
            ecn.ramp(link.rate).map_err(|e| wrong(&place, e.to_string()))?;
        }
    }
    let made = read_workloads(&spec, catalogue, &wrong)?;
    let (listed, workloads) = resolve_workloads(&spec, &topology, &made, &wrong)?;
    let flows = resolve_flows(&spec, &topology, listed, &wrong)?;
    let changes = faults::resolve(&spec, registry, &topology, &schemes, &wrong)?;
    if flows.is_empty() && workloads.is_empty() && spec.policy.is_none() {
        return Err(wrong("flows", "no traffic: specify `flows`, `workload` or `workloads`".to_owned()));
    }
    if !spec.observe.size_classes.is_sorted() {
        return Err(wrong("observe.size_classes", "sizes must be in ascending order".to_owned()));
    }
    let own_schemes = resolve_own_schemes(&spec, registry, &topology, &schemes, &made, &wrong)?;
    let classes = resolve_queues(&spec, &topology, &schemes, &own_schemes, program.as_ref(), &wrong)?;
    let observed_ports = resolve_ports(&spec, &topology, &wrong)?;
    let scale = Scale::none(host_rate(&topology));
    let written = spec.clone();
    let routes = OnceLock::new();
    if spec.routing == RoutingMethod::Ecmp {
        let ecmp = weir_controller::routes(&topology, spec.routing);
        let _ = routes.set(ecmp.map_err(|error| wrong("routing", error.to_string()))?);
    }
    let experiment = Experiment {
        spec,
        topology,
        schemes,
        scheme_overrides: own_schemes,
        flows,
        changes,
        workloads,
        program,
        entries,
        classes,
        observed_ports,
        scale,
        catalogue: catalogue.clone(),
        original_spec: written,
        routes,
    };
    hosts::check(&experiment).map_err(|(place, reason)| wrong(&place, reason))?;
    Ok(experiment)
}

pub(super) fn host_rate(topology: &Topology) -> Bandwidth {
    topology.hosts.iter().map(|host| topology.link(host.link).rate).min().unwrap_or_default()
}

fn resolve_program(
    spec: &ExperimentSpec,
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Option<Program>, ExperimentError> {
    let Some(named) = &spec.program else { return Ok(None) };
    let wrong = |reason: String| wrong("program", reason);
    let artifact = named.artifact().map_err(wrong)?;
    let p4info = artifact.index().map_err(wrong)?;
    if spec.entries.is_empty()
        && let Err(error) = p4info.tables.named(FORWARD)
    {
        let reason = format!("{}: {error}; provide routes with `entries`", artifact.title());
        return Err(wrong(reason));
    }
    let offer = artifacts::offer(&p4info).map_err(|error| wrong(format!("{}: {error}", artifact.title())))?;
    Ok(Some(Program { artifact, offer }))
}

/// Reads the files of `entries`, and translates them for every switch and program so that unknown names are found before
/// the run.
fn resolve_entries(
    spec: &ExperimentSpec,
    topology: &Topology,
    schemes: &[Scheme],
    program: Option<&Program>,
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<Entries>, ExperimentError> {
    let all = Entries::read(&spec.entries, topology).map_err(|(place, reason)| wrong(&place, reason))?;
    if all.is_empty() {
        return Ok(all);
    }
    let own = schemes.iter().map(|scheme| Artifact::of(scheme.config.needs().program));
    let artifacts = program.map_or_else(|| own.collect(), |program| vec![program.artifact.clone()]);
    for artifact in artifacts {
        let p4info = artifact.index().map_err(|reason| wrong("program", reason))?;
        for (i, entries) in all.iter().enumerate() {
            let refuse =
                |reason: String| wrong(&format!("entries[{i}]"), format!("{reason} ({})", artifact.title()));
            topology.switch_ixs().try_for_each(|ix| entries.goal(ix, &p4info).map(|_| ())).map_err(refuse)?;
        }
    }
    Ok(all)
}

/// Returns the configuration of the scheme `entry`, whose key path is `place`.
fn configure(
    registry: &Registry,
    entry: &SchemeEntry,
    place: &str,
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Arc<dyn SchemeConfig>, ExperimentError> {
    entry.config(registry).map_err(|error| {
        let reason = error.to_string();
        let SchemeError::Parameter(error) = error else { return wrong(place, reason) };
        let wrong = wrong(&join_path(place, &format!("set.{}", error.parameter())), reason);
        match error {
            ParameterError::Unknown { .. } => wrong.about_key(),
            ParameterError::InvalidValue { .. } => wrong,
        }
    })
}

fn resolve_schemes(
    spec: &ExperimentSpec,
    registry: &Registry,
    program: Option<&Program>,
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<Scheme>, ExperimentError> {
    if spec.schemes.is_empty() {
        return Err(wrong("schemes", "at least one scheme is required (see `weir schemes`)".to_owned()));
    }
    let mut labels = BTreeSet::new();
    let mut resolved = Vec::new();
    for (i, entry) in spec.schemes.iter().enumerate() {
        let place = format!("schemes[{i}]");
        let config = configure(registry, entry, &place, wrong)?;
        if !labels.insert(entry.label.clone()) {
            let reason = format!("duplicate label \"{}\"; set a different `label`", entry.label);
            return Err(wrong(&place, reason));
        }
        if let Some(program) = program
            && let Some(missing) = program.offer.unmet_need(&config.needs())
        {
            let reason = format!(
                "{} requires {missing}, which {} does not provide",
                entry.scheme,
                program.artifact.title()
            );
            return Err(wrong(&place, reason));
        }
        resolved.push(Scheme { label: entry.label.clone(), config });
    }
    Ok(resolved)
}

/// Returns the schemes that flows and workloads specify, by sending host.
fn resolve_own_schemes(
    spec: &ExperimentSpec,
    registry: &Registry,
    topology: &Topology,
    schemes: &[Scheme],
    workloads: &[Placed],
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<BTreeMap<HostIx, Arc<dyn SchemeConfig>>, ExperimentError> {
    // Key path, sending hosts and their scheme; `None`: the scheme of the run.
    let mut claims: Vec<(String, Vec<HostIx>, Option<SchemeEntry>)> = Vec::new();
    for (i, flow) in spec.flows.iter().enumerate() {
        let host = topology.host_named(&flow.from).into_iter().collect();
        claims.push((format!("flows[{i}].scheme"), host, flow.scheme.clone()));
    }
    let fabric = WorkloadContext { topology, seed: spec.seed, duration: spec.duration, mtu: spec.mtu };
    for (place, workload) in workloads {
        let hosts = workload.senders(&fabric).map_err(|e| wrong(&join_path(place, e.key), e.reason))?;
        claims.push((join_path(place, "scheme"), hosts, workload.scheme()));
    }
    let mut own: BTreeMap<HostIx, Arc<dyn SchemeConfig>> = BTreeMap::new();
    let mut said = BTreeMap::new();
    for (place, hosts, entry) in &claims {
        let says = entry.as_ref().map(|entry| (entry.scheme.as_str(), &entry.set));
        for host in hosts {
            if *said.entry(*host).or_insert(says) != says {
                let name = &topology.host(*host).name;
                let reason = format!("flows of {name} have different schemes, but a host uses a single one");
                return Err(wrong(place, reason));
            }
        }
        let Some(entry) = entry else { continue };
        let config = configure(registry, entry, place, wrong)?;
        for beside in schemes {
            let (own, theirs) = (config.needs(), beside.config.needs());
            let same_recovery = spec.transport.recovery.is_some()
                || config.needs().transport.recovery == beside.config.needs().transport.recovery;
            if own.telemetry != theirs.telemetry || own.grant != theirs.grant || !same_recovery {
                let reason = format!(
                    "{} and {} have different requirements for switches or receivers; they cannot run together",
                    entry.scheme, beside.label
                );
                return Err(wrong(place, reason));
            }
        }
        own.extend(hosts.iter().map(|&host| (host, Arc::clone(&config))));
    }
    Ok(own)
}

/// Title and source factory of a workload that creates flows during the run.
type Made = (String, SourceFactory);

/// Key path and keys of a workload.
type Placed = (String, Box<dyn DynWorkload>);

fn read_workloads(
    spec: &ExperimentSpec,
    catalogue: &Catalogue,
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<Placed>, ExperimentError> {
    let read = |(place, workload): (String, _)| match catalogue.workloads.read(workload) {
        Ok(workload) => Ok((place, workload)),
        Err((key, reason)) => Err(wrong(&join_path(&place, &key), reason)),
    };
    spec.all_workloads().map(read).collect()
}

/// Returns the flows that are known before the run, and the factories of the others.
fn resolve_workloads(
    spec: &ExperimentSpec,
    topology: &Topology,
    workloads: &[Placed],
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<(Vec<StaticFlow>, Vec<Made>), ExperimentError> {
    let fabric = WorkloadContext { topology, seed: spec.seed, duration: spec.duration, mtu: spec.mtu };
    let (mut listed, mut made) = (Vec::new(), Vec::new());
    for (place, workload) in workloads {
        if topology.hosts.len() < 2 {
            return Err(wrong(place, "requires at least two hosts".to_owned()));
        }
        match workload.flows(&fabric).map_err(|e| wrong(&join_path(place, e.key), e.reason))? {
            Flows::Static(flows) => listed.extend(flows),
            Flows::Dynamic(make) => made.push((workload.title(), make)),
        }
    }
    Ok((listed, made))
}

fn resolve_flows(
    spec: &ExperimentSpec,
    topology: &Topology,
    from_workloads: Vec<StaticFlow>,
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<Flow>, ExperimentError> {
    let host = |place: String, name: &str| {
        let found = topology.hosts.iter().position(|h| h.name == name);
        found.map(|i| HostIx(i as u32)).ok_or_else(|| {
            let (first, last) = (topology.hosts.first(), topology.hosts.last());
            let known = match (first, last) {
                (Some(first), Some(last)) => format!("the topology has {} to {}", first.name, last.name),
                _ => "the topology has no hosts".to_owned(),
            };
            let meant = did_you_mean(name, topology.hosts.iter().map(|host| host.name.as_str()));
            wrong(&place, format!("host \"{name}\" is not declared; {known}{meant}"))
        })
    };
    let mut listed = Vec::new();
    for (i, flow) in spec.flows.iter().enumerate() {
        let place = |key: &str| format!("flows[{i}].{key}");
        let from = host(place("from"), &flow.from)?;
        let to = host(place("to"), &flow.to)?;
        if from == to {
            return Err(wrong(&place("to"), format!("\"{}\" cannot send to itself", flow.to)));
        }
        if flow.size == Some(Bytes::ZERO) {
            return Err(wrong(&place("size"), "must be at least 1B".to_owned()));
        }
        if flow.start >= spec.duration {
            let reason = format!("{} is not before the end of the run ({})", flow.start, spec.duration);
            return Err(wrong(&place("start"), reason));
        }
        if flow.stop.is_some_and(|stop| stop <= flow.start) {
            return Err(wrong(&place("stop"), "must be after `start`".to_owned()));
        }
        let announced = flow.announces.iter().map(|name| host(place("announces"), name));
        let announced = announced.collect::<Result<Vec<_>, _>>()?;
        let max = min_max_announced(flow.size.map_or(u64::MAX, Bytes::get), spec.mtu.get());
        if announced.len() as u64 > max {
            let reason = format!("too many senders: {}; the packets can list at most {max}", announced.len());
            return Err(wrong(&place("announces"), reason));
        }
        let incast = flow.incast.map_or(0, NonZeroU32::get);
        let announced =
            (!announced.is_empty()).then(|| SenderAnnouncement { incast, senders: announced.into() });
        if flow.port.is_some_and(|port| port == 0 || port == WEIR_PORT) {
            let port = flow.port.unwrap_or_default();
            let reason = format!("port {port} is reserved; use another, for example 50000");
            return Err(wrong(&place("port"), reason));
        }
        listed.push((from, to, flow.start, flow.stop, flow.size, announced, flow.port, false));
    }
    let flow = |StaticFlow { from, to, start, size, announces, incast }| {
        (from, to, start, None, size, announces, None, incast)
    };
    listed.extend(from_workloads.into_iter().map(flow));
    let ports = stream_seed(spec.seed, "entropy ports");
    let mut flows: Vec<Flow> = Vec::with_capacity(listed.len());
    let mut times_seen = std::collections::BTreeMap::new();
    for (i, (from, to, start, stop, size, announces, port, incast)) in listed.into_iter().enumerate() {
        let (a, b) = (&topology.hosts[from.0 as usize].name, &topology.hosts[to.0 as usize].name);
        let nth: &mut u32 = times_seen.entry((from, to)).or_default();
        *nth += 1;
        let name = flow_name(a, b, *nth);
        let entropy_port = port.unwrap_or_else(|| entropy_port(mix(ports ^ i as u64)));
        flows.push(Flow {
            name,
            ordinal: *nth,
            from,
            to,
            start,
            stop,
            size,
            entropy_port,
            announces,
            incast,
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
    own: &BTreeMap<HostIx, Arc<dyn SchemeConfig>>,
    program: Option<&Program>,
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<BTreeMap<HostIx, u8>, ExperimentError> {
    let mut classes = BTreeMap::new();
    if spec.queues.is_empty() {
        return Ok(classes);
    }
    if spec.queues.len() > MAX_WEIGHTED_QUEUES {
        let reason = format!("at most {MAX_WEIGHTED_QUEUES} queues, found {}", spec.queues.len());
        return Err(wrong("queues", reason));
    }
    if !spec.ack_priority {
        let reason = "requires `ack_priority: true`: otherwise feedback would queue behind data".to_owned();
        return Err(wrong("queues", reason));
    }
    let configs = schemes.iter().map(|scheme| &scheme.config).chain(own.values());
    for config in configs {
        let needs = config.needs();
        let artifact = program.map_or_else(|| Artifact::of(needs.program), |it| it.artifact.clone());
        let has_table = artifact.index().is_ok_and(|p4info| p4info.tables.named("data_class").is_ok());
        if !has_table || needs.deflection.is_some() || needs.express_max_size.is_some() {
            let reason = format!("{} does not support weighted queues; hpcc++ does", config.name());
            return Err(wrong("queues", reason));
        }
    }
    for (i, (queue, class)) in spec.queues.iter().zip(1..).enumerate() {
        let place = format!("queues[{i}].hosts");
        for host in host_set(topology, Some(&queue.hosts)).map_err(|reason| wrong(&place, reason))? {
            if classes.insert(host, class).is_some() {
                let reason = format!("{} is already assigned to another queue", topology.host(host).name);
                return Err(wrong(&place, reason));
            }
        }
    }
    Ok(classes)
}

/// Resolves `observe.ports`: `<switch>:<port>`, `<switch>:<neighbour>` (all parallel links) or `all`.
fn resolve_ports(
    spec: &ExperimentSpec,
    topology: &Topology,
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<(SwitchIx, u16)>, ExperimentError> {
    let all =
        || topology.switch_ixs().flat_map(|ix| topology.switch(ix).ports().map(move |(port, _)| (ix, port)));
    let mut ports = BTreeSet::new();
    for (i, name) in spec.observe.ports.iter().enumerate() {
        let is_named = |&(ix, port): &(SwitchIx, u16)| {
            let Some((switch, end)) = name.split_once(':') else { return name == "all" };
            let neighbour = topology.peer(ix, port).map(|(_, peer)| topology.node_name(peer.node));
            topology.switch(ix).name == switch && (end == port.to_string() || Some(end) == neighbour)
        };
        ports.extend(all().filter(is_named));
        if !all().any(|port| is_named(&port)) {
            let reason = format!(
                "\"{name}\" is not a switch port; expected for example s1:2, s1:s2 (by neighbour) or all"
            );
            return Err(wrong(&format!("observe.ports[{i}]"), reason));
        }
    }
    Ok(ports.into_iter().collect())
}

/// Returns a port of the dynamic range (RFC 6335: 49152 to 65535).
pub(super) fn entropy_port(random: u64) -> u16 {
    49_152 + (random % (65_536 - 49_152)) as u16
}
