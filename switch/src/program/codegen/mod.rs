//! Lowers expressions (trees) to bytecode. [`CodeBuilder`] emits the operations and jumps.

mod arith;
mod branch;
mod builder;

pub(super) use builder::{CodeBuilder, FIRST_CONST, FIRST_TEMP, UnlinkedCode};
