//! Loads BMv2 JSON as a checked, flat [`Program`].
//!
//! Loading resolves and checks everything once: a loaded program has no names to look up, no trees to walk
//! and no missing objects. An unsupported feature is refused with its location in the JSON.
//!
//! Loading has five phases; each turns the complete result of the previous phase into another form:
//!
//! | phase | result |
//! |---|---|
//! | `json::parse` | values, each with its path in the JSON for errors |
//! | `Declarations::load` | header types, headers, registers, lists, actions and calculations have indices or slots |
//! | `LoweredProgram::new` | parser, checksums, deparser, actions, tables and control flow are code |
//! | `LinkedProgram::new` | temporaries and constants have slots: the interpreter's program |
//! | `FrameAccess::new` | the loads and stores that move headers between frame and slots |
//!
//! The first pipeline of the compiled engine adds a sixth phase: `Native::new` generates machine code.

mod access;
mod action;
mod codegen;
mod control_flow;
mod control_slots;
mod declarations;
mod error;
mod expr;
mod externs;
mod field_usage;
mod frame_access;
mod hash;
mod header_moves;
mod header_types;
mod id_vec;
mod json;
mod key_layout;
mod layout;
mod limbs;
mod link;
mod lower;
mod native;
mod op;
mod parser;
mod signatures;
mod source;
mod standard_metadata;
mod table;

pub(crate) use control_slots::CLONE_SESSION_VALID;
pub use error::LoadError;
pub(crate) use externs::{ExternArray, RegisterArray};
pub(crate) use hash::{Algorithm, Calculation, Checksum, HashInput, MAX_HASH_BYTES};
pub(crate) use header_moves::{BitMove, HeaderMoves, MoveWindows, WINDOW_LEN};
pub(crate) use id_vec::IdVec;
pub(crate) use key_layout::{Key, KeyLayout};
pub use layout::HeaderId;
pub(crate) use layout::{FRAME_OFFSET_SLOT, HeaderStack, PHV_CAPACITIES, VALID_SLOT};
pub(crate) use limbs::{limb_count, limbs_from_be_bytes, low_mask, mask_limbs, prefix_mask};
pub(crate) use native::{
    CallFrame, CrcTables, DIRECT_KEY_BITS, EXIT_ACTION_LOOP, EXIT_ASSERTION, EXIT_DEPARSE, EXIT_DROP,
    EXIT_INTERPRET, EXIT_MULTICAST, EXIT_PARSER_LOOP, EXIT_SEND, EXIT_UNICAST, Helpers, INPUTS,
    KeyCacheFormat, LookupResult, MAX_KEY_WORDS, Native, NativeInput, NativeTable, ROW_ACTION_SHIFT,
    ROW_NEXT_SHIFT, row_actions,
};
pub(crate) use op::{
    ComputedSlot, HeaderInfo, LOOP_BUDGET, Op, Opcode, Pc, Slot, TracePoint, WideOp, WideOpcode, WideSlot,
};
pub(crate) use parser::{Keyset, MAX_SELECT_WORDS, ParseOp, SelectPart};
pub use signatures::{ActionId, ActionInfo, KeyInfo, MatchKind, TableId, TableInfo};
pub use source::SourceLocation;
pub(crate) use table::{ActionProfile, ConstEntry, Table, TableDefinition};

use access::Access;
use declarations::Declarations;
use frame_access::FrameAccess;
use layout::next_layout_id;
use link::LinkedProgram;
use lower::LoweredProgram;
use source::SourceMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

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
    /// Identifies the layout of the header vector. A packet's vector is used only with the program that has the
    /// same id.
    pub(crate) layout_id: u32,
    /// The engine of pipelines that run the program.
    pub(crate) engine: Engine,
    /// The JSON text from which the program was loaded.
    pub(crate) json: String,
    /// Locations in the P4 source, read when the first trace needs them.
    pub(crate) source_map: OnceLock<SourceMap>,
    /// The interpreter's form of the program.
    linked: LinkedProgram,
    /// The interpreter's moves between frame and slots, by header instance.
    pub(crate) header_moves: Vec<HeaderMoves>,
    /// The compiled engine's moves between frame and slots.
    pub(crate) frame_access: FrameAccess,
    /// The machine code, generated for the first pipeline; `None` if that failed and the interpreter runs
    /// everything.
    native: OnceLock<Option<Native>>,
}

impl Deref for Program {
    type Target = LinkedProgram;

    #[inline]
    fn deref(&self) -> &LinkedProgram {
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
    /// Same as [`Program::from_json`].
    pub fn load(text: &str, engine: Engine) -> Result<Arc<Program>, LoadError> {
        let value = json::parse(text)?;
        let root = json::JsonNode::root(&value);
        let declared = Declarations::load(&root)?;
        let lowered = LoweredProgram::new(&root, &declared)?;
        let linked = LinkedProgram::new(&root, declared, lowered)?;
        let header_moves = field_usage::header_moves(&linked, &Access::program(&linked, &[]));
        Ok(Arc::new(Program {
            layout_id: next_layout_id(),
            engine,
            json: text.to_owned(),
            source_map: OnceLock::new(),
            frame_access: FrameAccess::new(&linked, &header_moves),
            native: OnceLock::new(),
            linked,
            header_moves,
        }))
    }

    /// Generates the program's machine code unless this was tried before. `helpers` returns the
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
    /// Returns the ids of the learn lists, as in the JSON.
    pub fn learn_list_ids(&self) -> impl Iterator<Item = i64> {
        self.learn_lists.iter().map(|list| list.id)
    }
    /// Returns the name of a table; empty for an unknown id.
    pub fn table_name(&self, table: TableId) -> &str {
        self.tables.of(table).map_or("", |table| &table.info.name)
    }
    /// Returns the name of an action; empty for an unknown id.
    pub fn action_name(&self, action: ActionId) -> &str {
        self.actions.of(action).map_or("", |action| &action.name)
    }
    /// Returns the name of a header instance; empty for an unknown id.
    pub fn header_name(&self, header: HeaderId) -> &str {
        self.layout.headers.get(usize::from(header.0)).map_or("", |header| &header.name)
    }
    /// Returns all tables, ordered by id.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &TableInfo)> {
        self.tables.enumerated().map(|(id, table)| (id, &table.info))
    }
    /// Returns all actions, ordered by id.
    pub fn actions(&self) -> impl Iterator<Item = (ActionId, &ActionInfo)> {
        self.actions.enumerated()
    }
    /// Returns the name and width in bits of the field to which a slot belongs.
    pub(crate) fn slot_field(&self, slot: Slot) -> Option<(String, u32)> {
        let (header, field) = self.layout.field_at(slot)?;
        Some((format!("{}.{}", header.name, field.name), field.bits))
    }
    /// Returns the source locations, which the first call reads.
    pub(crate) fn source_map(&self) -> &SourceMap {
        self.source_map.get_or_init(|| SourceMap::read(&self.json))
    }
    /// Returns the trace points at an address of the code.
    pub(crate) fn trace_points_at(&self, pc: Pc) -> impl Iterator<Item = &TracePoint> {
        let first = self.trace_points.partition_point(|(address, _)| *address < pc);
        let points = self.trace_points[first..].iter().take_while(move |(address, _)| *address == pc);
        points.map(|(_, point)| point)
    }
}
