//! The messages, and the descriptions of our own programs.

mod info;
mod published;
#[cfg(feature = "server")]
mod tables;
mod translate;
