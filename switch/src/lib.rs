//! A P4 switch that runs the output of p4c's BMv2 back end (v1model), faster than BMv2. A [`Switch`] has no
//! clock, sockets or threads; only the module [`driver`] has them.
//!
//! - [`program`] loads and checks BMv2 JSON: names become slots and indices, expressions become bytecode.
//! - [`pipeline`] runs a program on a [`packet::Packet`]: parser and ingress, later egress and deparser. It
//!   does not depend on queues or P4Runtime.
//! - [`tm`] is the traffic manager between ingress and egress: queues, priorities, limits, PFC. It does not
//!   depend on P4.
//! - [`engine`] combines both with multicast, clones, resubmit and recirculate into a [`Switch`]. A driver
//!   passes it received frames and requests frames to send.
//! - [`control`] is the P4Runtime view of a switch: it writes and reads entities, in process.
//! - [`link`] models a link with rate, delay and faults; the driver emulates links with it.
//! - [`driver`] runs a switch on interfaces or pcap files; the crate `weir-server` serves it to controllers.
//! - [`stf`] runs packet tests on a switch, [`trace`] records a packet's path through it, [`drops`] lists the
//!   reasons for dropping a packet.
//!
//! Time, a random seed and packets are arguments: equal calls give equal bytes.

#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod control;
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
pub mod driver;
pub mod drops;
pub mod engine;
pub mod link;
pub mod packet;
pub mod pipeline;
pub mod prefetch;
pub mod program;
pub mod stf;
pub mod tm;
pub mod trace;

pub use engine::{Switch, SwitchConfig, SwitchOutput};
pub use packet::{Packet, PacketPool};
pub use pipeline::Pipeline;
pub use program::Program;
