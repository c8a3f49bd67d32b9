//! Traces a packet through copies of running switches, which have the switches' programs and table entries.
//! The switches themselves are only read.

use super::steps::{steps, traversal, write_perfetto};
use crate::commands::controller::{Protocol, SwitchArgs, block_on, check_outcomes, imported_topology};
use crate::console::{Console, Failure};
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::{Entity, TableEntry, Update, update};
use p4runtime::p4info::{Index, Object};
use serde_json::json;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_client::fleet::{self, SwitchContents};
use weir_controller::topology::{HostIx, Node, SwitchIx, Topology};
use weir_host::wire::{Ecn, FrameRepr, HEADERS_LEN, PacketKind, WeirRepr};
use weir_switch::control::Control;
use weir_switch::engine::{ReadyPorts, Switch, SwitchConfig};
use weir_switch::packet::Packet;
use weir_switch::program::{Engine, Program};
use weir_switch::trace::PacketTrace;
use weir_units::Time;

/// Maximum number of switch visits of a packet and its copies, because a forwarding loop would not end: 64 is the usual
/// initial TTL, but a program may not decrement the TTL.
const MAX_VISITS: usize = 64;

/// The options that select a running fabric and a packet.
#[derive(Debug, clap::Args)]
pub(super) struct RunningArgs {
    /// Trace through running switches: topology file in any format that `weir controller --topology` accepts
    #[arg(long, short, value_name = "FILE", requires = "from", help_heading = "In a running fabric")]
    topology: Option<PathBuf>,

    /// Host that sends the packet
    #[arg(long, value_name = "HOST", requires = "topology", help_heading = "In a running fabric")]
    from: Option<String>,

    /// Destination host; with --hex taken from the packet
    #[arg(long, value_name = "HOST", conflicts_with = "hex", help_heading = "In a running fabric")]
    to: Option<String>,

    /// UDP source port, which selects one of several paths by hashing
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 49_152,
        requires = "to",
        help_heading = "In a running fabric"
    )]
    source_port: u16,

    #[command(flatten)]
    switches: SwitchArgs,
}

/// Traces the packet with the hexadecimal digits `hex`, or a DATA packet from one host to another.
pub(super) fn run(
    args: &RunningArgs,
    hex: Option<&str>,
    perfetto: Option<&Path>,
    console: &mut Console,
) -> Result<(), Failure> {
    let (Some(file), Some(from)) = (&args.topology, &args.from) else {
        return Err(Failure::input("--topology and --from are required"));
    };
    let (topology, imported) = imported_topology(file, &console.extensions.catalogue.topologies)?;
    let host = |option: &str, name: &str| {
        let unknown = || Failure::Input(format!("{option} {name}: unknown host"));
        topology.host_named(name).ok_or_else(unknown)
    };
    let sender = host("--from", from)?;
    let bytes = match (hex, &args.to) {
        (Some(hex), _) => parse_hex(hex),
        (None, Some(to)) => data_packet(&topology, sender, host("--to", to)?, args.source_port)?,
        (None, None) => return Err(Failure::input("--to or --hex is required")),
    };
    let targets = args.switches.targets(&topology, imported.as_ref(), Protocol::P4Runtime)?;
    let outcomes = block_on(fleet::read_switches(targets, args.switches.options()?))?;
    check_outcomes(&outcomes)?;
    let contents: BTreeMap<String, SwitchContents> =
        outcomes.into_iter().filter_map(|(name, result)| Some((name, result.ok()?))).collect();
    let path = trace_path(&topology, &contents, sender, bytes)?;
    if let Some(file) = perfetto {
        let traversal = |visit: &Visit| {
            let name = format!(
                "from {}",
                peer_name(&topology, visit.switch, visit.ingress_port).unwrap_or_default()
            );
            traversal(&topology.switch(visit.switch).name, name, &visit.trace, visit.previous)
        };
        return write_perfetto(file, &path.visits.iter().map(traversal).collect::<Vec<_>>());
    }
    if console.style.json {
        return console.print_json(&path.json(&topology));
    }
    path.print(&topology, console)
}

/// Parses an even number of hexadecimal digits, which the caller has checked.
fn parse_hex(hex: &str) -> Vec<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
    hex.as_bytes()
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, &ascii| byte << 4 | digit(ascii)))
        .collect()
}

