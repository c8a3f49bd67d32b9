//! The driver task of `controller watch`: passes events, probes and timer ticks to the sans-I/O [`Watcher`] and
//! executes its rollouts.

use super::super::{ClientError, ClientOptions, Program, Target};
use super::event::WatchEvent;
use super::ports::port_states;
use super::rollout::{Member, Outcome, roll_out};
use super::session_task::{Event, SessionTask, SwitchHandle, SwitchMessage};
use p4runtime::p4::v1::{PacketMetadata, PacketOut};
use p4runtime::value;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use weir_controller::plan::PlanError;
use weir_controller::topology::{LinkIx, Topology};
use weir_controller::watch::{
    ControlLoss, FabricIntent, FabricPlan, MonitorConfig, PacketInKind, RolloutReason, Watcher,
};
use weir_units::Time;

/// Capacity of the queue of session events.
const EVENT_QUEUE: usize = 256;
/// Capacity of the queue of probes and echoes. One tick of a fat-tree with k = 16 sends 8,192 probes.
const PROBE_QUEUE_LEN: usize = 16_384;
/// Minimum interval between two reports of unknown packet-ins.
const UNKNOWN_REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Options of [`watch`].
#[derive(Clone, Debug)]
pub struct WatchOptions {
    pub client: ClientOptions,
    /// Parameters of link probing; `None`: links are not probed and count as up.
    pub monitor: Option<MonitorConfig>,
    /// Thrift port of the first switch; the others have consecutive ports. The host is that of the P4Runtime server.
    pub thrift_base_port: u16,
    /// Interval between reads of all tables.
    pub check: Duration,
    /// Seed of the run id and of reconnect delays.
    pub random: u64,
}

/// Keeps a fabric as planned until `stop` completes: connects to the switches, probes links, and writes differences.
/// Calls `on_event` with each [`WatchEvent`]. Entries remain in the switches afterwards.
///
/// # Errors
///
/// The program lacks a table, action or field that the plan needs, or an option is invalid. Failures of switches are
/// not errors: they are passed to `on_event`, and the switch is tried again.
pub async fn watch(
    fabric: FabricPlan,
    program: Arc<Program>,
    targets: Vec<Target>,
    options: WatchOptions,
    on_event: impl FnMut(WatchEvent),
    stop: impl Future<Output = ()>,
) -> Result<(), PlanError> {
    let mut driver = Driver::start(fabric, program, targets, options, on_event)?;
    tokio::select! {
        () = stop => {}
        () = driver.run() => {}
    }
    Ok(())
}

/// A switch with its session, if connected.
struct WatchedSwitch {
    target: Target,
    handle: Option<SwitchHandle>,
    /// The current outage has been reported.
    loss_reported: bool,
}

struct Driver<T> {
    fabric: Arc<FabricPlan>,
    program: Arc<Program>,
    switches: Vec<WatchedSwitch>,
    watcher: Watcher,
    /// P4Runtime ids of the egress port and the padding in packet-outs; `None` if links are not probed.
    packet_out_ids: Option<(u32, Option<u32>)>,
    rollout: Option<JoinHandle<Outcome>>,
    began: Instant,
    options: WatchOptions,
    events: mpsc::Receiver<Event>,
    event_sender: mpsc::Sender<Event>,
    messages: mpsc::Receiver<SwitchMessage>,
    unknown_packet_ins: Arc<AtomicU64>,
    on_event: T,
    /// Session tasks; dropping the set aborts them.
    _session_tasks: JoinSet<()>,
}

