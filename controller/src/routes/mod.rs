//! Computes routes: symmetric ECMP or spanning trees (FNCC §3.1, observation 2).
//!
//! [`Routes`] is the exact content of each switch's route tables. [`mod@crate::verify`] checks it, and
//! [`mod@crate::plan`] converts it to table entries.

mod ecmp;
mod trees;

use crate::flood;
pub use crate::route_table::{NextHop, Routes, RoutingMethod, SwitchRoutes};
use crate::topology::{Prefix, SwitchIx, Topology};
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

/// Computes the routes of a fabric after links failed or returned. `now` are the routes that the switches hold. If
/// these are trees, the number of trees is kept, since every switch computes the hash modulo this number.
///
/// # Errors
///
/// See [`routes`].
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

/// Adds the `deliver` route of every host on its own switch, which both methods share.
fn deliver_locally(topology: &Topology) -> Vec<SwitchRoutes> {
    let mut switches = vec![SwitchRoutes::default(); topology.switches.len()];
    for host in &topology.hosts {
        let hop = NextHop::Deliver { port: host.switch_port, mac: host.mac };
        switches[host.switch.0 as usize].forward.insert(Prefix::host(host.ip), hop);
    }
    switches
}

/// Returns the switches with hosts and the rack prefix of each; without a rack prefix, the addresses of its hosts.
fn racks(topology: &Topology) -> impl Iterator<Item = (SwitchIx, Prefix)> + '_ {
    topology.switch_ixs().flat_map(|ix| {
        let switch = topology.switch(ix);
        let hosts = switch.hosts.iter().filter(|_| switch.rack.is_none());
        let hosts = hosts.map(|&host| Prefix::host(topology.host(host).ip));
        switch.rack.into_iter().chain(hosts).map(move |prefix| (ix, prefix))
    })
}
