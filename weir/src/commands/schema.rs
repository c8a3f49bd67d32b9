//! `weir schema`

use crate::console::{Console, Failure};
use crate::reference;
use std::io::Write;

/// Write the JSON Schema of experiment files, for editors
///
/// With `# yaml-language-server: $schema=FILE` in its first line, an editor completes the keys of an experiment file, shows
/// what they mean, and marks what is wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir schema > weir.schema.json\n  weir schema --markdown > keys.md")]
pub struct Args {
    /// Write the reference of all keys as Markdown instead
    #[arg(long)]
    markdown: bool,
}

/// Executes the command.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let schema = console.kit.catalogue.schema();
    match args.markdown {
        true => write!(console.out, "{}", reference::markdown(&schema))?,
        false => writeln!(console.out, "{schema:#}")?,
    }
    Ok(())
}
