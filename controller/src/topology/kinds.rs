//! The shapes: each kind is one function from its parameters to names and links.
//!
//! A new kind is a struct in `spec.rs`, a function here and a line in [`draft`].

use super::spec::{AddressSpec, Custom, Dumbbell, FatTree, LeafSpine, Star};
use super::{MAX_PORTS, MAX_SWITCHES, Place, Problem, TopologyError, TopologySpec};
use std::collections::BTreeMap;
use weir_units::{Bandwidth, Time};

/// A topology before it is checked: names, and links by name.
#[derive(Default)]
pub(super) struct Draft {
    pub hosts: Vec<String>,
    pub switches: Vec<String>,
    pub links: Vec<DraftLink>,
    /// By host; empty: by rack.
    pub addresses: BTreeMap<String, AddressSpec>,
}

pub(super) struct DraftLink {
    pub a: String,
    pub b: String,
    pub rate: Bandwidth,
    pub delay: Time,
    /// The ports to take, if it matters.
    pub ports: [Option<u16>; 2],
}

impl Draft {
    /// `h1..` and `s1..`.
    fn numbered(hosts: u64, switches: u64) -> Draft {
        Draft {
            hosts: (1..=hosts).map(|n| format!("h{n}")).collect(),
            switches: (1..=switches).map(|n| format!("s{n}")).collect(),
            links: Vec::new(),
            addresses: BTreeMap::new(),
        }
    }
    /// Links the `host`-th host (from 0) to the `switch`-th switch.
    fn attach(&mut self, host: u64, switch: u64, rate: Bandwidth, delay: Time) {
        let (a, b) = (self.hosts[host as usize].clone(), self.switches[switch as usize].clone());
        self.links.push(DraftLink { a, b, rate, delay, ports: [None; 2] });
    }
    /// Links two switches, counted from 0.
    fn connect(&mut self, one: u64, other: u64, rate: Bandwidth, delay: Time) {
        let (a, b) = (self.switches[one as usize].clone(), self.switches[other as usize].clone());
        self.links.push(DraftLink { a, b, rate, delay, ports: [None; 2] });
    }
}

/// Checked before anything is built from a count, so that a slip of the pen cannot fill the memory.
fn within(field: &'static str, value: u64, least: u64, most: u64) -> Result<u64, TopologyError> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(TopologyError::at(Place::Field(field), Problem::OutOfRange { value, least, most }))
}

pub(super) fn draft(spec: &TopologySpec) -> Result<Draft, TopologyError> {
    match spec {
        TopologySpec::Dumbbell(it) => dumbbell(it),
        TopologySpec::Star(it) => star(it),
        TopologySpec::LeafSpine(it) => leaf_spine(it),
        TopologySpec::FatTree(it) => fat_tree(it),
        TopologySpec::Custom(it) => Ok(custom(it)),
    }
}

fn dumbbell(it: &Dumbbell) -> Result<Draft, TopologyError> {
    let switches = within("switches", it.switches, 1, MAX_SWITCHES as u64)?;
    let senders = within("senders", it.senders, 1, MAX_PORTS as u64)?;
    let receivers = within("receivers", it.receivers, 1, MAX_PORTS as u64)?;
    let mut draft = Draft::numbered(senders + receivers, switches);
    for host in 0..senders {
        draft.attach(host, 0, it.rate, it.delay);
    }
    for host in senders..senders + receivers {
        draft.attach(host, switches - 1, it.rate, it.delay);
    }
    for left in 0..switches - 1 {
        draft.connect(left, left + 1, it.fabric_rate.unwrap_or(it.rate), it.delay);
    }
    Ok(draft)
}

fn star(it: &Star) -> Result<Draft, TopologyError> {
    let hosts = within("hosts", it.hosts, 1, MAX_PORTS as u64)?;
    let mut draft = Draft::numbered(hosts, 1);
    for host in 0..hosts {
        draft.attach(host, 0, it.rate, it.delay);
    }
    Ok(draft)
}

fn leaf_spine(it: &LeafSpine) -> Result<Draft, TopologyError> {
    let leaves = within("leaves", it.leaves, 1, MAX_PORTS as u64)?;
    let spines = within("spines", it.spines, 1, MAX_PORTS as u64)?;
    let per_leaf = within("hosts_per_leaf", it.hosts_per_leaf, 1, MAX_PORTS as u64)?;
    let mut draft = Draft::numbered(leaves * per_leaf, leaves + spines);
    for host in 0..leaves * per_leaf {
        draft.attach(host, host / per_leaf, it.host_rate.unwrap_or(it.rate), it.delay);
    }
    for leaf in 0..leaves {
        for spine in 0..spines {
            draft.connect(leaf, leaves + spine, it.fabric_rate.unwrap_or(it.rate), it.delay);
        }
    }
    Ok(draft)
}

fn fat_tree(it: &FatTree) -> Result<Draft, TopologyError> {
    /// 5k²/4 switches: 56 is the last even k below the limit of 4,095.
    const MOST_K: u64 = 56;
    let k = within("k", it.k, 2, MOST_K)?;
    if k % 2 == 1 {
        return Err(TopologyError::at(Place::Field("k"), Problem::OddArity(k)));
    }
    let half = k / 2;
    let (edges, cores) = (k * half, half * half);
    let fabric = it.fabric_rate.unwrap_or(it.rate);
    let mut draft = Draft::numbered(edges * half, 2 * edges + cores);
    for host in 0..edges * half {
        draft.attach(host, host / half, it.rate, it.delay);
    }
    // Every edge switch sees the aggregation switches of its pod in the same order, and the n-th
    // aggregation switch of any pod sees the n-th plane of cores: that is what makes ECMP symmetric.
    for pod in 0..k {
        for edge in 0..half {
            for plane in 0..half {
                draft.connect(pod * half + edge, edges + pod * half + plane, fabric, it.delay);
            }
        }
    }
    for pod in 0..k {
        for plane in 0..half {
            for core in 0..half {
                draft.connect(edges + pod * half + plane, 2 * edges + plane * half + core, fabric, it.delay);
            }
        }
    }
    Ok(draft)
}

fn custom(it: &Custom) -> Draft {
    let links = it.links.iter().map(|link| DraftLink {
        a: link.a.clone(),
        b: link.b.clone(),
        rate: link.rate.unwrap_or(it.rate),
        delay: link.delay.unwrap_or(it.delay),
        ports: [link.a_port, link.b_port],
    });
    Draft {
        hosts: it.hosts.clone(),
        switches: it.switches.clone(),
        links: links.collect(),
        addresses: it.addresses.clone(),
    }
}
