use super::*;
use crate::topology::build;
use proptest::prelude::*;
use std::collections::VecDeque;

const RUN: u64 = 7;
/// Packet-ins that a switch keeps for a controller that does not read.
const PACKET_IN_QUEUE: usize = 5;

/// A message on a control connection towards a switch.
enum Request {
    Probe(u16, LinkProbe),
    Echo(u64),
}

/// A message on a control connection towards the controller.
enum Answer {
    Probe(u16, Vec<u8>),
    Echo(u64),
}

/// A switch with its control connection, which delivers in order and may stall in either direction.
#[derive(Default)]
struct Fake {
    requests: VecDeque<Request>,
    answers: VecDeque<Answer>,
    takes_nothing: bool,
    tells_nothing: bool,
    has_no_cpu_port: bool,
}

/// Two leaves, two spines, and the state of their links.
struct Bench {
    monitor: LinkMonitor,
    topology: Topology,
    now: Time,
    switches: Vec<Fake>,
    cut: BTreeSet<(LinkIx, bool)>,
    /// Port states that switches tell: `None` if they tell none, else all are up but these.
    ports_down: Option<BTreeSet<(SwitchIx, u16)>>,
}

impl Bench {
    fn new() -> Bench {
        let spec = "{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 1}";
        let topology = build(&serde_yaml::from_str(spec).unwrap()).unwrap();
        let mut monitor = LinkMonitor::new(&topology, MonitorConfig::default(), RUN, Time::ZERO);
        topology.switch_ixs().for_each(|at| monitor.connected(at));
        let switches = topology.switch_ixs().map(|_| Fake::default()).collect();
        Bench { monitor, topology, now: Time::ZERO, switches, cut: BTreeSet::new(), ports_down: None }
    }
    /// Advances by enough ticks that everything is known.
    fn settled() -> Bench {
        let mut bench = Bench::new();
        bench.ticks(6);
        assert!(bench.monitor.down().is_empty());
        assert!(bench.all().all(|at| bench.monitor.has_settled(at)));
        bench
    }
    fn all(&self) -> impl Iterator<Item = SwitchIx> + use<> {
        (0..self.switches.len() as u32).map(SwitchIx)
    }
    fn link(&self, a: &str, b: &str) -> LinkIx {
        let name = |end: Endpoint| self.topology.node_name(end.node);
        let links = &self.topology.links;
        LinkIx(links.iter().position(|link| (name(link.a), name(link.b)) == (a, b)).unwrap() as u32)
    }
    fn cut(&mut self, link: LinkIx) {
        self.cut.extend([(link, true), (link, false)]);
    }
    fn stall(&mut self, at: SwitchIx, is_stalled: bool) {
        let it = &mut self.switches[switch_index(at)];
        (it.takes_nothing, it.tells_nothing) = (is_stalled, is_stalled);
    }
    /// Loses or gains a session: what waited is gone.
    fn disconnect(&mut self, at: SwitchIx, loss: ControlLoss) {
        self.switches[switch_index(at)] = Fake::default();
        self.monitor.disconnected(at, loss);
    }
    fn tick(&mut self) {
        let round = self.monitor.tick(self.now);
        for (at, port, probe) in round.probes {
            self.switches[switch_index(at)].requests.push_back(Request::Probe(port, probe));
        }
        for (at, round) in round.echoes {
            self.switches[switch_index(at)].requests.push_back(Request::Echo(round));
        }
        self.now += Time::from_ms(1);
        self.deliver();
        self.now = self.monitor.next_tick();
    }
    /// Delivers whatever is not stalled.
    fn deliver(&mut self) {
        for at in self.all() {
            while let Some(request) = self.switches[switch_index(at)].next_request() {
                match request {
                    Request::Echo(round) => {
                        self.switches[switch_index(at)].answers.push_back(Answer::Echo(round))
                    }
                    Request::Probe(port, probe) => self.carry(at, port, probe),
                }
            }
        }
        for at in self.all() {
            while let Some(answer) = self.switches[switch_index(at)].next_answer() {
                match answer {
                    Answer::Echo(round) => self.monitor.answered(at, round, self.now),
                    Answer::Probe(port, frame) => {
                        assert_eq!(self.monitor.received(at, port, &frame), PacketInKind::Probe);
                    }
                }
            }
        }
        for at in self.monitor.take_port_queries() {
            let states = self
                .ports_down
                .as_ref()
                .map(|down| (0..8).map(|port| (port, !down.contains(&(at, port)))).collect());
            self.monitor.port_states(at, states);
        }
    }
    fn carry(&mut self, at: SwitchIx, port: u16, probe: LinkProbe) {
        let link = self.topology.link(LinkIx(probe.link));
        let (from, to) = if probe.forward { (link.a, link.b) } else { (link.b, link.a) };
        assert_eq!((from.node, from.port), (Node::Switch(at), port));
        let Node::Switch(other) = to.node else { panic!("a probe to a host") };
        let other = &mut self.switches[switch_index(other)];
        let waiting = other.answers.iter().filter(|it| matches!(it, Answer::Probe(..))).count();
        let is_cut = self.cut.contains(&(LinkIx(probe.link), probe.forward));
        if !is_cut && !other.has_no_cpu_port && waiting < PACKET_IN_QUEUE {
            other.answers.push_back(Answer::Probe(to.port, probe.frame()));
        }
    }
    fn ticks(&mut self, count: u32) {
        (0..count).for_each(|_| self.tick());
    }
    /// Ticks, and checks after each that no link is down.
    fn ticks_with_all_up(&mut self, count: u32) {
        for tick in 0..count {
            self.tick();
            assert_eq!(self.monitor.down(), &BTreeSet::new(), "tick {tick} of {count}");
        }
    }
    fn ticks_until(&mut self, done: impl Fn(&LinkMonitor) -> bool) -> u32 {
        (1..100)
            .find(|_| {
                self.tick();
                done(&self.monitor)
            })
            .expect("it happens")
    }
}

