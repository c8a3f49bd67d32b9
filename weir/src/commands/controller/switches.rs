//! The switches' addresses: options of the subcommands that connect to them.

use crate::console::Failure;
use p4runtime::p4::v1::Uint128;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use weir_client::fleet::Outcomes;
use weir_client::{ClientOptions, ClientTls, Program, Target};
use weir_controller::import::Imported;
use weir_controller::topology::Topology;
use weir_units::Time;

/// Port of the first switch of p4 tutorials; the others follow.
const GRPC_BASE_PORT: u16 = 50_051;

/// The protocol that switches speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Of BMv2.
    P4Runtime,
    /// Of Tofino's drivers.
    BfRuntime,
}

impl Protocol {
    /// Returns that by which a program's switches are written.
    pub fn of(program: &Program) -> Protocol {
        if program.is_for_tofino() { Protocol::BfRuntime } else { Protocol::P4Runtime }
    }

    fn base_port(self) -> u16 {
        match self {
            Protocol::P4Runtime => GRPC_BASE_PORT,
            Protocol::BfRuntime => bfruntime::GRPC_PORT,
        }
    }
}

/// The switches' addresses, and options of the connections.
#[derive(Debug, clap::Args)]
pub struct SwitchArgs {
    /// P4Runtime or BF Runtime port of the first switch on 127.0.0.1, the others follow in the topology's order; by
    /// default 50051, with a program for Tofino 50052, with a file of p4-utils as it says there
    #[arg(long, value_name = "PORT")]
    grpc_base_port: Option<u16>,

    /// Device id of the first switch, the others follow; by default 0, with a program for Tofino 0 for all, with a file of
    /// p4-utils as it says there
    #[arg(long, value_name = "N")]
    device_id_base: Option<u64>,

    /// Address of a switch that listens elsewhere: s1=10.1.0.7:9559, or with a device id s1=10.1.0.7:9559#3
    #[arg(long = "switch", value_name = "NAME=HOST:PORT", value_parser = place)]
    places: Vec<SwitchLocation>,

    /// Of two controllers the one with the larger id may write; to drivers of Tofino, the controller's client id
    #[arg(long, value_name = "N", default_value_t = 1)]
    election_id: u64,

    /// Time that a switch may take to answer
    #[arg(long, value_name = "TIME", default_value = "10s")]
    timeout: Time,

    #[command(flatten)]
    tls: TlsArgs,
}

/// TLS to the switches.
#[derive(Debug, clap::Args)]
struct TlsArgs {
    /// Speak TLS, and trust switches for which a certificate in this file (PEM) vouches
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    tls_ca: Option<PathBuf>,

    /// The controller's certificate (PEM), for switches with --grpc-server-with-client-auth
    #[arg(long, value_name = "FILE", help_heading = "TLS", requires_all = ["tls_ca", "tls_key"])]
    tls_cert: Option<PathBuf>,

    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", help_heading = "TLS", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// The name in the switches' certificates; by default the host part of each address
    #[arg(long, value_name = "NAME", help_heading = "TLS", requires = "tls_ca")]
    tls_server_name: Option<String>,
}

impl TlsArgs {
    /// Reads the certificates, if TLS is asked for.
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
            Failure::Input(format!("the certificates of --tls-ca, --tls-cert and --tls-key: {reason}"))
        })?;
        Ok(Some(Arc::new(tls)))
    }
}

#[derive(Clone, Debug)]
struct SwitchLocation {
    name: String,
    address: String,
    device_id: Option<u64>,
}

