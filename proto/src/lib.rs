//! P4Runtime v1: all messages, the gRPC service, and helpers for clients and servers.
//!
//! - [`p4`] and [`google`] contain the messages. Their `.proto` files were written for this crate; names, numbers and
//!   types equal the published ones: `tests/check_against_pypi.py` compares all of them with the PyPI package
//!   `p4runtime`.
//! - [`p4info`] parses the P4Info that p4c writes, and finds objects by name, alias or id.
//! - [`text`] parses and prints the text format of any message.
//! - [`value`] converts the canonical byte strings of field values.
//! - [`arbitration`] elects the primary client; [`error_details`] encodes and decodes the errors of single updates.
//! - With the feature `client`, `p4::v1::p4_runtime_client` is the client side of the service.
//! - With the feature `server`, `server` is the server side. Its requests are `received::Received` messages, whose
//!   decoding is limited in memory.
//!
//! `examples/read_register.rs` reads a register of any P4Runtime switch; `examples/server.rs` is a minimal server.

#![warn(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// The `p4` package.
pub mod p4 {
    /// P4Runtime messages: entities, updates, arbitration.
    #[allow(missing_docs, clippy::missing_errors_doc)] // generated
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/p4.v1.rs"));
    }
    /// Program metadata.
    pub mod config {
        /// P4Info and its types.
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

/// The server side of the P4Runtime service. Its requests are [`Received`](received::Received) messages, which the
/// service implementation decodes itself.
#[cfg(feature = "server")]
#[allow(missing_docs, clippy::missing_errors_doc)] // generated
pub mod server {
    include!(concat!(env!("OUT_DIR"), "/server/p4.v1.rs"));
}

/// The compiled descriptors of all `.proto` files, an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
