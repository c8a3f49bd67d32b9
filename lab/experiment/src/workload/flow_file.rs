//! Flow files of the HPCC simulator (`FLOW_FILE`), and of conweave-ns3, whose flows have no port.
//!
//! ```text
//! number of flows
//! source destination priority port bytes start     (one line per flow, start in seconds)
//! ```

use super::source::Arrival;
use std::fmt::Write as _;
use weir_controller::export::hpcc_id;
use weir_controller::topology::{HostIx, Node, Topology};
use weir_units::{Bytes, Time};

/// Traffic in the HPCC simulator starts at 2 s. Writing adds this offset; reading subtracts it if no flow of the file starts
/// earlier.
pub const HPCC_START: Time = Time::from_secs(2);
/// Priority group of data in the HPCC simulator.
const DATA_GROUP: u32 = 3;
/// Destination port of flows that are not part of an incast (docs/algorithms/methods.md#workloads).
const BACKGROUND_PORT: u32 = 100;
/// Destination port of the flows of an incast.
const INCAST_PORT: u32 = 200;

/// A flow of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileFlow {
    pub from: HostIx,
    pub to: HostIx,
    pub incast: bool,
    pub size: Bytes,
    pub start: Time,
}

/// Parses a file. Returns the flows sorted by start; ties in the order of the file.
pub(crate) fn read(topology: &Topology, text: &str) -> Result<Vec<FileFlow>, String> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let (line_number, header) = lines.next().ok_or("the file is empty")?;
    let count: usize = header.trim().parse().map_err(|_| {
        format!(
            "line {line_number}: \"{header}\" is not a number of flows; flow files of the HPCC simulator and \
                 conweave-ns3 are supported, htsim's .cm files are not yet"
        )
    })?;
    // Topologies imported from the HPCC simulator have names with its ids, from 0; otherwise id n is the n-th host.
    let by_name = topology.host_named("h0").is_some() || topology.switch_named("s0").is_some();
    let host = |id: &str| {
        let number: u32 = id.parse().ok()?;
        if by_name {
            topology.host_named(&format!("h{number}"))
        } else {
            topology.host_ixs().nth(number as usize)
        }
    };
    let mut flows = Vec::new();
    for (line_number, line) in lines.by_ref().take(count) {
        let invalid = |reason: &str| format!("line {line_number}: {reason}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let (from, to, port, size, start) = match words[..] {
            [from, to, _, port, size, start] => (from, to, Some(port), size, start),
            [from, to, _, size, start] => (from, to, None, size, start),
            _ => {
                return Err(invalid(
                    "a flow is \"source destination priority port bytes start\", with or without the port",
                ));
            }
        };
        let node = |id: &str| host(id).ok_or_else(|| invalid(&format!("\"{id}\" is not the id of a host")));
        let (from, to) = (node(from)?, node(to)?);
        let size = size
            .parse()
            .ok()
            .filter(|&size: &u64| size > 0)
            .ok_or_else(|| invalid("invalid size (bytes)"))?;
        let start = start.parse().ok().filter(|start: &f64| (0.0..1e6).contains(start));
        let start = Time::from_secs_f64(start.ok_or_else(|| invalid("invalid start time (seconds)"))?);
        if from == to {
            return Err(invalid("source and destination are the same host"));
        }
        flows.push(FileFlow {
            from,
            to,
            incast: port.is_some_and(|port| port == INCAST_PORT.to_string()),
            size: Bytes::new(size),
            start,
        });
    }
    if flows.len() < count {
        return Err(format!("expected {count} flows, found {}", flows.len()));
    }
    flows.sort_by_key(|flow| flow.start); // stable: ties keep the file's order
    let origin = origin(flows.first().map(|flow| flow.start));
    flows.iter_mut().for_each(|flow| flow.start = flow.start - origin);
    Ok(flows)
}

/// Returns the text of a file with these flows.
pub fn write(topology: &Topology, flows: &[Arrival]) -> String {
    let mut text = format!("{}\n", flows.len());
    for flow in flows {
        let id = |host| hpcc_id(topology, Node::Host(host));
        let port = if flow.incast { INCAST_PORT } else { BACKGROUND_PORT };
        let start = (flow.start + HPCC_START).as_ps();
        let (from, to, size) = (id(flow.from), id(flow.to), flow.size.get());
        const PS_PER_S: u64 = 1_000_000_000_000;
        writeln!(
            text,
            "{from} {to} {DATA_GROUP} {port} {size} {}.{:012}",
            start / PS_PER_S,
            start % PS_PER_S
        )
        .expect("writing to a String does not fail");
    }
    text
}

/// Returns the time to subtract from all starts of a file, see [`HPCC_START`]. `first` is the earliest start.
fn origin(first: Option<Time>) -> Time {
    if first.is_some_and(|first| first >= HPCC_START) { HPCC_START } else { Time::ZERO }
}
