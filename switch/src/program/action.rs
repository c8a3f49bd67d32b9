//! Compiles the primitives of actions, parsers and deparsers to bytecode. A primitive is one statement in BMv2 JSON.

mod externs;

use super::codegen::CodeBuilder;
use super::control_slots::CLONE_SESSION_VALID;
use super::declarations::{Declarations, FieldList};
use super::error::LoadError;
use super::expr::{BinOp, Bindings, BoolExpr, Expr, FieldRef, HeaderExpr, NumExpr, UnionExpr};
use super::header_types::FIRST_FIELD_SLOT;
use super::json::JsonNode;
use super::layout::SlotRef;
use super::op::{Op, Opcode, Pc, WideOp, WideOpcode, WideSlot};
use super::signatures::ActionId;

/// Compiles primitives and appends their code to a [`CodeBuilder`].
pub(crate) struct ActionCompiler<'s, 'p> {
    pub builder: &'s mut CodeBuilder<'p>,
    pub declared: &'p Declarations<'p>,
    pub bindings: Bindings<'s>,
    /// The name of the action, or of the part of the program, that a failed assertion reports if its location in the
    /// source is unknown.
    pub context: &'s str,
}

/// An l-value.
enum AssignTarget {
    Slot(SlotRef),
    Field(HeaderExpr, FieldRef),
}

impl<'s, 'p> ActionCompiler<'s, 'p> {
    /// Returns a compiler for code outside actions, which has no parameters. `context` is the part of the program,
    /// such as "the parser".
    pub(crate) fn new(
        declared: &'p Declarations<'p>,
        builder: &'s mut CodeBuilder<'p>,
        context: &'s str,
    ) -> ActionCompiler<'s, 'p> {
        let bindings = Bindings { layout: &declared.layout, registers: &declared.registers, params: &[] };
        ActionCompiler { builder, declared, bindings, context }
    }

    /// Compiles the body of an action inline, with these values of its parameters.
    pub(crate) fn inline_action(&mut self, action: ActionId, params: &[NumExpr]) -> Result<(), LoadError> {
        let primitives = &self.declared.bodies[action];
        let bindings = Bindings { params, ..self.bindings };
        let context = self.declared.actions[action].name.as_str();
        let mut inner = ActionCompiler { builder: self.builder, declared: self.declared, bindings, context };
        let has_exit = inner.lower_body(primitives)?;
        if let Some(last) = primitives.last() {
            self.builder.check_size(last)?;
        }
        if has_exit {
            self.builder.emit(Opcode::EndIfExit, 64, 0, self.declared.control_slots.exit, 0);
        }
        Ok(())
    }

    /// Compiles a list of primitives; control falls through at its end. Returns whether the list contains an
    /// `exit`.
    pub(crate) fn lower_body(&mut self, primitives: &[JsonNode]) -> Result<bool, LoadError> {
        let (mut starts, mut jumps, mut has_exit) = (Vec::new(), Vec::new(), false);
        for (index, node) in primitives.iter().enumerate() {
            self.builder.begin_statement();
            starts.push(self.builder.bind_label());
            let op = node.get("op")?;
            match op.str()? {
                "_jump" => {
                    let [target] = node.get("parameters")?.tuple()?;
                    let target = self.jump_target(&target, primitives.len())?;
                    let opcode = if target <= index { Opcode::JumpBack } else { Opcode::Jump };
                    jumps.push((self.builder.emit_jump(opcode, 0, 0), target));
                }
                "_jump_if_zero" => {
                    let [cond, target] = node.get("parameters")?.tuple()?;
                    let target = self.jump_target(&target, primitives.len())?;
                    let cond = self.bindings.bool(&cond)?;
                    let mut unless = Vec::new();
                    // Only `JumpBack` may jump backwards: it counts against the loop budget. A condition that jumps
                    // back therefore skips a `JumpBack`.
                    if target <= index {
                        self.builder.jump_unless(node, &BoolExpr::Not(Box::new(cond)), &mut unless)?;
                        jumps.push((self.builder.emit_jump(Opcode::JumpBack, 0, 0), target));
                        unless.into_iter().for_each(|jump| self.builder.patch(jump));
                    } else {
                        self.builder.jump_unless(node, &cond, &mut unless)?;
                        jumps.extend(unless.into_iter().map(|jump| (jump, target)));
                    }
                }
                name => {
                    has_exit |= name == "exit";
                    self.lower_primitive(node, name)?;
                }
            }
        }
        starts.push(self.builder.bind_label());
        for (jump, target) in jumps {
            let op = self.builder.unlinked.code[jump];
            let cost = match op.opcode {
                Opcode::JumpBack => {
                    let cost = self.cost(&self.builder.unlinked.code[usize::from(starts[target])..=jump]);
                    u16::try_from(cost).unwrap_or(u16::MAX)
                }
                _ => op.a,
            };
            self.builder.unlinked.code[jump] = Op { d: starts[target], a: cost, ..op };
        }
        Ok(has_exit)
    }

