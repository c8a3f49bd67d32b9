//! `weir switch --fabric`: all switches of a topology in this process.

use super::options::{Options, TargetOptions};
use crate::console::Failure;
use std::net::SocketAddr;
use std::sync::Arc;
use weir_controller::topology::{Node, SwitchIx, Topology};
use weir_experiment::rng::stream_seed;
use weir_switch::driver::{DataplaneConfig, InnerPort, Member, Wire};
use weir_switch::{Program, Switch};
use weir_units::Bandwidth;

/// Address of the first switch, as the controller expects it.
pub const FIRST_ADDRESS: &str = "127.0.0.1:50051";

/// Returns the switches of a topology, ready to start.
pub fn members(
    topology: &Topology,
    config: &DataplaneConfig,
    program: Option<&Arc<Program>>,
    seed: u64,
) -> Result<Vec<Member>, Failure> {
    let members = topology.switch_ixs().map(|ix| {
        let switch = topology.switch(ix);
        let mut config = config.clone();
        let (mut ports, mut inner) = (Vec::new(), Vec::new());
        for (port, link) in switch.ports() {
            let link = topology.link(link);
            let Some((_, peer)) = topology.peer(ix, port) else { continue };
            // The tutorials' names.
            let name = format!("{}-eth{port}", switch.name);
            match peer.node {
                Node::Switch(SwitchIx(to)) => {
                    inner.push(InnerPort { port, name, to: (to as u16, peer.port) })
                }
                Node::Host(_) => ports.push((port, name)),
            }
            let wire = Wire::new(link.rate, link.delay);
            if link.rate == Bandwidth::ZERO || link.delay > Wire::LONGEST {
                return Err(Failure::Input(format!(
                    "{}, port {port}: a link needs a rate, and a delay of at most {}",
                    switch.name,
                    Wire::LONGEST
                )));
            }
            config.wires.insert(port, wire);
        }
        let made = program.map(|program| {
            Switch::new(program.clone(), config.switch_config(), stream_seed(seed, &switch.name))
                .map(Box::new)
        });
        Ok(Member { switch: made.transpose().map_err(Failure::input)?, config, ports, inner })
    });
    members.collect()
}

/// Returns the address of the n-th switch: the port of the first and n, unless any will do.
pub fn nth(first: SocketAddr, n: usize) -> Result<SocketAddr, Failure> {
    let port = match first.port() {
        0 => Some(0),
        port => u16::try_from(usize::from(port) + n).ok(),
    };
    let port = port.ok_or_else(|| {
        Failure::Input(format!("{first} for the first switch leaves no port for switch {}", n + 1))
    })?;
    Ok(SocketAddr::new(first.ip(), port))
}

/// Refuses what says something else than the topology.
pub fn check(args: &Options, target: &TargetOptions, topology: &Topology) -> Result<(), Failure> {
    let refuse = |why: String| Err(Failure::Input(why));
    let ports = topology.switches.iter().map(|switch| switch.ports().count()).max().unwrap_or(0);
    if ports > args.max_port_count {
        return refuse(format!("a switch of the topology has {ports} ports; raise --max-port-count"));
    }
    for ix in topology.switch_ixs() {
        let name = &topology.switch(ix).name;
        if let Some((port, _)) = topology
            .switch(ix)
            .ports()
            .find(|&(port, _)| [Some(target.drop_port), target.cpu_port].contains(&Some(port)))
        {
            return refuse(format!(
                "port {port} of {name} is the drop port or the CPU port; give that another number"
            ));
        }
    }
    Ok(())
}
