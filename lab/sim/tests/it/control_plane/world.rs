//! Switches, links, connections and controllers, and what happens to them.

use super::brain::{Brain, Order};
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
use weir_controller::watch::{ControlLoss, LinkProbe};
use weir_switch::control::Control;
use weir_switch::program::Program;
use weir_switch::{Switch, SwitchConfig};
use weir_units::Time;

const JSON: &str = include_str!("../../../../../p4src/build/hpcc.json");
const P4INFO: &str = include_str!("../../../../../p4src/build/hpcc.p4info.txtpb");
/// The controller that is there from the beginning, and one that leads now and then.
const HOME: usize = 0;
const RIVAL: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A link is cut in both directions.
    Cut,
    /// All cut links are whole again.
    Mend,
    /// A switch starts anew with empty tables; connections to it are refused meanwhile.
    Restart,
    /// A connection breaks. Messages in flight are lost, in either direction.
    Reset,
    /// Nothing moves on the connections for a while.
    Stall,
    /// The controller is killed, and started again.
    Kill,
    /// The controller sleeps, and its clock jumps.
    Sleep,
    /// Another controller leads for a while and is killed.
    Rival,
}

enum Message {
    Bid,
    Read(Option<u64>),
    Write(u64, Vec<Update>),
    Echo(u64),
    Probe(u16, LinkProbe),
    Standing(bool),
    Held(Option<u64>, Vec<Entity>),
    Written(u64, bool),
    Answer(u64),
    Returned(u16, Vec<u8>),
}

enum Event {
    /// From a switch to a controller or back, on a connection of this age.
    Message {
        who: usize,
        at: SwitchIx,
        age: u64,
        message: Message,
    },
    Connect {
        who: usize,
        at: SwitchIx,
    },
    Start(usize),
    Die(usize),
    Boot(SwitchIx),
}

#[derive(Clone, Copy, Default)]
struct Connection {
    is_open: bool,
    age: u64,
    /// Nothing is delivered earlier than what was sent before.
    there: Time,
    back: Time,
}

struct Device {
    switch: Switch,
    control: Control,
    primary: Option<usize>,
    is_running: bool,
}

pub struct World {
    topology: Topology,
    index: Arc<Index>,
    program: Arc<Program>,
    base: Routes,
    devices: Vec<Device>,
    brains: [Option<Brain>; 2],
    /// Until when a controller sleeps.
    asleep: [Time; 2],
    /// Messages that a controller received while it slept, with the age of the connection.
    inbox: [VecDeque<(SwitchIx, u64, Message)>; 2],
    connections: Vec<[Connection; 2]>,
    cut: BTreeSet<LinkIx>,
    now: Time,
    stalled_until: Time,
    events: BTreeMap<(Time, u64), Event>,
    scheduled: u64,
    random: u64,
    /// True while packets may be lost.
    pub may_lose: bool,
    /// Number of times that updates were checked.
    pub looks: u64,
    /// A packet loops, since its only path leads through a switch without control.
    has_loop: bool,
    /// Number of times that a loop began.
    pub detours: u64,
    seed: u64,
}

