//! The description of a topology in an experiment file.

use super::mac::Mac;
use super::text::AsText;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_with::{serde_as, skip_serializing_none};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Time};

/// A topology as written in an experiment file: a `kind` and its parameters.
///
/// Every kind except `file` has the keys `rate` and `delay` of links, by default 100Gbps and 1us as in HPCC §5.1.
///
/// ```
/// # use weir_controller::topology::*;
/// let spec: TopologySpec = serde_yaml::from_str(
///     "{kind: dumbbell, switches: 3, senders: 2, receivers: 1, rate: 100Gbps, delay: 1.5us}",
/// )?;
/// assert_eq!(build(&spec)?.switches.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TopologySpec {
    /// Row of switches with senders at one end and receivers at the other.
    Dumbbell(Dumbbell),
    /// One switch with all hosts.
    Star(Star),
    /// Two tiers; every leaf is linked to every spine.
    LeafSpine(LeafSpine),
    /// Three tiers of k-port switches, in k pods.
    FatTree(FatTree),
    /// Row of switches with hosts on each.
    ParkingLot(ParkingLot),
    /// Random regular graph of switches with hosts on each.
    Jellyfish(Jellyfish),
    /// Fully connected groups of switches, with one link between each pair of groups.
    Dragonfly(Dragonfly),
    /// Columns of switches between two sets of hosts (k-ary n-fly).
    Butterfly(Butterfly),
    Custom(Custom),
    /// Topology in another file, in Weir's format or that of another tool.
    File(TopologyFile),
}

impl TopologySpec {
    /// The values of `kind`.
    pub const KINDS: [&str; 10] = [
        "dumbbell",
        "star",
        "leaf-spine",
        "fat-tree",
        "parking-lot",
        "jellyfish",
        "dragonfly",
        "butterfly",
        "custom",
        "file",
    ];

    /// Returns references to all rates and delays of the specification.
    pub fn quantities(&mut self) -> (Vec<&mut Bandwidth>, Vec<&mut Time>) {
        match self {
            TopologySpec::Dumbbell(Dumbbell { rate, fabric_rate, delay, .. })
            | TopologySpec::FatTree(FatTree { rate, fabric_rate, delay, .. })
            | TopologySpec::ParkingLot(ParkingLot { rate, fabric_rate, delay, .. })
            | TopologySpec::Jellyfish(Jellyfish { rate, fabric_rate, delay, .. })
            | TopologySpec::Butterfly(Butterfly { rate, fabric_rate, delay, .. }) => {
                ([rate].into_iter().chain(fabric_rate).collect(), vec![delay])
            }
            TopologySpec::Dragonfly(Dragonfly {
                rate,
                fabric_rate,
                global_rate,
                delay,
                global_delay,
                ..
            }) => {
                let rates = [rate].into_iter().chain(fabric_rate).chain(global_rate).collect();
                (rates, [delay].into_iter().chain(global_delay).collect())
            }
            TopologySpec::File(_) => (Vec::new(), Vec::new()),
            TopologySpec::Star(Star { rate, delay, .. }) => (vec![rate], vec![delay]),
            TopologySpec::LeafSpine(LeafSpine { rate, host_rate, fabric_rate, delay, .. }) => {
                ([rate].into_iter().chain(host_rate).chain(fabric_rate).collect(), vec![delay])
            }
            TopologySpec::Custom(Custom { rate, delay, links, .. }) => {
                let (mut rates, mut delays) = (vec![rate], vec![delay]);
                for link in links {
                    rates.extend(&mut link.rate);
                    delays.extend(&mut link.delay);
                }
                (rates, delays)
            }
        }
    }
}

fn default_rate() -> Bandwidth {
    Bandwidth::from_gbps(100)
}
fn default_delay() -> Time {
    Time::from_us(1)
}
fn one() -> u64 {
    1
}

