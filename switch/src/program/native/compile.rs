//! Compiles a program to two functions, ingress and egress: decides which slots are bridged (passed from ingress to
//! egress with the packet) and which slots each function has to define, and emits the beginning and end of both
//! functions. The parser, the operations and the deparser are lowered by other modules.

mod egress;

use super::abi::{
    EXIT_DROP, EXIT_FINISH, EXIT_INTERPRET, EXIT_MULTICAST, EXIT_UNICAST, Helpers, NativeInput,
    ROW_NEXT_SHIFT,
};
use super::code::{Native, ResumePoint, Unsupported};
use super::emitter::{Emitter, FRAME, readonly};
use super::slot_storage::{self, SlotSet};
use crate::program::access::{self, Access, ReachableCode};
use crate::program::frame_access::FrameAccess;
use crate::program::layout::{FRAME_OFFSET_SLOT, Header, VALID_SLOT};
use crate::program::link::LinkedProgram;
use crate::program::op::{Opcode, Pc, Slot};
use crate::program::parser::ParseOp;
use crate::program::signatures::ActionInfo;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Function, Inst, InstBuilder, Signature, UserFuncName, Value, ValueDef, types,
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

/// The machine code of egress, with the slots that it reads and stores.
struct EgressCode {
    code: Vec<u8>,
    /// Bridged slots, in the order of the bridged words.
    bridged: Vec<Slot>,
    /// Bridged slots that egress copies to the header vector when it starts.
    copied_to_vector: Vec<Slot>,
    /// Slots that are stored to the header vector before [`EXIT_FINISH`].
    spilled_on_finish: Vec<Slot>,
    /// Slots that are stored to the header vector before [`EXIT_DEPARSE`].
    spilled_on_deparse: Vec<Slot>,
}

/// The machine code of ingress, with the slots that it stores.
struct IngressCode {
    code: Vec<u8>,
    /// Slots that are in the header vector, or in their bridged word (see `bridged_indices`), on [`EXIT_FINISH`].
    stored_on_finish: Vec<Slot>,
    /// For the slots that ingress keeps in a bridged word instead of the header vector: the index of the word.
    bridged_indices: HashMap<Slot, usize>,
}

/// Generates the machine code of a program.
pub(super) fn compile_program(
    program: &LinkedProgram,
    frame_access: &FrameAccess,
    helpers: &Helpers,
) -> Result<Native, Unsupported> {
    NativeCompiler::new(program, frame_access, helpers)?.finish()
}

/// The part of the program that one function runs.
struct Stage {
    reachable: ReachableCode,
    access: Access,
}

struct NativeCompiler<'a> {
    program: &'a LinkedProgram,
    frame_access: &'a FrameAccess,
    helpers: &'a Helpers,
    isa: OwnedTargetIsa,
    ingress: Stage,
    egress: Stage,
    /// Slots that stay in memory because helpers access them.
    memory: SlotSet,
    /// Slots that the program may write before egress.
    written_before_egress: SlotSet,
    /// Slots that the program may write in egress.
    written_in_egress: SlotSet,
    /// First slots of headers that the program may create, or that are extracted with all their fields: they may
    /// be valid with a frame offset of 0.
    maybe_created: SlotSet,
    /// First slots of headers that are never invalidated: they are valid if their frame offset is set.
    never_invalidated: SlotSet,
    /// The fields of all field lists, which clones and re-entering packets keep.
    preserved: SlotSet,
    /// Whether a packet may go through egress more than once.
    can_reenter: bool,
    /// End of the furthest access to the frame, in bytes. It becomes [`Native::frame_room`].
    max_frame_access: Cell<usize>,
}

