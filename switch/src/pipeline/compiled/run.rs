//! The fast engine's loop over the operations.

use crate::pipeline::exec::{JUMP_BUDGET, Run, cut};
use crate::pipeline::trace::Tracer;
use crate::program::{Kind, Pc, VALID, with_pairs};

impl<T: Tracer> Run<'_, T> {
    /// Does what [`Run::run`] does.
    pub fn run_compiled<const N: usize>(&mut self, slots: &mut [u64; N], start: Pc) {
        let program = self.program;
        let compiled = &program.compiled;
        let code = compiled.code.as_slice();
        let (mut pc, mut back, mut budget) = (usize::from(start), 0, JUMP_BUDGET);
        macro_rules! s {
            ($slot:expr) => {
                slots[usize::from($slot) & (N - 1)]
            };
        }
        macro_rules! jump_if {
            ($op:ident, $condition:expr) => {
                if $condition {
                    pc = usize::from($op.d);
                    continue;
                }
            };
        }
        macro_rules! step {
            (Mov, $op:ident) => {
                s!($op.d) = cut(s!($op.a), $op.w)
            };
            (Add, $op:ident) => {
                s!($op.d) = cut(s!($op.a).wrapping_add(s!($op.b)), $op.w)
            };
            (And, $op:ident) => {
                s!($op.d) = cut(s!($op.a) & s!($op.b), $op.w)
            };
            (Shr, $op:ident) => {
                s!($op.d) = cut(if s!($op.b) < 64 { s!($op.a) >> s!($op.b) } else { 0 }, $op.w)
            };
            (JumpZ, $op:ident) => {
                jump_if!($op, s!($op.a) == 0)
            };
            (JumpNz, $op:ident) => {
                jump_if!($op, s!($op.a) != 0)
            };
            (JumpEq, $op:ident) => {
                jump_if!($op, s!($op.a) == s!($op.b))
            };
            (JumpNe, $op:ident) => {
                jump_if!($op, s!($op.a) != s!($op.b))
            };
            (JumpLt, $op:ident) => {
                jump_if!($op, s!($op.a) < s!($op.b))
            };
            (JumpLe, $op:ident) => {
                jump_if!($op, s!($op.a) <= s!($op.b))
            };
        }
        macro_rules! dispatch {
            ($($pair:ident($first:ident, $second:ident),)*) => {
                loop {
                    let Some(op) = code.get(pc) else { return };
                    pc += 1;
                    match op.kind {
                        $(Kind::$pair => {
                            step!($first, op);
                            let Some(op) = code.get(pc) else { return };
                            pc += 1;
                            step!($second, op);
                        })*
                        Kind::Mov => step!(Mov, op),
                        Kind::Add => step!(Add, op),
                        Kind::And => step!(And, op),
                        Kind::Shr => step!(Shr, op),
                        Kind::JumpZ => step!(JumpZ, op),
                        Kind::JumpNz => step!(JumpNz, op),
                        Kind::JumpEq => step!(JumpEq, op),
                        Kind::JumpNe => step!(JumpNe, op),
                        Kind::JumpLt => step!(JumpLt, op),
                        Kind::JumpLe => step!(JumpLe, op),
                        Kind::Sub => s!(op.d) = cut(s!(op.a).wrapping_sub(s!(op.b)), op.w),
                        Kind::Mul => s!(op.d) = cut(s!(op.a).wrapping_mul(s!(op.b)), op.w),
                        Kind::Or => s!(op.d) = cut(s!(op.a) | s!(op.b), op.w),
                        Kind::Xor => s!(op.d) = cut(s!(op.a) ^ s!(op.b), op.w),
                        Kind::Shl => {
                            s!(op.d) = cut(if s!(op.b) < 64 { s!(op.a) << s!(op.b) } else { 0 }, op.w);
                        }
                        Kind::SatU => {
                            let value = s!(op.a) as i64;
                            s!(op.d) = if value < 0 { 0 } else { (value as u64).min(u64::MAX >> (op.w & 63)) };
                        }
                        Kind::Eq => s!(op.d) = u64::from(s!(op.a) == s!(op.b)),
                        Kind::LtU => s!(op.d) = u64::from(s!(op.a) < s!(op.b)),
                        Kind::LeU => s!(op.d) = u64::from(s!(op.a) <= s!(op.b)),
                        Kind::IsZero => s!(op.d) = u64::from(s!(op.a) == 0),
                        Kind::IsNonZero => s!(op.d) = u64::from(s!(op.a) != 0),
                        Kind::Jump => pc = usize::from(op.d),
                        Kind::JumpBack => {
                            budget -= 1;
                            if budget == 0 {
                                self.state.runaways += 1;
                                return;
                            }
                            pc = usize::from(op.d);
                        }
                        Kind::Table => {
                            let (action, next) = self.apply_compiled(slots, op.a);
                            if action == 0 {
                                pc = usize::from(next);
                            } else {
                                (pc, back) = (usize::from(action), usize::from(next));
                            }
                        }
                        Kind::Return => pc = back,
                        Kind::End => return,
                        Kind::EndIfExit => {
                            if s!(op.a) != 0 {
                                return;
                            }
                        }
                        Kind::RegRead => {
                            let index = s!(op.b) as usize;
                            if let Some(cells) = compiled.cells.get(usize::from(op.a))
                                && index < cells.size
                                && let Some(cell) = self.state.registers.get(cells.base + index * cells.step)
                            {
                                s!(op.d) = cut(*cell, op.w);
                            }
                        }
                        Kind::RegWrite => {
                            let index = s!(op.b) as usize;
                            if let Some(cells) = compiled.cells.get(usize::from(op.a))
                                && index < cells.size
                                && let Some(cell) = self.state.registers.get_mut(cells.base + index * cells.step)
                            {
                                *cell = s!(op.d);
                            }
                        }
                        Kind::Count => {
                            if let Some(cell) =
                                self.state.counters[usize::from(op.a)].get_mut(s!(op.b) as usize)
                            {
                                cell.count(self.ingress_length);
                            }
                        }
                        Kind::Hash => {
                            let value = self.hash(slots, op.a);
                            s!(op.d) = cut(value, op.w);
                        }
                        Kind::SetValid => {
                            let (header, base) = (&program.header_ops[usize::from(op.b)], s!(op.a) as usize);
                            if let Some(block) = slots.get_mut(base..base + usize::from(header.slots))
                                && block[usize::from(VALID)] == 0
                            {
                                block.fill(0);
                                block[usize::from(VALID)] = 1;
                                *self.length += u32::from(header.bytes);
                            }
                        }
                        Kind::Other => self.one(slots, program.code[pc - 1]),
                    }
                }
            };
        }
        with_pairs!(dispatch);
    }

    /// As [`Run::apply`]; an action that only assigns is done here.
    #[inline]
    fn apply_compiled<const N: usize>(&mut self, slots: &mut [u64; N], index: u16) -> (Pc, Pc) {
        let program = self.program;
        let table = &program.tables[usize::from(index)];
        let state = &mut self.state.tables[usize::from(index)];
        let entry = state.lookup.find(table, slots, &mut self.state.key);
        if table.extras {
            return self.apply_with_extras(slots, index, entry as usize);
        }
        let (hot, args) = state.row(table, entry);
        let assignments = program.compiled.assignments.get(usize::from(hot.action.0));
        match assignments {
            Some(Some(assignments)) if hot.code != 0 => {
                for it in assignments {
                    let value = match it.constant {
                        false => args.get(usize::from(it.from)).copied().unwrap_or(0),
                        true => slots[usize::from(it.from) & (N - 1)],
                    };
                    slots[usize::from(it.to) & (N - 1)] = cut(value, it.w);
                }
                (0, hot.next)
            }
            _ => {
                slots[usize::from(program.params)..][..args.len()].copy_from_slice(args);
                (hot.code, hot.next)
            }
        }
    }
}
