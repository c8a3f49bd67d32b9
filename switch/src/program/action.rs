//! Compiles the primitives of actions, parsers and deparsers to code.

use super::codegen::CodeBuilder;
use super::declarations::Declared;
use super::expr::{BinOp, Bindings, BoolExpr, Expr, HeaderExpr, NumExpr, UnionExpr};
use super::header_types::FIRST_FIELD_SLOT;
use super::json::JsonNode;
use super::layout::{SlotAllocator, SlotRef};
use super::op::{Op, Opcode, Pc, WideOp, WideOpcode, WideSlot};
use super::{ActionId, FieldList, LoadError};

/// Slots for the state of the target that primitives set: BMv2's packet registers and flags.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ControlSlots {
    /// 1 after `exit`.
    pub exit: u16,
    /// The number of the drop port; the pipeline sets it.
    pub drop_port: u16,
    /// The clone session, or-ed with [`CLONE_SESSION_VALID`]; 0: no clone.
    pub clone_session: u16,
    /// Index of the clone's field list, counted from 1; 0: none.
    pub clone_list: u16,
    /// Index of the field list of a resubmit, counted from 1; 0: no resubmit.
    pub resubmit: u16,
    /// As `resubmit`, for a recirculation.
    pub recirculate: u16,
    /// Index of the learn list of a digest, counted from 1; 0: no digest.
    pub digest: u16,
}

impl ControlSlots {
    pub fn alloc(root: &JsonNode, slots: &mut SlotAllocator) -> Result<ControlSlots, LoadError> {
        let first = slots.alloc(root, 7)?;
        let [exit, drop_port, clone_session, clone_list, resubmit, recirculate, digest] =
            std::array::from_fn(|index| first + index as u16);
        Ok(ControlSlots { exit, drop_port, clone_session, clone_list, resubmit, recirculate, digest })
    }
}

/// The bit that distinguishes clone session 0 from no session (BMv2's MIRROR_SESSION_ID_VALID_MASK).
pub(crate) const CLONE_SESSION_VALID: u64 = 1 << 15;

/// The arguments of a `log_msg` call.
#[derive(Clone, Debug)]
pub(crate) struct LogMessage {
    pub format: String,
    pub values: Vec<WideSlot>,
}

/// Compiles primitives to code of a [`CodeBuilder`].
pub(crate) struct ActionCompiler<'s, 'p> {
    pub asm: &'s mut CodeBuilder<'p>,
    pub declared: &'p Declared<'p>,
    pub scope: Bindings<'s>,
    /// The index of the action, which a failed assertion reports.
    action: u16,
}

/// An l-value.
enum AssignTarget {
    Place(SlotRef),
    Field(HeaderExpr, (usize, usize)),
}

impl<'s, 'p> ActionCompiler<'s, 'p> {
    /// Returns a compiler for code outside actions: it has no parameters.
    pub fn new(declared: &'p Declared<'p>, asm: &'s mut CodeBuilder<'p>) -> ActionCompiler<'s, 'p> {
        let scope = Bindings { layout: &declared.layout, registers: &declared.registers, params: &[] };
        ActionCompiler { asm, declared, scope, action: 0 }
    }

    /// Compiles the body of an action inline, with these values for its parameters.
    pub fn inline_action(&mut self, action: ActionId, params: &[NumExpr]) -> Result<(), LoadError> {
        let primitives = &self.declared.bodies[usize::from(action.0)];
        let scope = Bindings { params, ..self.scope };
        let mut inner = ActionCompiler { asm: self.asm, declared: self.declared, scope, action: action.0 };
        let exits = inner.lower_body(primitives)?;
        if let Some(last) = primitives.last() {
            self.asm.check_size(last)?;
        }
        if exits {
            self.asm.emit(Opcode::EndIfExit, 64, 0, self.declared.state.exit, 0);
        }
        Ok(())
    }

