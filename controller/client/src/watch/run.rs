//! The driver task of `controller watch`: passes events, probes and timer ticks to the sans-I/O [`Watcher`] and
//! executes its rollouts.

use super::super::{ClientError, ClientOptions, Program, Target};
use super::event::WatchEvent;
use super::ports::port_states;
use super::rollout::{RolloutOutcome, RolloutSwitch, roll_out};
use super::session_task::{SessionEvent, SessionTask, SwitchHandle, SwitchMessage};
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
    ControlLoss, FabricIntent, FabricPlan, LinkChange, MonitorConfig, OutgoingProbe, PacketInKind,
    RolloutReason, Watcher,
};
use weir_units::Time;

/// Capacity of the queue of session events.
const EVENT_QUEUE_LEN: usize = 256;
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
    pub check_interval: Duration,
    /// Seed of the id in this run's probes and of the reconnect delays.
    pub random_seed: u64,
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

/// What the driver knows of a switch.
struct WatchedSwitch {
    target: Target,
    /// `None` unless connected and primary.
    handle: Option<SwitchHandle>,
    /// The current outage has been reported.
    is_loss_reported: bool,
}

/// State of the driver task. `T` is the type of the callback for events.
struct Driver<T> {
    fabric: Arc<FabricPlan>,
    program: Arc<Program>,
    switches: Vec<WatchedSwitch>,
    watcher: Watcher,
    /// `None` if links are not probed.
    packet_out_ids: Option<PacketOutIds>,
    /// The rollout in progress.
    rollout: Option<JoinHandle<RolloutOutcome>>,
    /// Time zero of the watcher.
    started_at: Instant,
    options: WatchOptions,
    events: mpsc::Receiver<SessionEvent>,
    /// For port states, which the driver's own tasks read.
    event_sender: mpsc::Sender<SessionEvent>,
    messages: mpsc::Receiver<SwitchMessage>,
    unknown_packet_ins: Arc<AtomicU64>,
    on_event: T,
    /// Session tasks; dropping the set aborts them.
    _session_tasks: JoinSet<()>,
}

/// P4Runtime ids of the metadata fields of packet-outs.
#[derive(Clone, Copy)]
struct PacketOutIds {
    egress_port: u32,
    /// Padding to whole bytes; `None` if the program has none.
    pad: Option<u32>,
}

