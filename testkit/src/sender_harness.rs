//! Drives a single sender half with ACKs and timers.

use weir_host::custom_record::RecordFields;
use weir_host::scheme::{AckEvent, Decision, FlowParams, SchemeConfig, Sender};
use weir_host::telemetry::{GatheredBy, Hop, Telemetry, TelemetryCounters};
use weir_host::wire::RecordFormat;
use weir_units::{Bandwidth, Bytes, Time};

/// A sender half, and the contents of the ACKs that it receives.
pub struct SenderHarness {
    pub sender: Box<dyn Sender>,
    /// Counters of the telemetry that the sender found implausible.
    pub checks: TelemetryCounters,
    pub now: Time,
    pub concurrency: u16,
    /// Path id of the path that the telemetry describes.
    pub path_id: u16,
    /// Path id of DATA; `None` if equal to `path_id`.
    pub data_path: Option<u16>,
    pub ecn_echo: bool,
    pub rtt: Option<Time>,
    pub endpoint_delay: Option<Time>,
    pub format: RecordFormat,
    /// The packet that gathered the telemetry. `Ack`, the default, needs no correction for frames that grow.
    pub gathered_by: GatheredBy,
    seq: u64,
    snd_nxt: u64,
}

pub fn params(nic_rate: Bandwidth, base_rtt: Time) -> FlowParams {
    let (tick, record) = (Time::from_ns(1), RecordFields::default());
    FlowParams { nic_rate, base_rtt, payload: Bytes::new(1000), tick, record, subflows: None }
}

/// Returns a hop of a port at `gbps` Gbit/s.
pub fn hop(gbps: u64, timestamp: u32, tx_bytes: u32, queue: u32) -> Hop {
    Hop { rate: Bandwidth::from_gbps(gbps), timestamp, tx_bytes, queue, link: 0, queue_share: None }
}

impl SenderHarness {
    pub fn new(scheme: &dyn SchemeConfig, params: &FlowParams) -> SenderHarness {
        SenderHarness {
            sender: scheme.sender(params),
            checks: TelemetryCounters::default(),
            now: Time::from_ms(1),
            concurrency: 1,
            path_id: 0,
            data_path: None,
            ecn_echo: false,
            rtt: Some(Time::from_us(10)),
            endpoint_delay: None,
            format: RecordFormat::BASE,
            gathered_by: GatheredBy::Ack,
            seq: 0,
            snd_nxt: 100_000,
        }
    }

    /// Delivers an ACK that starts a new round trip (its `seq` lies beyond the previous `snd_nxt`) and returns the
    /// decision.
    pub fn ack_next_round(&mut self, hops: &[Hop]) -> Decision {
        self.seq = self.snd_nxt + 1000;
        self.snd_nxt = self.seq + 100_000;
        self.ack(hops)
    }

    /// Runs the sender half's timers up to `until` and returns the decision in force.
    pub fn run_timers_until(&mut self, until: Time) -> Decision {
        while let Some(at) = self.sender.decision().timer.filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.sender.on_timer(self.now);
        }
        self.now = self.now.max(until);
        self.sender.decision()
    }

    /// Delivers another ACK of the same round trip and returns the decision.
    ///
    /// # Panics
    ///
    /// The sender returns another decision than the one in force.
    pub fn ack(&mut self, hops: &[Hop]) -> Decision {
        self.now += Time::from_us(1);
        let decision = self.sender.on_ack(
            &AckEvent {
                now: self.now,
                seq: self.seq,
                acked: Bytes::new(1000),
                snd_nxt: self.snd_nxt,
                rtt: self.rtt,
                hops: u8::try_from(hops.len()).ok().filter(|&hops| hops > 0),
                ecn_echo: self.ecn_echo,
                concurrency: self.concurrency,
                grant: 0,
                endpoint_delay: self.endpoint_delay,
                path_id: self.path_id,
                data_path: self.data_path.unwrap_or(self.path_id),
                telemetry: &Telemetry::new(hops, self.format).with_gathered_by(self.gathered_by),
            },
            &mut self.checks,
        );
        assert_eq!(decision, self.sender.decision());
        decision
    }
}
