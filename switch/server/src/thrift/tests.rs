//! A client of the same crate against a served switch: what it is told, and what garbage does.

use super::value::{Fields, Value};
use super::{ThriftConfig, ThriftServer};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TInputProtocol, TMessageIdentifier, TMessageType,
    TOutputProtocol, TType,
};
use weir_switch::driver::{Dataplane, DataplaneConfig};
use weir_switch::{Program, Switch};

/// A program with one of everything.
const ENTITIES: &str = include_str!("../../../tests/it/control/entities.json");
const OTHER: &str = include_str!("../../../tests/programs/p4runtime.json");
const STANDARD: &str = "standard";
const PRE: &str = "simple_pre_lag";
const TARGET: &str = "simple_switch";

/// A switch without interfaces, and its server.
struct Served {
    server: ThriftServer,
    _dataplane: Dataplane,
}

impl Served {
    fn new(program: Option<&str>) -> Served {
        Served::with_swap(program, true)
    }

    fn with_swap(program: Option<&str>, swap: bool) -> Served {
        let config = DataplaneConfig { priorities: 8, ..DataplaneConfig::default() };
        let switch = program.map(|json| {
            let program = Program::from_json(json).unwrap();
            Box::new(Switch::new(program, config.switch_config(), 1).unwrap())
        });
        let dataplane = Dataplane::start(config, switch, &[]).unwrap();
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        let config =
            ThriftConfig { listen, device_id: 3, seed: 1, allow_config_swap: swap, programs: Arc::default() };
        Served { server: ThriftServer::start(dataplane.handle(), &config).unwrap(), _dataplane: dataplane }
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { stream, sequence: 0 }
    }
}

struct Client {
    stream: TcpStream,
    sequence: i32,
}

/// A reply: a result, a declared exception's code, or the text of one of Thrift's own.
#[derive(Debug, PartialEq)]
enum Got {
    Result(Option<Value>),
    Declared(i32),
    Application(String),
}

impl Client {
    fn call(&mut self, service: &str, method: &str, args: impl IntoIterator<Item = Value>) -> Got {
        self.sequence += 1;
        self.stream.write_all(&message(service, method, self.sequence, args)).unwrap();
        let mut protocol = TBinaryInputProtocol::new(&mut self.stream, true);
        let reply = protocol.read_message_begin().unwrap();
        assert_eq!((reply.name.as_str(), reply.sequence_number), (method, self.sequence));
        let fields = Fields::read(&mut protocol, 0).unwrap();
        match reply.message_type {
            TMessageType::Exception => Got::Application(fields.text(1).unwrap()),
            _ => match fields.get(1) {
                Some(Value::Struct(exception)) => Got::Declared(exception.i32(1).unwrap()),
                _ => Got::Result(fields.get(0).cloned()),
            },
        }
    }

    /// A call of `standard` in context 0.
    fn standard(&mut self, method: &str, args: impl IntoIterator<Item = Value>) -> Got {
        self.call(STANDARD, method, [Value::I32(0)].into_iter().chain(args))
    }

    fn result(&mut self, method: &str, args: impl IntoIterator<Item = Value>) -> Value {
        match self.standard(method, args) {
            Got::Result(Some(value)) => value,
            other => panic!("{method}: {other:?}"),
        }
    }

    /// Returns whether the server has closed the connection.
    fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 64]), Ok(0))
    }
}

fn message(service: &str, method: &str, sequence: i32, args: impl IntoIterator<Item = Value>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut protocol = TBinaryOutputProtocol::new(&mut bytes, true);
    let name = format!("{service}:{method}");
    protocol.write_message_begin(&TMessageIdentifier::new(name, TMessageType::Call, sequence)).unwrap();
    Fields((1..).zip(args).collect()).write(&mut protocol).unwrap();
    bytes
}

fn data<const N: usize>(args: [&[u8]; N]) -> Value {
    Value::List(TType::String, args.map(|arg| Value::Binary(arg.to_vec())).into())
}

/// `BmMatchParam`s: type, and the fields of what it is.
fn key<const N: usize>(params: [(i32, Vec<Value>); N]) -> Value {
    let param = |(ty, fields): (i32, Vec<Value>)| {
        let found = Value::structure((1..).zip(fields));
        Value::structure([(1, Value::I32(ty)), (ty as i16 + 2, found)])
    };
    Value::List(TType::Struct, params.map(param).into())
}

