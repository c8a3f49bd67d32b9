//! The client against servers in this process.

mod tofino;
