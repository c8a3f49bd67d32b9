//! Plans for Tofino against the bfrt.json of the programs in `p4src/tna/build`: tables of a strict server take them, and
//! what these then hold is proved.

use crate::common::fabric;
use bfruntime::bfrt_proto::{Entity, TableEntry, entity};
use bfruntime::server::{FIXED_TABLES, Tables};
use bfruntime::{BfrtInfo, Translator};
use p4runtime::p4::v1::Update;
use p4runtime::p4info::Index;
use std::collections::BTreeMap;
use weir_controller::plan::{Chip, PortMap, PriorityTraffic, TargetConfig, Tofino, decode, desired_states};
use weir_controller::pretty;
use weir_controller::profile::{DeflectionConfig, EcnConfig};
use weir_controller::reconcile::{self, diff};
use weir_controller::routes::{Routes, RoutingMethod, routes};
use weir_controller::topology::Topology;
use weir_controller::{PlanError, PlanOptions, plan, verify, verify_flood};
use weir_units::Bytes;

macro_rules! program {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../../p4src/tna/build/", $name, ".bfrt.json")).as_slice())
    };
}

const PROGRAMS: [(&str, &[u8]); 5] =
    [program!("ecn"), program!("hpcc"), program!("fncc"), program!("dart"), program!("weir")];
const DUMBBELL: &str = "{kind: dumbbell, switches: 3, senders: 3, receivers: 2, rate: 100Gbps}";
const FAT_TREE: &str = "{kind: fat-tree, k: 4}";

fn info(json: &[u8]) -> BfrtInfo {
    BfrtInfo::parse(json).unwrap().merged(&BfrtInfo::parse(FIXED_TABLES).unwrap()).unwrap()
}

fn bytes(kb: u64) -> Bytes {
    Bytes::from_kb(kb)
}

/// All that a plan for Tofino can have.
fn options() -> PlanOptions {
    let ecn = EcnConfig { kmin: bytes(100), kmax: bytes(400), pmax: "0.2".parse().unwrap(), per: None };
    let deflection =
        DeflectionConfig { threshold: bytes(15), per: None, at_hosts: false, lifetime: 10_000, tokens: 1 };
    let target = TargetConfig::Tofino(Tofino::default());
    let options = PlanOptions { ecn: Some(ecn), deflection: Some(deflection), target, ..Default::default() };
    options.prioritise(PriorityTraffic { short_messages: false, feedback: true, weighted: 0 })
}

/// The switches of a fabric, each with tables in memory.
struct World {
    topology: Topology,
    index: Index,
    options: PlanOptions,
    switches: BTreeMap<String, Tables>,
}

impl World {
    fn new(json: &[u8], yaml: &str, options: PlanOptions) -> World {
        let (topology, info) = (fabric(yaml), info(json));
        let index = Index::new(info.p4info()).unwrap();
        let tables =
            |switch: &weir_controller::topology::Switch| (switch.name.clone(), Tables::new(info.clone()));
        let switches = topology.switches.iter().map(tables).collect();
        World { topology, index, options, switches }
    }

    fn routes(&self, method: RoutingMethod) -> Routes {
        routes(&self.topology, method).unwrap()
    }

    fn write(&mut self, switch: &str, updates: &[Update]) {
        let tables = self.switches.get_mut(switch).unwrap();
        let info = tables.info().clone();
        for update in updates {
            let words = || pretty::update(update, &self.index);
            for update in Translator::new(&info).update(update).unwrap_or_else(|e| panic!("{}: {e}", words()))
            {
                tables.write(&update).unwrap_or_else(|e| panic!("{switch}: {}: {}", words(), e.message));
            }
        }
    }