impl Fake {
    fn next_request(&mut self) -> Option<Request> {
        if self.takes_nothing { None } else { self.requests.pop_front() }
    }
    fn next_answer(&mut self) -> Option<Answer> {
        if self.tells_nothing { None } else { self.answers.pop_front() }
    }
}

#[test]
fn a_cut_is_found_after_three_lost_probes_and_its_end_after_three_good_intervals() {
    let mut bench = Bench::settled();
    let cut = bench.link("s1", "s3");
    // One direction is enough.
    bench.cut.insert((cut, false));
    // Three ticks lose a probe each; the fourth asks whether the third probe was lost.
    assert_eq!(bench.ticks_until(|it| !it.down().is_empty()), 4);
    assert_eq!(bench.monitor.down(), &BTreeSet::from([cut]));
    bench.cut.clear();
    assert_eq!(bench.ticks_until(|it| it.down().is_empty()), 4);
}

#[test]
fn a_link_that_was_dead_from_the_start_is_known_once_its_switches_have_settled() {
    let mut bench = Bench::new();
    let cut = bench.link("s1", "s4");
    bench.cut(cut);
    let ticks = bench.ticks_until(|it| it.has_settled(SwitchIx(0)));
    assert_eq!((ticks, bench.monitor.down()), (4, &BTreeSet::from([cut])));
}

/// No probe of the switch ever arrives, so only ports can tell that it has a CPU port and no links.
#[test]
fn a_switch_without_any_link_from_the_start_is_known_by_its_ports() {
    let mut bench = Bench::new();
    let links = [bench.link("s1", "s3"), bench.link("s2", "s3")];
    links.into_iter().for_each(|link| bench.cut(link));
    let ends = links.map(|link| (SwitchIx(2), bench.topology.link(link).b.port));
    bench.ports_down = Some(ends.into_iter().collect());
    bench.ticks_until(|it| it.has_settled(SwitchIx(2)));
    assert_eq!(bench.monitor.down(), &BTreeSet::from(links));
    bench.cut.clear();
    bench.ports_down = Some(BTreeSet::new());
    bench.ticks(4);
    assert!(bench.monitor.down().is_empty());
}

