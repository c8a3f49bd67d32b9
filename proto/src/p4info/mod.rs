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

mod error;
mod index;
mod object;
mod references;

pub use error::P4InfoError;
pub use index::{Index, Objects};
pub use object::Object;

use crate::p4::config::v1::P4Info;
use crate::text;

/// Parses the text format (`.p4info.txtpb`) that p4c writes.
///
/// # Errors
///
/// The text is not a P4Info in text format. The error contains line and column if known.
pub fn parse(text: &str) -> Result<P4Info, P4InfoError> {
    Ok(text::parse(text)?)
}
