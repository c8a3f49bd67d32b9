//! The simulated switches, links, connections and controllers, and the faults that affect them.

use super::controller::{Controller, Request};
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::{
    ActionProfileGroup, ActionProfileMember, CloneSessionEntry, Entity, MulticastGroupEntry,
    PacketReplicationEngineEntry, TableEntry, Update,
};
use p4runtime::p4info::{Index, Object};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, LazyLock};
use weir_controller::hash::PathHash;
use weir_controller::path::PathError;
use weir_controller::plan::{Bmv2, decode};
use weir_controller::routes::{Routes, RoutingMethod, routes};
use weir_controller::topology::{HostIx, LinkIx, Node, SwitchIx, Topology, build};
use weir_controller::verify;
use weir_controller::watch::{ControlLoss, LinkProbe, OutgoingProbe};
use weir_switch::control::Control;
use weir_switch::program::Program;
use weir_switch::{Switch, SwitchConfig};
use weir_units::Time;

const JSON: &str = include_str!("../../../../../p4src/build/hpcc.json");
const P4INFO: &str = include_str!("../../../../../p4src/build/hpcc.p4info.txtpb");
/// Indices of the controllers: the one that runs from the start, and one that is the primary now and then.
const MAIN: usize = 0;
const RIVAL: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A link is cut in both directions.
    Cut,
    /// All cut links are repaired.
    Mend,
    /// A switch restarts with empty tables; connections to it are refused meanwhile.
    Restart,
    /// A connection breaks. Messages in flight are lost, in either direction.
    Reset,
    /// No message is delivered on any connection for a while.
    Stall,
    /// The controller is killed and restarted.
    Kill,
    /// The controller sleeps, and its clock jumps.
    Sleep,
    /// Another controller is the primary for a while and is killed.
    Rival,
}

enum Message {
    Arbitration,
    Read(Option<u64>),
    Write(u64, Vec<Update>),
    Echo(u64),
    Probe(u16, LinkProbe),
    Role(bool),
    Entities(Option<u64>, Vec<Entity>),
    Written(u64, bool),
    EchoReply(u64),
    PacketIn(u16, Vec<u8>),
}

enum Event {
    /// A message between switch and controller `id`. It is lost if the connection is no longer of this age.
    Message {
        id: usize,
        switch: SwitchIx,
        age: u64,
        message: Message,
    },
    Connect {
        id: usize,
        switch: SwitchIx,
    },
    Start(usize),
    Kill(usize),
    Boot(SwitchIx),
}

#[derive(Clone, Copy, Default)]
struct Connection {
    is_open: bool,
    age: u64,
    /// Delivery times of the last messages in each direction; later messages are not delivered before.
    last_request_at: Time,
    last_response_at: Time,
}

struct Device {
    switch: Switch,
    control: Control,
    primary: Option<usize>,
    is_running: bool,
}

pub(super) struct World {
    topology: Topology,
    index: Arc<Index>,
    program: Arc<Program>,
    base: Routes,
    devices: Vec<Device>,
    controllers: [Option<Controller>; 2],
    /// Time until which each controller sleeps.
    asleep_until: [Time; 2],
    /// Messages that a controller received while it slept, with the age of the connection.
    inbox: [VecDeque<(SwitchIx, u64, Message)>; 2],
    connections: Vec<[Connection; 2]>,
    cut_links: BTreeSet<LinkIx>,
    now: Time,
    stalled_until: Time,
    events: BTreeMap<(Time, u64), Event>,
    scheduled: u64,
    random: u64,
    /// True while packets may be lost.
    pub may_lose: bool,
    /// Number of updates after which the paths were checked.
    pub checks: u64,
    /// True while some packet loops because its only path leads through a switch that is not under control.
    has_loop: bool,
    /// Number of times that such a loop appeared.
    pub loops: u64,
    seed: u64,
}

