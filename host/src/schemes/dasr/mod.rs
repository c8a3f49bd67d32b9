//! DASR, Dart's control of receiver congestion (arXiv 1805.11158 §III): the receiver counts its senders, and each of
//! them sends at the receiver's line rate over that number. DCQCN handles the remaining congestion. DASR with IOFD,
//! the deflection of short messages in switches (§IV), is Dart.
//!
//! The receiver measures over a window of about a round trip (§III-C, Figure 5). The contents of its ACKs:
//!
//! ```text
//!  measured          no mark                 mark, line rate          mark, below line rate
//!  state             No Congestion           Receiver Congestion      Non-receiver Congestion
//!  n                 senders                 senders                  1
//!  marks             -                       hidden                   passed on: CNPs, DCQCN
//! ```
//!
//! Each ACK carries n in its concurrency field and the sender's share, the receiver's line rate over n, in its grant
//! field.

mod incasts;
mod senders;
mod state;

use super::dcqcn::{self, Dcqcn, NotificationPoint, ReactionPoint};
use super::iofd::{self, Iofd, dart_marking};
use super::rocc::granted_rate;
use crate::parameter::{HostDefault, KeywordOr, Off};
use crate::parameters;
use crate::port_algorithm::{GRANT_UNIT_BPS, UNLIMITED_GRANT};
use crate::scheme::{
    AckEvent, AckFields, DataEvent, Decision, EcnThresholds, FlowParams, Needs, Receiver, Scheme, Sender,
    SendingRate, SwitchProgram,
};
use crate::telemetry::TelemetryCounters;
use senders::ActiveSenders;
use state::{CongestionDetector, CongestionState};
use weir_units::{Bandwidth, Bytes, Time};

parameters! {
    /// DASR's parameters.
    pub(super) struct Dasr {
        /// Count senders that another sender announces.
        look_ahead: bool = true => {
            range: "on or off", source: "Dart §III-D; off where tenants are not trusted",
        };
        /// Time after which an announced sender that has not started is no longer counted. Time up to the last marked packet
        /// does not pass.
        announced_for: Time = Time::from_us(200) => {
            unit: "s", range: "a time above 0",
            source: "Weir's choice: twice the jitter of Dart's incasts, which has only soft_state for it",
        };
        /// Hosts whose addresses share this many leading bits belong to one tenant. An announcement names senders of
        /// its own tenant and counts for that tenant only.
        tenant_bits: f64 = 16.0 => {
            in 16.0..=32.0, range: "16 to 32",
            source: "Weir's choice: lists name hosts by the low 16 bits of their address; Dart §III-D keeps tenants apart",
        };
        /// Time after which a silent sender is no longer counted.
        soft_state: Time = Time::from_secs(2) => { unit: "s", range: "a time above 0", source: "Dart §III-B" };
        /// Interval over which the receiver measures marks and throughput.
        window: KeywordOr<HostDefault, Time> = KeywordOr::word() => {
            name: "state_window", unit: "s", range: "host (the host's base RTT) or a time above 0",
            source: "Weir's choice: Dart gives none",
        };
        /// Fraction of line rate from which throughput counts as line rate, with a hysteresis of 5 %.
        line_share: f64 = 0.95 => {
            in 0.1..=1.0, range: "0.1 to 1", source: "Weir's choice: Dart says equal to line rate",
        };
        /// Wait for the NIC of the sender beyond which a packet leaves with an ECN mark.
        source_marking: KeywordOr<Off, Time> = KeywordOr::Value(Time::from_us(18)) => {
            unit: "s", range: "off or a time above 0",
            source: "Dart §III-C: sources mark by queue depth; as long as 22.5 KB wait at 10 Gbit/s",
        };
        /// In the state Receiver Congestion, add one to the number of senders until marks end.
        drain: bool = true => {
            range: "on or off", source: "Weir's choice: Dart's shares add up to line rate, so a queue that has built up stays",
        };
        ecn: EcnThresholds = dart_marking() => { info: iofd::DART_ECN };
        dcqcn: Dcqcn = Dcqcn::default() => { part: dcqcn::dart_parameters() };
    }
}

impl Scheme for Dasr {
    const NAME: &'static str = "dasr";
    const ABOUT: &'static str =
        "DASR (Dart): the receiver divides its line rate among its senders, DCQCN for the rest";
    fn needs(&self) -> Needs {
        Needs {
            ecn: Some(self.ecn),
            writes_grant: true,
            limits_peers: true,
            source_marking: self.source_marking.value(),
            ..Needs::of(SwitchProgram::Ecn)
        }
    }
    fn write_out_times(&mut self) {
        self.dcqcn.write_out_times();
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let line_rate = flow.nic_rate.as_bps_f64();
        Box::new(DasrSender {
            dcqcn: ReactionPoint::new(&self.dcqcn, flow),
            line_rate,
            cap: line_rate,
            base_rtt: flow.base_rtt,
            max_payload: flow.payload,
            window: None,
        })
    }
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver> {
        Box::new(DasrReceiver {
            senders: ActiveSenders::new(
                self.soft_state,
                self.look_ahead.then_some(self.tenant_bits as u32),
                self.announced_for,
            ),
            detector: CongestionDetector::new(
                self.window.or(host.base_rtt),
                host.nic_rate.as_bps_f64(),
                self.line_share,
            ),
            line_rate: host.nic_rate,
            drains_queue: self.drain,
            notification: NotificationPoint::new(self.dcqcn.cnp_interval),
        })
    }
}

