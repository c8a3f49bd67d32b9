use crate::plan::{PlanError, PlanOptions, desired_states};
use crate::reconcile::DesiredState;
use crate::routes::{Routes, RoutingMethod, reroute};
use crate::topology::{LinkIx, SwitchIx, Topology};
use p4runtime::p4info::Index;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A fabric that the controller keeps as planned.
#[derive(Clone, Debug)]
pub struct FabricPlan {
    /// The topology with all links.
    pub topology: Topology,
    /// Method by which routes are computed when links fail.
    pub method: RoutingMethod,
    /// While all links are up.
    pub routes: Routes,
    /// Content of the tables besides routes.
    pub options: PlanOptions,
}

/// Faults that routes have to take into account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricCondition {
    /// The failed links.
    pub down: BTreeSet<LinkIx>,
    /// Switches that hold other routes than they should and cannot be written now. A packet that came to one of them
    /// could be sent back, and loop.
    pub avoided: BTreeSet<SwitchIx>,
}

/// The routes for a condition of the fabric, and what every switch should hold.
#[derive(Clone, Debug)]
pub struct FabricIntent {
    /// The condition.
    pub condition: FabricCondition,
    /// The routes for it.
    pub routes: Arc<Routes>,
    /// By the switches' names.
    pub goals: Arc<BTreeMap<String, DesiredState>>,
}

impl FabricIntent {
    /// Returns the aim while all links are up.
    ///
    /// # Errors
    ///
    /// As [`goals`].
    pub fn initial(fabric: &FabricPlan, p4info: &Index) -> Result<FabricIntent, PlanError> {
        FabricIntent::of(fabric, p4info, FabricCondition::default(), fabric.routes.clone())
    }

    /// Returns the aim for another condition. Its routes are computed from the present ones, so that the
    /// number of trees stays.
    ///
    /// # Errors
    ///
    /// In words: there are no routes for the condition, or the program cannot hold them.
    pub fn for_condition(
        &self,
        fabric: &FabricPlan,
        p4info: &Index,
        condition: FabricCondition,
    ) -> Result<FabricIntent, String> {
        if condition == self.condition {
            return Ok(self.clone());
        }
        let routes = if condition == FabricCondition::default() {
            fabric.routes.clone()
        } else {
            let left = fabric.topology.without_links(&condition.down).avoiding(&condition.avoided);
            reroute(&left, fabric.method, &self.routes).map_err(|error| error.to_string())?
        };
        FabricIntent::of(fabric, p4info, condition, routes).map_err(|error| error.to_string())
    }

    fn of(
        fabric: &FabricPlan,
        p4info: &Index,
        condition: FabricCondition,
        routes: Routes,
    ) -> Result<FabricIntent, PlanError> {
        let goals = desired_states(&fabric.topology, &routes, &fabric.options, p4info)?;
        Ok(FabricIntent { condition, routes: Arc::new(routes), goals: Arc::new(goals) })
    }
}
