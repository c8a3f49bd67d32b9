//! Runs an experiment with every deflection table watched: what IOFD must hold of any traffic.

use std::collections::BTreeMap;
use weir_controller::topology::SwitchIx;
use weir_experiment::Experiment;
use weir_host::{FlowSpec, HostEvent};
use weir_sim::counters;
use weir_sim::events::EventKey;
use weir_sim::fabric_builder::FabricBuilder;
use weir_sim::messages::{HostCommand, HostReport, HostReportKind, StartFlow};
use weir_sim::network::View;
use weir_switch::Switch;
use weir_switch::program::Engine;
use weir_units::Time;

/// Entries of a switch's table (`p4src/controls/deflect.p4`).
const DFT_ENTRIES: usize = 8;

/// The observations of a run.
#[derive(Debug, Default)]
pub struct Seen {
    /// Messages sent.
    pub messages: usize,
    /// Of those, not finished at the end.
    pub unfinished: usize,
    /// DATA packets that receivers took in order.
    pub packets: u64,
    /// DATA packets that came behind a gap, or twice.
    pub reordered: u64,
    /// Packets sent again.
    pub retransmits: u64,
    /// Packets that were deflected, each time counted.
    pub deflections: u64,
    /// Times that an entry was given to another message before its END.
    pub overwritten: u64,
    /// Entries in use at the end.
    pub left: u64,
    /// The most entries that one switch had in use.
    pub max: u64,
    /// Drops by reason, at switches and at hosts: `ttl_expired` is one that went in circles, `host_not_for_us` one
    /// that came to the wrong host.
    pub drops: BTreeMap<String, u64>,
}

/// A table: for each entry what it says, and for whom.
type Table = [(u64, u64); DFT_ENTRIES];

fn table(switch: &Switch) -> Table {
    let cell = |register, index| {
        let bytes = switch.pipeline().register_read(register, index).expect("dart.p4 has the register");
        bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
    };
    std::array::from_fn(|index| match cell("dft_out", index) {
        0 => (0, 0),
        out => (out, cell("dft_flow", index)),
    })
}

/// Runs the first scheme of an experiment until all its messages are there, or its duration is over.
pub fn watch(experiment: &Experiment) -> Seen {
    let network = FabricBuilder::new(experiment, &experiment.schemes[0], Engine::default())
        .and_then(|it| it.build())
        .expect("a fabric");
    let mut tables = vec![Table::default(); experiment.topology.switches.len()];
    let mut seen = Seen { messages: experiment.flows.len(), ..Seen::default() };
    let mut messages = vec![0; experiment.topology.hosts.len()];
    let mut flows: Vec<_> = experiment.flows.iter().collect();
    flows.sort_by_key(|flow| flow.start);
    for (record, flow) in (0..).zip(flows) {
        let peer = experiment.topology.host(flow.to);
        let message = &mut messages[flow.from.0 as usize];
        let spec = FlowSpec {
            peer: peer.ip,
            next_hop_mac: peer.mac,
            entropy_port: flow.entropy_port,
            size: flow.size,
            message: *message,
        };
        *message += 1;
        let start = StartFlow { flow_index: record, spec, announces: None, stops: false, first: false };
        network.plan(&EventKey::first_at(flow.start), flow.from, HostCommand::Start(Box::new(start)));
    }
    let mut open = seen.messages;
    while open > 0 {
        let Some(at) = network.step(experiment.spec.duration) else { break };
        let finished =
            |report: &HostReport| matches!(report.news, HostReportKind::Host(HostEvent::FlowFinished { .. }));
        open -= network.take_reports().iter().filter(|report| finished(report)).count();
        if let Some(ix @ SwitchIx(at)) = at {
            let after = network.with_switch(ix, table);
            let before = std::mem::replace(&mut tables[at as usize], after);
            let taken = |(old, new): (&(u64, u64), &(u64, u64))| old.0 != 0 && new.0 != 0 && old != new;
            seen.overwritten += before.iter().zip(&after).filter(|&pair| taken(pair)).count() as u64;
            seen.max = seen.max.max(in_use(&after));
        }
    }
    seen.unfinished = open;
    sum_up(&network.view(), &mut seen);
    seen
}

