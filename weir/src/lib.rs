//! The command line of Weir.
//!
//! A command reads its input, asks the libraries to do the work and prints the result; nothing
//! is computed here that another program could want. Nothing depends on this crate but programs that add a scheme, a
//! workload, a topology or a chart to it ([`Cli`]).

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
/// For charts of an own program.
pub use weir_report as report;
