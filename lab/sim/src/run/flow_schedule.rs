//! Starts and stops the flows of a run, and keeps account of them.

use crate::events::{Event, EventKey, EventQueue};
use crate::flows::{ActiveFlow, FinishedMessage, FlowSource, FlowTable};
use crate::messages::{HostCommand, HostReport, HostReportKind, StartFlow};
use crate::network::{Network, View};
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use weir_controller::Routes;
use weir_controller::topology::HostIx;
use weir_experiment::file::FlowNamer;
use weir_experiment::paths;
use weir_experiment::workload::{FlowEnd, FlowFeed, SenderAnnouncement};
use weir_experiment::{Experiment, Flow};
use weir_host::{Announcement, FlowInfo, FlowSpec, HostEvent};
use weir_units::{Bytes, Time};

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

/// The flows of a run: those of the experiment file, and those that the sources of the workload generate.
pub(super) struct FlowSchedule<'e> {
    experiment: &'e Experiment,
    routes: &'e Routes,
    /// All flows that have started.
    pub table: FlowTable,
    /// Starts and stops that are known in advance, by time.
    actions: VecDeque<(Time, FlowAction)>,
    /// Flows that the sources of the workload generate during the run.
    pub feed: FlowFeed,
    names: FlowNamer<'e>,
    /// Hosts by address; empty unless the feed reacts to finished and received messages (`FlowFeed::is_closed_loop`).
    senders: HashMap<Ipv4Addr, HostIx>,
    /// Time at which the next `FlowSchedule` event is due.
    next_event: Option<Time>,
    /// Number of flows of workloads whose senders are still to be recorded, see [`take_sampled`](Self::take_sampled).
    to_sample: usize,
    /// Flow index and name of the flows that have started since the last [`take_sampled`](Self::take_sampled).
    sampled: Vec<(u32, String)>,
}

