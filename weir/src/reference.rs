//! Generates the reference of experiment files, as text, from their JSON Schema.

use serde_json::{Map, Value};
use std::fmt::Write as _;

/// One key: its path, the type of its values, its default and its description.
struct Key {
    path: String,
    value_type: String,
    /// Empty if there is none; `required` if the key must be given.
    default: String,
    description: String,
}

/// Width of the terminal reference, which leaves a margin on a terminal with 80 columns.
const WIDTH: usize = 78;
/// Columns at which the descriptions of keys and of kinds begin.
const KEY_COLUMN: usize = 26;
const KIND_COLUMN: usize = 15;

/// Returns the reference as Markdown: the keys of a file, then one section for each kind of topology,
/// workload and fault.
pub(crate) fn markdown(schema: &Value) -> String {
    let mut text = String::from(HEADING);
    table(&mut text, &keys(schema, schema));
    for (definition, heading) in SECTIONS {
        let _ = write!(text, "\n## {heading}\n");
        for kind in kinds(schema, definition) {
            let (name, keys) = (kind_of(kind), keys(schema, kind));
            let _ = write!(text, "\n### {name}\n\n{}\n\n", first_paragraph(kind, schema));
            table(&mut text, &keys);
        }
    }
    text
}

/// Sections of the reference: the definition whose kinds the section lists, and the heading.
const SECTIONS: [(&str, &str); 3] =
    [("TopologySpec", "Topologies"), ("Workload", "Workloads"), ("FaultSpec", "Faults")];

/// Returns the reference for a terminal with 80 columns: the keys of a file with their descriptions, and the
/// names of the keys of every kind.
pub(crate) fn terminal(schema: &Value) -> String {
    let mut text = String::new();
    for key in keys(schema, schema) {
        let default = match key.default.as_str() {
            "" => String::new(),
            "required" => " Required.".to_owned(),
            default => format!(" Default: {default}."),
        };
        entry(&mut text, &key.path, KEY_COLUMN, &format!("{}{default}", key.description));
    }
    for (definition, heading) in SECTIONS {
        let _ = write!(text, "\n{heading}, each with its keys (* required):\n\n");
        for kind in kinds(schema, definition) {
            let names = keys(schema, kind).into_iter().filter(|key| !key.path.contains('.'));
            let names: Vec<String> = names
                .map(|key| if key.default == "required" { format!("{}*", key.path) } else { key.path })
                .collect();
            let description = first_paragraph(kind, schema);
            let description = description.trim_end_matches('.');
            entry(
                &mut text,
                kind_of(kind),
                KIND_COLUMN,
                &format!("{description}. Keys: {}", names.join(", ")),
            );
        }
    }
    text
}

/// Writes a name with its description in the next column, or below the name if the name is too long.
fn entry(text: &mut String, name: &str, column: usize, description: &str) {
    let mut lines = wrap(description, WIDTH - column).into_iter();
    // Two spaces before the name, at least one after it.
    match name.len() + 3 <= column {
        true => {
            let (width, first) = (column - 2, lines.next().unwrap_or_default());
            let _ = writeln!(text, "  {name:width$}{first}");
        }
        false => {
            let _ = writeln!(text, "  {name}");
        }
    }
    for line in lines {
        let _ = writeln!(text, "{:column$}{line}", "");
    }
}

/// Returns the schemas of all kinds of a definition.
fn kinds<'a>(schema: &'a Value, definition: &str) -> impl Iterator<Item = &'a Value> {
    schema["$defs"][definition]["oneOf"].as_array().into_iter().flatten()
}

const HEADING: &str = "\
# Keys of an experiment file

`weir schema --markdown` writes this page from the types that read the file, and `weir schema` the JSON Schema for editors:
with `# yaml-language-server: $schema=weir.schema.json` in the first line, an editor completes and checks the keys and
their values. The experiments of this repository have this line and the schema, `experiments/weir.schema.json`.
Unknown keys are errors. Quantities have units: `1.5us`, `500KB`, `100Gbps`.

";

fn table(text: &mut String, keys: &[Key]) {
    let _ = write!(text, "| key | takes | default | meaning |\n|---|---|---|---|\n");
    for Key { path, value_type, default, description } in keys {
        let default = if default.is_empty() { "-".to_owned() } else { format!("`{default}`") };
        let default = if default == "`required`" { "required".to_owned() } else { default };
        let _ = writeln!(
            text,
            "| `{path}` | {value_type} | {default} | {} |",
            link_page(&description.replace('|', "\\|"))
        );
    }
}

/// Turns the first page in parentheses, as in `(docs/algorithms/pfc.md#classes)`, into a link.
fn link_page(description: &str) -> String {
    let link = || {
        let (before, rest) = description.split_once("(docs/")?;
        let (page, after) = rest.split_once(')')?;
        Some(format!("{before}([docs/{page}]({page})){after}"))
    };
    link().unwrap_or_else(|| description.to_owned())
}

/// Returns the name of a kind: the constant of its `kind` property.
fn kind_of(schema: &Value) -> &str {
    schema["properties"]["kind"]["const"].as_str().unwrap_or_default()
}

/// Returns the first paragraph of the description of a schema, or of the definition to which it refers, in
/// one line.
fn first_paragraph(schema: &Value, root: &Value) -> String {
    let description = schema["description"].as_str();
    let text = description.or_else(|| resolve(schema, root)["description"].as_str()).unwrap_or_default();
    // Links of rustdoc and line breaks are removed.
    let first = text.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    first.replace("[`", "`").replace("`]", "`")
}

