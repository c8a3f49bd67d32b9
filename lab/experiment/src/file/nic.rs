//! The key `nic`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::serde_as;
use std::num::{NonZeroU32, NonZeroU64};
use weir_controller::topology::AsText;
use weir_host::NicConfig;
use weir_units::Time;

/// Delays and limits of a host between its transport and the wire (docs/nic.md).
#[serde_as]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NicSpec {
    /// Time that a packet takes from the transport, which writes its timestamp, to the wire.
    #[serde_as(as = "AsText")]
    pub send_delay: Time,
    /// Time that a packet takes from the wire, or from the interrupt that reports it, to the transport.
    #[serde_as(as = "AsText")]
    pub receive_delay: Time,
    /// Time that an ACK, NACK or other answer waits in the transport before it may leave.
    #[serde_as(as = "AsText")]
    pub ack_delay: Time,
    /// Time that a congestion notification packet waits in the transport before it may leave.
    #[serde_as(as = "AsText")]
    pub cnp_delay: Time,
    /// Interrupt coalescing: the first packet after an interrupt waits this long for others, and all are handled together; 0: no
    /// coalescing.
    #[serde_as(as = "AsText")]
    pub coalesce_time: Time,
    /// With `coalesce_time`: number of waiting packets that cause the interrupt at once; absent: any number waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalesce_frames: Option<NonZeroU32>,
    /// Packets per second that a host sends at most, and as many that it receives; absent: no limit but line rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_rate: Option<NonZeroU64>,
}

impl NicSpec {
    /// Returns the configuration of a host's NIC.
    pub fn config(&self) -> NicConfig {
        NicConfig {
            send_delay: self.send_delay,
            receive_delay: self.receive_delay,
            ack_delay: self.ack_delay,
            cnp_delay: self.cnp_delay,
            coalesce_time: self.coalesce_time,
            coalesce_frames: self.coalesce_frames.map(NonZeroU32::get),
            packet_rate: self.packet_rate.map(NonZeroU64::get),
        }
    }
}
