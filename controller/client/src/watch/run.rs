//! The task in the middle.

use super::super::{ClientError, ClientOptions, Program, Target};
use super::keeper::{Event, Heard, Keeper, Link};
use super::notice::{Notice, Why};
use super::ports::port_states;
use super::rollout::{Aim, Member, Outcome, roll_out};
use p4runtime::p4::v1::{Entity, PacketMetadata, PacketOut};
use p4runtime::value;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use weir_controller::plan::{PlanError, PlanOptions};
use weir_controller::routes::{Method, Routes};
use weir_controller::topology::{LinkIx, SwitchIx, Topology};
use weir_controller::watch::{LinkMonitor, Loss, MonitorConfig, Received};
use weir_units::Time;

/// Events of keepers that wait.
const EVENT_QUEUE: usize = 256;
/// Probes that wait: a tick of a fat-tree with k = 16 has 8,192.
const HEARD_QUEUE: usize = 16_384;
/// Time that the first rollout waits for switches that cannot be reached.
const PATIENCE: Duration = Duration::from_secs(3);
/// Delay until a switch that refused something is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Interval of notices about strange packet-ins.
const STRANGE_EVERY: Duration = Duration::from_secs(10);

/// A fabric to be kept.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// With all links.
    pub topology: Topology,
    /// Kind of routes to use when links fail.
    pub method: Method,
    /// While all links are up.
    pub routes: Routes,
    /// Content of the tables besides routes.
    pub options: PlanOptions,
}

/// Options of a watch.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// Options of the connections to switches.
    pub client: ClientOptions,
    /// Configuration of probes; `None`: links count as up.
    pub monitor: Option<MonitorConfig>,
    /// Thrift port of the first switch, the others follow, each at the host of its P4Runtime server.
    pub thrift_base_port: u16,
    /// Interval at which all tables are read.
    pub check: Duration,
    /// Seed of the run's number and of waits.
    pub random: u64,
}

/// Watches until `stop` is ready, and tells `tell` what it does. Entries stay in the switches.
pub async fn watch(
    fabric: Fabric,
    program: Arc<Program>,
    targets: Vec<Target>,
    options: WatchOptions,
    tell: impl FnMut(Notice),
    stop: impl Future<Output = ()>,
) -> Result<(), PlanError> {
    let mut watcher = Watcher::start(fabric, program, targets, options, tell)?;
    tokio::select! {
        () = stop => {}
        () = watcher.run() => {}
    }
    Ok(())
}

/// A switch as the watcher sees it.
struct Known {
    target: Target,
    link: Option<Link>,
    held: Option<Arc<Vec<Entity>>>,
    /// Its tables are left alone until its links are known, at the latest until then.
    waits_until: Option<Instant>,
    /// Its loss was told.
    told: bool,
}

/// A rollout under way.
struct Rollout {
    task: JoinHandle<Outcome>,
    why: Why,
    began: Instant,
    /// Links that were down when it began.
    down: BTreeSet<LinkIx>,
    members: Vec<SwitchIx>,
}

struct Watcher<T> {
    fabric: Arc<Fabric>,
    program: Arc<Program>,
    switches: Vec<Known>,
    monitor: LinkMonitor,
    /// P4Runtime ids of the packet-out's egress port and padding; `None` if links are not probed.
    probe_ports: Option<(u32, Option<u32>)>,
    aim: Aim,
    /// Cause of the next rollout.
    pending: Option<Why>,
    rollout: Option<Rollout>,
    began: Instant,
    has_started: bool,
    retry_at: Option<Instant>,
    options: WatchOptions,
    events: mpsc::Receiver<Event>,
    event_sender: mpsc::Sender<Event>,
    heard: mpsc::Receiver<Heard>,
    strange: Arc<AtomicU64>,
    tell: T,
    /// Ends with the watcher.
    _keepers: JoinSet<()>,
}

