//! The words of the control surface: what a controller says of tables, profiles, counters and meters.
//!
//! Values are big-endian byte strings of any length; a value that does not fit its field is refused.

use std::fmt;

/// An entry of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryHandle(pub u32);

/// A member of one action profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberHandle(pub u32);

/// A group of one action profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupHandle(pub u32);

/// The match of one key element of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyMatch {
    /// This value.
    Exact(Vec<u8>),
    /// Values whose first bits are these.
    Lpm {
        /// The prefix; bits behind it must be 0.
        value: Vec<u8>,
        /// Number of leading bits that are compared.
        prefix_len: u16,
    },
    /// Values equal to this one where the mask has ones. An `optional` element that must be equal is a ternary one
    /// with a full mask or [`KeyMatch::Exact`].
    Ternary {
        /// The value; bits outside the mask must be 0.
        value: Vec<u8>,
        /// The mask.
        mask: Vec<u8>,
    },
    /// Values from low to high, both included.
    Range {
        /// Lowest.
        low: Vec<u8>,
        /// Highest.
        high: Vec<u8>,
    },
    /// Any value (ternary, optional, range, LPM).
    Any,
}

/// The action of an entry, or its member or group of an action profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionCall {
    /// An action with its arguments.
    Action {
        /// Its name, in full or any suffix of it that is unique in the table.
        name: String,
        /// Its arguments, in order.
        args: Vec<Vec<u8>>,
    },
    /// A member of the table's action profile.
    Member(MemberHandle),
    /// A group of the table's action selector.
    Group(GroupHandle),
}

impl ActionCall {
    /// Returns an action with its arguments.
    pub fn action(name: impl Into<String>, args: impl IntoIterator<Item = Vec<u8>>) -> ActionCall {
        ActionCall::Action { name: name.into(), args: args.into_iter().collect() }
    }
}

/// An entry as it stands in a table. Values are as many bytes as their widths take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// Its handle.
    pub handle: EntryHandle,
    /// One match for every key element.
    pub key: Vec<KeyMatch>,
    /// Larger wins; 0 in tables without priorities.
    pub priority: i32,
    /// Its action.
    pub action: ActionCall,
    /// It came with the program and cannot be changed.
    pub is_const: bool,
    /// Ticks without a match after which it has timed out; 0 for never.
    pub idle_timeout: u64,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterValue {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The rates of a two-rate three-colour meter (RFC 2698). A unit is a byte or a packet, as the meter has it.
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

/// The reason why the control plane's request was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// There is no object of that kind and name.
    #[error("there is no {kind} named {name:?}{known}")]
    Unknown {
        /// The kind of object: "table", "register" and so on.
        kind: &'static str,
        /// By which name.
        name: String,
        /// The names that there are, as the end of the message.
        known: String,
    },
    /// There is no entry, member or group with that handle.
    #[error("{object}: there is no {kind} {handle}")]
    NoSuchHandle {
        /// The table or profile.
        object: String,
        /// "entry", "member" or "group".
        kind: &'static str,
        /// By which number.
        handle: u32,
    },
    /// An entry with the same match is there already.
    #[error("table {table}: there is an entry with this match already")]
    Duplicate {
        /// The table.
        table: String,
    },
    /// The table has as many entries as it may have.
    #[error("table {table} is full: it holds {size} entries")]
    Full {
        /// The table.
        table: String,
        /// Its size.
        size: usize,
    },
    /// The program says that this cannot be changed.
    #[error("table {table}: {what} is const")]
    Immutable {
        /// The table.
        table: String,
        /// "the default action" or "the list of entries".
        what: &'static str,
    },
    /// A value has more bits than its field.
    #[error("{what} does not fit {bits} bits")]
    TooWide {
        /// The value.
        what: String,
        /// The width it must fit.
        bits: u32,
    },
    /// The index lies outside the array.
    #[error("{object}: index {index} is outside its {size} cells")]
    OutOfBounds {
        /// The array.
        object: String,
        /// The index.
        index: usize,
        /// The array's size.
        size: usize,
    },
    /// It is still referred to.
    #[error("{object}: {what} is still in use")]
    InUse {
        /// The profile.
        object: String,
        /// The member or group.
        what: String,
    },
    /// It does not fit the program for another reason.
    #[error("{0}")]
    Invalid(String),
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
