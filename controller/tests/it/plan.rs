//! Plans against the P4Info of the programs in `p4src/build`.

use crate::common::{fabric, ring};
use p4runtime::p4::v1::{TableEntry, Update, entity, field_match::FieldMatchType, table_action, update};
use p4runtime::p4info::{Index, Object, parse};
use p4runtime::value::to_u64;
use std::collections::BTreeMap;
use weir_controller::plan::{EntryCodec, PriorityTraffic};
use weir_controller::pretty::update as format_update;
use weir_controller::routes::{RoutingMethod, routes};
use weir_controller::thresholds::{DeflectionConfig, EcnConfig};
use weir_controller::topology::Topology;
use weir_controller::{PlanError, PlanOptions, plan};

const FEEDBACK: PriorityTraffic = PriorityTraffic { short_messages: false, feedback: true, weighted: 0 };
const FNCC: &str = include_str!("../../../p4src/build/fncc.p4info.txtpb");
const DART: &str = include_str!("../../../p4src/build/dart.p4info.txtpb");
const HPCC: &str = include_str!("../../../p4src/build/hpcc.p4info.txtpb");

fn planned(topology: &Topology, options: &PlanOptions, index: &Index) -> BTreeMap<String, Vec<Update>> {
    plan(topology, &routes(topology, RoutingMethod::Auto).unwrap(), options, index).unwrap()
}

fn entry(update: &Update) -> &TableEntry {
    match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
        Some(entity::Entity::TableEntry(entry)) => entry,
        other => panic!("{other:?}"),
    }
}

/// Formats an update by names; a table entry as `table[key] action(parameters)`.
fn text(index: &Index, update: &Update) -> String {
    let Some(entity::Entity::TableEntry(entry)) = update.entity.as_ref().and_then(|e| e.entity.as_ref())
    else {
        return format_update(update, index);
    };
    let table = index.tables.id(entry.table_id).unwrap();
    let number = |bytes: &[u8]| to_u64(bytes).unwrap();
    let key = entry.r#match.iter().map(|field| {
        let name = &table.match_field_by_id(field.field_id).unwrap().name;
        match field.field_match_type.as_ref().unwrap() {
            FieldMatchType::Exact(m) => format!("{name}={}", number(&m.value)),
            FieldMatchType::Lpm(m) => format!("{name}={:x}/{}", number(&m.value), m.prefix_len),
            other => panic!("{other:?}"),
        }
    });
    let key: Vec<String> = key.collect();
    let Some(table_action::Type::Action(action)) = entry.action.as_ref().and_then(|a| a.r#type.as_ref())
    else {
        panic!("no action")
    };
    let info = index.actions.id(action.action_id).unwrap();
    let params = action
        .params
        .iter()
        .map(|p| format!("{}={}", info.param_by_id(p.param_id).unwrap().name, number(&p.value)));
    let params: Vec<String> = params.collect();
    let alias = &table.preamble().alias;
    format!("{alias}[{}] {}({})", key.join(" "), info.preamble().alias, params.join(" "))
}

