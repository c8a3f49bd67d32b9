//! Runs an experiment: every scheme by itself on a fresh fabric, the same flows, the same seed.

use crate::arrivals::Arrivals;
use crate::assemble::Blueprint;
use crate::deadlock;
use crate::events::{Event, MAX_INDEX};
use crate::flows::{Active, FlowTable};
use crate::happen::Happenings;
use crate::network::Network;
use crate::parallel;
use crate::recorder::{FlowSample, Recorder};
use crate::tally;
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::time::Instant;
use weir_controller::topology::HostIx;
use weir_controller::{Routes, routes};
use weir_experiment::backend::{Backend, Error, Observer, Outcome, Progress};
use weir_experiment::fct;
use weir_experiment::file::Names;
use weir_experiment::paths;
use weir_experiment::results::{
    DeadlockSummary, Heading, PacketSummary, Part, PauseRecord, Results, SchemeSummary, SchemeTrace,
};
use weir_experiment::slowdown::FirstSlowdown;
use weir_experiment::workload::{Announced, Ended, Feed};
use weir_experiment::{Experiment, Flow, Scheme};
use weir_host::{Announcement, FlowSpec, HostEvent};
use weir_switch::program::Engine;
use weir_units::{Bandwidth, Bytes, Time};

/// Events between two looks at the observer.
const EVENTS_PER_LOOK: u32 = 1 << 16;
/// Virtual time between two searches for a deadlock, at least. Ours: many round trips, so that a search costs little.
const DEADLOCK_INTERVAL: Time = Time::from_us(100);

/// Virtual time, as a backend.
#[derive(Clone, Copy, Debug)]
pub struct VirtualTime {
    /// Schemes that run at a time, each on a thread of its own. The results do not depend on it.
    pub jobs: usize,
    /// The engine of the switches' programs. The results do not depend on it.
    pub engine: Engine,
    /// Keeps the paths of a sample of packets ([`SchemeTrace::packets`]).
    pub packets: bool,
}

impl VirtualTime {
    /// Runs `jobs` schemes at a time on the fast engine.
    pub fn new(jobs: usize) -> VirtualTime {
        VirtualTime { jobs, engine: Engine::default(), packets: false }
    }
}

impl Backend for VirtualTime {
    fn run(&self, experiment: &Experiment, observer: &mut dyn Observer) -> Result<Outcome, Error> {
        let results = run_on(experiment, *self, observer)?;
        Ok(Outcome { results, fabric: None, failure: None })
    }
}

/// Runs all schemes of `experiment`, one after the other, on the fast engine.
///
/// # Errors
///
/// If the experiment does not fit the simulator, a switch or a host.
pub fn run(experiment: &Experiment, observer: &mut dyn Observer) -> Result<Results, Error> {
    run_on(experiment, VirtualTime::new(1), observer)
}

/// Runs all schemes of `experiment`.
///
/// # Errors
///
/// As of [`run`].
pub fn run_on(
    experiment: &Experiment,
    VirtualTime { jobs, engine, packets }: VirtualTime,
    observer: &mut dyn Observer,
) -> Result<Results, Error> {
    let began = Instant::now();
    let (spec, schemes) = (&experiment.spec, &experiment.schemes);
    let names = experiment.topology.links.len() * 2 + experiment.topology.hosts.len();
    if names > MAX_INDEX as usize {
        let why = format!("{names} links and hosts are more than this simulator can name, {MAX_INDEX}");
        return Err(Error::Input(format!("topology: {why}")));
    }
    let routes =
        routes(&experiment.topology, spec.routing).map_err(|e| Error::Input(format!("topology: {e}")))?;
    let one = |index: usize, observer: &mut dyn Observer| {
        let mut run = SchemeRun::new(experiment, &schemes[index], &routes, engine)?;
        run.network.packets = packets.then(Box::default);
        let flow = run.go((index, schemes.len()), observer);
        Ok((run.part(index), flow))
    };
    let (mut parts, mut partial) = (Vec::new(), false);
    if jobs > 1 && schemes.len() > 1 {
        let labels: Vec<&str> = schemes.iter().map(|scheme| scheme.label.as_str()).collect();
        let (done, whole) = parallel::run_all(&labels, jobs, observer, one)?;
        (parts, partial) = (done, !whole);
    } else {
        for index in 0..schemes.len() {
            let (part, flow) = one(index, observer)?;
            partial = flow.is_break();
            if observer.keeps(index) {
                observer.keep(part.clone());
            }
            parts.push(part);
            if partial {
                break;
            }
        }
    }
    let wall_s = began.elapsed().as_secs_f64();
    let heading = Heading { experiment: spec.name.clone(), seed: spec.seed, wall_s, partial };
    Ok(Results::gather(heading, parts))
}

