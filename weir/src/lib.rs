//! The command line of Weir: [`commands`], and the [`report`] that a run leaves behind.
//!
//! A command reads its input, asks the libraries to do the work and prints what came of it; nothing
//! is computed here that another program could want. Nothing depends on this crate.

mod cli;
pub mod commands;
pub mod console;
pub mod files;
pub mod interrupt;
pub mod kit;
pub mod mininet;
pub mod output;
pub mod privilege;
mod reference;
pub mod report;
pub mod results;
pub mod sweep;

pub use cli::Cli;
