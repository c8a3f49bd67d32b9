//! Resolves the keys `flows` and `workloads`.

use super::error::ExperimentError;
use super::experiment::DynamicWorkload;
use super::flow::{Flow, FlowNamer, ParsedWorkload, entropy_port};
use super::spec::ExperimentSpec;
use super::workload_names;
use crate::catalogue::Catalogue;
use crate::rng::{mix, stream_seed};
use crate::workload::{Flows, SenderAnnouncement, StaticFlow, WorkloadContext, undeclared_host};
use crate::yaml::join_path;
use std::num::NonZeroU32;
use std::sync::Arc;
use weir_controller::topology::{HostIx, Topology};
use weir_host::wire::{WEIR_PORT, max_announced_under_any_scheme};
use weir_units::{Bytes, Time};

pub(super) fn read_workloads(
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
pub(super) fn resolve_workloads(
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
        match workload.flows(&context).map_err(|e| invalid(&join_path(key_path, &e.key), e.reason))? {
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
pub(super) fn resolve_flows(
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
            return Err(invalid(&key_path("stop"), format!("{stop} is not after `start`, {}", flow.start)));
        }
        let announced = flow.announces.iter().enumerate();
        let announced = announced.map(|(j, name)| host(key_path(&format!("announces[{j}]")), name));
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
