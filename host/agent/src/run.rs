use super::admission;
use super::counters::{ReceivedTotals, host_counters, lateness_result};
use super::netlink::Netlink;
use super::nic::{Nic, SendOutcome};
use super::policy::{self, PolicyChannel, PolicyServer, ReportScope};
use super::port_guard::PortGuard;
use super::recorder::{Recorder, UnlistedMessages};
use super::results::{AgentResults, Ended, StartResult};
use super::sleeper::{PreciseSleeper, Wait};
use super::status::{Status, StatusPublisher};
use super::{AgentConfig, AgentError, Clock};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use weir_host::wire::{ETHERNET_LEN, FrameView, MacAddr};
use weir_host::{FlowSpec, Host, Transmit};
use weir_units::Time;

/// Maximum number of frames sent, or received, before the loop turns to the other direction.
const MAX_BATCH: usize = 64;
/// Maximum time between two checks of the stop flag.
const MAX_SLEEP: Time = Time::from_ms(50);
/// Maximum number of peers whose MAC address is stored.
const MAX_PEERS: usize = 4_096;
/// Offset of the IPv4 destination address in a frame.
const IPV4_DST_OFFSET: usize = ETHERNET_LEN + 16;
/// The loop compensates for lateness of up to the base RTT divided by this.
const CATCH_UP_DIVISOR: u64 = 4;
/// A raw socket does not learn of PFC, so no priority class is ever paused.
const NO_PAUSED_CLASSES: u8 = 0;
/// A received frame has all its payload in the buffer.
const NO_VIRTUAL_PAYLOAD: u32 = 0;

/// A host on a raw socket, ready to run.
pub struct Agent {
    config: AgentConfig,
    clock: Clock,
    /// Start of the run; the times of the plan are relative to it.
    epoch: Time,
    host: Host,
    nic: Nic,
    sleeper: PreciseSleeper,
    recorder: Recorder,
    /// Indices of flows not yet opened, in descending order of start: the next one is last.
    to_open: Vec<usize>,
    /// Stop time and index of flows not yet stopped, in descending order: the next one is last.
    to_stop: Vec<(Time, usize)>,
    /// Destination MAC address of each planned flow.
    next_hops: Vec<MacAddr>,
    /// Destination MAC addresses of control frames, by peer.
    reply_macs: BTreeMap<Ipv4Addr, MacAddr>,
    /// The latest time that was given to the host, which requires non-decreasing times.
    last_host_time: Time,
    /// Maximum lateness of the loop for which sending compensates.
    max_catch_up: Time,
    /// False if the host has returned `Transmit::Nothing` and nothing has happened since, so that asking again is
    /// useless.
    may_have_tx: bool,
    /// Time at which the loop noticed that all flows had ended.
    all_ended_at: Option<Time>,
    /// Why the run has ended; `None` while it continues.
    ended: Option<Ended>,
    policy_server: Option<PolicyServer>,
    status_publisher: Option<StatusPublisher>,
    _port_guard: PortGuard,
}

