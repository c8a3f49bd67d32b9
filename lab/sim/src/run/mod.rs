//! Runs an experiment in virtual time: every scheme on a fabric of its own, with the same flows and the same seed.

mod summary;

use crate::deadlock;
use crate::events::{Event, EventKey, EventQueue, MAX_INDEX};
use crate::fabric_builder::FabricBuilder;
use crate::flows::{ActiveFlow, FinishedMessage, FlowSource, FlowTable};
use crate::forecast::{ScalingForecast, thread_cpu_time};
use crate::messages::{HostCommand, HostReport, HostReportKind, StartFlow};
use crate::network::{Network, View, lock};
use crate::observers::{RxStats, Slowdown};
use crate::parallel_schemes;
use crate::recorder::{FlowSample, Recorder, SampledFlows};
use crate::scheduled_changes::ScheduledChanges;
use crate::worker_pool::{Coordinator, WorkerPool};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;
use weir_controller::Routes;
use weir_controller::topology::HostIx;
use weir_experiment::backend::{Backend, CorePool, Error, Observer, Progress, RunOutcome};
use weir_experiment::file::FlowNamer;
use weir_experiment::paths;
use weir_experiment::results::{DeadlockSummary, Results, RunHeader};
use weir_experiment::slowdown::FirstSlowdown;
use weir_experiment::workload::{FlowEnd, FlowFeed, SenderAnnouncement};
use weir_experiment::{Experiment, Flow, Scheme};
use weir_host::{Announcement, FlowId, FlowInfo, FlowSpec, HostEvent};
use weir_switch::program::Engine;
use weir_units::{Bandwidth, Bytes, Time};

/// Minimum number of events between two calls of the observer.
const EVENTS_PER_PROGRESS: u64 = 1 << 16;
/// Maximum length of a *stretch*, in lookaheads. During a stretch the two sides of the fabric
/// ([`crate::bipartition`]) run alternately; after it all processes are synchronised for reports, new flows and
/// progress. Longer stretches would save little more.
const MAX_WINDOWS_PER_STRETCH: u64 = 16;
/// A stretch with at least this number of events, some tenths of a second of work, halves the length of the next one,
/// so that a user can stop the run soon.
const MAX_EVENTS_PER_STRETCH: u64 = 1 << 20;
/// Maximum number of flow starts that are scheduled for one stretch; with more, the stretch ends early. This bounds the
/// memory of starts that their hosts have not run yet.
const MAX_SCHEDULED_STARTS: usize = 1 << 16;
/// Minimum virtual time between two searches for a deadlock. Weir's choice: many round trips, so that searches cost
/// little.
const DEADLOCK_INTERVAL: Time = Time::from_us(100);

/// The backend that runs experiments in virtual time. No field changes the results, except that `trace_paths` adds
/// traces.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// Maximum number of schemes that run at the same time; also limited by `cores`.
    pub jobs: usize,
    /// Cores for the schemes; cores beyond the number of schemes are used as worker threads within schemes.
    pub cores: Arc<CorePool>,
    /// The engine that runs the switch programs.
    pub engine: Engine,
    /// Minimum number of events in a window for worker threads to share it. Waking the threads costs about as much
    /// time as this many events.
    pub parallel_threshold: u64,
    /// If set, each scheme runs on one thread, and the CPU time of each process is recorded here.
    pub forecast: Option<Arc<Mutex<ScalingForecast>>>,
    /// True to trace the paths of sampled packets
    /// ([`SchemeTrace::packets`](weir_experiment::results::SchemeTrace::packets)).
    pub trace_paths: bool,
}

/// Default of [`Simulation::parallel_threshold`]: some ten microseconds of work.
const DEFAULT_PARALLEL_THRESHOLD: u64 = 64;

impl Simulation {
    /// Uses up to `threads` cores and the default engine.
    pub fn new(threads: usize) -> Simulation {
        Simulation::with_cores(Arc::new(CorePool::new(threads)))
    }

