//! The Thrift servers of `weir switch`.

use super::checks::warn;
use super::fabric::nth_address;
use super::options::Options;
use crate::console::Failure;
use std::io;
use std::sync::Arc;
use weir_experiment::backend::Error;
use weir_server::thrift::{NotificationSocket, ThriftConfig, ThriftServer};
use weir_switch::driver::DataplaneHandle;

/// Binds the socket on which digests are published: that of `--notifications-addr`, or BMv2's default. If the default
/// cannot be bound, as with two switches of the same device id, the result is `None`.
pub(super) fn notification_socket(args: &Options) -> Result<Option<Arc<NotificationSocket>>, Failure> {
    let default = NotificationSocket::default_address(args.device_id);
    let address = args.notifications_addr.as_ref().unwrap_or(&default);
    match NotificationSocket::bind(address) {
        Ok(socket) => Ok(Some(Arc::new(socket))),
        Err(error) if args.notifications_addr.is_none() => {
            tracing::warn!(address, %error, "digests are not published over nanomsg");
            Ok(None)
        }
        Err(error) => Err(Failure::Input(format!("--notifications-addr {address}: {error}"))),
    }
}

/// Starts the Thrift server of the switch with this index. If a port given by `--thrift-port` is in use, the start
/// fails; if BMv2's default port is in use, as with several switches on a machine, the result is `None` and a warning
/// is printed.
pub(super) fn start(
    args: &Options,
    index: usize,
    mut config: ThriftConfig,
    dataplane: DataplaneHandle,
) -> Result<Option<ThriftServer>, Failure> {
    let first_port = args.thrift_port.unwrap_or(ThriftConfig::DEFAULT_PORT);
    config.listen = nth_address((args.thrift_addr(), first_port).into(), index)
        .map_err(|failure| failure.at("--thrift-port"))?;
    let port = config.listen.port();
    match ThriftServer::start(dataplane, &config) {
        Ok(server) => {
            let address = server.address();
            if !address.ip().is_loopback() {
                warn(&format!(
                    "Thrift is served on {address} without authentication: anyone who reaches this address controls the \
                     switch; use --thrift-addr 127.0.0.1"
                ))?;
            }
            Ok(Some(server))
        }
        // EAGAIN: the system cannot start another thread.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Error::thread(&error).into()),
        Err(error) if args.thrift_port.is_none() => {
            warn(&format!(
                "port {port}: {error}: Thrift server not started; choose a port with --thrift-port"
            ))?;
            Ok(None)
        }
        Err(error) => Err(Failure::Input(format!("--thrift-port {port}: {error}; choose another port"))),
    }
}
