//! Writing the differences step by step reaches the desired state. During the transition no packet loops, and no route
//! refers to a missing member.

use crate::common::{fabric, flood_receivers, parallel, ring};
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{Entity, Update};
use p4runtime::p4info::{Index, parse};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use weir_controller::hash::PathHash;
use weir_controller::path::PathError;
use weir_controller::plan::{Bmv2, decode, desired_states};
use weir_controller::pretty;
use weir_controller::reconcile::{
    BASE, DesiredState, Diff, Identity, RankedUpdates, Step, canonical, diff, identity, updates,
};
use weir_controller::routes::{NextHop, Routes, RoutingMethod, reroute, routes};
use weir_controller::runtime_json::RuntimeJson;
use weir_controller::topology::{LinkIx, Prefix, Topology};
use weir_controller::{PlanOptions, verify, verify_flood};

/// An odd ring has one shortest path between any two switches.
const RING_OF_FIVE: &str =
    "{kind: custom, hosts: [h1, h2, h3, h4, h5], switches: [s1, s2, s3, s4, s5], links:
    [[h1, s1], [h2, s2], [h3, s3], [h4, s4], [h5, s5], [s1, s2], [s2, s3], [s3, s4], [s4, s5], [s5, s1]]}";
const HPCC: &str = include_str!("../../../p4src/build/hpcc.p4info.txtpb");

/// A model of a switch that rejects inserts of existing entities, and modifications and deletions of missing ones.
#[derive(Clone, Default)]
struct Model(BTreeMap<Identity, Entity>);

impl Model {
    fn write(&mut self, update: &Update) {
        let entity = canonical(update.entity.as_ref().unwrap());
        let key = identity(&entity).unwrap();
        let exists = self.0.contains_key(&key);
        match update.r#type() {
            Type::Insert => assert!(!exists, "inserted twice: {update:?}"),
            Type::Modify => {
                assert!(exists || matches!(key, Identity::Default(_)), "modified but missing: {update:?}")
            }
            Type::Delete => {
                assert!(self.0.remove(&key).is_some(), "deleted twice: {update:?}");
                return;
            }
            Type::Unspecified => panic!("{update:?}"),
        }
        self.0.insert(key, entity);
    }
    fn entities(&self) -> Vec<Entity> {
        self.0.values().cloned().collect()
    }
}

struct Fabric {
    topology: Topology,
    index: Index,
    models: BTreeMap<String, Model>,
}

impl Fabric {
    fn new(topology: Topology) -> Fabric {
        Fabric { topology, index: Index::from_text(HPCC).unwrap(), models: BTreeMap::new() }
    }

    fn desired_states(&self, routes: &Routes) -> BTreeMap<String, DesiredState> {
        desired_states(&self.topology, routes, &PlanOptions::default(), &self.index).unwrap()
    }

    fn differences(&self, states: &BTreeMap<String, DesiredState>) -> BTreeMap<String, Vec<Step>> {
        let actual = |name: &String| self.models.get(name).map(Model::entities).unwrap_or_default();
        states
            .iter()
            .map(|(name, desired)| (name.clone(), diff(desired, &actual(name), &self.index).steps))
            .collect()
    }

    /// Writes these routes to the empty tables without any check.
    fn fill(&mut self, routes: &Routes) {
        for (name, desired) in self.desired_states(routes) {
            let model = self.models.entry(name).or_default();
            updates(&desired).iter().for_each(|update| model.write(update));
        }
    }

    /// Writes the differences rank by rank, the switches of a rank one after the other from `first` on. With `check`,
    /// checks the whole fabric after every update. Returns the number of updates.
    fn roll_out(&mut self, routes: &Routes, left: &Topology, first: usize, check: bool) -> usize {
        let written = self.roll_out_with(routes, left, first, check, &mut BTreeMap::new());
        let remaining: usize = self.differences(&self.desired_states(routes)).values().map(Vec::len).sum();
        assert_eq!(remaining, 0, "differences remain");
        written
    }

    /// Like `roll_out`, with switches that fail after some updates. A failed switch loses updates, possibly not all of
    /// its rank, and stops the rollout after this rank.
    fn roll_out_with(
        &mut self,
        routes: &Routes,
        left: &Topology,
        first: usize,
        check: bool,
        faults: &mut BTreeMap<String, Fault>,
    ) -> usize {
        let differences = self.differences(&self.desired_states(routes));
        let names: Vec<String> = differences.keys().cloned().collect();
        let of = |(name, steps)| (name, Diff { steps, unchanged: 0 });
        let mut ranked = RankedUpdates::new(differences.into_iter().map(of));
        let mut written = 0;
        while let Some(mut due) = ranked.next_rank() {
            for turn in 0..names.len() {
                let name = &names[(first + turn * 7) % names.len()];
                for update in due.remove(name).unwrap_or_default() {
                    if let Some(fault) = faults.get_mut(name) {
                        match fault.updates.checked_sub(1) {
                            Some(remaining) => fault.updates = remaining,
                            None => {
                                ranked.abandon(name);
                                ranked.take_unfinished();
                                if fault.ends_batch { break } else { continue }
                            }
                        }
                    }
                    self.models.entry(name.clone()).or_default().write(&update);
                    written += 1;
                    if check {
                        self.check_transition(left);
                    }
                }
            }
        }
        written
    }

