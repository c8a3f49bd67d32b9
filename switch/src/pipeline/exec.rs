//! Runs code on the slots of a packet.

use super::hash::{self, Payload};
use super::headers;
use super::state::State;
use super::tables::Link;
use super::trace::Tracer;
use super::wide;
use crate::program::{Code, Mark, ORIGIN, Op, Pc, Program, VALID, WideKind, low_bits};
use rand::Rng;

/// Backward jumps and table calls one run of code may make. No program that means to end comes near it.
const JUMP_BUDGET: u32 = 1 << 20;

/// A packet on which code runs.
pub(super) struct Run<'a, T> {
    pub program: &'a Program,
    pub state: &'a mut State,
    pub slots: &'a mut [u64],
    /// BMv2's packet register 0.
    pub length: &'a mut u32,
    pub truncate: &'a mut u32,
    pub ingress_length: u32,
    pub payload: Payload<'a>,
    pub now: u64,
    pub tracer: &'a mut T,
}

/// The low `w` bits of a result; `w` is from 1 to 64.
#[inline(always)]
fn cut(value: u64, w: u8) -> u64 {
    value & (u64::MAX >> (64u8.wrapping_sub(w) & 63))
}

impl<T: Tracer> Run<'_, T> {
    /// Runs code from here to its end.
    pub fn run(&mut self, start: Pc) {
        let program = self.program;
        let code = program.code.as_slice();
        let (mut pc, mut back, mut budget) = (usize::from(start), 0, JUMP_BUDGET);
        macro_rules! s {
            ($slot:expr) => {
                self.slots[usize::from($slot)]
            };
        }
        macro_rules! set {
            ($op:ident, $value:expr) => {{
                let value = cut($value, $op.w);
                if T::ENABLED {
                    self.trace_assign($op.d, value);
                }
                s!($op.d) = value;
            }};
        }
        macro_rules! jump_if {
            ($op:ident, $condition:expr) => {{
                let jumps = $condition;
                if T::ENABLED {
                    self.trace_condition(pc - 1, !jumps);
                }
                if jumps {
                    pc = usize::from($op.d);
                }
            }};
        }
        loop {
            let op = code[pc];
            pc += 1;
            if T::ENABLED {
                self.trace_fixed_table(pc - 1);
            }
            match op.code {
                Code::Mov => set!(op, s!(op.a)),
                Code::MovIf => {
                    if s!(op.b) != 0 {
                        set!(op, s!(op.a));
                    }
                }
                Code::Add => set!(op, s!(op.a).wrapping_add(s!(op.b))),
                Code::Sub => set!(op, s!(op.a).wrapping_sub(s!(op.b))),
                Code::Mul => set!(op, s!(op.a).wrapping_mul(s!(op.b))),
                Code::Div => set!(op, s!(op.a).checked_div(s!(op.b)).unwrap_or(0)),
                Code::Mod => set!(op, s!(op.a).checked_rem(s!(op.b)).unwrap_or(0)),
                Code::And => set!(op, s!(op.a) & s!(op.b)),
                Code::Or => set!(op, s!(op.a) | s!(op.b)),
                Code::Xor => set!(op, s!(op.a) ^ s!(op.b)),
                Code::Not => set!(op, !s!(op.a)),
                Code::Shl => set!(op, if s!(op.b) < 64 { s!(op.a) << s!(op.b) } else { 0 }),
                Code::Shr => set!(op, if s!(op.b) < 64 { s!(op.a) >> s!(op.b) } else { 0 }),
                Code::Sar => set!(op, (s!(op.a) as i64 >> s!(op.b).min(63)) as u64),
                Code::Sext => {
                    let shift = 64u8.wrapping_sub(op.w) & 63;
                    s!(op.d) = ((s!(op.a) << shift) as i64 >> shift) as u64;
                }
                Code::SatU => {
                    let value = s!(op.a) as i64;
                    s!(op.d) = if value < 0 { 0 } else { (value as u64).min(low_bits(u32::from(op.w))) };
                }
                Code::SatS => {
                    let most = low_bits(u32::from(op.w) - 1) as i64;
                    s!(op.d) = (s!(op.a) as i64).clamp(-most - 1, most) as u64;
                }
                Code::Eq => s!(op.d) = u64::from(s!(op.a) == s!(op.b)),
                Code::LtU => s!(op.d) = u64::from(s!(op.a) < s!(op.b)),
                Code::LeU => s!(op.d) = u64::from(s!(op.a) <= s!(op.b)),
                Code::LtS => s!(op.d) = u64::from((s!(op.a) as i64) < s!(op.b) as i64),
                Code::LeS => s!(op.d) = u64::from(s!(op.a) as i64 <= s!(op.b) as i64),
                Code::IsZero => s!(op.d) = u64::from(s!(op.a) == 0),
                Code::IsNonZero => s!(op.d) = u64::from(s!(op.a) != 0),
                Code::Jump => pc = usize::from(op.d),
                Code::JumpZ => jump_if!(op, s!(op.a) == 0),
                Code::JumpNz => jump_if!(op, s!(op.a) != 0),
                Code::JumpEq => jump_if!(op, s!(op.a) == s!(op.b)),
                Code::JumpNe => jump_if!(op, s!(op.a) != s!(op.b)),
                Code::JumpBack => {
                    budget -= 1;
                    if budget == 0 {
                        self.state.runaways += 1;
                        return;
                    }
                    pc = usize::from(op.d);
                }
                Code::Table => {
                    let (action, next) = self.apply(op.a);
                    if action == 0 {
                        pc = usize::from(next);
                    } else {
                        (pc, back) = (usize::from(action), usize::from(next));
                    }
                }
                Code::Return => pc = back,
                Code::End => return,
                Code::EndIfExit => {
                    if s!(op.a) != 0 {
                        return;
                    }
                }
                Code::RegRead => {
                    if let Some(value) = self.state.registers[usize::from(op.a)].get(s!(op.b) as usize) {
                        set!(op, *value);
                    }
                }
                Code::RegWrite => {
                    let value = s!(op.d);
                    if let Some(cell) = self.state.registers[usize::from(op.a)].get_mut(s!(op.b) as usize) {
                        *cell = value;
                    }
                }
                Code::Count => {
                    if let Some(cell) = self.state.counters[usize::from(op.a)].get_mut(s!(op.b) as usize) {
                        cell.count(self.ingress_length);
                    }
                }
                Code::Hash => {
                    let value = self.hash(op.a);
                    set!(op, value);
                }
                _ => self.rare(op),
            }
        }
    }

    fn hash(&mut self, calculation: u16) -> u64 {
        let index = usize::from(calculation);
        let State { buffer, calls, .. } = &mut *self.state;
        hash::compute(&self.program.calculations[index], self.slots, self.payload, buffer, &mut calls[index])
    }

    /// What is rare enough to stay out of the way of the rest.
    #[inline(never)]
    fn rare(&mut self, op: Op) {
        let program = self.program;
        let slot = |run: &Self, slot: u16| run.slots[usize::from(slot)];
        let base = |run: &Self, at: u16| run.slots[usize::from(at)] as usize;
        match op.code {
            Code::Wide => self.wide(usize::from(op.d)),
            Code::Meter => {
                let index = slot(self, op.b) as usize;
                let units = if program.meters[usize::from(op.a)].packets { 1 } else { self.ingress_length };
                let ticks = self.state.ticks_per_second;
                if let Some(meter) = self.state.meters[usize::from(op.a)].get_mut(index) {
                    let colour = meter.execute(self.now, u64::from(units), ticks);
                    self.set(op, colour);
                }
            }
            Code::Random => {
                let (low, high) = (slot(self, op.a), slot(self, op.b));
                if low <= high {
                    let span = u128::from(high - low) + 1;
                    // A 128-bit product takes a 64-bit number to the span without the bias of a remainder.
                    let drawn = u128::from(self.state.rng.next_u64()) * span >> 64;
                    self.set(op, low + drawn as u64);
                }
            }
            Code::SetValid => {
                let (header, base) = (&program.header_ops[usize::from(op.b)], base(self, op.a));
                if self.slots[base + usize::from(VALID)] == 0 {
                    // BMv2 clears a header that is added.
                    self.slots[base..base + usize::from(header.slots)].fill(0);
                    self.slots[base + usize::from(VALID)] = 1;
                    *self.length += u32::from(header.bytes);
                    headers::invalidate(self.slots, base, &header.siblings);
                }
            }
            Code::SetInvalid => {
                let (header, base) = (&program.header_ops[usize::from(op.b)], base(self, op.a));
                if self.slots[base + usize::from(VALID)] != 0 {
                    let variable = header.varbit.map_or(0, |at| self.slots[base + usize::from(at)] / 8);
                    *self.length = self.length.saturating_sub(u32::from(header.bytes) + variable as u32);
                    self.slots[base + usize::from(VALID)] = 0;
                }
            }
            Code::CopyHeader => {
                let (to, from) = (base(self, op.d), base(self, op.a));
                headers::copy(self.slots, to, from, &program.header_ops[usize::from(op.b)]);
            }
            Code::Push => {
                headers::push(self.slots, &program.layout.stacks[usize::from(op.a)], slot(self, op.b))
            }
            Code::Pop => {
                headers::pop(self.slots, &program.layout.stacks[usize::from(op.a)], slot(self, op.b))
            }
            Code::CopyStack => {
                let stacks = &program.layout.stacks;
                headers::copy_stack(self.slots, &stacks[usize::from(op.d)], &stacks[usize::from(op.a)]);
            }
            Code::StackAt => {
                let stack = &program.layout.stacks[usize::from(op.a)];
                let base = headers::element(stack, slot(self, op.b)).unwrap_or(program.layout.spare);
                self.slots[usize::from(op.d)] = u64::from(base);
            }
            Code::StackLast => {
                let stack = &program.layout.stacks[usize::from(op.a)];
                let last = slot(self, stack.count).wrapping_sub(1);
                let base = headers::element(stack, last).unwrap_or(program.layout.spare);
                self.slots[usize::from(op.d)] = u64::from(base);
            }
            Code::LoadAt => {
                let value = self.slots[base(self, op.a) + usize::from(op.b)];
                self.slots[usize::from(op.d)] = value;
            }
            Code::StoreAt => {
                let (at, value) = (base(self, op.d) + usize::from(op.b), slot(self, op.a));
                if T::ENABLED {
                    self.trace_assign(at as u16, value);
                }
                self.slots[at] = value;
            }
            Code::Truncate => {
                *self.truncate = (*self.truncate).min(slot(self, op.a).min(u64::from(u32::MAX)) as u32)
            }
            Code::Log => {
                if T::ENABLED {
                    self.trace_log(usize::from(op.a));
                }
            }
            Code::Assert => {
                if slot(self, op.a) == 0 {
                    self.state.failed_assertions += 1;
                    if T::ENABLED {
                        let name = program.actions.get(usize::from(op.b)).map_or("", |action| &action.name);
                        self.tracer.assertion_failed(program, name);
                    }
                }
            }
            // The loop in `run` does the others.
            _ => {}
        }
    }

    fn set(&mut self, op: Op, value: u64) {
        let value = cut(value, op.w);
        if T::ENABLED {
            self.trace_assign(op.d, value);
        }
        self.slots[usize::from(op.d)] = value;
    }

    fn wide(&mut self, index: usize) {
        let program = self.program;
        let op = &program.wide[index];
        let before = if T::ENABLED { self.read_wide(op.d.slot, op.d.limbs) } else { Vec::new() };
        if !wide::run(op, self.slots) {
            let cell = self.slots[usize::from(op.b.slot)] as usize;
            let (WideKind::RegRead(register) | WideKind::RegWrite(register)) = op.kind else { return };
            let limbs = crate::program::limbs(program.registers[usize::from(register)].bits);
            let cells = self.state.registers[usize::from(register)].chunks_exact_mut(limbs);
            if let Some(cell) = cells.into_iter().nth(cell) {
                match op.kind {
                    WideKind::RegRead(_) => {
                        self.slots[usize::from(op.d.slot)..][..limbs].copy_from_slice(cell);
                    }
                    _ => cell.copy_from_slice(&self.slots[usize::from(op.a.slot)..][..limbs]),
                }
            }
        }
        if T::ENABLED {
            let after = self.read_wide(op.d.slot, op.d.limbs);
            self.report_assign(op.d.slot, &before, &after);
        }
    }

    /// Looks a table up; returns the code of the action (0: none) and where to go behind it.
    #[inline]
    fn apply(&mut self, index: u16) -> (Pc, Pc) {
        let program = self.program;
        let table = &program.tables[usize::from(index)];
        let State { tables, key, .. } = &mut *self.state;
        let state = &mut tables[usize::from(index)];
        let entry = state.lookup.find(table, &state.plan, self.slots, key) as usize;
        if state.extras {
            return self.apply_with_extras(index, entry);
        }
        let hot = state.hot[entry];
        if state.stride > 0 {
            let args = &state.args[entry * state.stride..][..state.stride];
            self.slots[usize::from(program.params)..][..state.stride].copy_from_slice(args);
        }
        if T::ENABLED {
            self.trace_table(index, entry, hot.code, hot.action);
        }
        (hot.code, hot.next)
    }

    /// As [`Run::apply`], for tables with counters, meters, timeouts or action profiles.
    #[inline(never)]
    fn apply_with_extras(&mut self, index: u16, entry: usize) -> (Pc, Pc) {
        let program = self.program;
        let table = &program.tables[usize::from(index)];
        let State { tables, profiles, buffer, ticks_per_second, .. } = &mut *self.state;
        let state = &mut tables[usize::from(index)];
        if entry != 0 {
            if let Some(counter) = state.counters.get_mut(entry) {
                counter.count(self.ingress_length);
            }
            if let (Some(meter), Some((array, target))) = (state.meters.get_mut(entry), table.meter) {
                let packets = program.meters[usize::from(array)].packets;
                let units = if packets { 1 } else { u64::from(self.ingress_length) };
                let colour = meter.execute(self.now, units, *ticks_per_second);
                self.slots[usize::from(target.slot)] = colour & low_bits(target.bits);
            }
            if let Some(last) = state.last_hit.get_mut(entry) {
                *last = self.now;
            }
        }
        let params = usize::from(program.params);
        let (code, next, action) = match (table.profile, state.links[entry]) {
            (Some(profile), link) if link != Link::None => {
                let profile = usize::from(profile);
                let definition = &program.profiles[profile];
                match profiles[profile].choose(definition, link, self.slots, self.payload, buffer) {
                    Some(member) => {
                        self.slots[params..params + member.args.len()].copy_from_slice(&member.args);
                        let next = super::tables::next_of(table, member.action, entry != 0);
                        (program.action_code[usize::from(member.action.0)], next, member.action)
                    }
                    // An empty group does nothing.
                    None => (0, table.hit.filter(|_| entry != 0).unwrap_or(table.base), Default::default()),
                }
            }
            _ => {
                let hot = state.hot[entry];
                let args = &state.args[entry * state.stride..][..state.stride];
                self.slots[params..params + state.stride].copy_from_slice(args);
                (hot.code, hot.next, hot.action)
            }
        };
        if T::ENABLED {
            self.trace_table(index, entry, code, action);
        }
        (code, next)
    }
}

