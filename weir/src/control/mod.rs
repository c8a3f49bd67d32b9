//! Control sockets: running processes are asked, and told, by a line of JSON, and answer with one.

pub mod place;
mod socket;
pub mod talk;

pub use socket::{Serving, Socket};
