//! Plans for Tofino against the bfrt.json of the programs in `p4src/tna/build`: the tables of a strict server accept
//! them, and the resulting entries are verified.

use crate::common::fabric;
use bfruntime::bfrt_proto::{Entity, TableEntry, entity};
use bfruntime::server::{FIXED_TABLES, Tables};
use bfruntime::{BfrtInfo, Translator};
use p4runtime::p4::v1::Update;
use p4runtime::p4info::Index;
use std::collections::BTreeMap;
use weir_controller::plan::{Chip, PortMap, PriorityTraffic, TargetConfig, Tofino, decode, desired_states};
use weir_controller::pretty;
use weir_controller::reconcile::{self, diff};
use weir_controller::routes::{Routes, RoutingMethod, routes};
use weir_controller::thresholds::{DeflectionConfig, EcnConfig};
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

/// Options with every feature that a plan for Tofino supports.
fn options() -> PlanOptions {
    let ecn =
        EcnConfig { kmin: bytes(100), kmax: bytes(400), pmax: "0.2".parse().unwrap(), reference_rate: None };
    let deflection = DeflectionConfig {
        threshold: bytes(15),
        reference_rate: None,
        at_hosts: false,
        lifetime: 10_000,
        tokens: 1,
    };
    let target = TargetConfig::Tofino(Tofino::default());
    let options = PlanOptions { ecn: Some(ecn), deflection: Some(deflection), target, ..Default::default() };
    options.prioritise(PriorityTraffic { short_messages: false, feedback: true, weighted: 0 })
}

/// The switches of a fabric, each with tables in memory.
struct Fabric {
    topology: Topology,
    index: Index,
    options: PlanOptions,
    switches: BTreeMap<String, Tables>,
}

impl Fabric {
    fn new(json: &[u8], yaml: &str, options: PlanOptions) -> Fabric {
        let (topology, info) = (fabric(yaml), info(json));
        let index = Index::new(info.p4info()).unwrap();
        let tables =
            |switch: &weir_controller::topology::Switch| (switch.name.clone(), Tables::new(info.clone()));
        let switches = topology.switches.iter().map(tables).collect();
        Fabric { topology, index, options, switches }
    }

    fn routes(&self, method: RoutingMethod) -> Routes {
        routes(&self.topology, method).unwrap()
    }

    fn write(&mut self, switch: &str, updates: &[Update]) {
        let tables = self.switches.get_mut(switch).unwrap();
        let info = tables.info().clone();
        for update in updates {
            let text = || pretty::update(update, &self.index);
            for update in Translator::new(&info).update(update).unwrap_or_else(|e| panic!("{}: {e}", text()))
            {
                tables.write(&update).unwrap_or_else(|e| panic!("{switch}: {}: {}", text(), e.message));
            }
        }
    }

    /// Returns the entities of a switch.
    fn entities(&self, switch: &str) -> Vec<p4runtime::p4::v1::Entity> {
        let tables = &self.switches[switch];
        let translator = Translator::new(tables.info());
        let requests = translator.read_all_entities();
        let read: Vec<TableEntry> = requests
            .iter()
            .flat_map(|entity| tables.read(entity).unwrap())
            .map(|Entity { entity }| match entity {
                Some(entity::Entity::TableEntry(entry)) => entry,
                other => panic!("{other:?}"),
            })
            .collect();
        translator.entities(&read)
    }

    /// Decodes the routes from the entries of the switches.
    fn decoded(&self) -> Routes {
        let actual = self.switches.keys().map(|name| (name.clone(), self.entities(name))).collect();
        decode(&self.topology, &actual, &self.index, self.options.target.target()).unwrap()
    }

    fn planned(&self, routes: &Routes) -> BTreeMap<String, Vec<Update>> {
        plan(&self.topology, routes, &self.options, &self.index).unwrap()
    }
}