    /// Compiles a list of primitives; control falls through at its end. Returns whether the list contains an
    /// `exit`.
    pub fn lower_body(&mut self, primitives: &[JsonNode]) -> Result<bool, LoadError> {
        let (mut starts, mut jumps, mut exits) = (Vec::new(), Vec::new(), false);
        for (index, at) in primitives.iter().enumerate() {
            self.asm.begin_statement();
            starts.push(self.asm.bind_label());
            let op = at.get("op")?;
            match op.str()? {
                "_jump" => {
                    let [target] = at.get("parameters")?.tuple()?;
                    let target = self.jump_target(&target, primitives.len())?;
                    let code = if target <= index { Opcode::JumpBack } else { Opcode::Jump };
                    jumps.push((self.asm.emit_jump(code, 0, 0), target));
                }
                "_jump_if_zero" => {
                    let [cond, target] = at.get("parameters")?.tuple()?;
                    let target = self.jump_target(&target, primitives.len())?;
                    let cond = self.scope.bool(&cond)?;
                    let mut unless = Vec::new();
                    if target <= index {
                        self.asm.jump_unless(at, &BoolExpr::Not(Box::new(cond)), &mut unless)?;
                        jumps.push((self.asm.emit_jump(Opcode::JumpBack, 0, 0), target));
                        unless.into_iter().for_each(|jump| self.asm.patch(jump));
                    } else {
                        self.asm.jump_unless(at, &cond, &mut unless)?;
                        jumps.extend(unless.into_iter().map(|jump| (jump, target)));
                    }
                }
                name => {
                    exits |= name == "exit";
                    self.lower_primitive(at, name)?;
                }
            }
        }
        starts.push(self.asm.bind_label());
        for (jump, target) in jumps {
            let op = self.asm.object.code[jump];
            let cost = match op.code {
                Opcode::JumpBack => {
                    let cost = self.cost(&self.asm.object.code[usize::from(starts[target])..=jump]);
                    u16::try_from(cost).unwrap_or(u16::MAX)
                }
                _ => op.a,
            };
            self.asm.object.code[jump] = Op { d: starts[target], a: cost, ..op };
        }
        Ok(exits)
    }

    /// Returns the cost of operations, see [`LOOP_BUDGET`](super::LOOP_BUDGET): 1 each, more for those that work on many words.
    pub fn cost(&self, ops: &[Op]) -> u32 {
        const WORDS_AT_ONCE: u32 = 8;
        let layout = self.asm.layout;
        let words = |op: &Op| match op.code {
            Opcode::Hash => self.declared.calculations[usize::from(op.a)].words(),
            Opcode::Push | Opcode::Pop | Opcode::CopyStack => {
                let stack = &layout.stacks[usize::from(op.a)];
                u32::from(stack.size) * u32::from(stack.stride)
            }
            Opcode::Wide => {
                let WideOp { kind, d, a, .. } = self.asm.object.wide[usize::from(op.d)];
                let limbs = u32::from(d.limbs.max(a.limbs));
                match kind {
                    WideOpcode::Mul => limbs * limbs,
                    // Bit by bit.
                    WideOpcode::Div | WideOpcode::Mod => limbs * 4 * u64::BITS * WORDS_AT_ONCE,
                    _ => 8 * WORDS_AT_ONCE,
                }
            }
            _ => 0,
        };
        ops.iter().map(|op| 1 + words(op) / WORDS_AT_ONCE).fold(0, u32::saturating_add)
    }

    /// Returns the cost of code that ends by itself, without jumps.
    pub fn cost_from(&self, start: Pc) -> u32 {
        let code = &self.asm.object.code[usize::from(start)..];
        let len = code.iter().position(|op| op.code == Opcode::End).unwrap_or(code.len());
        self.cost(&code[..len])
    }

