//! Reproduction of published results: the list of experiments ([`list`]), and the tables of `docs/results/`
//! ([`claims`], [`markdown`]).

pub mod claims;
pub mod list;
pub mod markdown;
