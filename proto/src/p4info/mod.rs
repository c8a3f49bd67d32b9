//! P4Info: read it from text, find things in it by name.
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

/// A reason why a P4Info cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum P4InfoError {
    /// The text is not a P4Info.
    #[error(transparent)]
    Text(#[from] TextError),
    /// An object says nothing of itself.
    #[error("{kind} number {position} has no preamble with an id")]
    NoPreamble {
        /// Kind of object.
        kind: &'static str,
        /// Its position in the list, from 1.
        position: usize,
    },
    /// Two objects share an id.
    #[error("{kind} \"{name}\": id {id:#010x} is taken already")]
    DuplicateId {
        /// Kind of object.
        kind: &'static str,
        /// The second one's name.
        name: String,
        /// The id.
        id: u32,
    },
    /// A name that nothing has.
    #[error("the program has no {kind} \"{name}\"")]
    Unknown {
        /// Kind of object.
        kind: &'static str,
        /// Name that was looked for.
        name: String,
    },
    /// A suffix that several objects have.
    #[error("\"{name}\" names several {kind}s of the program, write the full name")]
    Ambiguous {
        /// Kind of object.
        kind: &'static str,
        /// Name that was looked for.
        name: String,
    },
}

/// Parses the text format (`.p4info.txtpb`) that p4c writes.
///
/// # Errors
///
/// The text is not a P4Info in text format. The error has the place.
pub fn parse(text: &str) -> Result<P4Info, P4InfoError> {
    Ok(text::parse(text)?)
}
