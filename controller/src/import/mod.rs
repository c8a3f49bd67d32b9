//! Topologies that other tools wrote.
//!
//! | tool | file |
//! |---|---|
//! | p4 tutorials | `topology.json`: `hosts`, `switches`, `links` |
//! | p4-utils | `p4app.json` with a `topology`, and the `topology.json` that it writes for controllers (node-link) |
//! | the HPCC simulator and its descendants | a text file that begins with three, four or six numbers |
//!
//! [`import`] recognises a format by a file's content, not by its name, as formats share names. A feature that Weir
//! lacks is reported as a warning if the topology is right without it, else as an error.

mod hpcc;
mod p4utils;
mod tutorials;

use crate::topology::TopologySpec;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use thiserror::Error;
use weir_units::{Bandwidth, RateCode, Time};

/// A topology from elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The fabric, a custom one.
    pub topology: TopologySpec,
    /// By switch: the file of its entries (`sX-runtime.json`), as it is written there.
    pub runtime: BTreeMap<String, String>,
    /// By switch: its P4Runtime port and its device id, where the tool has other ones than p4 tutorials.
    pub switch_addresses: BTreeMap<String, SwitchAddress>,
    /// Parts of the file that were not or only approximately converted.
    pub warnings: Vec<String>,
}

/// Address of a switch in another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchAddress {
    /// Of its P4Runtime server.
    pub grpc_port: u16,
    /// Of the switch.
    pub device_id: u64,
}

/// A reason why a file was not accepted, and the place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}")]
pub struct ImportError {
    /// Line or key.
    pub place: String,
    /// In words.
    pub problem: String,
}

impl ImportError {
    fn at(place: impl Into<String>, problem: impl std::fmt::Display) -> ImportError {
        ImportError { place: place.into(), problem: problem.to_string() }
    }
}

/// Imports the topology file of another tool: HPCC's simulator, p4-utils, or the P4 tutorials. `None` if the
/// text is in none of these formats, and may be Weir's own YAML.
///
/// # Errors
///
/// The text is in one of these formats but says something that a topology cannot have; or it is a
/// `p4app.json` of p4lang/p4app, which is not supported.
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

/// Adds the formats that are read to a message about a file, unless it looks like Weir's own YAML.
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

/// Returns a rate in Mbit/s, which telemetry may have no code for: then the next higher one that it has.
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

/// A delay: a number is milliseconds, text has a unit.
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

/// Returns the order in which Mininet starts nodes, and so gives out ports: `s2` before `s10`.
fn natural(a: &str, b: &str) -> Ordering {
    let split = |name: &str| {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (word, number) = name.split_at(name.len() - digits);
        (word.to_owned(), number.parse::<u64>().unwrap_or(0))
    };
    split(a).cmp(&split(b)).then_with(|| a.cmp(b))
}

/// Names in Mininet's order.
fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<String> = names.cloned().collect();
    names.sort_by(|a, b| natural(a, b));
    names
}
