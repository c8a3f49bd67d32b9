//! A Thrift client against a switch with a server: results, errors, and malformed input.
//!
//! Numbers in `fields(2)`, `i32(1)` and the like are ids of Thrift fields. The codes of exceptions are those of
//! BMv2's IDL.

mod client;
mod digests;

use super::value::Value;
use client::{
    Client, ENTITIES, OTHER, PRE, Reply, STANDARD, TARGET, TestServer, VOID, bytes, data, key, message,
    priority,
};
use std::io::{Read, Write};
use thrift::protocol::TType;
use weir_switch::driver::DataplaneConfig;
use weir_switch::{Program, Switch};

#[test]
fn entries_are_written_and_read_as_in_bmv2() {
    let server = TestServer::new(Some(ENTITIES));
    let mut client = server.connect();
    let (lpm, counted) = (Value::text("TheIngress.lpm_one"), Value::text("TheIngress.counted"));
    // Bits after the prefix are ignored.
    let prefix = key([(1, vec![bytes(&[10, 0, 1, 7]), Value::I32(24)])]);
    let add = [lpm.clone(), prefix.clone(), counted.clone(), data([&[0, 9]]), priority(0)];
    assert_eq!(client.result("bm_mt_add_entry", add.clone()), Value::I32(0));
    assert_eq!(client.standard("bm_mt_add_entry", add), Reply::Exception(17), "DUPLICATE_ENTRY");
    let Value::List(_, entries) = client.result("bm_mt_get_entries", [lpm.clone()]) else { panic!() };
    let Value::Struct(entry) = &entries[0] else { panic!() };
    assert_eq!(entry.get(1), Some(&key([(1, vec![bytes(&[10, 0, 1, 0]), Value::I32(24)])])));
    assert_eq!(entry.fields(2).unwrap().i32(1).unwrap(), -1, "no priority");
    assert_eq!(entry.fields(4).unwrap().text(2).unwrap(), "TheIngress.counted");
    assert_eq!(entry.fields(4).unwrap().binaries(3).unwrap(), [[9]], "leading zeros are removed");

    // Direct counters, and a table without them.
    let count = Value::structure([(1, Value::I64(1500)), (2, Value::I64(2))]);
    assert_eq!(client.standard("bm_mt_write_counter", [lpm.clone(), Value::I32(0), count.clone()]), VOID);
    assert_eq!(client.result("bm_mt_read_counter", [lpm.clone(), Value::I32(0)]), count);
    let exact = Value::text("TheIngress.exact_one");
    assert_eq!(
        client.standard("bm_mt_reset_counters", [exact.clone()]),
        Reply::Exception(4),
        "COUNTERS_DISABLED"
    );

    // The smallest priority number wins, and is read back as written.
    let ternary = Value::text("TheIngress.ternary_one");
    let all = |bytes: usize| vec![Value::Binary(vec![0; bytes]), Value::Binary(vec![0; bytes])];
    let any_key = key([(2, all(4)), (4, vec![bytes(&[0, 0]), bytes(&[1, 0])]), (2, all(2))]);
    let drop = Value::text("TheIngress.drop");
    client.result("bm_mt_add_entry", [ternary.clone(), any_key, drop.clone(), data([]), priority(7)]);
    let Value::Struct(entry) = client.result("bm_mt_get_entry", [ternary.clone(), Value::I32(0)]) else {
        panic!()
    };
    assert_eq!(entry.fields(2).unwrap().i32(1).unwrap(), 7);

    let add_entry = |client: &mut Client, name: &str, key: Value, action: &str, args: Value| {
        client.standard("bm_mt_add_entry", [Value::text(name), key, Value::text(action), args, priority(0)])
    };
    let one = || key([(1, vec![bytes(&[1, 2, 3, 4]), Value::I32(32)])]);
    let send = "TheIngress.send";
    assert_eq!(add_entry(&mut client, "nowhere", one(), send, data([])), Reply::Exception(7));
    assert_eq!(add_entry(&mut client, "TheIngress.lpm_one", one(), send, data([&[1]])), Reply::Exception(8));
    assert_eq!(
        add_entry(&mut client, "TheIngress.by_profile", one(), send, data([&[1]])),
        Reply::Exception(9)
    );
    assert_eq!(
        add_entry(&mut client, "TheIngress.exact_one", one(), send, data([&[1]])),
        Reply::Exception(18)
    );
    let exact_key = key([(0, vec![bytes(&[1, 2, 3, 4])]), (0, vec![bytes(&[1])])]);
    assert_eq!(
        add_entry(&mut client, "TheIngress.exact_one", exact_key, send, data([&[9, 9, 9]])),
        Reply::Exception(26)
    );
    // Bits above the width of a key are ignored too: 1 and 0x201 are the same value in 9 bits.
    for (port, got) in [([2, 1], Reply::Result(Some(Value::I32(0)))), ([0, 1], Reply::Exception(17))] {
        let wide = key([(0, vec![bytes(&[1, 2, 3, 4])]), (0, vec![bytes(&port)])]);
        assert_eq!(add_entry(&mut client, "TheIngress.exact_one", wide, send, data([&[1]])), got);
    }
    let timeout = [exact.clone(), Value::I32(0), Value::I32(5000)];
    assert_eq!(client.standard("bm_mt_set_entry_ttl", timeout), VOID);
    let Value::Struct(entry) = client.result("bm_mt_get_entry", [exact, Value::I32(0)]) else { panic!() };
    assert_eq!(entry.fields(5).unwrap().i32(1).unwrap(), 5000, "milliseconds");
    let no_ageing = [lpm.clone(), Value::I32(0), Value::I32(5000)];
    assert_eq!(client.standard("bm_mt_set_entry_ttl", no_ageing), Reply::Exception(6), "AGEING_DISABLED");
    let const_key = key([(0, vec![bytes(&[5])])]);
    assert_eq!(
        add_entry(&mut client, "TheIngress.const_one", const_key, send, data([&[1]])),
        Reply::Exception(25)
    );
    let new_default = [lpm.clone(), counted, data([&[1]])];
    assert_eq!(
        client.standard("bm_mt_set_default_action", new_default),
        Reply::Exception(21),
        "DEFAULT_ENTRY_IS_CONST"
    );
    assert_eq!(client.standard("bm_mt_delete_entry", [lpm.clone(), Value::I32(0)]), VOID);
    assert_eq!(
        client.standard("bm_mt_delete_entry", [lpm, Value::I32(0)]),
        Reply::Exception(2),
        "INVALID_HANDLE"
    );
}

