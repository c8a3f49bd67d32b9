//! Forms of BMv2's JSON that p4c writes seldom, or wrote in the past, are interpreted as in BMv2.

use serde_json::{Value, json};
use weir_switch::pipeline::{
    ActionCall, EgressMeta, EgressVerdict, IngressMeta, IngressVerdict, KeyMatch, SideEffects,
};
use weir_switch::program::Engine;
use weir_switch::{Packet, Pipeline, Program};

/// Returns a program whose ingress runs these primitives on a header `h` of two bytes; action 1 is its egress. `copy`
/// is a second instance of the standard metadata, as p4c creates for an `inout` parameter of an action.
pub(crate) fn with_ingress(primitives: Value) -> Value {
    let standard = json!([
        ["ingress_port", 9, false],
        ["egress_spec", 9, false],
        ["egress_port", 9, false],
        ["mcast_grp", 16, false],
        ["instance_type", 32, false],
        ["packet_length", 32, false],
        ["padding", 5, false]
    ]);
    json!({
        "__meta__": {"version": [2, 23]},
        "header_types": [
            {"name": "standard_metadata", "id": 0, "fields": standard},
            {"name": "h_t", "id": 1, "fields": [["op", 8, false], ["arg", 8, false]]}
        ],
        "headers": [
            {"name": "standard_metadata", "id": 0, "header_type": "standard_metadata", "metadata": true},
            {"name": "copy", "id": 1, "header_type": "standard_metadata", "metadata": true},
            {"name": "h", "id": 2, "header_type": "h_t", "metadata": false}
        ],
        "field_aliases": [["intrinsic_metadata.mcast_grp", ["standard_metadata", "mcast_grp"]]],
        "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [{
            "name": "start", "id": 0,
            "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "h"}]}],
            "transitions": [{"type": "default", "value": null, "mask": null, "next_state": null}],
            "transition_key": []
        }]}],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["h"]}],
        "actions": [
            {"name": "go", "id": 0, "runtime_data": [], "primitives": primitives},
            {"name": "leave", "id": 1, "runtime_data": [], "primitives": []}
        ],
        "pipelines": [
            {
                "name": "ingress", "id": 0, "init_table": "call", "tables": [], "conditionals": [],
                "action_calls": [{"name": "call", "id": 0, "action_id": 0, "next_node": null}]
            },
            {
                "name": "egress", "id": 1, "init_table": "last", "tables": [], "conditionals": [],
                "action_calls": [{"name": "last", "id": 1, "action_id": 1, "next_node": null}]
            }
        ]
    })
}

fn pipeline(program: &Value) -> Pipeline {
    Pipeline::new(Program::from_json(&program.to_string()).unwrap(), 1)
}

pub(crate) const ARRIVAL: IngressMeta = IngressMeta { port: 3, now: 0x1234_5678_9abc };

/// Returns the verdict of ingress on a frame `01 02` that arrives at port 3.
fn verdict(program: &Value) -> IngressVerdict {
    pipeline(program).ingress(&mut Packet::from_bytes(&[1, 2]), ARRIVAL, &mut SideEffects::default())
}

/// Adds fields to the standard metadata, each with its alias in simple_switch, if there is one.
fn extend(program: &mut Value, fields: &[(&str, u32, Option<&str>)]) {
    for (name, bits, alias) in fields {
        program["header_types"][0]["fields"].as_array_mut().unwrap().push(json!([name, bits, false]));
        if let Some(alias) = alias {
            let aliases = program["field_aliases"].as_array_mut().unwrap();
            aliases.push(json!([alias, ["standard_metadata", name]]));
        }
    }
}

pub(crate) fn assign(to: [&str; 2], from: Value) -> Value {
    json!({"op": "assign", "parameters": [{"type": "field", "value": to}, from]})
}

pub(crate) fn field(header: &str, name: &str) -> Value {
    json!({"type": "field", "value": [header, name]})
}

pub(crate) fn number(value: u64) -> Value {
    json!({"type": "hexstr", "value": format!("0x{value:x}")})
}

fn mark_to_drop(header: &str) -> Value {
    json!({"op": "mark_to_drop", "parameters": [{"type": "header", "value": header}]})
}

/// Returns the primitive that clones to session 1 with field list 1.
pub(crate) fn clone_at_egress() -> Value {
    json!({"op": "clone_egress_pkt_to_egress", "parameters": [number(1), number(1)]})
}

