//! Links: what a link of a rate, a length and faults does to the frames that are sent on it.
//!
//! - [`LinkParameters`] describe a link, [`LinkChange`] is what is to become different.
//! - [`LinkChannel`] holds the frames that are in flight in one direction. Time and a seed are arguments, so the same
//!   calls give the same frames at the same times; [`crate::driver::LinkEmulator`] calls it with real ones.
//! - [`PacketRateController`] keeps a limiter that counts packets, BMv2's, to a rate in bits.

mod direction;
mod limiter;
mod parameters;

pub use direction::{LinkChannel, LinkCounters, LinkDrop};
pub use limiter::PacketRateController;
pub use parameters::{LinkChange, LinkParameters};