    /// Uses the cores of a pool, which other runs may share, and the default engine.
    pub fn with_cores(cores: Arc<CorePool>) -> Simulation {
        Simulation {
            jobs: cores.total(),
            cores,
            engine: Engine::default(),
            parallel_threshold: DEFAULT_PARALLEL_THRESHOLD,
            forecast: None,
            trace_paths: false,
        }
    }
}

impl Backend for Simulation {
    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        experiment
            .schemes
            .iter()
            .try_for_each(|scheme| SchemeRun::new(experiment, scheme, self.engine).map(|_| ()))
    }

    fn run(&self, experiment: &Experiment, observer: &mut dyn Observer) -> Result<RunOutcome, Error> {
        let results = run_on(experiment, self, observer)?;
        Ok(RunOutcome { results, fabric: None, failure: None })
    }
}

/// Runs all schemes of `experiment` one after the other on one core.
///
/// # Errors
///
/// The topology is too large for the simulator or has no routes, or a switch or host rejects its configuration.
pub fn run(experiment: &Experiment, observer: &mut dyn Observer) -> Result<Results, Error> {
    run_on(experiment, &Simulation::new(1), observer)
}

/// Runs all schemes of `experiment` as `virtual_time` specifies.
///
/// # Errors
///
/// Same as for [`run`].
pub fn run_on(
    experiment: &Experiment,
    virtual_time: &Simulation,
    observer: &mut dyn Observer,
) -> Result<Results, Error> {
    let started_at = Instant::now();
    let Simulation { jobs, cores, engine, .. } = virtual_time;
    let (spec, schemes) = (&experiment.spec, &experiment.schemes);
    let run_scheme = |index: usize, observer: &mut dyn Observer| {
        let mut run = SchemeRun::new(experiment, &schemes[index], *engine)?;
        if virtual_time.trace_paths {
            run.network.enable_path_trace();
        }
        let control_flow = run.execute((index, schemes.len()), virtual_time, observer);
        debug_assert_eq!(run.network.view().audit(), Ok(()), "{}", schemes[index].label);
        Ok((run.snapshot(index), control_flow))
    };
    let (mut snapshots, mut is_partial) = (Vec::new(), false);
    if *jobs > 1 && schemes.len() > 1 && cores.total() > 1 {
        let labels: Vec<&str> = schemes.iter().map(|scheme| scheme.label.as_str()).collect();
        let (done, is_complete) =
            parallel_schemes::run_schemes(&labels, (*jobs, cores), observer, run_scheme)?;
        (snapshots, is_partial) = (done, !is_complete);
    } else {
        for index in 0..schemes.len() {
            let (snapshot, control_flow) = run_scheme(index, observer)?;
            is_partial = control_flow.is_break();
            if observer.wants_snapshot(index) {
                observer.snapshot(snapshot.clone());
            }
            snapshots.push(snapshot);
            if is_partial {
                break;
            }
        }
    }
    let wall_s = started_at.elapsed().saturating_sub(observer.paused()).as_secs_f64();
    let header = RunHeader { experiment: spec.name.clone(), seed: spec.seed, wall_s, partial: is_partial };
    Ok(Results::from_parts(header, snapshots))
}

/// Start or stop of a flow of the experiment file (a *predefined* flow), by its index into `Experiment::flows`.
#[derive(Clone, Copy, Debug)]
enum FlowAction {
    Start(usize),
    Stop(usize),
}

/// Returns the starts and stops of `flows`, by time.
fn flow_actions(flows: &[Flow]) -> VecDeque<(Time, FlowAction)> {
    let starts = flows.iter().enumerate().map(|(i, f)| (f.start, FlowAction::Start(i)));
    let stops = flows.iter().enumerate().filter_map(|(i, f)| Some((f.stop?, FlowAction::Stop(i))));
    let mut all: Vec<_> = starts.chain(stops).collect();
    all.sort_by_key(|(time, _)| *time); // stable: ties keep the order of the flows, starts first
    all.into()
}

