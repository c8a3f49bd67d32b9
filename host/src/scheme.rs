//! Defines a congestion control scheme: a factory with parameters, a sender half and a receiver half.
//!
//! A scheme sees events and gives decisions. It never sees a frame, a clock or a timer, and it does
//! not know how telemetry travelled: [`Telemetry`] comes in data-path order, whichever packet
//! carried it.

use crate::abilities::{Abilities, Ability};
use crate::law::PortLaw;
use crate::own_record::RecordFields;
use crate::parameter::{Parameter, ParameterError, ParameterOf, ParameterValue, Parameters};
use crate::telemetry::{Telemetry, TelemetryChecks};
use crate::wire::RecordFormat;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;
use weir_units::{Bandwidth, Bytes, ParseUnitError, Ratio, Time};

/// A scheme and the values of its parameters; makes the sender and receiver halves.
///
/// Implemented for every [`Scheme`], which is what a scheme's author writes.
pub trait SchemeConfig: fmt::Debug + Send + Sync {
    /// Returns the name that experiments use.
    fn name(&self) -> &'static str;
    /// Returns one sentence for the list of schemes.
    fn about(&self) -> &'static str;
    /// Returns every parameter.
    fn parameters(&self) -> Vec<Parameter>;
    /// Returns the value of a parameter as [`set`](Self::set) reads it; `None` if there is no such parameter.
    fn get(&self, parameter: &str) -> Option<String>;
    /// Returns every parameter's name and value, in the order of declaration.
    fn values(&self) -> Vec<(&'static str, String)>;
    /// Sets a parameter. On error nothing has changed.
    ///
    /// # Errors
    ///
    /// If there is no such parameter, or it does not take the value.
    fn set(&mut self, parameter: &str, value: &str) -> Result<(), ParameterError>;
    /// Returns what the scheme wants from the network and from the transport.
    fn needs(&self) -> Needs;
    /// Returns what switches compute for each port, on a fabric of this base round-trip time.
    fn port_law(&self, base_rtt: Time) -> Option<PortLaw>;
    /// Makes the sender half of one flow.
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender>;
    /// Makes the sender half of one connection of [`Transport::subflows`] subflows.
    fn coupled(&self, flow: &FlowParams) -> Box<dyn Coupled>;
    /// Makes the receiver half of one host, which gets the host's own values in place of a flow's.
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver>;
}

/// A congestion control scheme: its parameters, what it needs, and its sender half.
///
/// The type holds the values of the parameters; its `Default` has their defaults. [`SchemeConfig`] follows.
///
/// ```
/// use weir_host::scheme::{AckEvent, Decision, FlowParams, Needs, Scheme, Sender, SwitchProgram};
/// use weir_host::schemes::Registry;
/// use weir_host::telemetry::TelemetryChecks;
/// use weir_units::Bandwidth;
///
/// weir_host::parameters! {
///     /// Sends at a fixed fraction of the NIC's rate.
///     struct Fixed {
///         /// Fraction of the NIC's rate.
///         share: f64 = 0.5 => { in 0.01..=1.0, range: "0.01 to 1", source: "this example" };
///     }
/// }
///
/// impl Scheme for Fixed {
///     const NAME: &'static str = "fixed";
///     const ABOUT: &'static str = "Fixed: a constant fraction of the NIC's rate";
///
///     fn needs(&self) -> Needs {
///         Needs::of(SwitchProgram::Ecn)
///     }
///     fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
///         let rate = Bandwidth::from_bps_f64(flow.nic_rate.as_bps_f64() * self.share);
///         let window = flow.nic_rate.bytes_in(flow.base_rtt);
///         Box::new(FixedSender(Decision { window, rate, timer: None }))
///     }
/// }
///
/// #[derive(Debug)]
/// struct FixedSender(Decision);
///
/// impl Sender for FixedSender {
///     fn on_ack(&mut self, _ack: &AckEvent<'_>, _checks: &mut TelemetryChecks) -> Decision {
///         self.0
///     }
///     fn decision(&self) -> Decision {
///         self.0
///     }
/// }
///
/// let registry = Registry::builtin().with::<Fixed>();
/// let half = registry.make("fixed", &[("share", "25%")]).unwrap();
/// assert_eq!(half.get("share").as_deref(), Some("0.25"));
/// ```
pub trait Scheme: Parameters {
    /// The name that experiments use.
    const NAME: &'static str;
    /// One sentence for the list of schemes.
    const ABOUT: &'static str;
    /// Returns what the scheme wants from the network and from the transport.
    fn needs(&self) -> Needs;
    /// Returns what switches compute for each port, on a fabric of this base round-trip time. Default: nothing.
    fn port_law(&self, _base_rtt: Time) -> Option<PortLaw> {
        None
    }
    /// Makes the sender half of one flow.
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender>;
    /// Makes the sender half of a connection of several subflows. Default: one subflow, [`sender`](Self::sender).
    fn coupled(&self, flow: &FlowParams) -> Box<dyn Coupled> {
        Box::new(Alone(self.sender(flow)))
    }
    /// Makes the receiver half of one host. Default: the transport's echoes are enough.
    fn receiver(&self, _host: &FlowParams) -> Box<dyn Receiver> {
        Box::new(PlainReceiver)
    }
}

impl<S: Scheme> SchemeConfig for S {
    fn name(&self) -> &'static str {
        S::NAME
    }
    fn about(&self) -> &'static str {
        S::ABOUT
    }
    fn parameters(&self) -> Vec<Parameter> {
        let fresh = S::default();
        let with_default = |it: ParameterOf<S>| Parameter { info: it.info, default: it.get(&fresh) };
        S::parameters().into_iter().map(with_default).collect()
    }
    fn get(&self, name: &str) -> Option<String> {
        Some(parameter::<S>(name)?.get(self))
    }
    fn values(&self) -> Vec<(&'static str, String)> {
        S::parameters().into_iter().map(|it| (it.info.name, it.get(self))).collect()
    }
    fn set(&mut self, name: &str, value: &str) -> Result<(), ParameterError> {
        parameter::<S>(name)
            .ok_or_else(|| ParameterError::unknown(S::NAME, &SchemeConfig::parameters(self), name))?
            .set(self, value)
    }
    fn needs(&self) -> Needs {
        Scheme::needs(self)
    }
    fn port_law(&self, base_rtt: Time) -> Option<PortLaw> {
        Scheme::port_law(self, base_rtt)
    }
    fn coupled(&self, flow: &FlowParams) -> Box<dyn Coupled> {
        Scheme::coupled(self, flow)
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        Scheme::sender(self, flow)
    }
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver> {
        Scheme::receiver(self, host)
    }
}