    fn jump_target(&self, at: &JsonNode, count: usize) -> Result<usize, LoadError> {
        let target = at.get("value")?.hex_int()?.to_u64().and_then(|target| usize::try_from(target).ok());
        target.filter(|target| *target <= count).ok_or_else(|| at.error("jump target out of range"))
    }

    fn target(&self, at: &JsonNode) -> Result<AssignTarget, LoadError> {
        match self.scope.expr(at)? {
            Expr::Num(NumExpr::Place(place)) => Ok(AssignTarget::Place(place)),
            Expr::Num(NumExpr::Field(header, field)) => {
                Ok(AssignTarget::Field(*header, (field.ty, field.field)))
            }
            _ => at.err("expected an l-value"),
        }
    }

    fn assign(&mut self, at: &JsonNode, target: AssignTarget, value: &NumExpr) -> Result<(), LoadError> {
        match target {
            AssignTarget::Place(place) => self.asm.assign(at, place, value),
            AssignTarget::Field(header, field) => self.asm.assign_at(at, &header, field, value),
        }
    }

    /// Emits an operation that either writes its `d` or leaves it unchanged, with the l-value `at` as `d`.
    fn emit_in_out(&mut self, at: &JsonNode, code: Opcode, a: u16, b: u16) -> Result<(), LoadError> {
        match self.target(at)? {
            AssignTarget::Place(place) if place.bits <= 64 => {
                self.asm.emit(code, place.bits as u8, place.slot, a, b);
                Ok(())
            }
            target => {
                let slot = self.asm.temp(1);
                let temp = SlotRef::unsigned(slot, 64);
                let old = self.scope.num(at)?;
                self.asm.assign(at, temp, &old)?;
                self.asm.emit(code, 64, slot, a, b);
                self.assign(at, target, &NumExpr::Place(temp))
            }
        }
    }

    fn index(&mut self, at: &JsonNode) -> Result<u16, LoadError> {
        let num = self.scope.num(at)?;
        self.asm.lower_to_slot(at, &num)
    }

    fn binary(
        &mut self,
        target: &JsonNode,
        op: BinOp,
        left: &JsonNode,
        right: &JsonNode,
    ) -> Result<(), LoadError> {
        let (left, right) = (self.scope.num(left)?, self.scope.num(right)?);
        let place = self.target(target)?;
        self.assign(target, place, &NumExpr::Binary(op, Box::new(left), Box::new(right)))
    }

    fn register(&self, at: &JsonNode) -> Result<u16, LoadError> {
        index_of_last(at, "register array", self.declared.registers.iter().map(|array| array.name.as_str()))
    }

    /// Resolves a constant id to its index in `lists`, counted from 1; id 0 means no list and becomes 0.
    fn field_list_index(&self, at: &JsonNode, what: &str, lists: &[FieldList]) -> Result<NumExpr, LoadError> {
        let id = match self.scope.num(at)? {
            NumExpr::Const(id) => id.to_u64(),
            _ => None,
        };
        match id {
            Some(0) => Ok(NumExpr::small(0)),
            Some(id) => match lists.iter().position(|list| u64::try_from(list.id) == Ok(id)) {
                Some(index) => Ok(NumExpr::small(index as u64 + 1)),
                None => at.err(format_args!("there is no {what} {id}")),
            },
            None => at.err(format_args!("the {what} must be a constant")),
        }
    }

    fn set_control_slot(&mut self, at: &JsonNode, slot: u16, value: &NumExpr) -> Result<(), LoadError> {
        self.asm.assign(at, SlotRef::unsigned(slot, 64), value)
    }

