//! The configuration of a traffic manager: ports, priorities, buffer and PFC.

use thiserror::Error;
use weir_units::{Bandwidth, Bytes, Time};

/// The highest port number: v1model ports have 9 bits. (511 is the usual drop port, which [`crate::engine`]
/// rejects.)
pub const MAX_PORT: u16 = 511;
/// Maximum number of priorities of a port, as in IEEE 802.1Q.
pub const MAX_PRIORITIES: u8 = 8;

/// The rate at which the traffic manager lets a port or a queue send.
///
/// A driver whose transmitter serialises frames (virtual time, a NIC) uses [`Rate::Unlimited`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rate {
    /// As fast as the driver dequeues.
    #[default]
    Unlimited,
    /// Bits of the queued frame per second.
    Bits(Bandwidth),
    /// Packets per second, as in BMv2's `set_queue_rate`; 0 means unlimited, as there.
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

    /// Returns whether the rate is limited.
    pub(super) fn is_limited(self) -> bool {
        !matches!(self, Rate::Unlimited | Rate::Packets(0))
    }
}

/// The capacity of one queue. Packets that exceed it are dropped at the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    pub packets: u32,
    pub bytes: Bytes,
}

impl QueueLimits {
    /// No limits except the shared buffer.
    pub const NONE: QueueLimits = QueueLimits { packets: u32::MAX, bytes: Bytes::MAX };
    /// BMv2's default: 64 packets per queue (simple_switch.cpp, `egress_buffers`).
    pub const BMV2: QueueLimits = QueueLimits { packets: 64, bytes: Bytes::MAX };
}

/// The configuration of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The port number in the P4 program, 0 to [`MAX_PORT`].
    pub port: u16,
    /// The rate to which the traffic manager shapes the port.
    pub rate: Rate,
    /// The limits of each queue of the port.
    pub limits: QueueLimits,
    /// The port's share of the lossless buffer; `None` if its neighbour does not handle pause frames.
    pub pfc: Option<PfcPort>,
}

impl PortConfig {
    /// Creates a port without rate, limits or PFC.
    pub const fn new(port: u16) -> PortConfig {
        PortConfig { port, rate: Rate::Unlimited, limits: QueueLimits::NONE, pfc: None }
    }
}

/// The time for which a PFC frame pauses a priority, in units of 512 bit times of the link (IEEE 802.1Q, 36.2 and IEEE
/// 802.3, 31B.2); 0 resumes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PauseQuanta(pub u16);

impl PauseQuanta {
    /// The longest pause, which switches send by default: 335.5 us at 100 Gbit/s.
    pub const MAX: PauseQuanta = PauseQuanta(u16::MAX);
    pub const RESUME: PauseQuanta = PauseQuanta(0);
    /// Bytes that the link could carry in one unit.
    pub const UNIT: Bytes = Bytes::new(512 / 8);

    /// Returns false for a frame that resumes the priority.
    pub fn is_pause(self) -> bool {
        self != PauseQuanta::RESUME
    }

    /// Returns the length of the pause on a link of this rate.
    pub fn duration(self, rate: Bandwidth) -> Time {
        rate.tx_time(Bytes::new(u64::from(self.0) * PauseQuanta::UNIT.get()))
    }
}

/// The PFC parameters of one port: its share of the lossless buffer, used only with [`PfcMode::Dynamic`], and its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PfcPort {
    /// Bytes reserved for packets that arrive after a pause frame was sent: the neighbour stops only when it gets the
    /// frame.
    pub headroom: Bytes,
    /// The threshold is the free pool shifted right by this many bits.
    pub alpha_shift: u8,
    /// Rate of the link, on which the length of a pause depends; zero: pauses are not refreshed, for neighbours on
    /// which pauses do not expire.
    pub rate: Bandwidth,
}

