//! Experiments: what a file asks for, and what a run of it measures, whatever [`Backend`] runs it.
//!
//! - [`file`](mod@file): reads, checks and resolves an experiment file; [`yaml`] says where in it an error is, and
//!   [`Catalogue`] has the names that it can use.
//! - [`workload`]: the flows that nobody lists, made as time goes on.
//! - [`artifacts`]: compiled P4 programs. [`hosts`]: the configuration of hosts. [`plan`]: the table entries that the controller writes for an experiment;
//!   [`port_parameters`]: those of ports, from a scheme's parameters.
//! - [`backend`]: a world in which experiments run.
//! - [`results`]: what it measures. Each metric has one definition for all backends: [`fct`], [`histogram`],
//!   [`layers`], [`slowdown`], [`counts`], [`paths`].
//! - [`input`]: reads the files that users name. [`rng`]: the random stream of each part of a run.
//!
//! This crate runs nothing, and neither prints nor writes files.

pub mod artifacts;
pub mod backend;
pub mod catalogue;
pub mod classes;
pub mod counts;
pub mod fct;
pub mod file;
pub mod histogram;
pub mod hosts;
pub mod input;
pub mod layers;
pub mod paths;
pub mod plan;
pub mod port_parameters;
pub mod results;
pub mod rng;
mod scalar;
mod schema;
pub mod slowdown;
pub mod topologies;
pub mod workload;
pub mod yaml;

pub use backend::{Backend, LinkChange, Observer, Progress, RunOutcome};
pub use catalogue::Catalogue;
pub use file::{Experiment, ExperimentError, Flow, Scheme};
/// For the schemas of the keys of own workloads and topologies.
pub use schemars;
