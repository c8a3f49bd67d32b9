//! What the methods of a scheme receive: a flow, ACKs with their telemetry, losses, rates.

use pyo3::prelude::*;
use weir_host::custom_record::RecordFields;
use weir_host::scheme::{AckEvent, FlowParams, LossEvent, LossKind, RateEvent};
use weir_host::telemetry::Hop as TelemetryHop;
use weir_host::wire::{HEADERS_LEN, MAX_HOPS};
use weir_units::Bandwidth;

/// A flow that starts.
#[pyclass(frozen, module = "weir")]
pub(crate) struct Flow(FlowParams);

impl Flow {
    pub(super) fn new(flow: &FlowParams) -> Flow {
        Flow(*flow)
    }
}

#[pymethods]
impl Flow {
    /// Rate of the host's NIC in bit/s, at which flows start.
    #[getter]
    fn nic_rate(&self) -> f64 {
        self.0.nic_rate.as_bps_f64()
    }
    /// Base round-trip time of the fabric in seconds.
    #[getter]
    fn base_rtt(&self) -> f64 {
        self.0.base_rtt.as_secs_f64()
    }
    /// `base_rtt` in picoseconds.
    #[getter]
    fn base_rtt_ps(&self) -> u64 {
        self.0.base_rtt.as_ps()
    }
    /// Payload bytes of a full packet.
    #[getter]
    fn payload(&self) -> u64 {
        self.0.payload.get()
    }
    /// Length in bytes of a full DATA frame, without telemetry records.
    #[getter]
    fn frame(&self) -> u64 {
        self.0.payload.get() + HEADERS_LEN as u64
    }
    /// Unit of telemetry timestamps in seconds.
    #[getter]
    fn tick(&self) -> f64 {
        self.0.tick.as_secs_f64()
    }
    /// Bytes at the NIC's rate in a base round-trip time.
    #[getter]
    fn bdp(&self) -> u64 {
        self.0.nic_rate.bytes_in(self.0.base_rtt).get()
    }
    /// Returns the whole bytes at `rate` bit/s in a base round-trip time.
    fn bytes_at(&self, rate: f64) -> u64 {
        Bandwidth::from_bps_f64(rate.max(0.0)).bytes_in(self.0.base_rtt).get()
    }
}

/// An ACK.
#[pyclass(frozen, module = "weir")]
pub struct Ack {
    /// Time of arrival in seconds.
    #[pyo3(get)]
    now: f64,
    /// `now` in picoseconds.
    #[pyo3(get)]
    now_ps: u64,
    /// Next byte that the receiver expects.
    #[pyo3(get)]
    seq: u64,
    /// Payload bytes acknowledged for the first time.
    #[pyo3(get)]
    acked: u64,
    /// Next byte that the sender would send.
    #[pyo3(get)]
    snd_nxt: u64,
    /// Time since the acknowledged packet was sent, in seconds; None if it is implausible.
    #[pyo3(get)]
    rtt: Option<f64>,
    /// `rtt` in picoseconds.
    #[pyo3(get)]
    rtt_ps: Option<u64>,
    /// Number of switches on the path; None if unknown.
    #[pyo3(get)]
    hops: Option<u8>,
    /// True if the acknowledged packet had an ECN mark.
    #[pyo3(get)]
    marked: bool,
    /// Number of active flows at the receiver; 0 if it does not report them.
    #[pyo3(get)]
    concurrency: u16,
    /// The grant field of the ACK.
    #[pyo3(get)]
    grant: u32,
    /// The part of `rtt` that passed in the hosts, in seconds; None unless the scheme asks for it.
    #[pyo3(get)]
    endpoint_delay: Option<f64>,
    /// XOR of the switch ids on the path that the telemetry describes.
    #[pyo3(get)]
    path_id: u16,
    /// XOR of the switch ids on the path of the data.
    #[pyo3(get)]
    data_path: u16,
    records: [TelemetryHop; MAX_HOPS],
    record_count: u8,
    /// Fields of custom records, those of the first hop first; empty if the program has Weir's records.
    custom: Vec<Vec<u64>>,
}

