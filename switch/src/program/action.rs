//! Primitives of actions, parsers and deparsers, compiled to code.

use super::asm::Asm;
use super::declare::Declared;
use super::expr::{Bool, Expr, HeaderExpr, Num, NumOp, Scope, UnionExpr};
use super::json::At;
use super::layout::{Place, Slots};
use super::op::{Code, WideKind, WideOp, WideRef};
use super::types::FIRST_FIELD;
use super::{ActionId, FieldList, LoadError};

/// Slots that stand for BMv2's packet registers and flags.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    /// `exit` was called.
    pub exit: u16,
    /// The port that means drop.
    pub drop_port: u16,
    /// Clone session with [`SESSION_SET`]; 0: no clone.
    pub clone_session: u16,
    /// Field list, counted from 1; 0: none.
    pub clone_list: u16,
    pub resubmit: u16,
    pub recirculate: u16,
    /// Learn list, counted from 1; 0: none.
    pub digest: u16,
}

impl State {
    /// Takes the slots.
    pub fn place(root: &At, slots: &mut Slots) -> Result<State, LoadError> {
        let first = slots.take(root, 7)?;
        let [exit, drop_port, clone_session, clone_list, resubmit, recirculate, digest] =
            std::array::from_fn(|index| first + index as u16);
        Ok(State { exit, drop_port, clone_session, clone_list, resubmit, recirculate, digest })
    }
}

/// Marks a clone session as set, so that session 0 can be told from none (BMv2's MIRROR_SESSION_ID_VALID_MASK).
pub(crate) const SESSION_SET: u64 = 1 << 15;

/// A `log_msg` call.
#[derive(Clone, Debug)]
pub(crate) struct LogMessage {
    pub format: String,
    pub values: Vec<WideRef>,
}

/// Compiles primitives.
pub(crate) struct Actions<'s, 'p> {
    pub asm: &'s mut Asm<'p>,
    pub declared: &'p Declared<'p>,
    pub scope: Scope<'s>,
    /// The index of the action, for messages.
    action: u16,
}

/// Something that can be assigned to.
enum Target {
    Place(Place),
    Field(HeaderExpr, (usize, usize)),
}

impl<'s, 'p> Actions<'s, 'p> {
    /// Compiles what is outside actions.
    pub fn new(declared: &'p Declared<'p>, asm: &'s mut Asm<'p>) -> Actions<'s, 'p> {
        let scope = Scope { layout: &declared.layout, registers: &declared.registers, params: &[] };
        Actions { asm, declared, scope, action: 0 }
    }

    /// Compiles the body of an action where it stands, with these values for its parameters.
    pub fn call(&mut self, action: ActionId, params: &[Num]) -> Result<(), LoadError> {
        let primitives = &self.declared.bodies[usize::from(action.0)];
        let scope = Scope { params, ..self.scope };
        let mut inner = Actions { asm: self.asm, declared: self.declared, scope, action: action.0 };
        let exits = inner.body(primitives)?;
        if let Some(last) = primitives.last() {
            self.asm.check_size(last)?;
        }
        if exits {
            self.asm.emit(Code::EndIfExit, 64, 0, self.declared.state.exit, 0);
        }
        Ok(())
    }

    /// Compiles a list of primitives; the code falls out at its end. Tells whether it may call `exit`.
    pub fn body(&mut self, primitives: &[At]) -> Result<bool, LoadError> {
        let (mut starts, mut jumps, mut exits) = (Vec::new(), Vec::new(), false);
        for (index, at) in primitives.iter().enumerate() {
            self.asm.statement();
            starts.push(self.asm.here());
            let op = at.get("op")?;
            match op.str()? {
                "_jump" => {
                    let [target] = at.get("parameters")?.tuple()?;
                    let target = self.jump_target(&target, primitives.len())?;
                    let code = if target <= index { Code::JumpBack } else { Code::Jump };
                    jumps.push((self.asm.emit_jump(code, 0, 0), target));
                }
                "_jump_if_zero" => {
                    let [cond, target] = at.get("parameters")?.tuple()?;
                    let target = self.jump_target(&target, primitives.len())?;
                    let cond = self.scope.bool(&cond)?;
                    let mut unless = Vec::new();
                    if target <= index {
                        self.asm.jump_unless(at, &Bool::Not(Box::new(cond)), &mut unless)?;
                        jumps.push((self.asm.emit_jump(Code::JumpBack, 0, 0), target));
                        unless.into_iter().for_each(|jump| self.asm.patch(jump));
                    } else {
                        self.asm.jump_unless(at, &cond, &mut unless)?;
                        jumps.extend(unless.into_iter().map(|jump| (jump, target)));
                    }
                }
                name => {
                    exits |= name == "exit";
                    self.primitive(at, name)?;
                }
            }
        }
        starts.push(self.asm.here());
        for (jump, target) in jumps {
            self.asm.object.code[jump].d = starts[target];
        }
        Ok(exits)
    }