impl World {
    /// Returns a fabric whose tables one controller has installed.
    pub(super) fn started(seed: u64) -> World {
        let spec = "{kind: leaf-spine, leaves: 3, spines: 2, hosts_per_leaf: 1}";
        let topology = build(&serde_yaml::from_str(spec).unwrap()).unwrap();
        static PROGRAM: LazyLock<(Arc<Program>, Arc<Index>)> = LazyLock::new(|| {
            (Program::from_json(JSON).unwrap(), Arc::new(Index::from_text(P4INFO).unwrap()))
        });
        let (program, index) = PROGRAM.clone();
        let base = routes(&topology, RoutingMethod::Auto).unwrap();
        let devices = topology.switches.iter().map(|_| device(&program, &index)).collect();
        let connections = vec![[Connection::default(); 2]; topology.switches.len()];
        let mut world = World {
            topology,
            index,
            program,
            base,
            devices,
            controllers: [None, None],
            asleep_until: [Time::ZERO; 2],
            inbox: [VecDeque::new(), VecDeque::new()],
            connections,
            cut_links: BTreeSet::new(),
            now: Time::ZERO,
            stalled_until: Time::ZERO,
            events: BTreeMap::new(),
            scheduled: 0,
            random: seed,
            may_lose: true,
            checks: 0,
            has_loop: false,
            loops: 0,
            seed,
        };
        world.start(MAIN);
        world.run_for(3_500);
        world.assert_connected();
        world
    }

    /// Returns a random number in `0..below` (SplitMix64).
    pub(super) fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    fn schedule(&mut self, time: Time, event: Event) {
        self.scheduled += 1;
        self.events.insert((time, self.scheduled), event);
    }

    fn random_time_within(&mut self, max_ms: u64) -> Time {
        self.now + Time::from_us(200 + self.draw(max_ms * 1_000))
    }

    fn random_switch(&mut self) -> SwitchIx {
        SwitchIx(self.draw(self.devices.len() as u64) as u32)
    }

    pub(super) fn inject(&mut self, fault: Fault) {
        match fault {
            Fault::Cut => {
                let links = (0..self.topology.links.len() as u32).map(LinkIx);
                let fabric: Vec<LinkIx> = links.filter(|&link| self.topology.is_fabric_link(link)).collect();
                let index = self.draw(fabric.len() as u64) as usize;
                self.cut_links.insert(fabric[index]);
            }
            Fault::Mend => self.cut_links.clear(),
            Fault::Restart => {
                let switch = self.random_switch();
                self.devices[switch.0 as usize] = device(&self.program, &self.index);
                self.devices[switch.0 as usize].is_running = false;
                (0..2).for_each(|id| self.reset(id, switch));
                let boot = self.random_time_within(500);
                self.schedule(boot, Event::Boot(switch));
            }
            Fault::Reset => {
                let switch = self.random_switch();
                self.reset(MAIN, switch);
            }
            Fault::Stall => self.stalled_until = self.random_time_within(1_500),
            Fault::Kill => {
                self.kill(MAIN);
                let start = self.random_time_within(500);
                self.schedule(start, Event::Start(MAIN));
            }
            Fault::Sleep => {
                self.asleep_until[MAIN] = self.random_time_within(3_000).max(self.asleep_until[MAIN])
            }
            Fault::Rival => {
                self.start(RIVAL);
                let end = self.random_time_within(5_000);
                self.schedule(end, Event::Kill(RIVAL));
            }
        }
    }

    fn start(&mut self, id: usize) {
        if self.controllers[id].is_some() {
            return;
        }
        let run = 1 + self.draw(u64::MAX - 1);
        self.controllers[id] = Some(Controller::new(&self.topology, &self.base, &self.index, run, self.now));
        for switch in self.topology.switch_ixs() {
            let due = self.random_time_within(20);
            self.schedule(due, Event::Connect { id, switch });
        }
    }

    fn kill(&mut self, id: usize) {
        self.controllers[id] = None;
        self.inbox[id].clear();
        for switch in self.topology.switch_ixs() {
            self.reset(id, switch);
        }
    }

    /// Breaks a connection. The switch elects another primary, and the controller reconnects later.
    fn reset(&mut self, id: usize, switch: SwitchIx) {
        let connection = &mut self.connections[switch.0 as usize][id];
        connection.age += 1;
        if !std::mem::take(&mut connection.is_open) {
            return;
        }
        self.elect(switch);
        if let Some(controller) = &mut self.controllers[id] {
            controller.on_lost(switch, ControlLoss::Unreachable);
            let retry = self.random_time_within(300);
            self.schedule(retry, Event::Connect { id, switch });
        }
    }

