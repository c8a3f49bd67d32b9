//! `weir controller rates`: sets port rates and queue depths of BMv2.

use super::fabric::FabricArgs;
use super::thrift::ThriftArgs;
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, json};
use std::io::Write;
use weir_client::{ThriftError, packets_per_second};
use weir_report::table::fit;
use weir_units::Bytes;

/// Set the port rates and queue depths of BMv2 from the links, over Thrift
///
/// BMv2's ports have no rate by default, and P4Runtime cannot set one. BMv2 limits packets per second, so the
/// rate is set to the number of full frames per second; a port that also carries shorter frames is slower
/// than its link. `weir switch` accepts the same Thrift calls, but also supports rates in bits
/// (`--port-rate`).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  weir controller rates --topology fabric.yaml --frame 1518B --depth 64

Exit status: 0 success; 1 a switch did not respond or rejected the change; 2 invalid input.")]
pub(super) struct Args {
    #[command(flatten)]
    fabric: FabricArgs,
    #[command(flatten)]
    thrift: ThriftArgs,

    /// Bytes of a full frame on the wire
    #[arg(long, value_name = "SIZE", default_value_t = weir_host::DEFAULT_MTU)]
    frame: Bytes,

    /// Queue capacity in packets; BMv2's default is 64
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    #[command(flatten)]
    output: QueryOutput,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let fabric = args.fabric.load(&console.extensions.catalogue.topologies)?;
    let (mut table, mut ports) = (Table::new(), Map::new());
    table.load_style(presets::NOTHING);
    table.set_header(["port", "link", "packets/s"]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    args.thrift.for_each_switch(&fabric, |switch, client| {
        let thrift_error = |error: ThriftError| Failure::Work(format!("{}: {error}", switch.name));
        if let Some(depth) = args.depth {
            client.set_queue_depth(depth).map_err(thrift_error)?;
        }
        for (port, link) in switch.ports() {
            let rate = fabric.topology.link(link).rate;
            let packets = packets_per_second(rate, args.frame);
            client.set_queue_rate(port, packets).map_err(thrift_error)?;
            let port = format!("{}:{port}", switch.name);
            table.add_row([port.clone(), rate.to_string(), packets.to_string()]);
            ports.insert(port, json!({"link_bps": rate.as_bps(), "packets_per_second": packets}));
        }
        Ok(())
    })?;
    if console.style.json {
        return console.print_json(&json!({"ports": ports}));
    }
    fit(&mut table, console.width);
    Ok(writeln!(console.out, "{table}")?)
}
