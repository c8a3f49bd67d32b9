//! One round of routes: computed, compared, written.

use super::super::fleet::{self, Applied, Outcomes, Writer, each};
use super::super::{ClientError, Program, Session};
use super::run::Fabric;
use p4runtime::p4::v1::Entity;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use weir_controller::plan::goals;
use weir_controller::reconcile::{Goal, difference};
use weir_controller::routes::{Routes, reroute};
use weir_controller::topology::LinkIx;

/// The routes for a set of failed links, and what every switch should hold.
#[derive(Clone)]
pub struct Aim {
    pub down: BTreeSet<LinkIx>,
    pub routes: Arc<Routes>,
    pub goals: Arc<BTreeMap<String, Goal>>,
}

impl Aim {
    /// For the fabric without some links, coming from `now`.
    pub fn new(
        fabric: &Fabric,
        program: &Program,
        down: BTreeSet<LinkIx>,
        now: &Routes,
    ) -> Result<Aim, String> {
        let routes = if down.is_empty() {
            fabric.routes.clone()
        } else {
            let left = fabric.topology.without(&down);
            reroute(&left, fabric.method, now).map_err(|error| error.to_string())?
        };
        let goals = goals(&fabric.topology, &routes, &fabric.options, &program.index);
        let goals = Arc::new(goals.map_err(|error| error.to_string())?);
        Ok(Aim { down, routes: Arc::new(routes), goals })
    }
}

/// A switch that takes part in a rollout.
#[derive(Clone)]
pub struct Member {
    pub name: String,
    pub session: Session,
    /// Content of its tables, if it is known; else it is read.
    pub held: Option<Arc<Vec<Entity>>>,
}

/// Outcome of a rollout.
pub struct Outcome {
    pub aim: Result<Aim, String>,
    /// Present content of each switch's tables.
    pub held: Outcomes<Arc<Vec<Entity>>>,
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
        let (fabric, program, routes) = (Arc::clone(&fabric), Arc::clone(&program), Arc::clone(&now.routes));
        let work = spawn_blocking(move || Aim::new(&fabric, &program, down, &routes)).await;
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
    Outcome { aim, held, applied, written }
}
