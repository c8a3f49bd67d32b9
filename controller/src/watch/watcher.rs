//! Decides when the switches of a fabric are updated, and which of them. The terms:
//!
//! - The *condition* of the fabric is the set of failed links and of switches that routes should avoid
//!   ([`FabricCondition`]), and the *intent* is the routes for a condition ([`FabricIntent`]).
//! - A *rollout* brings a set of switches to an intent. The driver executes it and reports the outcome.
//! - A switch is *current* if it holds the routes of the current intent.

use super::{
    ControlLoss, FabricCondition, FabricIntent, FabricPlan, LinkMonitor, MonitorConfig, PacketInKind,
    ProbeRound,
};
use crate::topology::{LinkIx, SwitchIx};
use p4runtime::p4::v1::Entity;
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_units::Time;

/// Maximum time that rollouts wait for the connection of switches whose tables are unknown, at the start and after
/// another controller was primary. Then the other switches are updated without them. Switches that have connected within
/// this time are waited for until the state of their links is known, at most [`LINK_STATE_TIMEOUT`] longer.
const UNKNOWN_TABLES_TIMEOUT: Time = Time::from_secs(3);
/// Maximum time that a switch which has connected waits for the state of its links before it takes part in rollouts.
const LINK_STATE_TIMEOUT: Time = Time::from_secs(3);
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
    /// A switch can take part in rollouts again: it has reconnected, or it holds current routes and need not be avoided
    /// any more.
    SwitchReady,
    /// Another controller changed tables, or a write has failed.
    Drift,
}

/// Work for the driver:
///
/// 1. Compute the intent for `condition` ([`FabricIntent::for_condition`]).
/// 2. Read the switches whose entities are unknown.
/// 3. Compute the differences, and write them with [`RankedUpdates`](crate::reconcile::RankedUpdates), in an order in
///    which no packet loops.
/// 4. Report the outcome of every switch to [`Watcher::end`].
#[derive(Clone, Debug)]
pub struct Rollout {
    /// The current intent.
    pub intent: FabricIntent,
    /// The condition for which new routes are computed.
    pub condition: FabricCondition,
    /// Links that have failed or returned since the current intent.
    pub link_changes: Vec<LinkChange>,
    /// Switches to update, with their entities; `None`: unknown, must be read.
    pub switches: Vec<(SwitchIx, Option<ActualState>)>,
}

/// A change of the state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChange {
    pub link: LinkIx,
    pub is_up: bool,
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
    pub began_at: Time,
    /// Number of links that are down.
    pub down_links: usize,
}

/// What the watcher knows of a switch.
struct SwitchState {
    /// This controller is the primary of the switch and may write it.
    is_primary: bool,
    /// Another controller may have written the switch since this one brought it in sync. Initially true.
    may_have_foreign_entries: bool,
    /// Entities of the switch; `None`: unknown, must be read.
    actual: Option<ActualState>,
    /// The switch holds the routes of the current intent.
    is_current: bool,
    /// The last read or write failed; the switch takes part in no rollout before this time.
    retry_at: Option<Time>,
    /// The switch takes part in no rollout until the state of its links is known, or until this time. `None`: it does
    /// not wait.
    link_state_deadline: Option<Time>,
}

impl SwitchState {
    fn new() -> SwitchState {
        SwitchState {
            is_primary: false,
            may_have_foreign_entries: true,
            actual: None,
            is_current: false,
            retry_at: None,
            link_state_deadline: None,
        }
    }
}

/// The rollout in progress.
struct ActiveRollout {
    reason: RolloutReason,
    began_at: Time,
    condition: FabricCondition,
    switches: Vec<SwitchIx>,
}

/// Decides when the switches of a fabric are updated, and which of them, without I/O or a clock.
///
/// The driver reports events with the `on_` methods, calls [`tick`](Self::tick) at [`next_tick`](Self::next_tick), and
/// after each of these calls [`abandon`](Self::abandon) and [`begin`](Self::begin). Time must not go backwards.
pub struct Watcher {
    fabric: Arc<FabricPlan>,
    switches: Vec<SwitchState>,
    monitor: LinkMonitor,
    /// Links are probed; otherwise all count as up.
    is_probing: bool,
    /// The intent of the last rollout that ended; initially that given to `new`.
    intent: FabricIntent,
    /// Reason for the next rollout; `None` if none is due.
    pending: Option<RolloutReason>,
    rollout: Option<ActiveRollout>,
    /// Until this time, rollouts wait for the connection of all switches that another controller may have written.
    unknown_tables_deadline: Time,
    /// The first rollout has begun.
    has_started: bool,
    /// Time of the next rollout for switches that failed or did not reply; `None` if there are none.
    next_retry: Option<Time>,
}

