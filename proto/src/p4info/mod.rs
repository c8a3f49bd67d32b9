//! Parses P4Info files and finds their objects by name or id.
//!
//! ```
//! use p4runtime::p4info::{Index, Object, parse};
//! let text = r#"tables { preamble { id: 33554433 name: "MyIngress.forward" alias: "forward" } size: 64 }"#;
//! let index = Index::new(parse(text)?)?;
//! assert_eq!(index.tables.named("forward")?.size, 64);
//! assert_eq!(index.tables.named("MyIngress.forward")?.preamble().id, 0x0200_0001);
//! # Ok::<(), p4runtime::p4info::P4InfoError>(())
//! ```

mod index;
mod object;

pub use index::{Index, Objects};
pub use object::Object;

use crate::p4::config::v1::P4Info;
use crate::text::{self, TextError};
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
    #[error("{kind} \"{name}\": id {id:#010x} is taken already")]
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
    #[error("\"{name}\" names several {kind}s of the program, write the full name")]
    Ambiguous {
        /// Kind of object.
        kind: &'static str,
        /// The requested name.
        name: String,
    },
}

/// Parses the text format (`.p4info.txtpb`) that p4c writes.
///
/// # Errors
///
/// The text is not a P4Info in text format. The error contains line and column if known.
pub fn parse(text: &str) -> Result<P4Info, P4InfoError> {
    Ok(text::parse(text)?)
}