#[test]
fn the_plan_of_a_dumbbell_has_the_expected_entries() {
    let index = Index::from_text(FNCC).unwrap();
    let topology = fabric("{kind: dumbbell, switches: 2, senders: 1, receivers: 1, rate: 10Gbps}");
    let plan = planned(&topology, &PlanOptions::default(), &index);
    let lines: Vec<String> = plan["s1"].iter().map(|u| text(&index, u)).collect();
    assert_eq!(
        lines,
        [
            "+ multicast group 1 -> ports 2",
            "+ multicast group 2 -> ports 1",
            "switch_identity[] identify(switch_id=1)",
            "port_profile[profile_port=1] profile(rate_code=8 ecn_kmin=0 ecn_kmax=0 ecn_slope=0 fabric=0)",
            "port_profile[profile_port=2] profile(rate_code=8 ecn_kmin=0 ecn_kmax=0 ecn_slope=0 fabric=1)",
            "policy_flood[port=1] flood(group=1)",
            "policy_flood[port=2] flood(group=2)",
            "forward[dst_addr=a000101/32] deliver(port=1 dst_mac=2199191027969)",
            "forward[dst_addr=a000200/24] via(port=2)",
        ]
    );
    assert_eq!(plan["s1"][2].r#type, i32::from(update::Type::Modify));
    assert!(entry(&plan["s1"][2]).is_default_action);
    assert!(plan["s1"][3..].iter().all(|u| u.r#type == i32::from(update::Type::Insert)));
}

#[test]
fn members_come_before_the_prefixes_that_use_them() {
    let index = Index::from_text(HPCC).unwrap();
    let topology = fabric("{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 1}");
    let options = PlanOptions::default().prioritise(FEEDBACK);
    let lines: Vec<String> =
        planned(&topology, &options, &index)["s1"].iter().map(|u| text(&index, u)).collect();
    let at = |line: &str| {
        lines.iter().position(|l| l == line).unwrap_or_else(|| panic!("{line} not in {lines:#?}"))
    };
    let routes = routes(&topology, RoutingMethod::Auto).unwrap();
    let group = routes.switches[0].groups.keys().next().unwrap();
    assert!(
        at(&format!("member[group={group} index=0] member_port(port=2)"))
            < at(&format!("forward[dst_addr=a000200/24] spread(group={group} size=2 slice=0)"))
    );
    at(&format!("member[group={group} index=1] member_port(port=3)"));
    at("traffic_class[kind=1 express=0] classify(priority=1)");
}

#[test]
fn trees_have_entries_in_tree_route() {
    let index = Index::from_text(HPCC).unwrap();
    let lines: Vec<String> =
        planned(&ring(), &PlanOptions::default(), &index)["s2"].iter().map(|u| text(&index, u)).collect();
    assert!(lines.iter().any(|l| l.starts_with("forward[dst_addr=a000000/8] trees(count=")), "{lines:#?}");
    assert!(
        lines.iter().any(|l| l.starts_with("tree_route[tree=0 dst_addr=167772417] tree_via(port=")),
        "{lines:#?}"
    );
}

#[test]
fn ecn_thresholds_scale_with_the_rate_of_each_port() {
    let index = Index::from_text(HPCC).unwrap();
    let topology = fabric(
        "{kind: leaf-spine, leaves: 1, spines: 1, hosts_per_leaf: 1, host_rate: 25Gbps, fabric_rate: 100Gbps}",
    );
    let ecn: EcnConfig = serde_yaml::from_str("{kmin: 100KB, kmax: 400KB, pmax: 0.2, per: 25Gbps}").unwrap();
    let lines: Vec<String> =
        planned(&topology, &PlanOptions { ecn: Some(ecn), ..Default::default() }, &index)["s1"]
            .iter()
            .map(|u| text(&index, u))
            .collect();
    let profile = |port, rest: &str| format!("port_profile[profile_port={port}] profile({rest})");
    assert!(
        lines.contains(&profile(1, "rate_code=9 ecn_kmin=100000 ecn_kmax=400000 ecn_slope=2863 fabric=0"))
    );
    assert!(
        lines.contains(&profile(2, "rate_code=12 ecn_kmin=400000 ecn_kmax=1600000 ecn_slope=715 fabric=1"))
    );
}

/// The candidates of a leaf's port are its ports to the other spines, those of a spine's port its ports to the other
/// leaves. Ports to hosts, and programs that do not deflect, have no candidates.
#[test]
fn candidates_lead_to_the_other_switches_of_the_next_tier() {
    let topology = fabric("{kind: leaf-spine, leaves: 3, spines: 3, hosts_per_leaf: 1, rate: 100Gbps}");
    let deflection: DeflectionConfig =
        serde_yaml::from_str("{threshold: 15KB, per: 10Gbps, lifetime: 50}").unwrap();
    let options = PlanOptions { deflection: Some(deflection), ..PlanOptions::default() };
    let lines = |switch: &str, options: &PlanOptions, p4info: &str| -> Vec<String> {
        let index = Index::from_text(p4info).unwrap();
        let all = &planned(&topology, options, &index)[switch];
        let all = all.iter().map(|u| text(&index, u));
        all.filter(|l| l.starts_with("defl") || l.starts_with("escape")).collect()
    };
    let leaf = [
        "escape_class[tokens=0] wait_in(escape=3 detour=3)",
        "escape_class[tokens=1] wait_in(escape=0 detour=2)",
        "deflect_port[port=2 index=0] deflect_to(port=3 other=4)",
        "deflect_port[port=2 index=1] deflect_to(port=4 other=3)",
        "deflect_port[port=3 index=0] deflect_to(port=2 other=4)",
        "deflect_port[port=3 index=1] deflect_to(port=4 other=2)",
        "deflect_port[port=4 index=0] deflect_to(port=2 other=3)",
        "deflect_port[port=4 index=1] deflect_to(port=3 other=2)",
        "deflection[port=2] over(limit=150000 ports=2 ticks=50)",
        "deflection[port=3] over(limit=150000 ports=2 ticks=50)",
        "deflection[port=4] over(limit=150000 ports=2 ticks=50)",
    ];
    assert_eq!(lines("s1", &options, DART), leaf);
    assert_eq!(lines("s4", &options, DART).len(), 2 + 3 * 3);
    // With `at_hosts` the host port has entries as well: three candidates and the threshold.
    let at_hosts = PlanOptions {
        deflection: Some(DeflectionConfig { at_hosts: true, ..deflection }),
        ..PlanOptions::default()
    };
    let at_hosts = lines("s1", &at_hosts, DART);
    assert_eq!(at_hosts.len(), leaf.len() + 3 + 1);
    assert!(at_hosts.contains(&"deflection[port=1] over(limit=150000 ports=3 ticks=50)".to_owned()));
    assert!(lines("s1", &PlanOptions::default(), DART).is_empty());
    assert!(lines("s1", &options, HPCC).is_empty());
}

/// In a fat-tree, aggregation switches do not deflect packets that go down to the cores, since all cores lead back.
#[test]
fn no_packet_is_deflected_to_a_switch_that_would_return_it() {
    let topology = fabric("{kind: fat-tree, k: 4, rate: 100Gbps}");
    let routes = routes(&topology, RoutingMethod::Ecmp).unwrap();
    let candidates = |switch: &str, port| {
        weir_controller::deflect::candidates(&topology, &routes, topology.switch_named(switch).unwrap(), port)
    };
    // s1 has two hosts and two aggregation switches, s9 two edge and two core switches; s17 is a core of four pods.
    assert_eq!((candidates("s1", 1), candidates("s1", 3)), (vec![3, 4], vec![4]));
    assert_eq!((candidates("s9", 1), candidates("s9", 2)), (vec![2], vec![1]));
    assert_eq!(candidates("s9", 3), [1, 2, 4]);
    assert_eq!(candidates("s17", 2), [1, 3, 4]);
    let line = fabric("{kind: dumbbell, switches: 2, senders: 1, receivers: 1, rate: 10Gbps}");
    let only = weir_controller::routes::routes(&line, RoutingMethod::Auto).unwrap();
    assert!(
        weir_controller::deflect::candidates(&line, &only, line.switch_named("s1").unwrap(), 2).is_empty()
    );
}

/// Returns the P4Info without one table.
fn without(text: &str, table: &str) -> Index {
    let mut info = parse(text).unwrap();
    info.tables.retain(|t| t.preamble().alias != table);
    Index::new(info).unwrap()
}

#[test]
fn a_missing_table_is_an_error_only_if_it_is_needed() {
    let options = PlanOptions::default();
    let line = fabric("{kind: dumbbell, switches: 2, senders: 1, receivers: 1}");
    let plan_of = |topology: &Topology, options: &PlanOptions, index: &Index| {
        plan(topology, &routes(topology, RoutingMethod::Auto).unwrap(), options, index)
    };
    assert!(plan_of(&line, &options, &without(HPCC, "tree_route")).is_ok());
    assert!(plan_of(&line, &options, &without(HPCC, "port_profile")).is_ok());
    assert!(plan_of(&line, &options, &without(HPCC, "switch_identity")).is_ok());
    let missing = |topology: &Topology, options: &PlanOptions, table: &str| {
        plan_of(topology, options, &without(HPCC, table)).unwrap_err().to_string()
    };
    assert_eq!(missing(&ring(), &options, "tree_route"), "the program has no table \"tree_route\"");
    assert_eq!(missing(&line, &options, "forward"), "the program has no table \"forward\"");
    assert_eq!(
        missing(&line, &options.clone().prioritise(FEEDBACK), "traffic_class"),
        "the program has no table \"traffic_class\""
    );
    let ecn = serde_yaml::from_str("{kmin: 1KB, kmax: 2KB, pmax: 1}").unwrap();
    let marking = PlanOptions { ecn: Some(ecn), ..Default::default() };
    assert_eq!(missing(&line, &marking, "port_profile"), "the program has no table \"port_profile\"");
}

#[test]
fn differences_of_the_program_are_rejected_by_name() {
    let line = fabric("{kind: dumbbell, switches: 2, senders: 1, receivers: 1}");
    let with = |change: fn(&mut p4runtime::p4::config::v1::P4Info)| {
        let mut info = parse(HPCC).unwrap();
        change(&mut info);
        let routes = routes(&line, RoutingMethod::Auto).unwrap();
        plan(&line, &routes, &PlanOptions::default(), &Index::new(info).unwrap()).unwrap_err().to_string()
    };
    let key = with(|info| {
        let table = info.tables.iter_mut().find(|t| t.preamble().alias == "forward").unwrap();
        table.match_fields[0].name = "hdr.ipv4.dst_addr".into();
    });
    assert!(key.ends_with("\" should match on (dst_addr), the program has (hdr.ipv4.dst_addr)"), "{key}");
    let params = with(|info| {
        let action = info.actions.iter_mut().find(|a| a.preamble().alias == "via").unwrap();
        action.params.clear();
    });
    assert!(params.ends_with(".via\" should take (port), the program's takes ()"), "{params}");
    let width = with(|info| {
        let action = info.actions.iter_mut().find(|a| a.preamble().alias == "deliver").unwrap();
        action.params[1].bitwidth = 16;
    });
    assert_eq!(width, "action \"deliver\", dst_mac: 2199191027969 does not fit in 16 bits");
    let full = with(|info| {
        info.tables.iter_mut().find(|t| t.preamble().alias == "forward").unwrap().size = 1;
    });
    assert_eq!(full, "switch \"s1\" needs 2 entries in table \"forward\", which has room for 1");
}

#[test]
fn an_invalid_threshold_is_rejected() {
    let index = Index::from_text(HPCC).unwrap();
    let line = fabric("{kind: dumbbell, switches: 2, senders: 1, receivers: 1}");
    let ecn = serde_yaml::from_str("{kmin: 3KB, kmax: 2KB, pmax: 1}").unwrap();
    let options = PlanOptions { ecn: Some(ecn), ..Default::default() };
    let error = plan(&line, &routes(&line, RoutingMethod::Auto).unwrap(), &options, &index).unwrap_err();
    assert!(matches!(error, PlanError::Ecn(_)), "{error}");
}

/// 1,024 hosts on 320 switches: from the topology to updates, in a debug build on a busy machine.
#[test]
fn k16_is_planned_quickly() {
    let index = Index::from_text(FNCC).unwrap();
    let topology = fabric("{kind: fat-tree, k: 16}");
    let routes = routes(&topology, RoutingMethod::Auto).unwrap();
    let start = std::time::Instant::now();
    let plan = plan(&topology, &routes, &PlanOptions::default(), &index).unwrap();
    let took = start.elapsed();
    assert_eq!(plan.len(), 320);
    // 320 identities, 16 ports each, 8 members on 256 switches; 8 hosts and 127 other racks on an edge switch, 128
    // racks on each of the others.
    let unicast = 320 + 320 * 16 + 256 * 8 + 128 * (8 + 127) + 192 * 128;
    // The flooding tree joins 128 edges, 16 aggregations and a core: an entry and a group at each port.
    let flood = 2 * (1024 + 2 * (128 + 16 + 1 - 1));
    let count: usize = plan.values().map(Vec::len).sum();
    assert_eq!(count, unicast + flood);
    assert!(took.as_secs() < 20, "{took:?}");
}

#[test]
fn encoding_a_decoded_entry_returns_the_entry() {
    let index = Index::from_text(HPCC).unwrap();
    let codec = EntryCodec::new(&index);
    let leaf_spine = fabric("{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 1}");
    let options = PlanOptions::default().prioritise(FEEDBACK);
    for update in [leaf_spine, ring()]
        .iter()
        .flat_map(|topology| planned(topology, &options, &index))
        .flat_map(|(_, updates)| updates)
    {
        let Some(entity::Entity::TableEntry(written)) = update.entity.as_ref().and_then(|e| e.entity.clone())
        else {
            continue;
        };
        let decoded = codec.decode(&written).unwrap_or_else(|| panic!("{}", format_update(&update, &index)));
        let Some(entity::Entity::TableEntry(again)) = codec.encode(&decoded).unwrap().entity else {
            panic!()
        };
        assert_eq!(again, TableEntry { meter_config: None, ..written });
    }
}
