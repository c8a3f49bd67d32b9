//! The configuration of policies on a host.

use super::key::PolicyKey;
use crate::trickle::TrickleConfig;
use weir_units::Time;

/// Default of Imin, in base RTTs. RFC 6206 §5 requires a multiple of the worst latency of a transmission; a POLICY
/// packet crosses the fabric in about `T/2`. The RFC's example is 4 latencies; Weir's choice is 32, because all hosts
/// receive a change at once and reset together. About n/16 of n hosts then transmit before they can have received each
/// other's packets: 64 of 1,024 hosts, where 4 latencies would give 512. The lower bound of §6.6, two to three times
/// the transmission time of k packets, is far less.
pub const DEFAULT_IMIN_RTTS: u64 = 16;
/// Default of Imax, in doublings: the example of RFC 6206 §4.1. From 16 times 13 us that makes 13.6 s.
pub const DEFAULT_DOUBLINGS: u32 = 16;
/// Default of k: RFC 6206 §6.5 gives 1 to 5 as typical. With 2, one packet may be lost in an interval and another one
/// is still received.
pub const DEFAULT_REDUNDANCY: u32 = 2;
/// Default length of the history. Weir's choice.
pub const DEFAULT_HISTORY_LEN: usize = 32;

/// The configuration of policies on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyConfig {
    /// The parameters of the host's Trickle timer.
    pub trickle: TrickleConfig,
    /// The key shared by all hosts. Every holder of the key can set policies.
    pub key: PolicyKey,
    /// Host time at which the node starts.
    pub start: Time,
    /// Seed of the random transmission times; must differ between hosts.
    pub seed: u64,
    /// Offset from host time to the timestamps of packets, in nanoseconds: the wall clock at host time zero. It must
    /// make the timestamps of every run, including restarts, later than those of all earlier runs, because receivers
    /// drop a packet as replayed if its timestamp is not later than the last one of the same sender.
    pub epoch_ns: u64,
    /// Length of the history in policies.
    pub history: usize,
}

impl PolicyConfig {
    /// Creates a configuration with the defaults for a fabric of this base RTT.
    pub fn new(key: PolicyKey, seed: u64, base_rtt: Time) -> PolicyConfig {
        PolicyConfig {
            trickle: default_trickle(base_rtt),
            key,
            start: Time::ZERO,
            seed,
            epoch_ns: 0,
            history: DEFAULT_HISTORY_LEN,
        }
    }
}

/// Returns the default Trickle parameters for a fabric of this base RTT.
pub fn default_trickle(base_rtt: Time) -> TrickleConfig {
    let imin =
        Time::from_ps(base_rtt.as_ps().saturating_mul(DEFAULT_IMIN_RTTS)).max(crate::trickle::MIN_IMIN);
    TrickleConfig { imin, doublings: DEFAULT_DOUBLINGS, k: std::num::NonZeroU32::new(DEFAULT_REDUNDANCY) }
}
