//! A P4 switch: runs what p4c's BMv2 back end compiles (v1model), faster than BMv2 and without a clock, a socket
//! or a thread of its own.
//!
//! - [`program`] loads BMv2 JSON and checks it whole: names become slots and indices, expressions flat code.
//! - [`pipeline`] runs the program on a [`packet::Packet`]: parser, ingress; later egress, deparser. It knows nothing
//!   of queues or of P4Runtime.
//! - [`tm`] is the traffic manager behind ingress: queues, priorities, limits, PFC. It knows nothing of P4.
//! - [`engine`] joins both, with multicast, clones, resubmit and recirculate, into a [`Switch`]; a driver tells it what
//!   arrived and when a port can send.
//! - [`control`] is P4Runtime's view of a switch: entities written to and read from it, in process.
//! - [`link`] is a link of a rate, a length and faults; the driver emulates links with it.
//! - [`driver`] runs a switch on interfaces or pcap files; the crate `weir-server` serves it to controllers.
//! - [`stf`] runs packet tests on a switch, [`trace`] shows one packet's path through it, [`drops`] names every reason
//!   to drop one.
//!
//! Time, randomness (a seed) and packets come in as arguments: the same calls give the same bytes.

pub mod control;
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
