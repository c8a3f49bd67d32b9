use super::FlowPlan;
use super::flow_stats::{AckNovelty, MinMaxLast, PathCounts, ReplayFilter, RttHistogram};
use super::results::{FlowResult, FlowState, ReceivedResult, SeriesResult};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use weir_host::wire::{FrameView, PacketKind};
use weir_host::{FlowError, FlowId, Host, HostEvent};
use weir_units::{Bandwidth, Bytes, Time};

/// Maximum number of samples of all flows, about 130 MB. An hour with ten flows and samples every 10 ms stays below.
const MAX_SAMPLES: usize = 1 << 22;
/// Maximum number of received messages in the results.
const MAX_RECEIVED: usize = 1 << 16;

/// Collects the results of an agent's flows from the frames that its host accepts, from the host's events, and from
/// periodic samples.
pub(super) struct Recorder {
    /// Start of the run, on the host's clock.
    epoch: Time,
    /// Time between two samples; `None` takes none.
    sample_interval: Option<Time>,
    /// Time of the next sample; `None` if no more samples are taken.
    next_sample: Option<Time>,
    /// Number of sampling intervals since the start of the run.
    intervals_elapsed: u64,
    /// Number of samples taken, over all flows.
    sample_count: usize,
    /// True if sampling stopped at [`MAX_SAMPLES`].
    is_truncated: bool,
    /// Message id of the first planned flow; the others have consecutive ids.
    first_message: u32,
    flows: Vec<FlowTrack>,
    /// Indices of the flows that are sampled: open, or finished since the last sample.
    sampled_flows: Vec<usize>,
    /// True if the grant field of ACKs carries the path id of the acknowledged DATA.
    has_echoed_path: bool,
    /// Received messages by sender and message id, at most [`MAX_RECEIVED`].
    received: BTreeMap<(Ipv4Addr, u32), InboundTrack>,
    unlisted: UnlistedMessages,
}

/// Totals of the complete messages that are not in [`Recorder::received`], because that is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UnlistedMessages {
    pub count: u64,
    pub payload: Bytes,
}

/// Numbers of planned flows by progress.
pub(super) struct FlowCounts {
    /// Flows that have not started.
    pub waiting: usize,
    /// Flows in progress.
    pub sending: usize,
    /// Flows that have finished or failed.
    pub ended: usize,
}

/// A planned flow.
struct FlowTrack {
    plan: FlowPlan,
    id: Option<FlowId>,
    opened_at: Option<Time>,
    /// Time at which the flow finished or failed.
    ended_at: Option<Time>,
    error: Option<FlowError>,
    /// Payload acknowledged so far.
    acked: Bytes,
    /// `acked` at the last sample.
    acked_at_sample: Bytes,
    retransmits: u64,
    replay_filter: ReplayFilter,
    rtts: RttHistogram,
    data_paths: PathCounts,
    ack_paths: PathCounts,
    /// Number of active flows at the receiver, as reported in ACKs; 0 if it is not reported.
    concurrency: MinMaxLast,
    series: SeriesResult,
}

/// A received message.
struct InboundTrack {
    port: u16,
    /// Payload received, each byte counted once.
    bytes: u64,
    is_complete: bool,
    first_seen: Time,
    last_seen: Time,
    paths: PathCounts,
}