fn unicast(port: u16) -> IngressVerdict {
    IngressVerdict::Unicast { port, priority: 0 }
}

pub(crate) const SPEC: [&str; 2] = ["standard_metadata", "egress_spec"];
const GROUP: [&str; 2] = ["standard_metadata", "mcast_grp"];

#[test]
fn mark_to_drop_modifies_its_argument() {
    // As p4c compiles an action with an `inout standard_metadata_t` parameter: copied in, marked, copied back.
    let copied = |copy_out: bool| {
        let mut primitives = vec![
            assign(SPEC, number(2)),
            assign(GROUP, number(7)),
            assign(["copy", "egress_spec"], field(SPEC[0], SPEC[1])),
            assign(["copy", "mcast_grp"], field(GROUP[0], GROUP[1])),
            mark_to_drop("copy"),
        ];
        if copy_out {
            primitives.push(assign(SPEC, field("copy", "egress_spec")));
            primitives.push(assign(GROUP, field("copy", "mcast_grp")));
        }
        verdict(&with_ingress(json!(primitives)))
    };
    assert_eq!(copied(true), IngressVerdict::Drop);
    assert_eq!(copied(false), IngressVerdict::Multicast { group: 7, priority: 0 }, "only the copy is marked");
    let assign_header = |to: &str, from: &str| {
        let parameters = [to, from].map(|header| json!({"type": "header", "value": header}));
        json!({"op": "assign_header", "parameters": parameters})
    };
    let (copy_in, copy_out) =
        (assign_header("copy", "standard_metadata"), assign_header("standard_metadata", "copy"));
    let primitives = json!([assign(SPEC, number(2)), copy_in, mark_to_drop("copy"), copy_out]);
    assert_eq!(verdict(&with_ingress(primitives)), IngressVerdict::Drop, "copied as a whole");
    let marked = |header| json!([assign(SPEC, number(2)), assign(GROUP, number(7)), mark_to_drop(header)]);
    assert_eq!(verdict(&with_ingress(marked("standard_metadata"))), IngressVerdict::Drop);

    // A copy that a parser marks.
    let mut program = with_ingress(json!([assign(SPEC, number(2))]));
    let operations = &mut program["parsers"][0]["parse_states"][0]["parser_ops"];
    let call = json!({"op": "primitive", "parameters": [mark_to_drop("copy")]});
    operations.as_array_mut().unwrap().push(call);
    assert_eq!(verdict(&program), unicast(2));
    program["actions"][0]["primitives"] = json!([assign(SPEC, field("copy", "egress_spec"))]);
    assert_eq!(verdict(&program), IngressVerdict::Drop);

    // P4_14's primitive has no parameter.
    let drop = json!([assign(SPEC, number(2)), {"op": "drop", "parameters": []}]);
    assert_eq!(verdict(&with_ingress(drop)), IngressVerdict::Drop);
    let error =
        Program::from_json(&with_ingress(json!([mark_to_drop("h")])).to_string()).unwrap_err().to_string();
    assert_eq!(
        error,
        "actions[0].primitives[0].parameters[0]: the header has no field \"egress_spec\": it is not standard metadata"
    );
}

#[test]
fn standard_fields_that_a_program_lacks_are_0() {
    // Optional fields may be missing, together with their aliases.
    let errors = [("parser_error", 32, None), ("checksum_error", 8, None)];
    let mut program = with_ingress(json!([assign(SPEC, number(2))]));
    program["actions"][1]["primitives"] = json!([clone_at_egress()]);
    program["field_lists"] = json!([{"name": "list", "id": 1, "elements": []}]);
    extend(&mut program, &errors);
    assert_eq!(verdict(&program), unicast(2), "without a priority");
    program["field_aliases"] = json!([]);
    assert_eq!(verdict(&program), unicast(2), "without a multicast group");
    let mut pipeline = pipeline(&program);
    let (mut packet, mut effects) = (Packet::from_bytes(&[1, 2]), SideEffects::default());
    for now in [ARRIVAL.now, u64::MAX] {
        assert_eq!(pipeline.ingress(&mut packet, IngressMeta { now, ..ARRIVAL }, &mut effects), unicast(2));
        let meta = EgressMeta { port: 2, qid: 3, rid: 0xffff, now, ..EgressMeta::default() };
        assert_eq!(pipeline.egress(&mut packet, meta, &mut effects), EgressVerdict::Send);
        assert_eq!(
            effects.clones.pop().map(|clone| clone.priority),
            Some(0),
            "a field that egress writes is not mistaken for the priority"
        );
    }
}

