//! The fourth phase of loading: assigns slots to temporaries and constants. They follow the slots of headers,
//! metadata and parameters.

use super::codegen::{FIRST_CONST, FIRST_TEMP, UnlinkedCode};
use super::control_slots::ControlSlots;
use super::declarations::{Declarations, FieldList};
use super::error::LoadError;
use super::externs::{ExternArray, RegisterArray};
use super::hash::{Calculation, Checksum};
use super::header_moves::{HeaderMoves, WINDOW_LEN};
use super::id_vec::IdVec;
use super::json::JsonNode;
use super::layout::{HeaderId, Layout, PHV_CAPACITIES};
use super::limbs::limb_count;
use super::lower::{Deparser, LoweredProgram, Pipelines};
use super::op::{
    Assertion, ComputedSlot, HeaderInfo, LogMessage, Op, OperandRole, Pc, Slot, TracePoint, WideOp, WideSlot,
};
use super::parser::{self, Parser};
use super::signatures::{ActionId, ActionInfo, TableId};
use super::standard_metadata::StandardMetadata;
use super::table::{ActionProfile, Table};
use std::collections::BTreeSet;

/// A complete program for the interpreter.
#[derive(Debug)]
pub struct LinkedProgram {
    pub(crate) layout: Layout,
    /// Number of slots that are 0 at the beginning of each packet: headers, metadata and parameters. The slots of
    /// temporaries follow, then those of constants.
    pub(crate) zeroed_slots: usize,
    pub(crate) temp_count: usize,
    /// Length of a header vector in slots: one of [`PHV_CAPACITIES`]. The last block is followed by at least
    /// [`WINDOW_LEN`] slots, so that a [window of moves](super::header_moves::MoveWindow) never reaches beyond the
    /// vector.
    pub(crate) capacity: usize,
    pub(crate) consts: Vec<u64>,
    pub(crate) code: Vec<Op>,
    pub(crate) wide: Vec<WideOp>,
    pub(crate) header_ops: Vec<HeaderInfo>,
    pub(crate) logs: Vec<LogMessage>,
    pub(crate) assertions: Vec<Assertion>,
    pub(crate) trace_points: Vec<(Pc, TracePoint)>,
    pub(crate) standard: StandardMetadata,
    pub(crate) control_slots: ControlSlots,
    /// First slot and number of slots of each metadata block, which a resubmit clears.
    pub(crate) metadata_blocks: Vec<(Slot, u16)>,
    /// The first slot of the parameters of the action that runs.
    pub(crate) first_param_slot: Slot,
    pub(crate) parser: Parser,
    /// For each header type, the moves of all fields, used for elements of stacks.
    pub(crate) type_moves: Vec<HeaderMoves>,
    pub(crate) deparser: Deparser,
    pub(crate) checksums: Vec<Checksum>,
    pub(crate) calculations: Vec<Calculation>,
    pub(crate) registers: Vec<RegisterArray>,
    /// Length of the cells of all register arrays in words.
    pub(crate) register_words: usize,
    pub(crate) counters: Vec<ExternArray>,
    pub(crate) meters: Vec<ExternArray>,
    pub(crate) actions: IdVec<ActionId, ActionInfo>,
    /// The address of each action's code.
    pub(crate) action_code: IdVec<ActionId, Pc>,
    pub(crate) tables: IdVec<TableId, Table>,
    pub(crate) profiles: Vec<ActionProfile>,
    pub(crate) field_lists: Vec<FieldList>,
    pub(crate) learn_lists: Vec<FieldList>,
    /// Address of the ingress pipeline.
    pub(crate) ingress: Pc,
    /// Address of the egress pipeline.
    pub(crate) egress: Pc,
    /// Headers whose fields may all be read and written, see [`UnlinkedCode::address_taken`].
    pub(crate) address_taken: BTreeSet<HeaderId>,
}

