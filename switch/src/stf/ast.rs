//! The statements of a test. The [parent module](super) describes the syntax of each command.

use super::error::Position;
use super::lexer::{Name, Number};
use crate::tm::Rate;
use weir_units::Time;

#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// Position of the command's name.
    pub position: Position,
    pub command: Command,
}

#[derive(Clone, Debug)]
pub(super) enum Command {
    Packet {
        port: u16,
        bytes: Vec<u8>,
    },
    /// With `frame` `None`, any frame is expected.
    Expect {
        port: u16,
        frame: Option<Pattern>,
    },
    /// No unexpected frame leaves at this port; `None`: at any port.
    NoPacket {
        port: Option<u16>,
    },
    Add(Entry),
    SetDefault {
        table: Name,
        action: EntryAction,
    },
    RemoveAll,
    /// Without `check` the counter is only read, for the report.
    CheckCounter {
        counter: Name,
        cell: Cell,
        check: Option<Check>,
    },
    CounterWrite {
        counter: Name,
        index: usize,
        packets: u64,
        bytes: u64,
    },
    RegisterRead {
        register: Name,
        index: usize,
    },
    RegisterCheck {
        register: Name,
        index: usize,
        value: Number,
    },
    RegisterWrite {
        register: Name,
        index: usize,
        value: Number,
    },
    RegisterReset {
        register: Name,
    },
    MeterRead {
        meter: Name,
        index: usize,
    },
    /// `None`: all cells of the array.
    MeterSet {
        meter: Name,
        index: Option<usize>,
        committed: Bucket,
        peak: Bucket,
    },
    MirrorAdd {
        session: u16,
        port: u16,
    },
    MirrorAddGroup {
        session: u16,
        group: u16,
    },
    MirrorDelete {
        session: u16,
    },
    MirrorRead {
        session: u16,
    },
    GroupCreate {
        group: u16,
    },
    NodeCreate {
        instance: u16,
        ports: Vec<u16>,
    },
    NodeUpdate {
        node: usize,
        ports: Vec<u16>,
    },
    NodeAssociate {
        group: u16,
        node: usize,
    },
    MemberCreate {
        profile: Name,
        action: Action,
    },
    MemberModify {
        profile: Name,
        member: Handle,
        action: Action,
    },
    MemberDelete {
        profile: Name,
        member: Handle,
    },
    ProfileGroupCreate {
        profile: Name,
    },
    ProfileGroupDelete {
        profile: Name,
        group: Handle,
    },
    ProfileGroupAdd {
        profile: Name,
        member: Handle,
        group: Handle,
    },
    ProfileGroupRemove {
        profile: Name,
        member: Handle,
        group: Handle,
    },
    Wait,
    Advance(Time),
    QueueRate {
        rate: Rate,
        port: Option<u16>,
        priority: Option<u8>,
    },
    QueueDepth {
        packets: u32,
        port: Option<u16>,
    },
}

/// A table entry.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub table: Name,
    pub priority: Option<i32>,
    pub key: Vec<(Name, KeyValue)>,
    pub action: EntryAction,
    /// The entry's name in this test, by which `check_counter` refers to it.
    pub alias: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum KeyValue {
    /// A value, possibly with `*` for digits that are ignored.
    Value(Number),
    /// `len` is in bits.
    Prefix { value: Number, len: u16 },
    /// Both bounds are inclusive.
    Range { low: Number, high: Number },
}

/// What an entry does: an action, or a member or group of the table's action profile.
#[derive(Clone, Debug)]
pub(super) enum EntryAction {
    Action(Action),
    Member(Handle),
    Group(Handle),
}

/// The number of a member or group of an action profile, counted from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle {
    pub number: u32,
    pub position: Position,
}

#[derive(Clone, Debug)]
pub(super) struct Action {
    pub name: Name,
    pub args: Vec<(Name, Number)>,
}

/// The index of a cell of a counter array, or the name of an entry with a direct counter.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Index(usize),
    Alias(Name),
}

/// A comparison of a counter with a number.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub unit: CounterUnit,
    /// `==`, `!=`, `<`, `<=`, `>` or `>=`.
    pub relation: &'static str,
    pub value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CounterUnit {
    Packets,
    Bytes,
}

/// One rate of a meter: units (packets or bytes) per microsecond, and the burst in units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bucket {
    pub per_us: f64,
    pub burst: u64,
}

/// An expected frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The hexadecimal digits of the frame; `None` for any digit.
    pub(super) nibbles: Vec<Option<u8>>,
    /// True if the frame must end after these digits.
    pub(super) is_exact: bool,
}