impl World {
    /// A fabric whose tables are full, with one controller.
    pub fn started(seed: u64) -> World {
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
            brains: [None, None],
            asleep: [Time::ZERO; 2],
            inbox: [VecDeque::new(), VecDeque::new()],
            connections,
            cut: BTreeSet::new(),
            now: Time::ZERO,
            stalled_until: Time::ZERO,
            events: BTreeMap::new(),
            scheduled: 0,
            random: seed,
            may_lose: true,
            looks: 0,
            has_loop: false,
            detours: 0,
            seed,
        };
        world.start(HOME);
        world.run_for(3_500);
        world.assert_whole();
        world
    }

    /// A number below `below` (SplitMix64).
    pub fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.scheduled += 1;
        self.events.insert((at, self.scheduled), event);
    }

    fn soon(&mut self, most_ms: u64) -> Time {
        self.now + Time::from_us(200 + self.draw(most_ms * 1_000))
    }

    fn some_switch(&mut self) -> SwitchIx {
        SwitchIx(self.draw(self.devices.len() as u64) as u32)
    }

    pub fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Cut => {
                let links = (0..self.topology.links.len() as u32).map(LinkIx);
                let fabric: Vec<LinkIx> = links.filter(|&it| self.topology.is_fabric_link(it)).collect();
                let at = self.draw(fabric.len() as u64) as usize;
                self.cut.insert(fabric[at]);
            }
            Fault::Mend => self.cut.clear(),
            Fault::Restart => {
                let at = self.some_switch();
                self.devices[at.0 as usize] = device(&self.program, &self.index);
                self.devices[at.0 as usize].is_running = false;
                (0..2).for_each(|who| self.reset(who, at));
                let boot = self.soon(500);
                self.schedule(boot, Event::Boot(at));
            }
            Fault::Reset => {
                let at = self.some_switch();
                self.reset(HOME, at);
            }
            Fault::Stall => self.stalled_until = self.soon(1_500),
            Fault::Kill => {
                self.kill(HOME);
                let start = self.soon(500);
                self.schedule(start, Event::Start(HOME));
            }
            Fault::Sleep => self.asleep[HOME] = self.soon(3_000).max(self.asleep[HOME]),
            Fault::Rival => {
                self.start(RIVAL);
                let end = self.soon(5_000);
                self.schedule(end, Event::Die(RIVAL));
            }
        }
    }

    fn start(&mut self, who: usize) {
        if self.brains[who].is_some() {
            return;
        }
        let run = 1 + self.draw(u64::MAX - 1);
        self.brains[who] = Some(Brain::new(&self.topology, &self.base, &self.index, run, self.now));
        for at in self.topology.switch_ixs() {
            let when = self.soon(20);
            self.schedule(when, Event::Connect { who, at });
        }
    }

    fn kill(&mut self, who: usize) {
        self.brains[who] = None;
        self.inbox[who].clear();
        for at in self.topology.switch_ixs() {
            self.reset(who, at);
        }
    }

    /// Ends a connection. The switch learns of it, and the controller comes again.
    fn reset(&mut self, who: usize, at: SwitchIx) {
        let it = &mut self.connections[at.0 as usize][who];
        it.age += 1;
        if !std::mem::take(&mut it.is_open) {
            return;
        }
        self.elect(at);
        if let Some(brain) = &mut self.brains[who] {
            brain.lost(at, ControlLoss::Unreachable);
            let again = self.soon(300);
            self.schedule(again, Event::Connect { who, at });
        }
    }

    /// The rival has the larger election id.
    fn elect(&mut self, at: SwitchIx) {
        let open = &self.connections[at.0 as usize];
        let primary = [RIVAL, HOME].into_iter().find(|&who| open[who].is_open);
        let device = &mut self.devices[at.0 as usize];
        if device.primary == primary {
            return;
        }
        device.primary = primary;
        for who in [HOME, RIVAL] {
            if self.connections[at.0 as usize][who].is_open {
                self.send(who, at, false, Message::Standing(primary == Some(who)));
            }
        }
    }

    /// Sends on a connection, in order, each message with a delay of its own.
    fn send(&mut self, who: usize, at: SwitchIx, is_there: bool, message: Message) {
        let delay = if self.draw(20) == 0 { 60 } else { 4 };
        let soon = self.soon(delay).max(self.stalled_until);
        let it = &mut self.connections[at.0 as usize][who];
        let last = if is_there { &mut it.there } else { &mut it.back };
        *last = (*last).max(soon);
        let (when, age) = (*last, it.age);
        self.schedule(when, Event::Message { who, at, age, message });
    }

    pub fn run_for(&mut self, ms: u64) {
        let end = self.now + Time::from_ms(ms);
        loop {
            let event = self.events.first_key_value().map_or(Time::MAX, |(key, _)| key.0);
            let tick = (0..2).filter_map(|who| {
                let next = self.brains[who].as_ref()?.watcher.next_tick()?;
                Some(next.max(self.asleep[who]))
            });
            let tick = tick.min().unwrap_or(Time::MAX);
            let next = event.min(tick);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            (0..2).for_each(|who| self.wake(who));
            if tick <= event {
                (0..2).for_each(|who| self.tick(who));
            } else if let Some((_, event)) = self.events.pop_first() {
                self.happen(event);
            }
            (0..2).for_each(|who| self.think(who));
        }
    }

    fn is_awake(&self, who: usize) -> bool {
        self.brains[who].is_some() && self.now >= self.asleep[who]
    }

    /// Takes what has arrived during a sleep that is over, in order.
    fn wake(&mut self, who: usize) {
        while self.is_awake(who)
            && let Some((at, age, message)) = self.inbox[who].pop_front()
        {
            if self.connections[at.0 as usize][who].age == age {
                self.hear(who, at, message);
            }
        }
    }

    fn tick(&mut self, who: usize) {
        let (now, is_awake) = (self.now, self.is_awake(who));
        let is_due = |it: &&mut Brain| is_awake && it.watcher.next_tick().is_some_and(|due| due <= now);
        let Some(brain) = self.brains[who].as_mut().filter(is_due) else { return };
        let round = brain.watcher.tick(now);
        for (at, port, probe) in round.probes {
            self.send(who, at, true, Message::Probe(port, probe));
        }
        for (at, round) in round.echoes {
            self.send(who, at, true, Message::Echo(round));
        }
    }

    fn think(&mut self, who: usize) {
        if !self.is_awake(who) {
            return;
        }
        let now = self.now;
        let Some(brain) = &mut self.brains[who] else { return };
        // The ports that switches report are those of the links.
        for at in brain.watcher.questions() {
            let state = |link: LinkIx| !self.cut.contains(&link);
            let ports = self.topology.switch(at).ports().map(|(port, link)| (port, state(link))).collect();
            brain.watcher.port_states(at, Some(ports));
        }
        for (at, order) in brain.think(now) {
            let message = match order {
                Order::Read(reason) => Message::Read(reason),
                Order::Write(rollout, updates) => Message::Write(rollout, updates),
            };
            self.send(who, at, true, message);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start(who) => self.start(who),
            Event::Die(who) => self.kill(who),
            Event::Boot(at) => self.devices[at.0 as usize].is_running = true,
            Event::Connect { who, at } => self.connect(who, at),
            Event::Message { who, at, age, message } => {
                if self.connections[at.0 as usize][who].age == age {
                    self.deliver(who, at, message);
                }
            }
        }
    }

    fn connect(&mut self, who: usize, at: SwitchIx) {
        let Some(brain) = &mut self.brains[who] else { return };
        let it = &mut self.connections[at.0 as usize][who];
        if it.is_open {
            return;
        }
        if !self.devices[at.0 as usize].is_running {
            brain.lost(at, ControlLoss::ConnectionRefused);
            let again = self.soon(300);
            return self.schedule(again, Event::Connect { who, at });
        }
        *it = Connection { is_open: true, age: it.age + 1, ..Connection::default() };
        self.send(who, at, true, Message::Bid);
    }

    fn deliver(&mut self, who: usize, at: SwitchIx, message: Message) {
        let place = at.0 as usize;
        match message {
            Message::Bid => {
                let before = self.devices[place].primary;
                self.elect(at);
                if self.devices[place].primary == before {
                    self.send(who, at, false, Message::Standing(before == Some(who)));
                }
            }
            Message::Read(reason) => {
                let held = self.held(place);
                self.send(who, at, false, Message::Held(reason, held));
            }
            Message::Write(rollout, updates) => {
                let is_primary = self.devices[place].primary == Some(who);
                let mut taken = is_primary;
                for update in updates.iter().filter(|_| is_primary) {
                    let Device { control, switch, .. } = &mut self.devices[place];
                    taken &= control.apply(switch, update).is_ok();
                    self.look(who);
                }
                self.send(who, at, false, Message::Written(rollout, taken));
            }
            // The answer leaves after what the switch has returned before.
            Message::Echo(round) => self.send(who, at, false, Message::Answer(round)),
            Message::Probe(port, probe) => self.carry(who, at, port, &probe),
            answer => self.hear(who, at, answer),
        }
    }

    /// A probe goes over its link, and from the switch at the other end to its primary.
    fn carry(&mut self, who: usize, at: SwitchIx, port: u16, probe: &LinkProbe) {
        let link = self.topology.link(LinkIx(probe.link));
        let to = if probe.forward { link.b } else { link.a };
        let Node::Switch(other) = to.node else { panic!("a probe to a host, from port {port}") };
        let is_primary = |it: SwitchIx| self.devices[it.0 as usize].primary;
        if self.cut.contains(&LinkIx(probe.link))
            || is_primary(at) != Some(who)
            || !self.devices[other.0 as usize].is_running
        {
            return;
        }
        let Some(primary) = is_primary(other) else { return };
        self.send(primary, other, false, Message::Returned(to.port, probe.frame()));
    }

    /// A controller takes an answer. While it sleeps, answers wait.
    fn hear(&mut self, who: usize, at: SwitchIx, answer: Message) {
        if !self.is_awake(who) {
            let age = self.connections[at.0 as usize][who].age;
            if self.brains[who].is_some() {
                self.inbox[who].push_back((at, age, answer));
            }
            return;
        }
        let now = self.now;
        let Some(brain) = &mut self.brains[who] else { return };
        match answer {
            Message::Standing(is_primary) => {
                if let Some(Order::Read(reason)) = brain.standing(at, is_primary) {
                    self.send(who, at, true, Message::Read(reason));
                }
            }
            Message::Held(reason, held) => brain.read(at, reason, held, now),
            Message::Written(rollout, is_taken) => brain.written(at, rollout, is_taken),
            Message::Answer(round) => brain.watcher.on_echo(at, round, now),
            Message::Returned(port, frame) => {
                brain.watcher.on_packet_in(at, port, &frame);
            }
            _ => {}
        }
    }

    fn held(&self, place: usize) -> Vec<Entity> {
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
        let Device { control, switch, .. } = &self.devices[place];
        let read = |kind| control.read(switch, &Entity { entity: Some(kind) }).unwrap_or_default();
        requests.into_iter().flat_map(read).collect()
    }

    /// The routes that the switches hold.
    fn routes(&self) -> Routes {
        let switches = self.topology.switches.iter().enumerate();
        let held = switches.map(|(place, switch)| (switch.name.clone(), self.held(place))).collect();
        decode(&self.topology, &held, &self.index, &Bmv2).unwrap()
    }

    /// After an update by a controller: none is lost if none may be, and no packet loops. If the only path that the
    /// controller knows from a switch leads through one that it has to avoid, it is used, and can loop.
    fn look(&mut self, who: usize) {
        self.looks += 1;
        let condition = self.brains[who].as_ref().and_then(|it| it.condition().cloned()).unwrap_or_default();
        let mut loops = false;
        let known = self.topology.without_links(&condition.down);
        let (routes, left) = (self.routes(), self.topology.without_links(&self.cut));
        for (a, b) in
            left.host_ixs().flat_map(|a| left.host_ixs().map(move |b| (a, b))).filter(|(a, b)| a != b)
        {
            for hash in (1..5).map(|n| PathHash(0x9e37_79b1_u32.wrapping_mul(n))) {
                match routes.path(&left, a, b, hash) {
                    Err(lost) if !self.may_lose => panic!("seed {}, {}: {lost}", self.seed, self.now),
                    Err(PathError::Loop(_)) if self.has_loop || needs(&known, b, &condition.avoided) => {
                        loops = true
                    }
                    Err(PathError::Loop(at)) => panic!("seed {}, {}: a loop at {at}", self.seed, self.now),
                    _ => {}
                }
            }
        }
        self.detours += u64::from(loops && !self.has_loop);
        self.has_loop = loops;
    }

    /// Every pair that has a path is connected, symmetrically.
    pub fn assert_whole(&self) {
        let proof = verify(&self.topology.without_links(&self.cut), &self.routes());
        assert!(proof.is_ok(), "seed {}, {}, {} links cut: {proof:?}", self.seed, self.now, self.cut.len());
    }
}

/// Returns whether a switch reaches a host only through one of the switches that are avoided.
fn needs(topology: &Topology, host: HostIx, avoided: &BTreeSet<SwitchIx>) -> bool {
    let reached = |is_passable: &dyn Fn(&SwitchIx) -> bool| {
        let to = topology.host(host).switch;
        let (mut seen, mut left) = (BTreeSet::from([to]), vec![to]);
        while let Some(here) = left.pop() {
            let neighbours = topology.neighbours(here).map(|it| it.switch);
            let new: Vec<SwitchIx> = neighbours.filter(|it| seen.insert(*it)).collect();
            left.extend(new.into_iter().filter(is_passable));
        }
        seen
    };
    reached(&|_| true) != reached(&|it| !avoided.contains(it))
}

fn device(program: &Arc<Program>, index: &Arc<Index>) -> Device {
    let switch = Switch::new(Arc::clone(program), SwitchConfig::new(0..8), 1).unwrap();
    let control = Control::new(Arc::clone(index), &switch).unwrap();
    Device { switch, control, primary: None, is_running: true }
}
