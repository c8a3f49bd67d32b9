//! In place of `running.rs` in a build without the feature `full`, which has no P4Runtime client.

use crate::console::{Console, Failure};
use std::path::{Path, PathBuf};

/// The options that select a running fabric and a packet.
#[derive(Debug, clap::Args)]
pub(super) struct RunningArgs {
    /// (not part of this build) Trace through running switches
    #[arg(long, short, value_name = "FILE", requires = "from")]
    topology: Option<PathBuf>,
    #[arg(long, hide = true)]
    from: Option<String>,
    #[arg(long, hide = true)]
    to: Option<String>,
    #[arg(long, hide = true)]
    source_port: Option<u16>,
}

pub(super) fn run(
    _: &RunningArgs,
    _: Option<&str>,
    _: Option<&Path>,
    _: &mut Console,
) -> Result<(), Failure> {
    Err(Failure::left_out("`weir trace --topology`"))
}
