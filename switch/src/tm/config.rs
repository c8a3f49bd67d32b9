//! The configuration of a traffic manager: ports, priorities, buffer and PFC.

use thiserror::Error;
use weir_units::{Bandwidth, Bytes, Time};

/// The highest port number: v1model ports have 9 bits. (511 is the usual drop port, which [`crate::engine`] refuses.)
pub const MAX_PORT: u16 = 511;
/// The most strict priorities a port can have (802.1Q has as many).
pub const MAX_PRIORITIES: u8 = 8;

/// The rate at which the traffic manager lets a port or a queue send.
///
/// A driver whose transmitter serialises frames (virtual time, a NIC) leaves it [`Rate::Unlimited`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rate {
    /// As fast as the driver asks.
    #[default]
    Unlimited,
    /// Bits of the queued frame per second.
    Bits(Bandwidth),
    /// Packets per second, as BMv2's `set_queue_rate`; 0 is unlimited there and here.
    Packets(u64),
}

impl Rate {
    /// Returns the time for which a frame of `len` bytes occupies the shaper.
    pub(super) fn tx_time(self, len: u32) -> Time {
        const PS_PER_SECOND: u64 = Time::from_secs(1).as_ps();
        match self {
            Rate::Unlimited | Rate::Packets(0) => Time::ZERO,
            Rate::Bits(rate) => rate.tx_time(Bytes::new(u64::from(len))),
            Rate::Packets(pps) => Time::from_ps(PS_PER_SECOND.div_ceil(pps)),
        }
    }

    /// Returns whether there is a rate to keep.
    pub(super) fn limits(self) -> bool {
        !matches!(self, Rate::Unlimited | Rate::Packets(0))
    }
}

/// The capacity of one queue (one port, one priority). Packets beyond it are dropped at the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Capacity in packets.
    pub packets: u32,
    /// Capacity in bytes.
    pub bytes: Bytes,
}

impl QueueLimits {
    /// Only the shared buffer limits a queue.
    pub const NONE: QueueLimits = QueueLimits { packets: u32::MAX, bytes: Bytes::MAX };
    /// BMv2's default: 64 packets in each queue (simple_switch.cpp, `egress_buffers`).
    pub const BMV2: QueueLimits = QueueLimits { packets: 64, bytes: Bytes::MAX };
}

/// A port of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Its number, as the P4 program sees it.
    pub port: u16,
    /// The rate the traffic manager keeps to.
    pub rate: Rate,
    /// The limits of each of its queues.
    pub limits: QueueLimits,
    /// Its share of the lossless buffer; `None` if nobody on this port heeds pause frames.
    pub pfc: Option<PfcPort>,
}

impl PortConfig {
    /// Returns a port without rate, limits or PFC.
    pub const fn new(port: u16) -> PortConfig {
        PortConfig { port, rate: Rate::Unlimited, limits: QueueLimits::NONE, pfc: None }
    }
}

/// The lossless share of one ingress port. Only [`PfcMode::Dynamic`] reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PfcPort {
    /// Set aside for what still arrives after a pause was sent.
    pub headroom: Bytes,
    /// A queue may use the free shared buffer shifted right by this.
    pub alpha_shift: u8,
}

impl PfcPort {
    /// Returns the share that the HPCC simulator gives a port (third.cc:819-850): a headroom of three times
    /// the bytes in flight on the link, and 1/8 of the free pool for ports at NIC rate, twice as much for
    /// each doubling above.
    pub fn for_link(rate: Bandwidth, delay: Time, nic_rate: Bandwidth) -> PfcPort {
        const HEADROOM_DELAYS: u64 = 3;
        const SHIFT_AT_NIC_RATE: u8 = 3;
        let doublings = (rate.as_bps() / nic_rate.as_bps().max(1)).max(1).ilog2() as u8;
        PfcPort {
            headroom: Bytes::new(rate.bytes_in(delay).get() * HEADROOM_DELAYS),
            alpha_shift: SHIFT_AT_NIC_RATE.saturating_sub(doublings),
        }
    }
}

