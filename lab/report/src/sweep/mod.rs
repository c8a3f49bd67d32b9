//! Many runs of one experiment ([`Sweep`]): keys and seeds varied ([`grid`]), run on all cores and continued where it
//! was interrupted ([`pool`]), in one directory ([`dir`](mod@dir)); means and their confidence ([`stats`], [`measure`],
//! [`table`], [`page`]).

pub mod dir;
pub mod grid;
pub mod measure;
pub mod page;
mod plan;
pub mod plausible;
pub mod pool;
pub mod stats;
pub mod table;

pub use plan::{Asked, Sweep};
