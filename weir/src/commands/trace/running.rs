//! A packet through a running fabric: each switch is copied, with its program and its tables, and the packet is followed
//! through the copies. The switches themselves only answer reads.

use super::super::controller::{Protocol, SwitchArgs, block_on, failure, imported_topology};
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
use weir_client::fleet::{self, Held};
use weir_controller::topology::{HostIx, Node, SwitchIx, Topology};
use weir_host::wire::{Ecn, FrameRepr, HEADERS_LEN, PacketKind, WeirRepr};
use weir_switch::control::Control;
use weir_switch::engine::{ReadyPorts, Switch, SwitchConfig};
use weir_switch::packet::Packet;
use weir_switch::program::{Engine, Program};
use weir_switch::trace::PacketTrace;
use weir_units::Time;

/// Visits of switches after which a packet is not followed any further: an IPv4 packet has 64 hops to live as well.
const MAX_VISITS: usize = 64;

/// Options that choose a running fabric, and a packet of it.
#[derive(Debug, clap::Args)]
pub struct RunningArgs {
    /// Follow a packet through running switches: their topology, any file that `weir controller --topology` takes
    #[arg(long, short, value_name = "FILE", requires = "from", help_heading = "In a running fabric")]
    topology: Option<PathBuf>,

    /// Host that sends the packet
    #[arg(long, value_name = "HOST", requires = "topology", help_heading = "In a running fabric")]
    from: Option<String>,

    /// Host that it is for; with --hex the packet says this itself
    #[arg(long, value_name = "HOST", conflicts_with = "hex", help_heading = "In a running fabric")]
    to: Option<String>,

    /// UDP source port, by which switches choose one of several paths
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

/// Follows a packet: that of `hex`, as hexadecimal digits, or DATA from one host to another.
pub fn run(
    args: &RunningArgs,
    hex: Option<&str>,
    perfetto: Option<&Path>,
    console: &mut Console,
) -> Result<(), Failure> {
    let (Some(file), Some(from)) = (&args.topology, &args.from) else {
        return Err(Failure::input("name the topology and the sender: --topology FILE --from HOST"));
    };
    let (topology, imported) = imported_topology(file, &console.kit.catalogue.topologies)?;
    let host = |option: &str, name: &str| {
        let unknown = || Failure::Input(format!("{option} {name}: the topology has no such host"));
        topology.host_named(name).ok_or_else(unknown)
    };
    let sender = host("--from", from)?;
    let bytes = match (hex, &args.to) {
        (Some(hex), _) => bytes_of(hex),
        (None, Some(to)) => data(&topology, sender, host("--to", to)?, args.source_port)?,
        (None, None) => return Err(Failure::input("say where the packet goes: --to HOST, or --hex BYTES")),
    };
    let targets = args.switches.targets(&topology, imported.as_ref(), Protocol::P4Runtime)?;
    let outcomes = block_on(fleet::held(targets, args.switches.options()?))?;
    failure(&outcomes)?;
    let held: BTreeMap<String, Held> =
        outcomes.into_iter().filter_map(|(name, held)| Some((name, held.ok()?))).collect();
    let path = follow(&topology, &held, sender, bytes)?;
    if let Some(file) = perfetto {
        let passage = |visit: &Visit| {
            let name = format!("from {}", peer(&topology, visit.switch, visit.port).unwrap_or_default());
            super::passage(&topology.switch(visit.switch).name, name, &visit.trace, visit.from)
        };
        return super::write_perfetto(file, &path.visits.iter().map(passage).collect::<Vec<_>>());
    }
    if console.style.json {
        return console.print_json(&path.json(&topology));
    }
    path.print(&topology, console)
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
    hex.as_bytes().chunks(2).map(|pair| pair.iter().fold(0, |byte, &it| byte << 4 | digit(it))).collect()
}

/// Returns a DATA packet without payload.
fn data(topology: &Topology, from: HostIx, to: HostIx, source_port: u16) -> Result<Vec<u8>, Failure> {
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
    frame.emit(&[], &mut bytes).ok_or_else(|| Failure::work("the packet cannot be written"))?;
    Ok(bytes)
}

/// One passage through a switch.
struct Visit {
    switch: SwitchIx,
    port: u16,
    trace: PacketTrace,
    /// The visit that it came from, by index.
    from: Option<usize>,
    /// Ports by which frames left.
    out: Vec<u16>,
}

/// The whole path of a packet and its copies.
struct PacketPath {
    visits: Vec<Visit>,
    received: Vec<HostIx>,
    /// The packet had not ended after [`MAX_VISITS`].
    is_cut: bool,
}

fn follow(
    topology: &Topology,
    held: &BTreeMap<String, Held>,
    sender: HostIx,
    bytes: Vec<u8>,
) -> Result<PacketPath, Failure> {
    let mut copies: BTreeMap<usize, Switch> = BTreeMap::new();
    let mut path = PacketPath { visits: Vec::new(), received: Vec::new(), is_cut: false };
    let first = topology.host(sender);
    let mut under_way = VecDeque::from([(first.switch, first.switch_port, bytes, None)]);
    while let Some((ix, port, bytes, from)) = under_way.pop_front() {
        if path.visits.len() == MAX_VISITS {
            path.is_cut = true;
            break;
        }
        let name = &topology.switch(ix).name;
        let copy = match copies.entry(ix.0 as usize) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let held = held.get(name).ok_or_else(|| Failure::Work(format!("{name}: it was not read")))?;
                entry.insert(clone_switch(held).map_err(|reason| Failure::Work(format!("{name}: {reason}")))?)
            }
        };
        let (trace, frames) = pass(copy, port, &bytes);
        path.visits.push(Visit {
            switch: ix,
            port,
            trace,
            from,
            out: frames.iter().map(|(port, _)| *port).collect(),
        });
        let from = Some(path.visits.len() - 1);
        for (port, bytes) in frames {
            match topology.peer(ix, port).map(|(_, end)| (end.node, end.port)) {
                Some((Node::Switch(next), port)) => under_way.push_back((next, port, bytes, from)),
                Some((Node::Host(host), _)) => path.received.push(host),
                None => {}
            }
        }
    }
    Ok(path)
}