impl<T: FnMut(WatchEvent)> Driver<T> {
    fn start(
        fabric: FabricPlan,
        program: Arc<Program>,
        targets: Vec<Target>,
        options: WatchOptions,
        on_event: T,
    ) -> Result<Driver<T>, PlanError> {
        let began = Instant::now();
        let mut random = Pcg64Mcg::seed_from_u64(options.random);
        let run = random.next_u64();
        let (event_sender, events) = mpsc::channel(EVENT_QUEUE);
        let (message_sender, messages) = mpsc::channel(PROBE_QUEUE_LEN);
        let unknown_packet_ins = Arc::new(AtomicU64::new(0));
        let metadata_id = |header: &str, field: &str| {
            let header = program.index.controller_headers.named(header).ok()?;
            header.metadata.iter().find(|it| it.name == field).map(|it| it.id)
        };
        let ingress_port = metadata_id("packet_in", "ingress_port");
        let mut session_tasks = JoinSet::new();
        for (at, target) in fabric.topology.switch_ixs().zip(&targets) {
            let task = SessionTask {
                at,
                target: target.clone(),
                program: Arc::clone(&program),
                options: options.client.clone(),
                run,
                ingress_port,
                events: event_sender.clone(),
                messages: message_sender.clone(),
                unknown_packet_ins: Arc::clone(&unknown_packet_ins),
                random: Pcg64Mcg::seed_from_u64(random.next_u64()),
            };
            session_tasks.spawn(task.run());
        }
        let unconnected =
            |target: &Target| WatchedSwitch { target: target.clone(), handle: None, loss_reported: false };
        let egress_port = metadata_id("packet_out", "egress_port").filter(|_| ingress_port.is_some());
        let monitor = options.monitor.filter(|_| egress_port.is_some());
        let intent = FabricIntent::initial(&fabric, &program.index)?;
        let fabric = Arc::new(fabric);
        Ok(Driver {
            switches: targets.iter().map(unconnected).collect(),
            watcher: Watcher::new(Arc::clone(&fabric), intent, monitor, run, Time::ZERO),
            packet_out_ids: egress_port.map(|port| (port, metadata_id("packet_out", "pad"))),
            fabric,
            program,
            rollout: None,
            began,
            options,
            events,
            event_sender,
            messages,
            unknown_packet_ins,
            on_event,
            _session_tasks: session_tasks,
        })
    }

    async fn run(&mut self) {
        let mut check = tokio::time::interval(self.options.check);
        check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut report_unknown = tokio::time::interval(UNKNOWN_REPORT_INTERVAL);
        loop {
            self.read_port_states();
            if self.watcher.abandon(self.now())
                && let Some(rollout) = self.rollout.take()
            {
                rollout.abort();
            }
            self.begin_rollout();
            let next_tick = self.watcher.next_tick();
            let wakeup = self.began + Duration::from_nanos(next_tick.unwrap_or_default().as_ns());
            tokio::select! {
                // Poll in source order: a packet-in that arrived before the reply to an echo must reach the monitor
                // first, or the probe in it would count as lost.
                biased;
                Some(message) = self.messages.recv() => self.handle_message(message),
                Some(event) = self.events.recv() => self.handle_event(event),
                outcome = finished(&mut self.rollout) => self.end_rollout(outcome),
                () = tokio::time::sleep_until(wakeup.into()), if next_tick.is_some() => self.tick(),
                _ = check.tick() => self.watcher.schedule_check(),
                _ = report_unknown.tick() => {
                    match self.unknown_packet_ins.swap(0, Ordering::Relaxed) {
                        0 => {}
                        count => (self.on_event)(WatchEvent::UnknownPacketIns(count)),
                    }
                }
            }
        }
    }

