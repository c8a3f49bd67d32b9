//! `weir controller registers`: shows registers by port.

use super::fabric::FabricArgs;
use super::thrift::ThriftArgs;
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, json};
use std::io::Write;
use weir_report::table::fit;

/// Show the cells of a register array for the ports in use, over Thrift
///
/// BMv2 does not offer register reads over P4Runtime. The programs of p4src have queue_bytes, tx_bytes and
/// (fncc.p4) all_int_table, indexed by port.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  weir controller registers queue_bytes --topology fabric.yaml

Exit status: 0 success; 1 a switch did not respond or has no such register; 2 invalid input.")]
pub(super) struct Args {
    /// Name of the register array in the program
    register: String,
    #[command(flatten)]
    fabric: FabricArgs,
    #[command(flatten)]
    thrift: ThriftArgs,
    #[command(flatten)]
    output: QueryOutput,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let fabric = args.fabric.load(&console.extensions.catalogue.topologies)?;
    let (mut table, mut cells_by_port) = (Table::new(), Map::new());
    table.load_style(presets::NOTHING);
    table.set_header(["port", args.register.as_str()]);
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    args.thrift.for_each_switch(&fabric, |switch, client| {
        let cells = client
            .register_read_all(&args.register)
            .map_err(|error| Failure::Work(format!("{}: {error}", switch.name)))?;
        for (port, _) in switch.ports() {
            // The register array may have fewer cells than the switch has ports.
            let Some(cell) = cells.get(usize::from(port)) else { continue };
            let port = format!("{}:{port}", switch.name);
            table.add_row([port.clone(), cell.to_string()]);
            cells_by_port.insert(port, json!(cell));
        }
        Ok(())
    })?;
    if console.style.json {
        return console.print_json(&json!({"register": args.register, "ports": cells_by_port}));
    }
    fit(&mut table, console.width);
    Ok(writeln!(console.out, "{table}")?)
}