/// Something the workload sets for a point in time: a flow, by index.
#[derive(Clone, Copy, Debug)]
enum Item {
    Start(usize),
    Stop(usize),
}

fn agenda(flows: &[Flow]) -> VecDeque<(Time, Item)> {
    let starts = flows.iter().enumerate().map(|(i, f)| (f.start, Item::Start(i)));
    let stops = flows.iter().enumerate().filter_map(|(i, f)| Some((f.stop?, Item::Stop(i))));
    let mut all: Vec<_> = starts.chain(stops).collect();
    all.sort_by_key(|(time, _)| *time); // stable: ties keep the order of the flows, starts first
    all.into()
}

/// One scheme's run.
struct SchemeRun<'e> {
    experiment: &'e Experiment,
    routes: &'e Routes,
    network: Network,
    recorder: Recorder,
    now: Time,
    flows: FlowTable,
    /// Events known in advance, by time.
    agenda: VecDeque<(Time, Item)>,
    /// Flows that are made as time goes on, and their names.
    feed: Feed,
    names: Names<'e>,
    /// Senders by address, if a source needs to know what arrives.
    senders: HashMap<Ipv4Addr, HostIx>,
    /// Time at which the next `Flow` event is due.
    next_flow: Option<Time>,
    slowdown: Option<FirstSlowdown>,
    happenings: Happenings<'e>,
    window_start: Time,
    /// Time at which a deadlock was last searched for.
    searched: Time,
    /// The deadlock that ended the run.
    deadlock: Option<DeadlockSummary>,
}

impl<'e> SchemeRun<'e> {
    fn new(
        experiment: &'e Experiment,
        scheme: &'e Scheme,
        routes: &'e Routes,
        engine: Engine,
    ) -> Result<Self, Error> {
        let blueprint = Blueprint::new(experiment, scheme, routes, engine)?;
        let (mut network, base_rtt) = (blueprint.build()?, blueprint.base_rtt);
        let happenings = Happenings::new(experiment, blueprint, &mut network);
        let (spec, topology, flows) = (&experiment.spec, &experiment.topology, &experiment.flows);
        let ports = paths::observed_ports(experiment, routes);
        let feed = experiment.feed();
        let arrivals = || Box::new(Arrivals::new(&spec.observe.size_classes));
        network.arrivals = spec.observe.packets.then(arrivals);
        let addresses = topology.host_ixs().map(|ix| (topology.host(ix).ip, ix)).collect();
        let names = flows[..experiment.watched_flows()].iter().map(|f| f.name.clone()).collect();
        let recorder = Recorder::new(topology, &network, spec.observe.interval, &ports, names);
        Ok(SchemeRun {
            experiment,
            routes,
            recorder,
            now: Time::ZERO,
            flows: FlowTable::new(topology, flows.len()),
            agenda: agenda(flows),
            senders: if feed.is_closed() { addresses } else { HashMap::new() },
            feed,
            names: Names::new(topology, flows),
            next_flow: None,
            slowdown: experiment.first_join().map(|join| FirstSlowdown::new(join, base_rtt)),
            happenings,
            window_start: experiment.fairness_window_start(),
            searched: Time::ZERO,
            deadlock: None,
            network,
        })
    }

