//! Loads expressions from the JSON as checked, typed trees. `codegen` lowers them to code.

use super::externs::RegisterArray;
use super::json::{BigInt, JsonNode};
use super::layout::{Layout, SlotRef};
use super::op::Slot;
use super::{HeaderId, LoadError};

/// A numeric expression. Values are unbounded integers, as in BMv2.
#[derive(Clone, Debug)]
pub(crate) enum NumExpr {
    Const(BigInt),
    Place(SlotRef),
    /// A field of a header that is known only at run time.
    Field(Box<HeaderExpr>, Box<FieldRef>),
    /// The cell of a register array at an index.
    Register(u16, Box<NumExpr>),
    Binary(BinOp, Box<NumExpr>, Box<NumExpr>),
    Not(Box<NumExpr>),
    /// The low bits of a number, this many, as a signed number in two's complement.
    SignedWrap(Box<NumExpr>, u32),
    /// A number saturated to the range of an unsigned number of this many bits.
    SatU(Box<NumExpr>, u32),
    /// A number saturated to the range of a signed number of this many bits.
    SatS(Box<NumExpr>, u32),
    Select(Box<BoolExpr>, Box<NumExpr>, Box<NumExpr>),
    FromBool(Box<BoolExpr>),
    /// The number of elements extracted to a stack, plus a constant.
    StackCount(usize, i8),
}

/// A field of a header type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldRef {
    /// Index of the header type.
    pub ty: usize,
    /// Index of the field in its type.
    pub field: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

/// A boolean expression.
#[derive(Clone, Debug)]
pub(crate) enum BoolExpr {
    Const(bool),
    NotZero(NumExpr),
    Compare(CmpOp, NumExpr, NumExpr),
    And(Box<BoolExpr>, Box<BoolExpr>),
    Or(Box<BoolExpr>, Box<BoolExpr>),
    Not(Box<BoolExpr>),
    Eq(Box<BoolExpr>, Box<BoolExpr>),
    Choose(Box<BoolExpr>, Box<BoolExpr>, Box<BoolExpr>),
    /// Equality of two varbit fields: their first slots and their number of slots.
    SameVarbit(Slot, Slot, u16),
    Valid(HeaderExpr),
    ValidUnion(UnionExpr),
    HeaderEq(HeaderExpr, HeaderExpr),
    SameUnion(UnionExpr, UnionExpr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CmpOp {
    Eq,
    Lt,
    Le,
}

/// An expression of header type. Stacks, unions and members are indices.
#[derive(Clone, Debug)]
pub(crate) enum HeaderExpr {
    Static(HeaderId),
    StackElement(usize, Box<NumExpr>),
    StackLast(usize),
    Member(UnionExpr, usize),
}

/// An expression of header union type.
#[derive(Clone, Debug)]
pub(crate) enum UnionExpr {
    Static(usize),
    At(usize, Box<NumExpr>),
}

impl HeaderExpr {
    /// Returns the index of the header type.
    pub fn ty(&self, layout: &Layout) -> usize {
        match self {
            HeaderExpr::Static(id) => layout.header(*id).ty,
            HeaderExpr::StackElement(stack, _) | HeaderExpr::StackLast(stack) => {
                layout.stacks[*stack].member_blocks[0].1
            }
            HeaderExpr::Member(union, member) => union.members(layout)[*member].1,
        }
    }
}

impl UnionExpr {
    /// Returns for each member the offset of its block from that of the first member, and its header type.
    pub fn members(&self, layout: &Layout) -> Vec<(u16, usize)> {
        match self {
            UnionExpr::At(stack, _) => layout.stacks[*stack].member_blocks.clone(),
            UnionExpr::Static(union) => {
                let headers = &layout.unions[*union].headers;
                let first = layout.header(headers[0]).first_slot;
                let members = headers.iter().map(|id| layout.header(*id));
                members.map(|header| (header.first_slot - first, header.ty)).collect()
            }
        }
    }
}

/// An expression of any type.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Num(NumExpr),
    Bool(BoolExpr),
    Header(HeaderExpr),
    Union(UnionExpr),
    Stack(usize),
}

/// The objects to which the names in an expression refer.
#[derive(Clone, Copy)]
pub(crate) struct Bindings<'p> {
    pub layout: &'p Layout,
    pub registers: &'p [RegisterArray],
    /// The values of the action's parameters (`local` and `runtime_data`).
    pub params: &'p [NumExpr],
}

