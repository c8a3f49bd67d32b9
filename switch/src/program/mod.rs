//! BMv2 JSON -> checked, flat [`Program`].
//!
//! Loading resolves and checks everything once: a loaded program has no names to look up, no trees to walk and no
//! missing objects. An unsupported feature is refused with its place in the JSON.
//!
//! Loading has five phases; each one turns the complete result of the phase before into another:
//!
//! | phase | result |
//! |---|---|
//! | `json::parse` | values, each with its path in the JSON for errors |
//! | `Declared::load` | header types, headers, registers, lists, actions and calculations have indices and slots |
//! | `Lowered::new` | parser, checksums, deparser, actions, tables and control flow are code |
//! | `Linked::new` | temporaries and constants have slots: the interpreter's program |
//! | `Wire::new` | how headers move to and from the frame |
//!
//! A pipeline of the fast engine asks for a sixth: `Native::new` writes machine code.

mod access;
mod action;
mod codegen;
mod control_flow;
mod declarations;
mod expr;
mod externs;
mod field_usage;
mod frame_access;
mod hash;
mod header_moves;
mod header_types;
mod json;
mod key_layout;
mod layout;
mod link;
mod lower;
mod native;
mod op;
mod parser;
mod source;
mod standard_metadata;
mod table;

pub(crate) use action::{CLONE_SESSION_VALID, LogMessage};
pub(crate) use codegen::low_mask;
pub(crate) use externs::{ExternArray, RegisterArray};
pub(crate) use hash::{Algorithm, Calculation, HashInput, MAX_HASH_BYTES};
pub(crate) use header_moves::{BitMove, HeaderMoves, MoveWindows, WINDOW_LEN};
pub(crate) use key_layout::KeyLayout;
pub(crate) use layout::{FRAME_OFFSET_SLOT, HeaderStack, VALID_SLOT};
pub(crate) use native::{
    ACTION_LOOP, CallFrame, CrcTables, DIRECT_KEY_BITS, DROP, EXIT_DEPARSE, EXIT_INTERPRET, EXIT_SEND,
    Helpers, INPUTS, KeyCacheFormat, LookupResult, MAX_KEY_WORDS, MULTICAST, Native,
    NativeInput as CallInput, NativeTable, PARSER_LOOP, ROW_ACTION_SHIFT, ROW_NEXT_SHIFT, UNICAST,
    row_actions,
};
pub(crate) use op::{HeaderInfo, Op, Opcode, Pc, Slot, WideOp, WideOpcode, WideSlot};
pub(crate) use parser::{Keyset, MAX_SELECT_WORDS, ParseOp, SelectPart, limbs_from_be_bytes};
pub use source::SourceLocation;
pub(crate) use table::{
    ActionProfile, ConstEntry, Key, Table, TableDefinition, limbs, mask_limbs, prefix_mask,
};
pub use table::{KeyInfo, TableInfo};

use access::Access;
use declarations::Declared;
use frame_access::FrameAccess;
use link::Linked;
use lower::Lowered;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// A table of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u16);

/// An action of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub u16);

/// A header instance of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderId(pub u16);

/// The reason why a program was refused. Displays as `path: message`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct LoadError {
    /// Place in the JSON, such as `pipelines[0].tables[3].key[1]`, or `3:7` (line and column) if the text is not
    /// JSON.
    pub path: String,
    /// The fault and its remedy.
    pub message: String,
}

/// The match kind of a key element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchKind {
    /// Equal.
    Exact,
    /// Longest prefix.
    Lpm,
    /// Value and mask; `optional` too.
    Ternary,
    /// From low to high.
    Range,
}

/// An action's signature, for controllers.
#[derive(Clone, Debug)]
pub struct ActionInfo {
    /// Its name, as P4Info has it.
    pub name: String,
    /// Names and widths of its parameters.
    pub params: Vec<(String, u32)>,
}

impl ActionInfo {
    /// Returns how many words its arguments take.
    pub(crate) fn words(&self) -> usize {
        self.params.iter().map(|(_, bits)| limbs(*bits)).sum()
    }
}

/// Code that computes a value, and the slot that has it afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ComputedSlot {
    pub code: Option<Pc>,
    pub slot: Slot,
}

/// A checksum of the program.
#[derive(Clone, Debug)]
pub(crate) struct Checksum {
    pub name: String,
    pub calculation: u16,
    pub target: layout::SlotRef,
    /// Its target's header; None for metadata, which is always valid.
    pub valid: Option<Slot>,
    pub condition: Option<ComputedSlot>,
    pub verify: bool,
    pub update: bool,
}

/// Fields that go together: for digests, and for what survives a clone, resubmit or recirculate.
#[derive(Clone, Debug)]
pub(crate) struct FieldList {
    pub name: String,
    pub id: i64,
    /// Slot and width.
    pub fields: Vec<(Slot, u32)>,
}

/// A place in the code, for those who watch.
#[derive(Clone, Debug)]
pub(crate) enum TracePoint {
    /// A condition begins here; if it holds, code goes on at `end`.
    Condition { name: String, end: Pc },
    /// A table without a key, whose action stands here.
    Table(u16),
}

/// Operations that a parser may do for one packet, and that the backward jumps of one run of code may repeat. A loop that
/// ends stays far below it: a parser that takes one byte in each state parses the longest frame with a quarter of it.
pub(crate) const LOOP_BUDGET: u32 = 1 << 20;