impl Watcher {
    /// Creates a watcher at `now` with no switch connected. `intent` is that of [`FabricIntent::initial`]. If `monitor`
    /// is `None`, links are not probed and count as up. `run_id` is a random number in this run's probes.
    pub fn new(
        fabric: Arc<FabricPlan>,
        intent: FabricIntent,
        monitor: Option<MonitorConfig>,
        run_id: u64,
        now: Time,
    ) -> Watcher {
        Watcher {
            switches: fabric.topology.switches.iter().map(|_| SwitchState::new()).collect(),
            monitor: LinkMonitor::new(&fabric.topology, monitor.unwrap_or_default(), run_id, now),
            is_probing: monitor.is_some(),
            fabric,
            intent,
            pending: None,
            rollout: None,
            unknown_tables_deadline: now + UNKNOWN_TABLES_TIMEOUT,
            has_started: false,
            next_retry: None,
        }
    }

    fn switch_mut(&mut self, switch: SwitchIx) -> &mut SwitchState {
        &mut self.switches[switch.0 as usize]
    }

    /// Called when a switch has accepted this controller as primary and runs the program. `actual` are its entities.
    /// `is_newly_loaded` is true if the program had to be pushed, so that the tables are empty.
    pub fn on_ready(&mut self, switch: SwitchIx, is_newly_loaded: bool, actual: Vec<Entity>, now: Time) {
        self.monitor.on_connected(switch);
        // A switch with empty tables drops all packets, so it is updated at once. A switch with entries forwards
        // packets and can wait until the state of its links is known: they may have changed while it was not
        // connected. Before the first rollout all switches wait, so that one rollout serves them all.
        let is_urgent = (is_newly_loaded && self.has_started) || !self.is_probing;
        let link_state_deadline = (!is_urgent).then(|| now + LINK_STATE_TIMEOUT);
        // Start a new wait only after the previous one has ended, so that switches which reconnect one after the other
        // do not extend it each time.
        if self.switch_mut(switch).may_have_foreign_entries && now >= self.unknown_tables_deadline {
            self.unknown_tables_deadline = now + UNKNOWN_TABLES_TIMEOUT;
        }
        let state = self.switch_mut(switch);
        state.is_primary = true;
        state.actual = Some(Arc::new(actual));
        state.link_state_deadline = link_state_deadline;
        state.retry_at = None;
        if is_urgent {
            self.schedule(RolloutReason::SwitchReady);
        }
    }

    /// Called when the control channel of a switch is lost, and after each failed attempt to reconnect.
    pub fn on_lost(&mut self, switch: SwitchIx, loss: ControlLoss) {
        self.monitor.on_disconnected(switch, loss);
        let state = self.switch_mut(switch);
        state.is_primary = false;
        if loss == ControlLoss::Standby {
            (state.may_have_foreign_entries, state.is_current) = (true, false);
        }
    }

    /// Handles a packet-in: the ingress port of the probe, and the frame.
    pub fn on_packet_in(&mut self, switch: SwitchIx, port: u16, frame: &[u8]) -> PacketInKind {
        self.monitor.on_packet_in(switch, port, frame)
    }

    /// Called when a switch rejects the packet-out of a probe.
    pub fn on_packet_out_rejected(&mut self, switch: SwitchIx) {
        self.monitor.on_packet_out_rejected(switch);
    }

    /// Handles a switch's reply to a request of [`ProbeRound::echoes`].
    pub fn on_echo(&mut self, switch: SwitchIx, round: u64, now: Time) {
        self.monitor.on_echo(switch, round, now);
        self.admit_switches(now);
    }

    /// Handles the port states, `(port, is_up)`, of a switch returned by
    /// [`take_port_queries`](Self::take_port_queries); `None` if they could not be read.
    pub fn on_port_states(&mut self, switch: SwitchIx, ports: Option<Vec<(u16, bool)>>) {
        self.monitor.on_port_states(switch, ports);
    }

    /// Removes and returns the switches whose port states are needed.
    pub fn take_port_queries(&mut self) -> Vec<SwitchIx> {
        self.monitor.take_port_queries()
    }

