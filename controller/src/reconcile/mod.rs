//! Computes the minimal updates from a switch's actual entities to the desired ones, in an order in which no entity
//! ever refers to a missing one (make before break).
//!
//! An *entity* is a P4Runtime `Entity`, such as a table entry. A [`DesiredState`] is a list of entities, each with a
//! *rank*: the updates of one rank are written on all switches before those of the next ([`BASE`]). [`diff`] compares
//! it with the entities read from the switch. New and changed entities are written in the order of their ranks, then
//! surplus entities are deleted, each before the entities to which it refers. Equal entities are not written.
//!
//! The comparison covers table entries with their direct meters, default actions, action profiles, multicast groups and
//! clone sessions. It ignores counters, registers, indirect meters, const entries, and default actions that the program
//! declares const.

mod canonical;
mod desired;
mod diff;
mod ranked;

pub(crate) use canonical::replica_port;
pub use canonical::{Identity, canonical, identity};
pub use desired::{BASE, DELETE, DesiredEntity, DesiredState, LAST_INSERT};
pub use diff::{Diff, Step, diff, fill, updates};
pub use ranked::RankedUpdates;
