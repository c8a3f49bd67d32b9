//! Converts routes and options to P4Runtime updates, by the names in the program's P4Info.

mod decode;
mod encode;
mod entry;
mod rank;
mod target;

pub use crate::call::Call;
pub use decode::decode;
pub use encode::Encoder;
pub use entry::{Entry, FORWARD, Field};
pub use rank::UpdateOrder;
pub use target::{Bmv2, Chip, CloneSession, P4Target, PortMap, TargetConfig, Tofino};

use crate::deflect;
use crate::flood::FloodConfig;
use crate::port_params::PortParams;
use crate::profile::{DeflectionConfig, EcnConfig, EcnError, EcnRamp, ThresholdError};
use crate::reconcile::{BASE, DesiredState, LAST_INSERT};
use crate::routes::{Routes, RoutingMethod, SwitchRoutes};
use crate::topology::{Node, SwitchIx, Topology};
use p4runtime::p4::v1::{Entity, Update, update};
use p4runtime::p4info::{Index, Object, P4InfoError};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;
use weir_units::{Bandwidth, Bytes, RateCode};

/// Queue of all packets without a class of their own.
pub const DATA_PRIORITY: u8 = 0;
/// Queue of DATA with the flag EXPRESS, with [`PriorityTraffic::short_messages`].
pub const EXPRESS_PRIORITY: u8 = 1;
/// First queue of deflected packets, with [`PlanOptions::deflection`]; see [`escape_classes`]. These queues are served
/// before data and feedback: deflected packets are few and already delayed.
const FIRST_DETOUR_PRIORITY: u8 = 2;

/// The queues of deflected packets, by number of remaining tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EscapeClass {
    /// Remaining deflections of the packet.
    pub tokens: u8,
    /// Queue of packets that were deflected at an earlier switch.
    pub escape: u8,
    /// Queue of packets that are deflected at this switch, for this one hop.
    pub detour: u8,
}

/// Returns the classes of packets that may be deflected `tokens` times, from 0 remaining tokens to `tokens`.
///
/// The n-th deflection moves a packet to the n-th pair of queues. The first queue of a pair (`detour`) holds packets
/// for the hop to which they are deflected, which may lead up or down. The second (`escape`) holds them from the next
/// switch on, where paths lead up and then down as for data. A packet therefore waits only for packets of its own
/// class, on up-down paths, or of later classes. [`verify_channels`](crate::verify_channels) proves this.
pub fn escape_classes(tokens: u8) -> impl Iterator<Item = EscapeClass> {
    let detour_of = |deflections: u8| FIRST_DETOUR_PRIORITY + 2 * (deflections - 1);
    (0..=tokens).map(move |left| {
        let deflections = tokens - left;
        let escape = if deflections == 0 { DATA_PRIORITY } else { detour_of(deflections) + 1 };
        let detour = if left == 0 { escape } else { detour_of(deflections + 1) };
        EscapeClass { tokens: left, escape, detour }
    })
}

/// Returns the highest queue used by packets that may be deflected `tokens` times.
pub fn last_escape_priority(tokens: u8) -> u8 {
    escape_classes(tokens).map(|class| class.escape.max(class.detour)).max().unwrap_or(DATA_PRIORITY)
}

/// Maximum number of weighted queues: eight queues, less queue 0 (unclassified) and the feedback queue.
pub const MAX_WEIGHTED_QUEUES: usize = 6;

/// Kind DATA in the Weir header.
const KIND_DATA: u8 = 0;

/// Content of all tables other than routes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanOptions {
    /// ECN marking thresholds of the ports; `None`: never mark.
    pub ecn: Option<EcnConfig>,
    /// Priority queue by kind of Weir packet and flag EXPRESS. Queue 7 is served first; kinds without an entry use
    /// queue 0.
    pub classes: BTreeMap<(u8, bool), u8>,
    /// Refresh interval of FNCC's All_INT_Table, in ticks of the switches' clock; `None`: at every dequeue.
    pub int_refresh: Option<u32>,
    /// Parameters of per-port computations by the rate of the port, for programs that have such computations.
    pub port_params: BTreeMap<Bandwidth, PortParams>,
    /// Weights of the queues 1, 2, ... of every port, for programs that select the queue of DATA by DSCP. Empty: strict
    /// priority.
    pub weights: Vec<u16>,
    /// Creates a clone session for each port, with the number of the port as id, for programs that generate packets.
    pub port_clone_sessions: bool,
    /// Threshold above which a port counts as congested, for programs that deflect; `None`: never deflect. Needs two
    /// priority queues per deflection in addition to those of data and feedback.
    pub deflection: Option<DeflectionConfig>,
    /// Limits of the POLICY packets that a port accepts, for programs that flood them.
    pub flood: FloodConfig,
    /// Omits the routes: the program has its own route tables, which another controller writes.
    pub skip_routes: bool,
    /// The target for which the program is compiled.
    pub target: TargetConfig,
}

