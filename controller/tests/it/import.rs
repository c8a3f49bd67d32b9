//! Files of other tools. The examples were written for these tests in the formats of the tools.

use p4runtime::p4info::Index;
use weir_controller::export::hpcc_topology;
use weir_controller::import::{SwitchAddress, import, with_formats};
use weir_controller::plan::{PriorityTraffic, desired_states};
use weir_controller::routes::{RoutingMethod, routes};
use weir_controller::runtime_json::RuntimeJson;
use weir_controller::topology::{Topology, build, build_parts};
use weir_controller::{PlanOptions, verify};

const FNCC: &str = include_str!("../../../p4src/build/fncc.p4info.txtpb");

const TUTORIAL: &str = r#"{
  "hosts": {
    "h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11", "commands": ["route add default gw 10.0.1.10"]},
    "h2": {"ip": "10.0.2.2/24", "mac": "08:00:00:00:02:22"}},
  "switches": {
    "s10": {"cli_input": "s10.txt"}, "s2": {"runtime_json": "pod/s2-runtime.json", "cpu_port": "510"}, "s1": {}},
  "links": [["h1", "s1-p3"], ["s1-p1", "s10-p2", "0", 0.5], ["s10-p1", "s2-p4", "5ms", 10], ["h2", "s2-p1", 2]]}"#;

fn topology(text: &str) -> (Topology, Vec<String>) {
    let imported = import(text).unwrap().unwrap();
    (build(&imported.topology).unwrap(), imported.warnings)
}

fn import_error(text: &str) -> String {
    import(text).unwrap_err().to_string()
}

#[test]
fn a_topology_of_the_tutorials_keeps_its_ports_addresses_and_order() {
    let (it, warnings) = topology(TUTORIAL);
    let names: Vec<&str> = it.switches.iter().map(|switch| switch.name.as_str()).collect();
    assert_eq!(names, ["s1", "s2", "s10"], "Mininet's order");
    let h1 = it.host(it.host_named("h1").unwrap());
    assert_eq!((h1.ip.to_string(), h1.mac, h1.switch_port), ("10.0.1.1".into(), [8, 0, 0, 0, 1, 0x11], 3));
    let ports: Vec<u16> = it.switch(it.switch_named("s10").unwrap()).ports().map(|(port, _)| port).collect();
    assert_eq!(ports, [1, 2]);
    assert_eq!(it.links[1].rate.to_string(), "1Mbps");
    assert_eq!(it.links[2].delay.to_string(), "5ms");
    assert_eq!(it.links[3].delay.to_string(), "2ms", "a number is milliseconds");
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    let found = routes(&it, RoutingMethod::Auto).unwrap();
    assert_eq!(verify(&it, &found).unwrap().pairs, 2);
    let imported = import(TUTORIAL).unwrap().unwrap();
    assert_eq!(imported.runtime["s2"], "pod/s2-runtime.json");
}

