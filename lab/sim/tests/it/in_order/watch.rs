//! Runs an experiment and watches every deflection table, to check the invariants of IOFD.

use std::collections::BTreeMap;
use weir_controller::topology::SwitchIx;
use weir_experiment::Experiment;
use weir_host::{FlowSpec, HostEvent};
use weir_sim::counts;
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
pub(crate) struct Seen {
    /// Messages sent.
    pub messages: usize,
    /// Messages not finished at the end.
    pub unfinished: usize,
    /// DATA packets received in order.
    pub packets: u64,
    /// DATA packets received after a gap, or twice.
    pub reordered: u64,
    pub retransmits: u64,
    /// Number of deflections; a packet counts each time it is deflected.
    pub deflections: u64,
    /// Number of times that an entry was reused for another message before the END of its own.
    pub overwritten: u64,
    /// Entries in use at the end.
    pub entries_left: u64,
    /// Maximum number of entries in use at one switch.
    pub max_entries: u64,
    /// Drops by reason, at switches and hosts: `ttl_expired` stands for a loop, `host_not_for_us` for delivery to the
    /// wrong host.
    pub drops: BTreeMap<String, u64>,
}

/// A deflection table: the output and the flow of each entry; zero if unused.
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

/// Runs the first scheme of an experiment until all messages are delivered, or its duration is over.
pub(crate) fn watch(experiment: &Experiment) -> Seen {
    let network = FabricBuilder::new(experiment, &experiment.schemes[0], Engine::default())
        .and_then(|builder| builder.build())
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
        let start = StartFlow { flow_index: record, spec, announcement: None, will_stop: false };
        network.schedule_command(
            &EventKey::first_at(flow.start),
            flow.from,
            HostCommand::Start(Box::new(start)),
        );
    }
    let mut open = seen.messages;
    while open > 0 {
        let Some(switch) = network.step(experiment.spec.duration) else { break };
        let finished =
            |report: &HostReport| matches!(report.kind, HostReportKind::Host(HostEvent::FlowFinished { .. }));
        open -= network.take_reports().iter().filter(|report| finished(report)).count();
        if let Some(ix @ SwitchIx(index)) = switch {
            let after = network.with_switch(ix, table);
            let before = std::mem::replace(&mut tables[index as usize], after);
            let is_overwritten =
                |(old, new): (&(u64, u64), &(u64, u64))| old.0 != 0 && new.0 != 0 && old != new;
            seen.overwritten += before.iter().zip(&after).filter(|&pair| is_overwritten(pair)).count() as u64;
            seen.max_entries = seen.max_entries.max(in_use(&after));
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
    let counts = counts::collect_counts(network);
    seen.deflections = counts.deflections;
    seen.retransmits = counts.retransmits;
    seen.drops = counts.drops;
    seen.entries_left = network.switches().map(|node| in_use(&table(&node.switch))).sum();
    for node in network.hosts() {
        let stats = node.host.stats();
        seen.packets += stats.data_received;
        seen.reordered += stats.out_of_order + stats.duplicates;
    }
}

/// Returns an experiment with localised congestion, in which messages start until `stop`.
pub(crate) fn experiment(topology: &str, scheme: &str, seed: u64, stop: Time) -> Experiment {
    parse(topology, scheme, seed, stop, "")
}

/// Like [`experiment`], with an incast of ten senders every 20 us, which also congests receivers' ports in
/// [`EVEN_FABRICS`].
pub(crate) fn with_incasts(topology: &str, scheme: &str, seed: u64, stop: Time) -> Experiment {
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

/// Fabrics with several ECMP paths for deflection: three spines, and four cores over eight aggregation switches. The
/// uplinks have half of the capacity of the hosts.
pub(crate) const FABRICS: [(&str, &str); 2] = [
    ("leaf-spine", "{kind: leaf-spine, leaves: 4, spines: 3, hosts_per_leaf: 6, rate: 100Gbps, delay: 1us}"),
    ("fat-tree", "{kind: fat-tree, k: 4, rate: 100Gbps, fabric_rate: 50Gbps, delay: 1us}"),
];

/// Fabrics in which a receiver's port is no faster than the links to its rack.
pub(crate) const EVEN_FABRICS: [(&str, &str); 2] = [
    ("leaf-spine", "{kind: leaf-spine, leaves: 4, spines: 6, hosts_per_leaf: 6, rate: 100Gbps, delay: 1us}"),
    ("fat-tree", "{kind: fat-tree, k: 4, rate: 100Gbps, delay: 1us}"),
];

impl Seen {
    /// Returns the violated invariants.
    pub(crate) fn violations(&self) -> Vec<String> {
        let violations = [
            ("packets out of order", self.reordered),
            ("retransmissions", self.retransmits),
            ("entries overwritten", self.overwritten),
            ("entries left in use", self.entries_left),
            ("messages unfinished", self.unfinished as u64),
        ];
        let counts =
            violations.into_iter().filter(|(_, count)| *count > 0).map(|(what, n)| format!("{n} {what}"));
        let drops = self.drops.iter().map(|(reason, n)| format!("{n} dropped: {reason}"));
        counts.chain(drops).collect()
    }
}