    fn go(&mut self, (index, of): (usize, usize), observer: &mut dyn Observer) -> ControlFlow<()> {
        let end = self.experiment.spec.duration;
        self.await_flow();
        self.network.events.push(self.experiment.spec.observe.interval, Event::Sample);
        self.happenings.begin(&mut self.network);
        let mut until_look = 0;
        while let Some((time, event)) = self.network.events.pop() {
            if time > end {
                break;
            }
            self.now = time;
            self.network.look_ahead();
            match event {
                Event::Flow => self.follow_agenda(),
                Event::Sample => {
                    self.sample();
                    if self.is_deadlocked() {
                        return ControlFlow::Continue(());
                    }
                }
                Event::Happening => {
                    let happened = self.happenings.happen(time, &mut self.network);
                    happened.expect("the same switches and tables were accepted before");
                }
                other => self.network.handle(time, other),
            }
            if self.drain_hosts() && self.is_idle() {
                return ControlFlow::Continue(());
            }
            if until_look == 0 {
                until_look = EVENTS_PER_LOOK;
                let packet_hops = self.network.packet_hops;
                let scheme = &self.experiment.schemes[index].label;
                observer.progress(&Progress { scheme, index, of, now: time, end, packet_hops })?;
                while let Some(change) = observer.link_change() {
                    self.happenings.change_link(time, &mut self.network, change);
                }
                if observer.keeps(index) {
                    observer.keep(self.part(index));
                }
            }
            until_look -= 1;
        }
        self.now = end;
        ControlFlow::Continue(())
    }

    /// Returns the time at which the next flow starts or stops, as far as is known now.
    fn next_item(&self) -> Option<Time> {
        let listed = self.agenda.front().map(|(time, _)| *time);
        listed.into_iter().chain(self.feed.due()).min()
    }

    /// Sees to it that there is an event when the next flow starts or stops.
    fn await_flow(&mut self) {
        if let Some(next) = self.next_item().filter(|&next| self.next_flow.is_none_or(|due| next < due)) {
            self.network.events.push(next, Event::Flow);
            self.next_flow = Some(next);
        }
    }

    /// Starts and stops the flows whose time has come.
    fn follow_agenda(&mut self) {
        if self.next_flow == Some(self.now) {
            self.next_flow = None;
        }
        while let Some(due) = self.next_item().filter(|&due| due <= self.now) {
            match self.agenda.front() {
                Some(&(time, item)) if time == due => {
                    self.agenda.pop_front();
                    match item {
                        Item::Start(listed) => {
                            let experiment = self.experiment;
                            let record = self.start_flow(&experiment.flows[listed], None);
                            self.flows.list(listed, record);
                        }
                        Item::Stop(listed) => self.stop_flow(listed),
                    }
                }
                _ => {
                    let Some((source, arrival, random)) = self.feed.take(due) else { break };
                    let tag = arrival.tag;
                    let flow = self.names.flow(arrival, random);
                    self.start_flow(&flow, Some((source, tag)));
                }
            }
        }
        self.await_flow();
    }

    /// Opens a flow; `source` made it, and calls it by that tag. Gives the place of its record.
    fn start_flow(&mut self, flow: &Flow, source: Option<(usize, u32)>) -> u32 {
        let peer = self.experiment.topology.host(flow.to);
        let message = self.flows.message(flow.from);
        let spec = FlowSpec {
            peer: peer.ip,
            peer_mac: peer.mac,
            entropy_port: flow.entropy_port,
            size: flow.size,
            message,
        };
        if let (Some(arrivals), Some(size)) = (&mut self.network.arrivals, flow.size) {
            arrivals.expect(self.experiment.topology.host(flow.from).ip, message, size);
        }
        let nic = &mut self.network.nics[flow.from.0 as usize];
        let opened = nic.host.open(self.now, spec);
        let id = opened.expect("message ids are fresh and sizes are checked");
        if let Some(Announced { incast, senders }) = &flow.announces {
            let senders = senders.iter().map(|&host| self.experiment.topology.host(host).ip).collect();
            let announcement = Announcement { incast: *incast, senders };
            nic.host.announce(id, &announcement).expect("the list was checked");
        }
        let ideal = flow.size.and_then(|size| paths::ideal(self.experiment, self.routes, flow, size));
        let record = self.flows.start(flow, (id, message), ideal, source);
        self.network.kick(self.now, flow.from.0);
        record
    }