#[test]
fn queueing_metadata_needs_all_its_fields() {
    let arg_of = |fields: &[(&str, u32, Option<&str>)]| {
        let mut program = with_ingress(json!([assign(SPEC, number(2))]));
        extend(&mut program, fields);
        let last = field("standard_metadata", "enq_qdepth");
        program["actions"][1]["primitives"] = json!([assign(["h", "arg"], last)]);
        let (mut pipeline, mut packet) = (pipeline(&program), Packet::from_bytes(&[1, 2]));
        let mut effects = SideEffects::default();
        pipeline.ingress(&mut packet, ARRIVAL, &mut effects);
        let meta = EgressMeta { port: 2, enq_qdepth: 5, ..EgressMeta::default() };
        assert_eq!(pipeline.egress(&mut packet, meta, &mut effects), EgressVerdict::Send);
        packet.bytes()[1]
    };
    let all = [
        ("enq_qdepth", 24, Some("queueing_metadata.enq_qdepth")),
        ("deq_qdepth", 24, Some("queueing_metadata.deq_qdepth")),
        ("enq_timestamp", 32, Some("queueing_metadata.enq_timestamp")),
        ("deq_timedelta", 32, Some("queueing_metadata.deq_timedelta")),
    ];
    assert_eq!((arg_of(&all), arg_of(&all[..3])), (5, 0));
}

/// A program whose ingress is one table with an exact key, `h.op`, and the action `to`, which forwards to its argument.
/// `members` are added to the JSON object of the table.
fn with_table(members: Value) -> Value {
    let mut program = with_ingress(json!([]));
    let port = json!({"type": "runtime_data", "value": 0});
    program["actions"].as_array_mut().unwrap().push(json!({
        "name": "to", "id": 2, "runtime_data": [{"name": "port", "bitwidth": 9}], "primitives": [assign(SPEC, port)]
    }));
    let mut table = json!({
        "name": "t", "id": 0, "match_type": "exact", "type": "simple", "max_size": 16, "with_counters": false,
        "key": [{"match_type": "exact", "target": ["h", "op"], "mask": null}],
        "next_tables": {"to": null}, "base_default_next": null
    });
    table.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let ingress = &mut program["pipelines"][0];
    (ingress["tables"], ingress["init_table"], ingress["action_calls"]) =
        (json!([table]), json!("t"), json!([]));
    program
}

fn ingress(pipeline: &mut Pipeline) -> IngressVerdict {
    pipeline.ingress(&mut Packet::from_bytes(&[1, 2]), ARRIVAL, &mut SideEffects::default())
}

const KEY: [u8; 1] = [1];

#[test]
fn json_without_a_version_is_taken_for_the_current_one() {
    let mut program = with_ingress(json!([assign(SPEC, number(2))]));
    program["__meta__"] = json!({});
    assert_eq!(verdict(&program), unicast(2));
    program.as_object_mut().unwrap().remove("__meta__");
    assert_eq!(verdict(&program), unicast(2));
}

#[test]
fn tables_may_name_their_actions() {
    let mut pipeline = pipeline(&with_table(json!({"actions": ["to"], "default_action": "to"})));
    let table = pipeline.table_by_name("t").unwrap();
    let to = pipeline.action_by_name(table, "to").unwrap();
    let to = |port: u8| ActionCall::action(to, [vec![port]]);
    assert_eq!(ingress(&mut pipeline), unicast(0), "BMv2 has no `default_action`: a miss does nothing");
    pipeline.table_add(table, &[KeyMatch::Exact(KEY.to_vec())], 0, &to(5)).unwrap();
    assert_eq!(ingress(&mut pipeline), unicast(5));
    assert!(pipeline.action_by_name(table, "go").is_err());
    let go = pipeline.program().actions().find(|(_, action)| action.name == "go").unwrap().0;
    let error = pipeline.table_set_default(table, &ActionCall::action(go, [])).unwrap_err().to_string();
    assert!(error.contains("go"), "only actions of the table may be its default: {error}");
    let unknown = Program::from_json(&with_table(json!({"actions": ["from"]})).to_string()).unwrap_err();
    assert_eq!(unknown.to_string(), "pipelines[0].tables[0].actions[0]: there is no action \"from\"");
    // If both are present, the ids are used.
    Program::from_json(&with_table(json!({"action_ids": [2], "actions": ["from"]})).to_string()).unwrap();
}

