//! A table entry by the names of the P4 program.

use crate::flood::Meter;
use crate::topology::Prefix;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

/// A table entry, or the default action of a table without key. The program's P4Info determines the rest: ids, match
/// kinds, widths and the order of fields.
///
/// [`entry!`](crate::entry) writes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub table: &'a str,
    /// Key fields by name; empty for a default action.
    pub key: Vec<(&'a str, Field)>,
    pub action: &'a str,
    /// Parameters by name, in any order.
    pub params: Vec<(&'a str, Value)>,
    /// The larger wins; 0 in tables without priorities.
    pub priority: i32,
    pub meter: Option<Meter>,
    /// When switches may write the entry.
    pub phase: Phase,
}

/// When the switches of a fabric write an entry, in relation to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// In any order.
    #[default]
    Base,
    /// A route to a prefix: after the switches on the path to it.
    Prefix(Prefix),
    /// A route to an address along one tree: after the switches on the path to it.
    Tree(u8, Ipv4Addr),
    /// When all other entries are written.
    Last,
}

/// A number in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    pub number: u128,
    /// The number is a port, and the target may have another number for it.
    pub is_port: bool,
}

/// A port of the topology as a [`Value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(pub u16);

/// One key field of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Exact(Value),
    Lpm {
        value: u128,
        prefix_len: u8,
    },
    /// Both bounds are inclusive.
    Range {
        low: u128,
        high: u128,
    },
}

/// Returns an [`Entry`](crate::plan::Entry), written as `weir controller plan` prints it.
///
/// ```
/// use weir_controller::plan::{Port, entry};
/// let entry = entry!(member[group = 7u16, index = 0u16] -> member_port(port = Port(2)));
/// assert_eq!((entry.table, entry.action, entry.param("port")), ("member", "member_port", Some(2u16)));
/// ```
#[macro_export]
macro_rules! entry {
    ($table:ident[$($field:ident = $value:expr),*] -> $action:ident($($param:ident = $argument:expr),*)) => {
        $crate::plan::Entry {
            table: stringify!($table),
            key: vec![$((stringify!($field), $crate::plan::Field::from($value))),*],
            action: stringify!($action),
            params: vec![$((stringify!($param), $crate::plan::Value::from($argument))),*],
            priority: 0,
            meter: None,
            phase: $crate::plan::Phase::Base,
        }
    };
}
pub use entry;

impl Entry<'_> {
    pub fn is_default(&self) -> bool {
        self.key.is_empty()
    }

    /// Returns a key field.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.key.iter().find(|(known, _)| *known == name).map(|(_, field)| *field)
    }

    /// Returns the value of an exact key field, if it fits the type.
    pub fn exact<T: TryFrom<u128>>(&self, name: &str) -> Option<T> {
        let Field::Exact(value) = self.field(name)? else { return None };
        T::try_from(value.number).ok()
    }

    /// Returns a parameter of the action, if it fits the type.
    pub fn param<T: TryFrom<u128>>(&self, name: &str) -> Option<T> {
        let (_, value) = self.params.iter().find(|(known, _)| *known == name)?;
        T::try_from(value.number).ok()
    }

    /// Replaces each port number of the entry by the result of `device_port`.
    ///
    /// # Errors
    ///
    /// Returns the first error of `device_port`.
    pub(super) fn with_ports<E>(mut self, device_port: impl Fn(u16) -> Result<u16, E>) -> Result<Self, E> {
        let key = self.key.iter_mut().filter_map(|(_, field)| match field {
            Field::Exact(value) => Some(value),
            Field::Lpm { .. } | Field::Range { .. } => None,
        });
        for value in key.chain(self.params.iter_mut().map(|(_, value)| value)).filter(|value| value.is_port) {
            value.number = device_port(value.number as u16)?.into();
        }
        Ok(self)
    }
}

impl<'a> Entry<'a> {
    pub(super) fn in_phase(self, phase: Phase) -> Entry<'a> {
        Entry { phase, ..self }
    }
}

macro_rules! values {
    ($($number:ty)*) => {
        $(impl From<$number> for Value {
            fn from(number: $number) -> Value {
                Value { number: number.into(), is_port: false }
            }
        })*
    };
}
values!(bool u8 u16 u32 u64 u128);

impl From<Port> for Value {
    fn from(Port(port): Port) -> Value {
        Value { number: port.into(), is_port: true }
    }
}

impl From<Ipv4Addr> for Value {
    fn from(address: Ipv4Addr) -> Value {
        Value::from(address.to_bits())
    }
}

/// A MAC address.
impl From<[u8; 6]> for Value {
    fn from(mac: [u8; 6]) -> Value {
        Value::from(mac.iter().fold(0, |number, &byte| number << 8 | u128::from(byte)))
    }
}

impl<V: Into<Value>> From<V> for Field {
    fn from(value: V) -> Field {
        Field::Exact(value.into())
    }
}

impl From<Prefix> for Field {
    fn from(prefix: Prefix) -> Field {
        Field::Lpm { value: prefix.addr.to_bits().into(), prefix_len: prefix.len }
    }
}

impl From<RangeInclusive<u16>> for Field {
    fn from(range: RangeInclusive<u16>) -> Field {
        Field::Range { low: (*range.start()).into(), high: (*range.end()).into() }
    }
}