/// Declares a topology kind: its own keys, then the link keys `rate`, optional further rates, and `delay`. The literals
/// are the descriptions of `rate` and `delay`.
macro_rules! topology {
    ($(#[$about:meta])* pub struct $name:ident { $($keys:tt)* } $rate:literal { $($rates:tt)* } $delay:literal) => {
        $(#[$about])*
        #[serde_as]
        #[skip_serializing_none]
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($keys)*
            #[doc = $rate]
            #[serde_as(as = "AsText")]
            #[serde(default = "default_rate")]
            pub rate: Bandwidth,
            $($rates)*
            #[doc = $delay]
            #[serde_as(as = "AsText")]
            #[serde(default = "default_delay")]
            pub delay: Time,
        }
    };
}

/// Declares a topology kind with a separate rate, `fabric_rate`, for links between switches.
macro_rules! fabric {
    ($($declaration:tt)*) => {
        topology! {
            $($declaration)*
            "Rate of host links."
            {
                /// Rate of links between switches; absent: `rate`.
                #[serde_as(as = "Option<AsText>")]
                #[serde(default)]
                pub fabric_rate: Option<Bandwidth>,
            }
            "Propagation delay of every link."
        }
    };
}

fabric! {
    /// A row of switches, with senders on the first and receivers on the last (FNCC Fig. 9).
    pub struct Dumbbell {
        /// Number of switches.
        pub switches: u64,
        /// Number of hosts on the first switch, from `h1` on.
        pub senders: u64,
        /// Number of hosts on the last switch, numbered after the senders.
        pub receivers: u64,
    }
}

topology! {
    /// One switch with all hosts.
    pub struct Star {
        /// Number of hosts.
        pub hosts: u64,
    }
    "Rate of every link." {} "Propagation delay of every link."
}

topology! {
    /// Two tiers; every leaf is linked to every spine.
    pub struct LeafSpine {
        /// Number of leaf switches, from `s1` on.
        pub leaves: u64,
        /// Number of spine switches, numbered after the leaves.
        pub spines: u64,
        /// Number of hosts on each leaf.
        pub hosts_per_leaf: u64,
    }
    "Rate of links without `host_rate` or `fabric_rate`."
    {
        /// Rate of host links; absent: `rate`.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        pub host_rate: Option<Bandwidth>,
        /// Rate of links between switches; absent: `rate`.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        pub fabric_rate: Option<Bandwidth>,
    }
    "Propagation delay of every link."
}

fabric! {
    /// A fat-tree of k-port switches: k pods of k/2 edge and k/2 aggregation switches, (k/2)² cores and
    /// k³/4 hosts. Switches are numbered by tier: edge, aggregation, core. Edge switches with more than k/2 hosts are
    /// oversubscribed, since they have k/2 uplinks. A core switch has one port per pod.
    pub struct FatTree {
        /// Number of ports of a switch; even.
        pub k: u64,
        /// Number of pods; absent: k.
        #[serde(default)]
        pub pods: Option<u64>,
        /// Number of hosts on each edge switch; absent: k/2.
        #[serde(default)]
        pub hosts_per_edge: Option<u64>,
    }
}

fabric! {
    /// A row of switches with hosts on each. Flows to a host on the last switch join the shared path one after the
    /// other.
    pub struct ParkingLot {
        /// Number of switches.
        pub switches: u64,
        /// Number of hosts on each switch, numbered along the row.
        #[serde(default = "one")]
        pub hosts_per_switch: u64,
    }
}

fabric! {
    /// A random graph in which each switch is linked to `degree` others (Singla et al., NSDI 2012).
    pub struct Jellyfish {
        /// Number of switches.
        pub switches: u64,
        /// Number of links from each switch to others; if `switches` and `degree` are odd, one switch has one less.
        pub degree: u64,
        /// Number of hosts on each switch.
        #[serde(default = "one")]
        pub hosts_per_switch: u64,
        /// Seed of the random graph, independent of the seed of the run.
        #[serde(default = "one")]
        pub seed: u64,
    }
}

fabric! {
    /// Groups of routers (Kim et al., ISCA 2008). The routers of a group are fully connected, and each pair of groups
    /// has one link.
    pub struct Dragonfly {
        /// Number of routers in each group.
        pub a: u64,
        /// Number of hosts on each router.
        pub p: u64,
        /// Number of links from each router to other groups.
        pub h: u64,
        /// Number of groups; absent: the maximum, a * h + 1.
        #[serde(default)]
        pub groups: Option<u64>,
        /// Rate of links between groups; absent: `fabric_rate`, or else `rate`.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        pub global_rate: Option<Bandwidth>,
        /// Propagation delay of links between groups; absent: `delay`.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        pub global_delay: Option<Time>,
    }
}

fabric! {
    /// A k-ary n-fly: hosts `h1` to `h(k^n)` are on the first column of switches, and as many more on the last.
    pub struct Butterfly {
        /// Number of links from each switch to the next column.
        pub k: u64,
        /// Number of columns of switches.
        pub stages: u64,
    }
}

/// A topology file. The reader of experiment files replaces it by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TopologyFile {
    /// Path relative to the directory of the file that contains this key.
    pub path: String,
}

