//! What a scheme requires of switches, links and the transport.

use crate::capabilities::{Capabilities, Capability};
use crate::parameter::ParameterValue;
use crate::suggest::did_you_mean;
use crate::wire::{Ecn, RecordFormat};
use std::fmt;
use std::str::FromStr;
use weir_units::{Bandwidth, Bytes, ParseUnitError, Ratio, Time};

/// The kinds of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossRecovery {
    /// The receiver discards packets behind a gap and sends a NACK; the sender goes back to the gap (RoCE). For
    /// fabrics that lose almost no packets.
    GoBackN,
    /// The receiver keeps packets behind a gap, and the sender retransmits only the missing ones, as in TCP. Messages
    /// may have several subflows.
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

/// The transport that a scheme requires for its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportNeeds {
    /// The kind of loss recovery.
    pub recovery: LossRecovery,
    /// Subflows per message, 1 to [`MAX_SUBFLOWS`]; more than 1 only with [`LossRecovery::Selective`].
    pub subflows: u8,
    /// True if flows start with a small window that doubles every round trip, false if they start at line rate.
    pub uses_slow_start: bool,
}

impl Default for TransportNeeds {
    /// Returns the transport of RDMA: go-back-N, one path, line rate from the start.
    fn default() -> Self {
        TransportNeeds { recovery: LossRecovery::GoBackN, subflows: 1, uses_slow_start: false }
    }
}

/// Upper bound of the subflows of a message: the header's index has 4 bits.
pub const MAX_SUBFLOWS: u8 = 16;

/// The packets on which switches write telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelemetrySource {
    /// No packets.
    None,
    /// DATA packets, whose records the receiver copies to the ACK (HPCC).
    Data,
    /// One DATA packet per round trip: the next request is sent when the last one is acknowledged.
    DataOncePerRtt,
    /// One DATA packet per round trip, as with [`DataOncePerRtt`](Self::DataOncePerRtt); all other DATA packets
    /// gather records of congested ports only
    /// ([`PortAlgorithm::Congestion`](crate::port_algorithm::PortAlgorithm::Congestion)).
    DataOnCongestion,
    /// PROBE packets, one per round trip, whose records return in PROBE_REPLY. DATA carries no telemetry.
    Probes,
    /// ACKs, on the return path (FNCC).
    Acks,
    /// No packets. DATA carries the telemetry flag nevertheless: a switch may answer it with a RATE packet (RoCC).
    RateNotifications,
}

/// The P4 program that the switches run, named as in `p4src`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchProgram {
    /// ECN marks.
    Ecn,
    /// Telemetry on DATA and probes.
    Hpcc,
    /// Telemetry on DATA and probes, with switch and port ids and, on request, sojourn time in place of queue length.
    HpccPlus,
    /// Telemetry on ACKs.
    Fncc,
    /// RoCC's fair rates, see [`PortAlgorithm`](crate::port_algorithm::PortAlgorithm).
    Rocc,
    /// RCP's fair rates.
    Rcp,
    /// ECN marks, and deflection of short messages.
    Dart,
    /// ExpressPass: credits are rate-limited.
    Xpass,
    /// The functions of `Ecn`, `Hpcc`, `Fncc` and `Dart`, as each packet requests.
    Weir,
}

impl SwitchProgram {
    /// All programs, in the order in which messages list them.
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

    /// Returns the name of the program's file in `p4src`, without extension.
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

    /// Returns the capabilities that the program declares in its P4Info.
    pub const fn capabilities(self) -> Capabilities {
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
        let program = SwitchProgram::ALL.into_iter().find(|program| program.name() == text);
        program.ok_or_else(|| {
            let names = SwitchProgram::ALL.map(SwitchProgram::name);
            format!(
                "unknown switch program \"{text}\"; known programs: {}{}",
                names.join(", "),
                did_you_mean(text, names)
            )
        })
    }
}

