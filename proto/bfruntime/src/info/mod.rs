//! Parses `bfrt.json`: the tables of a program or of the driver, with the ids used in BF Runtime messages.
//!
//! ```
//! use bfruntime::Info;
//! let info = Info::parse(br#"{"tables": [{
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

use std::collections::BTreeMap;
use thiserror::Error;

/// Name of the key field that orders the entries of a ternary or range table; the lowest number matches first.
pub const MATCH_PRIORITY: &str = "$MATCH_PRIORITY";

/// An invalid bfrt.json.
#[derive(Debug, Error)]
pub enum InfoError {
    /// The text is not JSON of this format.
    #[error("not a bfrt.json: {0}")]
    Json(#[from] serde_json::Error),
    #[error("table \"{name}\": id {id:#010x} is taken already")]
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableType {
    /// A match-action table.
    MatchAction,
    /// A parameter of register actions; the table has no key.
    RegisterParam,
    /// Another type, by name.
    Other(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Full name, including the pipe. Names of fixed tables start with `$`, such as `$mirror.cfg`.
    pub name: String,
    /// Id in messages.
    pub id: u32,
    pub table_type: TableType,
    /// Maximum number of entries.
    pub size: u64,
    /// The entries are const.
    pub is_const: bool,
    /// The default action is const.
    pub has_const_default: bool,
    pub key: Vec<KeyField>,
    pub actions: Vec<Action>,
    /// Fields of every entry, in addition to those of its action.
    pub fields: Vec<DataField>,
}

/// The match kind of a key field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchType {
    Exact,
    /// Longest prefix.
    Lpm,
    Ternary,
    Range,
    /// Exact value or don't care.
    Optional,
}

#[derive(Clone, Debug, PartialEq)]
pub struct KeyField {
    /// Id in messages.
    pub id: u32,
    pub name: String,
    pub match_type: MatchType,
    pub kind: Kind,
}

/// The type of the values of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of this width in bits, sent as a byte string.
    Bits(u32),
    Bool,
    /// A string. If the list is not empty, the string must be one of it.
    Text(Vec<String>),
    /// A floating-point number.
    Float,
    /// A container of fields, or an unknown type.
    Other,
}

/// The entries that an action is allowed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    TableAndDefault,
    /// All entries except the default entry.
    TableOnly,
    DefaultOnly,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Id in messages.
    pub id: u32,
    pub name: String,
    /// Entries in which the action is allowed.
    pub scope: Scope,
    pub fields: Vec<DataField>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DataField {
    /// Id in messages.
    pub id: u32,
    pub name: String,
    pub kind: Kind,
    /// The field is an array of values.
    pub repeated: bool,
    /// The field must be present in new entries.
    pub mandatory: bool,
    /// Only the driver writes the field.
    pub read_only: bool,
    /// Numeric default for entries that omit the field.
    pub default: Option<u64>,
}

impl BfrtInfo {
    /// Parses a bfrt.json.
    ///
    /// # Errors
    ///
    /// The text is not JSON of this format, or two tables share an id.
    pub fn parse(json: &[u8]) -> Result<BfrtInfo, InfoError> {
        BfrtInfo::of(raw::tables(json)?)
    }

    fn of(tables: Vec<Table>) -> Result<BfrtInfo, InfoError> {
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
        BfrtInfo::of(self.tables.iter().chain(&other.tables).cloned().collect())
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
        let whole = self.tables.iter().find(|table| table.name == name);
        whole.or_else(|| {
            let ends = |table: &&Table| table.name.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
            let mut found = self.tables.iter().filter(ends);
            found.next().filter(|_| found.next().is_none())
        })
    }
}

impl Table {
    pub fn action(&self, id: u32) -> Option<&Action> {
        self.actions.iter().find(|action| action.id == id)
    }

    pub fn field(&self, name: &str) -> Option<&DataField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the fields of entries with this action; 0 means no action.
    pub fn fields_with(&self, action: u32) -> impl Iterator<Item = &DataField> {
        self.action(action).into_iter().flat_map(|action| &action.fields).chain(&self.fields)
    }
}

impl Kind {
    /// Returns the width in bits of a numeric field.
    pub fn bits(&self) -> Option<u32> {
        match self {
            Kind::Bits(bits) => Some(*bits),
            _ => None,
        }
    }
}
