//! Watching a packet go through the pipeline.

use super::api_types::EntryHandle;
use crate::program::{ActionId, HeaderId, Program, TableId};

/// Told what happens to a packet, step by step. Every method does nothing unless it is overridden, and with
/// [`NoTrace`] the calls compile to nothing.
#[allow(unused_variables)]
pub trait Tracer {
    /// False if the tracer ignores everything, so that work done for it only is skipped.
    const ENABLED: bool = true;
    /// The parser enters a state.
    fn parser_state(&mut self, program: &Program, state: &str) {}
    /// The parser took a header from the packet, at this byte.
    fn extract(&mut self, program: &Program, header: HeaderId, offset: usize, len: usize) {}
    /// The parser stopped with an error (its number and its name).
    fn parser_error(&mut self, program: &Program, error: u32, name: &str) {}
    /// A checksum was verified.
    fn checksum(&mut self, program: &Program, name: &str, correct: bool) {}
    /// A table was applied: its key elements big-endian, the entry that matched, the action that follows with its
    /// arguments big-endian. No action: none was set and the table missed.
    fn table(
        &mut self,
        program: &Program,
        table: TableId,
        key: &[Vec<u8>],
        entry: Option<EntryHandle>,
        action: Option<ActionId>,
        args: &[Vec<u8>],
    ) {
    }
    /// A condition was evaluated.
    fn condition(&mut self, program: &Program, name: &str, result: bool) {}
    /// A field got another value.
    fn assign(&mut self, program: &Program, field: &str, old: &[u8], new: &[u8]) {}
    /// The program logged a message.
    fn log(&mut self, program: &Program, message: &str) {}
    /// An `assert` or `assume` did not hold.
    fn assertion_failed(&mut self, program: &Program, action: &str) {}
    /// The deparser emitted a header.
    fn emit(&mut self, program: &Program, header: HeaderId, len: usize) {}
}

/// Traces nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTrace;

impl Tracer for NoTrace {
    const ENABLED: bool = false;
}