/// What a scheme requires of the switches and of the transport. Start from [`Needs::of`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Needs {
    /// The P4 program of the switches.
    pub program: SwitchProgram,
    /// The packets that gather telemetry.
    pub telemetry: TelemetrySource,
    /// The format of telemetry records.
    pub records: RecordFormat,
    /// Names of the fields that the scheme reads in records of a custom format
    /// ([`custom_record`](crate::custom_record)): at most [`MAX_FIELDS`](crate::custom_record::MAX_FIELDS). `None` if
    /// the records have one of Weir's formats.
    pub custom_record_fields: Option<&'static [&'static str]>,
    /// Thresholds at which switches mark DATA, unless the experiment sets others; DATA is then sent as ECN-capable.
    /// `None` if the scheme uses no marks.
    pub ecn: Option<EcnThresholds>,
    /// True if the receiver half writes the grant field of ACKs. Otherwise the transport echoes the path id of the
    /// DATA packet in that field.
    pub writes_grant: bool,
    /// True if ACKs carry in the grant field how long the acknowledged packet waited at the receiver, for
    /// [`AckEvent::endpoint_delay`](super::AckEvent::endpoint_delay). Excludes `writes_grant`.
    pub reports_endpoint_delay: bool,
    /// Which messages switches may deflect, and when; `None` if the scheme uses no deflection.
    pub deflection: Option<Deflection>,
    /// True if [`Sender::peer_rate`](super::Sender::peer_rate) limits all messages of a host to one receiver together.
    pub limits_peers: bool,
    /// Wait for the NIC from which on DATA leaves with an ECN mark, as it would behind a queue of that length in a switch.
    /// `None`: hosts do not mark.
    pub source_marking: Option<Time>,
    /// Size up to which messages are sent before longer ones and get a priority class of their own; `None` if all
    /// messages are treated alike.
    pub express_max_size: Option<Bytes>,
    /// The transport of the scheme's messages, unless the experiment sets another.
    pub transport: TransportNeeds,
}

impl Needs {
    /// Returns the needs of a scheme that requires this switch program and go-back-N, without telemetry or marks.
    pub fn of(program: SwitchProgram) -> Needs {
        Needs {
            program,
            telemetry: TelemetrySource::None,
            records: RecordFormat::BASE,
            custom_record_fields: None,
            ecn: None,
            writes_grant: false,
            reports_endpoint_delay: false,
            deflection: None,
            limits_peers: false,
            source_marking: None,
            express_max_size: None,
            transport: TransportNeeds::default(),
        }
    }

    /// Returns the ECN field of DATA packets.
    pub(crate) fn data_ecn(&self) -> Ecn {
        if self.ecn.is_some() { Ecn::Ect0 } else { Ecn::NotEct }
    }

    /// Returns whether the grant field of ACKs has the path id of the acknowledged DATA.
    pub fn echoes_path_id(&self) -> bool {
        !self.writes_grant && !self.reports_endpoint_delay
    }

