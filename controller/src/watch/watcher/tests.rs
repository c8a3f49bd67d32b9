use super::*;
use crate::plan::PlanOptions;
use crate::routes::{RoutingMethod, routes};
use crate::topology::{Node, build};
use p4runtime::p4info::Index;

const P4INFO: &str = include_str!("../../../../p4src/build/hpcc.p4info.txtpb");

/// Two leaves, two spines, whose switches answer at once, but for some.
struct Bench {
    watcher: Watcher,
    fabric: Arc<FabricPlan>,
    p4info: Index,
    now: Time,
    cut: BTreeSet<LinkIx>,
    silent: BTreeSet<SwitchIx>,
}

impl Bench {
    fn new() -> Bench {
        let spec = "{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 1}";
        let topology = build(&serde_yaml::from_str(spec).unwrap()).unwrap();
        let p4info = Index::from_text(P4INFO).unwrap();
        let fabric = Arc::new(FabricPlan {
            routes: routes(&topology, RoutingMethod::Auto).unwrap(),
            topology,
            method: RoutingMethod::Auto,
            options: PlanOptions::default(),
        });
        let aim = FabricIntent::initial(&fabric, &p4info).unwrap();
        let watcher = Watcher::new(Arc::clone(&fabric), aim, Some(MonitorConfig::default()), 7, Time::ZERO);
        let (now, cut, silent) = (Time::ZERO, BTreeSet::new(), BTreeSet::new());
        Bench { watcher, fabric, p4info, now, cut, silent }
    }

    /// After the first rollout.
    fn started() -> Bench {
        let mut bench = Bench::new();
        bench
            .fabric
            .topology
            .switch_ixs()
            .for_each(|at| bench.watcher.on_ready(at, true, vec![], Time::ZERO));
        let rollout = bench.until_rollout(6);
        let ended = bench.end(&rollout, &[]);
        assert_eq!((rollout.members.len(), ended.reason), (4, RolloutReason::Start));
        bench
    }

