//! `weir controller link`: takes links down or up.

use super::fabric::{FabricArgs, topology};
use super::thrift::ThriftArgs;
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use serde_json::{Map, json};
use std::io::Write;
use weir_client::ThriftError;

/// Take links down or up at a switch, over Thrift
///
/// Removes the interface of a port, or adds it again, as `port_remove` and `port_add` of simple_switch_CLI
/// do. In a single-process fabric (`weir switch --fabric`) the links between switches are not kernel
/// interfaces, so this is the way to cut one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir controller link down s1:2 --topology fabric.yaml
  weir controller link up s1:2 --topology fabric.yaml

Exit status: 0 success; 1 a switch did not respond or rejected the change; 2 invalid input.")]
pub(super) struct Args {
    /// New state of the link
    #[arg(value_enum)]
    state: State,

    /// Ports of the links, as switch and port number
    #[arg(value_name = "SWITCH:PORT", required = true)]
    ports: Vec<String>,

    #[command(flatten)]
    fabric: FabricArgs,
    #[command(flatten)]
    thrift: ThriftArgs,
    #[command(flatten)]
    output: QueryOutput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum State {
    /// Remove the interface from the port
    Down,
    /// Add the interface to the port
    Up,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let topology = topology(&args.fabric.topology, &console.extensions.catalogue.topologies)?;
    let find_port = |text: &String| {
        let parse = || {
            let (name, port) = text.split_once(':')?;
            let switch = topology.switch_named(name)?;
            let port = port.parse().ok().filter(|&port| topology.switch(switch).link_at(port).is_some())?;
            Some((switch, port))
        };
        parse().ok_or_else(|| {
            Failure::Input(format!("unknown port {text}; expected SWITCH:PORT, for example s1:2"))
        })
    };
    let ports = args.ports.iter().map(find_port).collect::<Result<Vec<_>, _>>()?;
    let mut states = Map::new();
    for (text, (switch, port)) in args.ports.iter().zip(ports) {
        let name = &topology.switch(switch).name;
        let thrift_error = |error: ThriftError| Failure::Work(format!("{text}: {error}"));
        let mut client = args.thrift.connect(switch).map_err(thrift_error)?;
        let peer = topology
            .peer(switch, port)
            .map(|(_, peer)| format!("{}:{}", topology.node_name(peer.node), peer.port));
        match args.state {
            State::Down => client.remove_port(port).map_err(thrift_error)?,
            State::Up => client.add_port(port, &format!("{name}-eth{port}")).map_err(thrift_error)?,
        }
        let state = if args.state == State::Up { "up" } else { "down" };
        if !console.style.json {
            writeln!(console.out, "{text} - {}: {state}", peer.unwrap_or_default())?;
        }
        states.insert(text.clone(), state.into());
    }
    if console.style.json { console.print_json(&json!({"ports": states})) } else { Ok(()) }
}