/// Returns the declaration of a scheme's parameter.
fn parameter<S: Scheme>(name: &str) -> Option<ParameterOf<S>> {
    S::parameters().into_iter().find(|it| it.info.name == name)
}

/// The kinds of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The receiver asks for what is missing, the sender goes back there (RoCE): for fabrics that lose next
    /// to nothing.
    GoBackN,
    /// As TCP does: the receiver keeps what came behind a gap, the sender fills the gap. Messages may have
    /// several subflows.
    Selective,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Recovery::GoBackN => "go-back-n",
            Recovery::Selective => "selective",
        })
    }
}

/// The transport that a scheme wants for its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// The kind of loss recovery.
    pub recovery: Recovery,
    /// Subflows of a message, 1 to [`MAX_SUBFLOWS`]; above 1 only with [`Recovery::Selective`].
    pub subflows: u8,
    /// True if flows start with a small window that doubles per round trip, and not at line rate.
    pub slow_start: bool,
}

impl Default for Transport {
    /// Returns the transport of RDMA: go-back-N, one path, line rate from the start.
    fn default() -> Self {
        Transport { recovery: Recovery::GoBackN, subflows: 1, slow_start: false }
    }
}

/// Subflows of a message, at most: the header's index has 4 bits.
pub const MAX_SUBFLOWS: u8 = 16;

