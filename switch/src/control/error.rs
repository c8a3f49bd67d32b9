//! Errors of updates and reads, with P4Runtime's codes.

use crate::engine::ReplicationError;
use crate::pipeline::TableError;
use p4runtime::google::rpc::Code;
use thiserror::Error;

/// A failed update or read, with the canonical gRPC code that P4Runtime prescribes. The switch is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {message}", code.as_str_name())]
pub struct ControlError {
    pub code: Code,
    /// The problem and its location.
    pub message: String,
}

impl ControlError {
    pub fn new(code: Code, message: impl Into<String>) -> ControlError {
        ControlError { code, message: message.into() }
    }
    /// Creates an INVALID_ARGUMENT error.
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
    /// Prefixes the message with a location.
    pub(super) fn context(self, location: impl std::fmt::Display) -> ControlError {
        ControlError { message: format!("{location}: {}", self.message), ..self }
    }
}

/// The first failed update of several. The updates before it are applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("update {number}: {error}")]
pub struct BatchError {
    /// Position of the update, from 1.
    pub number: usize,
    pub error: ControlError,
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
            TableError::UnknownAction { .. }
            | TableError::NoSelector { .. }
            | TableError::TooWide { .. }
            | TableError::Invalid(_) => Code::InvalidArgument,
        };
        ControlError::new(code, error.to_string())
    }
}

impl From<ReplicationError> for ControlError {
    fn from(error: ReplicationError) -> ControlError {
        ControlError::invalid(error.to_string())
    }
}