/// The ports were up when they were asked for first.
#[test]
fn ports_that_go_down_under_links_that_were_never_heard_are_known() {
    let mut bench = Bench::new();
    let links = [bench.link("s1", "s3"), bench.link("s2", "s3")];
    links.into_iter().for_each(|link| bench.cut(link));
    bench.ports_down = Some(BTreeSet::new());
    bench.ticks_with_all_up(10);
    let ends = links.map(|link| (SwitchIx(2), bench.topology.link(link).b.port));
    bench.ports_down = Some(ends.into_iter().collect());
    bench.ticks(UNSEEN_QUERY_ROUNDS as u32);
    assert_eq!(bench.monitor.down(), &BTreeSet::from(links));
}

#[test]
fn switches_that_never_return_a_probe_have_no_broken_cables() {
    let mut bench = Bench::new();
    bench.switches.iter_mut().for_each(|it| it.has_no_cpu_port = true);
    bench.ticks_with_all_up(20);
}

#[test]
fn a_controller_that_slept_draws_no_conclusions() {
    let mut bench = Bench::settled();
    for _ in 0..10 {
        bench.now += Time::from_secs(5);
        bench.ticks_with_all_up(1);
    }
    let cut = bench.link("s1", "s3");
    bench.cut(cut);
    assert_eq!(bench.ticks_until(|it| !it.down().is_empty()), 4);
}

#[test]
fn packets_that_are_no_probe_of_this_run_from_its_own_link_say_nothing() {
    let mut bench = Bench::settled();
    let (link, (s1, s2)) = (bench.link("s1", "s3"), (SwitchIx(0), SwitchIx(1)));
    let port = bench.topology.link(link).a.port;
    bench.cut.insert((link, false));
    let old = LinkProbe { run: RUN, link: link.0, forward: false, sequence: 5 };
    for _ in 0..6 {
        let other_run = LinkProbe { run: RUN + 1, ..old };
        assert_eq!(bench.monitor.received(s1, port, &other_run.frame()), PacketInKind::Foreign);
        assert_eq!(bench.monitor.received(s1, port + 1, &old.frame()), PacketInKind::WrongPort);
        assert_eq!(bench.monitor.received(s2, port, &old.frame()), PacketInKind::WrongPort);
        let no_link = LinkProbe { link: 1_000_000, ..old };
        assert_eq!(bench.monitor.received(s1, port, &no_link.frame()), PacketInKind::WrongPort);
        let not_yet_sent = LinkProbe { sequence: 1_000_000, ..old };
        assert_eq!(bench.monitor.received(s1, port, &not_yet_sent.frame()), PacketInKind::WrongPort);
        assert_eq!(bench.monitor.received(s1, port, b"garbage"), PacketInKind::NotAProbe);
        // Played back, it does not hide the cut.
        assert_eq!(bench.monitor.received(s1, port, &old.frame()), PacketInKind::Probe);
        bench.tick();
    }
    assert_eq!(bench.monitor.down(), &BTreeSet::from([link]));
}

#[test]
fn a_deposed_controller_keeps_its_links_and_settles_again() {
    let mut bench = Bench::settled();
    bench.all().for_each(|at| bench.disconnect(at, ControlLoss::Standby));
    bench.ticks_with_all_up(20);
    bench.all().for_each(|at| bench.monitor.connected(at));
    assert!(bench.all().all(|at| !bench.monitor.has_settled(at)));
    bench.ticks_with_all_up(6);
    assert!(bench.all().all(|at| bench.monitor.has_settled(at)));
}