    /// Removes and returns the links that lost all probes but stay up, because the ports at both ends are up.
    pub fn take_kept_links(&mut self) -> BTreeSet<LinkIx> {
        self.monitor.take_kept_links()
    }

    /// Returns the time of the next call of [`tick`](Self::tick); `None` if links are not probed.
    pub fn next_tick(&self) -> Option<Time> {
        self.is_probing.then(|| self.monitor.next_tick())
    }

    /// Ends a probe interval. Returns the messages to send.
    pub fn tick(&mut self, now: Time) -> ProbeRound {
        let round = self.monitor.tick(now);
        self.admit_switches(now);
        round
    }

    /// Schedules a read and comparison of all tables, unless a rollout is in progress.
    pub fn schedule_check(&mut self) {
        if self.has_started && self.rollout.is_none() {
            self.switches.iter_mut().for_each(|state| state.actual = None);
            self.schedule(RolloutReason::Drift);
        }
    }

    /// Abandons the rollout in progress if one of its switches does not reply and links have changed since, so that
    /// the other switches need not wait. Returns whether it did so. The tables of its switches are read again.
    pub fn abandon(&mut self, now: Time) -> bool {
        let is_silent = |switch: &SwitchIx| !self.monitor.is_responsive(*switch, now);
        let is_stuck = |rollout: &mut ActiveRollout| {
            rollout.condition.down != *self.monitor.down() && rollout.switches.iter().any(is_silent)
        };
        let Some(rollout) = self.rollout.take_if(is_stuck) else { return false };
        for switch in rollout.switches {
            let state = self.switch_mut(switch);
            (state.actual, state.is_current) = (None, false);
        }
        self.schedule(rollout.reason);
        true
    }

    /// Starts a rollout if one is due and none is in progress.
    pub fn begin(&mut self, now: Time) -> Option<Rollout> {
        if self.rollout.is_some() || !self.is_ready(now) {
            return None;
        }
        if self.next_retry.is_some_and(|time| now >= time) {
            self.next_retry = None;
            self.schedule(RolloutReason::Drift);
        }
        if *self.monitor.down() != self.intent.condition.down {
            self.schedule(RolloutReason::Links);
        }
        self.pending?;
        let switches = self.switches_to_update(now);
        if switches.is_empty() {
            return None;
        }
        let condition = self.target_condition(&switches);
        let reason = self.pending.take()?;
        let reason =
            if std::mem::replace(&mut self.has_started, true) { reason } else { RolloutReason::Start };
        let changed_links = condition.down.symmetric_difference(&self.intent.condition.down);
        let link_changes =
            changed_links.map(|&link| LinkChange { link, is_up: !condition.down.contains(&link) }).collect();
        self.rollout = Some(ActiveRollout {
            reason,
            began_at: now,
            condition: condition.clone(),
            switches: switches.iter().map(|(switch, _)| *switch).collect(),
        });
        Some(Rollout { intent: self.intent.clone(), condition, link_changes, switches })
    }

    /// Ends the rollout in progress. `intent` is the new intent; `None` if there are no routes for the condition.
    /// Returns `None` if no rollout is in progress, because it was abandoned.
    pub fn end(
        &mut self,
        intent: Option<FabricIntent>,
        outcomes: impl IntoIterator<Item = (SwitchIx, SwitchOutcome)>,
        now: Time,
    ) -> Option<RolloutSummary> {
        let rollout = self.rollout.take()?;
        if rollout.condition != self.intent.condition {
            // Switches outside the rollout hold the routes of the previous intent.
            self.switches.iter_mut().for_each(|state| state.is_current = false);
        }
        match intent {
            Some(intent) => self.intent = intent,
            // There are no routes for this condition. Store it as handled; otherwise every tick would start the same
            // rollout.
            None => self.intent.condition = rollout.condition,
        }
        for (switch, outcome) in outcomes {
            match outcome {
                SwitchOutcome::ReadFailed | SwitchOutcome::WriteFailed => {
                    self.next_retry = Some(now + RETRY_DELAY)
                }
                SwitchOutcome::Stopped => self.schedule(rollout.reason),
                // The switch holds current routes again and need not be avoided.
                SwitchOutcome::InSync(_) if self.intent.condition.avoided.contains(&switch) => {
                    self.schedule(RolloutReason::SwitchReady)
                }
                SwitchOutcome::InSync(_) => {}
            }
            let state = self.switch_mut(switch);
            state.retry_at = None;
            // After a stop or a failure it is unknown which updates the switch has applied: read it again.
            state.actual = None;
            match outcome {
                SwitchOutcome::InSync(actual) => {
                    state.actual = Some(actual);
                    state.is_current = true;
                    state.may_have_foreign_entries = false;
                }
                SwitchOutcome::Stopped => state.is_current = false,
                SwitchOutcome::ReadFailed => state.retry_at = Some(now + RETRY_DELAY),
                SwitchOutcome::WriteFailed => {
                    (state.retry_at, state.is_current) = (Some(now + RETRY_DELAY), false)
                }
            }
        }
        Some(RolloutSummary {
            reason: rollout.reason,
            began_at: rollout.began_at,
            down_links: self.intent.condition.down.len(),
        })
    }

