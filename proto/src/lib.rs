//! The messages of P4Runtime v1 and of P4Info, from `.proto` files in this crate's own words.
//!
//! Names, numbers and types are the published ones: `tests/check_against_pypi.py` holds every one of them
//! against the `p4runtime` package of PyPI. [`text`] is the text format of any message, [`p4info`] reads P4Info
//! as p4c writes it and finds things in it by name. The stubs of the gRPC service come with the feature `grpc`; `received`
//! is how its server takes requests.

/// The `p4` package.
pub mod p4 {
    /// P4Runtime: entities, updates, the session.
    #[allow(missing_docs)]
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

pub mod p4info;
#[cfg(feature = "grpc")]
pub mod received;
pub mod text;
pub mod value;

/// The server's side of the P4Runtime service. Its requests are [`Received`](received::Received) messages, which are
/// decoded by the service itself.
#[cfg(feature = "grpc")]
#[allow(missing_docs)]
pub mod server {
    include!(concat!(env!("OUT_DIR"), "/server/p4.v1.rs"));
}

/// The compiled descriptors of all `.proto` files, an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
