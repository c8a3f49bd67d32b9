//! The built-in schemes, one file or directory each, and the [`Registry`] that finds them by name.

mod dasr;
mod dcqcn;
mod dctcp;
mod dice;
mod expresspass;
mod fncc;
mod hpcc;
mod hpcc_plus;
mod ibcc;
mod inflight;
mod iofd;
mod multipath;
pub mod pacing;
mod powertcp;
mod rcp;
mod registry;
mod rocc;
mod swift;
mod timely;
mod weir;

pub use registry::{Registry, SchemeError};
