//! `weir switch --fabric`: all switches of a topology in this process, with the links between them.

use super::fabric_links::{FabricEnd, FabricLink, FabricLinks};
use super::options::{Options, TargetOptions};
use crate::commands::files::read;
use crate::commands::program::{Engine, load_program};
use crate::console::Failure;
use clap::Parser;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_controller::topology::{Endpoint, Node, Topology};
use weir_experiment::rng::stream_seed;
use weir_switch::driver::{DataplaneConfig, DataplaneHandle, FabricMember, FabricPort, PortLinkConfig};
use weir_switch::link::{LinkChange, LinkChannel, LinkParameters};
use weir_switch::tm::{MAX_PORT, QueueLimits};
use weir_switch::{Program, Switch};
use weir_testbed::{Plan, link_names};

/// P4Runtime address of the first switch: the default of `weir controller`.
pub(super) const FIRST_GRPC_ADDRESS: &str = "127.0.0.1:50051";

/// The switches and links of a fabric.
pub(super) struct Fabric {
    switches: Vec<FabricSwitch>,
    links: Vec<FabricLink>,
    /// Seed of the random impairments of links.
    seed: u64,
}

/// The properties in which the switches of a fabric differ.
struct FabricSwitch {
    name: String,
    program: Option<Arc<Program>>,
    cpu_port: Option<u16>,
    priorities: u8,
    queue_depth: u32,
    seed: u64,
}

/// The options of one switch in a plan.
#[derive(Debug, Parser)]
struct SwitchOptions {
    #[command(flatten)]
    options: Options,
}

impl Fabric {
    /// Returns the fabric of a topology. All switches run the same program, or none.
    pub(super) fn from_topology(
        topology: &Topology,
        args: &Options,
        target: &TargetOptions,
        program: Option<&Arc<Program>>,
        seed: u64,
    ) -> Fabric {
        let switches = topology.switches.iter().map(|switch| FabricSwitch {
            name: switch.name.clone(),
            program: program.cloned(),
            cpu_port: target.cpu_port,
            priorities: target.priority_queues,
            queue_depth: args.queue_depth,
            seed: stream_seed(seed, &switch.name),
        });
        let end = |end: Endpoint| FabricEnd {
            switch: match end.node {
                Node::Switch(ix) => Some(ix.0 as u16),
                Node::Host(_) => None,
            },
            port: end.port,
            name: format!("{}-eth{}", topology.node_name(end.node), end.port),
        };
        let links = topology.links.iter().zip(link_names(topology)).map(|(link, name)| FabricLink {
            name,
            ends: [end(link.a), end(link.b)],
            parameters: PortLinkConfig::new(link.rate, link.delay).link,
        });
        Fabric { switches: switches.collect(), links: links.collect(), seed: stream_seed(seed, "links") }
    }

    /// Reads the fabric from a plan that the Mininet process has written.
    pub(super) fn from_plan(path: &Path) -> Result<Fabric, Failure> {
        let invalid = |reason: String| Failure::Input(format!("--plan {}: {reason}", path.display()));
        let plan: Plan = serde_json::from_str(&read(path)?).map_err(|error| invalid(error.to_string()))?;
        let mut programs: BTreeMap<PathBuf, Arc<Program>> = BTreeMap::new();
        let mut switches = Vec::with_capacity(plan.switches.len());
        for switch in &plan.switches {
            let words = std::iter::once("switch").chain(switch.options.iter().map(String::as_str));
            let options =
                SwitchOptions::try_parse_from(words).map_err(|error| invalid(error.to_string()))?.options;
            if let Some(path) = &switch.program
                && !programs.contains_key(path)
            {
                programs.insert(path.clone(), load_program(path, Engine::default())?);
            }
            let program = switch.program.as_ref().and_then(|path| programs.get(path).cloned());
            switches.push(FabricSwitch {
                name: switch.name.clone(),
                program,
                cpu_port: switch.cpu_port,
                priorities: switch.priorities,
                queue_depth: options.queue_depth,
                seed: options.seed(),
            });
        }
        // `None` for a host.
        let switch_index =
            |node: &str| switches.iter().position(|switch| switch.name == node).map(|index| index as u16);
        let end = |(node, port): &(String, u16)| FabricEnd {
            switch: switch_index(node),
            port: *port,
            name: format!("{node}-eth{port}"),
        };
        let link = |link: &weir_testbed::PlannedLink| {
            let change: LinkChange = link.properties.parse().map_err(invalid)?;
            let ends = [end(&link.a), end(&link.b)];
            let parameters = change.apply(LinkParameters::default());
            Ok(FabricLink { name: link.name.clone(), ends, parameters })
        };
        let links = plan.links.iter().map(link).collect::<Result<Vec<_>, Failure>>()?;
        Ok(Fabric { switches, links, seed: plan.seed })
    }

