//! Topologies, routes, proofs and plans, without switches.

mod channels;
mod common;
mod flood;
mod import;
mod plan;
mod reconcile;
mod routes;
mod tofino;
mod topology;