    /// Returns how much operations count against [`LOOP_BUDGET`](super::op::LOOP_BUDGET): 1 each, more for operations
    /// on many words.
    pub(crate) fn cost(&self, ops: &[Op]) -> u32 {
        /// Words that cost as much as one operation.
        const WORDS_PER_COST: u32 = 8;
        let layout = self.builder.layout;
        let words = |op: &Op| match op.opcode {
            Opcode::Hash => self.declared.calculations[usize::from(op.a)].max_words(),
            Opcode::Push | Opcode::Pop | Opcode::CopyStack => {
                let stack = &layout.stacks[usize::from(op.a)];
                u32::from(stack.size) * u32::from(stack.stride)
            }
            Opcode::Wide => {
                let WideOp { kind, d, a, .. } = self.builder.unlinked.wide[usize::from(op.d)];
                let limbs = u32::from(d.limbs.max(a.limbs));
                match kind {
                    WideOpcode::Mul => limbs * limbs,
                    // Long division processes one bit at a time.
                    WideOpcode::Div | WideOpcode::Mod => limbs * 4 * u64::BITS * WORDS_PER_COST,
                    _ => 8 * WORDS_PER_COST,
                }
            }
            _ => 0,
        };
        ops.iter().map(|op| 1 + words(op) / WORDS_PER_COST).fold(0, u32::saturating_add)
    }

    /// Returns the cost of [standalone](CodeBuilder::standalone) code: of the operations from `start` to the next
    /// `End`. They contain no backward jumps, so each runs at most once.
    pub(crate) fn cost_from(&self, start: Pc) -> u32 {
        let code = &self.builder.unlinked.code[usize::from(start)..];
        let len = code.iter().position(|op| op.opcode == Opcode::End).unwrap_or(code.len());
        self.cost(&code[..len])
    }

    fn jump_target(&self, node: &JsonNode, count: usize) -> Result<usize, LoadError> {
        let target = node.get("value")?.hex_int()?.to_u64().and_then(|target| usize::try_from(target).ok());
        target.filter(|target| *target <= count).ok_or_else(|| node.error("jump target out of range"))
    }

    fn assign_target(&self, node: &JsonNode) -> Result<AssignTarget, LoadError> {
        match self.bindings.expr(node)? {
            Expr::Num(NumExpr::Slot(slot_ref)) => Ok(AssignTarget::Slot(slot_ref)),
            Expr::Num(NumExpr::Field { header, field }) => Ok(AssignTarget::Field(*header, field)),
            _ => node.err("expected an l-value"),
        }
    }

    fn assign(&mut self, node: &JsonNode, target: AssignTarget, value: &NumExpr) -> Result<(), LoadError> {
        match target {
            AssignTarget::Slot(slot_ref) => self.builder.assign(node, slot_ref, value),
            AssignTarget::Field(header, field) => self.builder.assign_at(node, &header, field, value),
        }
    }

    /// Emits an operation that writes the l-value at `node` or leaves it unchanged (`OperandRole::ReadWrite`).
    fn emit_in_out(&mut self, node: &JsonNode, opcode: Opcode, a: u16, b: u16) -> Result<(), LoadError> {
        match self.assign_target(node)? {
            AssignTarget::Slot(slot_ref) if slot_ref.bits <= 64 => {
                self.builder.emit(opcode, slot_ref.bits as u8, slot_ref.slot, a, b);
                Ok(())
            }
            target => {
                let slot = self.builder.temp(1);
                let temp = SlotRef::unsigned(slot, 64);
                let old = self.bindings.num(node)?;
                self.builder.assign(node, temp, &old)?;
                self.builder.emit(opcode, 64, slot, a, b);
                self.assign(node, target, &NumExpr::Slot(temp))
            }
        }
    }

