//! The task in the middle.

use super::super::{ClientError, ClientOptions, PacketSender, Program, Session, Target};
use super::keeper::{Event, Heard, Keeper};
use super::notice::{Notice, Why};
use super::rollout::{Aim, Member, Outcome, roll_out};
use crate::plan::{PlanError, PlanOptions};
use crate::routes::{Method, Routes};
use crate::topology::{LinkIx, Topology};
use crate::watch::{LinkMonitor, MonitorConfig, Received};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use weir_proto::p4::v1::{Entity, PacketMetadata, PacketOut};
use weir_proto::value;
use weir_units::Time;

/// Events of keepers that wait.
const EVENT_QUEUE: usize = 256;
/// Probes that wait: a tick of a fat-tree with k = 16 has 8,192.
const HEARD_QUEUE: usize = 16_384;
/// How long the first rollout waits for switches that are not there.
const PATIENCE: Duration = Duration::from_secs(3);
/// When a switch that refused something is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How often strange packet-ins are spoken of.
const STRANGE_EVERY: Duration = Duration::from_secs(10);

/// A fabric to be kept.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// With all links.
    pub topology: Topology,
    /// How routes are made when links fail.
    pub method: Method,
    /// While all links are up.
    pub routes: Routes,
    /// What else the tables hold.
    pub options: PlanOptions,
}

/// How to watch.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// How to talk to switches.
    pub client: ClientOptions,
    /// How to probe; `None`: links are taken to be up.
    pub monitor: Option<MonitorConfig>,
    /// How often all tables are read.
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
    name: String,
    link: Option<(Session, PacketSender)>,
    held: Option<Arc<Vec<Entity>>>,
    /// Its loss was told.
    told: bool,
}

