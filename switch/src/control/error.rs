use crate::engine::ReplicationError;
use crate::pipeline::TableError;
use p4runtime::google::rpc::Code;
use thiserror::Error;

/// A reason why an update or a read was refused, with the canonical code that P4Runtime gives it. Nothing was
/// changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {message}", code.as_str_name())]
pub struct ControlError {
    /// `google.rpc.Code`.
    pub code: Code,
    /// The problem and its place.
    pub message: String,
}

impl ControlError {
    /// Creates an error with any code.
    pub fn new(code: Code, message: impl Into<String>) -> ControlError {
        ControlError { code, message: message.into() }
    }
    /// Returns an INVALID_ARGUMENT.
    pub fn invalid(message: impl Into<String>) -> ControlError {
        ControlError::new(Code::InvalidArgument, message)
    }
    pub(super) fn denied(message: impl Into<String>) -> ControlError {
        ControlError::new(Code::PermissionDenied, message)
    }
    pub(super) fn not_found(message: impl Into<String>) -> ControlError {
        ControlError::new(Code::NotFound, message)
    }
    pub(super) fn exists(message: impl Into<String>) -> ControlError {
        ControlError::new(Code::AlreadyExists, message)
    }
    pub(super) fn in_use(message: impl Into<String>) -> ControlError {
        ControlError::new(Code::FailedPrecondition, message)
    }
    pub(super) fn unimplemented(message: impl Into<String>) -> ControlError {
        ControlError::new(Code::Unimplemented, message)
    }
    /// Returns the same with a place in front.
    pub(super) fn at(self, place: impl std::fmt::Display) -> ControlError {
        ControlError { message: format!("{place}: {}", self.message), ..self }
    }
}

impl From<TableError> for ControlError {
    fn from(error: TableError) -> ControlError {
        let code = match &error {
            TableError::Unknown { .. } | TableError::NoSuchHandle { .. } => Code::NotFound,
            TableError::Duplicate { .. } => Code::AlreadyExists,
            TableError::Full { .. } => Code::ResourceExhausted,
            TableError::Immutable { .. } => Code::PermissionDenied,
            TableError::OutOfBounds { .. } => Code::OutOfRange,
            TableError::InUse { .. } => Code::FailedPrecondition,
            TableError::TooWide { .. } | TableError::Invalid(_) => Code::InvalidArgument,
        };
        ControlError::new(code, error.to_string())
    }
}

impl From<ReplicationError> for ControlError {
    fn from(error: ReplicationError) -> ControlError {
        ControlError::invalid(error.to_string())
    }
}