    /// Compiles one primitive that is not a jump.
    pub fn lower_primitive(&mut self, at: &JsonNode, name: &str) -> Result<(), LoadError> {
        let parameters = at.get("parameters")?;
        match name {
            "assign" | "modify_field" => {
                let [target, value] = parameters.tuple()?;
                let (place, value) = (self.target(&target)?, self.scope.num(&value)?);
                self.assign(at, place, &value)
            }
            "add_to_field" | "subtract_from_field" => {
                let [target, value] = parameters.tuple()?;
                let op = if name == "add_to_field" { BinOp::Add } else { BinOp::Sub };
                self.binary(&target, op, &target, &value)
            }
            "add" | "subtract" | "bit_xor" | "bit_or" | "bit_and" | "shift_left" | "shift_right" => {
                let [target, left, right] = parameters.tuple()?;
                let op = match name {
                    "add" => BinOp::Add,
                    "subtract" => BinOp::Sub,
                    "bit_xor" => BinOp::Xor,
                    "bit_or" => BinOp::Or,
                    "bit_and" => BinOp::And,
                    "shift_left" => BinOp::Shl,
                    _ => BinOp::Shr,
                };
                self.binary(&target, op, &left, &right)
            }
            "assign_VL" => self.assign_varbit(&parameters),
            "add_header" | "add_header_fast" | "remove_header" => {
                let [header] = parameters.tuple()?;
                let header = self.scope.header(&header)?;
                let base = self.asm.header_base(at, &header)?;
                let code = if name == "remove_header" { Opcode::SetInvalid } else { Opcode::SetValid };
                let index = self.asm.header_op(&header);
                self.asm.emit(code, 64, 0, base, index);
                Ok(())
            }
            "assign_header" | "copy_header" => {
                let [to, from] = parameters.tuple()?;
                let (to, from) = (self.scope.header(&to)?, self.scope.header(&from)?);
                self.copy_header(at, &to, &from)
            }
            "assign_union" => {
                let [to, from] = parameters.tuple()?;
                let (to, from) = (self.scope.union(&to)?, self.scope.union(&from)?);
                self.copy_union(at, to, from)
            }
            "assign_header_stack" | "assign_union_stack" => {
                let [to, from] = parameters.tuple()?;
                let (to, from) = (self.stack(&to)?, self.stack(&from)?);
                let shape = |stack: usize| {
                    let stack = &self.asm.layout.stacks[stack];
                    (stack.size, stack.stride, stack.member_blocks.clone())
                };
                if shape(to) != shape(from) {
                    return at.err("the stacks have different types");
                }
                self.asm.mark_stack_address_taken(to);
                self.asm.mark_stack_address_taken(from);
                self.asm.emit(Opcode::CopyStack, 64, to as u16, from as u16, 0);
                Ok(())
            }
            "push" | "pop" => {
                let [stack, count] = parameters.tuple()?;
                let (stack, count) = (self.stack(&stack)?, self.index(&count)?);
                self.asm.mark_stack_address_taken(stack);
                let code = if name == "push" { Opcode::Push } else { Opcode::Pop };
                self.asm.emit(code, 64, 0, stack as u16, count);
                Ok(())
            }
            "register_read" => {
                let [target, register, index] = parameters.tuple()?;
                self.register_read(&target, &register, &index)
            }
            "register_write" => {
                let [register, index, value] = parameters.tuple()?;
                self.register_write(&register, &index, &value)
            }
            "count" => {
                let [counter, index] = parameters.tuple()?;
                let names = self.declared.counters.iter().map(|array| array.name.as_str());
                let counter = index_of_last(&counter, "counter array", names)?;
                let index = self.index(&index)?;
                self.asm.emit(Opcode::CounterCount, 64, 0, counter, index);
                Ok(())
            }
            "execute_meter" => {
                let [meter, index, target] = parameters.tuple()?;
                let names = self.declared.meters.iter().map(|array| array.name.as_str());
                let meter = index_of_last(&meter, "meter array", names)?;
                let index = self.index(&index)?;
                self.emit_in_out(&target, Opcode::MeterExecute, meter, index)
            }
            "modify_field_with_hash_based_offset" => {
                let [target, base, calculation, size] = parameters.tuple()?;
                self.hash(&target, &base, &calculation, &size)
            }
            "modify_field_rng_uniform" => {
                let [target, low, high] = parameters.tuple()?;
                let (low, high) = (self.index(&low)?, self.index(&high)?);
                self.emit_in_out(&target, Opcode::Random, low, high)
            }
            "drop" => {
                let [] = parameters.tuple()?;
                self.drop(at)
            }
            "mark_to_drop" => {
                let [header] = parameters.tuple()?;
                self.mark_to_drop(&header)
            }
            "exit" => self.set_control_slot(at, self.declared.state.exit, &NumExpr::small(1)),
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => {
                let [session, list] = parameters.tuple()?;
                let list = self.field_list_index(&list, "field list", &self.declared.field_lists)?;
                let session = Box::new(self.scope.num(&session)?);
                let low = Box::new(NumExpr::Binary(
                    BinOp::And,
                    session,
                    Box::new(NumExpr::small(CLONE_SESSION_VALID - 1)),
                ));
                let marked = NumExpr::Binary(BinOp::Or, low, Box::new(NumExpr::small(CLONE_SESSION_VALID)));
                self.set_control_slot(at, self.declared.state.clone_session, &marked)?;
                self.set_control_slot(at, self.declared.state.clone_list, &list)
            }
            "resubmit" | "recirculate" => {
                let [list] = parameters.tuple()?;
                let list = self.field_list_index(&list, "field list", &self.declared.field_lists)?;
                let slot = if name == "resubmit" {
                    self.declared.state.resubmit
                } else {
                    self.declared.state.recirculate
                };
                self.set_control_slot(at, slot, &list)
            }
            "generate_digest" => {
                let [_receiver, list] = parameters.tuple()?;
                let list = self.field_list_index(&list, "learn list", &self.declared.learn_lists)?;
                self.set_control_slot(at, self.declared.state.digest, &list)
            }
            "truncate" => {
                let [length] = parameters.tuple()?;
                let length = self.index(&length)?;
                self.asm.emit(Opcode::Truncate, 64, 0, length, 0);
                Ok(())
            }
            "log_msg" => self.log(&parameters),
            "assert" | "assume" => {
                let [condition] = parameters.tuple()?;
                let condition = self.scope.bool(&condition)?;
                let slot = self.asm.lower_bool(at, &condition)?;
                self.asm.emit(Opcode::Assert, 64, 0, slot, self.action);
                Ok(())
            }
            "no_op" => Ok(()),
            other => at.get("op")?.err(format_args!("primitive {other:?} is not supported")),
        }
    }

