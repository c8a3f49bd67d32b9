//! Loads the parser: its states, with names resolved to headers, slots (64-bit words of the header vector) and indices.

mod select;

pub(crate) use select::{Keyset, PackedSelect, SelectCase, SelectPart};

use super::action::ActionCompiler;
use super::error::LoadError;
use super::expr::NumExpr;
use super::json::JsonNode;
use super::layout::{HeaderId, Layout};
use super::op::{ComputedSlot, Opcode, Pc, Slot};
use select::{SelectLoader, load_key_part, load_lookahead};
use std::collections::HashMap;

/// The parser of a program. States refer to each other by index; `None` as a next state accepts the packet.
#[derive(Debug)]
pub(crate) struct Parser {
    pub states: Vec<ParserState>,
    /// The first state; `None` if the parser accepts every packet at once.
    pub start: Option<u16>,
    pub value_sets: Vec<ValueSet>,
    /// Number of [lists of values](ValueSet::lists) of all value sets.
    pub value_list_count: usize,
    pub errors: ParserErrors,
}

#[derive(Debug)]
pub(crate) struct ParserState {
    pub name: String,
    pub ops: Vec<ParseOp>,
    pub key: Vec<SelectPart>,
    pub cases: Vec<SelectCase>,
    /// `key` and `cases` in a faster form, if the key fits one word.
    pub packed: Option<PackedSelect>,
    /// The next state if no case matches; `None` accepts.
    pub default: Option<u16>,
    /// Upper bound of the operations that the state executes, which count against
    /// [`LOOP_BUDGET`](super::op::LOOP_BUDGET).
    pub cost: u32,
}

impl ParserState {
    /// Returns the states that may follow this one, without accept.
    pub(crate) fn successors(&self) -> impl Iterator<Item = u16> + '_ {
        self.cases.iter().map(|case| case.next).chain([self.default]).flatten()
    }
}

/// An operation of a state. The `length` of an extraction is the length in bits of the header's varbit field, `None`
/// for a header without varbit field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParseOp {
    Extract {
        header: HeaderId,
        base: Slot,
        /// Whether the header is a member of a union, whose other members become invalid.
        in_union: bool,
        length: Option<ComputedSlot>,
    },
    /// Extracts to the next element of a stack. If the elements are unions, `block` is the index of the member to
    /// extract, otherwise 0.
    ExtractNext { stack: u16, block: u16, length: Option<ComputedSlot> },
    /// Reads `bits` bits of the packet, `offset` bits after the cursor, to a field of `width` bits that begins at
    /// `slot`. Higher bits are dropped. The cursor does not move.
    Lookahead { slot: Slot, width: u32, offset: u32, bits: u32 },
    /// Advances the cursor by a number of bits.
    Advance(ComputedSlot),
    /// Runs code up to its `End`.
    Run(Pc),
    /// Ends the parser with `error` unless `condition` is true.
    Verify { condition: ComputedSlot, error: ComputedSlot },
}

impl ParseOp {
    /// Returns the operation with `change` applied to each value that it computes: conditions, lengths and errors.
    pub(crate) fn map_computed_slots(self, mut change: impl FnMut(ComputedSlot) -> ComputedSlot) -> ParseOp {
        match self {
            ParseOp::Extract { header, base, in_union, length } => {
                ParseOp::Extract { header, base, in_union, length: length.map(change) }
            }
            ParseOp::ExtractNext { stack, block, length } => {
                ParseOp::ExtractNext { stack, block, length: length.map(change) }
            }
            ParseOp::Advance(length) => ParseOp::Advance(change(length)),
            ParseOp::Verify { condition, error } => {
                ParseOp::Verify { condition: change(condition), error: change(error) }
            }
            other => other,
        }
    }
}

/// A parser value set.
#[derive(Debug)]
pub(crate) struct ValueSet {
    pub name: String,
    pub bits: u32,
    /// The lists of the set's members: index of the list, and widths in bits of the parts into which its values are
    /// divided. Selects may divide the set's bits differently; each division has a list.
    pub lists: Vec<(u16, Vec<u32>)>,
}

