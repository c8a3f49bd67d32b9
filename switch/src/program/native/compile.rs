//! Drives the compilation of a program: decides which slots are bridged from ingress to egress and which
//! slots each function has to define, and emits the two functions around the parser, the operations and the
//! deparser.

use super::abi::{
    DROP, EXIT_DEPARSE, EXIT_FINISH, EXIT_INTERPRET, Helpers, MAX_FRAME_ACCESS, MULTICAST, NativeInput,
    UNICAST,
};
use super::emitter::{Emitter, FRAME, readonly};
use super::lower_deparser::HeaderSets;
use super::slot_storage::{self, SlotSet};
use super::{Native, ROW_NEXT_SHIFT, ResumePoint, Unsupported};
use crate::program::ActionInfo;
use crate::program::access::{self, Access, ReachableCode};
use crate::program::codegen::low_mask;
use crate::program::frame_access::{FrameAccess, HeaderEmit};
use crate::program::header_moves::WINDOW_LEN;
use crate::program::layout::{FRAME_OFFSET_SLOT, Header, VALID_SLOT};
use crate::program::link::Linked;
use crate::program::op::{Opcode, Pc, Slot};
use crate::program::parser::ParseOp;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Function, Inst, InstBuilder, InstructionData, Signature, UserFuncName, Value, ValueDef, types,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{Context, isa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

/// BMv2's values of `standard_metadata.instance_type`: a packet to one port, and a multicast copy.
const NORMAL: u64 = 0;
const REPLICATED: u64 = 5;
/// Width of v1model's timestamps.
const TIMESTAMP_BITS: u8 = 48;
/// The machine code of egress, with the slots that it needs and defines.
struct EgressCode {
    code: Vec<u8>,
    /// Bridged slots, in the order of the bridged words.
    carried: Vec<Slot>,
    /// Bridged slots that egress copies to the header vector when it starts.
    in_vector: Vec<Slot>,
    /// Slots that are stored to the header vector before [`EXIT_FINISH`].
    spilled_slow: Vec<Slot>,
    /// Slots that are stored to the header vector before [`EXIT_DEPARSE`].
    spilled_deparse: Vec<Slot>,
}

/// The machine code of ingress, with the slots that it defines.
struct IngressCode {
    code: Vec<u8>,
    /// Slots that are in the header vector or in `homes` on [`EXIT_FINISH`].
    all: Vec<Slot>,
    /// Slots that ingress keeps in the bridged words instead of the header vector, with the index of their
    /// word.
    homes: HashMap<Slot, usize>,
}

/// Generates the machine code of a program.
pub(super) fn compile_program(
    program: &Linked,
    wire: &FrameAccess,
    helpers: &Helpers,
) -> Result<Native, Unsupported> {
    NativeCompiler::new(program, wire, helpers)?.finish()
}

/// The part of the program that one function is made of.
struct Stage {
    reach: ReachableCode,
    access: Access,
}

struct NativeCompiler<'a> {
    program: &'a Linked,
    wire: &'a FrameAccess,
    helpers: &'a Helpers,
    isa: OwnedTargetIsa,
    ingress: Stage,
    egress: Stage,
    memory: SlotSet,
    /// Slots that may be written before egress (index 0) and in egress (index 1).
    written: [SlotSet; 2],
    /// Bases of headers that the program may create, or that are extracted without a reference to the frame:
    /// they may be valid with a frame offset of 0.
    made: SlotSet,
    /// Bases of headers that are never invalidated: they are valid if their frame offset is set.
    lasting: SlotSet,
    /// The fields of all field lists.
    kept: SlotSet,
    /// A packet may go through egress more than once.
    can_reenter: bool,
    /// End of the furthest access to the frame, in bytes. It becomes [`Native::frame_room`].
    touched: Cell<usize>,
}