    fn now(&self) -> Time {
        Time::from_ns(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn handle_message(&mut self, message: SwitchMessage) {
        match message {
            SwitchMessage::Probe { at, port, frame } => {
                if self.watcher.on_packet_in(at, port, &frame) != PacketInKind::Probe {
                    self.unknown_packet_ins.fetch_add(1, Ordering::Relaxed);
                }
            }
            SwitchMessage::Echo { at, round } => self.watcher.on_echo(at, round, self.now()),
            SwitchMessage::PacketOutRejected { at } => self.watcher.on_packet_out_rejected(at),
        }
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Ready { at, handle, pushed, actual } => {
                self.watcher.on_ready(at, pushed, actual, self.now());
                let it = &mut self.switches[at.0 as usize];
                (it.handle, it.loss_reported) = (Some(handle), false);
                (self.on_event)(WatchEvent::Connected { switch: it.target.name.clone(), pushed });
            }
            Event::Standby { at } => {
                self.watcher.on_lost(at, ControlLoss::Standby);
                let it = &mut self.switches[at.0 as usize];
                it.handle = None;
                (self.on_event)(WatchEvent::Standby { switch: it.target.name.clone() });
            }
            Event::Lost { at, error } => {
                let is_refused = matches!(error, ClientError::Unreachable { is_refused: true, .. });
                self.watcher.on_lost(
                    at,
                    if is_refused { ControlLoss::ConnectionRefused } else { ControlLoss::Unreachable },
                );
                let it = &mut self.switches[at.0 as usize];
                it.handle = None;
                if !std::mem::replace(&mut it.loss_reported, true) {
                    (self.on_event)(WatchEvent::Lost { switch: it.target.name.clone(), error });
                }
            }
            Event::Ports { at, ports } => self.watcher.on_port_states(at, ports),
        }
    }

    fn tick(&mut self) {
        let round = self.watcher.tick(self.now());
        for link in self.watcher.kept_links() {
            (self.on_event)(WatchEvent::ProbesLost { link: link_name(&self.fabric.topology, link) });
        }
        let Some((egress_port, pad)) = self.packet_out_ids else { return };
        for (at, port, probe) in round.probes {
            let Some(handle) = &self.switches[at.0 as usize].handle else { continue };
            let port = PacketMetadata { metadata_id: egress_port, value: value::from_uint(port.into()) };
            let pad = pad.map(|id| PacketMetadata { metadata_id: id, value: value::from_uint(0) });
            let packet =
                PacketOut { payload: probe.frame(), metadata: [port].into_iter().chain(pad).collect() };
            if !handle.packets.send(packet) {
                self.watcher.on_packet_out_rejected(at);
            }
        }
        for (at, round) in round.echoes {
            // At most one echo is in flight per switch. If the session has ended, its loss will be reported.
            let Some(handle) = &self.switches[at.0 as usize].handle else { continue };
            let _ = handle.echoes.try_send(round);
        }
    }

    /// Reads the port states that the watcher has requested.
    fn read_port_states(&mut self) {
        for at in self.watcher.port_queries() {
            let (target, events) = (self.switches[at.0 as usize].target.clone(), self.event_sender.clone());
            let thrift_port =
                u16::try_from(at.0).ok().and_then(|n| self.options.thrift_base_port.checked_add(n));
            tokio::spawn(async move {
                let ports = match thrift_port {
                    Some(thrift_port) => port_states(&target, thrift_port).await,
                    None => None,
                };
                // Sending fails only when the driver has ended.
                let _ = events.send(Event::Ports { at, ports }).await;
            });
        }
    }

    fn begin_rollout(&mut self) {
        let Some(rollout) = self.watcher.begin(self.now()) else { return };
        for (link, is_up) in rollout.changed {
            (self.on_event)(WatchEvent::Link { link: link_name(&self.fabric.topology, link), is_up });
        }
        let mut members = Vec::new();
        for (at, actual) in rollout.members {
            let it = &self.switches[at.0 as usize];
            // The watcher selects only connected switches.
            let Some(handle) = &it.handle else { continue };
            members.push(Member {
                at,
                name: it.target.name.clone(),
                session: handle.session.clone(),
                actual,
            });
        }
        let (fabric, program) = (Arc::clone(&self.fabric), Arc::clone(&self.program));
        self.rollout =
            Some(tokio::spawn(roll_out(fabric, program, rollout.intent, rollout.condition, members)));
    }

    fn end_rollout(&mut self, outcome: Outcome) {
        self.rollout = None;
        let (intent, no_routes) = match outcome.intent {
            Ok(intent) => (Some(intent), None),
            Err(error) => (None, Some(error)),
        };
        let now = self.now();
        let Some(summary) = self.watcher.end(intent, outcome.outcomes, now) else { return };
        if let Some(error) = no_routes {
            (self.on_event)(WatchEvent::NoRoutes(error));
        }
        for (at, error) in outcome.errors {
            if !matches!(error, ClientError::Unreachable { .. } | ClientError::Closed(_)) {
                let switch = self.switches[at.0 as usize].target.name.clone();
                (self.on_event)(WatchEvent::SwitchFailed { switch, error });
            }
        }
        if outcome.written > 0 || summary.reason != RolloutReason::Drift {
            let (reason, applied, switches, down) =
                (summary.reason, outcome.applied, outcome.written, summary.down);
            let took = Duration::from_nanos(now.saturating_sub(summary.began).as_ns());
            (self.on_event)(WatchEvent::RolledOut { reason, switches, applied, down, took });
        }
    }
}

/// Returns the outcome of the rollout when it finishes; pends forever if there is none.
async fn finished(rollout: &mut Option<JoinHandle<Outcome>>) -> Outcome {
    let Some(task) = rollout else { return std::future::pending().await };
    task.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Formats a link as `s1:3 - s5:1`.
fn link_name(topology: &Topology, link: LinkIx) -> String {
    let link = topology.link(link);
    let end =
        |end: weir_controller::topology::Endpoint| format!("{}:{}", topology.node_name(end.node), end.port);
    format!("{} - {}", end(link.a), end(link.b))
}
