//! Converts routes and options to P4Runtime updates, by the names in the program's P4Info.

mod codec;
mod decode;
mod entry;
mod error;
mod options;
mod priority;
mod rank;
mod switch_plan;
mod tables;
mod target;

pub use codec::EntryCodec;
pub use decode::decode;
pub use entry::{Entry, Field, Phase, Port, Value, entry};
pub use error::PlanError;
pub use options::PlanOptions;
pub use priority::{
    DATA_PRIORITY, EXPRESS_PRIORITY, EscapeClass, MAX_WEIGHTED_QUEUES, PacketClass, PriorityTraffic,
    escape_classes, last_escape_priority,
};
pub use rank::UpdateOrder;
pub use switch_plan::SwitchPlan;
pub use tables::{FORWARD, Table};
pub use target::{Bmv2, Chip, CloneSession, P4Target, PortMap, TargetConfig, Tofino};

use crate::reconcile::{self, DesiredState};
use crate::routes::Routes;
use crate::topology::{SwitchIx, Topology};
use p4runtime::p4::v1::{Entity, Update};
use p4runtime::p4info::{Index, Object};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use tables::tables;

/// Plans a fabric switch by switch, so that the entities of all switches need not be in memory at once.
pub struct Planner<'a> {
    topology: &'a Topology,
    routes: Cow<'a, Routes>,
    options: PlanOptions,
    p4info: &'a Index,
    own_tables: Vec<Table>,
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
        Ok(Planner { topology, routes, options, p4info, own_tables: Vec::new() })
    }

    /// Fills further tables, after Weir's own.
    pub fn with_tables(self, own_tables: Vec<Table>) -> Planner<'a> {
        Planner { own_tables, ..self }
    }

    /// Returns the tables that the controller fills.
    fn tables(&self) -> impl Iterator<Item = &Table> {
        let own = tables(&self.options.target).map(|table| -> &Table { table });
        own.chain(&self.own_tables)
    }

    /// Returns the updates that fill the empty tables of one switch.
    ///
    /// # Errors
    ///
    /// See [`plan`].
    pub fn updates(&self, ix: SwitchIx) -> Result<Vec<Update>, PlanError> {
        let entities = self.entities(ix)?.into_iter();
        Ok(entities.map(|(_, entity)| reconcile::fill(entity)).collect())
    }

    /// Returns the desired content of every switch with the ranks in which it may be written, by switch name.
    ///
    /// # Errors
    ///
    /// See [`plan`].
    pub fn desired_states(&self) -> Result<BTreeMap<String, DesiredState>, PlanError> {
        let order = UpdateOrder::new(self.topology, &self.routes);
        let id = |table: &str| self.p4info.tables.named(table).map(|table| table.preamble().id);
        let planned: BTreeSet<u32> = self.tables().filter_map(|table| id(table.name).ok()).collect();
        let states = self.topology.switch_ixs().map(|ix| {
            let mut desired = DesiredState::default();
            desired.manage_only(planned.clone());
            for (phase, entity) in self.entities(ix)? {
                desired.insert(order.rank(ix, phase), entity);
            }
            if self.routes.trees() > 0
                && let Ok(forward) = id(FORWARD)
            {
                // ECMP entries are rack prefixes, longer than the single entry of the trees. They would win the
                // longest-prefix match and hide the trees, so delete them first: packets are dropped until the trees
                // are written. See `UpdateOrder`.
                desired.delete_first(forward);
            }
            Ok((self.topology.switch(ix).name.clone(), desired))
        });
        states.collect()
    }

    /// Returns the entities of one switch, each with its phase, in the order in which empty tables may be filled: what
    /// an entity refers to precedes it.
    fn entities(&self, ix: SwitchIx) -> Result<Vec<(Phase, Entity)>, PlanError> {
        let (target, switch) = (self.options.target.target(), &self.topology.switch(ix).name);
        target.check_ports(self.topology, ix, self.p4info)?;
        let mut entries = Vec::new();
        let plan = SwitchPlan::new(self.topology, &self.routes, &self.options, self.p4info, ix)?;
        for table in self.tables() {
            for entry in table.entries(&plan) {
                entries.push(entry.with_ports(|port| target.device_port(switch, port))?);
            }
        }
        check_sizes(switch, &entries, self.p4info)?;
        let mut entities = self.flood_groups(ix)?;
        let sessions = target.clone_sessions(&entries).into_iter().map(codec::clone_session);
        entities.extend(sessions.map(|session| (Phase::Base, session)));
        let codec = EntryCodec::new(self.p4info);
        for entry in entries {
            entities.push((entry.phase, codec.encode(&entry)?));
        }
        for (port, _) in self.topology.switch(ix).ports().filter(|_| self.options.port_clone_sessions) {
            let port = target.device_port(switch, port)?;
            let session = codec::clone_session(CloneSession { id: port, port, bytes: 0 });
            entities.push((Phase::Base, session));
        }
        Ok(entities)
    }

    /// Returns the multicast groups of one switch, or none if the program does not flood.
    fn flood_groups(&self, ix: SwitchIx) -> Result<Vec<(Phase, Entity)>, PlanError> {
        if self.p4info.tables.named(tables::POLICY_FLOOD).is_err() {
            return Ok(Vec::new());
        }
        let (target, switch) = (self.options.target.target(), &self.topology.switch(ix).name);
        let group = |(&port, others): (&u16, &Vec<u16>)| {
            let others: Vec<u16> =
                others.iter().map(|&port| target.device_port(switch, port)).collect::<Result<_, _>>()?;
            Ok((Phase::Last, codec::flood_group(port, &others)))
        };
        self.routes.of(ix).flood.iter().map(group).collect()
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
    Planner::new(topology, routes, options.clone(), p4info)?.desired_states()
}

/// Checks that the entries fit into the tables.
fn check_sizes(switch: &str, entries: &[Entry<'static>], p4info: &Index) -> Result<(), PlanError> {
    let mut count: BTreeMap<&'static str, usize> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.is_default()) {
        *count.entry(entry.table).or_default() += 1;
    }
    for (table, entries) in count {
        let size = p4info.tables.named(table)?.size;
        if entries as u64 > size.max(0) as u64 {
            return Err(PlanError::TableFull { switch: switch.to_owned(), table, entries, size });
        }
    }
    Ok(())
}
