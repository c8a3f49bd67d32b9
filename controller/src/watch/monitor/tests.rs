//! The monitor on a simulated fabric with a faulty control plane.

use super::*;
use crate::topology::build;
use proptest::prelude::*;
use std::collections::VecDeque;

/// Id in the probes of the run.
const RUN_ID: u64 = 7;
/// Packet-ins that a switch keeps for a controller that does not read.
const PACKET_IN_QUEUE: usize = 5;

/// A message on a control connection towards a switch.
enum Request {
    /// Egress port and probe.
    Probe(u16, LinkProbe),
    /// Round.
    Echo(u64),
}

/// A message on a control connection towards the controller.
enum Response {
    /// Ingress port and frame.
    Probe(u16, Vec<u8>),
    Echo(u64),
}

/// A switch with its control connection, which delivers in order and may stall in either direction.
#[derive(Default)]
struct FakeSwitch {
    requests: VecDeque<Request>,
    responses: VecDeque<Response>,
    stalls_requests: bool,
    stalls_responses: bool,
    has_no_cpu_port: bool,
}

/// Two leaves, two spines, and the state of their links.
struct TestFabric {
    monitor: LinkMonitor,
    topology: Topology,
    now: Time,
    switches: Vec<FakeSwitch>,
    /// Link directions that lose all frames; `true`: from end `a` to `b`.
    cut: BTreeSet<(LinkIx, bool)>,
    /// Ports that switches report as down, all others being up; `None` if switches do not report port states.
    ports_down: Option<BTreeSet<(SwitchIx, u16)>>,
}