/// Returns the definition to which a schema refers, or the schema itself.
fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|path| path.strip_prefix('#')) {
        Some(path) => root.pointer(path).unwrap_or(schema),
        None => schema,
    }
}

/// Returns all keys of an object and of nested objects, in the order of declaration.
fn keys(root: &Value, object: &Value) -> Vec<Key> {
    let mut keys = Vec::new();
    collect_keys(root, object, "", &mut keys);
    keys
}

fn collect_keys(root: &Value, object: &Value, prefix: &str, keys: &mut Vec<Key>) {
    let object = resolve(object, root);
    let empty = Map::new();
    let required: Vec<&str> =
        object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, schema) in object["properties"].as_object().unwrap_or(&empty) {
        // The headings name the kinds.
        if name == "kind" {
            continue;
        }
        let path = format!("{prefix}{name}");
        keys.push(Key {
            value_type: value_type(root, schema),
            default: match required.contains(&name.as_str()) {
                true => "required".to_owned(),
                false => format_default(schema),
            },
            description: first_paragraph(schema, root),
            path: path.clone(),
        });
        if let Some(inner) = nested_object(root, schema) {
            let separator = match value_type(root, schema) {
                takes if takes.starts_with("list") => "[].",
                takes if takes == KEYS_BY_NAME => ".<name>.",
                _ => ".",
            };
            collect_keys(root, inner, &format!("{path}{separator}"), keys);
        }
    }
}

/// Returns the object whose keys are listed below a key: its value, one alternative of its value, or an
/// element of its list.
fn nested_object<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    let schema = resolve(schema, root);
    let is_object = |schema: &&Value| resolve(schema, root)["properties"].is_object();
    // Kinds have their own sections; the parameters of schemes are in `weir schemes`.
    let alternatives = schema["anyOf"].as_array().into_iter().flatten();
    let direct = Some(schema).filter(is_object);
    direct
        .or_else(|| alternatives.into_iter().find_map(|alternative| nested_object(root, alternative)))
        .or_else(|| schema.get("items").and_then(|items| nested_object(root, items)))
        .or_else(|| schema.get("additionalProperties").and_then(|values| nested_object(root, values)))
}

/// Returns a short description of the values of a key.
fn value_type(root: &Value, schema: &Value) -> String {
    let resolved = resolve(schema, root);
    // Weir's types describe their text in `format`, such as `a time`; the formats of JSON Schema have no space.
    if let Some(format) = resolved["format"].as_str().filter(|format| format.contains(' ')) {
        return format.to_owned();
    }
    if let Some(constant) = resolved.get("const") {
        return format!("`{}`", format_value(constant));
    }
    if let (Some(title), true) = (resolved["title"].as_str(), resolved["enum"].is_array()) {
        return title.to_owned();
    }
    if let Some(values) = resolved["enum"].as_array() {
        let values: Vec<String> = values
            .iter()
            .filter(|value| !value.is_boolean())
            .map(|value| format!("`{}`", format_value(value)))
            .collect();
        return values.join(", ");
    }
    if let Some(alternatives) = resolved["anyOf"].as_array().or_else(|| resolved["oneOf"].as_array()) {
        if alternatives.iter().any(|alternative| alternative["properties"]["kind"]["const"].is_string()) {
            return "a kind and its keys, below".to_owned();
        }
        if alternatives.iter().any(|alternative| alternative["properties"]["scheme"]["const"].is_string()) {
            return "`{scheme, label, set}`".to_owned();
        }
        let mut words: Vec<String> = alternatives
            .iter()
            .filter(|alternative| alternative["type"] != "null")
            .map(|alternative| value_type(root, alternative))
            .collect();
        words.dedup();
        return words.join(", or ");
    }
    match &resolved["type"] {
        Value::Array(types) => {
            let words: Vec<String> = types
                .iter()
                .filter(|kind| *kind != "null")
                .map(|kind| type_name(root, resolved, kind))
                .collect();
            words.join(" or ")
        }
        single => type_name(root, resolved, single),
    }
}

/// What a map takes whose keys are names, as those of hosts.
const KEYS_BY_NAME: &str = "names, each with keys below";

/// Returns the description of a JSON Schema type.
fn type_name(root: &Value, schema: &Value, kind: &Value) -> String {
    match kind.as_str() {
        Some("string") => "text".to_owned(),
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("integer") => "a whole number".to_owned(),
        Some("number") => "a number".to_owned(),
        Some("array") => format!("list of {}", value_type(root, &schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() && !schema["properties"].is_object() => {
            KEYS_BY_NAME.to_owned()
        }
        Some("object") => "keys below".to_owned(),
        _ => "anything".to_owned(),
    }
}

/// Returns the default of a key; empty if it has none.
fn format_default(schema: &Value) -> String {
    match &schema["default"] {
        Value::Null => String::new(),
        Value::Array(list) if list.is_empty() => String::new(),
        // One of several forms, such as `off` or a map: the default is this map, and not the defaults of its keys.
        Value::Object(keys) if schema["anyOf"].is_array() || is_off_or_keys(schema) => {
            let keys = keys.iter().map(|(key, value)| format!("{key}: {}", format_value(value)));
            format!("{{{}}}", keys.collect::<Vec<_>>().join(", "))
        }
        // The keys of a nested object have their own defaults.
        Value::Object(_) => String::new(),
        other => format_value(other),
    }
}

/// Returns true if the value of a key is `off` or a map of keys.
fn is_off_or_keys(schema: &Value) -> bool {
    schema["$ref"].as_str().is_some_and(|path| path.starts_with("#/$defs/OffOr"))
}

fn format_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Breaks a text at spaces into lines of at most `width` characters.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
