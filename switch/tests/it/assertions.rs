//! `assert` and `assume`. BMv2 ends with the first one that fails; here the packet is dropped with a reason, in both
//! engines, and a packet test fails.

use crate::bmv2_json::{ARRIVAL, SPEC, assign, clone_at_egress, field, number, with_ingress};
use serde_json::{Value, json};
use std::sync::Arc;
use weir_switch::drops::DropReason;
use weir_switch::pipeline::{EgressMeta, EgressVerdict, IngressVerdict, SideEffects};
use weir_switch::program::Engine;
use weir_switch::{Packet, Pipeline, Program, stf};

const ENGINES: [Engine; 2] = [Engine::Compiled, Engine::Interpreter];
const PORT_2: IngressVerdict = IngressVerdict::Unicast { port: 2, priority: 0 };

/// Returns the statement that `h.op` is not 7.
fn statement(name: &str) -> Value {
    let differs = json!({"op": "!=", "left": field("h", "op"), "right": number(7)});
    let differs = json!({"op": "b2d", "left": null, "right": {"type": "expression", "value": differs}});
    let differs = json!({"type": "expression", "value": {"type": "expression", "value": differs}});
    let source = json!({
        "filename": "dir/../main.p4", "line": 12, "column": 4, "source_fragment": "assert(hdr.op\n  != 7)"
    });
    match name {
        "assert" => json!({"op": name, "parameters": [differs], "source_info": source}),
        _ => json!({"op": name, "parameters": [differs]}),
    }
}

/// Returns a program with the statement in this part.
fn with_statement(part: &str, name: &str) -> Value {
    let ingress = |statements: &[Value]| {
        let mut primitives = vec![assign(SPEC, number(2))];
        primitives.extend_from_slice(statements);
        with_ingress(json!(primitives))
    };
    let mut program = ingress(&[]);
    match part {
        "parser" => {
            let call = json!({"op": "primitive", "parameters": [statement(name)]});
            program["parsers"][0]["parse_states"][0]["parser_ops"].as_array_mut().unwrap().push(call);
        }
        "ingress" => program = ingress(&[statement(name)]),
        "egress" => program["actions"][1]["primitives"] = json!([clone_at_egress(), statement(name)]),
        _ => program["deparsers"][0]["primitives"] = json!([statement(name)]),
    }
    program["field_lists"] = json!([{"name": "list", "id": 1, "elements": []}]);
    program
}

fn load(program: &Value, engine: Engine) -> Arc<Program> {
    Program::load(&program.to_string(), engine).unwrap()
}

#[test]
fn a_packet_that_fails_an_assertion_is_dropped_with_a_reason() {
    for (part, name) in
        [("parser", "assert"), ("ingress", "assume"), ("egress", "assert"), ("deparser", "assume")]
    {
        let program = with_statement(part, name);
        for engine in ENGINES {
            let mut pipeline = Pipeline::new(load(&program, engine), 1);
            let mut run = |op| {
                let (mut packet, mut effects) = (Packet::from_bytes(&[op, 2]), SideEffects::default());
                let verdict = pipeline.ingress(&mut packet, ARRIVAL, &mut effects);
                if verdict != PORT_2 {
                    return Some(verdict);
                }
                let meta = EgressMeta { port: 2, ..EgressMeta::default() };
                let verdict = pipeline.egress(&mut packet, meta, &mut effects);
                assert_eq!(effects.clones.len(), usize::from(part == "egress" && op != 7));
                match verdict {
                    EgressVerdict::Send => None,
                    EgressVerdict::Abort(reason) => Some(IngressVerdict::Abort(reason)),
                    other => panic!("{other:?}"),
                }
            };
            for op in [6, 7, 8, 7] {
                let expected = (op == 7).then_some(IngressVerdict::Abort(DropReason::AssertionFailed));
                assert_eq!(run(op), expected, "{part}, {engine:?}");
            }
            let place = match (part, name) {
                (_, "assert") => "main.p4:12: assert(hdr.op != 7)",
                ("ingress", _) => "assume in go",
                _ => "assume in the deparser",
            };
            assert_eq!(pipeline.assertions().collect::<Vec<_>>(), [(place, 2)]);
        }
    }
}

#[test]
fn a_packet_test_with_a_failed_assertion_fails() {
    for engine in ENGINES {
        let program = load(&with_statement("egress", "assert"), engine);
        let text = "packet 1 0602\npacket 1 0702\n\npacket 1 0702";
        let outcome = stf::run(program, text, "x.stf").unwrap();
        assert!(!outcome.passed() && outcome.counters.is_balanced());
        let report = outcome.to_string();
        for line in [2, 4] {
            let line = format!(
                "line {line}: an assertion failed for this packet: main.p4:12: assert(hdr.op != 7)\n"
            );
            assert_eq!(report.matches(&line).count(), 1, "{report}");
        }
        assert!(
            report.contains("FAILED: 3 packets in, 1 frames out, ") && report.contains("2 assertion_failed")
        );
        assert!(!report.contains("interpreter"), "{report}");
    }
}