/// Lower bound of a sender's rate over its own line rate, whatever an ACK carries: the share for the largest n. A
/// forged share of zero would stall a flow for seconds.
const MIN_SHARE: f64 = 1.0 / u16::MAX as f64;

/// Sends at `min(DCQCN's rate, receiver's line rate / n)`; the paper does not define how the two combine. Rates are
/// in bit/s.
#[derive(Debug)]
struct DasrSender {
    dcqcn: ReactionPoint,
    line_rate: f64,
    /// The receiver's line rate / n.
    cap: f64,
    base_rtt: Time,
    max_payload: Bytes,
    /// Window for a receiver with a slower line; `None` otherwise.
    window: Option<Bytes>,
}

impl DasrSender {
    /// Applies the share of an ACK, in bit/s, for n senders. If the receiver's line is slower than this host's, the
    /// window is limited to about one round trip at the share: the shares of all senders add up to the receiver's line
    /// rate, so a queue built in the first round trip at this host's line rate would never drain.
    fn apply_share(&mut self, n: u16, share: f64) {
        let n = f64::from(n);
        self.cap = share.clamp(self.line_rate * MIN_SHARE, self.line_rate);
        // The receiver's line rate is `share * n`, up to rounding of the share to its unit.
        let is_receiver_slower = (share + GRANT_UNIT_BPS as f64) * n <= self.line_rate;
        let bytes_per_rtt = || Bandwidth::from_bps_f64(share).bytes_in(self.base_rtt);
        self.window = is_receiver_slower.then(|| bytes_per_rtt() + self.max_payload * 2);
    }
}

impl Sender for DasrSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        self.dcqcn.on_bytes_acked(ack.acked);
        // Receivers of other schemes report no n and may use the grant field for another purpose.
        match granted_rate(ack).filter(|_| ack.concurrency > 0) {
            Some(share) => self.apply_share(ack.concurrency, share),
            None => (self.cap, self.window) = (self.line_rate, None),
        }
        self.decision()
    }
    fn on_cnp(&mut self, now: Time) -> Decision {
        self.dcqcn.on_cnp(now);
        self.decision()
    }
    fn on_timer(&mut self, now: Time) -> Decision {
        self.dcqcn.on_timer(now);
        self.decision()
    }
    fn resume(&mut self, _now: Time, from: &SendingRate) -> Decision {
        // The next ACK carries the number of senders.
        self.cap = from.rate.min(self.line_rate);
        self.decision()
    }
    fn peer_rate(&self) -> Option<Bandwidth> {
        Some(Bandwidth::from_bps_f64(self.cap))
    }
    fn decision(&self) -> Decision {
        let decision = self.dcqcn.capped_decision(self.cap);
        let window = self.window.map_or(decision.window, |window| window.min(decision.window));
        Decision { window, ..decision }
    }
}

#[derive(Debug)]
struct DasrReceiver {
    senders: ActiveSenders,
    detector: CongestionDetector,
    line_rate: Bandwidth,
    /// The parameter `drain`.
    drains_queue: bool,
    notification: NotificationPoint,
}

impl DasrReceiver {
    /// Returns the fields of an ACK that reports `concurrency` senders: their number, and the share of each in the
    /// receiver's line rate.
    fn fields_for(&self, concurrency: u16) -> AckFields {
        let kbps = self.line_rate.as_bps() / u64::from(concurrency.max(1)) / GRANT_UNIT_BPS;
        // At least 1, because 0 in the grant field means no rate.
        let grant = u32::try_from(kbps).unwrap_or(UNLIMITED_GRANT).max(1);
        AckFields { concurrency, grant, ..AckFields::default() }
    }
}

impl Receiver for DasrReceiver {
    fn on_data(&mut self, data: &DataEvent<'_>, _checks: &mut TelemetryCounters) -> AckFields {
        let senders = self.senders.on_data(data);
        self.notification.reset_if_new(data);
        match self.detector.on_data(data, self.senders.started()) {
            CongestionState::NoCongestion => {
                AckFields { suppress_ecn_echo: true, ..self.fields_for(senders) }
            }
            CongestionState::Underused => AckFields { suppress_ecn_echo: true, ..self.fields_for(1) },
            CongestionState::Receiver => AckFields {
                suppress_ecn_echo: true,
                ..self.fields_for(senders + u16::from(self.drains_queue))
            },
            CongestionState::NonReceiver => {
                AckFields { send_cnp: self.notification.should_send_cnp(data), ..self.fields_for(1) }
            }
        }
    }
}

parameters! {
    /// Parameters of Dart: DASR with look-ahead, and IOFD.
    pub(super) struct Dart {
        iofd: Iofd = Iofd::default() => { part };
        dasr: Dasr = Dasr::default() => { part };
    }
}

impl Scheme for Dart {
    const NAME: &'static str = "dart";
    const ABOUT: &'static str =
        "Dart: DASR with look-ahead, short messages deflected in order (IOFD), DCQCN for the rest";
    fn needs(&self) -> Needs {
        let deflection = Some(self.iofd.deflection());
        Needs { program: SwitchProgram::Dart, deflection, ..Scheme::needs(&self.dasr) }
    }
    fn write_out_times(&mut self) {
        self.dasr.write_out_times();
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        Scheme::sender(&self.dasr, flow)
    }
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver> {
        Scheme::receiver(&self.dasr, host)
    }
}
