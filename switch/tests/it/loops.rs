//! Programs that do not terminate. BMv2 runs them forever; here their packets are dropped with a reason, in both
//! engines.

use crate::bmv2_json::{ARRIVAL, SPEC, assign, clone_at_egress, field, number, with_ingress};
use serde_json::{Value, json};
use weir_switch::drops::DropReason;
use weir_switch::pipeline::{EgressMeta, EgressVerdict, IngressVerdict, SideEffects};
use weir_switch::program::Engine;
use weir_switch::{Packet, Pipeline, Program};

const ENGINES: [Engine; 2] = [Engine::Compiled, Engine::Interpreter];
const PARSER: IngressVerdict = IngressVerdict::Abort(DropReason::ParserLoop);
const ACTION: IngressVerdict = IngressVerdict::Abort(DropReason::ActionLoop);
const PORT_2: IngressVerdict = IngressVerdict::Unicast { port: 2, priority: 0 };

fn pipeline(program: &Value, engine: Engine) -> Pipeline {
    Pipeline::new(Program::load(&program.to_string(), engine).unwrap(), 1)
}

/// Returns the verdict of ingress on a frame, which must be the same in both engines.
fn verdict(program: &Value, frame: &[u8]) -> IngressVerdict {
    let [compiled, interpreter] = ENGINES.map(|engine| {
        let mut effects = SideEffects::default();
        let verdict =
            pipeline(program, engine).ingress(&mut Packet::from_bytes(frame), ARRIVAL, &mut effects);
        assert!(verdict == PORT_2 || effects.clones.is_empty() && effects.digests.is_empty());
        verdict
    });
    assert_eq!(compiled, interpreter, "{frame:02x?}");
    compiled
}

fn state(name: &str, ops: Value, key: Value, transitions: &[(Option<&str>, Option<&str>)]) -> Value {
    let transition = |(value, next): &(Option<&str>, Option<&str>)| match value {
        Some(value) => json!({"type": "hexstr", "value": value, "mask": null, "next_state": next}),
        None => json!({"type": "default", "value": null, "mask": null, "next_state": next}),
    };
    let transitions: Vec<Value> = transitions.iter().map(transition).collect();
    json!({"name": name, "id": 0, "parser_ops": ops, "transition_key": key, "transitions": transitions})
}

fn extract(header: &str) -> Value {
    json!({"op": "extract", "parameters": [{"type": "regular", "value": header}]})
}

/// Returns a program with this parser, whose ingress sends all packets to port 2.
fn with_parser(states: Value) -> Value {
    let mut program = with_ingress(json!([assign(SPEC, number(2))]));
    // Headers of no bytes and of one byte, a counter, and a stack.
    let types = program["header_types"].as_array_mut().unwrap();
    types.push(json!({"name": "none_t", "id": 2, "fields": []}));
    types.push(json!({"name": "byte_t", "id": 3, "fields": [["byte", 8, false]]}));
    types.push(json!({"name": "count_t", "id": 4, "fields": [["count", 32, false]]}));
    let headers = program["headers"].as_array_mut().unwrap();
    headers.push(json!({"name": "none", "id": 3, "header_type": "none_t", "metadata": false}));
    headers.push(json!({"name": "byte", "id": 4, "header_type": "byte_t", "metadata": false}));
    headers.push(json!({"name": "meta", "id": 5, "header_type": "count_t", "metadata": true}));
    for index in 0..4 {
        let name = format!("stack[{index}]");
        headers.push(json!({"name": name, "id": 6 + index, "header_type": "none_t", "metadata": false}));
    }
    program["header_stacks"] =
        json!([{"name": "stack", "id": 0, "header_type": "none_t", "size": 4, "header_ids": [6, 7, 8, 9]}]);
    program["parsers"][0]["parse_states"] = states;
    program
}

const TO_ITSELF: [(Option<&str>, Option<&str>); 1] = [(None, Some("start"))];