/// Telling the tracer.
impl<T: Tracer> Run<'_, T> {
    fn read_wide(&self, slot: u16, limbs: u16) -> Vec<u64> {
        self.slots[usize::from(slot)..][..usize::from(limbs)].to_vec()
    }

    fn trace_assign(&mut self, slot: u16, value: u64) {
        let old = self.slots[usize::from(slot)];
        self.report_assign(slot, &[old], &[value]);
    }

    fn report_assign(&mut self, slot: u16, old: &[u64], new: &[u64]) {
        // Temporaries belong to no field and say nothing.
        if let Some((name, bits)) = self.program.slot_field(slot).filter(|_| !new.is_empty()) {
            let bytes = |limbs: &[u64]| super::values::to_bytes(limbs, bits);
            self.tracer.assign(self.program, &name, &bytes(old), &bytes(new));
        }
    }

    /// The jump behind a condition is taken when it does not hold.
    fn trace_condition(&mut self, pc: usize, result: bool) {
        if let Some(Mark::Condition(name)) = self.program.mark(pc as Pc) {
            self.tracer.condition(self.program, name, result);
        }
    }

    fn trace_fixed_table(&mut self, pc: usize) {
        if let Some(Mark::Table(index)) = self.program.mark(pc as Pc) {
            let table = &self.program.tables[usize::from(*index)];
            let (action, args) = table.default.clone().unwrap_or_default();
            let args = super::values::split_args(self.program, action, &args);
            let id = crate::program::TableId(*index);
            self.tracer.table(self.program, id, &[], None, Some(action), &args);
        }
    }

    fn trace_table(&mut self, index: u16, entry: usize, code: Pc, action: crate::program::ActionId) {
        let program = self.program;
        let table = &program.tables[usize::from(index)];
        let value = |slot: u16, bits: u32| {
            let limbs = &self.slots[usize::from(slot)..][..crate::program::limbs(bits)];
            super::values::to_bytes(limbs, bits)
        };
        let key: Vec<Vec<u8>> = table.key.iter().map(|key| value(key.slot, key.bits)).collect();
        let args = &self.slots[usize::from(program.params)..];
        let args = super::values::split_args(program, action, args);
        let handle = (entry != 0).then(|| super::entry::EntryHandle(entry as u32 - 1));
        let (action, args) = if code == 0 { (None, Vec::new()) } else { (Some(action), args) };
        self.tracer.table(program, crate::program::TableId(index), &key, handle, action, &args);
    }

    fn trace_log(&mut self, index: usize) {
        let log = &self.program.logs[index];
        let mut message = String::new();
        let mut values = log.values.iter();
        let mut rest = log.format.as_str();
        while let Some((before, after)) = rest.split_once("{}") {
            message.push_str(before);
            if let Some(value) = values.next() {
                let limbs = &self.slots[usize::from(value.slot)..][..usize::from(value.limbs)];
                message.push_str(&super::values::decimal(limbs, value.signed));
            }
            rest = after;
        }
        message.push_str(rest);
        self.tracer.log(self.program, &message);
    }
}

const _: () = assert!(ORIGIN == VALID + 1, "headers are compared from the slot behind these two");
