//! The entries of a plan, and the names of tables, fields, actions and parameters in Weir's P4 programs.

use super::priority::{EscapeClass, PacketClass};
use crate::call::Call;
use crate::flood::Meter;
use crate::port_params::PortParams;
use crate::routes::NextHop;
use crate::thresholds::EcnRamp;
use crate::topology::Prefix;
use std::net::Ipv4Addr;

/// Table of routes by destination prefix.
pub const FORWARD: &str = "forward";
/// Table of the queue length above which packets are deflected, per port; programs without it do not deflect.
pub(super) const DEFLECTION: &str = "deflection";
/// Table that maps an ingress port to the multicast group for POLICY packets; programs without it do not flood them.
pub(super) const POLICY_FLOOD: &str = "policy_flood";

/// Tables of v1model programs for which [`Entry`] has entries.
pub(super) const TABLES: [&str; 17] = [
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

/// Tables of TNA programs for which [`Entry`] has entries.
pub(super) const TNA_TABLES: [&str; 13] = [
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

/// An entry of one of the tables that Weir's programs share (`p4src/controls`). Names of tables, fields, actions and
/// parameters occur only in this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Forward {
        prefix: Prefix,
        hop: NextHop,
    },
    Member {
        group: u16,
        /// Position in the group, from 0.
        index: u16,
        port: u16,
    },
    /// The route to a destination along one spanning tree.
    TreeRoute {
        tree: u8,
        dst: Ipv4Addr,
        port: u16,
    },
    /// The queue of a kind of Weir packet.
    TrafficClass {
        packets: PacketClass,
        priority: u8,
    },
    /// The queue of DATA packets by the DSCP of their IPv4 header.
    DataClass {
        /// DSCP, equal to the number of the queue.
        class: u8,
    },
    /// The minimum share of a port's rate that a queue receives.
    QueueShare {
        port: u16,
        priority: u8,
        /// In units of 1/4096.
        share: u16,
    },
    PortProfile {
        port: u16,
        /// Code of the port's rate in telemetry records.
        rate_code: u8,
        ecn: EcnRamp,
        leads_to_switch: bool,
    },
    /// The refresh interval of the switch's copy of its ports' telemetry (FNCC's All_INT_Table); the default action of
    /// a table without keys.
    IntRefresh {
        /// Interval in ticks of the switch's clock; 24 bits.
        ticks: u32,
    },
    /// Parameters of the per-port computation of a program.
    PortParams {
        port: u16,
        params: PortParams,
    },
    /// The queue length above which messages are deflected from a port.
    Deflection {
        port: u16,
        /// Queue length in bytes.
        limit: u32,
        /// Number of the port's entries in `deflect_port`.
        candidates: u16,
        /// Number of ticks without a packet after which the switch may forget a deflected message; 0: never.
        lifetime: u64,
    },
    /// A candidate port for deflected messages.
    DeflectPort {
        port: u16,
        /// Index of the candidate, from 0.
        index: u16,
        /// Candidate port.
        to: u16,
        /// Alternative candidate, for packets that arrived on `to`.
        other: u16,
    },
    EscapeClass(EscapeClass),
    /// The multicast group for POLICY packets that arrive at a port, and the port's meter.
    PolicyFlood {
        port: u16,
        /// Group of all other ports of the flooding tree.
        group: u16,
        /// Sustained rate of the meter, in bytes per second.
        rate: u64,
        /// Burst of the meter, in bytes.
        burst: u64,
    },
    /// The identity of the switch; the default action of a table without keys.
    SwitchIdentity {
        /// Id that the switch XORs into `path_id`.
        id: u16,
    },
    /// TNA: the properties of a port, with the number of an ECN ramp instead of thresholds.
    PortRamp {
        port: u16,
        /// Code of the port's rate in telemetry records.
        rate_code: u8,
        /// Number of the ramp; 0: never mark.
        ramp: u16,
        leads_to_switch: bool,
    },
    /// TNA: one step of an ECN ramp.
    RampStep {
        /// Number of the ramp.
        ramp: u16,
        /// Lower bound of the queue length, inclusive, in cells of 80 bytes.
        low: u16,
        /// Upper bound, inclusive.
        high: u16,
        /// Marking probability in units of 1/65536; `None`: always mark.
        probability: Option<u16>,
    },
    /// TNA: the queue length above which messages are deflected from a port.
    DepthLimit {
        port: u16,
        /// Queue length in cells of 80 bytes.
        limit: u16,
    },
    /// TNA: time without a packet after which the switch may forget a deflected message; a register parameter.
    DeflectionLifetime {
        ns: u32,
    },
    /// TNA: the clone session by which egress reports queue lengths to ingress; the default action of a table without
    /// keys.
    Report {
        session: u16,
    },
}