    fn stack(&self, at: &JsonNode) -> Result<usize, LoadError> {
        match self.scope.expr(at)? {
            Expr::Stack(stack) => Ok(stack),
            _ => at.err("expected a header stack"),
        }
    }

    /// Returns the drop port as an expression.
    fn drop_port(&self) -> NumExpr {
        NumExpr::Place(SlotRef::unsigned(self.declared.state.drop_port, 16))
    }

    fn drop(&mut self, at: &JsonNode) -> Result<(), LoadError> {
        let standard = &self.declared.standard;
        self.asm.assign(
            at,
            SlotRef::unsigned(standard.egress_spec, standard.port_bits),
            &self.drop_port(),
        )?;
        match standard.mcast_grp_bits {
            0 => Ok(()),
            bits => self.asm.assign(at, SlotRef::unsigned(standard.mcast_grp, bits), &NumExpr::small(0)),
        }
    }

    /// Assigns the drop port to `egress_spec` of a header with the type of the standard metadata. The header
    /// is the standard metadata itself, or the copy that p4c makes for an `inout` parameter of an action.
    fn mark_to_drop(&mut self, at: &JsonNode) -> Result<(), LoadError> {
        let header = self.scope.header(at)?;
        let ty = header.ty(self.asm.layout);
        let fields = &self.asm.layout.types[ty].fields;
        let find = |name: &str| fields.iter().position(|field| field.name == name);
        let (spec, group) = (find("egress_spec"), find("mcast_grp"));
        let Some(spec) = spec else {
            return at.err("the header has no field \"egress_spec\": it is not standard metadata");
        };
        self.asm.assign_at(at, &header, (ty, spec), &self.drop_port())?;
        match group {
            Some(group) => self.asm.assign_at(at, &header, (ty, group), &NumExpr::small(0)),
            None => Ok(()),
        }
    }

