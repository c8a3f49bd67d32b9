use super::EscapeClass;
use crate::call::Call;
use crate::port_row::PortRow;
use crate::profile::EcnRamp;
use crate::routes::Hop;
use crate::topology::Prefix;
use std::net::Ipv4Addr;

/// The table that says where a destination is.
pub const FORWARD: &str = "forward";
/// The table that says when a port is congested; programs without it do not deflect.
pub const DEFLECTION: &str = "deflection";
/// The table that says which multicast group takes what comes by a port; programs without it flood nothing.
pub const POLICY_FLOOD: &str = "policy_flood";

/// The tables that [`Entry`] has entries of.
pub const TABLES: [&str; 14] = [
    FORWARD,
    "member",
    "tree_route",
    "traffic_class",
    "port_profile",
    "int_refresh",
    "rocc_port",
    "rcp_port",
    "credit_port",
    "switch_identity",
    DEFLECTION,
    "deflect_port",
    "escape_class",
    POLICY_FLOOD,
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
        hop: Hop,
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
        row: PortRow,
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
        /// The port, and the number of the group of all others.
        port: u16,
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
}

/// One key field of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// This value.
    Exact(u128),
    /// These leading bits.
    Lpm(u128, u8),
}

impl Entry {
    /// Returns the table.
    pub fn table(&self) -> &'static str {
        match self {
            Entry::Forward { .. } => FORWARD,
            Entry::Member { .. } => "member",
            Entry::TreeRoute { .. } => "tree_route",
            Entry::TrafficClass { .. } => "traffic_class",
            Entry::PortProfile { .. } => "port_profile",
            Entry::IntRefresh { .. } => "int_refresh",
            Entry::PortRow { row, .. } => row.table,
            Entry::SwitchIdentity { .. } => "switch_identity",
            Entry::Deflection { .. } => DEFLECTION,
            Entry::DeflectPort { .. } => "deflect_port",
            Entry::EscapeClass(_) => "escape_class",
            Entry::PolicyFlood { .. } => POLICY_FLOOD,
        }
    }

    /// Returns whether it sets the table's default action.
    pub fn is_default(&self) -> bool {
        matches!(self, Entry::IntRefresh { .. } | Entry::SwitchIdentity { .. })
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
            Entry::PortProfile { port, .. } => vec![("profile_port", exact(port))],
            Entry::PortRow { port, .. } => vec![("port", exact(port))],
            Entry::Deflection { port, .. } | Entry::PolicyFlood { port, .. } => vec![("port", exact(port))],
            Entry::DeflectPort { port, index, .. } => vec![("port", exact(port)), ("index", exact(index))],
            Entry::EscapeClass(EscapeClass { tokens, .. }) => vec![("tokens", exact(tokens.into()))],
            Entry::IntRefresh { .. } | Entry::SwitchIdentity { .. } => Vec::new(),
        }
    }

    /// Returns the action.
    pub fn call(&self) -> Call {
        let port_only = |action, port: u16| Call { action, params: vec![("port", port.into())] };
        match *self {
            Entry::Forward { hop: Hop::Deliver { port, mac }, .. } => {
                let mac = mac.iter().fold(0, |n, &byte| n << 8 | u128::from(byte));
                Call { action: "deliver", params: vec![("port", port.into()), ("dst_mac", mac)] }
            }
            Entry::Forward { hop: Hop::Via { port }, .. } => port_only("via", port),
            Entry::Forward { hop: Hop::Spread { group, size, slice }, .. } => Call {
                action: "spread",
                params: vec![("group", group.into()), ("size", size.into()), ("slice", slice.into())],
            },
            Entry::Forward { hop: Hop::Trees { count }, .. } => {
                Call { action: "trees", params: vec![("count", count.into())] }
            }
            Entry::Member { port, .. } => port_only("member_port", port),
            Entry::TreeRoute { port, .. } => port_only("tree_via", port),
            Entry::TrafficClass { priority, .. } => {
                Call { action: "classify", params: vec![("priority", priority.into())] }
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
            Entry::PolicyFlood { port, .. } => Call { action: "flood", params: vec![("group", port.into())] },
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
