//! Simulations of the shipped experiment files and of small fabrics.

mod acceptance;
mod control_plane;
mod dasr;
mod deadlock;
mod faults;
mod hops;
mod in_order;
mod model;
mod multipath;
mod packets;
mod papers;
mod pauses;
mod policy;
mod policy_flood;
mod policy_medium;
mod programs;
mod queues;
mod random_experiments;
mod senders;
mod threads;
mod workloads;