#[test]
fn a_link_that_was_cut_while_another_controller_led_is_known_on_settling() {
    let mut bench = Bench::settled();
    bench.all().for_each(|at| bench.disconnect(at, ControlLoss::Standby));
    let cut = bench.link("s2", "s3");
    bench.cut(cut);
    bench.ticks_with_all_up(20);
    bench.all().for_each(|at| bench.monitor.connected(at));
    bench.ticks_until(|it| it.has_settled(SwitchIx(2)));
    assert_eq!(bench.monitor.down(), &BTreeSet::from([cut]));
}

#[test]
fn a_stalled_control_network_takes_no_link_down() {
    for stalled in [1, 2, 4, 10, 50] {
        let mut bench = Bench::settled();
        bench.all().for_each(|at| bench.stall(at, true));
        bench.ticks_with_all_up(stalled);
        // Connections come back one after the other.
        for at in bench.all() {
            bench.stall(at, false);
            bench.ticks_with_all_up(2);
        }
        bench.ticks_with_all_up(10);
    }
}

#[test]
fn a_control_network_that_lost_its_connections_takes_no_link_down() {
    let mut bench = Bench::settled();
    for _ in 0..50 {
        bench.all().for_each(|at| bench.disconnect(at, ControlLoss::Unreachable));
        bench.ticks_with_all_up(1);
    }
    bench.all().for_each(|at| bench.monitor.connected(at));
    bench.ticks_with_all_up(10);
}

#[test]
fn a_switch_without_control_connection_keeps_its_links() {
    let mut bench = Bench::settled();
    bench.disconnect(SwitchIx(2), ControlLoss::Unreachable);
    bench.ticks_with_all_up(50);
    // A link between others is still judged.
    let cut = bench.link("s1", "s4");
    bench.cut(cut);
    assert_eq!(bench.ticks_until(|it| !it.down().is_empty()), 4);
    assert_eq!(bench.monitor.down(), &BTreeSet::from([cut]));
}

#[test]
fn three_refused_connections_in_a_row_prove_a_switch_dead() {
    let mut bench = Bench::settled();
    let s3 = SwitchIx(2);
    for loss in [
        ControlLoss::Unreachable,
        ControlLoss::ConnectionRefused,
        ControlLoss::ConnectionRefused,
        ControlLoss::Unreachable,
        ControlLoss::ConnectionRefused,
        ControlLoss::ConnectionRefused,
    ] {
        bench.disconnect(s3, loss);
        bench.ticks_with_all_up(1);
    }
    bench.disconnect(s3, ControlLoss::ConnectionRefused);
    let links = BTreeSet::from([bench.link("s1", "s3"), bench.link("s2", "s3")]);
    assert_eq!(bench.monitor.down(), &links);
    // It remains so until probes pass again.
    bench.disconnect(s3, ControlLoss::Unreachable);
    bench.ticks(10);
    assert_eq!(bench.monitor.down(), &links);
    bench.monitor.connected(s3);
    assert_eq!(bench.monitor.down(), &links);
    assert_eq!(bench.ticks_until(|it| it.down().is_empty()), 4);
}

#[test]
fn packet_outs_that_are_not_taken_say_nothing_about_links() {
    let mut bench = Bench::settled();
    let links = bench.topology.links.len() as u32;
    bench.cut.extend((0..links).flat_map(|n| [(LinkIx(n), true), (LinkIx(n), false)]));
    for _ in 0..20 {
        bench.ticks_with_all_up(1);
        bench.all().for_each(|at| bench.monitor.refused(at));
    }
}

