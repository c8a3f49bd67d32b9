//! Reads port states over Thrift, since P4Runtime has no message for them.

use super::super::{Target, ThriftClient, ThriftError};
use std::time::Duration;
use tokio::task::spawn_blocking;

/// Timeout of connecting, and of each of the two calls.
const THRIFT_TIMEOUT: Duration = Duration::from_millis(200);

/// Reads the ports of a switch as `(port, is_up)`. Returns `None` if there is no Thrift server, it does not reply in
/// time, or it belongs to another switch.
pub(super) async fn port_states(target: &Target, thrift_port: u16) -> Option<Vec<(u16, bool)>> {
    let (host, _) = target.address.rsplit_once(':')?;
    let (address, device_id) = (format!("{host}:{thrift_port}"), target.device_id);
    let read = move || -> Result<_, ThriftError> {
        let mut client = ThriftClient::connect_with_timeout(&address, THRIFT_TIMEOUT)?;
        let is_target = client.device_id()? == device_id;
        client.ports().map(|ports| is_target.then_some(ports))
    };
    spawn_blocking(read).await.ok()?.ok()?
}