impl<T: FnMut(Notice)> Watcher<T> {
    fn start(
        fabric: Fabric,
        program: Arc<Program>,
        targets: Vec<Target>,
        options: WatchOptions,
        tell: T,
    ) -> Result<Watcher<T>, PlanError> {
        let began = Instant::now();
        let mut random = Pcg64Mcg::seed_from_u64(options.random);
        let run = random.next_u64();
        let (event_sender, events) = mpsc::channel(EVENT_QUEUE);
        let (heard_sender, heard) = mpsc::channel(HEARD_QUEUE);
        let strange = Arc::new(AtomicU64::new(0));
        let header = |header: &str, field: &str| {
            let found = program.index.controller_headers.named(header).ok()?;
            found.metadata.iter().find(|it| it.name == field).map(|it| it.id)
        };
        let ingress_port = header("packet_in", "ingress_port");
        let mut keepers = JoinSet::new();
        for (at, target) in fabric.topology.switch_ixs().zip(&targets) {
            let keeper = Keeper {
                at,
                target: target.clone(),
                program: Arc::clone(&program),
                options: options.client,
                run,
                ingress_port,
                events: event_sender.clone(),
                heard: heard_sender.clone(),
                strange: Arc::clone(&strange),
                random: Pcg64Mcg::seed_from_u64(random.next_u64()),
            };
            keepers.spawn(keeper.keep());
        }
        let known = |target: &Target| {
            let target = target.clone();
            Known { target, link: None, held: None, waits_until: None, told: false }
        };
        let monitor =
            LinkMonitor::new(&fabric.topology, options.monitor.unwrap_or_default(), run, Time::ZERO);
        let goals =
            weir_controller::plan::goals(&fabric.topology, &fabric.routes, &fabric.options, &program.index)?;
        let routes = Arc::new(fabric.routes.clone());
        let egress_port = header("packet_out", "egress_port");
        let can_probe = options.monitor.is_some() && ingress_port.is_some();
        Ok(Watcher {
            switches: targets.iter().map(known).collect(),
            aim: Aim { down: BTreeSet::new(), routes, goals: Arc::new(goals) },
            monitor,
            probe_ports: egress_port.filter(|_| can_probe).map(|port| (port, header("packet_out", "pad"))),
            fabric: Arc::new(fabric),
            program,
            pending: None,
            rollout: None,
            began,
            has_started: false,
            retry_at: None,
            options,
            events,
            event_sender,
            heard,
            strange,
            tell,
            _keepers: keepers,
        })
    }

    async fn run(&mut self) {
        let mut check = tokio::time::interval(self.options.check);
        check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut strange = tokio::time::interval(STRANGE_EVERY);
        loop {
            self.ask_ports();
            self.abandon_rollout();
            self.begin_rollout();
            let next_tick = self.began + Duration::from_nanos(self.monitor.next_tick().as_ns());
            tokio::select! {
                // Probes that came are looked at before silence is concluded from.
                biased;
                Some(heard) = self.heard.recv() => self.hear(heard),
                Some(event) = self.events.recv() => self.take(event),
                outcome = finished(&mut self.rollout) => self.end_rollout(outcome),
                () = tokio::time::sleep_until(next_tick.into()), if self.probe_ports.is_some() => self.tick(),
                _ = check.tick() => self.check_tables(),
                _ = strange.tick() => {
                    match self.strange.swap(0, Ordering::Relaxed) {
                        0 => {}
                        count => (self.tell)(Notice::Strange(count)),
                    }
                }
            }
        }
    }

