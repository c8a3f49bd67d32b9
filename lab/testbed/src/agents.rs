//! The agents: one process `weir host run` per host, which reads a list of flows and writes its results as JSON. This
//! module writes the lists and command lines, and reads the results.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use weir_agent::results::AgentResults;
use weir_controller::topology::{HostIx, Topology};
use weir_experiment::backend::Error;
use weir_experiment::{Experiment, Scheme};
use weir_units::Time;

/// A flow in the format of `weir host run --flows-from`.
#[derive(Serialize)]
struct FlowEntry {
    peer: String,
    port: u16,
    start: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<String>,
    /// Addresses of the senders that the flow's first packets announce to the receiver.
    #[serde(rename = "announces", skip_serializing_if = "Option::is_none")]
    announced_senders: Option<String>,
    /// Id of the incast that the announced senders belong to.
    #[serde(skip_serializing_if = "Option::is_none")]
    incast: Option<u32>,
}

/// The command lines of the agents for one scheme, and the files of their results.
pub(crate) struct AgentCommands {
    /// Command line by host.
    pub by_host: BTreeMap<String, Vec<String>>,
    /// Path of the results by host.
    result_files: BTreeMap<String, PathBuf>,
}

impl AgentCommands {
    /// Writes the lists of flows into `work_dir` and returns the command lines of the agents. With a policy key, each
    /// agent has a control socket with the name of its host.
    pub(crate) fn prepare(
        experiment: &Experiment,
        scheme: &Scheme,
        base_rtt: Time,
        sample_interval: Time,
        work_dir: &Path,
        policy_key: Option<&Path>,
    ) -> Result<AgentCommands, Error> {
        let weir = std::env::current_exe()?.display().to_string();
        let (topology, spec) = (&experiment.topology, &experiment.spec);
        let mut commands = AgentCommands { by_host: BTreeMap::new(), result_files: BTreeMap::new() };
        for ix in topology.host_ixs() {
            let host = topology.host(ix);
            let config = experiment.scheme_of(ix, scheme);
            let flow_list = work_dir.join(format!("{}-flows.yaml", host.name));
            fs::write(
                &flow_list,
                serde_yaml::to_string(&flow_entries(experiment, &host.name)).expect("plain data"),
            )?;
            let results = work_dir.join(format!("{}-results.json", host.name));
            // If the agent fails, the results of the previous scheme must not be taken for its own. Before the first
            // scheme there is no file to remove.
            let _ = fs::remove_file(&results);
            let mut command = vec![weir.clone(), "host".into(), "run".into()];
            let mut option = |name: &str, value: String| command.extend([name.to_owned(), value]);
            option("--iface", "eth0".into());
            option("--flows-from", flow_list.display().to_string());
            option("--out", results.display().to_string());
            option("--scheme", config.name().into());
            for (parameter, value) in config.values() {
                option("--set", format!("{parameter}={value}"));
            }
            if let Some(program) = &spec.program {
                option("--program", program.agent_argument().map_err(Error::Input)?);
            }
            option("--rate", topology.link(host.link).rate.to_string());
            option("--mtu", spec.mtu.to_string());
            option("--base-rtt", base_rtt.to_string());
            // The switches of the testbed, BMv2 and `weir switch` on sockets, have clocks in us.
            option("--telemetry-clock", "us".into());
            option("--ack-every", spec.transport.ack_every.to_string());
            option("--recovery", experiment.recovery(scheme).to_string());
            if let Some(min_rto) = spec.transport.min_rto {
                option("--min-rto", min_rto.to_string());
            }
            if let Some(initial_rto) = spec.transport.initial_rto {
                option("--initial-rto", initial_rto.to_string());
            }
            if let Some(user_timeout) = spec.transport.user_timeout {
                option("--user-timeout", user_timeout.to_string());
            }
            if let Some(active_window) = spec.transport.active_window {
                option("--active-window", active_window.to_string());
            }
            option("--for", spec.duration.to_string());
            option("--sample", sample_interval.to_string());
            if let Some(key) = policy_key {
                option("--policy-key", key.display().to_string());
                option("--control", host.name.clone());
                let policy = spec.policy.as_ref();
                let options = [
                    ("--policy-imin", policy.and_then(|policy| policy.imin).map(|value| value.to_string())),
                    ("--policy-imax", policy.and_then(|policy| policy.imax).map(|value| value.to_string())),
                    ("--policy-k", policy.and_then(|policy| policy.k).map(|value| value.to_string())),
                ];
                options
                    .into_iter()
                    .for_each(|(name, value)| value.into_iter().for_each(|value| option(name, value)));
            }
            // No busy polling: dozens of agents share a few cores.
            option("--spin", "0us".into());
            commands.by_host.insert(host.name.clone(), command);
            commands.result_files.insert(host.name.clone(), results);
        }
        Ok(commands)
    }

    /// Reads the results by host. An agent that died has none and is omitted.
    pub(crate) fn read_results(&self) -> Result<BTreeMap<String, AgentResults>, Error> {
        let mut all = BTreeMap::new();
        for (host, path) in &self.result_files {
            let Ok(text) = fs::read_to_string(path) else { continue };
            let results = serde_json::from_str(&text)
                .map_err(|error| Error::Work(format!("results of {host}: {error}")))?;
            all.insert(host.clone(), results);
        }
        Ok(all)
    }
}

/// Returns the flows that a host sends, in the order of the experiment.
fn flow_entries(experiment: &Experiment, host: &str) -> Vec<FlowEntry> {
    let topology = &experiment.topology;
    let own = experiment.flows.iter().filter(|flow| topology.host(flow.from).name == host);
    own.map(|flow| FlowEntry {
        peer: topology.host(flow.to).ip.to_string(),
        port: flow.entropy_port,
        start: flow.start.to_string(),
        stop: flow.stop.map(|stop| stop.to_string()),
        size: flow.size.map(|size| size.to_string()),
        announced_senders: flow
            .announces
            .as_ref()
            .map(|announcement| addresses(topology, &announcement.senders)),
        incast: flow.announces.as_ref().map(|announcement| announcement.incast_number),
    })
    .collect()
}

/// Returns the addresses of hosts, separated by spaces.
fn addresses(topology: &Topology, hosts: &[HostIx]) -> String {
    let addresses: Vec<String> = hosts.iter().map(|&host| topology.host(host).ip.to_string()).collect();
    addresses.join(" ")
}
