use super::{
    ControlLoss, FabricCondition, FabricIntent, FabricPlan, LinkMonitor, MonitorConfig, PacketInKind,
    ProbeRound,
};
use crate::topology::{LinkIx, SwitchIx};
use p4runtime::p4::v1::Entity;
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_units::Time;

/// Longest time that a rollout waits for switches whose content is not known: at the start, and after another
/// controller has led.
const SETTLE_TIMEOUT: Time = Time::from_secs(3);
/// Delay after which a switch that refused something, or did not answer, is tried again.
const RETRY_DELAY: Time = Time::from_secs(1);

/// The entities that a switch holds.
pub type ActualState = Arc<Vec<Entity>>;

/// The reason of a rollout.
///
/// Ordered by importance, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RolloutReason {
    /// The first one.
    Start,
    /// Links failed or returned.
    Links,
    /// A switch came back.
    Returned,
    /// Somebody else changed tables, or a write had failed.
    Drift,
}

/// A task for the driver: compute the aim, read switches whose content is not known, compare, and write the
/// differences rank by rank. Report its end to [`Watcher::end`].
#[derive(Clone, Debug)]
pub struct Rollout {
    /// The aim so far.
    pub aim: FabricIntent,
    /// The condition that the new routes take into account.
    pub condition: FabricCondition,
    /// Links whose state changes by this, and whether they are up now.
    pub changed: Vec<(LinkIx, bool)>,
    /// The switches that take part, and what they hold, if that is known.
    pub members: Vec<(SwitchIx, Option<ActualState>)>,
}

/// The result of a rollout for a switch that took part.
#[derive(Clone, Debug)]
pub enum SwitchOutcome {
    /// The switch holds the entities that it should hold, which these are.
    InSync(ActualState),
    /// The rollout stopped before all updates of this switch were sent, since another switch failed.
    Stopped,
    /// The tables of the switch could not be read.
    ReadFailed,
    /// The switch rejected an update, or did not answer.
    WriteFailed,
}

/// A rollout that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutSummary {
    /// The reason of the rollout.
    pub reason: RolloutReason,
    /// Time of its start.
    pub began: Time,
    /// Number of links that were down.
    pub down: usize,
}

/// A switch as the watcher sees it.
struct SwitchState {
    is_primary: bool,
    /// Another controller may have written it since we did.
    may_be_foreign: bool,
    held: Option<ActualState>,
    /// It holds the routes of the present aim, as far as we have written them.
    is_current: bool,
    /// The last attempt to read or write it failed; the next one is made then.
    failed_until: Option<Time>,
    /// Its tables are left alone until its links are known, at the latest until then.
    waits_until: Option<Time>,
}

impl SwitchState {
    /// Returns a switch about which nothing is known.
    fn new() -> SwitchState {
        SwitchState {
            is_primary: false,
            may_be_foreign: true,
            held: None,
            is_current: false,
            failed_until: None,
            waits_until: None,
        }
    }
}

struct PendingRollout {
    reason: RolloutReason,
    began: Time,
    condition: FabricCondition,
    members: Vec<SwitchIx>,
}

/// Decides when a fabric's switches are brought in line, and which of them.
pub struct Watcher {
    fabric: Arc<FabricPlan>,
    switches: Vec<SwitchState>,
    monitor: LinkMonitor,
    is_probing: bool,
    aim: FabricIntent,
    /// Reason of the next rollout; `None`: nothing is to do.
    pending: Option<RolloutReason>,
    rollout: Option<PendingRollout>,
    /// Until when switches that others may have written are waited for.
    waits_until: Time,
    has_started: bool,
    retry_at: Option<Time>,
}

impl Watcher {
    /// Starts at `now`, with no switch under control. `aim` is that of all links. Without `monitor` all links are taken
    /// to be up; `run` is a random number that tells its probes from those of others.
    pub fn new(
        fabric: Arc<FabricPlan>,
        aim: FabricIntent,
        monitor: Option<MonitorConfig>,
        run: u64,
        now: Time,
    ) -> Watcher {
        Watcher {
            switches: fabric.topology.switches.iter().map(|_| SwitchState::new()).collect(),
            monitor: LinkMonitor::new(&fabric.topology, monitor.unwrap_or_default(), run, now),
            is_probing: monitor.is_some(),
            fabric,
            aim,
            pending: None,
            rollout: None,
            waits_until: now + SETTLE_TIMEOUT,
            has_started: false,
            retry_at: None,
        }
    }

    fn at(&mut self, at: SwitchIx) -> &mut SwitchState {
        &mut self.switches[at.0 as usize]
    }