    /// Elects the primary of a switch among the connected controllers. The rival has the larger election id.
    fn elect(&mut self, switch: SwitchIx) {
        let open = &self.connections[switch.0 as usize];
        let primary = [RIVAL, MAIN].into_iter().find(|&id| open[id].is_open);
        let device = &mut self.devices[switch.0 as usize];
        if device.primary == primary {
            return;
        }
        device.primary = primary;
        for id in [MAIN, RIVAL] {
            if self.connections[switch.0 as usize][id].is_open {
                self.send(id, switch, false, Message::Role(primary == Some(id)));
            }
        }
    }

    /// Sends a message on a connection with a random delay. Messages of one direction stay in order.
    fn send(&mut self, id: usize, switch: SwitchIx, is_request: bool, message: Message) {
        let delay = if self.draw(20) == 0 { 60 } else { 4 };
        let soon = self.random_time_within(delay).max(self.stalled_until);
        let connection = &mut self.connections[switch.0 as usize][id];
        let last =
            if is_request { &mut connection.last_request_at } else { &mut connection.last_response_at };
        *last = (*last).max(soon);
        let (due, age) = (*last, connection.age);
        self.schedule(due, Event::Message { id, switch, age, message });
    }

    pub(super) fn run_for(&mut self, ms: u64) {
        let end = self.now + Time::from_ms(ms);
        loop {
            let event = self.events.first_key_value().map_or(Time::MAX, |(key, _)| key.0);
            let tick = (0..2).filter_map(|id| {
                let next = self.controllers[id].as_ref()?.watcher.next_tick()?;
                Some(next.max(self.asleep_until[id]))
            });
            let tick = tick.min().unwrap_or(Time::MAX);
            let next = event.min(tick);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            (0..2).for_each(|id| self.wake(id));
            if tick <= event {
                (0..2).for_each(|id| self.tick(id));
            } else if let Some((_, event)) = self.events.pop_first() {
                self.dispatch(event);
            }
            (0..2).for_each(|id| self.poll(id));
        }
    }

    fn is_awake(&self, id: usize) -> bool {
        self.controllers[id].is_some() && self.now >= self.asleep_until[id]
    }

    /// Delivers the messages that arrived while the controller slept, in order.
    fn wake(&mut self, id: usize) {
        while self.is_awake(id)
            && let Some((switch, age, message)) = self.inbox[id].pop_front()
        {
            if self.connections[switch.0 as usize][id].age == age {
                self.receive(id, switch, message);
            }
        }
    }

    fn tick(&mut self, id: usize) {
        let (now, is_awake) = (self.now, self.is_awake(id));
        let is_due = |controller: &&mut Controller| {
            is_awake && controller.watcher.next_tick().is_some_and(|due| due <= now)
        };
        let Some(controller) = self.controllers[id].as_mut().filter(is_due) else { return };
        let round = controller.watcher.tick(now);
        for OutgoingProbe { switch, egress_port, probe } in round.probes {
            self.send(id, switch, true, Message::Probe(egress_port, probe));
        }
        for (switch, round) in round.echoes {
            self.send(id, switch, true, Message::Echo(round));
        }
    }

