//! Expressions as the JSON has them, checked and resolved to a typed tree; code is made of it in `asm`.

use super::array::RegisterArray;
use super::json::{At, Big};
use super::layout::{Layout, Place};
use super::op::Slot;
use super::{HeaderId, LoadError};

/// An expression that is a number.
#[derive(Clone, Debug)]
pub(crate) enum Num {
    Const(Big),
    Place(Place),
    /// A field of a header that is found at run time.
    Field(Box<HeaderExpr>, Box<FieldAt>),
    Register(u16, Box<Num>),
    Binary(NumOp, Box<Num>, Box<Num>),
    Not(Box<Num>),
    /// Two's complement of this many bits, as a signed number.
    Wrap(Box<Num>, u32),
    /// Held to the range of an unsigned number of this many bits.
    SatU(Box<Num>, u32),
    /// Held to the range of a signed number of this many bits.
    SatS(Box<Num>, u32),
    Choose(Box<Bool>, Box<Num>, Box<Num>),
    FromBool(Box<Bool>),
    /// The number of elements of a stack, plus this.
    StackCount(usize, i8),
}

/// A field relative to its header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldAt {
    pub ty: usize,
    pub field: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumOp {
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

/// An expression that is true or false.
#[derive(Clone, Debug)]
pub(crate) enum Bool {
    Const(bool),
    NotZero(Num),
    Compare(CmpOp, Num, Num),
    And(Box<Bool>, Box<Bool>),
    Or(Box<Bool>, Box<Bool>),
    Not(Box<Bool>),
    /// Both are equal.
    Same(Box<Bool>, Box<Bool>),
    Choose(Box<Bool>, Box<Bool>, Box<Bool>),
    /// Two fields of variable width, by their slots and how many they take.
    SameVarbit(Slot, Slot, u16),
    Valid(HeaderExpr),
    ValidUnion(UnionExpr),
    SameHeader(HeaderExpr, HeaderExpr),
    SameUnion(UnionExpr, UnionExpr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CmpOp {
    Eq,
    Lt,
    Le,
}

/// An expression that is a header.
#[derive(Clone, Debug)]
pub(crate) enum HeaderExpr {
    Static(HeaderId),
    At(usize, Box<Num>),
    Last(usize),
    Member(UnionExpr, usize),
}

/// An expression that is a header union.
#[derive(Clone, Debug)]
pub(crate) enum UnionExpr {
    Static(usize),
    At(usize, Box<Num>),
}

impl HeaderExpr {
    /// Returns the index of its type.
    pub fn ty(&self, layout: &Layout) -> usize {
        match self {
            HeaderExpr::Static(id) => layout.header(*id).ty,
            HeaderExpr::At(stack, _) | HeaderExpr::Last(stack) => layout.stacks[*stack].blocks[0].1,
            HeaderExpr::Member(union, member) => union.members(layout)[*member].1,
        }
    }
}

impl UnionExpr {
    /// Returns the offsets of its members from its own block, and their types.
    pub fn members(&self, layout: &Layout) -> Vec<(u16, usize)> {
        match self {
            UnionExpr::At(stack, _) => layout.stacks[*stack].blocks.clone(),
            UnionExpr::Static(union) => {
                let headers = &layout.unions[*union].headers;
                let first = layout.header(headers[0]).base;
                let members = headers.iter().map(|id| layout.header(*id));
                members.map(|header| (header.base - first, header.ty)).collect()
            }
        }
    }
}

/// Any expression.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Num(Num),
    Bool(Bool),
    Header(HeaderExpr),
    Union(UnionExpr),
    Stack(usize),
}

/// The meaning of the names in an expression.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'p> {
    pub layout: &'p Layout,
    pub registers: &'p [RegisterArray],
    /// The values of `local` and `runtime_data`.
    pub params: &'p [Num],
}

impl Scope<'_> {
    /// Returns a number; a boolean counts as 0 or 1.
    pub fn num(&self, at: &At) -> Result<Num, LoadError> {
        self.as_num(at, self.expr(at)?)
    }
    /// Returns a truth value; a number counts as true unless it is 0.
    pub fn bool(&self, at: &At) -> Result<Bool, LoadError> {
        self.as_bool(at, self.expr(at)?)
    }
    pub fn header(&self, at: &At) -> Result<HeaderExpr, LoadError> {
        self.as_header(at, self.expr(at)?)
    }
    pub fn union(&self, at: &At) -> Result<UnionExpr, LoadError> {
        self.as_union(at, self.expr(at)?)
    }

    fn as_num(&self, at: &At, expr: Expr) -> Result<Num, LoadError> {
        match expr {
            Expr::Num(num) => Ok(num),
            Expr::Bool(value) => Ok(Num::FromBool(Box::new(value))),
            _ => at.fail("expected a number, found a header"),
        }
    }
    fn as_bool(&self, at: &At, expr: Expr) -> Result<Bool, LoadError> {
        match expr {
            Expr::Bool(value) => Ok(value),
            Expr::Num(num) => Ok(Bool::NotZero(num)),
            _ => at.fail("expected a truth value, found a header"),
        }
    }
    fn as_header(&self, at: &At, expr: Expr) -> Result<HeaderExpr, LoadError> {
        match expr {
            Expr::Header(header) => Ok(header),
            _ => at.fail("expected a header"),
        }
    }
    fn as_union(&self, at: &At, expr: Expr) -> Result<UnionExpr, LoadError> {
        match expr {
            Expr::Union(union) => Ok(union),
            _ => at.fail("expected a header union"),
        }
    }

    fn stack_field(&self, at: &At) -> Result<Num, LoadError> {
        let [stack, field] = at.tuple()?;
        let stack = self.layout.stack(&stack)?;
        self.field_of(&field, HeaderExpr::Last(stack), |ty| self.layout.types[ty].field(&field))
    }

    fn field_of(
        &self,
        at: &At,
        header: HeaderExpr,
        find: impl FnOnce(usize) -> Result<usize, LoadError>,
    ) -> Result<Num, LoadError> {
        let ty = header.ty(self.layout);
        let field = find(ty)?;
        match self.layout.types[ty].fields.get(field) {
            Some(found) if !found.varbit => {}
            Some(_) => return at.fail("a field of variable width cannot be used as a number"),
            None => return at.fail("the header has no fields"),
        }
        Ok(Num::Field(Box::new(header), Box::new(FieldAt { ty, field })))
    }

    fn param(&self, at: &At) -> Result<Num, LoadError> {
        let index = at.size(usize::MAX)?;
        match self.params.get(index) {
            Some(param) => Ok(param.clone()),
            None => at.fail(format_args!("the action has {} parameters only", self.params.len())),
        }
    }

    /// Any `{type, value}` object. The recursion is bounded by the nesting that serde_json accepts.
    pub fn expr(&self, at: &At) -> Result<Expr, LoadError> {
        let (kind_at, value) = (at.get("type")?, at.get("value")?);
        Ok(match kind_at.str()? {
            "expression" => match value.opt("op") {
                Some(_) => self.operation(&value)?,
                // p4c wraps expressions in expressions.
                None => self.expr(&value)?,
            },
            "field" => Expr::Num(Num::Place(self.layout.place(&value)?)),
            "hexstr" => Expr::Num(Num::Const(self.constant(&value)?)),
            "bool" => Expr::Bool(Bool::Const(value.bool()?)),
            "local" | "runtime_data" => Expr::Num(self.param(&value)?),
            "header" => Expr::Header(HeaderExpr::Static(self.layout.header_id(&value)?)),
            "header_stack" => Expr::Stack(self.layout.stack(&value)?),
            "header_union" => Expr::Union(UnionExpr::Static(self.layout.union(&value)?)),
            "header_union_stack" => Expr::Stack(self.layout.union_stack(&value)?),
            "stack_field" => Expr::Num(self.stack_field(&value)?),
            "register" => {
                let [array, index] = value.tuple()?;
                let register = |name: &str| self.registers.iter().position(|it| it.name == name);
                let register = array.find("register array", register)? as u16;
                let index = self.as_num(&index, self.expr(&index)?)?;
                Expr::Num(Num::Register(register, Box::new(index)))
            }
            other => return kind_at.fail(format_args!("a value of type {other:?} is not supported here")),
        })
    }

    fn constant(&self, at: &At) -> Result<Big, LoadError> {
        let big = at.hex()?;
        const MAX_CONST_BITS: u32 = 8192;
        if big.bits() > MAX_CONST_BITS {
            return at.fail(format_args!("constants of more than {MAX_CONST_BITS} bits are not supported"));
        }
        Ok(big)
    }

    fn operation(&self, at: &At) -> Result<Expr, LoadError> {
        let op_at = at.get("op")?;
        let side = |key: &str| {
            let at = at.opt(key).ok_or_else(|| at.error(format_args!("{key:?} is missing")))?;
            Ok((self.expr(&at)?, at))
        };
        let num = |key: &str| side(key).and_then(|(expr, at)| self.as_num(&at, expr));
        let truth = |key: &str| side(key).and_then(|(expr, at)| self.as_bool(&at, expr));
        let binary = |op| Ok(Expr::Num(Num::Binary(op, Box::new(num("left")?), Box::new(num("right")?))));
        let compare = |op, swap: bool| {
            let (left, right) = (num("left")?, num("right")?);
            let (left, right) = if swap { (right, left) } else { (left, right) };
            Ok(Expr::Bool(Bool::Compare(op, left, right)))
        };
        match op_at.str()? {
            "+" if at.opt("left").is_none() => Ok(Expr::Num(num("right")?)),
            "-" if at.opt("left").is_none() => {
                let zero = Num::Const(Big::from_u64(0));
                Ok(Expr::Num(Num::Binary(NumOp::Sub, Box::new(zero), Box::new(num("right")?))))
            }
            "+" => binary(NumOp::Add),
            "-" => binary(NumOp::Sub),
            "*" => binary(NumOp::Mul),
            "/" => binary(NumOp::Div),
            "%" => binary(NumOp::Mod),
            "&" => binary(NumOp::And),
            "|" => binary(NumOp::Or),
            "^" => binary(NumOp::Xor),
            "<<" => binary(NumOp::Shl),
            ">>" => binary(NumOp::Shr),
            "~" => Ok(Expr::Num(Num::Not(Box::new(num("right")?)))),
            "<" => compare(CmpOp::Lt, false),
            ">" => compare(CmpOp::Lt, true),
            "<=" => compare(CmpOp::Le, false),
            ">=" => compare(CmpOp::Le, true),
            op @ ("==" | "!=") => {
                let equal = match self.same_varbit(at)? {
                    Some(equal) => equal,
                    None => self.equal(&op_at, side("left")?, side("right")?)?,
                };
                Ok(Expr::Bool(if op == "==" { equal } else { Bool::Not(Box::new(equal)) }))
            }
            "and" => Ok(Expr::Bool(Bool::And(Box::new(truth("left")?), Box::new(truth("right")?)))),
            "or" => Ok(Expr::Bool(Bool::Or(Box::new(truth("left")?), Box::new(truth("right")?)))),
            "not" => Ok(Expr::Bool(Bool::Not(Box::new(truth("right")?)))),
            "d2b" => Ok(Expr::Bool(Bool::NotZero(num("right")?))),
            "b2d" => Ok(Expr::Num(Num::FromBool(Box::new(truth("right")?)))),
            "valid" => {
                let (expr, at) = side("right")?;
                Ok(Expr::Bool(Bool::Valid(self.as_header(&at, expr)?)))
            }
            "valid_union" => {
                let (expr, at) = side("right")?;
                Ok(Expr::Bool(Bool::ValidUnion(self.as_union(&at, expr)?)))
            }
            op @ ("two_comp_mod" | "usat_cast" | "sat_cast") => {
                let value = Box::new(num("left")?);
                let width_at = at.get("right")?;
                let width = match self.as_num(&width_at, self.expr(&width_at)?)? {
                    Num::Const(width) => width.to_u64().filter(|width| (1..=4096).contains(width)),
                    _ => None,
                };
                let Some(width) = width else {
                    return width_at.fail("expected a constant width from 1 to 4096");
                };
                Ok(Expr::Num(match op {
                    "two_comp_mod" => Num::Wrap(value, width as u32),
                    "usat_cast" => Num::SatU(value, width as u32),
                    _ => Num::SatS(value, width as u32),
                }))
            }
            "?" => {
                let cond = Box::new(truth("cond")?);
                match (side("left")?, side("right")?) {
                    ((Expr::Bool(left), _), (Expr::Bool(right), _)) => {
                        Ok(Expr::Bool(Bool::Choose(cond, Box::new(left), Box::new(right))))
                    }
                    ((left, left_at), (right, right_at)) => Ok(Expr::Num(Num::Choose(
                        cond,
                        Box::new(self.as_num(&left_at, left)?),
                        Box::new(self.as_num(&right_at, right)?),
                    ))),
                }
            }
            "dereference_header_stack" | "dereference_stack" | "dereference_union_stack" => {
                let (Expr::Stack(stack), stack_at) = side("left")? else {
                    return at.get("left")?.fail("expected a header stack");
                };
                let index = Box::new(num("right")?);
                let of_unions = stack_at.get("type")?.str()? == "header_union_stack";
                Ok(match of_unions {
                    true => Expr::Union(UnionExpr::At(stack, index)),
                    false => Expr::Header(HeaderExpr::At(stack, index)),
                })
            }
            op @ ("last_stack_index" | "size_stack") => {
                // p4c writes the stack to the right, the documentation allows the left.
                let key = if at.opt("right").is_some() { "right" } else { "left" };
                let (Expr::Stack(stack), _) = side(key)? else {
                    return at.get(key)?.fail("expected a header stack");
                };
                Ok(Expr::Num(Num::StackCount(stack, if op == "size_stack" { 0 } else { -1 })))
            }
            "access_field" => {
                let (expr, header_at) = side("left")?;
                let (header, index) = (self.as_header(&header_at, expr)?, at.get("right")?);
                let field = self.field_of(&index, header, |ty| {
                    index.size(self.layout.types[ty].fields.len().saturating_sub(1))
                })?;
                Ok(Expr::Num(field))
            }
            "access_union_header" => {
                let (expr, union_at) = side("left")?;
                let (union, index) = (self.as_union(&union_at, expr)?, at.get("right")?);
                let member = index.size(union.members(self.layout).len() - 1)?;
                Ok(Expr::Header(HeaderExpr::Member(union, member)))
            }
            other => op_at.fail(format_args!("operation {other:?} is not supported")),
        }
    }

    /// Returns the one thing that can be done with fields of variable width in an expression.
    fn same_varbit(&self, at: &At) -> Result<Option<Bool>, LoadError> {
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
                Ok(Some(Bool::SameVarbit(left, right, limbs)))
            }
            (None, None) => Ok(None),
            _ => at.fail("a field of variable width can be compared with another of the same width only"),
        }
    }

    fn equal(&self, op: &At, left: (Expr, At), right: (Expr, At)) -> Result<Bool, LoadError> {
        Ok(match (left.0, right.0) {
            (Expr::Num(left), Expr::Num(right)) => Bool::Compare(CmpOp::Eq, left, right),
            (Expr::Bool(left), Expr::Bool(right)) => Bool::Same(Box::new(left), Box::new(right)),
            (Expr::Header(left), Expr::Header(right)) => {
                if left.ty(self.layout) != right.ty(self.layout) {
                    return op.fail("the headers are of different types");
                }
                Bool::SameHeader(left, right)
            }
            (Expr::Union(left), Expr::Union(right)) => {
                if left.members(self.layout).len() != right.members(self.layout).len() {
                    return op.fail("the unions are of different types");
                }
                Bool::SameUnion(left, right)
            }
            _ => return op.fail("the two sides are of different kinds"),
        })
    }
}

impl Num {
    /// Returns a constant given as limbs, least significant first.
    pub fn limbs(limbs: &[u64]) -> Num {
        Num::Const(Big::from_limbs(limbs))
    }
}