impl<'e> FlowSchedule<'e> {
    pub(super) fn new(experiment: &'e Experiment, routes: &'e Routes) -> FlowSchedule<'e> {
        let (topology, flows) = (&experiment.topology, &experiment.flows);
        let feed = experiment.flow_feed();
        let addresses = topology.host_ixs().map(|ix| (topology.host(ix).ip, ix)).collect();
        FlowSchedule {
            experiment,
            routes,
            table: FlowTable::new(topology, flows.len()),
            actions: flow_actions(flows),
            senders: if feed.is_closed_loop() { addresses } else { HashMap::new() },
            feed,
            names: FlowNamer::new(topology, flows),
            next_event: None,
            to_sample: experiment.recorded_dynamic_flow_count(),
            sampled: Vec::new(),
        }
    }

    /// Returns the flows of workloads that have started since the last call, and whose senders are recorded.
    pub(super) fn take_sampled(&mut self) -> Vec<(u32, String)> {
        std::mem::take(&mut self.sampled)
    }

    /// Returns the time of the next start or stop of a flow that is known now.
    pub(super) fn next_action(&self) -> Option<Time> {
        let predefined = self.actions.front().map(|(time, _)| *time);
        predefined.into_iter().chain(self.feed.next_start()).min()
    }

    /// Schedules a `FlowSchedule` event for the next start or stop, unless one is pending at that time or earlier.
    pub(super) fn schedule_event(&mut self, now: Time, events: &mut EventQueue) {
        if let Some(next) = self.next_action().filter(|&next| self.next_event.is_none_or(|due| next < due)) {
            events.push(next, Event::FlowSchedule, now);
            self.next_event = Some(next);
        }
    }

    /// Processes all starts and stops that are due at `key.time`: calls `command` for the sender of each flow, which
    /// schedules the command at the host's process or executes it at once, and schedules the next `FlowSchedule` event.
    pub(super) fn run_due_actions(
        &mut self,
        key: &EventKey,
        network: &Network,
        events: &mut EventQueue,
        mut command: impl FnMut(&EventKey, HostIx, HostCommand),
    ) {
        let now = key.time;
        if self.next_event == Some(now) {
            self.next_event = None;
        }
        let experiment = self.experiment;
        while let Some(due) = self.next_action().filter(|&due| due <= now) {
            match self.actions.front() {
                Some(&(time, action)) if time == due => {
                    self.actions.pop_front();
                    match action {
                        FlowAction::Start(index) => {
                            let flow = &experiment.flows[index];
                            let start = self.start_flow(flow, Some(index), None, network);
                            self.table.set_predefined(index, start.flow_index);
                            command(key, flow.from, HostCommand::Start(Box::new(start)));
                        }
                        FlowAction::Stop(index) => {
                            if let Some(flow_index) = self.table.predefined(index) {
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
                    if self.to_sample > 0 {
                        self.to_sample -= 1;
                        self.sampled.push((start.flow_index, flow.name.clone()));
                    }
                    command(key, flow.from, HostCommand::Start(Box::new(start)));
                }
            }
        }
        self.schedule_event(key.time, events);
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
        let message = self.table.next_message_id(flow.from);
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
        let flow_index = self.table.start(flow, message, ideal, source);
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

    /// Handles a report of a host. Returns whether it ended a flow.
    pub(super) fn on_report(
        &mut self,
        HostReport { at, host, kind }: &HostReport,
        events: &mut EventQueue,
    ) -> bool {
        let (mut has_ended, mut feed_changed) = (false, false);
        match kind {
            HostReportKind::Opened { flow_index, id } => self.table.set_flow_id(*flow_index, *id),
            HostReportKind::Host(HostEvent::FlowFinished { message, end, bytes, retransmits, .. }) => {
                has_ended = true;
                let result = FinishedMessage { end: *end, acked: *bytes, retransmits: *retransmits };
                let ended = self.table.finish(*host, *message, &result);
                if let Some(ActiveFlow { to, source: Some(FlowSource { index, tag }), .. }) = ended {
                    self.feed.on_flow_acked(index, FlowEnd { to, tag }, *at);
                    feed_changed = true;
                }
            }
            // The source is not notified, so flows that would have followed this one do not start.
            HostReportKind::Host(HostEvent::FlowFailed { message, acked, retransmits, error, .. }) => {
                has_ended = true;
                self.table.fail(*host, *message, (*acked, *retransmits, *error));
            }
            HostReportKind::Host(HostEvent::MessageReceived { peer, message, .. }) => {
                let sender = self.senders.get(peer);
                let flow = sender.and_then(|&sender| self.table.by_message(sender, *message));
                if let Some(&ActiveFlow { to, source: Some(FlowSource { index, tag }), .. }) = flow {
                    self.feed.on_flow_received(index, FlowEnd { to, tag }, *at);
                    feed_changed = true;
                }
            }
            HostReportKind::Host(HostEvent::Policy(_)) => {}
        }
        if feed_changed && self.feed.is_closed_loop() {
            self.schedule_event(*at, events);
        }
        has_ended
    }

    /// Returns the sender's state of a flow, if it is active.
    pub(super) fn info(&self, flow_index: u32, network: &View<'_>) -> Option<FlowInfo> {
        flow_info(self.table.active(flow_index)?, network)
    }

    /// Returns the values of `quantities` of a flow, whose state is `info`.
    pub(super) fn sender_values(
        &self,
        flow_index: u32,
        quantities: &[&str],
        info: Option<&FlowInfo>,
        network: &View<'_>,
    ) -> Vec<Option<f64>> {
        let mut values = vec![None; quantities.len()];
        let flow = self.table.active(flow_index);
        if quantities.is_empty() || info.is_none() {
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
        if let Some(info) = info {
            set("rtt", info.rtt.map(Time::as_us_f64));
            set("window", FlowInfo::window_limit(info.window).map(Bytes::as_f64));
            set("rate", Some(info.sending_rate.as_bps_f64()));
        }
        values
    }

    /// Returns the acknowledged payload of a flow.
    pub(super) fn acked(&self, flow_index: u32, network: &View<'_>) -> Bytes {
        match self.table.active(flow_index) {
            Some(flow) => flow_info(flow, network).map_or(Bytes::ZERO, |info| info.acked),
            None => self.table.record(flow_index).acked,
        }
    }
}

/// Returns the sender's state of a flow; `None` before the flow is open and after it has finished.
pub(super) fn flow_info(flow: &ActiveFlow, network: &View<'_>) -> Option<FlowInfo> {
    network.host(flow.from).host.flow(flow.id?)
}
