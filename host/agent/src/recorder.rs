use super::FlowPlan;
use super::flow_stats::{MinMaxLast, PathCounts, RttHistogram};
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
/// Mask of the echoed path id in the grant field of an ACK.
const PATH_ID_MASK: u32 = 0xfff;

/// Collects the results of an agent's flows, from the frames that its host accepts, its events, and periodic samples.
pub(super) struct Recorder {
    /// Start of the run, on the host's clock.
    epoch: Time,
    interval: Option<Time>,
    next_sample: Option<Time>,
    intervals_done: u64,
    samples: usize,
    truncated: bool,
    /// Message id of the first planned flow; the others have consecutive ids.
    first_message: u32,
    flows: Vec<FlowTrack>,
    /// Indices of the flows that are sampled: open, or finished since the last sample.
    live: Vec<usize>,
    echoes_path: bool,
    received: BTreeMap<(Ipv4Addr, u32), InboundTrack>,
    /// Complete messages that are not listed, and their payload.
    unlisted: (u64, Bytes),
}

struct FlowTrack {
    plan: FlowPlan,
    id: Option<FlowId>,
    opened: Option<Time>,
    /// Time at which it was finished, or given up.
    ended: Option<Time>,
    error: Option<FlowError>,
    acked: Bytes,
    acked_at_sample: Bytes,
    retransmits: u64,
    rtts: RttHistogram,
    data_paths: PathCounts,
    ack_paths: PathCounts,
    concurrency: MinMaxLast,
    series: SeriesResult,
}

/// A received message.
struct InboundTrack {
    port: u16,
    bytes: u64,
    complete: bool,
    first: Time,
    last: Time,
    paths: PathCounts,
}

impl Recorder {
    /// `epoch` is the start of the run, `interval` the time between samples (`None`: no samples). `echoes_path` is
    /// true if the grant field of ACKs carries the path id of the acknowledged DATA.
    pub fn new(
        plans: &[FlowPlan],
        first_message: u32,
        epoch: Time,
        interval: Option<Time>,
        echoes_path: bool,
    ) -> Self {
        let flows = plans.iter().map(|plan| FlowTrack {
            plan: plan.clone(),
            id: None,
            opened: None,
            ended: None,
            error: None,
            acked: Bytes::ZERO,
            acked_at_sample: Bytes::ZERO,
            retransmits: 0,
            rtts: RttHistogram::default(),
            data_paths: PathCounts::default(),
            ack_paths: PathCounts::default(),
            concurrency: MinMaxLast::default(),
            series: SeriesResult::default(),
        });
        Recorder {
            epoch,
            interval,
            next_sample: interval.map(|interval| epoch.saturating_add(interval)),
            intervals_done: 0,
            samples: 0,
            truncated: false,
            first_message,
            flows: flows.collect(),
            live: Vec::new(),
            echoes_path,
            received: BTreeMap::new(),
            unlisted: (0, Bytes::ZERO),
        }
    }

    pub fn opened(&mut self, index: usize, id: FlowId, now: Time) {
        let track = &mut self.flows[index];
        (track.id, track.opened) = (Some(id), Some(now));
        track.series.first = self.intervals_done;
        self.live.push(index);
    }

    /// Returns the flow's id if it is open.
    pub fn running(&self, index: usize) -> Option<FlowId> {
        self.flows[index].id.filter(|_| self.flows[index].ended.is_none())
    }

    /// Returns flows that wait, that are being sent, and that have ended.
    pub fn progress(&self, waiting: usize) -> [usize; 3] {
        let finished = self.flows.iter().filter(|track| track.ended.is_some()).count();
        [waiting, self.flows.len().saturating_sub(waiting + finished), finished]
    }

    pub fn all_ended(&self) -> bool {
        self.flows.iter().all(|track| track.ended.is_some())
    }

