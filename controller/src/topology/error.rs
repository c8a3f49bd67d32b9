//! Errors in the description of a topology.

use super::limits::{MAX_PORTS, MAX_SWITCHES};
use std::fmt;
use thiserror::Error;
use weir_units::{Bandwidth, RateCode};

/// An error in a topology, with its location in the file. The caller adds the name of the file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{location}{problem}")]
pub struct TopologyError {
    pub location: Location,
    pub problem: TopologyProblem,
}

impl TopologyError {
    /// Returns the key to which the error refers, if it refers to one.
    pub fn field(&self) -> Option<&'static str> {
        match self.location {
            Location::Field(name) => Some(name),
            Location::Topology | Location::Link(_) => None,
        }
    }

    /// Returns the index of the link to which the error refers, if it refers to one.
    pub fn link(&self) -> Option<usize> {
        match self.location {
            Location::Link(number) => number.checked_sub(1),
            Location::Topology | Location::Field(_) => None,
        }
    }

    pub(super) fn at(location: Location, problem: TopologyProblem) -> TopologyError {
        TopologyError { location, problem }
    }
}

/// A location in a topology file, formatted as a prefix such as "link 3: ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    Topology,
    /// A key, such as `senders`.
    Field(&'static str),
    /// The n-th link of the list, from 1.
    Link(usize),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Topology => Ok(()),
            Location::Field(name) => write!(f, "{name}: "),
            Location::Link(n) => write!(f, "link {n}: "),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TopologyProblem {
    /// A link or an address names a node that is not declared.
    #[error("{kind} \"{0}\" is not declared", kind = guess(.0))]
    Undeclared(String),
    #[error("\"{0}\" is declared twice; names of hosts and switches must differ")]
    Duplicate(String),
    /// A name that is not valid in file names and interface names.
    #[error("\"{0}\" is not a valid name, use up to 12 letters, digits, '_' or '-', a letter first")]
    BadName(String),
    #[error("\"{0}\" is linked to itself")]
    SelfLink(String),
    #[error("\"{0}\" and \"{1}\" are both hosts; a host is linked to a switch")]
    HostToHost(String, String),
    #[error("host \"{0}\" already has a link; hosts with several links (NICs) are not supported yet")]
    SecondHostLink(String),
    #[error("host \"{0}\" has no link")]
    Unlinked(String),
    #[error("no path between \"{0}\" and \"{1}\"")]
    Disconnected(String, String),
    #[error("rate {0} has no telemetry code; supported rates: {codes}", codes = supported_rates())]
    NoRateCode(Bandwidth),
    #[error("rate is zero; supported rates: {codes}", codes = supported_rates())]
    ZeroRate,
    #[error("port {port} of \"{switch}\" already has a link")]
    PortTaken { switch: String, port: u16 },
    #[error("port {0} is invalid; use 1 to 510, except 255 (the CPU port)")]
    BadPort(u16),
    /// A host without an address, although other hosts have one.
    #[error("host \"{0}\" has no address; give one to all hosts or to none")]
    NoAddress(String),
    #[error("\"{0}\" and \"{1}\" have the same address")]
    SameAddress(String, String),
    #[error("switch \"{0}\" needs more than {MAX_PORTS} ports")]
    TooManyPorts(String),
    #[error("{0} switches; at most {MAX_SWITCHES} are supported, since switch ids have 12 bits")]
    TooManySwitches(usize),
    #[error("{value} is out of range, use {min} to {max}")]
    OutOfRange { value: u64, min: u64, max: u64 },
    #[error("a fat-tree needs an even k, not {0}")]
    OddArity(u64),
    /// No such graph exists, or the random construction did not find one.
    #[error(
        "found no connected graph of {switches} switches with {degree} links each; use another degree or seed"
    )]
    NoRegularGraph {
        switches: u64,
        /// Links of each switch to other switches.
        degree: u64,
    },
    /// The caller has not replaced [`TopologySpec::File`](super::TopologySpec::File) by the content of the file.
    #[error("\"{0}\" has not been read")]
    NotRead(String),
    #[error("the topology has no hosts")]
    NoHost,
}

/// Guesses the kind of an undeclared node from the first letter of its name.
fn guess(name: &str) -> &'static str {
    match name.as_bytes().first() {
        Some(b'h') => "host",
        Some(b's') => "switch",
        _ => "node",
    }
}

/// Formats the rates that have a telemetry code.
fn supported_rates() -> String {
    RateCode::rates().map(|rate| rate.to_string()).collect::<Vec<_>>().join(", ")
}