/// The packets that gather telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelemetryOn {
    /// None.
    Nothing,
    /// DATA packets, whose records the receiver copies to the ACK (HPCC).
    Data,
    /// DATA, one packet per round trip: the next one asks when the last one is acknowledged.
    DataOncePerRtt,
    /// PROBE packets, one per round trip, whose records come back on PROBE_REPLY. DATA stays as it is.
    Probes,
    /// ACKs, on the return path (FNCC).
    Acks,
    /// DATA asks, and a switch answers by itself, with a RATE packet (RoCC). There are no records.
    Notices,
}

/// The P4 program that does in the switches what a scheme wants of them, named as in `p4src`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchProgram {
    /// Marks.
    Ecn,
    /// Telemetry on DATA and probes.
    Hpcc,
    /// The same with the ids of switch and port, and time instead of queue on demand.
    HpccPlus,
    /// Telemetry on ACKs.
    Fncc,
    /// RoCC's fair rates, see [`PortLaw`].
    Rocc,
    /// RCP's.
    Rcp,
    /// Marks, and deflects short messages.
    Dart,
    /// ExpressPass' credits.
    Xpass,
    /// Does what `Ecn`, `Hpcc`, `Fncc` and `Dart` do, as each packet asks.
    Weir,
}

impl SwitchProgram {
    /// All there are.
    pub const ALL: [SwitchProgram; 9] = [
        SwitchProgram::Ecn,
        SwitchProgram::Hpcc,
        SwitchProgram::HpccPlus,
        SwitchProgram::Fncc,
        SwitchProgram::Rocc,
        SwitchProgram::Rcp,
        SwitchProgram::Dart,
        SwitchProgram::Xpass,
        SwitchProgram::Weir,
    ];

    /// The program's file, without ending.
    pub const fn name(self) -> &'static str {
        match self {
            SwitchProgram::Ecn => "ecn",
            SwitchProgram::Hpcc => "hpcc",
            SwitchProgram::HpccPlus => "hpcc_plus",
            SwitchProgram::Fncc => "fncc",
            SwitchProgram::Rocc => "rocc",
            SwitchProgram::Rcp => "rcp",
            SwitchProgram::Dart => "dart",
            SwitchProgram::Xpass => "xpass",
            SwitchProgram::Weir => "weir",
        }
    }

    /// Returns what the program declares in its P4Info.
    pub const fn abilities(self) -> Abilities {
        use Ability::{
            AckRecords, Credits, DataRecords, Deflection, LinkRecords, Marks, RcpRates, RoccRates,
        };
        match self {
            SwitchProgram::Ecn => Abilities::of(&[Marks]),
            SwitchProgram::Hpcc => Abilities::of(&[Marks, DataRecords]),
            SwitchProgram::HpccPlus => Abilities::of(&[Marks, DataRecords, LinkRecords]),
            SwitchProgram::Fncc => Abilities::of(&[Marks, AckRecords]),
            SwitchProgram::Rocc => Abilities::of(&[Marks, RoccRates]),
            SwitchProgram::Rcp => Abilities::of(&[Marks, RcpRates]),
            SwitchProgram::Dart => Abilities::of(&[Marks, Deflection]),
            SwitchProgram::Xpass => Abilities::of(&[Marks, Credits]),
            SwitchProgram::Weir => Abilities::of(&[Marks, DataRecords, AckRecords, Deflection]),
        }
    }
}

impl fmt::Display for SwitchProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SwitchProgram {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = SwitchProgram::ALL.into_iter().find(|it| it.name() == text);
        found.ok_or_else(|| {
            let all = SwitchProgram::ALL.map(SwitchProgram::name).join(", ");
            format!("there is no program \"{text}\", there are {all}")
        })
    }
}