topology! {
    /// Explicit lists of nodes and links; parallel links are allowed.
    pub struct Custom {
        /// Names of the hosts.
        pub hosts: Vec<String>,
        /// Names of the switches.
        pub switches: Vec<String>,
        /// Links. Ports are assigned in this order.
        pub links: Vec<LinkSpec>,
        /// Addresses of all hosts, by name; absent: assigned by rack.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pub addresses: BTreeMap<String, AddressSpec>,
    }
    "Rate of links without a rate of their own." {} "Propagation delay of links without a delay of their own."
}

/// The addresses of a host: `{ip: 10.0.1.1, mac: "08:00:00:00:01:11"}`.
#[serde_as]
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressSpec {
    /// IPv4 address.
    pub ip: Ipv4Addr,
    /// MAC address; absent: `02:00` followed by the four bytes of the IP address.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    pub mac: Option<Mac>,
}

/// One link: `[h1, s1]` or `{a: h1, b: s1, rate: 25Gbps, delay: 1us}`.
#[serde_as]
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkSpec {
    pub a: String,
    pub b: String,
    /// `None`: the rate of the topology.
    #[serde_as(as = "Option<AsText>")]
    pub rate: Option<Bandwidth>,
    /// `None`: the delay of the topology.
    #[serde_as(as = "Option<AsText>")]
    pub delay: Option<Time>,
    /// Port of `a`; `None`: the port after the highest in use. Ignored if `a` is a host.
    pub a_port: Option<u16>,
    /// Port of `b`; `None`: the port after the highest in use. Ignored if `b` is a host.
    pub b_port: Option<u16>,
}

impl LinkSpec {
    /// Creates a link with the topology's rate and delay, on automatically assigned ports.
    pub fn new(a: impl Into<String>, b: impl Into<String>) -> LinkSpec {
        LinkSpec { a: a.into(), b: b.into(), rate: None, delay: None, a_port: None, b_port: None }
    }
}

/// The mapping form of [`LinkSpec`].
#[serde_as]
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LinkFields {
    /// Host or switch at one end.
    a: String,
    /// Host or switch at the other end.
    b: String,
    /// Rate; absent: the rate of the topology.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    rate: Option<Bandwidth>,
    /// Propagation delay; absent: the delay of the topology.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    delay: Option<Time>,
    /// Port of `a`; absent: the port after the highest in use. Ignored if `a` is a host.
    #[serde(default)]
    a_port: Option<u16>,
    /// Port of `b`; absent: the port after the highest in use. Ignored if `b` is a host.
    #[serde(default)]
    b_port: Option<u16>,
}

impl JsonSchema for LinkSpec {
    fn schema_name() -> Cow<'static, str> {
        "LinkSpec".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let map = generator.subschema_for::<LinkFields>();
        let pair = json_schema!({"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2});
        json_schema!({"anyOf": [pair, map]})
    }
}

impl<'de> Deserialize<'de> for LinkSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LinkSpec, D::Error> {
        struct LinkVisitor;
        impl<'de> Visitor<'de> for LinkVisitor {
            type Value = LinkSpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a link: [h1, s1] or {a: h1, b: s1, rate: 25Gbps, delay: 1us}")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<LinkSpec, A::Error> {
                let a: String = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
                let b: String = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
                if seq.next_element::<serde::de::IgnoredAny>()?.is_some() {
                    return Err(A::Error::invalid_length(3, &self));
                }
                Ok(LinkSpec::new(a, b))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LinkSpec, A::Error> {
                let LinkFields { a, b, rate, delay, a_port, b_port } =
                    LinkFields::deserialize(MapAccessDeserializer::new(map))?;
                Ok(LinkSpec { a, b, rate, delay, a_port, b_port })
            }
        }
        deserializer.deserialize_any(LinkVisitor)
    }
}
