//! P4Runtime v1 in Rust: all messages, the gRPC service, and what clients and servers of it need.
//!
//! - [`p4`] and [`google`] have the messages. Their `.proto` files are in this crate's own words; names, numbers and types
//!   are the published ones: `tests/check_against_pypi.py` compares every one with the package `p4runtime` of PyPI.
//! - [`p4info`] reads the P4Info that p4c writes, and finds objects by name, alias or id.
//! - [`text`] reads and writes the text format of any message.
//! - [`value`] has the canonical byte strings of field values.
//! - [`arbitration`] has the election of the primary, [`error_details`] the errors of single updates.
//! - With the feature `client`, `p4::v1::p4_runtime_client` has the client's side of the service.
//! - With the feature `server`, `server` has the server's side. Its requests are `received::Received` messages, whose
//!   decoding takes memory in proportion to the bytes received.
//!
//! `examples/read_register.rs` reads a register of any P4Runtime switch; `examples/server.rs` is a small server.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// The `p4` package.
pub mod p4 {
    /// P4Runtime: entities, updates, the session.
    #[allow(missing_docs, clippy::missing_errors_doc)] // generated
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/p4.v1.rs"));
    }
    /// Program metadata.
    pub mod config {
        /// P4Info and the types in it.
        #[allow(missing_docs)]
        pub mod v1 {
            include!(concat!(env!("OUT_DIR"), "/p4.config.v1.rs"));
        }
    }
}

/// The `google` package.
pub mod google {
    /// Status and its codes.
    #[allow(missing_docs)]
    pub mod rpc {
        include!(concat!(env!("OUT_DIR"), "/google.rpc.rs"));
    }
}

pub mod arbitration;
pub mod error_details;
pub mod p4info;
#[cfg(feature = "server")]
pub mod received;
pub mod text;
pub mod value;

/// The server's side of the P4Runtime service. Its requests are [`Received`](received::Received) messages, which are
/// decoded by the service itself.
#[cfg(feature = "server")]
#[allow(missing_docs, clippy::missing_errors_doc)] // generated
pub mod server {
    include!(concat!(env!("OUT_DIR"), "/server/p4.v1.rs"));
}

/// The compiled descriptors of all `.proto` files, an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
