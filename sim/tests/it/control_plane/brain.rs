//! A controller: `client::watch` without its sockets and clock.

use p4runtime::p4::v1::{Entity, Update};
use p4runtime::p4info::Index;
use std::collections::{BTreeMap, BTreeSet};
use weir_controller::PlanOptions;
use weir_controller::plan::goals;
use weir_controller::reconcile::{Difference, Goal, difference};
use weir_controller::routes::{Method, Routes, reroute};
use weir_controller::topology::{LinkIx, SwitchIx, Topology};
use weir_controller::watch::{LinkMonitor, Loss, MonitorConfig};
use weir_units::Time;

/// How long the first rollout waits for switches that are not there, as `client::watch` does.
const PATIENCE: Time = Time::from_secs(3);
/// When a switch that could not be written is tried again.
const RETRY: Time = Time::from_secs(1);

/// What a controller sends to a switch.
pub enum Order {
    ReadAll,
    /// Of the rollout with this number.
    Write(u64, Vec<Update>),
}

#[derive(Default)]
struct Known {
    is_primary: bool,
    held: Option<Vec<Entity>>,
    waits_until: Option<Time>,
    /// A read is under way.
    is_reading: bool,
}

struct Rollout {
    number: u64,
    is_full: bool,
    down: BTreeSet<LinkIx>,
    differences: BTreeMap<SwitchIx, Difference>,
    ranks: Vec<u32>,
    /// Switches whose answers to the present rank are outstanding.
    awaited: BTreeSet<SwitchIx>,
}

pub struct Brain {
    pub monitor: LinkMonitor,
    topology: Topology,
    base: Routes,
    routes: Routes,
    aim: BTreeSet<LinkIx>,
    goals: BTreeMap<String, Goal>,
    switches: Vec<Known>,
    rollout: Option<Rollout>,
    is_pending: bool,
    retry_at: Option<Time>,
    began: Time,
    has_started: bool,
    rollouts: u64,
    /// All switches have taken part in the last rollout to its end, and so hold the routes of one plan.
    is_level: bool,
}

impl Brain {
    pub fn new(topology: &Topology, base: &Routes, p4info: &Index, run: u64, now: Time) -> Brain {
        Brain {
            monitor: LinkMonitor::new(topology, MonitorConfig::default(), run, now),
            topology: topology.clone(),
            base: base.clone(),
            routes: base.clone(),
            aim: BTreeSet::new(),
            goals: goals(topology, base, &PlanOptions::default(), p4info).unwrap(),
            switches: topology.switches.iter().map(|_| Known::default()).collect(),
            rollout: None,
            is_pending: false,
            retry_at: None,
            began: now,
            has_started: false,
            rollouts: 0,
            is_level: true,
        }
    }

    fn at(&mut self, at: SwitchIx) -> &mut Known {
        &mut self.switches[at.0 as usize]
    }

    pub fn is_primary(&self, at: SwitchIx) -> bool {
        self.switches[at.0 as usize].is_primary
    }

    pub fn connected(&mut self, at: SwitchIx) -> (SwitchIx, Order) {
        self.monitor.connected(at);
        *self.at(at) = Known { is_primary: true, is_reading: true, ..Known::default() };
        (at, Order::ReadAll)
    }

    pub fn lost(&mut self, at: SwitchIx, loss: Loss) {
        self.monitor.disconnected(at, loss);
        *self.at(at) = Known::default();
        self.answered(at, false);
    }

    /// What a switch held when it was read.
    pub fn read(&mut self, at: SwitchIx, held: Vec<Entity>, now: Time) {
        let is_urgent = held.is_empty() && self.has_started;
        let it = self.at(at);
        let is_first = std::mem::take(&mut it.is_reading) && it.waits_until.is_none() && it.held.is_none();
        it.held = Some(held);
        if is_urgent {
            it.waits_until = None;
            self.is_pending = true;
        } else if is_first {
            it.waits_until = Some(now + PATIENCE);
        }
    }

    /// A switch took the updates of the present rank, or not.
    pub fn answered(&mut self, at: SwitchIx, is_taken: bool) {
        let Some(rollout) = &mut self.rollout else { return };
        rollout.awaited.remove(&at);
        if !is_taken && rollout.differences.remove(&at).is_some() {
            self.at(at).held = None;
            self.is_pending = true;
        }
    }

    /// Lets switches take part whose links are known.
    pub fn settle(&mut self, now: Time) {
        for (index, it) in self.switches.iter_mut().enumerate() {
            let has_settled = self.monitor.has_settled(SwitchIx(index as u32));
            if it.waits_until.is_some_and(|until| now >= until || has_settled) {
                it.waits_until = None;
                self.is_pending = true;
            }
        }
    }