fn bytes(value: &[u8]) -> Value {
    Value::Binary(value.to_vec())
}

fn priority(number: i32) -> Value {
    Value::structure([(1, Value::I32(number))])
}

const DONE: Got = Got::Result(None);

#[test]
fn entries_are_written_and_read_as_in_bmv2() {
    let served = Served::new(Some(ENTITIES));
    let mut client = served.connect();
    let (lpm, counted) = (Value::text("TheIngress.lpm_one"), Value::text("TheIngress.counted"));
    // Bits behind the prefix do not count.
    let prefix = key([(1, vec![bytes(&[10, 0, 1, 7]), Value::I32(24)])]);
    let add = [lpm.clone(), prefix.clone(), counted.clone(), data([&[0, 9]]), priority(0)];
    assert_eq!(client.result("bm_mt_add_entry", add.clone()), Value::I32(0));
    assert_eq!(client.standard("bm_mt_add_entry", add), Got::Declared(17), "DUPLICATE_ENTRY");
    let Value::List(_, entries) = client.result("bm_mt_get_entries", [lpm.clone()]) else { panic!() };
    let Value::Struct(entry) = &entries[0] else { panic!() };
    assert_eq!(entry.get(1), Some(&key([(1, vec![bytes(&[10, 0, 1, 0]), Value::I32(24)])])));
    assert_eq!(entry.fields(2).unwrap().i32(1).unwrap(), -1, "no priority");
    assert_eq!(entry.fields(4).unwrap().text(2).unwrap(), "TheIngress.counted");
    assert_eq!(entry.fields(4).unwrap().binaries(3).unwrap(), [[9]], "no leading zeros");

    // Direct counters, and a table that has none.
    let count = Value::structure([(1, Value::I64(1500)), (2, Value::I64(2))]);
    assert_eq!(client.standard("bm_mt_write_counter", [lpm.clone(), Value::I32(0), count.clone()]), DONE);
    assert_eq!(client.result("bm_mt_read_counter", [lpm.clone(), Value::I32(0)]), count);
    let exact = Value::text("TheIngress.exact_one");
    assert_eq!(
        client.standard("bm_mt_reset_counters", [exact.clone()]),
        Got::Declared(4),
        "COUNTERS_DISABLED"
    );

    // Smaller numbers win, and are shown as they were given.
    let ternary = Value::text("TheIngress.ternary_one");
    let all = |bits: usize| vec![Value::Binary(vec![0; bits]), Value::Binary(vec![0; bits])];
    let open = key([(2, all(4)), (4, vec![bytes(&[0, 0]), bytes(&[1, 0])]), (2, all(2))]);
    let drop = Value::text("TheIngress.drop");
    client.result("bm_mt_add_entry", [ternary.clone(), open, drop.clone(), data([]), priority(7)]);
    let Value::Struct(entry) = client.result("bm_mt_get_entry", [ternary.clone(), Value::I32(0)]) else {
        panic!()
    };
    assert_eq!(entry.fields(2).unwrap().i32(1).unwrap(), 7);

    let refused = |client: &mut Client, name: &str, key: Value, action: &str, args: Value| {
        client.standard("bm_mt_add_entry", [Value::text(name), key, Value::text(action), args, priority(0)])
    };
    let one = || key([(1, vec![bytes(&[1, 2, 3, 4]), Value::I32(32)])]);
    let send = "TheIngress.send";
    assert_eq!(refused(&mut client, "nowhere", one(), send, data([])), Got::Declared(7));
    assert_eq!(refused(&mut client, "TheIngress.lpm_one", one(), send, data([&[1]])), Got::Declared(8));
    assert_eq!(refused(&mut client, "TheIngress.by_profile", one(), send, data([&[1]])), Got::Declared(9));
    assert_eq!(refused(&mut client, "TheIngress.exact_one", one(), send, data([&[1]])), Got::Declared(18));
    let exact_key = key([(0, vec![bytes(&[1, 2, 3, 4])]), (0, vec![bytes(&[1])])]);
    assert_eq!(
        refused(&mut client, "TheIngress.exact_one", exact_key, send, data([&[9, 9, 9]])),
        Got::Declared(26)
    );
    // A key's spare bits do not count either: 1 and 0x201 are one value of 9 bits.
    for (port, got) in [([2, 1], Got::Result(Some(Value::I32(0)))), ([0, 1], Got::Declared(17))] {
        let wide = key([(0, vec![bytes(&[1, 2, 3, 4])]), (0, vec![bytes(&port)])]);
        assert_eq!(refused(&mut client, "TheIngress.exact_one", wide, send, data([&[1]])), got);
    }
    let timeout = [exact.clone(), Value::I32(0), Value::I32(5000)];
    assert_eq!(client.standard("bm_mt_set_entry_ttl", timeout), DONE);
    let Value::Struct(entry) = client.result("bm_mt_get_entry", [exact, Value::I32(0)]) else { panic!() };
    assert_eq!(entry.fields(5).unwrap().i32(1).unwrap(), 5000, "milliseconds");
    let no_ageing = [lpm.clone(), Value::I32(0), Value::I32(5000)];
    assert_eq!(client.standard("bm_mt_set_entry_ttl", no_ageing), Got::Declared(6), "AGEING_DISABLED");
    let const_key = key([(0, vec![bytes(&[5])])]);
    assert_eq!(
        refused(&mut client, "TheIngress.const_one", const_key, send, data([&[1]])),
        Got::Declared(25)
    );
    let fixed = [lpm.clone(), counted, data([&[1]])];
    assert_eq!(
        client.standard("bm_mt_set_default_action", fixed),
        Got::Declared(21),
        "DEFAULT_ENTRY_IS_CONST"
    );
    assert_eq!(client.standard("bm_mt_delete_entry", [lpm.clone(), Value::I32(0)]), DONE);
    assert_eq!(
        client.standard("bm_mt_delete_entry", [lpm, Value::I32(0)]),
        Got::Declared(2),
        "INVALID_HANDLE"
    );
}

