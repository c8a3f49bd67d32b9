//! The flooding tree: every host receives the packets of every other host once, and the proof finds wrong ports.

use crate::common::{CLOS, DIRECT, fabric, flood_receivers, parallel, random, ring};
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4info::{Index, Object};
use std::collections::BTreeSet;
use weir_controller::routes::{Routes, RoutingMethod, reroute, routes};
use weir_controller::topology::{LinkIx, SwitchIx, Topology};
use weir_controller::{FloodFault, PlanOptions, plan, verify_flood};

const HPCC: &str = include_str!("../../../p4src/build/hpcc.p4info.txtpb");

fn fabrics() -> Vec<Topology> {
    let kinds = CLOS.iter().chain(&DIRECT).map(|yaml| fabric(yaml));
    kinds.chain([ring(), parallel()]).chain((0..6).map(|seed| random(9, 3, seed))).collect()
}

/// Asserts that each host's packets arrive once at every other host of its component, and not at the sender.
fn assert_delivered_once(topology: &Topology, routes: &Routes) {
    let components = topology.components();
    let component = |host| components[topology.host(host).switch.0 as usize];
    for host in topology.host_ixs() {
        let others: Vec<_> =
            topology.host_ixs().filter(|&it| it != host && component(it) == component(host)).collect();
        assert_eq!(
            flood_receivers(topology, routes, host),
            Some(others),
            "from {}",
            topology.host(host).name
        );
    }
}

#[test]
fn every_host_receives_every_other_once() {
    for topology in fabrics() {
        for method in [RoutingMethod::Auto, RoutingMethod::Trees] {
            let routes = routes(&topology, method).unwrap();
            let proof = verify_flood(&topology, &routes).unwrap();
            assert_eq!((proof.hosts, proof.components), (topology.hosts.len(), 1));
            assert_delivered_once(&topology, &routes);
        }
    }
}

#[test]
fn failed_links_are_avoided_and_partitions_flood_separately() {
    for topology in fabrics() {
        let whole = routes(&topology, RoutingMethod::Auto).unwrap();
        let links: Vec<LinkIx> =
            (0..topology.links.len() as u32).map(LinkIx).filter(|&ix| topology.is_fabric_link(ix)).collect();
        for step in 1..links.len().min(6) {
            let down: BTreeSet<LinkIx> = links.iter().copied().step_by(step).collect();
            let remaining = topology.without_links(&down);
            let routes = reroute(&remaining, RoutingMethod::Auto, &whole).unwrap();
            let proof = verify_flood(&remaining, &routes).unwrap();
            let with_hosts: BTreeSet<usize> =
                remaining.hosts.iter().map(|host| remaining.components()[host.switch.0 as usize]).collect();
            assert_eq!(proof.components, with_hosts.len());
            assert_delivered_once(&remaining, &routes);
        }
    }
}

#[test]
fn the_proof_finds_violations() {
    let topology = fabric("{kind: leaf-spine, leaves: 3, spines: 2, hosts_per_leaf: 2}");
    let correct = routes(&topology, RoutingMethod::Auto).unwrap();
    let faults = |change: &dyn Fn(&mut Routes)| {
        let mut wrong = correct.clone();
        change(&mut wrong);
        verify_flood(&topology, &wrong).expect_err("the proof must fail")
    };
    let messages =
        |faults: Vec<FloodFault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let lost = messages(faults(&|it| {
        it.switches[0].flood.remove(&1);
    }));
    assert!(lost.contains("h1 is not on the flooding tree: s1 does not flood out of its port 1"), "{lost}");
    let silent = messages(faults(&|it| it.switches[0].flood.get_mut(&1).unwrap().clear()));
    assert!(
        silent
            .contains("s1: packets from port 1 are flooded to [], but the other ports of the tree are [2, "),
        "{silent}"
    );
    let back = messages(faults(&|it| it.switches[0].flood.get_mut(&1).unwrap().push(1)));
    assert!(back.contains("flooded to [1, 2, "), "{back}");
    // A switch of the tree without entries: packets of its neighbours end there, and the tree falls apart.
    let gone = faults(&|it| it.switches[0].flood.clear());
    assert!(gone.iter().any(|it| matches!(it, FloodFault::DeadEnd { .. })), "{gone:?}");
    assert!(gone.iter().any(|it| matches!(it, FloodFault::Partitioned { .. })), "{gone:?}");
    // Flooding over all links has cycles.
    let all = faults(&|it| {
        for ix in topology.switch_ixs() {
            let ports: Vec<u16> = topology.switch(ix).ports().map(|(port, _)| port).collect();
            let others = |port| ports.iter().copied().filter(|&it| it != port).collect();
            it.switches[ix.0 as usize].flood = ports.iter().map(|&port| (port, others(port))).collect();
        }
    });
    assert!(matches!(all[..], [FloodFault::Cycle { .. }, ..]), "{all:?}");
    let nowhere = faults(&|it| {
        it.switches[0].flood.insert(99, vec![1]);
    });
    assert!(nowhere.contains(&FloodFault::DeadEnd { switch: "s1".into(), port: 99 }), "{nowhere:?}");
}

/// One entry with its meter and one group for each port of the tree; nothing for a program without `policy_flood`.
#[test]
fn the_plan_has_entries_meters_and_groups() {
    let topology = fabric("{kind: leaf-spine, leaves: 3, spines: 2, hosts_per_leaf: 2, rate: 10Mbps}");
    let routes = routes(&topology, RoutingMethod::Auto).unwrap();
    let index = Index::from_text(HPCC).unwrap();
    let updates = plan(&topology, &routes, &PlanOptions::default(), &index).unwrap();
    let table = index.tables.named("policy_flood").unwrap().preamble().id;
    for ix in topology.switch_ixs() {
        let planned = &updates[&topology.switch(ix).name];
        let kinds = || planned.iter().filter_map(|update| update.entity.as_ref()?.entity.as_ref());
        let groups = kinds().filter(|kind| matches!(kind, Kind::PacketReplicationEngineEntry(_))).count();
        let meters: Vec<_> = kinds()
            .filter_map(|kind| match kind {
                Kind::TableEntry(entry) if entry.table_id == table => {
                    let meter = entry.meter_config.expect("a meter");
                    assert_eq!((meter.pir, meter.pburst), (meter.cir, meter.cburst));
                    Some((meter.cir, meter.cburst))
                }
                _ => None,
            })
            .collect();
        let ports = routes.of(SwitchIx(ix.0)).flood.len();
        assert_eq!((groups, meters.len()), (ports, ports));
        // Links between switches get 1 % of 10 Mbit/s, and each of the six host ports a sixth of that.
        let host_meter = (12_500 / 6, 64_000 / 6);
        let to_hosts = meters.iter().filter(|&&meter| meter == host_meter).count();
        assert_eq!(to_hosts, if topology.switch(ix).name.as_str() < "s4" { 2 } else { 0 });
        let others: Vec<_> = meters.iter().filter(|&&meter| meter != host_meter).collect();
        assert!(others.iter().all(|&&meter| meter == (12_500, 6 * host_meter.1)), "{others:?}");
    }
    let other = HPCC.replace("policy_flood", "something_else");
    let updates =
        plan(&topology, &routes, &PlanOptions::default(), &Index::from_text(&other).unwrap()).unwrap();
    let is_group = |update: &p4runtime::p4::v1::Update| {
        matches!(
            update.entity.as_ref().and_then(|it| it.entity.as_ref()),
            Some(Kind::PacketReplicationEngineEntry(_))
        )
    };
    assert!(!updates.values().flatten().any(is_group));
}
