//! Code for the fast engine: the same operations at the same addresses. Some of them do the next one, too. That saves
//! half of finding out what to do.

use crate::program::link::Linked;
use crate::program::op::{Code, HeaderOp, Op, Slot};
use crate::program::{ActionInfo, RegisterArray};

/// Calls a macro with the pairs of operations that are done as one: name, first, second.
macro_rules! with_pairs {
    ($callback:ident) => {
        $callback! {
            MovThenMov(Mov, Mov), MovThenAdd(Mov, Add), MovThenAnd(Mov, And), MovThenShr(Mov, Shr),
            MovThenZ(Mov, JumpZ), MovThenNz(Mov, JumpNz), MovThenEq(Mov, JumpEq), MovThenNe(Mov, JumpNe),
            MovThenLt(Mov, JumpLt), MovThenLe(Mov, JumpLe), AddThenMov(Add, Mov), AddThenAdd(Add, Add),
            AddThenAnd(Add, And), AddThenShr(Add, Shr), AddThenZ(Add, JumpZ), AddThenNz(Add, JumpNz),
            AddThenEq(Add, JumpEq), AddThenNe(Add, JumpNe), AddThenLt(Add, JumpLt), AddThenLe(Add, JumpLe),
            AndThenMov(And, Mov), AndThenAdd(And, Add), AndThenAnd(And, And), AndThenShr(And, Shr),
            AndThenZ(And, JumpZ), AndThenNz(And, JumpNz), AndThenEq(And, JumpEq), AndThenNe(And, JumpNe),
            AndThenLt(And, JumpLt), AndThenLe(And, JumpLe), ShrThenMov(Shr, Mov), ShrThenAdd(Shr, Add),
            ShrThenAnd(Shr, And), ShrThenShr(Shr, Shr), ShrThenZ(Shr, JumpZ), ShrThenNz(Shr, JumpNz),
            ShrThenEq(Shr, JumpEq), ShrThenNe(Shr, JumpNe), ShrThenLt(Shr, JumpLt), ShrThenLe(Shr, JumpLe),
            ZThenMov(JumpZ, Mov), ZThenAdd(JumpZ, Add), ZThenAnd(JumpZ, And), ZThenShr(JumpZ, Shr),
            ZThenZ(JumpZ, JumpZ), ZThenNz(JumpZ, JumpNz), ZThenEq(JumpZ, JumpEq), ZThenNe(JumpZ, JumpNe),
            ZThenLt(JumpZ, JumpLt), ZThenLe(JumpZ, JumpLe), NzThenMov(JumpNz, Mov), NzThenAdd(JumpNz, Add),
            NzThenAnd(JumpNz, And), NzThenShr(JumpNz, Shr), NzThenZ(JumpNz, JumpZ), NzThenNz(JumpNz, JumpNz),
            NzThenEq(JumpNz, JumpEq), NzThenNe(JumpNz, JumpNe), NzThenLt(JumpNz, JumpLt), NzThenLe(JumpNz, JumpLe),
            EqThenMov(JumpEq, Mov), EqThenAdd(JumpEq, Add), EqThenAnd(JumpEq, And), EqThenShr(JumpEq, Shr),
            EqThenZ(JumpEq, JumpZ), EqThenNz(JumpEq, JumpNz), EqThenEq(JumpEq, JumpEq), EqThenNe(JumpEq, JumpNe),
            EqThenLt(JumpEq, JumpLt), EqThenLe(JumpEq, JumpLe), NeThenMov(JumpNe, Mov), NeThenAdd(JumpNe, Add),
            NeThenAnd(JumpNe, And), NeThenShr(JumpNe, Shr), NeThenZ(JumpNe, JumpZ), NeThenNz(JumpNe, JumpNz),
            NeThenEq(JumpNe, JumpEq), NeThenNe(JumpNe, JumpNe), NeThenLt(JumpNe, JumpLt), NeThenLe(JumpNe, JumpLe),
            LtThenMov(JumpLt, Mov), LtThenAdd(JumpLt, Add), LtThenAnd(JumpLt, And), LtThenShr(JumpLt, Shr),
            LtThenZ(JumpLt, JumpZ), LtThenNz(JumpLt, JumpNz), LtThenEq(JumpLt, JumpEq), LtThenNe(JumpLt, JumpNe),
            LtThenLt(JumpLt, JumpLt), LtThenLe(JumpLt, JumpLe), LeThenMov(JumpLe, Mov), LeThenAdd(JumpLe, Add),
            LeThenAnd(JumpLe, And), LeThenShr(JumpLe, Shr), LeThenZ(JumpLe, JumpZ), LeThenNz(JumpLe, JumpNz),
            LeThenEq(JumpLe, JumpEq), LeThenNe(JumpLe, JumpNe), LeThenLt(JumpLe, JumpLt), LeThenLe(JumpLe, JumpLe),
        }
    };
}
pub(crate) use with_pairs;

