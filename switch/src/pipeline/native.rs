//! Calls the machine code of a program, and is called by it.
//!
//! # Why this is sound
//!
//! The code is written by [`program::native`](crate::program) for one program, and says there what it may touch. This
//! module passes it what that asks for: as many slots and bytes as the code may reach are there before each call (see
//! [`prepare_buffers`]), as many register cells as long as the pipeline lives, and the pointers to them lead to memory which nothing
//! but the helpers below changes while the code runs. Code that moves the frame into the free bytes in front of it says how
//! many it took, and a helper that moves it hands the new address out; none changes the number of slots, cells or rows. The
//! addresses of entries and rows are read again after each change of a table ([`Tables`](super::tables::Tables)), and no
//! packet changes one. The parts of a CRC are static, and code finds them by a byte. The address that code passes to a helper
//! is the one that it was called with, that of the [`NativeCall`], and no reference to the call is used while a helper has one.

#![allow(unsafe_code)]

use super::hash::{self, Payload};
use super::interpreter::ExecContext;
use super::scratch::Scratch;
use super::state::State;
use super::{
    EgressMeta, EgressVerdict, IngressMeta, IngressVerdict, NoTrace, attach_vector, recycle_vector, reset_phv,
};
use crate::drops::DropReason;
use crate::packet::{Packet, Phv};
use crate::program::{
    ACTION_LOOP, CallFrame, CallInput, DROP, EXIT_DEPARSE, EXIT_INTERPRET, EXIT_SEND, FRAME_OFFSET_SLOT,
    Helpers, INPUTS, LookupResult, MULTICAST, Native, PARSER_LOOP, Program, Slot, UNICAST, VALID_SLOT,
};
use std::mem::MaybeUninit;

/// The result of running machine code on a packet.
pub(crate) enum NativeResult<V> {
    /// The machine code has completed the run.
    Done(V),
    /// The slots are as the interpreter would leave them; the caller does the rest of the run.
    Finish,
    /// Nothing was done: the interpreter has to run the packet.
    Interpret,
}

/// Writes the code of a program unless it is written.
pub(super) fn prepare(program: &Program) {
    program.compile_native(helpers);
}

/// Parses a packet, verifies its checksums and runs ingress on it.
#[inline(always)]
pub(super) fn ingress(
    program: &Program,
    state: &mut State,
    packet: &mut Packet,
    meta: IngressMeta,
) -> NativeResult<IngressVerdict> {
    let Some(native) = program.native().filter(|_| !packet.reentered) else { return NativeResult::Interpret };
    let len = reset_phv(packet);
    attach_bridged(native, state, packet);
    let drop_port = u64::from(state.drop_port);
    let Some(room) = prepare_buffers(program, native, state, packet) else {
        recycle_bridged(state, packet);
        return NativeResult::Interpret;
    };
    let mut call = NativeCall::new(program, state, packet, meta.now, room);
    call.head.length = len;
    call.input(CallInput::Port, u64::from(meta.port));
    call.input(CallInput::PacketLength, u64::from(len));
    call.input(CallInput::Now, meta.now);
    call.input(CallInput::DropPort, drop_port);
    let result = call.run(native.ingress());
    let (parsed, length) = (call.head.parsed as u32, call.head.length);
    let phv = &mut packet.phv;
    (phv.parsed, phv.length) = (parsed, length);
    let (to, priority) = ((result >> 16) as u16, (result >> 8) as u8);
    if result & 0xff == UNICAST {
        return NativeResult::Done(IngressVerdict::Unicast { port: to, priority });
    }
    finish_ingress((program, native), state, packet, result & 0xff, (to, priority))
}

/// Does what ingress leads to if not to one port.
#[inline(never)]
fn finish_ingress(
    (program, native): (&Program, &Native),
    state: &mut State,
    packet: &mut Packet,
    code: u64,
    (group, priority): (u16, u8),
) -> NativeResult<IngressVerdict> {
    match code {
        EXIT_INTERPRET => {
            recycle_bridged(state, packet);
            NativeResult::Interpret
        }
        DROP => NativeResult::Done(IngressVerdict::Drop),
        PARSER_LOOP => NativeResult::Done(IngressVerdict::Abort(DropReason::ParserLoop)),
        ACTION_LOOP => NativeResult::Done(IngressVerdict::Abort(DropReason::ActionLoop)),
        MULTICAST => {
            packet.phv.truncate = u32::MAX;
            NativeResult::Done(IngressVerdict::Multicast { group, priority })
        }
        _ => {
            attach_vector(program, state, packet);
            materialize_slots((program, native), state, packet, RESUME_INGRESS_FINISH);
            NativeResult::Finish
        }
    }
}