fn in_use(table: &Table) -> u64 {
    table.iter().filter(|(out, _)| *out != 0).count() as u64
}

fn sum_up(network: &View<'_>, seen: &mut Seen) {
    let counts = counters::collect_counts(network);
    seen.deflections = counts.deflections;
    seen.retransmits = counts.retransmits;
    seen.drops = counts.drops;
    seen.left = network.switches().map(|it| in_use(&table(&it.switch))).sum();
    for nic in network.hosts() {
        let stats = nic.host.stats();
        seen.packets += stats.data_received;
        seen.reordered += stats.out_of_order + stats.duplicates;
    }
}

/// A fabric under localised congestion, and how long its messages last.
pub fn experiment(topology: &str, scheme: &str, seed: u64, stop: Time) -> Experiment {
    parse(topology, scheme, seed, stop, "")
}

/// The same, and ten hosts send to one more at once every 20 us: receivers' ports are congested too, in
/// [`EVEN_FABRICS`].
pub fn with_incasts(topology: &str, scheme: &str, seed: u64, stop: Time) -> Experiment {
    let every = Time::from_us(20);
    let incast = |n: u64| {
        let (to, start) = (1 + n % 8, every * n);
        format!(", {{kind: incast, to: h{to}, senders: 10, size: 8KB, start: {start}}}")
    };
    let incasts: String = (0..stop / every).map(incast).collect();
    parse(topology, scheme, seed, stop, &incasts)
}

fn parse(topology: &str, scheme: &str, seed: u64, stop: Time, more: &str) -> Experiment {
    let text = format!(
        "{{topology: {topology}, schemes: [{scheme}], ack_priority: true, pfc: {{}}, seed: {seed}, \
         workloads: [{{kind: messages, size: 8KB, load: 0.6, stop: {stop}}}{more}], duration: {}}}",
        stop * 4 + Time::from_ms(20)
    );
    Experiment::parse(&text, "in_order", "in_order", &[], None).expect("an experiment")
}

/// Fabrics whose ECMP has paths to be deflected to: three spines, and four cores over eight aggregation switches. Their
/// uplinks are half of what their hosts can send.
pub const FABRICS: [(&str, &str); 2] = [
    ("leaf-spine", "{kind: leaf-spine, leaves: 4, spines: 3, hosts_per_leaf: 6, rate: 100Gbps, delay: 1us}"),
    ("fat-tree", "{kind: fat-tree, k: 4, rate: 100Gbps, fabric_rate: 50Gbps, delay: 1us}"),
];

/// Fabrics in which a receiver's port is no faster than the links to its rack.
pub const EVEN_FABRICS: [(&str, &str); 2] = [
    ("leaf-spine", "{kind: leaf-spine, leaves: 4, spines: 6, hosts_per_leaf: 6, rate: 100Gbps, delay: 1us}"),
    ("fat-tree", "{kind: fat-tree, k: 4, rate: 100Gbps, delay: 1us}"),
];

impl Seen {
    /// Returns the faults found.
    pub fn faults(&self) -> Vec<String> {
        let none = [
            ("packets out of order", self.reordered),
            ("packets sent again", self.retransmits),
            ("entries overwritten", self.overwritten),
            ("entries left in use", self.left),
            ("messages unfinished", self.unfinished as u64),
        ];
        let counts = none.into_iter().filter(|(_, count)| *count > 0).map(|(what, n)| format!("{n} {what}"));
        let drops = self.drops.iter().map(|(reason, n)| format!("{n} dropped: {reason}"));
        counts.chain(drops).collect()
    }
}
