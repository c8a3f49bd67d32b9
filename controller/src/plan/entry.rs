use super::EscapeClass;
use crate::call::Call;
use crate::port_params::PortParams;
use crate::profile::EcnRamp;
use crate::routes::NextHop;
use crate::topology::Prefix;
use std::net::Ipv4Addr;

/// The table that says where a destination is.
pub const FORWARD: &str = "forward";
/// The table that says when a port is congested; programs without it do not deflect.
pub const DEFLECTION: &str = "deflection";
/// The table that says which multicast group takes what comes by a port; programs without it flood nothing.
pub const POLICY_FLOOD: &str = "policy_flood";

/// The tables of v1model programs that [`Entry`] has entries of.
pub const TABLES: [&str; 17] = [
    FORWARD,
    "member",
    "tree_route",
    "traffic_class",
    "port_profile",
    "int_refresh",
    "rocc_port",
    "rcp_port",
    "credit_port",
    "int_threshold",
    "data_class",
    "queue_share",
    "switch_identity",
    DEFLECTION,
    "deflect_port",
    "escape_class",
    POLICY_FLOOD,
];

/// The tables of TNA programs that [`Entry`] has entries of.
pub const TNA_TABLES: [&str; 13] = [
    FORWARD,
    "member",
    "tree_route",
    "traffic_class",
    "port_profile",
    "switch_identity",
    DEFLECTION,
    "deflect_port",
    "escape_class",
    POLICY_FLOOD,
    "ecn_ramp",
    "lifetime",
    "report",
];

/// An entry of one of the tables that every program here shares (`p4src/controls`). Table, field, action
/// and parameter names stand in this file and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The route to a destination.
    Forward {
        /// The destinations.
        prefix: Prefix,
        /// The next hop.
        hop: NextHop,
    },
    /// One member of an ECMP group.
    Member {
        /// The group.
        group: u16,
        /// Its place in the order.
        index: u16,
        /// The port.
        port: u16,
    },
    /// The route to a destination along one tree.
    TreeRoute {
        /// The tree.
        tree: u8,
        /// The host.
        dst: Ipv4Addr,
        /// The port.
        port: u16,
    },
    /// The queue of a kind of packet.
    TrafficClass {
        /// Kind of Weir packet, and whether it has the flag EXPRESS.
        packets: (u8, bool),
        /// The queue.
        priority: u8,
    },
    /// The queue of DATA whose IPv4 header has a DSCP.
    DataClass {
        /// The DSCP, which is the number of the queue.
        class: u8,
    },
    /// The part of a port's rate that a queue has at least.
    QueueShare {
        /// The port.
        port: u16,
        /// The queue.
        priority: u8,
        /// In 4096ths.
        share: u16,
    },
    /// The properties of a port.
    PortProfile {
        /// The port.
        port: u16,
        /// Code of its rate.
        rate_code: u8,
        /// Thresholds at which it marks.
        ecn: EcnRamp,
        /// True if it leads to a switch.
        fabric: bool,
    },
    /// The refresh of FNCC's All_INT_Table, the default action of a table without keys.
    IntRefresh {
        /// Ticks of the switch's clock, 24 bits.
        ticks: u32,
    },
    /// The computation of a port.
    PortRow {
        /// The port.
        port: u16,
        /// Its numbers.
        row: PortParams,
    },
    /// The queue above which messages are deflected from a port.
    Deflection {
        /// The port.
        port: u16,
        /// With more bytes in its queue than these.
        limit: u32,
        /// Its entries in `deflect_port`.
        candidates: u16,
        /// After how many ticks without a packet a switch may forget a deflected message; 0: never.
        lifetime: u64,
    },
    /// A candidate for deflected messages.
    DeflectPort {
        /// The congested port.
        port: u16,
        /// Index of the candidate, from 0.
        index: u16,
        /// The candidate,
        to: u16,
        /// and another one, for packets that came by the first.
        other: u16,
    },
    /// The queues of deflected packets.
    EscapeClass(EscapeClass),
    /// The ports to which POLICY packets go that arrive at a port.
    PolicyFlood {
        /// The port.
        port: u16,
        /// The group of all others.
        group: u16,
        /// Bytes per second that it may let through,
        rate: u64,
        /// and at once.
        burst: u64,
    },
    /// The switch's identity, the default action of a table without keys.
    SwitchIdentity {
        /// Id that it XORs into `path_id`.
        id: u16,
    },
    /// TNA: the properties of a port, with a ramp instead of thresholds.
    PortRamp {
        /// The port.
        port: u16,
        /// Code of its rate.
        rate_code: u8,
        /// By which it marks; 0: never.
        ramp: u16,
        /// True if it leads to a switch.
        fabric: bool,
    },
    /// TNA: one step of a ramp.
    RampStep {
        /// The ramp.
        ramp: u16,
        /// Units of 80 bytes in the queue, at least
        low: u16,
        /// and at most.
        high: u16,
        /// In units of 1/65536; `None`: always.
        probability: Option<u16>,
    },
    /// TNA: the queue above which messages are deflected from a port.
    DepthLimit {
        /// The port.
        port: u16,
        /// With more units of 80 bytes in its queue than these.
        limit: u16,
    },
    /// TNA: after how long without a packet a switch may forget a deflected message, a register parameter.
    DeflectionLifetime {
        /// In nanoseconds.
        ns: u32,
    },
    /// TNA: the clone session by which egress reports depths of queues to ingress, the default action of a table without
    /// keys.
    Report {
        /// The session.
        session: u16,
    },
}

