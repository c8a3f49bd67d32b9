use crate::text::TextError;
use thiserror::Error;

/// An invalid P4Info, or an unknown name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum P4InfoError {
    /// The text is not a P4Info.
    #[error(transparent)]
    Text(#[from] TextError),
    /// An object has no preamble, or its id is 0.
    #[error("{kind} number {position} has no preamble with an id")]
    NoPreamble {
        /// Kind of object.
        kind: &'static str,
        /// Position in the list, from 1.
        position: usize,
    },
    /// Two objects share an id.
    #[error("{kind} \"{name}\": id {id:#010x} is already used")]
    DuplicateId {
        /// Kind of object.
        kind: &'static str,
        /// Name of the second object.
        name: String,
        /// Id of both objects.
        id: u32,
    },
    /// No object of this kind has the name.
    #[error("the program has no {kind} \"{name}\"")]
    Unknown {
        /// Kind of object.
        kind: &'static str,
        /// The requested name.
        name: String,
    },
    /// Several objects have the name as a suffix.
    #[error("\"{name}\" is the name of several {kind}s of the program; use the full name")]
    Ambiguous {
        /// Kind of object.
        kind: &'static str,
        /// The requested name.
        name: String,
    },
}
