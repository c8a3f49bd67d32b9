//! Locations in the P4 source, which p4c writes to the JSON with conditions, tables and statements
//! (`source_info`). Most of them are needed only by traces, and are read when the first trace starts.

use super::id_vec::IdVec;
use super::signatures::ActionId;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;

/// A location in the P4 source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// The path of the file as given to the compiler, with `..` resolved.
    pub file: String,
    /// Line number, from 1.
    pub line: u64,
    /// The source fragment that p4c recorded, with white space collapsed. It may be cut short or only an
    /// operator.
    pub text: String,
}

impl fmt::Display for SourceLocation {
    /// `controls/forwarding.p4:85: hdr.ipv4.ttl = hdr.ipv4.ttl - 1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        // A text of one or two characters is an operator, all that p4c records for some statements.
        if self.text.len() > 2 { write!(f, ": {}", self.text) } else { Ok(()) }
    }
}

/// The source locations of a program's conditions, tables and statements.
#[derive(Debug, Default)]
pub(crate) struct SourceMap {
    conditions: HashMap<String, SourceLocation>,
    tables: HashMap<String, SourceLocation>,
    /// For each action, in the order of its statements: the field or header that the statement writes, and its
    /// location.
    statements: IdVec<ActionId, Vec<(String, SourceLocation)>>,
}

impl SourceMap {
    /// Reads the source locations from BMv2 JSON.
    pub(crate) fn read(json: &str) -> SourceMap {
        let root: Value = super::json::parse(json).unwrap_or_default();
        let mut map = SourceMap::default();
        for pipeline in elements(&root["pipelines"]) {
            map.conditions.extend(locations_by_name(&pipeline["conditionals"]));
            map.tables.extend(locations_by_name(&pipeline["tables"]));
        }
        for action in elements(&root["actions"]) {
            let statement = |primitive: &Value| {
                let target = match &primitive["parameters"][0]["value"] {
                    Value::Array(names) => {
                        names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(".")
                    }
                    value => value.as_str().unwrap_or_default().to_owned(),
                };
                Some((target, location(primitive)?))
            };
            map.statements.push(elements(&action["primitives"]).filter_map(statement).collect());
        }
        map
    }

    pub(crate) fn condition(&self, name: &str) -> Option<&SourceLocation> {
        self.conditions.get(name)
    }

    pub(crate) fn table(&self, name: &str) -> Option<&SourceLocation> {
        self.tables.get(name)
    }

    /// Returns the location of the first statement of an action that writes `field` or its header.
    pub(crate) fn statement(&self, action: ActionId, field: &str) -> Option<&SourceLocation> {
        let statements = self.statements.of(action)?;
        let writes = |target: &str| {
            field.strip_prefix(target).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        statements.iter().find(|(target, _)| writes(target)).map(|(_, location)| location)
    }
}

/// Returns the elements of a list; none if the value is not a list.
fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the name and location of each object of a list that has both.
fn locations_by_name(objects: &Value) -> impl Iterator<Item = (String, SourceLocation)> {
    elements(objects).filter_map(|object| Some((object["name"].as_str()?.to_owned(), location(object)?)))
}

/// Returns the location of an object of BMv2 JSON, if it has one.
pub(crate) fn location(object: &Value) -> Option<SourceLocation> {
    let info = &object["source_info"];
    let text = info["source_fragment"].as_str().unwrap_or_default();
    Some(SourceLocation {
        file: normalize_path(info["filename"].as_str()?),
        line: info["line"].as_u64()?,
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

/// Resolves `..`: `include/../controls/x.p4` becomes `controls/x.p4`.
fn normalize_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            ("..", Some(&last)) if last != ".." && !last.is_empty() => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_found_by_name_and_by_the_target_of_a_statement() {
        let info = |file: &str, line: u32, text: &str| serde_json::json!({"filename": file, "line": line, "column": 1, "source_fragment": text});
        let json = serde_json::json!({
            "pipelines": [{
                "conditionals": [{"name": "node_1", "source_info": info("a/../b.p4", 7, "x\n  > 1")}],
                "tables": [{"name": "t"}],
            }],
            "actions": [{"primitives": [], "id": 3}, {"id": 0, "primitives": [
                {"op": "remove_header", "parameters": [{"type": "header", "value": "vlan"}],
                 "source_info": info("c.p4", 1, "hdr.vlan.setInvalid()")},
                {"op": "assign", "parameters": [{"type": "field", "value": ["ipv4", "ttl"]}],
                 "source_info": info("c.p4", 2, "=")},
            ]}],
        });
        let map = SourceMap::read(&json.to_string());
        assert_eq!(map.condition("node_1").unwrap().to_string(), "b.p4:7: x > 1");
        assert_eq!(map.table("t"), None);
        let statement = |field| map.statement(ActionId(1), field).map(SourceLocation::to_string);
        assert_eq!(statement("ipv4.ttl").as_deref(), Some("c.p4:2"));
        assert_eq!(statement("vlan.vid").as_deref(), Some("c.p4:1: hdr.vlan.setInvalid()"));
        assert_eq!(statement("ipv4.ttl2"), None);
    }
}