#[test]
fn port_states_decide_when_all_links_of_a_switch_fall_silent() {
    // How many of its two ports are down, if it tells.
    for (ports_down, is_down) in [(Some(2), true), (Some(1), true), (Some(0), false), (None, true)] {
        let mut bench = Bench::settled();
        let links = [bench.link("s1", "s3"), bench.link("s2", "s3")];
        links.into_iter().for_each(|link| bench.cut(link));
        let s3 = |port| (SwitchIx(2), port);
        bench.ports_down = ports_down.map(|count| {
            links.map(|link| s3(bench.topology.link(link).b.port)).into_iter().take(count).collect()
        });
        bench.ticks(4);
        let expected = if is_down { BTreeSet::from(links) } else { BTreeSet::new() };
        assert_eq!(bench.monitor.down(), &expected, "{ports_down:?}");
        let kept = bench.monitor.take_kept_links();
        assert_eq!(kept, if is_down { BTreeSet::new() } else { BTreeSet::from(links) });
        bench.ticks(20);
        assert_eq!(bench.monitor.down(), &expected, "{ports_down:?}");
    }
}

#[test]
fn a_neighbour_reports_whether_the_cable_to_a_silent_switch_is_connected() {
    let mut bench = Bench::settled();
    let (s1, s3) = (SwitchIx(0), SwitchIx(2));
    let link = bench.link("s1", "s3");
    bench.cut(link);
    let port = bench.topology.link(link).a.port;
    bench.ports_down = Some(BTreeSet::from([(s1, port)]));
    bench.disconnect(s3, ControlLoss::Unreachable);
    let ticks = bench.ticks_until(|it| !it.down().is_empty());
    assert!((2..=6).contains(&ticks), "{ticks}");
    assert_eq!(bench.monitor.down(), &BTreeSet::from([link]), "the other cable is connected");
}

/// A fault of a switch's control plane in one interval.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Stall(bool),
    /// Only towards the switch, or only towards the controller.
    HalfStall(bool),
    Lose(ControlLoss),
    Connect,
    RefusePacketOut,
    /// The controller gets no processor for this number of milliseconds.
    Sleep(u64),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        any::<bool>().prop_map(Fault::Stall),
        any::<bool>().prop_map(Fault::HalfStall),
        prop_oneof![Just(ControlLoss::Standby), Just(ControlLoss::Unreachable)].prop_map(Fault::Lose),
        Just(Fault::Connect),
        Just(Fault::RefusePacketOut),
        (1u64..1000).prop_map(Fault::Sleep),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever the control plane does, only a link that is cut goes down; and when the control plane works again,
    /// it is found.
    #[test]
    fn faults_of_the_control_plane_take_no_link_down(
        faults in proptest::collection::vec((0u32..4, fault(), 0u32..4), 1..60),
        cut_at in 0usize..60,
        has_ports: bool,
    ) {
        let mut bench = Bench::settled();
        bench.ports_down = has_ports.then(BTreeSet::new);
        let cut = bench.link("s2", "s4");
        for (index, (at, fault, ticks)) in faults.iter().enumerate() {
            let at = SwitchIx(*at);
            if index == cut_at {
                bench.cut(cut);
            }
            match *fault {
                Fault::Stall(is_stalled) => bench.stall(at, is_stalled),
                Fault::HalfStall(inwards) => {
                    bench.stall(at, false);
                    let it = &mut bench.switches[switch_index(at)];
                    (it.takes_nothing, it.tells_nothing) = (inwards, !inwards);
                }
                Fault::Lose(loss) => bench.disconnect(at, loss),
                Fault::Connect => {
                    bench.disconnect(at, ControlLoss::Unreachable);
                    bench.monitor.connected(at);
                }
                Fault::RefusePacketOut => bench.monitor.refused(at),
                Fault::Sleep(ms) => bench.now += Time::from_ms(ms),
            }
            for _ in 0..=*ticks {
                bench.tick();
                prop_assert!(bench.monitor.down().iter().all(|&link| link == cut && !bench.cut.is_empty()));
            }
        }
        for at in bench.all() {
            bench.disconnect(at, ControlLoss::Unreachable);
            bench.monitor.connected(at);
        }
        bench.ticks(16);
        let expected: BTreeSet<LinkIx> = bench.cut.iter().map(|(link, _)| *link).collect();
        prop_assert_eq!(bench.monitor.down(), &expected);
    }
}
