//! `weir controller link`

use super::fabric::FabricArgs;
use super::thrift::ThriftArgs;
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use serde_json::{Map, json};
use std::io::Write;
use weir_client::ThriftError;

/// Take links down, or up again, at a switch, by Thrift
///
/// A port loses its interface: `port_remove` and `port_add` of simple_switch_CLI. In a fabric of one process
/// (`weir switch --fabric`), where the links between switches are no interfaces of the kernel, this is how one is cut.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir controller link down s1:2 --topology fabric.yaml
  weir controller link up s1:2 --topology fabric.yaml

Exit status: 0 done; 1 a switch did not answer or refused; 2 the input is wrong.")]
pub struct Args {
    /// New state of the link
    #[arg(value_enum)]
    state: State,

    /// Ports at which it is done: switch and number
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
    /// Take it down
    Down,
    /// Take it up again
    Up,
}

/// Executes the command.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let topology = super::topology(&args.fabric.topology, &console.kit.catalogue.topologies)?;
    let find = |text: &String| {
        let place = || {
            let (name, port) = text.split_once(':')?;
            let switch = topology.switch_named(name)?;
            let port = port.parse().ok().filter(|&port| topology.switch(switch).link_at(port).is_some())?;
            Some((switch, port))
        };
        place()
            .ok_or_else(|| Failure::Input(format!("{text}: the topology has no such port; write it as s1:2")))
    };
    let ports = args.ports.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let mut done = Map::new();
    for (text, (switch, port)) in args.ports.iter().zip(ports) {
        let name = &topology.switch(switch).name;
        let refused = |error: ThriftError| Failure::Work(format!("{text}: {error}"));
        let mut client = args.thrift.connect(switch).map_err(refused)?;
        let peer = topology
            .peer(switch, port)
            .map(|(_, peer)| format!("{}:{}", topology.node_name(peer.node), peer.port));
        match args.state {
            State::Down => client.remove_port(port).map_err(refused)?,
            State::Up => client.add_port(port, &format!("{name}-eth{port}")).map_err(refused)?,
        }
        let state = if args.state == State::Up { "up" } else { "down" };
        if !console.style.json {
            writeln!(console.out, "{text} - {}: {state}", peer.unwrap_or_default())?;
        }
        done.insert(text.clone(), state.into());
    }
    if console.style.json { console.print_json(&json!({"ports": done})) } else { Ok(()) }
}