/// Runs egress on a packet and puts it together.
#[inline(always)]
pub(super) fn egress(
    program: &Program,
    state: &mut State,
    packet: &mut Packet,
    meta: EgressMeta,
) -> NativeResult<EgressVerdict> {
    let Some(native) = program.native() else { return NativeResult::Interpret };
    if !packet.phv.bridged.has_layout(native.stamp) {
        return egress_with_vector((program, native), state, packet, meta);
    }
    match run_egress((program, native), state, packet, meta) {
        Ok(verdict) => NativeResult::Done(verdict),
        Err(EXIT_INTERPRET) => NativeResult::Interpret,
        Err(code) => {
            let point = if code == EXIT_DEPARSE { UNEMITTED_EGRESS } else { AFTER_SLOW_EGRESS };
            attach_vector(program, state, packet);
            materialize_slots((program, native), state, packet, point);
            NativeResult::Finish
        }
    }
}

/// As [`egress`], for a packet whose ingress the interpreter ran: all is in its own header vector.
#[cold]
fn egress_with_vector(
    (program, native): (&Program, &Native),
    state: &mut State,
    packet: &mut Packet,
    meta: EgressMeta,
) -> NativeResult<EgressVerdict> {
    if !packet.phv.slots.has_layout(program.layout_id) {
        return NativeResult::Interpret;
    }
    attach_bridged(native, state, packet);
    let Phv { slots, bridged: carried, .. } = &mut packet.phv;
    for (word, slot) in carried.iter_mut().zip(&native.carried) {
        *word = slots[usize::from(*slot)];
    }
    let result = run_egress((program, native), state, packet, meta);
    if let Ok(verdict) = result {
        return NativeResult::Done(verdict);
    }
    recycle_bridged(state, packet);
    if result == Err(EXIT_INTERPRET) { NativeResult::Interpret } else { NativeResult::Finish }
}

/// Runs egress code on a packet that has words for it. Returns what the code has left to do if that is anything; [`EXIT_INTERPRET`]:
/// all of it.
#[inline(always)]
fn run_egress(
    (program, native): (&Program, &Native),
    state: &mut State,
    packet: &mut Packet,
    meta: EgressMeta,
) -> Result<EgressVerdict, u64> {
    let (parsed, length) = (packet.phv.parsed, packet.phv.length);
    let drop_port = u64::from(state.drop_port);
    let room = prepare_buffers(program, native, state, packet).ok_or(EXIT_INTERPRET)?;
    let mut call = NativeCall::new(program, state, packet, meta.now, room);
    call.head.parsed = u64::from(parsed);
    call.head.length = length;
    call.input(CallInput::Port, u64::from(meta.port));
    call.input(CallInput::PacketLength, u64::from(length));
    call.input(CallInput::Now, meta.now);
    call.input(CallInput::DropPort, drop_port);
    call.input(CallInput::EnqTimestamp, meta.enq_timestamp);
    call.input(CallInput::EnqDepth, u64::from(meta.enq_qdepth));
    call.input(CallInput::DeqTimedelta, meta.deq_timedelta);
    call.input(CallInput::DeqDepth, u64::from(meta.deq_qdepth));
    call.input(CallInput::Qid, u64::from(meta.qid));
    call.input(CallInput::Rid, u64::from(meta.rid));
    let result = call.run(native.egress());
    let (length, taken) = (call.head.length, call.head.headroom_used);
    packet.phv.length = length;
    packet.extend_front(taken as u32);
    match result & 0xff {
        EXIT_SEND => {
            packet.phv.parsed = 0;
            release_phv(state, packet);
            Ok(EgressVerdict::Send)
        }
        DROP => {
            release_phv(state, packet);
            Ok(EgressVerdict::Drop)
        }
        ACTION_LOOP => {
            release_phv(state, packet);
            Ok(EgressVerdict::Abort(DropReason::ActionLoop))
        }
        code => Err(code),
    }
}

/// Takes all but its bytes of a packet.
#[inline(always)]
fn release_phv(state: &mut State, packet: &mut Packet) {
    recycle_bridged(state, packet);
    if !packet.phv.slots.is_empty() {
        recycle_vector(state, packet);
    }
}

/// Gives a packet words to carry to egress, whatever they hold.
#[inline(always)]
fn attach_bridged(native: &Native, state: &mut State, packet: &mut Packet) {
    packet.phv.bridged = state.scratch.acquire_bridged(native);
}

/// Takes the words that a packet has carried.
#[inline(always)]
fn recycle_bridged(state: &mut State, packet: &mut Packet) {
    state.scratch.recycle_bridged(packet.phv.bridged.take());
}

