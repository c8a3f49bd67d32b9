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
mod p4utils;
mod tutorials;

use crate::topology::TopologySpec;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use thiserror::Error;
use weir_units::{Bandwidth, RateCode, Time};

/// The contents of an imported file.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// Always a custom topology.
    pub topology: TopologySpec,
    /// For each switch, the path of its entries file (`sX-runtime.json`), as written in the topology file.
    pub runtime: BTreeMap<String, String>,
    /// For each switch, its gRPC port and device id; empty for formats that do not define them.
    pub switch_addresses: BTreeMap<String, SwitchAddress>,
    /// Parts of the file that were not or only approximately converted.
    pub warnings: Vec<String>,
}

/// P4Runtime address of a switch in another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchAddress {
    pub grpc_port: u16,
    pub device_id: u64,
}

/// An error in an imported file. `place` is a line number or a key path such as `links[3]`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}")]
pub struct ImportError {
    pub place: String,
    pub problem: String,
}

impl ImportError {
    fn at(place: impl Into<String>, problem: impl std::fmt::Display) -> ImportError {
        ImportError { place: place.into(), problem: problem.to_string() }
    }
}

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
        let problem = "this is a p4app.json of p4lang/p4app, which is not supported; p4-utils' and p4 tutorials' files are";
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
pub fn with_formats(text: &str, why: impl std::fmt::Display) -> String {
    if ["kind:", "topology:"].iter().any(|key| text.contains(key)) {
        return why.to_string();
    }
    format!(
        "{why}; topologies are read in Weir's YAML, as the p4 tutorials' topology.json, p4-utils' p4app.json and \
         topology.json, and files of the HPCC simulator; htsim's .topo, containerlab, GraphML, netcfg.json and ns-3's own \
         formats are not read yet"
    )
}

/// Converts a rate in Mbit/s. If telemetry has no code for the rate, uses the next higher one and adds a warning.
fn rate_of(mbps: f64, place: &str, warnings: &mut Vec<String>) -> Result<Bandwidth, ImportError> {
    let wrong = || ImportError::at(place, format!("{mbps} Mbit/s is no bandwidth"));
    if !mbps.is_finite() || mbps <= 0.0 {
        return Err(wrong());
    }
    let exact = Bandwidth::from_bps((mbps * 1e6).round() as u64);
    if RateCode::from_bandwidth(exact).is_some() {
        return Ok(exact);
    }
    let next = RateCode::rates().find(|&rate| rate > exact).ok_or_else(wrong)?;
    warnings.push(format!("{place}: {exact} has no code in telemetry, {next} is used instead"));
    Ok(next)
}

/// Converts a delay: a number without a unit is in milliseconds.
fn delay_of(json: &Value, place: &str) -> Result<Time, ImportError> {
    let wrong = || ImportError::at(place, format!("{json} is no delay"));
    let milliseconds = |ms: f64| {
        let ps = ms * 1e9;
        if ps.is_finite() && ps >= 0.0 { Ok(Time::from_ps(ps.round() as u64)) } else { Err(wrong()) }
    };
    match json {
        Value::Null => Ok(Time::ZERO),
        Value::Number(number) => milliseconds(number.as_f64().ok_or_else(wrong)?),
        Value::String(text) => match text.trim().parse::<f64>() {
            Ok(ms) => milliseconds(ms),
            Err(_) => text.trim().parse().map_err(|_| wrong()),
        },
        _ => Err(wrong()),
    }
}

/// Natural order (`s2` before `s10`), in which Mininet starts nodes and assigns ports.
fn natural(a: &str, b: &str) -> Ordering {
    let split = |name: &str| {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (word, number) = name.split_at(name.len() - digits);
        (word.to_owned(), number.parse::<u64>().unwrap_or(0))
    };
    split(a).cmp(&split(b)).then_with(|| a.cmp(b))
}

/// Sorts names in Mininet's order.
fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<String> = names.cloned().collect();
    names.sort_by(|a, b| natural(a, b));
    names
}
