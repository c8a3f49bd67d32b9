//! Converts errors to gRPC statuses: one for the call, and in a batch one per update (P4Runtime §10).

use p4runtime::error_details;
use p4runtime::google::rpc;
use p4runtime::p4::v1::Error;
use prost::Name;
use tonic::{Code, Status};
use weir_switch::control::ControlError;
use weir_switch::driver::DataplaneError;

/// Error space of the codes in [`Error`], which are the canonical ones.
pub(super) const SPACE: &str = "weir";

/// Maximum size of the status details in a header, in bytes. Clients with gRPC's C core accept 8 KiB of headers by
/// default, including base64, and fail with their own error above it (P4Runtime §21.1).
const MAX_DETAILS_LEN: usize = 5 << 10;

/// Maximum length of a message in a header. Some messages quote the request, which can be of any length.
const MAX_MESSAGE_LEN: usize = 1 << 10;

/// Shortens a message to [`MAX_MESSAGE_LEN`].
fn truncate_message(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_LEN {
        let end = (0..=MAX_MESSAGE_LEN).rev().find(|&index| message.is_char_boundary(index));
        message.truncate(end.unwrap_or(0));
        message.push_str("...");
    }
    message
}

/// Returns the status of a call that failed as a whole.
pub(super) fn from_control(error: &ControlError) -> Status {
    Status::new(code(error.code), truncate_message(error.message.clone()))
}

/// Returns the status of a call that the data plane did not execute.
pub(super) fn from_dataplane(error: DataplaneError) -> Status {
    let code = match error {
        DataplaneError::Stopped => Code::Unavailable,
        DataplaneError::NoProgram | DataplaneError::NoCpuPort => Code::FailedPrecondition,
        DataplaneError::Busy => Code::ResourceExhausted,
        DataplaneError::Panicked | DataplaneError::Port { .. } => Code::Internal,
    };
    Status::new(code, error.to_string())
}

/// Returns the status of a batch. `what` names its elements in the message.
///
/// # Errors
///
/// UNKNOWN with an error per element if at least one failed.
pub(super) fn from_batch(what: &str, results: &[Result<(), ControlError>]) -> Result<(), Status> {
    let mut failed_elements =
        (1..).zip(results).filter_map(|(number, result)| Some((number, result.as_ref().err()?)));
    // Rolled back or skipped elements are reported only if there is no other error.
    let (number, error) = match failed_elements.clone().find(|(_, error)| error.code != rpc::Code::Aborted) {
        Some(first) => first,
        None => match failed_elements.next() {
            Some(first) => first,
            None => return Ok(()),
        },
    };
    let failures = results.iter().filter(|result| result.is_err()).count();
    let mut message = truncate_message(format!("{what} {number} of {}: {error}", results.len()));
    if failures > 1 {
        message += &format!(" ({failures} failed)");
    }
    let with_messages =
        || results.iter().map(|result| to_error(result.as_ref().err(), ErrorParts::CodeAndMessage));
    // Only the element that the message of the call names has a message.
    let only_codes = || {
        (1_usize..).zip(results).map(|(position, result)| {
            let parts = if position == number { ErrorParts::CodeAndMessage } else { ErrorParts::CodeOnly };
            to_error(result.as_ref().err(), parts)
        })
    };
    // Without messages, each error still contains the name of its type: skip encoding when even this cannot fit.
    let fitting_details = (results.len() <= MAX_DETAILS_LEN / Error::NAME.len())
        .then(|| [encode_details(&message, with_messages()), encode_details(&message, only_codes())])
        .and_then(|details| details.into_iter().find(|details| details.len() <= MAX_DETAILS_LEN));
    Err(match fitting_details {
        Some(details) => Status::with_details(Code::Unknown, message, details.into()),
        None => Status::unknown(message + "; per-update errors omitted; send smaller batches"),
    })
}

/// The parts of an error that its encoding contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ErrorParts {
    CodeAndMessage,
    CodeOnly,
}

/// Encodes the result of one element; an element that succeeded has code OK.
fn to_error(error: Option<&ControlError>, parts: ErrorParts) -> Error {
    let Some(error) = error else { return Error::default() };
    let (message, space) = match parts {
        ErrorParts::CodeAndMessage => (truncate_message(error.message.clone()), SPACE.to_owned()),
        ErrorParts::CodeOnly => (String::new(), String::new()),
    };
    Error { canonical_code: error.code.into(), message, space, code: error.code.into(), details: None }
}

fn encode_details(message: &str, errors: impl Iterator<Item = Error>) -> Vec<u8> {
    error_details::encode(rpc::Code::Unknown, message, errors)
}

fn code(code: rpc::Code) -> Code {
    Code::from_i32(code.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(message: &str) -> Result<(), ControlError> {
        Err(ControlError::new(rpc::Code::AlreadyExists, message))
    }

    fn errors(status: &Status) -> Vec<Error> {
        error_details::decode(status.details())
    }

    #[test]
    fn each_update_has_its_own_error() {
        assert!(from_batch("update", &[Ok(()), Ok(())]).is_ok());
        let status = from_batch("update", &[Ok(()), failure("x"), failure("y")]).unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        assert_eq!(status.message(), "update 2 of 3: ALREADY_EXISTS: x (2 failed)");
        let codes: Vec<_> =
            errors(&status).iter().map(|error| (error.canonical_code, error.message.clone())).collect();
        assert_eq!(codes, [(0, String::new()), (6, "x".into()), (6, "y".into())]);
    }

    #[test]
    fn messages_too_long_for_a_header_are_shortened() {
        let many: Vec<_> =
            (0..100).map(|n| failure(&format!("table MyIngress.forward has entry {n}"))).collect();
        let shortened = errors(&from_batch("update", &many).unwrap_err());
        assert_eq!(shortened.len(), 100);
        assert!(shortened[0].message.contains("entry 0") && shortened[1].message.is_empty());
        assert!(shortened.iter().all(|error| error.canonical_code == 6));
        let too_many: Vec<_> = (0..5000).map(|_| failure("x")).collect();
        let status = from_batch("update", &too_many).unwrap_err();
        assert!(status.details().is_empty());
        assert_eq!(
            status.message(),
            "update 1 of 5000: ALREADY_EXISTS: x (5000 failed); per-update errors omitted; send smaller batches"
        );
    }

    #[test]
    fn the_reason_of_a_rollback_is_reported() {
        let aborted = || Err(ControlError::new(rpc::Code::Aborted, "rolled back"));
        let status = from_batch("update", &[aborted(), failure("x"), aborted()]).unwrap_err();
        assert!(status.message().starts_with("update 2 of 3: ALREADY_EXISTS: x"), "{}", status.message());
    }
}