impl Agent {
    /// Creates an agent: opens its sockets and binds its ports.
    ///
    /// # Errors
    ///
    /// The configuration is invalid, a next hop is unknown, the start is in the past, or a socket cannot be opened.
    pub fn new(mut config: AgentConfig) -> Result<Agent, AgentError> {
        config.host.addr = config.interface.addr;
        config.host.mac = config.interface.mac;
        config.check()?;
        let clock = Clock::start();
        if let Some(policy) = &mut config.host.policy {
            // The host's clock starts at zero now. Timestamps of POLICY packets count from the Unix epoch, so that they
            // are later than those of earlier runs.
            (policy.start, policy.epoch_ns) = (clock.now(), clock.wall_ns(Time::ZERO));
        }
        let host = Host::new(config.host.clone())?;
        let next_hops = config.flows.iter().map(|flow| match flow.peer_mac {
            Some(mac) => Ok(mac),
            None => config.interface.next_hop(flow.peer),
        });
        let next_hops = next_hops.collect::<Result<Vec<_>, _>>()?;
        let port_guard = PortGuard::bind(config.interface.addr, &config.ports())?;
        let max_catch_up = Time::from_ps(config.host.base_rtt.as_ps() / CATCH_UP_DIVISOR);
        let nic = Nic::open(&config.interface, config.host.nic_rate, max_catch_up)?;
        let epoch = clock.resolve(config.start)?;
        // Receivers echo the path id in the grant field unless the scheme uses it.
        let has_echoed_path = config.host.scheme.needs().echoes_path_id();
        let recorder = Recorder::new(
            &config.flows,
            config.first_message,
            epoch,
            config.sample_interval,
            has_echoed_path,
        );
        let clock_time = |time: Time| epoch.saturating_add(time);
        let mut to_open: Vec<usize> = (0..config.flows.len()).collect();
        to_open.sort_by_key(|&index| std::cmp::Reverse((config.flows[index].start, index)));
        let flows = config.flows.iter().enumerate();
        let mut to_stop: Vec<_> =
            flows.filter_map(|(index, flow)| Some((clock_time(flow.stop?), index))).collect();
        to_stop.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Agent {
            sleeper: PreciseSleeper::new(config.max_spin),
            reply_macs: config.interface.neighbours().clone(),
            config,
            clock,
            epoch,
            host,
            nic,
            recorder,
            to_open,
            to_stop,
            next_hops,
            last_host_time: Time::ZERO,
            max_catch_up,
            may_have_tx: false,
            all_ended_at: None,
            ended: None,
            policy_server: None,
            status_publisher: None,
            _port_guard: port_guard,
        })
    }

    /// Answers policy requests from `channel` during the run, and restores the policies saved by an earlier run.
    ///
    /// # Errors
    ///
    /// The saved state cannot be used.
    pub fn with_policy(mut self, channel: PolicyChannel) -> Result<Agent, AgentError> {
        let now = self.clock.now();
        self.policy_server = Some(PolicyServer::open(channel, now, &mut self.host)?);
        Ok(self)
    }

    /// Updates `status` during the run.
    #[must_use]
    pub fn with_status(mut self, status: Arc<Mutex<Status>>) -> Agent {
        self.status_publisher = Some(StatusPublisher::new(status));
        self
    }

    /// Runs until the configured end, until `stop` is set, or until the interface disappears.
    pub fn run(mut self, stop: &AtomicBool) -> AgentResults {
        while self.ended.is_none() {
            let now = self.clock.now();
            self.recorder.sample(now, &self.host);
            self.open_and_stop(now);
            self.serve_policy(now);
            if let Some(publisher) = &mut self.status_publisher {
                let (recorder, waiting) = (&self.recorder, self.to_open.len());
                publisher.refresh(now, &self.host, self.nic.counters(), || recorder.flow_counts(waiting));
            }
            let sent = self.transmit();
            let received = self.receive();
            while let Some(event) = self.host.poll_event() {
                self.recorder.on_event(&event);
            }
            if self.nic.take_error() && !self.interface_exists() {
                self.end_interface_gone();
            }
            self.ended = self.ended.or_else(|| self.end_reason(now, stop));
            if !sent && !received && self.ended.is_none() {
                self.wait();
            }
        }
        self.results()
    }

    fn serve_policy(&mut self, now: Time) {
        let time = self.advance_host_time(now);
        if let Some(server) = &mut self.policy_server {
            self.may_have_tx |= server.serve(time, &mut self.host);
        }
    }

    fn end_reason(&mut self, now: Time, stop: &AtomicBool) -> Option<Ended> {
        let until = self.config.until;
        if stop.load(Ordering::Relaxed) {
            return Some(Ended::Interrupted);
        }
        if until.deadline.is_some_and(|deadline| now >= self.epoch.saturating_add(deadline)) {
            return Some(Ended::Deadline);
        }
        if until.flows_finished && self.recorder.have_all_ended() {
            // Linger for a base RTT: retransmissions and ACKs still on the way would otherwise reach the kernel without
            // the port guard, which would answer with ICMP errors.
            let all_ended_at = *self.all_ended_at.get_or_insert(now);
            return (now >= all_ended_at.saturating_add(self.config.host.base_rtt))
                .then_some(Ended::Finished);
        }
        None
    }

    /// Advances the host's time to `time` if that is later, and returns it: [`Host`] requires non-decreasing times,
    /// while this loop sometimes passes times in the past (see [`transmit`](Self::transmit)).
    fn advance_host_time(&mut self, time: Time) -> Time {
        self.last_host_time = self.last_host_time.max(time);
        self.last_host_time
    }

    fn next_open(&self) -> Option<Time> {
        self.to_open.last().map(|&index| self.epoch.saturating_add(self.config.flows[index].start))
    }

    fn open_and_stop(&mut self, now: Time) {
        while self.next_open().is_some_and(|at| at <= now) {
            let Some(index) = self.to_open.pop() else { break };
            let flow = &self.config.flows[index];
            let announcement = flow.announcement.clone();
            let spec = FlowSpec {
                peer: flow.peer,
                next_hop_mac: self.next_hops[index],
                entropy_port: flow.entropy_port,
                size: flow.size,
                message: self.config.first_message.wrapping_add(index as u32),
            };
            let time = self.advance_host_time(now);
            // Cannot fail: `AgentConfig::check` refuses empty flows, and the ids of a plan differ.
            if let Ok(id) = self.host.open(time, spec) {
                if let Some(announcement) = announcement {
                    // `AgentConfig::check` has verified that the announcement fits.
                    let _ = self.host.announce(id, &announcement);
                }
                self.recorder.on_flow_opened(index, id, time);
            }
            self.may_have_tx = true;
        }
        while let Some(&(_, index)) = self.to_stop.last().filter(|(at, _)| *at <= now) {
            self.to_stop.pop();
            if let Some(id) = self.recorder.open_flow(index) {
                let time = self.advance_host_time(now);
                self.host.stop(time, id);
                self.may_have_tx = true;
            }
        }
    }

    /// Sends up to [`MAX_BATCH`] frames. Returns true if it sent any.
    ///
    /// A loop that wakes up some microseconds late for each packet would send at a lower rate than the host decided.
    /// The host therefore gets the time of its deadline instead of the present time, unless the deadline is more than
    /// `max_catch_up` ago.
    fn transmit(&mut self) -> bool {
        for sent in 0..MAX_BATCH {
            let now = self.clock.now();
            let earliest = now.saturating_sub(self.max_catch_up);
            if let Some(due) = self.host.next_wakeup().filter(|&due| due <= now) {
                let time = self.advance_host_time(due.max(earliest));
                self.host.wakeup(time);
                self.may_have_tx = true;
            }
            if self.nic.free_at() > now {
                return sent > 0;
            }
            if self.nic.has_pending() {
                match self.nic.flush(now) {
                    SendOutcome::Sent => {}
                    SendOutcome::WouldBlock => return sent > 0,
                    SendOutcome::NoDevice => return self.end_interface_gone(),
                }
            }
            if !self.may_have_tx {
                return sent > 0;
            }
            let time = self.advance_host_time(self.nic.free_at().max(earliest));
            let (head_len, payload) = match self.host.transmit(time, NO_PAUSED_CLASSES, self.nic.head()) {
                Transmit::Frame { head_len, payload, flow, .. } => {
                    if flow.is_none() {
                        self.set_reply_mac();
                    }
                    (head_len, payload)
                }
                Transmit::Policy { .. } => (self.nic.load_frame(self.host.policy_frame()), 0),
                Transmit::Nothing => {
                    self.may_have_tx = false;
                    return sent > 0;
                }
            };
            match self.nic.send(now, head_len, payload) {
                SendOutcome::Sent => {}
                SendOutcome::WouldBlock => return true,
                SendOutcome::NoDevice => return self.end_interface_gone(),
            }
        }
        true
    }

    /// Returns whether the interface exists. True also if the query fails, so that the run does not end by mistake.
    fn interface_exists(&self) -> bool {
        let index = self.config.interface.index;
        !matches!(Netlink::open().and_then(|netlink| netlink.link(index)), Ok(None))
    }

    /// Ends the run. Returns false, the result of [`transmit`](Self::transmit) in that case.
    fn end_interface_gone(&mut self) -> bool {
        self.ended = Some(Ended::InterfaceGone);
        false
    }

    /// Overwrites the destination MAC address of a control frame with the one known for its destination: from the
    /// kernel's neighbour table, else learned from received frames. For unknown peers the address that the host wrote
    /// stays.
    fn set_reply_mac(&mut self) {
        let head = self.nic.head();
        let Some(&destination) = head.get(IPV4_DST_OFFSET..).and_then(|rest| rest.first_chunk::<4>()) else {
            return;
        };
        if let Some(mac) = self.reply_macs.get(&Ipv4Addr::from(destination)) {
            head[..mac.len()].copy_from_slice(mac);
        }
    }

    /// Receives up to [`MAX_BATCH`] frames. Returns true if it received any.
    fn receive(&mut self) -> bool {
        for received in 0..MAX_BATCH {
            let now = self.clock.now();
            self.last_host_time = self.last_host_time.max(now);
            let Agent { config, nic, host, recorder, reply_macs, .. } = self;
            let was_received = nic.receive(|frame| {
                if let Err(reason) = admission::check(frame, config.interface.mac, config.interface.addr) {
                    return host.count_drop(reason);
                }
                let before = ReceivedTotals::of(host.stats());
                host.receive(now, frame, NO_VIRTUAL_PAYLOAD);
                let after = ReceivedTotals::of(host.stats());
                if after.frames > before.frames
                    && let Ok(frame) = FrameView::new(frame, NO_VIRTUAL_PAYLOAD)
                {
                    recorder.on_frame(now, &frame, after.payload - before.payload);
                    learn_mac(reply_macs, &frame);
                }
            });
            if !was_received {
                return received > 0;
            }
            self.may_have_tx = true;
        }
        true
    }

    /// Waits for the next frame or deadline.
    fn wait(&mut self) {
        let now = self.clock.now();
        // Precise deadlines are worth spinning for, because they decide when frames leave; the relaxed ones may be some
        // microseconds late.
        let nic_free = (self.may_have_tx || self.nic.has_pending()).then(|| self.nic.free_at());
        // If the kernel's queue is full, the sleeper waits for the socket to become writable instead.
        let nic_free = nic_free.filter(|_| !self.nic.is_queue_full());
        let precise = [self.host.next_wakeup(), nic_free, self.next_open()];
        let precise = precise.into_iter().flatten().min();
        let stop = self.to_stop.last().map(|&(at, _)| at);
        let deadline = self.config.until.deadline.map(|deadline| self.epoch.saturating_add(deadline));
        let linger_end = self.all_ended_at.map(|ended_at| ended_at.saturating_add(self.config.host.base_rtt));
        let relaxed =
            [stop, deadline, linger_end, self.recorder.next_sample(), Some(now.saturating_add(MAX_SLEEP))];
        let relaxed = relaxed.into_iter().flatten().min().unwrap_or(now);
        let due = precise.map_or(relaxed, |precise| precise.min(relaxed));
        if due > now {
            let is_precise = precise.is_some_and(|precise| precise <= relaxed);
            let wait = Wait { deadline: due, is_precise, ends_when_writable: self.nic.is_queue_full() };
            self.sleeper.wait(&self.clock, self.nic.fd(), wait);
        }
    }

    fn results(mut self) -> AgentResults {
        let now = self.clock.now();
        if let Some(server) = self.policy_server.take() {
            server.save_final(now, &self.host);
        }
        let host = &self.config.host;
        let scheme = &host.scheme;
        let parameters = scheme.values().into_iter().map(|(name, value)| (name.to_owned(), value));
        let UnlistedMessages { count: received_unlisted, payload: unlisted_payload } =
            self.recorder.unlisted();
        AgentResults {
            iface: self.config.interface.name.clone(),
            addr: host.addr,
            scheme: scheme.name().to_owned(),
            parameters: parameters.collect(),
            rate_bps: host.nic_rate.as_bps(),
            mtu_bytes: host.mtu.get(),
            base_rtt_ns: host.base_rtt.as_ns(),
            start: StartResult {
                monotonic_ns: self.clock.monotonic_ns(self.epoch),
                wall_ns: self.clock.wall_ns(self.epoch),
            },
            ran_ns: now.saturating_sub(self.epoch).as_ns(),
            ended: self.ended.unwrap_or(Ended::Interrupted),
            flows: self.recorder.flow_results(now, &self.host),
            received: self.recorder.received_results(),
            received_unlisted,
            received_unlisted_bytes: unlisted_payload.get(),
            transport: host_counters(self.host.stats())
                .into_iter()
                .map(|(name, n)| (name.into(), n))
                .collect(),
            drops: self.host.stats().drops.iter().map(|(reason, n)| (reason.name().into(), n)).collect(),
            nic: self.nic.counters().clone(),
            lateness: lateness_result(self.sleeper.lateness()),
            sample_ns: self.config.sample_interval.map(Time::as_ns),
            series_cut: self.recorder.is_truncated(),
            policy: policy::report(now, &self.host, ReportScope::Held),
        }
    }
}

/// Stores the source MAC address of a peer's frame, unless one is known from the kernel or an earlier frame.
fn learn_mac(reply_macs: &mut BTreeMap<Ipv4Addr, MacAddr>, frame: &FrameView<'_>) {
    let peer = frame.ip.source();
    if !reply_macs.contains_key(&peer) && reply_macs.len() < MAX_PEERS {
        reply_macs.insert(peer, frame.ethernet.source());
    }
}