/// Gives a packet that carries words its header vector back, for the interpreter.
pub(super) fn restore_phv(program: &Program, state: &mut State, packet: &mut Packet) {
    if let Some(native) = program.native().filter(|native| packet.phv.bridged.has_layout(native.stamp)) {
        attach_vector(program, state, packet);
        materialize_slots((program, native), state, packet, AFTER_INGRESS);
    }
}

/// Points at which the interpreter may go on: the indices of [`Native::points`].
const AFTER_INGRESS: usize = 0;
const RESUME_INGRESS_FINISH: usize = 1;
const AFTER_SLOW_EGRESS: usize = 2;
const UNEMITTED_EGRESS: usize = 3;

/// Defines the slots that the code did not write, for the interpreter.
#[cold]
fn materialize_slots(
    (program, native): (&Program, &Native),
    state: &mut State,
    packet: &mut Packet,
    point: usize,
) {
    let Phv { slots, bridged: carried, .. } = &mut packet.phv;
    for (place, slot) in &native.resume_points[point].carried {
        slots[usize::from(*slot)] = carried[*place];
    }
    recycle_bridged(state, packet);
    let (frame, _, phv) = packet.frame_and_phv();
    for slot in &native.resume_points[point].undefined {
        phv.slots[usize::from(*slot)] = 0;
    }
    for (header, missing) in program.layout.headers.iter().zip(&program.frame_access.unloaded) {
        let slot = |at: Slot| phv.slots[usize::from(header.first_slot + at)];
        let origin = (slot(FRAME_OFFSET_SLOT) as usize).checked_sub(1).filter(|_| slot(VALID_SLOT) != 0);
        let Some(bytes) = origin.and_then(|origin| frame.get(origin..)) else { continue };
        for get in missing {
            let word = bytes.get(usize::from(get.offset)..).and_then(|rest| rest.first_chunk());
            let word = word.map_or(0, |word| u64::from_be_bytes(*word));
            phv.slots[usize::from(get.slot)] = word << get.left >> get.right;
        }
    }
}

/// One run of the code: what it works on, and what its helpers need beside that.
#[repr(C)]
struct NativeCall<'a> {
    head: CallFrame,
    program: &'a Program,
    state: &'a mut State,
    packet: &'a mut Packet,
    now: u64,
    tracer: NoTrace,
}

/// Pieces of memory that code works on, at least as large as it takes for granted.
struct NativeBuffers {
    slots: *mut u64,
    carried: *mut u64,
    frame: *mut u8,
    /// Bytes of the frame that are kept.
    len: u64,
    /// Free bytes in front of it.
    headroom: u64,
}

/// Returns what code works on, with the packet's own header vector, else that of the switch; `None` if something is too
/// small.
#[inline(always)]
fn prepare_buffers(
    program: &Program,
    native: &Native,
    state: &mut State,
    packet: &mut Packet,
) -> Option<NativeBuffers> {
    debug_assert_eq!(state.registers.len(), program.register_words);
    let len = u64::from(packet.kept_len());
    let (frame, headroom) = packet.frame_ptr(native.frame_room);
    let words = &mut packet.phv.bridged;
    let slots = if packet.phv.slots.has_layout(program.layout_id) {
        &mut packet.phv.slots
    } else {
        state.scratch.vector(program)
    };
    let fits = slots.len() == program.capacity && words.len() == native.carried.len();
    let (slots, carried) = (slots.as_mut_ptr(), words.as_mut_ptr());
    fits.then_some(NativeBuffers { slots, carried, frame, len, headroom: u64::from(headroom) })
}

impl<'a> NativeCall<'a> {
    /// A call on what [`prepare_buffers`] has returned.
    #[inline(always)]
    fn new(
        program: &'a Program,
        state: &'a mut State,
        packet: &'a mut Packet,
        now: u64,
        NativeBuffers { slots, carried, frame, len, headroom }: NativeBuffers,
    ) -> NativeCall<'a> {
        NativeCall {
            head: CallFrame {
                slots,
                bridged: carried,
                frame,
                len,
                headroom,
                headroom_used: 0,
                registers: state.registers.as_mut_ptr(),
                parsed: 0,
                length: 0,
                discard: 0,
                tables: state.tables.native_tables().as_ptr(),
                key: state.scratch.code_key.as_mut_ptr(),
                bytes: state.scratch.code_bytes.as_mut_ptr(),
                inputs: [const { MaybeUninit::uninit() }; INPUTS],
            },
            program,
            state,
            packet,
            now,
            tracer: NoTrace,
        }
    }

    #[inline]
    fn input(&mut self, input: CallInput, value: u64) {
        self.head.inputs[input as usize].write(value);
    }

    #[inline(always)]
    fn run(&mut self, code: *const u8) -> u64 {
        // SAFETY: `code` is where a function of this type begins in memory that may be executed, as Native says, and the
        // program keeps it for as long as it lives. What the function may touch is there, as `prepare_buffers` made sure.
        let code: unsafe extern "C" fn(*mut CallFrame) -> u64 = unsafe { std::mem::transmute(code) };
        unsafe { code(std::ptr::from_mut(self).cast()) }
    }

    /// Returns the interpreter's functions, on this packet.
    fn interpreter(&mut self) -> (ExecContext<'_, NoTrace>, &mut [u64]) {
        let parsed = self.head.parsed as usize;
        let zeros = self.packet.virtual_len();
        let (frame, len, phv) = self.packet.frame_and_phv();
        // SAFETY: `prepare_buffers` made sure that there are as many, and nothing else uses the vector while code runs.
        let slots = unsafe { std::slice::from_raw_parts_mut(self.head.slots, self.program.capacity) };
        let run = ExecContext {
            program: self.program,
            state: &mut *self.state,
            length: &mut self.head.length,
            truncate: &mut phv.truncate,
            ingress_length: phv.ingress_length,
            payload: Payload { bytes: frame.get(parsed..len).unwrap_or_default(), virtual_len: zeros },
            now: self.now,
            tracer: &mut self.tracer,
            open_condition: None,
        };
        (run, slots)
    }
}

