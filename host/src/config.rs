//! The configuration of a host, and the reasons for the defaults of the transport.

use crate::custom_record::RecordLayout;
use crate::nic::{NicConfig, NicError};
use crate::policy::{MAX_POLICY_PACKET, PolicyConfig};
use crate::priority::Priority;
use crate::scheme::{
    FlowParams, LossRecovery, MAX_SUBFLOWS, Needs, SchemeConfig, SwitchProgram, TelemetrySource,
};
use crate::schemes::Registry;
use crate::switch_profile::{SwitchProfile, UnmetNeed};
use crate::trickle::TrickleError;
use crate::wire::{HEADERS_LEN, MAX_HOPS, MacAddr};
use std::net::Ipv4Addr;
use std::sync::Arc;
use weir_units::{Bandwidth, Bytes, Ratio, Time};

/// The configuration of a [`Host`](crate::Host).
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// IPv4 address of the host.
    pub addr: Ipv4Addr,
    /// MAC address of the host.
    pub mac: MacAddr,
    /// Destination MAC address of control frames. The last switch rewrites it.
    pub gateway_mac: MacAddr,
    /// Rate of the NIC.
    pub nic_rate: Bandwidth,
    /// The largest Ethernet frame on any link, without preamble, FCS and gap.
    pub mtu: Bytes,
    /// `T`: the base round-trip time, without queueing. One value for all hosts, slightly above that of the longest
    /// path.
    pub base_rtt: Time,
    /// Unit of the switches' clocks: 1 ns, or 1 us with BMv2.
    pub tick: Time,
    /// The congestion control scheme of all flows.
    pub scheme: Arc<dyn SchemeConfig>,
    /// The schemes that a policy may name. Default: [`Registry::builtin`].
    pub registry: Registry,
    /// The capabilities of the switch program; `None` for the program that the scheme needs. With a profile, policies
    /// may select every scheme that the program supports.
    pub switch_profile: Option<SwitchProfile>,
    /// `m`: the receiver acknowledges every m-th packet in order (FNCC §3.2.3). At least 1.
    pub ack_every: u32,
    /// Priority class of control frames, such as ACKs and NACKs: 0 to 7.
    pub control_class: u8,
    /// Priority class of DATA: 0 to 7.
    pub data_class: u8,
    /// Priority class of DATA of short messages, if the scheme treats them separately: 0 to 7.
    pub express_class: u8,
    /// Timers and limits of the transport.
    pub transport: TransportConfig,
    /// Delays and limits between wire and transport.
    pub nic: NicConfig,
    /// Configuration of policies; `None` disables them on this host.
    pub policy: Option<PolicyConfig>,
}

impl HostConfig {
    /// Creates the configuration of a host with the default MTU, an ACK per packet, class 0 for all packets and
    /// default timers.
    pub fn new(addr: Ipv4Addr, nic_rate: Bandwidth, base_rtt: Time, scheme: Arc<dyn SchemeConfig>) -> Self {
        let [a, b, c, d] = addr.octets();
        HostConfig {
            addr,
            // Locally administered, unicast, and recognisable in a packet capture.
            mac: [0x02, 0x00, a, b, c, d],
            gateway_mac: [0x02, 0xff, 0xff, 0xff, 0xff, 0xfe],
            nic_rate,
            mtu: DEFAULT_MTU,
            base_rtt,
            tick: Time::from_ns(1),
            scheme,
            registry: Registry::builtin(),
            switch_profile: None,
            ack_every: 1,
            control_class: 0,
            data_class: 0,
            express_class: 0,
            transport: TransportConfig::default(),
            nic: NicConfig::default(),
            policy: None,
        }
    }

    /// Returns the priority class of DATA packets with this priority.
    pub(crate) fn class_of(&self, priority: Priority) -> u8 {
        match priority {
            Priority::Express => self.express_class,
            Priority::Ordinary => self.data_class,
        }
    }

    /// Returns the first of `needs` that the switch program does not meet; `None` if it meets all.
    pub(crate) fn unmet_need(&self, needs: &Needs) -> Option<UnmetNeed> {
        match &self.switch_profile {
            Some(profile) => profile.unmet_need(needs),
            None => SwitchProfile::from(self.scheme.needs().program.capabilities()).unmet_need(needs),
        }
    }

