//! The network client of the controller: P4Runtime for one switch ([`Session`]) and for many ([`fleet`], which also
//! supports Tofino over BF Runtime), and the Thrift calls of BMv2 that P4Runtime lacks ([`ThriftClient`]).
//!
//! This crate only performs I/O. [`mod@weir_controller::plan`] and [`weir_controller::reconcile`] decide what to
//! write and in which order.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod backoff;
mod bfrt;
mod channel;
mod connection;
mod error;
pub mod fleet;
mod options;
mod program;
mod session;
mod stream;
mod thrift;
mod tls;
pub mod watch;

pub use self::thrift::{ThriftClient, ThriftError, packets_per_second};
pub use backoff::Backoff;
pub use error::{ClientError, RejectedUpdate};
pub use options::{ClientOptions, Target};
pub use program::{Image, Program};
pub use session::Session;
pub use stream::{Mastership, PacketSender, Stream, StreamEvent};
pub use tls::ClientTls;
