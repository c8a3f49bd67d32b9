//! Enumerates all paths between two classes of hosts, with the path hashes that select each.

use super::{PathError, PathHop};
use crate::compiled::{CompiledRoutes, ForwardingDecision};
use crate::residue::HashConstraints;
use crate::topology::{HOST_PORT, Node, SwitchIx, Topology};

/// A path that the tables allow. `hops` leads from the switch of one class to that of the other; `in_port` of the first
/// hop and `out_port` of the last hop belong to hosts and have no meaning.
pub(crate) struct WalkedPath<'a> {
    pub hops: &'a [PathHop],
    /// Constraints on the path hashes that select this path.
    pub constraints: &'a HashConstraints,
    /// `Err` if the packet does not reach the destination.
    pub end: Result<(), PathError>,
}

/// Calls `visit` with every path from class `from` to class `to`, until `visit` returns `false`. Returns the last
/// result.
pub(crate) fn for_each_path(
    topology: &Topology,
    compiled: &CompiledRoutes,
    from: usize,
    to: usize,
    visit: &mut impl FnMut(WalkedPath<'_>) -> bool,
) -> bool {
    let mut walk = PathWalk { topology, compiled, to, hops: Vec::new() };
    walk.arrive(compiled.classes[from].switch, HOST_PORT, &HashConstraints::default(), visit)
}

struct PathWalk<'a> {
    topology: &'a Topology,
    compiled: &'a CompiledRoutes,
    /// Class of hosts to which the paths lead.
    to: usize,
    /// Hops so far.
    hops: Vec<PathHop>,
}

impl PathWalk<'_> {
    /// Continues at a switch at which the packet has arrived.
    fn arrive(
        &mut self,
        switch: SwitchIx,
        in_port: u16,
        constraints: &HashConstraints,
        visit: &mut impl FnMut(WalkedPath<'_>) -> bool,
    ) -> bool {
        // `leave` sets the egress port; on the last hop it has no meaning.
        let here = PathHop { switch, in_port, out_port: 0 };
        let name = || self.topology.switch(switch).name.clone();
        if self.hops.iter().any(|hop| hop.switch == switch) {
            let end = Err(PathError::Loop(name()));
            return self.report(here, constraints, end, visit);
        }
        if switch == self.compiled.classes[self.to].switch {
            return self.report(here, constraints, Ok(()), visit);
        }
        let compiled = self.compiled;
        match compiled.decision(switch, self.to) {
            ForwardingDecision::NoRoute => {
                let end = Err(PathError::NoRoute(name()));
                self.report(here, constraints, end, visit)
            }
            &ForwardingDecision::Port { port, .. } => self.leave(here, port, constraints, visit),
            ForwardingDecision::Select { selector, ports } => {
                constraints.choices(*selector, ports.len() as u64).all(|(index, rest)| match ports[index] {
                    Some(port) => self.leave(here, port, &rest, visit),
                    None => {
                        let end = Err(PathError::NoRoute(self.topology.switch(switch).name.clone()));
                        self.report(here, &rest, end, visit)
                    }
                })
            }
        }
    }

    /// Continues on the link at `out_port`.
    fn leave(
        &mut self,
        here: PathHop,
        out_port: u16,
        constraints: &HashConstraints,
        visit: &mut impl FnMut(WalkedPath<'_>) -> bool,
    ) -> bool {
        let here = PathHop { out_port, ..here };
        match self.topology.peer(here.switch, out_port) {
            Some((_, end)) if let Node::Switch(next) = end.node => {
                self.hops.push(here);
                let is_continued = self.arrive(next, end.port, constraints, visit);
                self.hops.pop();
                is_continued
            }
            _ => {
                let switch = self.topology.switch(here.switch).name.clone();
                self.report(here, constraints, Err(PathError::WrongPort { switch, port: out_port }), visit)
            }
        }
    }

    /// Passes the path with the last hop to `visit`.
    fn report(
        &mut self,
        last: PathHop,
        constraints: &HashConstraints,
        end: Result<(), PathError>,
        visit: &mut impl FnMut(WalkedPath<'_>) -> bool,
    ) -> bool {
        self.hops.push(last);
        let is_continued = visit(WalkedPath { hops: &self.hops, constraints, end });
        self.hops.pop();
        is_continued
    }
}