    fn jump_target(&self, at: &At, count: usize) -> Result<usize, LoadError> {
        let target = at.get("value")?.hex()?.to_u64().and_then(|target| usize::try_from(target).ok());
        target.filter(|target| *target <= count).ok_or_else(|| at.error("the jump leaves the action"))
    }

    fn target(&self, at: &At) -> Result<Target, LoadError> {
        match self.scope.expr(at)? {
            Expr::Num(Num::Place(place)) => Ok(Target::Place(place)),
            Expr::Num(Num::Field(header, field)) => Ok(Target::Field(*header, (field.ty, field.field))),
            _ => at.fail("this cannot be assigned to"),
        }
    }

    fn assign(&mut self, at: &At, target: Target, value: &Num) -> Result<(), LoadError> {
        match target {
            Target::Place(place) => self.asm.assign(at, place, value),
            Target::Field(header, field) => self.asm.assign_at(at, &header, field, value),
        }
    }

    /// Runs an operation that writes its `d` (or leaves it as it is) on a target.
    fn update(&mut self, at: &At, code: Code, a: u16, b: u16) -> Result<(), LoadError> {
        match self.target(at)? {
            Target::Place(place) if place.bits <= 64 => {
                self.asm.emit(code, place.bits as u8, place.slot, a, b);
                Ok(())
            }
            target => {
                let slot = self.asm.temp(1);
                let temp = Place::unsigned(slot, 64);
                let old = self.scope.num(at)?;
                self.asm.assign(at, temp, &old)?;
                self.asm.emit(code, 64, slot, a, b);
                self.assign(at, target, &Num::Place(temp))
            }
        }
    }

    fn index(&mut self, at: &At) -> Result<u16, LoadError> {
        let num = self.scope.num(at)?;
        self.asm.narrow(at, &num)
    }

    fn binary(&mut self, target: &At, op: NumOp, left: &At, right: &At) -> Result<(), LoadError> {
        let (left, right) = (self.scope.num(left)?, self.scope.num(right)?);
        let place = self.target(target)?;
        self.assign(target, place, &Num::Binary(op, Box::new(left), Box::new(right)))
    }

    fn register(&self, at: &At) -> Result<u16, LoadError> {
        lookup(at, "register array", self.declared.registers.iter().map(|array| array.name.as_str()))
    }

    /// Returns a constant id, as its place among the lists, counted from 1; 0 for id 0, which is no list.
    fn list(&self, at: &At, what: &str, lists: &[FieldList]) -> Result<Num, LoadError> {
        let id = match self.scope.num(at)? {
            Num::Const(id) => id.to_u64(),
            _ => None,
        };
        match id {
            Some(0) => Ok(Num::small(0)),
            Some(id) => match lists.iter().position(|list| u64::try_from(list.id) == Ok(id)) {
                Some(index) => Ok(Num::small(index as u64 + 1)),
                None => at.fail(format_args!("there is no {what} {id}")),
            },
            None => at.fail(format_args!("the {what} must be a constant")),
        }
    }

    fn set(&mut self, at: &At, slot: u16, value: &Num) -> Result<(), LoadError> {
        self.asm.assign(at, Place::unsigned(slot, 64), value)
    }

