//! Errors of the single updates of a Write in a gRPC status (P4Runtime §12.3): a `google.rpc.Status` whose details
//! contain an error per update, in order. P4Runtime uses [`p4::v1::Error`](crate::p4::v1::Error), other protocols
//! their own type.

use crate::google::rpc;
use prost::{Message, Name};

/// Encodes the details of a status with this code and message. An update without an error has `E::default()`.
///
/// ```
/// use p4runtime::error_details::{decode, encode};
/// use p4runtime::google::rpc::Code;
/// use p4runtime::p4::v1::Error;
///
/// let refused = Error { canonical_code: Code::AlreadyExists.into(), message: "entry exists".into(), ..Error::default() };
/// let details = encode(Code::Unknown, "update 2 of 2", [Error::default(), refused.clone()]);
/// assert_eq!(decode::<Error>(&details), [Error::default(), refused]);
/// ```
pub fn encode<E: Message + Name>(
    code: rpc::Code,
    message: &str,
    errors: impl IntoIterator<Item = E>,
) -> Vec<u8> {
    let any = |error: E| prost_types::Any {
        type_url: format!("type.googleapis.com/{}", E::full_name()),
        value: error.encode_to_vec(),
    };
    let details = errors.into_iter().map(any).collect();
    rpc::Status { code: code.into(), message: message.to_owned(), details }.encode_to_vec()
}

/// Returns the errors in the details of a status, or none if the details have another type.
pub fn decode<E: Message + Default>(details: &[u8]) -> Vec<E> {
    let details = rpc::Status::decode(details).map(|status| status.details).unwrap_or_default();
    details.iter().map(|any| E::decode(any.value.as_slice()).unwrap_or_default()).collect()
}