#[test]
fn every_program_accepts_the_plan_and_its_entries_route_every_pair() {
    for (program, json) in PROGRAMS {
        for (yaml, method) in [
            (DUMBBELL, RoutingMethod::Ecmp),
            (FAT_TREE, RoutingMethod::Ecmp),
            (FAT_TREE, RoutingMethod::Trees),
        ] {
            let mut it = Fabric::new(json, yaml, options());
            let routes = it.routes(method);
            let planned = it.planned(&routes);
            for (switch, updates) in &planned {
                it.write(switch, updates);
            }
            let decoded = it.decoded();
            let hosts = it.topology.hosts.len() as u64;
            let proof = verify(&it.topology, &decoded).unwrap_or_else(|all| panic!("{program}: {}", all[0]));
            assert_eq!(proof.pairs, hosts * (hosts - 1), "{program} on {yaml}");
            verify_flood(&it.topology, &decoded).unwrap_or_else(|all| panic!("{program}: {}", all[0]));
            // The same plan once more changes nothing.
            for (switch, desired) in desired_states(&it.topology, &routes, &it.options, &it.index).unwrap() {
                let left = diff(&desired, &it.entities(&switch), &it.index).steps;
                let left: Vec<_> = left.iter().map(|step| pretty::update(&step.update, &it.index)).collect();
                assert!(left.is_empty(), "{program}, {switch}: {left:#?}");
            }
        }
    }
}

/// The proof covers the written entries: a missing one is found.
#[test]
fn a_missing_entry_is_found() {
    let mut it = Fabric::new(PROGRAMS[4].1, FAT_TREE, options());
    let planned = it.planned(&it.routes(RoutingMethod::Ecmp));
    for (switch, updates) in &planned {
        let kept = updates.iter().filter(|update| {
            let text = pretty::update(update, &it.index);
            switch != "s1" || !text.contains("member[") || !text.contains("index=1]")
        });
        let kept: Vec<Update> = kept.cloned().collect();
        it.write(switch, &kept);
    }
    let violations = verify(&it.topology, &it.decoded()).unwrap_err();
    assert!(violations[0].to_string().contains("lost after"), "{}", violations[0]);
}