/// The values of P4's `error` type: the errors of the core library, and the names of all errors.
#[derive(Debug)]
pub(crate) struct ParserErrors {
    pub no_error: u32,
    pub packet_too_short: u32,
    pub stack_out_of_bounds: u32,
    pub header_too_short: u32,
    pub invalid_argument: u32,
    pub names: Vec<(u32, String)>,
}

impl ParserErrors {
    pub(crate) fn load(root: &JsonNode) -> Result<ParserErrors, LoadError> {
        let mut names = Vec::new();
        for node in root.list("errors")? {
            let [name, value] = node.tuple()?;
            names.push((value.usize_at_most(i32::MAX as usize)? as u32, name.str()?.to_string()));
        }
        // Core errors that the program does not list get values just below `i32::MAX`. They cannot collide with those
        // of p4c, which count from 0.
        let mut next_free = i32::MAX as u32;
        let mut value_of = |name: &str| match names.iter().find(|(_, known)| known == name) {
            Some((value, _)) => *value,
            None => {
                next_free -= 1;
                next_free
            }
        };
        Ok(ParserErrors {
            no_error: names.iter().find(|(_, name)| name == "NoError").map_or(0, |(value, _)| *value),
            packet_too_short: value_of("PacketTooShort"),
            stack_out_of_bounds: value_of("StackOutOfBounds"),
            header_too_short: value_of("HeaderTooShort"),
            invalid_argument: value_of("ParserInvalidArgument"),
            names,
        })
    }
    pub(crate) fn name(&self, error: u32) -> &str {
        self.names.iter().find(|(value, _)| *value == error).map_or("unnamed error", |(_, name)| name)
    }
}

/// Maximum length of a select key in 64-bit words.
pub(crate) const MAX_SELECT_WORDS: usize = 16;

impl Parser {
    /// Returns whether the states have a cycle on which no byte of the packet is extracted: such a parser may not
    /// terminate.
    pub(crate) fn has_empty_cycle(&self, layout: &Layout) -> bool {
        let consumes_bytes = |op: &ParseOp| match *op {
            ParseOp::Extract { header, .. } => layout.header_type(header).bytes > 0,
            // Ends too, even with headers of length 0: an extraction beyond the end of the stack is an error.
            ParseOp::ExtractNext { .. } => true,
            _ => false,
        };
        // Topological sort of the states that extract nothing (Kahn's algorithm): repeatedly remove a state that no
        // remaining state leads to. States that cannot be removed are on a cycle or follow one.
        let is_empty: Vec<bool> =
            self.states.iter().map(|state| !state.ops.iter().any(consumes_bytes)).collect();
        let successors =
            |state: usize| self.states[state].successors().map(usize::from).filter(|next| is_empty[*next]);
        let mut removable: Vec<usize> = (0..is_empty.len()).filter(|state| is_empty[*state]).collect();
        let mut incoming = vec![0u32; is_empty.len()];
        removable.iter().flat_map(|state| successors(*state)).for_each(|next| incoming[next] += 1);
        let empty_count = removable.len();
        removable.retain(|state| incoming[*state] == 0);
        let mut removed = 0;
        while let Some(state) = removable.pop() {
            removed += 1;
            for next in successors(state) {
                incoming[next] -= 1;
                if incoming[next] == 0 {
                    removable.push(next);
                }
            }
        }
        removed < empty_count
    }

