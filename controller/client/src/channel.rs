//! gRPC channels to switches: connecting, and calls with a timeout.

use super::error::ClientError;
use super::options::{ClientOptions, Target};
use std::time::Duration;
use tokio::time::timeout;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// HTTP/2 keepalive: interval between pings, and time to wait for the reply. Short, so that a switch whose host died
/// without closing the connection is noticed within seconds.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// Maximum number of updates per Write request. The error response is the limit: the errors of all updates, some 40 bytes
/// each even without messages, are sent in a header of at most 8 KiB in base64. Weir's switch leaves them out above 5 KiB.
/// Requests, with some ten kilobytes, are far below gRPC's limit of 4 MB.
pub(super) const MAX_BATCH_UPDATES: usize = 100;

/// Connects to the gRPC server of a switch. `protocol` names the server in the error.
pub(super) async fn open(
    target: &Target,
    options: &ClientOptions,
    protocol: &'static str,
) -> Result<Channel, ClientError> {
    let unreachable = |error: tonic::transport::Error| {
        let (reason, is_refused) = root_cause(&error);
        ClientError::Unreachable { protocol, address: target.address.clone(), reason, is_refused }
    };
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let mut endpoint =
        Endpoint::from_shared(format!("{scheme}://{}", target.address)).map_err(unreachable)?;
    if let Some(tls) = &options.tls {
        endpoint = endpoint.tls_config(tls.config()).map_err(unreachable)?;
    }
    let endpoint = endpoint
        .connect_timeout(options.timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    endpoint.connect().await.map_err(unreachable)
}

/// Waits at most `limit` for the reply to a call. `call` names the call in errors.
pub(super) async fn with_timeout<T>(
    limit: Duration,
    call: &'static str,
    reply: impl Future<Output = Result<T, Status>>,
) -> Result<T, ClientError> {
    match timeout(limit, reply).await {
        Ok(result) => result.map_err(|status| ClientError::call(call, status)),
        Err(_) => Err(ClientError::Timeout { call, limit }),
    }
}

/// Returns the innermost cause, and whether it is ECONNREFUSED.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> (String, bool) {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    let kind = last.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    (last.to_string(), kind == Some(std::io::ErrorKind::ConnectionRefused))
}
