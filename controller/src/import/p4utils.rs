//! Imports p4-utils' `p4app.json`, and the `topology.json` that p4-utils writes for controllers.

use super::imported::{ImportError, Imported, SwitchAddress};
use super::mininet::{delay_of, rate_of, sorted_names};
use crate::topology::{AddressSpec, Custom, LinkSpec, TopologySpec};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Time};

type Tree = Map<String, Value>;

/// Assumed bandwidth of a link without `bw`.
const DEFAULT_BANDWIDTH: Bandwidth = Bandwidth::from_gbps(1);
/// gRPC port of the first switch; p4-utils numbers the other ports consecutively.
const FIRST_GRPC_PORT: u16 = 9559;
/// Keys of a `p4app.json` that name Python modules and scripts.
const PYTHON_KEYS: [&str; 8] = [
    "switch_node",
    "compiler_module",
    "host_node",
    "client_module",
    "topo_module",
    "mininet_module",
    "exec_scripts",
    "tasks_file",
];

/// Imports a `p4app.json`.
pub(super) fn import_app(app: &Tree, topology: &Tree) -> Result<Imported, ImportError> {
    let mut warnings: Vec<String> = PYTHON_KEYS
        .iter()
        .filter(|key| app.get(**key).is_some_and(|value| !value.is_null()))
        .map(|key| format!("{key} (a Python module or script) is ignored"))
        .collect();
    let nodes = |key: &str| match topology.get(key) {
        Some(Value::Object(nodes)) => Ok(nodes.clone()),
        None => Ok(Map::new()),
        Some(_) => Err(ImportError::at(format!("topology.{key}"), "is not an object")),
    };
    let (hosts, switches) = (nodes("hosts")?, nodes("switches")?);
    if !nodes("routers")?.is_empty() {
        return Err(ImportError::at(
            "topology.routers",
            "routers (FRR) are not supported, only P4 switches are",
        ));
    }
    for (name, switch) in &switches {
        if switch.get("cli_input").is_some_and(|value| !value.is_null()) {
            warnings.push(format!("{name}: cli_input (commands of simple_switch_CLI) is ignored"));
        }
    }
    let default = topology.get("default").cloned().unwrap_or_default();
    let list = topology.get("links").and_then(Value::as_array);
    let list = list.ok_or_else(|| ImportError::at("topology.links", "is not a list"))?;
    let mut links = Vec::with_capacity(list.len());
    for (index, json) in list.iter().enumerate() {
        let location = format!("topology.links[{index}]");
        let elements = json.as_array().map(Vec::as_slice).unwrap_or_default();
        let (Some(a), Some(b)) =
            (elements.first().and_then(Value::as_str), elements.get(1).and_then(Value::as_str))
        else {
            return Err(ImportError::at(location, "a link is [node, node, {..}]"));
        };
        let options = elements.get(2).cloned().unwrap_or_default();
        let option = |key: &str| options.get(key).or_else(|| default.get(key)).cloned().unwrap_or_default();
        let port = |key: &str, node: &str| port_of(&option(key), node, &switches, &location);
        links.push(LinkSpec {
            rate: Some(rate(&option("bw"), &location, &mut warnings)?),
            delay: Some(delay_of(&option("delay"), &location)?),
            a_port: port("port1", a)?,
            b_port: port("port2", b)?,
            a: a.to_owned(),
            b: b.to_owned(),
        });
    }
    let switch_names = sorted_names(switches.keys());
    let switch_addresses = switch_addresses(&switch_names, &switches);
    let strategy = topology.get("assignment_strategy").and_then(Value::as_str).unwrap_or("l2");
    let addresses = host_addresses(strategy, &sorted_names(hosts.keys()), &links, &switch_addresses)?;
    let topology = TopologySpec::Custom(Custom {
        hosts: sorted_names(hosts.keys()),
        switches: switch_names,
        links,
        addresses,
        rate: DEFAULT_BANDWIDTH,
        delay: Time::ZERO,
    });
    Ok(Imported { topology, runtime: BTreeMap::new(), switch_addresses, warnings })
}

