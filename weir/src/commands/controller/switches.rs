//! The addresses of switches, the connection options and the failures of switches, shared by the subcommands that
//! connect to switches.

use crate::console::Failure;
use p4runtime::p4::v1::Uint128;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use weir_client::fleet::Outcomes;
use weir_client::{ClientOptions, ClientTls, Program, Target};
use weir_controller::import::Imported;
use weir_controller::topology::Topology;
use weir_experiment::backend::Error;
use weir_report::sweep::pool::cores;
use weir_units::Time;

/// P4Runtime port of the first switch, as in the p4 tutorials; further switches have consecutive ports.
const GRPC_BASE_PORT: u16 = 50_051;

/// The protocol between controller and switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The protocol of BMv2 and `weir switch`.
    P4Runtime,
    /// The protocol of Tofino's drivers.
    BfRuntime,
}

impl Protocol {
    /// Returns the protocol that controls switches with this program.
    pub(crate) fn for_program(program: &Program) -> Protocol {
        if program.is_for_tofino() { Protocol::BfRuntime } else { Protocol::P4Runtime }
    }

    fn base_port(self) -> u16 {
        match self {
            Protocol::P4Runtime => GRPC_BASE_PORT,
            Protocol::BfRuntime => bfruntime::GRPC_PORT,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct SwitchArgs {
    /// P4Runtime or BF Runtime port of the first switch on 127.0.0.1, others consecutive in topology order
    /// [default: 50051; Tofino 50052; p4-utils: from the file]
    #[arg(long, value_name = "PORT")]
    grpc_base_port: Option<u16>,

    /// Device id of the first switch, others consecutive [default: 0; Tofino 0 for all; p4-utils: from the
    /// file]
    #[arg(long, value_name = "N")]
    device_id_base: Option<u64>,

    /// Address of a switch, with an optional device id: s1=10.1.0.7:9559 or s1=10.1.0.7:9559#3
    #[arg(long = "switch", value_name = "NAME=HOST:PORT", value_parser = parse_location)]
    locations: Vec<SwitchLocation>,

    /// Election id; the controller with the highest id is primary. For Tofino, the BF Runtime client id
    #[arg(long, value_name = "N", default_value_t = 1)]
    election_id: u64,

    /// Timeout per request
    #[arg(long, value_name = "TIME", default_value = "10s")]
    timeout: Time,

    #[command(flatten)]
    tls: TlsArgs,
}

#[derive(Debug, clap::Args)]
struct TlsArgs {
    /// Use TLS and trust the CA certificates in FILE (PEM)
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    tls_ca: Option<PathBuf>,

    /// Certificate of the controller (PEM), for switches with --grpc-server-with-client-auth
    #[arg(long, value_name = "FILE", help_heading = "TLS", requires_all = ["tls_ca", "tls_key"])]
    tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", help_heading = "TLS", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Expected name in the switches' certificates [default: the host part of each address]
    #[arg(long, value_name = "NAME", help_heading = "TLS", requires = "tls_ca")]
    tls_server_name: Option<String>,
}

impl TlsArgs {
    /// Reads the certificates; `None` without `--tls-ca`.
    fn load(&self) -> Result<Option<Arc<ClientTls>>, Failure> {
        let Some(ca) = &self.tls_ca else { return Ok(None) };
        let pem = |option: &str, path: &Path| {
            std::fs::read(path)
                .map_err(|error| Failure::Input(format!("{option} {}: {error}", path.display())))
        };
        let identity = match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => Some((pem("--tls-cert", cert)?, pem("--tls-key", key)?)),
            _ => None,
        };
        let tls =
            ClientTls { roots: pem("--tls-ca", ca)?, identity, server_name: self.tls_server_name.clone() };
        tls.check().map_err(|reason| {
            Failure::Input(format!("invalid certificates (--tls-ca, --tls-cert, --tls-key): {reason}"))
        })?;
        Ok(Some(Arc::new(tls)))
    }
}

/// The value of `--switch`.
#[derive(Clone, Debug)]
struct SwitchLocation {
    name: String,
    address: String,
    device_id: Option<u64>,
}

impl SwitchArgs {
    /// Returns the address and device id of every switch of the topology. Options override the addresses of
    /// an imported file, which override the defaults.
    pub(crate) fn targets(
        &self,
        topology: &Topology,
        imported: Option<&Imported>,
        protocol: Protocol,
    ) -> Result<Vec<Target>, Failure> {
        let mut locations: BTreeMap<&str, &SwitchLocation> =
            self.locations.iter().map(|location| (location.name.as_str(), location)).collect();
        let mut targets = Vec::with_capacity(topology.switches.len());
        for (index, switch) in topology.switches.iter().enumerate() {
            let location = locations.remove(switch.name.as_str());
            let imported_address = imported.and_then(|imported| imported.switch_addresses.get(&switch.name));
            let port = match (self.grpc_base_port, imported_address) {
                (None, Some(imported_address)) => usize::from(imported_address.grpc_port),
                (base, _) => usize::from(base.unwrap_or(protocol.base_port())) + index,
            };
            if location.is_none() && port > usize::from(u16::MAX) {
                return Err(Failure::Input(format!(
                    "--grpc-base-port: port range exhausted at {} (last port is 65535)",
                    switch.name
                )));
            }
            let default_device_id = match (self.device_id_base, imported_address) {
                (None, Some(imported_address)) => imported_address.device_id,
                // Each Tofino driver numbers its own devices from 0.
                (None, None) if protocol == Protocol::BfRuntime => 0,
                (base, _) => base.unwrap_or(0) + index as u64,
            };
            targets.push(Target {
                name: switch.name.clone(),
                address: location
                    .map_or_else(|| format!("127.0.0.1:{port}"), |location| location.address.clone()),
                device_id: location.and_then(|location| location.device_id).unwrap_or(default_device_id),
            });
        }
        match locations.keys().next() {
            Some(unknown) => Err(Failure::Input(format!("--switch {unknown}: unknown switch"))),
            None => Ok(targets),
        }
    }

    /// Returns the connection options.
    pub(crate) fn options(&self) -> Result<ClientOptions, Failure> {
        Ok(ClientOptions {
            election_id: Uint128 { high: 0, low: self.election_id },
            timeout: Duration::from_nanos(self.timeout.as_ns()),
            tls: self.tls.load()?,
        })
    }
}

/// Parses `NAME=HOST:PORT`, with an optional `#DEVICE_ID`.
fn parse_location(text: &str) -> Result<SwitchLocation, String> {
    let syntax_error = || "expected NAME=HOST:PORT, for example s1=127.0.0.1:50051".to_owned();
    let (name, rest) = text.split_once('=').ok_or_else(syntax_error)?;
    let (address, device_id) = match rest.split_once('#') {
        Some((address, id)) => {
            (address, Some(id.parse().map_err(|_| format!("invalid device id \"{id}\""))?))
        }
        None => (rest, None),
    };
    let (host, port) = address.rsplit_once(':').ok_or_else(syntax_error)?;
    if name.is_empty() || host.is_empty() || port.parse::<u16>().is_err() {
        return Err(syntax_error());
    }
    Ok(SwitchLocation { name: name.to_owned(), address: address.to_owned(), device_id })
}

/// Returns the error of each failed switch, by name.
pub(super) fn errors_by_switch<T>(outcomes: &Outcomes<T>) -> BTreeMap<&str, String> {
    outcomes
        .iter()
        .filter_map(|(name, result)| Some((name.as_str(), result.as_ref().err()?.to_string())))
        .collect()
}

/// Fails if a switch has failed, with the errors of all failed switches. Switches with the same error are listed
/// together.
pub(crate) fn check_outcomes<T>(outcomes: &Outcomes<T>) -> Result<(), Failure> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, reason) in errors_by_switch(outcomes) {
        match reasons.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    let messages: Vec<String> =
        reasons.iter().map(|(reason, names)| format!("{}: {reason}", names.join(", "))).collect();
    Err(Failure::Work(messages.join("; ")))
}

/// Starts a runtime with `workers` worker threads.
pub(crate) fn runtime(workers: usize) -> Result<Runtime, Failure> {
    /// Maximum number of blocking threads: tokio's default. Resolving a host name needs one.
    const BLOCKING_THREADS: usize = 512;
    let runtime = weir_server::runtime::multi_thread("client", workers, BLOCKING_THREADS);
    runtime.map_err(|error| Error::thread(&error).into())
}

/// Runs a future to completion on a new multi-threaded runtime.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    Ok(runtime(cores())?.block_on(work))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_client::ClientError;

    #[test]
    fn every_failed_switch_is_listed_with_its_reason() {
        let error = |reason: &str| {
            let (address, reason) = ("127.0.0.1:1".to_owned(), reason.to_owned());
            Err(ClientError::Unreachable { protocol: "P4Runtime", address, reason, is_refused: false })
        };
        let outcomes: Outcomes<()> =
            [("s1", error("refused")), ("s2", Ok(())), ("s3", error("no route")), ("s4", error("refused"))]
                .into_iter()
                .map(|(name, outcome)| (name.to_owned(), outcome))
                .collect();
        let message = check_outcomes(&outcomes).unwrap_err().to_string();
        let unreachable = |reason: &str| format!("no P4Runtime server at 127.0.0.1:1: {reason}");
        assert_eq!(message, format!("s1, s4: {}; s3: {}", unreachable("refused"), unreachable("no route")));
        assert_eq!(errors_by_switch(&outcomes).len(), 3);
    }
}