    fn stop_flow(&mut self, listed: usize) {
        let record = self.flows.listed(listed);
        if let Some(&Active { id, from, .. }) = record.and_then(|record| self.flows.active(record)) {
            self.network.nics[from.0 as usize].host.stop(self.now, id);
            self.network.kick(self.now, from.0);
        }
    }

    /// Returns whether the run is over before its time.
    fn is_idle(&self) -> bool {
        self.experiment.spec.until_idle && !self.flows.busy() && self.next_item().is_none()
    }

    /// Takes what hosts have to report, and looks after the first flow's rate. Says whether a flow has finished.
    fn drain_hosts(&mut self) -> bool {
        let (mut finished, mut heard) = (false, false);
        while let Some(index) = self.network.touched.pop() {
            let nic = &mut self.network.nics[index as usize];
            while let Some(event) = nic.host.poll_event() {
                match event {
                    HostEvent::FlowFinished { message, end, bytes, retransmits, .. } => {
                        finished = true;
                        let ended = self.flows.finish(HostIx(index), message, (end, bytes, retransmits));
                        if let Some(Active { to, source: Some((source, tag)), .. }) = ended {
                            self.feed.finished(source, Ended { to, tag }, self.now);
                            heard = true;
                        }
                    }
                    HostEvent::MessageReceived { peer, message, .. } => {
                        let sender = self.senders.get(&peer);
                        let flow = sender.and_then(|&sender| self.flows.of_message(sender, message));
                        if let Some(&Active { to, source: Some((source, tag)), .. }) = flow {
                            self.feed.received(source, Ended { to, tag }, self.now);
                            heard = true;
                        }
                    }
                    HostEvent::Policy(event) => self.happenings.report(self.now, &event),
                }
            }
            if self.slowdown.is_some() && self.experiment.flows[0].from.0 == index {
                self.watch_first_flow();
            }
        }
        if heard {
            self.await_flow();
        }
        finished
    }

    fn watch_first_flow(&mut self) {
        let rate = self.flow_view(0).map(|view| view.rate);
        if let (Some(slowdown), Some(rate)) = (&mut self.slowdown, rate) {
            slowdown.observe(self.now, rate);
        }
    }

    fn view(&self, flow: &Active) -> Option<weir_host::FlowView> {
        self.network.nics[flow.from.0 as usize].host.flow(flow.id)
    }

    /// Returns the experiment's flow of this number, while it is active.
    fn flow_view(&self, listed: usize) -> Option<weir_host::FlowView> {
        self.view(self.flows.active(self.flows.listed(listed)?)?)
    }

    /// Payload of the experiment's flow of this number that was acknowledged.
    fn acked(&self, listed: usize) -> Bytes {
        let Some(record) = self.flows.listed(listed) else { return Bytes::ZERO };
        match self.flows.active(record) {
            Some(flow) => self.view(flow).map_or(Bytes::ZERO, |view| view.acked),
            None => self.flows.record(record).acked,
        }
    }

    fn sample(&mut self) {
        let interval = self.experiment.spec.observe.interval;
        self.network.events.push(self.now + interval, Event::Sample);
        if self.now >= self.window_start {
            let nics = &self.network.nics;
            for flow in self.flows.all_active_mut() {
                let view = nics[flow.from.0 as usize].host.flow(flow.id);
                flow.acked_before_window = Some(view.map_or(Bytes::ZERO, |view| view.acked));
            }
            // Flows that start within the window are not compared: only its first sample counts.
            self.window_start = Time::MAX;
        }
        let flows: Vec<FlowSample> = (0..self.recorder.watched_flows())
            .map(|flow| {
                let rate = self.flow_view(flow).map_or(Bandwidth::ZERO, |view| view.rate);
                FlowSample { rate, acked: self.acked(flow) }
            })
            .collect();
        self.happenings.sample(self.now, &self.network);
        self.recorder.sample(&self.network, &flows);
    }

