//! A controller: the [`Watcher`] that `weir controller watch` drives, and what that program does around it: it reads a
//! switch when it comes under control, and carries out rollouts.

use p4runtime::p4::v1::{Entity, Update};
use p4runtime::p4info::Index;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weir_controller::PlanOptions;
use weir_controller::reconcile::{RankedUpdates, diff};
use weir_controller::routes::{Routes, RoutingMethod};
use weir_controller::topology::{SwitchIx, Topology};
use weir_controller::watch::{
    self, ActualState, ControlLoss, FabricCondition, FabricIntent, FabricPlan, MonitorConfig, SwitchOutcome,
    Watcher,
};
use weir_units::Time;

/// A message of a controller to a switch.
pub enum Order {
    /// For the rollout with this number; `None`: since the switch has come under control.
    Read(Option<u64>),
    /// Of the rollout with this number.
    Write(u64, Vec<Update>),
}

/// A controller's session with a switch.
#[derive(Clone, Copy, Default)]
struct Session {
    is_primary: bool,
    /// Outstanding reads, one for each time that the switch came under control; only the last one counts.
    reads: u32,
}

struct Rollout {
    number: u64,
    condition: FabricCondition,
    /// `None` if there are no routes.
    aim: Option<FabricIntent>,
    /// The desired state; without new routes the old one.
    now: FabricIntent,
    /// The entities that its switches hold; `None` if unknown.
    held: BTreeMap<SwitchIx, Option<ActualState>>,
    /// Switches that did not answer, and what is to be said of them.
    failed: BTreeMap<SwitchIx, SwitchOutcome>,
    /// Switches that did not get everything, since one of these failed.
    stopped: BTreeSet<SwitchIx>,
    /// `None` while switches are read.
    ranked: Option<RankedUpdates<SwitchIx>>,
    /// Switches whose answers are outstanding.
    awaited: BTreeSet<SwitchIx>,
}

pub struct Brain {
    pub watcher: Watcher,
    fabric: Arc<FabricPlan>,
    p4info: Arc<Index>,
    sessions: Vec<Session>,
    rollout: Option<Rollout>,
    rollouts: u64,
    has_started: bool,
}

impl Brain {
    pub fn new(topology: &Topology, base: &Routes, p4info: &Arc<Index>, run: u64, now: Time) -> Brain {
        let fabric = Arc::new(FabricPlan {
            topology: topology.clone(),
            method: RoutingMethod::Auto,
            routes: base.clone(),
            options: PlanOptions::default(),
        });
        let aim = FabricIntent::initial(&fabric, p4info).unwrap();
        Brain {
            watcher: Watcher::new(Arc::clone(&fabric), aim, Some(MonitorConfig::default()), run, now),
            sessions: vec![Session::default(); topology.switches.len()],
            fabric,
            p4info: Arc::clone(p4info),
            rollout: None,
            rollouts: 0,
            has_started: false,
        }
    }

    fn session(&mut self, at: SwitchIx) -> &mut Session {
        &mut self.sessions[at.0 as usize]
    }

    /// Takes what a switch says of who leads it. Returns what to send.
    pub fn standing(&mut self, at: SwitchIx, is_primary: bool) -> Option<Order> {
        let it = self.session(at);
        let was_primary = std::mem::replace(&mut it.is_primary, is_primary);
        if !is_primary {
            self.lost(at, ControlLoss::Standby);
        } else if !was_primary {
            self.session(at).reads += 1;
            return Some(Order::Read(None));
        }
        None
    }

    pub fn lost(&mut self, at: SwitchIx, loss: ControlLoss) {
        self.watcher.on_lost(at, loss);
        self.session(at).is_primary = false;
        if loss != ControlLoss::Standby {
            // Answers of this connection do not come any more.
            self.session(at).reads = 0;
        }
        self.fail(at);
    }

    /// Takes what a switch held when it was read.
    pub fn read(&mut self, at: SwitchIx, reason: Option<u64>, held: Vec<Entity>, now: Time) {
        if let Some(number) = reason {
            let Some(rollout) = self.rollout.as_mut().filter(|it| it.number == number) else { return };
            if rollout.awaited.remove(&at) {
                rollout.held.insert(at, Some(Arc::new(held)));
            }
            return;
        }
        let it = self.session(at);
        it.reads -= 1;
        if it.is_primary && it.reads == 0 {
            // A switch that has started anew has no entries.
            self.watcher.on_ready(at, held.is_empty() && self.has_started, held, now);
        }
    }

