//! A controller: the [`Watcher`] of `weir controller watch` and a model of the code around it, which reads a switch
//! after becoming its primary and carries out rollouts.

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

/// A request of a controller to a switch.
pub(super) enum Request {
    /// Read for the rollout with this number; `None`: read because the controller has become the primary.
    Read(Option<u64>),
    /// Write for the rollout with this number.
    Write(u64, Vec<Update>),
}

/// A controller's session with a switch.
#[derive(Clone, Copy, Default)]
struct Session {
    is_primary: bool,
    /// Outstanding reads, one for each time that the controller became the primary; only the last one counts.
    reads: u32,
}

struct Rollout {
    number: u64,
    condition: FabricCondition,
    /// `None` if there are no routes.
    target: Option<FabricIntent>,
    /// The state to write: `target`, or the previous state if there are no routes.
    desired: FabricIntent,
    /// The entities that the switches hold; `None` if unknown.
    held: BTreeMap<SwitchIx, Option<ActualState>>,
    /// Switches that did not answer, and the outcome to report for them.
    failed: BTreeMap<SwitchIx, SwitchOutcome>,
    /// Switches that did not get all updates because another switch failed.
    stopped: BTreeSet<SwitchIx>,
    /// `None` while switches are read.
    ranked: Option<RankedUpdates<SwitchIx>>,
    /// Switches whose answers are outstanding.
    awaited: BTreeSet<SwitchIx>,
}

pub(super) struct Controller {
    pub watcher: Watcher,
    fabric: Arc<FabricPlan>,
    p4info: Arc<Index>,
    sessions: Vec<Session>,
    rollout: Option<Rollout>,
    rollouts: u64,
    has_started: bool,
}

impl Controller {
    pub(super) fn new(
        topology: &Topology,
        base: &Routes,
        p4info: &Arc<Index>,
        run: u64,
        now: Time,
    ) -> Controller {
        let fabric = Arc::new(FabricPlan {
            topology: topology.clone(),
            method: RoutingMethod::Auto,
            routes: base.clone(),
            options: PlanOptions::default(),
        });
        let intent = FabricIntent::initial(&fabric, p4info).unwrap();
        Controller {
            watcher: Watcher::new(Arc::clone(&fabric), intent, Some(MonitorConfig::default()), run, now),
            sessions: vec![Session::default(); topology.switches.len()],
            fabric,
            p4info: Arc::clone(p4info),
            rollout: None,
            rollouts: 0,
            has_started: false,
        }
    }

    fn session(&mut self, switch: SwitchIx) -> &mut Session {
        &mut self.sessions[switch.0 as usize]
    }

    /// Handles an arbitration message of a switch. Returns the request to send, if any.
    pub(super) fn on_arbitration(&mut self, switch: SwitchIx, is_primary: bool) -> Option<Request> {
        let session = self.session(switch);
        let was_primary = std::mem::replace(&mut session.is_primary, is_primary);
        if !is_primary {
            self.on_lost(switch, ControlLoss::Standby);
        } else if !was_primary {
            self.session(switch).reads += 1;
            return Some(Request::Read(None));
        }
        None
    }

    pub(super) fn on_lost(&mut self, switch: SwitchIx, loss: ControlLoss) {
        self.watcher.on_lost(switch, loss);
        self.session(switch).is_primary = false;
        if loss != ControlLoss::Standby {
            // The responses of a closed connection will not arrive.
            self.session(switch).reads = 0;
        }
        self.fail(switch);
    }

    /// Handles the response to a read: the entities of a switch.
    pub(super) fn on_read(&mut self, switch: SwitchIx, reason: Option<u64>, held: Vec<Entity>, now: Time) {
        if let Some(number) = reason {
            let Some(rollout) = self.rollout.as_mut().filter(|rollout| rollout.number == number) else {
                return;
            };
            if rollout.awaited.remove(&switch) {
                rollout.held.insert(switch, Some(Arc::new(held)));
            }
            return;
        }
        let session = self.session(switch);
        session.reads -= 1;
        if session.is_primary && session.reads == 0 {
            // A switch that has restarted has no entries.
            self.watcher.on_ready(switch, held.is_empty() && self.has_started, held, now);
        }
    }

    /// Handles the response to a write: whether the switch accepted all updates of the rank.
    pub(super) fn on_written(&mut self, switch: SwitchIx, number: u64, is_accepted: bool) {
        let Some(rollout) = self.rollout.as_mut().filter(|rollout| rollout.number == number) else { return };
        if !is_accepted {
            self.fail(switch);
        } else {
            rollout.awaited.remove(&switch);
        }
    }

