//! The JSON Schema of experiment files, for editors and for `docs/keys.md`.

use crate::catalogue::Catalogue;
use crate::file::ExperimentSpec;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};
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
        let schemes: Vec<Value> = self.schemes.schemes().map(|scheme| long_form(&*scheme)).collect();
        let names: Vec<&str> = self.schemes.schemes().map(|scheme| scheme.name()).collect();
        definitions["SchemeEntry"] =
            json!({"anyOf": [{"title": "a scheme's name", "enum": names}, {"oneOf": schemes}]});
        schema
    }
}

/// Returns the schema of a scheme's long form, with a label and parameters.
fn long_form(scheme: &dyn SchemeConfig) -> Value {
    let mut set = json!({});
    for parameter in scheme.parameters() {
        let info = parameter.info;
        set[info.name] = json!({
            "type": ["string", "number", "boolean"],
            "format": info.range,
            "default": parameter.default,
            "description": format!("{} ({})", info.help, info.source),
        });
    }
    json!({
        "title": scheme.name(),
        "description": scheme.about(),
        "type": "object",
        "properties": {
            "scheme": {"const": scheme.name()},
            "label": {"type": "string", "description": "Name in the results; absent: the name of the scheme."},
            "set": {"type": "object", "properties": set, "additionalProperties": false},
        },
        "required": ["scheme"],
        "additionalProperties": false,
    })
}
