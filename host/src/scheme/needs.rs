//! The needs of a scheme: its demands on switches, links and the transport.

use crate::capabilities::{Capabilities, Capability};
use crate::parameter::ParameterValue;
use crate::suggest::did_you_mean;
use crate::wire::RecordFormat;
use std::fmt;
use std::str::FromStr;
use weir_units::{Bandwidth, Bytes, ParseUnitError, Ratio, Time};

/// The kinds of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossRecovery {
    /// The receiver asks for what is missing, the sender goes back there (RoCE): for fabrics that lose next
    /// to nothing.
    GoBackN,
    /// As TCP does: the receiver keeps what came behind a gap, the sender fills the gap. Messages may have
    /// several subflows.
    Selective,
}

impl fmt::Display for LossRecovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            LossRecovery::GoBackN => "go-back-n",
            LossRecovery::Selective => "selective",
        })
    }
}

/// The transport that a scheme wants for its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportNeeds {
    /// The kind of loss recovery.
    pub recovery: LossRecovery,
    /// Subflows of a message, 1 to [`MAX_SUBFLOWS`]; above 1 only with [`LossRecovery::Selective`].
    pub subflows: u8,
    /// True if flows start with a small window that doubles per round trip, and not at line rate.
    pub slow_start: bool,
}

impl Default for TransportNeeds {
    /// Returns the transport of RDMA: go-back-N, one path, line rate from the start.
    fn default() -> Self {
        TransportNeeds { recovery: LossRecovery::GoBackN, subflows: 1, slow_start: false }
    }
}

/// Subflows of a message, at most: the header's index has 4 bits.
pub const MAX_SUBFLOWS: u8 = 16;

/// The packets that gather telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelemetrySource {
    /// None.
    None,
    /// DATA packets, whose records the receiver copies to the ACK (HPCC).
    Data,
    /// DATA, one packet per round trip: the next one asks when the last one is acknowledged.
    DataOncePerRtt,
    /// DATA, one packet per round trip as with [`DataOncePerRtt`](Self::DataOncePerRtt), and all others from congested
    /// ports only ([`PortAlgorithm::Congestion`](crate::law::PortLaw::Congestion)).
    DataOnCongestion,
    /// PROBE packets, one per round trip, whose records come back on PROBE_REPLY. DATA stays as it is.
    Probes,
    /// ACKs, on the return path (FNCC).
    Acks,
    /// DATA asks, and a switch answers by itself, with a RATE packet (RoCC). There are no records.
    RateNotifications,
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
    /// RoCC's fair rates, see [`PortAlgorithm`](crate::law::PortLaw).
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

    /// Returns the program's file, without ending.
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
    pub const fn abilities(self) -> Capabilities {
        use Capability::{
            AckRecords, CongestionRecords, Credits, DataRecords, Deflection, LinkRecords, Marks,
            QueueRecords, RcpRates, RoccRates,
        };
        match self {
            SwitchProgram::Ecn => Capabilities::of(&[Marks]),
            SwitchProgram::Hpcc => Capabilities::of(&[Marks, DataRecords]),
            SwitchProgram::HpccPlus => {
                Capabilities::of(&[Marks, DataRecords, LinkRecords, QueueRecords, CongestionRecords])
            }
            SwitchProgram::Fncc => Capabilities::of(&[Marks, AckRecords]),
            SwitchProgram::Rocc => Capabilities::of(&[Marks, RoccRates]),
            SwitchProgram::Rcp => Capabilities::of(&[Marks, RcpRates]),
            SwitchProgram::Dart => Capabilities::of(&[Marks, Deflection]),
            SwitchProgram::Xpass => Capabilities::of(&[Marks, Credits]),
            SwitchProgram::Weir => Capabilities::of(&[Marks, DataRecords, AckRecords, Deflection]),
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
            let names = SwitchProgram::ALL.map(SwitchProgram::name);
            format!(
                "there is no program \"{text}\", there are {}{}",
                names.join(", "),
                did_you_mean(text, names)
            )
        })
    }
}

/// The requirements of a scheme on the network and on the transport. Start from [`Needs::of`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Needs {
    /// The P4 program of the switches.
    pub program: SwitchProgram,
    /// The packets that gather telemetry.
    pub telemetry: TelemetrySource,
    /// The content of a telemetry record.
    pub records: RecordFormat,
    /// The fields that the scheme reads in the records, if they are a program's own
    /// ([`custom_record_fields`](crate::own_record)): at most [`MAX_FIELDS`](crate::own_record::MAX_FIELDS). `Open`: the records
    /// are Weir's.
    pub custom_record_fields: Option<&'static [&'static str]>,
    /// Thresholds at which switches mark DATA, which is sent ECN-capable then, unless the experiment sets
    /// others; `Open` if the scheme does not look at marks.
    pub ecn: Option<EcnThresholds>,
    /// True if the scheme's receiver half writes the ACK's grant field. Otherwise the transport echoes the path id of
    /// the DATA packet there.
    pub grant: bool,
    /// The messages that switches may deflect, and when; `Open` if the scheme works with switches that deflect nothing.
    pub deflection: Option<Deflection>,
    /// The longest message that is sent before longer ones and has a priority class of its own; `Open` if all
    /// messages are treated alike.
    pub express_max_size: Option<Bytes>,
    /// The transport of its messages, where the experiment does not name another.
    pub transport: TransportNeeds,
}

