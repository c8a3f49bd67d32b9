//! Runs an experiment in virtual time: every scheme on a fabric of its own, with the same flows and the same seed.

mod flow_schedule;
mod scheme_run;
mod simulation;
mod summary;

pub use simulation::{Simulation, run, run_on};