/// One key field of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Exact(u128),
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

impl Entry {
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
            Entry::PortParams { params, .. } => params.table,
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

    /// Returns whether the entry sets the default action of its table.
    pub fn is_default(&self) -> bool {
        matches!(
            self,
            Entry::IntRefresh { .. }
                | Entry::SwitchIdentity { .. }
                | Entry::DeflectionLifetime { .. }
                | Entry::Report { .. }
        )
    }

    /// Returns the priority, or 0 in tables without priorities. All steps of a ramp have the same, since they do not
    /// overlap.
    pub fn priority(&self) -> i32 {
        i32::from(matches!(self, Entry::RampStep { .. }))
    }

    /// Replaces each port number of the entry by the result of `device_port`.
    ///
    /// # Errors
    ///
    /// Returns the first error of `device_port`.
    pub fn with_ports<E>(mut self, device_port: impl Fn(u16) -> Result<u16, E>) -> Result<Entry, E> {
        match &mut self {
            Entry::Forward { hop: NextHop::Deliver { port, .. } | NextHop::Via { port }, .. }
            | Entry::Member { port, .. }
            | Entry::TreeRoute { port, .. }
            | Entry::PortProfile { port, .. }
            | Entry::PortParams { port, .. }
            | Entry::QueueShare { port, .. }
            | Entry::Deflection { port, .. }
            | Entry::PolicyFlood { port, .. }
            | Entry::PortRamp { port, .. }
            | Entry::DepthLimit { port, .. } => *port = device_port(*port)?,
            Entry::DeflectPort { port, to, other, .. } => {
                *port = device_port(*port)?;
                *to = device_port(*to)?;
                *other = device_port(*other)?;
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

    /// Returns the key as field names and values.
    pub fn key(&self) -> Vec<(&'static str, Field)> {
        let exact = |n: u16| Field::Exact(n.into());
        match *self {
            Entry::Forward { prefix, .. } => {
                vec![("dst_addr", Field::Lpm { value: prefix.addr.to_bits().into(), prefix_len: prefix.len })]
            }
            Entry::Member { group, index, .. } => vec![("group", exact(group)), ("index", exact(index))],
            Entry::TreeRoute { tree, dst, .. } => {
                vec![("tree", exact(tree.into())), ("dst_addr", Field::Exact(dst.to_bits().into()))]
            }
            Entry::TrafficClass { packets: PacketClass { kind, is_express }, .. } => {
                vec![("kind", exact(kind.into())), ("express", exact(is_express.into()))]
            }
            Entry::DataClass { class } => vec![("dscp", exact(class.into()))],
            Entry::QueueShare { port, priority, .. } => {
                vec![("port", exact(port)), ("priority", exact(priority.into()))]
            }
            Entry::PortProfile { port, .. } | Entry::PortRamp { port, .. } => {
                vec![("profile_port", exact(port))]
            }
            Entry::RampStep { ramp, low, high, .. } => {
                vec![("ramp", exact(ramp)), ("depth", Field::Range { low: low.into(), high: high.into() })]
            }
            Entry::PortParams { port, .. } => vec![("port", exact(port))],
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

    /// Returns the action and its arguments.
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
                Call { action: "set_priority", params: vec![("priority", class.into())] }
            }
            Entry::QueueShare { share, .. } => {
                Call { action: "set_share", params: vec![("share", share.into())] }
            }
            Entry::IntRefresh { ticks } => {
                Call { action: "refresh_every", params: vec![("ticks", ticks.into())] }
            }
            Entry::PortProfile { rate_code, ecn, leads_to_switch, .. } => Call {
                action: "profile",
                params: vec![
                    ("rate_code", rate_code.into()),
                    ("ecn_kmin", ecn.kmin.into()),
                    ("ecn_kmax", ecn.kmax.into()),
                    ("ecn_slope", ecn.slope.into()),
                    ("fabric", leads_to_switch.into()),
                ],
            },
            Entry::PortParams { ref params, .. } => params.call.clone(),
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
            Entry::PortRamp { rate_code, ramp, leads_to_switch, .. } => Call {
                action: "profile",
                params: vec![
                    ("rate_code", rate_code.into()),
                    ("ecn_ramp", ramp.into()),
                    ("fabric", leads_to_switch.into()),
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

    /// Returns the entry's direct meter; `None` if it has none.
    pub fn meter(&self) -> Option<Meter> {
        match *self {
            Entry::PolicyFlood { rate, burst, .. } => Some(Meter { rate, burst }),
            _ => None,
        }
    }
}
