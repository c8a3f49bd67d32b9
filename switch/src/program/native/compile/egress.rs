//! Generates egress.

use super::{EgressCode, NativeCompiler, TIMESTAMP_BITS, empty_function, live_values};
use crate::program::access::Access;
use crate::program::frame_access::HeaderEmit;
use crate::program::header_moves::WINDOW_LEN;
use crate::program::layout::{FRAME_OFFSET_SLOT, Header, VALID_SLOT};
use crate::program::limbs::low_mask;
use crate::program::native::abi::{EXIT_DEPARSE, EXIT_FINISH, MAX_FRAME_ACCESS, NativeInput};
use crate::program::native::code::Unsupported;
use crate::program::native::emitter::{Emitter, FRAME};
use crate::program::native::lower_deparser::HeaderSets;
use crate::program::native::slot_storage::{self, SlotSet};
use crate::program::op::Slot;
use cranelift_codegen::ir::{InstBuilder, InstructionData, Value, ValueDef};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use std::collections::HashSet;

/// The slots of egress.
struct EgressSlots {
    /// All slots that have a value.
    used: SlotSet,
    /// Slots that the interpreter reads afterwards, to deparse the packet (if the generated code does not) and for a
    /// trace.
    needed: SlotSet,
}

/// The bridged slots that egress loads when it starts.
struct Loads {
    /// Those that stay in memory.
    bridged: Vec<Slot>,
    copied_to_vector: Vec<Slot>,
    /// Each other slot with the value that is loaded for it.
    values: Vec<(Slot, Value)>,
}