/// Returns a switch with the program and the tables of another one. Registers, counters, meters and queues are as in
/// a switch that has not seen a packet.
fn clone_switch(held: &Held) -> Result<Switch, String> {
    let config = held.program.pipeline_config().map_err(|error| error.to_string())?;
    let json = std::str::from_utf8(&config.p4_device_config)
        .map_err(|_| "its program is not BMv2 JSON".to_owned())?;
    let program = Program::load(json, Engine::Interpreter).map_err(|error| error.to_string())?;
    let config = SwitchConfig::new(0..SwitchConfig::DROP_PORT);
    let mut switch = Switch::new(program, config, 1).map_err(|error| error.to_string())?;
    let mut control =
        Control::new(Arc::new(held.program.index.clone()), &switch).map_err(|error| error.to_string())?;
    for update in updates(&held.entities, &held.program.index) {
        control.apply(&mut switch, &update).map_err(|error| error.to_string())?;
    }
    Ok(switch)
}

/// Returns the updates that make these entities, each after those that it names. They stay as they were read: the canonical
/// form of `weir_controller::reconcile` sorts a group's members, and a hash would choose others.
fn updates(entities: &[Entity], index: &Index) -> Vec<Update> {
    let constant: BTreeSet<u32> =
        index.tables.iter().filter(|table| table.is_const_table).map(|table| table.preamble().id).collect();
    // A program brings the entries of constant tables itself.
    let is_written = |entity: &&Entity| match &entity.entity {
        Some(Kind::TableEntry(entry)) => entry.is_default_action || !constant.contains(&entry.table_id),
        _ => true,
    };
    let mut ordered: Vec<&Entity> = entities.iter().filter(is_written).collect();
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

/// One packet through one switch, until all copies have left it.
fn pass(switch: &mut Switch, port: u16, bytes: &[u8]) -> (PacketTrace, Vec<(u16, Vec<u8>)>) {
    let (mut trace, mut ready, mut frames) = (PacketTrace::new(), ReadyPorts::default(), Vec::new());
    switch.receive_traced(Time::ZERO, port, Packet::from_bytes(bytes), &mut ready, &mut trace);
    while let Some(port) = ready.0.pop_first() {
        if let Some(packet) = switch.transmit_traced(Time::ZERO, port, &mut ready, &mut trace) {
            frames.push((port, packet.to_vec()));
            ready.0.insert(port);
        }
    }
    (trace, frames)
}

/// Returns the name of what is at a port of a switch: `s1:3`, or a host.
fn peer(topology: &Topology, switch: SwitchIx, port: u16) -> Option<String> {
    topology.peer(switch, port).map(|(_, end)| topology.end_name(end))
}

impl PacketPath {
    fn print(&self, topology: &Topology, console: &mut Console) -> Result<(), Failure> {
        for visit in &self.visits {
            let name = &topology.switch(visit.switch).name;
            let from = peer(topology, visit.switch, visit.port).unwrap_or_else(|| "nobody".to_owned());
            writeln!(console.out, "{name}, port {}, from {from}", visit.port)?;
            writeln!(console.out, "{}", visit.trace)?;
            for &port in &visit.out {
                match peer(topology, visit.switch, port) {
                    Some(peer) => writeln!(console.out, "{name}:{port} to {peer}\n")?,
                    None => writeln!(console.out, "{name}:{port}, which has no link in the topology\n")?,
                }
            }
        }
        for &host in &self.received {
            writeln!(console.out, "{} receives it", topology.host(host).name)?;
        }
        if self.is_cut {
            writeln!(console.out, "after {MAX_VISITS} switches it is not delivered yet: a loop")?;
        } else if self.received.is_empty() {
            writeln!(console.out, "no host receives it")?;
        }
        Ok(())
    }

    fn json(&self, topology: &Topology) -> serde_json::Value {
        let visit = |visit: &Visit| {
            let steps = super::steps(&visit.trace);
            let out =
                visit.out.iter().map(|&port| json!({"port": port, "to": peer(topology, visit.switch, port)}));
            json!({
                "switch": topology.switch(visit.switch).name, "port": visit.port, "steps": steps,
                "out": out.collect::<Vec<_>>(),
            })
        };
        let received = self.received.iter().map(|&host| topology.host(host).name.clone());
        json!({
            "visits": self.visits.iter().map(visit).collect::<Vec<_>>(),
            "received": received.collect::<Vec<_>>(), "is_cut": self.is_cut,
        })
    }
}
