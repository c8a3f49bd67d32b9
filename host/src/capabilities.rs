//! What a P4 program provides for congestion control, and the P4Info objects by which the program declares it.

use std::fmt;

/// A set of [`Capability`] values.
///
/// A program declares each capability by an object in its P4Info, see [`Capability::declaration`]. A scheme works
/// with every program that has the capabilities in
/// [`Needs::capabilities`](crate::scheme::Needs::capabilities).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Capabilities(u16);

/// A function that a switch program provides for schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Capability {
    /// Sets ECN CE by thresholds on the queue length (RFC 3168).
    Marks,
    /// Adds INT records to DATA and PROBE packets that request them (HPCC §3.1).
    DataRecords,
    /// Adds INT records to ACKs (FNCC §3.2.1).
    AckRecords,
    /// Adds records with switch and port ids and, on request, with the sojourn time (HPCC++).
    LinkRecords,
    /// Adds records with the share and the byte count of the packet's own queue (HPCC++ draft §9.4).
    QueueRecords,
    /// On request, adds records only if the port is congested (HPCC++ draft §6).
    CongestionRecords,
    /// Deflects packets of short messages from congested ports (Dart's IOFD).
    Deflection,
    /// Computes RoCC's fair rate for each port.
    RoccRates,
    /// Computes RCP's fair rate for each port.
    RcpRates,
    /// Limits the rate of ExpressPass's credits.
    Credits,
}

/// The P4Info object by which a program declares a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declaration {
    /// A table with this name or alias.
    Table(&'static str),
    /// A word in the package annotation [`TELEMETRY_ANNOTATION`].
    Telemetry(&'static str),
}

/// The annotation of `main` whose words declare which packets gather INT records: `@weir_telemetry("data, acks")`.
pub const TELEMETRY_ANNOTATION: &str = "weir_telemetry";

impl Capability {
    /// All capabilities.
    pub const ALL: [Capability; 10] = [
        Capability::Marks,
        Capability::DataRecords,
        Capability::AckRecords,
        Capability::LinkRecords,
        Capability::QueueRecords,
        Capability::CongestionRecords,
        Capability::Deflection,
        Capability::RoccRates,
        Capability::RcpRates,
        Capability::Credits,
    ];

    /// Returns the object by which a program declares the capability.
    pub const fn declaration(self) -> Declaration {
        match self {
            Capability::Marks => Declaration::Table("port_profile"),
            Capability::DataRecords => Declaration::Telemetry("data"),
            Capability::AckRecords => Declaration::Telemetry("acks"),
            Capability::LinkRecords => Declaration::Telemetry("links"),
            Capability::QueueRecords => Declaration::Table("queue_share"),
            Capability::CongestionRecords => Declaration::Table("int_threshold"),
            Capability::Deflection => Declaration::Table("deflection"),
            Capability::RoccRates => Declaration::Table("rocc_port"),
            Capability::RcpRates => Declaration::Table("rcp_port"),
            Capability::Credits => Declaration::Table("credit_port"),
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Capability::Marks => "ECN marks",
            Capability::DataRecords => "INT records on DATA packets",
            Capability::AckRecords => "INT records on ACKs",
            Capability::LinkRecords => "INT records with switch and port ids",
            Capability::QueueRecords => "INT records of queues served by weight",
            Capability::CongestionRecords => "INT records upon congestion",
            Capability::Deflection => "deflection",
            Capability::RoccRates => "RoCC's fair rates",
            Capability::RcpRates => "RCP's fair rates",
            Capability::Credits => "a limit on the rate of credits",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

impl fmt::Display for Capability {
    /// Writes a description and the object that declares the capability.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.declaration() {
            Declaration::Table(table) => write!(f, "{} (table \"{table}\")", self.description()),
            Declaration::Telemetry(word) => {
                write!(f, "{} (annotation @{TELEMETRY_ANNOTATION}(\"{word}\") of main)", self.description())
            }
        }
    }
}

impl Capabilities {
    /// The empty set.
    pub const NONE: Capabilities = Capabilities(0);

    /// Returns the set of the given capabilities.
    pub const fn of(capabilities: &[Capability]) -> Capabilities {
        let (mut set, mut i) = (0, 0);
        while i < capabilities.len() {
            set |= capabilities[i].bit();
            i += 1;
        }
        Capabilities(set)
    }

    /// Returns the set with `capability` added.
    #[must_use]
    pub const fn with(self, capability: Capability) -> Capabilities {
        Capabilities(self.0 | capability.bit())
    }

    /// Returns whether the set has all capabilities of `needed`.
    pub const fn contains(self, needed: Capabilities) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// Returns the capabilities of `needed` that the set lacks.
    #[must_use]
    pub const fn missing(self, needed: Capabilities) -> Capabilities {
        Capabilities(needed.0 & !self.0)
    }

    /// Returns the capabilities in the order of [`Capability::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL.into_iter().filter(move |capability| self.0 & capability.bit() != 0)
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Capabilities {
        capabilities.into_iter().fold(Capabilities::NONE, Capabilities::with)
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, capability) in self.iter().enumerate() {
            write!(f, "{}{capability}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
