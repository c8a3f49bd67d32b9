//! Encoded requests of a server, which are decoded within a memory limit.
//!
//! ```
//! use prost::Message;
//! use p4runtime::p4::v1::{Update, WriteRequest};
//! use p4runtime::received::Received;
//! let request = WriteRequest { device_id: 1, updates: vec![Update::default(); 3], ..Default::default() };
//! let received = Received::<WriteRequest>::new(request.encode_to_vec().into());
//! let (request, updates) = received.split::<Update>(4, 100, 1 << 20)?;
//! assert_eq!((request.device_id, request.updates.len(), updates.len()), (1, 0, 3));
//! assert!(received.split::<Update>(4, 2, 1 << 20).is_err());
//! # Ok::<(), p4runtime::received::DecodeError>(())
//! ```

mod codec;
mod cost;
mod encoded;
mod error;
mod wire;

pub use codec::ReceivedCodec;
pub use encoded::{EncodedReadResponse, Parts, Received};
pub use error::DecodeError;
