//! `weir man`

use super::{CommandLine, folder};
use crate::console::{Console, Failure};
use crate::output::Answer;
use clap_mangen::generate_to;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Write the man pages, one for each command
///
/// The pages are made from the help: weir.1, weir-run.1, weir-controller-apply.1 and so on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  weir man ~/.local/share/man/man1 && man weir-run")]
pub struct Args {
    /// The directory to write to; made if it is not there
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    #[command(flatten)]
    output: Answer,
}

/// Executes the command.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let directory = folder(&args.directory)?;
    let command = CommandLine::describe(&console.kit.catalogue);
    generate_to(command, &directory)
        .map_err(|error| Failure::Work(format!("{}: {error}", directory.display())))?;
    let pages = std::fs::read_dir(&directory)?.filter_map(Result::ok);
    let pages = pages.filter(|file| file.file_name().to_string_lossy().ends_with(".1")).count();
    if console.style.json {
        return console.answer(&json!({"directory": directory, "pages": pages}));
    }
    writeln!(console.out, "{}: {pages} pages", directory.display())?;
    Ok(())
}