fn helpers() -> Helpers {
    Helpers {
        lookup_word: table_word as *const () as usize,
        lookup_key: table_any as *const () as usize,
        hash: hash as *const () as usize,
        digest: digest as *const () as usize,
        effects: hash::crc_tables,
        exec_op: exec_op as *const () as usize,
        count_packet: count as *const () as usize,
        grow_front: grow as *const () as usize,
    }
}

// SAFETY of all helpers: code passes the address that `NativeCall::run` passed to it, which is that of a call that nothing else
// uses meanwhile.

unsafe extern "C" fn table_word(call: *mut NativeCall, index: u64, key: u64) -> LookupResult {
    let call = unsafe { &mut *call };
    let table = &call.program.tables[index as usize];
    let State { tables, scratch, .. } = &mut *call.state;
    let state = &tables[index as usize];
    let entry = state.lookup.find_word(table, key, &mut scratch.key);
    let words = state.row_words(table, entry).as_ptr();
    tables.cache_lookup((index as usize, table), key, entry);
    LookupResult { words, entry: u64::from(entry) }
}

unsafe extern "C" fn table_any(call: *mut NativeCall, index: u64) -> LookupResult {
    let call = unsafe { &mut *call };
    let table = &call.program.tables[index as usize];
    let State { tables, scratch, .. } = &mut *call.state;
    let Scratch { key, code_key, .. } = &mut **scratch;
    let state = &tables[index as usize];
    key.clear();
    key.extend_from_slice(&code_key[..table.key_layout.words]);
    let entry = state.lookup.find_key(table, key);
    if !table.needs_slow_apply {
        return LookupResult { words: state.row_words(table, entry).as_ptr(), entry: u64::from(entry) };
    }
    let program = call.program;
    let (mut run, slots) = call.interpreter();
    let hot = run.apply_slow(slots, index as u16, entry as usize);
    let args = &slots[usize::from(program.params)..][..table.params];
    let row = &mut run.state.scratch.row;
    row.clear();
    row.push(hot.pack(program, table));
    row.extend_from_slice(args);
    LookupResult { words: row.as_ptr(), entry: u64::from(entry) }
}

unsafe extern "C" fn hash(call: *mut NativeCall, calculation: u64) -> u64 {
    let call = unsafe { &mut *call };
    let (mut run, slots) = call.interpreter();
    run.hash(slots, calculation as u16)
}

unsafe extern "C" fn digest(call: *mut NativeCall, calculation: u64, len: u64) -> u64 {
    let call = unsafe { &mut *call };
    let algorithm = call.program.calculations[calculation as usize].algorithm;
    hash::digest(algorithm, &call.state.scratch.code_bytes[..len as usize])
}

unsafe extern "C" fn exec_op(call: *mut NativeCall, pc: u64) {
    let call = unsafe { &mut *call };
    let op = call.program.code[pc as usize];
    let (mut run, slots) = call.interpreter();
    run.exec_slow(slots, op);
}

unsafe extern "C" fn count(call: *mut NativeCall, array: u64, index: u64) {
    let call = unsafe { &mut *call };
    if let Some(cell) = call.state.counters[array as usize].get_mut(index as usize) {
        cell.count(call.packet.phv.ingress_length);
    }
}

unsafe extern "C" fn grow(call: *mut NativeCall, front: u64, total: u64) -> *mut u8 {
    let call = unsafe { &mut *call };
    call.packet.replace_front(call.head.parsed as usize, total as usize, front as usize);
    call.packet.frame_ptr(call.program.native().map_or(0, |native| native.frame_room)).0
}