    /// Excludes a switch from the rest of the rollout.
    fn fail(&mut self, switch: SwitchIx) {
        let Some(rollout) = self.rollout.as_mut().filter(|rollout| rollout.held.contains_key(&switch)) else {
            return;
        };
        rollout.awaited.remove(&switch);
        let Some(ranked) = &mut rollout.ranked else {
            rollout.failed.insert(switch, SwitchOutcome::ReadFailed);
            return;
        };
        rollout.failed.insert(switch, SwitchOutcome::WriteFailed);
        ranked.abandon(&switch);
        if !rollout.condition.avoided.contains(&switch) {
            rollout.stopped.extend(ranked.take_unfinished());
        }
    }

    /// Returns the failures that the present rollout takes into account.
    pub(super) fn condition(&self) -> Option<&FabricCondition> {
        self.rollout.as_ref().map(|rollout| &rollout.condition)
    }

    /// Abandons, begins or advances a rollout as necessary. Returns the requests to send.
    pub(super) fn poll(&mut self, now: Time) -> Vec<(SwitchIx, Request)> {
        if self.watcher.abandon(now) {
            self.rollout = None;
        }
        let mut requests = self.advance(now);
        if let Some(started) = self.watcher.begin(now) {
            requests.extend(self.begin(started));
            requests.extend(self.advance(now));
        }
        requests
    }

    fn begin(&mut self, started: watch::Rollout) -> Vec<(SwitchIx, Request)> {
        self.rollouts += 1;
        self.has_started = true;
        let target = started.intent.for_condition(&self.fabric, &self.p4info, started.condition.clone()).ok();
        let held: BTreeMap<SwitchIx, Option<ActualState>> = started.switches.into_iter().collect();
        let awaited: BTreeSet<SwitchIx> =
            held.iter().filter(|(_, held)| held.is_none()).map(|(switch, _)| *switch).collect();
        let (number, desired) = (self.rollouts, target.clone().unwrap_or(started.intent));
        let requests = awaited.iter().map(|&switch| (switch, Request::Read(Some(number)))).collect();
        let (condition, failed, stopped) = (started.condition, BTreeMap::new(), BTreeSet::new());
        let rollout =
            Rollout { number, condition, target, desired, held, failed, stopped, ranked: None, awaited };
        self.rollout = Some(rollout);
        requests
    }

    /// Advances the rollout once all responses have arrived: from reading to writing, from rank to rank, to its end.
    fn advance(&mut self, now: Time) -> Vec<(SwitchIx, Request)> {
        while let Some(rollout) = self.rollout.as_mut().filter(|rollout| rollout.awaited.is_empty()) {
            let topology = &self.fabric.topology;
            let goal = |switch: &SwitchIx| &rollout.desired.desired_states[&topology.switch(*switch).name];
            let Some(ranked) = &mut rollout.ranked else {
                let read = rollout.held.iter().filter(|(switch, _)| !rollout.failed.contains_key(switch));
                let updates = |(switch, held): (&SwitchIx, &Option<ActualState>)| {
                    Some((*switch, diff(goal(switch), held.as_ref()?, &self.p4info)))
                };
                let mut ranked = RankedUpdates::new(read.filter_map(updates));
                if rollout.failed.keys().any(|switch| !rollout.condition.avoided.contains(switch)) {
                    rollout.stopped = ranked.take_unfinished();
                }
                rollout.ranked = Some(ranked);
                continue;
            };
            if let Some(due) = ranked.next_rank() {
                rollout.awaited = due.keys().copied().collect();
                let number = rollout.number;
                return due
                    .into_iter()
                    .map(|(switch, updates)| (switch, Request::Write(number, updates)))
                    .collect();
            }
            let holds = |switch: &SwitchIx| {
                Arc::new(goal(switch).entities().map(|desired| desired.entity.clone()).collect())
            };
            let report = |switch: &SwitchIx| match rollout.failed.get(switch) {
                Some(failed) => failed.clone(),
                None if rollout.stopped.contains(switch) => SwitchOutcome::Stopped,
                None => SwitchOutcome::InSync(holds(switch)),
            };
            let reports: Vec<(SwitchIx, SwitchOutcome)> =
                rollout.held.keys().map(|switch| (*switch, report(switch))).collect();
            let target = rollout.target.take();
            self.rollout = None;
            self.watcher.end(target, reports, now);
        }
        vec![]
    }
}
