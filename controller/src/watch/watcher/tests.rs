use super::*;
use crate::plan::PlanOptions;
use crate::routes::{RoutingMethod, routes};
use crate::topology::{Node, build};
use p4runtime::p4info::Index;

const P4INFO: &str = include_str!("../../../../p4src/build/hpcc.p4info.txtpb");

/// Two leaves and two spines. All switches except the silent ones reply at once.
struct TestFabric {
    watcher: Watcher,
    fabric: Arc<FabricPlan>,
    p4info: Index,
    now: Time,
    cut: BTreeSet<LinkIx>,
    silent: BTreeSet<SwitchIx>,
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
            Watcher::new(Arc::clone(&fabric), intent, Some(MonitorConfig::default()), 7, Time::ZERO);
        let (now, cut, silent) = (Time::ZERO, BTreeSet::new(), BTreeSet::new());
        TestFabric { watcher, fabric, p4info, now, cut, silent }
    }

    /// Returns a fabric after its first rollout.
    fn started() -> TestFabric {
        let mut test = TestFabric::new();
        test.fabric.topology.switch_ixs().for_each(|at| test.watcher.on_ready(at, true, vec![], Time::ZERO));
        let rollout = test.until_rollout(6);
        let summary = test.end(&rollout, &[]);
        assert_eq!((rollout.members.len(), summary.reason), (4, RolloutReason::Start));
        test
    }

    /// Sends the probes of a round over the links that are up, and replies to echoes and port queries.
    fn tick(&mut self) {
        self.now = self.watcher.next_tick().unwrap();
        let round = self.watcher.tick(self.now);
        for (_, _, probe) in round.probes.iter().filter(|it| !self.cut.contains(&LinkIx(it.2.link))) {
            let link = self.fabric.topology.link(LinkIx(probe.link));
            let to = if probe.forward { link.b } else { link.a };
            let Node::Switch(at) = to.node else { panic!("a probe to a host") };
            if !self.silent.contains(&at) {
                self.watcher.on_packet_in(at, to.port, &probe.frame());
            }
        }
        for (at, number) in round.echoes.into_iter().filter(|it| !self.silent.contains(&it.0)) {
            self.watcher.on_echo(at, number, self.now);
        }
        for at in self.watcher.port_queries() {
            let ports = self.fabric.topology.switch(at).ports();
            let states = ports.map(|(port, link)| (port, !self.cut.contains(&link))).collect();
            self.watcher.on_port_states(at, Some(states));
        }
    }

    fn until_rollout(&mut self, max: u32) -> Rollout {
        for _ in 0..max {
            self.tick();
            if let Some(rollout) = self.watcher.begin(self.now) {
                return rollout;
            }
        }
        panic!("no rollout in {max} ticks")
    }

    /// Ends a rollout in which the writes of the `failed` switches failed.
    fn end(&mut self, rollout: &Rollout, failed: &[SwitchIx]) -> RolloutSummary {
        let intent =
            rollout.intent.for_condition(&self.fabric, &self.p4info, rollout.condition.clone()).unwrap();
        let desired_entities = |at| {
            let desired = &intent.desired_states[&self.fabric.topology.switch(at).name];
            Arc::new(desired.entities().map(|it| it.entity.clone()).collect())
        };
        let outcome = |at: SwitchIx| {
            if failed.contains(&at) {
                SwitchOutcome::WriteFailed
            } else {
                SwitchOutcome::InSync(desired_entities(at))
            }
        };
        let outcomes: Vec<_> = rollout.members.iter().map(|it| (it.0, outcome(it.0))).collect();
        self.watcher.end(Some(intent), outcomes, self.now).unwrap()
    }

    /// Returns a link between switches.
    fn link(&self) -> LinkIx {
        let links = (0..self.fabric.topology.links.len() as u32).map(LinkIx);
        links.into_iter().find(|&it| self.fabric.topology.is_fabric_link(it)).unwrap()
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
    assert_eq!(rollout.changed, [(link, false)]);
    assert!(test.watcher.begin(test.now).is_none(), "one at a time");
    let summary = test.end(&rollout, &[]);
    assert_eq!((summary.reason, summary.down), (RolloutReason::Links, 1));
    (0..10).for_each(|_| test.tick());
    assert!(test.watcher.begin(test.now).is_none());
}

