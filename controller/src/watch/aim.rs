use crate::plan::{PlanError, PlanOptions, goals};
use crate::reconcile::Goal;
use crate::routes::{Method, Routes, reroute};
use crate::topology::{LinkIx, Topology};
use p4runtime::p4info::Index;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A fabric to be kept.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// With all links.
    pub topology: Topology,
    /// How routes are made when links fail.
    pub method: Method,
    /// While all links are up.
    pub routes: Routes,
    /// What else the tables hold.
    pub options: PlanOptions,
}

/// The routes for a set of failed links, and what every switch should hold.
#[derive(Clone, Debug)]
pub struct Aim {
    /// The failed links.
    pub down: BTreeSet<LinkIx>,
    /// The routes without them.
    pub routes: Arc<Routes>,
    /// By the switches' names.
    pub goals: Arc<BTreeMap<String, Goal>>,
}

impl Aim {
    /// While all links are up.
    pub fn first(fabric: &Fabric, p4info: &Index) -> Result<Aim, PlanError> {
        Aim::of(fabric, p4info, BTreeSet::new(), fabric.routes.clone())
    }

    /// Returns the aim for another set of failed links, whose routes come from the present ones; the words of the error
    /// if there are no routes.
    pub fn next(&self, fabric: &Fabric, p4info: &Index, down: BTreeSet<LinkIx>) -> Result<Aim, String> {
        if down == self.down {
            return Ok(self.clone());
        }
        let routes = if down.is_empty() {
            fabric.routes.clone()
        } else {
            let left = fabric.topology.without(&down);
            reroute(&left, fabric.method, &self.routes).map_err(|error| error.to_string())?
        };
        Aim::of(fabric, p4info, down, routes).map_err(|error| error.to_string())
    }

    fn of(fabric: &Fabric, p4info: &Index, down: BTreeSet<LinkIx>, routes: Routes) -> Result<Aim, PlanError> {
        let goals = goals(&fabric.topology, &routes, &fabric.options, p4info)?;
        Ok(Aim { down, routes: Arc::new(routes), goals: Arc::new(goals) })
    }
}
