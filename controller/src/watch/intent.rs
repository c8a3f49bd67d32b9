//! What the switches of a fabric should hold: the routes for the present link failures, and the table entries for them.

use crate::plan::{PlanError, PlanOptions, desired_states};
use crate::reconcile::DesiredState;
use crate::routes::{Routes, RoutingMethod, reroute};
use crate::topology::{LinkIx, SwitchIx, Topology};
use p4runtime::p4info::Index;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The fabric that the watcher maintains, with all links up.
#[derive(Clone, Debug)]
pub struct FabricPlan {
    pub topology: Topology,
    /// Method by which routes are recomputed after link failures.
    pub method: RoutingMethod,
    /// Routes while all links are up.
    pub routes: Routes,
    /// Content of the tables other than routes.
    pub options: PlanOptions,
}

/// Link failures and stale switches that routes must take into account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricCondition {
    /// Failed links.
    pub down: BTreeSet<LinkIx>,
    /// Switches that may hold outdated routes, because they cannot be written now. Routes avoid them: such a switch
    /// could send a packet back to where it came from, so that it loops.
    pub avoided: BTreeSet<SwitchIx>,
}

/// The routes for a condition of the fabric, and the desired state of every switch.
#[derive(Clone, Debug)]
pub struct FabricIntent {
    pub condition: FabricCondition,
    pub routes: Arc<Routes>,
    /// Desired states by switch name.
    pub desired_states: Arc<BTreeMap<String, DesiredState>>,
}

impl FabricIntent {
    /// Returns the intent while all links are up.
    ///
    /// # Errors
    ///
    /// See [`desired_states`](crate::plan::desired_states).
    pub fn initial(fabric: &FabricPlan, p4info: &Index) -> Result<FabricIntent, PlanError> {
        FabricIntent::from_routes(fabric, p4info, FabricCondition::default(), fabric.routes.clone())
    }

    /// Returns the intent for another condition. Routes along trees keep the number of trees of the current routes,
    /// since every switch selects a tree by the path hash modulo this number.
    ///
    /// # Errors
    ///
    /// Fails with a message if there are no routes for the condition, or the program cannot hold them.
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
            let remaining = fabric.topology.without_links(&condition.down).avoiding(&condition.avoided);
            reroute(&remaining, fabric.method, &self.routes).map_err(|error| error.to_string())?
        };
        FabricIntent::from_routes(fabric, p4info, condition, routes).map_err(|error| error.to_string())
    }

    fn from_routes(
        fabric: &FabricPlan,
        p4info: &Index,
        condition: FabricCondition,
        routes: Routes,
    ) -> Result<FabricIntent, PlanError> {
        let desired_states = desired_states(&fabric.topology, &routes, &fabric.options, p4info)?;
        Ok(FabricIntent { condition, routes: Arc::new(routes), desired_states: Arc::new(desired_states) })
    }
}
