//! The JSON Schema of experiment files, for editors and for `docs/keys.md`.

use crate::catalogue::Catalogue;
use crate::file::ExperimentSpec;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};
use weir_host::parameter::ValueSyntax;
use weir_host::scheme::SchemeConfig;

impl Catalogue {
    /// Returns the JSON Schema (draft 2020-12) of experiment files with the schemes, workloads and topologies of the catalogue.
    pub fn schema(&self) -> Value {
        let mut generator = SchemaGenerator::default();
        let root = generator.root_schema_for::<ExperimentSpec>();
        let workloads = self.workloads.schemas(&mut generator);
        let topologies = self.topologies.schemas(&mut generator);
        let mut schema = root.to_value();
        let definitions = &mut schema["$defs"];
        for (name, definition) in generator.take_definitions(true) {
            if definitions[&name].is_null() {
                definitions[&name] = definition;
            }
        }
        definitions["Workload"] = json!({"oneOf": workloads});
        if let Some(kinds) = definitions["TopologySpec"]["oneOf"].as_array_mut() {
            kinds.extend(topologies.into_iter().map(Schema::to_value));
        }
        if let Some(faults) = definitions["FaultSpec"]["oneOf"].as_array_mut() {
            let loss = faults.iter().find(|fault| fault["properties"]["kind"]["const"] == "impair").map(loss);
            faults.splice(0..0, loss);
        }
        let schemes: Vec<Value> = self.schemes.schemes().map(|scheme| long_form(&*scheme)).collect();
        let names: Vec<&str> = self.schemes.schemes().map(|scheme| scheme.name()).collect();
        definitions["SchemeEntry"] =
            json!({"anyOf": [{"title": "a scheme's name", "enum": names}, {"oneOf": schemes}]});
        add_false(&mut schema);
        schema
    }
}

/// Returns the schema of the fault `loss`, an alias of `impair`, whose `loss` it calls `rate`.
fn loss(impair: &Value) -> Value {
    let mut schema = impair.clone();
    schema["description"] =
        "Frames on links are lost: `impair` with `loss` alone, here called `rate`.".into();
    schema["required"] = json!(["kind", "rate"]);
    let keys = &mut schema["properties"];
    keys["kind"]["const"] = "loss".into();
    keys["rate"] = keys["loss"].take();
    // `null`, which the optional `loss` allows, is no probability.
    keys["rate"]["type"] = json!(["string", "number"]);
    if let Some(keys) = keys.as_object_mut() {
        keys.retain(|key, _| ["from", "kind", "links", "rate", "to"].contains(&key.as_str()));
    }
    schema
}

/// Adds the default `false` to optional booleans, which schemars leaves out of types that do not write defaults.
fn add_false(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(add_false),
        Value::Object(keywords) => {
            let required = keywords.get("required").cloned().unwrap_or_default();
            let is_required = |name: &str| {
                required.as_array().is_some_and(|names| names.iter().any(|required| required == name))
            };
            if let Some(Value::Object(properties)) = keywords.get_mut("properties") {
                for (name, property) in properties {
                    if property["type"] == "boolean" && property["default"].is_null() && !is_required(name) {
                        property["default"] = false.into();
                    }
                }
            }
            keywords.values_mut().for_each(add_false);
        }
        _ => {}
    }
}

/// Returns the schema of a scheme's long form, with a label and parameters.
fn long_form(scheme: &dyn SchemeConfig) -> Value {
    let mut set = json!({});
    for parameter in scheme.parameters() {
        let info = parameter.info;
        let ValueSyntax { types, pattern, limits } = parameter.syntax;
        let mut value = json!({
            "type": types,
            "format": info.range,
            "default": parameter.default,
            "description": format!("{} ({})", info.help, info.source),
        });
        if let Some(pattern) = pattern {
            value["pattern"] = pattern.into();
        }
        // Infinity is no JSON number and no limit.
        let limits = limits.map_or([f64::NEG_INFINITY, f64::INFINITY], |(min, max)| [min, max]);
        for (key, limit) in
            ["minimum", "maximum"].into_iter().zip(limits).filter(|(_, limit)| limit.is_finite())
        {
            value[key] = limit.into();
        }
        set[info.name] = value;
    }
    json!({
        "title": scheme.name(),
        "description": scheme.about(),
        "type": "object",
        "properties": {
            "scheme": {"const": scheme.name()},
            "label": {"type": "string", "description": "Name in the results; absent: the name of the scheme."},
            "set": {"type": "object", "properties": set, "additionalProperties": false},
            "program": {
                "$ref": "#/$defs/ProgramSpec",
                "description": "P4 program of all switches for this scheme; absent: that of the experiment.",
            },
            "entries": {
                "type": "array", "items": {"$ref": "#/$defs/EntriesSpec"},
                "description": "Table entries for this scheme, in place of those of the experiment.",
            },
        },
        "required": ["scheme"],
        "additionalProperties": false,
    })
}
