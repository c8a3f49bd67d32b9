//! Computes routes: symmetric ECMP or spanning trees (FNCC section 3.1, observation 2).
//!
//! [`Routes`] holds exactly what the tables of each switch will hold; [`mod@crate::verify`] walks it and
//! [`mod@crate::plan`] writes it out. Nothing else decides a path.

mod ecmp;
mod trees;

use crate::flood;
pub use crate::route_table::{NextHop, Routes, RoutingMethod, SwitchRoutes};
use crate::topology::{Prefix, SwitchIx, Topology};
use crate::verify::{Violation, verify};
use thiserror::Error;

/// A reason why there are no routes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RouteError {
    /// ECMP was asked for and cannot be symmetric here.
    #[error("ECMP is not symmetric on this topology, use trees: {0}")]
    NotSymmetric(Box<Violation>),
}

/// Computes the routes of a fabric.
///
/// # Errors
///
/// [`RoutingMethod::Ecmp`] was asked for and is not symmetric on this topology. The other methods always succeed.
pub fn routes(topology: &Topology, method: RoutingMethod) -> Result<Routes, RouteError> {
    compute(topology, method, None)
}

/// Computes the routes of a fabric after some of its links have failed or returned. `now` are the routes that
/// its switches hold: if these are trees, their number stays, since it is written into every switch's hash.
///
/// # Errors
///
/// As [`routes`].
pub fn reroute(topology: &Topology, method: RoutingMethod, now: &Routes) -> Result<Routes, RouteError> {
    compute(topology, method, (now.method == RoutingMethod::Trees).then(|| now.trees()))
}

fn compute(topology: &Topology, method: RoutingMethod, trees: Option<usize>) -> Result<Routes, RouteError> {
    let mut routes = unicast(topology, method, trees)?;
    flood::set_tree(topology, trees::spanning_tree(topology), &mut routes.switches);
    Ok(routes)
}

fn unicast(topology: &Topology, method: RoutingMethod, trees: Option<usize>) -> Result<Routes, RouteError> {
    if method == RoutingMethod::Trees {
        return Ok(trees::routes(topology, trees));
    }
    let ecmp = ecmp::routes(topology);
    match verify(topology, &ecmp) {
        Ok(_) => Ok(ecmp),
        Err(_) if method == RoutingMethod::Auto => Ok(trees::routes(topology, trees)),
        Err(mut violations) => Err(RouteError::NotSymmetric(Box::new(violations.swap_remove(0)))),
    }
}

/// Gives every host its `deliver` route on its own switch, common to both methods.
fn deliver_locally(topology: &Topology) -> Vec<SwitchRoutes> {
    let mut switches = vec![SwitchRoutes::default(); topology.switches.len()];
    for host in &topology.hosts {
        let hop = NextHop::Deliver { port: host.switch_port, mac: host.mac };
        switches[host.switch.0 as usize].forward.insert(Prefix::host(host.ip), hop);
    }
    switches
}

/// Returns the switches that have hosts, with their prefix, or where there is none, with each of their hosts.
fn racks(topology: &Topology) -> impl Iterator<Item = (SwitchIx, Prefix)> + '_ {
    topology.switch_ixs().flat_map(|ix| {
        let switch = topology.switch(ix);
        let hosts = switch.hosts.iter().filter(|_| switch.rack.is_none());
        let hosts = hosts.map(|&host| Prefix::host(topology.host(host).ip));
        switch.rack.into_iter().chain(hosts).map(move |prefix| (ix, prefix))
    })
}