    /// Returns the capabilities that the switch program must have.
    pub fn capabilities(&self) -> Capabilities {
        let telemetry = match self.telemetry {
            TelemetrySource::None => None,
            TelemetrySource::Data
            | TelemetrySource::DataOncePerRtt
            | TelemetrySource::DataOnCongestion
            | TelemetrySource::Probes => Some(Capability::DataRecords),
            TelemetrySource::Acks => Some(Capability::AckRecords),
            TelemetrySource::RateNotifications => Some(Capability::RoccRates),
        };
        let port_algorithm = match self.program {
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
        [telemetry, port_algorithm, links, queues, congestion, marks, deflection]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// ECN thresholds of a port of rate `reference_rate`, scaled in proportion for other rates. Up to `kmin` bytes of
/// queue no packet is marked, beyond `kmax` every packet, and in between the probability rises linearly to `pmax`.
/// `kmin` = `kmax` is a step. Written `30KB/10Gbps` or `100KB-400KB:0.2/25Gbps`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EcnThresholds {
    /// Queue length up to which no packet is marked.
    pub kmin: Bytes,
    /// Queue length beyond which every packet is marked.
    pub kmax: Bytes,
    /// Marking probability just below `kmax`, 0 to 1.
    pub pmax: Ratio,
    /// The port rate to which the thresholds apply.
    pub reference_rate: Bandwidth,
}

impl EcnThresholds {
    /// Returns thresholds that mark every packet beyond a queue of `k` bytes on a port of rate `reference_rate`.
    pub const fn step(k: Bytes, reference_rate: Bandwidth) -> EcnThresholds {
        EcnThresholds { kmin: k, kmax: k, pmax: Ratio::ONE, reference_rate }
    }
}

/// Description of the values that [`EcnThresholds`] accepts, for the help text of parameters.
pub const MARKING_RANGE: &str = "K/rate for a step, or Kmin-Kmax:Pmax/rate";

impl ParameterValue for EcnThresholds {
    fn parse(text: &str) -> Result<Self, String> {
        let error_text = |e: ParseUnitError| e.to_string();
        let (thresholds, rate) = text.split_once('/').ok_or_else(|| format!("\"{text}\" has no /rate"))?;
        let reference_rate: Bandwidth = rate.parse().map_err(error_text)?;
        let (kmin, kmax, pmax) = match thresholds.split_once(':') {
            None => (thresholds, thresholds, "1"),
            Some((ramp, pmax)) => match ramp.split_once('-') {
                Some((kmin, kmax)) => (kmin, kmax, pmax),
                None => return Err(format!("invalid range \"{ramp}\", expected Kmin-Kmax")),
            },
        };
        let kmin: Bytes = kmin.parse().map_err(error_text)?;
        let kmax: Bytes = kmax.parse().map_err(error_text)?;
        let pmax: Ratio = pmax.parse()?;
        if reference_rate == Bandwidth::ZERO || kmax == Bytes::ZERO || kmin > kmax || pmax.get() > 1.0 {
            return Err(format!(
                "\"{text}\": rate and Kmax must be positive, Kmin at most Kmax, Pmax at most 1"
            ));
        }
        Ok(EcnThresholds { kmin, kmax, pmax, reference_rate })
    }
    fn to_text(self) -> String {
        let EcnThresholds { kmin, kmax, pmax, reference_rate } = self;
        if kmin == kmax {
            format!("{kmin}/{reference_rate}")
        } else {
            format!("{kmin}-{kmax}:{pmax}/{reference_rate}")
        }
    }
}

/// What a scheme requires of switches that deflect messages (Dart section IV).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deflection {
    /// Number of deflection tokens of each packet of a short message. A switch takes one token for each deflection;
    /// other packets have none and are never deflected.
    pub tokens: u8,
    /// Size up to which a message is short.
    pub max_short_size: Bytes,
    /// Queue length beyond which a port counts as congested.
    pub threshold: QueueThreshold,
    /// True if packets are deflected from ports to hosts too; the message then goes back into the network.
    pub at_hosts: bool,
    /// Idle time after which a switch may reclaim the entry of a message; `None`: never.
    pub lifetime: Option<Time>,
}

impl Deflection {
    /// Returns the number of tokens of the packets of a message. A message of unknown size is not short.
    pub fn tokens_of(&self, size: Option<Bytes>) -> u8 {
        if size.is_some_and(|size| size <= self.max_short_size) { self.tokens } else { 0 }
    }
}

/// A queue length at a port of rate `reference_rate`, scaled in proportion for other rates. Written `15KB/10Gbps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueThreshold {
    /// Queue length in bytes.
    pub queue: Bytes,
    /// The port rate to which the queue length applies.
    pub reference_rate: Bandwidth,
}

impl ParameterValue for QueueThreshold {
    fn parse(text: &str) -> Result<Self, String> {
        let error_text = |e: ParseUnitError| e.to_string();
        let (queue, rate) = text.split_once('/').ok_or_else(|| format!("\"{text}\" has no /rate"))?;
        let queue = queue.parse().map_err(error_text)?;
        let reference_rate = rate.parse().map_err(error_text)?;
        if reference_rate == Bandwidth::ZERO {
            return Err("rate must be greater than zero".to_owned());
        }
        Ok(QueueThreshold { queue, reference_rate })
    }
    fn to_text(self) -> String {
        format!("{}/{}", self.queue, self.reference_rate)
    }
}