    fn held(&self, switch: &str) -> Vec<p4runtime::p4::v1::Entity> {
        let tables = &self.switches[switch];
        let translator = Translator::new(tables.info());
        let asked = translator.read_all_entities();
        let read: Vec<TableEntry> = asked
            .iter()
            .flat_map(|entity| tables.read(entity).unwrap())
            .map(|Entity { entity }| match entity {
                Some(entity::Entity::TableEntry(entry)) => entry,
                other => panic!("{other:?}"),
            })
            .collect();
        translator.entities(&read)
    }

    /// The routes that the switches hold.
    fn decoded(&self) -> Routes {
        let held = self.switches.keys().map(|name| (name.clone(), self.held(name))).collect();
        decode(&self.topology, &held, &self.index, self.options.target.target()).unwrap()
    }

    fn planned(&self, routes: &Routes) -> BTreeMap<String, Vec<Update>> {
        plan(&self.topology, routes, &self.options, &self.index).unwrap()
    }
}

#[test]
fn every_program_takes_the_plan_and_what_it_holds_routes_every_pair() {
    for (program, json) in PROGRAMS {
        for (yaml, method) in [
            (DUMBBELL, RoutingMethod::Ecmp),
            (FAT_TREE, RoutingMethod::Ecmp),
            (FAT_TREE, RoutingMethod::Trees),
        ] {
            let mut it = World::new(json, yaml, options());
            let routes = it.routes(method);
            let planned = it.planned(&routes);
            for (switch, updates) in &planned {
                it.write(switch, updates);
            }
            let held = it.decoded();
            let hosts = it.topology.hosts.len() as u64;
            let proof = verify(&it.topology, &held).unwrap_or_else(|all| panic!("{program}: {}", all[0]));
            assert_eq!(proof.pairs, hosts * (hosts - 1), "{program} on {yaml}");
            verify_flood(&it.topology, &held).unwrap_or_else(|all| panic!("{program}: {}", all[0]));
            // The same plan once more changes nothing.
            for (switch, goal) in desired_states(&it.topology, &routes, &it.options, &it.index).unwrap() {
                let left = diff(&goal, &it.held(&switch), &it.index).steps;
                let left: Vec<_> = left.iter().map(|step| pretty::update(&step.update, &it.index)).collect();
                assert!(left.is_empty(), "{program}, {switch}: {left:#?}");
            }
        }
    }
}

/// The proof judges the written entries: one that is changed is found.
#[test]
fn a_changed_entry_is_found() {
    let mut it = World::new(PROGRAMS[4].1, FAT_TREE, options());
    let planned = it.planned(&it.routes(RoutingMethod::Ecmp));
    for (switch, updates) in &planned {
        let kept = updates.iter().filter(|update| {
            let words = pretty::update(update, &it.index);
            switch != "s1" || !words.contains("member[") || !words.contains("index=1]")
        });
        let kept: Vec<Update> = kept.cloned().collect();
        it.write(switch, &kept);
    }
    let violations = verify(&it.topology, &it.decoded()).unwrap_err();
    assert!(violations[0].to_string().contains("lost after"), "{}", violations[0]);
}

/// A copy that leaves by a port outside the topology is not overlooked.
#[test]
#[expect(deprecated)]
fn a_copy_to_a_strange_port_is_found() {
    use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
    use p4runtime::p4::v1::{Replica, entity::Entity as Kind, replica::PortKind};
    let mut it = World::new(PROGRAMS[0].1, DUMBBELL, options());
    let mut planned = it.planned(&it.routes(RoutingMethod::Ecmp));
    let first = planned.get_mut("s1").unwrap()[0].entity.as_mut().unwrap().entity.as_mut().unwrap();
    let Kind::PacketReplicationEngineEntry(group) = first else { panic!("{first:?}") };
    let Some(Pre::MulticastGroupEntry(group)) = &mut group.r#type else { panic!("{group:?}") };
    group.replicas.push(Replica { port_kind: Some(PortKind::EgressPort(200)), ..Replica::default() });
    for (switch, updates) in &planned {
        it.write(switch, updates);
    }
    let faults = verify_flood(&it.topology, &it.decoded()).unwrap_err();
    assert!(faults[0].to_string().contains("65535"), "{}", faults[0]);
}

