//! From what switches hold to what they should: writing the difference step by step reaches the goal, and on the
//! transition no packet loops and no route refers to a member that is not there.

use crate::common::{fabric, hears, parallel, ring};
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{Entity, Update};
use p4runtime::p4info::Index;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use weir_controller::hash::PathHash;
use weir_controller::path::PathError;
use weir_controller::plan::{Bmv2, decode, desired_states};
use weir_controller::reconcile::{BASE, DesiredState, Identity, Step, canonical, diff, identity};
use weir_controller::routes::{NextHop, Routes, RoutingMethod, reroute, routes};
use weir_controller::runtime_json::RuntimeJson;
use weir_controller::topology::{LinkIx, Topology};
use weir_controller::{PlanOptions, verify, verify_flood};

const HPCC: &str = include_str!("../../../p4src/build/hpcc.p4info.txtpb");

/// A switch that takes what a switch takes, and nothing else.
#[derive(Clone, Default)]
struct Model(BTreeMap<Identity, Entity>);

impl Model {
    fn write(&mut self, update: &Update) {
        let entity = canonical(update.entity.as_ref().unwrap());
        let key = identity(&entity).unwrap();
        let is_there = self.0.contains_key(&key);
        match update.r#type() {
            Type::Insert => assert!(!is_there, "inserted twice: {update:?}"),
            Type::Modify => assert!(is_there || matches!(key, Identity::Default(_)), "not there: {update:?}"),
            Type::Delete => {
                assert!(self.0.remove(&key).is_some(), "deleted twice: {update:?}");
                return;
            }
            Type::Unspecified => panic!("{update:?}"),
        }
        self.0.insert(key, entity);
    }
    fn held(&self) -> Vec<Entity> {
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

    fn goals(&self, routes: &Routes) -> BTreeMap<String, DesiredState> {
        desired_states(&self.topology, routes, &PlanOptions::default(), &self.index).unwrap()
    }

    fn differences(&self, goals: &BTreeMap<String, DesiredState>) -> BTreeMap<String, Vec<Step>> {
        let held = |name: &String| self.models.get(name).map(Model::held).unwrap_or_default();
        goals.iter().map(|(name, goal)| (name.clone(), diff(goal, &held(name), &self.index).steps)).collect()
    }

    /// Writes the difference rank by rank, the switches of a rank one after the other from `first` on, and looks at the
    /// whole fabric after every step.
    fn roll_out(&mut self, routes: &Routes, left: &Topology, first: usize, check: bool) -> usize {
        let goals = self.goals(routes);
        let differences = self.differences(&goals);
        let ranks: BTreeSet<u32> = differences.values().flatten().map(|step| step.rank).collect();
        let names: Vec<String> = goals.keys().cloned().collect();
        let mut written = 0;
        for rank in ranks {
            for turn in 0..names.len() {
                let name = &names[(first + turn * 7) % names.len()];
                let due = differences[name].iter().filter(|step| step.rank == rank);
                for step in due {
                    self.models.entry(name.clone()).or_default().write(&step.update);
                    written += 1;
                    if check {
                        self.look(left);
                    }
                }
            }
        }
        let left_over: usize = self.differences(&goals).values().map(Vec::len).sum();
        assert_eq!(left_over, 0, "all is as it should be");
        written
    }

    fn routes(&self) -> Routes {
        let held = self.models.iter().map(|(name, model)| (name.clone(), model.held())).collect();
        decode(&self.topology, &held, &self.index, &Bmv2).unwrap()
    }

    fn look(&self, left: &Topology) {
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
            let heard = hears(left, &routes, host).expect("no circle");
            assert!(heard.windows(2).all(|two| two[0] != two[1]), "twice: {heard:?}");
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

fn some_links(topology: &Topology, seeds: &[usize]) -> BTreeSet<LinkIx> {
    let fabric: Vec<LinkIx> =
        (0..topology.links.len() as u32).map(LinkIx).filter(|&ix| topology.is_fabric_link(ix)).collect();
    seeds.iter().map(|seed| fabric[seed % fabric.len()]).collect()
}

fn fabrics() -> Vec<Topology> {
    vec![
        fabric("{kind: fat-tree, k: 4}"),
        fabric("{kind: leaf-spine, leaves: 3, spines: 3, hosts_per_leaf: 1}"),
        parallel(),
        ring(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn links_fail_and_return_without_a_loop_or_a_missing_member(
        which in 0usize..4,
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
            prop_assert!(verify(&left, &it.routes()).is_ok(), "what the switches hold");
            prop_assert_eq!(verify_flood(&left, &it.routes()).map(|_| ()), Ok(()));
            now = next;
        }
        prop_assert_eq!(&it.routes().switches.len(), &base.switches.len());
        prop_assert_eq!(it.goals(&now), it.goals(&base), "all is as before");
    }

    #[test]
    fn a_switch_reaches_the_goal_from_any_state(
        lost in prop::collection::vec(0usize..1000, 0..20),
        foreign in prop::collection::vec(0usize..1000, 0..20),
    ) {
        let mut it = Fabric::new(fabric("{kind: fat-tree, k: 4}"));
        let other = Fabric::new(fabric("{kind: leaf-spine, leaves: 4, spines: 4, hosts_per_leaf: 2}"));
        let base = routes(&it.topology, RoutingMethod::Auto).unwrap();
        let others = other.goals(&routes(&other.topology, RoutingMethod::Trees).unwrap());
        let whole = it.topology.clone();
        it.roll_out(&base, &whole, 0, false);
        let model = it.models.get_mut("s1").unwrap();
        for seed in lost {
            let key = model.0.keys().nth(seed % model.0.len().max(1)).cloned();
            key.map(|key| model.0.remove(&key));
        }
        for seed in foreign {
            let stranger = others["s2"].entities().nth(seed % others["s2"].len()).unwrap().entity.clone();
            model.0.insert(identity(&stranger).unwrap(), stranger);
        }
        it.roll_out(&base, &whole, 0, false);
        prop_assert!(verify(&whole, &it.routes()).is_ok());
        prop_assert_eq!(verify_flood(&whole, &it.routes()).map(|_| ()), Ok(()));
    }
}

/// A program with a table of its own: the plan neither fills it nor empties it, unless a goal names it.
#[test]
fn tables_that_the_plan_does_not_know_are_left_alone() {
    const OWN: &str = include_str!("../../../examples/own-p4/build/own_p4.p4info.txtpb");
    let limit = |ticks: u32| -> Entity {
        let json = format!(
            r#"{{"target": "bmv2", "table_entries": [{{"table": "sojourn_mark", "default_action": true,
                "action_name": "mark_above", "action_params": {{"ticks": {ticks}}}}}]}}"#
        );
        let goal = RuntimeJson::parse(&json).unwrap().desired_state(&Index::from_text(OWN).unwrap()).unwrap();
        goal.entities().next().unwrap().entity.clone()
    };
    let mut fabric = Fabric { index: Index::from_text(OWN).unwrap(), ..Fabric::new(parallel()) };
    let routes = routes(&fabric.topology, RoutingMethod::Auto).unwrap();
    let left = fabric.topology.clone();
    fabric.roll_out(&routes, &left, 0, false);
    let insert = Update { r#type: Type::Modify.into(), entity: Some(limit(7)) };
    fabric.models.values_mut().for_each(|model| model.write(&insert));
    let mut goals = fabric.goals(&routes);
    assert!(fabric.differences(&goals).values().all(Vec::is_empty));
    let mut more = DesiredState::default();
    more.insert(BASE, limit(9));
    goals.values_mut().for_each(|goal| goal.merge(&more));
    for steps in fabric.differences(&goals).values() {
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].update.entity, Some(canonical(&limit(9))));
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
fn a_fabric_in_two_parts_is_proved_part_by_part() {
    let topology = fabric("{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 2}");
    let down = some_links(&topology, &[0, 1]);
    let left = topology.without_links(&down);
    for method in [RoutingMethod::Ecmp, RoutingMethod::Trees] {
        let routes = reroute(&left, method, &routes(&topology, method).unwrap()).unwrap();
        let proof = verify(&left, &routes).unwrap();
        assert_eq!((proof.pairs, proof.partitioned_pairs), (4, 8), "{method:?}");
    }
}
