//! Converts the counters of the host and of the loop to the form of the results.

use super::results::LatenessResult;
use super::sleeper::Lateness;
use std::collections::BTreeMap;
use weir_host::HostStats;

/// Totals of what the host accepted. The agent compares the values before and after a frame to see whether the host
/// accepted it.
#[derive(Clone, Copy)]
pub(super) struct ReceivedTotals {
    /// Number of DATA, ACK and NACK frames.
    pub frames: u64,
    /// Payload bytes, each counted once.
    pub payload: u64,
}

impl ReceivedTotals {
    pub(crate) fn of(stats: &HostStats) -> ReceivedTotals {
        let data_frames = stats.data_received + stats.out_of_order + stats.duplicates;
        ReceivedTotals {
            frames: data_frames + stats.acks_received + stats.nacks_received,
            payload: stats.payload_received,
        }
    }
}

/// Returns all counters of the host by name, except the drops.
pub(super) fn host_counters(stats: &HostStats) -> BTreeMap<&'static str, u64> {
    let HostStats { drops: _, telemetry, .. } = stats;
    let others = [
        ("data_sent", stats.data_sent),
        ("payload_sent", stats.payload_sent),
        ("retransmits", stats.retransmits),
        ("timeouts", stats.timeouts),
        ("fast_retransmits", stats.fast_retransmits),
        ("suppressions", stats.suppressions),
        ("data_received", stats.data_received),
        ("payload_received", stats.payload_received),
        ("duplicates", stats.duplicates),
        ("out_of_order", stats.out_of_order),
        ("marked", stats.marked),
        ("acks_sent", stats.acks_sent),
        ("nacks_sent", stats.nacks_sent),
        ("cnps_sent", stats.cnps_sent),
        ("probes_sent", stats.probes_sent),
        ("probe_replies_sent", stats.probe_replies_sent),
        ("acks_received", stats.acks_received),
        ("nacks_received", stats.nacks_received),
        ("cnps_received", stats.cnps_received),
        ("rates_received", stats.rates_received),
        ("probe_replies_received", stats.probe_replies_received),
        ("stale_feedback", stats.stale_feedback),
        ("inbound_evicted", stats.inbound_evicted),
    ];
    others.into_iter().chain(telemetry.by_name()).collect()
}

pub(super) fn lateness_result(lateness: &Lateness) -> LatenessResult {
    let [within_1us, within_10us, within_60us, within_200us, within_1ms, later] = lateness.within;
    LatenessResult {
        count: lateness.count,
        mean_ns: lateness.total.as_ns() / lateness.count.max(1),
        max_ns: lateness.max.as_ns(),
        within_1us,
        within_10us,
        within_60us,
        within_200us,
        within_1ms,
        later,
    }
}
