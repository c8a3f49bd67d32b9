//! The configuration of a host, and the transport's defaults with their reasons.

use crate::custom_record::RecordLayout;
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
use weir_units::{Bandwidth, Bytes, Time};

/// Everything a [`Host`](crate::Host) is made from.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its IPv4 address.
    pub addr: Ipv4Addr,
    /// Its MAC address.
    pub mac: MacAddr,
    /// Destination MAC of what it answers with (the last switch rewrites it).
    pub gateway_mac: MacAddr,
    /// Rate of its NIC.
    pub nic_rate: Bandwidth,
    /// The largest Ethernet frame on any link, without preamble and gap.
    pub mtu: Bytes,
    /// `T`: one base round-trip time for the whole fabric, slightly above the largest.
    pub base_rtt: Time,
    /// A tick of the switches' clock: 1 ns, with BMv2 1 us.
    pub tick: Time,
    /// The congestion control of all its flows.
    pub scheme: Arc<dyn SchemeConfig>,
    /// The schemes that a policy can name. Default: [`Registry::builtin`].
    pub registry: Registry,
    /// The abilities of the switches' program, if it is not the scheme's own program. Policies can then change to every
    /// scheme that needs no more.
    pub switch_profile: Option<SwitchProfile>,
    /// `m`: the receiver acknowledges every m-th packet in order (FNCC §3.2.3).
    pub ack_every: u32,
    /// Priority class of ACK, NACK and what else controls.
    pub control_class: u8,
    /// Priority class of DATA.
    pub data_class: u8,
    /// Priority class of DATA of short messages, where the scheme tells them from long ones.
    pub express_class: u8,
    /// Timers and limits of the transport.
    pub transport: TransportConfig,
    /// Configuration for taking part in policies; `Open` if the host does not take part.
    pub policy: Option<PolicyConfig>,
}

impl HostConfig {
    /// Returns the priority class of DATA of this queue.
    pub(crate) fn class_of(&self, priority: Priority) -> u8 {
        match priority {
            Priority::Express => self.express_class,
            Priority::Ordinary => self.data_class,
        }
    }
    /// Returns a host with the usual Ethernet frame, an ACK per packet, one class and default timers.
    pub fn new(addr: Ipv4Addr, nic_rate: Bandwidth, base_rtt: Time, scheme: Arc<dyn SchemeConfig>) -> Self {
        let [a, b, c, d] = addr.octets();
        HostConfig {
            addr,
            // Locally administered, unicast, and readable in a capture.
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
            policy: None,
        }
    }

    /// Returns what of `needs` the switches' program lacks.
    pub(crate) fn unmet_needs(&self, needs: &Needs) -> Option<UnmetNeed> {
        match &self.switch_profile {
            Some(offer) => offer.unmet_need(needs),
            None => SwitchProfile::from(self.scheme.needs().program.abilities()).unmet_need(needs),
        }
    }

