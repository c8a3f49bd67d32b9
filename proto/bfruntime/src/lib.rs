//! BF Runtime in Rust: the messages and the gRPC service of Tofino's drivers, and what clients and servers of it need.
//!
//! - [`bfrt_proto`] has the messages. The `.proto` file is in this crate's own words; names, numbers and types are the
//!   published ones, which a test checks against a digest of them.
//! - [`info`] reads the `bfrt.json` that p4c's Tofino back end writes and those of the driver's fixed tables, finds tables,
//!   actions and fields by name or id, and describes a program as a P4Info.
//! - [`translate`] turns P4Runtime's entities into entries of BF Runtime's tables and back, so that one controller writes
//!   both.
//! - [`error_details`] has the errors of single updates.
//! - With the feature `client`, `bfrt_proto::bf_runtime_client` has the client's side of the service.
//! - With the feature `server`, `bfrt_proto::bf_runtime_server` has the server's side, and `server` a server that checks
//!   every message against `bfrt.json` and keeps the tables in memory.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// The messages and the service.
#[allow(missing_docs, clippy::missing_errors_doc)] // generated
pub mod bfrt_proto {
    include!(concat!(env!("OUT_DIR"), "/bfrt_proto.rs"));
}

pub mod error_details;
pub mod info;
#[cfg(feature = "server")]
pub mod server;
pub mod translate;
mod value;

pub use info::{BfrtInfo, InfoError};
pub use translate::{TranslateError, Translator};

/// The compiled descriptors of the `.proto` files, an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// `pipe_id` of a [`TargetDevice`](bfrt_proto::TargetDevice) that stands for all pipes.
pub const ALL_PIPES: u32 = 0xFFFF;
/// `direction` and `prsr_id` that stand for both directions and all parsers.
pub const ALL: u32 = 0xFF;
/// Port on which a driver listens.
pub const GRPC_PORT: u16 = 50_052;
