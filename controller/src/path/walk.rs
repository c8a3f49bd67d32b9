//! Enumerates all paths between two classes of hosts, with the path hashes that select each.

use super::{PathError, PathHop};
use crate::compiled::{CompiledRoutes, ForwardingDecision};
use crate::residue::HashConstraints;
use crate::topology::{HOST_PORT, Node, SwitchIx, Topology};

/// A path that the tables allow. `hops` leads from the switch of one class to that of the other; `in_port` of the first
/// hop and `out_port` of the last hop belong to hosts and have no meaning.
pub struct WalkedPath<'a> {
    pub hops: &'a [PathHop],
    /// Constraints on the path hashes that select this path.
    pub residues: &'a HashConstraints,
    /// `Err` if the packet does not reach the destination.
    pub end: Result<(), PathError>,
}

/// Calls `visit` with every path from class `from` to class `to`, until `visit` returns `false`. Returns the last
/// result.
pub fn for_each_path(
    topology: &Topology,
    compiled: &CompiledRoutes,
    from: usize,
    to: usize,
    visit: &mut impl FnMut(WalkedPath<'_>) -> bool,
) -> bool {
    let mut walk = Walk { topology, compiled, to, hops: Vec::new() };
    walk.step(compiled.classes[from].switch, HOST_PORT, &HashConstraints::default(), visit)
}

struct Walk<'a> {
    topology: &'a Topology,
    compiled: &'a CompiledRoutes,
    to: usize,
    hops: Vec<PathHop>,
}

impl Walk<'_> {
    fn step(
        &mut self,
        at: SwitchIx,
        in_port: u16,
        residues: &HashConstraints,
        visit: &mut impl FnMut(WalkedPath<'_>) -> bool,
    ) -> bool {
        let here = PathHop { switch: at, in_port, out_port: 0 };
        let name = || self.topology.switch(at).name.clone();
        if self.hops.iter().any(|hop| hop.switch == at) {
            let end = Err(PathError::Loop(name()));
            return self.report(here, residues, end, visit);
        }
        if at == self.compiled.classes[self.to].switch {
            return self.report(here, residues, Ok(()), visit);
        }
        let compiled = self.compiled;
        match compiled.decision(at, self.to) {
            ForwardingDecision::NoRoute => {
                let end = Err(PathError::NoRoute(name()));
                self.report(here, residues, end, visit)
            }
            &ForwardingDecision::Port(port, _) => self.leave(here, port, residues, visit),
            ForwardingDecision::Select(selector, ports) => {
                residues.choices(*selector, ports.len() as u64).all(|(index, rest)| match ports[index] {
                    Some(port) => self.leave(here, port, &rest, visit),
                    None => {
                        let end = Err(PathError::NoRoute(self.topology.switch(at).name.clone()));
                        self.report(here, &rest, end, visit)
                    }
                })
            }
        }
    }

    fn leave(
        &mut self,
        here: PathHop,
        out_port: u16,
        residues: &HashConstraints,
        visit: &mut impl FnMut(WalkedPath<'_>) -> bool,
    ) -> bool {
        let here = PathHop { out_port, ..here };
        match self.topology.peer(here.switch, out_port) {
            Some((_, end)) if let Node::Switch(next) = end.node => {
                self.hops.push(here);
                let go_on = self.step(next, end.port, residues, visit);
                self.hops.pop();
                go_on
            }
            _ => {
                let switch = self.topology.switch(here.switch).name.clone();
                self.report(here, residues, Err(PathError::WrongPort { switch, port: out_port }), visit)
            }
        }
    }

    fn report(
        &mut self,
        last: PathHop,
        residues: &HashConstraints,
        end: Result<(), PathError>,
        visit: &mut impl FnMut(WalkedPath<'_>) -> bool,
    ) -> bool {
        self.hops.push(last);
        let go_on = visit(WalkedPath { hops: &self.hops, residues, end });
        self.hops.pop();
        go_on
    }
}
