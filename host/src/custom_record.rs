//! Telemetry records in a format defined by the P4 program, and access to their fields.
//!
//! Weir's records have the 64 bits of the papers ([`IntRecord`](crate::wire::IntRecord)). A program may define
//! another format: a header type of 4 to 64 bytes, declared in its P4Info by `@controller_header("weir_record")`.
//! Switches add records at the front and count them in the Weir header, receivers return them, and a scheme that
//! names the fields in [`Needs::custom_record_fields`](crate::scheme::Needs::custom_record_fields) reads them from
//! [`Telemetry::records`](crate::telemetry::Telemetry::records).

use crate::wire::RecordFormat;
use thiserror::Error;

/// Name in P4Info of the header type of custom records.
pub const RECORD_HEADER: &str = "weir_record";
/// Maximum number of fields that a scheme may read.
pub const MAX_FIELDS: usize = 8;

/// A field of a record: an unsigned integer of at most 64 bits, big-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordField {
    /// Offset of the field in the record, in bits.
    offset: u16,
    /// Length of the field in bits.
    width: u8,
}

impl RecordField {
    /// Returns the value of the field in `record`; 0 if the record is too short.
    pub fn read(self, record: &[u8]) -> u64 {
        let start = usize::from(self.offset);
        let end = start + usize::from(self.width);
        let Some(bytes) = record.get(start / 8..end.div_ceil(8)) else { return 0 };
        // A field of 64 bits may lie in nine bytes.
        let value = bytes.iter().fold(0u128, |value, &byte| value << 8 | u128::from(byte));
        let value = value >> (end.div_ceil(8) * 8 - end);
        (value & ((1u128 << self.width) - 1)) as u64
    }
}

/// The fields that a scheme reads, in the order in which the scheme names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordFields([RecordField; MAX_FIELDS]);

impl RecordFields {
    /// Returns the field at position `index` of
    /// [`Needs::custom_record_fields`](crate::scheme::Needs::custom_record_fields); for an index out of range, a
    /// field that is always 0.
    pub fn get(&self, index: usize) -> RecordField {
        self.0.get(index).copied().unwrap_or_default()
    }
}

/// The layout of custom records: names and widths of the fields, from the P4Info.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordLayout {
    fields: Vec<(String, RecordField)>,
    format: RecordFormat,
}

/// The reason why a header type cannot be a telemetry record.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The length of the header is not supported.
    #[error("{RECORD_HEADER} has {bits} bits; expected a multiple of 32 from 32 to 512")]
    Length {
        /// Sum of the widths of all fields, in bits.
        bits: u32,
    },
    /// The width of a field is not supported.
    #[error("the field \"{name}\" of {RECORD_HEADER} has {width} bits; expected 1 to 64")]
    Width {
        /// Name of the field.
        name: String,
        /// Width of the field in bits.
        width: u32,
    },
}

impl RecordLayout {
    /// Creates the layout of a header with these fields, in order, each with its width in bits.
    ///
    /// # Errors
    ///
    /// The length of the record is not 4, 8, ... or 64 bytes, or a field is not 1 to 64 bits wide.
    pub fn new<'a>(fields: impl IntoIterator<Item = (&'a str, u32)>) -> Result<RecordLayout, RecordError> {
        let (mut bits, mut layout) = (0u32, Vec::new());
        for (name, width) in fields {
            let valid_width = u8::try_from(width).ok().filter(|width| (1..=64).contains(width));
            let invalid_width = || RecordError::Width { name: name.to_owned(), width };
            let field = RecordField {
                offset: u16::try_from(bits).map_err(|_| RecordError::Length { bits })?,
                width: valid_width.ok_or_else(invalid_width)?,
            };
            layout.push((name.to_owned(), field));
            bits = bits.saturating_add(width);
        }
        let len = bits.is_multiple_of(8).then_some(bits as usize / 8);
        let format = len.and_then(RecordFormat::custom).ok_or(RecordError::Length { bits })?;
        Ok(RecordLayout { fields: layout, format })
    }

    /// Returns the format that packets with such records carry in their header.
    pub fn format(&self) -> RecordFormat {
        self.format
    }

    /// Returns the names of the fields, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the field with this name.
    pub fn field(&self, name: &str) -> Option<RecordField> {
        self.fields.iter().find(|(known, _)| known == name).map(|&(_, field)| field)
    }

    /// Returns the named fields, in the order of `names`. An unknown name yields a field that is always 0.
    pub(crate) fn fields(&self, names: &[&str]) -> RecordFields {
        let mut fields = RecordFields::default();
        for (field, name) in fields.0.iter_mut().zip(names) {
            *field = self.field(name).unwrap_or_default();
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_read_where_the_header_has_them() {
        let layout = RecordLayout::new([("wait", 32), ("port", 9), ("pad", 23)]).unwrap();
        let record = [0, 0, 0x12, 0x34, 0x80, 0x80, 0, 1];
        let read = |name: &str| layout.field(name).unwrap().read(&record);
        assert_eq!((read("wait"), read("port"), read("pad")), (0x1234, 0x101, 1));
        assert_eq!(layout.field("depth"), None);
        assert_eq!(layout.format().record_len(), 8);
        assert_eq!(layout.field("pad").unwrap().read(&record[..7]), 0, "a record that is cut short");
    }

    #[test]
    fn records_have_whole_words_and_fields_at_most_64_bits() {
        let error = |fields: &[(&'static str, u32)]| {
            RecordLayout::new(fields.iter().copied()).unwrap_err().to_string()
        };
        assert!(error(&[("wait", 24)]).contains("has 24 bits"));
        assert!(error(&[("wait", 128)]).contains("\"wait\""));
        assert!(error(&[("none", 0)]).contains("\"none\""));
        assert!(error(&[]).contains("has 0 bits"));
        assert!(error(&[("wait", 64); 9]).contains("has 576 bits"));
    }

    proptest! {
        #[test]
        fn a_field_is_its_bits(words: [u64; 2], offset in 0u16..64, width in 1u8..=64) {
            let record: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            let all = u128::from(words[0]) << 64 | u128::from(words[1]);
            let expected = all << offset >> (128 - u32::from(width));
            prop_assert_eq!(u128::from(RecordField { offset, width }.read(&record)), expected);
        }
    }
}
