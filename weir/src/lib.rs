//! The command line of Weir.
//!
//! A command reads its input, calls the libraries and prints the result; computations that are useful to
//! other programs belong in the libraries. Only programs that add a scheme, a workload, a topology or a chart
//! ([`Cli`]) depend on this crate.

mod cli;
pub mod commands;
pub mod console;
#[cfg(feature = "full")]
mod control;
#[cfg(feature = "full")]
mod http;
mod huge_pages;
pub mod interrupt;
#[cfg(feature = "full")]
mod live;
#[cfg(feature = "full")]
mod metrics;
pub mod output;
#[cfg(feature = "full")]
pub mod privilege;
mod reference;

pub use cli::Cli;
/// Re-exported for charts of other crates.
pub use weir_report as report;
