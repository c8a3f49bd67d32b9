//! Runs a [`Program`] packet by packet, with BMv2's semantics.
//!
//! A pipeline has no ports, no queues and no clock: [`crate::engine`] provides them. The header vector of a packet
//! consists of slots, words of 64 bits; a header has a block of consecutive slots.
//!
//! A program runs on an interpreter or, with [`Engine::Compiled`], as machine code that was generated when it was
//! loaded: one function for ingress (parser, checksums, control) and one for egress (control, checksums, deparser).
//! Both do to the frame and to the state of the switch what the P4 program says, and give the same verdict;
//! `differential_tests` compares them packet by packet. Machine code differs in what it leaves in the header vector: it
//! extracts only the fields that the program uses, and from ingress to egress a packet keeps only the words that egress
//! reads. What it cannot do it leaves to the interpreter (`NativeResult`).

mod api_types;
mod custom_crc;
#[cfg(test)]
mod differential_tests;
mod extern_api;
mod hash;
mod header_moves;
mod headers;
mod idle;
mod interpreter;
mod io;
mod lookup;
mod meter;
mod native;
mod parse;
mod phv;
mod profile_api;
mod saved_state;
mod scratch;
mod slow_ops;
mod state;
mod table_read;
mod table_state;
mod table_write;
mod trace;
mod tracing;
mod values;
mod wide;

pub use crate::program::Engine;
pub use api_types::{
    ActionCall, ConstPart, CounterValue, EntryHandle, GroupHandle, KeyMatch, MemberHandle, MeterRates,
    ObjectKind, TableEntry, TableError,
};
pub use custom_crc::CrcParameters;
pub use io::{ClonedPacket, Digest, EgressMeta, EgressVerdict, IngressMeta, IngressVerdict, SideEffects};
pub use scratch::Scratch;
pub use trace::{NoTrace, Tracer};
pub(crate) use values::hex;

use crate::packet::Packet;
use crate::program::{CLONE_SESSION_VALID, Program, low_mask};
pub(crate) use native::NativeResult;
use parse::PacketContext;
use phv::{init_phv, prepare_reentry, recycle_vector, restore_fields, save_fields};
use state::State;
use std::sync::Arc;

/// `standard_metadata.instance_type`, with simple_switch's numbers.
mod instance {
    pub(super) const NORMAL: u64 = 0;
    pub(super) const INGRESS_CLONE: u64 = 1;
    pub(super) const EGRESS_CLONE: u64 = 2;
    pub(super) const RECIRCULATED: u64 = 4;
    pub(super) const REPLICATED: u64 = 5;
    pub(super) const RESUBMITTED: u64 = 6;
}

/// A program with its state in one switch: tables, registers, counters, meters.
pub struct Pipeline {
    program: Arc<Program>,
    state: State,
}

