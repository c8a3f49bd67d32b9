//! Addresses of switches, and options of the connections to them.

use super::tls::ClientTls;
use p4runtime::p4::v1::Uint128;
use std::sync::Arc;
use std::time::Duration;

/// Address of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub name: String,
    /// `host:port` of the P4Runtime or BF Runtime server.
    pub address: String,
    /// Device id in requests to the server.
    pub device_id: u64,
}

/// Options of the connections to switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// The connected client with the highest election id is primary and may write. BF Runtime uses it as client id.
    pub election_id: Uint128,
    /// Timeout per call, and for connecting.
    pub timeout: Duration,
    /// Use TLS if set.
    pub tls: Option<Arc<ClientTls>>,
}

impl Default for ClientOptions {
    /// Election id 1, like the P4 tutorials; 10 s timeout; no TLS.
    fn default() -> Self {
        ClientOptions {
            election_id: Uint128 { high: 0, low: 1 },
            timeout: Duration::from_secs(10),
            tls: None,
        }
    }
}
