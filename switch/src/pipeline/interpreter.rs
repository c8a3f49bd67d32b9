//! The interpreter: runs bytecode on the slots of a packet.

use super::hash::{self, Payload};
use super::state::State;
use super::trace::Tracer;
use crate::drops::DropReason;
use crate::program::{LOOP_BUDGET, Opcode, Pc, Program, TableId};

/// The context in which code runs, except for the slots.
pub(super) struct ExecContext<'a, T> {
    pub program: &'a Program,
    pub state: &'a mut State,
    /// The packet length in bytes if the packet were deparsed now: BMv2's packet register 0.
    pub length: &'a mut u32,
    /// The maximum length of the deparsed packet in bytes; `u32::MAX`: it is not truncated.
    pub truncate: &'a mut u32,
    /// The packet length in bytes at the start of ingress, which counters and meters count.
    pub ingress_length: u32,
    pub payload: Payload<'a>,
    pub now: u64,
    pub tracer: &'a mut T,
    /// The condition under evaluation, for the tracer: its name, and the addresses at which its code begins
    /// and ends.
    pub open_condition: Option<(&'a str, Pc, Pc)>,
}

/// Clears the highest `above` bits.
#[inline(always)]
pub(super) fn clear_high(value: u64, above: u8) -> u64 {
    value << (above & 63) >> (above & 63)
}

