//! Tracing of a packet through the pipeline.

use super::api_types::EntryHandle;
use crate::program::{ActionId, HeaderId, Program, TableId};

/// Receives the steps of a packet. Every method does nothing unless it is overridden; with [`NoTrace`] the
/// calls compile to nothing.
#[allow(unused_variables)]
pub trait Tracer {
    /// `false` if the tracer ignores everything: nothing is computed for it, and machine code may run.
    const ENABLED: bool = true;
    /// The parser entered a state.
    fn parser_state(&mut self, program: &Program, state: &str) {}
    /// The parser extracted a header of `len` bytes at byte `offset` of the frame.
    fn extract(&mut self, program: &Program, header: HeaderId, offset: usize, len: usize) {}
    /// The parser stopped with an error.
    fn parser_error(&mut self, program: &Program, error: u32, name: &str) {}
    /// A checksum was verified.
    fn checksum(&mut self, program: &Program, name: &str, correct: bool) {}
    /// A table was applied. `key` and `args` are big-endian; `entry` is `None` on a miss; `action` is `None`
    /// if a table without a default action missed.
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
    /// A field was assigned; `old` and `new` are big-endian.
    fn assign(&mut self, program: &Program, field: &str, old: &[u8], new: &[u8]) {}
    /// The program called `log_msg`.
    fn log(&mut self, program: &Program, message: &str) {}
    /// An `assert` or `assume` failed; `assertion` is its location or action.
    fn assertion_failed(&mut self, program: &Program, assertion: &str) {}
    /// The deparser emitted a header of `len` bytes.
    fn emit(&mut self, program: &Program, header: HeaderId, len: usize) {}
}

/// The tracer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTrace;

impl Tracer for NoTrace {
    const ENABLED: bool = false;
}