impl Recorder {
    /// Creates a recorder for the planned flows; see the fields of [`Recorder`] for the parameters.
    pub(crate) fn new(
        plans: &[FlowPlan],
        first_message: u32,
        epoch: Time,
        sample_interval: Option<Time>,
        has_echoed_path: bool,
    ) -> Self {
        let flows = plans.iter().map(|plan| FlowTrack {
            plan: plan.clone(),
            id: None,
            opened_at: None,
            ended_at: None,
            error: None,
            acked: Bytes::ZERO,
            acked_at_sample: Bytes::ZERO,
            retransmits: 0,
            replay_filter: ReplayFilter::default(),
            rtts: RttHistogram::default(),
            data_paths: PathCounts::default(),
            ack_paths: PathCounts::default(),
            concurrency: MinMaxLast::default(),
            series: SeriesResult::default(),
        });
        Recorder {
            epoch,
            sample_interval,
            next_sample: sample_interval.map(|interval| epoch.saturating_add(interval)),
            intervals_elapsed: 0,
            sample_count: 0,
            is_truncated: false,
            first_message,
            flows: flows.collect(),
            sampled_flows: Vec::new(),
            has_echoed_path,
            received: BTreeMap::new(),
            unlisted: UnlistedMessages::default(),
        }
    }

    /// Records that the planned flow with this index was opened.
    pub(crate) fn on_flow_opened(&mut self, index: usize, id: FlowId, now: Time) {
        let track = &mut self.flows[index];
        (track.id, track.opened_at) = (Some(id), Some(now));
        track.series.first = self.intervals_elapsed;
        self.sampled_flows.push(index);
    }

    /// Returns the id of the flow with this index; `None` unless it is open.
    pub(crate) fn open_flow(&self, index: usize) -> Option<FlowId> {
        self.flows[index].id.filter(|_| self.flows[index].ended_at.is_none())
    }

    /// Returns the numbers of flows by progress. The caller supplies `waiting`, the number that have not started: it is
    /// the length of the agent's list of flows to open, so the recorder need not count them.
    pub(crate) fn flow_counts(&self, waiting: usize) -> FlowCounts {
        let ended = self.flows.iter().filter(|track| track.ended_at.is_some()).count();
        FlowCounts { waiting, sending: self.flows.len().saturating_sub(waiting + ended), ended }
    }

    pub(crate) fn have_all_ended(&self) -> bool {
        self.flows.iter().all(|track| track.ended_at.is_some())
    }

    /// Called for every frame that the host has accepted, so its fields are plausible. `new_bytes` is the number of
    /// payload bytes that the host received for the first time in this frame; 0 for a duplicate.
    pub(crate) fn on_frame(&mut self, now: Time, frame: &FrameView<'_>, new_bytes: u64) {
        match frame.weir.kind() {
            PacketKind::Data => self.on_data(now, frame, new_bytes),
            PacketKind::Ack | PacketKind::Nack => self.on_ack(now, frame),
            _ => {}
        }
    }

    fn on_ack(&mut self, now: Time, frame: &FrameView<'_>) {
        // An id below the first wraps to an index beyond all flows.
        let index = frame.weir.message().wrapping_sub(self.first_message) as usize;
        let Some(track) = self.flows.get_mut(index) else { return };
        let Some(opened) = track.opened_at else { return };
        let weir = &frame.weir;
        let novelty = track.replay_filter.accept(weir.subflow(), weir.seq(), weir.timestamp());
        if novelty == AckNovelty::Replayed {
            return;
        }
        let rtt = (now.as_ns() as u32).wrapping_sub(frame.weir.timestamp());
        // A timestamp from before the flow was opened is not an echo of this flow's packets.
        let is_plausible = u64::from(rtt) <= now.saturating_sub(opened).as_ns();
        if novelty == AckNovelty::LatestEcho && is_plausible {
            track.rtts.add(rtt);
        }
        track.ack_paths.add(frame.weir.path_id());
        if self.has_echoed_path {
            track.data_paths.add(frame.weir.echoed_path_id());
        }
        track.concurrency.add(frame.weir.concurrency());
    }

    fn on_data(&mut self, now: Time, frame: &FrameView<'_>, new_bytes: u64) {
        let key = (frame.ip.source(), frame.weir.message());
        if self.received.len() >= MAX_RECEIVED && !self.received.contains_key(&key) {
            return;
        }
        let track = self.received.entry(key).or_insert_with(|| InboundTrack {
            port: frame.entropy_port(),
            bytes: 0,
            is_complete: false,
            first_seen: now,
            last_seen: now,
            paths: PathCounts::default(),
        });
        track.last_seen = now;
        track.bytes += new_bytes;
        track.paths.add(frame.weir.path_id());
    }

