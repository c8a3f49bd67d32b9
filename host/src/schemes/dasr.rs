//! DASR, Dart's answer to receiver congestion (arXiv 1805.11158 §III): the receiver counts its senders and
//! tells each to send at line rate over that number. DCQCN does what is left.
//!
//! What the receiver sends, by what it sees in a window of about a round trip (§III-C, Figure 5):
//!
//! ```text
//!                    no mark                 mark, line rate          mark, below line rate
//!  state             No Congestion           Receiver Congestion      Non-receiver Congestion
//!  n on ACKs         senders                 senders                  1
//!  marks             -                       hidden                   passed on: CNPs, DCQCN
//! ```

use super::dcqcn::{self, Dcqcn, NotificationPoint, Reaction};
use crate::knob::{HostsOwn, Knob, KnobOf, Or, part};
use crate::scheme::{
    AckEvent, Conduct, DataEvent, Decision, Feedback, FlowParams, MARKING_RANGE, Marking, Needs, Receiver,
    Scheme, Sender, SwitchProgram, TelemetryOn,
};
use crate::telemetry::TelemetryChecks;
use crate::wire::RecordFormat;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Bytes, Ratio, Time};

/// DASR's knobs.
#[derive(Clone, Debug)]
pub(super) struct Dasr {
    look_ahead: bool,
    soft_state: Time,
    window: Or<HostsOwn, Time>,
    line_share: f64,
    ecn: Marking,
    dcqcn: Dcqcn,
}

impl Default for Dasr {
    fn default() -> Self {
        let k = Bytes::new(22_500);
        Dasr {
            look_ahead: true,
            soft_state: Time::from_secs(2),
            window: Or::word(),
            line_share: 0.95,
            ecn: Marking { kmin: k, kmax: k, pmax: Ratio::ONE, per: Bandwidth::from_gbps(10) },
            dcqcn: Dcqcn::default(),
        }
    }
}

/// Knobs of DCQCN that mean nothing here: the paper's variant it is, and marking is Dart's.
const NOT_OURS: [&str; 4] = ["variant", "decrease_timer", "clamp_target", "ecn"];

impl Scheme for Dasr {
    const NAME: &'static str = "dasr";
    const ABOUT: &'static str = "DASR (Dart): the receiver divides its line among its senders, DCQCN below";

    fn knobs() -> Vec<KnobOf<Self>> {
        let own = [
            KnobOf::new(
                Knob {
                    name: "look_ahead",
                    unit: "-",
                    default: "on",
                    range: "on or off",
                    symbol: "-",
                    source: "Dart §III-D; off where tenants are not trusted",
                    help: "Count senders that another sender announces.",
                },
                |c: &mut Dasr| &mut c.look_ahead,
            ),
            KnobOf::new(
                Knob {
                    name: "soft_state",
                    unit: "s",
                    default: "2s",
                    range: "a time above 0",
                    symbol: "-",
                    source: "Dart §III-B",
                    help: "A sender that is silent for so long is taken for dead and not counted.",
                },
                |c: &mut Dasr| &mut c.soft_state,
            ),
            KnobOf::new(
                Knob {
                    name: "state_window",
                    unit: "s",
                    default: "host",
                    range: "host (the host's base RTT) or a time above 0",
                    symbol: "-",
                    source: "ours: Dart gives none",
                    help: "Over what the receiver looks at marks and throughput.",
                },
                |c: &mut Dasr| &mut c.window,
            ),
            KnobOf::number(
                Knob {
                    name: "line_share",
                    unit: "-",
                    default: "0.95",
                    range: "0.1 to 1",
                    symbol: "-",
                    source: "ours: Dart says equal to line rate",
                    help: "From this share of line rate on, throughput counts as line rate; until 5 % below it.",
                },
                0.1..=1.0,
                |c: &mut Dasr| &mut c.line_share,
            ),
            KnobOf::new(
                Knob {
                    name: "ecn",
                    unit: "B",
                    default: "22.5KB/10Gbps",
                    range: MARKING_RANGE,
                    symbol: "-",
                    source: "Dart §VI: 22.5 KB, a tenth of a port's buffer; its link speed is lost",
                    help: "Where switches mark, unless the experiment says.",
                },
                |c: &mut Dasr| &mut c.ecn,
            ),
        ];
        let below = part(dcqcn::knobs(), |c: &mut Dasr| &mut c.dcqcn);
        let below = below.filter(|k| !NOT_OURS.contains(&k.knob.name));
        own.into_iter().chain(below).collect()
    }
    fn needs(&self) -> Needs {
        Needs {
            program: SwitchProgram::Ecn,
            telemetry: TelemetryOn::Nothing,
            records: RecordFormat::ENTRY,
            ecn: Some(self.ecn),
            grant: false,
        }
    }
    /// One round trip; what queued in it stays, since the shares add up to the line.
    fn conduct(&self) -> Conduct {
        Conduct {
            fair_within: Time::from_us(100),
            recovers_within: Time::from_us(100),
            peak: Bytes::from_kb(120),
            steady: Bytes::from_kb(120),
        }
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let line = flow.nic_rate.as_bps_f64();
        Box::new(DasrSender { below: Reaction::new(&self.dcqcn, flow), line, cap: line })
    }
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver> {
        Box::new(DasrReceiver {
            senders: Senders::new(self.soft_state, self.look_ahead),
            state: StateMachine {
                window: self.window.or(host.base_rtt),
                line: host.nic_rate.as_bps_f64(),
                line_share: self.line_share,
                began: Time::ZERO,
                bytes: 0,
                marked: false,
                at_line: false,
                state: State::NoCongestion,
            },
            notification: NotificationPoint::new(self.dcqcn.cnp_interval),
        })
    }
}

