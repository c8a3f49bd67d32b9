//! Reproduction of published results: the list of experiments ([`list`]), and the tables of `docs/results.md`
//! ([`claims`], [`markdown`]).

pub mod claims;
pub mod list;
pub mod markdown;