    pub(crate) fn on_event(&mut self, event: &HostEvent) {
        match *event {
            HostEvent::FlowFinished { message, end, bytes, retransmits, .. } => {
                self.on_flow_ended(message, end, bytes, retransmits, None);
            }
            HostEvent::FlowFailed { message, end, acked, retransmits, error, .. } => {
                self.on_flow_ended(message, end, acked, retransmits, Some(error));
            }
            HostEvent::MessageReceived { peer, message, bytes, .. } => {
                match self.received.get_mut(&(peer, message)) {
                    Some(track) => {
                        track.is_complete = true;
                        track.bytes = bytes.get();
                    }
                    None => {
                        self.unlisted.count += 1;
                        self.unlisted.payload += bytes;
                    }
                }
            }
            HostEvent::Policy(_) => {}
        }
    }

    fn on_flow_ended(
        &mut self,
        message: u32,
        ended_at: Time,
        acked: Bytes,
        retransmits: u64,
        error: Option<FlowError>,
    ) {
        let index = message.wrapping_sub(self.first_message) as usize;
        let Some(track) = self.flows.get_mut(index) else { return };
        (track.ended_at, track.error) = (Some(ended_at), error);
        (track.acked, track.retransmits) = (acked, retransmits);
    }

    pub(crate) fn next_sample(&self) -> Option<Time> {
        self.next_sample
    }

    /// Takes the samples that are due. If the loop missed several intervals, the bytes acknowledged since the last
    /// sample are spread over them evenly.
    pub(crate) fn sample(&mut self, now: Time, host: &Host) {
        let (Some(interval), Some(due)) = (self.sample_interval, self.next_sample) else { return };
        if now < due {
            return;
        }
        let intervals = now.saturating_sub(due).as_ps() / interval.as_ps() + 1;
        self.next_sample =
            Some(due.saturating_add(Time::from_ps(interval.as_ps().saturating_mul(intervals))));
        self.intervals_elapsed += intervals;
        let new_samples = self.sampled_flows.len().saturating_mul(intervals as usize);
        if self.sample_count.saturating_add(new_samples) > MAX_SAMPLES {
            self.next_sample = None;
            self.is_truncated = true;
            return;
        }
        self.sample_count += new_samples;
        for &index in &self.sampled_flows {
            let track = &mut self.flows[index];
            let info = track.id.and_then(|id| host.flow(id));
            if let Some(info) = &info {
                track.acked = info.acked;
            }
            let acked = track.acked.saturating_sub(track.acked_at_sample);
            track.acked_at_sample = track.acked;
            let goodput = rate_of(acked, Time::from_ps(interval.as_ps() * intervals));
            for _ in 0..intervals {
                let series = &mut track.series;
                series.goodput_bps.push(goodput);
                series.rate_bps.push(info.as_ref().map_or(0, |info| info.sending_rate.as_bps()));
                series.window_bytes.push(info.as_ref().map_or(0, |info| info.window.get()));
                series.rtt_ns.push(track.rtts.last().as_ns());
                if let Some(id) = track.id {
                    let samples_before = series.rate_bps.len() - 1;
                    host.gauges(id, &mut |name, value| {
                        let values = series.gauges.entry(name.to_owned()).or_default();
                        // A policy may have changed the scheme, and with it the gauges.
                        values.resize(samples_before, 0.0);
                        // JSON has no infinity.
                        values.push(if value.is_finite() { value } else { 0.0 });
                    });
                }
                series.concurrency.push(track.concurrency.last());
                // A finished flow reports none.
                let samples = series.rate_bps.len();
                series.gauges.values_mut().for_each(|values| values.resize(samples, 0.0));
            }
        }
        let flows = &self.flows;
        self.sampled_flows.retain(|&index| flows[index].ended_at.is_none());
    }