impl<T: Tracer> ExecContext<'_, T> {
    /// Runs code from `start` to [`Opcode::End`]. `N`, the capacity of the header vector, is a power of two above every
    /// slot of a loaded program, so `slot & (N - 1)` never changes a valid operand; it only lets the compiler drop
    /// the bounds checks.
    ///
    /// # Errors
    ///
    /// [`DropReason::ActionLoop`]: backward jumps repeated [`LOOP_BUDGET`] operations;
    /// [`DropReason::AssertionFailed`].
    pub(super) fn run<const N: usize>(&mut self, slots: &mut [u64; N], start: Pc) -> Result<(), DropReason> {
        let program = self.program;
        let code = program.code.as_slice();
        let (mut pc, mut return_pc, mut budget) = (usize::from(start), 0, LOOP_BUDGET);
        macro_rules! s {
            ($slot:expr) => {
                slots[usize::from($slot) & (N - 1)]
            };
        }
        macro_rules! set {
            ($op:ident, $value:expr) => {{
                let value = clear_high($value, $op.clear_high);
                self.trace_assign(slots, $op.d, value);
                s!($op.d) = value;
            }};
        }
        macro_rules! jump_if {
            ($op:ident, $condition:expr) => {
                if $condition {
                    pc = usize::from($op.d);
                }
            };
        }
        loop {
            self.trace_conditions(pc as Pc);
            let op = code[pc];
            pc += 1;
            match op.opcode {
                Opcode::Mov => set!(op, s!(op.a)),
                Opcode::MovIf => {
                    if s!(op.b) != 0 {
                        set!(op, s!(op.a));
                    }
                }
                Opcode::Add => set!(op, s!(op.a).wrapping_add(s!(op.b))),
                Opcode::Sub => set!(op, s!(op.a).wrapping_sub(s!(op.b))),
                Opcode::Mul => set!(op, s!(op.a).wrapping_mul(s!(op.b))),
                Opcode::Div => set!(op, s!(op.a).checked_div(s!(op.b)).unwrap_or(0)),
                Opcode::Mod => set!(op, s!(op.a).checked_rem(s!(op.b)).unwrap_or(0)),
                Opcode::And => set!(op, s!(op.a) & s!(op.b)),
                Opcode::Or => set!(op, s!(op.a) | s!(op.b)),
                Opcode::Xor => set!(op, s!(op.a) ^ s!(op.b)),
                Opcode::Not => set!(op, !s!(op.a)),
                Opcode::Shl => set!(op, if s!(op.b) < 64 { s!(op.a) << s!(op.b) } else { 0 }),
                Opcode::Shr => set!(op, if s!(op.b) < 64 { s!(op.a) >> s!(op.b) } else { 0 }),
                Opcode::Sar => set!(op, (s!(op.a) as i64 >> s!(op.b).min(63)) as u64),
                Opcode::Sext => s!(op.d) = sign_extend(s!(op.a), op.clear_high & 63),
                Opcode::SatU => s!(op.d) = saturate_unsigned(s!(op.a) as i64, op.clear_high & 63),
                Opcode::SatS => s!(op.d) = saturate_signed(s!(op.a) as i64, op.clear_high & 63),
                Opcode::Eq => s!(op.d) = u64::from(s!(op.a) == s!(op.b)),
                Opcode::LtU => s!(op.d) = u64::from(s!(op.a) < s!(op.b)),
                Opcode::LeU => s!(op.d) = u64::from(s!(op.a) <= s!(op.b)),
                Opcode::LtS => s!(op.d) = u64::from((s!(op.a) as i64) < s!(op.b) as i64),
                Opcode::LeS => s!(op.d) = u64::from(s!(op.a) as i64 <= s!(op.b) as i64),
                Opcode::IsZero => s!(op.d) = u64::from(s!(op.a) == 0),
                Opcode::IsNonZero => s!(op.d) = u64::from(s!(op.a) != 0),
                Opcode::Jump => pc = usize::from(op.d),
                Opcode::JumpZ => jump_if!(op, s!(op.a) == 0),
                Opcode::JumpNz => jump_if!(op, s!(op.a) != 0),
                Opcode::JumpEq => jump_if!(op, s!(op.a) == s!(op.b)),
                Opcode::JumpNe => jump_if!(op, s!(op.a) != s!(op.b)),
                Opcode::JumpLt => jump_if!(op, s!(op.a) < s!(op.b)),
                Opcode::JumpLe => jump_if!(op, s!(op.a) <= s!(op.b)),
                Opcode::JumpBack => {
                    budget = budget.saturating_sub(u32::from(op.a));
                    if budget == 0 {
                        return Err(DropReason::ActionLoop);
                    }
                    pc = usize::from(op.d);
                }
                Opcode::Assert => {
                    if s!(op.a) == 0 {
                        self.exec_slow(slots, op);
                        return Err(DropReason::AssertionFailed);
                    }
                }
                Opcode::ApplyTable => {
                    let (action, next) = self.apply(slots, TableId(op.a));
                    pc = usize::from(if action == 0 { next } else { action });
                    return_pc = if action == 0 { return_pc } else { usize::from(next) };
                }
                Opcode::Return => pc = return_pc,
                Opcode::End => return Ok(()),
                Opcode::EndIfExit => {
                    if s!(op.a) != 0 {
                        return Ok(());
                    }
                }
                Opcode::RegRead => {
                    if let Some(cell) = program.registers[usize::from(op.a)].cell(s!(op.b)) {
                        set!(op, self.state.registers[cell.start]);
                    }
                }
                Opcode::RegWrite => self.write_register(op.a, s!(op.b), s!(op.d)),
                Opcode::CounterCount => self.count(op.a, s!(op.b)),
                Opcode::Hash => set!(op, self.hash(slots, op.a)),
                _ => self.exec_slow(slots, op),
            }
        }
    }

    pub(super) fn hash(&mut self, slots: &[u64], calculation: u16) -> u64 {
        let index = usize::from(calculation);
        let State { scratch, calculations, .. } = &mut *self.state;
        let (calculation, buffer) = (&self.program.calculations[index], &mut scratch.hash_input);
        hash::compute(calculation, slots, self.payload, buffer, &mut calculations[index])
    }

    #[inline]
    fn write_register(&mut self, array: u16, index: u64, value: u64) {
        if let Some(cell) = self.program.registers[usize::from(array)].cell(index) {
            self.state.registers[cell.start] = value;
        }
    }

    #[inline]
    fn count(&mut self, counter: u16, index: u64) {
        if let Some(cell) = self.state.counters[usize::from(counter)].get_mut(index as usize) {
            cell.count(self.ingress_length);
        }
    }

    /// Looks up a table and loads the arguments of the action. Returns the address of the action's code (0:
    /// none) and the address at which control flow continues.
    #[inline]
    fn apply<const N: usize>(&mut self, slots: &mut [u64; N], id: TableId) -> (Pc, Pc) {
        let program = self.program;
        let table = &program.tables[id];
        let State { tables, scratch, .. } = &mut *self.state;
        let state = &tables[id];
        let entry = state.lookup.find(table, slots, &mut scratch.key);
        if table.needs_slow_apply {
            let action_ref = self.apply_slow(slots, id, entry as usize);
            return (action_ref.code, action_ref.next);
        }
        let (action_ref, args) = state.row(table, entry);
        if !args.is_empty() {
            slots[usize::from(program.first_param_slot)..][..args.len()].copy_from_slice(args);
        }
        if T::ENABLED {
            self.trace_table(slots, id, entry as usize, action_ref.code, action_ref.action);
        }
        (action_ref.code, action_ref.next)
    }
}

/// Repeats the highest of the bits below the `above` highest bits in those.
#[inline]
fn sign_extend(value: u64, above: u8) -> u64 {
    ((value << above) as i64 >> above) as u64
}

/// Limits a value to the range of unsigned numbers without the `above` highest bits.
#[inline]
fn saturate_unsigned(value: i64, above: u8) -> u64 {
    (value.max(0) as u64).min(u64::MAX >> above)
}

/// Limits a value to the range of signed numbers without the `above` highest bits.
#[inline]
fn saturate_signed(value: i64, above: u8) -> u64 {
    let max = (i64::MAX as u64 >> above) as i64;
    value.clamp(-max - 1, max) as u64
}