#[test]
fn profiles_registers_meters_and_queues_are_configured() {
    let server = TestServer::new(Some(ENTITIES));
    let mut client = server.connect();
    let (paths, send) = (Value::text("TheIngress.paths"), Value::text("TheIngress.send"));
    let member = client.result("bm_mt_act_prof_add_member", [paths.clone(), send.clone(), data([&[7]])]);
    let group = client.result("bm_mt_act_prof_create_group", [paths.clone()]);
    let both = [paths.clone(), member.clone(), group.clone()];
    assert_eq!(client.standard("bm_mt_act_prof_add_member_to_group", both.clone()), VOID);
    assert_eq!(client.standard("bm_mt_act_prof_add_member_to_group", both), Reply::Exception(12));
    let unknown = [paths.clone(), Value::text("nowhere"), data([])];
    assert_eq!(
        client.standard("bm_mt_act_prof_add_member", unknown),
        Reply::Exception(8),
        "INVALID_ACTION_NAME"
    );
    assert_eq!(
        client.standard("bm_mt_act_prof_delete_member", [paths.clone(), member.clone()]),
        Reply::Exception(11),
        "MBR_STILL_USED"
    );
    let by_selector = Value::text("TheIngress.by_selector");
    let entry = [by_selector, key([(0, vec![bytes(&[0, 1])])]), group.clone(), priority(0)];
    assert_eq!(client.result("bm_mt_indirect_ws_add_entry", entry), Value::I32(0));
    assert_eq!(
        client.standard("bm_mt_act_prof_delete_group", [paths, group]),
        Reply::Exception(15),
        "GRP_STILL_USED"
    );
    let nexthops = Value::text("TheIngress.nexthops");
    assert_eq!(client.standard("bm_mt_act_prof_create_group", [nexthops]), Reply::Exception(24));

    // A value is truncated to the width of the register, 12 bits.
    let cells = Value::text("TheIngress.cells");
    assert_eq!(
        client.standard("bm_register_write", [cells.clone(), Value::I32(15), Value::I64(0x1abc)]),
        VOID
    );
    assert_eq!(client.result("bm_register_read", [cells.clone(), Value::I32(15)]), Value::I64(0xabc));
    assert_eq!(client.standard("bm_register_read", [cells.clone(), Value::I32(16)]), Reply::Exception(2));
    assert_eq!(client.standard("bm_register_read", [cells.clone(), Value::I32(-1)]), Reply::Exception(2));
    assert_eq!(client.standard("bm_register_reset", [cells.clone()]), VOID);
    let Value::List(_, all) = client.result("bm_register_read_all", [cells]) else { panic!() };
    assert_eq!(all, vec![Value::I64(0); 16]);

    let rate = |rate, burst| Value::structure([(1, Value::Double(rate)), (2, Value::I32(burst))]);
    let rates = |low, high| Value::List(TType::Struct, vec![rate(low, 10), rate(high, 20)]);
    let limits = Value::text("TheIngress.limits");
    assert_eq!(client.standard("bm_meter_array_set_rates", [limits.clone(), rates(0.25, 0.5)]), VOID);
    assert_eq!(client.result("bm_meter_get_rates", [limits.clone(), Value::I32(3)]), rates(0.25, 0.5));
    assert_eq!(client.standard("bm_meter_array_set_rates", [limits, rates(2.0, 1.0)]), Reply::Exception(4));

    let queues = |client: &mut Client, method, args: &[i32]| {
        // Rates are the last argument, and the only one of 64 bits.
        let last = args.len() - 1;
        let value = |(index, &arg): (usize, &i32)| match index == last && str::ends_with(method, "_rate") {
            true => Value::I64(arg.into()),
            false => Value::I32(arg),
        };
        client.call(TARGET, method, args.iter().enumerate().map(value).collect::<Vec<_>>())
    };
    let success = Reply::Result(Some(Value::I32(0)));
    assert_eq!(queues(&mut client, "set_egress_queue_rate", &[2, 1000]), success);
    assert_eq!(queues(&mut client, "set_egress_priority_queue_depth", &[2, 7, 10]), success);
    let no_such = |got| matches!(got, Reply::Application(what) if what.contains("no such port"));
    assert!(no_such(queues(&mut client, "set_egress_priority_queue_rate", &[2, 8, 10])));
    assert!(no_such(queues(&mut client, "set_egress_queue_depth", &[-1, 10])));
}