impl Pipeline {
    /// Creates a pipeline in its initial state: const entries and default actions are in place, everything
    /// else is empty. `seed` seeds the random numbers of the program.
    pub fn new(program: Arc<Program>, seed: u64) -> Pipeline {
        let state = State::new(&program, seed);
        let mut pipeline = Pipeline { program, state };
        pipeline.set_engine(pipeline.program.engine);
        pipeline
    }
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }
    /// Sets the port number that means "drop". The default is 511, as in BMv2.
    pub fn set_drop_port(&mut self, port: u16) {
        self.state.drop_port = port;
    }
    /// Selects the engine. The default is the engine of the program. [`Engine::Compiled`] generates the
    /// machine code if the program does not have it yet.
    pub fn set_engine(&mut self, engine: Engine) {
        if engine == Engine::Compiled {
            native::prepare(&self.program);
        }
        self.state.engine = engine;
    }
    /// Exchanges the working memory. A thread that runs many switches lends the same memory to each of them
    /// in turn, so that it stays in the processor's cache.
    #[inline]
    pub fn swap_scratch(&mut self, scratch: &mut Box<Scratch>) {
        scratch.fit(&self.program);
        std::mem::swap(&mut self.state.scratch, scratch);
    }
    /// Sets the number of ticks of `now` per second, which meters and timeouts need. The default is
    /// 1,000,000, as BMv2's clock counts microseconds. 0 counts as 1.
    pub fn set_ticks_per_second(&mut self, ticks: u64) {
        self.state.ticks_per_second = ticks.max(1);
    }
    /// Sets the time, in ticks, for the runtime API: idle timeouts of entries that are written next start at
    /// this time.
    pub fn set_now(&mut self, now: u64) {
        self.state.now = now;
    }
    /// Returns all `assert` and `assume` statements of the program, by location or action, and how often each failed.
    /// A failure drops the packet, whereas BMv2 aborts.
    pub fn assertions(&self) -> impl Iterator<Item = (&str, u64)> {
        let texts = self.program.assertions.iter().map(|assertion| assertion.text.as_str());
        texts.zip(self.state.failed_assertions.iter().copied())
    }
    /// Takes the text of the assertion that just failed, if no switch with this program has reported it.
    pub(crate) fn take_first_failure(&mut self) -> Option<&str> {
        let index = self.state.first_failure.take()?;
        Some(&self.program.assertions[index].text)
    }

    /// Parses a packet, verifies its checksums and runs ingress on it.
    pub fn ingress(
        &mut self,
        packet: &mut Packet,
        meta: IngressMeta,
        effects: &mut SideEffects,
    ) -> IngressVerdict {
        self.ingress_traced(packet, meta, effects, &mut NoTrace)
    }

    /// Same as [`Pipeline::ingress`], with a tracer.
    #[inline(always)]
    pub fn ingress_traced<T: Tracer>(
        &mut self,
        packet: &mut Packet,
        meta: IngressMeta,
        effects: &mut SideEffects,
        tracer: &mut T,
    ) -> IngressVerdict {
        let outcome = self.start_ingress::<T>(packet, meta);
        self.finish_ingress(outcome, packet, meta, effects, tracer)
    }

    /// Runs the machine code of ingress, if the program has it and the packet is not traced: parses the packet, verifies
    /// its checksums, applies the control and decides where the packet goes. [`Pipeline::finish_ingress`] must follow, with
    /// the result; after [`NativeResult::Done`] it only returns the verdict.
    #[inline(always)]
    pub(crate) fn start_ingress<T: Tracer>(
        &mut self,
        packet: &mut Packet,
        meta: IngressMeta,
    ) -> NativeResult<IngressVerdict> {
        let Pipeline { program, state } = self;
        match runs_native::<T>(state) {
            true => native::ingress(program, state, packet, meta),
            false => NativeResult::Interpret,
        }
    }

    /// Completes ingress after [`Pipeline::start_ingress`], with the interpreter if necessary.
    #[inline]
    pub(crate) fn finish_ingress<T: Tracer>(
        &mut self,
        outcome: NativeResult<IngressVerdict>,
        packet: &mut Packet,
        meta: IngressMeta,
        effects: &mut SideEffects,
        tracer: &mut T,
    ) -> IngressVerdict {
        let Pipeline { program, state } = self;
        match outcome {
            NativeResult::Done(verdict) => verdict,
            NativeResult::Finish => self.complete_ingress(packet, meta, effects, tracer),
            NativeResult::Interpret => {
                let context = &mut PacketContext {
                    program,
                    state,
                    packet: &mut *packet,
                    now: meta.now,
                    tracer: &mut *tracer,
                };
                match context.ingress(meta.port) {
                    Ok(()) => self.complete_ingress(packet, meta, effects, tracer),
                    Err(reason) => IngressVerdict::Abort(reason),
                }
            }
        }
    }

    /// Carries out the requests of a run of ingress, which are in the slots: clone, digest, resubmit. Returns
    /// the verdict.
    #[inline(never)]
    fn complete_ingress<T: Tracer>(
        &mut self,
        packet: &mut Packet,
        meta: IngressMeta,
        effects: &mut SideEffects,
        tracer: &mut T,
    ) -> IngressVerdict {
        let Pipeline { program, state } = self;
        let program: &Program = program;
        let (standard, flags) = (&program.standard, &program.control_slots);
        let drop_port = u64::from(state.drop_port);
        let slot = |packet: &Packet, slot: u16| packet.phv.slots[usize::from(slot)];
        // The session with a mark, since session 0 is valid; 0: no clone.
        let session = slot(packet, flags.clone_session);
        if session != 0 {
            let mut clone = effects.pool.get();
            clone.copy_bytes_from(packet);
            init_phv(program, state, &mut clone);
            clone.phv.slots[usize::from(standard.ingress_port)] = u64::from(meta.port);
            clone.phv.slots[usize::from(flags.drop_port)] = drop_port;
            // As in BMv2, the clone is parsed again: the header vector has changed since the parser ran.
            let mut context =
                PacketContext { program, state: &mut *state, packet: &mut clone, now: meta.now, tracer };
            if let Err(reason) = context.parse_and_verify() {
                effects.pool.put(clone);
                return IngressVerdict::Abort(reason);
            }
            let list = slot(packet, flags.clone_list);
            save_fields(program, state, &packet.phv.slots, list);
            restore_fields(program, state, &mut clone.phv.slots, list, instance::INGRESS_CLONE);
            let priority = slot(&clone, standard.priority) as u8;
            effects.clones.push(ClonedPacket {
                session: (session & !CLONE_SESSION_VALID) as u16,
                priority,
                packet: clone,
            });
            packet.phv.slots[usize::from(flags.clone_session)] = 0;
        }
        // The slot has the index of the learn list plus 1; 0: no digest.
        if let Some(list) = (slot(packet, flags.digest) as usize).checked_sub(1) {
            effects.digests.push(digest(program, list, &packet.phv.slots));
            packet.phv.slots[usize::from(flags.digest)] = 0;
        }
        // The field list to preserve; 0: no resubmission. `flags.recirculate` is the same for recirculation.
        let list = slot(packet, flags.resubmit);
        if list != 0 {
            prepare_reentry(program, state, packet, list, instance::RESUBMITTED);
            return IngressVerdict::Resubmit;
        }
        let priority = slot(packet, standard.priority) as u8;
        let group = slot(packet, standard.mcast_grp) as u16;
        if group != 0 {
            packet.phv.slots[usize::from(standard.instance_type)] = instance::REPLICATED;
            packet.phv.slots[usize::from(flags.recirculate)] = 0;
            packet.phv.truncate = u32::MAX;
            return IngressVerdict::Multicast { group, priority };
        }
        let port = slot(packet, standard.egress_spec);
        if port == drop_port {
            return IngressVerdict::Drop;
        }
        packet.phv.slots[usize::from(standard.instance_type)] = instance::NORMAL;
        IngressVerdict::Unicast { port: port as u16, priority }
    }

    /// Runs egress on a packet that went through ingress, or on a clone, and deparses it.
    pub fn egress(
        &mut self,
        packet: &mut Packet,
        meta: EgressMeta,
        effects: &mut SideEffects,
    ) -> EgressVerdict {
        self.egress_traced(packet, meta, effects, &mut NoTrace)
    }

    /// Same as [`Pipeline::egress`], with a tracer.
    #[inline(always)]
    pub fn egress_traced<T: Tracer>(
        &mut self,
        packet: &mut Packet,
        meta: EgressMeta,
        effects: &mut SideEffects,
        tracer: &mut T,
    ) -> EgressVerdict {
        let outcome = self.start_egress::<T>(packet, meta);
        self.finish_egress(outcome, packet, meta, effects, tracer)
    }

    /// Runs the machine code of egress, if the program has it and the packet is not traced: applies the control, updates
    /// checksums and writes the headers in front of the payload. [`Pipeline::finish_egress`] must follow, with the result;
    /// after [`NativeResult::Done`] it only returns the verdict.
    #[inline(always)]
    pub(crate) fn start_egress<T: Tracer>(
        &mut self,
        packet: &mut Packet,
        meta: EgressMeta,
    ) -> NativeResult<EgressVerdict> {
        let Pipeline { program, state } = self;
        if !runs_native::<T>(state) {
            return NativeResult::Interpret;
        }
        let outcome = native::egress(program, state, packet, meta);
        if let NativeResult::Done(EgressVerdict::Send) = outcome {
            apply_truncate(packet);
        }
        outcome
    }

    /// Completes egress after [`Pipeline::start_egress`], with the interpreter if necessary.
    #[inline]
    pub(crate) fn finish_egress<T: Tracer>(
        &mut self,
        outcome: NativeResult<EgressVerdict>,
        packet: &mut Packet,
        meta: EgressMeta,
        effects: &mut SideEffects,
        tracer: &mut T,
    ) -> EgressVerdict {
        let Pipeline { program, state } = self;
        match outcome {
            NativeResult::Done(verdict) => verdict,
            NativeResult::Finish => self.complete_egress(packet, meta, effects, tracer),
            NativeResult::Interpret => {
                let egress_spec = egress_spec(program, state);
                let context = &mut PacketContext {
                    program,
                    state,
                    packet: &mut *packet,
                    now: meta.now,
                    tracer: &mut *tracer,
                };
                match context.egress(meta, egress_spec) {
                    Ok(()) => self.complete_egress(packet, meta, effects, tracer),
                    Err(reason) => EgressVerdict::Abort(reason),
                }
            }
        }
    }

    /// Carries out the requests of a run of egress: clone, drop, deparsing, recirculation, truncation.
    /// Returns the verdict.
    #[inline(never)]
    fn complete_egress<T: Tracer>(
        &mut self,
        packet: &mut Packet,
        meta: EgressMeta,
        effects: &mut SideEffects,
        tracer: &mut T,
    ) -> EgressVerdict {
        let Pipeline { program, state } = self;
        let program: &Program = program;
        let (standard, flags) = (&program.standard, &program.control_slots);
        let drop_port = u64::from(state.drop_port);
        let mut context = PacketContext { program, state, packet, now: meta.now, tracer };
        let slot = |packet: &Packet, slot: u16| packet.phv.slots[usize::from(slot)];
        let session = slot(context.packet, flags.clone_session);
        if session != 0 {
            let mut clone = effects.pool.copy(context.packet);
            // A clone is not truncated with the original.
            clone.phv.truncate = u32::MAX;
            let list = slot(context.packet, flags.clone_list);
            save_fields(program, context.state, &context.packet.phv.slots, list);
            restore_fields(program, context.state, &mut clone.phv.slots, list, instance::EGRESS_CLONE);
            let priority = slot(&clone, standard.priority) as u8;
            effects.clones.push(ClonedPacket {
                session: (session & !CLONE_SESSION_VALID) as u16,
                priority,
                packet: clone,
            });
            context.packet.phv.slots[usize::from(flags.clone_session)] = 0;
        }
        if slot(context.packet, standard.egress_spec) == drop_port {
            return EgressVerdict::Drop;
        }
        if let Err(reason) = context.deparse() {
            return EgressVerdict::Abort(reason);
        }
        let PacketContext { state, packet, .. } = context;
        let list = slot(packet, flags.recirculate);
        if list != 0 {
            let len = packet.len();
            packet.phv.ingress_length = len;
            prepare_reentry(program, state, packet, list, instance::RECIRCULATED);
            return EgressVerdict::Recirculate;
        }
        apply_truncate(packet);
        recycle_vector(state, packet);
        EgressVerdict::Send
    }
}

