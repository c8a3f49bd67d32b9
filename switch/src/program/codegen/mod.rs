//! Lowers expressions to flat code, with helpers to emit operations and jumps.

mod arith;
mod branch;
mod builder;

pub(super) use builder::{CodeBuilder, FIRST_CONST, FIRST_TEMP, UnlinkedCode};