    pub(crate) fn is_truncated(&self) -> bool {
        self.is_truncated
    }
    pub(crate) fn unlisted(&self) -> UnlistedMessages {
        self.unlisted
    }

    /// Returns the results of all planned flows, and clears their series.
    pub(crate) fn flow_results(&mut self, now: Time, host: &Host) -> Vec<FlowResult> {
        let (epoch, has_series, first_message) =
            (self.epoch, self.sample_interval.is_some(), self.first_message);
        let since_epoch = |time: Time| time.saturating_sub(epoch).as_ns();
        let tracks = self.flows.iter_mut().enumerate();
        tracks
            .map(|(index, track)| {
                if let Some(info) = track.id.and_then(|id| host.flow(id)) {
                    track.acked = info.acked;
                    track.retransmits = info.retransmits;
                }
                let duration =
                    track.opened_at.map(|opened| track.ended_at.unwrap_or(now).saturating_sub(opened));
                FlowResult {
                    peer: track.plan.peer,
                    port: track.plan.entropy_port,
                    message: first_message.wrapping_add(index as u32),
                    size_bytes: track.plan.size.map(Bytes::get),
                    state: match (track.opened_at, track.ended_at) {
                        (None, _) => FlowState::NotStarted,
                        (Some(_), None) => FlowState::Unfinished,
                        (Some(_), Some(_)) if track.error.is_some() => FlowState::Failed,
                        (Some(_), Some(_)) => FlowState::Finished,
                    },
                    error: track.error.map(|error| error.to_string()),
                    planned_ns: track.plan.start.as_ns(),
                    start_ns: track.opened_at.map(since_epoch),
                    fct_ns: track.ended_at.filter(|_| track.error.is_none()).and(duration).map(Time::as_ns),
                    acked_bytes: track.acked.get(),
                    retransmits: track.retransmits,
                    goodput_bps: duration.map(|duration| rate_of(track.acked, duration)),
                    rtt: track.rtts.result(),
                    data_paths: track.data_paths.result(),
                    ack_paths: track.ack_paths.result(),
                    concurrency: track.concurrency.result(),
                    series: has_series.then(|| std::mem::take(&mut track.series)),
                }
            })
            .collect()
    }

    /// Returns the results of all recorded received messages.
    pub(crate) fn received_results(&self) -> Vec<ReceivedResult> {
        let since_epoch = |time: Time| time.saturating_sub(self.epoch).as_ns();
        let tracks = self.received.iter();
        tracks
            .map(|(&(peer, message), track)| ReceivedResult {
                peer,
                message,
                port: track.port,
                bytes: track.bytes,
                complete: track.is_complete,
                first_ns: since_epoch(track.first_seen),
                last_ns: since_epoch(track.last_seen),
                paths: track.paths.result(),
            })
            .collect()
    }
}

/// Returns the rate in bit/s; 0 for an empty span of time.
fn rate_of(bytes: Bytes, time: Time) -> u64 {
    if time == Time::ZERO {
        return 0;
    }
    Bandwidth::from_bps_f64(bytes.as_f64() * 8.0 / time.as_secs_f64()).as_bps()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_messages_are_counted_with_their_payload() {
        let (first_message, sample_interval, has_echoed_path) = (1, None, false);
        let mut recorder = Recorder::new(&[], first_message, Time::ZERO, sample_interval, has_echoed_path);
        for message in 0..3 {
            let (peer, bytes, at) = (Ipv4Addr::new(10, 0, 0, 1), Bytes::from_kb(2), Time::ZERO);
            recorder.on_event(&HostEvent::MessageReceived { peer, message, bytes, at });
        }
        assert_eq!(recorder.unlisted(), UnlistedMessages { count: 3, payload: Bytes::from_kb(6) });
        assert!(recorder.received_results().is_empty());
    }
}