    /// Compiles one primitive that is not a jump.
    pub fn primitive(&mut self, at: &At, name: &str) -> Result<(), LoadError> {
        let parameters = at.get("parameters")?;
        match name {
            "assign" | "modify_field" => {
                let [target, value] = parameters.tuple()?;
                let (place, value) = (self.target(&target)?, self.scope.num(&value)?);
                self.assign(at, place, &value)
            }
            "add_to_field" | "subtract_from_field" => {
                let [target, value] = parameters.tuple()?;
                let op = if name == "add_to_field" { NumOp::Add } else { NumOp::Sub };
                self.binary(&target, op, &target, &value)
            }
            "add" | "subtract" | "bit_xor" | "bit_or" | "bit_and" | "shift_left" | "shift_right" => {
                let [target, left, right] = parameters.tuple()?;
                let op = match name {
                    "add" => NumOp::Add,
                    "subtract" => NumOp::Sub,
                    "bit_xor" => NumOp::Xor,
                    "bit_or" => NumOp::Or,
                    "bit_and" => NumOp::And,
                    "shift_left" => NumOp::Shl,
                    _ => NumOp::Shr,
                };
                self.binary(&target, op, &left, &right)
            }
            "assign_VL" => self.assign_varbit(&parameters),
            "add_header" | "add_header_fast" | "remove_header" => {
                let [header] = parameters.tuple()?;
                let header = self.scope.header(&header)?;
                let base = self.asm.header(at, &header)?;
                let code = if name == "remove_header" { Code::SetInvalid } else { Code::SetValid };
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
                    (stack.size, stack.stride, stack.blocks.clone())
                };
                if shape(to) != shape(from) {
                    return at.fail("the stacks are of different types");
                }
                self.asm.whole_stack(to);
                self.asm.whole_stack(from);
                self.asm.emit(Code::CopyStack, 64, to as u16, from as u16, 0);
                Ok(())
            }
            "push" | "pop" => {
                let [stack, count] = parameters.tuple()?;
                let (stack, count) = (self.stack(&stack)?, self.index(&count)?);
                self.asm.whole_stack(stack);
                let code = if name == "push" { Code::Push } else { Code::Pop };
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
                let counter = lookup(&counter, "counter array", names)?;
                let index = self.index(&index)?;
                self.asm.emit(Code::Count, 64, 0, counter, index);
                Ok(())
            }
            "execute_meter" => {
                let [meter, index, target] = parameters.tuple()?;
                let names = self.declared.meters.iter().map(|array| array.name.as_str());
                let meter = lookup(&meter, "meter array", names)?;
                let index = self.index(&index)?;
                self.update(&target, Code::Meter, meter, index)
            }
            "modify_field_with_hash_based_offset" => {
                let [target, base, calculation, size] = parameters.tuple()?;
                self.hash(&target, &base, &calculation, &size)
            }
            "modify_field_rng_uniform" => {
                let [target, low, high] = parameters.tuple()?;
                let (low, high) = (self.index(&low)?, self.index(&high)?);
                self.update(&target, Code::Random, low, high)
            }
            "drop" => {
                let [] = parameters.tuple()?;
                self.drop(at)
            }
            "mark_to_drop" => {
                let [header] = parameters.tuple()?;
                self.mark_to_drop(&header)
            }
            "exit" => self.set(at, self.declared.state.exit, &Num::small(1)),
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => {
                let [session, list] = parameters.tuple()?;
                let list = self.list(&list, "field list", &self.declared.field_lists)?;
                let session = Box::new(self.scope.num(&session)?);
                let low = Box::new(Num::Binary(NumOp::And, session, Box::new(Num::small(SESSION_SET - 1))));
                let marked = Num::Binary(NumOp::Or, low, Box::new(Num::small(SESSION_SET)));
                self.set(at, self.declared.state.clone_session, &marked)?;
                self.set(at, self.declared.state.clone_list, &list)
            }
            "resubmit" | "recirculate" => {
                let [list] = parameters.tuple()?;
                let list = self.list(&list, "field list", &self.declared.field_lists)?;
                let slot = if name == "resubmit" {
                    self.declared.state.resubmit
                } else {
                    self.declared.state.recirculate
                };
                self.set(at, slot, &list)
            }
            "generate_digest" => {
                let [_receiver, list] = parameters.tuple()?;
                let list = self.list(&list, "learn list", &self.declared.learn_lists)?;
                self.set(at, self.declared.state.digest, &list)
            }
            "truncate" => {
                let [length] = parameters.tuple()?;
                let length = self.index(&length)?;
                self.asm.emit(Code::Truncate, 64, 0, length, 0);
                Ok(())
            }
            "log_msg" => self.log(&parameters),
            "assert" | "assume" => {
                let [condition] = parameters.tuple()?;
                let condition = self.scope.bool(&condition)?;
                let slot = self.asm.bool(at, &condition)?;
                self.asm.emit(Code::Assert, 64, 0, slot, self.action);
                Ok(())
            }
            "no_op" => Ok(()),
            other => at.get("op")?.fail(format_args!("primitive {other:?} is not supported")),
        }
    }

    fn stack(&self, at: &At) -> Result<usize, LoadError> {
        match self.scope.expr(at)? {
            Expr::Stack(stack) => Ok(stack),
            _ => at.fail("expected a header stack"),
        }
    }

    /// Returns the slot with the port that means drop, as a number.
    fn drop_port(&self) -> Num {
        Num::Place(Place::unsigned(self.declared.state.drop_port, 16))
    }

    fn drop(&mut self, at: &At) -> Result<(), LoadError> {
        let standard = &self.declared.standard;
        self.asm.assign(at, Place::unsigned(standard.egress_spec, standard.port_bits), &self.drop_port())?;
        match standard.mcast_grp_bits {
            0 => Ok(()),
            bits => self.asm.assign(at, Place::unsigned(standard.mcast_grp, bits), &Num::small(0)),
        }
    }

    /// Writes the drop port to a header of the type of the standard metadata: that itself, or a copy that an action's
    /// `inout` parameter became.
    fn mark_to_drop(&mut self, at: &At) -> Result<(), LoadError> {
        let header = self.scope.header(at)?;
        let ty = header.ty(self.asm.layout);
        let fields = &self.asm.layout.types[ty].fields;
        let find = |name: &str| fields.iter().position(|field| field.name == name);
        let (spec, group) = (find("egress_spec"), find("mcast_grp"));
        let Some(spec) = spec else {
            return at.fail("the header has no field \"egress_spec\": it is not standard metadata");
        };
        self.asm.assign_at(at, &header, (ty, spec), &self.drop_port())?;
        match group {
            Some(group) => self.asm.assign_at(at, &header, (ty, group), &Num::small(0)),
            None => Ok(()),
        }
    }

    fn copy_header(&mut self, at: &At, to: &HeaderExpr, from: &HeaderExpr) -> Result<(), LoadError> {
        if to.ty(self.asm.layout) != from.ty(self.asm.layout) {
            return at.fail("the headers are of different types");
        }
        if let (HeaderExpr::Static(to), HeaderExpr::Static(from)) = (to, from) {
            let (to, from) = (self.asm.layout.header(*to), self.asm.layout.header(*from));
            if to.metadata && from.metadata {
                // Metadata is always valid, without a bit that says so.
                let limbs = self.asm.layout.types[to.ty].slots - FIRST_FIELD;
                self.copy_slots(to.base + FIRST_FIELD, from.base + FIRST_FIELD, limbs);
                return Ok(());
            }
        }
        let (d, a) = (self.asm.whole_header(at, to)?, self.asm.whole_header(at, from)?);
        let index = self.asm.header_op(to);
        self.asm.emit(Code::CopyHeader, 64, d, a, index);
        Ok(())
    }

    fn copy_union(&mut self, at: &At, to: UnionExpr, from: UnionExpr) -> Result<(), LoadError> {
        let count = to.members(self.asm.layout).len();
        if count != from.members(self.asm.layout).len() {
            return at.fail("the unions are of different types");
        }
        for member in 0..count {
            let to = HeaderExpr::Member(to.clone(), member);
            self.copy_header(at, &to, &HeaderExpr::Member(from.clone(), member))?;
        }
        Ok(())
    }

    fn assign_varbit(&mut self, parameters: &At) -> Result<(), LoadError> {
        let [to, from] = parameters.tuple()?;
        let layout = self.asm.layout;
        let (to_at, from_at) = (to.get("value")?, from.get("value")?);
        let (to, from) = (layout.field(&to_at)?, layout.field(&from_at)?);
        let (to_type, from_type) = (layout.field_type(to), layout.field_type(from));
        if !to_type.varbit || !from_type.varbit || to_type.limbs != from_type.limbs {
            return parameters.fail("expected two fields of the same variable width");
        }
        self.copy_slots(layout.slot(to), layout.slot(from), to_type.limbs);
        Ok(())
    }

    fn copy_slots(&mut self, to: u16, from: u16, limbs: u16) {
        let wide = |slot| WideRef { slot, limbs, signed: false };
        let (d, a) = (wide(to), wide(from));
        self.asm.emit_wide_refs(WideOp { kind: WideKind::CopySlots, bits: 0, d, a, b: a });
    }

    fn register_read(&mut self, target: &At, register: &At, index: &At) -> Result<(), LoadError> {
        let array = self.register(register)?;
        if self.declared.registers[usize::from(array)].bits <= 64 {
            let index = self.index(index)?;
            return self.update(target, Code::RegRead, array, index);
        }
        let value = Num::Register(array, Box::new(self.scope.num(index)?));
        let place = self.target(target)?;
        self.assign(target, place, &value)
    }

    fn register_write(&mut self, register: &At, index: &At, value: &At) -> Result<(), LoadError> {
        let array = self.register(register)?;
        let bits = self.declared.registers[usize::from(array)].bits;
        let index = self.index(index)?;
        let num = self.scope.num(value)?;
        let limbs = bits.div_ceil(64) as u16;
        let slot = self.asm.temp(limbs);
        self.asm.assign(value, Place::unsigned(slot, bits), &num)?;
        if limbs == 1 {
            // The value need not pass through a temporary.
            match self.asm.object.code.pop() {
                Some(op) if op.code == Code::Mov && op.d == slot && op.w == 0 => {
                    self.asm.emit(Code::RegWrite, 64, op.a, array, index);
                }
                Some(op) => {
                    self.asm.object.code.push(op);
                    self.asm.emit(Code::RegWrite, 64, slot, array, index);
                }
                None => {}
            }
            return Ok(());
        }
        let a = WideRef { slot, limbs, signed: false };
        let b = WideRef { slot: index, limbs: 1, signed: false };
        self.asm.emit_wide_refs(WideOp { kind: WideKind::RegWrite(array), bits, d: b, a, b });
        Ok(())
    }

    fn hash(&mut self, target: &At, base: &At, calculation: &At, size: &At) -> Result<(), LoadError> {
        let names = self.declared.calculations.iter().map(|known| known.name.as_str());
        let calc = lookup(calculation, "calculation", names)?;
        let (base, size_num) = (self.scope.num(base)?, self.scope.num(size)?);
        let size = self.asm.narrow(size, &size_num)?;
        let slot = self.asm.temp(1);
        self.asm.emit(Code::Hash, 64, slot, calc, 0);
        match &size_num {
            Num::Const(big) if big.to_u64().is_some_and(u64::is_power_of_two) => {
                let mask = self.asm.constant(big.to_u64().unwrap_or(1) - 1);
                self.asm.emit(Code::And, 64, slot, slot, mask);
            }
            // Modulo 0 gives 0, as BMv2's taking a size of 0 for 1 does.
            _ => self.asm.emit(Code::Mod, 64, slot, slot, size),
        }
        let hashed = Num::Place(Place::unsigned(slot, 64));
        let place = self.target(target)?;
        match &base {
            Num::Const(big) if big.to_u64() == Some(0) => self.assign(target, place, &hashed),
            _ => self.assign(target, place, &Num::Binary(NumOp::Add, Box::new(hashed), Box::new(base))),
        }
    }

    fn log(&mut self, parameters: &At) -> Result<(), LoadError> {
        let [format, values] = parameters.tuple()?;
        let mut refs = Vec::new();
        // p4c writes an empty object for no values at all.
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
        self.asm.emit(Code::Log, 64, 0, index, 0);
        Ok(())
    }
}

/// Finds the index of the last thing that has the name which is the value of `at`.
fn lookup<'n>(
    at: &At,
    what: &str,
    mut names: impl DoubleEndedIterator<Item = &'n str> + ExactSizeIterator,
) -> Result<u16, LoadError> {
    let index = at.get("value")?.find(what, |name| names.rposition(|known| known == name))?;
    Ok(index as u16)
}