/// Priority flow control: when to tell the neighbour on an ingress port to stop a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcConfig {
    /// The limit of an ingress port's buffer use, above which its neighbour is paused.
    pub mode: PfcMode,
    /// Bytes by which the use must fall below the threshold before the neighbour may send again.
    pub resume_offset: Bytes,
    /// Priorities that are never paused and that PFC does not count, one bit each.
    pub exempt: u8,
}

/// The rule that sets the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PfcMode {
    /// Pause at a fixed use of the buffer by one (ingress port, priority).
    Fixed {
        /// Pause when the use reaches this.
        threshold: Bytes,
    },
    /// The HPCC simulator's shared buffer (switch-mmu.cc:36-98): the threshold is a share of what is
    /// free; headroom and a reserve are kept aside for every port.
    Dynamic {
        /// Kept aside for each port.
        reserve: Bytes,
    },
}

impl PfcConfig {
    /// The HPCC simulator's resume offset (switch-mmu.cc).
    pub const RESUME_OFFSET: Bytes = Bytes::new(3072);
    /// The HPCC simulator's reserve per port (switch-mmu.cc).
    pub const RESERVE: Bytes = Bytes::new(4096);

    /// The HPCC simulator's dynamic threshold with its reserve and resume offset.
    pub const fn dynamic() -> PfcConfig {
        let mode = PfcMode::Dynamic { reserve: Self::RESERVE };
        PfcConfig { mode, resume_offset: Self::RESUME_OFFSET, exempt: 0 }
    }
    /// Returns a fixed threshold with the same resume offset.
    pub const fn fixed(threshold: Bytes) -> PfcConfig {
        PfcConfig { mode: PfcMode::Fixed { threshold }, resume_offset: Self::RESUME_OFFSET, exempt: 0 }
    }
}

/// A whole traffic manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmConfig {
    /// Its ports.
    pub ports: Vec<PortConfig>,
    /// Number of strict priorities of each port, 1 to [`MAX_PRIORITIES`]; the highest number is served first.
    pub priorities: u8,
    /// Weights of the queues 1, 2, ... of each port, which it serves by deficit round robin instead of by priority: below
    /// the queues that follow them, above queue 0. Empty: none.
    pub weights: Vec<u16>,
    /// The packet buffer all queues share.
    pub buffer: Bytes,
    /// Lossless classes, if any.
    pub pfc: Option<PfcConfig>,
}

/// A reason why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TmConfigError {
    /// Two ports have one number.
    #[error("port {0} is configured twice; give every port its own number")]
    DuplicatePort(u16),
    /// A port number v1model cannot hold.
    #[error("port {0} is beyond {MAX_PORT}, the last port of v1model; choose a lower number")]
    PortTooHigh(u16),
    /// A number of queues that strict priority does not know.
    #[error("a port cannot have {0} priorities; choose 1 to {MAX_PRIORITIES}")]
    Priorities(u8),
    /// More weights than queues.
    #[error("{weights} queues cannot have weights: of {priorities} queues of a port, those from 1 on can")]
    Weights {
        /// Number of weights.
        weights: usize,
        /// Queues of a port.
        priorities: u8,
    },
    /// A queue that would never be served.
    #[error("a queue has weight 0 and would never be served; give it 1 or more")]
    ZeroWeight,
    /// A port that would never send.
    #[error("port {0} has rate 0 and would never send; give it a rate or leave it unlimited")]
    ZeroRate(u16),
    /// Nothing is left to share.
    #[error(
        "the lossless ports set aside {reserved} of a buffer of {buffer}; enlarge the buffer or lower headroom and reserve"
    )]
    BufferTooSmall {
        /// Headroom and reserve of all ports.
        reserved: Bytes,
        /// The whole buffer.
        buffer: Bytes,
    },
    /// A pause that could never end.
    #[error(
        "the PFC threshold {threshold} is not above the resume offset {resume_offset}, so a pause would never end; raise the threshold"
    )]
    ThresholdTooLow {
        /// Use at which a pause is sent.
        threshold: Bytes,
        /// Bytes by which the use must fall.
        resume_offset: Bytes,
    },
}

