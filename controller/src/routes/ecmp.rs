//! Symmetric ECMP: equal-cost groups with ordered members.
//!
//! Members are ordered by the index of their switch, and parallel links by link index. In a Clos fabric whose tiers
//! are numbered consistently (every kind in `topology::kinds`), the n-th member leads into the same plane from every
//! switch, so that both directions of a flow select the same switches. Other graphs may not have this property;
//! therefore [`super::routes`] verifies the result with [`crate::verify`].

use super::racks::{deliver_locally, racks};
use crate::hash::CRC_32;
use crate::route_table::{NextHop, Routes, RoutingMethod};
use crate::topology::{Neighbour, SwitchIx, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Shift of the path hash per tier: half of the hash. With 8 bits three tiers would have a slice, but flows with
/// consecutive source ports, which are common, would concentrate on some members (see the tests of `crate::hash`).
const SLICE_BITS: u8 = 16;
/// Last slice: with fewer than 16 bits left, CRC-16 no longer reaches every member. Two tiers therefore have slices of
/// their own; in a fat-tree no more than two tiers select.
const MAX_SLICE: u8 = 16;

pub(super) fn routes(topology: &Topology) -> Routes {
    let mut switches = deliver_locally(topology);
    let neighbours_of: Vec<Vec<Neighbour>> =
        topology.switch_ixs().map(|ix| ordered_neighbours(topology, ix)).collect();
    for (rack, prefix) in racks(topology) {
        let distance = distances(topology, &neighbours_of, rack);
        for ix in topology.switch_ixs().filter(|&ix| ix != rack) {
            let i = ix.0 as usize;
            let Some(shortest) = distance[i] else { continue };
            let through =
                |n: &Neighbour| Some(distance[n.switch.0 as usize]? + cost(topology, n.switch, rack));
            let members: Vec<&Neighbour> =
                neighbours_of[i].iter().filter(|n| through(n) == Some(shortest)).collect();
            let hop = if let [only] = members[..] {
                NextHop::Via { port: only.port }
            } else {
                let slice = slice(topology, ix, &members);
                let ports: Vec<u16> = members.iter().map(|n| n.port).collect();
                let size = ports.len() as u16;
                let group = group_id(&switches[i].groups, &ports);
                switches[i].groups.insert(group, ports);
                NextHop::Ecmp { group, size, slice }
            };
            switches[i].forward.insert(prefix, hop);
        }
    }
    Routes { method: RoutingMethod::Ecmp, switches }
}

/// Derives the id of a group from its ports. All prefixes behind the same ports share a group, and an id does not
/// change its meaning when routes change while packets in flight are still assigned to it.
fn group_id(groups: &BTreeMap<u16, Vec<u16>>, ports: &[u16]) -> u16 {
    let bytes: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    let crc = CRC_32.checksum(&bytes);
    let mut id = (crc ^ (crc >> u16::BITS)) as u16;
    // On a CRC collision, probe for a free id; a switch has far fewer groups than there are ids.
    while groups.get(&id).is_some_and(|other| other != ports) {
        id = id.wrapping_add(1);
    }
    id
}

fn ordered_neighbours(topology: &Topology, ix: SwitchIx) -> Vec<Neighbour> {
    let mut all: Vec<Neighbour> = topology.neighbours(ix).collect();
    all.sort_by_key(|n| (n.switch, n.link));
    all
}

/// Cost of a hop to switch `to` on a path to `rack`. A path through a switch to be avoided costs more than any other
/// path. The cost of a path is equal in both directions.
fn cost(topology: &Topology, to: SwitchIx, rack: SwitchIx) -> u64 {
    let is_detour = topology.switch(to).is_avoided && to != rack;
    1 + u64::from(is_detour) * topology.switches.len() as u64
}

/// Returns the cost of the path from every switch to `rack`; `None` if there is no path.
fn distances(topology: &Topology, neighbours_of: &[Vec<Neighbour>], rack: SwitchIx) -> Vec<Option<u64>> {
    let mut distance = vec![None; neighbours_of.len()];
    let mut queue = BTreeSet::from([(0, rack)]);
    while let Some((cost_here, here)) = queue.pop_first() {
        let known = &mut distance[here.0 as usize];
        if known.is_some() {
            continue;
        }
        *known = Some(cost_here);
        let next = cost_here + cost(topology, here, rack);
        let unknown =
            neighbours_of[here.0 as usize].iter().filter(|n| distance[n.switch.0 as usize].is_none());
        queue.extend(unknown.map(|n| (next, n.switch)));
    }
    distance
}

/// Returns the slice of the path hash for a group. It depends on the lower tier of its links, so that parallel links
/// between two tiers are selected by the same bits in both directions.
fn slice(topology: &Topology, ix: SwitchIx, members: &[&Neighbour]) -> u8 {
    let here = topology.switch(ix).tier;
    let lowest = members.iter().map(|n| topology.switch(n.switch).tier).fold(here, u8::min);
    lowest.saturating_mul(SLICE_BITS).min(MAX_SLICE)
}