    /// Returns the layout of the switch program's custom telemetry records and the names of the fields that the
    /// scheme reads; `None` if the records have one of Weir's formats.
    fn custom_record(&self) -> Option<(&RecordLayout, &'static [&'static str])> {
        self.switch_profile.as_ref()?.record.as_ref().zip(self.scheme.needs().custom_record_fields)
    }

    /// Returns the needs of the scheme, with the record format that the switch program uses for it.
    pub(crate) fn needs(&self) -> Needs {
        let needs = self.scheme.needs();
        Needs { records: self.custom_record().map_or(needs.records, |(layout, _)| layout.format()), ..needs }
    }

    /// Returns the payload bytes of a full packet: the MTU less the headers and, if DATA gathers telemetry, less room
    /// for all records that switches may add, so that the grown frame still fits the MTU. `None` if nothing remains.
    pub fn max_payload(&self) -> Option<Bytes> {
        let payload = self.mtu.get().checked_sub((HEADERS_LEN + self.reserved_for_records()) as u64)?;
        (payload > 0).then_some(Bytes::new(payload))
    }

    /// Returns the bytes of a packet that are reserved for records.
    fn reserved_for_records(&self) -> usize {
        let needs = self.needs();
        // ACKs and probes have no payload, so their records always fit.
        match needs.telemetry {
            TelemetrySource::Data | TelemetrySource::DataOncePerRtt | TelemetrySource::DataOnCongestion => {
                MAX_HOPS * needs.records.record_len()
            }
            TelemetrySource::None
            | TelemetrySource::Probes
            | TelemetrySource::Acks
            | TelemetrySource::RateNotifications => 0,
        }
    }

    /// Returns the parameters of a flow with full packets of `max_payload` bytes.
    pub(crate) fn flow_params(&self, max_payload: u32) -> FlowParams {
        let ticks_per_unit = self.switch_profile.as_ref().map_or(1, |profile| profile.ticks_per_unit);
        FlowParams {
            nic_rate: self.nic_rate,
            base_rtt: self.base_rtt,
            payload: Bytes::new(u64::from(max_payload)),
            tick: self.tick * u64::from(ticks_per_unit),
            record: self.custom_record().map(|(layout, names)| layout.fields(names)).unwrap_or_default(),
            subflows: None,
        }
    }

    /// Returns the kind of loss recovery: the one configured for the transport, else the scheme's.
    pub fn recovery(&self) -> LossRecovery {
        self.transport.recovery.unwrap_or(self.scheme.needs().transport.recovery)
    }

    /// Checks that [`Host::new`](crate::Host::new) accepts the configuration.
    ///
    /// # Errors
    ///
    /// The error that [`Host::new`](crate::Host::new) would return.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.resolve().map(|_| ())
    }

    /// Checks the configuration and fills in the defaults of the transport.
    pub(crate) fn resolve(&self) -> Result<ResolvedTransport, ConfigError> {
        let min = Bytes::new((HEADERS_LEN + self.reserved_for_records() + 1) as u64);
        let max_payload = self.max_payload().ok_or(ConfigError::MtuTooSmall { mtu: self.mtu, min })?;
        if self.mtu > MAX_MTU {
            return Err(ConfigError::MtuTooLarge { mtu: self.mtu });
        }
        if self.nic_rate == Bandwidth::ZERO {
            return Err(ConfigError::ZeroNicRate);
        }
        if self.base_rtt == Time::ZERO {
            return Err(ConfigError::ZeroBaseRtt);
        }
        if self.ack_every == 0 {
            return Err(ConfigError::ZeroAckEvery);
        }
        if self.transport.pacing_credit > Ratio::ONE {
            return Err(ConfigError::PacingCreditTooLarge { credit: self.transport.pacing_credit });
        }
        for class in [self.control_class, self.data_class, self.express_class] {
            if class > MAX_CLASS {
                return Err(ConfigError::InvalidClass { class });
            }
        }
        let transport = &self.transport;
        let drain = self.nic_rate.tx_time(GO_BACK_N_RTO_BYTES).min(MAX_GO_BACK_N_DRAIN);
        let rtts = |n: u64| Time::from_ps(self.base_rtt.as_ps().saturating_mul(n));
        let rto = transport.rto.unwrap_or_else(|| drain.max(rtts(DEFAULT_GO_BACK_N_RTO_RTTS)));
        let rto_bounds = match self.recovery() {
            LossRecovery::GoBackN => RtoBounds { min: rto, initial: rto },
            LossRecovery::Selective => RtoBounds { min: transport.min_rto, initial: transport.initial_rto },
        };
        let resolved = ResolvedTransport {
            max_payload: max_payload.get() as u32,
            nack_interval: transport
                .nack_interval
                .unwrap_or_else(|| MIN_NACK_INTERVAL.max(rtts(DEFAULT_NACK_RTTS))),
            ack_delay: transport.ack_delay.unwrap_or(self.base_rtt),
            recovery: self.recovery(),
            rto: rto_bounds,
            user_timeout: transport.user_timeout,
            pacing_credit: transport.pacing_credit,
            active_window: transport.active_window.unwrap_or_else(|| {
                rtts(DEFAULT_ACTIVE_RTTS).max(self.nic_rate.tx_time(self.mtu * DEFAULT_ACTIVE_FRAMES))
            }),
        };
        let timers = [
            ("rto", rto),
            ("min_rto", transport.min_rto),
            ("initial_rto", transport.initial_rto),
            ("user_timeout", transport.user_timeout),
            ("nack_interval", resolved.nack_interval),
            ("ack_delay", resolved.ack_delay),
        ];
        for (key, time) in timers {
            if time == Time::ZERO {
                return Err(ConfigError::ZeroTimer { key });
            }
        }
        self.nic.check()?;
        if let Some(policy) = &self.policy {
            policy.trickle.check()?;
            let max_frame = self.mtu.min(Bytes::new((HEADERS_LEN + MAX_POLICY_PACKET) as u64));
            policy.trickle.check_link_time(self.nic_rate.tx_time(max_frame))?;
        }
        if transport.max_inbound == 0 {
            return Err(ConfigError::ZeroMaxInbound);
        }
        let needs = self.scheme.needs();
        let scheme = self.scheme.name();
        if let Some(missing) = self.unmet_need(&needs) {
            return Err(ConfigError::UnsupportedBySwitches { scheme, missing });
        }
        match resolved.recovery {
            LossRecovery::GoBackN if needs.transport.subflows > 1 => {
                return Err(ConfigError::SubflowsNeedSelective { scheme });
            }
            LossRecovery::Selective
                if needs.telemetry != TelemetrySource::None
                    || needs.writes_grant
                    || needs.program != SwitchProgram::Ecn =>
            {
                return Err(ConfigError::NeedsGoBackN { scheme });
            }
            _ => {}
        }
        let min_lifetime = rto.min(MAX_GO_BACK_N_DRAIN);
        if let Some(lifetime) = needs.deflection.and_then(|deflection| deflection.lifetime)
            && lifetime < min_lifetime
        {
            return Err(ConfigError::EntryLifetimeTooShort { scheme, lifetime, min: min_lifetime });
        }
        debug_assert!(
            (1..=MAX_SUBFLOWS).contains(&needs.transport.subflows),
            "the range of the parameter ensures this"
        );
        Ok(resolved)
    }
}

