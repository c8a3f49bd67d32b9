//! One rollout: computes the intent, reads switches with unknown tables, and writes the differences.

use super::super::connection::Connection;
use super::super::fleet::{self, ApplySummary, Named, SwitchUpdates, for_each_switch};
use super::super::{ClientError, Program, Session};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::spawn_blocking;
use weir_controller::reconcile::{DesiredState, diff};
use weir_controller::topology::SwitchIx;
use weir_controller::watch::{ActualState, FabricCondition, FabricIntent, FabricPlan, SwitchOutcome};

/// A switch that takes part in a rollout.
#[derive(Clone)]
pub(super) struct RolloutSwitch {
    pub ix: SwitchIx,
    pub name: String,
    pub session: Session,
    /// Known entities of the switch; `None`: read them first.
    pub actual: Option<ActualState>,
}

impl Named for RolloutSwitch {
    fn name(&self) -> &str {
        &self.name
    }
}

/// The result of a rollout. `intent` is the new intent, or the reason why no routes exist.
pub(super) struct RolloutOutcome {
    pub intent: Result<FabricIntent, String>,
    /// The result for each switch of the rollout.
    pub outcomes: BTreeMap<SwitchIx, SwitchOutcome>,
    /// Switches that could not be read or written.
    pub errors: Vec<(SwitchIx, ClientError)>,
    /// Sum of the changes over all switches.
    pub applied: ApplySummary,
    /// Number of switches that had differences and were written.
    pub written_switches: usize,
}

/// Executes a [`Rollout`](weir_controller::watch::Rollout): updates the switches to the intent for `condition`.
/// `current` is the current intent.
pub(super) async fn roll_out(
    fabric: Arc<FabricPlan>,
    program: Arc<Program>,
    current: FabricIntent,
    condition: FabricCondition,
    switches: Vec<RolloutSwitch>,
) -> RolloutOutcome {
    let intent = if current.condition == condition {
        Ok(current.clone())
    } else {
        let (fabric, program) = (Arc::clone(&fabric), Arc::clone(&program));
        let (current, condition) = (current.clone(), condition.clone());
        let work = spawn_blocking(move || current.for_condition(&fabric, &program.index, condition)).await;
        work.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    };
    // Without new routes, keep the switches at the current ones.
    let desired_states = Arc::clone(&intent.as_ref().unwrap_or(&current).desired_states);
    let read = for_each_switch(switches.clone(), {
        let program = Arc::clone(&program);
        move |switch: RolloutSwitch| {
            let program = Arc::clone(&program);
            async move {
                match switch.actual {
                    Some(actual) => Ok(actual),
                    None => switch.session.read_all(&program.index).await.map(Arc::new),
                }
            }
        }
    });
    let ix_of: BTreeMap<String, SwitchIx> =
        switches.iter().map(|switch| (switch.name.clone(), switch.ix)).collect();
    let (mut switch_outcomes, mut errors, mut actual_states) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
    for (name, read) in read.await {
        let Some(&ix) = ix_of.get(&name) else { continue };
        match read {
            Ok(actual) => {
                actual_states.insert(name, actual);
            }
            Err(error) => {
                switch_outcomes.insert(ix, SwitchOutcome::ReadFailed);
                errors.push((ix, error));
            }
        }
    }
    // A switch that is not avoided receives packets by the new routes, so the rollout must stop if it cannot be
    // written.
    let stops_all = |ix: SwitchIx| !condition.avoided.contains(&ix);
    let is_stopped = switch_outcomes.keys().any(|&ix| stops_all(ix));
    let (mut applied, mut updates_by_switch) = (ApplySummary::default(), Vec::new());
    for switch in switches {
        let (Some(desired), Some(actual)) =
            (desired_states.get(&switch.name), actual_states.get(&switch.name))
        else {
            continue;
        };
        let difference = diff(desired, actual, &program.index);
        if difference.steps.is_empty() {
            applied += &ApplySummary::before_writing(&difference);
            switch_outcomes.insert(switch.ix, SwitchOutcome::InSync(Arc::clone(actual)));
        } else if is_stopped {
            switch_outcomes.insert(switch.ix, SwitchOutcome::Stopped);
        } else {
            let program = Arc::clone(&program);
            let connection = Connection::P4Runtime(switch.session);
            updates_by_switch.push(SwitchUpdates { name: switch.name, connection, program, difference });
        }
    }
    let written_switches = updates_by_switch.len();
    let outcomes =
        fleet::write(updates_by_switch, |name| ix_of.get(name).is_some_and(|&ix| stops_all(ix))).await;
    for (name, result) in outcomes {
        let Some(&ix) = ix_of.get(&name) else { continue };
        let entities_of =
            |state: &DesiredState| Arc::new(state.entities().map(|desired| desired.entity.clone()).collect());
        let outcome = match result {
            Ok(summary) => {
                applied += &summary;
                match summary.unwritten {
                    0 => {
                        SwitchOutcome::InSync(desired_states.get(&name).map(entities_of).unwrap_or_default())
                    }
                    _ => SwitchOutcome::Stopped,
                }
            }
            Err(error) => {
                errors.push((ix, error));
                SwitchOutcome::WriteFailed
            }
        };
        switch_outcomes.insert(ix, outcome);
    }
    RolloutOutcome { intent, outcomes: switch_outcomes, errors, applied, written_switches }
}
