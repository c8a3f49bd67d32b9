//! The fourth phase of loading: temporaries and constants get their slots behind the variables.

use super::action::State;
use super::array::{Array, RegisterArray};
use super::asm::{CONSTS, Object, TEMPS};
use super::declare::Declared;
use super::json::At;
use super::layout::Layout;
use super::lower::{Deparser, Lowered, Pipelines};
use super::op::{HeaderOp, Op, Pc, Role, Slot, WideOp, WideRef};
use super::parser::{self, Parser};
use super::shape::{Shape, WINDOW};
use super::standard::Standard;
use super::table::{Profile, Table, limbs};
use super::{
    ActionId, ActionInfo, CAPACITIES, Calculation, Checksum, Condition, FieldList, HeaderId, LoadError,
    LogMessage, Mark,
};
use std::collections::BTreeSet;

/// A program in which everything has its place.
#[derive(Debug)]
pub struct Linked {
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
    /// By header type, every field used: for elements of stacks.
    pub(crate) type_shapes: Vec<Shape>,
    pub(crate) deparser: Deparser,
    pub(crate) checksums: Vec<Checksum>,
    pub(crate) calculations: Vec<Calculation>,
    pub(crate) registers: Vec<RegisterArray>,
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
    /// The headers whose every field some code may read and write.
    pub(crate) whole: BTreeSet<HeaderId>,
}

impl Linked {
    /// Joins what is declared with its code.
    pub(super) fn new(root: &At, declared: Declared, lowered: Lowered) -> Result<Linked, LoadError> {
        let Object { code, wide, header_ops, logs, consts, temps, whole } = lowered.object;
        let vars = declared.vars as u16;
        let place = |slot: Slot| match slot {
            CONSTS.. => vars + temps + (slot - CONSTS),
            TEMPS.. => vars + (slot - TEMPS),
            _ => slot,
        };
        let condition = |it: Condition| Condition { slot: place(it.slot), ..it };
        let number = |it: WideRef| WideRef { slot: place(it.slot), ..it };
        let op = |mut op: Op| {
            for (role, operand) in op.operands() {
                if matches!(role, Role::Read | Role::Write | Role::Update) {
                    *operand = place(*operand);
                }
            }
            op
        };
        let wide_op = |op: WideOp| WideOp { d: number(op.d), a: number(op.a), b: number(op.b), ..op };
        let log =
            |log: LogMessage| LogMessage { values: log.values.into_iter().map(number).collect(), ..log };
        let checksum = |it: Checksum| Checksum { condition: it.condition.map(condition), ..it };
        let state = |state: parser::State| {
            let ops = state.ops.into_iter().map(|op| op.with(condition)).collect();
            parser::State { ops, ..state }
        };
        let states = lowered.parser.states.into_iter().map(state).collect();
        let slots = declared.vars + (usize::from(temps) + consts.len()).max(WINDOW);
        let capacity = CAPACITIES.into_iter().find(|capacity| slots <= *capacity);
        let layout = declared.layout;
        let metadata = layout.headers.iter().filter(|header| header.metadata);
        let Pipelines { tables, profiles, marks, ingress, egress } = lowered.pipelines;
        Ok(Linked {
            capacity: capacity.ok_or_else(|| root.error("the program takes too many words"))?,
            metadata: metadata.map(|header| (header.base, layout.types[header.ty].slots)).collect(),
            type_shapes: layout.types.iter().map(|ty| Shape::new(ty, None)).collect(),
            layout,
            vars: declared.vars,
            temps: usize::from(temps),
            consts,
            code: code.into_iter().map(op).collect(),
            wide: wide.into_iter().map(wide_op).collect(),
            header_ops,
            logs: logs.into_iter().map(log).collect(),
            marks,
            standard: declared.standard,
            state: declared.state,
            params: declared.params,
            parser: Parser { states, ..lowered.parser },
            deparser: lowered.deparser,
            checksums: lowered.checksums.into_iter().map(checksum).collect(),
            calculations: declared.calculations,
            register_words: declared.registers.iter().map(|array| array.size * limbs(array.bits)).sum(),
            registers: declared.registers,
            counters: declared.counters,
            meters: declared.meters,
            actions: declared.actions,
            action_code: lowered.action_code,
            tables,
            profiles,
            field_lists: declared.field_lists,
            learn_lists: declared.learn_lists,
            ingress,
            egress,
            whole,
        })
    }

    /// Returns the actions that members of an action profile may run: those of its tables.
    pub(crate) fn profile_actions(&self, profile: usize) -> Vec<ActionId> {
        let tables = self.tables.iter().filter(|table| table.profile.map(usize::from) == Some(profile));
        tables.flat_map(|table| &table.info.actions).copied().collect()
    }
}
