//! The Thrift server of `weir switch`.

use super::options::Options;
use crate::console::Failure;
use std::io::Write;
use std::net::Ipv4Addr;
use weir_switch::driver::DataplaneHandle;
use weir_switch::thrift::{ThriftConfig, ThriftServer};

/// Starts it, on all addresses as BMv2 does. A port that was asked for must be free; BMv2's own may not be, where several
/// switches run on a machine.
pub fn start(args: &Options, dataplane: DataplaneHandle) -> Result<Option<ThriftServer>, Failure> {
    let port = args.thrift_port.unwrap_or(ThriftConfig::PORT);
    let listen = (Ipv4Addr::UNSPECIFIED, port).into();
    let config = ThriftConfig { listen, device_id: args.device_id, seed: args.seed() };
    match ThriftServer::start(dataplane, &config) {
        Ok(server) => Ok(Some(server)),
        Err(error) if args.thrift_port.is_none() => {
            let warning = "no Thrift server; give its port with --thrift-port";
            writeln!(std::io::stderr(), "warning: port {port}: {error}: {warning}")?;
            Ok(None)
        }
        Err(error) => Err(Failure::Input(format!("--thrift-port {port}: {error}; give another port"))),
    }
}