/// Imports the file that p4-utils writes for controllers: a graph in networkx's node-link form.
pub(super) fn import_graph(graph: &Tree) -> Result<Imported, ImportError> {
    let mut warnings = Vec::new();
    let list = |key: &str| graph.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is = |node: &Value, key: &str| node.get(key).and_then(Value::as_bool).unwrap_or(false);
    let (mut hosts, mut switches) = (Map::new(), Map::new());
    for (index, node) in list("nodes").iter().enumerate() {
        let location = format!("nodes[{index}]");
        let name = node.get("id").and_then(Value::as_str);
        let name = name.ok_or_else(|| ImportError::at(&location, "has no id"))?.to_owned();
        if is(node, "isHost") {
            hosts.insert(name, node.clone());
        } else if is(node, "isSwitch") || is(node, "isP4Switch") {
            switches.insert(name, node.clone());
        } else {
            return Err(ImportError::at(location, format!("\"{name}\" is neither a host nor a switch")));
        }
    }
    let edges = if graph.contains_key("links") { "links" } else { "edges" };
    let (mut links, mut addresses) = (Vec::new(), BTreeMap::new());
    for (index, edge) in list(edges).iter().enumerate() {
        let location = format!("{edges}[{index}]");
        let text = |key: &str| edge.get(key).and_then(Value::as_str);
        let ends = [("node1", "source", "ip1", "addr1"), ("node2", "target", "ip2", "addr2")];
        let mut names = Vec::new();
        for (node, fallback, ip, mac) in ends {
            let name = text(node)
                .or_else(|| text(fallback))
                .ok_or_else(|| ImportError::at(&location, "has no ends"))?;
            if hosts.contains_key(name) {
                let ip = text(ip).and_then(|ip| ip.split('/').next()?.parse().ok());
                let ip = ip.ok_or_else(|| {
                    ImportError::at(&location, format!("host \"{name}\" has no IPv4 address"))
                })?;
                addresses.insert(
                    name.to_owned(),
                    AddressSpec { ip, mac: text(mac).and_then(|mac| mac.parse().ok()) },
                );
            }
            names.push(name.to_owned());
        }
        let [a, b] =
            <[String; 2]>::try_from(names).map_err(|_| ImportError::at(&location, "has no two ends"))?;
        let value = |key: &str| edge.get(key).cloned().unwrap_or_default();
        links.push(LinkSpec {
            rate: Some(rate(&value("bw"), &location, &mut warnings)?),
            delay: Some(delay_of(&value("delay"), &location)?),
            a_port: port_of(&value("port1"), &a, &switches, &location)?,
            b_port: port_of(&value("port2"), &b, &switches, &location)?,
            a,
            b,
        });
    }
    let switch_names = sorted_names(switches.keys());
    let switch_addresses = switch_addresses(&switch_names, &switches);
    let topology = TopologySpec::Custom(Custom {
        hosts: sorted_names(hosts.keys()),
        switches: switch_names,
        links,
        addresses,
        rate: DEFAULT_BANDWIDTH,
        delay: Time::ZERO,
    });
    Ok(Imported { topology, runtime: BTreeMap::new(), switch_addresses, warnings })
}

fn rate(json: &Value, location: &str, warnings: &mut Vec<String>) -> Result<Bandwidth, ImportError> {
    match json {
        Value::Null => Ok(DEFAULT_BANDWIDTH),
        Value::Number(mbps) => rate_of(mbps.as_f64().unwrap_or(0.0), location, warnings),
        other => Err(ImportError::at(location, format!("bw {other} is not a bandwidth in Mbit/s"))),
    }
}

/// Returns the port at a link's end, or `None` if the end is a host, whose port number has no meaning.
fn port_of(json: &Value, node: &str, switches: &Tree, location: &str) -> Result<Option<u16>, ImportError> {
    if json.is_null() || !switches.contains_key(node) {
        return Ok(None);
    }
    let port = json.as_u64().and_then(|port| u16::try_from(port).ok());
    port.map(Some).ok_or_else(|| ImportError::at(location, format!("{json} is not a port")))
}

/// Assigns device ids and gRPC ports as p4-utils does: the number in the name, and consecutive ports.
fn switch_addresses(names: &[String], switches: &Tree) -> BTreeMap<String, SwitchAddress> {
    let address = |(index, name): (usize, &String)| {
        let given = |key: &str| switches.get(name)?.get(key)?.as_u64();
        let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        let device_id = given("device_id").or_else(|| digits.parse().ok()).unwrap_or(index as u64 + 1);
        let default_port = FIRST_GRPC_PORT.saturating_add(u16::try_from(index).unwrap_or(u16::MAX));
        let grpc_port = given("grpc_port").and_then(|port| u16::try_from(port).ok()).unwrap_or(default_port);
        (name.clone(), SwitchAddress { grpc_port, device_id })
    };
    names.iter().enumerate().map(address).collect()
}

/// Assigns host addresses as p4-utils does. If `sw` is the device id of the switch and `h` the number in the host's
/// name, they are 10.0.h for `l2` (h in two bytes), 10.sw.h for `mixed` (sw in two bytes) and 10.sw.h.2 for `l3`.
fn host_addresses(
    strategy: &str,
    hosts: &[String],
    links: &[LinkSpec],
    switch_addresses: &BTreeMap<String, SwitchAddress>,
) -> Result<BTreeMap<String, AddressSpec>, ImportError> {
    let location = "topology.assignment_strategy";
    let mut addresses = BTreeMap::new();
    for name in hosts {
        let link = links.iter().find(|link| link.a == *name || link.b == *name);
        let link = link.ok_or_else(|| ImportError::at(format!("topology.hosts.{name}"), "has no link"))?;
        let switch = if link.a == *name { &link.b } else { &link.a };
        let id = switch_addresses.get(switch).map_or(0, |address| address.device_id);
        let number = name.strip_prefix('h').and_then(|digits| digits.parse::<u16>().ok());
        let invalid = || {
            ImportError::at(
                location,
                format!("strategy \"{strategy}\" cannot derive an address from the name \"{name}\""),
            )
        };
        let [high, low] = number.ok_or_else(invalid)?.to_be_bytes();
        let [.., id_high, id_low] = id.to_be_bytes();
        let [a, b, c] = match strategy {
            "l2" => [0, high, low],
            "mixed" if high == 0 => [id_high, id_low, low],
            "l3" if high == 0 && id_high == 0 => [id_low, low, 2],
            "mixed" | "l3" => return Err(invalid()),
            other => return Err(ImportError::at(location, format!("\"{other}\" is not l2, mixed or l3"))),
        };
        let mac = crate::topology::Mac([0, 0, 10, a, b, c]);
        addresses.insert(name.clone(), AddressSpec { ip: Ipv4Addr::new(10, a, b, c), mac: Some(mac) });
    }
    Ok(addresses)
}
