//! Quantities that follow from the routes: paths of flows, ports to observe, and ideal completion times.

use crate::{Experiment, Flow};
use std::collections::BTreeSet;
use weir_controller::hash::{self, FiveTuple};
use weir_controller::topology::SwitchIx;
use weir_controller::{Path, Routes};
use weir_host::wire::{HEADERS_LEN, WEIR_PORT};
use weir_units::{Bytes, Time};

/// Maximum number of ports that are observed by default.
const MAX_DEFAULT_PORTS: usize = 8;

/// Returns the path of a flow's data packets; `None` if the routes do not deliver them.
pub fn data_path(experiment: &Experiment, routes: &Routes, flow: &Flow) -> Option<Path> {
    let topology = &experiment.topology;
    let tuple = FiveTuple {
        src: topology.host(flow.from).ip,
        dst: topology.host(flow.to).ip,
        src_port: flow.entropy_port,
        dst_port: WEIR_PORT,
        protocol: hash::UDP,
    };
    routes.path_of(topology, tuple)?.ok()
}

/// Returns the ports whose time series are recorded: those of `observe.ports`, by default the ports on the paths of flows if
/// there are at most 8.
pub fn observed_ports(experiment: &Experiment, routes: &Routes) -> Vec<(SwitchIx, u16)> {
    if !experiment.spec.observe.ports.is_empty() {
        return experiment.observed_ports.clone();
    }
    let mut ports_on_paths = BTreeSet::new();
    for path in experiment.flows.iter().filter_map(|flow| data_path(experiment, routes, flow)) {
        ports_on_paths.extend(path.hops.iter().map(|hop| (hop.switch, hop.out_port)));
    }
    if ports_on_paths.len() <= MAX_DEFAULT_PORTS { ports_on_paths.into_iter().collect() } else { Vec::new() }
}

/// Returns the completion time of a flow on an idle fabric without telemetry: the base RTT of its path plus the transmission
/// time of payload and headers on the slowest link (docs/algorithms/methods.md#completion-times). `None` if the routes do not
/// deliver the flow.
pub fn ideal_completion_time(
    experiment: &Experiment,
    routes: &Routes,
    flow: &Flow,
    size: Bytes,
) -> Option<Time> {
    let (topology, mtu) = (&experiment.topology, experiment.spec.mtu);
    let path = data_path(experiment, routes, flow)?;
    let headers = HEADERS_LEN as u64;
    let max_payload = mtu.saturating_sub(Bytes::new(headers));
    let packets = size.get().div_ceil(max_payload.get());
    let wire_bytes = size + Bytes::new(packets * headers);
    Some(path.base_rtt(topology, mtu) + path.bottleneck(topology).tx_time(wire_bytes))
}