#[test]
fn p4_utils_files_are_recognised_and_numbered_as_in_p4_utils() {
    let app = r#"{"p4_src": "x.p4", "cli": true, "switch_node": {"file_path": "."},
      "topology": {"assignment_strategy": "l3", "default": {"bw": 10, "delay": 1},
        "links": [["h1", "s1"], ["h2", "s2", {"delay": "3ms"}], ["s1", "s2", {"port1": 7, "bw": 5}]],
        "hosts": {"h1": {}, "h2": {}}, "switches": {"s1": {"grpc_port": 50000}, "s2": {}}}}"#;
    let imported = import(app).unwrap().unwrap();
    assert_eq!(imported.switch_addresses["s1"], SwitchAddress { grpc_port: 50_000, device_id: 1 });
    assert_eq!(imported.switch_addresses["s2"], SwitchAddress { grpc_port: 9560, device_id: 2 });
    assert_eq!(imported.warnings, ["switch_node (a Python module or script) is ignored"]);
    let it = build(&imported.topology).unwrap();
    assert_eq!(it.hosts[1].ip.to_string(), "10.2.2.2");
    assert_eq!(it.hosts[1].mac, [0, 0, 10, 2, 2, 2]);
    assert_eq!((it.links[2].a.port, it.links[2].rate.to_string().as_str()), (7, "5Mbps"));
    assert_eq!((it.links[0].delay.to_string(), it.links[1].delay.to_string()), ("1ms".into(), "3ms".into()));
    let mixed = topology(&app.replace("l3", "mixed")).0;
    assert_eq!(mixed.hosts[1].ip.to_string(), "10.0.2.2");

    let graph = r#"{"directed": false, "multigraph": false, "graph": {},
      "nodes": [{"id": "h1", "isHost": true}, {"id": "h2", "isHost": true},
                {"id": "s1", "isSwitch": true, "isP4Switch": true, "device_id": 4, "grpc_port": 9561}],
      "links": [{"source": "h1", "target": "s1", "node1": "h1", "node2": "s1", "port1": 0, "port2": 2,
                 "ip1": "10.4.1.2/24", "addr1": "00:00:0a:04:01:02", "bw": 10},
                {"source": "s1", "target": "h2", "node1": "s1", "node2": "h2", "port1": 1, "port2": 0,
                 "ip2": "10.4.2.2/24", "addr2": "00:00:0a:04:02:02", "delay": "1ms"}]}"#;
    let imported = import(graph).unwrap().unwrap();
    assert_eq!(imported.switch_addresses["s1"], SwitchAddress { grpc_port: 9561, device_id: 4 });
    let it = build(&imported.topology).unwrap();
    assert_eq!((it.hosts[0].switch_port, it.hosts[1].switch_port), (2, 1));
    assert_eq!((it.hosts[0].ip.to_string().as_str(), it.hosts[1].mac[4]), ("10.4.1.2", 2));
}

#[test]
fn hpcc_files_begin_with_three_four_or_six_numbers_and_may_have_extra_lines() {
    let three = "4 2 4\n2 3\n0 2 100Gbps 1us 0\n1 3 25000000000.0 0.001ms 0.1\n2 3 400Gbps 1000ns 0\n2 3 400Gbps 1us 0\n0 1 1Gbps 1us 0\n";
    let (it, warnings) = topology(three);
    assert_eq!((it.hosts.len(), it.switches.len(), it.links.len()), (2, 2, 4));
    assert_eq!(it.links[1].rate.to_string(), "25Gbps");
    assert_eq!(it.links[1].delay, it.links[0].delay);
    assert_eq!((it.hosts[0].name.as_str(), it.switches[1].name.as_str()), ("h0", "s3"));
    let warnings = warnings.join("; ");
    for word in ["1 lines after the 4 links", "error rate", "s2 and s3 have several links"] {
        assert!(warnings.contains(word), "{warnings}");
    }
    let four = three.replacen("4 2 4", "4 2 2 4", 1);
    assert_eq!(topology(&four).0, it);
    // Reverie's header with the rates of servers and of the fabric.
    let six = three.replacen("4 2 4", "4 2 2 4 25000000000 100Gbps", 1);
    assert_eq!(topology(&six).0, it);
}

#[test]
fn a_host_without_an_address_is_omitted() {
    let (it, warnings) = topology(&TUTORIAL.replace("\"10.0.1.1/24\"", "null"));
    let hosts: Vec<&str> = it.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!((hosts, it.links.len()), (vec!["h2"], 3));
    assert!(warnings[0].starts_with("h1 has no address"), "{warnings:?}");
    assert!(
        import_error(&TUTORIAL.replace("\"ip\": \"10.0.1.1/24\"", "\"IP\": null"))
            .contains("missing field `ip`")
    );
    // The same if no host has an address.
    let none = TUTORIAL.replace("\"10.0.1.1/24\"", "null").replace("\"10.0.2.2/24\"", "null");
    let imported = import(&none).unwrap().unwrap();
    assert_eq!(build(&imported.topology).unwrap_err().to_string(), "the topology has no hosts");
    let parts = build_parts(&imported.topology).unwrap();
    assert_eq!((parts.hosts.len(), parts.switches.len()), (0, 3));
    assert_eq!(verify(&parts, &routes(&parts, RoutingMethod::Auto).unwrap()).unwrap().pairs, 0);
}