/// Default MTU: FNCC §5 (MTU 1518). Counted without FCS, so a full frame carries 1504 bytes of IP, and a real
/// interface needs `mtu 1504`.
pub const DEFAULT_MTU: Bytes = Bytes::new(1518);
/// The IPv4 total length has 16 bits.
const MAX_MTU: Bytes = Bytes::new(14 + 65_535);
/// PFC has eight classes.
const MAX_CLASS: u8 = 7;

/// The default retransmission timeout with go-back-N is at least the time that the NIC takes for this many bytes, up to
/// [`MAX_GO_BACK_N_DRAIN`]: 4 ms at 100 Gbit/s, 40 ms at 10. Weir's choice: a shared buffer of 32 MiB (HPCC's) may drain into
/// one port, and a lossless fabric must not time out meanwhile.
pub const GO_BACK_N_RTO_BYTES: Bytes = Bytes::new(50_000_000);
/// Maximum of that time. Weir's choice: slower networks have smaller buffers, and in Mininet a flow should not wait for
/// seconds after a loss.
pub const MAX_GO_BACK_N_DRAIN: Time = Time::from_ms(100);
/// Default retransmission timeout with go-back-N in base RTTs, for slow networks. Weir's choice: RTT samples in a
/// congested BMv2 network reach several times the base RTT.
pub const DEFAULT_GO_BACK_N_RTO_RTTS: u64 = 16;
/// Maximum number of doublings of a retransmission timeout.
pub(crate) const MAX_RTO_DOUBLINGS: u32 = 6;
/// Minimum of the default interval between NACKs for the same expected byte (HPCC simulator, `rdma-hw.cc`: 500 us).
pub const MIN_NACK_INTERVAL: Time = Time::from_us(500);
/// Minimum interval between such NACKs in base RTTs, for slow networks. Weir's choice: packets that were in flight
/// when the sender went back must not make it go back again.
pub const DEFAULT_NACK_RTTS: u64 = 4;
/// Number of base RTTs for which a flow counts as active after its last packet. Weir's choice: a few windows.
pub const DEFAULT_ACTIVE_RTTS: u64 = 8;
/// Number of full frames at NIC rate for which a flow counts as active after its last packet. Weir's choice: if that
/// many flows share the receiver's link evenly, each sends one frame in that time, and so does a flow at HPCC's
/// minimum rate (100 Mbit/s of 100 Gbit/s).
pub const DEFAULT_ACTIVE_FRAMES: u64 = 1_024;
/// Default maximum of incoming messages in progress: as many as the 16 bits of N can report.
pub const DEFAULT_MAX_INBOUND: u32 = 65_535;
/// Default number of tombstones. Weir's choice: more messages than complete within one RTO at 100 Gbit/s if they
/// average over 12 KB.
pub const DEFAULT_TOMBSTONES: u32 = 4_096;
/// Default minimum retransmission timeout with [`LossRecovery::Selective`]: that of Linux and of the AMP paper's ns-3
/// (`RttEstimator::MinRTO`).
pub const DEFAULT_MIN_RTO: Time = Time::from_ms(200);
/// Default retransmission timeout with [`LossRecovery::Selective`] before the first RTT sample (RFC 6298 §2.1).
pub const DEFAULT_INITIAL_RTO: Time = Time::from_secs(1);
/// Default time without new acknowledgements after which a sender gives up a message: the minimum that RFC 1122
/// recommends (§4.2.3.5, R2).
pub const DEFAULT_USER_TIMEOUT: Time = Time::from_secs(100);
/// Default maximum number of byte ranges behind gaps that a receiver tracks over all messages. Weir's choice: 1 MiB of
/// memory, enough for a thousand messages with sixty gaps each.
pub const DEFAULT_MAX_REORDER_RANGES: u32 = 65_536;
/// Default length of the queue of control frames. Weir's choice: two milliseconds of full frames at 100 Gbit/s, so
/// that only a long pause of the control class fills it.
pub const DEFAULT_CONTROL_QUEUE_LEN: u32 = 16_384;