#[test]
fn profiles_cells_and_queues() {
    let served = Served::new(Some(ENTITIES));
    let mut client = served.connect();
    let (paths, send) = (Value::text("TheIngress.paths"), Value::text("TheIngress.send"));
    let member = client.result("bm_mt_act_prof_add_member", [paths.clone(), send.clone(), data([&[7]])]);
    let group = client.result("bm_mt_act_prof_create_group", [paths.clone()]);
    let both = [paths.clone(), member.clone(), group.clone()];
    assert_eq!(client.standard("bm_mt_act_prof_add_member_to_group", both.clone()), DONE);
    assert_eq!(client.standard("bm_mt_act_prof_add_member_to_group", both), Got::Declared(12));
    let by_selector = Value::text("TheIngress.by_selector");
    let entry = [by_selector, key([(0, vec![bytes(&[0, 1])])]), group.clone(), priority(0)];
    assert_eq!(client.result("bm_mt_indirect_ws_add_entry", entry), Value::I32(0));
    assert_eq!(
        client.standard("bm_mt_act_prof_delete_group", [paths, group]),
        Got::Declared(15),
        "GRP_STILL_USED"
    );
    let nexthops = Value::text("TheIngress.nexthops");
    assert_eq!(client.standard("bm_mt_act_prof_create_group", [nexthops]), Got::Declared(24));

    // A register keeps its width, 12 bits.
    let cells = Value::text("TheIngress.cells");
    assert_eq!(
        client.standard("bm_register_write", [cells.clone(), Value::I32(15), Value::I64(0x1abc)]),
        DONE
    );
    assert_eq!(client.result("bm_register_read", [cells.clone(), Value::I32(15)]), Value::I64(0xabc));
    assert_eq!(client.standard("bm_register_read", [cells.clone(), Value::I32(16)]), Got::Declared(2));
    assert_eq!(client.standard("bm_register_read", [cells.clone(), Value::I32(-1)]), Got::Declared(2));
    assert_eq!(client.standard("bm_register_reset", [cells.clone()]), DONE);
    let Value::List(_, all) = client.result("bm_register_read_all", [cells]) else { panic!() };
    assert_eq!(all, vec![Value::I64(0); 16]);

    let rate = |rate, burst| Value::structure([(1, Value::Double(rate)), (2, Value::I32(burst))]);
    let rates = |low, high| Value::List(TType::Struct, vec![rate(low, 10), rate(high, 20)]);
    let limits = Value::text("TheIngress.limits");
    assert_eq!(client.standard("bm_meter_array_set_rates", [limits.clone(), rates(0.25, 0.5)]), DONE);
    assert_eq!(client.result("bm_meter_get_rates", [limits.clone(), Value::I32(3)]), rates(0.25, 0.5));
    assert_eq!(client.standard("bm_meter_array_set_rates", [limits, rates(2.0, 1.0)]), Got::Declared(4));

    let queues = |client: &mut Client, method, args: &[i32]| {
        // Rates are the one argument of 64 bits, and the last.
        let last = args.len() - 1;
        let value = |(at, &arg): (usize, &i32)| match at == last && str::ends_with(method, "_rate") {
            true => Value::I64(arg.into()),
            false => Value::I32(arg),
        };
        client.call(TARGET, method, args.iter().enumerate().map(value).collect::<Vec<_>>())
    };
    let done = Got::Result(Some(Value::I32(0)));
    assert_eq!(queues(&mut client, "set_egress_queue_rate", &[2, 1000]), done);
    assert_eq!(queues(&mut client, "set_egress_priority_queue_depth", &[2, 7, 10]), done);
    let no_such = |got| matches!(got, Got::Application(what) if what.contains("no such port"));
    assert!(no_such(queues(&mut client, "set_egress_priority_queue_rate", &[2, 8, 10])));
    assert!(no_such(queues(&mut client, "set_egress_queue_depth", &[-1, 10])));
}

