//! One rollout: computes the intent, reads switches with unknown tables, and writes the differences.

use super::super::connection::Connection;
use super::super::fleet::{self, ApplySummary, Named, Writer, for_each_switch};
use super::super::{ClientError, Program, Session};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::spawn_blocking;
use weir_controller::reconcile::{DesiredState, diff};
use weir_controller::topology::SwitchIx;
use weir_controller::watch::{ActualState, FabricCondition, FabricIntent, FabricPlan, SwitchOutcome};

/// A switch that takes part in a rollout.
#[derive(Clone)]
pub struct Member {
    pub at: SwitchIx,
    pub name: String,
    pub session: Session,
    /// Known entities of the switch; `None`: read them first.
    pub actual: Option<ActualState>,
}

impl Named for Member {
    fn name(&self) -> &str {
        &self.name
    }
}

/// The result of a rollout. `intent` is the new intent, or the reason why no routes exist.
pub struct Outcome {
    pub intent: Result<FabricIntent, String>,
    pub outcomes: BTreeMap<SwitchIx, SwitchOutcome>,
    /// Switches that could not be read or written.
    pub errors: Vec<(SwitchIx, ClientError)>,
    pub applied: ApplySummary,
    /// Number of switches with differences.
    pub written: usize,
}

/// Updates the switches for the condition of the fabric. `current` is the current intent.
pub async fn roll_out(
    fabric: Arc<FabricPlan>,
    program: Arc<Program>,
    current: FabricIntent,
    condition: FabricCondition,
    members: Vec<Member>,
) -> Outcome {
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
    let read = for_each_switch(members.clone(), {
        let program = Arc::clone(&program);
        move |member: Member| {
            let program = Arc::clone(&program);
            async move {
                match member.actual {
                    Some(actual) => Ok(actual),
                    None => member.session.read_all(&program.index).await.map(Arc::new),
                }
            }
        }
    });
    let switches: BTreeMap<String, SwitchIx> = members.iter().map(|it| (it.name.clone(), it.at)).collect();
    let (mut switch_outcomes, mut errors, mut actual_states) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
    for (name, read) in read.await {
        let Some(&at) = switches.get(&name) else { continue };
        match read {
            Ok(read) => {
                actual_states.insert(name, read);
            }
            Err(error) => {
                switch_outcomes.insert(at, SwitchOutcome::ReadFailed);
                errors.push((at, error));
            }
        }
    }
    // A switch that is not avoided receives packets by the new routes, so the rollout must stop if it cannot be
    // written.
    let stops_all = |at: SwitchIx| !condition.avoided.contains(&at);
    let is_stopped = switch_outcomes.keys().any(|&at| stops_all(at));
    let (mut applied, mut writers) = (ApplySummary::default(), Vec::new());
    for member in members {
        let (Some(desired), Some(actual)) =
            (desired_states.get(&member.name), actual_states.get(&member.name))
        else {
            continue;
        };
        let difference = diff(desired, actual, &program.index);
        if difference.steps.is_empty() {
            applied += &ApplySummary::before_writing(&difference);
            switch_outcomes.insert(member.at, SwitchOutcome::InSync(Arc::clone(actual)));
        } else if is_stopped {
            switch_outcomes.insert(member.at, SwitchOutcome::Stopped);
        } else {
            let program = Arc::clone(&program);
            let session = Connection::P4Runtime(member.session);
            writers.push(Writer { name: member.name, session, program, difference });
        }
    }
    let written = writers.len();
    let outcomes = fleet::write(writers, |name| switches.get(name).is_some_and(|&at| stops_all(at))).await;
    for (name, result) in outcomes {
        let Some(&at) = switches.get(&name) else { continue };
        let entities_of =
            |desired: &DesiredState| Arc::new(desired.entities().map(|it| it.entity.clone()).collect());
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
                errors.push((at, error));
                SwitchOutcome::WriteFailed
            }
        };
        switch_outcomes.insert(at, outcome);
    }
    Outcome { intent, outcomes: switch_outcomes, errors, applied, written }
}
