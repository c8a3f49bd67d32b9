//! A network of hosts around one switch, in virtual time: a test of the whole transport takes about ten lines.
//!
//! The switch is ideal: it has one unlimited queue per port, adds INT records as in docs/wire.md#records (to DATA the
//! record of the egress port, to ACKs that of the ingress port), and sets ECN marks at the scheme's thresholds. Faults
//! apply to frames as they leave the switch. Every DATA packet is checked against its flow's window and pacing rate.

use crate::reference_port;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use weir_host::port_algorithm::{CongestionThreshold, PortAlgorithm};
use weir_host::scheme::{EcnThresholds, LossRecovery, SchemeConfig, TelemetrySource};
use weir_host::wire::{
    Ecn, Flags, FrameRepr, FrameView, IntRecord, MAX_HEADER_LEN, MAX_HOPS, POLICY_GROUP, PacketKind,
    RateCode, RecordFormat, WeirRepr, internet_checksum,
};
use weir_host::{Announcement, FlowId, FlowInfo, FlowSpec, Host, HostConfig, HostEvent, Transmit};
use weir_units::{Bandwidth, Bytes, Time};

/// A frame in flight: its first bytes, and the number of zero bytes that follow.
#[derive(Clone, Debug)]
pub struct Frame {
    pub head: Vec<u8>,
    pub payload: u32,
}

impl Frame {
    pub fn len(&self) -> Bytes {
        Bytes::new(self.head.len() as u64 + u64::from(self.payload))
    }
    /// Parses the frame.
    ///
    /// # Panics
    ///
    /// The frame is malformed; hosts and this switch produce no such frames.
    pub fn view(&self) -> FrameView<'_> {
        FrameView::new(&self.head, self.payload).expect("hosts and this switch emit valid frames")
    }
}

/// Faults of the switch. The probabilities are for each frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Probability of a loss.
    pub loss: f64,
    /// Probability that the frame is delivered twice.
    pub duplicate: f64,
    /// Probability of a delay of up to ten frame times, so that later frames overtake this one.
    pub reorder: f64,
    /// Probability of an ECN mark, if the frame is ECN-capable.
    pub mark: f64,
    /// Number of the path that packets take. Paths differ in switch ids and counters, but have the same queues.
    pub path: u16,
}

enum Event {
    /// A timer of a host expires.
    Wakeup { host: usize },
    /// A host's NIC has sent its frame.
    NicFree { host: usize },
    /// A frame of the host `from` arrives at the switch.
    AtSwitch { from: usize, frame: Frame },
    /// A port of the switch has sent its frame.
    PortFree { port: usize },
    /// A frame arrives at a host.
    AtHost { host: usize, frame: Frame },
}

/// A frame in a queue of the switch.
struct QueuedFrame {
    /// The host that sent the frame.
    from: usize,
    frame: Frame,
}

#[derive(Default)]
struct Port {
    queue: VecDeque<QueuedFrame>,
    /// Bytes in the queue.
    queued_bytes: u64,
    /// Bytes sent since the start.
    sent_bytes: u64,
    is_busy: bool,
    reference: reference_port::ReferencePort,
}

#[derive(Default)]
struct Nic {
    is_busy: bool,
    /// Bit `c` is set while PFC pauses class `c`.
    paused: u8,
    /// Time of the scheduled wakeup of the host.
    wakeup_at: Option<Time>,
    /// The last DATA frame of each flow.
    last_data: HashMap<FlowId, SentFrame>,
}

/// A frame that a host has sent.
struct SentFrame {
    sent_at: Time,
    len: Bytes,
}

/// The change that a faulty switch makes to a record.
pub type RecordTamper = fn(&mut IntRecord);