#[test]
fn two_networks_are_one_disconnected_topology() {
    let islands = r#"{"hosts": {
        "h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11"}, "h2": {"ip": "10.0.1.2/24", "mac": "08:00:00:00:02:22"},
        "h3": {"ip": "10.0.3.3/24", "mac": "08:00:00:00:03:33"}, "h4": {"ip": "10.0.3.4/24", "mac": "08:00:00:00:04:44"}},
      "switches": {"s1": {"runtime_json": "s-runtime.json"}, "s2": {"runtime_json": "s-runtime.json"}},
      "links": [["h1", "s1-p1"], ["h2", "s1-p2"], ["h3", "s2-p1"], ["h4", "s2-p2"]]}"#;
    let spec = import(islands).unwrap().unwrap().topology;
    assert_eq!(build(&spec).unwrap_err().to_string(), "no path between \"h1\" and \"h3\"");
    let parts = build_parts(&spec).unwrap();
    for method in [RoutingMethod::Auto, RoutingMethod::Trees] {
        let proof = verify(&parts, &routes(&parts, method).unwrap()).unwrap();
        assert_eq!((proof.pairs, proof.partitioned_pairs), (4, 8), "{method:?}");
    }
}

#[test]
fn errors_list_the_formats_unless_the_file_is_weirs_own() {
    let message = with_formats("Nodes 16\nTiers 2\n", "not a topology");
    for word in ["p4app.json", "HPCC", "htsim's .topo", "GraphML"] {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(with_formats("kind: star\n", "wrong"), "wrong");
    // containerlab has both keys, with another meaning.
    let containerlab = "name: x\ntopology:\n  nodes:\n    leaf1:\n      kind: nokia_srlinux\n";
    assert!(with_formats(containerlab, "wrong").contains("containerlab"));
}

#[test]
fn a_topology_of_p4sim_is_not_taken_for_one_of_the_hpcc_simulator() {
    let error = import_error(
        "2 2 3\n0 s 1 s 1000Mbps 0.01ms\n0 s 2 h 1000Mbps 0.01ms\n1 s 3 h 1Gbps 0.01ms\n0 BASIC\n",
    );
    assert!(
        error.starts_with("line 2: a topology of p4sim: not supported; supported topology files are "),
        "{error}"
    );
    let error = import_error("16 hosts\n");
    assert!(error.contains("the header is not") && error.contains("htsim's .topo"), "{error}");
}

#[test]
fn unsupported_values_are_rejected_with_their_location() {
    assert!(
        import_error(r#"{"program": "x.p4", "language": "p4-16", "targets": {"mininet": {}}}"#)
            .contains("p4lang/p4app")
    );
    assert!(import_error("4 2 5\n2 3\n0 2 100Gbps 1us 0\n").contains("1 of 5 links"));
    assert!(import_error("4 2 1\n2 9\n").starts_with("line 2: \"9\" is not a node id"));
    assert!(import_error("4 2 1\n2 3\n0 2 fast 1us 0\n").starts_with("line 3: \"fast\" is not a rate"));
    assert!(import_error("8 8 1 4 11 H100\n").contains("SimAI"));
    assert!(import_error(&TUTORIAL.replace("s1-p3", "s1-x3")).starts_with("links[0]: \"s1-x3\""));
    assert!(import_error(&TUTORIAL.replace("08:00:00:00:01:11", "08:00")).starts_with("hosts.h1: "));
    let routers = r#"{"topology": {"links": [], "routers": {"r1": {}}}}"#;
    assert!(import_error(routers).contains("routers"));
    assert_eq!(import("{kind: star, hosts: 2}"), Ok(None));
    assert_eq!(import(r#"{"kind": "star", "hosts": 2}"#), Ok(None));
}

#[test]
fn a_plan_survives_conversion_to_runtime_json_and_back() {
    let index = Index::from_text(FNCC).unwrap();
    let topology = build(&serde_yaml::from_str("{kind: fat-tree, k: 4}").unwrap()).unwrap();
    for method in [RoutingMethod::Ecmp, RoutingMethod::Trees] {
        let routes = routes(&topology, method).unwrap();
        let options = PlanOptions::default()
            .prioritise(PriorityTraffic { feedback: true, ..PriorityTraffic::default() });
        for (name, desired) in desired_states(&topology, &routes, &options, &index).unwrap() {
            let entities: Vec<_> = desired.entities().map(|it| it.entity.clone()).collect();
            let file = RuntimeJson::from_entities(&entities, &index, "a.p4info.txtpb", "a.json").unwrap();
            let text = serde_json::to_string(&file).unwrap();
            let back = RuntimeJson::parse(&text).unwrap().desired_state(&index).unwrap();
            let read: Vec<_> = back.entities().map(|it| it.entity.clone()).collect();
            assert_eq!(read, entities, "{name}");
        }
    }
}

#[test]
fn a_runtime_json_is_checked_against_the_program() {
    let index = Index::from_text(FNCC).unwrap();
    let entry = |entry: &str| {
        let text =
            format!(r#"{{"target": "bmv2", "p4info": "", "bmv2_json": "", "table_entries": [{entry}]}}"#);
        RuntimeJson::parse(&text)
            .and_then(|file| file.desired_state(&index))
            .map(|desired| desired.len())
            .map_err(|e| e.to_string())
    };
    let good = r#"{"table": "forward", "match": {"dst_addr": ["10.0.1.0", 24]}, "action_name": "via", "action_params": {"port": 2}}"#;
    assert_eq!(entry(good), Ok(1));
    let check = |from: &str, to: &str, message: &str| {
        let error = entry(&good.replace(from, to)).unwrap_err();
        assert!(error.contains(message), "{error}");
    };
    check(
        "\"forward\"",
        "\"ipv4_lpm\"",
        "table_entries[0].table: the program has no table \"ipv4_lpm\", it has ",
    );
    check("dst_addr", "dst", "has no field \"dst\", it has dst_addr");
    check("24", "33", "not 0 to 32");
    check("24", "16", "bits set beyond the first 16");
    check("via", "drop", "has no action \"drop\"");
    check("\"port\": 2", "\"port\": 512", "does not fit in 9 bits");
    check("\"port\"", "\"prot\"", "action via has no parameter \"prot\", it has [port]");
    check("\"port\": 2", "", "\"port\" of action via is missing");
    check("\"action_name\"", "\"priority\": 1, \"action_name\"", "has no priorities");
    check(good, &format!("{good}, {good}"), "the same key");
    check("\"table\"", "\"plate\"", "1:76: not a runtime.json: unknown field `plate`, expected");
}

#[test]
fn a_topology_written_for_the_hpcc_simulator_reads_back_as_the_same_graph() {
    for yaml in [
        "{kind: leaf-spine, leaves: 3, spines: 2, hosts_per_leaf: 2, host_rate: 25Gbps, delay: 1.5us}",
        "{kind: jellyfish, switches: 8, degree: 3, hosts_per_switch: 2}",
    ] {
        let written = build(&serde_yaml::from_str(yaml).unwrap()).unwrap();
        let (read, warnings) = topology(&hpcc_topology(&written));
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(read.links, written.links, "ends, ports, rates and delays");
        assert_eq!(hpcc_topology(&read), hpcc_topology(&written));
    }
}
