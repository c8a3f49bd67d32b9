use thiserror::Error;

/// The reason why a request is not decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes are not an encoded message.
    #[error("not a {message}: {reason}")]
    Malformed {
        /// Name of the message type.
        message: &'static str,
        /// Description of the error.
        reason: String,
    },
    /// The decoded message would exceed the memory limit.
    #[error(
        "a {message} of {bytes} bytes would need more than {limit} bytes of memory; send fewer elements at once"
    )]
    TooLarge {
        /// Name of the message type.
        message: &'static str,
        /// Encoded size in bytes.
        bytes: usize,
        /// Memory limit in bytes.
        limit: usize,
    },
    /// A repeated field has too many elements.
    #[error("more than {max} elements of type {element} in one request; send fewer at once")]
    TooMany {
        /// Name of the element type.
        element: &'static str,
        /// Maximum number of elements.
        max: usize,
    },
}

impl From<DecodeError> for tonic::Status {
    fn from(error: DecodeError) -> tonic::Status {
        match error {
            // gRPC's own codecs return INTERNAL for malformed messages.
            DecodeError::Malformed { .. } => tonic::Status::internal(error.to_string()),
            DecodeError::TooLarge { .. } | DecodeError::TooMany { .. } => {
                tonic::Status::resource_exhausted(error.to_string())
            }
        }
    }
}