    fn routes(&self) -> Routes {
        let actual = self.models.iter().map(|(name, model)| (name.clone(), model.entities())).collect();
        decode(&self.topology, &actual, &self.index, &Bmv2).unwrap()
    }

    /// Checks that groups have enough members, and that no packet loops or is flooded twice.
    fn check_transition(&self, left: &Topology) {
        let routes = self.routes();
        for (switch, it) in self.topology.switches.iter().zip(&routes.switches) {
            for (prefix, hop) in &it.forward {
                if let NextHop::Ecmp { group, size, .. } = hop {
                    let members = it.groups.get(group).map_or(0, Vec::len);
                    assert!(
                        members >= usize::from(*size),
                        "{}: {prefix} has {members} of {size}",
                        switch.name
                    );
                }
            }
        }
        for host in left.host_ixs() {
            let receivers = flood_receivers(left, &routes, host).expect("no loop");
            assert!(receivers.windows(2).all(|two| two[0] != two[1]), "received twice: {receivers:?}");
        }
        let hosts: Vec<_> = left.host_ixs().step_by(1 + left.hosts.len() / 6).collect();
        for (&a, &b) in hosts.iter().flat_map(|a| hosts.iter().map(move |b| (a, b))).filter(|(a, b)| a != b) {
            for hash in (0..6).map(|i| PathHash(0x9e37_79b1u32.wrapping_mul(i + 1))) {
                let path = routes.path(left, a, b, hash);
                assert!(!matches!(path, Err(PathError::Loop(_))), "{path:?}");
            }
        }
    }
}

/// A switch that fails after some updates.
#[derive(Clone, Copy, Debug)]
struct Fault {
    updates: usize,
    /// The rest of the batch is lost too; otherwise only this update is lost.
    ends_batch: bool,
}

/// Returns routes as another controller may have written them: `base`, and for each rack a random tree, by the rack's
/// prefix or the addresses of its hosts.
fn foreign(topology: &Topology, base: &Routes, mut random: u64) -> Routes {
    let mut draw = move |limit: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % limit
    };
    let mut all = base.clone();
    for rack in topology.switch_ixs().filter(|&ix| !topology.switch(ix).hosts.is_empty()) {
        let hosts = topology.switch(rack).hosts.iter().map(|&host| Prefix::host(topology.host(host).ip));
        let prefixes: Vec<Prefix> = match topology.switch(rack).rack {
            Some(prefix) if draw(2) == 0 => vec![prefix],
            _ => hosts.collect(),
        };
        let (mut reached, mut frontier) = (BTreeSet::from([rack]), vec![rack]);
        while !frontier.is_empty() {
            let here = frontier.swap_remove(draw(frontier.len()));
            for next in topology.neighbours(here).filter(|next| reached.insert(next.switch)) {
                frontier.push(next.switch);
                let hops = prefixes.iter().map(|&prefix| (prefix, NextHop::Via { port: next.peer_port }));
                all.switches[next.switch.0 as usize].forward.extend(hops);
            }
        }
    }
    all
}

fn some_links(topology: &Topology, seeds: &[usize]) -> BTreeSet<LinkIx> {
    let fabric: Vec<LinkIx> =
        (0..topology.links.len() as u32).map(LinkIx).filter(|&ix| topology.is_fabric_link(ix)).collect();
    seeds.iter().map(|seed| fabric[seed % fabric.len()]).collect()
}

