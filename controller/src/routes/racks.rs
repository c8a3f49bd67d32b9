//! Racks (switches with hosts), which are the destinations of routes between switches, and the routes to the hosts of a
//! switch.

use crate::route_table::{NextHop, SwitchRoutes};
use crate::topology::{Prefix, SwitchIx, Topology};

/// Adds the `deliver` route of every host on its own switch, which both methods share.
pub(super) fn deliver_locally(topology: &Topology) -> Vec<SwitchRoutes> {
    let mut switches = vec![SwitchRoutes::default(); topology.switches.len()];
    for host in &topology.hosts {
        let hop = NextHop::Deliver { port: host.switch_port, mac: host.mac };
        switches[host.switch.0 as usize].forward.insert(Prefix::host(host.ip), hop);
    }
    switches
}

/// Returns each switch with hosts together with the prefix of its rack. A switch without a prefix, because addresses
/// are given, is returned once for each of its hosts, with the address of the host.
pub(super) fn racks(topology: &Topology) -> impl Iterator<Item = (SwitchIx, Prefix)> + '_ {
    topology.switch_ixs().flat_map(|ix| {
        let switch = topology.switch(ix);
        let hosts = switch.hosts.iter().filter(|_| switch.rack.is_none());
        let hosts = hosts.map(|&host| Prefix::host(topology.host(host).ip));
        switch.rack.into_iter().chain(hosts).map(move |prefix| (ix, prefix))
    })
}
