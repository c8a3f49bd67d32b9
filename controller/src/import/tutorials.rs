//! Imports the `topology.json` of the P4 tutorials.

use super::imported::{ImportError, Imported};
use super::mininet::{delay_of, rate_of, sorted_names};
use crate::topology::{AddressSpec, Custom, LinkSpec, Mac, TopologySpec};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Time};

/// Assumed bandwidth of a link without one. In the tutorials such links have no limit.
const DEFAULT_BANDWIDTH: Bandwidth = Bandwidth::from_gbps(1);

#[derive(Deserialize)]
struct TopologyJson {
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
    let file: TopologyJson =
        serde_json::from_str(text).map_err(|error| ImportError::at("topology.json", error))?;
    let mut warnings = Vec::new();
    let mut addresses = BTreeMap::new();
    for (name, host) in &file.hosts {
        match &host.ip {
            Some(ip) => drop(addresses.insert(name.clone(), address(name, ip, &host.mac)?)),
            None => warnings
                .push(format!("{name} has no address and is omitted, since no route could lead to it")),
        }
    }
    let mut links = Vec::with_capacity(file.links.len());
    let mut without_bandwidth = 0;
    for (index, link) in file.links.iter().enumerate() {
        let location = format!("links[{index}]");
        let [a, b, ..] = link.as_slice() else {
            return Err(ImportError::at(location, "a link is [end, end, latency, bandwidth]"));
        };
        if link.len() > 4 {
            return Err(ImportError::at(
                location,
                "a link has at most four elements: end, end, latency, bandwidth",
            ));
        }
        let ((a, a_port), (b, b_port)) = (end(a, &file, &location)?, end(b, &file, &location)?);
        let is_omitted = |name: &String| file.hosts.contains_key(name) && !addresses.contains_key(name);
        if is_omitted(&a) || is_omitted(&b) {
            continue;
        }
        let delay = link.get(2).map_or(Ok(Time::ZERO), |json| delay_of(json, &location))?;
        let rate = match link.get(3) {
            None | Some(Value::Null) => {
                without_bandwidth += 1;
                DEFAULT_BANDWIDTH
            }
            Some(json) => {
                let mbps = json.as_f64().or_else(|| json.as_str()?.trim().parse().ok());
                let mbps = mbps.ok_or_else(|| {
                    ImportError::at(&location, format!("{json} is not a bandwidth in Mbit/s"))
                })?;
                rate_of(mbps, &location, &mut warnings)?
            }
        };
        links.push(LinkSpec { a, b, rate: Some(rate), delay: Some(delay), a_port, b_port });
    }
    if without_bandwidth > 0 {
        warnings.push(format!("{without_bandwidth} links have no bandwidth; {DEFAULT_BANDWIDTH} is assumed"));
    }
    let mut runtime = BTreeMap::new();
    for (name, switch) in &file.switches {
        if let Some(path) = &switch.runtime_json {
            runtime.insert(name.clone(), path.clone());
        }
        if switch.cli_input.is_some() {
            warnings.push(format!("{name}: cli_input (commands of simple_switch_CLI) is ignored"));
        }
    }
    let topology = TopologySpec::Custom(Custom {
        hosts: sorted_names(addresses.keys()),
        switches: sorted_names(file.switches.keys()),
        links,
        addresses,
        rate: DEFAULT_BANDWIDTH,
        delay: Time::ZERO,
    });
    Ok(Imported { topology, runtime, switch_addresses: BTreeMap::new(), warnings })
}

fn address(name: &str, ip: &str, mac: &str) -> Result<AddressSpec, ImportError> {
    let location = format!("hosts.{name}");
    let parsed = ip.split('/').next().unwrap_or_default().parse::<Ipv4Addr>();
    let parsed =
        parsed.map_err(|_| ImportError::at(&location, format!("\"{ip}\" is not an IPv4 address")))?;
    let mac: Mac = mac.parse().map_err(|reason| ImportError::at(&location, reason))?;
    Ok(AddressSpec { ip: parsed, mac: Some(mac) })
}

/// Parses the end of a link: `h1`, or `s1-p3` for port 3 of s1.
fn end(json: &Value, file: &TopologyJson, location: &str) -> Result<(String, Option<u16>), ImportError> {
    let name =
        json.as_str().ok_or_else(|| ImportError::at(location, format!("{json} is not the end of a link")))?;
    if file.hosts.contains_key(name) {
        return Ok((name.to_owned(), None));
    }
    let split = name.rsplit_once("-p").and_then(|(switch, port)| Some((switch, port.parse().ok()?)));
    match split {
        Some((switch, port)) if file.switches.contains_key(switch) => Ok((switch.to_owned(), Some(port))),
        _ => Err(ImportError::at(
            location,
            format!("\"{name}\" is neither a host nor a switch port such as s1-p1"),
        )),
    }
}
