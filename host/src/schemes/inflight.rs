//! The measurement of inflight bytes from telemetry, for HPCC and PowerTCP. Symbols are those of HPCC Algorithm 1.

use crate::scheme::{AckEvent, FlowParams};
use crate::telemetry::{GatheredBy, Hop, QueueShare, TX_WRAP, TelemetryCounters};
use crate::wire::{HEADERS_LEN, MAX_HOPS, RecordFormat};
use weir_units::Time;

/// Ratio of measured to nominal port rate above which a record is implausible. Weir's choice: real ports deviate far
/// less, even BMv2's, whose rate is set in packets.
const MAX_OVERSPEED: f64 = 2.0;
/// Bytes by which a measurement may exceed the port's rate. Weir's choice: two jumbo frames, one at each end of the
/// interval, because switches count a frame when its first byte leaves.
const SLACK_BYTES: f64 = 2.0 * 9_216.0;

/// `L[i]` of HPCC Alg. 1, with values derived from it.
#[derive(Clone, Copy, Debug, Default)]
struct HopRecord {
    hop: Hop,
    /// Time at which the record arrived.
    seen_at: Time,
    /// Time after `seen_at` for which differences to the record are unambiguous: half of the range of its counters.
    valid_for: Time,
    /// Bytes that the link carries in `T`.
    bdp: f64,
    /// `1 / bdp`.
    inv_bdp: f64,
    /// The last sample of this hop; `None` after a restart.
    last_sample: Option<Sample>,
    /// Rate of the port's other queues over the port's rate, averaged like `U`; `None` before the first sample.
    other_queues_rate: Option<f64>,
}

/// The utilisation of a hop between two records.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Index of the hop; 0 is the first hop after the sender.
    pub hop: usize,
    /// `u'`: inflight bytes over `B*T`.
    pub u: f64,
    /// The part of `u` that is due to the queue.
    pub queued: f64,
    /// Bytes in the queue now over `B*T`; `queued` has the smaller one of now and before.
    pub queue: f64,
    /// Rate of arrivals at the port over its rate: bytes sent, and those by which the queue grew. Slightly
    /// negative at times, as both counters are rounded.
    pub arrivals: f64,
    /// `min(tau, T) / T`, with the time constant of the average in place of `T`. 0 if the hop has no new data.
    pub tau: f64,
}

/// The samples of one ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measurement {
    samples: [Sample; MAX_HOPS],
    len: usize,
    /// True if the measurement of some hop was restarted.
    pub has_restarted: bool,
}

impl Measurement {
    fn push(&mut self, sample: Sample) {
        self.samples[self.len] = sample;
        self.len += 1;
    }
    pub(super) fn samples(&self) -> &[Sample] {
        &self.samples[..self.len]
    }
    /// Returns the hop with the largest `u'`, the first of equals; `None` if that hop has no new data.
    pub(super) fn worst(&self) -> Option<&Sample> {
        let worst =
            self.samples().iter().reduce(|worst, sample| if sample.u > worst.u { sample } else { worst })?;
        (worst.tau > 0.0).then_some(worst)
    }
}

/// The paths of an ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PathIds {
    /// Path id of the path that the records describe.
    records: u16,
    /// Path id of DATA.
    data: u16,
}

impl PathIds {
    fn of(ack: &AckEvent<'_>) -> PathIds {
        PathIds { records: ack.path_id, data: ack.data_path }
    }
}

/// The last records of a flow's path.
#[derive(Debug)]
pub(super) struct PathRecord {
    hops: [HopRecord; MAX_HOPS],
    len: usize,
    path_ids: PathIds,
    /// `T` in seconds.
    t: f64,
    /// `T` in ticks of the telemetry's clock.
    t_ticks: f64,
    /// `1 / t_ticks`.
    inv_t_ticks: f64,
    /// `T` divided by the time constant of the average.
    averages_in_t: f64,
    /// Target utilisation.
    eta: f64,
    /// Bytes of a full DATA frame without records. Infinite if not every DATA frame gathers records, so that the correction for
    /// them is 0.
    frame_without_records: f64,
    /// Half of the timestamps' range: larger differences cannot be distinguished from negative ones.
    half_wrap: Time,
}