#[test]
fn parser_loops_without_progress_are_aborted() {
    let lookahead = json!([{"type": "lookahead", "value": [0, 8]}]);
    let advance = json!([{"op": "advance", "parameters": [number(0)]}]);
    let shift = json!([{"op": "shift", "parameters": [0]}]);
    for (ops, key) in [
        (json!([]), json!([])),
        (json!([extract("none")]), json!([])),
        (json!([]), lookahead),
        (advance, json!([])),
        (shift, json!([])),
    ] {
        let program = with_parser(json!([state("start", ops, key, &TO_ITSELF)]));
        assert_eq!(verdict(&program, &[1, 2]), PARSER, "{}", program["parsers"]);
    }
    // After a header, over two states, and only for some packets.
    let program = with_parser(json!([
        state("start", json!([extract("h")]), json!([]), &[(None, Some("a"))]),
        state("a", json!([]), json!([field("h", "op")]), &[(Some("0x01"), Some("b")), (None, None)]),
        state(
            "b",
            json!([extract("none")]),
            json!([field("h", "arg")]),
            &[(Some("0x02"), Some("a")), (None, None)]
        ),
    ]));
    for (frame, expected) in [([1, 2], PARSER), ([1, 3], PORT_2), ([2, 2], PORT_2)] {
        assert_eq!(verdict(&program, &frame), expected);
    }
}

#[test]
fn parser_loops_that_consume_bytes_or_a_stack_terminate() {
    let every_byte = with_parser(json!([state("start", json!([extract("byte")]), json!([]), &TO_ITSELF)]));
    // As in BMv2 the parser's error is no reason to drop the packet.
    for len in [0, 1, 9_000, 65_535] {
        assert_eq!(verdict(&every_byte, &vec![0; len]), PORT_2, "{len} bytes");
    }
    let next = json!([{"op": "extract", "parameters": [{"type": "stack", "value": "stack"}]}]);
    let stack = with_parser(json!([state("start", next, json!([]), &TO_ITSELF)]));
    assert_eq!(verdict(&stack, &[1, 2]), PORT_2);
}

#[test]
fn both_engines_abort_a_parser_at_the_same_state() {
    let counts = |states: u32| {
        let sum = json!({"op": "+", "left": field("meta", "count"), "right": number(1)});
        let sum = json!({"type": "expression", "value": {"type": "expression", "value": sum}});
        let set = json!([{"op": "set", "parameters": [field("meta", "count"), sum]}]);
        let last = format!("{states:#010x}");
        let transitions = [(Some(last.as_str()), None), TO_ITSELF[0]];
        with_parser(json!([state("start", set, json!([field("meta", "count")]), &transitions)]))
    };
    let terminates = |states: u32| match verdict(&counts(states), &[1, 2]) {
        PORT_2 => true,
        PARSER => false,
        other => panic!("{other:?}"),
    };
    // Searches for the longest loop that terminates, at which both engines must agree.
    let (mut terminating, mut endless) = (1 << 16, 1 << 20);
    assert!(terminates(terminating) && !terminates(endless));
    while endless - terminating > 1 {
        let middle = terminating.midpoint(endless);
        *if terminates(middle) { &mut terminating } else { &mut endless } = middle;
    }
}

#[test]
fn a_parser_loop_of_a_clone_aborts_the_packet() {
    let length = json!([field("standard_metadata", "packet_length")]);
    // A clone has no length yet when it is parsed again.
    let endless = [(Some("0x00000000"), Some("start")), (None, None)];
    let mut program = with_parser(json!([state("start", json!([]), length, &endless)]));
    assert_eq!(verdict(&program, &[1, 2]), PORT_2);
    let clone = json!({"op": "clone_ingress_pkt_to_egress", "parameters": [number(1), number(1)]});
    program["field_lists"] = json!([{"name": "list", "id": 1, "elements": []}]);
    program["actions"][0]["primitives"].as_array_mut().unwrap().push(clone);
    assert_eq!(verdict(&program, &[1, 2]), PARSER);
}

