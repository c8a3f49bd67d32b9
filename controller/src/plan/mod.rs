//! Converts routes and options to P4Runtime updates, by the names in the program's P4Info.

mod decode;
mod encode;
mod entry;
mod error;
mod options;
mod priority;
mod rank;
mod target;

pub use crate::call::Call;
pub use decode::decode;
pub use encode::Encoder;
pub use entry::{Entry, FORWARD, Field};
pub use error::PlanError;
pub use options::PlanOptions;
pub use priority::{
    DATA_PRIORITY, EXPRESS_PRIORITY, EscapeClass, MAX_WEIGHTED_QUEUES, PacketClass, PriorityTraffic,
    escape_classes, last_escape_priority,
};
pub use rank::UpdateOrder;
pub use target::{Bmv2, Chip, CloneSession, P4Target, PortMap, TargetConfig, Tofino};

use crate::deflect;
use crate::flood::Meter;
use crate::reconcile::{BASE, DesiredState, LAST_INSERT};
use crate::routes::{Routes, RoutingMethod, SwitchRoutes};
use crate::thresholds::{DeflectionConfig, DeflectionError, EcnRamp};
use crate::topology::{Node, SwitchIx, Topology};
use p4runtime::p4::v1::{Entity, Update, update};
use p4runtime::p4info::{Index, Object};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use weir_units::RateCode;

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
        let routes = options.target.target().adapt_routes(routes)?;
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
        updates.extend(port_clone_sessions(topology, options, ix)?.into_iter().map(insert));
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
    let updates_of = |ix| Ok((topology.switch(ix).name.clone(), planner.updates(ix)?));
    topology.switch_ixs().map(updates_of).collect()
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
    let routes = target.adapt_routes(routes)?;
    let ranks = UpdateOrder::new(topology, &routes);
    // Manage only the tables of the plan: other tables belong to other controllers.
    let id = |table: &str| p4info.tables.named(table).map(|table| table.preamble().id);
    let planned: BTreeSet<u32> = target.tables().iter().filter_map(|table| id(table).ok()).collect();
    let states = topology.switch_ixs().map(|ix| {
        let mut desired = DesiredState::default();
        desired.manage_only(planned.clone());
        for group in flood_groups(topology, &routes, options, p4info, ix)? {
            desired.insert(LAST_INSERT, group);
        }
        let entries = entries(topology, &routes, options, p4info, ix)?;
        for session in entry_clone_sessions(options, &entries) {
            desired.insert(BASE, session);
        }
        for entry in entries {
            desired.insert(ranks.of(ix, &entry), encoder.entity(&entry)?);
        }
        for session in port_clone_sessions(topology, options, ix)? {
            desired.insert(BASE, session);
        }
        if routes.method == RoutingMethod::Trees
            && let Ok(forward) = id(entry::FORWARD)
        {
            // ECMP entries are rack prefixes, longer than the single entry of the trees. They would win the
            // longest-prefix match and hide the trees, so delete them first: packets are dropped until the trees are
            // written. See `UpdateOrder`.
            desired.delete_first(forward);
        }
        Ok((topology.switch(ix).name.clone(), desired))
    });
    states.collect()
}

/// Returns the clone sessions of the ports of one switch, if the options ask for them.
fn port_clone_sessions(
    topology: &Topology,
    options: &PlanOptions,
    ix: SwitchIx,
) -> Result<Vec<Entity>, PlanError> {
    let (target, switch) = (options.target.target(), topology.switch(ix));
    let ports = switch.ports().filter(|_| options.port_clone_sessions);
    let session = |(port, _)| {
        let port = target.device_port(&switch.name, port)?;
        Ok(encode::clone_session(CloneSession { id: port, port, bytes: 0 }))
    };
    ports.map(session).collect()
}

