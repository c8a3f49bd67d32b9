//! The watcher on a simulated fabric.

use super::*;
use crate::plan::PlanOptions;
use crate::routes::{RoutingMethod, routes};
use crate::topology::{Node, build};
use p4runtime::p4info::Index;

/// Id in the probes of the run.
const RUN_ID: u64 = 7;
/// Values of `is_newly_loaded` in [`Watcher::on_ready`].
const NEWLY_LOADED: bool = true;
const ALREADY_RUNNING: bool = false;
const P4INFO: &str = include_str!("../../../../p4src/build/hpcc.p4info.txtpb");

/// Two leaves and two spines. All switches except the silent ones reply at once.
struct TestFabric {
    watcher: Watcher,
    fabric: Arc<FabricPlan>,
    p4info: Index,
    now: Time,
    /// Links that lose all frames.
    cut: BTreeSet<LinkIx>,
    /// Switches that reply to no request.
    silent: BTreeSet<SwitchIx>,
    /// Delay of each tick, as on a busy machine.
    tick_delay: Time,
}

impl TestFabric {
    fn new() -> TestFabric {
        let spec = "{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 1}";
        let topology = build(&serde_yaml::from_str(spec).unwrap()).unwrap();
        let p4info = Index::from_text(P4INFO).unwrap();
        let fabric = Arc::new(FabricPlan {
            routes: routes(&topology, RoutingMethod::Auto).unwrap(),
            topology,
            method: RoutingMethod::Auto,
            options: PlanOptions::default(),
        });
        let intent = FabricIntent::initial(&fabric, &p4info).unwrap();
        let watcher =
            Watcher::new(Arc::clone(&fabric), intent, Some(MonitorConfig::default()), RUN_ID, Time::ZERO);
        let (now, cut, silent) = (Time::ZERO, BTreeSet::new(), BTreeSet::new());
        TestFabric { watcher, fabric, p4info, now, cut, silent, tick_delay: Time::ZERO }
    }

    /// Returns a fabric after its first rollout.
    fn started() -> TestFabric {
        let mut test = TestFabric::new();
        for switch in test.fabric.topology.switch_ixs() {
            test.watcher.on_ready(switch, NEWLY_LOADED, vec![], Time::ZERO);
        }
        let rollout = test.until_rollout(6);
        let summary = test.end(&rollout, &[]);
        assert_eq!((rollout.switches.len(), summary.reason), (4, RolloutReason::Start));
        test
    }

    /// Sends the probes of a round over the links that are up, and replies to echoes and port queries.
    fn tick(&mut self) {
        self.now = self.watcher.next_tick().unwrap() + self.tick_delay;
        let round = self.watcher.tick(self.now);
        let probes = round.probes.iter().map(|outgoing| outgoing.probe);
        for probe in probes.filter(|probe| !self.cut.contains(&LinkIx(probe.link))) {
            let link = self.fabric.topology.link(LinkIx(probe.link));
            let to = if probe.is_forward { link.b } else { link.a };
            let Node::Switch(switch) = to.node else { panic!("a probe to a host") };
            if !self.silent.contains(&switch) {
                self.watcher.on_packet_in(switch, to.port, &probe.frame());
            }
        }
        for (switch, number) in round.echoes {
            if !self.silent.contains(&switch) {
                self.watcher.on_echo(switch, number, self.now);
            }
        }
        for switch in self.watcher.take_port_queries() {
            let ports = self.fabric.topology.switch(switch).ports();
            let states = ports.map(|(port, link)| (port, !self.cut.contains(&link))).collect();
            self.watcher.on_port_states(switch, Some(states));
        }
    }

    /// Ticks until a rollout begins, at most `max_ticks` times.
    fn until_rollout(&mut self, max_ticks: u32) -> Rollout {
        for _ in 0..max_ticks {
            self.tick();
            if let Some(rollout) = self.watcher.begin(self.now) {
                return rollout;
            }
        }
        panic!("no rollout in {max_ticks} ticks")
    }

    /// Ends a rollout in which the writes of the `failed` switches failed.
    fn end(&mut self, rollout: &Rollout, failed: &[SwitchIx]) -> RolloutSummary {
        let intent =
            rollout.intent.for_condition(&self.fabric, &self.p4info, rollout.condition.clone()).unwrap();
        let desired_entities = |switch| {
            let desired = &intent.desired_states[&self.fabric.topology.switch(switch).name];
            Arc::new(desired.entities().map(|desired| desired.entity.clone()).collect())
        };
        let outcome = |switch: SwitchIx| {
            if failed.contains(&switch) {
                SwitchOutcome::WriteFailed
            } else {
                SwitchOutcome::InSync(desired_entities(switch))
            }
        };
        let switches = rollout.switches.iter().map(|(switch, _)| *switch);
        let outcomes: Vec<_> = switches.map(|switch| (switch, outcome(switch))).collect();
        self.watcher.end(Some(intent), outcomes, self.now).unwrap()
    }

