//! The errors of the updates of one Write, as a gRPC status carries them: a `google.rpc.Status` whose details are a
//! [`bfrt_proto::Error`](Error) for each update, in order. A driver leaves out what follows the last error.

use crate::bfrt_proto::Error;
use p4runtime::google::rpc;
use prost::{Message, Name};

/// Returns the details of a status that has this code and message. An update without an error has `Error::default()`.
pub fn encode(code: rpc::Code, message: &str, errors: impl IntoIterator<Item = Error>) -> Vec<u8> {
    let any = |error: Error| prost_types::Any {
        type_url: format!("type.googleapis.com/{}", Error::full_name()),
        value: error.encode_to_vec(),
    };
    let details = errors.into_iter().map(any).collect();
    rpc::Status { code: code.into(), message: message.to_owned(), details }.encode_to_vec()
}

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
    let details = rpc::Status::decode(details).map(|status| status.details).unwrap_or_default();
    let errors = details.iter().map(|any| Error::decode(any.value.as_slice()).unwrap_or_default());
    errors.enumerate().filter(|(_, error)| error.canonical_code != 0).collect()
}