    /// Loads the parser.
    pub(crate) fn load(root: &JsonNode, compiler: &mut ActionCompiler) -> Result<Parser, LoadError> {
        let errors = ParserErrors::load(root)?;
        let mut selects = SelectLoader { sets: Vec::new(), lists: Vec::new(), states: HashMap::new() };
        for node in root.list("parse_vsets")? {
            let bits = node.get("compressed_bitwidth")?.usize_at_most(64 * MAX_SELECT_WORDS)? as u32;
            selects.sets.push((node.name()?, bits));
        }
        let parsers = root.get("parsers")?;
        let [node] = parsers.tuple()?;
        let state_nodes = node.get("parse_states")?.items()?;
        for (index, state) in state_nodes.iter().enumerate() {
            let Ok(index) = u16::try_from(index) else { return state.err("more than 65536 parser states") };
            if selects.states.insert(state.name()?, index).is_some() {
                return state.err("another state has this name");
            }
        }
        let mut states = Vec::new();
        for state in &state_nodes {
            let mut ops = Vec::new();
            for op in state.list("parser_ops")? {
                load_op(&op, compiler, &mut ops)?;
            }
            let mut key = Vec::new();
            for part in state.list("transition_key")? {
                key.push(load_key_part(&part, &compiler.declared.layout)?);
            }
            if key.iter().map(|part| part.words()).sum::<usize>() > MAX_SELECT_WORDS {
                return state
                    .get("transition_key")?
                    .err(format_args!("the select key exceeds {MAX_SELECT_WORDS} words of 64 bits"));
            }
            let (cases, default) = selects.cases(state, &key)?;
            let packed = PackedSelect::new(&key, &cases).filter(|select| !select.parts.is_empty());
            let cost = ops_cost(compiler, &ops).saturating_add(cases.len() as u32);
            states.push(ParserState { name: state.name()?, ops, key, cases, packed, default, cost });
        }
        let start = node.get_opt("init_state").map(|start| match selects.states.get(start.str()?) {
            Some(index) => Ok(*index),
            None => start.err(format_args!("there is no state {}", start.value)),
        });
        let SelectLoader { sets, lists, .. } = selects;
        let value_set = |(set, (name, bits)): (usize, (String, u32))| {
            let own_lists = (0..).zip(&lists).filter(|(_, (owner, _))| *owner == set);
            ValueSet {
                name,
                bits,
                lists: own_lists.map(|(list, (_, parts))| (list, parts.clone())).collect(),
            }
        };
        Ok(Parser {
            states,
            start: start.transpose()?,
            value_sets: sets.into_iter().enumerate().map(value_set).collect(),
            value_list_count: lists.len(),
            errors,
        })
    }
}

/// Returns how much a state's operations count against [`LOOP_BUDGET`](super::op::LOOP_BUDGET). At least 1, so that
/// cycles of states without operations exhaust the budget too.
fn ops_cost(compiler: &ActionCompiler, ops: &[ParseOp]) -> u32 {
    let layout = &compiler.declared.layout;
    let mut cost = 1u32;
    for op in ops {
        let fields = match *op {
            ParseOp::Extract { header, .. } => layout.header_type(header).fields.len(),
            ParseOp::ExtractNext { stack, block, .. } => {
                let (_, ty) = layout.stacks[usize::from(stack)].member_blocks[usize::from(block)];
                layout.types[ty].fields.len()
            }
            _ => 0,
        };
        let mut add_code = |start: Option<Pc>| {
            cost = cost.saturating_add(start.map_or(0, |start| compiler.cost_from(start)));
        };
        if let ParseOp::Run(start) = *op {
            add_code(Some(start));
        }
        op.map_computed_slots(|condition| {
            add_code(condition.code);
            condition
        });
        cost = cost.saturating_add(1 + fields as u32);
    }
    cost
}

