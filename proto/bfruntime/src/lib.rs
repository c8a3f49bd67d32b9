//! BF Runtime, the gRPC protocol of Tofino drivers: messages, service, and helpers for clients and servers.
//!
//! - [`bfrt_proto`] contains the messages. The `.proto` file was written for this crate; names, numbers and types
//!   equal the published ones, which a test checks against a digest.
//! - [`info`] parses the `bfrt.json` of p4c's Tofino back end and of the driver's fixed tables, finds tables, actions
//!   and fields by name or id, and converts a program to a P4Info.
//! - [`translate`] converts P4Runtime entities to entries of BF Runtime tables and back, so that one controller can
//!   write both.
//! - [`error_details`] encodes and decodes the errors of single updates.
//! - With the feature `client`, `bfrt_proto::bf_runtime_client` is the client side of the service.
//! - With the feature `server`, `bfrt_proto::bf_runtime_server` is the server side, and `server` is an in-memory server
//!   that checks every message against `bfrt.json`.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// The generated messages and service.
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

/// `pipe_id` of a [`TargetDevice`](bfrt_proto::TargetDevice) that selects all pipes.
pub const ALL_PIPES: u32 = 0xFFFF;
/// Value of `direction` and `prsr_id` that selects both directions or all parsers.
pub const ALL: u32 = 0xFF;
/// Default gRPC port of drivers.
pub const GRPC_PORT: u16 = 50_052;
