//! The key `transport`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::serde_as;
use weir_controller::topology::AsText;
use weir_host::HostConfig;
use weir_host::scheme::LossRecovery;
use weir_units::{Ratio, Time};

/// Transport parameters.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransportSpec {
    /// Number of data packets per ACK.
    #[serde(default = "default_ack_every")]
    pub ack_every: u32,
    /// Base RTT `T` of every sender; absent: the largest base RTT in the topology (docs/algorithms/hpcc.md#base-rtt).
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_rtt: Option<Time>,
    /// Loss recovery: `go-back-n` or `selective`; absent: the method of each scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoverySpec>,
    /// Retransmission timeout with go-back-N; absent: the larger of 16 base RTTs and the NIC's time for 50 MB, at most 100
    /// ms: 4 ms at 100 Gbit/s.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rto: Option<Time>,
    /// Minimum interval between NACKs for the same expected byte; absent: the larger of 4 base RTTs and 500 us.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nack_interval: Option<Time>,
    /// Minimum retransmission timeout with selective recovery; absent: 200 ms.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rto: Option<Time>,
    /// Retransmission timeout with selective recovery before the first RTT sample; absent: 1 s (RFC 6298).
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_rto: Option<Time>,
    /// Time without new acknowledgements after which a sender aborts a flow, checked at each retransmission timeout; absent: 100 s
    /// (RFC 1122).
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_timeout: Option<Time>,
    /// Time after its last packet during which a receiver counts a flow as active, that is in the number N of concurrent
    /// flows; absent: the larger of 8 base RTTs and 1,024 frame times.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_window: Option<Time>,
    /// Part of a pacing gap, at most 1, by which a late frame may shorten the gap behind it; absent: 0 (HPCC's simulator). Linux
    /// has 50%.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maximum" = 1))]
    pub pacing_credit: Option<Ratio>,
}

fn default_ack_every() -> u32 {
    1
}

impl Default for TransportSpec {
    fn default() -> Self {
        TransportSpec {
            ack_every: default_ack_every(),
            base_rtt: None,
            recovery: None,
            rto: None,
            nack_interval: None,
            min_rto: None,
            initial_rto: None,
            user_timeout: None,
            active_window: None,
            pacing_credit: None,
        }
    }
}

impl TransportSpec {
    /// Sets the keys in the configuration of a host, for `hosts::host_config`. Keys that are absent keep its defaults; `base_rtt` is not among the
    /// keys, because its default follows from the network.
    pub fn apply(&self, config: &mut HostConfig) {
        config.ack_every = self.ack_every;
        let transport = &mut config.transport;
        transport.recovery = self.recovery.map(LossRecovery::from);
        transport.rto = self.rto;
        transport.nack_interval = self.nack_interval;
        transport.min_rto = self.min_rto.unwrap_or(transport.min_rto);
        transport.initial_rto = self.initial_rto.unwrap_or(transport.initial_rto);
        transport.user_timeout = self.user_timeout.unwrap_or(transport.user_timeout);
        transport.active_window = self.active_window;
        transport.pacing_credit = self.pacing_credit.unwrap_or(transport.pacing_credit);
    }

    /// Returns the times that a scale model multiplies.
    pub(super) fn times_mut(&mut self) -> impl Iterator<Item = &mut Time> {
        // The defaults are for full speed: unscaled, they would be shorter than a round trip of the model.
        self.min_rto.get_or_insert(weir_host::DEFAULT_MIN_RTO);
        self.initial_rto.get_or_insert(weir_host::DEFAULT_INITIAL_RTO);
        [
            &mut self.base_rtt,
            &mut self.rto,
            &mut self.nack_interval,
            &mut self.min_rto,
            &mut self.initial_rto,
            &mut self.user_timeout,
            &mut self.active_window,
        ]
        .into_iter()
        .flatten()
    }
}

/// Loss recovery of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecoverySpec {
    /// `go-back-n`
    GoBackN,
    /// `selective`, as in TCP
    Selective,
}

impl From<RecoverySpec> for LossRecovery {
    fn from(spec: RecoverySpec) -> LossRecovery {
        match spec {
            RecoverySpec::GoBackN => LossRecovery::GoBackN,
            RecoverySpec::Selective => LossRecovery::Selective,
        }
    }
}

impl From<LossRecovery> for RecoverySpec {
    fn from(recovery: LossRecovery) -> RecoverySpec {
        match recovery {
            LossRecovery::GoBackN => RecoverySpec::GoBackN,
            LossRecovery::Selective => RecoverySpec::Selective,
        }
    }
}
