//! Calls the machine code of a program, and is called by it.
//!
//! # Why this is sound
//!
//! The code is written by [`program::native`](crate::program) for one program, and says there what it may touch. This
//! module passes it what that asks for: as many slots and bytes as the code may reach are there before each call (see
//! [`room`]), as many register cells as long as the pipeline lives, and the pointers to them lead to memory which nothing
//! but the helpers below changes while the code runs. Code that moves the frame into the free bytes in front of it says how
//! many it took, and a helper that moves it hands the new address out; none changes the number of slots, cells or rows. The
//! addresses of entries and rows are read again after each change of a table ([`Tables`](super::tables::Tables)), and no
//! packet changes one. The parts of a CRC are static, and code finds them by a byte. The address that code passes to a helper
//! is the one that it was called with, that of the [`Call`], and no reference to the call is used while a helper has one.

#![allow(unsafe_code)]

use super::exec::Run;
use super::hash::{self, Payload};
use super::scratch::Scratch;
use super::state::State;
use super::{EgressMeta, EgressVerdict, IngressMeta, NoTrace, Verdict, begin, give_vector, take_vector};
use crate::packet::{Packet, Phv};
use crate::program::{
    BAIL, CallHead, CallInput, DROP, Helpers, INPUTS, MULTICAST, Native, ORIGIN, Program, Row, SEND, Slot,
    UNEMITTED, UNICAST, VALID,
};
use std::mem::MaybeUninit;

/// The result of running machine code on a packet.
pub(crate) enum Outcome<V> {
    /// The machine code has completed the run.
    Done(V),
    /// The slots are as the interpreter would leave them; the caller does the rest of the run.
    Rest,
    /// Nothing was done: the interpreter has to run the packet.
    Interpret,
}

/// Writes the code of a program unless it is written.
pub(super) fn prepare(program: &Program) {
    program.prepare_native(helpers);
}

/// Parses a packet, verifies its checksums and runs ingress on it.
#[inline(always)]
pub(super) fn ingress(
    program: &Program,
    state: &mut State,
    packet: &mut Packet,
    meta: IngressMeta,
) -> Outcome<Verdict> {
    let Some(native) = program.native().filter(|_| !packet.returned) else { return Outcome::Interpret };
    let len = begin(packet);
    give_words(native, state, packet);
    let drop_port = u64::from(state.drop_port);
    let Some(room) = room(program, native, state, packet) else {
        take_words(state, packet);
        return Outcome::Interpret;
    };
    let mut call = Call::new(program, state, packet, meta.now, room);
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
        return Outcome::Done(Verdict::Unicast { port: to, priority });
    }
    not_unicast((program, native), state, packet, result & 0xff, (to, priority))
}