#[test]
fn multicast_groups_are_shared_with_other_writers() {
    let served = Served::new(Some(ENTITIES));
    let mut client = served.connect();
    let zero = Value::I32(0);
    let mut pre = |method: &str, args: &[Value]| {
        client.call(PRE, method, [zero.clone()].into_iter().chain(args.iter().cloned()))
    };
    let number = |number| Got::Result(Some(Value::I32(number)));
    assert_eq!(pre("bm_mc_mgrp_create", &[Value::I32(5)]), number(5));
    // Ports 1 and 3, no LAG.
    assert_eq!(pre("bm_mc_node_create", &[Value::I32(9), Value::text("1010"), Value::text("")]), number(0));
    assert_eq!(pre("bm_mc_node_associate", &[Value::I32(5), Value::I32(0)]), DONE);
    assert_eq!(pre("bm_mc_node_associate", &[Value::I32(5), Value::I32(0)]), Got::Declared(5));
    assert_eq!(pre("bm_mc_node_associate", &[Value::I32(6), Value::I32(0)]), Got::Declared(3));
    assert_eq!(
        pre("bm_mc_node_create", &[Value::I32(1), Value::text("2"), Value::text("")]),
        Got::Declared(5)
    );
    let handle = served._dataplane.handle();
    let copies = handle.with(|switch, _| switch.multicast_groups().clone()).unwrap();
    let copy = |port| weir_switch::engine::Replica { port, instance: 9 };
    assert_eq!(copies.into_iter().collect::<Vec<_>>(), [(5, vec![copy(1), copy(3)])]);

    // Somebody else makes group 6 and removes group 5.
    handle
        .with(move |switch, _| {
            switch.delete_multicast_group(5);
            switch.set_multicast_group(6, vec![copy(2), copy(4)]).unwrap();
        })
        .unwrap();
    let Got::Result(Some(Value::Binary(json))) = pre("bm_mc_get_entries", &[]) else { panic!() };
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["mgrps"], serde_json::json!([{ "id": 6, "l1_handles": [0] }]));
    assert_eq!(json["l2_handles"], serde_json::json!([{ "handle": 0, "ports": [2, 4], "lags": [] }]));
    // A link aggregation group of two ports: BMv2's fixed hash 255 chooses the second.
    assert_eq!(pre("bm_mc_set_lag_membership", &[Value::I16(2), Value::text("10100000")]), DONE);
    assert_eq!(pre("bm_mc_node_update", &[Value::I32(0), Value::text(""), Value::text("100")]), DONE);
    let copies = handle.with(|switch, _| switch.multicast_groups()[&6].clone()).unwrap();
    assert_eq!(copies, [copy(7)]);
}