impl<'a> NativeCompiler<'a> {
    fn new(
        program: &'a LinkedProgram,
        frame_access: &'a FrameAccess,
        helpers: &'a Helpers,
    ) -> Result<NativeCompiler<'a>, Unsupported> {
        let parser = access::parser_code(program);
        if ReachableCode::new(program, parser.iter().copied())
            .ops(program)
            .any(|op| has_side_effects(op.opcode))
        {
            return Err(Unsupported);
        }
        let frame_checksums: Vec<usize> = (0..)
            .zip(&frame_access.verified)
            .filter_map(|(index, checksum)| checksum.map(|_| index))
            .collect();
        let conditions = program.checksums.iter().filter(|checksum| checksum.is_verified);
        let conditions = conditions.filter_map(|checksum| checksum.condition?.code);
        let starts = parser.into_iter().chain(conditions).chain([program.ingress]);
        let mut ingress = Stage {
            reachable: ReachableCode::new(program, starts),
            access: Access::parser(program, &frame_checksums),
        };
        ingress.access.extend(Access::control(program, program.ingress));
        let egress = Stage {
            reachable: ReachableCode::new(program, [program.egress]),
            access: Access::control(program, program.egress),
        };
        let all = ReachableCode::new(
            program,
            ingress.reachable.targets.iter().chain(&egress.reachable.targets).copied(),
        );
        let memory = slot_storage::memory_slots(program, frame_access, &all);
        let isa = isa()?;
        let [mut written_before_egress, written_in_egress] =
            [&ingress, &egress].map(|Stage { access, .. }| {
                let mut written_slots = SlotSet::new(program.capacity);
                written_slots.extend(access.written.iter().chain(&access.whole_blocks).copied());
                written_slots
            });
        let mut never_invalidated = SlotSet::new(program.capacity);
        let is_standalone =
            |header: &&Header| !header.is_metadata && header.union_member.is_none() && !header.in_stack;
        let bases = program.layout.headers.iter().filter(is_standalone).map(|header| header.first_slot);
        never_invalidated.extend(bases.filter(|base| !memory.contains(base + VALID_SLOT)));
        for base in all.ops(program).filter_map(|op| match op.opcode {
            Opcode::SetInvalid => program.const_base(op.a),
            _ => None,
        }) {
            never_invalidated.remove(base..base + 1);
        }
        let mut maybe_created = SlotSet::new(program.capacity);
        for op in all.ops(program).filter(|op| op.opcode == Opcode::SetValid) {
            maybe_created.extend(program.const_base(op.a));
        }
        add_extracted(program, frame_access, &mut written_before_egress, &mut maybe_created);
        let flags = &program.control_slots;
        let can_reenter =
            [flags.clone_session, flags.recirculate].iter().any(|flag| written_in_egress.contains(*flag))
                || written_before_egress.contains(flags.recirculate);
        let mut preserved = SlotSet::new(program.capacity);
        preserved.extend(Access::lists(&program.field_lists).read);
        let max_frame_access = Cell::new(0);
        Ok(NativeCompiler {
            program,
            frame_access,
            helpers,
            isa,
            ingress,
            egress,
            memory,
            written_before_egress,
            written_in_egress,
            maybe_created,
            never_invalidated,
            preserved,
            can_reenter,
            max_frame_access,
        })
    }

    fn finish(&self) -> Result<Native, Unsupported> {
        let EgressCode { code: egress, bridged, copied_to_vector, spilled_on_finish, spilled_on_deparse } =
            self.egress()?;
        let IngressCode { code: ingress, stored_on_finish, bridged_indices } = self.ingress(&bridged)?;
        // In the order of `Native::resume_points`.
        let resume_points = [
            self.resume_point(&bridged, |_| false),
            self.resume_point(&bridged, |slot| {
                !bridged_indices.contains_key(&slot)
                    && (stored_on_finish.contains(&slot) || self.memory.contains(slot))
            }),
            self.resume_point(&bridged, |slot| {
                spilled_on_finish.contains(&slot) || copied_to_vector.contains(&slot)
            }),
            self.resume_point(&bridged, |slot| {
                spilled_on_deparse.contains(&slot) || copied_to_vector.contains(&slot)
            }),
        ];
        Native::load(&ingress, &egress, bridged, self.max_frame_access.get(), resume_points)
    }

    /// Describes a point at which the interpreter may continue. `is_defined` returns whether the header
    /// vector already holds the value of a slot.
    fn resume_point(&self, bridged: &[Slot], is_defined: impl Fn(Slot) -> bool) -> ResumePoint {
        let missing = |slot: &Slot| !is_defined(*slot);
        let slots = 0..self.program.zeroed_slots as Slot;
        ResumePoint {
            bridged: bridged.iter().copied().enumerate().filter(|(_, slot)| missing(slot)).collect(),
            undefined: slots.filter(|slot| missing(slot) && !bridged.contains(slot)).collect(),
        }
    }

    /// Returns whether a slot is 0 whenever egress starts: nothing before egress writes it, and if the packet went
    /// through egress before, no value of that time is left in it.
    fn is_zero_at_egress(&self, slot: Slot) -> bool {
        let program = self.program;
        let is_metadata =
            program.metadata_blocks.iter().any(|(base, slots)| (*base..base + slots).contains(&slot));
        let is_set_before = self.written_before_egress.contains(slot) || self.is_set_by_target(slot);
        // Of the values of an earlier time in egress, a clone keeps all headers, but only the metadata in its field
        // list.
        let is_reset = is_metadata && !self.preserved.contains(slot);
        !is_set_before && (is_reset || !self.can_reenter || !self.written_in_egress.contains(slot))
    }

    /// Returns whether the target, not the program's code, writes this slot before egress.
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

    /// Generates ingress, which stores the slots `bridged` to the bridged words.
    fn ingress(&self, bridged: &[Slot]) -> Result<IngressCode, Unsupported> {
        let program = self.program;
        let (standard, flags) = (&program.standard, &program.control_slots);
        let after = Access::after_ingress(program);
        let results: Vec<Slot> = after.read.into_iter().chain(after.written).collect();
        let memory = self.ingress_memory(bridged, &results);
        let words = bridged.iter().copied().enumerate();
        let in_words = words.filter(|(_, slot)| memory.contains(*slot) && !self.memory.contains(*slot));
        let bridged_indices: HashMap<Slot, usize> = in_words.map(|(word, slot)| (slot, word)).collect();
        let mut context = FunctionBuilderContext::new();
        let mut function = empty_function();
        let mut emitter = Emitter::new(
            FunctionBuilder::new(&mut function, &mut context),
            (program, self.frame_access, self.helpers),
            (&self.ingress.reachable.targets, &memory),
            (readonly(FRAME), &self.max_frame_access),
        );
        emitter.bridged_indices.clone_from(&bridged_indices);
        let Access { read, written, .. } = &self.ingress.access;
        let mut slots = self.slots(read.iter().chain(written));
        slots.extend(bridged.iter().chain(&results).copied());
        slots.extend(Access::lists(program.field_lists.iter().chain(&program.learn_lists)).read);
        for header in program.layout.headers.iter().filter(|header| !header.is_metadata) {
            slots.extend([header.first_slot + VALID_SLOT, header.first_slot + FRAME_OFFSET_SLOT]);
        }
        let zero = emitter.iconst(0);
        for slot in
            slots.iter().filter(|slot| usize::from(*slot) < program.zeroed_slots && !memory.contains(*slot))
        {
            if self.written_before_egress.contains(slot) || self.is_set_by_target(slot) {
                emitter.declare_slot(slot, zero);
            } else {
                emitter.declare_zero(slot);
            }
        }
        emitter.clear_slots(memory.iter().filter(|slot| usize::from(*slot) < program.zeroed_slots));
        let now = emitter.load_input(NativeInput::Now);
        let now = emitter.truncate(now, 64 - TIMESTAMP_BITS);
        for (slot, input) in [
            (standard.ingress_port, NativeInput::Port),
            (standard.packet_length, NativeInput::PacketLength),
            (flags.drop_port, NativeInput::DropPort),
        ] {
            let value = emitter.load_input(input);
            emitter.declare_slot(slot, value);
        }
        emitter.declare_slot(standard.ingress_timestamp, now);
        let mut stored_on_finish = emitter.variables();
        stored_on_finish
            .extend(slots.iter().filter(|slot| emitter.is_known_zero(*slot) || memory.contains(*slot)));
        let (interpreter_exit, end) = (emitter.create_cold_block(), emitter.builder.create_block());
        emitter.parser(interpreter_exit)?;
        emitter.emit_code(program.ingress, end)?;

        emitter.switch_to(end);
        let rare_flags = [flags.clone_session, flags.digest, flags.resubmit];
        if rare_flags.iter().any(|flag| !emitter.is_known_zero(*flag)) {
            let (finish, usual) = (emitter.create_cold_block(), emitter.builder.create_block());
            let mut any = zero;
            for flag in rare_flags {
                let value = emitter.use_slot(flag);
                any = emitter.builder.ins().bor(any, value);
            }
            emitter.brif(any, finish, usual);
            emitter.switch_to(finish);
            emitter.spill(&stored_on_finish);
            emitter.emit_return(EXIT_FINISH);
            emitter.switch_to(usual);
        }
        let priority = emitter.use_slot(standard.priority);
        if !emitter.is_known_zero(standard.mcast_grp) {
            let group = emitter.use_slot(standard.mcast_grp);
            let group = emitter.mask(group, u64::from(u16::MAX));
            let (multicast, unicast) = (emitter.builder.create_block(), emitter.builder.create_block());
            emitter.brif(group, multicast, unicast);
            emitter.switch_to(multicast);
            emitter.set_imm(standard.instance_type, REPLICATED);
            emitter.set_imm(flags.recirculate, 0);
            emitter.store_bridged(bridged);
            emitter.emit_return_verdict(EXIT_MULTICAST, group, priority);
            emitter.switch_to(unicast);
        }
        let port = self.return_if_dropped(&mut emitter);
        emitter.set_imm(standard.instance_type, NORMAL);
        emitter.store_bridged(bridged);
        emitter.emit_return_verdict(EXIT_UNICAST, port, priority);
        emitter.switch_to(interpreter_exit);
        emitter.emit_return(EXIT_INTERPRET);
        emitter.complete()?;
        Ok(IngressCode { code: self.compile(function)?, stored_on_finish, bridged_indices })
    }

    /// Returns the slots that stay in memory in ingress: the slots that always do, and the bridged slots that
    /// ingress writes but does not read. As variables, the latter would occupy registers where paths of the
    /// parser join.
    fn ingress_memory(&self, bridged: &[Slot], results: &[Slot]) -> SlotSet {
        let mut read = self.slots(self.ingress.access.read.iter());
        read.extend(results.iter().copied());
        for header in self.program.layout.headers.iter().filter(|header| !header.is_metadata) {
            read.remove(header.first_slot + VALID_SLOT..header.first_slot + VALID_SLOT + 1);
            read.remove(header.first_slot + FRAME_OFFSET_SLOT..header.first_slot + FRAME_OFFSET_SLOT + 1);
        }
        let mut memory = self.memory.clone();
        let is_write_only = |slot: &Slot| {
            self.written_before_egress.contains(*slot)
                && !self.is_set_by_target(*slot)
                && !read.contains(*slot)
        };
        memory.extend(bridged.iter().copied().filter(is_write_only));
        memory
    }

    /// Emits a return that is taken if the packet is to be dropped. Returns the port to which it goes otherwise.
    fn return_if_dropped(&self, emitter: &mut Emitter<'_, '_>) -> Value {
        let port = emitter.use_slot(self.program.standard.egress_spec);
        let drop_port = emitter.load_input(NativeInput::DropPort);
        let is_drop = emitter.compare(IntCC::Equal, port, drop_port);
        let (dropped, forward) = (emitter.builder.create_block(), emitter.builder.create_block());
        emitter.brif(is_drop, dropped, forward);
        emitter.switch_to(dropped);
        emitter.emit_return(EXIT_DROP);
        emitter.switch_to(forward);
        port
    }

    /// Returns these slots as a set, without the arguments of actions, which come from the entry.
    fn slots<'s>(&self, slots: impl Iterator<Item = &'s Slot>) -> SlotSet {
        let mut set = SlotSet::new(self.program.capacity);
        set.extend(slots.copied());
        let arguments = self.program.actions.iter().map(ActionInfo::arg_words).max().unwrap_or(0);
        set.remove(self.program.first_param_slot..self.program.first_param_slot + arguments as u16);
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

/// Returns the target of the machine code, with the settings.
fn isa() -> Result<OwnedTargetIsa, Unsupported> {
    let mut flags = settings::builder();
    let mut set = |name, value| flags.set(name, value).map_err(|_| Unsupported);
    set("opt_level", "speed")?;
    set("enable_verifier", if cfg!(test) { "true" } else { "false" })?;
    set("unwind_info", "false")?;
    let isa = isa::lookup_by_name("x86_64").map_err(|_| Unsupported)?;
    isa.finish(settings::Flags::new(flags)).map_err(|_| Unsupported)
}

/// Adds the slots that the parser writes to `written`, and the headers that it extracts with all their fields to
/// `maybe_created`.
fn add_extracted(
    program: &LinkedProgram,
    frame_access: &FrameAccess,
    written: &mut SlotSet,
    maybe_created: &mut SlotSet,
) {
    for op in program.parser.states.iter().flat_map(|state| &state.ops) {
        match op {
            ParseOp::Extract { header, base, .. } => {
                written.extend(*base..*base + program.layout.header_type(*header).block_len);
                let extract = frame_access.headers[usize::from(header.0)].as_ref();
                if extract.is_none_or(|header| !header.is_lazy) {
                    maybe_created.insert(*base);
                }
            }
            ParseOp::ExtractNext { stack, .. } => {
                let stack = &program.layout.stacks[usize::from(*stack)];
                let elements = stack.base..stack.base + stack.size * stack.stride;
                // An element is extracted with all its fields, so its frame offset slot is 0.
                maybe_created.extend(elements.clone());
                written.extend(elements.chain([stack.next_index_slot]));
            }
            _ => {}
        }
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

fn empty_function() -> Function {
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params.push(AbiParam::new(types::I64));
    signature.returns.push(AbiParam::new(types::I64));
    Function::with_name_signature(UserFuncName::default(), signature)
}

/// Returns the values that have an effect: the arguments of instructions with effects, and all values from which
/// they are computed.
fn live_values(function: &Function) -> HashSet<Value> {
    let dfg = &function.dfg;
    let (mut live, mut waiting) = (HashSet::new(), Vec::new());
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
        if !live.insert(value) {
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
    live
}

fn has_effect(function: &Function, inst: Inst) -> bool {
    let opcode = function.dfg.insts[inst].opcode();
    opcode.is_terminator() || opcode.is_call() || opcode.can_store() || opcode.other_side_effects()
}

const _: () = assert!(Pc::BITS == ROW_NEXT_SHIFT, "a row packs addresses of this width");