fn jump(to: u64) -> Value {
    json!({"op": "_jump", "parameters": [number(to)]})
}

/// Adds 1 to cell 0 of a register.
fn count() -> [Value; 2] {
    let (array, cell) = (json!({"type": "register_array", "value": "cells"}), number(0));
    let read = json!({"type": "register", "value": ["cells", cell]});
    let sum = json!({"op": "+", "left": read, "right": number(1)});
    let sum = json!({"type": "expression", "value": {"type": "expression", "value": sum}});
    let arg = field("h", "arg");
    [
        json!({"op": "register_write", "parameters": [array, cell, sum]}),
        json!({"op": "assign", "parameters": [arg, number(7)]}),
    ]
}

fn with_register(mut program: Value) -> Value {
    program["register_arrays"] = json!([{"name": "cells", "id": 0, "size": 1, "bitwidth": 32}]);
    program["field_lists"] = json!([{"name": "list", "id": 1, "elements": []}]);
    program["learn_lists"] = json!([{"name": "list", "id": 1, "elements": []}]);
    program
}

#[test]
fn action_loops_are_aborted() {
    let cells = |pipeline: &Pipeline| pipeline.register_read("cells", 0).unwrap();
    // Effects before the abort remain; the clone, digest and resubmit do not take place.
    let clone = json!({"op": "clone_ingress_pkt_to_egress", "parameters": [number(1), number(1)]});
    let digest = json!({"op": "generate_digest", "parameters": [number(0), number(1)]});
    let resubmit = json!({"op": "resubmit", "parameters": [number(1)]});
    let [write, assign_arg] = count();
    let endless = with_register(with_ingress(json!([
        assign(SPEC, number(2)),
        clone,
        digest,
        resubmit,
        write,
        jump(4)
    ])));
    assert_eq!(verdict(&endless, &[1, 2]), ACTION);
    let repeated = |program: &Value| {
        let [compiled, interpreter] = ENGINES.map(|engine| {
            let mut pipeline = pipeline(program, engine);
            let verdict =
                pipeline.ingress(&mut Packet::from_bytes(&[1, 2]), ARRIVAL, &mut SideEffects::default());
            assert_eq!(verdict, ACTION);
            u32::from_be_bytes(cells(&pipeline).try_into().unwrap())
        });
        assert_eq!(compiled, interpreter);
        compiled
    };
    // The bound counts operations, not iterations.
    let mut long = vec![count()[0].clone()];
    long.extend(vec![assign_arg; 99]);
    long.push(jump(0));
    let (short, long) = (repeated(&endless), repeated(&with_register(with_ingress(json!(long)))));
    assert!(short > 100_000 && (5_000..20_000).contains(&long), "{short} {long}");

    // In egress and in the deparser.
    let leaves = with_ingress(json!([assign(SPEC, number(2))]));
    for part in ["egress", "deparser"] {
        let mut program = with_register(leaves.clone());
        let primitives = json!([clone_at_egress(), jump(0)]);
        match part {
            "egress" => program["actions"][1]["primitives"] = primitives,
            _ => program["deparsers"][0]["primitives"] = json!([jump(0)]),
        }
        for engine in ENGINES {
            let (mut pipeline, mut effects) = (pipeline(&program, engine), SideEffects::default());
            let mut packet = Packet::from_bytes(&[1, 2]);
            assert_eq!(pipeline.ingress(&mut packet, ARRIVAL, &mut effects), PORT_2);
            let meta = EgressMeta { port: 2, ..EgressMeta::default() };
            let aborted = EgressVerdict::Abort(DropReason::ActionLoop);
            assert_eq!(pipeline.egress(&mut packet, meta, &mut effects), aborted, "{part}, {engine:?}");
            assert!(effects.clones.is_empty());
        }
    }
}
