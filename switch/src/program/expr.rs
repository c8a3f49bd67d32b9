//! Loads expressions from the JSON as checked, typed trees. `codegen` lowers them to code.

use super::error::LoadError;
use super::externs::RegisterArray;
use super::json::{BigInt, JsonNode};
use super::layout::{HeaderId, Layout, SlotRef};
use super::op::Slot;

/// A numeric expression. Values are unbounded integers, as in BMv2.
#[derive(Clone, Debug)]
pub(crate) enum NumExpr {
    Const(BigInt),
    Slot(SlotRef),
    /// A field of a header that is known only at run time.
    Field {
        header: Box<HeaderExpr>,
        field: FieldRef,
    },
    /// A cell of the register array with index `array`.
    Register {
        array: u16,
        index: Box<NumExpr>,
    },
    Binary(BinOp, Box<NumExpr>, Box<NumExpr>),
    Not(Box<NumExpr>),
    /// The lowest bits of a number, as many as given, read as a number in two's complement.
    SignedWrap(Box<NumExpr>, u32),
    /// A number saturated to the range of an unsigned number of this many bits.
    SatU(Box<NumExpr>, u32),
    /// A number saturated to the range of a signed number of this many bits.
    SatS(Box<NumExpr>, u32),
    Select(Box<BoolExpr>, Box<NumExpr>, Box<NumExpr>),
    FromBool(Box<BoolExpr>),
    /// The `nextIndex` of the stack with index `stack`, plus `add`.
    StackIndex {
        stack: usize,
        add: i8,
    },
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
    Select(Box<BoolExpr>, Box<BoolExpr>, Box<BoolExpr>),
    /// Equality of two varbit fields that begin at slots `left` and `right`.
    VarbitEq {
        left: Slot,
        right: Slot,
        slot_count: u16,
    },
    Valid(HeaderExpr),
    ValidUnion(UnionExpr),
    HeaderEq(HeaderExpr, HeaderExpr),
    UnionEq(UnionExpr, UnionExpr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CmpOp {
    Eq,
    Lt,
    Le,
}

/// An expression of header type. Stacks, unions and members are given by their indices in the [`Layout`].
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
    StackElement(usize, Box<NumExpr>),
}

impl HeaderExpr {
    /// Returns the index of the header type.
    pub(crate) fn ty(&self, layout: &Layout) -> usize {
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
    pub(crate) fn members(&self, layout: &Layout) -> Vec<(u16, usize)> {
        match self {
            UnionExpr::StackElement(stack, _) => layout.stacks[*stack].member_blocks.clone(),
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
    pub(crate) fn num(&self, node: &JsonNode) -> Result<NumExpr, LoadError> {
        self.as_num(node, self.expr(node)?)
    }
    /// Loads a boolean expression; a number is true unless it is 0.
    pub(crate) fn bool(&self, node: &JsonNode) -> Result<BoolExpr, LoadError> {
        self.as_bool(node, self.expr(node)?)
    }
    pub(crate) fn header(&self, node: &JsonNode) -> Result<HeaderExpr, LoadError> {
        self.as_header(node, self.expr(node)?)
    }
    pub(crate) fn union(&self, node: &JsonNode) -> Result<UnionExpr, LoadError> {
        self.as_union(node, self.expr(node)?)
    }

    fn as_num(&self, node: &JsonNode, expr: Expr) -> Result<NumExpr, LoadError> {
        match expr {
            Expr::Num(num) => Ok(num),
            Expr::Bool(value) => Ok(NumExpr::FromBool(Box::new(value))),
            _ => node.err("expected a number, found a header"),
        }
    }
    fn as_bool(&self, node: &JsonNode, expr: Expr) -> Result<BoolExpr, LoadError> {
        match expr {
            Expr::Bool(value) => Ok(value),
            Expr::Num(num) => Ok(BoolExpr::NotZero(num)),
            _ => node.err("expected a boolean, found a header"),
        }
    }
    fn as_header(&self, node: &JsonNode, expr: Expr) -> Result<HeaderExpr, LoadError> {
        match expr {
            Expr::Header(header) => Ok(header),
            _ => node.err("expected a header"),
        }
    }
    fn as_union(&self, node: &JsonNode, expr: Expr) -> Result<UnionExpr, LoadError> {
        match expr {
            Expr::Union(union) => Ok(union),
            _ => node.err("expected a header union"),
        }
    }

    fn stack_field(&self, node: &JsonNode) -> Result<NumExpr, LoadError> {
        let [stack, field] = node.tuple()?;
        let stack = self.layout.stack_index(&stack)?;
        self.field_of_header(&field, HeaderExpr::StackLast(stack), |ty| {
            self.layout.types[ty].field_index(&field)
        })
    }

    /// Returns a field of a header. `find` returns its index in the header type with the given index.
    fn field_of_header(
        &self,
        node: &JsonNode,
        header: HeaderExpr,
        find: impl FnOnce(usize) -> Result<usize, LoadError>,
    ) -> Result<NumExpr, LoadError> {
        let ty = header.ty(self.layout);
        let field = find(ty)?;
        match self.layout.types[ty].fields.get(field) {
            Some(found) if !found.is_varbit => {}
            Some(_) => return node.err("a varbit field cannot be used as a number"),
            None => return node.err("the header has no fields"),
        }
        Ok(NumExpr::Field { header: Box::new(header), field: FieldRef { ty, field } })
    }

    fn param(&self, node: &JsonNode) -> Result<NumExpr, LoadError> {
        let index = node.usize_at_most(usize::MAX)?;
        match self.params.get(index) {
            Some(param) => Ok(param.clone()),
            None => node.err(format_args!(
                "parameter index out of range: the action has {} parameters",
                self.params.len()
            )),
        }
    }

    /// Loads a `{type, value}` object. The recursion is bounded: serde_json limits the nesting of the JSON.
    pub(crate) fn expr(&self, node: &JsonNode) -> Result<Expr, LoadError> {
        let (kind_node, value) = (node.get("type")?, node.get("value")?);
        Ok(match kind_node.str()? {
            "expression" => match value.get_opt("op") {
                Some(_) => self.operation(&value)?,
                // p4c nests expressions without an operator.
                None => self.expr(&value)?,
            },
            "field" => Expr::Num(NumExpr::Slot(self.layout.slot_ref(&value)?)),
            "hexstr" => Expr::Num(NumExpr::Const(self.constant(&value)?)),
            "bool" => Expr::Bool(BoolExpr::Const(value.bool()?)),
            "local" | "runtime_data" => Expr::Num(self.param(&value)?),
            "header" => Expr::Header(HeaderExpr::Static(self.layout.header_id(&value)?)),
            "header_stack" => Expr::Stack(self.layout.stack_index(&value)?),
            "header_union" => Expr::Union(UnionExpr::Static(self.layout.union_index(&value)?)),
            "header_union_stack" => Expr::Stack(self.layout.union_stack_index(&value)?),
            "stack_field" => Expr::Num(self.stack_field(&value)?),
            "register" => {
                let [array, index] = value.tuple()?;
                let register = |name: &str| self.registers.iter().position(|array| array.name == name);
                let register = array.find("register array", register)? as u16;
                let index = self.as_num(&index, self.expr(&index)?)?;
                Expr::Num(NumExpr::Register { array: register, index: Box::new(index) })
            }
            other => return kind_node.err(format_args!("a value of type {other:?} is not supported here")),
        })
    }

    fn constant(&self, node: &JsonNode) -> Result<BigInt, LoadError> {
        let big = node.hex_int()?;
        // Twice the maximum width of a field, as for intermediate results.
        const MAX_CONST_BITS: u32 = 8192;
        if big.bits() > MAX_CONST_BITS {
            return node.err(format_args!("constants of more than {MAX_CONST_BITS} bits are not supported"));
        }
        Ok(big)
    }

    fn operation(&self, node: &JsonNode) -> Result<Expr, LoadError> {
        let op_node = node.get("op")?;
        let operand = |key: &str| self.operand(node, key);
        let number = |key: &str| operand(key).and_then(|(expr, node)| self.as_num(&node, expr));
        let boolean = |key: &str| operand(key).and_then(|(expr, node)| self.as_bool(&node, expr));
        let binary =
            |op| Ok(Expr::Num(NumExpr::Binary(op, Box::new(number("left")?), Box::new(number("right")?))));
        let compare = |op, first: &str, second: &str| {
            Ok(Expr::Bool(BoolExpr::Compare(op, number(first)?, number(second)?)))
        };
        match op_node.str()? {
            "+" if node.get_opt("left").is_none() => Ok(Expr::Num(number("right")?)),
            "-" if node.get_opt("left").is_none() => {
                let zero = NumExpr::Const(BigInt::from_u64(0));
                Ok(Expr::Num(NumExpr::Binary(BinOp::Sub, Box::new(zero), Box::new(number("right")?))))
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
            "~" => Ok(Expr::Num(NumExpr::Not(Box::new(number("right")?)))),
            "<" => compare(CmpOp::Lt, "left", "right"),
            ">" => compare(CmpOp::Lt, "right", "left"),
            "<=" => compare(CmpOp::Le, "left", "right"),
            ">=" => compare(CmpOp::Le, "right", "left"),
            op @ ("==" | "!=") => {
                let equal = match self.varbit_eq(node)? {
                    Some(equal) => equal,
                    None => self.equal(&op_node, operand("left")?, operand("right")?)?,
                };
                Ok(Expr::Bool(if op == "==" { equal } else { BoolExpr::Not(Box::new(equal)) }))
            }
            "and" => Ok(Expr::Bool(BoolExpr::And(Box::new(boolean("left")?), Box::new(boolean("right")?)))),
            "or" => Ok(Expr::Bool(BoolExpr::Or(Box::new(boolean("left")?), Box::new(boolean("right")?)))),
            "not" => Ok(Expr::Bool(BoolExpr::Not(Box::new(boolean("right")?)))),
            "d2b" => Ok(Expr::Bool(BoolExpr::NotZero(number("right")?))),
            "b2d" => Ok(Expr::Num(NumExpr::FromBool(Box::new(boolean("right")?)))),
            "valid" => {
                let (expr, node) = operand("right")?;
                Ok(Expr::Bool(BoolExpr::Valid(self.as_header(&node, expr)?)))
            }
            "valid_union" => {
                let (expr, node) = operand("right")?;
                Ok(Expr::Bool(BoolExpr::ValidUnion(self.as_union(&node, expr)?)))
            }
            op @ ("two_comp_mod" | "usat_cast" | "sat_cast") => {
                self.cast(node, op, Box::new(number("left")?))
            }
            "?" => {
                let cond = Box::new(boolean("cond")?);
                match (operand("left")?, operand("right")?) {
                    ((Expr::Bool(left), _), (Expr::Bool(right), _)) => {
                        Ok(Expr::Bool(BoolExpr::Select(cond, Box::new(left), Box::new(right))))
                    }
                    ((left, left_node), (right, right_node)) => Ok(Expr::Num(NumExpr::Select(
                        cond,
                        Box::new(self.as_num(&left_node, left)?),
                        Box::new(self.as_num(&right_node, right)?),
                    ))),
                }
            }
            op => match self.element(node, op)? {
                Some(element) => Ok(element),
                None => op_node.err(format_args!("operation {op:?} is not supported")),
            },
        }
    }

    /// Loads the operand `key` of an operation. Returns it with its node.
    fn operand<'n>(&self, node: &JsonNode<'n>, key: &str) -> Result<(Expr, JsonNode<'n>), LoadError> {
        let node = node.get_opt(key).ok_or_else(|| node.error(format_args!("{key:?} is missing")))?;
        Ok((self.expr(&node)?, node))
    }

    /// Loads the cast of a number to the width in the right operand.
    fn cast(&self, node: &JsonNode, op: &str, value: Box<NumExpr>) -> Result<Expr, LoadError> {
        let width_node = node.get("right")?;
        let width = match self.as_num(&width_node, self.expr(&width_node)?)? {
            NumExpr::Const(width) => width.to_u64().filter(|width| (1..=4096).contains(width)),
            _ => None,
        };
        let Some(width) = width else {
            return width_node.err("expected a constant width from 1 to 4096");
        };
        Ok(Expr::Num(match op {
            "two_comp_mod" => NumExpr::SignedWrap(value, width as u32),
            "usat_cast" => NumExpr::SatU(value, width as u32),
            _ => NumExpr::SatS(value, width as u32),
        }))
    }

    /// Loads an element of a stack, header or union, or a stack's index; `None` if the operation is another.
    fn element(&self, node: &JsonNode, op: &str) -> Result<Option<Expr>, LoadError> {
        Ok(Some(match op {
            "dereference_header_stack" | "dereference_stack" | "dereference_union_stack" => {
                let (Expr::Stack(stack), stack_node) = self.operand(node, "left")? else {
                    return node.get("left")?.err("expected a header stack");
                };
                let (index, index_node) = self.operand(node, "right")?;
                let index = Box::new(self.as_num(&index_node, index)?);
                let is_union_stack = stack_node.get("type")?.str()? == "header_union_stack";
                match is_union_stack {
                    true => Expr::Union(UnionExpr::StackElement(stack, index)),
                    false => Expr::Header(HeaderExpr::StackElement(stack, index)),
                }
            }
            "last_stack_index" | "size_stack" => {
                // p4c writes the stack as the right operand; the format's documentation has it on the left.
                let key = if node.get_opt("right").is_some() { "right" } else { "left" };
                let (Expr::Stack(stack), _) = self.operand(node, key)? else {
                    return node.get(key)?.err("expected a header stack");
                };
                // `size_stack` is the number of extracted elements, `last_stack_index` one less.
                Expr::Num(NumExpr::StackIndex { stack, add: if op == "size_stack" { 0 } else { -1 } })
            }
            "access_field" => {
                let (expr, header_node) = self.operand(node, "left")?;
                let (header, index) = (self.as_header(&header_node, expr)?, node.get("right")?);
                Expr::Num(self.field_of_header(&index, header, |ty| {
                    index.usize_at_most(self.layout.types[ty].fields.len().saturating_sub(1))
                })?)
            }
            "access_union_header" => {
                let (expr, union_node) = self.operand(node, "left")?;
                let (union, index) = (self.as_union(&union_node, expr)?, node.get("right")?);
                let member = index.usize_at_most(union.members(self.layout).len() - 1)?;
                Expr::Header(HeaderExpr::Member(union, member))
            }
            _ => return Ok(None),
        }))
    }

    /// Loads the comparison of two varbit fields for equality, the only operation on them in expressions. Returns
    /// `None` if neither operand is a varbit field.
    fn varbit_eq(&self, node: &JsonNode) -> Result<Option<BoolExpr>, LoadError> {
        let field = |key: &str| {
            let operand = node.get(key)?;
            if operand.get("type")?.value.as_str() != Some("field") {
                return Ok(None);
            }
            let name = operand.get("value")?;
            let [_, field] = name.tuple()?;
            if field.str()? == "$valid$" {
                return Ok(None);
            }
            let found = self.layout.field(&name)?;
            let info = self.layout.field_info(found);
            Ok(info.is_varbit.then(|| (self.layout.slot(found), info.slot_count)))
        };
        match (field("left")?, field("right")?) {
            (Some((left, slot_count)), Some((right, right_count))) if slot_count == right_count => {
                Ok(Some(BoolExpr::VarbitEq { left, right, slot_count }))
            }
            (None, None) => Ok(None),
            _ => node.err("a varbit field can only be compared with one of the same maximum width"),
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
                BoolExpr::UnionEq(left, right)
            }
            _ => return op.err("the operands have different types"),
        })
    }
}

impl NumExpr {
    /// Returns a constant from limbs, least significant first.
    pub(crate) fn from_limbs(limbs: &[u64]) -> NumExpr {
        NumExpr::Const(BigInt::from_limbs(limbs))
    }
}