    /// Returns the layout of the program's own telemetry records, and which of its fields the scheme reads.
    fn own_record(&self) -> Option<(&RecordLayout, &'static [&'static str])> {
        self.switch_profile.as_ref()?.record.as_ref().zip(self.scheme.needs().custom_record_fields)
    }

    /// Returns what the scheme wants, with the records that the switches' program has for it.
    pub(crate) fn needs(&self) -> Needs {
        let needs = self.scheme.needs();
        Needs { records: self.own_record().map_or(needs.records, |(layout, _)| layout.format()), ..needs }
    }

    /// Payload of a full packet: the MTU less the headers, and less room for all the records that
    /// switches may add where DATA gathers telemetry, so that the grown frame still fits.
    pub fn max_payload(&self) -> Option<Bytes> {
        let needs = self.needs();
        let reserve = match needs.telemetry {
            TelemetrySource::Data | TelemetrySource::DataOncePerRtt | TelemetrySource::DataOnCongestion => {
                MAX_HOPS * needs.records.record_len()
            }
            TelemetrySource::None
            | TelemetrySource::Probes
            | TelemetrySource::Acks
            | TelemetrySource::RateNotifications => 0,
        };
        let payload = self.mtu.get().checked_sub((HEADERS_LEN + reserve) as u64)?;
        (payload > 0).then_some(Bytes::new(payload))
    }

    /// Returns what a sender half of the host's scheme is told about a flow with full packets of this payload.
    pub(crate) fn flow_params(&self, payload: u32) -> FlowParams {
        let ticks = self.switch_profile.as_ref().map_or(1, |offer| offer.ticks_per_unit);
        FlowParams {
            nic_rate: self.nic_rate,
            base_rtt: self.base_rtt,
            payload: Bytes::new(u64::from(payload)),
            tick: self.tick * u64::from(ticks),
            record: self.own_record().map(|(layout, names)| layout.fields(names)).unwrap_or_default(),
        }
    }

    /// Returns the kind of loss recovery: the transport's setting, or else the scheme's.
    pub fn recovery(&self) -> LossRecovery {
        self.transport.recovery.unwrap_or(self.scheme.needs().transport.recovery)
    }

    /// Checks that a host can be made from it.
    ///
    /// # Errors
    ///
    /// As of [`Host::new`](crate::Host::new).
    pub fn check(&self) -> Result<(), ConfigError> {
        self.resolve().map(|_| ())
    }

    /// Fills in the defaults of the transport.
    pub(crate) fn resolve(&self) -> Result<ResolvedTransport, ConfigError> {
        let payload = self.max_payload().ok_or(ConfigError::MtuTooSmall { mtu: self.mtu })?;
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
        for class in [self.control_class, self.data_class, self.express_class] {
            if class > MAX_CLASS {
                return Err(ConfigError::InvalidClass { class });
            }
        }
        let transport = &self.transport;
        let rtts = |n: u64| Time::from_ps(self.base_rtt.as_ps().saturating_mul(n));
        let rto = transport.rto.unwrap_or_else(|| MIN_GO_BACK_N_RTO.max(rtts(GO_BACK_N_RTO_RTTS)));
        let (min_rto, initial_rto) = match self.recovery() {
            LossRecovery::GoBackN => (rto, rto),
            LossRecovery::Selective => (transport.min_rto, transport.initial_rto),
        };
        let resolved = ResolvedTransport {
            payload: payload.get() as u32,
            nack_interval: transport
                .nack_interval
                .unwrap_or_else(|| DEFAULT_NACK_INTERVAL.max(rtts(DEFAULT_NACK_RTTS))),
            ack_delay: transport.ack_delay.unwrap_or(self.base_rtt),
            recovery: self.recovery(),
            min_rto,
            initial_rto,
            user_timeout: transport.user_timeout,
            active_window: transport.active_window.unwrap_or_else(|| {
                rtts(DEFAULT_ACTIVE_RTTS).max(self.nic_rate.tx_time(self.mtu * DEFAULT_ACTIVE_FRAMES))
            }),
        };
        let times = [
            ("rto", rto),
            ("min_rto", transport.min_rto),
            ("initial_rto", transport.initial_rto),
            ("user_timeout", transport.user_timeout),
            ("ack_delay", resolved.ack_delay),
        ];
        for (what, time) in times {
            if time == Time::ZERO {
                return Err(ConfigError::ZeroTimer { what });
            }
        }
        if let Some(policy) = &self.policy {
            policy.trickle.check()?;
            let packet = self.mtu.min(Bytes::new((HEADERS_LEN + MAX_POLICY_PACKET) as u64));
            policy.trickle.check_link_time(self.nic_rate.tx_time(packet))?;
        }
        if transport.max_inbound == 0 {
            return Err(ConfigError::ZeroMaxInbound);
        }
        let (needs, transport_needs) = (self.scheme.needs(), self.scheme.needs().transport);
        let scheme = self.scheme.name();
        if let Some(missing) = self.unmet_needs(&needs) {
            return Err(ConfigError::UnsupportedBySwitches { scheme, missing });
        }
        match resolved.recovery {
            LossRecovery::GoBackN if transport_needs.subflows > 1 => {
                return Err(ConfigError::SubflowsNeedSelective { scheme });
            }
            LossRecovery::Selective
                if needs.telemetry != TelemetrySource::None
                    || needs.grant
                    || needs.program != SwitchProgram::Ecn =>
            {
                return Err(ConfigError::NeedsGoBackN { scheme });
            }
            _ => {}
        }
        debug_assert!((1..=MAX_SUBFLOWS).contains(&transport_needs.subflows), "a parameter's range");
        Ok(resolved)
    }
}