impl PlanOptions {
    /// Assigns separate queues to this traffic, which switches serve before others (docs/wire.md#priorities). Each
    /// needs one more priority queue in the switches.
    pub fn prioritise(mut self, first: PriorityTraffic) -> PlanOptions {
        // ACK, NACK, CNP, PROBE_REPLY, RATE and POLICY; must match the kinds of the Weir header in `host/src/wire`.
        const FEEDBACK: [u8; 6] = [1, 2, 3, 5, 6, 7];
        if first.short_messages {
            self.classes.insert((KIND_DATA, true), EXPRESS_PRIORITY);
        }
        if first.feedback {
            self.classes.extend(FEEDBACK.map(|kind| ((kind, false), first.feedback_queue())));
        }
        self
    }
}

/// Traffic that switches serve first, for [`PlanOptions::prioritise`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorityTraffic {
    /// DATA with the flag EXPRESS: messages that their hosts declare short (Dart's Pri-Q).
    pub short_messages: bool,
    /// Feedback: ACK, NACK, CNP, PROBE_REPLY, RATE and POLICY.
    pub feedback: bool,
    /// Number of weighted DATA queues, from queue 1 on.
    pub weighted: u8,
}

impl PriorityTraffic {
    /// Returns the queue of feedback. It is above all queues of DATA, EXPRESS included: otherwise an incast of short
    /// messages would delay their ACKs.
    pub const fn feedback_queue(self) -> u8 {
        match self {
            PriorityTraffic { feedback: false, .. } => DATA_PRIORITY,
            PriorityTraffic { weighted: 1.., .. } => self.weighted + 1,
            PriorityTraffic { short_messages: true, .. } => EXPRESS_PRIORITY + 1,
            PriorityTraffic { short_messages: false, .. } => DATA_PRIORITY + 1,
        }
    }
}