struct Watcher<T> {
    fabric: Arc<Fabric>,
    program: Arc<Program>,
    switches: Vec<Known>,
    monitor: LinkMonitor,
    is_probing: bool,
    probe_ports: Option<(u32, Option<u32>)>,
    aim: Aim,
    /// What the next rollout is for.
    pending: Option<Why>,
    rollout: Option<(JoinHandle<Outcome>, Why, Instant)>,
    began: Instant,
    /// When the links have been probed long enough for a first rollout.
    settled_at: Option<Instant>,
    has_started: bool,
    retry_at: Option<Instant>,
    options: WatchOptions,
    events: mpsc::Receiver<Event>,
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
        let known =
            |target: &Target| Known { name: target.name.clone(), link: None, held: None, told: false };
        let monitor =
            LinkMonitor::new(&fabric.topology, options.monitor.unwrap_or_default(), run, Time::ZERO);
        let goals = crate::plan::goals(&fabric.topology, &fabric.routes, &fabric.options, &program.index)?;
        let routes = Arc::new(fabric.routes.clone());
        Ok(Watcher {
            switches: targets.iter().map(known).collect(),
            aim: Aim { down: BTreeSet::new(), routes, goals: Arc::new(goals) },
            monitor,
            is_probing: options.monitor.is_some() && ingress_port.is_some(),
            probe_ports: header("packet_out", "egress_port").map(|port| (port, header("packet_out", "pad"))),
            fabric: Arc::new(fabric),
            program,
            pending: None,
            rollout: None,
            began,
            settled_at: None,
            has_started: false,
            retry_at: None,
            options,
            events,
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
            self.begin_rollout();
            let next_tick = self.began + Duration::from_nanos(self.monitor.next_tick().as_ns());
            tokio::select! {
                // Probes that came are looked at before silence is concluded from.
                biased;
                Some(heard) = self.heard.recv() => self.hear(heard),
                Some(event) = self.events.recv() => self.take(event),
                outcome = finished(&mut self.rollout) => self.end_rollout(outcome),
                () = tokio::time::sleep_until(next_tick.into()) => self.tick(),
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
        if self.monitor.received(heard.at, heard.port, &heard.frame) != Received::Probe {
            self.strange.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Ready { at, session, packets, pushed, actual } => {
                let it = &mut self.switches[at.0 as usize];
                it.link = Some((session, packets));
                it.held = Some(Arc::new(actual));
                it.told = false;
                (self.tell)(Notice::Connected { switch: it.name.clone(), pushed });
                self.pend(if self.has_started { Why::Returned } else { Why::Start });
                if self.settled_at.is_none() && self.switches.iter().all(|it| it.link.is_some()) {
                    self.settled_at = Some(Instant::now() + self.settling());
                }
            }
            Event::Standby { at } => {
                let it = &mut self.switches[at.0 as usize];
                it.link = None;
                (self.tell)(Notice::Standby { switch: it.name.clone() });
            }
            Event::Lost { at, error } => {
                let it = &mut self.switches[at.0 as usize];
                it.link = None;
                if !std::mem::replace(&mut it.told, true) {
                    (self.tell)(Notice::Lost { switch: it.name.clone(), error });
                }
            }
        }
    }

    /// How long probing takes to find a link dead.
    fn settling(&self) -> Duration {
        match self.options.monitor.filter(|_| self.is_probing) {
            Some(it) => Duration::from_nanos(it.interval.as_ns()) * (it.lost.max(it.good) + 2),
            None => Duration::ZERO,
        }
    }

    fn tick(&mut self) {
        let probes = self.monitor.tick(self.now());
        if !self.is_probing {
            return;
        }
        let Some((egress_port, pad)) = self.probe_ports else { return };
        for (at, port, probe) in probes {
            let Some((_, packets)) = &self.switches[at.0 as usize].link else { continue };
            let port = PacketMetadata { metadata_id: egress_port, value: value::from_uint(port.into()) };
            let pad = pad.map(|id| PacketMetadata { metadata_id: id, value: value::from_uint(0) });
            // What finds the queue full is lost like any other probe.
            packets.send(PacketOut {
                payload: probe.frame(),
                metadata: [port].into_iter().chain(pad).collect(),
            });
        }
    }

    fn check_tables(&mut self) {
        if self.has_started && self.rollout.is_none() {
            self.switches.iter_mut().for_each(|it| it.held = None);
            self.pend(Why::Drift);
        }
    }

    /// The first reason stays: it is the one that matters.
    fn pend(&mut self, why: Why) {
        self.pending.get_or_insert(why);
    }

    /// Links that a rollout has to know of: none before probing can have found them.
    fn down(&self) -> BTreeSet<LinkIx> {
        self.monitor.down().clone()
    }

    fn is_ready(&self) -> bool {
        let now = Instant::now();
        self.has_started
            || self.settled_at.is_some_and(|at| now >= at)
            || now >= self.began + PATIENCE + self.settling()
    }

    fn begin_rollout(&mut self) {
        if self.rollout.is_some() || !self.is_ready() {
            return;
        }
        if self.retry_at.is_some_and(|at| Instant::now() >= at) {
            self.retry_at = None;
            self.pend(Why::Drift);
        }
        let down = self.down();
        if down != self.aim.down {
            self.pending = Some(if self.has_started { Why::Links } else { Why::Start });
        }
        let members: Vec<Member> = self
            .switches
            .iter()
            .filter_map(|it| {
                let (session, _) = it.link.as_ref()?;
                Some(Member { name: it.name.clone(), session: session.clone(), held: it.held.clone() })
            })
            .collect();
        if members.is_empty() {
            return;
        }
        let Some(why) = self.pending.take() else { return };
        self.has_started = true;
        for &link in down.symmetric_difference(&self.aim.down) {
            let is_up = !down.contains(&link);
            (self.tell)(Notice::Link { link: link_name(&self.fabric.topology, link), is_up });
        }
        let work =
            roll_out(Arc::clone(&self.fabric), Arc::clone(&self.program), self.aim.clone(), down, members);
        self.rollout = Some((tokio::spawn(work), why, Instant::now()));
    }

    fn end_rollout(&mut self, (outcome, why, began): (Outcome, Why, Instant)) {
        match outcome.aim {
            Ok(aim) => self.aim = aim,
            Err(error) => {
                // Said once: these links are dealt with until others change.
                self.aim.down = self.down();
                (self.tell)(Notice::NoRoutes(error));
            }
        }
        for it in &mut self.switches {
            match outcome.held.get(&it.name) {
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
        if outcome.written > 0 || why != Why::Drift {
            let (applied, switches) = (outcome.applied, outcome.written);
            let (down, took) = (self.aim.down.len(), began.elapsed());
            (self.tell)(Notice::Written { why, switches, applied, down, took });
        }
    }
}

/// When the rollout is done; never if there is none.
async fn finished(rollout: &mut Option<(JoinHandle<Outcome>, Why, Instant)>) -> (Outcome, Why, Instant) {
    let Some((task, why, began)) = rollout else { return std::future::pending().await };
    let (why, began) = (*why, *began);
    let outcome = task.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    *rollout = None;
    (outcome, why, began)
}

/// `s1:3 - s5:1`
fn link_name(topology: &Topology, link: LinkIx) -> String {
    let link = topology.link(link);
    let end = |end: crate::topology::Endpoint| format!("{}:{}", topology.node_name(end.node), end.port);
    format!("{} - {}", end(link.a), end(link.b))
}