#[test]
fn multicast_groups_are_shared_with_other_writers() {
    let server = TestServer::new(Some(ENTITIES));
    let mut client = server.connect();
    let zero = Value::I32(0);
    let mut pre = |method: &str, args: &[Value]| {
        client.call(PRE, method, [zero.clone()].into_iter().chain(args.iter().cloned()))
    };
    let number = |number| Reply::Result(Some(Value::I32(number)));
    assert_eq!(pre("bm_mc_mgrp_create", &[Value::I32(5)]), number(5));
    // Ports 1 and 3, no LAG.
    assert_eq!(pre("bm_mc_node_create", &[Value::I32(9), Value::text("1010"), Value::text("")]), number(0));
    assert_eq!(pre("bm_mc_node_associate", &[Value::I32(5), Value::I32(0)]), VOID);
    assert_eq!(pre("bm_mc_node_associate", &[Value::I32(5), Value::I32(0)]), Reply::Exception(5));
    assert_eq!(pre("bm_mc_node_associate", &[Value::I32(6), Value::I32(0)]), Reply::Exception(3));
    assert_eq!(
        pre("bm_mc_node_create", &[Value::I32(1), Value::text("2"), Value::text("")]),
        Reply::Exception(5)
    );
    let handle = server.dataplane.handle();
    let replicas = handle.with(|switch, _| switch.multicast_groups().clone()).unwrap();
    let replica = |port| weir_switch::engine::Replica { port, instance: 9 };
    assert_eq!(replicas.into_iter().collect::<Vec<_>>(), [(5, vec![replica(1), replica(3)])]);

    // Another client creates group 6 and removes group 5.
    handle
        .with(move |switch, _| {
            switch.delete_multicast_group(5);
            switch.set_multicast_group(6, vec![replica(2), replica(4)]).unwrap();
        })
        .unwrap();
    let Reply::Result(Some(Value::Binary(json))) = pre("bm_mc_get_entries", &[]) else { panic!() };
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["mgrps"], serde_json::json!([{ "id": 6, "l1_handles": [0] }]));
    assert_eq!(json["l2_handles"], serde_json::json!([{ "handle": 0, "ports": [2, 4], "lags": [] }]));
    // A link aggregation group of two ports: BMv2's constant hash 255 selects the second.
    assert_eq!(pre("bm_mc_set_lag_membership", &[Value::I16(2), Value::text("10100000")]), VOID);
    assert_eq!(pre("bm_mc_node_update", &[Value::I32(0), Value::text(""), Value::text("100")]), VOID);
    let replicas = handle.with(|switch, _| switch.multicast_groups()[&6].clone()).unwrap();
    assert_eq!(replicas, [replica(7)]);
}