/// The requirements of a scheme on the network and on the transport. Start from [`Needs::of`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Needs {
    /// The P4 program of the switches.
    pub program: SwitchProgram,
    /// The packets that gather telemetry.
    pub telemetry: TelemetryOn,
    /// The content of a telemetry record.
    pub records: RecordFormat,
    /// The fields that the scheme reads in the records, if they are a program's own
    /// ([`own_record`](crate::own_record)): at most [`MAX_FIELDS`](crate::own_record::MAX_FIELDS). `None`: the records
    /// are Weir's.
    pub own_record: Option<&'static [&'static str]>,
    /// How switches are to mark DATA, which is sent ECN-capable then, where the experiment does not
    /// say otherwise; `None` if the scheme does not look at marks.
    pub ecn: Option<Marking>,
    /// True if the scheme's receiver half writes the ACK's grant field. Otherwise the transport echoes the path id of
    /// the DATA packet there.
    pub grant: bool,
    /// The messages that switches may deflect, and when; `None` if the scheme works with switches that deflect nothing.
    pub deflection: Option<Deflection>,
    /// The longest message that is sent before longer ones and has a priority class of its own; `None` if all
    /// messages are treated alike.
    pub short_first: Option<Bytes>,
    /// The transport of its messages, where the experiment does not name another.
    pub transport: Transport,
}

impl Needs {
    /// Returns the needs of a scheme that wants this program in the switches, no telemetry, no marks and RDMA's
    /// transport.
    pub fn of(program: SwitchProgram) -> Needs {
        Needs {
            program,
            telemetry: TelemetryOn::Nothing,
            records: RecordFormat::ENTRY,
            own_record: None,
            ecn: None,
            grant: false,
            deflection: None,
            short_first: None,
            transport: Transport::default(),
        }
    }

    /// Returns what the switches' program has to offer for them.
    pub fn abilities(&self) -> Abilities {
        let gathered = match self.telemetry {
            TelemetryOn::Nothing => None,
            TelemetryOn::Data | TelemetryOn::DataOncePerRtt | TelemetryOn::Probes => {
                Some(Ability::DataRecords)
            }
            TelemetryOn::Acks => Some(Ability::AckRecords),
            TelemetryOn::Notices => Some(Ability::RoccRates),
        };
        let computed = match self.program {
            SwitchProgram::Rocc => Some(Ability::RoccRates),
            SwitchProgram::Rcp => Some(Ability::RcpRates),
            SwitchProgram::Xpass => Some(Ability::Credits),
            _ => None,
        };
        let links = self.records.has(RecordFormat::LINK).then_some(Ability::LinkRecords);
        let marks = self.ecn.map(|_| Ability::Marks);
        let deflection = self.deflection.map(|_| Ability::Deflection);
        [gathered, computed, links, marks, deflection].into_iter().flatten().collect()
    }
}

/// ECN thresholds of a port of rate `per`, in proportion for other rates: never a mark up to `kmin`
/// bytes of queue, always beyond `kmax`, between them with a probability that rises to `pmax`. `kmin` =
/// `kmax` is a step. Written `30KB/10Gbps` or `100KB-400KB:0.2/25Gbps`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marking {
    /// Never mark up to here.
    pub kmin: Bytes,
    /// Always mark beyond this.
    pub kmax: Bytes,
    /// Probability just below `kmax`.
    pub pmax: Ratio,
    /// The rate the thresholds are for.
    pub per: Bandwidth,
}

impl Marking {
    /// Returns the marking that begins at a queue of `k` on a port of rate `per`, with every packet.
    pub const fn step(k: Bytes, per: Bandwidth) -> Marking {
        Marking { kmin: k, kmax: k, pmax: Ratio::ONE, per }
    }
}

/// The values that [`Marking`] accepts, for the help of parameters.
pub const MARKING_RANGE: &str = "K/rate for a step, or Kmin-Kmax:Pmax/rate";

impl ParameterValue for Marking {
    fn read(text: &str) -> Result<Self, String> {
        let say = |e: ParseUnitError| e.to_string();
        let (thresholds, per) = text.split_once('/').ok_or_else(|| format!("\"{text}\" has no /rate"))?;
        let per: Bandwidth = per.parse().map_err(say)?;
        let (kmin, kmax, pmax) = match thresholds.split_once(':') {
            None => (thresholds, thresholds, "1"),
            Some((ramp, pmax)) => match ramp.split_once('-') {
                Some((kmin, kmax)) => (kmin, kmax, pmax),
                None => return Err(format!("\"{ramp}\" is no ramp, write Kmin-Kmax")),
            },
        };
        let (kmin, kmax): (Bytes, Bytes) = (kmin.parse().map_err(say)?, kmax.parse().map_err(say)?);
        let pmax: Ratio = pmax.parse()?;
        if per == Bandwidth::ZERO || kmax == Bytes::ZERO || kmin > kmax || pmax.get() > 1.0 {
            return Err(format!("\"{text}\": rate and Kmax are above 0, Kmin up to Kmax, Pmax up to 1"));
        }
        Ok(Marking { kmin, kmax, pmax, per })
    }
    fn write(self) -> String {
        let Marking { kmin, kmax, pmax, per } = self;
        if kmin == kmax { format!("{kmin}/{per}") } else { format!("{kmin}-{kmax}:{pmax}/{per}") }
    }
}

