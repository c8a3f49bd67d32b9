//! The command line of Weir.
//!
//! A command reads its input, calls the libraries and prints the result; computations that are useful to
//! other programs belong in the libraries. Only programs that add a scheme, a workload, a topology or a chart
//! ([`Cli`]) depend on this crate.

mod cli;
pub mod commands;
pub mod console;
mod control;
mod http;
mod huge_pages;
pub mod interrupt;
mod live;
mod metrics;
pub mod output;
pub mod privilege;
mod reference;

pub use cli::Cli;
/// Re-exported for charts of other crates.
pub use weir_report as report;