#[test]
fn tables_may_describe_their_action_profiles() {
    let input = json!([{"type": "field", "value": ["h", "arg"]}]);
    let selector = json!({"algo": "identity", "input": input});
    let mut pipeline = pipeline(&with_table(json!({
        "type": "indirect_ws", "act_prof_name": "ports", "selector": selector, "actions": ["to"]
    })));
    let table = pipeline.table_by_name("t").unwrap();
    let to = pipeline.member_action_by_name("ports", "to").unwrap();
    let ports = [4, 5, 6, 7].map(|port| ActionCall::action(to, [vec![port]]));
    let members = ports.map(|to| pipeline.member_add("ports", &to).unwrap());
    let group = pipeline.group_add("ports", &members).unwrap();
    pipeline.table_add(table, &[KeyMatch::Exact(KEY.to_vec())], 0, &ActionCall::Group(group)).unwrap();
    assert_eq!(ingress(&mut pipeline), unicast(6), "h.arg is 2, and the hash is h.arg");

    let without = with_table(json!({"type": "indirect_ws", "act_prof_name": "ports", "actions": ["to"]}));
    let error = Program::from_json(&without.to_string()).unwrap_err().to_string();
    assert_eq!(error, "pipelines[0].tables[0].act_prof_name: the action profile has no selector");

    let mut twice = with_table(json!({"type": "indirect", "act_prof_name": "ports", "actions": ["to"]}));
    Program::from_json(&twice.to_string()).unwrap();
    twice["pipelines"][0]["action_profiles"] = json!([{"name": "ports", "id": 0, "max_size": 4}]);
    let error = Program::from_json(&twice.to_string()).unwrap_err().to_string();
    assert_eq!(error, "pipelines[0].tables[0]: another action profile has this name");
}

#[test]
fn a_value_set_may_serve_keys_of_different_parts() {
    // The first state selects by 8 bits, the second by twice 4.
    let mut program = with_ingress(json!([assign(SPEC, field("standard_metadata", "mcast_grp"))]));
    program["header_types"].as_array_mut().unwrap().push(json!({
        "name": "halves_t", "id": 2, "fields": [["high", 4, false], ["low", 4, false]]
    }));
    let halves = json!({"name": "halves", "id": 3, "header_type": "halves_t", "metadata": false});
    program["headers"].as_array_mut().unwrap().push(halves);
    program["parse_vsets"] = json!([{"name": "set", "id": 0, "compressed_bitwidth": 8}]);
    let state = |name: &str, id: u64, header: &str, key: Value, next: Value| {
        let value = json!({"type": "parse_vset", "value": "set", "mask": null, "next_state": next});
        let default = json!({"type": "default", "value": null, "mask": null, "next_state": null});
        json!({
            "name": name, "id": id, "transition_key": key, "transitions": [value, default],
            "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": header}]}]
        })
    };
    let found = json!({"op": "set", "parameters": [{"type": "field", "value": GROUP}, number(1)]});
    let last =
        json!({"name": "found", "id": 2, "parser_ops": [found], "transition_key": [], "transitions": []});
    program["parsers"][0]["parse_states"] = json!([
        state("start", 0, "h", json!([field("h", "arg")]), json!("second")),
        state(
            "second",
            1,
            "halves",
            json!([field("halves", "high"), field("halves", "low")]),
            json!("found")
        ),
        last
    ]);
    let mut pipeline = pipeline(&program);
    let found = |pipeline: &mut Pipeline| {
        let mut packet = Packet::from_bytes(&[0, 0x25, 0x31]);
        pipeline.ingress(&mut packet, ARRIVAL, &mut SideEffects::default()) != unicast(0)
    };
    assert!(!found(&mut pipeline));
    pipeline.value_set_insert("set", &[0x25]).unwrap();
    assert!(!found(&mut pipeline), "0x31 is not in the set");
    pipeline.value_set_insert("set", &[0x31]).unwrap();
    assert!(found(&mut pipeline));
    pipeline.value_set_clear("set").unwrap();
    assert!(!found(&mut pipeline));
}