impl Needs {
    /// Returns the needs of a scheme that wants this program in the switches, no telemetry, no marks and RDMA's
    /// transport.
    pub fn of(program: SwitchProgram) -> Needs {
        Needs {
            program,
            telemetry: TelemetrySource::None,
            records: RecordFormat::BASE,
            custom_record_fields: None,
            ecn: None,
            grant: false,
            deflection: None,
            express_max_size: None,
            transport: TransportNeeds::default(),
        }
    }

    /// Returns what the switches' program has to offer for them.
    pub fn abilities(&self) -> Capabilities {
        let gathered = match self.telemetry {
            TelemetrySource::None => None,
            TelemetrySource::Data
            | TelemetrySource::DataOncePerRtt
            | TelemetrySource::DataOnCongestion
            | TelemetrySource::Probes => Some(Capability::DataRecords),
            TelemetrySource::Acks => Some(Capability::AckRecords),
            TelemetrySource::RateNotifications => Some(Capability::RoccRates),
        };
        let computed = match self.program {
            SwitchProgram::Rocc => Some(Capability::RoccRates),
            SwitchProgram::Rcp => Some(Capability::RcpRates),
            SwitchProgram::Xpass => Some(Capability::Credits),
            _ => None,
        };
        let links = self.records.contains(RecordFormat::LINK).then_some(Capability::LinkRecords);
        let queues = self.records.contains(RecordFormat::QUEUE).then_some(Capability::QueueRecords);
        let congestion =
            (self.telemetry == TelemetrySource::DataOnCongestion).then_some(Capability::CongestionRecords);
        let marks = self.ecn.map(|_| Capability::Marks);
        let deflection = self.deflection.map(|_| Capability::Deflection);
        [gathered, computed, links, queues, congestion, marks, deflection].into_iter().flatten().collect()
    }
}

/// ECN thresholds of a port of rate `reference_rate`, in proportion for other rates: never a mark up to `kmin`
/// bytes of queue, always beyond `kmax`, between them with a probability that rises to `pmax`. `kmin` =
/// `kmax` is a step. Written `30KB/10Gbps` or `100KB-400KB:0.2/25Gbps`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EcnThresholds {
    /// Never mark up to here.
    pub kmin: Bytes,
    /// Always mark beyond this.
    pub kmax: Bytes,
    /// Probability just below `kmax`.
    pub pmax: Ratio,
    /// The rate the thresholds are for.
    pub reference_rate: Bandwidth,
}

impl EcnThresholds {
    /// Returns the marking that begins at a queue of `k` on a port of rate `reference_rate`, with every packet.
    pub const fn step(k: Bytes, reference_rate: Bandwidth) -> EcnThresholds {
        EcnThresholds { kmin: k, kmax: k, pmax: Ratio::ONE, reference_rate }
    }
}

/// The values that [`EcnThresholds`] accepts, for the help of parameters.
pub const MARKING_RANGE: &str = "K/rate for a step, or Kmin-Kmax:Pmax/rate";

impl ParameterValue for EcnThresholds {
    fn parse(text: &str) -> Result<Self, String> {
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
        Ok(EcnThresholds { kmin, kmax, pmax, reference_rate: per })
    }
    fn to_text(self) -> String {
        let EcnThresholds { kmin, kmax, pmax, reference_rate: per } = self;
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
    pub threshold: QueueThreshold,
    /// Ports to hosts are deflected from too: the message goes back into the network.
    pub at_hosts: bool,
    /// Idle time after which a switch may reclaim the entry of a message; `Open`: never.
    pub lifetime: Option<Time>,
}

impl Deflection {
    /// Tokens of a message's packets. One without a size is long.
    pub fn tokens_of(&self, size: Option<Bytes>) -> u8 {
        if size.is_some_and(|size| size <= self.short) { self.tokens } else { 0 }
    }
}

/// A queue of a port of rate `reference_rate`, in proportion for other rates. Written `15KB/10Gbps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueThreshold {
    /// Bytes that wait.
    pub queue: Bytes,
    /// The rate the limit is for.
    pub per: Bandwidth,
}

impl ParameterValue for QueueThreshold {
    fn parse(text: &str) -> Result<Self, String> {
        let say = |e: ParseUnitError| e.to_string();
        let (queue, per) = text.split_once('/').ok_or_else(|| format!("\"{text}\" has no /rate"))?;
        let limit = QueueThreshold { queue: queue.parse().map_err(say)?, per: per.parse().map_err(say)? };
        if limit.per == Bandwidth::ZERO { Err("its rate is above 0".to_owned()) } else { Ok(limit) }
    }
    fn to_text(self) -> String {
        format!("{}/{}", self.queue, self.per)
    }
}