/// Returns the bytes of a DATA packet without payload.
fn data_packet(topology: &Topology, from: HostIx, to: HostIx, source_port: u16) -> Result<Vec<u8>, Failure> {
    let (from, to) = (topology.host(from), topology.host(to));
    let frame = FrameRepr {
        source_mac: from.mac,
        destination_mac: to.mac,
        source: from.ip,
        destination: to.ip,
        dscp: 0,
        ecn: Ecn::Ect0,
        entropy_port: source_port,
        weir: WeirRepr::of(PacketKind::Data),
        payload_len: 0,
    };
    let mut bytes = vec![0; HEADERS_LEN];
    frame.emit(&[], &mut bytes).ok_or_else(|| Failure::work("cannot encode the packet"))?;
    Ok(bytes)
}

/// One traversal of a switch by the packet or a copy of it.
struct Visit {
    switch: SwitchIx,
    ingress_port: u16,
    trace: PacketTrace,
    /// Index of the visit that sent the packet here; `None` for the first.
    previous: Option<usize>,
    /// Egress ports of the frames that left the switch.
    egress_ports: Vec<u16>,
}

/// A packet on its way to a switch.
struct InFlight {
    switch: SwitchIx,
    ingress_port: u16,
    bytes: Vec<u8>,
    /// Index of the visit that sent the packet.
    previous: Option<usize>,
}

/// The visits of a packet and its copies, and the hosts that received them.
struct PacketPath {
    visits: Vec<Visit>,
    received: Vec<HostIx>,
    /// True if packets were still in flight after [`MAX_VISITS`] visits.
    is_truncated: bool,
}

/// Traces the packet and its copies from the sender, until they leave the fabric, are dropped or reach the limit.
fn trace_path(
    topology: &Topology,
    contents: &BTreeMap<String, SwitchContents>,
    sender: HostIx,
    bytes: Vec<u8>,
) -> Result<PacketPath, Failure> {
    // Copies of the visited switches.
    let mut copies: BTreeMap<usize, Switch> = BTreeMap::new();
    let mut path = PacketPath { visits: Vec::new(), received: Vec::new(), is_truncated: false };
    let first = topology.host(sender);
    let mut in_flight = VecDeque::from([InFlight {
        switch: first.switch,
        ingress_port: first.switch_port,
        bytes,
        previous: None,
    }]);
    while let Some(InFlight { switch, ingress_port, bytes, previous }) = in_flight.pop_front() {
        if path.visits.len() == MAX_VISITS {
            path.is_truncated = true;
            break;
        }
        let name = &topology.switch(switch).name;
        let copy = match copies.entry(switch.0 as usize) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let contents =
                    contents.get(name).ok_or_else(|| Failure::Work(format!("{name}: not read")))?;
                entry.insert(
                    clone_switch(contents).map_err(|reason| Failure::Work(format!("{name}: {reason}")))?,
                )
            }
        };
        let (trace, frames) = process(copy, ingress_port, &bytes);
        path.visits.push(Visit {
            switch,
            ingress_port,
            trace,
            previous,
            egress_ports: frames.iter().map(|(port, _)| *port).collect(),
        });
        let previous = Some(path.visits.len() - 1);
        for (egress_port, bytes) in frames {
            match topology.peer(switch, egress_port).map(|(_, end)| (end.node, end.port)) {
                Some((Node::Switch(switch), ingress_port)) => {
                    in_flight.push_back(InFlight { switch, ingress_port, bytes, previous });
                }
                Some((Node::Host(host), _)) => path.received.push(host),
                // The port has no link in the topology.
                None => {}
            }
        }
    }
    Ok(path)
}

/// Returns a switch with the program and the table entries of a running switch. Registers, counters, meters and queues
/// are in their initial state.
fn clone_switch(contents: &SwitchContents) -> Result<Switch, String> {
    let config = contents.program.pipeline_config().map_err(|error| error.to_string())?;
    let json = std::str::from_utf8(&config.p4_device_config)
        .map_err(|_| "its program is not BMv2 JSON".to_owned())?;
    let program = Program::load(json, Engine::Interpreter).map_err(|error| error.to_string())?;
    let config = SwitchConfig::new(0..SwitchConfig::DROP_PORT);
    // The random numbers of the running switch are unknown, so the seed is arbitrary.
    let mut switch = Switch::new(program, config, 1).map_err(|error| error.to_string())?;
    let mut control =
        Control::new(Arc::new(contents.program.index.clone()), &switch).map_err(|error| error.to_string())?;
    for update in updates(&contents.entities, &contents.program.index) {
        control.apply(&mut switch, &update).map_err(|error| error.to_string())?;
    }
    Ok(switch)
}