    /// Admits switches to rollouts when the state of their links is known or their deadline has passed.
    fn admit_switches(&mut self, now: Time) {
        let mut is_any_admitted = false;
        for (switch, state) in self.fabric.topology.switch_ixs().zip(&mut self.switches) {
            let is_over = |deadline: Time| now >= deadline || self.monitor.has_settled(switch);
            if state.is_primary && state.link_state_deadline.is_some_and(is_over) {
                state.link_state_deadline = None;
                is_any_admitted = true;
            }
        }
        if is_any_admitted {
            self.schedule(RolloutReason::SwitchReady);
        }
    }

    /// Schedules a rollout; the most important reason is kept.
    fn schedule(&mut self, reason: RolloutReason) {
        self.pending = Some(self.pending.map_or(reason, |pending| pending.min(reason)));
    }

    /// Returns whether a rollout may begin: every switch whose tables are unknown can take part, or has missed the
    /// deadline.
    fn is_ready(&self, now: Time) -> bool {
        let is_awaited = |state: &SwitchState| match (state.is_primary, state.link_state_deadline) {
            (false, _) => now < self.unknown_tables_deadline,
            // Without this switch, the rollout would route around it, and the next one back. A switch that connected
            // after the deadline is not awaited, so that switches which reconnect repeatedly do not delay rollouts for
            // ever.
            (true, Some(link_state_deadline)) => {
                link_state_deadline <= self.unknown_tables_deadline + LINK_STATE_TIMEOUT
            }
            (true, None) => false,
        };
        !self.switches.iter().any(|state| state.may_have_foreign_entries && is_awaited(state))
    }

    /// Returns the condition for which routes are computed if these switches are updated.
    fn target_condition(&self, to_update: &[(SwitchIx, Option<ActualState>)]) -> FabricCondition {
        let to_update: BTreeSet<SwitchIx> = to_update.iter().map(|(switch, _)| *switch).collect();
        // A switch that failed before may fail again and keep its routes.
        let may_stay_unwritten = |(switch, state): &(SwitchIx, &SwitchState)| {
            !to_update.contains(switch) || state.retry_at.is_some()
        };
        let switches = self.fabric.topology.switch_ixs().zip(&self.switches);
        let unwritten: Vec<(SwitchIx, &SwitchState)> = switches.filter(may_stay_unwritten).collect();
        let outdated = unwritten.iter().filter(|(_, state)| !state.is_current);
        let avoided = outdated.map(|(switch, _)| *switch).collect();
        let condition = FabricCondition { down: self.monitor.down().clone(), avoided };
        if condition == self.intent.condition {
            return condition;
        }
        // The routes will change, so every switch that is not certain to be written keeps outdated routes and must be
        // avoided, even if its routes are current now.
        FabricCondition { avoided: unwritten.into_iter().map(|(switch, _)| switch).collect(), ..condition }
    }

    /// Returns the switches that can take part in a rollout now, with their entities. Schedules a retry for connected
    /// switches that do not reply.
    fn switches_to_update(&mut self, now: Time) -> Vec<(SwitchIx, Option<ActualState>)> {
        let mut to_update = Vec::new();
        for (switch, state) in self.fabric.topology.switch_ixs().zip(&self.switches) {
            let must_wait =
                state.link_state_deadline.is_some() || state.retry_at.is_some_and(|time| now < time);
            if !state.is_primary || must_wait {
                continue;
            }
            if self.is_probing && !self.monitor.is_responsive(switch, now) {
                // Rollouts do not wait for this switch; try again later.
                self.next_retry = Some(now + RETRY_DELAY);
                continue;
            }
            to_update.push((switch, state.actual.clone()));
        }
        to_update
    }
}

#[cfg(test)]
mod tests;