/// The run of one scheme.
struct SchemeRun<'e> {
    experiment: &'e Experiment,
    routes: &'e Routes,
    network: Network,
    recorder: Recorder,
    now: Time,
    flows: FlowTable,
    /// Events of the whole fabric: flows, samples, faults and policies.
    global_events: EventQueue,
    /// Starts and stops that are known in advance, by time.
    flow_actions: VecDeque<(Time, FlowAction)>,
    /// Flows that the sources of the workload generate during the run.
    feed: FlowFeed,
    names: FlowNamer<'e>,
    /// Hosts by address; empty unless the feed reacts to finished and received messages (`FlowFeed::is_closed_loop`).
    senders: HashMap<Ipv4Addr, HostIx>,
    /// Time at which the next `FlowSchedule` event is due.
    next_flow: Option<Time>,
    changes: ScheduledChanges<'e>,
    /// Time from which throughputs are compared; [`Time::MAX`] once it has passed.
    fairness_window_start: Time,
    /// Length of the next stretch in lookaheads, 1 to [`MAX_WINDOWS_PER_STRETCH`].
    stretch_windows: u64,
    /// A flow that had unsent bytes when [`SchemeRun::may_end_before`] was last called, to look at first.
    unsent_flow: Option<(HostIx, FlowId)>,
    /// Time of the last deadlock detection.
    last_deadlock_check: Time,
    /// The deadlock that ended the run.
    deadlock: Option<DeadlockSummary>,
}

impl<'e> SchemeRun<'e> {
    /// Builds the fabric and everything else that a run needs before its first event.
    fn new(experiment: &'e Experiment, scheme: &'e Scheme, engine: Engine) -> Result<Self, Error> {
        let count = experiment.topology.links.len() * 2 + experiment.topology.hosts.len();
        if count > MAX_INDEX as usize {
            let reason =
                format!("{count} link directions and hosts exceed the simulator's limit of {MAX_INDEX}");
            return Err(Error::Input(format!("topology: {reason}")));
        }
        let routes = experiment.routes();
        let builder = FabricBuilder::new(experiment, scheme, engine)?;
        let (network, base_rtt) = (builder.build()?, builder.base_rtt);
        let mut global_events = EventQueue::default();
        let changes = ScheduledChanges::new(experiment, builder, &network, &mut global_events);
        let (spec, topology, flows) = (&experiment.spec, &experiment.topology, &experiment.flows);
        let ports = paths::observed_ports(experiment, routes);
        let feed = experiment.flow_feed();
        if spec.observe.packets {
            let rx_stats = || Box::new(RxStats::new(&spec.observe.size_classes));
            network.view().observers_mut().for_each(|observers| observers.rx_stats = Some(rx_stats()));
        }
        if let Some(join) = experiment.first_join() {
            let sender = flows[0].from;
            let slowdown = Slowdown::new(sender, FirstSlowdown::new(join, base_rtt));
            network.with_observers_of(sender, |observers| observers.slowdown = Some(slowdown));
        }
        let addresses = topology.host_ixs().map(|ix| (topology.host(ix).ip, ix)).collect();
        let sampled = SampledFlows {
            names: flows[..experiment.recorded_flow_count()].iter().map(|f| f.name.clone()).collect(),
            rates: spec.observe.rates,
            quantities: experiment.sender_quantities(scheme),
        };
        let recorder = Recorder::new(topology, &network.view(), spec.observe.interval, &ports, sampled);
        Ok(SchemeRun {
            experiment,
            routes,
            recorder,
            now: Time::ZERO,
            flows: FlowTable::new(topology, flows.len()),
            global_events,
            flow_actions: flow_actions(flows),
            senders: if feed.is_closed_loop() { addresses } else { HashMap::new() },
            feed,
            names: FlowNamer::new(topology, flows),
            next_flow: None,
            changes,
            fairness_window_start: experiment.fairness_window_start(),
            stretch_windows: 1,
            unsent_flow: None,
            last_deadlock_check: Time::ZERO,
            deadlock: None,
            network,
        })
    }

