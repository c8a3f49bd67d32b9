//! Many runs of one experiment: keys and seeds varied ([`grid`]), run on all cores and continued where it was
//! broken off ([`pool`]), means and their confidence ([`stats`], [`measure`], [`table`], [`page`]).

pub mod grid;
pub mod measure;
pub mod page;
pub mod pool;
pub mod stats;
pub mod table;
