use super::{
    ControlLoss, FabricCondition, FabricIntent, FabricPlan, LinkMonitor, MonitorConfig, PacketInKind,
    ProbeRound,
};
use crate::topology::{LinkIx, SwitchIx};
use p4runtime::p4::v1::Entity;
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_units::Time;

/// Maximum time that a rollout waits for switches whose tables are unknown: at the start, and after another controller
/// was primary.
const SETTLE_TIMEOUT: Time = Time::from_secs(3);
/// Delay before a switch that rejected an update or did not reply is tried again.
const RETRY_DELAY: Time = Time::from_secs(1);

/// Entities read from a switch.
pub type ActualState = Arc<Vec<Entity>>;

/// The reason for a rollout, in descending order of importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RolloutReason {
    Start,
    /// Links failed or returned.
    Links,
    /// A switch has reconnected.
    Returned,
    /// Another controller changed tables, or a write has failed.
    Drift,
}

/// Work for the driver: compute the intent for `condition`, read the switches whose tables are unknown, compute the
/// differences, and write them rank by rank. Report the result to [`Watcher::end`].
#[derive(Clone, Debug)]
pub struct Rollout {
    /// The current intent.
    pub intent: FabricIntent,
    /// The condition for which new routes are computed.
    pub condition: FabricCondition,
    /// Links whose state changes, and whether they are up now.
    pub changed: Vec<(LinkIx, bool)>,
    /// Switches to update, with their entities; `None`: unknown, must be read.
    pub members: Vec<(SwitchIx, Option<ActualState>)>,
}

/// The result of a rollout for one switch.
#[derive(Clone, Debug)]
pub enum SwitchOutcome {
    /// The switch holds its desired state, which is these entities.
    InSync(ActualState),
    /// Not all updates of this switch were sent, because another switch failed.
    Stopped,
    ReadFailed,
    /// The switch rejected an update or did not reply.
    WriteFailed,
}

/// A finished rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutSummary {
    pub reason: RolloutReason,
    pub began: Time,
    /// Number of links that are down.
    pub down: usize,
}

/// What the watcher knows of a switch.
struct SwitchState {
    is_primary: bool,
    /// Another controller was primary since the last complete read, so the content of the tables is unknown.
    may_be_foreign: bool,
    /// Entities of the switch; `None`: unknown, must be read.
    actual: Option<ActualState>,
    /// The switch holds the routes of the current intent.
    is_current: bool,
    /// The last read or write failed; retry at this time.
    failed_until: Option<Time>,
    /// Do not write the switch before this time, or before the state of its links is known, whichever comes first.
    waits_until: Option<Time>,
}

impl SwitchState {
    fn new() -> SwitchState {
        SwitchState {
            is_primary: false,
            may_be_foreign: true,
            actual: None,
            is_current: false,
            failed_until: None,
            waits_until: None,
        }
    }
}

/// The rollout in progress.
struct ActiveRollout {
    reason: RolloutReason,
    began: Time,
    condition: FabricCondition,
    members: Vec<SwitchIx>,
}

/// Decides when the switches of a fabric are updated, and which of them. Sans-I/O.
pub struct Watcher {
    fabric: Arc<FabricPlan>,
    switches: Vec<SwitchState>,
    monitor: LinkMonitor,
    is_probing: bool,
    intent: FabricIntent,
    /// Reason for the next rollout; `None` if none is due.
    pending: Option<RolloutReason>,
    rollout: Option<ActiveRollout>,
    /// Until this time, rollouts wait for switches that another controller may have written.
    waits_until: Time,
    has_started: bool,
    retry_at: Option<Time>,
}

impl Watcher {
    /// Creates a watcher at `now` with no switch connected. `intent` is that of [`FabricIntent::initial`]. If `monitor`
    /// is `None`, links are not probed and count as up. `run` is a random number that identifies this run's probes.
    pub fn new(
        fabric: Arc<FabricPlan>,
        intent: FabricIntent,
        monitor: Option<MonitorConfig>,
        run: u64,
        now: Time,
    ) -> Watcher {
        Watcher {
            switches: fabric.topology.switches.iter().map(|_| SwitchState::new()).collect(),
            monitor: LinkMonitor::new(&fabric.topology, monitor.unwrap_or_default(), run, now),
            is_probing: monitor.is_some(),
            fabric,
            intent,
            pending: None,
            rollout: None,
            waits_until: now + SETTLE_TIMEOUT,
            has_started: false,
            retry_at: None,
        }
    }

    fn switch_mut(&mut self, at: SwitchIx) -> &mut SwitchState {
        &mut self.switches[at.0 as usize]
    }

