//! Imports topology files of other tools.
//!
//! | tool | file |
//! |---|---|
//! | p4 tutorials | `topology.json`: `hosts`, `switches`, `links` |
//! | p4-utils | `p4app.json` with a `topology`, and the `topology.json` that it writes for controllers (node-link) |
//! | the HPCC simulator and its descendants | a text file that begins with three, four or six numbers |
//!
//! [`import`] recognises a format by the content of the file, since several formats share file names. A feature that
//! Weir lacks is a warning if the topology is correct without it, and an error otherwise.

mod hpcc;
mod imported;
mod mininet;
mod p4utils;
mod tutorials;

pub use imported::{ImportError, Imported, SwitchAddress};

use serde_json::Value;

/// Imports the topology file of another tool: the HPCC simulator, p4-utils or the P4 tutorials. Returns `None` if the
/// text is in none of these formats; it may then be Weir's own YAML.
///
/// # Errors
///
/// The text is in one of these formats but invalid, or it is a `p4app.json` of p4lang/p4app, which is not supported.
pub fn import(text: &str) -> Result<Option<Imported>, ImportError> {
    if text.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
        return hpcc::import(text).map(Some);
    }
    let Ok(Value::Object(tree)) = serde_json::from_str(text) else { return Ok(None) };
    let has = |key: &str| tree.contains_key(key);
    if has("targets") && has("program") {
        let problem =
            "p4app.json of p4lang/p4app is not supported; use a file of p4-utils or of the p4 tutorials";
        return Err(ImportError::at("targets", problem));
    }
    if has("nodes") && (has("links") || has("edges")) {
        return p4utils::import_graph(&tree).map(Some);
    }
    match tree.get("topology") {
        Some(Value::Object(topology)) if topology.contains_key("links") => {
            p4utils::import_app(&tree, topology).map(Some)
        }
        None if has("hosts") && has("switches") && has("links") && !has("kind") => {
            tutorials::import(text).map(Some)
        }
        _ => Ok(None),
    }
}

/// Appends the list of supported formats to an error message, unless the file looks like Weir's own YAML.
pub fn with_formats(text: &str, error: impl std::fmt::Display) -> String {
    if ["kind:", "topology:"].iter().any(|key| text.contains(key)) {
        return error.to_string();
    }
    format!(
        "{error}; supported topology files are Weir's YAML, topology.json of the p4 tutorials, p4app.json and topology.json \
         of p4-utils, and files of the HPCC simulator, but not htsim's .topo, containerlab, GraphML, netcfg.json and ns-3's \
         own formats"
    )
}
