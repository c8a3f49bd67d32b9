//! The JSON Schema that editors check experiment files with accepts every experiment and rejects invalid values.

use regex::Regex;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The first line of every experiment file, for editors.
const HEADER: &str = "# yaml-language-server: $schema=weir.schema.json\n";

/// Keywords that say something about a value without restricting it. `format` describes quantities here.
const ANNOTATIONS: [&str; 6] = ["$schema", "$defs", "title", "description", "default", "format"];

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments")
}

fn schema() -> Value {
    let text = fs::read_to_string(experiments().join("weir.schema.json")).expect("the schema is checked in");
    serde_json::from_str(&text).expect("JSON")
}

/// Checks `value` against the keywords that Weir's schema uses; the error has the path of the value.
fn validate(root: &Value, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else {
        return if *schema == json!(true) { Ok(()) } else { Err(format!("{path}: not allowed")) };
    };
    let fails = |reason: String| Err(format!("{path}: {reason}"));
    let matching = |alternatives: &Value| {
        let alternatives = alternatives.as_array().expect("a list of schemas");
        alternatives.iter().filter(|schema| validate(root, schema, value, path).is_ok()).count()
    };
    for (keyword, rule) in keywords {
        match keyword.as_str() {
            keyword if ANNOTATIONS.contains(&keyword) => {}
            "$ref" => {
                let definition = rule.as_str().and_then(|path| root.pointer(path.strip_prefix('#')?));
                validate(root, definition.expect("defined"), value, path)?;
            }
            "type" => {
                let is = |name: &Value| match name.as_str().expect("the name of a type") {
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_u64() || value.is_i64(),
                    "number" => value.is_number(),
                    "null" => value.is_null(),
                    "array" => value.is_array(),
                    "object" => value.is_object(),
                    other => panic!("type {other}"),
                };
                if !rule.as_array().map_or_else(|| is(rule), |names| names.iter().any(is)) {
                    return fails(format!("{value} is not of type {rule}"));
                }
            }
            "const" if value != rule => return fails(format!("{value} is not {rule}")),
            "enum" if !rule.as_array().expect("a list").contains(value) => {
                return fails(format!("{value} is not one of {rule}"));
            }
            "anyOf" if matching(rule) == 0 => return fails(format!("{value} matches no alternative")),
            "oneOf" if matching(rule) != 1 => return fails(format!("{value} matches not exactly one kind")),
            "allOf" => {
                for schema in rule.as_array().expect("a list of schemas") {
                    validate(root, schema, value, path)?;
                }
            }
            "pattern" => {
                let pattern = Regex::new(rule.as_str().expect("text")).expect("a regular expression");
                if value.as_str().is_some_and(|text| !pattern.is_match(text)) {
                    return fails(format!("{value} does not match {pattern}"));
                }
            }
            "minimum" if value.as_f64().is_some_and(|n| n < rule.as_f64().unwrap()) => {
                return fails(format!("{value} is below {rule}"));
            }
            "maximum" if value.as_f64().is_some_and(|n| n > rule.as_f64().unwrap()) => {
                return fails(format!("{value} is above {rule}"));
            }
            "properties" => {
                for (name, schema) in rule.as_object().expect("schemas by name") {
                    let Some(value) = value.get(name) else { continue };
                    validate(root, schema, value, &format!("{path}.{name}"))?;
                }
            }
            "required" => {
                let names = rule.as_array().expect("a list of names");
                let is_missing =
                    |name: &&Value| value.is_object() && value.get(name.as_str().unwrap()).is_none();
                if let Some(name) = names.iter().find(is_missing) {
                    return fails(format!("{name} is missing"));
                }
            }
            "additionalProperties" => {
                let known = &schema["properties"];
                let other =
                    value.as_object().into_iter().flatten().filter(|(name, _)| known.get(name).is_none());
                for (name, value) in other {
                    validate(root, rule, value, &format!("{path}.{name}"))?;
                }
            }
            "items" => {
                for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                    validate(root, rule, value, &format!("{path}[{index}]"))?;
                }
            }
            "minItems"
                if value.as_array().is_some_and(|list| (list.len() as u64) < rule.as_u64().unwrap()) =>
            {
                return fails(format!("fewer than {rule} entries"));
            }
            "maxItems" if value.as_array().is_some_and(|list| list.len() as u64 > rule.as_u64().unwrap()) => {
                return fails(format!("more than {rule} entries"));
            }
            "const" | "enum" | "anyOf" | "oneOf" | "minimum" | "maximum" | "minItems" | "maxItems" => {}
            other => panic!("{path}: the schema has the keyword {other}, which this test does not know"),
        }
    }
    Ok(())
}

#[test]
fn every_experiment_names_the_schema_and_is_accepted() {
    let schema = schema();
    let mut checked = 0;
    for entry in fs::read_dir(experiments()).expect("experiments").map(|entry| entry.unwrap().path()) {
        if entry.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let (name, text) = (entry.display(), fs::read_to_string(&entry).unwrap());
        assert!(text.starts_with(HEADER), "{name}: the first line is to be: {HEADER}");
        let value: Value = serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        validate(&schema, &schema, &value, "").unwrap_or_else(|error| panic!("{name}: {error}"));
        checked += 1;
    }
    assert!(checked > 50, "{checked} experiments");
}

#[test]
fn invalid_values_are_rejected() {
    const GOOD: &str =
        "{topology: {kind: leaf-spine, leaves: 2, spines: 1, hosts_per_leaf: 2, host_rate: 100 Gbit/s},
        schemes: [{scheme: fncc, set: {eta: 95%, lhcs: off}}], pfc: off, mtu: 1518B, duration: 1.5ms,
        workload: {kind: poisson, sizes: 64KB, load: 60%}, observe: {interval: .5us}}";
    let schema = schema();
    let verdict = |text: &str| validate(&schema, &schema, &serde_yaml::from_str(text).unwrap(), "");
    verdict(GOOD).unwrap();
    verdict(&GOOD.replace("1.5ms", "5_000 us").replace("60%", "0.6").replace("95%", "0.95")).unwrap();
    for (from, to) in [
        ("1.5ms", "5 parsecs"),
        ("1.5ms", "5"),
        ("1.5ms", "-5us"),
        ("100 Gbit/s", "100Gb"),
        ("100 Gbit/s", "100gbps"),
        ("1518B", "1518"),
        ("1518B", "1.2.3KB"),
        ("60%", "60"),
        ("60%", "x"),
        ("60%", "-1%"),
        ("95%", "x"),
        ("95%", "-0.5"),
        ("lhcs: off", "lhcs: sometimes"),
        ("lhcs: off", "lhsc: off"),
        ("leaves: 2", "leaves: -4"),
        ("leaves: 2", "leaf: 2"),
        ("scheme: fncc", "scheme: FNCC"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        assert!(verdict(&GOOD.replace(from, to)).is_err(), "{to} is accepted instead of {from}");
    }
}