    /// Whether all switches take part in this rollout, which is under way, and began it with the routes of one plan.
    pub fn is_full(&self, number: u64) -> bool {
        let now = self.rollout.as_ref().filter(|it| it.number == number);
        now.is_some_and(|it| it.is_full && it.differences.len() == self.switches.len())
    }

    /// Looks at everything again; returns what to send.
    pub fn think(&mut self, now: Time, p4info: &Index) -> Vec<(SwitchIx, Order)> {
        self.abandon(now);
        let mut orders = self.advance();
        if self.rollout.is_none() {
            orders.extend(self.begin(now, p4info));
        }
        orders
    }

    fn abandon(&mut self, now: Time) {
        let is_stuck = self.rollout.as_ref().is_some_and(|it| {
            let is_silent = |at: &SwitchIx| !self.monitor.is_answering(*at, now);
            it.down != *self.monitor.down() && it.differences.keys().any(is_silent)
        });
        if let Some(rollout) = self.rollout.take_if(|_| is_stuck) {
            rollout.differences.into_keys().for_each(|at| self.at(at).held = None);
            self.is_pending = true;
        }
    }

    /// The next rank, once all switches have answered to the present one.
    fn advance(&mut self) -> Vec<(SwitchIx, Order)> {
        let Some(rollout) = self.rollout.as_mut().filter(|it| it.awaited.is_empty()) else { return vec![] };
        while rollout.awaited.is_empty() && !rollout.ranks.is_empty() {
            let rank = rollout.ranks.remove(0);
            let mut orders = Vec::new();
            for (&at, difference) in &rollout.differences {
                let due = difference.steps.iter().filter(|step| step.rank == rank);
                let updates: Vec<Update> = due.map(|step| step.update.clone()).collect();
                if !updates.is_empty() {
                    rollout.awaited.insert(at);
                    orders.push((at, Order::Write(rollout.number, updates)));
                }
            }
            if !orders.is_empty() {
                return orders;
            }
        }
        let done = self.rollout.take().expect("it is there");
        self.is_level = done.differences.len() == self.switches.len();
        for at in done.differences.into_keys() {
            let name = &self.topology.switch(at).name;
            self.switches[at.0 as usize].held =
                Some(self.goals[name].wanted().map(|it| it.entity.clone()).collect());
        }
        vec![]
    }

    fn begin(&mut self, now: Time, p4info: &Index) -> Vec<(SwitchIx, Order)> {
        let is_known = |it: &Known| it.is_primary && it.held.is_some() && it.waits_until.is_none();
        if !self.has_started && !self.switches.iter().all(is_known) && now < self.began + PATIENCE {
            return vec![];
        }
        if self.retry_at.is_some_and(|at| now >= at) {
            (self.retry_at, self.is_pending) = (None, true);
        }
        let down = self.monitor.down().clone();
        if !self.is_pending && down == self.aim {
            return vec![];
        }
        let mut members = Vec::new();
        for (index, it) in self.switches.iter_mut().enumerate() {
            let at = SwitchIx(index as u32);
            if !it.is_primary || it.waits_until.is_some() {
                continue;
            }
            if !self.monitor.is_answering(at, now) {
                self.retry_at = Some(now + RETRY);
                continue;
            }
            members.push(at);
        }
        let unread: Vec<SwitchIx> =
            members.iter().copied().filter(|at| self.switches[at.0 as usize].held.is_none()).collect();
        if members.is_empty() || !unread.is_empty() {
            let unasked =
                unread.into_iter().filter(|at| !std::mem::replace(&mut self.at(*at).is_reading, true));
            return unasked.collect::<Vec<_>>().into_iter().map(|at| (at, Order::ReadAll)).collect();
        }
        (self.has_started, self.is_pending) = (true, false);
        if down != self.aim {
            let left = self.topology.without(&down);
            let next = match down.is_empty() {
                true => Some(self.base.clone()),
                false => reroute(&left, Method::Auto, &self.routes).ok(),
            };
            self.aim = down.clone();
            if let Some(routes) = next {
                self.goals = goals(&self.topology, &routes, &PlanOptions::default(), p4info).unwrap();
                self.routes = routes;
            }
        }
        let mut differences = BTreeMap::new();
        for at in members {
            let held = self.switches[at.0 as usize].held.as_deref().unwrap_or_default();
            differences.insert(at, difference(&self.goals[&self.topology.switch(at).name], held, p4info));
        }
        let ranks: BTreeSet<u32> =
            differences.values().flat_map(|it| it.steps.iter().map(|step| step.rank)).collect();
        let ranks = ranks.into_iter().collect();
        self.rollouts += 1;
        let (number, is_full) = (self.rollouts, self.is_level && differences.len() == self.switches.len());
        self.is_level = false;
        self.rollout = Some(Rollout { number, is_full, down, differences, ranks, awaited: BTreeSet::new() });
        self.advance()
    }
}
