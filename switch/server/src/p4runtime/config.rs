//! The configuration of a server, and its counters.

use super::forwarding_pipeline::Programs;
use super::tls::TlsConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Debug, Default)]
pub struct ServerConfig {
    /// Device id that requests must have.
    pub device_id: u64,
    /// Seed of the `random` extern of pushed programs.
    pub seed: u64,
    /// TLS certificates; `None` for plain text.
    pub tls: Option<TlsConfig>,
    /// Counters of messages that did not reach the primary. Keep a clone to read them.
    pub lost: Arc<DroppedMessages>,
    /// Counters of calls. Keep a clone to read them.
    pub calls: Arc<CallCounters>,
    /// Loaded programs; share them between the servers of a process.
    pub programs: Arc<Programs>,
}

/// Number of calls received, by method.
#[derive(Debug, Default)]
pub struct CallCounters {
    pub write: AtomicU64,
    pub read: AtomicU64,
    pub set_pipeline: AtomicU64,
    pub get_pipeline: AtomicU64,
    pub stream: AtomicU64,
    pub capabilities: AtomicU64,
}

impl CallCounters {
    /// Returns the methods, named as in the specification, with their counts.
    pub fn by_method(&self) -> [(&'static str, u64); 6] {
        [
            ("Write", &self.write),
            ("Read", &self.read),
            ("SetForwardingPipelineConfig", &self.set_pipeline),
            ("GetForwardingPipelineConfig", &self.get_pipeline),
            ("StreamChannel", &self.stream),
            ("Capabilities", &self.capabilities),
        ]
        .map(|(method, count)| (method, count.load(Ordering::Relaxed)))
    }
}

/// Messages that did not reach the primary, because there was none or it read too slowly. The data plane counts those
/// that found its queue full.
#[derive(Debug, Default)]
pub struct DroppedMessages {
    /// Packet-ins, including packets to the CPU port that lack the header of the P4Info.
    pub packet_in: AtomicU64,
    pub digests: AtomicU64,
    /// Entries that timed out.
    pub timeouts: AtomicU64,
}