    /// Called for every frame that the host has accepted, so its fields are plausible. `payload` is the number of
    /// bytes that the frame added to `payload_received`.
    pub fn on_frame(&mut self, now: Time, frame: &FrameView<'_>, payload: u64) {
        match frame.weir.kind() {
            PacketKind::Data => self.took_data(now, frame, payload),
            PacketKind::Ack | PacketKind::Nack => self.took_ack(now, frame),
            _ => {}
        }
    }

    fn took_ack(&mut self, now: Time, frame: &FrameView<'_>) {
        let index = frame.weir.message().wrapping_sub(self.first_message) as usize;
        let Some(track) = self.flows.get_mut(index) else { return };
        let Some(opened) = track.opened else { return };
        let rtt = (now.as_ns() as u32).wrapping_sub(frame.weir.stamp());
        // A timestamp from before the flow was opened is not an echo of this flow's packets.
        if u64::from(rtt) <= now.saturating_sub(opened).as_ns() {
            track.rtts.add(rtt);
        }
        track.ack_paths.add(frame.weir.path_id());
        if self.echoes_path {
            track.data_paths.add((frame.weir.grant() & PATH_ID_MASK) as u16);
        }
        track.concurrency.add(frame.weir.concurrency());
    }

    fn took_data(&mut self, now: Time, frame: &FrameView<'_>, payload: u64) {
        let key = (frame.ip.source(), frame.weir.message());
        if self.received.len() >= MAX_RECEIVED && !self.received.contains_key(&key) {
            return;
        }
        let arrival = self.received.entry(key).or_insert_with(|| InboundTrack {
            port: frame.entropy_port(),
            bytes: 0,
            complete: false,
            first: now,
            last: now,
            paths: PathCounts::default(),
        });
        arrival.last = now;
        arrival.bytes += payload;
        arrival.paths.add(frame.weir.path_id());
    }

    pub fn event(&mut self, event: &HostEvent) {
        match *event {
            HostEvent::FlowFinished { message, end, bytes, retransmits, .. } => {
                self.end(message, end, bytes, retransmits, None);
            }
            HostEvent::FlowFailed { message, end, acked, retransmits, error, .. } => {
                self.end(message, end, acked, retransmits, Some(error));
            }
            HostEvent::MessageReceived { peer, message, bytes, .. } => {
                match self.received.get_mut(&(peer, message)) {
                    Some(arrival) => {
                        arrival.complete = true;
                        arrival.bytes = bytes.get();
                    }
                    None => {
                        let (messages, payload) = &mut self.unlisted;
                        *messages += 1;
                        *payload += bytes;
                    }
                }
            }
            HostEvent::Policy(_) => {}
        }
    }

    fn end(&mut self, message: u32, at: Time, acked: Bytes, retransmits: u64, error: Option<FlowError>) {
        let index = message.wrapping_sub(self.first_message) as usize;
        let Some(track) = self.flows.get_mut(index) else { return };
        (track.ended, track.error) = (Some(at), error);
        (track.acked, track.retransmits) = (acked, retransmits);
    }

    pub fn next_sample(&self) -> Option<Time> {
        self.next_sample
    }

    /// Takes the samples that are due. If the loop missed several intervals, the bytes acknowledged since the last
    /// sample are spread over them evenly.
    pub fn sample(&mut self, now: Time, host: &Host) {
        let (Some(interval), Some(due)) = (self.interval, self.next_sample) else { return };
        if now < due {
            return;
        }
        let passed = now.saturating_sub(due).as_ps() / interval.as_ps() + 1;
        self.next_sample = Some(due.saturating_add(Time::from_ps(interval.as_ps().saturating_mul(passed))));
        self.intervals_done += passed;
        let wanted = self.live.len().saturating_mul(passed as usize);
        if self.samples.saturating_add(wanted) > MAX_SAMPLES {
            self.next_sample = None;
            self.truncated = true;
            return;
        }
        self.samples += wanted;
        for &index in &self.live {
            let track = &mut self.flows[index];
            let view = track.id.and_then(|id| host.flow(id));
            if let Some(view) = &view {
                track.acked = view.acked;
            }
            let acked = track.acked.saturating_sub(track.acked_at_sample);
            track.acked_at_sample = track.acked;
            let goodput = rate_of(acked, Time::from_ps(interval.as_ps() * passed));
            for _ in 0..passed {
                let series = &mut track.series;
                series.goodput_bps.push(goodput);
                series.rate_bps.push(view.as_ref().map_or(0, |view| view.rate.as_bps()));
                series.window_bytes.push(view.as_ref().map_or(0, |view| view.window.get()));
                series.rtt_ns.push(track.rtts.last().as_ns());
                series.concurrency.push(track.concurrency.last());
            }
        }
        let flows = &self.flows;
        self.live.retain(|&index| flows[index].ended.is_none());
    }

