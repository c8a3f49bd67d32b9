//! Control sockets of agents and links: paths and server. The protocol is in `weir_testbed::control`.

mod socket;
pub mod socket_path;

pub use socket::{Socket, SocketServer};