/// The switch is read first, since it is unknown which of the updates it applied.
#[test]
fn a_switch_that_rejected_an_update_is_tried_again_after_a_second() {
    let mut test = TestFabric::started();
    test.watcher.schedule_check();
    let rollout = test.watcher.begin(test.now).unwrap();
    assert!(rollout.members.iter().all(|it| it.1.is_none()));
    let began = test.now;
    test.end(&rollout, &[SwitchIx(2)]);
    let rollout = test.until_rollout(20);
    assert_eq!(test.now, began + RETRY_DELAY);
    let unread: Vec<SwitchIx> = rollout.members.iter().filter(|it| it.1.is_none()).map(|it| it.0).collect();
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
    let outcomes = rollout.members.iter().map(|it| {
        let outcome = if it.0 == failed { SwitchOutcome::WriteFailed } else { SwitchOutcome::Stopped };
        (it.0, outcome)
    });
    let intent = rollout.intent.for_condition(&test.fabric, &test.p4info, rollout.condition.clone()).unwrap();
    test.watcher.end(Some(intent), outcomes.collect::<Vec<_>>(), test.now).unwrap();
    let rollout = test.watcher.begin(test.now).unwrap();
    assert_eq!(rollout.condition.avoided, BTreeSet::from([failed]));
    assert_eq!(rollout.members.len(), 3);
    test.end(&rollout, &[]);
    // The switch is written while routes avoid it, and is then used again.
    let rollout = test.until_rollout(20);
    assert_eq!(rollout.condition.avoided, BTreeSet::from([failed]));
    assert_eq!(rollout.members.len(), 4);
    test.end(&rollout, &[]);
    let rollout = test.watcher.begin(test.now).unwrap_or_else(|| test.until_rollout(20));
    assert_eq!(rollout.condition.avoided, BTreeSet::new());
}

/// The tables are unknown, so all switches are read before one is written.
#[test]
fn after_standby_a_rollout_waits_for_all_switches() {
    let mut test = TestFabric::started();
    let all: Vec<SwitchIx> = test.fabric.topology.switch_ixs().collect();
    all.iter().for_each(|&at| test.watcher.on_lost(at, ControlLoss::Standby));
    (0..40).for_each(|_| test.tick());
    all[..3].iter().for_each(|&at| test.watcher.on_ready(at, false, vec![], test.now));
    (0..10).for_each(|_| test.tick());
    assert!(test.watcher.begin(test.now).is_none());
    test.watcher.on_ready(all[3], false, vec![], test.now);
    assert_eq!(test.until_rollout(10).members.len(), 4);
}

#[test]
fn a_rollout_that_waits_for_a_silent_switch_is_abandoned_when_links_change() {
    let mut test = TestFabric::started();
    test.watcher.schedule_check();
    let rollout = test.watcher.begin(test.now).unwrap();
    assert_eq!(rollout.members.len(), 4);
    test.silent.insert(SwitchIx(3));
    (0..6).for_each(|_| test.tick());
    assert!(!test.watcher.abandon(test.now), "nothing has changed");
    let link = test.link();
    test.cut.insert(link);
    (0..6).for_each(|_| test.tick());
    assert!(test.watcher.abandon(test.now));
    let rollout = test.watcher.begin(test.now).unwrap();
    assert_eq!((rollout.condition.down.len(), rollout.members.len()), (1, 3));
    assert_eq!(rollout.condition.avoided, BTreeSet::from([SwitchIx(3)]));
}

/// The switch forwards packets, and its links may have changed while another controller was primary.
#[test]
fn a_switch_that_returns_with_entries_waits_for_the_state_of_its_links() {
    let mut test = TestFabric::started();
    let entity = test.watcher.switches[0].actual.as_ref().unwrap()[0].clone();
    test.watcher.on_lost(SwitchIx(0), ControlLoss::Standby);
    test.watcher.on_ready(SwitchIx(0), false, vec![entity], test.now);
    assert!(test.watcher.begin(test.now).is_none());
    let rollout = test.until_rollout(6);
    assert_eq!(test.end(&rollout, &[]).reason, RolloutReason::Returned);
    // A switch without the program forwards nothing and is written at once.
    test.watcher.on_lost(SwitchIx(0), ControlLoss::Unreachable);
    test.watcher.on_ready(SwitchIx(0), true, vec![], test.now);
    assert!(test.watcher.begin(test.now).is_some());
}