impl SwitchArgs {
    /// Returns every switch of the topology; another tool's file may say where they are.
    pub fn targets(
        &self,
        topology: &Topology,
        imported: Option<&Imported>,
        protocol: Protocol,
    ) -> Result<Vec<Target>, Failure> {
        let mut places: BTreeMap<&str, &SwitchLocation> =
            self.places.iter().map(|it| (it.name.as_str(), it)).collect();
        let mut targets = Vec::with_capacity(topology.switches.len());
        for (index, switch) in topology.switches.iter().enumerate() {
            let place = places.remove(switch.name.as_str());
            let theirs = imported.and_then(|imported| imported.switch_addresses.get(&switch.name));
            let port = match (self.grpc_base_port, theirs) {
                (None, Some(theirs)) => usize::from(theirs.grpc_port),
                (base, _) => usize::from(base.unwrap_or(protocol.base_port())) + index,
            };
            if place.is_none() && port > usize::from(u16::MAX) {
                return Err(Failure::Input(format!("--grpc-base-port: no port is left for {}", switch.name)));
            }
            let counted = match (self.device_id_base, theirs) {
                (None, Some(theirs)) => theirs.device_id,
                // Each driver counts its own devices.
                (None, None) if protocol == Protocol::BfRuntime => 0,
                (base, _) => base.unwrap_or(0) + index as u64,
            };
            targets.push(Target {
                name: switch.name.clone(),
                address: place.map_or_else(|| format!("127.0.0.1:{port}"), |it| it.address.clone()),
                device_id: place.and_then(|it| it.device_id).unwrap_or(counted),
            });
        }
        match places.keys().next() {
            Some(unknown) => {
                Err(Failure::Input(format!("--switch {unknown}: the topology has no such switch")))
            }
            None => Ok(targets),
        }
    }

    /// Returns the options of the connections.
    pub fn options(&self) -> Result<ClientOptions, Failure> {
        Ok(ClientOptions {
            election_id: Uint128 { high: 0, low: self.election_id },
            timeout: Duration::from_nanos(self.timeout.as_ns()),
            tls: self.tls.load()?,
        })
    }
}

/// `s1=10.1.0.7:9559#3`
fn place(text: &str) -> Result<SwitchLocation, String> {
    let wrong = || "write NAME=HOST:PORT, such as s1=127.0.0.1:50051".to_owned();
    let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
    let (address, device_id) = match rest.split_once('#') {
        Some((address, id)) => (address, Some(id.parse().map_err(|_| format!("\"{id}\" is no device id"))?)),
        None => (rest, None),
    };
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    if name.is_empty() || host.is_empty() || port.parse::<u16>().is_err() {
        return Err(wrong());
    }
    Ok(SwitchLocation { name: name.to_owned(), address: address.to_owned(), device_id })
}

/// Returns the reason of each switch that failed.
pub fn failed<T>(outcomes: &Outcomes<T>) -> BTreeMap<&str, String> {
    outcomes
        .iter()
        .filter_map(|(name, result)| Some((name.as_str(), result.as_ref().err()?.to_string())))
        .collect()
}

/// One failure that gives the reason of each switch that failed. Switches with the same reason share it.
pub fn failure<T>(outcomes: &Outcomes<T>) -> Result<(), Failure> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, reason) in failed(outcomes) {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    let all: Vec<String> =
        reasons.iter().map(|(reason, names)| format!("{}: {reason}", names.join(", "))).collect();
    Err(Failure::Work(all.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_client::ClientError;

    #[test]
    fn every_switch_that_failed_has_its_reason() {
        let error = |reason: &str| {
            let (address, reason) = ("127.0.0.1:1".to_owned(), reason.to_owned());
            Err(ClientError::Unreachable { protocol: "P4Runtime", address, reason, is_refused: false })
        };
        let outcomes: Outcomes<()> =
            [("s1", error("refused")), ("s2", Ok(())), ("s3", error("no route")), ("s4", error("refused"))]
                .into_iter()
                .map(|(name, outcome)| (name.to_owned(), outcome))
                .collect();
        let told = failure(&outcomes).unwrap_err().to_string();
        let of = |reason: &str| format!("no P4Runtime server at 127.0.0.1:1: {reason}");
        assert_eq!(told, format!("s1, s4: {}; s3: {}", of("refused"), of("no route")));
        assert_eq!(failed(&outcomes).len(), 3);
    }
}