    /// Takes a switch that accepted this controller, runs the program and holds this. `pushed` says whether it lacked
    /// the program.
    pub fn on_ready(&mut self, at: SwitchIx, pushed: bool, held: Vec<Entity>, now: Time) {
        self.monitor.connected(at);
        // A switch that holds entries forwards. It is written when the links are known again: they may have changed
        // while another controller led.
        let is_urgent = (pushed && self.has_started) || !self.is_probing;
        let waits_until = (!is_urgent).then(|| now + SETTLE_TIMEOUT);
        if self.at(at).may_be_foreign && now >= self.waits_until {
            self.waits_until = now + SETTLE_TIMEOUT;
        }
        let it = self.at(at);
        (it.is_primary, it.held, it.waits_until) = (true, Some(Arc::new(held)), waits_until);
        it.failed_until = None;
        if is_urgent {
            self.pend(RolloutReason::Returned);
        }
    }

    /// Records that a switch is no longer under control, or that another attempt to reach it failed.
    pub fn on_lost(&mut self, at: SwitchIx, loss: ControlLoss) {
        self.monitor.disconnected(at, loss);
        let it = self.at(at);
        it.is_primary = false;
        if loss == ControlLoss::Standby {
            (it.may_be_foreign, it.is_current) = (true, false);
        }
    }

    /// Takes a packet-in of a switch: the port it had come by, and the frame.
    pub fn on_packet_in(&mut self, at: SwitchIx, port: u16, frame: &[u8]) -> PacketInKind {
        self.monitor.received(at, port, frame)
    }

    /// Records that a probe was not taken by the switch that should send it.
    pub fn refused(&mut self, at: SwitchIx) {
        self.monitor.refused(at);
    }

    /// Takes a switch's answer to a request of [`ProbeRound::echoes`].
    pub fn on_echo(&mut self, at: SwitchIx, round: u64, now: Time) {
        self.monitor.answered(at, round, now);
        self.settle(now);
    }

    /// Takes the port states of a switch of [`questions`](Self::questions); `None` if it has not told.
    pub fn port_states(&mut self, at: SwitchIx, ports: Option<Vec<(u16, bool)>>) {
        self.monitor.port_states(at, ports);
    }

    /// Takes the switches whose port states are wanted.
    pub fn questions(&mut self) -> Vec<SwitchIx> {
        self.monitor.take_port_queries()
    }

    /// Takes the links that lost all probes and stay up, since the ports at both ends are up.
    pub fn kept(&mut self) -> BTreeSet<LinkIx> {
        self.monitor.take_kept_links()
    }

    /// Returns when to call [`tick`](Self::tick); `None` if links are not probed.
    pub fn next_tick(&self) -> Option<Time> {
        self.is_probing.then(|| self.monitor.next_tick())
    }

    /// Ends an interval between probes; returns what to send.
    pub fn tick(&mut self, now: Time) -> ProbeRound {
        let round = self.monitor.tick(now);
        self.settle(now);
        round
    }

    /// Lets all tables be read and compared, unless a rollout is in progress.
    pub fn check(&mut self) {
        if self.has_started && self.rollout.is_none() {
            self.switches.iter_mut().for_each(|it| it.held = None);
            self.pend(RolloutReason::Drift);
        }
    }

    /// Gives up the present rollout if it waits for a switch that does not answer while links have changed, since the
    /// others cannot wait. Returns whether it did so. The entities that the rollout has written are compared again.
    pub fn abandon(&mut self, now: Time) -> bool {
        let is_silent = |at: &SwitchIx| !self.monitor.is_answering(*at, now);
        let is_stuck = |it: &mut PendingRollout| {
            it.condition.down != *self.monitor.down() && it.members.iter().any(is_silent)
        };
        let Some(rollout) = self.rollout.take_if(is_stuck) else { return false };
        for at in rollout.members {
            let it = self.at(at);
            (it.held, it.is_current) = (None, false);
        }
        self.pend(rollout.reason);
        true
    }

    /// Begins a rollout if one is due and possible, and none is in progress.
    pub fn begin(&mut self, now: Time) -> Option<Rollout> {
        if self.rollout.is_some() || !self.is_ready(now) {
            return None;
        }
        if self.retry_at.is_some_and(|at| now >= at) {
            self.retry_at = None;
            self.pend(RolloutReason::Drift);
        }
        if *self.monitor.down() != self.aim.condition.down {
            self.pend(RolloutReason::Links);
        }
        self.pending?;
        let members = self.members(now);
        if members.is_empty() {
            return None;
        }
        let condition = self.condition(&members);
        let reason = self.pending.take()?;
        let reason =
            if std::mem::replace(&mut self.has_started, true) { reason } else { RolloutReason::Start };
        let changed = condition.down.symmetric_difference(&self.aim.condition.down);
        let changed = changed.map(|link| (*link, !condition.down.contains(link))).collect();
        let ixs = members.iter().map(|member| member.0).collect();
        self.rollout =
            Some(PendingRollout { reason, began: now, condition: condition.clone(), members: ixs });
        Some(Rollout { aim: self.aim.clone(), condition, changed, members })
    }

