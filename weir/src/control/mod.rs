//! Control sockets of agents and links: paths and server. The protocol is in `weir_testbed::control`.

mod socket;
pub(crate) mod socket_path;

pub(crate) use socket::{Socket, SocketServer};