    fn now(&self) -> Time {
        Time::from_ns(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Probe { at, port, frame } => {
                if self.monitor.received(at, port, &frame) != Received::Probe {
                    self.strange.fetch_add(1, Ordering::Relaxed);
                }
            }
            Heard::Echo { at, round } => {
                self.monitor.answered(at, round, self.now());
                self.settle();
            }
            Heard::Refused { at } => self.monitor.refused(at),
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Ready { at, link, pushed, actual } => {
                self.monitor.connected(at);
                let it = &mut self.switches[at.0 as usize];
                it.link = Some(link);
                it.held = Some(Arc::new(actual));
                it.told = false;
                (self.tell)(Notice::Connected { switch: it.target.name.clone(), pushed });
                // A switch that holds entries forwards. It is written when the links are known again: they may have
                // changed while another controller led.
                let is_urgent = (pushed && self.has_started) || self.probe_ports.is_none();
                it.waits_until = (!is_urgent).then(|| Instant::now() + PATIENCE);
                if is_urgent {
                    self.pend(Why::Returned);
                }
            }
            Event::Standby { at } => {
                self.monitor.disconnected(at, Loss::Standby);
                let it = &mut self.switches[at.0 as usize];
                it.link = None;
                (self.tell)(Notice::Standby { switch: it.target.name.clone() });
            }
            Event::Lost { at, error } => {
                let is_refused = matches!(error, ClientError::Unreachable { is_refused: true, .. });
                self.monitor.disconnected(at, if is_refused { Loss::Refused } else { Loss::Silent });
                let it = &mut self.switches[at.0 as usize];
                it.link = None;
                if !std::mem::replace(&mut it.told, true) {
                    (self.tell)(Notice::Lost { switch: it.target.name.clone(), error });
                }
            }
            Event::Ports { at, ports } => self.monitor.port_states(at, ports),
        }
    }

    /// Lets switches take part in rollouts whose links are known.
    fn settle(&mut self) {
        let now = Instant::now();
        let mut has_settled = false;
        for (at, it) in self.fabric.topology.switch_ixs().zip(&mut self.switches) {
            if it.link.is_some()
                && it.waits_until.is_some_and(|until| now >= until || self.monitor.has_settled(at))
            {
                it.waits_until = None;
                has_settled = true;
            }
        }
        if has_settled {
            self.pend(Why::Returned);
        }
    }

    fn tick(&mut self) {
        let round = self.monitor.tick(self.now());
        self.settle();
        for link in self.monitor.kept() {
            (self.tell)(Notice::Kept { link: link_name(&self.fabric.topology, link) });
        }
        let Some((egress_port, pad)) = self.probe_ports else { return };
        for (at, port, probe) in round.probes {
            let Some(link) = &self.switches[at.0 as usize].link else { continue };
            let port = PacketMetadata { metadata_id: egress_port, value: value::from_uint(port.into()) };
            let pad = pad.map(|id| PacketMetadata { metadata_id: id, value: value::from_uint(0) });
            let packet =
                PacketOut { payload: probe.frame(), metadata: [port].into_iter().chain(pad).collect() };
            if !link.packets.send(packet) {
                self.monitor.refused(at);
            }
        }
        for (at, round) in round.echoes {
            // There is one request at a time. If the session has ended, its loss is on its way here.
            let Some(link) = &self.switches[at.0 as usize].link else { continue };
            let _ = link.echoes.try_send(round);
        }
    }

    /// Asks switches for their port states if the monitor needs them.
    fn ask_ports(&mut self) {
        for at in self.monitor.questions() {
            let (target, events) = (self.switches[at.0 as usize].target.clone(), self.event_sender.clone());
            let thrift_port =
                u16::try_from(at.0).ok().and_then(|n| self.options.thrift_base_port.checked_add(n));
            tokio::spawn(async move {
                let ports = match thrift_port {
                    Some(thrift_port) => port_states(&target, thrift_port).await,
                    None => None,
                };
                // Nobody listens any more when the watcher has ended.
                let _ = events.send(Event::Ports { at, ports }).await;
            });
        }
    }

    fn check_tables(&mut self) {
        if self.has_started && self.rollout.is_none() {
            self.switches.iter_mut().for_each(|it| it.held = None);
            self.pend(Why::Drift);
        }
    }

    /// The most important reason stays.
    fn pend(&mut self, why: Why) {
        self.pending = Some(self.pending.map_or(why, |pending| pending.min(why)));
    }

    /// Returns whether all switches can take part in the first rollout, or have had the time.
    fn is_ready(&self) -> bool {
        self.has_started
            || self.switches.iter().all(|it| it.link.is_some() && it.waits_until.is_none())
            || self.began.elapsed() >= PATIENCE
    }