impl NativeCompiler<'_> {
    /// Generates egress, and decides which slots are bridged.
    pub(super) fn egress(&self) -> Result<EgressCode, Unsupported> {
        let program = self.program;
        let (standard, flags) = (&program.standard, &program.control_slots);
        let mut context = FunctionBuilderContext::new();
        let mut function = empty_function();
        let mut emitter = Emitter::new(
            FunctionBuilder::new(&mut function, &mut context),
            (program, self.frame_access, self.helpers),
            (&self.egress.reachable.targets, &self.memory),
            (FRAME, &self.max_frame_access),
        );
        let EgressSlots { used, needed } = self.egress_slots();
        let zero = emitter.iconst(0);
        let Loads { mut bridged, copied_to_vector, values } = self.load_bridged(&mut emitter, &used, zero);
        self.declare_inputs(&mut emitter, zero);
        let always_declared = [standard.egress_spec, flags.clone_session];
        let deparser = self.compiled_deparser();
        // Slots to store when the interpreter finishes egress. With a compiled deparser, unchanged headers need not be
        // stored, but slots that a clone or recirculated packet keeps must be.
        let mut spilled_on_finish = emitter.variables();
        let is_preserved =
            |slot: &Slot| self.can_reenter && (*slot == standard.priority || self.preserved.contains(*slot));
        if deparser.is_some() {
            spilled_on_finish.retain(|slot| {
                self.written_in_egress.contains(*slot) || is_preserved(slot) || always_declared.contains(slot)
            });
        }
        let end = emitter.builder.create_block();
        emitter.emit_code(program.egress, end)?;

        emitter.switch_to(end);
        self.leave_if_pending(&mut emitter, &spilled_on_finish);
        self.return_if_dropped(&mut emitter);
        let slow = emitter.create_cold_block();
        let mut spilled_on_deparse = Vec::new();
        match deparser {
            Some(header_emits) => {
                let (maybe_created, never_invalidated) = (&self.maybe_created, &self.never_invalidated);
                emitter.deparser(header_emits, &HeaderSets { maybe_created, never_invalidated }, slow)?;
                let is_needed = |slot: &Slot| {
                    let block = |header: &Header| {
                        !header.is_metadata
                            && (header.first_slot
                                ..header.first_slot + program.layout.types[header.ty].block_len)
                                .contains(slot)
                    };
                    program.layout.headers.iter().any(block)
                        || always_declared.contains(slot)
                        || *slot == flags.recirculate
                };
                emitter.switch_to(slow);
                spilled_on_deparse.extend(spilled_on_finish.iter().copied().filter(is_needed));
                emitter.spill(&spilled_on_deparse);
                emitter.emit_return(EXIT_DEPARSE);
            }
            None => {
                emitter.jump(slow);
                emitter.switch_to(slow);
                emitter.spill(&spilled_on_finish);
                emitter.emit_return(EXIT_FINISH);
            }
        }
        emitter.complete()?;
        let live = live_values(&function);
        let is_live = |(slot, value): &(Slot, Value)| live.contains(value) || needed.contains(*slot);
        for (slot, value) in values.into_iter().filter(is_live) {
            if let ValueDef::Result(inst, _) = function.dfg.value_def(value)
                && let InstructionData::Load { offset, .. } = &mut function.dfg.insts[inst]
            {
                *offset = (8 * bridged.len() as i32).into();
            }
            bridged.push(slot);
        }
        let code = self.compile(function)?;
        Ok(EgressCode { code, bridged, copied_to_vector, spilled_on_finish, spilled_on_deparse })
    }

    fn egress_slots(&self) -> EgressSlots {
        let program = self.program;
        let Access { read, written, logged, .. } = &self.egress.access;
        let mut used = self.slots(read.iter().chain(written));
        let flags = &program.control_slots;
        used.extend([program.standard.egress_spec, flags.clone_session, flags.recirculate]);
        for header_emit in self.frame_access.deparser.iter().flatten() {
            used.extend([header_emit.base + VALID_SLOT, header_emit.base + FRAME_OFFSET_SLOT]);
            used.extend(header_emit.create.iter().map(|field| field.slot));
            used.extend(header_emit.update.iter().flat_map(|group| &group.fields).map(|field| field.slot));
        }
        // A clone or a recirculated packet keeps the fields of its field list when it enters the pipeline again.
        if self.can_reenter {
            used.extend(Access::after_egress(program).read);
            used.extend(self.preserved.iter());
        }
        let mut needed = SlotSet::new(program.capacity);
        let headers = program.layout.headers.iter().zip(&self.frame_access.headers);
        for (header, extract) in headers.filter(|(header, _)| !header.is_metadata) {
            needed.extend([header.first_slot + VALID_SLOT, header.first_slot + FRAME_OFFSET_SLOT]);
            let is_lazy = extract.as_ref().is_some_and(|extract| extract.is_lazy);
            let fields = header.first_slot..header.first_slot + program.layout.types[header.ty].block_len;
            needed.extend(fields.filter(|slot| !is_lazy || self.frame_access.written.contains(slot)));
        }
        let from_frame: HashSet<Slot> =
            self.frame_access.left_in_frame.iter().flatten().map(|field| field.slot).collect();
        let deparsed = Access::deparser(program, &[]).read;
        needed.extend(deparsed.iter().chain(logged).copied().filter(|slot| !from_frame.contains(slot)));
        used.extend(needed.iter());
        EgressSlots { used, needed }
    }

    /// Emits the loads of the bridged words, and the zeros of the other slots.
    fn load_bridged(&self, emitter: &mut Emitter<'_, '_>, used: &SlotSet, zero: Value) -> Loads {
        let program = self.program;
        // Not a temporary or constant.
        let is_zeroed = |slot: &Slot| usize::from(*slot) < program.zeroed_slots;
        let bridged: Vec<Slot> = self.memory.iter().filter(is_zeroed).collect();
        let helper_slots = slot_storage::memory_slots(program, self.frame_access, &self.egress.reachable);
        let (mut copied_to_vector, mut values) = (Vec::new(), Vec::new());
        for (word, slot) in bridged.iter().enumerate() {
            if used.contains(*slot) || helper_slots.contains(*slot) {
                let value = emitter.load_bridged(word);
                emitter.store_slot(*slot, value);
                copied_to_vector.push(*slot);
            }
        }
        for slot in used.iter().filter(is_zeroed) {
            if self.memory.contains(slot) {
                continue;
            }
            if !self.is_zero_at_egress(slot) {
                // Which slots are bridged is known only when the live loads are known, so the index of the bridged word
                // is patched at the end of `egress`. A dead load keeps index 0 and is removed by Cranelift. Until the
                // patch, all these loads look equal and must not be merged; GVN, which merges, runs later, in `compile`.
                let value = emitter.load_bridged(0);
                values.push((slot, value));
                emitter.declare_slot(slot, value);
            } else if self.written_in_egress.contains(slot) {
                emitter.declare_slot(slot, zero);
            } else {
                emitter.declare_zero(slot);
            }
        }
        Loads { bridged, copied_to_vector, values }
    }

    /// Gives the slots that the traffic manager and the pipeline set their values.
    fn declare_inputs(&self, emitter: &mut Emitter<'_, '_>, zero: Value) {
        let (standard, flags) = (&self.program.standard, &self.program.control_slots);
        let inputs = [
            (standard.egress_timestamp, NativeInput::Now, u32::from(TIMESTAMP_BITS)),
            (standard.enq_timestamp, NativeInput::EnqTimestamp, standard.enq_timestamp_bits),
            (standard.enq_qdepth, NativeInput::EnqDepth, standard.qdepth_bits),
            (standard.deq_timedelta, NativeInput::DeqTimedelta, standard.deq_timedelta_bits),
            (standard.deq_qdepth, NativeInput::DeqDepth, standard.qdepth_bits),
            (standard.qid, NativeInput::Qid, 64),
            (standard.egress_rid, NativeInput::Rid, 64),
            (standard.egress_port, NativeInput::Port, 64),
            (standard.packet_length, NativeInput::PacketLength, 64),
            (flags.drop_port, NativeInput::DropPort, 64),
        ];
        for (slot, input, bits) in inputs {
            let value = emitter.load_input(input);
            let value = emitter.mask(value, low_mask(bits));
            emitter.declare_slot(slot, value);
        }
        // Ingress may have left the drop port in `egress_spec`. Any other value will do: the packet is dropped only
        // if egress itself assigns the drop port.
        let not_drop = emitter.load_input(NativeInput::DropPort);
        let not_drop = emitter.add_imm(not_drop, 1);
        let not_drop = emitter.mask(not_drop, low_mask(standard.port_bits));
        emitter.declare_slot(standard.egress_spec, not_drop);
        emitter.declare_slot(flags.exit, zero);
        // No clone is pending when egress starts: the pipeline makes it, and clears this slot, when ingress or egress
        // returns.
        emitter.declare_slot(flags.clone_session, zero);
    }

    /// Returns the deparser if it can be compiled: it consists of frame accesses alone, so that it updates no checksum
    /// over slots and runs no code of its own.
    fn compiled_deparser(&self) -> Option<&Vec<HeaderEmit>> {
        let deparser = self.frame_access.deparser.as_ref()?;
        let bytes: usize = deparser.iter().map(|emit| usize::from(emit.bytes)).sum();
        // The length is checked here although `frame_offset` refuses larger offsets: that error would reject the whole
        // program, this test leaves only the deparser to the interpreter.
        let is_compiled = !self.frame_access.has_slot_checksum_updates
            && self.program.deparser.code.is_none()
            && bytes + WINDOW_LEN <= MAX_FRAME_ACCESS;
        is_compiled.then_some(deparser)
    }

    /// Emits a return to the interpreter that is taken if the packet is to be cloned or recirculated.
    fn leave_if_pending(&self, emitter: &mut Emitter<'_, '_>, spilled: &[Slot]) {
        let flags = &self.program.control_slots;
        let rare_flags = [flags.clone_session, flags.recirculate];
        let may_be_pending = rare_flags
            .iter()
            .any(|flag| !emitter.is_known_zero(*flag) && self.written_in_egress.contains(*flag))
            || !emitter.is_known_zero(flags.recirculate);
        if may_be_pending {
            let (finish, usual) = (emitter.create_cold_block(), emitter.builder.create_block());
            let (session, recirculate) =
                (emitter.use_slot(flags.clone_session), emitter.use_slot(flags.recirculate));
            let any = emitter.builder.ins().bor(session, recirculate);
            emitter.brif(any, finish, usual);
            emitter.switch_to(finish);
            emitter.spill(spilled);
            emitter.emit_return(EXIT_FINISH);
            emitter.switch_to(usual);
        }
    }
}
