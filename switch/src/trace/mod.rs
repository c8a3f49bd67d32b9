//! The path of a packet through a switch: its steps, and a trace that records and prints them.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod packet_trace;
mod print;
mod step;

pub use packet_trace::{Event, NamedValue, PacketTrace};
pub use step::{Step, SwitchTracer};
