//! The schemes, one file each, and the [`Registry`] that names them.

mod dasr;
mod dcqcn;
mod dctcp;
mod expresspass;
mod fncc;
mod hpcc;
mod hpcc_plus;
mod inflight;
mod iofd;
mod multipath;
pub mod pacing;
mod rcp;
mod registry;
mod rocc;
mod timely;
mod weir;

pub use registry::{Registry, SchemeError};
