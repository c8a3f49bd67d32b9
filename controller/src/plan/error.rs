//! Errors of planning.

use crate::thresholds::{DeflectionError, EcnError};
use p4runtime::p4info::P4InfoError;
use thiserror::Error;
use weir_units::Bytes;

/// The reason why a fabric cannot be planned.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PlanError {
    /// The program lacks a table or an action that the plan needs.
    #[error("{0}")]
    P4Info(#[from] P4InfoError),
    /// The match fields of a table differ from those that the plan knows.
    #[error("table \"{table}\" should match on {expected}, the program has {found}")]
    Key {
        table: String,
        /// Fields of the plan.
        expected: String,
        /// Fields of the P4Info.
        found: String,
    },
    /// The parameters of an action differ from those that the plan knows.
    #[error("action \"{action}\" should take {expected}, the program's takes {found}")]
    Params {
        action: String,
        /// Parameters of the plan.
        expected: String,
        /// Parameters of the P4Info.
        found: String,
    },
    /// A table does not list the action in its P4Info.
    #[error("table \"{table}\" has no action \"{action}\"")]
    NotAnAction { table: String, action: String },
    /// A value is wider than its field.
    #[error("{field}: {value} does not fit in {bits} bits")]
    TooWide {
        /// Table and field, or action and parameter.
        field: String,
        value: u128,
        bits: i32,
    },
    /// A field has another match kind than the plan expects.
    #[error("{field}: the match kind is not {expected}")]
    MatchKind { field: String, expected: &'static str },
    /// The plan has more entries than the declared size of a table.
    #[error("switch \"{switch}\" needs {entries} entries in table \"{table}\", which has room for {size}")]
    TableFull { switch: String, table: &'static str, entries: usize, size: i64 },
    /// Invalid ECN thresholds.
    #[error("{0}")]
    Ecn(#[from] EcnError),
    /// Invalid deflection options.
    #[error("{0}")]
    Deflection(#[from] DeflectionError),
    /// A threshold above the queue lengths that the target can count.
    #[error("{what}: Tofino counts queue lengths only up to {}; use a smaller threshold", Bytes::new(u64::from(*max)))]
    Depth { what: &'static str, max: u32 },
    /// There are more trees than the target can select from.
    #[error("{count} trees: Tofino selects from at most {max}")]
    Trees {
        count: u8,
        /// Largest number of trees that the target supports.
        max: usize,
    },
    /// A port has no device port number on the target.
    #[error("switch \"{switch}\", port {port}: no device port number on Tofino; assign one with --ports")]
    NoPort { switch: String, port: u16 },
    /// Two ports have the same device port number.
    #[error("switch \"{switch}\": ports {} and {} have the same device port {number}", ports.0, ports.1)]
    DuplicatePort { switch: String, ports: (u16, u16), number: u16 },
    /// The device port number of a port is reserved or does not exist on the chip.
    #[error("switch \"{switch}\", port {port}: device port {number} is {reason}; see --ports and --chip")]
    PortTaken {
        switch: String,
        port: u16,
        number: u16,
        /// The reason why the number cannot be used, such as "the CPU port".
        reason: &'static str,
    },
    /// Ports are on several pipes, but the program keeps state that all ports must share.
    #[error(
        "switch \"{switch}\": ports {} and {} are on different pipes, each with a register \"{register}\" of its own; \
         use ports of one pipe", ports.0, ports.1
    )]
    Pipes { switch: String, ports: (u16, u16), register: &'static str },
}
