//! Loads BMv2 JSON as a checked, flat [`Program`].
//!
//! Loading resolves and checks everything once: a loaded program has no names to look up, no trees to walk
//! and no missing objects. An unsupported feature is refused with its location in the JSON.
//!
//! Loading has five phases; each one turns the complete result of the previous phase into another:
//!
//! | phase | result |
//! |---|---|
//! | `json::parse` | values, each with its path in the JSON for errors |
//! | `Declared::load` | header types, headers, registers, lists, actions and calculations have indices and
//! slots |
//! | `Lowered::new` | parser, checksums, deparser, actions, tables and control flow are code |
//! | `Linked::new` | temporaries and constants have slots: the interpreter's program |
//! | `FrameAccess::new` | the loads and stores that move headers between frame and slots |
//!
//! A pipeline of the compiled engine adds a sixth: `Native::new` generates machine code.

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

/// The index of a table in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u16);

/// The index of an action in its program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub u16);

/// The index of a header instance in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderId(pub u16);

/// The error of loading a program. It displays as `path: message`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct LoadError {
    /// Location in the JSON, such as `pipelines[0].tables[3].key[1]`, or `3:7` (line and column) if the text
    /// is not JSON.
    pub path: String,
    /// What is wrong and, where it helps, what would be right.
    pub message: String,
}

/// The match kind of a key element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchKind {
    /// The value is equal.
    Exact,
    /// The longest matching prefix wins.
    Lpm,
    /// Value and mask with a priority; `optional` keys are loaded as ternary.
    Ternary,
    /// A range with inclusive bounds and a priority.
    Range,
}

/// The signature of an action, as the runtime API shows it.
#[derive(Clone, Debug)]
pub struct ActionInfo {
    /// The fully qualified name, as in P4Info.
    pub name: String,
    /// Name and width in bits of each parameter.
    pub params: Vec<(String, u32)>,
}

impl ActionInfo {
    /// Returns the number of 64-bit words that the arguments take.
    pub(crate) fn words(&self) -> usize {
        self.params.iter().map(|(_, bits)| limbs(*bits)).sum()
    }
}

/// Code that computes a value (a condition, a length, an error code), and the slot that holds it afterwards.
/// Without code the slot already holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ComputedSlot {
    pub code: Option<Pc>,
    pub slot: Slot,
}

/// A checksum that is verified after the parser, updated before the deparser, or both.
#[derive(Clone, Debug)]
pub(crate) struct Checksum {
    pub name: String,
    /// Index of the calculation.
    pub calculation: u16,
    pub target: layout::SlotRef,
    /// The validity slot of the target's header; the checksum is skipped while it is 0. `None` for metadata.
    pub valid: Option<Slot>,
    pub condition: Option<ComputedSlot>,
    pub verify: bool,
    pub update: bool,
}

/// A list of fields: of a digest, or to be preserved by a clone, resubmit or recirculation.
#[derive(Clone, Debug)]
pub(crate) struct FieldList {
    pub name: String,
    pub id: i64,
    /// First slot and width in bits of each field.
    pub fields: Vec<(Slot, u32)>,
}

/// A position in the code at which the tracer reports a condition or a hidden table.
#[derive(Clone, Debug)]
pub(crate) enum TracePoint {
    /// A condition begins here. If it holds, control reaches `end`.
    Condition { name: String, end: Pc },
    /// A hidden table begins here: its action is inlined. The index of the table.
    Table(u16),
}

/// Operations that a parser may do for one packet, and that the backward jumps of one run of code may repeat. A loop that
/// ends stays far below it: a parser that takes one byte in each state parses the longest frame with a quarter of it.
pub(crate) const LOOP_BUDGET: u32 = 1 << 20;

/// The sizes of header vectors, in slots. The interpreter is compiled for each, so that masking an operand
/// replaces its bounds check.
pub(crate) const PHV_CAPACITIES: [usize; 4] = [1 << 8, 1 << 10, 1 << 12, 1 << 16];