fn fabrics() -> Vec<Topology> {
    vec![
        fabric(RING_OF_FIVE),
        fabric("{kind: leaf-spine, leaves: 3, spines: 3, hosts_per_leaf: 1}"),
        parallel(),
        ring(),
        fabric("{kind: fat-tree, k: 4}"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn links_fail_and_return_without_a_loop_or_a_missing_member(
        which in 0usize..5,
        failures in prop::collection::vec(prop::collection::vec(0usize..1000, 0..4), 1..4),
        first in 0usize..50,
    ) {
        let mut it = Fabric::new(fabrics().swap_remove(which));
        let base = routes(&it.topology, RoutingMethod::Auto).unwrap();
        let whole = it.topology.clone();
        it.roll_out(&base, &whole, first, false);
        let mut now = base.clone();
        for seeds in failures.iter().chain([&Vec::new()]) {
            let down = some_links(&whole, seeds);
            let left = whole.without_links(&down);
            let next = reroute(&left, RoutingMethod::Auto, &now).unwrap();
            let proof = verify(&left, &next);
            prop_assert!(proof.is_ok(), "{proof:?}");
            it.roll_out(&next, &left, first, true);
            prop_assert!(verify(&left, &it.routes()).is_ok(), "actual routes");
            prop_assert_eq!(verify_flood(&left, &it.routes()).map(|_| ()), Ok(()));
            now = next;
        }
        prop_assert_eq!(&it.routes().switches.len(), &base.switches.len());
        prop_assert_eq!(it.desired_states(&now), it.desired_states(&base), "restored");
    }

    /// From any loop-free old routes, and with any switches failing at any time, no packet loops after any update:
    /// neither before nor after the other switches are stopped, nor when the plan is applied again.
    #[test]
    fn switches_that_fail_leave_no_loop_from_any_old_routes(
        which in 0usize..4,
        old in 0usize..4,
        cut in prop::collection::vec(0usize..1000, 0..4),
        new_cut in prop::collection::vec(0usize..1000, 0..3),
        trees in any::<bool>(),
        random in any::<u64>(),
        first in 0usize..50,
        faults in prop::collection::vec((0usize..1000, 0usize..30, any::<bool>()), 1..4),
    ) {
        let whole = fabrics().swap_remove(which);
        let mut it = Fabric::new(whole.clone());
        let left = whole.without_links(&some_links(&whole, &cut));
        let new_left = whole.without_links(&some_links(&whole, &new_cut));
        let old = match old {
            0 => routes(&left, RoutingMethod::Auto).unwrap(),
            1 => routes(&left, RoutingMethod::Trees).unwrap(),
            2 => foreign(&left, &routes(&left, RoutingMethod::Auto).unwrap(), random),
            _ => foreign(&left, &routes(&left, RoutingMethod::Trees).unwrap(), random),
        };
        let new = routes(&new_left, if trees { RoutingMethod::Trees } else { RoutingMethod::Auto }).unwrap();
        it.fill(&old);
        it.check_transition(&whole);
        let names: Vec<String> = it.models.keys().cloned().collect();
        let fault = |&(at, updates, ends_batch): &(usize, usize, bool)| (names[at % names.len()].clone(), Fault { updates, ends_batch });
        let mut faults: BTreeMap<String, Fault> = faults.iter().map(fault).collect();
        it.roll_out_with(&new, &whole, first, true, &mut faults);
        it.roll_out(&new, &whole, first, true);
        prop_assert!(verify(&new_left, &it.routes()).is_ok(), "actual routes");
    }

    #[test]
    fn a_switch_reaches_the_desired_state_from_any_state(
        lost in prop::collection::vec(0usize..1000, 0..20),
        foreign in prop::collection::vec(0usize..1000, 0..20),
    ) {
        let mut it = Fabric::new(fabric("{kind: fat-tree, k: 4}"));
        let other = Fabric::new(fabric("{kind: leaf-spine, leaves: 4, spines: 4, hosts_per_leaf: 2}"));
        let base = routes(&it.topology, RoutingMethod::Auto).unwrap();
        let others = other.desired_states(&routes(&other.topology, RoutingMethod::Trees).unwrap());
        let whole = it.topology.clone();
        it.roll_out(&base, &whole, 0, false);
        let model = it.models.get_mut("s1").unwrap();
        for seed in lost {
            let key = model.0.keys().nth(seed % model.0.len().max(1)).cloned();
            key.map(|key| model.0.remove(&key));
        }
        for seed in foreign {
            let entity = others["s2"].entities().nth(seed % others["s2"].len()).unwrap().entity.clone();
            model.0.insert(identity(&entity).unwrap(), entity);
        }
        it.roll_out(&base, &whole, 0, false);
        prop_assert!(verify(&whole, &it.routes()).is_ok());
        prop_assert_eq!(verify_flood(&whole, &it.routes()).map(|_| ()), Ok(()));
    }
}

/// Switches select a tree by the hash modulo the number of trees, and longer prefixes hide the trees. Neither another
/// number of trees nor the deletion of a prefix makes packets loop.
#[test]
fn trees_replace_other_trees_without_a_loop() {
    let whole = ring();
    let left = whole.without_links(&some_links(&whole, &[0]));
    let trees = |topology: &Topology| routes(topology, RoutingMethod::Trees).unwrap();
    let count = |routes: &Routes| routes.switches[0].trees.len();
    let (many, one) = (trees(&whole), trees(&left));
    assert!(count(&many) > count(&one));
    let hidden = |seed: u64| (foreign(&whole, &many, seed), many.clone());
    let changes = [(many.clone(), one.clone()), (one, many.clone())].into_iter().chain((0..8).map(hidden));
    for (old, new) in changes {
        for first in 0..4 {
            let mut it = Fabric::new(whole.clone());
            it.fill(&old);
            it.roll_out(&new, &whole, first, true);
        }
    }
}

/// The program has a table of its own, which is written only if a desired state contains entries of it.
#[test]
fn tables_that_the_plan_does_not_manage_are_not_written() {
    const OWN: &str = include_str!("../../../examples/own-p4/build/own_p4.p4info.txtpb");
    let limit = |ticks: u32| -> Entity {
        let json = format!(
            r#"{{"target": "bmv2", "table_entries": [{{"table": "sojourn_mark", "default_action": true,
                "action_name": "mark_above", "action_params": {{"ticks": {ticks}}}}}]}}"#
        );
        let desired =
            RuntimeJson::parse(&json).unwrap().desired_state(&Index::from_text(OWN).unwrap()).unwrap();
        desired.entities().next().unwrap().entity.clone()
    };
    let mut fabric = Fabric { index: Index::from_text(OWN).unwrap(), ..Fabric::new(parallel()) };
    let routes = routes(&fabric.topology, RoutingMethod::Auto).unwrap();
    let left = fabric.topology.clone();
    fabric.roll_out(&routes, &left, 0, false);
    let insert = Update { r#type: Type::Modify.into(), entity: Some(limit(7)) };
    fabric.models.values_mut().for_each(|model| model.write(&insert));
    let mut states = fabric.desired_states(&routes);
    assert!(fabric.differences(&states).values().all(Vec::is_empty));
    let mut more = DesiredState::default();
    more.insert(BASE, limit(9));
    states.values_mut().for_each(|desired| desired.merge(&more));
    for steps in fabric.differences(&states).values() {
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].update.entity, Some(canonical(&limit(9))));
    }
}

