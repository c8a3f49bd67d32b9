//! Errors of the single updates of a Write in a gRPC status: a `google.rpc.Status` whose details contain a
//! [`bfrt_proto::Error`](Error) per update, in order. A driver omits the updates after the last error.

use crate::bfrt_proto::Error;
pub use p4runtime::error_details::encode;

/// Returns the errors in the details of a status with the index of their update. Returns none if the details have
/// another type.
///
/// ```
/// use bfruntime::bfrt_proto::Error;
/// use bfruntime::error_details::{decode, encode};
/// use p4runtime::google::rpc::Code;
///
/// let refused = Error { canonical_code: Code::AlreadyExists.into(), message: "entry exists".into(), ..Error::default() };
/// let details = encode(Code::Unknown, "update 2 of 3", [Error::default(), refused.clone()]);
/// assert_eq!(decode(&details), [(1, refused)]);
/// ```
pub fn decode(details: &[u8]) -> Vec<(usize, Error)> {
    let errors = p4runtime::error_details::decode(details).into_iter().enumerate();
    errors.filter(|(_, error): &(usize, Error)| error.canonical_code != 0).collect()
}