    /// Returns a link between switches.
    fn link(&self) -> LinkIx {
        let links = (0..self.fabric.topology.links.len() as u32).map(LinkIx);
        links.into_iter().find(|&link| self.fabric.topology.is_fabric_link(link)).unwrap()
    }
}

#[test]
fn a_cut_link_causes_one_rollout_and_an_unchanged_fabric_none() {
    let mut test = TestFabric::started();
    (0..10).for_each(|_| test.tick());
    assert!(test.watcher.begin(test.now).is_none());
    let link = test.link();
    test.cut.insert(link);
    let rollout = test.until_rollout(6);
    assert_eq!(rollout.link_changes, [LinkChange { link, is_up: false }]);
    assert!(test.watcher.begin(test.now).is_none(), "one at a time");
    let summary = test.end(&rollout, &[]);
    assert_eq!((summary.reason, summary.down_links), (RolloutReason::Links, 1));
    (0..10).for_each(|_| test.tick());
    assert!(test.watcher.begin(test.now).is_none());
}

/// The switch is read first, since it is unknown which of the updates it applied.
#[test]
fn a_switch_that_rejected_an_update_is_tried_again_after_a_second() {
    let mut test = TestFabric::started();
    test.watcher.schedule_check();
    let rollout = test.watcher.begin(test.now).unwrap();
    assert!(rollout.switches.iter().all(|(_, actual)| actual.is_none()));
    let failed_at = test.now;
    test.end(&rollout, &[SwitchIx(2)]);
    let rollout = test.until_rollout(20);
    assert_eq!(test.now, failed_at + RETRY_DELAY);
    let unread = rollout.switches.iter().filter(|(_, actual)| actual.is_none());
    let unread: Vec<SwitchIx> = unread.map(|(switch, _)| *switch).collect();
    assert_eq!(unread, [SwitchIx(2)]);
}

/// Other switches may send packets to a switch with outdated routes: the rollout stops, and the next one avoids it.
#[test]
fn a_switch_that_fails_is_avoided_until_it_holds_its_routes() {
    let mut test = TestFabric::started();
    let link = test.link();
    test.cut.insert(link);
    let rollout = test.until_rollout(6);
    let failed = SwitchIx(2);
    let outcomes = rollout.switches.iter().map(|(switch, _)| {
        let outcome = if *switch == failed { SwitchOutcome::WriteFailed } else { SwitchOutcome::Stopped };
        (*switch, outcome)
    });
    let intent = rollout.intent.for_condition(&test.fabric, &test.p4info, rollout.condition.clone()).unwrap();
    test.watcher.end(Some(intent), outcomes.collect::<Vec<_>>(), test.now).unwrap();
    let rollout = test.watcher.begin(test.now).unwrap();
    assert_eq!(rollout.condition.avoided, BTreeSet::from([failed]));
    assert_eq!(rollout.switches.len(), 3);
    test.end(&rollout, &[]);
    // The switch is written while routes avoid it, and is then used again.
    let rollout = test.until_rollout(20);
    assert_eq!(rollout.condition.avoided, BTreeSet::from([failed]));
    assert_eq!(rollout.switches.len(), 4);
    test.end(&rollout, &[]);
    let rollout = test.watcher.begin(test.now).unwrap_or_else(|| test.until_rollout(20));
    assert_eq!(rollout.condition.avoided, BTreeSet::new());
}

/// The tables are unknown, so all switches are read before one is written.
#[test]
fn after_standby_a_rollout_waits_for_all_switches() {
    let mut test = TestFabric::started();
    let all: Vec<SwitchIx> = test.fabric.topology.switch_ixs().collect();
    all.iter().for_each(|&switch| test.watcher.on_lost(switch, ControlLoss::Standby));
    (0..40).for_each(|_| test.tick());
    all[..3].iter().for_each(|&switch| test.watcher.on_ready(switch, ALREADY_RUNNING, vec![], test.now));
    (0..10).for_each(|_| test.tick());
    assert!(test.watcher.begin(test.now).is_none());
    test.watcher.on_ready(all[3], ALREADY_RUNNING, vec![], test.now);
    assert_eq!(test.until_rollout(10).switches.len(), 4);
}