    /// Runs the scheme to its end. Returns `Break` if the observer stopped it. `index` is the number of the scheme.
    fn execute(
        &mut self,
        (index, scheme_count): (usize, usize),
        Simulation { cores, parallel_threshold, forecast, .. }: &Simulation,
        observer: &mut dyn Observer,
    ) -> ControlFlow<()> {
        let end = self.experiment.spec.duration;
        self.schedule_flow_event(Time::ZERO);
        self.global_events.push(self.experiment.spec.observe.interval, Event::Sample, Time::ZERO);
        self.changes.start_policies(&self.network);
        // The worker threads borrow the fabric while this thread borrows `self` mutably.
        let network = std::mem::replace(&mut self.network, Network::empty());
        let pool = WorkerPool::new(&network, cores, *parallel_threshold);
        let started_at = forecast.as_ref().map(|_| thread_cpu_time());
        let control_flow = thread::scope(|scope| {
            let mut coordinator = Coordinator::new(&pool, forecast.as_deref());
            let (mut events, mut next_progress) = (0, 0);
            loop {
                coordinator.spawn_worker_if_useful(scope);
                let outcome = self.run_window(&network, &mut coordinator);
                network.bound_path_trace();
                events += outcome.events;
                if outcome.is_over {
                    return ControlFlow::Continue(());
                }
                if events >= next_progress {
                    next_progress = events + EVENTS_PER_PROGRESS;
                    let packet_hops = network.view().counters().packet_hops;
                    let scheme = &self.experiment.schemes[index].label;
                    observer.progress(&Progress {
                        scheme,
                        index,
                        scheme_count,
                        now: self.now,
                        end,
                        packet_hops,
                    })?;
                    while let Some(change) = observer.link_change() {
                        self.changes.change_link(self.now, &network, change);
                    }
                    if observer.wants_snapshot(index) {
                        observer.snapshot(self.snapshot_of(index, &network.view()));
                    }
                }
            }
        });
        drop(pool);
        if let (Some(forecast), Some(started_at)) = (forecast, started_at) {
            lock(forecast).add_run_time(thread_cpu_time() - started_at);
        }
        self.network = network;
        control_flow
    }

    /// Advances the run by one window or stretch: runs all processes up to its end key, and then the global event that
    /// limits it, if any (sample, fault, policy).
    fn run_window(&mut self, network: &Network, coordinator: &mut Coordinator<'_, '_>) -> WindowOutcome {
        let end = self.experiment.spec.duration;
        let due = self.global_events.peek().map_or(Time::MAX, |key| key.time);
        let start = network.earliest().min(due);
        if start > end {
            self.now = end;
            return WindowOutcome { events: 0, is_over: true };
        }
        // End keys are exclusive, and events at exactly `duration` still run.
        let last = end.saturating_add(Time::from_ps(1));
        // Samples, faults and policies access the whole fabric, so a window ends there.
        let next_global = self.global_events.peek_matching(|event| event != Event::FlowSchedule);
        let end_at = |time: Time| {
            let key = EventKey::first_at(time.min(last));
            next_global.map_or(key, |global| global.min(key))
        };
        let window_end = start.saturating_add(network.lookahead());
        let mut end_key = end_at(window_end);
        let may_end = self.may_end_before(&end_key, network);
        let mut events = 0;
        let is_due = |number: &u32| network.due(*number) <= end_key.time;
        if may_end {
            // The run may end in this window. Step the hosts in global order first, to find the exact event that ends
            // it.
            let (steps, idle) = self.step_hosts(network, &end_key);
            events += steps;
            if let Some(idle) = idle {
                events += coordinator.run(&idle, network.without_hosts().filter(is_due), || ());
                self.now = idle.time;
                return WindowOutcome { events, is_over: true };
            }
            events += coordinator.run(&end_key, (0..network.len() as u32).filter(is_due), || ());
        } else if self.feed.is_closed_loop() {
            // Closed loop: the end of a flow may start another one at once, at another host. Step the hosts in global
            // order while the workers run the switches.
            let due: Vec<u32> = network.without_hosts().filter(is_due).collect();
            let mut steps = 0;
            events +=
                coordinator.run(&end_key, due.into_iter(), || steps = self.step_hosts(network, &end_key).0);
            events += steps;
        } else {
            // All flows of the stretch are known in advance. With `until_idle`, a stretch of several windows ends at
            // the next start or stop of a flow: until then the run cannot become idle.
            let next_action =
                if self.experiment.spec.until_idle { self.next_flow_action() } else { Some(Time::MAX) };
            let windows = network.lookahead().as_ps().saturating_mul(self.stretch_windows);
            let stretch = start.saturating_add(Time::from_ps(windows));
            end_key = end_at(stretch.min(next_action.unwrap_or_default()).max(window_end));
            let started_before = self.flows.started_count();
            while let Some(key) = self.global_events.peek().copied().filter(|key| *key < end_key) {
                if self.flows.started_count() - started_before >= MAX_SCHEDULED_STARTS {
                    end_key = EventKey::first_at(key.time);
                    break;
                }
                self.global_events.pop_before(&end_key);
                self.run_due_flow_actions(&key, network, |key, host, command| {
                    network.schedule_command(key, host, command)
                });
            }
            events += run_alternating(network, coordinator, start, &end_key);
            self.stretch_windows = if events < MAX_EVENTS_PER_STRETCH {
                (2 * self.stretch_windows).min(MAX_WINDOWS_PER_STRETCH)
            } else {
                self.stretch_windows.div_ceil(2)
            };
            for report in network.take_reports() {
                self.on_report(&report);
            }
        }
        self.now = end_key.time.min(end);
        let Some(key) = next_global.filter(|global| *global == end_key) else {
            return WindowOutcome { events, is_over: false };
        };
        self.global_events.pop_before(&EventKey::first_at(Time::MAX));
        let now = key.time;
        let mut is_over = false;
        if key.event() == Event::Sample {
            self.sample(now, network);
            is_over = self.is_deadlocked(network);
        } else {
            let applied = self.changes.apply_due(now, network, &mut self.global_events);
            applied.expect("restarting a switch failed with a configuration that was accepted before");
            for report in network.take_reports() {
                self.on_report(&report);
            }
        }
        WindowOutcome { events: events + 1, is_over }
    }