#[test]
fn copies_of_a_truncated_packet_are_not_truncated() {
    const FRAME: [u8; 6] = [1, 2, 3, 4, 5, 6];
    let call = |name: &str, arguments: &[u64]| {
        let parameters: Vec<Value> = arguments.iter().map(|argument| number(*argument)).collect();
        json!({"op": name, "parameters": parameters})
    };
    let truncate = call("truncate", &[4]);
    let egress_meta = EgressMeta { port: 2, ..EgressMeta::default() };
    // Returns the lengths of the packets that leave, the original first.
    let lengths = |ingress: &[Value], egress: &[Value]| {
        let mut program = with_ingress(json!(ingress));
        program["actions"][1]["primitives"] = json!(egress);
        program["field_lists"] = json!([{"name": "list", "id": 1, "elements": []}]);
        let (mut pipeline, mut effects) = (pipeline(&program), SideEffects::default());
        let mut packet = Packet::from_bytes(&FRAME);
        if pipeline.ingress(&mut packet, ARRIVAL, &mut effects) == IngressVerdict::Resubmit {
            return vec![packet.len()];
        }
        pipeline.egress(&mut packet, egress_meta, &mut effects);
        let mut lengths = vec![packet.len()];
        let mut clones = std::mem::take(&mut effects.clones);
        for clone in &mut clones {
            pipeline.egress(&mut clone.packet, egress_meta, &mut effects);
            lengths.push(clone.packet.len());
        }
        lengths
    };
    let group = assign(GROUP, number(7));
    let clone = |name| call(name, &[1, 1]);
    assert_eq!(lengths(std::slice::from_ref(&truncate), &[]), [4], "unicast");
    assert_eq!(lengths(&[], std::slice::from_ref(&truncate)), [4], "in egress");
    assert_eq!(lengths(&[truncate.clone(), group.clone()], &[]), [6], "multicast");
    assert_eq!(lengths(&[group], std::slice::from_ref(&truncate)), [4], "each replica by itself");
    assert_eq!(lengths(&[truncate.clone(), clone("clone_ingress_pkt_to_egress")], &[]), [4, 6], "I2E");
    assert_eq!(
        lengths(std::slice::from_ref(&truncate), &[clone("clone_egress_pkt_to_egress")]),
        [4, 6],
        "E2E"
    );
    assert_eq!(lengths(&[truncate.clone(), call("resubmit", &[1])], &[]), [6], "resubmitted");
    assert_eq!(lengths(&[truncate], &[call("recirculate", &[1])]), [6], "recirculated");
}

#[test]
fn a_hash_covers_variable_fields_of_a_tuple() {
    // p4c copies such a field to a metadata header that has nothing else, and hashes that.
    let destination = assign(SPEC, number(0));
    let mut program = with_ingress(json!([
        destination,
        {"op": "assign_VL", "parameters": [field("tuple", "field"), field("options", "data")]},
        {"op": "modify_field_with_hash_based_offset", "parameters": [
            {"type": "field", "value": SPEC}, number(0), {"type": "calculation", "value": "calc"}, number(256)
        ]}
    ]));
    let options = json!([["length", 8, false], ["data", "*"], ["next", 8, false]]);
    let types = program["header_types"].as_array_mut().unwrap();
    types.push(json!({"name": "options_t", "id": 2, "fields": options, "max_length": 10}));
    types.push(json!({"name": "$varbit64", "id": 3, "fields": [["field", "*"]], "max_length": 8}));
    let headers = program["headers"].as_array_mut().unwrap();
    headers.push(json!({"name": "options", "id": 3, "header_type": "options_t", "metadata": false}));
    headers.push(json!({"name": "tuple", "id": 4, "header_type": "$varbit64", "metadata": true}));
    let length = json!({"op": "*", "left": field("h", "arg"), "right": number(8)});
    let length = json!({"type": "expression", "value": {"type": "expression", "value": length}});
    let operations = &mut program["parsers"][0]["parse_states"][0]["parser_ops"];
    operations.as_array_mut().unwrap().push(json!({
        "op": "extract_VL", "parameters": [{"type": "regular", "value": "options"}, length]
    }));
    program["deparsers"][0]["order"] = json!(["h", "options"]);
    let input = json!([field("h", "op"), field("tuple", "field")]);
    program["calculations"] = json!([{"name": "calc", "id": 0, "algo": "xor16", "input": input}]);
    let mut pipeline = pipeline(&program);
    for data in [&[][..], &[0x11], &[0x11, 0x22, 0x44], &[1, 2, 3, 4, 5, 6, 7, 8]] {
        let frame = [&[0x80, data.len() as u8, data.len() as u8][..], data, &[0xee, 9]].concat();
        let (mut packet, mut effects) = (Packet::from_bytes(&frame), SideEffects::default());
        // The port is the xor of the low bytes of the 16-bit words.
        let port = data.iter().step_by(2).fold(0, |xor, byte| xor ^ u16::from(*byte));
        assert_eq!(pipeline.ingress(&mut packet, ARRIVAL, &mut effects), unicast(port), "{data:02x?}");
        let meta = EgressMeta { port, ..EgressMeta::default() };
        assert_eq!(pipeline.egress(&mut packet, meta, &mut effects), EgressVerdict::Send);
        assert_eq!(packet.bytes(), frame);
    }
}

