//! The worklist of basic blocks (sequences of operations with one entry) that are still to be emitted.

use crate::program::op::Pc;
use cranelift_codegen::ir::{Block, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use std::collections::HashMap;

/// The basic blocks of a function's operations, and a worklist of those still to be emitted. A block is identified by
/// the address of its first operation and an index into `instances`: code that is inlined several times has blocks
/// for each instance.
pub(super) struct CodeWorklist {
    pub blocks: HashMap<(Pc, usize), Block>,
    pub waiting: Vec<(Pc, usize)>,
    pub instances: Vec<InlineInstance>,
    /// The remaining [`LOOP_BUDGET`](crate::program::LOOP_BUDGET).
    pub budget: Variable,
}

impl CodeWorklist {
    pub(super) fn new(b: &mut FunctionBuilder) -> CodeWorklist {
        let budget = b.declare_var(types::I64);
        CodeWorklist { blocks: HashMap::new(), waiting: Vec::new(), instances: Vec::new(), budget }
    }
}

/// One inlined instance of a piece of code.
#[derive(Clone, Copy)]
pub(super) struct InlineInstance {
    /// The block at which control continues after `End`.
    pub end: Block,
    /// Where an action returns to; `None` for code outside actions.
    pub return_target: Option<ReturnTarget>,
}

/// The table application to which an action returns.
#[derive(Clone, Copy)]
pub(super) struct ReturnTarget {
    /// Index of the instance that applied the table.
    pub instance: usize,
    /// Address of the next node after a hit.
    pub hit: Pc,
    /// Address of the next node after a miss.
    pub miss: Pc,
    /// The matched entry; 0 for a miss.
    pub entry: Value,
}
