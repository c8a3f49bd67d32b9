//! Runs an experiment: every scheme by itself on a fresh fabric, the same flows, the same seed.

use crate::assemble::{Assembly, assemble};
use crate::events::{Event, MAX_INDEX};
use crate::experiment::{Experiment, Flow, Scheme};
use crate::fct;
use crate::happen::Happenings;
use crate::network::Network;
use crate::paths;
use crate::recorder::{FlowSample, Recorder};
use crate::results::{FlowRecord, Heading, Part, PauseRecord, Results, SchemeSummary, SchemeTrace};
use crate::tally;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Instant;
use weir_controller::{Routes, routes};
use weir_host::{FlowId, FlowSpec, HostEvent};
use weir_units::{Bandwidth, Bytes, Time};

/// Events between two looks at the observer.
const EVENTS_PER_LOOK: u32 = 1 << 16;
/// "Slows down" means: falls below this share of its least rate in the window before the join.
pub const SLOWDOWN_SHARE: f64 = 0.9;
/// That window, in base RTTs: HPCC moves its reference once per RTT, so four hold its ripple.
pub const SLOWDOWN_RTTS: u64 = 4;

/// Why a checked experiment cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A committed program does not load.
    #[error("p4src/build/{0}")]
    Artifact(String),
    /// There are no routes.
    #[error("topology: {0}")]
    Routes(String),
    /// The routes do not fit the program.
    #[error("plan: {0}")]
    Plan(String),
    /// A switch refuses its configuration.
    #[error("switch {name}: {why}")]
    Switch {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
    /// A host refuses its configuration.
    #[error("host {name}: {why}")]
    Host {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
    /// The fabric is larger than an event can name.
    #[error("topology: {0} links and hosts are more than this simulator can name, {MAX_INDEX}")]
    TooLarge(usize),
}

/// How far a run has come.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// The scheme that runs.
    pub scheme: &'a str,
    /// Which one it is, from 0.
    pub index: usize,
    /// Of how many.
    pub of: usize,
    /// Virtual time reached.
    pub now: Time,
    /// Virtual time to reach.
    pub end: Time,
    /// Packet-hops of this scheme so far.
    pub packet_hops: u64,
}