#[test]
fn a_checksum_of_type_ipv4_covers_its_header() {
    // A header of 16 bytes with up to 8 more, whose checksum is at byte 10. Its last fixed byte is their number.
    let fields = json!([
        ["a", 76, false],
        ["b", 4, false],
        ["sum", 16, false],
        ["c", 24, false],
        ["more", 8, false],
        ["options", "*"]
    ]);
    let mut program = with_ingress(json!([assign(SPEC, field("standard_metadata", "checksum_error"))]));
    extend(&mut program, &[("parser_error", 32, None), ("checksum_error", 8, None)]);
    program["header_types"][1] = json!({"name": "h_t", "id": 1, "fields": fields, "max_length": 24});
    let checksum = json!({
        "name": "sum", "id": 0, "target": ["h", "sum"], "type": "ipv4",
        "if_cond": {"type": "expression", "value": {"op": "!=", "left": field("h", "b"), "right": number(9)}}
    });
    program["checksums"] = json!([checksum]);
    let options_bits = json!({"type": "expression", "value": {"op": "*", "left": field("standard_metadata", "mcast_grp"), "right": number(8)}});
    program["parsers"][0]["parse_states"][0]["parser_ops"] = json!([
        {"op": "set", "parameters": [{"type": "field", "value": GROUP}, {"type": "lookahead", "value": [120, 8]}]},
        {"op": "extract_VL", "parameters": [{"type": "regular", "value": "h"}, {"type": "expression", "value": options_bits}]},
        {"op": "set", "parameters": [{"type": "field", "value": GROUP}, number(0)]}
    ]);
    let sum = |frame: &[u8]| {
        let words = frame.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        !((sum & 0xffff) + (sum >> 16)) as u16
    };
    for engine in [Engine::Compiled, Engine::Interpreter] {
        let mut pipeline = Pipeline::new(Program::load(&program.to_string(), engine).unwrap(), 1);
        for more in [0u8, 4, 8] {
            let mut frame: Vec<u8> = (1..=16 + more).collect();
            (frame[10], frame[11], frame[15]) = (0, 0, more);
            let correct = sum(&frame).to_be_bytes();
            let mut process = |b: u8, checksum: [u8; 2]| {
                frame[9] = frame[9] & 0xf0 | b;
                frame[10..12].copy_from_slice(&checksum);
                let (mut packet, mut effects) = (Packet::from_bytes(&frame), SideEffects::default());
                let verdict = pipeline.ingress(&mut packet, ARRIVAL, &mut effects);
                pipeline.egress(&mut packet, EgressMeta::default(), &mut effects);
                (verdict, [packet.bytes()[10], packet.bytes()[11]])
            };
            assert_eq!(process(10, correct), (unicast(0), correct), "{engine:?}, {more} bytes of options");
            assert_eq!(process(10, [1, 2]), (unicast(1), correct), "a wrong checksum is replaced");
            assert_eq!(process(9, [1, 2]), (unicast(0), [1, 2]), "the condition does not hold");
        }
    }
    program["checksums"][0]["target"] = json!(["h", "c"]);
    let error = Program::from_json(&program.to_string()).unwrap_err().to_string();
    let expected = "the target of a checksum of type \"ipv4\" must be bytes 10 and 11 of its header";
    assert_eq!(error, format!("checksums[0].target: {expected}"));
}

#[test]
fn strings_may_have_line_breaks() {
    let log = json!({"op": "log_msg", "parameters": [
        {"type": "string", "value": "first\nsecond\t\"third\" \\"}, {"type": "parameters_vector", "value": []}
    ]});
    let program = with_ingress(json!([log, assign(SPEC, number(2))])).to_string();
    let raw = program.replace("\\n", "\n").replace("\\t", "\t");
    assert_ne!(raw, program);
    let program = Program::from_json(&raw).unwrap();
    assert_eq!(program.json(), raw);
    let mut pipeline = Pipeline::new(program, 1);
    assert_eq!(ingress(&mut pipeline), unicast(2));
}