/// One key field of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// This value.
    Exact(u128),
    /// These leading bits.
    Lpm(u128, u8),
    /// Between these values, both included.
    Range(u128, u128),
}

impl Entry {
    /// Returns the table.
    pub fn table(&self) -> &'static str {
        match self {
            Entry::Forward { .. } => FORWARD,
            Entry::Member { .. } => "member",
            Entry::TreeRoute { .. } => "tree_route",
            Entry::TrafficClass { .. } => "traffic_class",
            Entry::DataClass { .. } => "data_class",
            Entry::QueueShare { .. } => "queue_share",
            Entry::PortProfile { .. } => "port_profile",
            Entry::IntRefresh { .. } => "int_refresh",
            Entry::PortRow { row, .. } => row.table,
            Entry::SwitchIdentity { .. } => "switch_identity",
            Entry::Deflection { .. } => DEFLECTION,
            Entry::DeflectPort { .. } => "deflect_port",
            Entry::EscapeClass(_) => "escape_class",
            Entry::PolicyFlood { .. } => POLICY_FLOOD,
            Entry::PortRamp { .. } => "port_profile",
            Entry::RampStep { .. } => "ecn_ramp",
            Entry::DepthLimit { .. } => DEFLECTION,
            Entry::DeflectionLifetime { .. } => "lifetime",
            Entry::Report { .. } => "report",
        }
    }

    /// Returns whether it sets the table's default action.
    pub fn is_default(&self) -> bool {
        matches!(
            self,
            Entry::IntRefresh { .. }
                | Entry::SwitchIdentity { .. }
                | Entry::DeflectionLifetime { .. }
                | Entry::Report { .. }
        )
    }

    /// Returns the priority, in tables that have one. Steps of a ramp do not overlap, so all have the same.
    pub fn priority(&self) -> i32 {
        i32::from(matches!(self, Entry::RampStep { .. }))
    }

    /// Returns the entry with other numbers for its ports.
    ///
    /// # Errors
    ///
    /// That of `number`.
    pub fn with_ports<E>(mut self, number: impl Fn(u16) -> Result<u16, E>) -> Result<Entry, E> {
        match &mut self {
            Entry::Forward { hop: NextHop::Deliver { port, .. } | NextHop::Via { port }, .. }
            | Entry::Member { port, .. }
            | Entry::TreeRoute { port, .. }
            | Entry::PortProfile { port, .. }
            | Entry::PortRow { port, .. }
            | Entry::QueueShare { port, .. }
            | Entry::Deflection { port, .. }
            | Entry::PolicyFlood { port, .. }
            | Entry::PortRamp { port, .. }
            | Entry::DepthLimit { port, .. } => *port = number(*port)?,
            Entry::DeflectPort { port, to, other, .. } => {
                *port = number(*port)?;
                *to = number(*to)?;
                *other = number(*other)?;
            }
            Entry::Forward { .. }
            | Entry::TrafficClass { .. }
            | Entry::DataClass { .. }
            | Entry::IntRefresh { .. }
            | Entry::EscapeClass(_)
            | Entry::SwitchIdentity { .. }
            | Entry::RampStep { .. }
            | Entry::DeflectionLifetime { .. }
            | Entry::Report { .. } => {}
        }
        Ok(self)
    }

    /// Returns the key, by field names.
    pub fn key(&self) -> Vec<(&'static str, Field)> {
        let exact = |n: u16| Field::Exact(n.into());
        match *self {
            Entry::Forward { prefix, .. } => {
                vec![("dst_addr", Field::Lpm(prefix.addr.to_bits().into(), prefix.len))]
            }
            Entry::Member { group, index, .. } => vec![("group", exact(group)), ("index", exact(index))],
            Entry::TreeRoute { tree, dst, .. } => {
                vec![("tree", exact(tree.into())), ("dst_addr", Field::Exact(dst.to_bits().into()))]
            }
            Entry::TrafficClass { packets: (kind, express), .. } => {
                vec![("kind", exact(kind.into())), ("express", exact(express.into()))]
            }
            Entry::DataClass { class } => vec![("dscp", exact(class.into()))],
            Entry::QueueShare { port, priority, .. } => {
                vec![("port", exact(port)), ("priority", exact(priority.into()))]
            }
            Entry::PortProfile { port, .. } | Entry::PortRamp { port, .. } => {
                vec![("profile_port", exact(port))]
            }
            Entry::RampStep { ramp, low, high, .. } => {
                vec![("ramp", exact(ramp)), ("depth", Field::Range(low.into(), high.into()))]
            }
            Entry::PortRow { port, .. } => vec![("port", exact(port))],
            Entry::Deflection { port, .. }
            | Entry::DepthLimit { port, .. }
            | Entry::PolicyFlood { port, .. } => vec![("port", exact(port))],
            Entry::DeflectPort { port, index, .. } => vec![("port", exact(port)), ("index", exact(index))],
            Entry::EscapeClass(EscapeClass { tokens, .. }) => vec![("tokens", exact(tokens.into()))],
            Entry::IntRefresh { .. }
            | Entry::SwitchIdentity { .. }
            | Entry::DeflectionLifetime { .. }
            | Entry::Report { .. } => Vec::new(),
        }
    }

    /// Returns the action.
    pub fn call(&self) -> Call {
        let port_only = |action, port: u16| Call { action, params: vec![("port", port.into())] };
        match *self {
            Entry::Forward { hop: NextHop::Deliver { port, mac }, .. } => {
                let mac = mac.iter().fold(0, |n, &byte| n << 8 | u128::from(byte));
                Call { action: "deliver", params: vec![("port", port.into()), ("dst_mac", mac)] }
            }
            Entry::Forward { hop: NextHop::Via { port }, .. } => port_only("via", port),
            Entry::Forward { hop: NextHop::Ecmp { group, size, slice }, .. } => Call {
                action: "spread",
                params: vec![("group", group.into()), ("size", size.into()), ("slice", slice.into())],
            },
            Entry::Forward { hop: NextHop::Trees { count }, .. } => {
                Call { action: "trees", params: vec![("count", count.into())] }
            }
            Entry::Member { port, .. } => port_only("member_port", port),
            Entry::TreeRoute { port, .. } => port_only("tree_via", port),
            Entry::TrafficClass { priority, .. } => {
                Call { action: "classify", params: vec![("priority", priority.into())] }
            }
            Entry::DataClass { class } => {
                Call { action: "place_in", params: vec![("priority", class.into())] }
            }
            Entry::QueueShare { share, .. } => {
                Call { action: "guarantees", params: vec![("share", share.into())] }
            }
            Entry::IntRefresh { ticks } => {
                Call { action: "refresh_every", params: vec![("ticks", ticks.into())] }
            }
            Entry::PortProfile { rate_code, ecn, fabric, .. } => Call {
                action: "profile",
                params: vec![
                    ("rate_code", rate_code.into()),
                    ("ecn_kmin", ecn.kmin.into()),
                    ("ecn_kmax", ecn.kmax.into()),
                    ("ecn_slope", ecn.slope.into()),
                    ("fabric", fabric.into()),
                ],
            },
            Entry::PortRow { ref row, .. } => row.call.clone(),
            Entry::Deflection { limit, candidates, lifetime, .. } => Call {
                action: "over",
                params: vec![
                    ("limit", limit.into()),
                    ("ports", candidates.into()),
                    ("ticks", lifetime.into()),
                ],
            },
            Entry::DeflectPort { to, other, .. } => {
                Call { action: "deflect_to", params: vec![("port", to.into()), ("other", other.into())] }
            }
            Entry::EscapeClass(EscapeClass { escape, detour, .. }) => {
                Call { action: "wait_in", params: vec![("escape", escape.into()), ("detour", detour.into())] }
            }
            Entry::PolicyFlood { group, .. } => {
                Call { action: "flood", params: vec![("group", group.into())] }
            }
            Entry::PortRamp { rate_code, ramp, fabric, .. } => Call {
                action: "profile",
                params: vec![
                    ("rate_code", rate_code.into()),
                    ("ecn_ramp", ramp.into()),
                    ("fabric", fabric.into()),
                ],
            },
            Entry::RampStep { probability: Some(probability), .. } => {
                Call { action: "mark_with", params: vec![("probability", probability.into())] }
            }
            Entry::RampStep { .. } => Call { action: "mark_always", params: Vec::new() },
            Entry::DepthLimit { limit, .. } => Call { action: "over", params: vec![("limit", limit.into())] },
            Entry::DeflectionLifetime { ns } => Call { action: "set", params: vec![("value", ns.into())] },
            Entry::Report { session } => {
                Call { action: "report_to", params: vec![("session", session.into())] }
            }
            Entry::SwitchIdentity { id } => {
                Call { action: "identify", params: vec![("switch_id", id.into())] }
            }
        }
    }

    /// Returns bytes per second and burst of the entry's own meter.
    pub fn meter(&self) -> Option<(u64, u64)> {
        match *self {
            Entry::PolicyFlood { rate, burst, .. } => Some((rate, burst)),
            _ => None,
        }
    }
}