/// Returns updates that write these entities, ordered such that each follows those that it refers to. The
/// entities are not brought into the canonical form of `weir_controller::reconcile`, which sorts the members
/// of a group: a hash would then select different members.
fn updates(entities: &[Entity], index: &Index) -> Vec<Update> {
    let const_tables: BTreeSet<u32> =
        index.tables.iter().filter(|table| table.is_const_table).map(|table| table.preamble().id).collect();
    // Entries of constant tables are part of the program.
    let is_written = |entity: &&Entity| match &entity.entity {
        Some(Kind::TableEntry(entry)) => entry.is_default_action || !const_tables.contains(&entry.table_id),
        _ => true,
    };
    let mut ordered: Vec<&Entity> = entities.iter().filter(is_written).collect();
    // The sort is stable, so that members keep their order.
    ordered.sort_by_key(|entity| match &entity.entity {
        Some(Kind::ActionProfileMember(_)) => 0,
        Some(Kind::ActionProfileGroup(_)) => 1,
        Some(Kind::PacketReplicationEngineEntry(_)) => 2,
        _ => 3,
    });
    let update = |entity: &Entity| {
        let kind = match &entity.entity {
            Some(Kind::TableEntry(TableEntry { is_default_action: true, .. })) => update::Type::Modify,
            _ => update::Type::Insert,
        };
        Update { r#type: kind.into(), entity: Some(entity.clone()) }
    };
    ordered.into_iter().map(update).collect()
}

/// Sends one packet through a switch, and returns the trace and the frames that left, with their egress
/// ports.
fn process(switch: &mut Switch, port: u16, bytes: &[u8]) -> (PacketTrace, Vec<(u16, Vec<u8>)>) {
    let (mut trace, mut ready, mut frames) = (PacketTrace::new(), ReadyPorts::default(), Vec::new());
    switch.receive_traced(Time::ZERO, port, Packet::from_bytes(bytes), &mut ready, &mut trace);
    while let Some(port) = ready.0.pop_first() {
        if let Some(packet) = switch.transmit_traced(Time::ZERO, port, &mut ready, &mut trace) {
            frames.push((port, packet.to_vec()));
            // The port may have more packets.
            ready.0.insert(port);
        }
    }
    (trace, frames)
}

/// Returns the name of the node and port connected to a port, such as `s1:3`.
fn peer_name(topology: &Topology, switch: SwitchIx, port: u16) -> Option<String> {
    topology.peer(switch, port).map(|(_, end)| topology.end_name(end))
}

impl PacketPath {
    fn print(&self, topology: &Topology, console: &mut Console) -> Result<(), Failure> {
        for visit in &self.visits {
            let name = &topology.switch(visit.switch).name;
            let from = peer_name(topology, visit.switch, visit.ingress_port)
                .unwrap_or_else(|| "nothing connected".to_owned());
            writeln!(console.out, "{name}, port {}, from {from}", visit.ingress_port)?;
            writeln!(console.out, "{}", visit.trace)?;
            for &port in &visit.egress_ports {
                match peer_name(topology, visit.switch, port) {
                    Some(peer) => writeln!(console.out, "{name}:{port} to {peer}\n")?,
                    None => writeln!(console.out, "{name}:{port}, which has no link in the topology\n")?,
                }
            }
        }
        for &host in &self.received {
            writeln!(console.out, "delivered to {}", topology.host(host).name)?;
        }
        if self.is_truncated {
            writeln!(console.out, "not delivered after {MAX_VISITS} switches: forwarding loop")?;
        } else if self.received.is_empty() {
            writeln!(console.out, "not delivered to any host")?;
        }
        Ok(())
    }

    fn json(&self, topology: &Topology) -> serde_json::Value {
        let visit = |visit: &Visit| {
            let steps = steps(&visit.trace);
            let out = visit
                .egress_ports
                .iter()
                .map(|&port| json!({"port": port, "to": peer_name(topology, visit.switch, port)}));
            json!({
                "switch": topology.switch(visit.switch).name, "port": visit.ingress_port, "steps": steps,
                "out": out.collect::<Vec<_>>(),
            })
        };
        let received = self.received.iter().map(|&host| topology.host(host).name.clone());
        json!({
            "visits": self.visits.iter().map(visit).collect::<Vec<_>>(),
            "received": received.collect::<Vec<_>>(), "is_cut": self.is_truncated,
        })
    }
}