    fn copy_header(&mut self, at: &JsonNode, to: &HeaderExpr, from: &HeaderExpr) -> Result<(), LoadError> {
        if to.ty(self.asm.layout) != from.ty(self.asm.layout) {
            return at.err("the headers have different types");
        }
        if let (HeaderExpr::Static(to), HeaderExpr::Static(from)) = (to, from) {
            let (to, from) = (self.asm.layout.header(*to), self.asm.layout.header(*from));
            if to.metadata && from.metadata {
                // Metadata has no validity bit to copy: it is always valid.
                let limbs = self.asm.layout.types[to.ty].slots - FIRST_FIELD_SLOT;
                self.copy_slots(to.first_slot + FIRST_FIELD_SLOT, from.first_slot + FIRST_FIELD_SLOT, limbs);
                return Ok(());
            }
        }
        let (d, a) = (self.asm.escaping_header_base(at, to)?, self.asm.escaping_header_base(at, from)?);
        let index = self.asm.header_op(to);
        self.asm.emit(Opcode::CopyHeader, 64, d, a, index);
        Ok(())
    }

    fn copy_union(&mut self, at: &JsonNode, to: UnionExpr, from: UnionExpr) -> Result<(), LoadError> {
        let count = to.members(self.asm.layout).len();
        if count != from.members(self.asm.layout).len() {
            return at.err("the unions have different types");
        }
        for member in 0..count {
            let to = HeaderExpr::Member(to.clone(), member);
            self.copy_header(at, &to, &HeaderExpr::Member(from.clone(), member))?;
        }
        Ok(())
    }

    fn assign_varbit(&mut self, parameters: &JsonNode) -> Result<(), LoadError> {
        let [to, from] = parameters.tuple()?;
        let layout = self.asm.layout;
        let (to_at, from_at) = (to.get("value")?, from.get("value")?);
        let (to, from) = (layout.field(&to_at)?, layout.field(&from_at)?);
        let (to_type, from_type) = (layout.field_type(to), layout.field_type(from));
        if !to_type.varbit || !from_type.varbit || to_type.limbs != from_type.limbs {
            return parameters.err("expected two varbit fields of the same maximum width");
        }
        self.copy_slots(layout.slot(to), layout.slot(from), to_type.limbs);
        Ok(())
    }

    fn copy_slots(&mut self, to: u16, from: u16, limbs: u16) {
        let wide = |slot| WideSlot { slot, limbs, signed: false };
        let (d, a) = (wide(to), wide(from));
        self.asm.emit_wide_refs(WideOp { kind: WideOpcode::CopySlots, bits: 0, d, a, b: a });
    }

    fn register_read(
        &mut self,
        target: &JsonNode,
        register: &JsonNode,
        index: &JsonNode,
    ) -> Result<(), LoadError> {
        let array = self.register(register)?;
        if self.declared.registers[usize::from(array)].bits <= 64 {
            let index = self.index(index)?;
            return self.emit_in_out(target, Opcode::RegRead, array, index);
        }
        let value = NumExpr::Register(array, Box::new(self.scope.num(index)?));
        let place = self.target(target)?;
        self.assign(target, place, &value)
    }

