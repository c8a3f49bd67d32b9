//! The proof that a fabric's routes are right, for every pair of hosts and every hash value:
//!
//! - every packet arrives at its host, with the host's MAC: no black hole, no loop;
//! - a packet and its ACK pass the same links in opposite order. FNCC needs that (an ACK carries the
//!   record of the port it came in by), and so does comparing `path_id`s.
//!
//! Hosts are taken by class and hashes by residue (`crate::residue`), so nothing is sampled: what
//! is proved is proved for all 2^32 hashes.

use crate::compiled::{CompiledRoutes, ForwardingDecision};
use crate::hash::PathHash;
use crate::path::walk::{WalkedPath, for_each_path};
use crate::path::{PathError, PathHop};
use crate::residue::HashConstraints;
use crate::route_table::Routes;
use crate::topology::{HostIx, Topology};
use thiserror::Error;

/// Number of violations after which the search ends.
pub const MAX_VIOLATIONS: usize = 100;

/// The result of the proof, and its extent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Ordered pairs of different hosts that can reach each other: all, while all links are up.
    pub pairs: u64,
    /// Ordered pairs of hosts whom failed links part.
    pub partitioned_pairs: u64,
    /// Unordered pairs of host classes on different switches that stand for them.
    pub class_pairs: u64,
    /// Paths walked there and back, one for each class of hashes.
    pub paths: u64,
    /// Most paths between one pair.
    pub max_paths_per_pair: u64,
    /// Switches on the longest path. Telemetry records the first eight.
    pub max_path_len: usize,
}

/// A pair of hosts and a hash for which the routes are wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{src} to {dst}{}: {fault}", hash.map(|h| format!(", path hash {:#010x}", h.0)).unwrap_or_default())]
pub struct Violation {
    /// Name of the source host.
    pub src: String,
    /// Name of the destination host.
    pub dst: String,
    /// A hash that shows it; `None` if none was found within reason, or if any does.
    pub hash: Option<PathHash>,
    /// The error.
    pub fault: RouteFault,
}

/// An error in the routes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RouteFault {
    /// The packet does not arrive.
    #[error("lost after {}: {lost}", path.join(" "))]
    Undelivered {
        /// Names of the switches passed.
        path: Vec<String>,
        /// The reason why it ends.
        lost: PathError,
    },
    /// The destination's own switch does not hand it over.
    #[error("{0} does not deliver to it")]
    NoLocalDelivery(String),
    /// The ACK takes another path.
    #[error(
        "data uses the path {}, but its ACK leaves that path at {at} by port {}, not {port}",
        path.join(" "), back_port.map_or("none".into(), |p| p.to_string())
    )]
    Asymmetric {
        /// Names of the switches that the data passes.
        path: Vec<String>,
        /// The switch at which the ACK leaves the path.
        at: String,
        /// The port by which the data came in.
        port: u16,
        /// The port by which the ACK leaves.
        back_port: Option<u16>,
    },
}

/// Proves that every pair of hosts on one island is connected, without loops, and that each ACK returns on
/// the path of its data, for every hash.
///
/// # Errors
///
/// The violations found, at least one; the search ends after a fixed number of them.
pub fn verify(topology: &Topology, routes: &Routes) -> Result<Proof, Vec<Violation>> {
    let compiled = CompiledRoutes::new(topology, routes);
    let check = Verifier { topology, compiled: &compiled };
    let mut violations = check.check_local_delivery();
    let hosts = topology.hosts.len() as u64;
    let mut proof = Proof { pairs: hosts * hosts.saturating_sub(1), ..Proof::default() };
    let islands = topology.islands();
    let island = |class: usize| islands[compiled.classes[class].switch.0 as usize];
    // A pair of classes is walked in one direction only: for each hash, the return path is the same or a violation.
    for a in 0..compiled.classes.len() {
        for b in a + 1..compiled.classes.len() {
            if compiled.classes[a].switch == compiled.classes[b].switch {
                continue;
            }
            if island(a) != island(b) {
                proof.partitioned_pairs +=
                    2 * (compiled.classes[a].hosts.len() * compiled.classes[b].hosts.len()) as u64;
                continue;
            }
            let mut paths = 0;
            for_each_path(topology, &compiled, a, b, &mut |path| {
                paths += 1;
                proof.max_path_len = proof.max_path_len.max(path.hops.len());
                violations.extend(check.path(a, b, path));
                violations.len() < MAX_VIOLATIONS
            });
            proof.class_pairs += 1;
            proof.paths += paths;
            proof.max_paths_per_pair = proof.max_paths_per_pair.max(paths);
            if violations.len() >= MAX_VIOLATIONS {
                return Err(violations);
            }
        }
    }
    proof.pairs -= proof.partitioned_pairs;
    // Pairs on one switch only meet that switch.
    (proof.max_path_len, proof.max_paths_per_pair) =
        (proof.max_path_len.max(1), proof.max_paths_per_pair.max(1));
    if violations.is_empty() { Ok(proof) } else { Err(violations) }
}