impl LinkedProgram {
    /// Links a declared program with its code.
    pub(super) fn new(
        root: &JsonNode,
        declared: Declarations,
        lowered: LoweredProgram,
    ) -> Result<LinkedProgram, LoadError> {
        let UnlinkedCode { code, wide, header_ops, logs, assertions, consts, temp_count, address_taken } =
            lowered.unlinked;
        let first_temp_slot = declared.zeroed_slots as u16;
        let link_slot = |slot: Slot| match slot {
            FIRST_CONST.. => first_temp_slot + temp_count + (slot - FIRST_CONST),
            FIRST_TEMP.. => first_temp_slot + (slot - FIRST_TEMP),
            _ => slot,
        };
        let condition = |computed: ComputedSlot| ComputedSlot { slot: link_slot(computed.slot), ..computed };
        let link_wide = |wide: WideSlot| WideSlot { slot: link_slot(wide.slot), ..wide };
        let op = |mut op: Op| {
            for (role, operand) in op.operands() {
                if matches!(role, OperandRole::Read | OperandRole::Write | OperandRole::ReadWrite) {
                    *operand = link_slot(*operand);
                }
            }
            op
        };
        let wide_op =
            |op: WideOp| WideOp { d: link_wide(op.d), a: link_wide(op.a), b: link_wide(op.b), ..op };
        let log =
            |log: LogMessage| LogMessage { values: log.values.into_iter().map(link_wide).collect(), ..log };
        let checksum =
            |checksum: Checksum| Checksum { condition: checksum.condition.map(condition), ..checksum };
        let state = |state: parser::ParserState| {
            let ops = state.ops.into_iter().map(|op| op.map_computed_slots(condition)).collect();
            parser::ParserState { ops, ..state }
        };
        let states = lowered.parser.states.into_iter().map(state).collect();
        let slots = declared.zeroed_slots + (usize::from(temp_count) + consts.len()).max(WINDOW_LEN);
        let capacity = PHV_CAPACITIES.into_iter().find(|capacity| slots <= *capacity);
        let layout = declared.layout;
        let metadata = layout.headers.iter().filter(|header| header.is_metadata);
        let Pipelines { tables, profiles, trace_points, ingress, egress } = lowered.pipelines;
        Ok(LinkedProgram {
            capacity: capacity.ok_or_else(|| {
                root.error("headers, metadata, temporaries and constants exceed 65536 slots")
            })?,
            metadata_blocks: metadata
                .map(|header| (header.first_slot, layout.types[header.ty].block_len))
                .collect(),
            type_moves: layout.types.iter().map(|ty| HeaderMoves::new(ty, None)).collect(),
            layout,
            zeroed_slots: declared.zeroed_slots,
            temp_count: usize::from(temp_count),
            consts,
            code: code.into_iter().map(op).collect(),
            wide: wide.into_iter().map(wide_op).collect(),
            header_ops,
            logs: logs.into_iter().map(log).collect(),
            assertions,
            trace_points,
            standard: declared.standard,
            control_slots: declared.control_slots,
            first_param_slot: declared.first_param_slot,
            parser: Parser { states, ..lowered.parser },
            deparser: lowered.deparser,
            checksums: lowered.checksums.into_iter().map(checksum).collect(),
            calculations: declared.calculations.into_iter().chain(lowered.calculations).collect(),
            register_words: declared.registers.iter().map(|array| array.size * limb_count(array.bits)).sum(),
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
            address_taken,
        })
    }

    /// Returns the value of a slot that has a constant; `None` for other slots.
    pub(crate) fn const_value(&self, slot: Slot) -> Option<u64> {
        let index = usize::from(slot).checked_sub(self.zeroed_slots + self.temp_count)?;
        self.consts.get(index).copied()
    }

    /// Returns the first slot of the header that an operation addresses through `slot`; `None` if it is known only at
    /// run time.
    pub(crate) fn const_base(&self, slot: Slot) -> Option<Slot> {
        self.const_value(slot).and_then(|base| Slot::try_from(base).ok())
    }

    /// Returns the actions that members of an action profile may run: those of its tables.
    pub(crate) fn profile_actions(&self, profile: usize) -> Vec<ActionId> {
        let tables = self.tables.iter().filter(|table| table.profile.map(usize::from) == Some(profile));
        tables.flat_map(|table| &table.info.actions).copied().collect()
    }
}
