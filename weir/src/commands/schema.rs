//! `weir schema`: prints the JSON Schema or the reference of experiment files.

use crate::console::{Console, Failure};
use crate::reference;
use std::io::Write;

/// Print the JSON Schema of experiment files, for editors
///
/// With `# yaml-language-server: $schema=FILE` in the first line of an experiment file, an editor completes
/// its keys, shows their descriptions, and marks errors.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir schema > weir.schema.json\n  weir schema --markdown > keys.md")]
pub(super) struct Args {
    /// Print the reference of all keys as Markdown instead
    #[arg(long)]
    markdown: bool,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let schema = console.extensions.catalogue.schema();
    match args.markdown {
        true => write!(console.out, "{}", reference::markdown(&schema))?,
        false => writeln!(console.out, "{schema:#}")?,
    }
    Ok(())
}