/// The reason why a plan cannot be made.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PlanError {
    /// The program lacks a table or an action that the plan needs.
    #[error("{0}")]
    P4Info(#[from] P4InfoError),
    /// The match fields of a table differ from those that the plan knows.
    #[error("table \"{table}\" should match on {expected}, the program has {found}")]
    Key {
        table: String,
        /// Fields of the plan.
        expected: String,
        /// Fields of the P4Info.
        found: String,
    },
    /// The parameters of an action differ from those that the plan knows.
    #[error("action \"{action}\" should take {expected}, the program's takes {found}")]
    Params {
        action: String,
        /// Parameters of the plan.
        expected: String,
        /// Parameters of the P4Info.
        found: String,
    },
    /// A table does not list the action in its P4Info.
    #[error("table \"{table}\" has no action \"{action}\"")]
    NotAnAction { table: String, action: String },
    /// A value is wider than its field.
    #[error("{place}: {value} does not fit {bits} bits")]
    TooWide {
        /// Table and field, or action and parameter.
        place: String,
        value: u128,
        bits: i32,
    },
    /// A field has another match kind than the plan expects.
    #[error("{place} is not matched by {expected}")]
    MatchKind { place: String, expected: &'static str },
    /// The plan has more entries than the declared size of a table.
    #[error("switch \"{switch}\" needs {entries} entries in table \"{table}\", which has room for {size}")]
    TableFull { switch: String, table: &'static str, entries: usize, size: i64 },
    /// Invalid ECN thresholds.
    #[error("{0}")]
    Ecn(#[from] EcnError),
    /// Invalid deflection options.
    #[error("{0}")]
    Deflection(#[from] ThresholdError),
    /// A threshold above the queue lengths that the target can count.
    #[error("{what}: Tofino counts at most {} of a queue; take a smaller threshold", Bytes::new(u64::from(*max)))]
    Depth { what: &'static str, max: u32 },
    /// There are more trees than the target can select from.
    #[error("{count} trees: Tofino selects from at most {max}")]
    Trees {
        count: u8,
        /// Largest number of trees that the target supports.
        max: usize,
    },
    /// A port has no device port number on the target.
    #[error("switch \"{switch}\", port {port}: Tofino has no number for it; --ports gives one")]
    NoPort { switch: String, port: u16 },
    /// Two ports have the same device port number.
    #[error("switch \"{switch}\": ports {} and {} have the same number {number}", ports.0, ports.1)]
    DuplicatePort { switch: String, ports: (u16, u16), number: u16 },
    /// The device port number of a port is reserved or does not exist on the chip.
    #[error(
        "switch \"{switch}\", port {port}: {number} is {taken}; --ports and --chip decide on the numbers"
    )]
    PortTaken {
        switch: String,
        port: u16,
        number: u16,
        /// The purpose of the number.
        taken: &'static str,
    },
    /// Ports are on several pipes, but the program keeps state that all ports must share.
    #[error(
        "switch \"{switch}\": ports {} and {} are on different pipes, each with a register \"{register}\" of its own; \
         use ports of one pipe", ports.0, ports.1
    )]
    Pipes { switch: String, ports: (u16, u16), register: &'static str },
}

/// Plans a fabric switch by switch, so that the updates of all switches need not be in memory at once.
pub struct Planner<'a> {
    topology: &'a Topology,
    routes: Cow<'a, Routes>,
    options: PlanOptions,
    p4info: &'a Index,
}

impl<'a> Planner<'a> {
    /// Plans a fabric whose switches all run the same program.
    ///
    /// # Errors
    ///
    /// The target cannot represent the routes.
    pub fn new(
        topology: &'a Topology,
        routes: &'a Routes,
        options: PlanOptions,
        p4info: &'a Index,
    ) -> Result<Planner<'a>, PlanError> {
        let routes = options.target.target().routes(routes)?;
        Ok(Planner { topology, routes, options, p4info })
    }

    /// Returns the updates that fill the empty tables of one switch.
    ///
    /// # Errors
    ///
    /// See [`plan`].
    pub fn updates(&self, ix: SwitchIx) -> Result<Vec<Update>, PlanError> {
        let Planner { topology, routes, options, p4info } = self;
        let encoder = Encoder::new(p4info);
        let insert = |entity| Update { r#type: update::Type::Insert.into(), entity: Some(entity) };
        let mut updates: Vec<Update> =
            flood_groups(topology, routes, options, p4info, ix)?.into_iter().map(insert).collect();
        let entries = entries(topology, routes, options, p4info, ix)?;
        updates.extend(entry_clone_sessions(options, &entries).map(insert));
        for entry in entries {
            updates.push(encoder.update(&entry)?);
        }
        updates.extend(mirrors(topology, options, ix)?.into_iter().map(insert));
        Ok(updates)
    }
}

/// Returns the updates that fill the empty tables of every switch, by switch name.
///
/// # Errors
///
/// The program lacks a table, action or field that the topology and the options need, a table is too small, or an
/// option is invalid. Tables that are not needed may be absent.
pub fn plan(
    topology: &Topology,
    routes: &Routes,
    options: &PlanOptions,
    p4info: &Index,
) -> Result<BTreeMap<String, Vec<Update>>, PlanError> {
    let planner = Planner::new(topology, routes, options.clone(), p4info)?;
    let part = |ix| Ok((topology.switch(ix).name.clone(), planner.updates(ix)?));
    topology.switch_ixs().map(part).collect()
}

/// Returns the desired content of every switch with the ranks in which it may be written, by switch name.
///
/// # Errors
///
/// See [`plan`].
pub fn desired_states(
    topology: &Topology,
    routes: &Routes,
    options: &PlanOptions,
    p4info: &Index,
) -> Result<BTreeMap<String, DesiredState>, PlanError> {
    let encoder = Encoder::new(p4info);
    let target = options.target.target();
    let routes = target.routes(routes)?;
    let ranks = UpdateOrder::new(topology, &routes);
    // Manage only the tables of the plan: other tables belong to other controllers.
    let id = |table: &str| p4info.tables.named(table).map(|table| table.preamble().id);
    let planned: BTreeSet<u32> = target.tables().iter().filter_map(|table| id(table).ok()).collect();
    let goals = topology.switch_ixs().map(|ix| {
        let mut goal = DesiredState::default();
        goal.manage_only(planned.clone());
        for group in flood_groups(topology, &routes, options, p4info, ix)? {
            goal.insert(LAST_INSERT, group);
        }
        let entries = entries(topology, &routes, options, p4info, ix)?;
        for session in entry_clone_sessions(options, &entries) {
            goal.insert(BASE, session);
        }
        for entry in entries {
            goal.insert(ranks.of(ix, &entry), encoder.entity(&entry)?);
        }
        for mirror in mirrors(topology, options, ix)? {
            goal.insert(BASE, mirror);
        }
        if routes.method == RoutingMethod::Trees
            && let Ok(forward) = id(entry::FORWARD)
        {
            // ECMP entries are rack prefixes, longer than the single entry of the trees. They would win the
            // longest-prefix match and hide the trees, so delete them first: packets are dropped until the trees are
            // written. See `UpdateOrder`.
            goal.delete_first(forward);
        }
        Ok((topology.switch(ix).name.clone(), goal))
    });
    goals.collect()
}

/// Returns the clone sessions of the ports of one switch.
fn mirrors(topology: &Topology, options: &PlanOptions, ix: SwitchIx) -> Result<Vec<Entity>, PlanError> {
    let (target, switch) = (options.target.target(), topology.switch(ix));
    let ports = switch.ports().filter(|_| options.port_clone_sessions);
    let session = |(port, _)| {
        let port = target.device_port(&switch.name, port)?;
        Ok(encode::session(CloneSession { id: port, port, bytes: 0 }))
    };
    ports.map(session).collect()
}

/// Returns the clone sessions to which the entries refer.
fn entry_clone_sessions(options: &PlanOptions, entries: &[Entry]) -> impl Iterator<Item = Entity> + use<> {
    options.target.target().sessions(entries).into_iter().map(encode::session)
}

/// Returns the multicast groups of one switch, or none if the program has no table `policy_flood`.
fn flood_groups(
    topology: &Topology,
    routes: &Routes,
    options: &PlanOptions,
    p4info: &Index,
    ix: SwitchIx,
) -> Result<Vec<Entity>, PlanError> {
    if p4info.tables.named(entry::POLICY_FLOOD).is_err() {
        return Ok(Vec::new());
    }
    let (target, switch) = (options.target.target(), &topology.switch(ix).name);
    let group = |(&port, others): (&u16, &Vec<u16>)| {
        let others: Vec<u16> =
            others.iter().map(|&port| target.device_port(switch, port)).collect::<Result<_, _>>()?;
        Ok(encode::flood(port, &others))
    };
    routes.of(ix).flood.iter().map(group).collect()
}

/// Returns the entries of one switch. Group members precede the prefixes that use them, so that the switch never
/// selects a member that does not exist yet.
fn entries(
    topology: &Topology,
    routes: &Routes,
    options: &PlanOptions,
    p4info: &Index,
    ix: SwitchIx,
) -> Result<Vec<Entry>, PlanError> {
    let (target, switch) = (options.target.target(), &topology.switch(ix).name);
    target.check(topology, ix, p4info)?;
    let has = |table| p4info.tables.named(table).is_ok();
    let mut entries = Vec::new();
    if has("switch_identity") {
        entries.push(Entry::SwitchIdentity { id: topology.switch(ix).switch_id });
    }
    entries.extend(options.int_refresh.map(|ticks| Entry::IntRefresh { ticks }));
    let classes = options.classes.iter();
    entries.extend(classes.map(|(&packets, &priority)| Entry::TrafficClass { packets, priority }));
    entries.extend((1..).zip(&options.weights).map(|(class, _)| Entry::DataClass { class }));
    if has("port_profile") || options.ecn.is_some() {
        for (port, link) in topology.switch(ix).ports() {
            let rate = topology.link(link).rate;
            let ecn = options.ecn.map_or(Ok(EcnRamp::default()), |ecn| ecn.ramp(rate))?;
            let fabric =
                topology.peer(ix, port).is_some_and(|(_, peer)| matches!(peer.node, Node::Switch(_)));
            let rate_code = RateCode::from_bandwidth(rate).unwrap_or_default().bits();
            entries.push(Entry::PortProfile { port, rate_code, ecn, fabric });
        }
    }
    for &port in routes.of(ix).flood.keys().filter(|_| has(entry::POLICY_FLOOD)) {
        let Some(link) = topology.switch(ix).link_at(port) else { continue };
        let (rate, burst) = options.flood.meter(topology, link);
        entries.push(Entry::PolicyFlood { port, group: port, rate, burst });
    }
    if let Some(config) = options.deflection.filter(|_| has(entry::DEFLECTION)) {
        entries.extend(deflection_entries(topology, routes, ix, &config)?);
    }
    for (port, link) in topology.switch(ix).ports() {
        let row = options.port_params.get(&topology.link(link).rate).cloned();
        entries.extend(row.map(|row| Entry::PortRow { port, row }));
        let shares = (1..).zip(shares(&options.weights));
        entries.extend(shares.map(|(priority, share)| Entry::QueueShare { port, priority, share }));
    }
    if !options.skip_routes {
        entries.extend(route_entries(routes.of(ix)));
    }
    let entries: Vec<Entry> = target
        .entries(entries)?
        .into_iter()
        .map(|entry| entry.with_ports(|port| target.device_port(switch, port)))
        .collect::<Result<_, _>>()?;
    check_sizes(switch, &entries, p4info)?;
    Ok(entries)
}

/// Returns each queue's share of the port rate in units of 1/4096, at least 1. A single queue needs no share.
fn shares(weights: &[u16]) -> impl Iterator<Item = u16> + '_ {
    let all: u32 = weights.iter().map(|&weight| u32::from(weight)).sum();
    let share = move |&weight| (u32::from(weight) * 4096 / all.max(1)).clamp(1, 4095) as u16;
    weights.iter().filter(|_| weights.len() > 1).map(share)
}

