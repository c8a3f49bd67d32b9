//! Control sockets of running processes: where they are, and their server. `weir_testbed::talk` is what is said.

mod socket;
pub mod socket_path;

pub use socket::{Socket, SocketServer};
