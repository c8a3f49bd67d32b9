//! HPCC++ (draft-miao-iccrg-hpcc): HPCC's algorithm with less telemetry, optionally computed by the receiver.
//!
//! Telemetry is gathered by every packet, by one packet per round trip (and, if ports are congested, by all), or by
//! probes. The window is computed by the sender, or by the receiver once per `T` (Rx-HPCC, draft §6.2), which then
//! sends only the window.

use super::hpcc::{HpccConfig, HpccController, ReferenceUpdate, ReferenceWindows};
use crate::parameter::EnumParameter;
use crate::parameters;
use crate::port_algorithm::{CongestionThreshold, PortAlgorithm};
use crate::scheme::{
    AckEvent, AckFields, DataEvent, Decision, FlowParams, GaugeReporter, Needs, QueueThreshold, Receiver,
    Scheme, Sender, SendingRate, SwitchProgram, TelemetrySource,
};
use crate::telemetry::TelemetryCounters;
use crate::wire::RecordFormat;
use weir_units::{Bandwidth, Bytes, Time};

parameters! {
    /// HPCC++'s parameters.
    pub(super) struct HpccPlus {
        shared: HpccConfig = HpccConfig::hpcc_plus() => {
            part, max_stage from "HPCC++ draft Figure 3", w_ai from "HPCC++ draft §5, §6.2"
        };
        /// Packets that gather telemetry.
        telemetry: TelemetryMode = TelemetryMode::Packet => {
            range: "packet, rtt (one packet per round trip), congestion (rtt, and all packets from congested ports) or probe (probes, one per round trip)",
            source: "HPCC++ draft §6, §6.1",
        };
        /// End of the flow that computes the window.
        computed_at: WindowComputedAt = WindowComputedAt::Sender => {
            name: "compute",
            range: "sender or receiver (Rx-HPCC: DATA has telemetry, regardless of the parameter telemetry)",
            source: "HPCC++ draft §6.2",
        };
        /// Measure of a queue that switches report.
        queue: QueueMetric = QueueMetric::Length => {
            symbol: "qlen", range: "length (qLen/(B*T)), sojourn (time in the queue / T) or weighted (sojourn, and bytes sent against the queue's share of the port)",
            source: "HPCC++ draft §9.4: where a port has several queues, the length of one is not the delay",
        };
        /// Queue length from which a port counts as congested, if telemetry is congestion.
        congested_above: QueueThreshold = DEFAULT_CONGESTED_ABOVE => {
            unit: "B", range: "size/rate", source: "Weir's choice: the draft gives none; a tenth of the bandwidth-delay product of 12 us",
        };
    }
}

const DEFAULT_CONGESTED_ABOVE: QueueThreshold =
    QueueThreshold { queue: Bytes::from_kb(15), reference_rate: Bandwidth::from_gbps(100) };

/// The packets that gather telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TelemetryMode {
    /// Every DATA packet.
    Packet,
    /// One DATA packet per round trip.
    Rtt,
    /// One DATA packet per round trip, and all DATA packets at congested ports.
    Congestion,
    /// Probes, one per round trip.
    Probe,
}

impl EnumParameter for TelemetryMode {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("packet", TelemetryMode::Packet),
        ("rtt", TelemetryMode::Rtt),
        ("congestion", TelemetryMode::Congestion),
        ("probe", TelemetryMode::Probe),
    ];
}

/// The end that computes the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowComputedAt {
    Sender,
    Receiver,
}

impl EnumParameter for WindowComputedAt {
    const NAMES: &'static [(&'static str, Self)] =
        &[("sender", WindowComputedAt::Sender), ("receiver", WindowComputedAt::Receiver)];
}

/// The measure of a queue in telemetry records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueMetric {
    /// Length of the queue.
    Length,
    /// Time that the packet spent in the queue.
    Sojourn,
    /// Sojourn time, and the bytes sent from the packet's own queue against its share of the port.
    Weighted,
}

impl EnumParameter for QueueMetric {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("length", QueueMetric::Length),
        ("sojourn", QueueMetric::Sojourn),
        ("weighted", QueueMetric::Weighted),
    ];
}

impl Scheme for HpccPlus {
    const NAME: &'static str = "hpcc++";
    const ABOUT: &'static str =
        "HPCC++: HPCC with telemetry per packet, per round trip or on probes, or at the receiver";
    fn needs(&self) -> Needs {
        let telemetry = match (self.computed_at, self.telemetry) {
            (WindowComputedAt::Sender, TelemetryMode::Rtt) => TelemetrySource::DataOncePerRtt,
            (WindowComputedAt::Sender, TelemetryMode::Congestion) => TelemetrySource::DataOnCongestion,
            (WindowComputedAt::Sender, TelemetryMode::Probe) => TelemetrySource::Probes,
            (WindowComputedAt::Receiver, _) | (_, TelemetryMode::Packet) => TelemetrySource::Data,
        };
        let records = match self.queue {
            QueueMetric::Length => RecordFormat::LINK,
            QueueMetric::Sojourn => RecordFormat::LINK.union(RecordFormat::SOJOURN),
            QueueMetric::Weighted => {
                RecordFormat::LINK.union(RecordFormat::SOJOURN).union(RecordFormat::QUEUE)
            }
        };
        Needs {
            telemetry,
            records,
            writes_grant: self.computed_at == WindowComputedAt::Receiver,
            ..Needs::of(SwitchProgram::HpccPlus)
        }
    }
    fn port_algorithm(&self, _base_rtt: Time) -> Option<PortAlgorithm> {
        let congestion = self.needs().telemetry == TelemetrySource::DataOnCongestion;
        let QueueThreshold { queue, reference_rate } = self.congested_above;
        congestion.then_some(PortAlgorithm::Congestion(CongestionThreshold { queue, reference_rate }))
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let mut core = HpccController::new(&self.shared, flow, ReferenceWindows::Single);
        if self.needs().telemetry == TelemetrySource::Data {
            core = core.with_records_on_data(flow);
        }
        match self.computed_at {
            WindowComputedAt::Sender => Box::new(SenderComputed(core)),
            WindowComputedAt::Receiver => Box::new(ReceiverComputed(core)),
        }
    }
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver> {
        match self.computed_at {
            WindowComputedAt::Sender => Box::new(FlowCountReceiver),
            WindowComputedAt::Receiver => {
                Box::new(RxHpcc { shared: self.shared.clone(), host: *host, flows: Vec::new() })
            }
        }
    }
}

