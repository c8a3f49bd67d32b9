//! The papers' experiments, all of them: which they are ([`list`]), and the tables of `docs/results.md` that come
//! of them ([`claims`], [`markdown`]).

pub mod claims;
pub mod list;
pub mod markdown;
