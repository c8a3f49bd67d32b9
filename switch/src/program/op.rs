//! The flat code a program is compiled to: three-address operations over the slots of the header vector.

/// Index of a 64-bit slot of the header vector.
pub(crate) type Slot = u16;
/// Index into the code.
pub(crate) type Pc = u16;

/// One operation. The meaning of `d`, `a` and `b` (a slot, an index, a jump target) depends on `code`, see
/// [`Opcode::roles`]. The upper `clear_high` bits of the result are cut off, so `clear_high` is a shift count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub code: Opcode,
    pub clear_high: u8,
    pub d: u16,
    pub a: u16,
    pub b: u16,
}

/// The use of an operand: by it [`Op`]s are relocated, and their reads and writes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperandRole {
    /// Not used.
    None,
    /// A slot that is read.
    Read,
    /// A slot that is written.
    Write,
    /// A slot that is read and written.
    ReadWrite,
    /// An index into a side table, or a plain number.
    Index,
    /// A jump target.
    Target,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident($d:ident, $a:ident, $b:ident),)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Opcode {
            $($(#[doc = $doc])* $name,)*
        }
        impl Opcode {
            /// Returns the roles of `d`, `a` and `b`.
            pub fn roles(self) -> [OperandRole; 3] {
                match self {
                    $(Opcode::$name => [OperandRole::$d, OperandRole::$a, OperandRole::$b],)*
                }
            }
        }
    };
}

codes! {
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
    /// d = a << b; 0 from 64 on
    Shl(Write, Read, Read),
    /// d = a >> b, unsigned; 0 from 64 on
    Shr(Write, Read, Read),
    /// d = a >> b, signed; the sign from 64 on
    Sar(Write, Read, Read),
    /// d = a sign-extended from w bits
    Sext(Write, Read, None),
    /// d = a, a signed number, held to the range of an unsigned one of w bits
    SatU(Write, Read, None),
    /// d = a, a signed number, held to the range of a signed one of w bits
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
    /// An operation on numbers wider than a slot: side table `wide`
    Wide(Index, None, None),

    /// go to d
    Jump(Target, None, None),
    /// go to d, backwards: costs a of [`LOOP_BUDGET`](super::LOOP_BUDGET), so that every packet comes to an end
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
    /// apply table a, then go to where it says
    ApplyTable(None, Index, None),
    /// back to the table that called this action
    Return(None, None, None),
    /// the end of the pipeline, or of a piece of code run by itself
    End(None, None, None),
    /// the end of the pipeline if `exit` was called
    EndIfExit(None, Read, None),

    /// d = register array a at b; unchanged if out of bounds
    RegRead(ReadWrite, Index, Read),
    /// register array a at b = slot d; nothing if out of bounds
    RegWrite(Read, Index, Read),
    /// counter array a at b counts
    CounterCount(None, Index, Read),
    /// d = colour of meter array a at b; unchanged if out of bounds
    MeterExecute(ReadWrite, Index, Read),
    /// d = the value of calculation a, all 64 bits
    Hash(Write, Index, None),
    /// d = a random number from a to b; unchanged if there is none
    Random(ReadWrite, Read, Read),

    /// makes the header at base a valid; b: side table `header_ops`
    SetValid(None, Read, Index),
    /// makes the header at base a invalid; b: side table `header_ops`
    SetInvalid(None, Read, Index),
    /// header at base d = header at base a; b: side table `header_ops`
    CopyHeader(Read, Read, Index),
    /// makes room for `slot b` headers at the front of stack a
    Push(None, Index, Read),
    /// drops `slot b` headers from the front of stack a
    Pop(None, Index, Read),
    /// stack d's counter and headers = stack a's
    CopyStack(Index, Index, None),
    /// d = base of header `slot b` of stack a; the spare header if there is none
    StackAt(Write, Index, Read),
    /// d = base of the last header extracted to stack a; the spare header if there is none
    StackLast(Write, Index, None),
    /// d = slot at base a, b further
    LoadAt(Write, Read, Index),
    /// slot at base d, b further = a
    StoreAt(Read, Read, Index),

    /// frame cut to `slot a` bytes
    Truncate(None, Read, None),
    /// `log_msg`: side table `logs`
    Log(None, Index, None),
    /// `assert`, `assume` of a, in action b
    Assert(None, Read, Index),
}

impl Op {
    /// Returns an operation whose result is cut to this many bits.
    pub fn new(code: Opcode, bits: u8, d: u16, a: u16, b: u16) -> Op {
        Op { code, clear_high: 64u8.saturating_sub(bits.max(1)), d, a, b }
    }
    /// Cuts the result to this many bits, if it has more.
    pub fn truncate_result(&mut self, bits: u8) {
        self.clear_high = self.clear_high.max(64u8.saturating_sub(bits.max(1)));
    }
    /// Returns the operands with their roles, to be read or changed.
    pub fn operands(&mut self) -> [(OperandRole, &mut u16); 3] {
        let [d, a, b] = self.code.roles();
        [(d, &mut self.d), (a, &mut self.a), (b, &mut self.b)]
    }
}

/// A number of several limbs in consecutive slots, least significant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WideSlot {
    pub slot: Slot,
    pub limbs: u16,
    /// If true, limbs beyond these repeat the sign.
    pub signed: bool,
}

/// An operation on wide numbers; `d` is cut to `bits`.
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
    /// sign-extended from `bits`
    Sext,
    SatU,
    SatS,
    Eq,
    Ne,
    Lt,
    Le,
    /// d = this register array at b; unchanged if out of bounds
    RegRead(u16),
    /// this register array at b = a
    RegWrite(u16),
    /// d = slots at base b, this much further
    LoadAt(u16),
    /// slots at base b, this much further = a
    StoreAt(u16),
    /// d = a, slot by slot
    CopySlots,
    /// d = a and b are equal, slot by slot
    EqSlots,
    /// d = the headers at bases a and b, of this many slots, are valid and equal
    EqHeader(u16),
}

/// The type and place of a header, as operations on headers need them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HeaderInfo {
    /// Slots of its block.
    pub slots: u16,
    /// Bytes it takes on the wire, without its variable part.
    pub bytes: u16,
    /// Relative slot of the length of its variable part.
    pub varbit: Option<u16>,
    /// Offsets of the other members of its union.
    pub siblings: Vec<i32>,
}