#[test]
fn the_program_the_ports_and_the_state() {
    let served = Served::new(Some(ENTITIES));
    let mut client = served.connect();
    let config = client.call(STANDARD, "bm_get_config", []);
    assert_eq!(config, Got::Result(Some(Value::text(ENTITIES))));
    let Got::Result(Some(Value::Binary(md5))) = client.call(STANDARD, "bm_get_config_md5", []) else {
        panic!()
    };
    assert_eq!(md5.len(), 16);
    let id = client.result("bm_get_id_from_name", [Value::I32(0), Value::text("TheIngress.lpm_one")]);
    assert_eq!(id, Value::I32(2));
    assert_eq!(client.standard("bm_get_id_from_name", [Value::I32(9), Value::text("x")]), Got::Declared(0));
    let Got::Result(Some(Value::Struct(info))) = client.call(STANDARD, "bm_mgmt_get_info", []) else {
        panic!()
    };
    assert_eq!((info.i64(1).unwrap(), info.i32(2).unwrap()), (3, i32::from(served.server.address().port())));
    let no_interface = [Value::text("wr-none"), Value::I32(1), Value::text("")];
    assert_eq!(client.call(STANDARD, "bm_dev_mgr_add_port", no_interface), Got::Declared(1));
    assert_eq!(client.call(STANDARD, "bm_dev_mgr_remove_port", [Value::I32(1)]), Got::Declared(1));
    let none = Got::Result(Some(Value::List(TType::Struct, vec![])));
    assert_eq!(client.call(STANDARD, "bm_dev_mgr_show_ports", []), none);

    // Clone sessions outlive what resets everything else.
    let to_port_4 = Value::structure([(1, Value::I32(4))]);
    assert_eq!(client.call(TARGET, "mirroring_session_add", [Value::I32(0), to_port_4.clone()]), DONE);
    let cells = Value::text("TheIngress.cells");
    assert_eq!(client.standard("bm_register_write", [cells.clone(), Value::I32(0), Value::I64(1)]), DONE);
    assert_eq!(client.call(STANDARD, "bm_reset_state", []), DONE);
    assert_eq!(client.result("bm_register_read", [cells, Value::I32(0)]), Value::I64(0));
    assert_eq!(client.call(TARGET, "mirroring_session_get", [Value::I32(0)]), Got::Result(Some(to_port_4)));
    assert_eq!(client.call(TARGET, "mirroring_session_delete", [Value::I32(1)]), Got::Declared(1));

    let bare = Served::new(None);
    let mut client = bare.connect();
    assert_eq!(client.call(STANDARD, "bm_get_config", []), Got::Result(Some(Value::text("{}"))));
    assert_eq!(client.standard("bm_mt_get_num_entries", [Value::text("t")]), Got::Declared(7));
}