/// Who watches a run, and may break it off: what has been simulated until then is still reported.
pub trait Observer {
    /// Called every so often.
    fn progress(&mut self, progress: &Progress<'_>) -> ControlFlow<()>;

    /// Whether it wants to keep what scheme number `index` has come to by now; asked as often, and at the
    /// scheme's end.
    fn keeps(&mut self, _index: usize) -> bool {
        false
    }

    /// Keeps it.
    fn keep(&mut self, _part: Part) {}
}

/// Watches nothing.
impl Observer for () {
    fn progress(&mut self, _: &Progress<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Runs all schemes of `experiment`.
pub fn run(experiment: &Experiment, observer: &mut dyn Observer) -> Result<Results, RunError> {
    let began = Instant::now();
    let spec = &experiment.spec;
    let names = experiment.topology.links.len() * 2 + experiment.topology.hosts.len();
    if names > MAX_INDEX as usize {
        return Err(RunError::TooLarge(names));
    }
    let routes = routes(&experiment.topology, spec.routing).map_err(|e| RunError::Routes(e.to_string()))?;
    let (mut parts, mut partial) = (Vec::new(), false);
    for (index, scheme) in experiment.schemes.iter().enumerate() {
        let mut run = SchemeRun::new(experiment, scheme, &routes)?;
        partial = run.go((index, experiment.schemes.len()), observer).is_break();
        let part = run.part(index);
        if observer.keeps(index) {
            observer.keep(part.clone());
        }
        parts.push(part);
        if partial {
            break;
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

/// A flow while it runs.
#[derive(Clone, Copy, Debug, Default)]
struct Progression {
    id: Option<FlowId>,
    finished: Option<(Time, Bytes, u64)>,
    acked_before_window: Option<Bytes>,
}

/// Watches for the moment when the first flow gives way to one that joined later.
struct SlowdownProbe {
    join: Time,
    /// Its least rate in the window before the join.
    floor: Bandwidth,
    window: Time,
    at: Option<Time>,
}

/// One scheme's run.
struct SchemeRun<'e> {
    experiment: &'e Experiment,
    routes: &'e Routes,
    assembly: Assembly,
    recorder: Recorder,
    now: Time,
    /// Parallel to `experiment.flows`.
    flows: Vec<Progression>,
    /// Host -> message id -> index of the flow: message ids are dense per host.
    messages: Vec<Vec<u32>>,
    /// What the workload sets, by time.
    agenda: VecDeque<(Time, Item)>,
    slowdown: Option<SlowdownProbe>,
    happenings: Happenings<'e>,
    window_start: Time,
}

impl<'e> SchemeRun<'e> {
    fn new(experiment: &'e Experiment, scheme: &'e Scheme, routes: &'e Routes) -> Result<Self, RunError> {
        let mut assembly = assemble(experiment, scheme, routes)?;
        let happenings = Happenings::new(experiment, scheme, routes, &mut assembly);
        let (spec, topology, flows) = (&experiment.spec, &experiment.topology, &experiment.flows);
        let ports = paths::observed_ports(experiment, routes);
        let names = flows[..experiment.watched_flows()].iter().map(|f| f.name.clone()).collect();
        let recorder = Recorder::new(topology, &assembly.network, spec.observe.interval, &ports, names);
        Ok(SchemeRun {
            experiment,
            routes,
            recorder,
            now: Time::ZERO,
            flows: vec![Progression::default(); flows.len()],
            messages: vec![Vec::new(); topology.hosts.len()],
            agenda: agenda(flows),
            slowdown: experiment.first_join().map(|join| SlowdownProbe {
                join,
                floor: Bandwidth::from_bps(u64::MAX),
                window: assembly.base_rtt * SLOWDOWN_RTTS,
                at: None,
            }),
            happenings,
            window_start: experiment.fairness_window_start(),
            assembly,
        })
    }

    fn network(&self) -> &Network {
        &self.assembly.network
    }

    fn go(&mut self, (index, of): (usize, usize), observer: &mut dyn Observer) -> ControlFlow<()> {
        let end = self.experiment.spec.duration;
        if let Some(&(first, _)) = self.agenda.front() {
            self.assembly.network.events.push(first, Event::Flow);
        }
        self.assembly.network.events.push(self.experiment.spec.observe.interval, Event::Sample);
        self.happenings.begin(&mut self.assembly.network);
        let mut until_look = 0;
        while let Some((time, event)) = self.assembly.network.events.pop() {
            if time > end {
                break;
            }
            self.now = time;
            self.assembly.network.look_ahead();
            match event {
                Event::Flow => self.follow_agenda(),
                Event::Sample => self.sample(),
                Event::Happening => {
                    let happened = self.happenings.happen(time, &mut self.assembly.network);
                    happened.expect("the same switches and tables were accepted before");
                }
                other => self.assembly.network.handle(time, other),
            }
            self.drain_hosts();
            if until_look == 0 {
                until_look = EVENTS_PER_LOOK;
                let packet_hops = self.network().packet_hops;
                let scheme = &self.experiment.schemes[index].label;
                observer.progress(&Progress { scheme, index, of, now: time, end, packet_hops })?;
                if observer.keeps(index) {
                    observer.keep(self.part(index));
                }
            }
            until_look -= 1;
        }
        self.now = end;
        ControlFlow::Continue(())
    }

    /// Does what the workload has set for now.
    fn follow_agenda(&mut self) {
        while let Some(&(time, item)) = self.agenda.front() {
            if time > self.now {
                self.assembly.network.events.push(time, Event::Flow);
                return;
            }
            self.agenda.pop_front();
            match item {
                Item::Start(flow) => self.start_flow(flow),
                Item::Stop(flow) => self.stop_flow(flow),
            }
        }
    }

    fn start_flow(&mut self, index: usize) {
        let flow = &self.experiment.flows[index];
        let peer = self.experiment.topology.host(flow.to);
        let messages = &mut self.messages[flow.from.0 as usize];
        let message = messages.len() as u32;
        messages.push(index as u32);
        let spec = FlowSpec {
            peer: peer.ip,
            peer_mac: peer.mac,
            entropy_port: flow.entropy_port,
            size: flow.size,
            message,
        };
        let nic = &mut self.assembly.network.nics[flow.from.0 as usize];
        let opened = nic.host.open(self.now, spec);
        let id = opened.expect("message ids are fresh and sizes are checked");
        if !flow.announces.is_empty() {
            let senders: Vec<_> =
                flow.announces.iter().map(|&host| self.experiment.topology.host(host).ip).collect();
            nic.host.announce(id, &senders).expect("the list was checked");
        }
        self.flows[index].id = Some(id);
        self.assembly.network.kick(self.now, flow.from.0);
    }

    fn stop_flow(&mut self, index: usize) {
        let host = self.experiment.flows[index].from.0;
        if let Some(id) = self.flows[index].id {
            self.assembly.network.nics[host as usize].host.stop(self.now, id);
            self.assembly.network.kick(self.now, host);
        }
    }

    /// Takes what hosts have to report, and looks after the first flow's rate.
    fn drain_hosts(&mut self) {
        while let Some(index) = self.assembly.network.touched.pop() {
            let nic = &mut self.assembly.network.nics[index as usize];
            while let Some(event) = nic.host.poll_event() {
                match event {
                    HostEvent::FlowFinished { message, end, bytes, retransmits, .. } => {
                        let flow = self.messages[index as usize][message as usize];
                        self.flows[flow as usize].finished = Some((end, bytes, retransmits));
                    }
                    HostEvent::Policy(event) => self.happenings.report(self.now, &event),
                    HostEvent::MessageReceived { .. } => {}
                }
            }
            if self.slowdown.is_some() && self.experiment.flows[0].from.0 == index {
                self.watch_first_flow();
            }
        }
    }

    fn watch_first_flow(&mut self) {
        let rate = self.flow_view(0).map(|view| view.rate);
        let (Some(probe), Some(rate)) = (&mut self.slowdown, rate) else { return };
        if self.now <= probe.join {
            if self.now + probe.window >= probe.join {
                probe.floor = probe.floor.min(rate);
            }
        } else if probe.at.is_none() && rate.as_bps_f64() < probe.floor.as_bps_f64() * SLOWDOWN_SHARE {
            probe.at = Some(self.now);
        }
    }

    fn flow_view(&self, flow: usize) -> Option<weir_host::FlowView> {
        let id = self.flows[flow].id?;
        let host = self.experiment.flows[flow].from;
        self.assembly.network.nics[host.0 as usize].host.flow(id)
    }

    fn acked(&self, flow: usize) -> Bytes {
        match self.flows[flow].finished {
            Some((_, bytes, _)) => bytes,
            None => self.flow_view(flow).map_or(Bytes::ZERO, |view| view.acked),
        }
    }

    fn sample(&mut self) {
        let interval = self.experiment.spec.observe.interval;
        self.assembly.network.events.push(self.now + interval, Event::Sample);
        if self.now >= self.window_start {
            for flow in 0..self.flows.len() {
                if self.flows[flow].id.is_some() {
                    self.flows[flow].acked_before_window = Some(self.acked(flow));
                }
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
        self.happenings.sample(self.now, &self.assembly.network);
        self.recorder.sample(&self.assembly.network, &flows);
    }

    /// Sums up what has happened until now.
    fn part(&self, index: usize) -> Part {
        let (summary, trace) = self.summarise();
        let label = self.experiment.schemes[index].label.clone();
        let (packet_hops, fingerprint) = (self.network().packet_hops, self.network().fingerprint);
        Part { index, label, summary, trace, now: self.now, packet_hops, fingerprint }
    }

    fn summarise(&self) -> (SchemeSummary, SchemeTrace) {
        let (topology, network) = (&self.experiment.topology, self.network());
        let (queues, utilisation) = self.recorder.summarise(topology, network, self.now);
        let flows: Vec<FlowRecord> = (0..self.flows.len()).filter_map(|flow| self.record(flow)).collect();
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
            first_slowdown_us: self.slowdown.as_ref().and_then(|p| p.at).map(Time::as_us_f64),
            jain: fct::jain(&self.goodputs_in_window()),
            drops: counts.drops,
            marks: counts.marks,
            pauses: pauses.iter().filter(|p| p.on).count() as u64,
            deflections: counts.deflections,
            retransmits: counts.retransmits,
            timeouts: counts.timeouts,
            suppressions: counts.suppressions,
            fct: fct::summarise(&flows),
            policy: self.happenings.summarise(self.now, network),
        };
        let interval = self.experiment.spec.observe.interval;
        let end = self.now;
        let (ports, rates) = self.recorder.series();
        (summary, SchemeTrace { interval, end, ports, rates, pauses, flows })
    }

    /// Payload acknowledged within the fairness window by each flow that ran all through it.
    fn goodputs_in_window(&self) -> Vec<f64> {
        let ran_through = |flow: &usize| self.flows[*flow].finished.is_none();
        (0..self.flows.len())
            .filter(ran_through)
            .filter_map(|flow| {
                let before = self.flows[flow].acked_before_window?;
                Some(self.acked(flow).saturating_sub(before).as_f64())
            })
            .collect()
    }

    fn record(&self, index: usize) -> Option<FlowRecord> {
        self.flows[index].id?;
        let flow = &self.experiment.flows[index];
        let topology = &self.experiment.topology;
        let (end, retransmits) = match self.flows[index].finished {
            Some((end, _, retransmits)) => (Some(end), retransmits),
            None => (None, self.flow_view(index).map_or(0, |view| view.retransmits)),
        };
        Some(FlowRecord {
            flow: flow.name.clone(),
            from: topology.host(flow.from).name.clone(),
            to: topology.host(flow.to).name.clone(),
            size: flow.size,
            start: flow.start,
            fct: end.map(|end| end.saturating_sub(flow.start)),
            ideal: flow.size.and_then(|size| paths::ideal(self.experiment, self.routes, flow, size)),
            acked: self.acked(index),
            retransmits,
        })
    }
}