impl Ack {
    /// `fields` are the positions of the first `field_count` fields of custom records.
    pub(super) fn new(ack: &AckEvent<'_>, fields: &RecordFields, field_count: usize) -> Ack {
        let mut records = [TelemetryHop::default(); MAX_HOPS];
        let hops = ack.telemetry.hops();
        records[..hops.len()].copy_from_slice(hops);
        let read = |record: &[u8]| (0..field_count).map(|index| fields.get(index).read(record)).collect();
        Ack {
            now: ack.now.as_secs_f64(),
            now_ps: ack.now.as_ps(),
            seq: ack.seq,
            acked: ack.acked.get(),
            snd_nxt: ack.snd_nxt,
            rtt: ack.rtt.map(|rtt| rtt.as_secs_f64()),
            rtt_ps: ack.rtt.map(|rtt| rtt.as_ps()),
            hops: ack.hops,
            marked: ack.ecn_echo,
            concurrency: ack.concurrency,
            grant: ack.grant,
            endpoint_delay: ack.endpoint_delay.map(|delay| delay.as_secs_f64()),
            path_id: ack.path_id,
            data_path: ack.data_path,
            records,
            record_count: hops.len() as u8,
            custom: if field_count == 0 { Vec::new() } else { ack.telemetry.records().map(read).collect() },
        }
    }
}

#[pymethods]
impl Ack {
    /// Telemetry of the path, first hop after the sender first; empty if the packet carries none.
    #[getter]
    fn telemetry(&self) -> Vec<Hop> {
        self.records[..usize::from(self.record_count)].iter().map(|hop| Hop(*hop)).collect()
    }

    /// Values of the scheme's `record_fields` at each hop, first hop after the sender first.
    #[getter]
    fn records(&self) -> Vec<Vec<u64>> {
        self.custom.clone()
    }

    fn __repr__(&self) -> String {
        format!("<weir.Ack: {} s, seq {}, {} hops>", self.now, self.seq, self.record_count)
    }
}

/// The state of a port on the path when it wrote its record.
#[pyclass(frozen, module = "weir")]
pub struct Hop(TelemetryHop);

#[pymethods]
impl Hop {
    /// Rate of the port in bit/s; 0 if the switch does not know it.
    #[getter]
    fn rate(&self) -> f64 {
        self.0.rate.as_bps_f64()
    }
    /// Queue of the port in bytes, or the packet's wait in ticks where the records carry that.
    #[getter]
    fn queue(&self) -> u32 {
        self.0.queue
    }
    /// Bytes sent by the port, modulo 2^27.
    #[getter]
    fn tx_bytes(&self) -> u32 {
        self.0.tx_bytes
    }
    /// Time of the record in ticks, modulo 2^24.
    #[getter]
    fn timestamp(&self) -> u32 {
        self.0.timestamp
    }
    /// The link that leaves the port: switch id and port id; 0 if the record has none.
    #[getter]
    fn link(&self) -> u32 {
        self.0.link
    }
    /// Returns the ticks since an earlier record of the port, across at most one wrap.
    fn ticks_since(&self, earlier: &Hop) -> u32 {
        self.0.ticks_since(&earlier.0)
    }
    /// Returns the bytes sent since an earlier record of the port, across at most one wrap.
    fn bytes_since(&self, earlier: &Hop) -> u32 {
        self.0.bytes_since(&earlier.0)
    }
    fn __repr__(&self) -> String {
        format!("<weir.Hop: {} with {} B queued>", self.0.rate, self.0.queue)
    }
}

/// A loss.
#[pyclass(frozen, module = "weir", get_all)]
pub(crate) struct Loss {
    /// Time of detection in seconds.
    now: f64,
    /// `now` in picoseconds.
    now_ps: u64,
    /// "nack" or "timeout".
    kind: &'static str,
    /// First unacknowledged byte.
    seq: u64,
    /// Next byte that the sender would have sent.
    snd_nxt: u64,
}

impl From<&LossEvent> for Loss {
    fn from(loss: &LossEvent) -> Loss {
        let kind = match loss.kind {
            LossKind::Nack => "nack",
            LossKind::Timeout => "timeout",
        };
        Loss {
            now: loss.now.as_secs_f64(),
            now_ps: loss.now.as_ps(),
            kind,
            seq: loss.seq,
            snd_nxt: loss.snd_nxt,
        }
    }
}

/// A rate that a switch assigns to the flow.
#[pyclass(frozen, module = "weir", get_all)]
pub(crate) struct RateNotice {
    /// Time of arrival in seconds.
    now: f64,
    /// The rate in bit/s. Not authenticated: may have any value.
    rate: f64,
    /// Number of the port at its switch.
    port: u32,
    /// XOR of the switch ids on the path from the switch to the sender.
    path_id: u16,
}

impl From<&RateEvent> for RateNotice {
    fn from(event: &RateEvent) -> RateNotice {
        RateNotice {
            now: event.now.as_secs_f64(),
            rate: event.rate.as_bps_f64(),
            port: event.congestion_point.port,
            path_id: event.congestion_point.path_id,
        }
    }
}