impl TestFabric {
    fn new() -> TestFabric {
        let spec = "{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 1}";
        let topology = build(&serde_yaml::from_str(spec).unwrap()).unwrap();
        let mut monitor = LinkMonitor::new(&topology, MonitorConfig::default(), RUN_ID, Time::ZERO);
        topology.switch_ixs().for_each(|switch| monitor.on_connected(switch));
        let switches = topology.switch_ixs().map(|_| FakeSwitch::default()).collect();
        TestFabric { monitor, topology, now: Time::ZERO, switches, cut: BTreeSet::new(), ports_down: None }
    }
    /// Advances until the state of every link is known.
    fn settled() -> TestFabric {
        let mut fabric = TestFabric::new();
        fabric.ticks(6);
        assert!(fabric.monitor.down().is_empty());
        assert!(fabric.all().all(|switch| fabric.monitor.has_settled(switch)));
        fabric
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
    /// Stalls both directions of a control connection, or neither.
    fn stall(&mut self, switch: SwitchIx, is_stalled: bool) {
        let fake = &mut self.switches[switch_index(switch)];
        (fake.stalls_requests, fake.stalls_responses) = (is_stalled, is_stalled);
    }
    /// Loses the connection, with all messages in flight.
    fn disconnect(&mut self, switch: SwitchIx, loss: ControlLoss) {
        self.switches[switch_index(switch)] = FakeSwitch::default();
        self.monitor.on_disconnected(switch, loss);
    }
    fn tick(&mut self) {
        let round = self.monitor.tick(self.now);
        for OutgoingProbe { switch, egress_port, probe } in round.probes {
            self.switches[switch_index(switch)].requests.push_back(Request::Probe(egress_port, probe));
        }
        for (switch, round) in round.echoes {
            self.switches[switch_index(switch)].requests.push_back(Request::Echo(round));
        }
        self.now += Time::from_ms(1);
        self.deliver();
        self.now = self.monitor.next_tick();
    }
    /// Delivers all messages except on stalled connections.
    fn deliver(&mut self) {
        for switch in self.all() {
            while let Some(request) = self.switches[switch_index(switch)].next_request() {
                match request {
                    Request::Echo(round) => {
                        self.switches[switch_index(switch)].responses.push_back(Response::Echo(round))
                    }
                    Request::Probe(port, probe) => self.carry(switch, port, probe),
                }
            }
        }
        for switch in self.all() {
            while let Some(response) = self.switches[switch_index(switch)].next_response() {
                match response {
                    Response::Echo(round) => self.monitor.on_echo(switch, round, self.now),
                    Response::Probe(port, frame) => {
                        assert_eq!(self.monitor.on_packet_in(switch, port, &frame), PacketInKind::Probe);
                    }
                }
            }
        }
        for switch in self.monitor.take_port_queries() {
            let states = self
                .ports_down
                .as_ref()
                .map(|down| (0..8).map(|port| (port, !down.contains(&(switch, port)))).collect());
            self.monitor.on_port_states(switch, states);
        }
    }
    /// Sends a probe over its link.
    fn carry(&mut self, switch: SwitchIx, port: u16, probe: LinkProbe) {
        let link = self.topology.link(LinkIx(probe.link));
        let (from, to) = if probe.is_forward { (link.a, link.b) } else { (link.b, link.a) };
        assert_eq!((from.node, from.port), (Node::Switch(switch), port));
        let Node::Switch(other) = to.node else { panic!("a probe to a host") };
        let other = &mut self.switches[switch_index(other)];
        let waiting =
            other.responses.iter().filter(|response| matches!(response, Response::Probe(..))).count();
        let is_cut = self.cut.contains(&(LinkIx(probe.link), probe.is_forward));
        if !is_cut && !other.has_no_cpu_port && waiting < PACKET_IN_QUEUE {
            other.responses.push_back(Response::Probe(to.port, probe.frame()));
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
    /// Ticks until `done` returns true, and returns the number of ticks.
    fn ticks_until(&mut self, done: impl Fn(&LinkMonitor) -> bool) -> u32 {
        (1..100)
            .find(|_| {
                self.tick();
                done(&self.monitor)
            })
            .expect("the condition within 100 ticks")
    }
}

impl FakeSwitch {
    fn next_request(&mut self) -> Option<Request> {
        if self.stalls_requests { None } else { self.requests.pop_front() }
    }
    fn next_response(&mut self) -> Option<Response> {
        if self.stalls_responses { None } else { self.responses.pop_front() }
    }
}

#[test]
fn a_cut_is_detected_after_three_lost_probes_and_recovery_after_three_good_intervals() {
    let mut fabric = TestFabric::settled();
    let cut = fabric.link("s1", "s3");
    // One direction is enough.
    fabric.cut.insert((cut, false));
    // Three ticks lose a probe each; the echo of the fourth shows that the third probe was lost.
    assert_eq!(fabric.ticks_until(|monitor| !monitor.down().is_empty()), 4);
    assert_eq!(fabric.monitor.down(), &BTreeSet::from([cut]));
    fabric.cut.clear();
    assert_eq!(fabric.ticks_until(|monitor| monitor.down().is_empty()), 4);
}

#[test]
fn a_link_that_is_dead_from_the_start_is_detected_when_its_switches_have_settled() {
    let mut fabric = TestFabric::new();
    let cut = fabric.link("s1", "s4");
    fabric.cut(cut);
    let ticks = fabric.ticks_until(|monitor| monitor.has_settled(SwitchIx(0)));
    assert_eq!((ticks, fabric.monitor.down()), (4, &BTreeSet::from([cut])));
}

/// No probe of the switch ever arrives, so only port states distinguish failed links from a missing CPU port.
#[test]
fn a_switch_without_links_from_the_start_is_detected_by_its_port_states() {
    let mut fabric = TestFabric::new();
    let links = [fabric.link("s1", "s3"), fabric.link("s2", "s3")];
    links.into_iter().for_each(|link| fabric.cut(link));
    let ends = links.map(|link| (SwitchIx(2), fabric.topology.link(link).b.port));
    fabric.ports_down = Some(ends.into_iter().collect());
    fabric.ticks_until(|monitor| monitor.has_settled(SwitchIx(2)));
    assert_eq!(fabric.monitor.down(), &BTreeSet::from(links));
    fabric.cut.clear();
    fabric.ports_down = Some(BTreeSet::new());
    fabric.ticks(4);
    assert!(fabric.monitor.down().is_empty());
}

/// The ports are up at the first query.
#[test]
fn ports_that_go_down_on_links_without_any_probe_are_detected() {
    let mut fabric = TestFabric::new();
    let links = [fabric.link("s1", "s3"), fabric.link("s2", "s3")];
    links.into_iter().for_each(|link| fabric.cut(link));
    fabric.ports_down = Some(BTreeSet::new());
    fabric.ticks_with_all_up(10);
    let ends = links.map(|link| (SwitchIx(2), fabric.topology.link(link).b.port));
    fabric.ports_down = Some(ends.into_iter().collect());
    fabric.ticks(UNSEEN_QUERY_ROUNDS as u32);
    assert_eq!(fabric.monitor.down(), &BTreeSet::from(links));
}

#[test]
fn links_of_switches_that_never_return_a_probe_stay_up() {
    let mut fabric = TestFabric::new();
    fabric.switches.iter_mut().for_each(|switch| switch.has_no_cpu_port = true);
    fabric.ticks_with_all_up(20);
}

#[test]
fn a_delayed_controller_takes_no_link_down() {
    let mut fabric = TestFabric::settled();
    for _ in 0..10 {
        fabric.now += Time::from_secs(5);
        fabric.ticks_with_all_up(1);
    }
    let cut = fabric.link("s1", "s3");
    fabric.cut(cut);
    assert_eq!(fabric.ticks_until(|monitor| !monitor.down().is_empty()), 4);
}

#[test]
fn only_probes_of_this_run_on_their_own_link_count() {
    let mut fabric = TestFabric::settled();
    let (link, (s1, s2)) = (fabric.link("s1", "s3"), (SwitchIx(0), SwitchIx(1)));
    let port = fabric.topology.link(link).a.port;
    fabric.cut.insert((link, false));
    let old = LinkProbe { run_id: RUN_ID, link: link.0, is_forward: false, sequence: 5 };
    for _ in 0..6 {
        let other_run = LinkProbe { run_id: RUN_ID + 1, ..old };
        assert_eq!(fabric.monitor.on_packet_in(s1, port, &other_run.frame()), PacketInKind::Foreign);
        assert_eq!(fabric.monitor.on_packet_in(s1, port + 1, &old.frame()), PacketInKind::WrongPort);
        assert_eq!(fabric.monitor.on_packet_in(s2, port, &old.frame()), PacketInKind::WrongPort);
        let no_link = LinkProbe { link: 1_000_000, ..old };
        assert_eq!(fabric.monitor.on_packet_in(s1, port, &no_link.frame()), PacketInKind::WrongPort);
        let not_yet_sent = LinkProbe { sequence: 1_000_000, ..old };
        assert_eq!(fabric.monitor.on_packet_in(s1, port, &not_yet_sent.frame()), PacketInKind::WrongPort);
        assert_eq!(fabric.monitor.on_packet_in(s1, port, b"invalid"), PacketInKind::NotAProbe);
        // A replayed probe does not hide the cut.
        assert_eq!(fabric.monitor.on_packet_in(s1, port, &old.frame()), PacketInKind::Probe);
        fabric.tick();
    }
    assert_eq!(fabric.monitor.down(), &BTreeSet::from([link]));
}

#[test]
fn a_controller_on_standby_keeps_its_links_and_settles_again() {
    let mut fabric = TestFabric::settled();
    fabric.all().for_each(|switch| fabric.disconnect(switch, ControlLoss::Standby));
    fabric.ticks_with_all_up(20);
    fabric.all().for_each(|switch| fabric.monitor.on_connected(switch));
    assert!(fabric.all().all(|switch| !fabric.monitor.has_settled(switch)));
    fabric.ticks_with_all_up(6);
    assert!(fabric.all().all(|switch| fabric.monitor.has_settled(switch)));
}

#[test]
fn a_link_that_was_cut_during_standby_is_detected_on_settling() {
    let mut fabric = TestFabric::settled();
    fabric.all().for_each(|switch| fabric.disconnect(switch, ControlLoss::Standby));
    let cut = fabric.link("s2", "s3");
    fabric.cut(cut);
    fabric.ticks_with_all_up(20);
    fabric.all().for_each(|switch| fabric.monitor.on_connected(switch));
    fabric.ticks_until(|monitor| monitor.has_settled(SwitchIx(2)));
    assert_eq!(fabric.monitor.down(), &BTreeSet::from([cut]));
}

#[test]
fn a_stalled_control_network_takes_no_link_down() {
    for stalled in [1, 2, 4, 10, 50] {
        let mut fabric = TestFabric::settled();
        fabric.all().for_each(|switch| fabric.stall(switch, true));
        fabric.ticks_with_all_up(stalled);
        // Connections come back one after the other.
        for switch in fabric.all() {
            fabric.stall(switch, false);
            fabric.ticks_with_all_up(2);
        }
        fabric.ticks_with_all_up(10);
    }
}

#[test]
fn lost_control_connections_take_no_link_down() {
    let mut fabric = TestFabric::settled();
    for _ in 0..50 {
        fabric.all().for_each(|switch| fabric.disconnect(switch, ControlLoss::Unreachable));
        fabric.ticks_with_all_up(1);
    }
    fabric.all().for_each(|switch| fabric.monitor.on_connected(switch));
    fabric.ticks_with_all_up(10);
}

#[test]
fn a_switch_without_control_connection_keeps_its_links() {
    let mut fabric = TestFabric::settled();
    fabric.disconnect(SwitchIx(2), ControlLoss::Unreachable);
    fabric.ticks_with_all_up(50);
    // A link between other switches is still monitored.
    let cut = fabric.link("s1", "s4");
    fabric.cut(cut);
    assert_eq!(fabric.ticks_until(|monitor| !monitor.down().is_empty()), 4);
    assert_eq!(fabric.monitor.down(), &BTreeSet::from([cut]));
}

#[test]
fn three_refused_connections_in_a_row_prove_a_switch_dead() {
    let mut fabric = TestFabric::settled();
    let s3 = SwitchIx(2);
    for loss in [
        ControlLoss::Unreachable,
        ControlLoss::ConnectionRefused,
        ControlLoss::ConnectionRefused,
        ControlLoss::Unreachable,
        ControlLoss::ConnectionRefused,
        ControlLoss::ConnectionRefused,
    ] {
        fabric.disconnect(s3, loss);
        fabric.ticks_with_all_up(1);
    }
    fabric.disconnect(s3, ControlLoss::ConnectionRefused);
    let links = BTreeSet::from([fabric.link("s1", "s3"), fabric.link("s2", "s3")]);
    assert_eq!(fabric.monitor.down(), &links);
    // The links stay down until probes pass again.
    fabric.disconnect(s3, ControlLoss::Unreachable);
    fabric.ticks(10);
    assert_eq!(fabric.monitor.down(), &links);
    fabric.monitor.on_connected(s3);
    assert_eq!(fabric.monitor.down(), &links);
    assert_eq!(fabric.ticks_until(|monitor| monitor.down().is_empty()), 4);
}

#[test]
fn rejected_packet_outs_take_no_link_down() {
    let mut fabric = TestFabric::settled();
    let links = fabric.topology.links.len() as u32;
    fabric.cut.extend((0..links).flat_map(|n| [(LinkIx(n), true), (LinkIx(n), false)]));
    for _ in 0..20 {
        fabric.ticks_with_all_up(1);
        fabric.all().for_each(|switch| fabric.monitor.on_packet_out_rejected(switch));
    }
}

#[test]
fn port_states_decide_if_all_links_of_a_switch_go_silent() {
    // Number of its two ports that are down; `None` if it does not report port states.
    for (ports_down, is_down) in [(Some(2), true), (Some(1), true), (Some(0), false), (None, true)] {
        let mut fabric = TestFabric::settled();
        let links = [fabric.link("s1", "s3"), fabric.link("s2", "s3")];
        links.into_iter().for_each(|link| fabric.cut(link));
        let s3 = |port| (SwitchIx(2), port);
        fabric.ports_down = ports_down.map(|count| {
            links.map(|link| s3(fabric.topology.link(link).b.port)).into_iter().take(count).collect()
        });
        fabric.ticks(4);
        let expected = if is_down { BTreeSet::from(links) } else { BTreeSet::new() };
        assert_eq!(fabric.monitor.down(), &expected, "{ports_down:?}");
        let kept = fabric.monitor.take_kept_links();
        assert_eq!(kept, if is_down { BTreeSet::new() } else { BTreeSet::from(links) });
        fabric.ticks(20);
        assert_eq!(fabric.monitor.down(), &expected, "{ports_down:?}");
    }
}

#[test]
fn a_neighbour_reports_whether_the_cable_to_a_silent_switch_is_connected() {
    let mut fabric = TestFabric::settled();
    let (s1, s3) = (SwitchIx(0), SwitchIx(2));
    let link = fabric.link("s1", "s3");
    fabric.cut(link);
    let port = fabric.topology.link(link).a.port;
    fabric.ports_down = Some(BTreeSet::from([(s1, port)]));
    fabric.disconnect(s3, ControlLoss::Unreachable);
    let ticks = fabric.ticks_until(|monitor| !monitor.down().is_empty());
    assert!((2..=6).contains(&ticks), "{ticks}");
    assert_eq!(fabric.monitor.down(), &BTreeSet::from([link]), "the other cable is connected");
}

/// A fault of a switch's control plane in one interval.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Stalls both directions of the connection, or neither.
    Stall(bool),
    /// Stalls only requests (true) or only responses (false).
    HalfStall(bool),
    Lose(ControlLoss),
    Connect,
    RejectPacketOut,
    /// The controller does not run for this number of milliseconds.
    Sleep(u64),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        any::<bool>().prop_map(Fault::Stall),
        any::<bool>().prop_map(Fault::HalfStall),
        prop_oneof![Just(ControlLoss::Standby), Just(ControlLoss::Unreachable)].prop_map(Fault::Lose),
        Just(Fault::Connect),
        Just(Fault::RejectPacketOut),
        (1u64..1000).prop_map(Fault::Sleep),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever the control plane does, only a link that is cut goes down, and it is detected when the control plane
    /// works again.
    #[test]
    fn faults_of_the_control_plane_take_no_link_down(
        faults in proptest::collection::vec((0u32..4, fault(), 0u32..4), 1..60),
        cut_at in 0usize..60,
        has_ports: bool,
    ) {
        let mut fabric = TestFabric::settled();
        fabric.ports_down = has_ports.then(BTreeSet::new);
        let cut = fabric.link("s2", "s4");
        for (index, (switch, fault, ticks)) in faults.iter().enumerate() {
            let switch = SwitchIx(*switch);
            if index == cut_at {
                fabric.cut(cut);
            }
            match *fault {
                Fault::Stall(is_stalled) => fabric.stall(switch, is_stalled),
                Fault::HalfStall(stalls_requests) => {
                    let fake = &mut fabric.switches[switch_index(switch)];
                    (fake.stalls_requests, fake.stalls_responses) = (stalls_requests, !stalls_requests);
                }
                Fault::Lose(loss) => fabric.disconnect(switch, loss),
                Fault::Connect => {
                    fabric.disconnect(switch, ControlLoss::Unreachable);
                    fabric.monitor.on_connected(switch);
                }
                Fault::RejectPacketOut => fabric.monitor.on_packet_out_rejected(switch),
                Fault::Sleep(ms) => fabric.now += Time::from_ms(ms),
            }
            for _ in 0..=*ticks {
                fabric.tick();
                prop_assert!(fabric.monitor.down().iter().all(|&link| link == cut && !fabric.cut.is_empty()));
            }
        }
        for switch in fabric.all() {
            fabric.disconnect(switch, ControlLoss::Unreachable);
            fabric.monitor.on_connected(switch);
        }
        fabric.ticks(16);
        let expected: BTreeSet<LinkIx> = fabric.cut.iter().map(|(link, _)| *link).collect();
        prop_assert_eq!(fabric.monitor.down(), &expected);
    }
}
