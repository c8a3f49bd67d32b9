//! BMv2 JSON -> checked, flat [`Program`].
//!
//! Everything is resolved and checked here, once: after loading there are no names to look up, no trees to walk and
//! nothing that could turn out to be missing. What is not supported is refused with its place in the JSON.

mod action;
mod asm;
mod calc;
mod compiled;
mod expr;
mod flow;
mod json;
mod key;
mod layout;
mod link;
mod op;
mod parser;
mod shape;
mod source;
mod table;

pub(crate) use action::{LogMessage, SESSION_SET, State};
pub(crate) use asm::low_bits;
pub(crate) use calc::{Algorithm, Calculation, Input, MAX_BYTES};
pub(crate) use compiled::{
    Compiled, Emission, Get, Group, Kind, Select, State as FastState, Step, WireChecksum, with_pairs,
};
pub(crate) use key::KeyPlan;
pub(crate) use layout::{Layout, ORIGIN, Stack, VALID};
pub(crate) use op::{Code, HeaderOp, Op, Pc, Role, Slot, WideKind, WideOp, WideRef};
pub(crate) use parser::{KeyPart, MAX_KEY_WORDS, ParseOp, Parser, Pattern, limbs_of};
pub(crate) use shape::{Move, Moves, Shape, WINDOW};
pub use source::Place;
pub(crate) use table::{ConstEntry, Key, Profile, Table, limbs, ones, prefix_mask};
pub use table::{KeyInfo, TableInfo};

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// Why a program was refused. Displays as `path: what`, the path leading to the place in the JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct LoadError {
    /// Where in the JSON, like `pipelines[0].tables[3].key[1]`; `3:7`, line and column, where it is not JSON.
    pub path: String,
    /// What is wrong there, and what to do.
    pub what: String,
}

/// How a key element is matched.
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

/// What an action is, for those who call it from an entry.
#[derive(Clone, Debug)]
pub struct ActionInfo {
    /// Its name, as P4Info has it.
    pub name: String,
    /// Names and widths of its parameters.
    pub params: Vec<(String, u32)>,
}

/// Code that computes a value, and the slot that has it afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub code: Option<Pc>,
    pub slot: Slot,
}

/// A checksum of the program.
#[derive(Clone, Debug)]
pub(crate) struct Checksum {
    pub name: String,
    pub calculation: u16,
    pub target: expr::Place,
    /// Its target's header; None for metadata, which is always valid.
    pub valid: Option<Slot>,
    pub condition: Option<Condition>,
    pub verify: bool,
    pub update: bool,
}

/// An array of registers, counters or meters.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub name: String,
    pub size: usize,
    /// Width of a register; 0 for the others.
    pub bits: u32,
    /// It belongs to a table.
    pub direct: bool,
    /// A meter that counts packets, not bytes.
    pub packets: bool,
    /// Word of a register array's first cell.
    pub base: usize,
    /// Words from one cell to the next.
    pub step: usize,
}

impl Array {
    /// The words of a cell of a register array.
    #[inline]
    pub fn cell(&self, index: u64) -> Option<Range<usize>> {
        let begin = self.base + usize::try_from(index).ok().filter(|index| *index < self.size)? * self.step;
        Some(begin..begin + limbs(self.bits))
    }
}

/// Fields that go together: for digests, and for what survives a clone, resubmit or recirculate.
#[derive(Clone, Debug)]
pub(crate) struct FieldList {
    pub name: String,
    /// Slot and width.
    pub fields: Vec<(Slot, u32)>,
}

/// The fields simple_switch reads and writes itself. Each one that a program does not have is given a slot of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standard {
    pub ingress_port: Slot,
    pub packet_length: Slot,
    pub egress_spec: Slot,
    pub egress_port: Slot,
    pub instance_type: Slot,
    pub ingress_timestamp: Slot,
    pub egress_timestamp: Slot,
    pub mcast_grp: Slot,
    pub egress_rid: Slot,
    pub priority: Slot,
    pub parser_error: Slot,
    pub checksum_error: Slot,
    pub enq_timestamp: Slot,
    pub enq_qdepth: Slot,
    pub deq_timedelta: Slot,
    pub deq_qdepth: Slot,
    pub qid: Slot,
    /// Widths of the clocks and depths, which programs may choose.
    pub enq_timestamp_bits: u32,
    pub deq_timedelta_bits: u32,
    pub qdepth_bits: u32,
    pub port_bits: u32,
}

/// A place in the code, for those who watch.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// A condition begins here; if it holds, code goes on at `end`.
    Condition { name: String, end: Pc },
    /// A table without a key, whose action stands here.
    Table(u16),
}

/// Header vectors come in these sizes. Code is compiled for each of them, so that no operand can be out of bounds.
pub(crate) const CAPACITIES: [usize; 4] = [1 << 8, 1 << 10, 1 << 12, 1 << 16];

/// What runs a program. Both engines do the same to every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Runs the form that the last phase of loading makes. A packet that is traced takes the interpreter.
    #[default]
    Compiled,
    /// The plain interpreter: slower, and the reference for the other engine.
    Interpreter,
}