#[test]
#[expect(deprecated)]
fn a_replica_on_a_port_outside_the_topology_is_found() {
    use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
    use p4runtime::p4::v1::{Replica, entity::Entity as Kind, replica::PortKind};
    let mut it = Fabric::new(PROGRAMS[0].1, DUMBBELL, options());
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

/// From ECMP to trees and back, in the order of ranks, and to a plan without ECN and deflection.
#[test]
fn writing_the_difference_reaches_a_changed_plan() {
    let mut it = Fabric::new(PROGRAMS[4].1, FAT_TREE, options());
    let bare = PlanOptions { target: it.options.target.clone(), ..PlanOptions::default() };
    for (method, options) in [
        (RoutingMethod::Ecmp, options()),
        (RoutingMethod::Trees, options()),
        (RoutingMethod::Ecmp, bare.clone()),
        (RoutingMethod::Ecmp, options()),
    ] {
        it.options = options;
        let routes = it.routes(method);
        for (switch, desired) in desired_states(&it.topology, &routes, &it.options, &it.index).unwrap() {
            let steps = diff(&desired, &it.entities(&switch), &it.index).steps;
            let updates: Vec<Update> = steps.into_iter().map(|step| step.update).collect();
            it.write(&switch, &updates);
            assert_eq!(diff(&desired, &it.entities(&switch), &it.index).steps, []);
        }
        verify(&it.topology, &it.decoded()).unwrap();
    }
}

fn lines(program: usize, yaml: &str, options: PlanOptions, switch: &str) -> Vec<String> {
    let it = Fabric::new(PROGRAMS[program].1, yaml, options);
    let planned = it.planned(&it.routes(RoutingMethod::Auto));
    planned[switch].iter().map(|update| pretty::update(update, &it.index)).collect()
}

fn assert_has(lines: &[String], expected: &str) {
    assert!(lines.iter().any(|line| line == expected), "{expected} is not among {lines:#?}");
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
    assert_has(&lines, "~ switch_identity[default] -> identify(switch_id=1)");
    // One ramp for all ports, from 100 KB (1,250 units of 80 bytes) to 400 KB.
    assert_has(&lines, "+ ecn_ramp[ramp=1 depth=1251..1279] priority=1 -> mark_with(probability=52)");
    assert_has(&lines, "+ ecn_ramp[ramp=1 depth=5001..65535] priority=1 -> mark_always()");
    assert_eq!(lines.iter().filter(|line| line.contains("ecn_ramp[")).count(), 17);
    assert_has(&lines, "+ port_profile[profile_port=10] -> profile(rate_code=12 ecn_ramp=1 fabric=1)");
    // 15 KB, 10 ms.
    assert_has(&lines, "+ deflection[port=10] -> over(limit=187)");
    assert_has(&lines, "~ lifetime[default] -> set(value=10000000)");
    assert_eq!(lines.iter().filter(|line| line.contains("deflect_port[port=10 ")).count(), 16);
    assert_has(&lines, "+ deflect_port[port=10 index=3] -> deflect_to(port=12 other=11)");
    assert_has(&lines, "+ clone session 1 -> ports 6");
    assert_has(&lines, "~ report[default] -> report_to(session=1)");
    // The id of a group is the topology's port number.
    assert!(lines.iter().any(|line| line.starts_with("+ multicast group ")), "{lines:#?}");
    let flood = lines.iter().find(|line| line.contains("policy_flood[port=8]")).unwrap();
    let rate: u64 = flood.split_once("meter=").unwrap().1.split_once("/s").unwrap().0.parse().unwrap();
    assert!(flood.contains("flood(group=1)") && rate.is_multiple_of(125) && rate > 0, "{flood}");
}

#[test]
fn device_ports_follow_the_chip_and_the_map() {
    let with = |tofino: Tofino| PlanOptions { target: TargetConfig::Tofino(tofino), ..options() };
    let map = |yaml: &str| -> PortMap { serde_yaml::from_str(yaml).unwrap() };
    let first = Tofino { chip: Chip::Tofino1, ..Tofino::default() };
    assert_has(
        &lines(1, DUMBBELL, with(first.clone()), "s1"),
        "+ policy_flood[port=0] -> flood(group=1) meter=25000000/s:12875",
    );
    let mapped = map("{ports: {1: 132, 2: 140, 3: 148, 4: 156}, switches: {s2: {1: 20}}}");
    let mapped = Tofino { ports: mapped, ..first };
    let lines = lines(0, DUMBBELL, with(mapped.clone()), "s2");
    assert!(lines.iter().any(|line| line.contains("profile_port=20]")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("profile_port=140]")), "{lines:#?}");

    let plan_error = |program: usize, tofino: Tofino| -> PlanError {
        let it = Fabric::new(PROGRAMS[program].1, DUMBBELL, with(tofino));
        plan(&it.topology, &it.routes(RoutingMethod::Auto), &it.options, &it.index).unwrap_err()
    };
    // Device ports 20 and 140 are on different pipes, an error for programs with a register shared by all ports.
    assert!(
        plan_error(2, mapped.clone()).to_string().contains("\"s2\": ports 1 and 2 are on different pipes")
    );
    assert!(plan_error(4, mapped.clone()).to_string().contains("\"waiting\""));
    let mapped = |yaml: &str| Tofino { ports: map(yaml), ..Tofino::default() };
    assert!(
        plan_error(0, mapped("{ports: {1: 8}}"))
            .to_string()
            .contains("port 2: no device port number on Tofino")
    );
    assert!(
        plan_error(0, mapped("{ports: {1: 8, 2: 8, 3: 9, 4: 10}}"))
            .to_string()
            .contains("ports 1 and 2 have the same")
    );
    assert!(
        plan_error(0, mapped("{ports: {1: 8, 2: 6, 3: 9, 4: 10}}"))
            .to_string()
            .contains("6 is the recirculation port")
    );
    assert!(
        plan_error(0, mapped("{ports: {1: 0, 2: 9, 3: 10, 4: 11}}"))
            .to_string()
            .contains("0 is the CPU port")
    );
}

#[test]
fn what_tofino_cannot_represent_is_rejected() {
    let plan_error = |options: PlanOptions| {
        let it = Fabric::new(PROGRAMS[4].1, FAT_TREE, options);
        plan(&it.topology, &it.routes(RoutingMethod::Auto), &it.options, &it.index)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let mut far = options();
    far.deflection.as_mut().unwrap().threshold = Bytes::from_kb(6_000);
    assert!(plan_error(far).contains("Tofino counts queue lengths only up to 5242"));
    assert!(plan_error(PlanOptions { int_refresh: Some(5), ..options() }).contains("int_refresh"));
    // Entries in BMv2's form do not match the program.
    let bmv2 = PlanOptions { target: TargetConfig::default(), ..options() };
    assert!(plan_error(bmv2).contains("action \"TnaEgress.program.port_profile.profile\" should take"));
}

#[test]
fn desired_states_and_plans_have_the_same_entities() {
    let mut it = Fabric::new(PROGRAMS[3].1, DUMBBELL, options());
    let routes = it.routes(RoutingMethod::Auto);
    let states = desired_states(&it.topology, &routes, &it.options, &it.index).unwrap();
    let plans = it.planned(&routes);
    for (switch, desired) in &states {
        assert_eq!(desired.len(), plans[switch].len());
        it.write(switch, &reconcile::updates(desired));
    }
}