/// Timers and limits of the transport. `None` selects a default that follows from base RTT and NIC rate.
#[derive(Clone, Debug, PartialEq)]
pub struct TransportConfig {
    /// Kind of loss recovery; `None` for the scheme's. Must be the same on all hosts of a network.
    pub recovery: Option<LossRecovery>,
    /// Retransmission timeout with [`LossRecovery::GoBackN`]. Default: the larger of the NIC's time for
    /// [`GO_BACK_N_RTO_BYTES`], at most [`MAX_GO_BACK_N_DRAIN`], and [`DEFAULT_GO_BACK_N_RTO_RTTS`] base RTTs.
    pub rto: Option<Time>,
    /// Minimum retransmission timeout with [`LossRecovery::Selective`].
    pub min_rto: Time,
    /// Retransmission timeout with [`LossRecovery::Selective`] before the first RTT sample.
    pub initial_rto: Time,
    /// Time without new acknowledgements after which a message fails, like TCP's user timeout (RFC 5482). Checked when
    /// a retransmission timeout expires.
    pub user_timeout: Time,
    /// Maximum number of byte ranges behind gaps that a receiver tracks over all messages, with
    /// [`LossRecovery::Selective`].
    pub max_reorder_ranges: u32,
    /// Minimum interval between NACKs for the same expected byte. Default: the larger of [`MIN_NACK_INTERVAL`]
    /// and [`DEFAULT_NACK_RTTS`] base RTTs.
    pub nack_interval: Option<Time>,
    /// Maximum delay of an ACK if `ack_every` is above 1. Default: one base RTT.
    pub ack_delay: Option<Time>,
    /// Time for which a flow counts as active after its last packet. Default: the larger of [`DEFAULT_ACTIVE_RTTS`]
    /// base RTTs and [`DEFAULT_ACTIVE_FRAMES`] frame times.
    pub active_window: Option<Time>,
    /// Part of a pacing gap, at most 1, by which the lateness of a frame may shorten the gap behind it. A frame is late if
    /// its gap was over before the NIC was free. 0 as in HPCC's simulator (`rdma-hw.cc`, UpdateNextAvail), where late frames
    /// cost a flow a part of its rate; Linux credits up to half of a gap (`net/sched/sch_fq.c`, `tcp_output.c`).
    pub pacing_credit: Ratio,
    /// Maximum number of incoming messages in progress. A new message beyond it evicts the oldest one of which no
    /// packet has arrived later than a base RTT after the first, or else the one idle for longest.
    pub max_inbound: u32,
    /// Number of completed messages that a receiver remembers in order to acknowledge retransmissions of them. The
    /// oldest is forgotten first.
    pub tombstones: u32,
    /// Length of the queue of control frames.
    pub control_queue: u32,
}

