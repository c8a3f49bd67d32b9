//! Proves that the routes of a fabric are correct, for every pair of hosts and every path hash:
//!
//! - Every packet is delivered to its host with the host's MAC: there are no black holes and no loops.
//! - A packet and its ACK pass the same links in opposite order. FNCC requires this, since an ACK carries the telemetry
//!   of the port by which it arrived, and so does the comparison of `path_id`s.
//!
//! Hosts that all other switches treat alike form a class (`crate::compiled`), and so do hashes for which all switches
//! make the same choices (`crate::residue`). The proof checks one host and one hash of each class, and so covers all
//! 2^32 hashes without sampling.

use crate::compiled::{CompiledRoutes, ForwardingDecision};
use crate::hash::PathHash;
use crate::path::walk::{WalkedPath, for_each_path};
use crate::path::{PathError, PathHop};
use crate::residue::HashConstraints;
use crate::route_table::Routes;
use crate::topology::{HostIx, Topology};
use thiserror::Error;

/// Number of violations after which the search stops: enough for a user to see the pattern.
pub const MAX_VIOLATIONS: usize = 100;

/// Size of a successful proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Ordered pairs of distinct hosts that can reach each other; all pairs, while all links are up.
    pub pairs: u64,
    /// Ordered pairs of hosts that are disconnected by failed links.
    pub partitioned_pairs: u64,
    /// Unordered pairs of host classes on different switches that were checked.
    pub class_pairs: u64,
    /// Paths walked in both directions, one for each class of hashes.
    pub paths: u64,
    /// Maximum number of paths between two host classes.
    pub max_paths_per_pair: u64,
    /// Number of switches on the longest path. Telemetry records the first eight.
    pub max_path_len: usize,
}

/// A pair of hosts and a hash for which the routes are wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{src} to {dst}{}: {fault}", hash.map(|h| format!(", path hash {:#010x}", h.0)).unwrap_or_default())]
pub struct Violation {
    pub src: String,
    pub dst: String,
    /// A hash that shows the fault; `None` if the fault does not depend on the hash, or none was found.
    pub hash: Option<PathHash>,
    pub fault: RouteFault,
}

/// What is wrong with the routes of a pair.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RouteFault {
    #[error("lost after {}: {error}", path.join(" "))]
    Undelivered {
        /// Names of the switches on the path.
        path: Vec<String>,
        error: PathError,
    },
    /// The switch of the destination does not deliver packets to it.
    #[error("{0} does not deliver to it")]
    NoLocalDelivery(String),
    /// The ACK takes another path than its data.
    #[error(
        "data uses the path {}, but its ACK leaves that path at {at} by port {}, not {port}",
        path.join(" "), back_port.map_or("none".into(), |p| p.to_string())
    )]
    Asymmetric {
        /// Names of the switches on the path of the data.
        path: Vec<String>,
        /// Switch at which the ACK leaves the path.
        at: String,
        /// Port by which the data arrived.
        port: u16,
        /// Port by which the ACK leaves; `None` if it is dropped.
        back_port: Option<u16>,
    },
}

/// Proves that all hosts of each connected component reach each other without loops, and that each ACK returns on the
/// path of its data, for every hash.
///
/// # Errors
///
/// Returns the violations, at least one. The search stops after [`MAX_VIOLATIONS`].
pub fn verify(topology: &Topology, routes: &Routes) -> Result<Proof, Vec<Violation>> {
    let compiled = CompiledRoutes::new(topology, routes);
    let verifier = Verifier { topology, compiled: &compiled };
    let mut violations = verifier.check_local_delivery();
    let hosts = topology.hosts.len() as u64;
    let mut proof = Proof { pairs: hosts * hosts.saturating_sub(1), ..Proof::default() };
    let components = topology.components();
    let component = |class: usize| components[compiled.classes[class].switch.0 as usize];
    // One direction per pair suffices: `check_path` also follows the return path of each hash.
    for a in 0..compiled.classes.len() {
        for b in a + 1..compiled.classes.len() {
            if compiled.classes[a].switch == compiled.classes[b].switch {
                continue;
            }
            if component(a) != component(b) {
                proof.partitioned_pairs +=
                    2 * (compiled.classes[a].hosts.len() * compiled.classes[b].hosts.len()) as u64;
                continue;
            }
            let mut paths = 0;
            for_each_path(topology, &compiled, a, b, &mut |path| {
                paths += 1;
                proof.max_path_len = proof.max_path_len.max(path.hops.len());
                violations.extend(verifier.check_path(a, b, path));
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
    // Pairs on the same switch have a path of one switch.
    (proof.max_path_len, proof.max_paths_per_pair) =
        (proof.max_path_len.max(1), proof.max_paths_per_pair.max(1));
    if violations.is_empty() { Ok(proof) } else { Err(violations) }
}

struct Verifier<'a> {
    topology: &'a Topology,
    compiled: &'a CompiledRoutes,
}

impl Verifier<'_> {
    /// Checks that every host's switch delivers packets to it with its MAC.
    fn check_local_delivery(&self) -> Vec<Violation> {
        let undelivered = self.topology.host_ixs().filter(|&host| {
            let decision = &self.compiled.local[host.0 as usize];
            let host = self.topology.host(host);
            *decision != ForwardingDecision::Port { port: host.switch_port, dst_mac: Some(host.mac) }
        });
        // A violation names a pair of hosts; any other host serves as the source.
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

    /// Checks one path from class `a` to class `b`, and the return paths of all hashes that take it.
    fn check_path(&self, a: usize, b: usize, path: WalkedPath<'_>) -> Option<Violation> {
        let (src, dst) = (self.compiled.classes[a].hosts[0], self.compiled.classes[b].hosts[0]);
        if let Err(error) = path.end {
            let fault = RouteFault::Undelivered { path: self.names(path.hops), error };
            return Some(self.violation(src, dst, path.constraints.witness(), fault));
        }
        // Walk back from the destination. The first switch delivers to the source, which `check_local_delivery` has
        // checked.
        path.hops.iter().skip(1).rev().find_map(|hop| {
            let (back_port, constraints) = self.find_asymmetry(hop, a, path.constraints)?;
            let at = self.topology.switch(hop.switch).name.clone();
            let fault =
                RouteFault::Asymmetric { path: self.names(path.hops), at, port: hop.in_port, back_port };
            Some(self.violation(src, dst, constraints.witness(), fault))
        })
    }

    /// Checks whether an ACK to class `source` leaves `hop` by the port by which the data arrived. If not, returns the
    /// port that the ACK takes, `None` if it is dropped, and the hashes for which it does.
    fn find_asymmetry(
        &self,
        hop: &PathHop,
        source: usize,
        constraints: &HashConstraints,
    ) -> Option<(Option<u16>, HashConstraints)> {
        match self.compiled.decision(hop.switch, source) {
            ForwardingDecision::NoRoute => Some((None, constraints.clone())),
            &ForwardingDecision::Port { port, .. } => {
                (port != hop.in_port).then(|| (Some(port), constraints.clone()))
            }
            ForwardingDecision::Select { selector, ports } => {
                let size = ports.len() as u64;
                let is_wrong = |&index: &usize| ports[index] != Some(hop.in_port);
                let index = constraints.indices(*selector, size).find(is_wrong)?;
                let (_, constraints) = constraints.choices(*selector, size).find(|(i, _)| *i == index)?;
                Some((ports[index], constraints))
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