/// Ethernet's 1500 bytes of IP plus its own header and check sequence (FNCC §5: MTU 1518).
pub const DEFAULT_MTU: Bytes = Bytes::new(1518);
/// IPv4 counts its length in 16 bits.
const MAX_MTU: Bytes = Bytes::new(14 + 65_535);
/// Classes are the eight of PFC.
const MAX_CLASS: u8 = 7;

/// Shortest default retransmission timeout. Ours: a shared buffer of 32 MiB (HPCC's) drains into
/// one 100 Gbit/s port in 2.7 ms, and a lossless fabric must not time out while it does.
pub const MIN_GO_BACK_N_RTO: Time = Time::from_ms(4);
/// Base round trips in a default retransmission timeout, for slow fabrics. Ours: RTT samples in a
/// congested BMv2 network reach several times the base.
pub const GO_BACK_N_RTO_RTTS: u64 = 16;
/// The most doublings of a retransmission timeout: 2^6 times the first.
pub(crate) const RTO_MAX_DOUBLINGS: u32 = 6;
/// One NACK per this time for the same expected byte (HPCC simulator, `rdma-hw.cc`: 500 us).
pub const DEFAULT_NACK_INTERVAL: Time = Time::from_us(500);
/// Base round trips between such NACKs, for slow fabrics. Ours: packets in flight when the sender
/// went back must not make it go back again.
pub const DEFAULT_NACK_RTTS: u64 = 4;
/// Base round trips a flow counts as active after its last packet. Ours: a few windows.
pub const DEFAULT_ACTIVE_RTTS: u64 = 8;
/// Number of full frames at NIC rate for which a flow counts as active after its last packet. Ours: if that many flows
/// share the receiver's link evenly, each sends one frame in that time, and so does a flow at HPCC's minimum rate (100
/// Mbit/s of 100 Gbit/s).
pub const DEFAULT_ACTIVE_FRAMES: u64 = 1_024;
/// Flows a receiver keeps at once: as many as the 16 bits of N can report.
pub const DEFAULT_MAX_INBOUND: u32 = 65_535;
/// Ended messages a receiver remembers. Ours: more than end within one RTO at 100 Gbit/s if they
/// average over 12 KB; the oldest are forgotten first.
pub const DEFAULT_TOMBSTONES: u32 = 4_096;
/// Shortest retransmission timeout with [`LossRecovery::Selective`]: what the AMP paper's ns-3 has by default, and
/// Linux (`RttEstimator::MinRTO`).
pub const DEFAULT_MIN_RTO: Time = Time::from_ms(200);
/// Retransmission timeout with [`LossRecovery::Selective`] until a round-trip time is known (RFC 6298 §2.1).
pub const DEFAULT_INITIAL_RTO: Time = Time::from_secs(1);
/// Time without progress after which a sender gives a message up: the least that RFC 1122 (§4.2.3.5, R2) recommends.
pub const DEFAULT_USER_TIMEOUT: Time = Time::from_secs(100);
/// Stretches of bytes behind gaps that a receiver keeps account of. Ours: 1 MiB in all, and more than a
/// thousand messages with sixty gaps each.
pub const DEFAULT_MAX_REORDER_RANGES: u32 = 65_536;
/// Control frames that may wait. Ours: two milliseconds of full frames at 100 Gbit/s, so only a
/// long pause of the control class reaches it.
pub const DEFAULT_CONTROL_QUEUE_LEN: u32 = 16_384;