    fn lower_index(&mut self, node: &JsonNode) -> Result<u16, LoadError> {
        let num = self.bindings.num(node)?;
        self.builder.lower_to_slot(node, &num)
    }

    fn assign_binary(
        &mut self,
        target: &JsonNode,
        op: BinOp,
        left: &JsonNode,
        right: &JsonNode,
    ) -> Result<(), LoadError> {
        let (left, right) = (self.bindings.num(left)?, self.bindings.num(right)?);
        let dest = self.assign_target(target)?;
        self.assign(target, dest, &NumExpr::Binary(op, Box::new(left), Box::new(right)))
    }

    fn register_index(&self, node: &JsonNode) -> Result<u16, LoadError> {
        index_of_last(node, "register array", self.declared.registers.iter().map(|array| array.name.as_str()))
    }

    /// Resolves a constant id to its index in `lists`, counted from 1; id 0 means no list and becomes 0. `kind`
    /// names the kind of list in the error.
    fn field_list_index(
        &self,
        node: &JsonNode,
        kind: &str,
        lists: &[FieldList],
    ) -> Result<NumExpr, LoadError> {
        let id = match self.bindings.num(node)? {
            NumExpr::Const(id) => id.to_u64(),
            _ => None,
        };
        match id {
            Some(0) => Ok(NumExpr::from_u64(0)),
            Some(id) => match lists.iter().position(|list| u64::try_from(list.id) == Ok(id)) {
                Some(index) => Ok(NumExpr::from_u64(index as u64 + 1)),
                None => node.err(format_args!("there is no {kind} {id}")),
            },
            None => node.err(format_args!("the {kind} must be a constant")),
        }
    }

    fn set_control_slot(&mut self, node: &JsonNode, slot: u16, value: &NumExpr) -> Result<(), LoadError> {
        self.builder.assign(node, SlotRef::unsigned(slot, 64), value)
    }

    /// Compiles one primitive that is not a jump.
    pub(crate) fn lower_primitive(&mut self, node: &JsonNode, name: &str) -> Result<(), LoadError> {
        let parameters = node.get("parameters")?;
        let is_known = name == "no_op"
            || self.lower_assignment(name, node, &parameters)?
            || self.lower_header_primitive(name, node, &parameters)?
            || self.lower_extern(name, node, &parameters)?
            || self.lower_packet_primitive(name, node, &parameters)?;
        match is_known {
            true => Ok(()),
            false => node.get("op")?.err(format_args!("primitive {name:?} is not supported")),
        }
    }

    /// Compiles an assignment to a field; `false` if the primitive is another.
    fn lower_assignment(
        &mut self,
        name: &str,
        node: &JsonNode,
        parameters: &JsonNode,
    ) -> Result<bool, LoadError> {
        let op = match name {
            "assign" | "modify_field" => {
                let [target, value] = parameters.tuple()?;
                let (dest, value) = (self.assign_target(&target)?, self.bindings.num(&value)?);
                self.assign(node, dest, &value)?;
                return Ok(true);
            }
            "assign_VL" => {
                self.assign_varbit(parameters)?;
                return Ok(true);
            }
            "add_to_field" | "subtract_from_field" => {
                let [target, value] = parameters.tuple()?;
                let op = if name == "add_to_field" { BinOp::Add } else { BinOp::Sub };
                self.assign_binary(&target, op, &target, &value)?;
                return Ok(true);
            }
            "add" => BinOp::Add,
            "subtract" => BinOp::Sub,
            "bit_xor" => BinOp::Xor,
            "bit_or" => BinOp::Or,
            "bit_and" => BinOp::And,
            "shift_left" => BinOp::Shl,
            "shift_right" => BinOp::Shr,
            _ => return Ok(false),
        };
        let [target, left, right] = parameters.tuple()?;
        self.assign_binary(&target, op, &left, &right)?;
        Ok(true)
    }