    /// Ends the rollout in progress. `aim` is the new one, `None` if there are no routes.
    pub fn end(
        &mut self,
        aim: Option<FabricIntent>,
        reports: impl IntoIterator<Item = (SwitchIx, SwitchOutcome)>,
        now: Time,
    ) -> Option<RolloutSummary> {
        let rollout = self.rollout.take()?;
        if rollout.condition != self.aim.condition {
            // Switches that did not take part hold the routes of another aim.
            self.switches.iter_mut().for_each(|it| it.is_current = false);
        }
        match aim {
            Some(aim) => self.aim = aim,
            // This is dealt with until something else changes.
            None => self.aim.condition = rollout.condition,
        }
        for (at, report) in reports {
            match report {
                SwitchOutcome::ReadFailed | SwitchOutcome::WriteFailed => {
                    self.retry_at = Some(now + RETRY_DELAY)
                }
                SwitchOutcome::Stopped => self.pend(rollout.reason),
                // It can be used again.
                SwitchOutcome::InSync(_) if self.aim.condition.avoided.contains(&at) => {
                    self.pend(RolloutReason::Returned)
                }
                SwitchOutcome::InSync(_) => {}
            }
            let it = self.at(at);
            it.failed_until = None;
            it.held = None;
            match report {
                SwitchOutcome::InSync(held) => {
                    (it.held, it.is_current, it.may_be_foreign) = (Some(held), true, false);
                }
                SwitchOutcome::Stopped => it.is_current = false,
                SwitchOutcome::ReadFailed => it.failed_until = Some(now + RETRY_DELAY),
                SwitchOutcome::WriteFailed => {
                    (it.failed_until, it.is_current) = (Some(now + RETRY_DELAY), false)
                }
            }
        }
        Some(RolloutSummary {
            reason: rollout.reason,
            began: rollout.began,
            down: self.aim.condition.down.len(),
        })
    }

    /// Lets switches take part in rollouts whose links are known.
    fn settle(&mut self, now: Time) {
        let mut has_settled = false;
        for (at, it) in self.fabric.topology.switch_ixs().zip(&mut self.switches) {
            if it.is_primary
                && it.waits_until.is_some_and(|until| now >= until || self.monitor.has_settled(at))
            {
                it.waits_until = None;
                has_settled = true;
            }
        }
        if has_settled {
            self.pend(RolloutReason::Returned);
        }
    }

    /// The most important reason stays.
    fn pend(&mut self, reason: RolloutReason) {
        self.pending = Some(self.pending.map_or(reason, |pending| pending.min(reason)));
    }

    /// Returns whether all switches whose content is not known can take part in a rollout, or have had the
    /// time.
    fn is_ready(&self, now: Time) -> bool {
        let is_ready = |it: &SwitchState| !it.may_be_foreign || (it.is_primary && it.waits_until.is_none());
        now >= self.waits_until || self.switches.iter().all(is_ready)
    }

    /// Returns the condition that routes have to take into account if these switches are written.
    fn condition(&self, members: &[(SwitchIx, Option<ActualState>)]) -> FabricCondition {
        let members: BTreeSet<SwitchIx> = members.iter().map(|it| it.0).collect();
        // A switch that failed may fail again.
        let may_stay =
            |(at, it): &(SwitchIx, &SwitchState)| !members.contains(at) || it.failed_until.is_some();
        let known = self.fabric.topology.switch_ixs().zip(&self.switches);
        let left: Vec<(SwitchIx, &SwitchState)> = known.filter(may_stay).collect();
        let avoided = left.iter().filter(|(_, it)| !it.is_current).map(|(at, _)| *at).collect();
        let condition = FabricCondition { down: self.monitor.down().clone(), avoided };
        if condition == self.aim.condition {
            return condition;
        }
        // The others will hold other routes than all these.
        FabricCondition { avoided: left.into_iter().map(|(at, _)| at).collect(), ..condition }
    }

    /// Returns switches that are under control, whose links are known, and that answer.
    fn members(&mut self, now: Time) -> Vec<(SwitchIx, Option<ActualState>)> {
        let mut members = Vec::new();
        for (at, it) in self.fabric.topology.switch_ixs().zip(&self.switches) {
            if !it.is_primary || it.waits_until.is_some() || it.failed_until.is_some_and(|until| now < until)
            {
                continue;
            }
            if self.is_probing && !self.monitor.is_answering(at, now) {
                // The others do not wait for it.
                self.retry_at = Some(now + RETRY_DELAY);
                continue;
            }
            members.push((at, it.held.clone()));
        }
        members
    }
}

#[cfg(test)]
mod tests;