pub struct TestNetwork {
    pub now: Time,
    pub hosts: Vec<Host>,
    pub events: Vec<(usize, HostEvent)>,
    /// Largest queue of each port so far, in bytes.
    pub peak_queue: Vec<u64>,
    pub faults: Faults,
    /// The host whose packets carry tampered records, and the change to them.
    pub tamper: Option<(usize, RecordTamper)>,
    /// A host that does nothing until this time, and then handles all that it missed. Its clock has jumped.
    pub suspended: Option<(usize, Time)>,
    nics: Vec<Nic>,
    ports: Vec<Port>,
    /// Rate of all links.
    rate: Bandwidth,
    ecn: Option<EcnThresholds>,
    port_algorithm: Option<PortAlgorithm>,
    adds_records: bool,
    link_delay: Time,
    event_queue: BTreeMap<(Time, u64), Event>,
    next_seq: u64,
    rng: Pcg64Mcg,
    last_message: u32,
}

/// Rate of all links.
pub const RATE: Bandwidth = Bandwidth::from_gbps(100);
/// Propagation delay of a link.
pub const LINK_DELAY: Time = Time::from_ns(1_500);
/// Slightly above the delay of four links and the serialisation of two full frames.
pub const BASE_RTT: Time = Time::from_ns(6_500);

pub fn addr(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host as u8 + 1)
}

/// Offset between the byte counters of the switches of different paths.
const PATH_COUNTER_OFFSET: u64 = 54_321_000;

impl TestNetwork {
    /// Creates a network of `hosts` hosts at 100 Gbit/s, with links of 1.5 us to the switch.
    pub fn star(hosts: usize, scheme: &Arc<dyn SchemeConfig>) -> TestNetwork {
        TestNetwork::with_config(hosts, scheme, 1, |_| {})
    }

    /// Creates a network of `hosts` hosts around one switch, each with its configuration changed by `tune`.
    ///
    /// # Panics
    ///
    /// The configuration is invalid.
    pub fn with_config(
        hosts: usize,
        scheme: &Arc<dyn SchemeConfig>,
        seed: u64,
        tune: impl Fn(&mut HostConfig),
    ) -> TestNetwork {
        let host = |i| {
            let mut config = HostConfig::new(addr(i), RATE, BASE_RTT, scheme.clone());
            tune(&mut config);
            Host::new(config).expect("valid configuration")
        };
        TestNetwork {
            now: Time::ZERO,
            hosts: (0..hosts).map(host).collect(),
            events: Vec::new(),
            peak_queue: vec![0; hosts],
            faults: Faults::default(),
            tamper: None,
            suspended: None,
            nics: (0..hosts).map(|_| Nic::default()).collect(),
            ports: (0..hosts).map(|_| Port::default()).collect(),
            rate: RATE,
            ecn: scheme.needs().ecn,
            port_algorithm: scheme.port_algorithm(BASE_RTT),
            adds_records: scheme.needs().telemetry != TelemetrySource::RateNotifications,
            link_delay: LINK_DELAY,
            event_queue: BTreeMap::new(),
            next_seq: 0,
            rng: Pcg64Mcg::seed_from_u64(seed),
            last_message: 0,
        }
    }

    /// Opens a flow from host `from` to host `to`; without a size it sends until it is stopped.
    ///
    /// # Panics
    ///
    /// The message is empty.
    pub fn open(&mut self, from: usize, to: usize, size: Option<Bytes>) -> FlowId {
        self.last_message += 1;
        let message = self.last_message;
        let spec = FlowSpec {
            peer: addr(to),
            next_hop_mac: [2, 0, 0, 0, 0, to as u8],
            entropy_port: 49_152 + message as u16,
            size,
            message,
        };
        let flow = self.hosts[from].open(self.now, spec).expect("the message is not empty and its id is new");
        self.poll_host(from);
        flow
    }

    /// Opens a flow that announces the senders of an incast in its first packets.
    ///
    /// # Panics
    ///
    /// The announcement does not fit the first packets.
    pub fn open_announcing(
        &mut self,
        from: usize,
        to: usize,
        size: Bytes,
        announcement: &Announcement,
    ) -> FlowId {
        // Class 0, which carries all packets, is paused, so that none leaves before the announcement is known.
        self.pause(from, 1);
        let flow = self.open(from, to, Some(size));
        self.hosts[from].announce(flow, announcement).expect("the list of senders fits the packets");
        self.pause(from, 0);
        flow
    }