/// The sender of HPCC++ with the computation at the sender. N for the additive increase comes from the ACK.
#[derive(Debug)]
struct SenderComputed(HpccController);

impl Sender for SenderComputed {
    fn on_ack(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryCounters) -> Decision {
        self.0.on_ack(ack, checks, |_| ReferenceUpdate::Keep)
    }
    fn resume(&mut self, _now: Time, from: &SendingRate) -> Decision {
        self.0.resume(from)
    }
    fn decision(&self) -> Decision {
        self.0.decision()
    }
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        self.0.gauges(report);
    }
}

/// The sender of Rx-HPCC: takes the window from the ACK's grant field, clamped to `w_min..=w_init`; 0 means that the
/// receiver has not computed one yet.
#[derive(Debug)]
struct ReceiverComputed(HpccController);

impl Sender for ReceiverComputed {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        match ack.grant {
            0 => self.decision(),
            window => self.0.set_window(Bytes::new(u64::from(window))),
        }
    }
    fn resume(&mut self, _now: Time, from: &SendingRate) -> Decision {
        self.0.resume(from)
    }
    fn decision(&self) -> Decision {
        self.0.decision()
    }
}

/// Reports the number of active flows in ACKs, for the sender's additive increase.
#[derive(Debug)]
struct FlowCountReceiver;

impl Receiver for FlowCountReceiver {
    fn on_data(&mut self, data: &DataEvent<'_>, _checks: &mut TelemetryCounters) -> AckFields {
        AckFields { concurrency: data.active_flows, ..AckFields::default() }
    }
    fn wants_telemetry(&self) -> bool {
        false
    }
}

/// The receiver of Rx-HPCC (draft §6.2): runs the algorithm for each flow and commits once per `T`.
#[derive(Debug)]
struct RxHpcc {
    shared: HpccConfig,
    host: FlowParams,
    /// Indexed by [`DataEvent::slot`].
    flows: Vec<Option<RxFlow>>,
}

/// The state of one flow at the receiver.
#[derive(Debug)]
struct RxFlow {
    core: HpccController,
    /// Number of committed rounds of `T`.
    rounds: u64,
    /// Time of the last commit; `None` before the first, which is due at once.
    committed_at: Option<Time>,
    /// The window last sent to the sender; 0 before the first.
    window: Bytes,
}

impl Receiver for RxHpcc {
    fn on_data(&mut self, data: &DataEvent<'_>, checks: &mut TelemetryCounters) -> AckFields {
        let Some(slot) = data.slot.map(|slot| slot as usize) else { return AckFields::default() };
        if self.flows.len() <= slot {
            self.flows.resize_with(slot + 1, || None);
        }
        let entry = &mut self.flows[slot];
        if data.is_first {
            *entry = None;
        }
        let flow = entry.get_or_insert_with(|| RxFlow {
            core: HpccController::new(&self.shared, &self.host, ReferenceWindows::Single)
                .with_records_on_data(&self.host),
            rounds: 0,
            committed_at: None,
            window: Bytes::ZERO,
        });
        let t = self.shared.base_rtt(&self.host);
        let is_due = flow.committed_at.is_none_or(|at| data.now.saturating_sub(at) > t);
        if is_due {
            flow.committed_at = Some(data.now);
            flow.rounds += 1;
        }
        // The core commits if `seq` exceeds `snd_nxt` of the last commit. Counting rounds in both fields makes it
        // commit once per T.
        let event = AckEvent {
            now: data.now,
            seq: flow.rounds,
            acked: data.payload,
            snd_nxt: flow.rounds,
            rtt: None,
            hops: None,
            ecn_echo: data.is_marked,
            concurrency: data.active_flows,
            grant: 0,
            endpoint_delay: None,
            path_id: data.path_id,
            data_path: data.path_id,
            telemetry: data.telemetry,
        };
        flow.core.on_ack(&event, checks, |_| ReferenceUpdate::Keep);
        if is_due {
            flow.window = flow.core.window();
        }
        // ACKs that are sent between commits, for other reasons, repeat the last window.
        let grant = u32::try_from(flow.window.get()).unwrap_or(u32::MAX);
        AckFields { concurrency: data.active_flows, grant, ack_now: is_due, ..AckFields::default() }
    }
}