macro_rules! kinds {
    ($($pair:ident($first:ident, $second:ident),)*) => {
        kinds! {
            [
                Mov Add Sub Mul And Or Xor Shl Shr SatU Eq LtU LeU IsZero IsNonZero Jump JumpBack JumpZ JumpNz JumpEq
                JumpNe JumpLt JumpLe Table Return End EndIfExit RegRead RegWrite Count Hash SetValid
            ]
            $($pair($first, $second),)*
        }
    };
    ([$($single:ident)*] $($pair:ident($first:ident, $second:ident),)*) => {
        /// What the fast engine does at an address.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub(crate) enum Kind {
            $($single,)*
            /// Left to the interpreter.
            Other,
            $($pair,)*
        }

        fn single(op: &Op, header_ops: &[HeaderOp]) -> Kind {
            match op.code {
                Code::SetValid if !header_ops[usize::from(op.b)].siblings.is_empty() => Kind::Other,
                $(Code::$single => Kind::$single,)*
                _ => Kind::Other,
            }
        }

        fn pair(first: Code, second: Code) -> Option<Kind> {
            match (first, second) {
                $((Code::$first, Code::$second) => Some(Kind::$pair),)*
                _ => None,
            }
        }
    };
}
with_pairs!(kinds);

/// An operation with its operands as in [`Op`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub kind: Kind,
    pub w: u8,
    pub d: u16,
    pub a: u16,
    pub b: u16,
}

/// A register array of narrow cells: its first word, its cells, and the words from one to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cells {
    pub base: usize,
    pub size: usize,
    pub step: usize,
}

/// An assignment in an action: from an argument, or from a slot that holds a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Assign {
    pub to: Slot,
    pub from: u16,
    pub w: u8,
    pub constant: bool,
}

pub(super) fn instructions(program: &Linked) -> Vec<Instruction> {
    let next = program.code.iter().skip(1).map(Some).chain([None]);
    let instruction = |(op, next): (&Op, Option<&Op>)| {
        let joined = next.and_then(|next| pair(op.code, next.code));
        let kind = joined.unwrap_or_else(|| single(op, &program.header_ops));
        Instruction { kind, w: op.w, d: op.d, a: op.a, b: op.b }
    };
    program.code.iter().zip(next).map(instruction).collect()
}

/// The assignments of each action that does nothing else.
pub(super) fn assignments(program: &Linked) -> Vec<Option<Vec<Assign>>> {
    let constants = program.vars + program.temps;
    let of_action = |(info, start): (&ActionInfo, &u16)| {
        let words = info.words();
        let mut all = Vec::<Assign>::new();
        for op in &program.code[usize::from(*start)..] {
            let argument = op.a.checked_sub(program.params).filter(|argument| usize::from(*argument) < words);
            let constant = usize::from(op.a) >= constants;
            match op.code {
                Code::Return => return Some(all),
                // In any order: so no target may come twice.
                Code::Mov if (argument.is_some() || constant) && all.iter().all(|known| known.to != op.d) => {
                    all.push(Assign { to: op.d, from: argument.unwrap_or(op.a), w: op.w, constant });
                }
                _ => return None,
            }
        }
        None
    };
    program.actions.iter().zip(&program.action_code).map(of_action).collect()
}

pub(super) fn cells(program: &Linked) -> Vec<Cells> {
    let cells = |array: &RegisterArray| Cells { base: array.base, size: array.size, step: array.step };
    program.registers.iter().map(cells).collect()
}