    /// Restarts a host, which forgets all messages.
    ///
    /// # Panics
    ///
    /// Never: the configuration was accepted before.
    pub fn restart(&mut self, host: usize) {
        let config = self.hosts[host].config().clone();
        self.hosts[host] = Host::new(config).expect("the configuration was accepted before");
    }

    pub fn stop(&mut self, host: usize, flow: FlowId) {
        self.hosts[host].stop(self.now, flow);
        self.poll_host(host);
    }

    /// Returns the present state of a flow.
    ///
    /// # Panics
    ///
    /// The flow has finished.
    pub fn flow(&self, host: usize, flow: FlowId) -> FlowInfo {
        self.hosts[host].flow(flow).expect("the flow is not finished")
    }

    /// Pauses the priority classes of a host whose bits are set in `paused`, and resumes the others.
    pub fn pause(&mut self, host: usize, paused: u8) {
        self.nics[host].paused = paused;
        self.poll_host(host);
    }

    /// Delivers `frame` to a host.
    pub fn inject(&mut self, host: usize, frame: &Frame) {
        self.hosts[host].receive(self.now, &frame.head, frame.payload);
        self.poll_host(host);
    }

    /// Handles all events up to and including `until`, and sets the clock to `until`.
    ///
    /// # Panics
    ///
    /// An event lies in the past, which is a bug of this module.
    pub fn run_until(&mut self, until: Time) {
        while let Some(entry) = self.event_queue.first_entry() {
            if entry.key().0 > until {
                break;
            }
            let ((now, _), event) = entry.remove_entry();
            assert!(now >= self.now);
            self.now = now;
            self.handle(event);
        }
        self.now = until;
    }

    /// Runs until all flows have finished.
    ///
    /// # Panics
    ///
    /// Flows are unfinished after `limit`, or no event is pending.
    pub fn run_to_end(&mut self, limit: Time) {
        while self.hosts.iter().any(|host| host.flow_count() > 0) {
            let ((next, _), _) =
                self.event_queue.first_key_value().expect("flows are unfinished but no event is pending");
            assert!(*next <= limit, "flows are unfinished after {limit}");
            let next = *next;
            self.run_until(next);
        }
    }

    /// Returns the flow completion times in the order in which flows finished.
    pub fn fcts(&self) -> Vec<Time> {
        let fct = |(_, event): &(usize, HostEvent)| match event {
            HostEvent::FlowFinished { start, end, .. } => Some(*end - *start),
            HostEvent::FlowFailed { .. } | HostEvent::MessageReceived { .. } | HostEvent::Policy(_) => None,
        };
        self.events.iter().filter_map(fct).collect()
    }

    fn schedule(&mut self, time: Time, event: Event) {
        self.next_seq += 1;
        self.event_queue.insert((time, self.next_seq), event);
    }

    fn handle(&mut self, event: Event) {
        if let Some((suspended, until)) = self.suspended
            && until > self.now
            && let Event::Wakeup { host } | Event::NicFree { host } | Event::AtHost { host, .. } = event
            && host == suspended
        {
            if let Event::Wakeup { .. } = event {
                // An earlier wakeup has replaced this one.
                if self.nics[host].wakeup_at != Some(self.now) {
                    return;
                }
                self.nics[host].wakeup_at = Some(until);
            }
            return self.schedule(until, event);
        }
        match event {
            // An earlier wakeup has replaced this one.
            Event::Wakeup { host } if self.nics[host].wakeup_at != Some(self.now) => {}
            Event::Wakeup { host } => {
                self.nics[host].wakeup_at = None;
                self.hosts[host].wakeup(self.now);
                self.poll_host(host);
            }
            Event::NicFree { host } => {
                self.nics[host].is_busy = false;
                self.poll_host(host);
            }
            Event::AtSwitch { from, frame } => {
                if frame.view().ip.destination() == POLICY_GROUP {
                    let others = (0..self.hosts.len()).filter(|&to| to != from);
                    return others.for_each(|to| self.enqueue(from, to, frame.clone()));
                }
                let to = usize::from(frame.view().ip.destination().octets()[3]) - 1;
                self.send_rate_notification(from, to, &frame);
                self.enqueue(from, to, frame);
            }
            Event::PortFree { port } => {
                self.ports[port].is_busy = false;
                self.transmit_next(port);
            }
            Event::AtHost { host, frame } => {
                self.hosts[host].receive(self.now, &frame.head, frame.payload);
                self.poll_host(host);
            }
        }
    }

