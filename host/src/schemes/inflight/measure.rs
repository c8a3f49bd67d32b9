use crate::scheme::AckEvent;
use crate::telemetry::{Hop, QueueShare, TX_WRAP, TelemetryCounters};
use crate::wire::{IntRecord, MAX_HOPS, RecordFormat};
use weir_units::Time;

/// A port that seems to send this much faster than its rate cannot be. Ours: real ports
/// are off by far less, even BMv2's whose rate is set in packets.
const MAX_OVERSPEED: f64 = 2.0;
/// Bytes a port may seem to be ahead. Ours: two jumbo frames, one at either end of the interval,
/// because switches count a frame when its first byte leaves.
const SLACK_BYTES: f64 = 2.0 * 9_216.0;

/// `L[i]` of HPCC Alg. 1 with what follows from it once.
#[derive(Clone, Copy, Debug, Default)]
struct HopRecord {
    hop: Hop,
    /// Time at which it arrived here.
    seen: Time,
    /// Time after `seen` during which a difference to it is unambiguous.
    valid_for: Time,
    /// Bytes the link carries in `T`, and 1 over it.
    bdp: f64,
    inv_bdp: f64,
    /// The last reading.
    last: Option<Sample>,
    /// Rate of the port's other queues over the port's own, averaged like `U`; `Open` before the first reading.
    other_queues_rate: Option<f64>,
}

/// One hop's utilisation since the record before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Index of the hop, 0 for the first after the sender.
    pub hop: usize,
    /// `u'`.
    pub u: f64,
    /// The part of it that is queued.
    pub queued: f64,
    /// `min(tau, T) / T`, with the average's time constant for `T`.
    pub tau: f64,
    /// By how much one unit of txBytes moves the average.
    pub unit: f64,
}

/// The result of one ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measurement {
    samples: [Sample; MAX_HOPS],
    len: usize,
    /// True if some hop was recorded afresh.
    pub recorded: bool,
}

impl Measurement {
    fn push(&mut self, sample: Sample) {
        self.samples[self.len] = sample;
        self.len += 1;
    }
    pub fn samples(&self) -> &[Sample] {
        &self.samples[..self.len]
    }
    /// Returns the hop with the largest `u'`, the first of equals; `Open` if there is no news of it.
    pub fn worst(&self) -> Option<&Sample> {
        let worst =
            self.samples().iter().reduce(|worst, sample| if sample.u > worst.u { sample } else { worst })?;
        (worst.tau > 0.0).then_some(worst)
    }
}

/// The recorded telemetry of a flow's path.
#[derive(Debug)]
pub(super) struct PathRecord {
    hops: [HopRecord; MAX_HOPS],
    len: usize,
    /// XOR of switch ids on the path of the records, and on that of DATA.
    path_ids: (u16, u16),
    /// `T` in seconds and in ticks of the telemetry's clock.
    t: f64,
    t_ticks: f64,
    per_t_ticks: f64,
    /// Number of times that the average's time constant fits into `T`.
    averages_in_t: f64,
    /// Target utilisation.
    eta: f64,
    /// Half of what the timestamps count: beyond it, before and after cannot be told apart.
    half_wrap: Time,
}

impl PathRecord {
    pub fn new(base_rtt: Time, averages_in_t: f64, eta: f64, tick: Time) -> PathRecord {
        let t_ticks = base_rtt.as_ps() as f64 / tick.as_ps() as f64;
        PathRecord {
            hops: Default::default(),
            len: 0,
            path_ids: (0, 0),
            t: base_rtt.as_secs_f64(),
            t_ticks,
            per_t_ticks: 1.0 / t_ticks,
            averages_in_t,
            eta,
            half_wrap: tick * u64::from(Hop::TIMESTAMP_MODULUS / 2),
        }
    }

    /// Returns whether anything was recorded.
    pub fn is_known(&self) -> bool {
        self.len > 0
    }

    /// Returns the number of hops.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns bytes the link of `hop` carries in `T`.
    pub fn bdp(&self, hop: usize) -> f64 {
        self.hops[hop].bdp
    }

    /// Forgets everything if the ACK tells of another path, or DATA takes another (HPCC §4.1: pathID changed).
    pub fn restart_if_changed(&mut self, ack: &AckEvent<'_>) -> bool {
        if is_partial(ack) {
            return false;
        }
        let (len, path_ids) = (ack.telemetry.hops().len(), (ack.path_id, ack.data_path));
        if len == 0 || (len == self.len && path_ids == self.path_ids) {
            return false;
        }
        self.len = len;
        self.path_ids = path_ids;
        self.hops = Default::default();
        true
    }

