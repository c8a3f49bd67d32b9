//! Invalid programs are rejected with the location of the error.

use serde_json::{Value, json};
use std::path::Path;
use weir_switch::Program;

fn tables() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tables.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn load_error(program: &Value) -> String {
    Program::from_json(&program.to_string()).unwrap_err().to_string()
}

/// Returns the error after one value of a valid program has been replaced.
fn error_after_change(pointer: &str, to: Value) -> String {
    let mut program = tables();
    *program.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = to;
    load_error(&program)
}

#[test]
fn malformed_json_is_rejected() {
    let error = Program::from_json("{\n  \"headers\": [1,,]\n}").unwrap_err().to_string();
    assert!(error.starts_with("2:17: not JSON"), "{error}");
    assert_eq!(load_error(&json!([])), "the file: expected an object");
    assert_eq!(load_error(&json!({})), "the file: \"header_types\" is missing");
}

#[test]
fn other_major_versions_are_rejected() {
    let error = error_after_change("/__meta__/version", json!([3, 0]));
    assert_eq!(
        error,
        "__meta__.version: version 3 of the format is not supported, only 2: compile with a current p4c"
    );
    assert_eq!(
        error_after_change("/__meta__/version/0", json!("2")),
        "__meta__.version[0]: expected an integer"
    );
    assert_eq!(
        error_after_change("/__meta__/version", json!([2])),
        "__meta__.version: expected 2 elements, found 1"
    );
    let mut newer = tables();
    newer["__meta__"]["version"] = json!([2, 99]);
    assert!(Program::from_json(&newer.to_string()).is_ok(), "a minor version only adds features");
}

#[test]
fn unknown_names_are_reported() {
    let index =
        |list: &Value, test: &dyn Fn(&Value) -> bool| list.as_array().unwrap().iter().position(test).unwrap();
    let program = tables();
    let action =
        index(&program["actions"], &|action| action["primitives"].as_array().is_some_and(|p| !p.is_empty()));
    assert_eq!(
        error_after_change(&format!("/actions/{action}/primitives/0/op"), json!("teleport")),
        format!("actions[{action}].primitives[0].op: primitive \"teleport\" is not supported")
    );
    let table = index(&program["pipelines"][0]["tables"], &|table| table["name"] == "MyIngress.masked");
    assert_eq!(
        error_after_change(&format!("/pipelines/0/tables/{table}/key/1/match_type"), json!("closest")),
        format!("pipelines[0].tables[{table}].key[1].match_type: match kind \"closest\" is not supported")
    );
    assert_eq!(
        error_after_change(&format!("/pipelines/0/tables/{table}/key/1/target"), json!(["key", "nothing"])),
        format!("pipelines[0].tables[{table}].key[1].target[1]: header type key_t has no field \"nothing\"")
    );
    assert_eq!(
        error_after_change(&format!("/pipelines/0/tables/{table}/type"), json!("magic")),
        format!("pipelines[0].tables[{table}].type: a table of type \"magic\" is not supported")
    );
    assert_eq!(
        error_after_change("/extern_instances", json!([{"name": "x", "id": 0, "type": "ALU"}])),
        "extern_instances[0]: extern \"ALU\" is not supported"
    );
    assert_eq!(
        error_after_change("/calculations/0/algo", json!("md5")),
        "calculations[0].algo: hash algorithm \"md5\" is not supported"
    );
    assert_eq!(
        error_after_change("/parsers/0/parse_states/0/parser_ops/0/op", json!("guess")),
        "parsers[0].parse_states[0].parser_ops[0].op: parser operation \"guess\" is not supported"
    );
    assert_eq!(
        error_after_change("/pipelines/0/init_table", json!("nowhere")),
        "pipelines[0].init_table: there is no node \"nowhere\""
    );
    let condition = "/pipelines/0/conditionals/0";
    assert_eq!(
        error_after_change(&format!("{condition}/expression/value/op"), json!("<=>")),
        "pipelines[0].conditionals[0].expression.value.op: operation \"<=>\" is not supported"
    );
    let first = program.pointer(&format!("{condition}/name")).unwrap().clone();
    let cycle = error_after_change(&format!("{condition}/false_next"), first);
    assert!(cycle.starts_with("pipelines[0]: the control flow has a cycle"), "{cycle}");
    assert_eq!(
        error_after_change("/pipelines/1/name", json!("middle")),
        "pipelines[1].name: a pipeline named \"middle\" is not supported"
    );
    assert_eq!(
        error_after_change("/meter_arrays/0/type", json!("apples")),
        "meter_arrays[0].type: a meter of \"apples\" is not supported"
    );
}

#[test]
fn excessive_sizes_are_rejected() {
    let error = error_after_change("/register_arrays/0/size", json!(1u64 << 40));
    assert_eq!(error, "register_arrays[0].size: expected a number from 0 to 16777216, found 1099511627776");
    let error = error_after_change("/header_types/0/fields/0/1", json!(1_000_000));
    assert!(error.starts_with("header_types[0].fields[0]"), "{error}");
}