    fn enqueue(&mut self, from: usize, to: usize, frame: Frame) {
        let port = &mut self.ports[to];
        port.queued_bytes += frame.len().get();
        self.peak_queue[to] = self.peak_queue[to].max(port.queued_bytes);
        port.queue.push_back(QueuedFrame { from, frame });
        self.transmit_next(to);
    }

    /// Does what the driver of a host does after each event: sends a frame if the NIC is free, collects events, and
    /// schedules the next wakeup.
    fn poll_host(&mut self, host: usize) {
        if !self.nics[host].is_busy {
            let mut head = [0; MAX_HEADER_LEN];
            let paused = self.nics[host].paused;
            let frame = match self.hosts[host].transmit(self.now, paused, &mut head) {
                Transmit::Frame { head_len, payload, class, flow } => {
                    Some((Frame { head: head[..head_len].to_vec(), payload }, class, flow))
                }
                Transmit::Policy { class } => {
                    let head = self.hosts[host].policy_frame().to_vec();
                    Some((Frame { head, payload: 0 }, class, None))
                }
                Transmit::Nothing => None,
            };
            if let Some((frame, class, flow)) = frame {
                assert_eq!(paused & 1 << class, 0, "the host sent a frame of a paused class");
                assert_eq!(internet_checksum(&frame.head[14..34]), 0);
                if let Some(flow) = flow {
                    self.check_window_and_pacing(host, flow, &frame);
                }
                self.nics[host].is_busy = true;
                let free = self.now + self.rate.tx_time(frame.len());
                self.schedule(free, Event::NicFree { host });
                self.schedule(free + self.link_delay, Event::AtSwitch { from: host, frame });
            }
        }
        while let Some(event) = self.hosts[host].poll_event() {
            self.events.push((host, event));
        }
        if let Some(next) = self.hosts[host].next_wakeup()
            && self.nics[host].wakeup_at.is_none_or(|scheduled| scheduled > next)
        {
            let next = next.max(self.now);
            self.nics[host].wakeup_at = Some(next);
            self.schedule(next, Event::Wakeup { host });
        }
    }

    fn check_window_and_pacing(&mut self, host: usize, flow: FlowId, frame: &Frame) {
        let info = self.flow(host, flow);
        let weir = frame.view().weir;
        let sender = &self.hosts[host];
        let subflow = sender.subflow(flow, usize::from(weir.subflow())).expect("a subflow of the message");
        // As in TCP, a fast retransmission is sent regardless of the window.
        let is_selective = sender.config().recovery() == LossRecovery::Selective;
        let is_fast_retransmission = is_selective && weir.flags().has(Flags::RETRANSMIT);
        let before = subflow.inflight.get().saturating_sub(u64::from(frame.payload));
        assert!(
            before < subflow.window.get() || is_fast_retransmission,
            "{before} B in flight, window {}",
            subflow.window
        );
        // A host that marks makes up for waits, for ten times the wait from which it marks.
        let max_backlog = sender.config().scheme.needs().source_marking.map_or(Time::ZERO, |wait| wait * 10);
        let mut sent_at = self.now.saturating_sub(max_backlog);
        if let Some(last) = self.nics[host].last_data.get(&flow) {
            let gap = info.rate.tx_time(last.len);
            assert!(
                self.now >= last.sent_at + gap,
                "sent {} after the previous packet, but pacing requires {gap}",
                self.now - last.sent_at
            );
            sent_at = sent_at.max(last.sent_at + gap);
        }
        self.nics[host].last_data.insert(flow, SentFrame { sent_at, len: frame.len() });
    }

