//! What an agent is told about its host, its network and its flows: by the testbed in a file, or by a user with options.

use serde::{Deserialize, Serialize};
use serde_with::serde_as;
use std::path::Path;
use weir_agent::{FlowEntry, Interface};
use weir_controller::topology::{AsText, HostIx, Topology};
use weir_experiment::artifacts::switch_profile;
use weir_experiment::file::TransportSpec;
use weir_experiment::{Experiment, Scheme, SchemeEntry};
use weir_host::HostConfig;
use weir_host::scheme::SwitchProgram;
use weir_host::schemes::Registry;
use weir_host::switch_profile::SwitchProfile;
use weir_units::{Bandwidth, Bytes, Time};

/// The setup of a host, in the format of `weir host run --setup`.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSetup {
    /// Congestion control scheme with its parameters.
    pub scheme: SchemeEntry,
    /// P4 program of the switches: a name such as `weir`, or the path of its P4Info; absent: the one that the scheme needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Rate of the NIC.
    #[serde_as(as = "AsText")]
    pub rate: Bandwidth,
    /// Maximum Ethernet frame on the path, without frame check sequence; absent: that of the interface.
    #[serde_as(as = "Option<AsText>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Bytes>,
    /// Base RTT `T`: slightly more than the round-trip time of the longest path.
    #[serde_as(as = "AsText")]
    pub base_rtt: Time,
    /// Unit of the telemetry's timestamps.
    #[serde_as(as = "AsText")]
    pub telemetry_clock: Time,
    /// Parameters of the transport.
    #[serde(default)]
    pub transport: TransportSpec,
    /// Flows that the host sends.
    #[serde(default)]
    pub flows: Vec<FlowEntry>,
}

impl HostSetup {
    /// Returns the setup of a host of the experiment in the run of `scheme`.
    ///
    /// # Errors
    ///
    /// If a user's program has no P4Info next to its JSON.
    pub(crate) fn for_host(
        experiment: &Experiment,
        scheme: &Scheme,
        ix: HostIx,
        base_rtt: Time,
    ) -> Result<HostSetup, String> {
        let (topology, spec) = (&experiment.topology, &experiment.spec);
        let config = experiment.scheme_of(ix, scheme);
        let set = config.values().into_iter().map(|(parameter, value)| (parameter.to_owned(), value));
        let program = experiment.program_spec(scheme).map(|program| program.agent_argument()).transpose()?;
        let recovery = Some(experiment.recovery(scheme).into());
        Ok(HostSetup {
            scheme: SchemeEntry { set: set.collect(), ..SchemeEntry::named(config.name()) },
            program,
            rate: topology.link(topology.host(ix).link).rate,
            mtu: Some(spec.mtu),
            base_rtt,
            // The switches of the testbed, BMv2 and `weir switch` on sockets, have clocks in us.
            telemetry_clock: Time::from_us(1),
            transport: TransportSpec { recovery, ..spec.transport.clone() },
            flows: flows_of(experiment, ix),
        })
    }

    /// Returns the configuration of the host at `interface`.
    ///
    /// # Errors
    ///
    /// If scheme, parameter or program are unknown: the key, and the reason.
    pub fn config(&self, interface: &Interface, registry: &Registry) -> Result<HostConfig, String> {
        let scheme = self.scheme.config(registry).map_err(|error| error.to_string())?;
        let mut config = HostConfig::new(interface.addr, self.rate, self.base_rtt, scheme);
        config.registry = registry.clone();
        let profile = self.program.as_deref().map(profile).transpose();
        config.switch_profile = profile.map_err(|reason| format!("program: {reason}"))?;
        config.mtu = self.mtu.unwrap_or(interface.max_frame);
        config.tick = self.telemetry_clock;
        self.transport.apply(&mut config);
        Ok(config)
    }
}

/// Returns the profile of a program, given by its P4Info if there is such a file, otherwise by its name.
fn profile(program: &str) -> Result<SwitchProfile, String> {
    if !Path::new(program).is_file() {
        return program.parse().map(|program: SwitchProgram| program.capabilities().into());
    }
    let p4info = std::fs::read_to_string(program).map_err(|error| format!("{program}: {error}"))?;
    let index =
        p4runtime::p4info::Index::from_text(&p4info).map_err(|error| format!("{program}: {error}"))?;
    switch_profile(&index)
}

/// Returns the flows that a host sends, in the order of the experiment.
fn flows_of(experiment: &Experiment, host: HostIx) -> Vec<FlowEntry> {
    let topology = &experiment.topology;
    let own = experiment.flows.iter().filter(|flow| flow.from == host);
    own.map(|flow| FlowEntry {
        peer: topology.host(flow.to).ip.to_string(),
        port: Some(flow.entropy_port),
        start: Some(flow.start.to_string()),
        stop: flow.stop.map(|stop| stop.to_string()),
        size: flow.size.map(|size| size.to_string()),
        mac: None,
        announces: flow.announces.as_ref().map(|announcement| addresses(topology, &announcement.senders)),
        incast: flow.announces.as_ref().map(|announcement| announcement.incast_number),
    })
    .collect()
}

/// Returns the addresses of hosts, separated by spaces.
fn addresses(topology: &Topology, hosts: &[HostIx]) -> String {
    let addresses: Vec<String> = hosts.iter().map(|&host| topology.host(host).ip.to_string()).collect();
    addresses.join(" ")
}
