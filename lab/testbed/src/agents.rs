//! The agents: one process `weir host run` per host, which reads its setup from a file and writes its results as JSON.
//! This module writes the setups and command lines, and reads the results.

use super::host_setup::HostSetup;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use weir_agent::results::AgentResults;
use weir_experiment::backend::Error;
use weir_experiment::{Experiment, Scheme};
use weir_units::Time;

/// The command lines of the agents for one scheme, and the files of their results.
pub(crate) struct AgentCommands {
    /// Command line by host.
    pub by_host: BTreeMap<String, Vec<String>>,
    /// Path of the results by host.
    result_files: BTreeMap<String, PathBuf>,
}

impl AgentCommands {
    /// Writes the setups into `work_dir` and returns the command lines of the agents. With a policy key, each
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
            let setup = HostSetup::for_host(experiment, scheme, ix, base_rtt).map_err(Error::Input)?;
            let setup_file = work_dir.join(format!("{}-setup.json", host.name));
            fs::write(&setup_file, serde_json::to_string(&setup).expect("plain data"))?;
            let results = work_dir.join(format!("{}-results.json", host.name));
            // If the agent fails, the results of the previous scheme must not be taken for its own. Before the first
            // scheme there is no file to remove.
            let _ = fs::remove_file(&results);
            let mut command = vec![weir.clone(), "host".into(), "run".into()];
            let mut option = |name: &str, value: String| command.extend([name.to_owned(), value]);
            option("--iface", "eth0".into());
            option("--setup", setup_file.display().to_string());
            option("--out", results.display().to_string());
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