/// The requirements of a scheme on switches that deflect (Dart section IV).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deflection {
    /// Deflections that a packet of a short message is allowed; other packets are allowed none.
    pub tokens: u8,
    /// The longest message that is short.
    pub short: Bytes,
    /// A port whose queue is longer is congested.
    pub threshold: QueueLimit,
    /// Ports to hosts are deflected from too: the message goes back into the network.
    pub at_hosts: bool,
    /// Idle time after which a switch may reclaim the entry of a message; `None`: never.
    pub lifetime: Option<Time>,
}

impl Deflection {
    /// Tokens of a message's packets. One without a size is long.
    pub fn tokens_of(&self, size: Option<Bytes>) -> u8 {
        if size.is_some_and(|size| size <= self.short) { self.tokens } else { 0 }
    }
}

/// A queue of a port of rate `per`, in proportion for other rates. Written `15KB/10Gbps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimit {
    /// Bytes that wait.
    pub queue: Bytes,
    /// The rate the limit is for.
    pub per: Bandwidth,
}

impl ParameterValue for QueueLimit {
    fn read(text: &str) -> Result<Self, String> {
        let say = |e: ParseUnitError| e.to_string();
        let (queue, per) = text.split_once('/').ok_or_else(|| format!("\"{text}\" has no /rate"))?;
        let limit = QueueLimit { queue: queue.parse().map_err(say)?, per: per.parse().map_err(say)? };
        if limit.per == Bandwidth::ZERO { Err("its rate is above 0".to_owned()) } else { Ok(limit) }
    }
    fn write(self) -> String {
        format!("{}/{}", self.queue, self.per)
    }
}

/// The facts about a flow that a sender half knows from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowParams {
    /// Rate of the host's NIC: flows start at it.
    pub nic_rate: Bandwidth,
    /// `T`, the base round-trip time of the fabric.
    pub base_rtt: Time,
    /// Payload of a full packet.
    pub payload: Bytes,
    /// Unit of the telemetry's timestamps.
    pub tick: Time,
    /// Where the fields of [`Needs::own_record`] are in a record.
    pub record: RecordFields,
}

/// An ACK (or a NACK, which acknowledges what came before the gap) as the scheme sees it; or the reply to
/// a probe, where `seq` and `snd_nxt` number probes.
#[derive(Clone, Copy, Debug)]
pub struct AckEvent<'a> {
    /// The time it arrived.
    pub now: Time,
    /// Next byte the receiver expects; never beyond `snd_nxt`, never going back.
    pub seq: u64,
    /// Payload bytes this ACK acknowledged for the first time.
    pub acked: Bytes,
    /// Next byte the sender would send.
    pub snd_nxt: u64,
    /// Time from sending the acknowledged packet, if the echoed stamp can be one of ours.
    pub rtt: Option<Time>,
    /// True if the acknowledged packet was marked.
    pub ecn_echo: bool,
    /// Flows at the receiver as it reported them; 0 if it does not report.
    pub concurrency: u16,
    /// The grant field, if [`Needs::grant`].
    pub grant: u32,
    /// XOR of switch ids on the path the telemetry describes.
    pub path_id: u16,
    /// XOR of switch ids on the path that the acknowledged DATA took. It differs from `path_id` where ACKs gather
    /// telemetry and return by another path.
    pub data_path: u16,
    /// What the switches reported, first hop after the sender first.
    pub telemetry: &'a Telemetry<'a>,
}