/// Returns the clone sessions to which the entries refer.
fn entry_clone_sessions(options: &PlanOptions, entries: &[Entry]) -> impl Iterator<Item = Entity> + use<> {
    options.target.target().clone_sessions(entries).into_iter().map(encode::clone_session)
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
        Ok(encode::flood_group(port, &others))
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
    target.check_ports(topology, ix, p4info)?;
    let has = |table| p4info.tables.named(table).is_ok();
    let mut entries = Vec::new();
    if has("switch_identity") {
        entries.push(Entry::SwitchIdentity { id: topology.switch(ix).switch_id });
    }
    entries.extend(options.int_refresh.map(|ticks| Entry::IntRefresh { ticks }));
    let classes = options.classes.iter();
    entries.extend(classes.map(|(&packets, &priority)| Entry::TrafficClass { packets, priority }));
    // Weighted queues are numbered from 1, and so are the DSCPs that select them.
    entries.extend((1..).zip(&options.weights).map(|(class, _)| Entry::DataClass { class }));
    if has("port_profile") || options.ecn.is_some() {
        for (port, link) in topology.switch(ix).ports() {
            let rate = topology.link(link).rate;
            let ecn = options.ecn.map_or(Ok(EcnRamp::default()), |ecn| ecn.ramp(rate))?;
            let leads_to_switch =
                topology.peer(ix, port).is_some_and(|(_, peer)| matches!(peer.node, Node::Switch(_)));
            let rate_code = RateCode::from_bandwidth(rate).unwrap_or_default().bits();
            entries.push(Entry::PortProfile { port, rate_code, ecn, leads_to_switch });
        }
    }
    // Port numbers serve as ids of multicast groups.
    for &port in routes.of(ix).flood.keys().filter(|_| has(entry::POLICY_FLOOD)) {
        let Some(link) = topology.switch(ix).link_at(port) else { continue };
        let Meter { rate, burst } = options.flood.meter(topology, link);
        entries.push(Entry::PolicyFlood { port, group: port, rate, burst });
    }
    if let Some(config) = options.deflection.filter(|_| has(entry::DEFLECTION)) {
        entries.extend(deflection_entries(topology, routes, ix, &config)?);
    }
    for (port, link) in topology.switch(ix).ports() {
        let params = options.port_params.get(&topology.link(link).rate).cloned();
        entries.extend(params.map(|params| Entry::PortParams { port, params }));
        let shares = (1..).zip(shares(&options.weights));
        entries.extend(shares.map(|(priority, share)| Entry::QueueShare { port, priority, share }));
    }
    if !options.skip_routes {
        entries.extend(route_entries(routes.of(ix)));
    }
    let entries: Vec<Entry> = target
        .convert_entries(entries)?
        .into_iter()
        .map(|entry| entry.with_ports(|port| target.device_port(switch, port)))
        .collect::<Result<_, _>>()?;
    check_sizes(switch, &entries, p4info)?;
    Ok(entries)
}

/// Returns each queue's share of the port rate in units of 1/4096, at least 1. A single queue needs no share.
fn shares(weights: &[u16]) -> impl Iterator<Item = u16> + '_ {
    let sum: u32 = weights.iter().map(|&weight| u32::from(weight)).sum();
    let share = move |&weight| (u32::from(weight) * 4096 / sum.max(1)).clamp(1, 4095) as u16;
    weights.iter().filter(|_| weights.len() > 1).map(share)
}

/// Returns the entries for deflection. The candidates of a port precede its threshold.
fn deflection_entries(
    topology: &Topology,
    routes: &Routes,
    ix: SwitchIx,
    config: &DeflectionConfig,
) -> Result<Vec<Entry>, DeflectionError> {
    config.check()?;
    let mut entries: Vec<_> = escape_classes(config.tokens).map(Entry::EscapeClass).collect();
    let ports = topology.switch(ix).ports();
    for (port, link) in ports.filter(|&(port, _)| config.at_hosts || !topology.leads_to_host(ix, port)) {
        let candidates = deflect::candidates(topology, routes, ix, port);
        if candidates.is_empty() {
            continue;
        }
        // A packet is not deflected to the port on which it arrived: for packets from a candidate, the next one is the
        // alternative.
        let others = candidates.iter().cycle().skip(1);
        entries.extend(
            (0..).zip(candidates.iter().zip(others)).map(|(index, (&to, &other))| Entry::DeflectPort {
                port,
                index,
                to,
                other,
            }),
        );
        let limit = config.scaled_threshold(topology.link(link).rate)?;
        let candidates = candidates.len() as u16;
        entries.push(Entry::Deflection { port, limit, candidates, lifetime: config.lifetime });
    }
    Ok(entries)
}

/// Returns the entries of the route tables, group members and tree routes before the prefixes that refer to them.
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

/// Checks that the entries fit into the tables.
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