/// Returns the entries for deflection. The candidates of a port precede its threshold.
fn deflection_entries(
    topology: &Topology,
    routes: &Routes,
    ix: SwitchIx,
    config: &DeflectionConfig,
) -> Result<Vec<Entry>, ThresholdError> {
    config.check()?;
    let mut entries: Vec<_> = escape_classes(config.tokens).map(Entry::EscapeClass).collect();
    let ports = topology.switch(ix).ports();
    for (port, link) in ports.filter(|&(port, _)| config.at_hosts || !topology.leads_to_host(ix, port)) {
        let to = deflect::candidates(topology, routes, ix, port);
        if to.is_empty() {
            continue;
        }
        let others = to.iter().cycle().skip(1);
        entries.extend((0..).zip(to.iter().zip(others)).map(|(index, (&to, &other))| Entry::DeflectPort {
            port,
            index,
            to,
            other,
        }));
        let limit = config.limit(topology.link(link).rate)?;
        let candidates = to.len() as u16;
        entries.push(Entry::Deflection { port, limit, candidates, lifetime: config.lifetime });
    }
    Ok(entries)
}

fn route_entries(routes: &SwitchRoutes) -> impl Iterator<Item = Entry> + '_ {
    let members = routes.groups.iter().flat_map(|(&group, ports)| {
        (0..).zip(ports).map(move |(index, &port)| Entry::Member { group, index, port })
    });
    let trees = (0..).zip(&routes.trees).flat_map(|(tree, table)| {
        table.iter().map(move |(&dst, &port)| Entry::TreeRoute { tree, dst, port })
    });
    let forward = routes.forward.iter().map(|(&prefix, &hop)| Entry::Forward { prefix, hop });
    members.chain(trees).chain(forward)
}

fn check_sizes(switch: &str, entries: &[Entry], p4info: &Index) -> Result<(), PlanError> {
    let mut count: BTreeMap<&'static str, usize> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.is_default()) {
        *count.entry(entry.table()).or_default() += 1;
    }
    for (table, entries) in count {
        let size = p4info.tables.named(table)?.size;
        if entries as u64 > size.max(0) as u64 {
            return Err(PlanError::TableFull { switch: switch.to_owned(), table, entries, size });
        }
    }
    Ok(())
}