impl<T: FnMut(WatchEvent)> Driver<T> {
    fn start(
        fabric: FabricPlan,
        program: Arc<Program>,
        targets: Vec<Target>,
        options: WatchOptions,
        on_event: T,
    ) -> Result<Driver<T>, PlanError> {
        let started_at = Instant::now();
        let mut random = Pcg64Mcg::seed_from_u64(options.random_seed);
        let run_id = random.next_u64();
        let (event_sender, events) = mpsc::channel(EVENT_QUEUE_LEN);
        let (message_sender, messages) = mpsc::channel(PROBE_QUEUE_LEN);
        let unknown_packet_ins = Arc::new(AtomicU64::new(0));
        let metadata_id = |header: &str, field: &str| {
            let header = program.index.controller_headers.named(header).ok()?;
            header.metadata.iter().find(|info| info.name == field).map(|info| info.id)
        };
        let ingress_port_id = metadata_id("packet_in", "ingress_port");
        let mut session_tasks = JoinSet::new();
        for (switch, target) in fabric.topology.switch_ixs().zip(&targets) {
            let task = SessionTask {
                switch,
                target: target.clone(),
                program: Arc::clone(&program),
                options: options.client.clone(),
                run_id,
                ingress_port_id,
                events: event_sender.clone(),
                messages: message_sender.clone(),
                unknown_packet_ins: Arc::clone(&unknown_packet_ins),
                random: Pcg64Mcg::seed_from_u64(random.next_u64()),
            };
            session_tasks.spawn(task.run());
        }
        let unconnected =
            |target: &Target| WatchedSwitch { target: target.clone(), handle: None, is_loss_reported: false };
        // Probes need both packet-outs and packet-ins.
        let egress_port = metadata_id("packet_out", "egress_port").filter(|_| ingress_port_id.is_some());
        let monitor = options.monitor.filter(|_| egress_port.is_some());
        let intent = FabricIntent::initial(&fabric, &program.index)?;
        let fabric = Arc::new(fabric);
        Ok(Driver {
            switches: targets.iter().map(unconnected).collect(),
            watcher: Watcher::new(Arc::clone(&fabric), intent, monitor, run_id, Time::ZERO),
            packet_out_ids: egress_port
                .map(|egress_port| PacketOutIds { egress_port, pad: metadata_id("packet_out", "pad") }),
            fabric,
            program,
            rollout: None,
            started_at,
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
        let mut check = tokio::time::interval(self.options.check_interval);
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
            let wakeup = self.started_at + Duration::from_nanos(next_tick.unwrap_or_default().as_ns());
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

    /// Returns the watcher's time.
    fn now(&self) -> Time {
        Time::from_ns(u64::try_from(self.started_at.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn handle_message(&mut self, message: SwitchMessage) {
        match message {
            SwitchMessage::Probe { switch, port, frame } => {
                if self.watcher.on_packet_in(switch, port, &frame) != PacketInKind::Probe {
                    self.unknown_packet_ins.fetch_add(1, Ordering::Relaxed);
                }
            }
            SwitchMessage::Echo { switch, round } => self.watcher.on_echo(switch, round, self.now()),
            SwitchMessage::PacketOutRejected { switch } => self.watcher.on_packet_out_rejected(switch),
        }
    }

    fn handle_event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Ready { switch, handle, pushed, actual } => {
                self.watcher.on_ready(switch, pushed, actual, self.now());
                let watched = &mut self.switches[switch.0 as usize];
                (watched.handle, watched.is_loss_reported) = (Some(handle), false);
                (self.on_event)(WatchEvent::Connected { switch: watched.target.name.clone(), pushed });
            }
            SessionEvent::Standby { switch } => {
                self.watcher.on_lost(switch, ControlLoss::Standby);
                let watched = &mut self.switches[switch.0 as usize];
                watched.handle = None;
                (self.on_event)(WatchEvent::Standby { switch: watched.target.name.clone() });
            }
            SessionEvent::Lost { switch, error } => {
                let is_refused = matches!(error, ClientError::Unreachable { is_refused: true, .. });
                let loss = if is_refused { ControlLoss::ConnectionRefused } else { ControlLoss::Unreachable };
                self.watcher.on_lost(switch, loss);
                let watched = &mut self.switches[switch.0 as usize];
                watched.handle = None;
                if !std::mem::replace(&mut watched.is_loss_reported, true) {
                    (self.on_event)(WatchEvent::Lost { switch: watched.target.name.clone(), error });
                }
            }
            SessionEvent::Ports { switch, ports } => self.watcher.on_port_states(switch, ports),
        }
    }

    /// Starts a probe round.
    fn tick(&mut self) {
        let round = self.watcher.tick(self.now());
        for link in self.watcher.take_kept_links() {
            (self.on_event)(WatchEvent::ProbesLost { link: link_name(&self.fabric.topology, link) });
        }
        let Some(ids) = self.packet_out_ids else { return };
        for OutgoingProbe { switch, egress_port, probe } in round.probes {
            let Some(handle) = &self.switches[switch.0 as usize].handle else { continue };
            let field = |metadata_id, number| PacketMetadata { metadata_id, value: value::from_uint(number) };
            let port = field(ids.egress_port, egress_port.into());
            let pad = ids.pad.map(|id| field(id, 0));
            let metadata = [port].into_iter().chain(pad).collect();
            let packet = PacketOut { payload: probe.frame(), metadata };
            if !handle.packets.send(packet) {
                self.watcher.on_packet_out_rejected(switch);
            }
        }
        for (switch, round) in round.echoes {
            // The queue has room, since at most one echo is in flight per switch. Sending fails only if the session has
            // ended, and then its loss will be reported.
            let Some(handle) = &self.switches[switch.0 as usize].handle else { continue };
            let _ = handle.echoes.try_send(round);
        }
    }

    /// Reads the port states that the watcher has requested.
    fn read_port_states(&mut self) {
        for switch in self.watcher.take_port_queries() {
            let (target, events) =
                (self.switches[switch.0 as usize].target.clone(), self.event_sender.clone());
            let thrift_port =
                u16::try_from(switch.0).ok().and_then(|n| self.options.thrift_base_port.checked_add(n));
            tokio::spawn(async move {
                let ports = match thrift_port {
                    Some(thrift_port) => port_states(&target, thrift_port).await,
                    None => None,
                };
                // Sending fails only when the driver has ended.
                let _ = events.send(SessionEvent::Ports { switch, ports }).await;
            });
        }
    }

    fn begin_rollout(&mut self) {
        let Some(rollout) = self.watcher.begin(self.now()) else { return };
        for LinkChange { link, is_up } in rollout.link_changes {
            (self.on_event)(WatchEvent::Link { link: link_name(&self.fabric.topology, link), is_up });
        }
        let mut switches = Vec::new();
        for (ix, actual) in rollout.switches {
            let WatchedSwitch { target, handle, .. } = &self.switches[ix.0 as usize];
            // The watcher selects only connected switches.
            let Some(handle) = handle else { continue };
            let session = handle.session.clone();
            switches.push(RolloutSwitch { ix, name: target.name.clone(), session, actual });
        }
        let (fabric, program) = (Arc::clone(&self.fabric), Arc::clone(&self.program));
        self.rollout =
            Some(tokio::spawn(roll_out(fabric, program, rollout.intent, rollout.condition, switches)));
    }

    fn end_rollout(&mut self, outcome: RolloutOutcome) {
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
        for (switch, error) in outcome.errors {
            // A lost connection is reported by the session task.
            if !matches!(error, ClientError::Unreachable { .. } | ClientError::Closed(_)) {
                let switch = self.switches[switch.0 as usize].target.name.clone();
                (self.on_event)(WatchEvent::SwitchFailed { switch, error });
            }
        }
        // A check that finds no differences is no event.
        if outcome.written_switches > 0 || summary.reason != RolloutReason::Drift {
            (self.on_event)(WatchEvent::RolledOut {
                reason: summary.reason,
                switches: outcome.written_switches,
                applied: outcome.applied,
                down_links: summary.down_links,
                duration: Duration::from_nanos(now.saturating_sub(summary.began_at).as_ns()),
            });
        }
    }
}

/// Returns the outcome of the rollout when it finishes; pends forever if there is none.
async fn finished(rollout: &mut Option<JoinHandle<RolloutOutcome>>) -> RolloutOutcome {
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