    /// Compiles a primitive on whole headers, unions or stacks; `false` if the primitive is another.
    fn lower_header_primitive(
        &mut self,
        name: &str,
        node: &JsonNode,
        parameters: &JsonNode,
    ) -> Result<bool, LoadError> {
        match name {
            "add_header" | "add_header_fast" | "remove_header" => {
                let [header] = parameters.tuple()?;
                let header = self.bindings.header(&header)?;
                let base = self.builder.header_base(node, &header)?;
                let opcode = if name == "remove_header" { Opcode::SetInvalid } else { Opcode::SetValid };
                let index = self.builder.header_op(&header);
                self.builder.emit(opcode, 64, 0, base, index);
            }
            "assign_header" | "copy_header" => {
                let [to, from] = parameters.tuple()?;
                let (to, from) = (self.bindings.header(&to)?, self.bindings.header(&from)?);
                self.copy_header(node, &to, &from)?;
            }
            "assign_union" => {
                let [to, from] = parameters.tuple()?;
                let (to, from) = (self.bindings.union(&to)?, self.bindings.union(&from)?);
                self.copy_union(node, to, from)?;
            }
            "assign_header_stack" | "assign_union_stack" => {
                let [to, from] = parameters.tuple()?;
                let (to, from) = (self.stack_index(&to)?, self.stack_index(&from)?);
                let ty = |stack: usize| {
                    let stack = &self.builder.layout.stacks[stack];
                    (stack.size, stack.stride, stack.member_blocks.clone())
                };
                if ty(to) != ty(from) {
                    return node.err("the stacks have different types");
                }
                self.builder.mark_stack_address_taken(to);
                self.builder.mark_stack_address_taken(from);
                self.builder.emit(Opcode::CopyStack, 64, to as u16, from as u16, 0);
            }
            "push" | "pop" => {
                let [stack, count] = parameters.tuple()?;
                let (stack, count) = (self.stack_index(&stack)?, self.lower_index(&count)?);
                self.builder.mark_stack_address_taken(stack);
                let opcode = if name == "push" { Opcode::Push } else { Opcode::Pop };
                self.builder.emit(opcode, 64, 0, stack as u16, count);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Compiles a primitive that decides what becomes of the packet; `false` if the primitive is another.
    fn lower_packet_primitive(
        &mut self,
        name: &str,
        node: &JsonNode,
        parameters: &JsonNode,
    ) -> Result<bool, LoadError> {
        match name {
            "drop" => {
                let [] = parameters.tuple()?;
                self.lower_drop(node)?;
            }
            "mark_to_drop" => {
                let [header] = parameters.tuple()?;
                self.lower_mark_to_drop(&header)?;
            }
            "exit" => self.set_control_slot(node, self.declared.control_slots.exit, &NumExpr::from_u64(1))?,
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => {
                let [session, list] = parameters.tuple()?;
                let list = self.field_list_index(&list, "field list", &self.declared.field_lists)?;
                let session = Box::new(self.bindings.num(&session)?);
                let low = Box::new(NumExpr::Binary(
                    BinOp::And,
                    session,
                    Box::new(NumExpr::from_u64(CLONE_SESSION_VALID - 1)),
                ));
                let session =
                    NumExpr::Binary(BinOp::Or, low, Box::new(NumExpr::from_u64(CLONE_SESSION_VALID)));
                self.set_control_slot(node, self.declared.control_slots.clone_session, &session)?;
                self.set_control_slot(node, self.declared.control_slots.clone_list, &list)?;
            }
            "resubmit" | "recirculate" => {
                let [list] = parameters.tuple()?;
                let list = self.field_list_index(&list, "field list", &self.declared.field_lists)?;
                let slot = if name == "resubmit" {
                    self.declared.control_slots.resubmit
                } else {
                    self.declared.control_slots.recirculate
                };
                self.set_control_slot(node, slot, &list)?;
            }
            "generate_digest" => {
                let [_receiver, list] = parameters.tuple()?;
                let list = self.field_list_index(&list, "learn list", &self.declared.learn_lists)?;
                self.set_control_slot(node, self.declared.control_slots.digest, &list)?;
            }
            "truncate" => {
                let [length] = parameters.tuple()?;
                let length = self.lower_index(&length)?;
                self.builder.emit(Opcode::Truncate, 64, 0, length, 0);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn stack_index(&self, node: &JsonNode) -> Result<usize, LoadError> {
        match self.bindings.expr(node)? {
            Expr::Stack(stack) => Ok(stack),
            _ => node.err("expected a header stack"),
        }
    }

    /// Returns the drop port as an expression.
    fn drop_port(&self) -> NumExpr {
        NumExpr::Slot(SlotRef::unsigned(self.declared.control_slots.drop_port, 16))
    }

    fn lower_drop(&mut self, node: &JsonNode) -> Result<(), LoadError> {
        let standard = &self.declared.standard;
        self.builder.assign(
            node,
            SlotRef::unsigned(standard.egress_spec, standard.port_bits),
            &self.drop_port(),
        )?;
        match standard.mcast_grp_bits {
            0 => Ok(()),
            bits => {
                self.builder.assign(node, SlotRef::unsigned(standard.mcast_grp, bits), &NumExpr::from_u64(0))
            }
        }
    }

    /// Assigns the drop port to `egress_spec`, and 0 to `mcast_grp`, in a header with the type of the standard
    /// metadata: the standard metadata itself, or the copy that p4c makes for an `inout` parameter of an action.
    fn lower_mark_to_drop(&mut self, node: &JsonNode) -> Result<(), LoadError> {
        let header = self.bindings.header(node)?;
        let ty = header.ty(self.builder.layout);
        let fields = &self.builder.layout.types[ty].fields;
        let find = |name: &str| fields.iter().position(|field| field.name == name);
        let (spec, group) = (find("egress_spec"), find("mcast_grp"));
        let Some(spec) = spec else {
            return node.err("the header has no field \"egress_spec\": it is not standard metadata");
        };
        self.builder.assign_at(node, &header, FieldRef { ty, field: spec }, &self.drop_port())?;
        match group {
            Some(group) => {
                self.builder.assign_at(node, &header, FieldRef { ty, field: group }, &NumExpr::from_u64(0))
            }
            None => Ok(()),
        }
    }

    fn copy_header(&mut self, node: &JsonNode, to: &HeaderExpr, from: &HeaderExpr) -> Result<(), LoadError> {
        if to.ty(self.builder.layout) != from.ty(self.builder.layout) {
            return node.err("the headers have different types");
        }
        if let (HeaderExpr::Static(to), HeaderExpr::Static(from)) = (to, from) {
            let (to, from) = (self.builder.layout.header(*to), self.builder.layout.header(*from));
            if to.is_metadata && from.is_metadata {
                // Metadata has no validity bit to copy: it is always valid.
                let count = self.builder.layout.types[to.ty].block_len - FIRST_FIELD_SLOT;
                self.copy_slots(to.first_slot + FIRST_FIELD_SLOT, from.first_slot + FIRST_FIELD_SLOT, count);
                return Ok(());
            }
        }
        let (d, a) =
            (self.builder.escaping_header_base(node, to)?, self.builder.escaping_header_base(node, from)?);
        let index = self.builder.header_op(to);
        self.builder.emit(Opcode::CopyHeader, 64, d, a, index);
        Ok(())
    }

    fn copy_union(&mut self, node: &JsonNode, to: UnionExpr, from: UnionExpr) -> Result<(), LoadError> {
        let count = to.members(self.builder.layout).len();
        if count != from.members(self.builder.layout).len() {
            return node.err("the unions have different types");
        }
        for member in 0..count {
            let to = HeaderExpr::Member(to.clone(), member);
            self.copy_header(node, &to, &HeaderExpr::Member(from.clone(), member))?;
        }
        Ok(())
    }

    fn assign_varbit(&mut self, parameters: &JsonNode) -> Result<(), LoadError> {
        let [to, from] = parameters.tuple()?;
        let layout = self.builder.layout;
        let (to_node, from_node) = (to.get("value")?, from.get("value")?);
        let (to, from) = (layout.field(&to_node)?, layout.field(&from_node)?);
        let (to_type, from_type) = (layout.field_info(to), layout.field_info(from));
        if !to_type.is_varbit || !from_type.is_varbit || to_type.slot_count != from_type.slot_count {
            return parameters.err("expected two varbit fields of the same maximum width");
        }
        self.copy_slots(layout.slot(to), layout.slot(from), to_type.slot_count);
        Ok(())
    }

    fn copy_slots(&mut self, to: u16, from: u16, count: u16) {
        let wide = |slot| WideSlot { slot, limbs: count, signed: false };
        let (d, a) = (wide(to), wide(from));
        self.builder.emit_wide_op(WideOp { kind: WideOpcode::CopySlots, bits: 0, d, a, b: a });
    }
}

/// Returns the index of the object whose name is the value of `node`; of several objects with this name, the last.
/// `kind` names the kind of object in the error.
fn index_of_last<'n>(
    node: &JsonNode,
    kind: &str,
    mut names: impl DoubleEndedIterator<Item = &'n str> + ExactSizeIterator,
) -> Result<u16, LoadError> {
    let index = node.get("value")?.find(kind, |name| names.rposition(|known| known == name))?;
    Ok(index as u16)
}
