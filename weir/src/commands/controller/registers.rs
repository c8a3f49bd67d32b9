//! `weir controller registers`

use super::fabric::FabricArgs;
use super::thrift::ThriftArgs;
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, json};
use std::io::Write;
use weir_report::table::fit;

/// Show a register array's cells of the ports in use, by Thrift
///
/// BMv2 does not show registers over P4Runtime. The programs of p4src keep per port queue_bytes, tx_bytes and (fncc.p4)
/// all_int_table.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  weir controller registers queue_bytes --topology fabric.yaml

Exit status: 0 all were read; 1 a switch did not answer or has no such register; 2 the input is wrong.")]
pub struct Args {
    /// Name of the register array, as the program has it
    register: String,
    #[command(flatten)]
    fabric: FabricArgs,
    #[command(flatten)]
    thrift: ThriftArgs,
    #[command(flatten)]
    output: QueryOutput,
}

/// Executes the command.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let fabric = args.fabric.load(&console.kit.catalogue.topologies)?;
    let (mut table, mut cells_of) = (Table::new(), Map::new());
    table.load_style(presets::NOTHING);
    table.set_header(["port", args.register.as_str()]);
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    args.thrift.at_all(&fabric, |switch, client| {
        let cells = client
            .register_read_all(&args.register)
            .map_err(|error| Failure::Work(format!("{}: {error}", switch.name)))?;
        for (port, _) in switch.ports() {
            // The register may be shorter than the switch has ports.
            let Some(cell) = cells.get(usize::from(port)) else { continue };
            let port = format!("{}:{port}", switch.name);
            table.add_row([port.clone(), cell.to_string()]);
            cells_of.insert(port, json!(cell));
        }
        Ok(())
    })?;
    if console.style.json {
        return console.print_json(&json!({"register": args.register, "ports": cells_of}));
    }
    fit(&mut table, console.width);
    Ok(writeln!(console.out, "{table}")?)
}