#[test]
fn program_ports_and_state_are_reported_and_reset() {
    let server = TestServer::new(Some(ENTITIES));
    let mut client = server.connect();
    let config = client.call(STANDARD, "bm_get_config", []);
    assert_eq!(config, Reply::Result(Some(Value::text(ENTITIES))));
    let Reply::Result(Some(Value::Binary(md5))) = client.call(STANDARD, "bm_get_config_md5", []) else {
        panic!()
    };
    assert_eq!(md5.len(), 16);
    let id = client.result("bm_get_id_from_name", [Value::I32(0), Value::text("TheIngress.lpm_one")]);
    assert_eq!(id, Value::I32(2));
    assert_eq!(
        client.standard("bm_get_id_from_name", [Value::I32(9), Value::text("x")]),
        Reply::Exception(0)
    );
    let Reply::Result(Some(Value::Struct(info))) = client.call(STANDARD, "bm_mgmt_get_info", []) else {
        panic!()
    };
    assert_eq!((info.i64(1).unwrap(), info.i32(2).unwrap()), (3, i32::from(server.thrift.address().port())));
    let no_interface = [Value::text("wr-none"), Value::I32(1), Value::text("")];
    assert_eq!(client.call(STANDARD, "bm_dev_mgr_add_port", no_interface), Reply::Exception(1));
    assert_eq!(client.call(STANDARD, "bm_dev_mgr_remove_port", [Value::I32(1)]), Reply::Exception(1));
    let none = Reply::Result(Some(Value::List(TType::Struct, vec![])));
    assert_eq!(client.call(STANDARD, "bm_dev_mgr_show_ports", []), none);

    // A reset keeps clone sessions.
    let to_port_4 = Value::structure([(1, Value::I32(4))]);
    assert_eq!(client.call(TARGET, "mirroring_session_add", [Value::I32(0), to_port_4.clone()]), VOID);
    let cells = Value::text("TheIngress.cells");
    assert_eq!(client.standard("bm_register_write", [cells.clone(), Value::I32(0), Value::I64(1)]), VOID);
    assert_eq!(client.call(STANDARD, "bm_reset_state", []), VOID);
    assert_eq!(client.result("bm_register_read", [cells, Value::I32(0)]), Value::I64(0));
    assert_eq!(client.call(TARGET, "mirroring_session_get", [Value::I32(0)]), Reply::Result(Some(to_port_4)));
    assert_eq!(client.call(TARGET, "mirroring_session_delete", [Value::I32(1)]), Reply::Exception(1));

    let bare = TestServer::new(None);
    let mut client = bare.connect();
    assert_eq!(client.call(STANDARD, "bm_get_config", []), Reply::Result(Some(Value::text("{}"))));
    assert_eq!(client.standard("bm_mt_get_num_entries", [Value::text("t")]), Reply::Exception(7));
}

