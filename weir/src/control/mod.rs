//! Control sockets of running processes: where they are, and their server. `weir_testbed::talk` is what is said.

pub mod place;
mod socket;

pub use socket::{Serving, Socket};