/// Does what ingress leads to if not to one port.
#[inline(never)]
fn not_unicast(
    (program, native): (&Program, &Native),
    state: &mut State,
    packet: &mut Packet,
    code: u64,
    (group, priority): (u16, u8),
) -> Outcome<Verdict> {
    match code {
        BAIL => {
            take_words(state, packet);
            Outcome::Interpret
        }
        DROP => Outcome::Done(Verdict::Drop),
        MULTICAST => {
            packet.phv.truncate = u32::MAX;
            Outcome::Done(Verdict::Multicast { group, priority })
        }
        _ => {
            give_vector(program, state, packet);
            complete((program, native), state, packet, AFTER_SLOW_INGRESS);
            Outcome::Rest
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
) -> Outcome<EgressVerdict> {
    let Some(native) = program.native() else { return Outcome::Interpret };
    if !packet.phv.carried.are_of(native.stamp) {
        return egress_with_vector((program, native), state, packet, meta);
    }
    match run_egress((program, native), state, packet, meta) {
        Ok(verdict) => Outcome::Done(verdict),
        Err(BAIL) => Outcome::Interpret,
        Err(code) => {
            let point = if code == UNEMITTED { UNEMITTED_EGRESS } else { AFTER_SLOW_EGRESS };
            give_vector(program, state, packet);
            complete((program, native), state, packet, point);
            Outcome::Rest
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
) -> Outcome<EgressVerdict> {
    if !packet.phv.slots.are_of(program.stamp) {
        return Outcome::Interpret;
    }
    give_words(native, state, packet);
    let Phv { slots, carried, .. } = &mut packet.phv;
    for (word, slot) in carried.iter_mut().zip(&native.carried) {
        *word = slots[usize::from(*slot)];
    }
    let result = run_egress((program, native), state, packet, meta);
    if let Ok(verdict) = result {
        return Outcome::Done(verdict);
    }
    take_words(state, packet);
    if result == Err(BAIL) { Outcome::Interpret } else { Outcome::Rest }
}

/// Runs egress code on a packet that has words for it. Returns what the code has left to do if that is anything; [`BAIL`]:
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
    let room = room(program, native, state, packet).ok_or(BAIL)?;
    let mut call = Call::new(program, state, packet, meta.now, room);
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
    let (length, taken) = (call.head.length, call.head.taken);
    packet.phv.length = length;
    packet.extend_front(taken as u32);
    match result & 0xff {
        SEND => {
            packet.phv.parsed = 0;
            let_go(state, packet);
            Ok(EgressVerdict::Send)
        }
        DROP => {
            let_go(state, packet);
            Ok(EgressVerdict::Drop)
        }
        code => Err(code),
    }
}

/// Takes all but its bytes of a packet.
#[inline(always)]
fn let_go(state: &mut State, packet: &mut Packet) {
    take_words(state, packet);
    if !packet.phv.slots.is_empty() {
        take_vector(state, packet);
    }
}

/// Gives a packet words to carry to egress, whatever they hold.
#[inline(always)]
fn give_words(native: &Native, state: &mut State, packet: &mut Packet) {
    packet.phv.carried = state.scratch.take_words(native);
}

/// Takes the words that a packet has carried.
#[inline(always)]
fn take_words(state: &mut State, packet: &mut Packet) {
    state.scratch.give_words(packet.phv.carried.take());
}

/// Gives a packet that carries words its header vector back, for the interpreter.
pub(super) fn take_back(program: &Program, state: &mut State, packet: &mut Packet) {
    if let Some(native) = program.native().filter(|native| packet.phv.carried.are_of(native.stamp)) {
        give_vector(program, state, packet);
        complete((program, native), state, packet, AFTER_INGRESS);
    }
}

/// Points at which the interpreter may go on: the indices of [`Native::points`].
const AFTER_INGRESS: usize = 0;
const AFTER_SLOW_INGRESS: usize = 1;
const AFTER_SLOW_EGRESS: usize = 2;
const UNEMITTED_EGRESS: usize = 3;

/// Defines the slots that the code did not write, for the interpreter.
#[cold]
fn complete((program, native): (&Program, &Native), state: &mut State, packet: &mut Packet, point: usize) {
    let Phv { slots, carried, .. } = &mut packet.phv;
    for (place, slot) in &native.points[point].carried {
        slots[usize::from(*slot)] = carried[*place];
    }
    take_words(state, packet);
    let (frame, _, phv) = packet.parts();
    for slot in &native.points[point].undefined {
        phv.slots[usize::from(*slot)] = 0;
    }
    for (header, missing) in program.layout.headers.iter().zip(&program.wire.missing) {
        let slot = |at: Slot| phv.slots[usize::from(header.base + at)];
        let origin = (slot(ORIGIN) as usize).checked_sub(1).filter(|_| slot(VALID) != 0);
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
struct Call<'a> {
    head: CallHead,
    program: &'a Program,
    state: &'a mut State,
    packet: &'a mut Packet,
    now: u64,
    tracer: NoTrace,
}

/// Pieces of memory that code works on, at least as large as it takes for granted.
struct Room {
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
fn room(program: &Program, native: &Native, state: &mut State, packet: &mut Packet) -> Option<Room> {
    debug_assert_eq!(state.registers.len(), program.register_words);
    let len = u64::from(packet.kept_len());
    let (frame, headroom) = packet.room(native.room);
    let words = &mut packet.phv.carried;
    let slots = if packet.phv.slots.are_of(program.stamp) {
        &mut packet.phv.slots
    } else {
        state.scratch.vector(program)
    };
    let fits = slots.len() == program.capacity && words.len() == native.carried.len();
    let (slots, carried) = (slots.as_mut_ptr(), words.as_mut_ptr());
    fits.then_some(Room { slots, carried, frame, len, headroom: u64::from(headroom) })
}

impl<'a> Call<'a> {
    /// A call on what [`room`] has returned.
    #[inline(always)]
    fn new(
        program: &'a Program,
        state: &'a mut State,
        packet: &'a mut Packet,
        now: u64,
        Room { slots, carried, frame, len, headroom }: Room,
    ) -> Call<'a> {
        Call {
            head: CallHead {
                slots,
                carried,
                frame,
                len,
                headroom,
                taken: 0,
                registers: state.registers.as_mut_ptr(),
                parsed: 0,
                length: 0,
                sink: 0,
                tables: state.tables.direct().as_ptr(),
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
        // program keeps it for as long as it lives. What the function may touch is there, as `room` made sure.
        let code: unsafe extern "C" fn(*mut CallHead) -> u64 = unsafe { std::mem::transmute(code) };
        unsafe { code(std::ptr::from_mut(self).cast()) }
    }

    /// Returns the interpreter's functions, on this packet.
    fn interpreter(&mut self) -> (Run<'_, NoTrace>, &mut [u64]) {
        let parsed = self.head.parsed as usize;
        let zeros = self.packet.virtual_len();
        let (frame, len, phv) = self.packet.parts();
        // SAFETY: `room` made sure that there are as many, and nothing else uses the vector while code runs.
        let slots = unsafe { std::slice::from_raw_parts_mut(self.head.slots, self.program.capacity) };
        let run = Run {
            program: self.program,
            state: &mut *self.state,
            length: &mut self.head.length,
            truncate: &mut phv.truncate,
            ingress_length: phv.ingress_length,
            payload: Payload { bytes: frame.get(parsed..len).unwrap_or_default(), zeros },
            now: self.now,
            tracer: &mut self.tracer,
            open: None,
        };
        (run, slots)
    }
}

fn helpers() -> Helpers {
    Helpers {
        table_word: table_word as *const () as usize,
        table_any: table_any as *const () as usize,
        hash: hash as *const () as usize,
        digest: digest as *const () as usize,
        effects: hash::effects,
        one: one as *const () as usize,
        count: count as *const () as usize,
        runaway: runaway as *const () as usize,
        grow: grow as *const () as usize,
    }
}

// SAFETY of all helpers: code passes the address that `Call::run` passed to it, which is that of a call that nothing else
// uses meanwhile.

unsafe extern "C" fn table_word(call: *mut Call, index: u64, key: u64) -> Row {
    let call = unsafe { &mut *call };
    let table = &call.program.tables[index as usize];
    let State { tables, scratch, .. } = &mut *call.state;
    let state = &tables[index as usize];
    let entry = state.lookup.find_word(table, key, &mut scratch.key);
    let words = state.words(table, entry).as_ptr();
    tables.remember((index as usize, table), key, entry);
    Row { words, entry: u64::from(entry) }
}

unsafe extern "C" fn table_any(call: *mut Call, index: u64) -> Row {
    let call = unsafe { &mut *call };
    let table = &call.program.tables[index as usize];
    let State { tables, scratch, .. } = &mut *call.state;
    let Scratch { key, code_key, .. } = &mut **scratch;
    let state = &tables[index as usize];
    key.clear();
    key.extend_from_slice(&code_key[..table.plan.words]);
    let entry = state.lookup.find_key(table, key);
    if !table.extras {
        return Row { words: state.words(table, entry).as_ptr(), entry: u64::from(entry) };
    }
    let program = call.program;
    let (mut run, slots) = call.interpreter();
    let hot = run.apply_with_extras(slots, index as u16, entry as usize);
    let args = &slots[usize::from(program.params)..][..table.params];
    let row = &mut run.state.scratch.row;
    row.clear();
    row.push(hot.pack(program, table));
    row.extend_from_slice(args);
    Row { words: row.as_ptr(), entry: u64::from(entry) }
}

unsafe extern "C" fn hash(call: *mut Call, calculation: u64) -> u64 {
    let call = unsafe { &mut *call };
    let (mut run, slots) = call.interpreter();
    run.hash(slots, calculation as u16)
}

unsafe extern "C" fn digest(call: *mut Call, calculation: u64, len: u64) -> u64 {
    let call = unsafe { &mut *call };
    let algorithm = call.program.calculations[calculation as usize].algorithm;
    hash::digest(algorithm, &call.state.scratch.code_bytes[..len as usize])
}

unsafe extern "C" fn one(call: *mut Call, pc: u64) {
    let call = unsafe { &mut *call };
    let op = call.program.code[pc as usize];
    let (mut run, slots) = call.interpreter();
    run.rare(slots, op);
}

unsafe extern "C" fn count(call: *mut Call, array: u64, index: u64) {
    let call = unsafe { &mut *call };
    if let Some(cell) = call.state.counters[array as usize].get_mut(index as usize) {
        cell.count(call.packet.phv.ingress_length);
    }
}

unsafe extern "C" fn runaway(call: *mut Call) {
    let call = unsafe { &mut *call };
    call.state.runaways += 1;
}

unsafe extern "C" fn grow(call: *mut Call, front: u64, total: u64) -> *mut u8 {
    let call = unsafe { &mut *call };
    call.packet.replace_front(call.head.parsed as usize, total as usize, front as usize);
    call.packet.room(call.program.native().map_or(0, |native| native.room)).0
}