#[test]
fn another_program_is_loaded_and_then_swapped_in() {
    let server = TestServer::new(Some(ENTITIES));
    let mut client = server.connect();
    let load =
        |client: &mut Client, text: &str| client.call(STANDARD, "bm_load_new_config", [Value::text(text)]);
    let swap = |client: &mut Client| client.call(STANDARD, "bm_swap_configs", []);
    let handle = server.dataplane.handle();
    let runs = || handle.with(|switch, _| switch.pipeline().program().json().to_owned()).unwrap();
    assert_eq!(swap(&mut client), Reply::Exception(3), "NO_ONGOING_SWAP");
    let to_port_4 = Value::structure([(1, Value::I32(4))]);
    assert_eq!(client.call(TARGET, "mirroring_session_add", [Value::I32(5), to_port_4.clone()]), VOID);
    assert_eq!(
        client.call(PRE, "bm_mc_mgrp_create", [Value::I32(0), Value::I32(9)]),
        Reply::Result(Some(Value::I32(9)))
    );
    assert!(
        matches!(load(&mut client, "{}"), Reply::Application(reason) if reason.contains("unsupported program"))
    );
    assert_eq!(load(&mut client, OTHER), VOID);
    assert_eq!(load(&mut client, OTHER), Reply::Exception(2), "ONGOING_SWAP");

    // Calls refer to the new program; packets are still processed by the old one.
    assert_eq!(client.call(STANDARD, "bm_get_config", []), Reply::Result(Some(Value::text(OTHER))));
    assert_eq!(
        client.standard("bm_mt_get_num_entries", [Value::text("TheIngress.lpm_one")]),
        Reply::Exception(7)
    );
    let routes = Value::text("TheIngress.routes");
    assert_eq!(client.result("bm_mt_get_num_entries", [routes.clone()]), Value::I64(0));
    assert_eq!(runs(), ENTITIES);

    assert_eq!(swap(&mut client), VOID);
    assert_eq!(runs(), OTHER);
    assert_eq!(client.result("bm_mt_get_num_entries", [routes]), Value::I64(0));
    assert_eq!(swap(&mut client), Reply::Exception(3), "NO_ONGOING_SWAP");
    let session = client.call(TARGET, "mirroring_session_get", [Value::I32(5)]);
    assert_eq!(session, Reply::Result(Some(to_port_4)), "clone sessions are kept");

    // A switch without a program accepts its first one in the same manner.
    let bare = TestServer::new(None);
    let mut client = bare.connect();
    assert_eq!((load(&mut client, OTHER), swap(&mut client)), (VOID, VOID));
    assert_eq!(client.call(STANDARD, "bm_get_config", []), Reply::Result(Some(Value::text(OTHER))));

    let swapless = TestServer::without_swap(Some(ENTITIES));
    let mut client = swapless.connect();
    assert_eq!(
        (load(&mut client, OTHER), swap(&mut client)),
        (Reply::Exception(1), Reply::Exception(1)),
        "DISABLED"
    );
}