impl PathRecord {
    pub(super) fn new(base_rtt: Time, averages_in_t: f64, eta: f64, tick: Time) -> PathRecord {
        let t_ticks = base_rtt.as_ps() as f64 / tick.as_ps() as f64;
        PathRecord {
            hops: Default::default(),
            len: 0,
            path_ids: PathIds::default(),
            t: base_rtt.as_secs_f64(),
            t_ticks,
            inv_t_ticks: 1.0 / t_ticks,
            averages_in_t,
            eta,
            frame_without_records: f64::INFINITY,
            half_wrap: tick * u64::from(Hop::TIMESTAMP_MODULUS / 2),
        }
    }

    /// For a scheme whose every DATA packet gathers records, which lengthen it at each hop.
    pub(super) fn with_records_on_data(self, flow: &FlowParams) -> PathRecord {
        PathRecord { frame_without_records: HEADERS_LEN as f64 + flow.payload.as_f64(), ..self }
    }

    /// Returns whether the path has been recorded.
    pub(super) fn is_known(&self) -> bool {
        self.len > 0
    }

    /// Returns the number of hops of the path.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes that the link of hop `hop` carries in `T`.
    pub(super) fn bdp(&self, hop: usize) -> f64 {
        self.hops[hop].bdp
    }

    /// Discards all records if the records or DATA have taken another path (HPCC §4.1: pathID changed). Returns
    /// whether it discarded them.
    pub(super) fn restart_if_changed(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryCounters) -> bool {
        if is_partial(ack) {
            return false;
        }
        let (len, path_ids) = (ack.telemetry.hops().len(), PathIds::of(ack));
        if len == 0 || (len == self.len && path_ids == self.path_ids) {
            return false;
        }
        checks.path_changes += u64::from(self.is_known());
        self.len = len;
        self.path_ids = path_ids;
        self.hops = Default::default();
        true
    }

