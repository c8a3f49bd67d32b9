//! The messages, and the bfrt.json of Weir's programs.

mod info;
mod published;
#[cfg(feature = "server")]
mod tables;
mod translate;