fn load_op(node: &JsonNode, compiler: &mut ActionCompiler, ops: &mut Vec<ParseOp>) -> Result<(), LoadError> {
    let (name, parameters) = (node.get("op")?, node.get("parameters")?);
    match name.str()? {
        "extract" => {
            let [target] = parameters.tuple()?;
            let op = load_extract(&target, compiler, None)?;
            ops.push(op);
        }
        "extract_VL" => {
            let [target, length] = parameters.tuple()?;
            let num = compiler.bindings.num(&length)?;
            let length = compiler.builder.standalone(|builder| builder.lower_to_slot(&length, &num))?;
            let op = load_extract(&target, compiler, Some(length))?;
            ops.push(op);
        }
        "set" => {
            let [target, value] = parameters.tuple()?;
            if value.get("type")?.str()? == "lookahead" {
                let slot_ref = compiler.declared.layout.slot_ref(&target.get("value")?)?;
                let (offset, bits) = load_lookahead(&value.get("value")?)?;
                ops.push(ParseOp::Lookahead { slot: slot_ref.slot, width: slot_ref.bits, offset, bits });
                return Ok(());
            }
            let is_varbit = target.get("type")?.str()? == "field" && {
                let (field, layout) = (target.get("value")?, &compiler.declared.layout);
                let [_, name] = field.tuple()?;
                name.str()? != "$valid$" && layout.field_info(layout.field(&field)?).is_varbit
            };
            push_run(node, compiler, ops, |compiler| {
                compiler.lower_primitive(node, if is_varbit { "assign_VL" } else { "assign" })
            })?;
        }
        "primitive" => {
            let [call] = parameters.tuple()?;
            let op = call.get("op")?;
            let name = op.str()?;
            if name.starts_with("_jump") {
                return op.err("jumps are not supported in a parser");
            }
            push_run(node, compiler, ops, |compiler| compiler.lower_primitive(&call, name))?;
        }
        "shift" => {
            let [bytes] = parameters.tuple()?;
            const MAX_SHIFT_BYTES: usize = 1 << 16;
            let slot = compiler.builder.constant(bytes.usize_at_most(MAX_SHIFT_BYTES)? as u64 * 8);
            ops.push(ParseOp::Advance(ComputedSlot { code: None, slot }));
        }
        "advance" => {
            let [bits] = parameters.tuple()?;
            let num = compiler.bindings.num(&bits)?;
            ops.push(ParseOp::Advance(
                compiler.builder.standalone(|builder| builder.lower_to_slot(&bits, &num))?,
            ));
        }
        "verify" => {
            let [condition, error] = parameters.tuple()?;
            let value = compiler.bindings.bool(&condition)?;
            let condition = compiler.builder.standalone(|builder| builder.lower_bool(&condition, &value))?;
            let error_num = match error.int() {
                Ok(value) => NumExpr::from_u64(value as u64),
                Err(_) => compiler.bindings.num(&error)?,
            };
            let error = compiler.builder.standalone(|builder| builder.lower_to_slot(&error, &error_num))?;
            ops.push(ParseOp::Verify { condition, error });
        }
        other => return name.err(format_args!("parser operation {other:?} is not supported")),
    }
    Ok(())
}

/// Compiles a statement to [`ParseOp::Run`]. Consecutive statements share one `Run`.
fn push_run(
    node: &JsonNode,
    compiler: &mut ActionCompiler,
    ops: &mut Vec<ParseOp>,
    compile: impl FnOnce(&mut ActionCompiler) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    let extends_last_run = matches!(ops.last(), Some(ParseOp::Run(_)))
        && compiler.builder.unlinked.code.last().is_some_and(|op| op.opcode == Opcode::End);
    // Jumps of the previous statement may lead to its `End`. After it is removed, they lead to this statement, which
    // runs next in any case.
    if extends_last_run {
        compiler.builder.unlinked.code.pop();
    }
    let start = compiler.builder.bind_label();
    compiler.builder.begin_statement();
    compile(compiler)?;
    compiler.builder.emit(Opcode::End, 64, 0, 0, 0);
    if !extends_last_run {
        ops.push(ParseOp::Run(start));
    }
    compiler.builder.check_size(node)
}

fn load_extract(
    node: &JsonNode,
    compiler: &mut ActionCompiler,
    length: Option<ComputedSlot>,
) -> Result<ParseOp, LoadError> {
    let (kind, value, layout) = (node.get("type")?, node.get("value")?, &compiler.declared.layout);
    let check_varbit = |ty: usize| match (layout.types[ty].varbit_index, length) {
        (Some(_), None) => node.err("a header with a varbit field must be extracted with extract_VL"),
        (None, Some(_)) => node.err("extract_VL requires a header with a varbit field"),
        _ => Ok(()),
    };
    let (stack, block) = match kind.str()? {
        "regular" => {
            let header = layout.header_id(&value)?;
            check_varbit(layout.header(header).ty)?;
            let (base, in_union) =
                (layout.header(header).first_slot, layout.header(header).union_member.is_some());
            return Ok(ParseOp::Extract { header, base, in_union, length });
        }
        "stack" => (layout.stack_index(&value)?, 0),
        "union_stack" => {
            let [stack, member] = value.tuple()?;
            let stack = layout.union_stack_index(&stack)?;
            (stack, layout.union_stack_member_index(stack, &member)?)
        }
        other => return kind.err(format_args!("extraction to a {other:?} is not supported")),
    };
    check_varbit(layout.stacks[stack].member_blocks[block].1)?;
    compiler.builder.mark_stack_address_taken(stack);
    Ok(ParseOp::ExtractNext { stack: stack as u16, block: block as u16, length })
}