impl<'a> NativeCompiler<'a> {
    fn new(
        program: &'a Linked,
        wire: &'a FrameAccess,
        helpers: &'a Helpers,
    ) -> Result<NativeCompiler<'a>, Unsupported> {
        let parser = access::parser_code(program);
        if ReachableCode::new(program, parser.iter().copied())
            .ops(program)
            .any(|op| has_side_effects(op.code))
        {
            return Err(Unsupported);
        }
        let on_wire: Vec<usize> =
            (0..).zip(&wire.verified).filter_map(|(index, wire)| wire.map(|_| index)).collect();
        let conditions = program.checksums.iter().filter(|checksum| checksum.verify);
        let conditions = conditions.filter_map(|checksum| checksum.condition?.code);
        let before = parser.into_iter().chain(conditions).chain([program.ingress]);
        let mut ingress =
            Stage { reach: ReachableCode::new(program, before), access: Access::parser(program, &on_wire) };
        ingress.access.extend(Access::control(program, program.ingress));
        let egress = Stage {
            reach: ReachableCode::new(program, [program.egress]),
            access: Access::control(program, program.egress),
        };
        let all =
            ReachableCode::new(program, ingress.reach.targets.iter().chain(&egress.reach.targets).copied());
        let memory = slot_storage::memory_slots(program, wire, &all);
        let mut flags = settings::builder();
        let mut set = |name, value| flags.set(name, value).map_err(|_| Unsupported);
        set("opt_level", "speed")?;
        set("enable_verifier", if cfg!(test) { "true" } else { "false" })?;
        set("unwind_info", "false")?;
        let isa = isa::lookup_by_name("x86_64").map_err(|_| Unsupported)?;
        let isa = isa.finish(settings::Flags::new(flags)).map_err(|_| Unsupported)?;
        let mut written = [&ingress, &egress].map(|Stage { access, .. }| {
            let mut written_slots = SlotSet::new(program.capacity);
            written_slots.extend(access.written.iter().chain(&access.whole).copied());
            written_slots
        });
        let mut lasting = SlotSet::new(program.capacity);
        let simple = |header: &&Header| !header.metadata && header.union.is_none() && !header.in_stack;
        let simple = program.layout.headers.iter().filter(simple).map(|header| header.first_slot);
        lasting.extend(simple.filter(|base| !memory.contains(base + VALID_SLOT)));
        for base in all.ops(program).filter_map(|op| match op.code {
            Opcode::SetInvalid => program.const_base(op.a),
            _ => None,
        }) {
            lasting.remove(base..base + 1);
        }
        let mut made = SlotSet::new(program.capacity);
        for op in all.ops(program).filter(|op| op.code == Opcode::SetValid) {
            made.extend(program.const_base(op.a));
        }
        for state in &program.parser.states {
            for op in &state.ops {
                match op {
                    ParseOp::Extract { header, base, .. } => {
                        written[0].extend(*base..*base + program.layout.header_type(*header).slots);
                        if wire.headers[usize::from(header.0)].as_ref().is_none_or(|header| !header.lazy) {
                            made.insert(*base);
                        }
                    }
                    ParseOp::ExtractNext { stack, .. } => {
                        let stack = &program.layout.stacks[usize::from(*stack)];
                        let elements = stack.base..stack.base + stack.size * stack.stride;
                        // An element is extracted with all its fields, so nothing of it is left in the frame.
                        made.extend(elements.clone());
                        written[0].extend(elements.chain([stack.next_index_slot]));
                    }
                    _ => {}
                }
            }
        }
        let flags = &program.control_slots;
        let returns = [flags.clone_session, flags.recirculate].iter().any(|flag| written[1].contains(*flag))
            || written[0].contains(flags.recirculate);
        let mut kept = SlotSet::new(program.capacity);
        kept.extend(Access::lists(&program.field_lists).read);
        let touched = Cell::new(0);
        Ok(NativeCompiler {
            program,
            wire,
            helpers,
            isa,
            ingress,
            egress,
            memory,
            written,
            made,
            lasting,
            kept,
            can_reenter: returns,
            touched,
        })
    }

    fn finish(&self) -> Result<Native, Unsupported> {
        let EgressCode { code: egress, carried, in_vector, spilled_slow: changed, spilled_deparse: headers } =
            self.egress()?;
        let IngressCode { code: ingress, all, homes } = self.ingress(&carried)?;
        let points = [
            self.resume_point(&carried, |_| false),
            self.resume_point(&carried, |slot| {
                !homes.contains_key(&slot) && (all.contains(&slot) || self.memory.contains(slot))
            }),
            self.resume_point(&carried, |slot| changed.contains(&slot) || in_vector.contains(&slot)),
            self.resume_point(&carried, |slot| headers.contains(&slot) || in_vector.contains(&slot)),
        ];
        Native::load(&ingress, &egress, carried, self.touched.get(), points)
    }

    /// Describes a point at which the interpreter may continue. `is_defined` returns whether the header
    /// vector already holds the value of a slot.
    fn resume_point(&self, carried: &[Slot], is_defined: impl Fn(Slot) -> bool) -> ResumePoint {
        let missing = |slot: &Slot| !is_defined(*slot);
        let slots = 0..self.program.vars as Slot;
        ResumePoint {
            carried: carried.iter().copied().enumerate().filter(|(_, slot)| missing(slot)).collect(),
            undefined: slots.filter(|slot| missing(slot) && !carried.contains(slot)).collect(),
        }
    }

    /// Returns whether a slot is 0 whenever egress starts: nothing before egress writes it, and no value of
    /// an earlier pass through egress survives in it.
    fn zero_at_egress(&self, slot: Slot) -> bool {
        let program = self.program;
        let is_metadata = program.metadata.iter().any(|(base, slots)| (*base..base + slots).contains(&slot));
        let before = self.written[0].contains(slot) || self.is_set_by_target(slot);
        // Clones keep the fields of a list, and all headers.
        let lost = is_metadata && !self.kept.contains(slot);
        !before && (lost || !self.can_reenter || !self.written[1].contains(slot))
    }

    /// Returns whether the pipeline, and not the program's code, writes this slot before egress.
    fn is_set_by_target(&self, slot: Slot) -> bool {
        let (standard, flags) = (&self.program.standard, &self.program.control_slots);
        [
            standard.ingress_port,
            standard.packet_length,
            standard.ingress_timestamp,
            standard.parser_error,
            standard.checksum_error,
            standard.instance_type,
            flags.drop_port,
        ]
        .contains(&slot)
    }

    /// Generates ingress, which ends with the slots `carried` in the bridged words.
    fn ingress(&self, carried: &[Slot]) -> Result<IngressCode, Unsupported> {
        let program = self.program;
        let (standard, flags) = (&program.standard, &program.control_slots);
        let after = Access::after_ingress(program);
        let results: Vec<Slot> = after.read.into_iter().chain(after.written).collect();
        let memory = self.ingress_memory(carried, &results);
        let places = carried.iter().copied().enumerate();
        let homes = places.filter(|(_, slot)| memory.contains(*slot) && !self.memory.contains(*slot));
        let homes: HashMap<Slot, usize> = homes.map(|(place, slot)| (slot, place)).collect();
        let mut context = FunctionBuilderContext::new();
        let mut function = function();
        let mut g = Emitter::new(
            FunctionBuilder::new(&mut function, &mut context),
            (program, self.wire, self.helpers),
            (&self.ingress.reach.targets, &memory),
            (readonly(FRAME), &self.touched),
        );
        g.bridged_homes.clone_from(&homes);
        let Access { read, written, .. } = &self.ingress.access;
        let mut slots = self.slots(read.iter().chain(written));
        slots.extend(carried.iter().chain(&results).copied());
        slots.extend(Access::lists(program.field_lists.iter().chain(&program.learn_lists)).read);
        for header in program.layout.headers.iter().filter(|header| !header.metadata) {
            slots.extend([header.first_slot + VALID_SLOT, header.first_slot + FRAME_OFFSET_SLOT]);
        }
        let zero = g.iconst(0);
        for slot in slots.iter().filter(|slot| usize::from(*slot) < program.vars && !memory.contains(*slot)) {
            if self.written[0].contains(slot) || self.is_set_by_target(slot) {
                g.declare_slot(slot, zero);
            } else {
                g.declare_zero(slot);
            }
        }
        g.clear_slots(memory.iter().filter(|slot| usize::from(*slot) < program.vars));
        let now = g.input(NativeInput::Now);
        let now = g.truncate(now, 64 - TIMESTAMP_BITS);
        for (slot, input) in [
            (standard.ingress_port, NativeInput::Port),
            (standard.packet_length, NativeInput::PacketLength),
            (flags.drop_port, NativeInput::DropPort),
        ] {
            let value = g.input(input);
            g.declare_slot(slot, value);
        }
        g.declare_slot(standard.ingress_timestamp, now);
        let mut all = g.variables();
        all.extend(slots.iter().filter(|slot| g.is_zero(*slot) || memory.contains(*slot)));
        let (bail, end) = (g.create_cold_block(), g.builder.create_block());
        g.parser(bail)?;
        g.emit_code(program.ingress, end)?;

        g.switch_to(end);
        let unusual = [flags.clone_session, flags.digest, flags.resubmit];
        if unusual.iter().any(|flag| !g.is_zero(*flag)) {
            let (slow, usual) = (g.create_cold_block(), g.builder.create_block());
            let mut any = zero;
            for flag in unusual {
                let value = g.use_slot(flag);
                any = g.builder.ins().bor(any, value);
            }
            g.brif(any, slow, usual);
            g.switch_to(slow);
            g.spill(&all);
            g.emit_return(EXIT_FINISH);
            g.switch_to(usual);
        }
        let priority = g.use_slot(standard.priority);
        if !g.is_zero(standard.mcast_grp) {
            let group = g.use_slot(standard.mcast_grp);
            let group = g.mask(group, u64::from(u16::MAX));
            let (copies, one) = (g.builder.create_block(), g.builder.create_block());
            g.brif(group, copies, one);
            g.switch_to(copies);
            g.set_imm(standard.instance_type, REPLICATED);
            g.set_imm(flags.recirculate, 0);
            g.store_bridged(carried);
            g.emit_return_verdict(MULTICAST, group, priority);
            g.switch_to(one);
        }
        let (port, drop_port) = (g.use_slot(standard.egress_spec), g.input(NativeInput::DropPort));
        let is_drop = g.compare(IntCC::Equal, port, drop_port);
        let (dropped, forward) = (g.builder.create_block(), g.builder.create_block());
        g.brif(is_drop, dropped, forward);
        g.switch_to(dropped);
        g.emit_return(DROP);
        g.switch_to(forward);
        g.set_imm(standard.instance_type, NORMAL);
        g.store_bridged(carried);
        g.emit_return_verdict(UNICAST, port, priority);
        g.switch_to(bail);
        g.emit_return(EXIT_INTERPRET);
        g.complete()?;
        Ok(IngressCode { code: self.compile(function)?, all, homes })
    }

    /// Returns the slots that stay in memory in ingress: the slots that always do, and the bridged slots that
    /// ingress writes but does not read. As variables they would occupy registers where paths of the parser
    /// join.
    fn ingress_memory(&self, carried: &[Slot], results: &[Slot]) -> SlotSet {
        let mut read = self.slots(self.ingress.access.read.iter());
        read.extend(results.iter().copied());
        for header in self.program.layout.headers.iter().filter(|header| !header.metadata) {
            read.remove(header.first_slot + VALID_SLOT..header.first_slot + VALID_SLOT + 1);
            read.remove(header.first_slot + FRAME_OFFSET_SLOT..header.first_slot + FRAME_OFFSET_SLOT + 1);
        }
        let mut memory = self.memory.clone();
        let stays = |slot: &Slot| {
            self.written[0].contains(*slot) && !self.is_set_by_target(*slot) && !read.contains(*slot)
        };
        memory.extend(carried.iter().copied().filter(stays));
        memory
    }

    /// Generates egress, and decides which slots are bridged.
    fn egress(&self) -> Result<EgressCode, Unsupported> {
        let program = self.program;
        let (standard, flags) = (&program.standard, &program.control_slots);
        let mut context = FunctionBuilderContext::new();
        let mut function = function();
        let mut g = Emitter::new(
            FunctionBuilder::new(&mut function, &mut context),
            (program, self.wire, self.helpers),
            (&self.egress.reach.targets, &self.memory),
            (FRAME, &self.touched),
        );
        let Access { read, written, logged, .. } = &self.egress.access;
        let mut slots = self.slots(read.iter().chain(written));
        slots.extend([standard.egress_spec, flags.clone_session, flags.recirculate]);
        for emission in self.wire.deparser.iter().flatten() {
            slots.extend([emission.base + VALID_SLOT, emission.base + FRAME_OFFSET_SLOT]);
            slots.extend(emission.whole.iter().map(|get| get.slot));
            slots.extend(emission.updated.iter().flat_map(|group| &group.fields).map(|field| field.slot));
        }
        // Slots that another pass may preserve: a clone or a recirculated packet keeps the fields of a list.
        if self.can_reenter {
            slots.extend(Access::after_egress(program).read);
            slots.extend(self.kept.iter());
        }
        // What the interpreter needs beside: to put the packet together, if this code does not, and for a trace.
        let mut needed = SlotSet::new(program.capacity);
        let headers = program.layout.headers.iter().zip(&self.wire.headers);
        for (header, extraction) in headers.filter(|(header, _)| !header.metadata) {
            needed.extend([header.first_slot + VALID_SLOT, header.first_slot + FRAME_OFFSET_SLOT]);
            let is_lazy = extraction.as_ref().is_some_and(|extract| extract.lazy);
            let fields = header.first_slot..header.first_slot + program.layout.types[header.ty].slots;
            needed.extend(fields.filter(|slot| !is_lazy || self.wire.written.contains(slot)));
        }
        let from_frame: HashSet<Slot> =
            self.wire.unloaded.iter().flatten().map(|use_slot| use_slot.slot).collect();
        let others = Access::deparser(program, &[]).read;
        needed.extend(others.iter().chain(logged).copied().filter(|slot| !from_frame.contains(slot)));
        slots.extend(needed.iter());
        let (mut loads, zero) = (Vec::new(), g.iconst(0));
        let is_var = |slot: &Slot| usize::from(*slot) < program.vars;
        let mut carried: Vec<Slot> = self.memory.iter().filter(is_var).collect();
        let helped = slot_storage::memory_slots(program, self.wire, &self.egress.reach);
        let mut in_vector = Vec::new();
        for (place, slot) in carried.iter().enumerate() {
            if slots.contains(*slot) || helped.contains(*slot) {
                let value = g.load_bridged(place);
                g.store_slot(*slot, value);
                in_vector.push(*slot);
            }
        }
        for slot in slots.iter().filter(is_var) {
            if self.memory.contains(slot) {
                continue;
            }
            if !self.zero_at_egress(slot) {
                // The index of the bridged word is patched below: which slots are bridged is known only when
                // the live loads are known. A dead load keeps index 0 and is removed by Cranelift. Nothing
                // may merge loads before the patch; GVN runs in `compile`.
                let value = g.load_bridged(0);
                loads.push((slot, value));
                g.declare_slot(slot, value);
            } else if self.written[1].contains(slot) {
                g.declare_slot(slot, zero);
            } else {
                g.declare_zero(slot);
            }
        }
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
            let value = g.input(input);
            let value = g.mask(value, low_mask(bits));
            g.declare_slot(slot, value);
        }
        // Any value but the drop port: the packet is dropped only if egress itself assigns the drop port.
        let other = g.input(NativeInput::DropPort);
        let other = g.add(other, 1);
        let other = g.mask(other, low_mask(standard.port_bits));
        g.declare_slot(standard.egress_spec, other);
        g.declare_slot(flags.exit, zero);
        // The pipeline makes a clone and clears this slot when ingress or egress returns, so none is pending
        // when egress starts.
        g.declare_slot(flags.clone_session, zero);
        let given = [standard.egress_spec, flags.clone_session];
        // The deparser is compiled only if it consists of frame accesses alone: no checksum over slots is to
        // be updated, and the deparser runs no code of its own.
        let own = self
            .wire
            .deparser
            .as_ref()
            .filter(|_| !self.wire.has_slot_checksum_updates && program.deparser.code.is_none());
        let bytes = |emissions: &&Vec<HeaderEmit>| {
            emissions.iter().map(|emit| usize::from(emit.bytes)).sum::<usize>()
        };
        // `frame_offset` refuses a larger offset too, but that would cost the whole program its machine code.
        // With this test only the deparser is left to the interpreter.
        let own = own.filter(|emissions| bytes(emissions) + WINDOW_LEN <= MAX_FRAME_ACCESS);
        // Slots to store when the interpreter finishes the run. With a compiled deparser, headers that are
        // unchanged need not be stored, but slots that another pass preserves do.
        let mut changed = g.variables();
        let kept =
            |slot: &Slot| self.can_reenter && (*slot == standard.priority || self.kept.contains(*slot));
        if own.is_some() {
            changed.retain(|slot| self.written[1].contains(*slot) || kept(slot) || given.contains(slot));
        }
        let end = g.builder.create_block();
        g.emit_code(program.egress, end)?;

        g.switch_to(end);
        let unusual = [flags.clone_session, flags.recirculate];
        let may_be_pending = unusual.iter().any(|flag| !g.is_zero(*flag) && self.written[1].contains(*flag))
            || !g.is_zero(flags.recirculate);
        if may_be_pending {
            let (slow, usual) = (g.create_cold_block(), g.builder.create_block());
            let (session, again) = (g.use_slot(flags.clone_session), g.use_slot(flags.recirculate));
            let any = g.builder.ins().bor(session, again);
            g.brif(any, slow, usual);
            g.switch_to(slow);
            g.spill(&changed);
            g.emit_return(EXIT_FINISH);
            g.switch_to(usual);
        }
        let (port, drop_port) = (g.use_slot(standard.egress_spec), g.input(NativeInput::DropPort));
        let is_drop = g.compare(IntCC::Equal, port, drop_port);
        let (dropped, forward) = (g.builder.create_block(), g.builder.create_block());
        g.brif(is_drop, dropped, forward);
        g.switch_to(dropped);
        g.emit_return(DROP);
        g.switch_to(forward);
        let slow = g.create_cold_block();
        let mut headers = Vec::new();
        match own {
            Some(emissions) => {
                g.deparser(
                    emissions,
                    &HeaderSets { maybe_created: &self.made, never_invalidated: &self.lasting },
                    slow,
                )?;
                let is_needed = |slot: &Slot| {
                    let block = |header: &Header| {
                        !header.metadata
                            && (header.first_slot..header.first_slot + program.layout.types[header.ty].slots)
                                .contains(slot)
                    };
                    program.layout.headers.iter().any(block)
                        || given.contains(slot)
                        || *slot == flags.recirculate
                };
                g.switch_to(slow);
                headers.extend(changed.iter().copied().filter(is_needed));
                g.spill(&headers);
                g.emit_return(EXIT_DEPARSE);
            }
            None => {
                g.jump(slow);
                g.switch_to(slow);
                g.spill(&changed);
                g.emit_return(EXIT_FINISH);
            }
        }
        g.complete()?;
        let used = live_values(&function);
        let is_live = |(slot, value): &(Slot, Value)| used.contains(value) || needed.contains(*slot);
        for (slot, value) in loads.into_iter().filter(is_live) {
            if let ValueDef::Result(inst, _) = function.dfg.value_def(value)
                && let InstructionData::Load { offset, .. } = &mut function.dfg.insts[inst]
            {
                *offset = (8 * carried.len() as i32).into();
            }
            carried.push(slot);
        }
        Ok(EgressCode {
            code: self.compile(function)?,
            carried,
            in_vector,
            spilled_slow: changed,
            spilled_deparse: headers,
        })
    }

    /// Returns these slots, but for the arguments of actions: those come with an entry.
    fn slots<'s>(&self, slots: impl Iterator<Item = &'s Slot>) -> SlotSet {
        let mut set = SlotSet::new(self.program.capacity);
        set.extend(slots.copied());
        let arguments = self.program.actions.iter().map(ActionInfo::words).max().unwrap_or(0);
        set.remove(self.program.params..self.program.params + arguments as u16);
        set
    }

    fn compile(&self, function: Function) -> Result<Vec<u8>, Unsupported> {
        let mut context = Context::for_function(function);
        let compiled = context.compile(&*self.isa, &mut ControlPlane::default());
        let compiled = compiled.map_err(|_error| Unsupported)?;
        // Code without relocations is position-independent: it is copied to its final address as it is.
        if !compiled.buffer.relocs().is_empty() {
            return Err(Unsupported);
        }
        Ok(compiled.code_buffer().to_vec())
    }
}