#[test]
fn another_program_is_loaded_and_then_swapped_in() {
    let served = Served::new(Some(ENTITIES));
    let mut client = served.connect();
    let load =
        |client: &mut Client, text: &str| client.call(STANDARD, "bm_load_new_config", [Value::text(text)]);
    let swap = |client: &mut Client| client.call(STANDARD, "bm_swap_configs", []);
    let handle = served._dataplane.handle();
    let runs = || handle.with(|switch, _| switch.pipeline().program().json().to_owned()).unwrap();
    assert_eq!(swap(&mut client), Got::Declared(3), "NO_ONGOING_SWAP");
    let to_port_4 = Value::structure([(1, Value::I32(4))]);
    assert_eq!(client.call(TARGET, "mirroring_session_add", [Value::I32(5), to_port_4.clone()]), DONE);
    assert_eq!(
        client.call(PRE, "bm_mc_mgrp_create", [Value::I32(0), Value::I32(9)]),
        Got::Result(Some(Value::I32(9)))
    );
    assert!(matches!(load(&mut client, "{}"), Got::Application(reason) if reason.contains("not a program")));
    assert_eq!(load(&mut client, OTHER), DONE);
    assert_eq!(load(&mut client, OTHER), Got::Declared(2), "ONGOING_SWAP");

    // Names are those of the new program; packets still pass the old one.
    assert_eq!(client.call(STANDARD, "bm_get_config", []), Got::Result(Some(Value::text(OTHER))));
    assert_eq!(
        client.standard("bm_mt_get_num_entries", [Value::text("TheIngress.lpm_one")]),
        Got::Declared(7)
    );
    let routes = Value::text("TheIngress.routes");
    assert_eq!(client.result("bm_mt_get_num_entries", [routes.clone()]), Value::I64(0));
    assert_eq!(runs(), ENTITIES);

    assert_eq!(swap(&mut client), DONE);
    assert_eq!(runs(), OTHER);
    assert_eq!(client.result("bm_mt_get_num_entries", [routes]), Value::I64(0));
    assert_eq!(swap(&mut client), Got::Declared(3), "NO_ONGOING_SWAP");
    let session = client.call(TARGET, "mirroring_session_get", [Value::I32(5)]);
    assert_eq!(session, Got::Result(Some(to_port_4)), "the target's, not the program's");

    // A switch without a program gets its first one so.
    let bare = Served::new(None);
    let mut client = bare.connect();
    assert_eq!((load(&mut client, OTHER), swap(&mut client)), (DONE, DONE));
    assert_eq!(client.call(STANDARD, "bm_get_config", []), Got::Result(Some(Value::text(OTHER))));

    let fixed = Served::with_swap(Some(ENTITIES), false);
    let mut client = fixed.connect();
    assert_eq!(
        (load(&mut client, OTHER), swap(&mut client)),
        (Got::Declared(1), Got::Declared(1)),
        "DISABLED"
    );
}

#[test]
fn wrong_calls_are_answered_and_garbage_is_cut_off() {
    let served = Served::new(Some(ENTITIES));
    let mut client = served.connect();
    let text = |got| match got {
        Got::Application(text) => text,
        other => panic!("{other:?}"),
    };
    assert!(text(client.call(STANDARD, "bm_no_such", [])).contains("no method standard:bm_no_such"));
    assert!(text(client.call("nowhere", "bm_mt_get_entries", [])).contains("no method"));
    let name = || Value::text("TheIngress.cells");
    assert!(text(client.call(STANDARD, "bm_register_reset", [Value::I32(1), name()])).contains("context 1"));
    assert!(text(client.call(STANDARD, "bm_register_reset", [name()])).contains("expected i32"));
    assert!(text(client.standard("bm_register_read", [name()])).contains("field 3 is missing"));

    // A list of 2^31 - 1 elements, a string of as many bytes, structs in structs, no message at all.
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
        .map(|(at, &byte)| if at == 3 { 2 } else { byte })
        .collect();
    for garbage in [list, string, negative, nested, lists, unversioned, reply] {
        let mut peer = served.connect();
        peer.stream.write_all(&garbage).unwrap();
        assert!(peer.is_closed(), "{garbage:02x?}");
    }
    // A call that never ends ends at its bound. The server may hang up while it is still written.
    let mut peer = served.connect();
    let field = [&[11, 0, 9, 0, 0, 0x10, 0][..], &[0; 0x1000]].concat();
    let _ = peer.stream.write_all(header);
    let _ = (0..1000).try_for_each(|_| peer.stream.write_all(&field));
    assert!(!matches!(peer.stream.read(&mut [0; 8]), Ok(1..)));
    assert_eq!(client.standard("bm_register_reset", [name()]), DONE, "others are served as before");
}

#[test]
fn the_longest_idle_client_makes_room() {
    let served = Served::new(None);
    let config = |client: &mut Client| client.call(STANDARD, "bm_get_config", []);
    let mut clients: Vec<Client> = (0..16).map(|_| served.connect()).collect();
    for client in &mut clients {
        assert!(matches!(config(client), Got::Result(_)));
    }
    // The first one is used again, so the second is idle longest.
    assert!(matches!(config(&mut clients[0]), Got::Result(_)));
    let mut one_more = served.connect();
    assert!(matches!(config(&mut one_more), Got::Result(_)));
    assert!(clients[1].is_closed());
    assert!(matches!(config(&mut clients[0]), Got::Result(_)));
    drop(served);
    assert!(clients[0].is_closed(), "the end of the server is the end of its clients");
}
