//! The run of one scheme: advances the fabric window by window, and between windows everything that concerns the whole
//! fabric.

use super::flow_schedule::{FlowSchedule, flow_info};
use crate::deadlock;
use crate::events::{Event, EventKey, EventQueue, MAX_INDEX};
use crate::fabric_builder::FabricBuilder;
use crate::forecast::{ScalingForecast, thread_cpu_time};
use crate::messages::{HostReport, HostReportKind};
use crate::network::{Network, lock};
use crate::observers::{Observers, RxStats, Slowdown};
use crate::recorder::{FlowSample, Recorder, SampledFlows};
use crate::scheduled_changes::ScheduledChanges;
use crate::worker_pool::{Coordinator, WorkerPool};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::thread;
use weir_controller::Routes;
use weir_controller::topology::HostIx;
use weir_experiment::backend::{CorePool, Error, Observer, Progress};
use weir_experiment::paths;
use weir_experiment::results::DeadlockSummary;
use weir_experiment::slowdown::FirstSlowdown;
use weir_experiment::{Experiment, Scheme};
use weir_host::{FlowId, HostEvent};
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

/// The run of one scheme.
pub(super) struct SchemeRun<'e> {
    pub experiment: &'e Experiment,
    pub routes: &'e Routes,
    pub network: Network,
    pub recorder: Recorder,
    pub now: Time,
    pub flows: FlowSchedule<'e>,
    /// Events of the whole fabric: flows, samples, faults and policies.
    global_events: EventQueue,
    pub changes: ScheduledChanges<'e>,
    /// Time from which throughputs are compared; [`Time::MAX`] once it has passed.
    fairness_window_start: Time,
    /// Length of the next stretch in lookaheads, 1 to [`MAX_WINDOWS_PER_STRETCH`].
    stretch_windows: u64,
    /// Flow indices of the flows of workloads whose senders are recorded, in order of start.
    sampled_dynamic: Vec<u32>,
    /// A flow that had unsent bytes when [`SchemeRun::may_end_before`] was last called, to look at first.
    unsent_flow: Option<(HostIx, FlowId)>,
    /// Time of the last deadlock detection.
    last_deadlock_check: Time,
    /// The deadlock that ended the run.
    pub deadlock: Option<DeadlockSummary>,
}

