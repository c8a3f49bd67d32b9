//! The P4Runtime servers of `weir switch`.

use super::checks::warn;
use super::fabric::nth_address;
use super::options::GrpcOptions;
use crate::console::Failure;
use std::fs;
use std::net::{TcpListener, ToSocketAddrs};
use std::path::Path;
use std::time::SystemTime;
use weir_server::p4runtime::{ServeError, Server, ServerConfig, TlsConfig};
use weir_switch::driver::DataplaneHandle;

/// The default of simple_switch_grpc (main.cpp); 9559 is the port that IANA assigned to P4Runtime.
pub(super) const DEFAULT_ADDRESS: &str = "0.0.0.0:9559";

/// The listening sockets and the TLS configuration of the servers. Connections wait in the backlog until
/// [`Self::serve`].
pub(super) struct Endpoints {
    listeners: Vec<TcpListener>,
    tls: Option<TlsConfig>,
}

impl Endpoints {
    /// Opens one socket per switch, from the address of `--grpc-server-addr` or `default_address` on. All errors in the
    /// options are reported here.
    pub(super) fn open(
        options: &GrpcOptions,
        default_address: &str,
        switch_count: usize,
    ) -> Result<Endpoints, Failure> {
        let first = options.addr.as_deref().unwrap_or(default_address);
        let tls = options.ssl.then(|| tls(options)).transpose()?;
        if let Some(problem) = tls.as_ref().and_then(|tls| tls.validity_problem(SystemTime::now())) {
            let file = options.cert.as_deref().unwrap_or(Path::new("")).display();
            warn(&format!("--grpc-server-cert {file}: {problem}; clients that verify it will not connect"))?;
        }
        let invalid = |error: &dyn std::fmt::Display| {
            Failure::Input(format!("--grpc-server-addr {first}: {error}; choose another address and port"))
        };
        let address = first.to_socket_addrs().map_err(|error| invalid(&error))?.next();
        let address = address.ok_or_else(|| invalid(&"no address found"))?;
        let open = |index| {
            let address = nth_address(address, index)?;
            TcpListener::bind(address).map_err(|error| match switch_count {
                1 => invalid(&error),
                _ => invalid(&format_args!("port {} for switch {}: {error}", address.port(), index + 1)),
            })
        };
        Ok(Endpoints { listeners: (0..switch_count).map(open).collect::<Result<_, _>>()?, tls })
    }

    /// Starts the servers; `switches` are in the order of the sockets.
    pub(super) fn serve(self, switches: Vec<(DataplaneHandle, ServerConfig)>) -> Result<Server, Failure> {
        let is_unencrypted = self.tls.is_none();
        let switches = switches.into_iter().zip(self.listeners).map(|((handle, config), listener)| {
            (handle, ServerConfig { tls: self.tls.clone(), ..config }, listener)
        });
        let server = Server::start_all(switches.collect()).map_err(|error| match error {
            ServeError::System(_) | ServeError::Thread(_) => Failure::work(error),
            ServeError::Tls(_) | ServeError::Dataplane(_) => Failure::input(error),
        })?;
        let address = server.address();
        if is_unencrypted && !address.ip().is_loopback() {
            warn(&format!(
                "P4Runtime is served on {address} without TLS: anyone who reaches this address controls the switch; \
                 use --grpc-server-ssl, or --grpc-server-addr 127.0.0.1:{}",
                address.port()
            ))?;
        }
        Ok(server)
    }
}

fn tls(options: &GrpcOptions) -> Result<TlsConfig, Failure> {
    Ok(TlsConfig {
        certificate: pem(options.cert.as_deref(), "--grpc-server-cert")?,
        key: pem(options.key.as_deref(), "--grpc-server-key")?,
        client_roots: match options.with_client_auth {
            true => Some(pem(options.cacert.as_deref(), "--grpc-server-cacert")?),
            false => None,
        },
    })
}

/// Reads the file of an option.
fn pem(path: Option<&Path>, option: &str) -> Result<Vec<u8>, Failure> {
    let path = path.ok_or_else(|| Failure::Input(format!("TLS requires {option}")))?;
    fs::read(path).map_err(|error| Failure::Input(format!("{option} {}: {error}", path.display())))
}