impl Bindings<'_> {
    /// Loads a numeric expression; a boolean is converted to 0 or 1.
    pub fn num(&self, at: &JsonNode) -> Result<NumExpr, LoadError> {
        self.as_num(at, self.expr(at)?)
    }
    /// Loads a boolean expression; a number is true unless it is 0.
    pub fn bool(&self, at: &JsonNode) -> Result<BoolExpr, LoadError> {
        self.as_bool(at, self.expr(at)?)
    }
    pub fn header(&self, at: &JsonNode) -> Result<HeaderExpr, LoadError> {
        self.as_header(at, self.expr(at)?)
    }
    pub fn union(&self, at: &JsonNode) -> Result<UnionExpr, LoadError> {
        self.as_union(at, self.expr(at)?)
    }

    fn as_num(&self, at: &JsonNode, expr: Expr) -> Result<NumExpr, LoadError> {
        match expr {
            Expr::Num(num) => Ok(num),
            Expr::Bool(value) => Ok(NumExpr::FromBool(Box::new(value))),
            _ => at.err("expected a number, found a header"),
        }
    }
    fn as_bool(&self, at: &JsonNode, expr: Expr) -> Result<BoolExpr, LoadError> {
        match expr {
            Expr::Bool(value) => Ok(value),
            Expr::Num(num) => Ok(BoolExpr::NotZero(num)),
            _ => at.err("expected a boolean, found a header"),
        }
    }
    fn as_header(&self, at: &JsonNode, expr: Expr) -> Result<HeaderExpr, LoadError> {
        match expr {
            Expr::Header(header) => Ok(header),
            _ => at.err("expected a header"),
        }
    }
    fn as_union(&self, at: &JsonNode, expr: Expr) -> Result<UnionExpr, LoadError> {
        match expr {
            Expr::Union(union) => Ok(union),
            _ => at.err("expected a header union"),
        }
    }

    fn stack_field(&self, at: &JsonNode) -> Result<NumExpr, LoadError> {
        let [stack, field] = at.tuple()?;
        let stack = self.layout.stack(&stack)?;
        self.header_field(&field, HeaderExpr::StackLast(stack), |ty| self.layout.types[ty].field(&field))
    }

    fn header_field(
        &self,
        at: &JsonNode,
        header: HeaderExpr,
        find: impl FnOnce(usize) -> Result<usize, LoadError>,
    ) -> Result<NumExpr, LoadError> {
        let ty = header.ty(self.layout);
        let field = find(ty)?;
        match self.layout.types[ty].fields.get(field) {
            Some(found) if !found.varbit => {}
            Some(_) => return at.err("a varbit field cannot be used as a number"),
            None => return at.err("the header has no fields"),
        }
        Ok(NumExpr::Field(Box::new(header), Box::new(FieldRef { ty, field })))
    }

    fn param(&self, at: &JsonNode) -> Result<NumExpr, LoadError> {
        let index = at.usize_at_most(usize::MAX)?;
        match self.params.get(index) {
            Some(param) => Ok(param.clone()),
            None => at.err(format_args!(
                "parameter index out of range: the action has {} parameters",
                self.params.len()
            )),
        }
    }

    /// Loads a `{type, value}` object. The recursion is bounded by serde_json's limit of nesting.
    pub fn expr(&self, at: &JsonNode) -> Result<Expr, LoadError> {
        let (kind_at, value) = (at.get("type")?, at.get("value")?);
        Ok(match kind_at.str()? {
            "expression" => match value.get_opt("op") {
                Some(_) => self.lower_operator(&value)?,
                // p4c nests expressions without an operator.
                None => self.expr(&value)?,
            },
            "field" => Expr::Num(NumExpr::Place(self.layout.slot_ref(&value)?)),
            "hexstr" => Expr::Num(NumExpr::Const(self.constant(&value)?)),
            "bool" => Expr::Bool(BoolExpr::Const(value.bool()?)),
            "local" | "runtime_data" => Expr::Num(self.param(&value)?),
            "header" => Expr::Header(HeaderExpr::Static(self.layout.header_id(&value)?)),
            "header_stack" => Expr::Stack(self.layout.stack(&value)?),
            "header_union" => Expr::Union(UnionExpr::Static(self.layout.union(&value)?)),
            "header_union_stack" => Expr::Stack(self.layout.union_stack(&value)?),
            "stack_field" => Expr::Num(self.stack_field(&value)?),
            "register" => {
                let [array, index] = value.tuple()?;
                let register = |name: &str| self.registers.iter().position(|array| array.name == name);
                let register = array.find("register array", register)? as u16;
                let index = self.as_num(&index, self.expr(&index)?)?;
                Expr::Num(NumExpr::Register(register, Box::new(index)))
            }
            other => return kind_at.err(format_args!("a value of type {other:?} is not supported here")),
        })
    }

    fn constant(&self, at: &JsonNode) -> Result<BigInt, LoadError> {
        let big = at.hex_int()?;
        const MAX_CONST_BITS: u32 = 8192;
        if big.bits() > MAX_CONST_BITS {
            return at.err(format_args!("constants of more than {MAX_CONST_BITS} bits are not supported"));
        }
        Ok(big)
    }

    fn lower_operator(&self, at: &JsonNode) -> Result<Expr, LoadError> {
        let op_at = at.get("op")?;
        let side = |key: &str| {
            let at = at.get_opt(key).ok_or_else(|| at.error(format_args!("{key:?} is missing")))?;
            Ok((self.expr(&at)?, at))
        };
        let num = |key: &str| side(key).and_then(|(expr, at)| self.as_num(&at, expr));
        let truth = |key: &str| side(key).and_then(|(expr, at)| self.as_bool(&at, expr));
        let binary = |op| Ok(Expr::Num(NumExpr::Binary(op, Box::new(num("left")?), Box::new(num("right")?))));
        let compare = |op, swap: bool| {
            let (left, right) = (num("left")?, num("right")?);
            let (left, right) = if swap { (right, left) } else { (left, right) };
            Ok(Expr::Bool(BoolExpr::Compare(op, left, right)))
        };
        match op_at.str()? {
            "+" if at.get_opt("left").is_none() => Ok(Expr::Num(num("right")?)),
            "-" if at.get_opt("left").is_none() => {
                let zero = NumExpr::Const(BigInt::from_u64(0));
                Ok(Expr::Num(NumExpr::Binary(BinOp::Sub, Box::new(zero), Box::new(num("right")?))))
            }
            "+" => binary(BinOp::Add),
            "-" => binary(BinOp::Sub),
            "*" => binary(BinOp::Mul),
            "/" => binary(BinOp::Div),
            "%" => binary(BinOp::Mod),
            "&" => binary(BinOp::And),
            "|" => binary(BinOp::Or),
            "^" => binary(BinOp::Xor),
            "<<" => binary(BinOp::Shl),
            ">>" => binary(BinOp::Shr),
            "~" => Ok(Expr::Num(NumExpr::Not(Box::new(num("right")?)))),
            "<" => compare(CmpOp::Lt, false),
            ">" => compare(CmpOp::Lt, true),
            "<=" => compare(CmpOp::Le, false),
            ">=" => compare(CmpOp::Le, true),
            op @ ("==" | "!=") => {
                let equal = match self.same_varbit(at)? {
                    Some(equal) => equal,
                    None => self.equal(&op_at, side("left")?, side("right")?)?,
                };
                Ok(Expr::Bool(if op == "==" { equal } else { BoolExpr::Not(Box::new(equal)) }))
            }
            "and" => Ok(Expr::Bool(BoolExpr::And(Box::new(truth("left")?), Box::new(truth("right")?)))),
            "or" => Ok(Expr::Bool(BoolExpr::Or(Box::new(truth("left")?), Box::new(truth("right")?)))),
            "not" => Ok(Expr::Bool(BoolExpr::Not(Box::new(truth("right")?)))),
            "d2b" => Ok(Expr::Bool(BoolExpr::NotZero(num("right")?))),
            "b2d" => Ok(Expr::Num(NumExpr::FromBool(Box::new(truth("right")?)))),
            "valid" => {
                let (expr, at) = side("right")?;
                Ok(Expr::Bool(BoolExpr::Valid(self.as_header(&at, expr)?)))
            }
            "valid_union" => {
                let (expr, at) = side("right")?;
                Ok(Expr::Bool(BoolExpr::ValidUnion(self.as_union(&at, expr)?)))
            }
            op @ ("two_comp_mod" | "usat_cast" | "sat_cast") => {
                let value = Box::new(num("left")?);
                let width_at = at.get("right")?;
                let width = match self.as_num(&width_at, self.expr(&width_at)?)? {
                    NumExpr::Const(width) => width.to_u64().filter(|width| (1..=4096).contains(width)),
                    _ => None,
                };
                let Some(width) = width else {
                    return width_at.err("expected a constant width from 1 to 4096");
                };
                Ok(Expr::Num(match op {
                    "two_comp_mod" => NumExpr::SignedWrap(value, width as u32),
                    "usat_cast" => NumExpr::SatU(value, width as u32),
                    _ => NumExpr::SatS(value, width as u32),
                }))
            }
            "?" => {
                let cond = Box::new(truth("cond")?);
                match (side("left")?, side("right")?) {
                    ((Expr::Bool(left), _), (Expr::Bool(right), _)) => {
                        Ok(Expr::Bool(BoolExpr::Choose(cond, Box::new(left), Box::new(right))))
                    }
                    ((left, left_at), (right, right_at)) => Ok(Expr::Num(NumExpr::Select(
                        cond,
                        Box::new(self.as_num(&left_at, left)?),
                        Box::new(self.as_num(&right_at, right)?),
                    ))),
                }
            }
            "dereference_header_stack" | "dereference_stack" | "dereference_union_stack" => {
                let (Expr::Stack(stack), stack_at) = side("left")? else {
                    return at.get("left")?.err("expected a header stack");
                };
                let index = Box::new(num("right")?);
                let of_unions = stack_at.get("type")?.str()? == "header_union_stack";
                Ok(match of_unions {
                    true => Expr::Union(UnionExpr::At(stack, index)),
                    false => Expr::Header(HeaderExpr::StackElement(stack, index)),
                })
            }
            op @ ("last_stack_index" | "size_stack") => {
                // p4c writes the stack as the right operand; the format's documentation has it on the left.
                let key = if at.get_opt("right").is_some() { "right" } else { "left" };
                let (Expr::Stack(stack), _) = side(key)? else {
                    return at.get(key)?.err("expected a header stack");
                };
                Ok(Expr::Num(NumExpr::StackCount(stack, if op == "size_stack" { 0 } else { -1 })))
            }
            "access_field" => {
                let (expr, header_at) = side("left")?;
                let (header, index) = (self.as_header(&header_at, expr)?, at.get("right")?);
                let field = self.header_field(&index, header, |ty| {
                    index.usize_at_most(self.layout.types[ty].fields.len().saturating_sub(1))
                })?;
                Ok(Expr::Num(field))
            }
            "access_union_header" => {
                let (expr, union_at) = side("left")?;
                let (union, index) = (self.as_union(&union_at, expr)?, at.get("right")?);
                let member = index.usize_at_most(union.members(self.layout).len() - 1)?;
                Ok(Expr::Header(HeaderExpr::Member(union, member)))
            }
            other => op_at.err(format_args!("operation {other:?} is not supported")),
        }
    }

    /// Loads an equality of two varbit fields, the only operation on them in expressions. `None` if neither
    /// operand is a varbit field.
    fn same_varbit(&self, at: &JsonNode) -> Result<Option<BoolExpr>, LoadError> {
        let field = |key: &str| {
            let side = at.get(key)?;
            if side.get("type")?.value.as_str() != Some("field") {
                return Ok(None);
            }
            let name = side.get("value")?;
            let [_, field] = name.tuple()?;
            if field.str()? == "$valid$" {
                return Ok(None);
            }
            let found = self.layout.field(&name)?;
            let field = self.layout.field_type(found);
            Ok(field.varbit.then(|| (self.layout.slot(found), field.limbs)))
        };
        match (field("left")?, field("right")?) {
            (Some((left, limbs)), Some((right, others))) if limbs == others => {
                Ok(Some(BoolExpr::SameVarbit(left, right, limbs)))
            }
            (None, None) => Ok(None),
            _ => at.err("a varbit field can only be compared with one of the same maximum width"),
        }
    }

    fn equal(
        &self,
        op: &JsonNode,
        left: (Expr, JsonNode),
        right: (Expr, JsonNode),
    ) -> Result<BoolExpr, LoadError> {
        Ok(match (left.0, right.0) {
            (Expr::Num(left), Expr::Num(right)) => BoolExpr::Compare(CmpOp::Eq, left, right),
            (Expr::Bool(left), Expr::Bool(right)) => BoolExpr::Eq(Box::new(left), Box::new(right)),
            (Expr::Header(left), Expr::Header(right)) => {
                if left.ty(self.layout) != right.ty(self.layout) {
                    return op.err("the headers have different types");
                }
                BoolExpr::HeaderEq(left, right)
            }
            (Expr::Union(left), Expr::Union(right)) => {
                if left.members(self.layout).len() != right.members(self.layout).len() {
                    return op.err("the unions have different types");
                }
                BoolExpr::SameUnion(left, right)
            }
            _ => return op.err("the operands have different types"),
        })
    }
}

impl NumExpr {
    /// Returns a constant from limbs, least significant first.
    pub fn limbs(limbs: &[u64]) -> NumExpr {
        NumExpr::Const(BigInt::from_limbs(limbs))
    }
}
