//! Messages over a network that loses packets: as TCP carries them, over one or several subflows.
//!
//! A connection is one message. Each subflow has a UDP port of its own, and so its own path, its own
//! sequence space, and makes up for its own losses; DATA says in `seq` where it stands in the subflow and in
//! `grant` where it stands in the message. A byte of the message is given to one subflow, and to
//! another one too if the path of the first is dead.
//! The message has arrived when all of its bytes have, by whichever subflows.

mod inbound;
mod intervals;
mod outbound;
mod rto;
mod sending;
mod subflow;

pub(crate) use inbound::Inbound;
pub(crate) use outbound::Outbound;