    /// Called when a switch has accepted this controller as primary and runs the program. `actual` are its entities,
    /// `pushed` is true if the program had to be loaded.
    pub fn on_ready(&mut self, at: SwitchIx, pushed: bool, actual: Vec<Entity>, now: Time) {
        self.monitor.on_connected(at);
        // A switch with entries forwards packets, so there is time: update it when the state of its links is known,
        // since links may have changed while another controller was primary. A switch without entries is updated at
        // once.
        let is_urgent = (pushed && self.has_started) || !self.is_probing;
        let waits_until = (!is_urgent).then(|| now + SETTLE_TIMEOUT);
        if self.switch_mut(at).may_be_foreign && now >= self.waits_until {
            self.waits_until = now + SETTLE_TIMEOUT;
        }
        let it = self.switch_mut(at);
        (it.is_primary, it.actual, it.waits_until) = (true, Some(Arc::new(actual)), waits_until);
        it.failed_until = None;
        if is_urgent {
            self.schedule(RolloutReason::Returned);
        }
    }

    /// Called when the control channel of a switch is lost, and after each failed attempt to reconnect.
    pub fn on_lost(&mut self, at: SwitchIx, loss: ControlLoss) {
        self.monitor.on_disconnected(at, loss);
        let it = self.switch_mut(at);
        it.is_primary = false;
        if loss == ControlLoss::Standby {
            (it.may_be_foreign, it.is_current) = (true, false);
        }
    }

    /// Handles a packet-in: the ingress port of the probe, and the frame.
    pub fn on_packet_in(&mut self, at: SwitchIx, port: u16, frame: &[u8]) -> PacketInKind {
        self.monitor.on_packet_in(at, port, frame)
    }

    /// Called when a switch rejects the packet-out of a probe.
    pub fn on_packet_out_rejected(&mut self, at: SwitchIx) {
        self.monitor.on_packet_out_rejected(at);
    }

    /// Handles a switch's reply to a request of [`ProbeRound::echoes`].
    pub fn on_echo(&mut self, at: SwitchIx, round: u64, now: Time) {
        self.monitor.on_echo(at, round, now);
        self.settle(now);
    }

    /// Handles the port states of a switch of [`port_queries`](Self::port_queries); `None` if they could not be read.
    pub fn on_port_states(&mut self, at: SwitchIx, ports: Option<Vec<(u16, bool)>>) {
        self.monitor.on_port_states(at, ports);
    }

    /// Removes and returns the switches whose port states are needed.
    pub fn port_queries(&mut self) -> Vec<SwitchIx> {
        self.monitor.take_port_queries()
    }

    /// Removes and returns the links that lost all probes but stay up, because the ports at both ends are up.
    pub fn kept_links(&mut self) -> BTreeSet<LinkIx> {
        self.monitor.take_kept_links()
    }

    /// Returns the time of the next call of [`tick`](Self::tick); `None` if links are not probed.
    pub fn next_tick(&self) -> Option<Time> {
        self.is_probing.then(|| self.monitor.next_tick())
    }

    /// Ends a probe interval. Returns the messages to send.
    pub fn tick(&mut self, now: Time) -> ProbeRound {
        let round = self.monitor.tick(now);
        self.settle(now);
        round
    }

    /// Schedules a read and comparison of all tables, unless a rollout is in progress.
    pub fn schedule_check(&mut self) {
        if self.has_started && self.rollout.is_none() {
            self.switches.iter_mut().for_each(|it| it.actual = None);
            self.schedule(RolloutReason::Drift);
        }
    }

    /// Abandons the rollout in progress if one of its switches does not reply and links have changed since, so that
    /// the other switches need not wait. Returns whether it did so. The tables of its switches are read again.
    pub fn abandon(&mut self, now: Time) -> bool {
        let is_silent = |at: &SwitchIx| !self.monitor.is_responsive(*at, now);
        let is_stuck = |it: &mut ActiveRollout| {
            it.condition.down != *self.monitor.down() && it.members.iter().any(is_silent)
        };
        let Some(rollout) = self.rollout.take_if(is_stuck) else { return false };
        for at in rollout.members {
            let it = self.switch_mut(at);
            (it.actual, it.is_current) = (None, false);
        }
        self.schedule(rollout.reason);
        true
    }

