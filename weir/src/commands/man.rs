//! `weir man`: writes the man pages, or all help texts as Markdown.

use super::files::{create_dir, write};
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use clap::Command;
use clap_mangen::Man;
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Write the man pages, one per command
///
/// The pages contain the help texts: weir.1, weir-run.1, weir-controller-apply.1 and so on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  weir man ~/.local/share/man/man1 && man weir-run
  weir man --markdown > commands.md")]
pub(super) struct Args {
    /// Output directory, created if missing
    #[arg(value_name = "DIR", required_unless_present = "markdown")]
    directory: Option<PathBuf>,

    /// Write the help of all commands as one Markdown page instead
    #[arg(long, conflicts_with_all = ["directory", "json"])]
    pub markdown: bool,

    #[command(flatten)]
    output: QueryOutput,
}

/// Documents `command`, the whole command line.
pub(super) fn run(args: &Args, command: Command, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let Some(directory) = &args.directory else {
        let mut page = HEADING.to_owned();
        append_help(&mut page, "weir", command.term_width(WIDTH));
        write!(console.out, "{page}")?;
        return Ok(());
    };
    let directory = create_dir(directory)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let pages = write_pages(command, &directory)?;
    if console.style.json {
        return console.print_json(&json!({"directory": directory, "pages": pages}));
    }
    writeln!(console.out, "{}: {pages} pages", directory.display())?;
    Ok(())
}

/// Writes the man pages of a command and of its subcommands, and returns the number of pages.
fn write_pages(command: Command, directory: &Path) -> Result<usize, Failure> {
    let subcommands = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let subcommand_pages = subcommands.map(|subcommand| write_pages(subcommand, directory));
    let subcommand_pages = subcommand_pages.sum::<Result<usize, Failure>>()?;
    let page = Man::new(command);
    let mut text = Vec::new();
    page.render(&mut text)?;
    write(&directory.join(page.get_filename()), &text)?;
    Ok(subcommand_pages + 1)
}

const HEADING: &str = "\
# Command line

`weir man --markdown` writes this page from the help that `weir COMMAND --help` prints. The keys of experiment files, which
`weir run --help` lists too, have [a page of their own](keys.md).
";

/// Column at which the help texts on the page are wrapped.
const WIDTH: usize = 100;

/// Appends the help of a command, then recursively that of its subcommands.
fn append_help(page: &mut String, path: &str, mut command: Command) {
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {path}\n\n```\n{}\n```\n", help.join("\n").trim_end());
    for subcommand in
        command.get_subcommands().filter(|command| command.get_name() != "help" && !command.is_hide_set())
    {
        let path = format!("{path} {}", subcommand.get_name());
        let subcommand = subcommand.clone().bin_name(&path).term_width(WIDTH);
        append_help(page, &path, subcommand);
    }
}
