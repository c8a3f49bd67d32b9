use super::{MAX_PORTS, MAX_SWITCHES};
use std::fmt;
use thiserror::Error;
use weir_units::{Bandwidth, RateCode};

/// A reason why a topology was refused, and the place in the file. The caller adds the file's name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}{problem}")]
pub struct TopologyError {
    /// The place.
    pub place: Location,
    /// The problem.
    pub problem: TopologyProblem,
}

impl TopologyError {
    pub(super) fn at(place: Location, problem: TopologyProblem) -> TopologyError {
        TopologyError { place, problem }
    }
}

/// A place in a topology file. Prints as a prefix ("link 3: ").
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// The whole of it.
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

/// A problem of a topology.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TopologyProblem {
    /// A link names a node that is in neither list.
    #[error("{kind} \"{0}\" is not declared", kind = guess(.0))]
    Undeclared(String),
    /// Two nodes share a name.
    #[error("\"{0}\" is declared twice; names of hosts and switches must differ")]
    Duplicate(String),
    /// A name that would not survive in file names and interface names.
    #[error("\"{0}\" is not a valid name, use up to 12 letters, digits, '_' or '-', a letter first")]
    BadName(String),
    /// Both ends are the same node.
    #[error("\"{0}\" is linked to itself")]
    SelfLink(String),
    /// Both ends are hosts.
    #[error("\"{0}\" and \"{1}\" are both hosts; a host is linked to a switch")]
    HostToHost(String, String),
    /// A second link of a host.
    #[error(
        "host \"{0}\" already has a link; a host has exactly one (one NIC), and topologies with two are not read yet"
    )]
    SecondHostLink(String),
    /// A host without a link.
    #[error("host \"{0}\" has no link")]
    Unlinked(String),
    /// Two hosts that cannot reach each other.
    #[error("no path between \"{0}\" and \"{1}\"")]
    Disconnected(String, String),
    /// A rate that telemetry cannot express.
    #[error("rate {0} has no code in telemetry, use one of {codes}", codes = known_rates())]
    NoRateCode(Bandwidth),
    /// A rate of zero.
    #[error("rate is zero")]
    ZeroRate,
    /// A port that another link has.
    #[error("port {port} of \"{switch}\" has a link already")]
    PortTaken {
        /// The switch.
        switch: String,
        /// The port.
        port: u16,
    },
    /// A port number that a switch cannot have.
    #[error("port {0} cannot be: ports are 1 to 510, without 255, the CPU port")]
    BadPort(u16),
    /// A host without an address, where others have one.
    #[error("host \"{0}\" has no address; give one to all hosts or to none")]
    NoAddress(String),
    /// Two hosts with an address.
    #[error("\"{0}\" and \"{1}\" have the same address")]
    SameAddress(String, String),
    /// More links on a switch than its ports.
    #[error("switch \"{0}\" needs more than {MAX_PORTS} ports")]
    TooManyPorts(String),
    /// More switches than identities.
    #[error("{0} switches, at most {MAX_SWITCHES} can have an identity of 12 bits")]
    TooManySwitches(usize),
    /// A count outside its range.
    #[error("{value} is out of range, use {min} to {max}")]
    OutOfRange {
        /// The value in the file.
        value: u64,
        /// The least allowed.
        min: u64,
        /// The most allowed.
        max: u64,
    },
    /// Fat-tree arity that is odd.
    #[error("a fat-tree needs an even k, not {0}")]
    OddArity(u64),
    /// A graph that cannot be, or that chance did not give.
    #[error(
        "no connected graph of {switches} switches with {degree} links each was found, use another degree or seed"
    )]
    NoRegularGraph {
        /// Switches.
        switches: u64,
        /// Links of each to others.
        degree: u64,
    },
    /// A file that nobody has read.
    #[error("\"{0}\" has not been read")]
    NotRead(String),
    /// No hosts at all.
    #[error("there is no host")]
    NoHost,
}

/// Returns the probable meaning of an undeclared name, by the convention of its first letter.
fn guess(name: &str) -> &'static str {
    match name.as_bytes().first() {
        Some(b'h') => "host",
        Some(b's') => "switch",
        _ => "node",
    }
}

/// Returns the rates that have a code, for messages.
fn known_rates() -> String {
    RateCode::rates().map(|rate| rate.to_string()).collect::<Vec<_>>().join(", ")
}
