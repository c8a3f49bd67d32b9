//! `bfrt.json`: the tables of a program, or of the driver, with the ids by which BF Runtime's messages name them.
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

/// A file that is no bfrt.json.
#[derive(Debug, Error)]
pub enum InfoError {
    /// It is not JSON of this form.
    #[error("not a bfrt.json: {0}")]
    Json(#[from] serde_json::Error),
    /// Two tables share an id.
    #[error("table \"{name}\": id {id:#010x} is taken already")]
    DuplicateId {
        /// The second one's name.
        name: String,
        /// The id.
        id: u32,
    },
}

/// Tables, found by id or name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BfrtInfo {
    tables: Vec<Table>,
    by_id: BTreeMap<u32, usize>,
}

/// The kind of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableType {
    /// A table whose entries have actions.
    MatchAction,
    /// A number that register actions read; it has no key.
    RegisterParam,
    /// Another type, by its name.
    Other(String),
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// With the pipe in front, or a fixed table's name, such as `$mirror.cfg`.
    pub name: String,
    /// By which messages name it.
    pub id: u32,
    /// Its kind.
    pub table_type: TableType,
    /// Entries for which it has room.
    pub size: u64,
    /// The program has written its entries.
    pub is_const: bool,
    /// The program fixes its default action.
    pub has_const_default: bool,
    /// Fields to match.
    pub key: Vec<KeyField>,
    /// Actions of its entries.
    pub actions: Vec<Action>,
    /// Fields of every entry, beside those of its action.
    pub fields: Vec<DataField>,
}

/// The kind of match of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchType {
    /// By its value.
    Exact,
    /// By its leading bits.
    Lpm,
    /// By some bits.
    Ternary,
    /// Between two values.
    Range,
    /// By its value, or not at all.
    Optional,
}

/// A field of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyField {
    /// By which messages name it.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its kind of match.
    pub match_type: MatchType,
    /// Its values.
    pub kind: Kind,
}

/// The values of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of some bits, in a byte string.
    Bits(u32),
    /// Yes or no.
    Bool,
    /// A string; one of these unless there are none.
    Text(Vec<String>),
    /// A number with a fraction.
    Float,
    /// A container of fields, or an unknown type.
    Other,
}

/// The entries that may have an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any.
    TableAndDefault,
    /// All but the default entry.
    TableOnly,
    /// Only the default entry.
    DefaultOnly,
}

/// An action.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// By which messages name it.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Entries that may have it.
    pub scope: Scope,
    /// Its parameters.
    pub fields: Vec<DataField>,
}

/// A field of an entry's data.
#[derive(Clone, Debug, PartialEq)]
pub struct DataField {
    /// By which messages name it.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its values.
    pub kind: Kind,
    /// An array of them.
    pub repeated: bool,
    /// Every entry has it.
    pub mandatory: bool,
    /// Only the driver writes it.
    pub read_only: bool,
    /// Its value in entries that do not say it, if it is a number.
    pub default: Option<u64>,
}

impl BfrtInfo {
    /// Reads a bfrt.json.
    ///
    /// # Errors
    ///
    /// It is not JSON of this form, or two tables share an id.
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

    /// Returns the tables of both.
    ///
    /// # Errors
    ///
    /// Two tables share an id.
    pub fn merged(&self, other: &BfrtInfo) -> Result<BfrtInfo, InfoError> {
        BfrtInfo::of(self.tables.iter().chain(&other.tables).cloned().collect())
    }

    /// Returns all tables, in the order of the file.
    pub fn tables(&self) -> std::slice::Iter<'_, Table> {
        self.tables.iter()
    }

    /// Returns the table with this id.
    pub fn id(&self, id: u32) -> Option<&Table> {
        self.by_id.get(&id).map(|&index| &self.tables[index])
    }

    /// Returns the table with this name, or the only one whose name ends in a dot and it.
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
    /// Returns the action with this id.
    pub fn action(&self, id: u32) -> Option<&Action> {
        self.actions.iter().find(|action| action.id == id)
    }

    /// Returns the field of every entry with this name.
    pub fn field(&self, name: &str) -> Option<&DataField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the fields of entries with this action, 0 for none.
    pub fn fields_with(&self, action: u32) -> impl Iterator<Item = &DataField> {
        self.action(action).into_iter().flat_map(|action| &action.fields).chain(&self.fields)
    }
}

impl Kind {
    /// Returns the width of a number.
    pub fn bits(&self) -> Option<u32> {
        match self {
            Kind::Bits(bits) => Some(*bits),
            _ => None,
        }
    }
}
