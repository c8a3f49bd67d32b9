//! The host stack without a socket or a clock: every scheme, the transport and what a peer may send.

mod ack_event;
mod credits;
mod dasr;
mod docs;
mod expectations;
mod failure;
mod forged;
mod golden;
mod golden_power;
mod golden_rates;
mod golden_windows;
mod hostile;
mod hpcc_plus;
mod ibcc;
mod lies;
mod nic;
mod p4;
mod parameters;
mod policy;
mod rates;
mod receiver;
mod registry;
mod swift;
mod transport;
mod variants;
mod window_based;
