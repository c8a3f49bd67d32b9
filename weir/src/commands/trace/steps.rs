//! The steps of a packet through a switch as lines, and as slices for Perfetto.

use crate::commands::files::open_output;
use crate::console::Failure;
use std::path::Path;
use weir_report::files::MODE_PUBLIC;
use weir_report::perfetto::{self, SwitchTraversal};
use weir_switch::trace::PacketTrace;

/// Returns the steps of a trace, one line each.
pub(super) fn steps(trace: &PacketTrace) -> Vec<String> {
    trace.to_string().lines().map(str::to_owned).collect()
}

/// Returns a switch traversal for Perfetto. `from` is the index of the traversal that sent the packet; `None` for the
/// first.
pub(super) fn traversal(
    switch: &str,
    name: String,
    trace: &PacketTrace,
    from: Option<usize>,
) -> SwitchTraversal {
    let steps = steps(trace).iter().map(|line| line.trim().to_owned()).collect();
    SwitchTraversal { switch: switch.to_owned(), name, steps, from }
}

/// Writes traversals to the file of `--perfetto`.
pub(super) fn write_perfetto(file: &Path, traversals: &[SwitchTraversal]) -> Result<(), Failure> {
    let out = open_output("--perfetto", file)?;
    let mut bytes = Vec::new();
    perfetto::write_traversals(traversals, &mut bytes)?;
    out.write(&bytes, MODE_PUBLIC).map_err(|error| Failure::Work(format!("{}: {error}", file.display())))
}