/// Returns whether a second execution of an operation would change something again. Parser code must not
/// contain one: after an exit with `EXIT_INTERPRET` the interpreter parses the packet from the start.
fn has_side_effects(code: Opcode) -> bool {
    use Opcode::{ApplyTable, Assert, CounterCount, Hash, MeterExecute, Random, RegWrite, Truncate, Wide};
    matches!(
        code,
        Assert | CounterCount | Hash | MeterExecute | Random | RegWrite | ApplyTable | Truncate | Wide
    )
}

fn function() -> Function {
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params.push(AbiParam::new(types::I64));
    signature.returns.push(AbiParam::new(types::I64));
    Function::with_name_signature(UserFuncName::default(), signature)
}

/// Returns the values that decide about something: those of operations with effects, and what they are computed from.
fn live_values(function: &Function) -> HashSet<Value> {
    let dfg = &function.dfg;
    let (mut used, mut waiting) = (HashSet::new(), Vec::new());
    let mut incoming: HashMap<Value, Vec<Value>> = HashMap::new();
    let insts = |block| function.layout.block_insts(block);
    for inst in function.layout.blocks().flat_map(insts) {
        let destinations = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
        for call in destinations {
            let params = dfg.block_params(call.block(&dfg.value_lists));
            let args = call.args(&dfg.value_lists).filter_map(|arg| arg.as_value());
            for (param, arg) in params.iter().zip(args) {
                incoming.entry(*param).or_default().push(dfg.resolve_aliases(arg));
            }
        }
        if has_effect(function, inst) {
            waiting.extend(dfg.inst_args(inst).iter().map(|arg| dfg.resolve_aliases(*arg)));
        }
    }
    while let Some(value) = waiting.pop() {
        if !used.insert(value) {
            continue;
        }
        match dfg.value_def(value) {
            ValueDef::Result(inst, _) => {
                waiting.extend(dfg.inst_args(inst).iter().map(|arg| dfg.resolve_aliases(*arg)));
            }
            ValueDef::Param(..) => waiting.extend(incoming.get(&value).into_iter().flatten().copied()),
            ValueDef::Union(a, b) => waiting.extend([a, b]),
        }
    }
    used
}

fn has_effect(function: &Function, inst: Inst) -> bool {
    let opcode = function.dfg.insts[inst].opcode();
    opcode.is_terminator() || opcode.is_call() || opcode.can_store() || opcode.other_side_effects()
}

const _: () = assert!(Pc::BITS == ROW_NEXT_SHIFT, "a row packs addresses of this width");