    /// Sends the first frame in the queue of port `to`, unless the port is busy. Faults apply here.
    fn transmit_next(&mut self, to: usize) {
        if self.ports[to].is_busy {
            return;
        }
        let Some(QueuedFrame { from, mut frame }) = self.ports[to].queue.pop_front() else { return };
        self.ports[to].queued_bytes -= frame.len().get();
        if let Some(algorithm) = self.port_algorithm {
            let Port { queued_bytes, sent_bytes, .. } = self.ports[to];
            let sent_bytes = sent_bytes + frame.len().get();
            self.ports[to].reference.on_departure(&algorithm, self.rate, self.now, queued_bytes, sent_bytes);
            frame = self.lower_grant(from, frame);
        }
        frame = self.add_switch_id(frame);
        let weir = frame.view().weir;
        if self.adds_records && weir.flags().has(Flags::TELEMETRY) {
            let port = if matches!(weir.kind(), PacketKind::Ack | PacketKind::Nack) { from } else { to };
            frame = self.push_record(port, frame);
        }
        let len = frame.len();
        let port = &mut self.ports[to];
        port.sent_bytes += len.get();
        port.is_busy = true;
        let free = self.now + self.rate.tx_time(len);
        self.schedule(free, Event::PortFree { port: to });
        let arrival = free + self.link_delay;
        let Faults { loss, duplicate, reorder, mark, path: _ } = self.faults;
        if self.rng.random::<f64>() < loss {
            return;
        }
        if self.rng.random::<f64>() < mark || self.should_mark(to, &frame) {
            let mut repr = FrameRepr::parse(&frame.view());
            repr.ecn = Ecn::Ce;
            frame = rebuild(&repr, frame.view().records());
        }
        if self.rng.random::<f64>() < duplicate {
            self.schedule(arrival, Event::AtHost { host: to, frame: frame.clone() });
        }
        let extra_delay = if self.rng.random::<f64>() < reorder {
            // Ten full frames.
            self.rate.tx_time(Bytes::new(15_180)) * self.rng.random_range(1..=10) / 10
        } else {
            Time::ZERO
        };
        self.schedule(arrival + extra_delay, Event::AtHost { host: to, frame });
    }

    /// Lowers the grant of an ACK or NACK to the fair rate of port `from`, the egress port of the data that it
    /// acknowledges.
    fn lower_grant(&mut self, from: usize, frame: Frame) -> Frame {
        let view = frame.view();
        if !matches!(view.weir.kind(), PacketKind::Ack | PacketKind::Nack) {
            return frame;
        }
        let mut repr = FrameRepr::parse(&view);
        repr.weir.grant = repr.weir.grant.min(self.ports[from].reference.grant().unwrap_or(u32::MAX));
        rebuild(&repr, view.records())
    }

    /// For schemes with RATE packets: sends a RATE packet with the port's fair rate to the sender of a DATA packet that
    /// requests it. Called before the DATA packet joins the queue.
    fn send_rate_notification(&mut self, from: usize, to: usize, frame: &Frame) {
        let view = frame.view();
        if self.adds_records
            || view.weir.kind() != PacketKind::Data
            || !view.weir.flags().has(Flags::TELEMETRY)
        {
            return;
        }
        let flow = (from, view.weir.message());
        let Some(grant) = self.ports[to].reference.rate_notification(flow) else { return };
        let mut repr = FrameRepr::parse(&view);
        (repr.source, repr.destination) = (repr.destination, repr.source);
        repr.weir =
            WeirRepr { kind: PacketKind::Rate, flags: Flags::NONE, seq: to as u32, grant, ..repr.weir };
        repr.payload_len = 0;
        let rate_packet = rebuild(&repr, &[]);
        self.ports[from].queued_bytes += rate_packet.len().get();
        self.ports[from].queue.push_back(QueuedFrame { from: to, frame: rate_packet });
        self.transmit_next(from);
    }

