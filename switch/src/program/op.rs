//! The bytecode of a program: three-address operations over the slots (64-bit words) of the header vector.
//!
//! Numbers of more than 64 bits take consecutive slots and have operations of their own ([`WideOp`]). Operands that do
//! not fit an [`Op`] are in side tables of the program, to which it has an index.

use super::signatures::TableId;
use std::sync::atomic::AtomicBool;

/// Index of a 64-bit slot of the header vector.
pub(crate) type Slot = u16;
/// Address of an operation: its index in the code.
pub(crate) type Pc = u16;

/// One operation. The meaning of `d`, `a` and `b` (a slot, an index, a jump target) depends on `opcode`, see
/// [`Opcode::roles`]. The upper `clear_high` bits of the result are cleared. Stored as the number of bits to clear,
/// not to keep: the interpreter uses it as a shift count without a subtraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub opcode: Opcode,
    pub clear_high: u8,
    pub d: u16,
    pub a: u16,
    pub b: u16,
}

/// How an operation uses an operand. Linking and the analysis of live slots depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperandRole {
    None,
    Read,
    Write,
    /// A slot that the operation either writes or leaves unchanged.
    ReadWrite,
    /// An index into a side table, or an immediate number.
    Index,
    /// The address to which the operation jumps.
    Target,
}

/// Maximum number of operations that the parser may execute for one packet, and that backward jumps may repeat in one
/// run of code, from a start address to its `End`. Programs that terminate stay far below it: a parser that extracts
/// one byte in each state needs a quarter of it for the longest frame.
pub(crate) const LOOP_BUDGET: u32 = 1 << 20;

/// Defines [`Opcode`] from a list of names with the roles of `d`, `a` and `b`.
macro_rules! opcodes {
    ($($(#[doc = $doc:literal])* $name:ident($d:ident, $a:ident, $b:ident),)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Opcode {
            $($(#[doc = $doc])* $name,)*
        }
        impl Opcode {
            /// Returns the roles of `d`, `a` and `b`.
            pub(crate) fn roles(self) -> [OperandRole; 3] {
                match self {
                    $(Opcode::$name => [OperandRole::$d, OperandRole::$a, OperandRole::$b],)*
                }
            }
        }
    };
}

opcodes! {
    /// d = a
    Mov(Write, Read, None),
    /// d = a if b is not 0
    MovIf(ReadWrite, Read, Read),
    /// d = a + b
    Add(Write, Read, Read),
    /// d = a - b
    Sub(Write, Read, Read),
    /// d = a * b
    Mul(Write, Read, Read),
    /// d = a / b; 0 if b is 0
    Div(Write, Read, Read),
    /// d = a % b; 0 if b is 0
    Mod(Write, Read, Read),
    /// d = a & b
    And(Write, Read, Read),
    /// d = a | b
    Or(Write, Read, Read),
    /// d = a ^ b
    Xor(Write, Read, Read),
    /// d = ~a
    Not(Write, Read, None),
    /// d = a << b; 0 if b is 64 or more
    Shl(Write, Read, Read),
    /// d = a >> b, unsigned; 0 if b is 64 or more
    Shr(Write, Read, Read),
    /// d = a >> b, signed; all bits are the sign if b is 64 or more
    Sar(Write, Read, Read),
    /// d = a, sign-extended from its low 64 - clear_high bits
    Sext(Write, Read, None),
    /// d = a as a signed number, saturated to an unsigned number of 64 - clear_high bits
    SatU(Write, Read, None),
    /// d = a as a signed number, saturated to a signed number of 64 - clear_high bits
    SatS(Write, Read, None),
    /// d = a == b
    Eq(Write, Read, Read),
    /// d = a < b, unsigned
    LtU(Write, Read, Read),
    /// d = a <= b, unsigned
    LeU(Write, Read, Read),
    /// d = a < b, signed
    LtS(Write, Read, Read),
    /// d = a <= b, signed
    LeS(Write, Read, Read),
    /// d = 1 if a is 0
    IsZero(Write, Read, None),
    /// d = 1 unless a is 0
    IsNonZero(Write, Read, None),
    /// An operation on numbers wider than a slot: index d of side table `wide`
    Wide(Index, None, None),

    /// go to d
    Jump(Target, None, None),
    /// go to d, backwards: costs a of [`LOOP_BUDGET`], so that every loop ends
    JumpBack(Target, Index, None),
    /// go to d if a is 0
    JumpZ(Target, Read, None),
    /// go to d unless a is 0
    JumpNz(Target, Read, None),
    /// go to d if a == b
    JumpEq(Target, Read, Read),
    /// go to d if a != b
    JumpNe(Target, Read, Read),
    /// go to d if a < b, unsigned
    JumpLt(Target, Read, Read),
    /// go to d if a <= b, unsigned
    JumpLe(Target, Read, Read),
    /// apply table a, then go to the successor that its row or action selects
    ApplyTable(None, Index, None),
    /// return from an action to the table that applied it
    Return(None, None, None),
    /// the end of the pipeline, or of code that is run on its own
    End(None, None, None),
    /// the end of the pipeline if a is not 0, that is, after `exit`
    EndIfExit(None, Read, None),

    /// d = register array a at b; unchanged if out of bounds
    RegRead(ReadWrite, Index, Read),
    /// register array a at b = slot d; nothing if out of bounds
    RegWrite(Read, Index, Read),
    /// count the packet in counter array a at b; nothing if out of bounds
    CounterCount(None, Index, Read),
    /// d = colour of meter array a at b; unchanged if out of bounds
    MeterExecute(ReadWrite, Index, Read),
    /// d = the value of calculation a, all 64 bits
    Hash(Write, Index, None),
    /// d = a random number from a to b; unchanged if the range is empty
    Random(ReadWrite, Read, Read),

    /// makes the header at base a valid; b: index into side table `header_ops`
    SetValid(None, Read, Index),
    /// makes the header at base a invalid; b: index into side table `header_ops`
    SetInvalid(None, Read, Index),
    /// header at base d = header at base a; b: index into side table `header_ops`
    CopyHeader(Read, Read, Index),
    /// inserts `slot b` invalid headers at the front of stack a
    Push(None, Index, Read),
    /// removes `slot b` headers from the front of stack a
    Pop(None, Index, Read),
    /// next index and headers of stack d = those of stack a
    CopyStack(Index, Index, None),
    /// d = first slot of element `slot b` of stack a; the dummy block if out of bounds
    StackAt(Write, Index, Read),
    /// d = first slot of the last element extracted to stack a; the dummy block if the stack is empty
    StackLast(Write, Index, None),
    /// d = the slot with index `slot a` + b
    LoadAt(Write, Read, Index),
    /// the slot with index `slot d` + b = a
    StoreAt(Read, Read, Index),

    /// truncate the frame to `slot a` bytes
    Truncate(None, Read, None),
    /// `log_msg`: index a of side table `logs`
    Log(None, Index, None),
    /// `assert` or `assume`: drops the packet if a is 0; b: index of side table `assertions`
    Assert(None, Read, Index),
}

impl Op {
    /// Returns an operation that truncates its result to `bits` bits; 64 keeps all. 0 counts as 1: `clear_high` must be
    /// below 64.
    pub(crate) fn new(opcode: Opcode, bits: u8, d: u16, a: u16, b: u16) -> Op {
        Op { opcode, clear_high: 64u8.saturating_sub(bits.max(1)), d, a, b }
    }
    /// Truncates the result to `bits` bits, unless it already has fewer.
    pub(crate) fn truncate_result(&mut self, bits: u8) {
        self.clear_high = self.clear_high.max(64u8.saturating_sub(bits.max(1)));
    }
    /// Returns the operands with their roles, in the order `d`, `a`, `b`.
    pub(crate) fn operands(&mut self) -> [(OperandRole, &mut u16); 3] {
        let [d, a, b] = self.opcode.roles();
        [(d, &mut self.d), (a, &mut self.a), (b, &mut self.b)]
    }
}

/// A number in consecutive slots, least significant limb first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WideSlot {
    pub slot: Slot,
    /// Number of slots.
    pub limbs: u16,
    /// If true, the number is sign-extended beyond its limbs, otherwise zero-extended.
    pub signed: bool,
}

/// An operation on wide numbers. `bits` is the width to which `d` is truncated, or the parameter of `Sext`,
/// `SatU` and `SatS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WideOp {
    pub kind: WideOpcode,
    pub bits: u32,
    pub d: WideSlot,
    pub a: WideSlot,
    pub b: WideSlot,
}

/// The operator of a [`WideOp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WideOpcode {
    Mov,
    /// d = a if b is not 0
    MovIf,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    And,
    Or,
    Xor,
    Not,
    Shl,
    Shr,
    /// d = a, sign-extended from `bits` bits
    Sext,
    SatU,
    SatS,
    Eq,
    Ne,
    Lt,
    Le,
    /// d = this register array at index b; unchanged if out of bounds
    RegRead(u16),
    /// this register array at index b = a; nothing if out of bounds
    RegWrite(u16),
    /// d = the slots from index `slot b` + this offset on
    LoadAt(u16),
    /// the slots from index `slot b` + this offset on = a
    StoreAt(u16),
    /// d = a, slot by slot, without truncation
    CopySlots,
    /// d = 1 if a and b are equal, slot by slot
    EqSlots,
    /// d = 1 if the headers at bases a and b, of this many slots, are valid and equal
    EqHeader(u16),
}