    fn poll(&mut self, id: usize) {
        if !self.is_awake(id) {
            return;
        }
        let now = self.now;
        let Some(controller) = &mut self.controllers[id] else { return };
        // A switch reports a port as down if its link is cut.
        for switch in controller.watcher.take_port_queries() {
            let state = |link: LinkIx| !self.cut_links.contains(&link);
            let ports =
                self.topology.switch(switch).ports().map(|(port, link)| (port, state(link))).collect();
            controller.watcher.on_port_states(switch, Some(ports));
        }
        for (switch, request) in controller.poll(now) {
            let message = match request {
                Request::Read(reason) => Message::Read(reason),
                Request::Write(rollout, updates) => Message::Write(rollout, updates),
            };
            self.send(id, switch, true, message);
        }
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Start(id) => self.start(id),
            Event::Kill(id) => self.kill(id),
            Event::Boot(switch) => self.devices[switch.0 as usize].is_running = true,
            Event::Connect { id, switch } => self.connect(id, switch),
            Event::Message { id, switch, age, message } => {
                if self.connections[switch.0 as usize][id].age == age {
                    self.deliver(id, switch, message);
                }
            }
        }
    }

    fn connect(&mut self, id: usize, switch: SwitchIx) {
        let Some(controller) = &mut self.controllers[id] else { return };
        let connection = &mut self.connections[switch.0 as usize][id];
        if connection.is_open {
            return;
        }
        if !self.devices[switch.0 as usize].is_running {
            controller.on_lost(switch, ControlLoss::ConnectionRefused);
            let retry = self.random_time_within(300);
            return self.schedule(retry, Event::Connect { id, switch });
        }
        *connection = Connection { is_open: true, age: connection.age + 1, ..Connection::default() };
        self.send(id, switch, true, Message::Arbitration);
    }

    fn deliver(&mut self, id: usize, switch: SwitchIx, message: Message) {
        let index = switch.0 as usize;
        match message {
            Message::Arbitration => {
                let before = self.devices[index].primary;
                self.elect(switch);
                if self.devices[index].primary == before {
                    self.send(id, switch, false, Message::Role(before == Some(id)));
                }
            }
            Message::Read(reason) => {
                let held = self.entities(index);
                self.send(id, switch, false, Message::Entities(reason, held));
            }
            Message::Write(rollout, updates) => {
                let is_primary = self.devices[index].primary == Some(id);
                let mut is_accepted = is_primary;
                for update in updates.iter().filter(|_| is_primary) {
                    let Device { control, switch, .. } = &mut self.devices[index];
                    is_accepted &= control.apply(switch, update).is_ok();
                    self.check_paths(id);
                }
                self.send(id, switch, false, Message::Written(rollout, is_accepted));
            }
            // Messages stay in order, so the reply follows all packets that the switch has returned before.
            Message::Echo(round) => self.send(id, switch, false, Message::EchoReply(round)),
            Message::Probe(port, probe) => self.forward_probe(id, switch, port, &probe),
            answer => self.receive(id, switch, answer),
        }
    }

    /// Sends a probe over its link, and from the switch at the other end to the primary of that switch.
    fn forward_probe(&mut self, id: usize, switch: SwitchIx, port: u16, probe: &LinkProbe) {
        let link = self.topology.link(LinkIx(probe.link));
        let to = if probe.is_forward { link.b } else { link.a };
        let Node::Switch(other) = to.node else { panic!("a probe to a host, from port {port}") };
        let primary_of = |switch: SwitchIx| self.devices[switch.0 as usize].primary;
        if self.cut_links.contains(&LinkIx(probe.link))
            || primary_of(switch) != Some(id)
            || !self.devices[other.0 as usize].is_running
        {
            return;
        }
        let Some(primary) = primary_of(other) else { return };
        self.send(primary, other, false, Message::PacketIn(to.port, probe.frame()));
    }

    /// Delivers a message to a controller. While the controller sleeps, messages wait in its inbox.
    fn receive(&mut self, id: usize, switch: SwitchIx, answer: Message) {
        if !self.is_awake(id) {
            let age = self.connections[switch.0 as usize][id].age;
            if self.controllers[id].is_some() {
                self.inbox[id].push_back((switch, age, answer));
            }
            return;
        }
        let now = self.now;
        let Some(controller) = &mut self.controllers[id] else { return };
        match answer {
            Message::Role(is_primary) => {
                if let Some(Request::Read(reason)) = controller.on_arbitration(switch, is_primary) {
                    self.send(id, switch, true, Message::Read(reason));
                }
            }
            Message::Entities(reason, held) => controller.on_read(switch, reason, held, now),
            Message::Written(rollout, is_accepted) => controller.on_written(switch, rollout, is_accepted),
            Message::EchoReply(round) => controller.watcher.on_echo(switch, round, now),
            Message::PacketIn(port, frame) => {
                controller.watcher.on_packet_in(switch, port, &frame);
            }
            _ => {}
        }
    }

    fn entities(&self, index: usize) -> Vec<Entity> {
        let mut requests = vec![Kind::TableEntry(TableEntry::default())];
        for table in self.index.tables.iter() {
            if table.const_default_action_id == 0 && table.implementation_id == 0 {
                let (table_id, is_default_action) = (table.preamble().id, true);
                requests.push(Kind::TableEntry(TableEntry {
                    table_id,
                    is_default_action,
                    ..TableEntry::default()
                }));
            }
        }
        requests.push(Kind::ActionProfileMember(ActionProfileMember::default()));
        requests.push(Kind::ActionProfileGroup(ActionProfileGroup::default()));
        let groups = Pre::MulticastGroupEntry(MulticastGroupEntry::default());
        let sessions = Pre::CloneSessionEntry(CloneSessionEntry::default());
        for kind in [groups, sessions] {
            requests.push(Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
                r#type: Some(kind),
            }));
        }
        let Device { control, switch, .. } = &self.devices[index];
        let read = |kind| control.read(switch, &Entity { entity: Some(kind) }).unwrap_or_default();
        requests.into_iter().flat_map(read).collect()
    }

    /// Decodes the routes from the tables of the switches.
    fn routes(&self) -> Routes {
        let switches = self.topology.switches.iter().enumerate();
        let held = switches.map(|(index, switch)| (switch.name.clone(), self.entities(index))).collect();
        decode(&self.topology, &held, &self.index, &Bmv2).unwrap()
    }

    /// Checks all paths after an update by a controller: no packet is lost if `may_lose` is false, and no packet loops.
    /// A loop is allowed if the only path that the controller knows leads through a switch that it has to avoid.
    fn check_paths(&mut self, id: usize) {
        self.checks += 1;
        let condition = self.controllers[id]
            .as_ref()
            .and_then(|controller| controller.condition().cloned())
            .unwrap_or_default();
        let mut is_looping = false;
        let known = self.topology.without_links(&condition.down);
        let (routes, left) = (self.routes(), self.topology.without_links(&self.cut_links));
        for (a, b) in
            left.host_ixs().flat_map(|a| left.host_ixs().map(move |b| (a, b))).filter(|(a, b)| a != b)
        {
            for hash in (1..5).map(|n| PathHash(0x9e37_79b1_u32.wrapping_mul(n))) {
                match routes.path(&left, a, b, hash) {
                    Err(lost) if !self.may_lose => panic!("seed {}, {}: {lost}", self.seed, self.now),
                    Err(PathError::Loop(_)) if self.has_loop || needs(&known, b, &condition.avoided) => {
                        is_looping = true
                    }
                    Err(PathError::Loop(switch)) => {
                        panic!("seed {}, {}: a loop at {switch}", self.seed, self.now)
                    }
                    _ => {}
                }
            }
        }
        self.loops += u64::from(is_looping && !self.has_loop);
        self.has_loop = is_looping;
    }

    /// Asserts that every pair of hosts that has a path is connected, by symmetric paths.
    pub(super) fn assert_connected(&self) {
        let verified = verify(&self.topology.without_links(&self.cut_links), &self.routes());
        assert!(
            verified.is_ok(),
            "seed {}, {}, {} links cut: {verified:?}",
            self.seed,
            self.now,
            self.cut_links.len()
        );
    }
}

/// Returns whether a switch reaches a host only through one of the switches that are avoided.
fn needs(topology: &Topology, host: HostIx, avoided: &BTreeSet<SwitchIx>) -> bool {
    let reached = |is_passable: &dyn Fn(&SwitchIx) -> bool| {
        let to = topology.host(host).switch;
        let (mut seen, mut left) = (BTreeSet::from([to]), vec![to]);
        while let Some(switch) = left.pop() {
            let neighbours = topology.neighbours(switch).map(|neighbour| neighbour.switch);
            let new: Vec<SwitchIx> = neighbours.filter(|switch| seen.insert(*switch)).collect();
            left.extend(new.into_iter().filter(is_passable));
        }
        seen
    };
    reached(&|_| true) != reached(&|switch| !avoided.contains(switch))
}

fn device(program: &Arc<Program>, index: &Arc<Index>) -> Device {
    let switch = Switch::new(Arc::clone(program), SwitchConfig::new(0..8), 1).unwrap();
    let control = Control::new(Arc::clone(index), &switch).unwrap();
    Device { switch, control, primary: None, is_running: true }
}
