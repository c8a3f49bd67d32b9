//! Parameter sweeps ([`Sweep`]): many runs of one experiment with varied keys and seeds ([`grid`]), on all cores
//! ([`pool`]) or on other machines ([`engine`], [`slurm`]), in one directory ([`dir`](mod@dir)). An interrupted sweep
//! can be continued. The results are means with confidence intervals ([`stats`], [`measure`], [`table`], [`page`]), and the completion times
//! of all runs in one table ([`fct`]).

pub mod dir;
pub mod engine;
pub mod fct;
pub mod grid;
pub mod measure;
pub mod metric_check;
pub mod page;
mod plan;
pub mod pool;
pub mod slurm;
pub mod stats;
pub mod table;
mod task;

pub use plan::{Sweep, SweepRequest, shell_quote};
