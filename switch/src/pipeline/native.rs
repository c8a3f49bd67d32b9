//! Calls the machine code of a program, and provides the helper functions that the code calls.
//!
//! Slots are the 64-bit words of the header vector. Bridged words are copies of the slots that egress reads: after
//! ingress ran as machine code, a packet keeps only these. A row is the packed action of a table entry with its
//! arguments.
//!
//! # Safety
//!
//! [`program::native`](crate::program) generates the code for one program and states which memory it may
//! access. This module guarantees the following.
//!
//! - Before each call, [`prepare_buffers`] checks that there are as many slots and bytes of the frame as the
//!   code may access. The number of register cells never changes during the life of a pipeline.
//! - While the code runs, only the helpers below change this memory. Code that extends the frame into its
//!   headroom reports the number of bytes; the helper that moves the frame returns its new address. No helper
//!   changes the number of slots, cells or rows.
//! - The addresses of entries and rows are collected again after each change of a table
//!   ([`Tables`](super::table_state::Tables)), and no packet changes a table.
//! - CRC tables are static, and the code indexes them by a byte.
//! - The code passes the address of its [`NativeCall`] to the helpers. No reference to the call is used while
//!   a helper holds one.

#![allow(unsafe_code)]

use super::hash::{self, Payload};
use super::interpreter::ExecContext;
use super::phv::{attach_vector, recycle_vector, reset_phv};
use super::scratch::Scratch;
use super::state::State;
use super::{EgressMeta, EgressVerdict, IngressMeta, IngressVerdict, NoTrace};
use crate::drops::DropReason;
use crate::packet::{Packet, Phv};
use crate::program::{
    CallFrame, EXIT_ACTION_LOOP, EXIT_ASSERTION, EXIT_DEPARSE, EXIT_DROP, EXIT_INTERPRET, EXIT_MULTICAST,
    EXIT_PARSER_LOOP, EXIT_SEND, EXIT_UNICAST, FRAME_OFFSET_SLOT, Helpers, INPUTS, LookupResult, Native,
    NativeInput, Program, Slot, TableId, VALID_SLOT,
};
use std::mem::MaybeUninit;

/// The outcome of a call of machine code; `V` is the verdict of ingress or egress.
pub(crate) enum NativeResult<V> {
    /// The run is complete.
    Done(V),
    /// The slots are as the interpreter would leave them; the caller completes the run.
    Finish,
    /// Nothing was changed; the interpreter has to run the packet.
    Interpret,
}

/// Generates the machine code of a program if the program does not have it yet.
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
    let Some(buffers) = prepare_buffers(program, native, state, packet) else {
        recycle_bridged(state, packet);
        return NativeResult::Interpret;
    };
    let mut call = NativeCall::new(program, state, packet, meta.now, buffers);
    call.head.length = len;
    call.set_input(NativeInput::Port, u64::from(meta.port));
    call.set_input(NativeInput::PacketLength, u64::from(len));
    call.set_input(NativeInput::Now, meta.now);
    call.set_input(NativeInput::DropPort, drop_port);
    let result = call.run(native.ingress());
    let (parsed, length) = (call.head.parsed as u32, call.head.length);
    let phv = &mut packet.phv;
    (phv.parsed, phv.length) = (parsed, length);
    // Bits 0 to 7 are the exit code, 8 to 15 the priority, 16 to 31 the port of a unicast packet or the group of a
    // multicast packet.
    let (port, priority) = ((result >> 16) as u16, (result >> 8) as u8);
    if result & 0xff == EXIT_UNICAST {
        return NativeResult::Done(IngressVerdict::Unicast { port, priority });
    }
    let group = port;
    finish_ingress((program, native), state, packet, result & 0xff, (group, priority))
}

