//! The messages and P4Info.

mod p4info;
mod published;
