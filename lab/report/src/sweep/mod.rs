//! Many runs of one experiment ([`Sweep`]): keys and seeds varied ([`grid`]), run on all cores ([`pool`]) or on other
//! machines ([`engine`], [`slurm`]) and continued where it was interrupted, in one directory ([`dir`](mod@dir)); means and
//! their confidence ([`stats`], [`measure`], [`table`], [`page`]).

pub mod dir;
pub mod engine;
pub mod grid;
pub mod measure;
pub mod metric_check;
pub mod page;
mod plan;
pub mod pool;
pub mod slurm;
pub mod stats;
pub mod table;

pub use plan::{Sweep, SweepRequest, shell_quote};