/// Timers and limits. `Open` takes the default, which follows the fabric's speed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportConfig {
    /// Kind of loss recovery; `Open`: the scheme's. All hosts of a network must agree.
    pub recovery: Option<LossRecovery>,
    /// Retransmission timeout with [`LossRecovery::GoBackN`]; default the larger of [`MIN_GO_BACK_N_RTO`] and [`GO_BACK_N_RTO_RTTS`] base RTTs.
    pub rto: Option<Time>,
    /// Shortest retransmission timeout with [`LossRecovery::Selective`].
    pub min_rto: Time,
    /// Retransmission timeout with [`LossRecovery::Selective`] until a round-trip time is known.
    pub initial_rto: Time,
    /// Time for which nothing new may be acknowledged before a message fails, as TCP's user timeout (RFC 5482). It is
    /// looked at when a retransmission timeout expires.
    pub user_timeout: Time,
    /// Stretches of bytes behind gaps that a receiver keeps account of, with [`LossRecovery::Selective`].
    pub max_reorder_ranges: u32,
    /// At most one NACK per this time for the same expected byte; default the larger of
    /// [`DEFAULT_NACK_INTERVAL`] and [`DEFAULT_NACK_RTTS`] base RTTs.
    pub nack_interval: Option<Time>,
    /// Longest time a packet waits for its ACK where `ack_every` is above 1; default one base RTT.
    pub ack_delay: Option<Time>,
    /// Time for which a flow counts in N after its last packet; by default the larger of [`DEFAULT_ACTIVE_RTTS`] base RTTs and
    /// [`DEFAULT_ACTIVE_FRAMES`] frame times.
    pub active_window: Option<Time>,
    /// Flows a receiver keeps at once. Room for a new one makes the oldest one that was not heard again a base RTT after its
    /// first packet, or else the longest idle one.
    pub max_inbound: u32,
    /// Ended messages a receiver remembers, to answer what is retransmitted of them.
    pub tombstones: u32,
    /// Control frames that may wait.
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
            max_inbound: DEFAULT_MAX_INBOUND,
            tombstones: DEFAULT_TOMBSTONES,
            control_queue: DEFAULT_CONTROL_QUEUE_LEN,
        }
    }
}

/// The transport's numbers once the defaults are filled in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResolvedTransport {
    pub payload: u32,
    pub recovery: LossRecovery,
    /// The shortest retransmission timeout, and the one before any round-trip time is known. Go-back-N takes no samples, so
    /// that both are its timeout.
    pub min_rto: Time,
    pub initial_rto: Time,
    pub user_timeout: Time,
    pub nack_interval: Time,
    pub ack_delay: Time,
    pub active_window: Time,
}

/// A reason why a host cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// mtu is too small.
    #[error(
        "mtu: {mtu} leaves no room for payload behind the headers and the telemetry reserve, use at least 131B"
    )]
    MtuTooSmall {
        /// As given.
        mtu: Bytes,
    },
    /// mtu is too large.
    #[error("mtu: {mtu} does not fit IPv4's 16 bit length, use at most 65549B")]
    MtuTooLarge {
        /// As given.
        mtu: Bytes,
    },
    /// The NIC has no rate.
    #[error("nic_rate: a NIC of rate zero sends nothing, give it a rate like 100Gbps")]
    ZeroNicRate,
    /// The base RTT is zero.
    #[error("base_rtt: zero gives no window, use a little more than the fabric's largest round trip")]
    ZeroBaseRtt,
    /// The receiver would never acknowledge.
    #[error("ack_every: 0 never acknowledges, use 1 for every packet")]
    ZeroAckEvery,
    /// No such class.
    #[error("class {class} does not exist, priority classes are 0 to 7")]
    InvalidClass {
        /// As given.
        class: u8,
    },
    /// A timer of zero.
    #[error("{what}: a timer of zero would never end, omit it for the default")]
    ZeroTimer {
        /// The parameter.
        what: &'static str,
    },
    /// No room for any flow.
    #[error("max_inbound: 0 refuses every message, use at least 1")]
    ZeroMaxInbound,
    /// The switches' program lacks something.
    #[error("{scheme} needs {missing}, which the program of the switches does not have")]
    UnsupportedBySwitches {
        /// The scheme.
        scheme: &'static str,
        /// The abilities or records that the program lacks.
        missing: UnmetNeed,
    },
    /// Several subflows need selective retransmission.
    #[error(
        "{scheme} has several subflows, which go-back-n does not support: use recovery: selective, or one subflow"
    )]
    SubflowsNeedSelective {
        /// The scheme.
        scheme: &'static str,
    },
    /// Policies cannot spread like this.
    #[error("policy: {0}")]
    Trickle(#[from] TrickleError),
    /// Telemetry needs go-back-N.
    #[error("{scheme} needs the ACKs of go-back-n, which recovery: selective does not send")]
    NeedsGoBackN {
        /// The scheme.
        scheme: &'static str,
    },
}
