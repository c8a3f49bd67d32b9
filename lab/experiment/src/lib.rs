//! Experiments: experiment files and results, independent of the [`Backend`] that runs them.
//!
//! - [`file`](mod@file): reads, checks and resolves experiment files. [`yaml`] locates errors in them; [`Catalogue`] has the
//!   schemes, workloads and topologies that they can use.
//! - [`workload`]: sources that generate flows during a run.
//! - [`artifacts`]: compiled P4 programs. [`hosts`]: the configuration of hosts. [`plan`]: table entries that the controller
//!   writes for an experiment; [`port_parameters`]: the entries of ports, from the parameters of a scheme.
//! - [`backend`]: the interface of the engines that run experiments.
//! - [`results`]: the results of a run. Each metric has one definition for all backends: [`observations`] computes the
//!   summary from what a backend observed, with [`fct`], [`fct_statistics`], [`histogram`], [`layers`], [`slowdown`], [`counts`], [`paths`].
//! - [`input`]: reads files that users specify. [`rng`]: independent random number streams for the parts of a run.
//!
//! This crate does not run experiments, does not print, and does not write files.

pub mod artifacts;
pub mod backend;
pub mod catalogue;
pub mod classes;
pub mod counts;
pub mod fct;
pub mod fct_statistics;
pub mod file;
pub mod histogram;
pub mod hosts;
pub mod input;
pub mod layers;
pub mod observations;
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
mod yaml_path;
mod yaml_syntax;

pub use backend::{Backend, LinkChange, Observer, Progress, RunOutcome};
pub use catalogue::Catalogue;
pub use file::{Experiment, ExperimentError, Flow, Scheme, SchemeEntry};
/// Used by workloads and topologies of other crates to derive `JsonSchema`.
pub use schemars;
pub use weir_host::suggest;
