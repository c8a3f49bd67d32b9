//! `weir`: see `weir --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    weir::Cli::new().run()
}
