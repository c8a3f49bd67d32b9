//! The text format of protobuf messages, for all messages of this crate.
//!
//! ```
//! use p4runtime::{p4::v1::Update, text};
//! let update: Update = text::parse("type: INSERT entity { register_entry { register_id: 7 } }")?;
//! assert_eq!(text::parse::<Update>(&text::print(&update))?, update);
//! # Ok::<(), text::TextError>(())
//! ```

use miette::Diagnostic;
use prost::{Message, Name};
use prost_reflect::text_format::FormatOptions;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use std::sync::LazyLock;
use thiserror::Error;

/// Text that is not a valid message. Displays as `3:7: not a P4Info in text format: ...` if line and column are known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}not a {message} in text format: {reason}", location_prefix(at))]
pub struct TextError {
    /// Name of the message type.
    pub message: &'static str,
    /// Line and column, from 1.
    pub at: Option<(usize, usize)>,
    /// Description of the error.
    pub reason: String,
}

fn location_prefix(at: &Option<(usize, usize)>) -> String {
    at.map_or_else(String::new, |(line, column)| format!("{line}:{column}: "))
}

/// Converts a byte offset to line and column, from 1.
fn line_column(text: &str, offset: usize) -> Option<(usize, usize)> {
    let before = text.get(..offset)?;
    let line = before.rfind('\n').map_or(before, |end| &before[end + 1..]);
    Some((before.matches('\n').count() + 1, line.chars().count() + 1))
}

pub(crate) static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(crate::DESCRIPTORS).expect("the descriptors that build.rs wrote")
});

fn descriptor<M: Name>() -> MessageDescriptor {
    POOL.get_message_by_name(&M::full_name()).expect("every message of this crate is in its descriptors")
}

/// Parses a message of this crate.
///
/// # Errors
///
/// The text is not a message of type `M`. The error contains line and column if known.
///
/// # Panics
///
/// `M` is not a message of this crate.
pub fn parse<M: Message + Name + Default>(text: &str) -> Result<M, TextError> {
    let error_at = |at, reason: String| TextError { message: M::NAME, at, reason };
    let message = DynamicMessage::parse_text_format(descriptor::<M>(), text).map_err(|error| {
        let label = error.labels().and_then(|mut labels| labels.next());
        error_at(label.and_then(|label| line_column(text, label.offset())), error.to_string())
    })?;
    message.transcode_to().map_err(|error| error_at(None, error.to_string()))
}

/// Prints a message of this crate on several lines.
///
/// # Panics
///
/// `M` is not a message of this crate.
pub fn print<M: Message + Name>(message: &M) -> String {
    let mut dynamic = DynamicMessage::new(descriptor::<M>());
    dynamic.transcode_from(message).expect("the message matches its descriptor");
    dynamic.to_text_format_with_options(&FormatOptions::new().pretty(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::config::v1::P4Info;

    #[test]
    fn errors_contain_line_and_column() {
        let error = parse::<P4Info>("tables {\n  preamble { id: 1 nane: \"x\" }\n}").unwrap_err();
        assert!(error.to_string().starts_with("2:20: not a P4Info in text format: "), "{error}");
        assert!(error.reason.contains("nane"), "{error}");
        assert!(parse::<P4Info>("tables {").is_err());
    }

    #[test]
    fn printed_values_parse_back() {
        let info: P4Info =
            parse("tables { preamble { id: 33554433 name: 'I.t' } size: 64 } tables {}").unwrap();
        assert_eq!(info.tables.len(), 2);
        assert_eq!(parse(&print(&info)), Ok(info));
    }
}
