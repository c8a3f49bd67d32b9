//! `weir wireshark`: prints or installs the Wireshark dissector.

use super::files::{create_dir, write};
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

const DISSECTOR: &str = include_str!("../../assets/weir.lua");
const FILE_NAME: &str = "weir.lua";
/// Wireshark's plugin directory of a user, relative to the home directory (Help, About, Folders).
const PLUGIN_DIR: &str = ".local/lib/wireshark/plugins";

/// Print the Wireshark dissector for Weir packets, or install it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir wireshark --install           for you, in ~/.local/lib/wireshark/plugins
  weir wireshark > weir.lua && tshark -X lua_script:weir.lua -r capture.pcap

docs/wireshark.md lists fields and filters.")]
pub(super) struct Args {
    /// Install the dissector in DIR [default: your Wireshark plugin directory]
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    install: Option<Option<PathBuf>>,

    #[command(flatten)]
    output: QueryOutput,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    if console.style.json && args.install.is_none() {
        return Err(Failure::input("--json requires --install"));
    }
    let Some(dir) = &args.install else { return Ok(console.out.write_all(DISSECTOR.as_bytes())?) };
    let dir = match dir {
        Some(dir) => dir.clone(),
        None => plugin_dir().ok_or_else(|| Failure::input("HOME is not set; use --install DIR"))?,
    };
    let file = create_dir(&dir)?.join(FILE_NAME);
    write(&file, DISSECTOR.as_bytes())?;
    if console.style.json {
        return console.print_json(&json!({"dissector": file}));
    }
    Ok(writeln!(console.out, "Dissector {}", file.display())?)
}

fn plugin_dir() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
    Some(Path::new(&home).join(PLUGIN_DIR))
}