    fn register_write(
        &mut self,
        register: &JsonNode,
        index: &JsonNode,
        value: &JsonNode,
    ) -> Result<(), LoadError> {
        let array = self.register(register)?;
        let bits = self.declared.registers[usize::from(array)].bits;
        let index = self.index(index)?;
        let num = self.scope.num(value)?;
        let limbs = bits.div_ceil(64) as u16;
        let slot = self.asm.temp(limbs);
        self.asm.assign(value, SlotRef::unsigned(slot, bits), &num)?;
        if limbs == 1 {
            // Saves the temporary: if the last operation is the `Mov` that `assign` has just emitted to it,
            // and the `Mov` truncates nothing (`clear_high` is 0), its source is stored directly. Any other
            // operation is put back.
            match self.asm.object.code.pop() {
                Some(op) if op.code == Opcode::Mov && op.d == slot && op.clear_high == 0 => {
                    self.asm.emit(Opcode::RegWrite, 64, op.a, array, index);
                }
                Some(op) => {
                    self.asm.object.code.push(op);
                    self.asm.emit(Opcode::RegWrite, 64, slot, array, index);
                }
                None => {}
            }
            return Ok(());
        }
        let a = WideSlot { slot, limbs, signed: false };
        let b = WideSlot { slot: index, limbs: 1, signed: false };
        self.asm.emit_wide_refs(WideOp { kind: WideOpcode::RegWrite(array), bits, d: b, a, b });
        Ok(())
    }

    fn hash(
        &mut self,
        target: &JsonNode,
        base: &JsonNode,
        calculation: &JsonNode,
        size: &JsonNode,
    ) -> Result<(), LoadError> {
        let names = self.declared.calculations.iter().map(|known| known.name.as_str());
        let calc = index_of_last(calculation, "calculation", names)?;
        let (base, size_num) = (self.scope.num(base)?, self.scope.num(size)?);
        let size = self.asm.lower_to_slot(size, &size_num)?;
        let slot = self.asm.temp(1);
        self.asm.emit(Opcode::Hash, 64, slot, calc, 0);
        match &size_num {
            NumExpr::Const(big) if big.to_u64().is_some_and(u64::is_power_of_two) => {
                let mask = self.asm.constant(big.to_u64().unwrap_or(1) - 1);
                self.asm.emit(Opcode::And, 64, slot, slot, mask);
            }
            // Modulo 0 gives 0. BMv2 has the same result: it treats a size of 0 as 1.
            _ => self.asm.emit(Opcode::Mod, 64, slot, slot, size),
        }
        let hashed = NumExpr::Place(SlotRef::unsigned(slot, 64));
        let place = self.target(target)?;
        match &base {
            NumExpr::Const(big) if big.to_u64() == Some(0) => self.assign(target, place, &hashed),
            _ => self.assign(target, place, &NumExpr::Binary(BinOp::Add, Box::new(hashed), Box::new(base))),
        }
    }

    fn log(&mut self, parameters: &JsonNode) -> Result<(), LoadError> {
        let [format, values] = parameters.tuple()?;
        let mut refs = Vec::new();
        // p4c writes an empty object instead of an empty list.
        let list = values.get("value")?;
        let none = list.value.as_object().is_some_and(|members| members.is_empty());
        for value in if none { Vec::new() } else { list.items()? } {
            let num = self.scope.num(&value)?;
            refs.push(self.asm.wide_ref(&value, &num)?);
        }
        let index = self.asm.object.logs.len().min(usize::from(u16::MAX)) as u16;
        self.asm
            .object
            .logs
            .push(LogMessage { format: format.get("value")?.str()?.to_string(), values: refs });
        self.asm.emit(Opcode::Log, 64, 0, index, 0);
        Ok(())
    }
}

/// Returns the index of the last object whose name is the value of `at`. `what` names the kind of object in
/// the error.
fn index_of_last<'n>(
    at: &JsonNode,
    what: &str,
    mut names: impl DoubleEndedIterator<Item = &'n str> + ExactSizeIterator,
) -> Result<u16, LoadError> {
    let index = at.get("value")?.find(what, |name| names.rposition(|known| known == name))?;
    Ok(index as u16)
}