struct Verifier<'a> {
    topology: &'a Topology,
    compiled: &'a CompiledRoutes,
}

impl Verifier<'_> {
    /// Every host's switch hands it its packets, with its MAC.
    fn check_local_delivery(&self) -> Vec<Violation> {
        let undelivered = self.topology.host_ixs().filter(|&host| {
            let it = self.topology.host(host);
            self.compiled.local[host.0 as usize] != ForwardingDecision::Port(it.switch_port, Some(it.mac))
        });
        let other = |host: HostIx| if host == HostIx(0) { HostIx(1) } else { HostIx(0) };
        undelivered
            .filter(|_| self.topology.hosts.len() > 1)
            .take(MAX_VIOLATIONS)
            .map(|host| {
                let switch = self.topology.switch(self.topology.host(host).switch);
                self.violation(other(host), host, None, RouteFault::NoLocalDelivery(switch.name.clone()))
            })
            .collect()
    }

    /// One path from class `a` to class `b`, and the return paths of all hashes that take it.
    fn path(&self, a: usize, b: usize, path: WalkedPath<'_>) -> Option<Violation> {
        let (src, dst) = (self.compiled.classes[a].hosts[0], self.compiled.classes[b].hosts[0]);
        if let Err(lost) = path.end {
            let fault = RouteFault::Undelivered { path: self.names(path.hops), lost };
            return Some(self.violation(src, dst, path.residues.witness(), fault));
        }
        // From the far end; the nearest switch delivers, which `check_local_delivery` has checked.
        path.hops.iter().skip(1).rev().find_map(|hop| {
            let (back_port, residues) = self.find_asymmetry(hop, a, path.residues)?;
            let at = self.topology.switch(hop.switch).name.clone();
            let fault =
                RouteFault::Asymmetric { path: self.names(path.hops), at, port: hop.in_port, back_port };
            Some(self.violation(src, dst, residues.witness(), fault))
        })
    }

    /// Returns a hop of the data's path that the ACK may leave by another port than the one by which the data arrived,
    /// and the hashes for which it does.
    fn find_asymmetry(
        &self,
        hop: &PathHop,
        back_to: usize,
        residues: &HashConstraints,
    ) -> Option<(Option<u16>, HashConstraints)> {
        match self.compiled.decision(hop.switch, back_to) {
            ForwardingDecision::NoRoute => Some((None, residues.clone())),
            &ForwardingDecision::Port(port, _) => {
                (port != hop.in_port).then(|| (Some(port), residues.clone()))
            }
            ForwardingDecision::Select(selector, ports) => {
                let size = ports.len() as u64;
                let wrong = |&index: &usize| ports[index] != Some(hop.in_port);
                let index = residues.indices(*selector, size).find(wrong)?;
                let (_, residues) = residues.choices(*selector, size).find(|(i, _)| *i == index)?;
                Some((ports[index], residues))
            }
        }
    }

    fn names(&self, hops: &[PathHop]) -> Vec<String> {
        hops.iter().map(|hop| self.topology.switch(hop.switch).name.clone()).collect()
    }

    fn violation(&self, src: HostIx, dst: HostIx, hash: Option<PathHash>, fault: RouteFault) -> Violation {
        let name = |host| self.topology.host(host).name.clone();
        Violation { src: name(src), dst: name(dst), hash, fault }
    }
}