    /// Runs all events before `end` of the processes with hosts, one at a time in global order, because the end of a
    /// flow at one host may start a flow at another host at the same time. Stops when the run becomes idle. Returns
    /// the number of events and, if the run became idle, the key of the event that made it so, which is the exclusive
    /// end for the other processes.
    fn step_hosts(&mut self, network: &Network, end: &EventKey) -> (u64, Option<EventKey>) {
        let mut events = 0;
        let next = |number: u32| {
            network.next_event_of(number).filter(|key| key < end).map(|key| Reverse((key, number)))
        };
        let hosts = network.with_hosts().iter().copied().filter(|&number| network.due(number) <= end.time);
        let mut heads: BinaryHeap<_> = hosts.filter_map(next).collect();
        loop {
            let flow_event = self
                .global_events
                .peek()
                .copied()
                .filter(|key| key < end && key.event() == Event::FlowSchedule);
            let head = heads.peek().map(|Reverse((key, _))| *key);
            let key = match (flow_event, head) {
                (Some(flow_event), head) if head.is_none_or(|head| flow_event < head) => {
                    self.global_events.pop_before(end);
                    let mut commanded = Vec::new();
                    self.run_due_flow_actions(&flow_event, network, |key, host, command| {
                        network.execute_command(key.time, host, command);
                        commanded.push(network.process_of(host));
                    });
                    // A command can give a process an earlier event than its entry in the heap. The old entry stays
                    // and is discarded when it is popped.
                    heads.extend(commanded.into_iter().filter_map(next));
                    flow_event
                }
                (_, Some(head)) => {
                    let Some(Reverse((_, number))) = heads.pop() else { continue };
                    // A process may have a stale entry beside its current one.
                    if network.next_event_of(number) != Some(head) {
                        continue;
                    }
                    network.step_process(number, end);
                    heads.extend(next(number));
                    head
                }
                (_, None) => return (events, None),
            };
            events += 1;
            let mut has_ended = false;
            for report in network.take_reports() {
                has_ended |= self.on_report(&report);
            }
            if has_ended && self.is_idle() {
                return (events, Some(key));
            }
        }
    }

