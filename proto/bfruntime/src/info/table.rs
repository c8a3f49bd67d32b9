//! Tables and their fields.

/// Name of the key field that orders the entries of a ternary or range table; the lowest number matches first.
pub const MATCH_PRIORITY: &str = "$MATCH_PRIORITY";

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
    /// A string; one of the listed strings if the list is not empty.
    Text(Vec<String>),
    /// A floating-point number.
    Float,
    /// A container of fields, or an unknown type.
    Other,
}

/// The entries in which an action is allowed.
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