impl Default for TransportConfig {
    fn default() -> Self {
        TransportConfig {
            recovery: None,
            rto: None,
            min_rto: DEFAULT_MIN_RTO,
            initial_rto: DEFAULT_INITIAL_RTO,
            user_timeout: DEFAULT_USER_TIMEOUT,
            max_reorder_ranges: DEFAULT_MAX_REORDER_RANGES,
            nack_interval: None,
            ack_delay: None,
            active_window: None,
            pacing_credit: Ratio::default(),
            max_inbound: DEFAULT_MAX_INBOUND,
            tombstones: DEFAULT_TOMBSTONES,
            control_queue: DEFAULT_CONTROL_QUEUE_LEN,
        }
    }
}

/// The configuration of the transport with the defaults filled in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResolvedTransport {
    /// Payload bytes of a full packet.
    pub max_payload: u32,
    pub recovery: LossRecovery,
    pub rto: RtoBounds,
    pub user_timeout: Time,
    pub nack_interval: Time,
    pub ack_delay: Time,
    pub active_window: Time,
    pub pacing_credit: Ratio,
}

/// The bounds of the retransmission timeout (`transport/rto.rs`). Equal with go-back-N, which takes no RTT samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RtoBounds {
    /// The timeout is at least this.
    pub min: Time,
    /// The timeout before the first RTT sample.
    pub initial: Time,
}

/// The reason why a configuration is invalid.
#[allow(missing_docs)] // the messages explain the fields
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// The MTU leaves no room for payload.
    #[error(
        "mtu: {mtu} is too small; with 66B of headers, the room reserved for telemetry records, and payload, it must be at least {min}"
    )]
    MtuTooSmall { mtu: Bytes, min: Bytes },
    /// The MTU exceeds the maximum IPv4 packet.
    #[error("mtu: {mtu} exceeds the maximum of 65549B (IPv4 total length)")]
    MtuTooLarge { mtu: Bytes },
    /// The NIC rate is zero.
    #[error("nic_rate: must be greater than zero, for example 100Gbps")]
    ZeroNicRate,
    /// The base RTT is zero.
    #[error(
        "base_rtt: must be greater than zero; use slightly more than the largest round-trip time of the fabric"
    )]
    ZeroBaseRtt,
    /// `ack_every` is zero.
    #[error("ack_every: must be at least 1 (1 acknowledges every packet)")]
    ZeroAckEvery,
    /// The credit for late frames exceeds a whole gap.
    #[error("pacing_credit: {}", credit.exceeds_one())]
    PacingCreditTooLarge { credit: Ratio },
    /// A priority class is out of range.
    #[error("invalid priority class {class}: expected 0 to 7")]
    InvalidClass { class: u8 },
    /// A timer is zero.
    #[error("{key}: must be greater than zero; omit it to use the default")]
    ZeroTimer {
        /// Name of the timer in [`TransportConfig`].
        key: &'static str,
    },
    /// The NIC model is invalid.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// `max_inbound` is zero.
    #[error("max_inbound: must be at least 1")]
    ZeroMaxInbound,
    /// The switch program does not meet the scheme's needs.
    #[error("{scheme} requires {missing}, which the switch program does not provide")]
    UnsupportedBySwitches {
        /// The scheme.
        scheme: &'static str,
        /// The capabilities or records that the switch program lacks.
        missing: UnmetNeed,
    },
    /// Switches may forget a deflected message while its packets wait.
    #[error(
        "{scheme}: entry_lifetime {lifetime} is below {min}, for which packets may wait before they count as lost: a \
         switch that forgets their message reorders them; use {min} or more, or off"
    )]
    EntryLifetimeTooShort {
        /// The scheme.
        scheme: &'static str,
        lifetime: Time,
        min: Time,
    },
    /// The scheme has several subflows, and loss recovery is go-back-N.
    #[error(
        "{scheme} uses several subflows, which go-back-n does not support; set recovery: selective or subflows: 1"
    )]
    SubflowsNeedSelective {
        /// The scheme.
        scheme: &'static str,
    },
    /// The Trickle parameters of policies are invalid.
    #[error("policy: {}: {_0}", _0.key())]
    Trickle(#[from] TrickleError),
    /// The scheme needs telemetry, grants or another switch program than `ecn`, and loss recovery is selective.
    #[error("{scheme} requires recovery: go-back-n, because selective ACKs carry no telemetry or grants")]
    NeedsGoBackN {
        /// The scheme.
        scheme: &'static str,
    },
}
