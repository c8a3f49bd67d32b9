//! The errors of the updates of one Write, as a gRPC status carries them: a `google.rpc.Status` whose details are a
//! [`bfrt_proto::Error`](Error) for each update, in order. A driver leaves out what follows the last error.

use crate::bfrt_proto::Error;
pub use p4runtime::error_details::encode;

/// Returns the errors in the details of a status with the number of their update, none if the details are of another
/// kind.
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
