//! Loads the parser: its states, with names resolved to headers, slots and indices.

use super::action::ActionCompiler;
use super::codegen::low_mask;
use super::expr::NumExpr;
use super::json::JsonNode;
use super::layout::Layout;
use super::op::{Opcode, Pc, Slot};
use super::{ComputedSlot, HeaderId, LoadError};
use std::collections::HashMap;

/// The parser of a program. States refer to each other by index; `None` as a next state accepts the packet.
#[derive(Debug)]
pub(crate) struct Parser {
    pub states: Vec<ParserState>,
    /// The first state; `None` if the parser accepts every packet at once.
    pub start: Option<u16>,
    pub value_sets: Vec<ValueSet>,
    /// Number of lists of values, see [`ValueSet::lists`].
    pub value_lists: usize,
    pub errors: ParserErrors,
}

#[derive(Debug)]
pub(crate) struct ParserState {
    pub name: String,
    pub ops: Vec<ParseOp>,
    pub key: Vec<SelectPart>,
    pub cases: Vec<SelectCase>,
    /// The same select with the key packed into one word, if it fits.
    pub packed: Option<PackedSelect>,
    /// The next state if no case matches; `None` accepts.
    pub default: Option<u16>,
    /// The operations that it takes, at most: what it costs of [`LOOP_BUDGET`](super::LOOP_BUDGET).
    pub cost: u32,
}

impl ParserState {
    /// Returns the states that may follow it.
    pub fn successors(&self) -> impl Iterator<Item = u16> + '_ {
        self.cases.iter().map(|case| case.next).chain([self.default]).flatten()
    }
}

/// An operation of a state. The `length` of an extraction is the length in bits of the header's varbit field;
/// `None` if it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParseOp {
    Extract {
        header: HeaderId,
        base: Slot,
        /// Whether the header is a member of a union, whose other members become invalid.
        union: bool,
        length: Option<ComputedSlot>,
    },
    /// Extracts to the next element of a stack; `block` is the index of the member if the elements are
    /// unions.
    ExtractNext { stack: u16, block: u16, length: Option<ComputedSlot> },
    /// Reads `bits` bits of the packet, `offset` bits ahead of the cursor, to the slots from `slot` on,
    /// truncated to `width` bits. The cursor does not move.
    Lookahead { slot: Slot, width: u32, offset: u32, bits: u32 },
    /// Advances the cursor by a number of bits.
    Advance(ComputedSlot),
    /// Runs code up to its `End`.
    Run(Pc),
    /// Ends the parser with `error` unless `condition` is true.
    Verify { condition: ComputedSlot, error: ComputedSlot },
}

/// A part of a select key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectPart {
    Slot {
        slot: Slot,
        bits: u32,
    },
    /// A field of the last header extracted to a stack.
    StackLast {
        stack: u16,
        offset: u16,
        bits: u32,
    },
    Lookahead {
        offset: u32,
        bits: u32,
    },
}