    /// Switches that are under control, whose links are known, and that answer.
    fn members(&mut self) -> Vec<(SwitchIx, Member)> {
        let (now, is_probing) = (self.now(), self.probe_ports.is_some());
        let mut members = Vec::new();
        for (at, it) in self.fabric.topology.switch_ixs().zip(&self.switches) {
            let Some(link) = it.link.as_ref().filter(|_| it.waits_until.is_none()) else { continue };
            if is_probing && !self.monitor.is_answering(at, now) {
                // The others do not wait for it.
                self.retry_at = Some(Instant::now() + RETRY);
                continue;
            }
            let (name, session, held) = (it.target.name.clone(), link.session.clone(), it.held.clone());
            members.push((at, Member { name, session, held }));
        }
        members
    }

    fn begin_rollout(&mut self) {
        if self.rollout.is_some() || !self.is_ready() {
            return;
        }
        if self.retry_at.is_some_and(|at| Instant::now() >= at) {
            self.retry_at = None;
            self.pend(Why::Drift);
        }
        if *self.monitor.down() != self.aim.down {
            self.pend(Why::Links);
        }
        if self.pending.is_none() {
            return;
        }
        let (ixs, members): (Vec<SwitchIx>, Vec<Member>) = self.members().into_iter().unzip();
        if members.is_empty() {
            return;
        }
        let down = self.monitor.down().clone();
        let Some(why) = self.pending.take() else { return };
        let why = if std::mem::replace(&mut self.has_started, true) { why } else { Why::Start };
        for &link in down.symmetric_difference(&self.aim.down) {
            let is_up = !down.contains(&link);
            (self.tell)(Notice::Link { link: link_name(&self.fabric.topology, link), is_up });
        }
        let (fabric, program) = (Arc::clone(&self.fabric), Arc::clone(&self.program));
        let task = tokio::spawn(roll_out(fabric, program, self.aim.clone(), down.clone(), members));
        self.rollout = Some(Rollout { task, why, began: Instant::now(), down, members: ixs });
    }

    /// Gives a rollout up that waits for a switch which does not answer while links have changed: the others cannot
    /// wait. What it has written is compared again.
    fn abandon_rollout(&mut self) {
        let now = self.now();
        let is_silent = |at: &SwitchIx| !self.monitor.is_answering(*at, now);
        let is_stuck = |it: &mut Rollout| it.down != *self.monitor.down() && it.members.iter().any(is_silent);
        let Some(rollout) = self.rollout.take_if(is_stuck) else { return };
        rollout.task.abort();
        for at in rollout.members {
            self.switches[at.0 as usize].held = None;
        }
        self.pend(rollout.why);
    }

    fn end_rollout(&mut self, outcome: Outcome) {
        let Some(rollout) = self.rollout.take() else { return };
        match outcome.aim {
            Ok(aim) => self.aim = aim,
            Err(error) => {
                // Said once: these links are dealt with until others change.
                self.aim.down = self.monitor.down().clone();
                (self.tell)(Notice::NoRoutes(error));
            }
        }
        for it in &mut self.switches {
            match outcome.held.get(&it.target.name) {
                Some(Ok(held)) => it.held = Some(Arc::clone(held)),
                Some(Err(_)) => it.held = None,
                None => {}
            }
        }
        for (switch, error) in outcome.held.into_iter().filter_map(|(name, held)| Some((name, held.err()?))) {
            if !matches!(error, ClientError::Unreachable { .. } | ClientError::Closed(_)) {
                (self.tell)(Notice::Refused { switch, error });
            }
            self.retry_at = Some(Instant::now() + RETRY);
        }
        if outcome.written > 0 || rollout.why != Why::Drift {
            let (why, applied, switches) = (rollout.why, outcome.applied, outcome.written);
            let (down, took) = (self.aim.down.len(), rollout.began.elapsed());
            (self.tell)(Notice::Written { why, switches, applied, down, took });
        }
    }
}

/// Returns the outcome of the rollout when it is done; never if there is none.
async fn finished(rollout: &mut Option<Rollout>) -> Outcome {
    let Some(rollout) = rollout else { return std::future::pending().await };
    (&mut rollout.task).await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// `s1:3 - s5:1`
fn link_name(topology: &Topology, link: LinkIx) -> String {
    let link = topology.link(link);
    let end =
        |end: weir_controller::topology::Endpoint| format!("{}:{}", topology.node_name(end.node), end.port);
    format!("{} - {}", end(link.a), end(link.b))
}
