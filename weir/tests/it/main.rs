//! The command line without root.

mod architecture;
mod cli;
mod fleet;
mod quickstart;
mod run_dirs;
mod switch;
