//! `weir`: see `weir --help`.

use clap::Parser;
use std::process::ExitCode;
use weir::commands::Cli;
use weir::console::Console;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut console = Console::standard();
    let outcome = cli.run(&mut console);
    console.close(outcome)
}