/// The references of the P4 program give the order, not the order in which the P4Info lists its tables.
#[test]
fn entries_are_deleted_before_those_to_which_they_refer() {
    let mut info = parse(HPCC).unwrap();
    info.tables.reverse();
    let index = Index::new(info).unwrap();
    for topology in [parallel(), ring()] {
        let routes = routes(&topology, RoutingMethod::Auto).unwrap();
        let states = desired_states(&topology, &routes, &PlanOptions::default(), &index).unwrap();
        let actual: Vec<Entity> = states["s1"].entities().map(|desired| desired.entity.clone()).collect();
        let steps = diff(&DesiredState::default(), &actual, &index).steps;
        let texts: Vec<String> = steps.iter().map(|step| pretty::update(&step.update, &index)).collect();
        let last_of = |start: &str| texts.iter().rposition(|text| text.starts_with(start));
        let first_of = |start: &str| texts.iter().position(|text| text.starts_with(start));
        assert!(last_of("- forward[") < first_of("- member[").or(first_of("- tree_route[")), "{texts:#?}");
        assert!(last_of("- policy_flood[") < first_of("- multicast group"), "{texts:#?}");
    }
}

#[test]
fn nothing_is_written_when_nothing_differs() {
    let mut it = Fabric::new(fabric("{kind: fat-tree, k: 4}"));
    let base = routes(&it.topology, RoutingMethod::Auto).unwrap();
    let whole = it.topology.clone();
    assert!(it.roll_out(&base, &whole, 0, false) > 0);
    assert_eq!(it.roll_out(&base, &whole, 0, false), 0);
}

#[test]
fn a_partitioned_fabric_is_proved_for_each_component() {
    let topology = fabric("{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 2}");
    let down = some_links(&topology, &[0, 1]);
    let left = topology.without_links(&down);
    for method in [RoutingMethod::Ecmp, RoutingMethod::Trees] {
        let routes = reroute(&left, method, &routes(&topology, method).unwrap()).unwrap();
        let proof = verify(&left, &routes).unwrap();
        assert_eq!((proof.pairs, proof.partitioned_pairs), (4, 8), "{method:?}");
    }
}

/// Both methods write routes by index to the table `tree_route`. Only those along trees have no cycle of links.
#[test]
fn tables_with_up_down_paths_are_not_taken_for_trees() {
    let topology = fabric("{kind: jellyfish, switches: 8, degree: 3, hosts_per_switch: 1}");
    for method in [RoutingMethod::Trees, RoutingMethod::UpDown] {
        let mut held = Fabric::new(topology.clone());
        let planned = routes(&topology, method).unwrap();
        held.fill(&planned);
        assert_eq!((held.routes().method, held.routes().switches == planned.switches), (method, true));
    }
}