/// A RATE packet as the scheme sees it: a switch says how fast the flow may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateEvent {
    /// The time it arrived.
    pub now: Time,
    /// The rate; whatever a forger likes.
    pub rate: Bandwidth,
    /// Identifies the port: its number, and the XOR of the switch ids on the path from it.
    pub point: (u32, u16),
}

/// The evidence of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// The receiver saw a gap: it said so, or duplicate ACKs did.
    Nack,
    /// Nothing was acknowledged for a retransmission timeout.
    Timeout,
}

/// Packets were lost; the transport goes back to the first unacknowledged byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossEvent {
    /// The time it was noticed.
    pub now: Time,
    /// The evidence of the loss.
    pub kind: LossKind,
    /// The byte the sender goes back to.
    pub seq: u64,
    /// Next byte to be sent before the loss was detected.
    pub snd_nxt: u64,
}

/// The limits of a flow from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Payload bytes that may be in flight before another packet is sent. At least 1.
    pub window: Bytes,
    /// Rate at which frames leave. At least 1 bit/s.
    pub rate: Bandwidth,
    /// Time at which to call [`Sender::on_timer`].
    pub timer: Option<Time>,
}

/// The sender half: one per flow.
pub trait Sender: fmt::Debug + Send {
    /// Feedback arrived. Telemetry that cannot be is left out and counted in `checks`.
    fn on_ack(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryChecks) -> Decision;
    /// Packets were lost. Schemes for lossless fabrics leave this to the transport.
    fn on_loss(&mut self, _loss: &LossEvent) -> Decision {
        self.decision()
    }
    /// A congestion notification packet arrived.
    fn on_cnp(&mut self, _now: Time) -> Decision {
        self.decision()
    }
    /// A switch sent a rate.
    fn on_rate(&mut self, _rate: &RateEvent) -> Decision {
        self.decision()
    }
    /// The decision's timer expired.
    fn on_timer(&mut self, _now: Time) -> Decision {
        self.decision()
    }
    /// Before any event: the flow does not start, but goes on from what another law has left, and must not start again
    /// at line rate.
    fn resume(&mut self, _now: Time, _from: &Pace) -> Decision {
        self.decision()
    }
    /// Returns the decision in force; before any event, how the flow starts.
    fn decision(&self) -> Decision;
}

/// Effective sending rate of a flow when its scheme changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Effective sending rate in bit/s: `min(rate, window / base_rtt)`.
    pub rate: f64,
    /// The same per base round trip, in bytes; at least 1.
    pub window: f64,
}

impl Pace {
    /// Returns the sending rate that a decision allows on a fabric of this base RTT.
    pub fn of(decision: &Decision, base_rtt: Time) -> Pace {
        let t = base_rtt.as_secs_f64();
        let by_window = decision.window.as_f64() * 8.0 / t;
        let rate = decision.rate.as_bps_f64().min(by_window);
        Pace { rate, window: (rate * t / 8.0).max(1.0) }
    }
}

/// The state of a subflow's loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// It is not.
    None,
    /// Fast recovery: duplicate ACKs told of the loss.
    Fast,
    /// A timeout did, and what was in flight then is not acknowledged yet.
    Timeout,
}

/// The sender half of a connection: one for all its subflows, which it sees together.
///
/// An event changes what its own subflow may do, and whether any may send new data.
pub trait Coupled: fmt::Debug + Send {
    /// Feedback arrived on a subflow.
    fn on_ack(
        &mut self,
        subflow: usize,
        repair: Repair,
        ack: &AckEvent<'_>,
        checks: &mut TelemetryChecks,
    ) -> Decision;
    /// Packets of a subflow were lost.
    fn on_loss(&mut self, subflow: usize, loss: &LossEvent) -> Decision;
    /// A congestion notification packet arrived on a subflow.
    fn on_cnp(&mut self, subflow: usize, _now: Time) -> Decision {
        self.decision(subflow)
    }
    /// The timer of a subflow's decision expired.
    fn on_timer(&mut self, subflow: usize, _now: Time) -> Decision {
        self.decision(subflow)
    }
    /// As [`Sender::resume`], for one subflow after the other.
    fn resume(&mut self, subflow: usize, _now: Time, _from: &Pace) -> Decision {
        self.decision(subflow)
    }
    /// Returns the decision in force for a subflow; before any event, how it starts.
    fn decision(&self, subflow: usize) -> Decision;
    /// Returns whether a subflow may send new data. At least one may.
    fn is_active(&self, _subflow: usize) -> bool {
        true
    }
}

