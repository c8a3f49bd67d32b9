//! Parses `bfrt.json`: the tables of a program or of the driver, with the ids used in BF Runtime messages.
//!
//! ```
//! use bfruntime::BfrtInfo;
//! let info = BfrtInfo::parse(br#"{"tables": [{
//!     "name": "pipe.Ingress.forward", "id": 7, "table_type": "MatchAction_Direct", "size": 64,
//!     "key": [{"id": 1, "name": "dst", "match_type": "LPM", "type": {"type": "bytes", "width": 32}}],
//!     "action_specs": [{"id": 9, "name": "Ingress.via", "action_scope": "TableAndDefault",
//!                       "data": [{"id": 1, "name": "port", "type": {"type": "bytes", "width": 9}}]}]}]}"#)?;
//! let forward = info.named("forward").unwrap();
//! assert_eq!((forward.id, forward.key[0].kind.bits()), (7, Some(32)));
//! assert_eq!(forward.action(9).unwrap().fields[0].name, "port");
//! # Ok::<(), bfruntime::InfoError>(())
//! ```

mod p4info;
mod raw;
mod table;

pub use table::{Action, DataField, KeyField, Kind, MATCH_PRIORITY, MatchType, Scope, Table, TableType};

use std::collections::BTreeMap;
use thiserror::Error;

/// An invalid bfrt.json.
#[derive(Debug, Error)]
pub enum InfoError {
    /// The text is not JSON of this format.
    #[error("not a bfrt.json: {0}")]
    Json(#[from] serde_json::Error),
    #[error("table \"{name}\": id {id:#010x} is already used")]
    DuplicateId {
        /// Name of the second table.
        name: String,
        id: u32,
    },
}

/// Tables by id and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BfrtInfo {
    tables: Vec<Table>,
    by_id: BTreeMap<u32, usize>,
}

impl BfrtInfo {
    /// Parses a bfrt.json.
    ///
    /// # Errors
    ///
    /// The text is not JSON of this format, or two tables share an id.
    pub fn parse(json: &[u8]) -> Result<BfrtInfo, InfoError> {
        BfrtInfo::from_tables(raw::tables(json)?)
    }

    fn from_tables(tables: Vec<Table>) -> Result<BfrtInfo, InfoError> {
        let mut by_id = BTreeMap::new();
        for (index, table) in tables.iter().enumerate() {
            if by_id.insert(table.id, index).is_some() {
                return Err(InfoError::DuplicateId { name: table.name.clone(), id: table.id });
            }
        }
        Ok(BfrtInfo { tables, by_id })
    }

    /// Returns the union of both sets of tables.
    ///
    /// # Errors
    ///
    /// Two tables share an id.
    pub fn merged(&self, other: &BfrtInfo) -> Result<BfrtInfo, InfoError> {
        BfrtInfo::from_tables(self.tables.iter().chain(&other.tables).cloned().collect())
    }

    /// Returns all tables in the order of the file.
    pub fn tables(&self) -> std::slice::Iter<'_, Table> {
        self.tables.iter()
    }

    pub fn id(&self, id: u32) -> Option<&Table> {
        self.by_id.get(&id).map(|&index| &self.tables[index])
    }

    /// Returns the table with this full name, or else the only table whose name ends in `.` and `name`.
    pub fn named(&self, name: &str) -> Option<&Table> {
        let exact = self.tables.iter().find(|table| table.name == name);
        exact.or_else(|| {
            let has_suffix =
                |table: &&Table| table.name.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
            let mut found = self.tables.iter().filter(has_suffix);
            found.next().filter(|_| found.next().is_none())
        })
    }
}