impl PfcPort {
    /// Returns the share of a port in the HPCC simulator (third.cc:819-850): a headroom of three times the
    /// bytes in flight on the link, and 1/8 of the free pool for ports at NIC rate, doubled for each doubling
    /// of the rate.
    pub fn for_link(rate: Bandwidth, delay: Time, nic_rate: Bandwidth) -> PfcPort {
        const HEADROOM_DELAYS: u64 = 3;
        const SHIFT_AT_NIC_RATE: u8 = 3;
        let doublings = (rate.as_bps() / nic_rate.as_bps().max(1)).max(1).ilog2() as u8;
        PfcPort {
            headroom: Bytes::new(rate.bytes_in(delay).get() * HEADROOM_DELAYS),
            alpha_shift: SHIFT_AT_NIC_RATE.saturating_sub(doublings),
            rate,
        }
    }
}

/// Priority flow control: when the neighbour on an ingress port must pause a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcConfig {
    /// The rule for the buffer use of an ingress port and priority at which the neighbour is paused.
    pub mode: PfcMode,
    /// Bytes by which the use must fall below the threshold before the neighbour may resume.
    pub resume_offset: Bytes,
    /// Priorities that are never paused and not counted by PFC, one bit each.
    pub exempt: u8,
    /// The length of a pause. The pause is refreshed after half of it while the use stays above the threshold, so
    /// that a pause lasts as long as needed, and ends by itself if the resume frame is lost.
    pub quanta: PauseQuanta,
}

/// The rule for the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PfcMode {
    /// A fixed buffer use per ingress port and priority.
    Fixed {
        /// The use at which a pause is sent.
        threshold: Bytes,
    },
    /// The HPCC simulator's shared buffer (switch-mmu.cc:36-98): the threshold is a share of the free pool.
    /// The pool excludes the headroom and reserve of all ports.
    Dynamic {
        /// Bytes reserved per port.
        reserve: Bytes,
    },
}

impl PfcConfig {
    /// The HPCC simulator's resume offset (switch-mmu.cc).
    pub const RESUME_OFFSET: Bytes = Bytes::new(3072);
    /// The HPCC simulator's reserve per port (switch-mmu.cc).
    pub const RESERVE: Bytes = Bytes::new(4096);

    /// Returns the HPCC simulator's dynamic threshold with its reserve and resume offset.
    pub const fn dynamic() -> PfcConfig {
        let mode = PfcMode::Dynamic { reserve: Self::RESERVE };
        let resume_offset = Self::RESUME_OFFSET;
        PfcConfig { mode, resume_offset, exempt: 0, quanta: PauseQuanta::MAX }
    }
    /// Returns a fixed threshold with the same resume offset.
    pub const fn fixed(threshold: Bytes) -> PfcConfig {
        PfcConfig { mode: PfcMode::Fixed { threshold }, ..PfcConfig::dynamic() }
    }
}

/// The configuration of a traffic manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmConfig {
    pub ports: Vec<PortConfig>,
    /// Number of strict priorities per port, 1 to [`MAX_PRIORITIES`]; the highest number is served first.
    pub priorities: u8,
    /// Weights of the queues 1, 2, ... of each port, which deficit round robin serves. The queues after them
    /// have strict priority over them; queue 0 is served last. Empty: all queues have strict priority.
    pub weights: Vec<u16>,
    /// The packet buffer that all queues share.
    pub buffer: Bytes,
    /// Priority flow control; `None` if no class is lossless.
    pub pfc: Option<PfcConfig>,
}

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TmConfigError {
    #[error("port {0} is configured twice; give every port its own number")]
    DuplicatePort(u16),
    #[error("port {0} exceeds the maximum of {MAX_PORT} (v1model ports have 9 bits)")]
    PortTooHigh(u16),
    #[error("invalid number of priorities {0}; choose 1 to {MAX_PRIORITIES}")]
    Priorities(u8),
    #[error(
        "{weights} weights for {priorities} queues: queue 0 has no weight, so there must be fewer weights than queues"
    )]
    Weights { weights: usize, priorities: u8 },
    #[error("a queue has weight 0 and would never be served; give it 1 or more")]
    ZeroWeight,
    #[error("port {0} has rate 0 and would never send; give it a rate or leave it unlimited")]
    ZeroRate(u16),
    #[error(
        "the lossless ports set aside {reserved} of a buffer of {buffer}; enlarge the buffer or lower headroom and reserve"
    )]
    BufferTooSmall { reserved: Bytes, buffer: Bytes },
    #[error("PFC frames of 0 quanta would pause nothing; choose 1 to 65535")]
    NoQuanta,
    #[error(
        "the PFC threshold {threshold} is not above the resume offset {resume_offset}, so a pause would never end; raise the threshold"
    )]
    ThresholdTooLow { threshold: Bytes, resume_offset: Bytes },
}

