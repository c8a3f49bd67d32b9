//! The commands that a build without the feature `full` lacks. They are known, so that whoever calls one learns how to get it.

use crate::console::Failure;
use std::ffi::OsString;

/// A command that is not part of this build.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    Switch(Anything),
    Top(Anything),
    Man(Anything),
    Host(Anything),
    Controller(Anything),
    Fabric(Anything),
    Link(Anything),
    Mininet(Anything),
    Policy(Anything),
}

/// (not part of this build; `make build` builds it)
///
/// Not part of this build, which runs experiments in virtual time only. `make build`, or `cargo build --release`, builds
/// all of Weir.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct Anything {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Command {
    /// Returns the error that says how to get the command.
    pub(super) fn refusal(&self) -> Failure {
        let name = match self {
            Command::Switch(_) => "switch",
            Command::Top(_) => "top",
            Command::Man(_) => "man",
            Command::Host(_) => "host",
            Command::Controller(_) => "controller",
            Command::Fabric(_) => "fabric",
            Command::Link(_) => "link",
            Command::Mininet(_) => "mininet",
            Command::Policy(_) => "policy",
        };
        Failure::left_out(format_args!("`weir {name}`"))
    }
}