/// On a busy machine no link state is certain, and the switches connect one after the other. Without the last one, the
/// rollout would route around it, and the next one back.
#[test]
fn after_standby_a_rollout_waits_for_switches_that_connected_late() {
    let mut test = TestFabric::started();
    let all: Vec<SwitchIx> = test.fabric.topology.switch_ixs().collect();
    all.iter().for_each(|&switch| test.watcher.on_lost(switch, ControlLoss::Standby));
    (0..40).for_each(|_| test.tick());
    test.tick_delay = MonitorConfig::default().interval * 2;
    all[..3].iter().for_each(|&switch| test.watcher.on_ready(switch, ALREADY_RUNNING, vec![], test.now));
    let began_at = test.now;
    (0..4).for_each(|_| test.tick());
    test.watcher.on_ready(all[3], ALREADY_RUNNING, vec![], test.now);
    let last_ready_at = test.now;
    let rollout = test.until_rollout(40);
    assert_eq!((rollout.switches.len(), rollout.condition), (4, FabricCondition::default()));
    assert!(test.now > began_at + UNKNOWN_TABLES_TIMEOUT, "links have settled at {}", test.now);
    assert!(test.now < last_ready_at + LINK_STATE_TIMEOUT + Time::from_ms(500), "at {}", test.now);
}

/// Otherwise switches that reconnect repeatedly would delay all rollouts for ever.
#[test]
fn a_rollout_does_not_wait_for_switches_that_connected_too_late() {
    let mut test = TestFabric::new();
    let all: Vec<SwitchIx> = test.fabric.topology.switch_ixs().collect();
    test.tick();
    all[..3].iter().for_each(|&switch| test.watcher.on_ready(switch, ALREADY_RUNNING, vec![], test.now));
    while test.now < UNKNOWN_TABLES_TIMEOUT - Time::from_ms(100) {
        test.tick();
        assert!(test.watcher.begin(test.now).is_none(), "at {}", test.now);
    }
    let rollout = test.until_rollout(2);
    assert_eq!(rollout.condition.avoided, BTreeSet::from([all[3]]));
    test.end(&rollout, &[]);
    test.watcher.on_ready(all[3], ALREADY_RUNNING, vec![], test.now);
    let link = test.link();
    test.cut.insert(link);
    let cut_at = test.now;
    assert_eq!(test.until_rollout(6).condition.down, BTreeSet::from([link]));
    assert!(test.now < cut_at + LINK_STATE_TIMEOUT);
}

#[test]
fn a_rollout_that_waits_for_a_silent_switch_is_abandoned_when_links_change() {
    let mut test = TestFabric::started();
    test.watcher.schedule_check();
    let rollout = test.watcher.begin(test.now).unwrap();
    assert_eq!(rollout.switches.len(), 4);
    test.silent.insert(SwitchIx(3));
    (0..6).for_each(|_| test.tick());
    assert!(!test.watcher.abandon(test.now), "nothing has changed");
    let link = test.link();
    test.cut.insert(link);
    (0..6).for_each(|_| test.tick());
    assert!(test.watcher.abandon(test.now));
    let rollout = test.watcher.begin(test.now).unwrap();
    assert_eq!((rollout.condition.down.len(), rollout.switches.len()), (1, 3));
    assert_eq!(rollout.condition.avoided, BTreeSet::from([SwitchIx(3)]));
}

/// The switch forwards packets, and its links may have changed while another controller was primary.
#[test]
fn a_switch_that_returns_with_entries_waits_for_the_state_of_its_links() {
    let mut test = TestFabric::started();
    let entity = test.watcher.switches[0].actual.as_ref().unwrap()[0].clone();
    test.watcher.on_lost(SwitchIx(0), ControlLoss::Standby);
    test.watcher.on_ready(SwitchIx(0), ALREADY_RUNNING, vec![entity], test.now);
    assert!(test.watcher.begin(test.now).is_none());
    let rollout = test.until_rollout(6);
    assert_eq!(test.end(&rollout, &[]).reason, RolloutReason::SwitchReady);
    // A switch without the program forwards nothing and is written at once.
    test.watcher.on_lost(SwitchIx(0), ControlLoss::Unreachable);
    test.watcher.on_ready(SwitchIx(0), NEWLY_LOADED, vec![], test.now);
    assert!(test.watcher.begin(test.now).is_some());
}
