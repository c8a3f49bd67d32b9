//! The fabric: hosts, switches and the links between them.
//!
//! [`TopologySpec`] is the description in an experiment file. [`build`] checks it and returns a [`Topology`] with all
//! names, ports and addresses assigned. The same specification always gives the same topology.
//!
//! - Hosts are `h1, h2, ..` and switches `s1, s2, ..` (custom topologies have their own names).
//! - The ports of a switch are numbered from 1 in the order in which links are listed, skipping [`CPU_PORT`]. A host
//!   has one port, 0.
//! - The id of the n-th switch, which it XORs into `path_id`, is n.
//! - Addresses are assigned by rack; see [`Prefix`] and `docs/routing.md`.

mod build;
mod degraded;
mod error;
mod graph;
mod kinds;
mod limits;
mod mac;
mod prefix;
mod random_graph;
mod spec;
mod text;

pub use build::{build, build_parts};
pub use error::{Location, TopologyError, TopologyProblem};
pub use graph::{Endpoint, Host, HostIx, Link, LinkIx, Neighbour, Node, Switch, SwitchIx, Topology};
pub use limits::{CPU_PORT, HOST_PORT, MAX_PORTS, MAX_SWITCHES};
pub use mac::Mac;
pub use prefix::Prefix;
pub use spec::{
    AddressSpec, Butterfly, Custom, Dragonfly, Dumbbell, FatTree, Jellyfish, LeafSpine, LinkSpec, ParkingLot,
    Star, TopologyFile, TopologySpec,
};
pub use text::AsText;