#[test]
fn invalid_calls_get_errors_and_garbage_ends_the_connection() {
    let server = TestServer::new(Some(ENTITIES));
    let mut client = server.connect();
    let text = |got| match got {
        Reply::Application(text) => text,
        other => panic!("{other:?}"),
    };
    assert!(text(client.call(STANDARD, "bm_no_such", [])).contains("unknown method standard:bm_no_such"));
    assert!(text(client.call("nowhere", "bm_mt_get_entries", [])).contains("unknown method"));
    let name = || Value::text("TheIngress.cells");
    assert!(text(client.call(STANDARD, "bm_register_reset", [Value::I32(1), name()])).contains("context 1"));
    assert!(text(client.call(STANDARD, "bm_register_reset", [name()])).contains("expected i32"));
    assert!(text(client.standard("bm_register_read", [name()])).contains("field 3 is missing"));

    // A list of 2^31 - 1 elements, a string of as many bytes, a negative length, nested structs and lists, no message
    // at all, a reply. 11, 12 and 15 are Thrift's type codes of string, struct and list; a field id of two bytes
    // follows.
    let header = message(STANDARD, "bm_mt_add_entry", 1, []);
    let header = &header[..header.len() - 1];
    let list = [header, &[15, 0, 3, 12, 0x7f, 0xff, 0xff, 0xff]].concat();
    let string = [header, &[11, 0, 2, 0x7f, 0xff, 0xff, 0xff]].concat();
    let negative = [header, &[11, 0, 2, 0xff, 0xff, 0xff, 0xff]].concat();
    let nested = [header, &[12, 0, 1].repeat(100)].concat();
    let lists = [header, &[15, 0, 1], &[15, 0, 0, 0, 1].repeat(100)[..]].concat();
    let unversioned = [&[0x7f; 64][..]].concat();
    let reply = message(STANDARD, "bm_reset_state", 1, [])
        .iter()
        .enumerate()
        .map(|(index, &byte)| if index == 3 { 2 } else { byte })
        .collect();
    for garbage in [list, string, negative, nested, lists, unversioned, reply] {
        let mut peer = server.connect();
        peer.stream.write_all(&garbage).unwrap();
        assert!(peer.is_closed(), "{garbage:02x?}");
    }
    // An endless call is cut off at the length limit. The server may close the connection during the writes.
    let mut peer = server.connect();
    let field = [&[11, 0, 9, 0, 0, 0x10, 0][..], &[0; 0x1000]].concat();
    let _ = peer.stream.write_all(header);
    let _ = (0..1000).try_for_each(|_| peer.stream.write_all(&field));
    assert!(!matches!(peer.stream.read(&mut [0; 8]), Ok(1..)));
    assert_eq!(client.standard("bm_register_reset", [name()]), VOID, "other clients are still served");
}

#[test]
fn the_client_that_was_idle_longest_is_evicted() {
    let server = TestServer::new(None);
    let config = |client: &mut Client| client.call(STANDARD, "bm_get_config", []);
    let mut clients: Vec<Client> = (0..16).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert!(matches!(config(client), Reply::Result(_)));
    }
    // The first client calls again, so the second has been idle longest.
    assert!(matches!(config(&mut clients[0]), Reply::Result(_)));
    let mut one_more = server.connect();
    assert!(matches!(config(&mut one_more), Reply::Result(_)));
    assert!(clients[1].is_closed());
    assert!(matches!(config(&mut clients[0]), Reply::Result(_)));
    drop(server);
    assert!(clients[0].is_closed(), "a stopped server closes its connections");
}

#[test]
fn value_sets_are_changed_as_in_bmv2() {
    let server = TestServer::new(Some(OTHER));
    let mut client = server.connect();
    let name = || Value::text("TheParser.control_types");
    let values = |client: &mut Client| match client.result("bm_parse_vset_get", [name()]) {
        Value::List(_, values) => values,
        other => panic!("{other:?}"),
    };
    for value in [[0x08, 0x00], [0x86, 0xdd], [0x08, 0x00]] {
        assert_eq!(client.standard("bm_parse_vset_add", [name(), bytes(&value)]), VOID);
    }
    assert_eq!(values(&mut client), [bytes(&[0x08, 0x00]), bytes(&[0x86, 0xdd])]);
    assert_eq!(client.standard("bm_parse_vset_remove", [name(), bytes(&[0x08, 0x00])]), VOID);
    assert_eq!(
        client.standard("bm_parse_vset_remove", [name(), bytes(&[0x08, 0x00])]),
        VOID,
        "no such value"
    );
    assert_eq!(values(&mut client), [bytes(&[0x86, 0xdd])]);
    let wide = client.standard("bm_parse_vset_add", [name(), bytes(&[1, 0, 0])]);
    assert_eq!(wide, Reply::Exception(2), "ERROR");
    assert_eq!(client.standard("bm_parse_vset_clear", [name()]), VOID);
    assert_eq!(values(&mut client), []);
    for method in ["bm_parse_vset_get", "bm_parse_vset_clear"] {
        assert_eq!(client.standard(method, [Value::text("nowhere")]), Reply::Exception(1), "INVALID_NAME");
    }
}

