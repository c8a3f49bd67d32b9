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

mod formats;
mod hpcc;
mod imported;
mod mininet;
mod p4utils;
mod tutorials;

pub use formats::with_formats;
pub use imported::{ImportError, Imported, SwitchAddress};

use formats::{FORMATS, is_p4sim};
use serde_json::Value;

/// Imports the topology file of another tool: the HPCC simulator, p4-utils or the P4 tutorials. Returns `None` if the
/// text is in none of these formats; it may then be Weir's own YAML.
///
/// # Errors
///
/// The text is in one of these formats but invalid, or it is a `p4app.json` of p4lang/p4app, which is not supported.
pub fn import(text: &str) -> Result<Option<Imported>, ImportError> {
    if text.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
        if is_p4sim(text) {
            let problem = format!("a topology of p4sim: not supported; {FORMATS}");
            return Err(ImportError::at("line 2", problem));
        }
        return hpcc::import(text).map(Some);
    }
    let Ok(Value::Object(tree)) = serde_json::from_str(text) else { return Ok(None) };
    let has = |key: &str| tree.contains_key(key);
    if has("targets") && has("program") {
        let problem = format!("p4app.json of p4lang/p4app is not supported; {FORMATS}");
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