    pub fn series_cut(&self) -> bool {
        self.truncated
    }
    pub fn unlisted(&self) -> (u64, Bytes) {
        self.unlisted
    }

    /// Returns the results of all planned flows, and clears their series.
    pub fn flow_results(&mut self, now: Time, host: &Host) -> Vec<FlowResult> {
        let (epoch, sampled, first_message) = (self.epoch, self.interval.is_some(), self.first_message);
        let since_epoch = |time: Time| time.saturating_sub(epoch).as_ns();
        let tracks = self.flows.iter_mut().enumerate();
        tracks
            .map(|(index, track)| {
                if let Some(view) = track.id.and_then(|id| host.flow(id)) {
                    track.acked = view.acked;
                    track.retransmits = view.retransmits;
                }
                let lasted = track.opened.map(|opened| track.ended.unwrap_or(now).saturating_sub(opened));
                FlowResult {
                    peer: track.plan.peer,
                    port: track.plan.entropy_port,
                    message: first_message.wrapping_add(index as u32),
                    size_bytes: track.plan.size.map(Bytes::get),
                    state: match (track.opened, track.ended) {
                        (None, _) => FlowState::NotStarted,
                        (Some(_), None) => FlowState::Unfinished,
                        (Some(_), Some(_)) if track.error.is_some() => FlowState::Failed,
                        (Some(_), Some(_)) => FlowState::Finished,
                    },
                    error: track.error.map(|error| error.to_string()),
                    planned_ns: track.plan.start.as_ns(),
                    start_ns: track.opened.map(since_epoch),
                    fct_ns: track.ended.filter(|_| track.error.is_none()).and(lasted).map(Time::as_ns),
                    acked_bytes: track.acked.get(),
                    retransmits: track.retransmits,
                    goodput_bps: lasted.map(|lasted| rate_of(track.acked, lasted)),
                    rtt: track.rtts.result(),
                    data_paths: track.data_paths.result(),
                    ack_paths: track.ack_paths.result(),
                    concurrency: track.concurrency.result(),
                    series: sampled.then(|| std::mem::take(&mut track.series)),
                }
            })
            .collect()
    }

    /// Returns the results of all recorded received messages.
    pub fn received_results(&self) -> Vec<ReceivedResult> {
        let since_epoch = |time: Time| time.saturating_sub(self.epoch).as_ns();
        let arrivals = self.received.iter();
        arrivals
            .map(|(&(peer, message), arrival)| ReceivedResult {
                peer,
                message,
                port: arrival.port,
                bytes: arrival.bytes,
                complete: arrival.complete,
                first_ns: since_epoch(arrival.first),
                last_ns: since_epoch(arrival.last),
                paths: arrival.paths.result(),
            })
            .collect()
    }
}

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
    fn messages_that_are_not_listed_are_counted_with_their_payload() {
        let mut recorder = Recorder::new(&[], 1, Time::ZERO, None, false);
        for message in 0..3 {
            let (peer, bytes, at) = (Ipv4Addr::new(10, 0, 0, 1), Bytes::from_kb(2), Time::ZERO);
            recorder.event(&HostEvent::MessageReceived { peer, message, bytes, at });
        }
        assert_eq!(recorder.unlisted(), (3, Bytes::from_kb(6)));
        assert!(recorder.received_results().is_empty());
    }
}