    /// Starts a rollout if one is due and none is in progress.
    pub fn begin(&mut self, now: Time) -> Option<Rollout> {
        if self.rollout.is_some() || !self.is_ready(now) {
            return None;
        }
        if self.retry_at.is_some_and(|at| now >= at) {
            self.retry_at = None;
            self.schedule(RolloutReason::Drift);
        }
        if *self.monitor.down() != self.intent.condition.down {
            self.schedule(RolloutReason::Links);
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
        let changed = condition.down.symmetric_difference(&self.intent.condition.down);
        let changed = changed.map(|link| (*link, !condition.down.contains(link))).collect();
        let switches = members.iter().map(|member| member.0).collect();
        self.rollout =
            Some(ActiveRollout { reason, began: now, condition: condition.clone(), members: switches });
        Some(Rollout { intent: self.intent.clone(), condition, changed, members })
    }

    /// Ends the rollout in progress. `intent` is the new intent; `None` if there are no routes.
    pub fn end(
        &mut self,
        intent: Option<FabricIntent>,
        outcomes: impl IntoIterator<Item = (SwitchIx, SwitchOutcome)>,
        now: Time,
    ) -> Option<RolloutSummary> {
        let rollout = self.rollout.take()?;
        if rollout.condition != self.intent.condition {
            // Switches outside the rollout hold the routes of the previous intent.
            self.switches.iter_mut().for_each(|it| it.is_current = false);
        }
        match intent {
            Some(intent) => self.intent = intent,
            // There are no routes for this condition. Store it as handled; otherwise every tick would start the same
            // rollout.
            None => self.intent.condition = rollout.condition,
        }
        for (at, outcome) in outcomes {
            match outcome {
                SwitchOutcome::ReadFailed | SwitchOutcome::WriteFailed => {
                    self.retry_at = Some(now + RETRY_DELAY)
                }
                SwitchOutcome::Stopped => self.schedule(rollout.reason),
                // The switch holds current routes again and need not be avoided.
                SwitchOutcome::InSync(_) if self.intent.condition.avoided.contains(&at) => {
                    self.schedule(RolloutReason::Returned)
                }
                SwitchOutcome::InSync(_) => {}
            }
            let it = self.switch_mut(at);
            it.failed_until = None;
            it.actual = None;
            match outcome {
                SwitchOutcome::InSync(actual) => {
                    (it.actual, it.is_current, it.may_be_foreign) = (Some(actual), true, false);
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
            down: self.intent.condition.down.len(),
        })
    }

    /// Admits switches to rollouts when the state of their links is known or their waiting time is over.
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
            self.schedule(RolloutReason::Returned);
        }
    }

    /// Schedules a rollout; the most important reason is kept.
    fn schedule(&mut self, reason: RolloutReason) {
        self.pending = Some(self.pending.map_or(reason, |pending| pending.min(reason)));
    }

    /// Returns whether every switch whose tables are unknown can take part in a rollout, or the time to wait for them
    /// is over.
    fn is_ready(&self, now: Time) -> bool {
        let is_ready = |it: &SwitchState| !it.may_be_foreign || (it.is_primary && it.waits_until.is_none());
        now >= self.waits_until || self.switches.iter().all(is_ready)
    }

    /// Returns the condition for which routes are computed if these switches are written.
    fn condition(&self, members: &[(SwitchIx, Option<ActualState>)]) -> FabricCondition {
        let members: BTreeSet<SwitchIx> = members.iter().map(|it| it.0).collect();
        // A switch that failed before may fail again and keep its routes.
        let may_stay_unwritten =
            |(at, it): &(SwitchIx, &SwitchState)| !members.contains(at) || it.failed_until.is_some();
        let switches = self.fabric.topology.switch_ixs().zip(&self.switches);
        let unwritten: Vec<(SwitchIx, &SwitchState)> = switches.filter(may_stay_unwritten).collect();
        let avoided = unwritten.iter().filter(|(_, it)| !it.is_current).map(|(at, _)| *at).collect();
        let condition = FabricCondition { down: self.monitor.down().clone(), avoided };
        if condition == self.intent.condition {
            return condition;
        }
        // The routes will change, so every switch that is not certain to be written keeps outdated routes and must be
        // avoided, even if its routes are current now.
        FabricCondition { avoided: unwritten.into_iter().map(|(at, _)| at).collect(), ..condition }
    }

    /// Returns the connected switches that reply and whose links are known, with their entities.
    fn members(&mut self, now: Time) -> Vec<(SwitchIx, Option<ActualState>)> {
        let mut members = Vec::new();
        for (at, it) in self.fabric.topology.switch_ixs().zip(&self.switches) {
            if !it.is_primary || it.waits_until.is_some() || it.failed_until.is_some_and(|until| now < until)
            {
                continue;
            }
            if self.is_probing && !self.monitor.is_responsive(at, now) {
                // Rollouts do not wait for this switch; try again later.
                self.retry_at = Some(now + RETRY_DELAY);
                continue;
            }
            members.push((at, it.actual.clone()));
        }
        members
    }
}

#[cfg(test)]
mod tests;