/// Returns whether machine code may run: the compiled engine is selected and this packet is not traced.
#[inline(always)]
fn runs_native<T: Tracer>(state: &State) -> bool {
    !T::ENABLED && state.engine == Engine::Compiled
}

/// Returns a value for `egress_spec` that is not the drop port, so that a packet is dropped in egress only if
/// egress itself marks it to drop.
#[inline]
fn egress_spec(program: &Program, state: &State) -> u64 {
    (u64::from(state.drop_port) + 1) & low_mask(program.standard.port_bits)
}

/// Truncates a deparsed packet to the length that the program requested. `phv.truncate` is `u32::MAX` without a
/// request.
#[inline]
fn apply_truncate(packet: &mut Packet) {
    let truncate = packet.phv.truncate;
    if truncate < packet.len() {
        packet.truncate(truncate);
    }
}

/// Returns the digest with the current values of a learn list's fields.
fn digest(program: &Program, list: usize, slots: &[u64]) -> Digest {
    let list = &program.learn_lists[list];
    let value = |(slot, bits): &(u16, u32)| {
        values::to_bytes(&slots[usize::from(*slot)..][..crate::program::limb_count(*bits)], *bits)
    };
    Digest { list: list.name.clone(), list_id: list.id, values: list.fields.iter().map(value).collect() }
}
