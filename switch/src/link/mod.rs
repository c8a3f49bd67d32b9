//! A model of a link with rate, delay and faults, without a clock and sockets.
//!
//! - [`LinkParameters`] describe a link, [`LinkChange`] is a change to some of them.
//! - [`LinkChannel`] is one direction with its frames in flight. Time and random numbers are arguments, so equal calls
//!   give equal results; [`crate::driver::LinkEmulator`] calls it in real time, `weir_sim` in virtual time.
//! - [`PacketRateController`] makes a limiter that counts packets, such as BMv2's, keep a rate in bits per
//!   second.

mod direction;
mod limiter;
mod parameters;
mod random;

pub use direction::{Delivery, FrameInFlight, LinkChannel, LinkCounters, LinkDrop};
pub use limiter::PacketRateController;
pub use parameters::{LinkChange, LinkParameters};
pub use random::RandomBits;