    /// Returns the time of the next start or stop of a flow that is known now.
    fn next_flow_action(&self) -> Option<Time> {
        let predefined = self.flow_actions.front().map(|(time, _)| *time);
        predefined.into_iter().chain(self.feed.next_start()).min()
    }

    /// Schedules a `FlowSchedule` event for the next start or stop, unless one is pending at that time or earlier.
    fn schedule_flow_event(&mut self, now: Time) {
        if let Some(next) =
            self.next_flow_action().filter(|&next| self.next_flow.is_none_or(|due| next < due))
        {
            self.global_events.push(next, Event::FlowSchedule, now);
            self.next_flow = Some(next);
        }
    }

    /// Processes all starts and stops that are due at `key.time`: calls `command` for the sender of each flow, and
    /// schedules the next `FlowSchedule` event.
    fn run_due_flow_actions(
        &mut self,
        key: &EventKey,
        network: &Network,
        mut command: impl FnMut(&EventKey, HostIx, HostCommand),
    ) {
        let now = key.time;
        if self.next_flow == Some(now) {
            self.next_flow = None;
        }
        let experiment = self.experiment;
        while let Some(due) = self.next_flow_action().filter(|&due| due <= now) {
            match self.flow_actions.front() {
                Some(&(time, action)) if time == due => {
                    self.flow_actions.pop_front();
                    match action {
                        FlowAction::Start(index) => {
                            let flow = &experiment.flows[index];
                            let start = self.start_flow(flow, Some(index), None, network);
                            self.flows.set_predefined(index, start.flow_index);
                            command(key, flow.from, HostCommand::Start(Box::new(start)));
                        }
                        FlowAction::Stop(index) => {
                            if let Some(flow_index) = self.flows.predefined(index) {
                                command(key, experiment.flows[index].from, HostCommand::Stop { flow_index });
                            }
                        }
                    }
                }
                _ => {
                    let Some((index, arrival, random)) = self.feed.pop_due(due) else { break };
                    let source = FlowSource { index, tag: arrival.tag };
                    let flow = self.names.flow(experiment.workload_of_source(index), arrival, random);
                    let start = self.start_flow(&flow, None, Some(source), network);
                    command(key, flow.from, HostCommand::Start(Box::new(start)));
                }
            }
        }
        self.schedule_flow_event(key.time);
    }

    /// Creates the record of a flow and returns the command for its sender. `predefined` is the number of a flow of the
    /// experiment file; `source` is the source of any other flow.
    fn start_flow(
        &mut self,
        flow: &Flow,
        predefined: Option<usize>,
        source: Option<FlowSource>,
        network: &Network,
    ) -> StartFlow {
        let topology = &self.experiment.topology;
        let peer = topology.host(flow.to);
        let message = self.flows.next_message_id(flow.from);
        let spec = FlowSpec {
            peer: peer.ip,
            next_hop_mac: peer.mac,
            entropy_port: flow.entropy_port,
            size: flow.size,
            message,
        };
        if let (true, Some(size)) = (self.experiment.spec.observe.packets, flow.size) {
            let sender = topology.host(flow.from).ip;
            for end in [flow.from, flow.to] {
                network.with_observers_of(end, |observers| {
                    if let Some(rx_stats) = &mut observers.rx_stats {
                        rx_stats.register_message(sender, message, size);
                    }
                });
            }
        }
        let ideal =
            flow.size.and_then(|size| paths::ideal_completion_time(self.experiment, self.routes, flow, size));
        let flow_index = self.flows.start(flow, message, ideal, source);
        if predefined == Some(0) {
            network.with_observers_of(flow.from, |observers| {
                observers.slowdown.iter_mut().for_each(|slowdown| slowdown.set_flow(flow_index));
            });
        }
        let announcement =
            flow.announces.as_ref().map(|SenderAnnouncement { incast_number, senders }| Announcement {
                incast: *incast_number,
                senders: senders.iter().map(|&host| topology.host(host).ip).collect(),
            });
        StartFlow { flow_index, spec, announcement, will_stop: flow.stop.is_some() }
    }

    /// Returns whether the run ends now because of `until_idle`: no flow with a size is active, and no start or stop
    /// of a flow is pending.
    fn is_idle(&self) -> bool {
        self.experiment.spec.until_idle && !self.flows.has_sized_flows() && self.next_flow_action().is_none()
    }