impl TmConfig {
    /// Checks that the configuration can work, before anything is built.
    pub(super) fn check(&self) -> Result<(), TmConfigError> {
        if !(1..=MAX_PRIORITIES).contains(&self.priorities) {
            return Err(TmConfigError::Priorities(self.priorities));
        }
        if self.weights.len() >= usize::from(self.priorities) {
            return Err(TmConfigError::Weights { weights: self.weights.len(), priorities: self.priorities });
        }
        if self.weights.contains(&0) {
            return Err(TmConfigError::ZeroWeight);
        }
        let mut seen = std::collections::BTreeSet::new();
        for port in &self.ports {
            if port.port > MAX_PORT {
                return Err(TmConfigError::PortTooHigh(port.port));
            }
            if !seen.insert(port.port) {
                return Err(TmConfigError::DuplicatePort(port.port));
            }
            if port.rate == Rate::Bits(Bandwidth::ZERO) {
                return Err(TmConfigError::ZeroRate(port.port));
            }
        }
        match self.pfc {
            Some(PfcConfig { mode: PfcMode::Fixed { threshold }, resume_offset, .. })
                if threshold <= resume_offset =>
            {
                Err(TmConfigError::ThresholdTooLow { threshold, resume_offset })
            }
            Some(PfcConfig { mode: PfcMode::Dynamic { reserve }, .. }) => {
                let lossless = self.ports.iter().filter_map(|port| port.pfc);
                let reserved: Bytes = lossless.map(|share| share.headroom + reserve).sum();
                if reserved >= self.buffer {
                    return Err(TmConfigError::BufferTooSmall { reserved, buffer: self.buffer });
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> TmConfig {
        let ports = vec![PortConfig::new(1), PortConfig::new(2)];
        TmConfig { ports, priorities: 8, weights: Vec::new(), buffer: Bytes::new(1 << 20), pfc: None }
    }

    #[test]
    fn refuses_impossible_configurations() {
        assert_eq!(config().check(), Ok(()));
        let refused = |change: &dyn Fn(&mut TmConfig)| {
            let mut config = config();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert!(refused(&|c| c.priorities = 9).contains("choose 1 to 8"));
        assert!(refused(&|c| c.weights = vec![1; 8]).contains("from 1 on"));
        assert!(refused(&|c| c.weights = vec![1, 0]).contains("weight 0"));
        assert!(refused(&|c| c.ports[1].port = 1).contains("port 1 is configured twice"));
        assert!(refused(&|c| c.ports[1].port = 512).contains("beyond 511"));
        assert!(refused(&|c| c.ports[0].rate = Rate::Bits(Bandwidth::ZERO)).contains("never send"));
        assert!(refused(&|c| c.pfc = Some(PfcConfig::fixed(Bytes::new(3072)))).contains("never end"));
        let greedy = refused(&|c| {
            c.pfc = Some(PfcConfig::dynamic());
            c.ports[0].pfc = Some(PfcPort { headroom: Bytes::new(1 << 20), alpha_shift: 3 });
        });
        assert!(greedy.contains("enlarge the buffer"), "{greedy}");
    }

    #[test]
    fn link_shares_are_those_of_the_hpcc_simulator() {
        // docs/algorithms/pfc.md#thresholds: 37,500 B at 100G and 1 us, 150,000 B at 400G; 1/8 at NIC rate, 1/2 at four
        // times.
        let nic = Bandwidth::from_gbps(100);
        let us = Time::from_us(1);
        let host = PfcPort { headroom: Bytes::new(37_500), alpha_shift: 3 };
        assert_eq!(PfcPort::for_link(nic, us, nic), host);
        let fabric = PfcPort { headroom: Bytes::new(150_000), alpha_shift: 1 };
        assert_eq!(PfcPort::for_link(Bandwidth::from_gbps(400), us, nic), fabric);
        assert_eq!(PfcPort::for_link(Bandwidth::from_gbps(3200), us, nic).alpha_shift, 0);
    }
}
