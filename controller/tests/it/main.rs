//! Topologies, routes, plans and what follows from them, without a switch.

mod channels;
mod common;
mod flood;
mod import;
mod plan;
mod reconcile;
mod routes;
mod tofino;
mod topology;
