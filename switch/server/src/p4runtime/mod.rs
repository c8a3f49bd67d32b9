//! The P4Runtime server of a data plane: a gRPC front end of [`control`](weir_switch::control).
//!
//! [`serve`] is a future for the caller's executor, so that one process can serve many switches. [`Server`] runs it
//! on its own thread, for programs without an executor.
//!
//! ```no_run
//! # use weir_server::p4runtime::*;
//! # use weir_switch::driver::*;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dataplane = Dataplane::start(DataplaneConfig::default(), None, &[])?;
//! let listener = std::net::TcpListener::bind("127.0.0.1:9559")?;
//! let server = Server::start(dataplane.handle(), ServerConfig::default(), listener)?;
//! // ... and at the end, stop the server before its data plane:
//! server.stop();
//! # Ok(()) }
//! ```
//!
//! - `digest` builds digest lists, `packet_io` encodes controller headers. Both do no I/O, as does arbitration,
//!   [`p4runtime::arbitration`].
//! - `admission` limits the connections; `connection` ends those that are idle or evicted.
//! - `device` has the operations on pipelines, `service` the calls of the gRPC service, `stream` the stream of a
//!   client, `notifications` the messages of the data plane.
//! - All queues are bounded. A client that reads slowly loses messages, which are counted; the data plane never waits
//!   for a client.

mod admission;
mod config;
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
mod sync;
mod tls;

pub use config::{CallCounters, DroppedMessages, ServerConfig};
pub use forwarding_pipeline::Programs;
pub use server::{ServeError, Server, serve};
pub use tls::TlsConfig;
