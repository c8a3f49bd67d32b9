//! One rollout: computes the intent, reads switches with unknown tables, and writes the differences.

use super::super::connection::Connection;
use super::super::fleet::{self, ApplySummary, Writer, for_each_switch};
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
    pub held: Option<ActualState>,
}

/// The result of a rollout. `aim` is the new intent, or the reason why no routes exist.
pub struct Outcome {
    pub aim: Result<FabricIntent, String>,
    pub reports: BTreeMap<SwitchIx, SwitchOutcome>,
    /// Switches that could not be read or written.
    pub errors: Vec<(SwitchIx, ClientError)>,
    pub applied: ApplySummary,
    /// Number of switches with differences.
    pub written: usize,
}

/// Updates the switches for the condition of the fabric. `now` is the current intent.
pub async fn roll_out(
    fabric: Arc<FabricPlan>,
    program: Arc<Program>,
    now: FabricIntent,
    condition: FabricCondition,
    members: Vec<Member>,
) -> Outcome {
    let aim = if now.condition == condition {
        Ok(now.clone())
    } else {
        let (fabric, program) = (Arc::clone(&fabric), Arc::clone(&program));
        let (now, condition) = (now.clone(), condition.clone());
        let work = spawn_blocking(move || now.for_condition(&fabric, &program.index, condition)).await;
        work.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    };
    // Without new routes, keep the switches at the current ones.
    let goals = Arc::clone(&aim.as_ref().unwrap_or(&now).goals);
    let read = for_each_switch(members.clone(), {
        let program = Arc::clone(&program);
        move |member: Member| {
            let program = Arc::clone(&program);
            async move {
                match member.held {
                    Some(held) => Ok(held),
                    None => member.session.read_all(&program.index).await.map(Arc::new),
                }
            }
        }
    });
    let places: BTreeMap<String, SwitchIx> = members.iter().map(|it| (it.name.clone(), it.at)).collect();
    let (mut reports, mut errors, mut held) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
    for (name, read) in read.await {
        let Some(&at) = places.get(&name) else { continue };
        match read {
            Ok(read) => {
                held.insert(name, read);
            }
            Err(error) => {
                reports.insert(at, SwitchOutcome::ReadFailed);
                errors.push((at, error));
            }
        }
    }
    // A switch that is not avoided receives packets by the new routes, so the rollout must stop if it cannot be
    // written.
    let stops = |at: SwitchIx| !condition.avoided.contains(&at);
    let is_stopped = reports.keys().any(|&at| stops(at));
    let (mut applied, mut writers) = (ApplySummary::default(), Vec::new());
    for member in members {
        let (Some(goal), Some(actual)) = (goals.get(&member.name), held.get(&member.name)) else { continue };
        let difference = diff(goal, actual, &program.index);
        if difference.steps.is_empty() {
            applied += &ApplySummary::none_of(&difference);
            reports.insert(member.at, SwitchOutcome::InSync(Arc::clone(actual)));
        } else if is_stopped {
            reports.insert(member.at, SwitchOutcome::Stopped);
        } else {
            let program = Arc::clone(&program);
            let session = Connection::P4Runtime(member.session);
            writers.push(Writer { name: member.name, session, program, difference });
        }
    }
    let written = writers.len();
    let outcomes = fleet::write(writers, |name| places.get(name).is_some_and(|&at| stops(at))).await;
    for (name, result) in outcomes {
        let Some(&at) = places.get(&name) else { continue };
        let holds = |goal: &DesiredState| Arc::new(goal.entities().map(|it| it.entity.clone()).collect());
        let report = match result {
            Ok(written) => {
                applied += &written;
                match written.left {
                    0 => SwitchOutcome::InSync(goals.get(&name).map(holds).unwrap_or_default()),
                    _ => SwitchOutcome::Stopped,
                }
            }
            Err(error) => {
                errors.push((at, error));
                SwitchOutcome::WriteFailed
            }
        };
        reports.insert(at, report);
    }
    Outcome { aim, reports, errors, applied, written }
}