    pub(super) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.switches.iter().map(|switch| &*switch.name)
    }

    pub(super) fn seed(&self, switch: usize) -> u64 {
        self.switches[switch].seed
    }

    /// Returns the number of network interfaces that the fabric uses: one for each link to a host.
    pub(super) fn interface_count(&self) -> usize {
        self.links.iter().filter(|link| link.ends.iter().any(|end| end.switch.is_none())).count()
    }

    /// Rejects fabrics that cannot be started: links between hosts, delays that are too long, and invalid or
    /// too many ports.
    pub(super) fn check(&self, args: &Options, target: &TargetOptions) -> Result<(), Failure> {
        let reject = |reason: String| Err(Failure::Input(reason));
        let mut port_counts = vec![0; self.switches.len()];
        for FabricLink { name, ends, parameters } in &self.links {
            if ends.iter().all(|end| end.switch.is_none()) {
                return reject(format!("link {name} connects two hosts; one end must be a switch"));
            }
            if parameters.delay > PortLinkConfig::MAX_DELAY {
                return reject(format!(
                    "link {name}: delay exceeds the maximum of {}",
                    PortLinkConfig::MAX_DELAY
                ));
            }
            for (switch, end) in ends.iter().filter_map(|end| Some((usize::from(end.switch?), end))) {
                let FabricSwitch { name, cpu_port, .. } = &self.switches[switch];
                if [Some(target.drop_port), *cpu_port].contains(&Some(end.port)) || end.port > MAX_PORT {
                    return reject(format!(
                        "invalid port {} of {name}: it is the drop port or the CPU port, or above {MAX_PORT}",
                        end.port
                    ));
                }
                port_counts[switch] += 1;
                if port_counts[switch] > args.max_port_count {
                    return reject(format!(
                        "{name} has more than {} ports; raise --max-port-count",
                        args.max_port_count
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the switches, ready to start. `config` has their common options.
    pub(super) fn members(&self, config: &DataplaneConfig) -> Result<Vec<FabricMember>, Failure> {
        let mut members = Vec::with_capacity(self.switches.len());
        for switch in &self.switches {
            let config = DataplaneConfig {
                cpu_port: switch.cpu_port,
                priorities: switch.priorities,
                limits: QueueLimits { packets: switch.queue_depth, ..config.limits },
                ..config.clone()
            };
            members.push(FabricMember {
                config,
                switch: None,
                ports: Vec::new(),
                internal_ports: Vec::new(),
            });
        }
        for (link_index, FabricLink { ends, parameters, .. }) in self.links.iter().enumerate() {
            for (side, end) in ends.iter().enumerate() {
                let Some(switch) = end.switch else { continue };
                let member = &mut members[usize::from(switch)];
                // The outgoing direction first. Both ends derive the same seed for a direction.
                let seeds = [side, 1 - side].map(|from| LinkChannel::seed(self.seed, link_index, from));
                member.config.port_links.insert(end.port, PortLinkConfig { link: *parameters, seeds });
                let (port, name, peer) = (end.port, end.name.clone(), &ends[1 - side]);
                match peer.switch {
                    Some(to) => member.internal_ports.push(FabricPort { port, name, peer: (to, peer.port) }),
                    None => member.ports.push((port, name)),
                }
            }
        }
        for (switch, member) in self.switches.iter().zip(&mut members) {
            let result = switch
                .program
                .clone()
                .map(|program| Switch::new(program, member.config.switch_config(), switch.seed));
            member.switch = result.transpose().map_err(Failure::input)?.map(Box::new);
        }
        Ok(members)
    }

    /// Returns the controller of the links for `weir link`.
    pub(super) fn link_controller(&self, handles: &[DataplaneHandle]) -> FabricLinks {
        FabricLinks::new(self.links.clone(), handles.to_vec())
    }
}

/// Returns the address of the switch at `index`: ports are consecutive, unless the first is 0 (any free port).
pub(super) fn nth_address(first: SocketAddr, index: usize) -> Result<SocketAddr, Failure> {
    let port = match first.port() {
        0 => Some(0),
        port => u16::try_from(usize::from(port) + index).ok(),
    };
    let port = port.ok_or_else(|| {
        Failure::Input(format!(
            "port range exhausted at switch {} with {first} for the first switch",
            index + 1
        ))
    })?;
    Ok(SocketAddr::new(first.ip(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weir_units::{Bandwidth, Time};

    /// Returns the fabric of a plan: two hosts, two switches in a row between them, and additional links.
    fn plan(additional: &[(&str, u16, &str, u16)]) -> Result<Fabric, Failure> {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../p4src/build/hpcc.json");
        let switch = |n: u64, program: Option<&str>, cpu_port: Option<u16>| {
            json!({
                "name": format!("s{n}"), "device_id": n - 1, "grpc_port": 50_050 + n, "thrift_port": 9_089 + n,
                "cpu_port": cpu_port, "priorities": n, "program": program, "options": ["--queue-depth", "7", "--seed", "5"],
            })
        };
        let link = |&(a, a_port, b, b_port): &(&str, u16, &str, u16)| {
            json!({
                "a": [a, a_port], "b": [b, b_port], "name": format!("{a}-{b}"),
                "properties": "rate=10Mbps,delay=5ms,queue=1TB",
            })
        };
        let links = [("h1", 0, "s1", 1), ("s1", 2, "s2", 1), ("s2", 2, "h2", 0)];
        let links: Vec<_> = links.iter().chain(additional).map(link).collect();
        let plan = json!({
            "work": "/tmp", "switch": "weir", "one_process": true, "exe": "weir", "weir": "weir", "seed": 3,
            "frame": 1518, "mtu": 1504, "hosts": [], "links": links, "static_arp": true, "pcaps": null, "logs": null,
            "switches": [switch(1, Some(program), Some(255)), switch(2, None, None)],
        });
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan.json");
        std::fs::write(&path, plan.to_string()).unwrap();
        let fabric = Fabric::from_plan(&path)?;
        let words = ["switch", "--plan", "plan.json"];
        fabric.check(&SwitchOptions::parse_from(words).options, &TargetOptions::parse_from(["--"]))?;
        Ok(fabric)
    }

    #[test]
    fn a_plan_has_individual_options_per_switch() {
        let fabric = plan(&[]).unwrap();
        assert_eq!(fabric.names().collect::<Vec<_>>(), ["s1", "s2"]);
        assert_eq!((fabric.interface_count(), fabric.seed(0)), (2, 5));
        let members = fabric.members(&DataplaneConfig::default()).unwrap();
        let individual_options = |member: &FabricMember| {
            let config = &member.config;
            (member.switch.is_some(), config.cpu_port, config.priorities, config.limits.packets)
        };
        assert_eq!(
            members.iter().map(individual_options).collect::<Vec<_>>(),
            [(true, Some(255), 1, 7), (false, None, 2, 7)]
        );
        assert_eq!(members[0].ports, [(1, "s1-eth1".to_owned())]);
        assert_eq!(
            members[0].internal_ports,
            [FabricPort { port: 2, name: "s1-eth2".to_owned(), peer: (1, 1) }]
        );
        let [near, far] = [members[0].config.port_links[&2], members[1].config.port_links[&1]];
        assert_eq!((near.link.rate, near.link.delay), (Some(Bandwidth::from_mbps(10)), Time::from_ms(5)));
        assert_eq!(
            (near.link, near.seeds[0]),
            (far.link, far.seeds[1]),
            "one link with one random stream per direction"
        );
        assert_ne!(near.seeds[0], near.seeds[1]);
    }

    #[test]
    fn invalid_links_are_rejected() {
        let error_of = |link: (&str, u16, &str, u16)| plan(&[link]).err().unwrap().to_string();
        assert!(error_of(("h3", 0, "h4", 0)).contains("link h3-h4 connects two hosts"));
        assert!(
            error_of(("s1", 255, "s2", 3))
                .contains("invalid port 255 of s1: it is the drop port or the CPU port")
        );
        assert!(error_of(("s1", 3, "s2", 600)).contains("port 600 of s2"));
    }
}