    /// HPCC Alg. 1, MeasureInflight up to the average; records the telemetry.
    pub fn measure(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryCounters) -> Measurement {
        let mut measured = Measurement::default();
        checks.other_path += u64::from(ack.path_id != ack.data_path);
        // HPCC++ draft §9.4: what a queue delays is qLen/B, if it has the port to itself; else how long it took.
        let waits = ack.telemetry.format().contains(RecordFormat::SOJOURN);
        let partial = is_partial(ack);
        if partial && (ack.path_id, ack.data_path) != self.path_ids {
            return measured;
        }
        for (i, new) in ack.telemetry.hops().iter().enumerate() {
            let i = match partial {
                false => i,
                // Only some hops tell: the ids say which.
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
                // First record of this hop, or it is another port now, or one of another rate.
                recorded.bdp = new.rate.as_bytes_per_sec_f64() * self.t;
                recorded.inv_bdp = 1.0 / recorded.bdp;
                recorded.other_queues_rate = None;
                recorded.valid_for = self.half_wrap.min(new.rate.tx_time(TX_WRAP) / 2);
                recorded.record(new, ack.now);
                measured.recorded = true;
                continue;
            }
            if ack.now.saturating_sub(recorded.seen) > recorded.valid_for {
                // A counter may have wrapped meanwhile (docs/algorithms/README.md#wraps).
                recorded.record(new, ack.now);
                measured.recorded = true;
                continue;
            }
            let ticks = new.ticks_since(&recorded.hop);
            if ticks == 0 {
                // The same instant, or the same snapshot of All_INT_Table (docs/algorithms/README.md#same-snapshot):
                // nothing new is known of this hop, and what was known holds. Without it a less congested hop would
                // pass for the worst one.
                if let Some(last) = recorded.last {
                    measured.push(Sample { tau: 0.0, ..last });
                }
                continue;
            }
            if ticks >= Hop::TIMESTAMP_MODULUS / 2 {
                checks.stale += 1;
                continue;
            }
            // u' is inflight bytes over B*T: what is queued, and what is sent in T at txRate.
            let ticks = f64::from(ticks);
            let bytes = f64::from(new.bytes_since(&recorded.hop));
            if (bytes - SLACK_BYTES) * recorded.inv_bdp * self.t_ticks > MAX_OVERSPEED * ticks {
                checks.too_fast += 1;
                continue;
            }
            let tau = (ticks / self.t_ticks * self.averages_in_t).min(1.0);
            let (bytes, part) = match (new.share, recorded.hop.share) {
                (Some(queue), Some(before)) if queue.share == before.share => {
                    let own = f64::from(queue.bytes_since(&before)).min(bytes);
                    let others = (bytes - own) * recorded.inv_bdp * self.t_ticks / ticks;
                    (own, recorded.link_share(queue.share, others, tau, self.eta))
                }
                _ => (bytes, 1.0),
            };
            let queued = f64::from(new.queue.min(recorded.hop.queue))
                * if waits { self.per_t_ticks } else { recorded.inv_bdp };
            let sample = Sample {
                hop: i,
                u: queued + bytes * recorded.inv_bdp * self.t_ticks / ticks / part,
                queued,
                tau,
                unit: IntRecord::TX_UNIT.as_f64() * recorded.inv_bdp * self.averages_in_t / part,
            };
            measured.push(sample);
            recorded.record(new, ack.now);
            recorded.last = Some(sample);
        }
        measured
    }
}

/// Returns whether an ACK's records are of congested ports only.
pub(super) fn is_partial(ack: &AckEvent<'_>) -> bool {
    ack.telemetry.format().contains(RecordFormat::CONGESTED)
}

impl HopRecord {
    /// Returns the part of the link that the flow's queue may have: its share, or what others leave of `eta`. Others count
    /// by their average, because queues send in turns: in a short time one of them seems to have the port to itself.
    fn link_share(&mut self, share: u16, others: f64, tau: f64, eta: f64) -> f64 {
        let before = self.other_queues_rate.unwrap_or(others);
        let average = before + tau * (others - before);
        self.other_queues_rate = Some(average);
        (f64::from(share) / f64::from(QueueShare::FULL_SHARE)).max(1.0 - average / eta)
    }

    fn record(&mut self, hop: &Hop, now: Time) {
        self.hop = *hop;
        self.seen = now;
        self.last = None;
    }
}