/// A scheme of one path as that of a connection with one subflow.
#[derive(Debug)]
pub(crate) struct Alone(pub Box<dyn Sender>);

impl Coupled for Alone {
    fn on_ack(
        &mut self,
        _subflow: usize,
        _repair: Repair,
        ack: &AckEvent<'_>,
        checks: &mut TelemetryChecks,
    ) -> Decision {
        self.0.on_ack(ack, checks)
    }
    fn on_loss(&mut self, _subflow: usize, loss: &LossEvent) -> Decision {
        self.0.on_loss(loss)
    }
    fn on_cnp(&mut self, _subflow: usize, now: Time) -> Decision {
        self.0.on_cnp(now)
    }
    fn on_timer(&mut self, _subflow: usize, now: Time) -> Decision {
        self.0.on_timer(now)
    }
    fn resume(&mut self, _subflow: usize, now: Time, from: &Pace) -> Decision {
        self.0.resume(now, from)
    }
    fn decision(&self, _subflow: usize) -> Decision {
        self.0.decision()
    }
}

/// A DATA packet as the receiver half sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataEvent<'a> {
    /// The time it arrived.
    pub now: Time,
    /// The sender's address.
    pub source: Ipv4Addr,
    /// Payload bytes.
    pub payload: Bytes,
    /// Bytes of its frame.
    pub frame: Bytes,
    /// True if it was marked.
    pub marked: bool,
    /// A small number that is this flow's as long as the host knows it, so that state per flow may
    /// lie in an array; `None` if the flow has ended before.
    pub slot: Option<u32>,
    /// True if this is the flow's first packet here: earlier content of the slot belongs to another flow.
    pub first: bool,
    /// True if the packet completes its message.
    pub last: bool,
    /// Flows active at this receiver, the packet's own included: at least 1.
    pub active_flows: u16,
    /// The low 16 bits of the addresses of those that it announces (Dart's look-ahead); in order and
    /// for the first time.
    pub announced: &'a [[u8; 2]],
    /// The number of the credit that it was sent for, where there are credits.
    pub credit: u32,
    /// XOR of the switch ids on its path.
    pub path_id: u16,
    /// What the switches reported in it, first hop after the sender first.
    pub telemetry: &'a Telemetry<'a>,
}

/// The fields that the receiver half adds to an ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// The ACK's concurrency field.
    pub concurrency: u16,
    /// The ACK's grant field; used if [`Needs::grant`].
    pub grant: u32,
    /// Acknowledge at once, even if fewer than `ack_every` packets came.
    pub ack_now: bool,
    /// Send a congestion notification packet, ahead of the ACK.
    pub cnp: bool,
    /// Do not tell the sender of the mark.
    pub hide_mark: bool,
}

/// A credit that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Its number; `None` if it is lost at the host already.
    pub number: Option<u32>,
    /// Time at which the flow's next credit is due.
    pub next: Time,
}

/// The receiver half: one per host.
pub trait Receiver: fmt::Debug + Send {
    /// A DATA packet arrived. Telemetry that cannot be is left out and counted in `checks`.
    fn on_data(&mut self, data: &DataEvent<'_>, checks: &mut TelemetryChecks) -> Feedback;
    /// The flow in this slot has had credits up to this number from the scheme before: numbers go on.
    fn resume_credits(&mut self, _slot: u32, _last: u32) {}
    /// The flow in this slot is due for a credit; it `begins` with its request. `None`: there are no credits.
    fn credit(&mut self, _now: Time, _slot: u32, _begins: bool) -> Option<Credit> {
        None
    }
}

/// The receiver half of schemes that add nothing to what the transport echoes.
#[derive(Debug)]
pub struct PlainReceiver;

impl Receiver for PlainReceiver {
    fn on_data(&mut self, _data: &DataEvent<'_>, _checks: &mut TelemetryChecks) -> Feedback {
        Feedback::default()
    }
}
