//! The message transport of one host: the sending half ([`Outbound`]) and the receiving half ([`Inbound`]), which
//! share no state. It sets no rate or window; those come from the scheme's decisions.
//!
//! A message has 1 to 16 subflows. Each subflow has its own UDP port, hence its own path, its own sequence space and
//! its own loss recovery. A byte of the message is assigned to one subflow, and to a second one if the path of the
//! first is dead. The message is complete when all its bytes have arrived, by whichever subflows.
//!
//! There are two kinds of loss recovery ([`LossRecovery`](crate::scheme::LossRecovery)). With go-back-N a message has
//! one subflow, `seq` is the offset in the message, and a receiver answers a gap with a NACK. With selective
//! retransmission DATA carries its offset in the subflow in `seq` and its offset in the message in `grant`, and the
//! receiver keeps the bytes behind a gap.

mod announced;
mod control;
mod deadlines;
mod feedback;
mod frame_times;
mod id_map;
mod inbound;
mod inbound_message;
mod lru;
mod message;
mod message_table;
mod outbound;
mod pacer;
mod peers;
mod probes;
mod range_set;
mod ready;
mod reno;
mod requests;
mod rto;
mod seq;
mod subflow;

pub(crate) use control::ControlQueue;
pub(crate) use frame_times::FrameTimes;
pub(crate) use inbound::Inbound;
pub(crate) use outbound::{Outbound, TxFrame};