impl<'e> SchemeRun<'e> {
    /// Builds the fabric and everything else that a run needs before its first event.
    pub(super) fn new(experiment: &'e Experiment, scheme: &'e Scheme, engine: Engine) -> Result<Self, Error> {
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
        if spec.observe.packets {
            let rx_stats = || Box::new(RxStats::new(&spec.observe.size_classes));
            network.view().observers_mut().for_each(|observers| observers.rx_stats = Some(rx_stats()));
        }
        if let Some(pfc) = spec.pfc.on() {
            let watchdogs = |observers: &mut Observers| {
                observers.basic.pause_watchdog.threshold = pfc.watchdog();
            };
            network.view().observers_mut().for_each(watchdogs);
        }
        if let Some(join) = experiment.first_join() {
            let sender = flows[0].from;
            let slowdown = Slowdown::new(sender, FirstSlowdown::new(join, base_rtt));
            network.with_observers_of(sender, |observers| observers.slowdown = Some(slowdown));
        }
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
            flows: FlowSchedule::new(experiment, routes),
            global_events,
            changes,
            fairness_window_start: experiment.fairness_window_start(),
            stretch_windows: 1,
            sampled_dynamic: Vec::new(),
            unsent_flow: None,
            last_deadlock_check: Time::ZERO,
            deadlock: None,
            network,
        })
    }

    /// Runs the scheme to its end. Returns `Break` if the observer stopped it. `index` is the number of the scheme.
    pub(super) fn execute(
        &mut self,
        (index, scheme_count): (usize, usize),
        (cores, parallel_threshold): (&Arc<CorePool>, u64),
        forecast: Option<&Mutex<ScalingForecast>>,
        observer: &mut dyn Observer,
    ) -> ControlFlow<()> {
        let end = self.experiment.spec.duration;
        self.flows.schedule_event(Time::ZERO, &mut self.global_events);
        self.global_events.push(self.experiment.spec.observe.interval, Event::Sample, Time::ZERO);
        self.changes.start_policies(&self.network);
        // The worker threads borrow the fabric while this thread borrows `self` mutably.
        let network = std::mem::replace(&mut self.network, Network::empty());
        let pool = WorkerPool::new(&network, cores, parallel_threshold);
        let started_at = forecast.map(|_| thread_cpu_time());
        let control_flow = thread::scope(|scope| {
            let mut coordinator = Coordinator::new(&pool, forecast);
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
        let window = end_at(window_end);
        let may_end = self.may_end_before(&window, network);
        let is_due = |number: &u32| network.due(*number) <= window.time;
        let (end_key, events) = if may_end {
            // The run may end in this window. Step the hosts in global order first, to find the exact event that ends
            // it.
            let (steps, idle) = self.step_hosts(network, &window);
            if let Some(idle) = idle {
                let events = coordinator.run(&idle, network.without_hosts().filter(is_due), || ());
                self.now = idle.time;
                return WindowOutcome { events: steps + events, is_over: true };
            }
            let all = 0..network.len() as u32;
            (window, steps + coordinator.run(&window, all.filter(is_due), || ()))
        } else if self.flows.feed.is_closed_loop() {
            // Closed loop: the end of a flow may start another one at once, at another host. Step the hosts in global
            // order while the workers run the switches.
            let due: Vec<u32> = network.without_hosts().filter(is_due).collect();
            let mut steps = 0;
            let events =
                coordinator.run(&window, due.into_iter(), || steps = self.step_hosts(network, &window).0);
            (window, steps + events)
        } else {
            self.run_stretch(network, coordinator, start, &|time| end_at(time.max(window_end)))
        };
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
            applied.expect("a switch rejected a configuration like those that it accepted before");
            for report in network.take_reports() {
                self.on_report(&report);
            }
        }
        WindowOutcome { events: events + 1, is_over }
    }

    /// Runs all processes for a stretch from `start`, or for less. `end_at` returns the end key of a stretch up to a
    /// time. Returns the actual end key and the number of events.
    fn run_stretch(
        &mut self,
        network: &Network,
        coordinator: &mut Coordinator<'_, '_>,
        start: Time,
        end_at: &dyn Fn(Time) -> EventKey,
    ) -> (EventKey, u64) {
        // All flows of the stretch are known in advance. With `until_idle`, a stretch of several windows ends at the
        // next start or stop of a flow: until then the run cannot become idle.
        let next_action =
            if self.experiment.spec.until_idle { self.flows.next_action() } else { Some(Time::MAX) };
        let windows = network.lookahead().as_ps().saturating_mul(self.stretch_windows);
        let stretch = start.saturating_add(Time::from_ps(windows));
        let mut end = end_at(stretch.min(next_action.unwrap_or_default()));
        let started_before = self.flows.table.started_count();
        while let Some(key) = self.global_events.peek().copied().filter(|key| *key < end) {
            if self.flows.table.started_count() - started_before >= MAX_SCHEDULED_STARTS {
                end = EventKey::first_at(key.time);
                break;
            }
            self.global_events.pop_before(&end);
            self.flows.run_due_actions(&key, network, &mut self.global_events, |key, host, command| {
                network.schedule_command(key, host, command)
            });
        }
        let events = run_alternating(network, coordinator, start, &end);
        self.stretch_windows = if events < MAX_EVENTS_PER_STRETCH {
            (2 * self.stretch_windows).min(MAX_WINDOWS_PER_STRETCH)
        } else {
            self.stretch_windows.div_ceil(2)
        };
        for report in network.take_reports() {
            self.on_report(&report);
        }
        (end, events)
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
                    let events = &mut self.global_events;
                    self.flows.run_due_actions(&flow_event, network, events, |key, host, command| {
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

    /// Returns whether the run ends now because of `until_idle`: no flow with a size is active, and no start or stop
    /// of a flow is pending.
    fn is_idle(&self) -> bool {
        self.experiment.spec.until_idle
            && !self.flows.table.has_sized_flows()
            && self.flows.next_action().is_none()
    }

    /// Returns whether the run may end before `end` because of `until_idle`. It cannot while some flow has unsent bytes
    /// and cannot time out before `end`: the last acknowledgement of that flow is then more than a window away.
    fn may_end_before(&mut self, end: &EventKey, network: &Network) -> bool {
        if !self.experiment.spec.until_idle || self.flows.next_action().is_some_and(|next| next >= end.time) {
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
            let sized = self.flows.table.all_sized().filter_map(|flow| Some((flow.from, flow.id?)));
            self.unsent_flow = sized.into_iter().find(is_unsent);
        }
        self.unsent_flow.is_none()
    }

    /// Handles a report of a host. Returns whether it ended a flow.
    fn on_report(&mut self, report: &HostReport) -> bool {
        if let HostReportKind::Host(HostEvent::Policy(event)) = &report.kind {
            self.changes.on_policy_event(report.at, event);
        }
        self.flows.on_report(report, &mut self.global_events)
    }

    /// Samples rates and queues, and schedules the next sample.
    fn sample(&mut self, now: Time, network: &Network) {
        let interval = self.experiment.spec.observe.interval;
        self.global_events.push(now + interval, Event::Sample, now);
        let network = &network.view_without_mail();
        if now >= self.fairness_window_start {
            for flow in self.flows.table.all_active_mut() {
                let view = flow_info(flow, network);
                flow.acked_before_window = Some(view.map_or(Bytes::ZERO, |view| view.acked));
            }
            // Only the first sample in the fairness window is recorded: flows that start later are not compared.
            self.fairness_window_start = Time::MAX;
        }
        for (flow_index, name) in self.flows.take_sampled() {
            self.recorder.add_flow(name);
            self.sampled_dynamic.push(flow_index);
        }
        let sample_of = |flow_index: Option<u32>| {
            let quantities = self.recorder.quantities();
            let Some(flow_index) = flow_index else {
                return FlowSample { sender: vec![None; quantities.len()], ..FlowSample::default() };
            };
            let info = self.flows.info(flow_index, network);
            let rate = info.as_ref().map_or(Bandwidth::ZERO, |info| info.sending_rate);
            let sender = self.flows.sender_values(flow_index, quantities, info.as_ref(), network);
            FlowSample { rate, acked: self.flows.acked(flow_index, network), sender }
        };
        let predefined = 0..self.experiment.recorded_flow_count();
        let predefined = predefined.map(|number| self.flows.table.predefined(number));
        let dynamic = self.sampled_dynamic.iter().copied().map(Some);
        let flows: Vec<FlowSample> = predefined.chain(dynamic).map(sample_of).collect();
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