impl ParseOp {
    /// Returns the operation with `change` applied to each of its conditions, lengths and errors.
    pub fn map_conditions(self, mut change: impl FnMut(ComputedSlot) -> ComputedSlot) -> ParseOp {
        match self {
            ParseOp::Extract { header, base, union, length } => {
                ParseOp::Extract { header, base, union, length: length.map(change) }
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

impl SelectPart {
    pub fn bits(self) -> u32 {
        match self {
            SelectPart::Slot { bits, .. }
            | SelectPart::StackLast { bits, .. }
            | SelectPart::Lookahead { bits, .. } => bits,
        }
    }
    /// Returns the number of 64-bit words of the part in an unpacked key.
    pub fn words(self) -> usize {
        self.bits().div_ceil(64).max(1) as usize
    }
}

/// A select whose key consists of slots and fits one word.
#[derive(Debug)]
pub(crate) struct PackedSelect {
    /// Slot and shift of each part of the key.
    pub parts: Vec<(Slot, u8)>,
    /// Mask, value and next state of each case.
    pub cases: Vec<(u64, u64, Option<u16>)>,
}

impl PackedSelect {
    fn new(key: &[SelectPart], cases: &[SelectCase]) -> Option<PackedSelect> {
        let (mut parts, mut used) = (Vec::new(), 0);
        for part in key {
            let SelectPart::Slot { slot, bits } = *part else { return None };
            parts.push((slot, used as u8));
            used += bits;
            if used > 64 || bits == 0 {
                return None;
            }
        }
        let pack = |words: &[u64]| {
            let shifted = words.iter().zip(&parts).zip(key);
            shifted.fold(0, |all, ((word, (_, up)), part)| all | (word & low_mask(part.bits())) << up)
        };
        let mut packed = Vec::new();
        for case in cases {
            let Keyset::Masked { value, mask } = &case.pattern else { return None };
            // A value wider than its field never matches, so that its case is dropped.
            if value.iter().zip(key).any(|(word, part)| word & !low_mask(part.bits()) != 0) {
                continue;
            }
            packed.push((pack(mask), pack(value), case.next));
        }
        Some(PackedSelect { parts, cases: packed })
    }
}

#[derive(Debug)]
pub(crate) struct SelectCase {
    pub pattern: Keyset,
    pub next: Option<u16>,
}

/// The keyset expression of a case. Values have the words of the key parts in order, least significant first
/// within a part.
#[derive(Debug)]
pub(crate) enum Keyset {
    Masked {
        value: Vec<u64>,
        mask: Vec<u64>,
    },
    /// Matches if the masked key is in a list of a value set.
    ValueSet {
        list: u16,
        mask: Option<Vec<u64>>,
    },
}

/// A parser value set.
#[derive(Debug)]
pub(crate) struct ValueSet {
    pub name: String,
    pub bits: u32,
    /// The lists with the set's members, each with the widths of its key parts: a set has one list for every
    /// way in which a select divides its bits into parts.
    pub lists: Vec<(u16, Vec<u32>)>,
}

/// The values of P4's `error` type: those that the core library defines, and the names of all.
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
    pub fn load(root: &JsonNode) -> Result<ParserErrors, LoadError> {
        let mut names = Vec::new();
        for at in root.list("errors")? {
            let [name, value] = at.tuple()?;
            names.push((value.usize_at_most(i32::MAX as usize)? as u32, name.str()?.to_string()));
        }
        // Core errors that the program does not list get values just below `i32::MAX`, since p4c numbers from
        // 0.
        let mut free = i32::MAX as u32;
        let mut number = |name: &str| match names.iter().find(|(_, known)| known == name) {
            Some((value, _)) => *value,
            None => {
                free -= 1;
                free
            }
        };
        Ok(ParserErrors {
            no_error: names.iter().find(|(_, name)| name == "NoError").map_or(0, |(value, _)| *value),
            packet_too_short: number("PacketTooShort"),
            stack_out_of_bounds: number("StackOutOfBounds"),
            header_too_short: number("HeaderTooShort"),
            invalid_argument: number("ParserInvalidArgument"),
            names,
        })
    }
    pub fn name(&self, error: u32) -> &str {
        self.names.iter().find(|(value, _)| *value == error).map_or("unnamed error", |(_, name)| name)
    }
}

/// The most 64-bit words of a select key.
pub(crate) const MAX_SELECT_WORDS: usize = 16;

impl Parser {
    /// Returns whether states may follow each other in a circle without taking a byte of the packet.
    pub fn may_circle(&self, layout: &Layout) -> bool {
        let takes = |op: &ParseOp| match *op {
            ParseOp::Extract { header, .. } => layout.header_type(header).bytes > 0,
            // JsonNode the end of the stack is an error.
            ParseOp::ExtractNext { .. } => true,
            _ => false,
        };
        // States that nothing leads to are removed until there is none; what stays is in a circle, or behind one.
        let free: Vec<bool> = self.states.iter().map(|state| !state.ops.iter().any(takes)).collect();
        let next = |state: usize| {
            let next = self.states[state].successors().map(usize::from);
            next.filter(|next| free[*next])
        };
        let mut left: Vec<usize> = (0..free.len()).filter(|state| free[*state]).collect();
        let mut incoming = vec![0u32; free.len()];
        left.iter().flat_map(|state| next(*state)).for_each(|next| incoming[next] += 1);
        let all = left.len();
        left.retain(|state| incoming[*state] == 0);
        let mut removed = 0;
        while let Some(state) = left.pop() {
            removed += 1;
            for next in next(state) {
                incoming[next] -= 1;
                if incoming[next] == 0 {
                    left.push(next);
                }
            }
        }
        removed < all
    }

    /// Loads the parser.
    pub fn load(root: &JsonNode, actions: &mut ActionCompiler) -> Result<Parser, LoadError> {
        let errors = ParserErrors::load(root)?;
        let mut selects = SelectLoader { sets: Vec::new(), lists: Vec::new(), states: HashMap::new() };
        for at in root.list("parse_vsets")? {
            let bits = at.get("compressed_bitwidth")?.usize_at_most(64 * MAX_SELECT_WORDS)? as u32;
            selects.sets.push((at.name()?, bits));
        }
        let parsers = root.get("parsers")?;
        let [at] = parsers.tuple()?;
        let state_ats = at.get("parse_states")?.items()?;
        for (number, state) in state_ats.iter().enumerate() {
            let Ok(number) = u16::try_from(number) else { return state.err("more than 65536 parser states") };
            if selects.states.insert(state.name()?, number).is_some() {
                return state.err("another state has this name");
            }
        }
        let mut states = Vec::new();
        for state in &state_ats {
            let mut ops = Vec::new();
            for op in state.list("parser_ops")? {
                load_op(&op, actions, &mut ops)?;
            }
            let mut key = Vec::new();
            for part in state.list("transition_key")? {
                key.push(load_key_part(&part, &actions.declared.layout)?);
            }
            if key.iter().map(|part| part.words()).sum::<usize>() > MAX_SELECT_WORDS {
                return state
                    .get("transition_key")?
                    .err(format_args!("the select key exceeds {MAX_SELECT_WORDS} words of 64 bits"));
            }
            let (cases, default) = selects.cases(state, &key)?;
            let word = PackedSelect::new(&key, &cases).filter(|select| !select.parts.is_empty());
            let cost = cost(actions, &ops).saturating_add(cases.len() as u32);
            states.push(ParserState { name: state.name()?, ops, key, cases, packed: word, default, cost });
        }
        let start = at.get_opt("init_state").map(|start| match selects.states.get(start.str()?) {
            Some(number) => Ok(*number),
            None => start.err(format_args!("there is no state {}", start.value)),
        });
        let SelectLoader { sets, lists, .. } = selects;
        let value_set = |(set, (name, bits)): (usize, (String, u32))| {
            let own = (0..).zip(&lists).filter(|(_, (of, _))| *of == set);
            ValueSet { name, bits, lists: own.map(|(list, (_, parts))| (list, parts.clone())).collect() }
        };
        Ok(Parser {
            states,
            start: start.transpose()?,
            value_sets: sets.into_iter().enumerate().map(value_set).collect(),
            value_lists: lists.len(),
            errors,
        })
    }
}

/// Returns the operations of a state's extractions and statements; never 0.
fn cost(actions: &ActionCompiler, ops: &[ParseOp]) -> u32 {
    let layout = &actions.declared.layout;
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
        let mut of_code = |start: Option<Pc>| {
            cost = cost.saturating_add(start.map_or(0, |start| actions.cost_from(start)));
        };
        if let ParseOp::Run(start) = *op {
            of_code(Some(start));
        }
        op.map_conditions(|condition| {
            of_code(condition.code);
            condition
        });
        cost = cost.saturating_add(1 + fields as u32);
    }
    cost
}

/// The objects that selects refer to by name.
struct SelectLoader {
    states: HashMap<String, u16>,
    /// Name and width in bits of each value set.
    sets: Vec<(String, u32)>,
    /// For each list of values, the index of its set and the widths of the key parts.
    lists: Vec<(usize, Vec<u32>)>,
}

impl SelectLoader {
    /// Loads the cases of a state's select, and the next state if none matches.
    fn cases(
        &mut self,
        state: &JsonNode,
        key: &[SelectPart],
    ) -> Result<(Vec<SelectCase>, Option<u16>), LoadError> {
        let (mut cases, mut default) = (Vec::new(), None);
        for at in state.list("transitions")? {
            let next = self.next(&at)?;
            match at.get_opt("type").map_or(Ok("hexstr"), |at| at.str())? {
                "default" => default = next,
                "hexstr" if at.get("value")?.str()? == "default" => default = next,
                "hexstr" => {
                    let value = words(&at.get("value")?, key)?;
                    let mask = match at.get_opt("mask") {
                        Some(mask) => words(&mask, key)?,
                        None => vec![u64::MAX; value.len()],
                    };
                    let value = value.iter().zip(&mask).map(|(value, mask)| value & mask).collect();
                    cases.push(SelectCase { pattern: Keyset::Masked { value, mask }, next });
                }
                "parse_vset" => cases.push(SelectCase { pattern: self.value_set(&at, key)?, next }),
                other => return at.err(format_args!("a transition of type {other:?} is not supported")),
            }
        }
        Ok((cases, default))
    }

    fn next(&self, at: &JsonNode) -> Result<Option<u16>, LoadError> {
        match at.get_opt("next_state") {
            None => Ok(None),
            Some(next) => match self.states.get(next.str()?) {
                Some(number) => Ok(Some(*number)),
                None => next.err(format_args!("there is no state {}", next.value)),
            },
        }
    }

    fn value_set(&mut self, at: &JsonNode, key: &[SelectPart]) -> Result<Keyset, LoadError> {
        let set = |name: &str| self.sets.iter().position(|(known, _)| known == name);
        let set = at.get("value")?.find("value set", set)?;
        let mask = at.get_opt("mask").map(|mask| words(&mask, key)).transpose()?;
        let parts: Vec<u32> = key.iter().map(|part| part.bits()).collect();
        if self.sets[set].1 != parts.iter().sum::<u32>() {
            return at.err("the value set's width differs from the key's");
        }
        let wanted = (set, parts);
        let known = self.lists.iter().position(|list| *list == wanted);
        let list = known.unwrap_or_else(|| {
            self.lists.push(wanted);
            self.lists.len() - 1
        });
        Ok(Keyset::ValueSet { list: list.min(usize::from(u16::MAX)) as u16, mask })
    }
}

/// Splits the value of a case, in which each part is padded to whole bytes, into words.
fn words(at: &JsonNode, key: &[SelectPart]) -> Result<Vec<u64>, LoadError> {
    let bytes = at.hex_bytes()?;
    let expected: usize = key.iter().map(|part| part.bits().div_ceil(8) as usize).sum();
    if bytes.len() != expected {
        return at.err(format_args!("expected {expected} bytes, found {}", bytes.len()));
    }
    let (mut rest, mut words) = (bytes.as_slice(), Vec::new());
    for part in key {
        let (value, tail) = rest.split_at(part.bits().div_ceil(8) as usize);
        rest = tail;
        words.extend(limbs_from_be_bytes(value, part.words()));
    }
    Ok(words)
}

/// Returns `count` limbs of a big-endian number, least significant first. Missing limbs are 0.
pub(crate) fn limbs_from_be_bytes(bytes: &[u8], count: usize) -> impl Iterator<Item = u64> {
    let mut chunks = bytes.rchunks(8);
    let limb = |chunk: &[u8]| chunk.iter().fold(0, |limb, byte| limb << 8 | u64::from(*byte));
    (0..count).map(move |_| chunks.next().map_or(0, limb))
}

fn load_key_part(at: &JsonNode, layout: &Layout) -> Result<SelectPart, LoadError> {
    let (kind, value) = (at.get("type")?, at.get("value")?);
    Ok(match kind.str()? {
        "field" => {
            let place = layout.slot_ref(&value)?;
            SelectPart::Slot { slot: place.slot, bits: place.bits }
        }
        "stack_field" => {
            let [stack, field] = value.tuple()?;
            let stack = layout.stack(&stack)?;
            let ty = layout.stacks[stack].member_blocks[0].1;
            last(layout, &field, stack, 0, ty)?
        }
        "union_stack_field" => {
            let [stack, member, field] = value.tuple()?;
            let stack = layout.union_stack(&stack)?;
            let member = layout.union_stack_member(stack, &member)?;
            let (offset, ty) = layout.stacks[stack].member_blocks[member];
            last(layout, &field, stack, offset, ty)?
        }
        "lookahead" => {
            let (offset, bits) = lookahead(&value)?;
            SelectPart::Lookahead { offset, bits }
        }
        other => return kind.err(format_args!("a key of type {other:?} is not supported")),
    })
}

fn last(
    layout: &Layout,
    at: &JsonNode,
    stack: usize,
    block: u16,
    ty: usize,
) -> Result<SelectPart, LoadError> {
    let ty = &layout.types[ty];
    let field = &ty.fields[ty.field(at)?];
    if field.varbit {
        return at.err("a varbit field cannot be used in a select key");
    }
    Ok(SelectPart::StackLast { stack: stack as u16, offset: block + field.slot, bits: field.bits })
}

fn lookahead(at: &JsonNode) -> Result<(u32, u32), LoadError> {
    const MAX_BITS: usize = 4096;
    let [offset, bits] = at.tuple()?;
    Ok((offset.usize_at_most(MAX_BITS)? as u32, bits.usize_at_most(MAX_BITS)? as u32))
}

fn load_op(at: &JsonNode, actions: &mut ActionCompiler, ops: &mut Vec<ParseOp>) -> Result<(), LoadError> {
    let (name, parameters) = (at.get("op")?, at.get("parameters")?);
    match name.str()? {
        "extract" => {
            let [what] = parameters.tuple()?;
            let op = extract(&what, actions, None)?;
            ops.push(op);
        }
        "extract_VL" => {
            let [what, length] = parameters.tuple()?;
            let num = actions.scope.num(&length)?;
            let length = actions.asm.standalone(|asm| asm.lower_to_slot(&length, &num))?;
            let op = extract(&what, actions, Some(length))?;
            ops.push(op);
        }
        "set" => {
            let [target, value] = parameters.tuple()?;
            if value.get("type")?.str()? == "lookahead" {
                let place = actions.declared.layout.slot_ref(&target.get("value")?)?;
                let (offset, bits) = lookahead(&value.get("value")?)?;
                ops.push(ParseOp::Lookahead { slot: place.slot, width: place.bits, offset, bits });
                return Ok(());
            }
            let varbit = target.get("type")?.str()? == "field" && {
                let (field, layout) = (target.get("value")?, &actions.declared.layout);
                let [_, name] = field.tuple()?;
                name.str()? != "$valid$" && layout.field_type(layout.field(&field)?).varbit
            };
            run(at, actions, ops, |actions| {
                actions.lower_primitive(at, if varbit { "assign_VL" } else { "assign" })
            })?;
        }
        "primitive" => {
            let [call] = parameters.tuple()?;
            let op = call.get("op")?;
            let name = op.str()?;
            if name.starts_with("_jump") {
                return op.err("jumps are not supported in a parser");
            }
            run(at, actions, ops, |actions| actions.lower_primitive(&call, name))?;
        }
        "shift" => {
            let [bytes] = parameters.tuple()?;
            const MAX_SHIFT: usize = 1 << 16;
            let slot = actions.asm.constant(bytes.usize_at_most(MAX_SHIFT)? as u64 * 8);
            ops.push(ParseOp::Advance(ComputedSlot { code: None, slot }));
        }
        "advance" => {
            let [bits] = parameters.tuple()?;
            let num = actions.scope.num(&bits)?;
            ops.push(ParseOp::Advance(actions.asm.standalone(|asm| asm.lower_to_slot(&bits, &num))?));
        }
        "verify" => {
            let [condition, error] = parameters.tuple()?;
            let value = actions.scope.bool(&condition)?;
            let condition = actions.asm.standalone(|asm| asm.lower_bool(&condition, &value))?;
            let code = match error.int() {
                Ok(code) => NumExpr::small(code as u64),
                Err(_) => actions.scope.num(&error)?,
            };
            let error = actions.asm.standalone(|asm| asm.lower_to_slot(&error, &code))?;
            ops.push(ParseOp::Verify { condition, error });
        }
        other => return name.err(format_args!("parser operation {other:?} is not supported")),
    }
    Ok(())
}

/// Compiles a statement to [`ParseOp::Run`]. Consecutive statements share one.
fn run(
    at: &JsonNode,
    actions: &mut ActionCompiler,
    ops: &mut Vec<ParseOp>,
    compile: impl FnOnce(&mut ActionCompiler) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    let joins = matches!(ops.last(), Some(ParseOp::Run(_)))
        && actions.asm.object.code.last().is_some_and(|op| op.code == Opcode::End);
    // Jumps of the previous statement may lead to its `End`. Without the `End` they continue with this
    // statement, which runs next anyway.
    if joins {
        actions.asm.object.code.pop();
    }
    let start = actions.asm.bind_label();
    actions.asm.begin_statement();
    compile(actions)?;
    actions.asm.emit(Opcode::End, 64, 0, 0, 0);
    if !joins {
        ops.push(ParseOp::Run(start));
    }
    actions.asm.check_size(at)
}

fn extract(
    at: &JsonNode,
    actions: &mut ActionCompiler,
    length: Option<ComputedSlot>,
) -> Result<ParseOp, LoadError> {
    let (kind, value, layout) = (at.get("type")?, at.get("value")?, &actions.declared.layout);
    let check = |ty: usize| match (layout.types[ty].varbit, length) {
        (Some(_), None) => at.err("a header with a varbit field must be extracted with extract_VL"),
        (None, Some(_)) => at.err("extract_VL requires a header with a varbit field"),
        _ => Ok(()),
    };
    let (stack, block) = match kind.str()? {
        "regular" => {
            let header = layout.header_id(&value)?;
            check(layout.header(header).ty)?;
            let (base, union) = (layout.header(header).first_slot, layout.header(header).union.is_some());
            return Ok(ParseOp::Extract { header, base, union, length });
        }
        "stack" => (layout.stack(&value)?, 0),
        "union_stack" => {
            let [stack, member] = value.tuple()?;
            let stack = layout.union_stack(&stack)?;
            (stack, layout.union_stack_member(stack, &member)?)
        }
        other => return kind.err(format_args!("extraction to a {other:?} is not supported")),
    };
    check(layout.stacks[stack].member_blocks[block].1)?;
    actions.asm.mark_stack_address_taken(stack);
    Ok(ParseOp::ExtractNext { stack: stack as u16, block: block as u16, length })
}