/// Header vectors come in these sizes. Code is compiled for each of them, so that no operand can be out of bounds.
pub(crate) const PHV_CAPACITIES: [usize; 4] = [1 << 8, 1 << 10, 1 << 12, 1 << 16];

/// The engine that runs a program. Both have the same effect on every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Runs machine code that is made for the program; the interpreter runs what that does not cover, packets that are
    /// traced, and everything on hosts other than x86-64.
    #[default]
    Compiled,
    /// The plain interpreter: slower, and the reference for the other engine.
    Interpreter,
}

/// A checked P4 program, shared by all switches that run it.
#[derive(Debug)]
pub struct Program {
    /// Tells packets which program their header vector is laid out for.
    pub(crate) layout_id: u32,
    /// The engine of pipelines that are made for it.
    pub(crate) engine: Engine,
    /// The JSON that it was loaded from.
    pub(crate) json: String,
    /// Places in the P4 source, once a trace has asked for them.
    pub(crate) source_map: OnceLock<source::SourceMap>,
    /// The interpreter's form of the program.
    linked: Linked,
    /// The interpreter's moves between frame and slots, by header instance.
    pub(crate) header_moves: Vec<HeaderMoves>,
    /// The compiled engine's moves between frame and slots.
    pub(crate) frame_access: FrameAccess,
    /// The machine code, once a pipeline has asked for it; `None` if the interpreter has to run everything.
    native: OnceLock<Option<Native>>,
}

/// Numbers programs and their machine code within the process; it never shows in what a switch does.
static NEXT_LAYOUT_ID: AtomicU32 = AtomicU32::new(1);

/// Returns a number that nothing else has in this process.
fn next_layout_id() -> u32 {
    NEXT_LAYOUT_ID.fetch_add(1, Ordering::Relaxed)
}

impl Deref for Program {
    type Target = Linked;

    #[inline]
    fn deref(&self) -> &Linked {
        &self.linked
    }
}

impl Program {
    /// Loads the output of p4c's BMv2 back end, version 2 of the format, for the compiled engine.
    ///
    /// # Errors
    ///
    /// The text is no JSON of that format, or uses a feature that is not supported. The error names the place.
    pub fn from_json(text: &str) -> Result<Arc<Program>, LoadError> {
        Program::load(text, Engine::default())
    }

    /// Loads a program as [`Program::from_json`] does, for this engine.
    ///
    /// # Errors
    ///
    /// As [`Program::from_json`].
    pub fn load(text: &str, engine: Engine) -> Result<Arc<Program>, LoadError> {
        let value = json::parse(text)?;
        let root = json::JsonNode::root(&value);
        let declared = Declared::load(&root)?;
        let lowered = Lowered::new(&root, &declared)?;
        let linked = Linked::new(&root, declared, lowered)?;
        let shapes = field_usage::header_moves(&linked, &Access::program(&linked, &[]));
        Ok(Arc::new(Program {
            layout_id: next_layout_id(),
            engine,
            json: text.to_owned(),
            source_map: OnceLock::new(),
            frame_access: FrameAccess::new(&linked, &shapes),
            native: OnceLock::new(),
            linked,
            header_moves: shapes,
        }))
    }

    /// Writes the program's machine code, which calls these functions of the pipeline, unless that was done before.
    pub(crate) fn compile_native(&self, helpers: impl FnOnce() -> Helpers) {
        self.native.get_or_init(|| Native::new(&self.linked, &self.frame_access, &helpers()));
    }

    /// Returns the program's machine code, if it was written.
    #[inline]
    pub(crate) fn native(&self) -> Option<&Native> {
        self.native.get()?.as_ref()
    }

    /// Returns the JSON it was loaded from.
    pub fn json(&self) -> &str {
        &self.json
    }
    /// Returns the name of a table.
    pub fn table_name(&self, table: TableId) -> &str {
        self.tables.get(usize::from(table.0)).map_or("", |table| &table.info.name)
    }
    /// Returns the name of an action.
    pub fn action_name(&self, action: ActionId) -> &str {
        self.actions.get(usize::from(action.0)).map_or("", |action| &action.name)
    }
    /// Returns the name of a header instance.
    pub fn header_name(&self, header: HeaderId) -> &str {
        self.layout.headers.get(usize::from(header.0)).map_or("", |header| &header.name)
    }
    /// Returns all tables.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &TableInfo)> {
        (0..).map(TableId).zip(self.tables.iter().map(|table| &table.info))
    }
    /// Returns all actions with their parameters.
    pub fn actions(&self) -> impl Iterator<Item = (ActionId, &ActionInfo)> {
        (0..).map(ActionId).zip(&self.actions)
    }
    /// Returns the field that a slot belongs to, and its width.
    pub(crate) fn slot_field(&self, slot: Slot) -> Option<(String, u32)> {
        let (header, field) = self.layout.field_at(slot)?;
        Some((format!("{}.{}", header.name, field.name), field.bits))
    }
    /// Returns the marks at an address of the code.
    pub(crate) fn trace_points_at(&self, pc: Pc) -> impl Iterator<Item = &TracePoint> {
        let first = self.trace_points.partition_point(|(at, _)| *at < pc);
        self.trace_points[first..].iter().take_while(move |(at, _)| *at == pc).map(|(_, mark)| mark)
    }
}
