//! The P4Runtime server of `weir switch`.

use super::options::{GrpcOptions, Options};
use super::warn;
use crate::console::{Console, Failure};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::time::SystemTime;
use weir_server::p4runtime::{Server, ServerConfig, TlsConfig};
use weir_switch::driver::DataplaneHandle;

/// simple_switch_grpc's default (main.cpp); the port is the one that IANA gave P4Runtime.
const DEFAULT_ADDRESS: &str = "0.0.0.0:9559";

/// Where the server listens, and its certificate. Clients that connect wait until it serves.
pub struct Endpoint {
    listener: TcpListener,
    tls: Option<TlsConfig>,
}

impl Endpoint {
    /// Opens it. Everything that can be wrong with the options is refused here.
    pub fn open(options: &GrpcOptions) -> Result<Endpoint, Failure> {
        let address = options.addr.as_deref().unwrap_or(DEFAULT_ADDRESS);
        let tls = options.ssl.then(|| tls(options)).transpose()?;
        if let Some(when) = tls.as_ref().and_then(|tls| tls.out_of_date(SystemTime::now())) {
            let file = options.cert.as_deref().unwrap_or(Path::new("")).display();
            warn(&format!("--grpc-server-cert {file}: {when}; clients that check it refuse to connect"))?;
        }
        let listener = TcpListener::bind(address).map_err(|error| {
            Failure::Input(format!("--grpc-server-addr {address}: {error}; give another address and port"))
        })?;
        Ok(Endpoint { listener, tls })
    }

    /// Starts the server.
    pub fn serve(
        self,
        args: &Options,
        dataplane: DataplaneHandle,
        console: &mut Console,
    ) -> Result<Server, Failure> {
        let is_open = self.tls.is_none();
        let config = ServerConfig {
            device_id: args.device_id,
            seed: args.seed(),
            tls: self.tls,
            ..ServerConfig::default()
        };
        let server = Server::start(dataplane, config, self.listener).map_err(Failure::input)?;
        let address = server.address();
        if is_open && !address.ip().is_loopback() {
            warn(&format!(
                "P4Runtime is served on {address} without TLS: anyone who reaches this address controls the switch; \
                 see --grpc-server-ssl, or give --grpc-server-addr 127.0.0.1:{}",
                address.port()
            ))?;
        }
        // As BMv2 says it; with port 0 this is how one learns the port.
        writeln!(console.out, "Server listening on {address}")?;
        console.out.flush()?;
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

fn pem(path: Option<&Path>, option: &str) -> Result<Vec<u8>, Failure> {
    let path = path.ok_or_else(|| Failure::Input(format!("TLS needs {option}")))?;
    fs::read(path).map_err(|error| Failure::Input(format!("{option} {}: {error}", path.display())))
}
