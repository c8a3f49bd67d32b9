use super::{AsText, Mac};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_with::{serde_as, skip_serializing_none};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Time};

/// A topology as people write it: `kind` chooses the shape, the rest are its parameters.
///
/// Every kind takes `rate` and `delay` of a link (default 100Gbps and 1us, HPCC §5.1's links).
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
    /// Switches in a row.
    Dumbbell(Dumbbell),
    /// Hosts on one switch.
    Star(Star),
    /// Two tiers, every leaf linked to every spine.
    LeafSpine(LeafSpine),
    /// Three tiers, k pods.
    FatTree(FatTree),
    /// Switches in a row, hosts on each.
    ParkingLot(ParkingLot),
    /// A random regular graph of switches.
    Jellyfish(Jellyfish),
    /// Groups of switches, each linked to all others.
    Dragonfly(Dragonfly),
    /// Columns of switches between two sides of hosts.
    Butterfly(Butterfly),
    Custom(Custom),
    /// A topology in a file, ours or another tool's. The reader of files replaces this by its content.
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

/// Declares a topology kind: its own keys, then the keys of links: `rate`, further rates for some links, and `delay`. The
/// literals are the descriptions of `rate` and `delay`.
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
            "Rate of the hosts' links."
            {
                /// Rate of the links between switches, if another.
                #[serde_as(as = "Option<AsText>")]
                #[serde(default)]
                pub fabric_rate: Option<Bandwidth>,
            }
            "Delay of every link."
        }
    };
}

fabric! {
    /// Switches in a row, senders on the first and receivers on the last (FNCC Fig. 9).
    pub struct Dumbbell {
        /// Length of the row.
        pub switches: u64,
        /// Hosts on the first switch, `h1` on.
        pub senders: u64,
        /// Hosts on the last switch, numbered after the senders.
        pub receivers: u64,
    }
}

topology! {
    /// Hosts on one switch.
    pub struct Star {
        /// Number of hosts.
        pub hosts: u64,
    }
    "Rate of every link." {} "Delay of every link."
}

topology! {
    /// Two tiers: leaves `s1..`, then spines.
    pub struct LeafSpine {
        pub leaves: u64,
        pub spines: u64,
        /// Hosts on each leaf.
        pub hosts_per_leaf: u64,
    }
    "Rate of a link that says nothing else."
    {
        /// Rate of the hosts' links, if another.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        pub host_rate: Option<Bandwidth>,
        /// Rate of the links between switches, if another.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        pub fabric_rate: Option<Bandwidth>,
    }
    "Delay of every link."
}

fabric! {
    /// A fat-tree of k-port switches: k pods of k/2 edge and k/2 aggregation switches, (k/2)² cores and
    /// k³/4 hosts. Edge switches come first, then aggregation, then core. With more hosts on an edge switch than its k/2
    /// uplinks it is oversubscribed; with more pods than k the cores have more ports.
    pub struct FatTree {
        /// Ports of a switch; even.
        pub k: u64,
        /// Pods, if not k.
        #[serde(default)]
        pub pods: Option<u64>,
        /// Hosts on an edge switch, if not k/2.
        #[serde(default)]
        pub hosts_per_edge: Option<u64>,
    }
}

fabric! {
    /// Switches in a row with hosts on each: flows from all of them to the last meet one after the other.
    pub struct ParkingLot {
        /// Length of the row.
        pub switches: u64,
        /// Hosts on each switch, numbered along the row.
        #[serde(default = "one")]
        pub hosts_per_switch: u64,
    }
}

fabric! {
    /// Switches linked at random, each to `degree` others (Singla et al., NSDI 2012).
    pub struct Jellyfish {
        /// Number of switches.
        pub switches: u64,
        /// Links of each to others; one switch has one less if their product is odd.
        pub degree: u64,
        /// Hosts on each switch.
        #[serde(default = "one")]
        pub hosts_per_switch: u64,
        /// Of the random graph: part of what the fabric is, not of the run.
        #[serde(default = "one")]
        pub seed: u64,
    }
}

fabric! {
    /// Groups of routers (Kim et al., ISCA 2008): all of a group are linked, and every group to every other by one link.
    pub struct Dragonfly {
        /// Routers of a group.
        pub a: u64,
        /// Hosts of a router.
        pub p: u64,
        /// Links of a router to other groups.
        pub h: u64,
        /// Groups, if less than a * h + 1.
        #[serde(default)]
        pub groups: Option<u64>,
        /// Rate of the links between groups, if another.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        pub global_rate: Option<Bandwidth>,
        /// Delay of the links between groups, if another.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        pub global_delay: Option<Time>,
    }
}

fabric! {
    /// A k-ary n-fly: hosts `h1` to `h(k^n)` on the first column of switches, as many more on the last.
    pub struct Butterfly {
        /// Links of a switch to the next column.
        pub k: u64,
        pub stages: u64,
    }
}

/// A file that describes the fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TopologyFile {
    /// Path relative to the directory of the file that names it.
    pub path: String,
}

topology! {
    /// Every node and link listed; parallel links are allowed.
    pub struct Custom {
        pub hosts: Vec<String>,
        pub switches: Vec<String>,
        /// Links in the order in which they take ports.
        pub links: Vec<LinkSpec>,
        /// Addresses of the hosts: none, and they are given out by rack, or all.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pub addresses: BTreeMap<String, AddressSpec>,
    }
    "Rate of a link that does not say." {} "Delay of a link that does not say."
}

/// The addresses of a host: `{ip: 10.0.1.1, mac: "08:00:00:00:01:11"}`.
#[serde_as]
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressSpec {
    /// Its IPv4 address.
    pub ip: Ipv4Addr,
    /// Its MAC; by default `02:00` and the four bytes of the IP address.
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
    /// Port of `a`; `None`: the next port. Ignored if `a` is a host.
    pub a_port: Option<u16>,
    /// Port of `b`; `None`: the next port. Ignored if `b` is a host.
    pub b_port: Option<u16>,
}

impl LinkSpec {
    /// Creates a link with the topology's rate and delay, on the next ports.
    pub fn new(a: impl Into<String>, b: impl Into<String>) -> LinkSpec {
        LinkSpec { a: a.into(), b: b.into(), rate: None, delay: None, a_port: None, b_port: None }
    }
}

/// The long form of a link.
#[serde_as]
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LinkFields {
    a: String,
    b: String,
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    rate: Option<Bandwidth>,
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    delay: Option<Time>,
    #[serde(default)]
    a_port: Option<u16>,
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
        struct Form;
        impl<'de> Visitor<'de> for Form {
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
        deserializer.deserialize_any(Form)
    }
}