    /// Sends the probes of a round over the links that are whole, and answers.
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
        for at in self.watcher.questions() {
            let ports = self.fabric.topology.switch(at).ports();
            let states = ports.map(|(port, link)| (port, !self.cut.contains(&link))).collect();
            self.watcher.port_states(at, Some(states));
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

    /// Ends a rollout in which some switches took nothing.
    fn end(&mut self, rollout: &Rollout, failed: &[SwitchIx]) -> RolloutSummary {
        let aim = rollout.aim.for_condition(&self.fabric, &self.p4info, rollout.condition.clone()).unwrap();
        let holds = |at| {
            let goal = &aim.goals[&self.fabric.topology.switch(at).name];
            Arc::new(goal.entities().map(|it| it.entity.clone()).collect())
        };
        let report = |at: SwitchIx| {
            if failed.contains(&at) { SwitchOutcome::WriteFailed } else { SwitchOutcome::InSync(holds(at)) }
        };
        let reports: Vec<_> = rollout.members.iter().map(|it| (it.0, report(it.0))).collect();
        self.watcher.end(Some(aim), reports, self.now).unwrap()
    }

    /// Returns a link between switches.
    fn link(&self) -> LinkIx {
        let links = (0..self.fabric.topology.links.len() as u32).map(LinkIx);
        links.into_iter().find(|&it| self.fabric.topology.is_fabric_link(it)).unwrap()
    }
}

#[test]
fn a_cut_link_makes_one_rollout_and_silence_none() {
    let mut bench = Bench::started();
    (0..10).for_each(|_| bench.tick());
    assert!(bench.watcher.begin(bench.now).is_none());
    let link = bench.link();
    bench.cut.insert(link);
    let rollout = bench.until_rollout(6);
    assert_eq!(rollout.changed, [(link, false)]);
    assert!(bench.watcher.begin(bench.now).is_none(), "one at a time");
    let ended = bench.end(&rollout, &[]);
    assert_eq!((ended.reason, ended.down), (RolloutReason::Links, 1));
    (0..10).for_each(|_| bench.tick());
    assert!(bench.watcher.begin(bench.now).is_none());
}

/// It is read first: nobody knows what of the updates it has taken.
#[test]
fn a_switch_that_refused_something_is_tried_again_after_a_second() {
    let mut bench = Bench::started();
    bench.watcher.check();
    let rollout = bench.watcher.begin(bench.now).unwrap();
    assert!(rollout.members.iter().all(|it| it.1.is_none()));
    let began = bench.now;
    bench.end(&rollout, &[SwitchIx(2)]);
    let rollout = bench.until_rollout(20);
    assert_eq!(bench.now, began + RETRY_DELAY);
    let unread: Vec<SwitchIx> = rollout.members.iter().filter(|it| it.1.is_none()).map(|it| it.0).collect();
    assert_eq!(unread, [SwitchIx(2)]);
}

/// Others may send packets to a switch that has not taken its updates: the rollout stops, and the next one avoids it.
#[test]
fn a_switch_that_fails_is_avoided_until_it_holds_its_routes() {
    let mut bench = Bench::started();
    let link = bench.link();
    bench.cut.insert(link);
    let rollout = bench.until_rollout(6);
    let failed = SwitchIx(2);
    let reports = rollout.members.iter().map(|it| {
        let report = if it.0 == failed { SwitchOutcome::WriteFailed } else { SwitchOutcome::Stopped };
        (it.0, report)
    });
    let aim = rollout.aim.for_condition(&bench.fabric, &bench.p4info, rollout.condition.clone()).unwrap();
    bench.watcher.end(Some(aim), reports.collect::<Vec<_>>(), bench.now).unwrap();
    let rollout = bench.watcher.begin(bench.now).unwrap();
    assert_eq!(rollout.condition.avoided, BTreeSet::from([failed]));
    assert_eq!(rollout.members.len(), 3);
    bench.end(&rollout, &[]);
    // It is written while it is avoided, and then used again.
    let rollout = bench.until_rollout(20);
    assert_eq!(rollout.condition.avoided, BTreeSet::from([failed]));
    assert_eq!(rollout.members.len(), 4);
    bench.end(&rollout, &[]);
    let rollout = bench.watcher.begin(bench.now).unwrap_or_else(|| bench.until_rollout(20));
    assert_eq!(rollout.condition.avoided, BTreeSet::new());
}

/// Nobody knows what it has written, so all are read before one is written.
#[test]
fn after_another_controller_all_switches_are_waited_for() {
    let mut bench = Bench::started();
    let all: Vec<SwitchIx> = bench.fabric.topology.switch_ixs().collect();
    all.iter().for_each(|&at| bench.watcher.on_lost(at, ControlLoss::Standby));
    (0..40).for_each(|_| bench.tick());
    all[..3].iter().for_each(|&at| bench.watcher.on_ready(at, false, vec![], bench.now));
    (0..10).for_each(|_| bench.tick());
    assert!(bench.watcher.begin(bench.now).is_none());
    bench.watcher.on_ready(all[3], false, vec![], bench.now);
    assert_eq!(bench.until_rollout(10).members.len(), 4);
}

#[test]
fn a_rollout_that_waits_for_a_silent_switch_is_given_up_when_links_change() {
    let mut bench = Bench::started();
    bench.watcher.check();
    let rollout = bench.watcher.begin(bench.now).unwrap();
    assert_eq!(rollout.members.len(), 4);
    bench.silent.insert(SwitchIx(3));
    (0..6).for_each(|_| bench.tick());
    assert!(!bench.watcher.abandon(bench.now), "nothing has changed");
    let link = bench.link();
    bench.cut.insert(link);
    (0..6).for_each(|_| bench.tick());
    assert!(bench.watcher.abandon(bench.now));
    let rollout = bench.watcher.begin(bench.now).unwrap();
    assert_eq!((rollout.condition.down.len(), rollout.members.len()), (1, 3));
    assert_eq!(rollout.condition.avoided, BTreeSet::from([SwitchIx(3)]));
}

/// It forwards, and its links may have changed while another controller led.
#[test]
fn a_switch_that_comes_back_with_entries_waits_for_its_links() {
    let mut bench = Bench::started();
    let entity = bench.watcher.switches[0].held.as_ref().unwrap()[0].clone();
    bench.watcher.on_lost(SwitchIx(0), ControlLoss::Standby);
    bench.watcher.on_ready(SwitchIx(0), false, vec![entity], bench.now);
    assert!(bench.watcher.begin(bench.now).is_none());
    let rollout = bench.until_rollout(6);
    assert_eq!(bench.end(&rollout, &[]).reason, RolloutReason::Returned);
    // One that lacks the program forwards nothing: it is filled at once.
    bench.watcher.on_lost(SwitchIx(0), ControlLoss::Unreachable);
    bench.watcher.on_ready(SwitchIx(0), true, vec![], bench.now);
    assert!(bench.watcher.begin(bench.now).is_some());
}