#[test]
fn parameters_of_custom_crcs_are_set_by_name() {
    const HASHES: &str = include_str!("../../../tests/data/tables.json");
    let custom = |algorithm: &str| HASHES.replacen("\"crc32\"", algorithm, 1);
    let config16 = Value::structure([
        (1, Value::I16(0x8005u16 as i16)),
        (2, Value::I16(-1)),
        (3, Value::I16(0)),
        (4, Value::Bool(true)),
        (5, Value::Bool(true)),
    ]);
    let config32 = Value::structure([
        (1, Value::I32(0x04c1_1db7)),
        (2, Value::I32(-1)),
        (3, Value::I32(-1)),
        (4, Value::Bool(true)),
        (5, Value::Bool(false)),
    ]);
    let wrong_type = || Reply::Exception(2);
    for (program, expected16, expected32) in [
        (custom("\"crc32_custom\""), wrong_type(), VOID),
        (custom("\"crc16_custom\""), VOID, wrong_type()),
        (HASHES.to_owned(), wrong_type(), wrong_type()),
    ] {
        let server = TestServer::new(Some(&program));
        let mut client = server.connect();
        let mut set = |method: &str, name: &str, config: &Value| {
            client.standard(method, [Value::text(name), config.clone()])
        };
        assert_eq!(set("bm_set_crc32_custom_parameters", "calc", &config32), expected32);
        assert_eq!(set("bm_set_crc16_custom_parameters", "calc", &config16), expected16);
        assert_eq!(set("bm_set_crc16_custom_parameters", "nowhere", &config16), Reply::Exception(1));
        assert_eq!(set("bm_set_crc32_custom_parameters", "nowhere", &config32), Reply::Exception(1));
        assert_eq!(set("bm_set_toeplitz_hash_key", "calc", &bytes(&[0; 40])), Reply::Exception(2));
        assert_eq!(set("bm_set_toeplitz_hash_key", "nowhere", &bytes(&[0; 40])), Reply::Exception(1));
    }
}

#[test]
fn the_state_is_serialised_for_a_switch_that_restores_it() {
    let server = TestServer::new(Some(ENTITIES));
    let mut client = server.connect();
    let serialise = |client: &mut Client| match client.call(STANDARD, "bm_serialize_state", []) {
        Reply::Result(Some(Value::Binary(state))) => String::from_utf8(state).unwrap(),
        other => panic!("{other:?}"),
    };
    let before = serialise(&mut client);
    let prefix = key([(1, vec![bytes(&[10, 0, 1, 0]), Value::I32(24)])]);
    let (table, action) = (Value::text("TheIngress.lpm_one"), Value::text("TheIngress.counted"));
    let handle = client.result("bm_mt_add_entry", [table, prefix, action, data([&[9]]), priority(0)]);
    assert_eq!(handle, Value::I32(0));
    let paths = Value::text("TheIngress.paths");
    client.result("bm_mt_act_prof_add_member", [paths, Value::text("TheIngress.send"), data([&[7]])]);
    let state = serialise(&mut client);
    assert_ne!(state, before);

    let config = DataplaneConfig { priorities: 8, ..DataplaneConfig::default() };
    let mut restored = Switch::new(Program::from_json(ENTITIES).unwrap(), config.switch_config(), 1).unwrap();
    let pipeline = restored.pipeline_mut();
    pipeline.restore_state(&state).unwrap();
    assert_eq!(pipeline.save_state(), state);
    let table = pipeline.table_by_name("TheIngress.lpm_one").unwrap();
    assert_eq!((pipeline.table_len(table), pipeline.members("TheIngress.paths").unwrap().len()), (1, 1));

    let empty = TestServer::new(None);
    assert_eq!(serialise(&mut empty.connect()), "", "without a program");
}
