//! The P4Runtime server of a data plane: gRPC in front of [`control`](weir_switch::control).
//!
//! [`serve`] is a future for the caller's own executor: many switches can be served in one process. [`Server`] has a
//! thread of its own, for programs that have none.
//!
//! ```no_run
//! # use weir_server::p4runtime::*;
//! # use weir_switch::driver::*;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dataplane = Dataplane::start(DataplaneConfig::default(), None, &[])?;
//! let listener = std::net::TcpListener::bind("127.0.0.1:9559")?;
//! let server = Server::start(dataplane.handle(), ServerConfig::default(), listener)?;
//! // ... and at the end, the server before its data plane:
//! server.stop();
//! # Ok(()) }
//! ```
//!
//! - `digest`, `packet_io`: which messages make a list, how controller headers lie. They are sans-IO, as is the election of
//!   the primary, [`p4runtime::arbitration`].
//! - `admission` bounds the connections, `connection` ends those that have to go.
//! - `device` has the operations, `service` the calls, `stream` a client's stream, `relay` what the data plane tells.
//! - Every queue has a bound. A client that reads slowly loses messages, which are counted; the data plane waits for
//!   nobody.

mod admission;
mod connection;
mod device;
mod digest;
mod forwarding_pipeline;
mod notifications;
mod packet_io;
mod reconcile;
mod server;
mod service;
mod sessions;
mod status;
mod stream;
mod tls;

pub use forwarding_pipeline::Programs;
pub use server::{CallCounters, DroppedMessages, ServeError, Server, ServerConfig, serve};
pub use tls::TlsConfig;
