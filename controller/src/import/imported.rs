//! The result of an import.

use crate::topology::TopologySpec;
use std::collections::BTreeMap;
use thiserror::Error;

/// The contents of an imported file.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// Always a custom topology.
    pub topology: TopologySpec,
    /// For each switch, the path of its entries file (`sX-runtime.json`), as written in the topology file.
    pub runtime: BTreeMap<String, String>,
    /// For each switch, its gRPC port and device id; empty for formats that do not define them.
    pub switch_addresses: BTreeMap<String, SwitchAddress>,
    /// Parts of the file that were not or only approximately converted.
    pub warnings: Vec<String>,
}

/// P4Runtime address of a switch in another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchAddress {
    pub grpc_port: u16,
    pub device_id: u64,
}

/// An error in an imported file. `location` is a line number or a key path such as `links[3]`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{location}: {problem}")]
pub struct ImportError {
    pub location: String,
    pub problem: String,
}

impl ImportError {
    pub(super) fn at(location: impl Into<String>, problem: impl std::fmt::Display) -> ImportError {
        ImportError { location: location.into(), problem: problem.to_string() }
    }
}