    /// Takes a switch's answer to the updates of a rank: whether they were taken.
    pub fn written(&mut self, at: SwitchIx, number: u64, is_taken: bool) {
        let Some(rollout) = self.rollout.as_mut().filter(|it| it.number == number) else { return };
        if !is_taken {
            self.fail(at);
        } else {
            rollout.awaited.remove(&at);
        }
    }

    /// A switch takes no more part in the rollout.
    fn fail(&mut self, at: SwitchIx) {
        let Some(rollout) = self.rollout.as_mut().filter(|it| it.held.contains_key(&at)) else { return };
        rollout.awaited.remove(&at);
        let Some(ranked) = &mut rollout.ranked else {
            rollout.failed.insert(at, SwitchOutcome::ReadFailed);
            return;
        };
        rollout.failed.insert(at, SwitchOutcome::WriteFailed);
        ranked.abandon(&at);
        if !rollout.condition.avoided.contains(&at) {
            rollout.stopped.extend(ranked.take_unfinished());
        }
    }

    /// Returns the failures that the present rollout takes into account.
    pub fn condition(&self) -> Option<&FabricCondition> {
        self.rollout.as_ref().map(|it| &it.condition)
    }

    /// Looks at everything again; returns what to send.
    pub fn think(&mut self, now: Time) -> Vec<(SwitchIx, Order)> {
        if self.watcher.abandon(now) {
            self.rollout = None;
        }
        let mut orders = self.advance(now);
        if let Some(begun) = self.watcher.begin(now) {
            orders.extend(self.begin(begun));
            orders.extend(self.advance(now));
        }
        orders
    }

    fn begin(&mut self, begun: watch::Rollout) -> Vec<(SwitchIx, Order)> {
        self.rollouts += 1;
        self.has_started = true;
        let aim = begun.aim.for_condition(&self.fabric, &self.p4info, begun.condition.clone()).ok();
        let held: BTreeMap<SwitchIx, Option<ActualState>> = begun.members.into_iter().collect();
        let awaited: BTreeSet<SwitchIx> =
            held.iter().filter(|(_, held)| held.is_none()).map(|(at, _)| *at).collect();
        let (number, now) = (self.rollouts, aim.clone().unwrap_or(begun.aim));
        let orders = awaited.iter().map(|&at| (at, Order::Read(Some(number)))).collect();
        let (condition, failed, stopped) = (begun.condition, BTreeMap::new(), BTreeSet::new());
        let rollout = Rollout { number, condition, aim, now, held, failed, stopped, ranked: None, awaited };
        self.rollout = Some(rollout);
        orders
    }

    /// Goes on with the rollout once all answers are there: from reading to writing, from rank to rank, to its end.
    fn advance(&mut self, now: Time) -> Vec<(SwitchIx, Order)> {
        while let Some(rollout) = self.rollout.as_mut().filter(|it| it.awaited.is_empty()) {
            let topology = &self.fabric.topology;
            let goal = |at: &SwitchIx| &rollout.now.goals[&topology.switch(*at).name];
            let Some(ranked) = &mut rollout.ranked else {
                let read = rollout.held.iter().filter(|(at, _)| !rollout.failed.contains_key(at));
                let differs = |(at, held): (&SwitchIx, &Option<ActualState>)| {
                    Some((*at, diff(goal(at), held.as_ref()?, &self.p4info)))
                };
                let mut ranked = RankedUpdates::new(read.filter_map(differs));
                if rollout.failed.keys().any(|at| !rollout.condition.avoided.contains(at)) {
                    rollout.stopped = ranked.take_unfinished();
                }
                rollout.ranked = Some(ranked);
                continue;
            };
            if let Some(due) = ranked.next_rank() {
                rollout.awaited = due.keys().copied().collect();
                let number = rollout.number;
                return due.into_iter().map(|(at, updates)| (at, Order::Write(number, updates))).collect();
            }
            let holds = |at: &SwitchIx| Arc::new(goal(at).entities().map(|it| it.entity.clone()).collect());
            let report = |at: &SwitchIx| match rollout.failed.get(at) {
                Some(failed) => failed.clone(),
                None if rollout.stopped.contains(at) => SwitchOutcome::Stopped,
                None => SwitchOutcome::InSync(holds(at)),
            };
            let reports: Vec<(SwitchIx, SwitchOutcome)> =
                rollout.held.keys().map(|at| (*at, report(at))).collect();
            let aim = rollout.aim.take();
            self.rollout = None;
            self.watcher.end(aim, reports, now);
        }
        vec![]
    }
}
