//! What experiment files can have, and what drawn files have: kinds, keys and schemes, as labels such as
//! `faults[](impair).jitter`.

use super::generator::{Generator, NOT_DRAWN};
use serde_json::Value;
use std::collections::BTreeSet;

/// Keys whose values are drawn in one form only: not the files of a program, and no list of ports.
const ONE_FORM: [&str; 2] = ["program", "observe.ports"];

/// Returns the label of the objects at `path` that have this kind.
fn with_kind(path: &str, kind: &Value) -> String {
    kind.as_str().map_or_else(|| path.to_owned(), |kind| format!("{path}({kind})"))
}

/// Returns the label of a key. `workload` is one of `workloads`.
fn with_key(path: &str, key: &str) -> String {
    match (path, key) {
        ("", "workload") => "workloads[]".to_owned(),
        ("", key) => key.to_owned(),
        (path, key) => format!("{path}.{key}"),
    }
}

/// Adds the labels of everything that a value of this schema can have.
fn add_possible(generator: &Generator, path: &str, schema: &Value, labels: &mut BTreeSet<String>) {
    let name = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
    // A scheme and its parameters; a policy's edits are the same.
    if matches!(name, Some("SchemeEntry" | "SetSpec")) || ONE_FORM.contains(&path) {
        return;
    }
    let schema = generator.resolve(schema);
    for options in ["anyOf", "oneOf"].iter().filter_map(|key| schema[*key].as_array()) {
        options.iter().for_each(|option| add_possible(generator, path, option, labels));
    }
    if !schema["items"].is_null() {
        add_possible(generator, &format!("{path}[]"), &schema["items"], labels);
    }
    if let Value::String(constant) = &schema["const"] {
        labels.insert(format!("{path}={constant}"));
    }
    let keys = &schema["properties"];
    let path = with_kind(path, &keys["kind"]["const"]);
    for (key, sub) in keys.as_object().into_iter().flatten().filter(|(key, _)| *key != "kind") {
        let path = with_key(&path, key);
        if !NOT_DRAWN.contains(&path.as_str()) {
            labels.insert(path.trim_end_matches("[]").to_owned());
            add_possible(generator, &path, sub, labels);
        }
    }
}

/// Returns the labels of everything that experiment files can have.
pub(crate) fn possible(generator: &Generator) -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    add_possible(generator, "", &generator.schema, &mut labels);
    labels.extend(generator.catalogue.schemes.names().map(|name| format!("scheme {name}")));
    labels
}

/// Adds the labels of what a file has.
pub(crate) fn add_actual(path: &str, value: &Value, labels: &mut BTreeSet<String>) {
    match value {
        Value::Object(keys) => {
            let path = with_kind(path, &value["kind"]);
            for (key, sub) in keys.iter().filter(|(key, _)| *key != "kind") {
                let path = with_key(&path, key);
                labels.insert(path.trim_end_matches("[]").to_owned());
                add_actual(&path, sub, labels);
            }
            if let Some(name) = value["scheme"].as_str() {
                labels.insert(format!("scheme {name}"));
            }
        }
        Value::Array(items) => {
            // `workload` has the label of an item already.
            let path = if path.ends_with("[]") { path.to_owned() } else { format!("{path}[]") };
            items.iter().for_each(|item| add_actual(&path, item, labels));
        }
        Value::String(text) => {
            labels.insert(format!("{path}={text}"));
        }
        _ => (),
    }
}