    /// Returns whether ports wait for each other for good, so that the run ends here.
    fn is_deadlocked(&mut self) -> bool {
        let due = self.network.pauses_held > 0 && self.now - self.searched >= DEADLOCK_INTERVAL;
        if !due || !self.happenings.is_over() {
            return false;
        }
        self.searched = self.now;
        let found = deadlock::find(&self.network);
        self.deadlock = found.map(|it| it.summarise(&self.experiment.topology, self.now));
        self.deadlock.is_some()
    }

    /// Sums up what has happened until now.
    fn part(&self, index: usize) -> Part {
        let (summary, trace) = self.summarise();
        let label = self.experiment.schemes[index].label.clone();
        let (packet_hops, fingerprint) = (self.network.packet_hops, self.network.fingerprint);
        Part { index, label, summary, trace, now: self.now, packet_hops, fingerprint }
    }

    fn summarise(&self) -> (SchemeSummary, SchemeTrace) {
        let (topology, network) = (&self.experiment.topology, &self.network);
        let (queues, utilisation) = self.recorder.summarise(topology, network, self.now);
        let flows = self.flows.records(|flow| self.view(flow).map(|view| (view.acked, view.retransmits)));
        let pauses: Vec<PauseRecord> = network
            .pfc_log
            .iter()
            .map(|&(time, switch, port, frame)| PauseRecord {
                time,
                switch: topology.switch(switch).name.clone(),
                port,
                priority: frame.priority,
                on: frame.on,
            })
            .collect();
        let mut counts = tally::count(network);
        counts.add(&self.happenings.before);
        let summary = SchemeSummary {
            queues,
            utilisation,
            first_slowdown_us: self.slowdown.and_then(|it| it.at()).map(Time::as_us_f64),
            jain: fct::jain(&self.goodputs_in_window()),
            drops: counts.drops,
            marks: counts.marks,
            pauses: pauses.iter().filter(|p| p.on).count() as u64,
            deflections: counts.deflections,
            retransmits: counts.retransmits,
            timeouts: counts.timeouts,
            suppressions: counts.suppressions,
            fct: fct::summarise(&flows, &self.experiment.spec.observe.size_classes),
            jobs: fct::job_times(self.feed.job_times()),
            deadlock: self.deadlock.clone(),
            policy: self.happenings.summarise(self.now, network),
            packets: self.packets(),
        };
        let interval = self.experiment.spec.observe.interval;
        let end = self.now;
        let (ports, rates) = self.recorder.series();
        let packets = network.packets.as_ref().map(|packets| packets.paths(topology)).unwrap_or_default();
        (summary, SchemeTrace { interval, end, ports, rates, pauses, flows, packets })
    }

    /// Returns what packets cost and what befell them, if that was counted.
    fn packets(&self) -> Option<PacketSummary> {
        let network = &self.network;
        let arrivals = network.arrivals.as_ref()?;
        Some(PacketSummary {
            packet_hops: network.packet_hops,
            link_bytes: network.directions.iter().map(|direction| direction.sent.get()).sum(),
            classes: arrivals.summarise(),
        })
    }

    /// Payload acknowledged within the fairness window by each flow that ran all through it.
    fn goodputs_in_window(&self) -> Vec<f64> {
        let goodput = |flow: &Active| {
            let acked = self.view(flow).map_or(Bytes::ZERO, |view| view.acked);
            Some(acked.saturating_sub(flow.acked_before_window?).as_f64())
        };
        self.flows.all_active().filter_map(|(_, flow)| goodput(flow)).collect()
    }
}