    /// Returns whether the run may end before `end` because of `until_idle`. It cannot while some flow has unsent bytes
    /// and cannot time out before `end`: the last acknowledgement of that flow is then more than a window away.
    fn may_end_before(&mut self, end: &EventKey, network: &Network) -> bool {
        if !self.experiment.spec.until_idle || self.next_flow_action().is_some_and(|next| next >= end.time) {
            return false;
        }
        let is_unsent = |&(host, id): &(HostIx, FlowId)| {
            let view = network.with_host(host, |node| node.host.flow(id));
            view.is_some_and(|view| {
                view.size.is_none_or(|size| view.sent < size)
                    && view.timeout.is_none_or(|timeout| timeout >= end.time)
            })
        };
        self.unsent_flow = self.unsent_flow.filter(is_unsent);
        if self.unsent_flow.is_none() {
            let sized = self.flows.all_sized().filter_map(|flow| Some((flow.from, flow.id?)));
            self.unsent_flow = sized.into_iter().find(is_unsent);
        }
        self.unsent_flow.is_none()
    }

    /// Handles a report of a host. Returns whether it ended a flow.
    fn on_report(&mut self, HostReport { at, host, kind }: &HostReport) -> bool {
        let (mut has_ended, mut feed_changed) = (false, false);
        match kind {
            HostReportKind::Opened { flow_index, id } => self.flows.set_flow_id(*flow_index, *id),
            HostReportKind::Host(HostEvent::FlowFinished { message, end, bytes, retransmits, .. }) => {
                has_ended = true;
                let result = FinishedMessage { end: *end, acked: *bytes, retransmits: *retransmits };
                let ended = self.flows.finish(*host, *message, &result);
                if let Some(ActiveFlow { to, source: Some(FlowSource { index, tag }), .. }) = ended {
                    self.feed.on_flow_acked(index, FlowEnd { to, tag }, *at);
                    feed_changed = true;
                }
            }
            // The source is not notified, so flows that would have followed this one do not start.
            HostReportKind::Host(HostEvent::FlowFailed { message, acked, retransmits, error, .. }) => {
                has_ended = true;
                self.flows.fail(*host, *message, (*acked, *retransmits, *error));
            }
            HostReportKind::Host(HostEvent::MessageReceived { peer, message, .. }) => {
                let sender = self.senders.get(peer);
                let flow = sender.and_then(|&sender| self.flows.by_message(sender, *message));
                if let Some(&ActiveFlow { to, source: Some(FlowSource { index, tag }), .. }) = flow {
                    self.feed.on_flow_received(index, FlowEnd { to, tag }, *at);
                    feed_changed = true;
                }
            }
            HostReportKind::Host(HostEvent::Policy(event)) => self.changes.on_policy_event(*at, event),
        }
        if feed_changed && self.feed.is_closed_loop() {
            self.schedule_flow_event(*at);
        }
        has_ended
    }

    /// Returns the sender's state of flow number `predefined` of the experiment, if it is active.
    fn predefined_flow_info(&self, predefined: usize, network: &View<'_>) -> Option<FlowInfo> {
        flow_info(self.flows.active(self.flows.predefined(predefined)?)?, network)
    }

    /// Returns the acknowledged payload of flow number `predefined` of the experiment; zero before it starts.
    fn acked(&self, predefined: usize, network: &View<'_>) -> Bytes {
        let Some(flow_index) = self.flows.predefined(predefined) else { return Bytes::ZERO };
        match self.flows.active(flow_index) {
            Some(flow) => flow_info(flow, network).map_or(Bytes::ZERO, |info| info.acked),
            None => self.flows.record(flow_index).acked,
        }
    }

