//! One round of routes: computed, compared, written.

use super::super::fleet::{self, Applied, Writer, each};
use super::super::{ClientError, Program, Session};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use weir_controller::reconcile::{Goal, difference};
use weir_controller::topology::{LinkIx, SwitchIx};
use weir_controller::watch::{Aim, Fabric, Held};

/// A switch that takes part in a rollout.
#[derive(Clone)]
pub struct Member {
    pub at: SwitchIx,
    pub name: String,
    pub session: Session,
    /// What it holds, if that is known; else it is read.
    pub held: Option<Held>,
}

/// Outcome of a rollout.
pub struct Outcome {
    pub aim: Result<Aim, String>,
    /// What each switch holds now.
    pub held: BTreeMap<SwitchIx, Result<Held, ClientError>>,
    /// Over all switches.
    pub applied: Applied,
    /// Switches that were written.
    pub written: usize,
}

/// Brings switches in line with the links that are up.
pub async fn roll_out(
    fabric: Arc<Fabric>,
    program: Arc<Program>,
    now: Aim,
    down: BTreeSet<LinkIx>,
    members: Vec<Member>,
) -> Outcome {
    let aim = if now.down == down {
        Ok(now.clone())
    } else {
        let (fabric, program, now) = (Arc::clone(&fabric), Arc::clone(&program), now.clone());
        let work = spawn_blocking(move || now.next(&fabric, &program.index, down)).await;
        work.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    };
    // Without new routes the old ones are kept up.
    let goals = Arc::clone(&aim.as_ref().unwrap_or(&now).goals);
    let read = each(members.clone(), {
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
    let (mut held, mut applied, mut writers) = (read.await, Applied::default(), Vec::new());
    let places: BTreeMap<String, SwitchIx> = members.iter().map(|it| (it.name.clone(), it.at)).collect();
    for member in members {
        let (Some(goal), Some(Ok(actual))) = (goals.get(&member.name), held.get(&member.name)) else {
            continue;
        };
        let difference = difference(goal, actual, &program.index);
        applied += &Applied::of(false, &difference);
        if !difference.steps.is_empty() {
            let program = Arc::clone(&program);
            writers.push(Writer { name: member.name, session: member.session, program, difference });
        }
    }
    let written = writers.len();
    for (name, result) in fleet::write(writers).await {
        let holds = |goal: &Goal| Arc::new(goal.wanted().map(|it| it.entity.clone()).collect());
        let now_held: Result<_, ClientError> =
            result.map(|()| goals.get(&name).map(holds).unwrap_or_default());
        held.insert(name, now_held);
    }
    let held = held.into_iter().filter_map(|(name, held)| Some((*places.get(&name)?, held))).collect();
    Outcome { aim, held, applied, written }
}
