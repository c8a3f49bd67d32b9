//! Computes routes: symmetric ECMP, spanning trees (FNCC §3.1, observation 2), or up*/down* paths.
//!
//! [`Routes`] is the exact content of each switch's route tables. [`mod@crate::verify`] checks it, and
//! [`mod@crate::plan`] converts it to table entries.

mod ecmp;
mod racks;
mod trees;
mod up_down;

use crate::flood;
pub use crate::route_table::{NextHop, Routes, RoutingMethod, SwitchRoutes};
use crate::topology::Topology;
use crate::verify::{Violation, verify};
use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RouteError {
    /// [`RoutingMethod::Ecmp`] was requested but is not symmetric on this topology.
    #[error("ECMP is not symmetric on this topology, use trees: {0}")]
    NotSymmetric(Box<Violation>),
}

/// Computes the routes of a fabric.
///
/// # Errors
///
/// [`RoutingMethod::Ecmp`] was requested but is not symmetric on this topology. The other methods always succeed.
pub fn routes(topology: &Topology, method: RoutingMethod) -> Result<Routes, RouteError> {
    compute(topology, method, None)
}

/// Recomputes the routes of a fabric after links failed or returned. `current` are the routes of the switches. If these
/// are trees or planes, their number is kept, since every switch computes the hash modulo this number.
///
/// # Errors
///
/// See [`routes`].
pub fn reroute(topology: &Topology, method: RoutingMethod, current: &Routes) -> Result<Routes, RouteError> {
    compute(topology, method, (current.trees() > 0).then(|| current.trees()))
}

fn compute(topology: &Topology, method: RoutingMethod, trees: Option<usize>) -> Result<Routes, RouteError> {
    let mut routes = unicast(topology, method, trees)?;
    flood::set_tree(topology, trees::spanning_tree(topology), &mut routes.switches);
    Ok(routes)
}

fn unicast(topology: &Topology, method: RoutingMethod, trees: Option<usize>) -> Result<Routes, RouteError> {
    match method {
        RoutingMethod::Trees => return Ok(trees::routes(topology, trees)),
        RoutingMethod::UpDown => return Ok(up_down::routes(topology, trees)),
        RoutingMethod::Auto | RoutingMethod::Ecmp => {}
    }
    let ecmp = ecmp::routes(topology);
    match verify(topology, &ecmp) {
        Ok(_) => Ok(ecmp),
        Err(_) if method == RoutingMethod::Auto => Ok(trees::routes(topology, trees)),
        Err(mut violations) => Err(RouteError::NotSymmetric(Box::new(violations.swap_remove(0)))),
    }
}
