//! The translator of one switch, and its errors.

use crate::info::{BfrtInfo, Table};
use thiserror::Error;

/// The reason why an entity cannot be translated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TranslateError {
    #[error("the program has no table {0:#010x}")]
    Table(u32),
    #[error("the switch has no table {0}")]
    Fixed(&'static str),
    /// A table lacks a key field or data field, or an action a parameter.
    #[error("table \"{table}\" has no field {field}")]
    Field {
        table: String,
        /// Name or id of the field.
        field: String,
    },
    /// An exact field has no value.
    #[error("table \"{table}\", {field}: no value")]
    Missing { table: String, field: String },
    /// A value is not valid for the field.
    #[error("table \"{table}\", {field}: {reason}")]
    Value { table: String, field: String, reason: &'static str },
    /// The kind of entity does not exist in BF Runtime or is not supported here.
    #[error("{0} cannot be written over BF Runtime")]
    Unsupported(&'static str),
}

/// Converts entities for one switch.
#[derive(Clone, Copy, Debug)]
pub struct Translator<'a> {
    pub(super) info: &'a BfrtInfo,
}

impl<'a> Translator<'a> {
    /// Creates a translator for a switch with these tables, those of the program and of the driver.
    pub fn new(info: &'a BfrtInfo) -> Translator<'a> {
        Translator { info }
    }

    /// Returns the fixed table with this name.
    pub(super) fn fixed(&self, name: &'static str) -> Result<&'a Table, TranslateError> {
        self.info.named(name).ok_or(TranslateError::Fixed(name))
    }
}

pub(super) fn no_field(table: &Table, field: String) -> TranslateError {
    TranslateError::Field { table: table.name.clone(), field }
}

pub(super) fn invalid_value(table: &Table, field: &str, reason: &'static str) -> TranslateError {
    TranslateError::Value { table: table.name.clone(), field: field.to_owned(), reason }
}
