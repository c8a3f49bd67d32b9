//! Slow paths of the interpreter: operations kept out of its loop, and the application of tables with action
//! profiles, counters, meters or timeouts.
//!
//! Slots are the 64-bit words of the header vector. Each [`Opcode`] documents what its operands `a`, `b` and `d` mean:
//! a slot that is read or written, or an index into a list of the program.

use super::headers;
use super::interpreter::{ExecContext, clear_high};
use super::state::State;
use super::table_state::{ActionRef, DEFAULT_ENTRY, ProfileRef};
use super::trace::Tracer;
use super::wide;
use crate::program::{FRAME_OFFSET_SLOT, Op, Opcode, TableId, VALID_SLOT, WideOpcode, WideSlot, low_mask};
use rand::Rng;
use std::sync::atomic::Ordering;

impl<T: Tracer> ExecContext<'_, T> {
    /// Executes an operation that the interpreter's loop does not have. Out of line, to keep that loop small.
    #[inline(never)]
    pub(super) fn exec_slow(&mut self, slots: &mut [u64], op: Op) {
        let program = self.program;
        let slot = |slots: &[u64], slot: u16| slots[usize::from(slot)];
        // The operand is a slot that contains the index of the header's first slot.
        let base = |slots: &[u64], operand: u16| slots[usize::from(operand)] as usize;
        match op.opcode {
            Opcode::Wide => self.exec_wide(slots, usize::from(op.d)),
            Opcode::MeterExecute => {
                let index = slot(slots, op.b) as usize;
                let units =
                    if program.meters[usize::from(op.a)].counts_packets { 1 } else { self.ingress_length };
                let ticks = self.state.ticks_per_second;
                if let Some(meter) = self.state.meters[usize::from(op.a)].get_mut(index) {
                    let colour = meter.execute(self.now, u64::from(units), ticks);
                    self.set(slots, op, colour);
                }
            }
            Opcode::Random => {
                let (low, high) = (slot(slots, op.a), slot(slots, op.b));
                if low <= high {
                    let span = u128::from(high - low) + 1;
                    // Multiply-shift is cheaper than a remainder. The bias is below `span` / 2^64.
                    let drawn = (u128::from(self.state.rng.next_u64()) * span) >> 64;
                    self.set(slots, op, low + drawn as u64);
                }
            }
            Opcode::SetValid => {
                let (header, base) = (&program.header_ops[usize::from(op.b)], base(slots, op.a));
                if slots[base + usize::from(VALID_SLOT)] == 0 {
                    // As in BMv2, `setValid` zeroes an invalid header.
                    slots[base..base + usize::from(header.slots)].fill(0);
                    slots[base + usize::from(VALID_SLOT)] = 1;
                    *self.length += u32::from(header.bytes);
                    headers::invalidate(slots, base, &header.union_member_offsets);
                }
            }
            Opcode::SetInvalid => {
                let (header, base) = (&program.header_ops[usize::from(op.b)], base(slots, op.a));
                if slots[base + usize::from(VALID_SLOT)] != 0 {
                    let varbit_len =
                        header.varbit_length_slot.map_or(0, |offset| slots[base + usize::from(offset)] / 8);
                    *self.length = self.length.saturating_sub(u32::from(header.bytes) + varbit_len as u32);
                    slots[base + usize::from(VALID_SLOT)] = 0;
                }
            }
            Opcode::CopyHeader => {
                let (to, from) = (base(slots, op.d), base(slots, op.a));
                headers::copy(slots, to, from, &program.header_ops[usize::from(op.b)]);
            }
            Opcode::Push => {
                headers::push(slots, &program.layout.stacks[usize::from(op.a)], slot(slots, op.b))
            }
            Opcode::Pop => headers::pop(slots, &program.layout.stacks[usize::from(op.a)], slot(slots, op.b)),
            Opcode::CopyStack => {
                let stacks = &program.layout.stacks;
                headers::copy_stack(slots, &stacks[usize::from(op.d)], &stacks[usize::from(op.a)]);
            }
            Opcode::StackAt => {
                let stack = &program.layout.stacks[usize::from(op.a)];
                let base = headers::element(stack, slot(slots, op.b)).unwrap_or(program.layout.dummy_block);
                slots[usize::from(op.d)] = u64::from(base);
            }
            Opcode::StackLast => {
                let stack = &program.layout.stacks[usize::from(op.a)];
                let last = slot(slots, stack.next_index_slot).wrapping_sub(1);
                let base = headers::element(stack, last).unwrap_or(program.layout.dummy_block);
                slots[usize::from(op.d)] = u64::from(base);
            }
            Opcode::LoadAt => {
                let value = slots[base(slots, op.a) + usize::from(op.b)];
                slots[usize::from(op.d)] = value;
            }
            Opcode::StoreAt => {
                let (target, value) = (base(slots, op.d) + usize::from(op.b), slot(slots, op.a));
                self.trace_assign(slots, target as u16, value);
                slots[target] = value;
            }
            Opcode::Truncate => {
                *self.truncate = (*self.truncate).min(slot(slots, op.a).min(u64::from(u32::MAX)) as u32)
            }
            Opcode::Log if T::ENABLED => self.trace_log(slots, usize::from(op.a)),
            // The assertion failed; the caller drops the packet.
            Opcode::Assert => {
                let index = usize::from(op.b);
                let assertion = &program.assertions[index];
                self.state.failed_assertions[index] += 1;
                if !assertion.is_reported.swap(true, Ordering::Relaxed) {
                    self.state.first_failure = Some(index);
                }
                if T::ENABLED {
                    self.tracer.assertion_failed(program, &assertion.text);
                }
            }
            // `Log` without a tracer. `ExecContext::run` executes all other operations.
            _ => {}
        }
    }

    fn set(&mut self, slots: &mut [u64], op: Op, value: u64) {
        let value = clear_high(value, op.clear_high);
        self.trace_assign(slots, op.d, value);
        slots[usize::from(op.d)] = value;
    }

    fn exec_wide(&mut self, slots: &mut [u64], index: usize) {
        let program = self.program;
        let op = &program.wide[index];
        let old = if T::ENABLED { read_limbs(slots, op.d) } else { Vec::new() };
        // `run` returns `false` for a register access, which it leaves to this function.
        if !wide::run(op, slots) {
            let index = slots[usize::from(op.b.slot)];
            let (WideOpcode::RegRead(register) | WideOpcode::RegWrite(register)) = op.kind else { return };
            if let Some(cell) = program.registers[usize::from(register)].cell(index) {
                let cell = &mut self.state.registers[cell];
                match op.kind {
                    WideOpcode::RegRead(_) => {
                        slots[usize::from(op.d.slot)..][..cell.len()].copy_from_slice(cell);
                    }
                    _ => cell.copy_from_slice(&slots[usize::from(op.a.slot)..][..cell.len()]),
                }
            }
        }
        if T::ENABLED {
            let new = read_limbs(slots, op.d);
            self.report_assign(op.d.slot, &old, &new);
        }
    }

    /// Same as [`ExecContext::apply`], for tables with counters, meters, timeouts or action profiles.
    #[inline(never)]
    pub(super) fn apply_slow(&mut self, slots: &mut [u64], id: TableId, entry: usize) -> ActionRef {
        let program = self.program;
        let table = &program.tables[id];
        let State { tables, profiles, scratch, ticks_per_second, .. } = &mut *self.state;
        let extras = tables.extras_mut(id);
        let is_hit = entry != DEFAULT_ENTRY as usize;
        if is_hit {
            if let Some(counter) = extras.counters.get_mut(entry) {
                counter.count(self.ingress_length);
            }
            if let (Some(meter), Some((array, target))) = (extras.meters.get_mut(entry), table.meter) {
                let counts_packets = program.meters[usize::from(array)].counts_packets;
                let units = if counts_packets { 1 } else { u64::from(self.ingress_length) };
                let colour = meter.execute(self.now, units, *ticks_per_second);
                slots[usize::from(target.slot)] = colour & low_mask(target.bits);
            }
            if let Some(last_hit) = extras.last_hit.get_mut(entry) {
                *last_hit = self.now;
            }
        }
        let params = usize::from(program.first_param_slot);
        let action_ref = match (table.profile, extras.profile_refs[entry]) {
            (Some(profile), profile_ref) if profile_ref != ProfileRef::None => {
                let profile = usize::from(profile);
                let definition = &program.profiles[profile];
                match profiles[profile].select_member(
                    definition,
                    profile_ref,
                    slots,
                    self.payload,
                    &mut scratch.hash_input,
                ) {
                    Some(member) => {
                        slots[params..params + member.args.len()].copy_from_slice(&member.args);
                        let next = table.successor(member.action, is_hit);
                        let code = program.action_code[member.action];
                        ActionRef { code, next, action: member.action }
                    }
                    // An empty group runs no action. Control flow then continues at the successor for a hit;
                    // `base` is the fallback if the successor depends on the action.
                    None => ActionRef {
                        next: table.successors.hit.filter(|_| is_hit).unwrap_or(table.successors.base),
                        ..ActionRef::default()
                    },
                }
            }
            _ => {
                let (action_ref, args) = tables[id].row(table, entry as u32);
                slots[params..params + args.len()].copy_from_slice(args);
                action_ref
            }
        };
        if T::ENABLED {
            self.trace_table(slots, id, entry, action_ref.code, action_ref.action);
        }
        action_ref
    }
}

fn read_limbs(slots: &[u64], from: WideSlot) -> Vec<u64> {
    slots[usize::from(from.slot)..][..usize::from(from.limbs)].to_vec()
}

const _: () = assert!(
    FRAME_OFFSET_SLOT == VALID_SLOT + 1,
    "`WideOpcode::EqHeader` compares the fields, which start after these two slots"
);