/// The layout of a header, for operations that make it valid or invalid or copy it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HeaderInfo {
    /// Number of slots of the block.
    pub slots: u16,
    /// Length in bytes without the varbit field.
    pub bytes: u16,
    /// The slot of the varbit field's length, relative to the block.
    pub varbit_length_slot: Option<u16>,
    /// Offsets in slots from this header's block to those of the other members of its union; empty outside unions.
    pub union_member_offsets: Vec<i32>,
}

/// The arguments of a `log_msg` call.
#[derive(Clone, Debug)]
pub(crate) struct LogMessage {
    pub format: String,
    pub values: Vec<WideSlot>,
}

/// An `assert` or `assume`.
#[derive(Debug)]
pub(crate) struct Assertion {
    /// The location and text in the P4 source, such as `main.p4:8: assert(h.ttl > 0)`. If p4c recorded none: the
    /// primitive and its action, such as `assert in MyIngress.set_ttl`.
    pub text: String,
    /// True after the first failure on any switch with this program: only that one is logged.
    pub is_reported: AtomicBool,
}

/// Code that computes a value (a condition, a length, an error code), and the slot that holds it afterwards.
/// Without code the slot already holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ComputedSlot {
    pub code: Option<Pc>,
    pub slot: Slot,
}

/// A position in the code at which the tracer reports a condition or a hidden table.
#[derive(Clone, Debug)]
pub(crate) enum TracePoint {
    /// A condition begins here. If it holds, control reaches `end`.
    Condition { name: String, end: Pc },
    /// A hidden table begins here: its action is inlined, so no `ApplyTable` reports it.
    Table(TableId),
}