/// From ECMP to trees and back, in the order of ranks, and to a plan without marks and deflection.
#[test]
fn a_changed_plan_is_reached_by_its_difference() {
    let mut it = World::new(PROGRAMS[4].1, FAT_TREE, options());
    let bare = PlanOptions { target: it.options.target.clone(), ..PlanOptions::default() };
    for (method, options) in [
        (RoutingMethod::Ecmp, options()),
        (RoutingMethod::Trees, options()),
        (RoutingMethod::Ecmp, bare.clone()),
        (RoutingMethod::Ecmp, options()),
    ] {
        it.options = options;
        let routes = it.routes(method);
        for (switch, goal) in desired_states(&it.topology, &routes, &it.options, &it.index).unwrap() {
            let steps = diff(&goal, &it.held(&switch), &it.index).steps;
            let updates: Vec<Update> = steps.into_iter().map(|step| step.update).collect();
            it.write(&switch, &updates);
            assert_eq!(diff(&goal, &it.held(&switch), &it.index).steps, []);
        }
        verify(&it.topology, &it.decoded()).unwrap();
    }
}

fn lines(program: usize, yaml: &str, options: PlanOptions, switch: &str) -> Vec<String> {
    let it = World::new(PROGRAMS[program].1, yaml, options);
    let planned = it.planned(&it.routes(RoutingMethod::Auto));
    planned[switch].iter().map(|update| pretty::update(update, &it.index)).collect()
}

fn has(lines: &[String], wanted: &str) {
    assert!(lines.iter().any(|line| line == wanted), "{wanted} is not among {lines:#?}");
}

#[test]
fn entries_have_the_form_of_tofinos_tables() {
    // Three spines: groups of three are four members.
    let lines = lines(
        4,
        "{kind: leaf-spine, leaves: 4, spines: 3, hosts_per_leaf: 2, rate: 100Gbps}",
        options(),
        "s1",
    );
    let members: Vec<_> = lines.iter().filter(|line| line.contains("member[")).collect();
    assert_eq!(members.len(), 4, "{members:#?}");
    // Ports 3 to 5 of the topology are 10 to 12 of Tofino 2.
    let ports: Vec<_> = members.iter().map(|line| line.rsplit_once("port=").unwrap().1).collect();
    assert_eq!(ports, ["10)", "11)", "12)", "10)"]);
    assert!(lines.iter().any(|line| line.contains("spread(") && line.contains("size=4")), "{lines:#?}");
    has(&lines, "~ switch_identity[default] -> identify(switch_id=1)");
    // A ramp of all ports: 100 KB to 400 KB, 1,251 units of 80 bytes and more.
    has(&lines, "+ ecn_ramp[ramp=1 depth=1251..1279] priority=1 -> mark_with(probability=52)");
    has(&lines, "+ ecn_ramp[ramp=1 depth=5001..65535] priority=1 -> mark_always()");
    assert_eq!(lines.iter().filter(|line| line.contains("ecn_ramp[")).count(), 17);
    has(&lines, "+ port_profile[profile_port=10] -> profile(rate_code=12 ecn_ramp=1 fabric=1)");
    // 15 KB, 10 ms.
    has(&lines, "+ deflection[port=10] -> over(limit=187)");
    has(&lines, "~ lifetime[default] -> set(value=10000000)");
    assert_eq!(lines.iter().filter(|line| line.contains("deflect_port[port=10 ")).count(), 16);
    has(&lines, "+ deflect_port[port=10 index=3] -> deflect_to(port=12 other=11)");
    has(&lines, "+ clone session 1 -> ports 6");
    has(&lines, "~ report[default] -> report_to(session=1)");
    // Group 3 is of the topology's port 3, by its own number.
    assert!(lines.iter().any(|line| line.starts_with("+ multicast group ")), "{lines:#?}");
    let flood = lines.iter().find(|line| line.contains("policy_flood[port=8]")).unwrap();
    let rate: u64 = flood.split_once("meter=").unwrap().1.split_once("/s").unwrap().0.parse().unwrap();
    assert!(flood.contains("flood(group=1)") && rate.is_multiple_of(125) && rate > 0, "{flood}");
}

