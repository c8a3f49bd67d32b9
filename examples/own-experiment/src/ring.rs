//! `topology: {kind: ring, switches: 4, hosts_per_switch: 2}`

use serde::Deserialize;
use serde_with::serde_as;
use weir_controller::topology::{AsText, Custom, LinkSpec};
use weir_experiment::schemars::{self, JsonSchema};
use weir_experiment::topologies::TopologyKind;
use weir_experiment::workload::InvalidKey;
use weir_units::{Bandwidth, Time};

/// Switches in a ring, the same number of hosts on each. The fields are the keys in an experiment file.
#[serde_as]
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ring {
    switches: u64,
    hosts_per_switch: u64,
    #[serde_as(as = "AsText")]
    rate: Bandwidth,
    #[serde_as(as = "AsText")]
    delay: Time,
}

impl TopologyKind for Ring {
    const KIND: &'static str = "ring";
    const ABOUT: &'static str = "switches in a ring, hosts on each";

    fn build(&self) -> Result<Custom, InvalidKey> {
        let Ring { switches, hosts_per_switch, rate, delay } = *self;
        if switches < 3 {
            return Err(InvalidKey::new("switches", format!("a ring has three or more, not {switches}")));
        }
        let host = |n: u64| format!("h{}", n + 1);
        let switch = |n: u64| format!("s{}", n % switches + 1);
        let hosts = switches * hosts_per_switch;
        let to_hosts = (0..hosts).map(|n| LinkSpec::new(host(n), switch(n / hosts_per_switch)));
        let around = (0..switches).map(|n| LinkSpec::new(switch(n), switch(n + 1)));
        Ok(Custom {
            hosts: (0..hosts).map(host).collect(),
            switches: (0..switches).map(switch).collect(),
            links: to_hosts.chain(around).collect(),
            rate,
            delay,
            addresses: Default::default(),
        })
    }
}