/// A checked P4 program, shared by all switches that run it.
#[derive(Debug)]
pub struct Program {
    /// Tells packets which program their header vector is laid out for.
    pub(crate) stamp: u64,
    /// The engine of pipelines that are made for it.
    pub(crate) engine: Engine,
    /// What it was loaded from.
    pub(crate) json: String,
    /// Places in the P4 source, once a trace has asked for them.
    pub(crate) places: OnceLock<source::Places>,
    pub(crate) layout: Layout,
    /// Slots that begin a packet's life as 0; temporaries and constants follow.
    pub(crate) vars: usize,
    pub(crate) temps: usize,
    /// Slots of a header vector: one of [`CAPACITIES`]. There is room for a window behind the last block.
    pub(crate) capacity: usize,
    pub(crate) consts: Vec<u64>,
    pub(crate) code: Vec<Op>,
    pub(crate) wide: Vec<WideOp>,
    pub(crate) header_ops: Vec<HeaderOp>,
    pub(crate) logs: Vec<LogMessage>,
    pub(crate) marks: Vec<(Pc, Mark)>,
    pub(crate) standard: Standard,
    pub(crate) state: State,
    /// Metadata blocks: base and slots. They are what a resubmit clears.
    pub(crate) metadata: Vec<(Slot, u16)>,
    pub(crate) params: Slot,
    pub(crate) parser: Parser,
    /// By header instance.
    pub(crate) shapes: Vec<Shape>,
    /// By header type, every field used: for elements of stacks.
    pub(crate) type_shapes: Vec<Shape>,
    /// Headers in the order they are emitted, with their blocks.
    pub(crate) deparser: Vec<(HeaderId, Slot)>,
    pub(crate) deparser_code: Option<Pc>,
    pub(crate) checksums: Vec<Checksum>,
    pub(crate) calculations: Vec<Calculation>,
    pub(crate) registers: Vec<Array>,
    /// Words that all registers take.
    pub(crate) register_words: usize,
    pub(crate) counters: Vec<Array>,
    pub(crate) meters: Vec<Array>,
    pub(crate) actions: Vec<ActionInfo>,
    pub(crate) action_code: Vec<Pc>,
    pub(crate) tables: Vec<Table>,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) field_lists: Vec<FieldList>,
    pub(crate) learn_lists: Vec<FieldList>,
    pub(crate) ingress: Pc,
    pub(crate) egress: Pc,
    /// What the fast engine runs.
    pub(crate) compiled: Compiled,
}

/// Numbers programs within the process; it never shows in what a switch does.
static STAMPS: AtomicU64 = AtomicU64::new(1);

impl Program {
    /// Loads what p4c's BMv2 back end wrote: version 2 of the format.
    pub fn from_json(text: &str) -> Result<Arc<Program>, LoadError> {
        Program::load(text, Engine::default())
    }

    /// Loads a program as [`Program::from_json`] does, to be run by this engine.
    pub fn load(text: &str, engine: Engine) -> Result<Arc<Program>, LoadError> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(|error| LoadError {
            path: format!("{}:{}", error.line(), error.column()),
            what: format!("not JSON: {error}"),
        })?;
        let mut program = link::load(&json::At::root(&value))?;
        program.stamp = STAMPS.fetch_add(1, Ordering::Relaxed);
        program.engine = engine;
        program.json = text.to_owned();
        Ok(Arc::new(program))
    }

    /// The JSON it was loaded from.
    pub fn json(&self) -> &str {
        &self.json
    }
    /// The name of a table.
    pub fn table_name(&self, table: TableId) -> &str {
        self.tables.get(usize::from(table.0)).map_or("", |table| &table.info.name)
    }
    /// The name of an action.
    pub fn action_name(&self, action: ActionId) -> &str {
        self.actions.get(usize::from(action.0)).map_or("", |action| &action.name)
    }
    /// The name of a header instance.
    pub fn header_name(&self, header: HeaderId) -> &str {
        self.layout.headers.get(usize::from(header.0)).map_or("", |header| &header.name)
    }
    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &TableInfo)> {
        (0..).map(TableId).zip(self.tables.iter().map(|table| &table.info))
    }
    /// All actions with their parameters.
    pub fn actions(&self) -> impl Iterator<Item = (ActionId, &ActionInfo)> {
        (0..).map(ActionId).zip(&self.actions)
    }
    /// The field that a slot belongs to, and its width.
    pub(crate) fn slot_field(&self, slot: Slot) -> Option<(String, u32)> {
        for header in &self.layout.headers {
            let ty = &self.layout.types[header.ty];
            let Some(rel) = slot.checked_sub(header.base).filter(|rel| *rel < ty.slots) else { continue };
            let field = ty.fields.iter().rfind(|field| field.slot <= rel)?;
            return Some((format!("{}.{}", header.name, field.name), field.bits));
        }
        None
    }
    /// What stands out about a place in the code.
    pub(crate) fn marks_at(&self, pc: Pc) -> impl Iterator<Item = &Mark> {
        let first = self.marks.partition_point(|(at, _)| *at < pc);
        self.marks[first..].iter().take_while(move |(at, _)| *at == pc).map(|(_, mark)| mark)
    }
}