/// The engine that runs a program. Both have the same effect on every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Runs machine code that is generated for the program. The interpreter runs packets that the code does
    /// not cover, packets that are traced, and everything on hosts other than x86-64 Unix.
    #[default]
    Compiled,
    /// The interpreter for every packet: slower, and the reference for the compiled engine.
    Interpreter,
}

/// A checked P4 program, shared by all switches that run it.
#[derive(Debug)]
pub struct Program {
    /// Identifies the layout of the header vector. A packet's vector is used only with the program of the
    /// same id.
    pub(crate) layout_id: u32,
    /// The engine of pipelines that run the program.
    pub(crate) engine: Engine,
    /// The JSON text from which the program was loaded.
    pub(crate) json: String,
    /// Locations in the P4 source, read when the first trace needs them.
    pub(crate) source_map: OnceLock<source::SourceMap>,
    /// The interpreter's form of the program.
    linked: Linked,
    /// The interpreter's moves between frame and slots, by header instance.
    pub(crate) header_moves: Vec<HeaderMoves>,
    /// The compiled engine's moves between frame and slots.
    pub(crate) frame_access: FrameAccess,
    /// The machine code, generated for the first pipeline; `None` if that failed and the interpreter runs
    /// everything.
    native: OnceLock<Option<Native>>,
}

/// The next id of a layout of header vectors or bridged words, unique in the process. Ids have no effect on
/// results.
static NEXT_LAYOUT_ID: AtomicU32 = AtomicU32::new(1);

/// Returns an unused id. Relaxed suffices: only uniqueness matters, not the order.
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
    /// The text is not JSON of that format, or uses a feature that is not supported. The error names the
    /// location.
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

    /// Generates the program's machine code unless that has been tried before. `helpers` returns the
    /// functions that the code calls.
    pub(crate) fn compile_native(&self, helpers: impl FnOnce() -> Helpers) {
        self.native.get_or_init(|| Native::new(&self.linked, &self.frame_access, &helpers()));
    }

    /// Returns the program's machine code; `None` if there is none, or [`Program::compile_native`] was not
    /// called.
    #[inline]
    pub(crate) fn native(&self) -> Option<&Native> {
        self.native.get()?.as_ref()
    }

    /// Returns the JSON text from which the program was loaded.
    pub fn json(&self) -> &str {
        &self.json
    }
    /// Returns the name of a table; empty for an unknown id.
    pub fn table_name(&self, table: TableId) -> &str {
        self.tables.get(usize::from(table.0)).map_or("", |table| &table.info.name)
    }
    /// Returns the name of an action; empty for an unknown id.
    pub fn action_name(&self, action: ActionId) -> &str {
        self.actions.get(usize::from(action.0)).map_or("", |action| &action.name)
    }
    /// Returns the name of a header instance; empty for an unknown id.
    pub fn header_name(&self, header: HeaderId) -> &str {
        self.layout.headers.get(usize::from(header.0)).map_or("", |header| &header.name)
    }
    /// Returns all tables, ordered by id.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &TableInfo)> {
        (0..).map(TableId).zip(self.tables.iter().map(|table| &table.info))
    }
    /// Returns all actions, ordered by id.
    pub fn actions(&self) -> impl Iterator<Item = (ActionId, &ActionInfo)> {
        (0..).map(ActionId).zip(&self.actions)
    }
    /// Returns the name and width in bits of the field to which a slot belongs.
    pub(crate) fn slot_field(&self, slot: Slot) -> Option<(String, u32)> {
        let (header, field) = self.layout.field_at(slot)?;
        Some((format!("{}.{}", header.name, field.name), field.bits))
    }
    /// Returns the trace points at an address of the code.
    pub(crate) fn trace_points_at(&self, pc: Pc) -> impl Iterator<Item = &TracePoint> {
        let first = self.trace_points.partition_point(|(at, _)| *at < pc);
        self.trace_points[first..].iter().take_while(move |(at, _)| *at == pc).map(|(_, mark)| mark)
    }
}