/// `min(DCQCN's rate, line rate / n)`: the paper leaves open how the two meet.
#[derive(Debug)]
struct DasrSender {
    below: Reaction,
    line: f64,
    cap: f64,
}

impl Sender for DasrSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryChecks) -> Decision {
        self.below.sent(ack.acked);
        self.cap = self.line / f64::from(ack.concurrency.max(1));
        self.decision()
    }
    fn on_cnp(&mut self, now: Time) -> Decision {
        self.below.on_cnp(now);
        self.decision()
    }
    fn on_timer(&mut self, now: Time) -> Decision {
        self.below.on_timer(now);
        self.decision()
    }
    fn decision(&self) -> Decision {
        self.below.decision_below(self.cap)
    }
}

/// AUSS, the active unique senders' set (§III-B).
#[derive(Debug)]
struct Senders {
    look_ahead: bool,
    soft_state: Time,
    active: BTreeMap<Ipv4Addr, ActiveSender>,
    swept: Time,
}

#[derive(Debug)]
struct ActiveSender {
    messages: u32,
    last: Time,
    /// It was announced and has not sent yet: its first message is counted already.
    expected: bool,
}

/// Senders that are counted, at most: what Dart's simulations have hosts. Forged ones cannot slow the others
/// down further than that.
const MAX_SENDERS: usize = 1_024;
/// Looks for dead senders in each soft-state time.
const SWEEPS: u64 = 8;

impl Senders {
    fn new(soft_state: Time, look_ahead: bool) -> Senders {
        Senders { look_ahead, soft_state, active: BTreeMap::new(), swept: Time::ZERO }
    }

    /// Takes note of a packet and returns n.
    fn count(&mut self, data: &DataEvent<'_>) -> u16 {
        if data.now.saturating_sub(self.swept) >= self.soft_state / SWEEPS {
            self.swept = data.now;
            let soft_state = self.soft_state;
            self.active.retain(|_, sender| data.now.saturating_sub(sender.last) <= soft_state);
        }
        if let Some(sender) = self.active.get_mut(&data.source) {
            sender.last = data.now;
            let expected = data.first && std::mem::take(&mut sender.expected);
            sender.messages = sender.messages.saturating_add(u32::from(data.first && !expected));
        } else if data.slot.is_some() && self.active.len() < MAX_SENDERS {
            // Also one that was taken for dead and goes on with its message.
            self.active.insert(data.source, ActiveSender { messages: 1, last: data.now, expected: false });
        }
        if self.look_ahead {
            self.expect(data);
        }
        if data.last
            && let Some(sender) = self.active.get_mut(&data.source)
        {
            sender.messages -= 1;
            if sender.messages == 0 {
                self.active.remove(&data.source);
            }
        }
        // At most MAX_SENDERS, and at least the one that reads it.
        (self.active.len() as u16).max(1)
    }
}

impl Senders {
    /// §III-D: a flow begins when it is announced. Who is counted already stays counted once.
    fn expect(&mut self, data: &DataEvent<'_>) {
        let network = u32::from(data.source) & 0xffff_0000;
        for id in data.announced {
            let sender = Ipv4Addr::from(network | u32::from(u16::from_be_bytes(*id)));
            if self.active.len() < MAX_SENDERS {
                let new = || ActiveSender { messages: 1, last: data.now, expected: true };
                self.active.entry(sender).or_insert_with(new);
            }
        }
    }
}

/// §III-C, Figure 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    NoCongestion,
    Receiver,
    NonReceiver,
}

#[derive(Debug)]
struct StateMachine {
    window: Time,
    line: f64,
    line_share: f64,
    began: Time,
    bytes: u64,
    marked: bool,
    /// Whether the last whole window was at line rate.
    at_line: bool,
    state: State,
}

/// How far throughput may fall below the knob's share and still count as line rate. Ours.
const HYSTERESIS: f64 = 0.05;

impl StateMachine {
    fn next(&mut self, data: &DataEvent<'_>) -> State {
        let passed = data.now.saturating_sub(self.began);
        if passed >= self.window {
            let rate = self.bytes as f64 * 8.0 / passed.as_secs_f64();
            let least = self.line_share - if self.at_line { HYSTERESIS } else { 0.0 };
            self.at_line = rate >= self.line * least;
            self.state = self.congestion(self.marked);
            (self.began, self.bytes, self.marked) = (data.now, 0, false);
        }
        self.bytes += data.frame.get();
        if data.marked && !self.marked {
            // A mark counts at once, its absence at the end of the window.
            self.marked = true;
            self.state = self.congestion(true);
        }
        self.state
    }

    fn congestion(&self, marked: bool) -> State {
        match (marked, self.at_line) {
            (false, _) => State::NoCongestion,
            (true, true) => State::Receiver,
            (true, false) => State::NonReceiver,
        }
    }
}

#[derive(Debug)]
struct DasrReceiver {
    senders: Senders,
    state: StateMachine,
    notification: NotificationPoint,
}

impl Receiver for DasrReceiver {
    fn on_data(&mut self, data: &DataEvent<'_>, _checks: &mut TelemetryChecks) -> Feedback {
        let senders = self.senders.count(data);
        self.notification.begin(data);
        match self.state.next(data) {
            State::NoCongestion | State::Receiver => {
                Feedback { concurrency: senders, hide_mark: true, ..Feedback::default() }
            }
            State::NonReceiver => {
                Feedback { concurrency: 1, cnp: self.notification.notifies(data), ..Feedback::default() }
            }
        }
    }
}
