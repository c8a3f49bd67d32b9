//! `weir completions`: prints shell completions.

use crate::console::{Console, Failure};
use clap::Command;
use clap_complete::{Shell, generate};
use std::io::Write;

/// Generate shell completions
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir completions bash | sudo tee /usr/share/bash-completion/completions/weir
  weir completions zsh > ~/.zfunc/_weir
  weir completions fish > ~/.config/fish/completions/weir.fish")]
pub(super) struct Args {
    /// Shell to generate completions for
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completions for `command`, the whole command line.
pub(super) fn run(args: &Args, mut command: Command, console: &mut Console) -> Result<(), Failure> {
    // `generate` panics on write errors, so it writes to memory first.
    let mut script = Vec::new();
    generate(args.shell, &mut command, "weir", &mut script);
    Ok(console.out.write_all(&script)?)
}