impl TmConfig {
    /// Checks the configuration before anything is allocated.
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
            Some(PfcConfig { quanta: PauseQuanta::RESUME, .. }) => Err(TmConfigError::NoQuanta),
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
    fn rejects_impossible_configurations() {
        assert_eq!(config().check(), Ok(()));
        let error = |change: &dyn Fn(&mut TmConfig)| {
            let mut config = config();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert!(error(&|c| c.priorities = 9).contains("choose 1 to 8"));
        assert!(error(&|c| c.weights = vec![1; 8]).contains("fewer weights than queues"));
        assert!(error(&|c| c.weights = vec![1, 0]).contains("weight 0"));
        assert!(error(&|c| c.ports[1].port = 1).contains("port 1 is configured twice"));
        assert!(error(&|c| c.ports[1].port = 512).contains("exceeds the maximum of 511"));
        assert!(error(&|c| c.ports[0].rate = Rate::Bits(Bandwidth::ZERO)).contains("never send"));
        assert!(error(&|c| c.pfc = Some(PfcConfig::fixed(Bytes::new(3072)))).contains("never end"));
        let no_quanta = PfcConfig { quanta: PauseQuanta(0), ..PfcConfig::dynamic() };
        assert!(error(&|c| c.pfc = Some(no_quanta)).contains("choose 1 to 65535"));
        let too_small = error(&|c| {
            c.pfc = Some(PfcConfig::dynamic());
            c.ports[0].pfc = Some(PfcPort { headroom: Bytes::new(1 << 20), ..PfcPort::default() });
        });
        assert!(too_small.contains("enlarge the buffer"), "{too_small}");
    }

    #[test]
    fn port_shares_equal_those_of_the_hpcc_simulator() {
        // docs/algorithms/pfc.md#thresholds: 37,500 B at 100G and 1 us, 150,000 B at 400G; 1/8 at NIC rate, 1/2 at four
        // times.
        let nic = Bandwidth::from_gbps(100);
        let us = Time::from_us(1);
        let host = PfcPort { headroom: Bytes::new(37_500), alpha_shift: 3, rate: nic };
        assert_eq!(PfcPort::for_link(nic, us, nic), host);
        let fast = Bandwidth::from_gbps(400);
        let fabric = PfcPort { headroom: Bytes::new(150_000), alpha_shift: 1, rate: fast };
        assert_eq!(PfcPort::for_link(fast, us, nic), fabric);
        assert_eq!(PfcPort::for_link(Bandwidth::from_gbps(3200), us, nic).alpha_shift, 0);
    }
    /// IEEE 802.1Q: a unit is the time of 512 bits at the rate of the port.
    #[test]
    fn quanta_are_times_of_512_bits() {
        assert_eq!(PauseQuanta(1).duration(Bandwidth::from_gbps(100)), Time::from_ps(5_120));
        assert_eq!(PauseQuanta::MAX.duration(Bandwidth::from_gbps(10)), Time::from_ps(65_535 * 51_200));
    }
}