    /// Returns the values of the recorder's quantities of flow number `predefined`, whose state is `view`.
    fn sender_values(
        &self,
        predefined: usize,
        view: Option<&FlowInfo>,
        network: &View<'_>,
    ) -> Vec<Option<f64>> {
        let quantities = self.recorder.quantities();
        let mut values = vec![None; quantities.len()];
        let flow = self.flows.predefined(predefined).and_then(|index| self.flows.active(index));
        if quantities.is_empty() || view.is_none() {
            return values;
        }
        let mut set = |name: &str, value: Option<f64>| {
            if let Some(i) = quantities.iter().position(|quantity| *quantity == name) {
                values[i] = value.filter(|value| value.is_finite());
            }
        };
        if let Some(ActiveFlow { from, id: Some(id), .. }) = flow {
            network.host(*from).host.gauges(*id, &mut |name, value| set(name, Some(value)));
        }
        if let Some(view) = view {
            set("rtt", view.rtt.map(Time::as_us_f64));
            set("window", Some(view.window.as_f64()));
            set("rate", Some(view.sending_rate.as_bps_f64()));
        }
        values
    }

    /// Samples rates and queues, and schedules the next sample.
    fn sample(&mut self, now: Time, network: &Network) {
        let interval = self.experiment.spec.observe.interval;
        self.global_events.push(now + interval, Event::Sample, now);
        let network = &network.view_without_mail();
        if now >= self.fairness_window_start {
            for flow in self.flows.all_active_mut() {
                let view = flow_info(flow, network);
                flow.acked_before_window = Some(view.map_or(Bytes::ZERO, |view| view.acked));
            }
            // Only the first sample in the fairness window is recorded: flows that start later are not compared.
            self.fairness_window_start = Time::MAX;
        }
        let flows: Vec<FlowSample> = (0..self.recorder.sampled_flow_count())
            .map(|flow| {
                let view = self.predefined_flow_info(flow, network);
                let rate = view.as_ref().map_or(Bandwidth::ZERO, |view| view.sending_rate);
                let sender = self.sender_values(flow, view.as_ref(), network);
                FlowSample { rate, acked: self.acked(flow, network), sender }
            })
            .collect();
        self.changes.sample(now, network);
        self.recorder.sample(network, &flows);
    }

    /// Runs deadlock detection if it is due, nothing scheduled could resolve a deadlock, and PFC pauses are in force.
    /// Returns whether a deadlock was found, which ends the run.
    fn is_deadlocked(&mut self, network: &Network) -> bool {
        if self.now - self.last_deadlock_check < DEADLOCK_INTERVAL || !self.changes.is_exhausted() {
            return false;
        }
        if network.view_without_mail().pauses_outstanding() <= 0 {
            return false;
        }
        self.last_deadlock_check = self.now;
        let found = deadlock::detect(&network.view());
        self.deadlock = found.map(|deadlock| deadlock.summarise(&self.experiment.topology, self.now));
        self.deadlock.is_some()
    }
}

/// Returns the sender's state of a flow; `None` before the flow is open and after it has finished.
fn flow_info(flow: &ActiveFlow, network: &View<'_>) -> Option<FlowInfo> {
    network.host(flow.from).host.flow(flow.id?)
}

/// Runs all processes from `start` to `end`, the sides alternately. Returns the number of events.
fn run_alternating(
    network: &Network,
    coordinator: &mut Coordinator<'_, '_>,
    start: Time,
    end: &EventKey,
) -> u64 {
    let run_order = network.run_order();
    // For each side, the key up to which it has run.
    let (mut reached, mut events) = (vec![EventKey::first_at(start); run_order.len()], 0);
    for side in (0..run_order.len()).cycle() {
        if reached.iter().all(|reached| reached == end) {
            break;
        }
        // Frames come only from the other side. It has run up to `other`, so what it sends later arrives a lookahead
        // after that or later.
        let other = reached[(side + 1) % run_order.len()].time;
        let side_end = EventKey::first_at(other.saturating_add(network.lookahead())).min(*end);
        let due = run_order[side].iter().copied().filter(|number| network.due(*number) <= side_end.time);
        events += coordinator.run(&side_end, due, || ());
        reached[side] = side_end;
    }
    events
}

/// Outcome of a window.
struct WindowOutcome {
    events: u64,
    /// True if the run has ended: `duration` is over, all flows are finished (`until_idle`), or a deadlock was found.
    is_over: bool,
}