    /// HPCC Alg. 1, MeasureInflight without the average. Stores the records for the next call.
    pub(super) fn measure(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryCounters) -> Measurement {
        let mut measured = Measurement::default();
        checks.other_path += u64::from(ack.path_id != ack.data_path);
        // HPCC++ draft §9.4: the delay of a queue is qLen/B only if the queue has the port to itself; otherwise the
        // sojourn time is measured.
        let is_sojourn = ack.telemetry.format().contains(RecordFormat::SOJOURN);
        let growth_per_hop = match ack.telemetry.gathered_by() {
            GatheredBy::Data => ack.telemetry.format().record_len() as f64 / self.frame_without_records,
            GatheredBy::Ack => 0.0,
        };
        let is_partial = is_partial(ack);
        if is_partial && PathIds::of(ack) != self.path_ids {
            return measured;
        }
        for (position, new) in ack.telemetry.hops().iter().enumerate() {
            let i = match is_partial {
                false => position,
                // Records of congested ports only: find the hop by its link id.
                true => match self.hops[..self.len].iter().position(|known| known.hop.link == new.link) {
                    Some(i) => i,
                    None => {
                        checks.other_port += 1;
                        continue;
                    }
                },
            };
            let recorded = &mut self.hops[i];
            if new.rate.as_bps() == 0 {
                checks.unknown_rate += 1;
                continue;
            }
            if new.rate != recorded.hop.rate || new.link != recorded.hop.link {
                // First record of this hop, or a record of another port, or the port's rate has changed.
                recorded.bdp = new.rate.as_bytes_per_sec_f64() * self.t;
                recorded.inv_bdp = 1.0 / recorded.bdp;
                recorded.other_queues_rate = None;
                recorded.valid_for = self.half_wrap.min(new.rate.tx_time(TX_WRAP) / 2);
                recorded.record(new, ack.now);
                measured.has_restarted = true;
                continue;
            }
            // HPCC Alg. 1 takes min(qlen now, qlen before), which filters short bursts.
            let queue_scale = if is_sojourn { self.inv_t_ticks } else { recorded.inv_bdp };
            let queued = f64::from(new.queue.min(recorded.hop.queue)) * queue_scale;
            if ack.now.saturating_sub(recorded.seen_at) > recorded.valid_for {
                // A counter may have wrapped in between (docs/algorithms/README.md#wraps).
                recorded.record(new, ack.now);
                if queued > 0.0 {
                    // Without this, senders that read once per round trip would never answer a queue that makes the round
                    // trip so long.
                    let queue = f64::from(new.queue) * queue_scale;
                    let sample = Sample { hop: i, u: queued + 1.0, queued, queue, arrivals: 1.0, tau: 1.0 };
                    measured.push(sample);
                    recorded.last_sample = Some(sample);
                } else {
                    measured.has_restarted = true;
                }
                continue;
            }
            let ticks = new.ticks_since(&recorded.hop);
            if ticks == 0 {
                // Same time, or the same snapshot of All_INT_Table (docs/algorithms/README.md#same-snapshot): the hop
                // has no new data and keeps its last sample. Without that sample a less congested hop would become
                // the bottleneck.
                if let Some(last) = recorded.last_sample {
                    measured.push(Sample { tau: 0.0, ..last });
                }
                continue;
            }
            if ticks >= Hop::TIMESTAMP_MODULUS / 2 {
                checks.stale += 1;
                continue;
            }
            // u' is inflight bytes over B*T: bytes in the queue, plus bytes sent in T at txRate.
            let ticks = f64::from(ticks);
            let bytes = f64::from(new.bytes_since(&recorded.hop));
            if (bytes - SLACK_BYTES) * recorded.inv_bdp * self.t_ticks > MAX_OVERSPEED * ticks {
                checks.too_fast += 1;
                continue;
            }
            // The port also sent the records of this hop and those before. Other flows' frames are taken to be as long
            // as this flow's.
            let with_records = 1.0 + growth_per_hop * (i + 1) as f64;
            let bytes = bytes * with_records;
            let tau = (ticks / self.t_ticks * self.averages_in_t).min(1.0);
            // With several queues, only the flow's queue and its share of the link count.
            let (bytes, link_share) = match (new.queue_share, recorded.hop.queue_share) {
                (Some(queue), Some(before)) if queue.share == before.share => {
                    let queue_bytes = (f64::from(queue.bytes_since(&before)) * with_records).min(bytes);
                    let other_queues_rate = (bytes - queue_bytes) * recorded.inv_bdp * self.t_ticks / ticks;
                    (queue_bytes, recorded.link_share(queue.share, other_queues_rate, tau, self.eta))
                }
                _ => (bytes, 1.0),
            };
            let growth = (f64::from(new.queue) - f64::from(recorded.hop.queue)) * queue_scale;
            let sample = Sample {
                hop: i,
                u: queued + bytes * recorded.inv_bdp * self.t_ticks / ticks / link_share,
                queued,
                queue: f64::from(new.queue) * queue_scale,
                arrivals: (bytes * recorded.inv_bdp + growth) * self.t_ticks / ticks / link_share,
                tau,
            };
            measured.push(sample);
            recorded.record(new, ack.now);
            recorded.last_sample = Some(sample);
        }
        measured
    }
}

/// Returns whether the ACK's records are of congested ports only.
pub(super) fn is_partial(ack: &AckEvent<'_>) -> bool {
    ack.telemetry.format().contains(RecordFormat::CONGESTED)
}

impl HopRecord {
    /// Returns the share of the link that is available to the flow's queue: the queue's weight, or the part of `eta`
    /// that other queues leave unused. The rate of the other queues is averaged, because queues are served in turn
    /// and a short sample can attribute the whole port to one of them.
    fn link_share(&mut self, share: u16, other_queues_rate: f64, tau: f64, eta: f64) -> f64 {
        let before = self.other_queues_rate.unwrap_or(other_queues_rate);
        let average = before + tau * (other_queues_rate - before);
        self.other_queues_rate = Some(average);
        (f64::from(share) / f64::from(QueueShare::FULL_SHARE)).max(1.0 - average / eta)
    }

    /// Stores the record of this hop for the next measurement.
    fn record(&mut self, hop: &Hop, now: Time) {
        self.hop = *hop;
        self.seen_at = now;
        self.last_sample = None;
    }
}
