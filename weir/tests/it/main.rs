//! The command line without root.

mod architecture;
mod book;
mod cli;
mod docs;
mod engines;
mod files;
mod fleet;
mod fuzz;
mod mistakes;
mod modules;
mod output;
mod projects;
mod quickstart;
mod run_dirs;
mod running_fabric;
mod schema;
mod serve;
mod snippets;
mod sweeps;
mod switch;
mod tls;
mod tofino;
