//! Imports the `topology.json` of the P4 tutorials.

use super::{ImportError, Imported, delay_of, in_order, rate_of};
use crate::topology::{AddressSpec, Custom, LinkSpec, Mac, TopologySpec};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Time};

/// Assumed bandwidth of a link without one. In the tutorials only the machine limits such links.
const DEFAULT_BANDWIDTH: Bandwidth = Bandwidth::from_gbps(1);

#[derive(Deserialize)]
struct File {
    hosts: BTreeMap<String, Host>,
    switches: BTreeMap<String, Switch>,
    links: Vec<Vec<Value>>,
}

#[derive(Deserialize)]
struct Host {
    /// `null` for a host that gets its address by DHCP or has none.
    #[serde(deserialize_with = "Option::deserialize")]
    ip: Option<String>,
    mac: String,
}

#[derive(Deserialize)]
struct Switch {
    runtime_json: Option<String>,
    cli_input: Option<String>,
}

pub(super) fn import(text: &str) -> Result<Imported, ImportError> {
    let file: File = serde_json::from_str(text).map_err(|error| ImportError::at("topology.json", error))?;
    let mut warnings = Vec::new();
    let mut addresses = BTreeMap::new();
    for (name, host) in &file.hosts {
        match &host.ip {
            Some(ip) => drop(addresses.insert(name.clone(), address(name, ip, &host.mac)?)),
            None => warnings.push(format!("{name} has no address, so no route leads to it: it is left out")),
        }
    }
    let mut links = Vec::with_capacity(file.links.len());
    let mut unlimited = 0;
    for (index, link) in file.links.iter().enumerate() {
        let place = format!("links[{index}]");
        let [a, b, ..] = link.as_slice() else {
            return Err(ImportError::at(place, "a link is [end, end, latency, bandwidth]"));
        };
        if link.len() > 4 {
            return Err(ImportError::at(place, "a link has at most four parts: ends, latency, bandwidth"));
        }
        let ((a, a_port), (b, b_port)) = (end(a, &file, &place)?, end(b, &file, &place)?);
        let is_left_out = |name: &String| file.hosts.contains_key(name) && !addresses.contains_key(name);
        if is_left_out(&a) || is_left_out(&b) {
            continue;
        }
        let delay = link.get(2).map_or(Ok(Time::ZERO), |json| delay_of(json, &place))?;
        let rate = match link.get(3) {
            None | Some(Value::Null) => {
                unlimited += 1;
                DEFAULT_BANDWIDTH
            }
            Some(json) => {
                let mbps = json.as_f64().or_else(|| json.as_str()?.trim().parse().ok());
                let mbps =
                    mbps.ok_or_else(|| ImportError::at(&place, format!("{json} is no bandwidth in Mbit/s")))?;
                rate_of(mbps, &place, &mut warnings)?
            }
        };
        links.push(LinkSpec { a, b, rate: Some(rate), delay: Some(delay), a_port, b_port });
    }
    if unlimited > 0 {
        warnings.push(format!("{unlimited} links name no bandwidth and are taken for {DEFAULT_BANDWIDTH}"));
    }
    let mut runtime = BTreeMap::new();
    for (name, switch) in &file.switches {
        if let Some(path) = &switch.runtime_json {
            runtime.insert(name.clone(), path.clone());
        }
        if switch.cli_input.is_some() {
            warnings.push(format!("{name}: cli_input is for simple_switch_CLI and not applied"));
        }
    }
    let topology = TopologySpec::Custom(Custom {
        hosts: in_order(addresses.keys()),
        switches: in_order(file.switches.keys()),
        links,
        addresses,
        rate: DEFAULT_BANDWIDTH,
        delay: Time::ZERO,
    });
    Ok(Imported { topology, runtime, switch_addresses: BTreeMap::new(), warnings })
}

fn address(name: &str, ip: &str, mac: &str) -> Result<AddressSpec, ImportError> {
    let place = format!("hosts.{name}");
    let parsed = ip.split('/').next().unwrap_or_default().parse::<Ipv4Addr>();
    let parsed = parsed.map_err(|_| ImportError::at(&place, format!("\"{ip}\" is no IPv4 address")))?;
    let mac: Mac = mac.parse().map_err(|reason| ImportError::at(&place, reason))?;
    Ok(AddressSpec { ip: parsed, mac: Some(mac) })
}

/// Parses the end of a link: `h1`, or `s1-p3` for port 3 of s1.
fn end(json: &Value, file: &File, place: &str) -> Result<(String, Option<u16>), ImportError> {
    let name = json.as_str().ok_or_else(|| ImportError::at(place, format!("{json} is no end of a link")))?;
    if file.hosts.contains_key(name) {
        return Ok((name.to_owned(), None));
    }
    let split = name.rsplit_once("-p").and_then(|(switch, port)| Some((switch, port.parse().ok()?)));
    match split {
        Some((switch, port)) if file.switches.contains_key(switch) => Ok((switch.to_owned(), Some(port))),
        _ => Err(ImportError::at(
            place,
            format!("\"{name}\" is neither a host nor a switch's port such as s1-p1"),
        )),
    }
}