/// Handles every exit of ingress except unicast. Out of line, to keep [`ingress`] small.
#[inline(never)]
fn finish_ingress(
    (program, native): (&Program, &Native),
    state: &mut State,
    packet: &mut Packet,
    exit: u64,
    (group, priority): (u16, u8),
) -> NativeResult<IngressVerdict> {
    match exit {
        EXIT_INTERPRET => {
            recycle_bridged(state, packet);
            NativeResult::Interpret
        }
        EXIT_DROP => NativeResult::Done(IngressVerdict::Drop),
        EXIT_PARSER_LOOP => NativeResult::Done(IngressVerdict::Abort(DropReason::ParserLoop)),
        EXIT_ACTION_LOOP => NativeResult::Done(IngressVerdict::Abort(DropReason::ActionLoop)),
        EXIT_ASSERTION => NativeResult::Done(IngressVerdict::Abort(DropReason::AssertionFailed)),
        EXIT_MULTICAST => {
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

/// Runs egress on a packet and deparses it.
#[inline(always)]
pub(super) fn egress(
    program: &Program,
    state: &mut State,
    packet: &mut Packet,
    meta: EgressMeta,
) -> NativeResult<EgressVerdict> {
    let Some(native) = program.native() else { return NativeResult::Interpret };
    if !packet.phv.bridged.has_layout(native.layout_id) {
        return egress_with_vector((program, native), state, packet, meta);
    }
    match run_egress((program, native), state, packet, meta) {
        Ok(verdict) => NativeResult::Done(verdict),
        // Ingress ran as machine code, so the bridged words hold the only copy of its results. They are not
        // recycled here: `PacketContext::egress` calls `restore_phv`, which needs them.
        Err(EXIT_INTERPRET) => NativeResult::Interpret,
        Err(exit) => {
            let point = if exit == EXIT_DEPARSE { RESUME_DEPARSE } else { RESUME_EGRESS_FINISH };
            attach_vector(program, state, packet);
            materialize_slots((program, native), state, packet, point);
            NativeResult::Finish
        }
    }
}

/// Same as [`egress`], for a packet whose ingress was interpreted: its header vector is complete.
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
    let Phv { slots, bridged, .. } = &mut packet.phv;
    for (word, slot) in bridged.iter_mut().zip(&native.bridged) {
        *word = slots[usize::from(*slot)];
    }
    let result = run_egress((program, native), state, packet, meta);
    if let Ok(verdict) = result {
        return NativeResult::Done(verdict);
    }
    recycle_bridged(state, packet);
    if result == Err(EXIT_INTERPRET) { NativeResult::Interpret } else { NativeResult::Finish }
}

/// Runs egress code on a packet that has bridged words. `Err` is an exit code: [`EXIT_INTERPRET`] if nothing
/// was changed; otherwise it says which steps the caller still has to do.
#[inline(always)]
fn run_egress(
    (program, native): (&Program, &Native),
    state: &mut State,
    packet: &mut Packet,
    meta: EgressMeta,
) -> Result<EgressVerdict, u64> {
    let (parsed, length) = (packet.phv.parsed, packet.phv.length);
    let drop_port = u64::from(state.drop_port);
    let buffers = prepare_buffers(program, native, state, packet).ok_or(EXIT_INTERPRET)?;
    let mut call = NativeCall::new(program, state, packet, meta.now, buffers);
    call.head.parsed = u64::from(parsed);
    call.head.length = length;
    call.set_input(NativeInput::Port, u64::from(meta.port));
    call.set_input(NativeInput::PacketLength, u64::from(length));
    call.set_input(NativeInput::Now, meta.now);
    call.set_input(NativeInput::DropPort, drop_port);
    call.set_input(NativeInput::EnqTimestamp, meta.enq_timestamp);
    call.set_input(NativeInput::EnqDepth, u64::from(meta.enq_qdepth));
    call.set_input(NativeInput::DeqTimedelta, meta.deq_timedelta);
    call.set_input(NativeInput::DeqDepth, u64::from(meta.deq_qdepth));
    call.set_input(NativeInput::Qid, u64::from(meta.qid));
    call.set_input(NativeInput::Rid, u64::from(meta.rid));
    let result = call.run(native.egress());
    let (length, headroom_used) = (call.head.length, call.head.headroom_used);
    packet.phv.length = length;
    packet.extend_front(headroom_used as u32);
    match result & 0xff {
        EXIT_SEND => {
            packet.phv.parsed = 0;
            release_phv(state, packet);
            Ok(EgressVerdict::Send)
        }
        EXIT_DROP => {
            release_phv(state, packet);
            Ok(EgressVerdict::Drop)
        }
        EXIT_ACTION_LOOP => {
            release_phv(state, packet);
            Ok(EgressVerdict::Abort(DropReason::ActionLoop))
        }
        EXIT_ASSERTION => {
            release_phv(state, packet);
            Ok(EgressVerdict::Abort(DropReason::AssertionFailed))
        }
        exit => Err(exit),
    }
}

/// Returns the packet's bridged words and header vector to the free lists: from now on the packet is its
/// bytes only.
#[inline(always)]
fn release_phv(state: &mut State, packet: &mut Packet) {
    recycle_bridged(state, packet);
    if !packet.phv.slots.is_empty() {
        recycle_vector(state, packet);
    }
}

/// Attaches bridged words to a packet. Their contents are undefined until ingress stores them.
#[inline(always)]
fn attach_bridged(native: &Native, state: &mut State, packet: &mut Packet) {
    packet.phv.bridged = state.scratch.acquire_bridged(native);
}

/// Returns the packet's bridged words to the free list.
#[inline(always)]
fn recycle_bridged(state: &mut State, packet: &mut Packet) {
    state.scratch.recycle_bridged(packet.phv.bridged.take());
}

/// Rebuilds the header vector of a packet whose ingress ran as machine code, so that the interpreter can run
/// egress. Does nothing if the packet has no bridged words of this program.
pub(super) fn restore_phv(program: &Program, state: &mut State, packet: &mut Packet) {
    if let Some(native) = program.native().filter(|native| packet.phv.bridged.has_layout(native.layout_id)) {
        attach_vector(program, state, packet);
        materialize_slots((program, native), state, packet, RESUME_AFTER_INGRESS);
    }
}

// Points at which the interpreter can resume: indices into `Native::resume_points`.
const RESUME_AFTER_INGRESS: usize = 0;
const RESUME_INGRESS_FINISH: usize = 1;
const RESUME_EGRESS_FINISH: usize = 2;
const RESUME_DEPARSE: usize = 3;

/// Brings the header vector to the state in which the interpreter would have it at this point: copies the
/// bridged slots, zeroes the undefined ones, and loads from the frame the fields that the code left there.
#[cold]
fn materialize_slots(
    (program, native): (&Program, &Native),
    state: &mut State,
    packet: &mut Packet,
    point: usize,
) {
    let Phv { slots, bridged, .. } = &mut packet.phv;
    for (index, slot) in &native.resume_points[point].bridged {
        slots[usize::from(*slot)] = bridged[*index];
    }
    recycle_bridged(state, packet);
    let (frame, _, phv) = packet.frame_and_phv();
    for slot in &native.resume_points[point].undefined {
        phv.slots[usize::from(*slot)] = 0;
    }
    for (header, left_in_frame) in program.layout.headers.iter().zip(&program.frame_access.left_in_frame) {
        let slot = |offset: Slot| phv.slots[usize::from(header.first_slot + offset)];
        let origin = (slot(FRAME_OFFSET_SLOT) as usize).checked_sub(1).filter(|_| slot(VALID_SLOT) != 0);
        let Some(bytes) = origin.and_then(|origin| frame.get(origin..)) else { continue };
        for load in left_in_frame {
            let word = bytes.get(usize::from(load.offset)..).and_then(|rest| rest.first_chunk());
            let word = word.map_or(0, |word| u64::from_be_bytes(*word));
            phv.slots[usize::from(load.slot)] = word << load.left >> load.right;
        }
    }
}

/// One call of machine code. The code receives its address as that of the [`CallFrame`], which is therefore
/// the first field, and passes it to helpers, which cast it back.
#[repr(C)]
struct NativeCall<'a> {
    head: CallFrame,
    program: &'a Program,
    state: &'a mut State,
    packet: &'a mut Packet,
    now: u64,
    tracer: NoTrace,
}

/// The buffers of one call of machine code, each at least as large as the code assumes.
struct NativeBuffers {
    slots: *mut u64,
    bridged: *mut u64,
    frame: *mut u8,
    /// Bytes of the frame that are stored, not counting its virtual tail.
    len: u64,
    /// Free bytes before the frame.
    headroom: u64,
}

/// Collects the buffers of a call. The header vector is the packet's own if it has one of this program,
/// otherwise the shared one in scratch memory. `None` if the vector or the bridged words do not have the size
/// that the code assumes.
#[inline(always)]
fn prepare_buffers(
    program: &Program,
    native: &Native,
    state: &mut State,
    packet: &mut Packet,
) -> Option<NativeBuffers> {
    debug_assert_eq!(state.registers.len(), program.register_words);
    let len = u64::from(packet.stored_len());
    // `frame_ptr` may move the frame to a larger buffer, so it is called before the other pointers are read. It
    // does not touch the boxes of slots and words.
    let (frame, headroom) = packet.frame_ptr(native.frame_room);
    let words = &mut packet.phv.bridged;
    let slots = if packet.phv.slots.has_layout(program.layout_id) {
        &mut packet.phv.slots
    } else {
        state.scratch.native_vector(program)
    };
    let fits = slots.len() == program.capacity && words.len() == native.bridged.len();
    let (slots, bridged) = (slots.as_mut_ptr(), words.as_mut_ptr());
    fits.then_some(NativeBuffers { slots, bridged, frame, len, headroom: u64::from(headroom) })
}

impl<'a> NativeCall<'a> {
    #[inline(always)]
    fn new(
        program: &'a Program,
        state: &'a mut State,
        packet: &'a mut Packet,
        now: u64,
        NativeBuffers { slots, bridged, frame, len, headroom }: NativeBuffers,
    ) -> NativeCall<'a> {
        NativeCall {
            head: CallFrame {
                slots,
                bridged,
                frame,
                len,
                headroom,
                headroom_used: 0,
                registers: state.registers.as_mut_ptr(),
                parsed: 0,
                length: 0,
                discard: 0,
                tables: state.tables.native_tables().as_ptr(),
                key: state.scratch.native_key.as_mut_ptr(),
                bytes: state.scratch.native_hash_input.as_mut_ptr(),
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
    fn set_input(&mut self, input: NativeInput, value: u64) {
        self.head.inputs[input as usize].write(value);
    }

    #[inline(always)]
    fn run(&mut self, code: *const u8) -> u64 {
        // SAFETY: `code` is the entry point of a function of this type in executable memory, which the
        // program keeps for its lifetime (`Native`). It was compiled with the System V convention; it exists
        // only on x86-64 Unix, where `extern "C"` is the same. `prepare_buffers` checked the memory that it
        // accesses.
        let code: unsafe extern "C" fn(*mut CallFrame) -> u64 = unsafe { std::mem::transmute(code) };
        unsafe { code(std::ptr::from_mut(self).cast()) }
    }

    /// Returns an interpreter context for this packet, and its slots, for helpers that call the interpreter's
    /// functions.
    fn interpreter(&mut self) -> (ExecContext<'_, NoTrace>, &mut [u64]) {
        let parsed = self.head.parsed as usize;
        let virtual_len = self.packet.virtual_len();
        let (frame, len, phv) = self.packet.frame_and_phv();
        // SAFETY: `prepare_buffers` checked that there are as many slots, and nothing else uses the vector
        // while a helper runs.
        let slots = unsafe { std::slice::from_raw_parts_mut(self.head.slots, self.program.capacity) };
        let context = ExecContext {
            program: self.program,
            state: &mut *self.state,
            length: &mut self.head.length,
            payload: Payload::new(frame, parsed, len, virtual_len, phv.truncate),
            truncate: &mut phv.truncate,
            ingress_length: phv.ingress_length,
            now: self.now,
            tracer: &mut self.tracer,
            open_condition: None,
        };
        (context, slots)
    }
}

fn helpers() -> Helpers {
    Helpers {
        lookup_word: lookup_word as *const () as usize,
        lookup_key: lookup_key as *const () as usize,
        hash: hash as *const () as usize,
        digest: digest as *const () as usize,
        crc_tables: hash::crc_tables,
        exec_op: exec_op as *const () as usize,
        count_packet: count_packet as *const () as usize,
        grow_front: grow_front as *const () as usize,
    }
}

// SAFETY of all helpers: code passes the address that `NativeCall::run` passed to it, and nothing else uses
// that call meanwhile.

/// Looks up a key of one word.
unsafe extern "C" fn lookup_word(call: *mut NativeCall, index: u64, key: u64) -> LookupResult {
    let (call, id) = (unsafe { &mut *call }, TableId(index as u16));
    let table = &call.program.tables[id];
    let State { tables, scratch, .. } = &mut *call.state;
    let state = &tables[id];
    let entry = state.lookup.find_word(table, key, &mut scratch.key);
    let words = state.row_words(table, entry).as_ptr();
    tables.cache_lookup((id, table), key, entry);
    LookupResult { words, entry: u64::from(entry) }
}

/// Looks up the key in `Scratch::native_key`, in any table.
unsafe extern "C" fn lookup_key(call: *mut NativeCall, index: u64) -> LookupResult {
    let (call, id) = (unsafe { &mut *call }, TableId(index as u16));
    let table = &call.program.tables[id];
    let State { tables, scratch, .. } = &mut *call.state;
    let Scratch { key, native_key, .. } = &mut **scratch;
    let state = &tables[id];
    key.clear();
    key.extend_from_slice(&native_key[..table.key_layout.words]);
    let entry = state.lookup.find_key(table, key);
    if !table.needs_slow_apply {
        return LookupResult { words: state.row_words(table, entry).as_ptr(), entry: u64::from(entry) };
    }
    // The action may be that of a profile member, and rows do not hold its arguments, so a row is built in
    // scratch memory. The next such lookup overwrites it, so the code loads it without `readonly`.
    let program = call.program;
    let (mut context, slots) = call.interpreter();
    let action_ref = context.apply_slow(slots, id, entry as usize);
    let args = &slots[usize::from(program.first_param_slot)..][..table.max_arg_words];
    let row = &mut context.state.scratch.row;
    row.clear();
    row.push(action_ref.pack(program, table));
    row.extend_from_slice(args);
    LookupResult { words: row.as_ptr(), entry: u64::from(entry) }
}

/// Returns the value of a calculation.
unsafe extern "C" fn hash(call: *mut NativeCall, calculation: u64) -> u64 {
    let call = unsafe { &mut *call };
    let (mut context, slots) = call.interpreter();
    context.hash(slots, calculation as u16)
}

/// Hashes the first `len` bytes of `Scratch::native_hash_input`.
unsafe extern "C" fn digest(call: *mut NativeCall, calculation: u64, len: u64) -> u64 {
    let call = unsafe { &mut *call };
    let algorithm = call.program.calculations[calculation as usize].algorithm;
    let State { calculations, scratch, .. } = &*call.state;
    hash::digest(algorithm, &calculations[calculation as usize], &scratch.native_hash_input[..len as usize])
}

/// Executes the operation at address `pc` as the interpreter does.
unsafe extern "C" fn exec_op(call: *mut NativeCall, pc: u64) {
    let call = unsafe { &mut *call };
    let op = call.program.code[pc as usize];
    let (mut context, slots) = call.interpreter();
    context.exec_slow(slots, op);
}

/// Counts the packet in a cell of a counter array. An index out of range counts nothing.
unsafe extern "C" fn count_packet(call: *mut NativeCall, array: u64, index: u64) {
    let call = unsafe { &mut *call };
    if let Some(cell) = call.state.counters[array as usize].get_mut(index as usize) {
        cell.count(call.packet.phv.ingress_length);
    }
}

/// Replaces the parsed headers by `total` bytes, keeping the first `front` of the old ones, and returns the new
/// address of the frame.
unsafe extern "C" fn grow_front(call: *mut NativeCall, front: u64, total: u64) -> *mut u8 {
    let call = unsafe { &mut *call };
    // `CallFrame::headroom` becomes stale here. The code reads it only once, before it decides to call this
    // function.
    call.packet.replace_front(call.head.parsed as usize, total as usize, front as usize);
    call.packet.frame_ptr(call.program.native().map_or(0, |native| native.frame_room)).0
}