    /// Returns whether to mark the frame, by the scheme's thresholds and the queue that it leaves behind. Draws a
    /// random number.
    fn should_mark(&mut self, port: usize, frame: &Frame) -> bool {
        let Some(EcnThresholds { kmin, kmax, pmax, reference_rate }) = self.ecn else {
            return false;
        };
        let queued =
            self.ports[port].queued_bytes as f64 * reference_rate.as_bps_f64() / self.rate.as_bps_f64();
        let probability = match (kmin.as_f64(), kmax.as_f64()) {
            (kmin, _) if queued <= kmin => 0.0,
            (_, kmax) if queued > kmax => 1.0,
            (kmin, kmax) => pmax.get() * (queued - kmin) / (kmax - kmin),
        };
        frame.view().ip.ecn() == Ecn::Ect0 && self.rng.random::<f64>() < probability
    }

    /// Adds a record of `port` in front of the frame's records, unless it has eight already or the format asks for
    /// congested ports only.
    fn push_record(&self, port: usize, frame: Frame) -> Frame {
        let view = frame.view();
        if usize::from(view.weir.int_hops()) == MAX_HOPS || view.weir.format().is_custom() {
            return frame;
        }
        let Port { queued_bytes: queued, sent_bytes, .. } = self.ports[port];
        if let Some(PortAlgorithm::Congestion(CongestionThreshold { queue, reference_rate })) =
            self.port_algorithm
            && view.weir.format().contains(RecordFormat::CONGESTED)
            && (queued as f64) < queue.as_f64() * self.rate.as_bps_f64() / reference_rate.as_bps_f64()
        {
            return frame;
        }
        let rate = RateCode::from_bandwidth(self.rate).expect("the rate has a code");
        let path = self.faults.path;
        let counter = sent_bytes + PATH_COUNTER_OFFSET * u64::from(path);
        let mut record =
            IntRecord::from_counters(rate, self.now.as_ns(), Bytes::new(counter), Bytes::new(queued));
        if view.weir.format().contains(RecordFormat::SOJOURN) {
            // If the queue is constant, the packet has waited for as long as the bytes behind it will take to send.
            let sojourn = self.rate.tx_time(Bytes::new(queued)).as_ns() / u64::from(IntRecord::SOJOURN_UNIT);
            record.queue_units = u16::try_from(sojourn).unwrap_or(u16::MAX);
        }
        if let Some((victim, tamper)) = self.tamper
            && [view.ip.source(), view.ip.destination()].contains(&addr(victim))
        {
            tamper(&mut record);
        }
        let mut records = Vec::new();
        if view.weir.format().contains(RecordFormat::LINK) {
            records.extend([0, path as u8 + 1, 0, port as u8]);
        }
        if view.weir.format().contains(RecordFormat::QUEUE) {
            // A queue share of 0: the port has no other queue.
            records.extend([0; 4]);
        }
        records.extend(record.pack().to_be_bytes());
        records.extend_from_slice(view.records());
        rebuild(&FrameRepr::parse(&view), &records)
    }

    /// XORs the switch id into the path id of a packet (`p4src/controls/switch_identity.p4`).
    fn add_switch_id(&self, frame: Frame) -> Frame {
        let view = frame.view();
        let mut repr = FrameRepr::parse(&view);
        repr.weir.path_id ^= self.faults.path + 1;
        let mut forwarded = rebuild(&repr, view.records());
        // POLICY packets and announcements have stored payload bytes behind the headers.
        let stored_payload = &frame.head[forwarded.head.len()..];
        forwarded.head.extend_from_slice(stored_payload);
        forwarded.payload -= stored_payload.len() as u32;
        forwarded
    }
}

/// Builds a frame from headers and records.
///
/// # Panics
///
/// The records do not fit a frame.
pub fn rebuild(repr: &FrameRepr, records: &[u8]) -> Frame {
    let mut head = vec![0; MAX_HEADER_LEN];
    let len = repr.emit(records, &mut head).expect("the records fit the frame");
    head.truncate(len);
    Frame { head, payload: repr.payload_len }
}
