//! Types of the runtime API of tables, profiles, counters and meters.
//!
//! Values are big-endian byte strings of any length. A value that does not fit its field is an error.

use crate::program::ActionId;
use std::fmt;

/// Identifies an entry within one table. Handles of deleted entries are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryHandle(pub u32);

/// Identifies a member within one action profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberHandle(pub u32);

/// Identifies a group within one action profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupHandle(pub u32);

/// The match of one key element of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyMatch {
    /// Equal to this value.
    Exact(Vec<u8>),
    /// Equal to this value in the first `prefix_len` bits.
    Lpm {
        /// The prefix; bits after it must be 0.
        value: Vec<u8>,
        /// Number of leading bits that are compared.
        prefix_len: u16,
    },
    /// Equal to this value in the bits that are set in the mask. For an `optional` element use a full mask,
    /// [`KeyMatch::Exact`] or [`KeyMatch::Any`].
    Ternary {
        /// The value; bits outside the mask must be 0.
        value: Vec<u8>,
        mask: Vec<u8>,
    },
    /// In the range from `low` to `high`, both included.
    Range { low: Vec<u8>, high: Vec<u8> },
    /// Any value; for ternary, optional, range and LPM elements.
    Any,
}

/// The action of an entry: an action with arguments, or a member or group of an action profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionCall {
    Action {
        action: ActionId,
        /// The arguments, in the order of the parameters.
        args: Vec<Vec<u8>>,
    },
    /// A member of the table's action profile.
    Member(MemberHandle),
    /// A group of the table's action selector.
    Group(GroupHandle),
}

impl ActionCall {
    /// Creates an [`ActionCall::Action`]. [`Pipeline::action_by_name`](super::Pipeline::action_by_name) returns the
    /// action.
    pub fn action(action: ActionId, args: impl IntoIterator<Item = Vec<u8>>) -> ActionCall {
        ActionCall::Action { action, args: args.into_iter().collect() }
    }
}

/// An entry read from a table. Each value has ceil(width / 8) bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    pub handle: EntryHandle,
    /// One match per key element.
    pub key: Vec<KeyMatch>,
    /// The largest matching priority wins; 0 in tables without priorities.
    pub priority: i32,
    pub action: ActionCall,
    /// True if the entry is declared in the program and cannot be changed.
    pub is_const: bool,
    /// Ticks without a match after which the entry times out; 0: never.
    pub idle_timeout: u64,
}

/// The value of a counter cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterValue {
    pub packets: u64,
    pub bytes: u64,
}

/// The rates of a two-rate three-colour meter (RFC 2698). The unit is bytes or packets, as the program
/// declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterRates {
    /// Committed information rate, units per second.
    pub cir: u64,
    /// Committed burst, units.
    pub cburst: u64,
    /// Peak information rate, units per second.
    pub pir: u64,
    /// Peak burst, units.
    pub pburst: u64,
}

/// The kind of an object of the runtime API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    Table,
    Entry,
    ActionProfile,
    Member,
    Group,
    CounterArray,
    MeterArray,
    RegisterArray,
    ValueSet,
    Calculation,
}

/// A part of a table that the program can declare const.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstPart {
    DefaultAction,
    Entries,
}

/// A failed operation of the runtime API. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// No object of this kind has this name.
    #[error("there is no {kind} named {name:?}{known}")]
    Unknown {
        kind: ObjectKind,
        name: String,
        /// The existing names, as the end of the message.
        known: String,
    },
    /// No entry, member or group has this handle.
    #[error("{object}: there is no {kind} {handle}")]
    NoSuchHandle { object: String, kind: ObjectKind, handle: u32 },
    /// No action of the table or profile has this name.
    #[error("{object} has no action {name:?}")]
    UnknownAction { object: String, name: String },
    /// An entry with the same match exists.
    #[error("table {table}: duplicate entry")]
    Duplicate { table: String },
    /// The table has reached its size.
    #[error("table {table} is full: it holds {size} entries")]
    Full { table: String, size: usize },
    /// The program declares the object const.
    #[error("table {table}: {what} is const")]
    Immutable { table: String, what: ConstPart },
    /// A value has more bits than its field.
    #[error("{what} does not fit {bits} bits")]
    TooWide {
        /// The value and the field.
        what: String,
        bits: u32,
    },
    /// The index lies outside the array.
    #[error("{object}: index {index} is out of range (size {size})")]
    OutOfBounds { object: String, index: usize, size: usize },
    /// An entry or group still refers to the member or group.
    #[error("{object}: {kind} {handle} is still in use")]
    InUse { object: String, kind: ObjectKind, handle: u32 },
    /// The action profile has members only.
    #[error("action profile {profile} has no selector, so it has no groups")]
    NoSelector { profile: String },
    /// Any other mismatch between request and program.
    #[error("{0}")]
    Invalid(String),
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ObjectKind::Table => "table",
            ObjectKind::Entry => "entry",
            ObjectKind::ActionProfile => "action profile",
            ObjectKind::Member => "member",
            ObjectKind::Group => "group",
            ObjectKind::CounterArray => "counter array",
            ObjectKind::MeterArray => "meter array",
            ObjectKind::RegisterArray => "register array",
            ObjectKind::ValueSet => "value set",
            ObjectKind::Calculation => "calculation",
        })
    }
}

impl fmt::Display for ConstPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConstPart::DefaultAction => "the default action",
            ConstPart::Entries => "the list of entries",
        })
    }
}

impl fmt::Display for EntryHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl fmt::Display for MemberHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl fmt::Display for GroupHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