#[test]
fn ports_are_what_the_chip_and_the_map_say() {
    let with = |tofino: Tofino| PlanOptions { target: TargetConfig::Tofino(tofino), ..options() };
    let map = |yaml: &str| -> PortMap { serde_yaml::from_str(yaml).unwrap() };
    let first = Tofino { chip: Chip::Tofino1, ..Tofino::default() };
    has(
        &lines(1, DUMBBELL, with(first.clone()), "s1"),
        "+ policy_flood[port=0] -> flood(group=1) meter=25000000/s:12875",
    );
    let mapped = map("{ports: {1: 132, 2: 140, 3: 148, 4: 156}, switches: {s2: {1: 20}}}");
    let mapped = Tofino { ports: mapped, ..first };
    let lines = lines(0, DUMBBELL, with(mapped.clone()), "s2");
    assert!(lines.iter().any(|line| line.contains("profile_port=20]")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("profile_port=140]")), "{lines:#?}");

    let refused = |program: usize, tofino: Tofino| -> PlanError {
        let it = World::new(PROGRAMS[program].1, DUMBBELL, with(tofino));
        plan(&it.topology, &it.routes(RoutingMethod::Auto), &it.options, &it.index).unwrap_err()
    };
    // 20 and 140 are on two pipes, which matters where a register belongs to all ports.
    assert!(refused(2, mapped.clone()).to_string().contains("\"s2\": ports 1 and 2 are on different pipes"));
    assert!(refused(4, mapped.clone()).to_string().contains("\"waiting\""));
    let of = |yaml: &str| Tofino { ports: map(yaml), ..Tofino::default() };
    assert!(refused(0, of("{ports: {1: 8}}")).to_string().contains("port 2: Tofino has no number for it"));
    assert!(
        refused(0, of("{ports: {1: 8, 2: 8, 3: 9, 4: 10}}"))
            .to_string()
            .contains("ports 1 and 2 have the same")
    );
    assert!(
        refused(0, of("{ports: {1: 8, 2: 6, 3: 9, 4: 10}}"))
            .to_string()
            .contains("6 is the recirculation port")
    );
    assert!(refused(0, of("{ports: {1: 0, 2: 9, 3: 10, 4: 11}}")).to_string().contains("0 is the CPU port"));
}

#[test]
fn what_tofino_cannot_hold_is_refused() {
    let refused = |options: PlanOptions| {
        let it = World::new(PROGRAMS[4].1, FAT_TREE, options);
        plan(&it.topology, &it.routes(RoutingMethod::Auto), &it.options, &it.index)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let mut far = options();
    far.deflection.as_mut().unwrap().threshold = Bytes::from_kb(6_000);
    assert!(refused(far).contains("Tofino counts at most 5242"));
    assert!(refused(PlanOptions { int_refresh: Some(5), ..options() }).contains("int_refresh"));
    // An entry of BMv2's form does not fit the program.
    let bmv2 = PlanOptions { target: TargetConfig::default(), ..options() };
    assert!(refused(bmv2).contains("action \"TnaEgress.program.port_profile.profile\" should take"));
}

/// Goals and plans fill empty tables alike.
#[test]
fn goals_and_plans_hold_the_same() {
    let mut it = World::new(PROGRAMS[3].1, DUMBBELL, options());
    let routes = it.routes(RoutingMethod::Auto);
    let goals = desired_states(&it.topology, &routes, &it.options, &it.index).unwrap();
    let plans = it.planned(&routes);
    for (switch, goal) in &goals {
        assert_eq!(goal.len(), plans[switch].len());
        it.write(switch, &reconcile::updates(goal));
    }
}
