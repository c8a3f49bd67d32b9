//! Lays out the tables, conditions and action calls of a pipeline as code.

use super::action::ActionCompiler;
use super::expr::NumExpr;
use super::json::JsonNode;
use super::op::{Opcode, Pc};
use super::table::{Successors, Table, TableDefinition, limbs};
use super::{ActionId, ActionInfo, LoadError, TracePoint};
use std::collections::HashMap;

enum Node<'a> {
    Table(usize, JsonNode<'a>),
    Condition(JsonNode<'a>),
    Call(JsonNode<'a>),
}

/// The control-flow graph of one pipeline. Nodes are identified by their names.
pub(super) struct ControlFlow<'a> {
    nodes: HashMap<&'a str, Node<'a>>,
    start: Option<&'a str>,
}

/// The address of an `End`, to which a null next node leads.
const END: Pc = 0;

impl<'a> ControlFlow<'a> {
    /// Loads the nodes and checks that those reachable from the start form no cycle.
    pub fn load(at: &JsonNode<'a>) -> Result<ControlFlow<'a>, LoadError> {
        let mut nodes = HashMap::new();
        let mut add = |at: &JsonNode<'a>, node: Node<'a>| match nodes.insert(at.get("name")?.str()?, node) {
            None => Ok(()),
            Some(_) => at.err("another node of the pipeline has this name"),
        };
        for (index, table) in at.list("tables")?.into_iter().enumerate() {
            add(&table.clone(), Node::Table(index, table))?;
        }
        for condition in at.list("conditionals")? {
            add(&condition.clone(), Node::Condition(condition))?;
        }
        for call in at.list("action_calls")? {
            add(&call.clone(), Node::Call(call))?;
        }
        let start = at.get_opt("init_table").map(|start| start.str()).transpose()?;
        let flow = ControlFlow { nodes, start };
        flow.check_acyclic(at)?;
        Ok(flow)
    }

    fn successors(&self, name: &str) -> Result<Vec<&'a str>, LoadError> {
        let mut next = Vec::new();
        let mut add = |at: Option<JsonNode<'a>>| {
            if let Some(at) = at {
                let name = at.str()?;
                if !self.nodes.contains_key(name) {
                    return at.err(format_args!("there is no node {name:?}"));
                }
                next.push(name);
            }
            Ok(())
        };
        match &self.nodes[name] {
            Node::Table(_, at) => {
                for (_, target) in at.get("next_tables")?.entries()? {
                    add((!target.value.is_null()).then_some(target))?;
                }
                add(at.get_opt("base_default_next"))?;
            }
            Node::Condition(at) => {
                add(at.get_opt("true_next"))?;
                add(at.get_opt("false_next"))?;
            }
            Node::Call(at) => add(at.get_opt("next_node"))?,
        }
        Ok(next)
    }

    /// Checks by depth-first search that no cycle is reachable from the start. `done` is false for the nodes
    /// of the current path.
    fn check_acyclic(&self, at: &JsonNode) -> Result<(), LoadError> {
        let Some(start) = self.start else { return Ok(()) };
        if !self.nodes.contains_key(start) {
            return at.get("init_table")?.err(format_args!("there is no node {start:?}"));
        }
        let mut done: HashMap<&str, bool> = HashMap::new();
        let mut path = vec![(start, self.successors(start)?)];
        done.insert(start, false);
        while let Some((name, rest)) = path.last_mut() {
            let Some(next) = rest.pop() else {
                done.insert(name, true);
                path.pop();
                continue;
            };
            match done.get(next) {
                Some(true) => {}
                Some(false) => {
                    return at.err(format_args!("the control flow has a cycle through {next:?}"));
                }
                None => {
                    done.insert(next, false);
                    path.push((next, self.successors(next)?));
                }
            }
        }
        Ok(())
    }

    /// Emits the code of the pipeline. Returns its address, and the tables with their successors. `first` is
    /// the index of the first table in the program.
    pub fn emit(
        &self,
        actions: &mut ActionCompiler,
        tables: Vec<TableDefinition>,
        first: usize,
        marks: &mut Vec<(Pc, TracePoint)>,
    ) -> Result<(Pc, Vec<Table>), LoadError> {
        let mut placed: HashMap<&str, Pc> = HashMap::new();
        let mut fixups: Vec<(usize, Option<&'a str>)> = Vec::new();
        let mut jumps: HashMap<usize, Successors<Option<&'a str>>> = HashMap::new();
        let mut waiting = Vec::from_iter(self.start);
        while let Some(name) = waiting.pop() {
            let mut node = Some(name).filter(|name| !placed.contains_key(name));
            // Follow one successor while it has no code, so that most code falls through to the next node.
            while let Some(name) = node {
                actions.asm.begin_statement();
                placed.insert(name, actions.asm.bind_label());
                let target = |at: &JsonNode<'a>, key: &str| at.get_opt(key).map(|at| at.str()).transpose();
                let (next, at) = match &self.nodes[name] {
                    Node::Condition(at) => {
                        let value = actions.scope.bool(&at.get("expression")?)?;
                        let (start, mut unless) = (actions.asm.bind_label(), Vec::new());
                        actions.asm.jump_unless(at, &value, &mut unless)?;
                        let end = actions.asm.bind_label();
                        marks.push((start, TracePoint::Condition { name: at.name()?, end }));
                        let otherwise = target(at, "false_next")?;
                        fixups.extend(unless.into_iter().map(|jump| (jump, otherwise)));
                        waiting.extend(otherwise);
                        (target(at, "true_next")?, at)
                    }
                    Node::Call(at) => {
                        let id = at.get("action_id")?;
                        let Some(action) = actions.declared.action_ids.get(&id.int()?) else {
                            return id.err("there is no action with this id");
                        };
                        inline(actions, at, *action, &[])?;
                        (target(at, "next_node")?, at)
                    }
                    Node::Table(index, at) if tables[*index].info.hidden => {
                        let table = &tables[*index];
                        let (action, args) = table.default.clone().unwrap_or_default();
                        let here = actions.asm.bind_label();
                        marks.push((here, TracePoint::Table((first + index) as u16)));
                        inline(actions, at, action, &args)?;
                        if actions.asm.bind_label() == here {
                            // A trace point belongs to an address. Without an operation of its own the hidden
                            // table would share that of its successor.
                            let jump = actions.asm.emit_jump(Opcode::Jump, 0, 0);
                            actions.asm.patch(jump);
                        }
                        let next = at.get("next_tables")?;
                        let key = if next.get_opt("__MISS__").is_some() || next.get("__MISS__").is_ok() {
                            "__MISS__"
                        } else {
                            &actions.declared.actions[usize::from(action.0)].name
                        };
                        (target(&next, key)?, at)
                    }
                    Node::Table(index, at) => {
                        actions.asm.emit(Opcode::ApplyTable, 64, 0, (first + index) as u16, 0);
                        let next = table_jumps(&tables[*index], at, &actions.declared.actions)?;
                        actions.asm.check_size(at)?;
                        let all = next.actions.iter().chain(&next.hit).chain(&next.miss).chain([&next.base]);
                        waiting.extend(all.copied().flatten());
                        jumps.insert(*index, next);
                        break;
                    }
                };
                actions.asm.check_size(at)?;
                node = match next {
                    Some(next) if !placed.contains_key(next) => Some(next),
                    next => {
                        let jump = actions.asm.emit_jump(Opcode::Jump, 0, 0);
                        fixups.push((jump, next));
                        None
                    }
                };
            }
        }
        let address = |name: Option<&str>| name.map_or(END, |name| placed[name]);
        for (jump, name) in fixups {
            actions.asm.object.code[jump].d = address(name);
        }
        let table = |(index, definition)| Table {
            definition,
            successors: jumps.remove(&index).unwrap_or_default().map(address),
        };
        Ok((address(self.start), tables.into_iter().enumerate().map(table).collect()))
    }
}

/// Compiles an action inline with constant arguments.
fn inline(
    actions: &mut ActionCompiler,
    at: &JsonNode,
    action: ActionId,
    args: &[u64],
) -> Result<(), LoadError> {
    let (mut rest, mut params) = (args, Vec::new());
    for (_, bits) in &actions.declared.actions[usize::from(action.0)].params {
        let Some((value, tail)) = rest.split_at_checked(limbs(*bits)) else {
            return at.err("the action has parameters, but is called without arguments");
        };
        params.push(NumExpr::limbs(value));
        rest = tail;
    }
    actions.inline_action(action, &params)
}

fn table_jumps<'a>(
    table: &TableDefinition,
    at: &JsonNode<'a>,
    actions: &[ActionInfo],
) -> Result<Successors<Option<&'a str>>, LoadError> {
    let next_at = at.get("next_tables")?;
    let targets = next_at.entries()?;
    let find = |key: &str| match targets.iter().find(|(name, _)| *name == key) {
        Some((_, target)) if target.value.is_null() => Ok(None),
        Some((_, target)) => target.str().map(Some),
        None => next_at.err(format_args!("{key:?} is missing")),
    };
    let by_action = targets.iter().all(|(name, _)| *name != "__HIT__" && *name != "__MISS__");
    let (hit, miss, next) = match by_action {
        true => {
            let name = |action: &ActionId| find(&actions[usize::from(action.0)].name);
            (None, None, table.info.actions.iter().map(name).collect::<Result<_, _>>()?)
        }
        false => (Some(find("__HIT__")?), Some(find("__MISS__")?), Vec::new()),
    };
    let base = at.get_opt("base_default_next").map(|at| at.str()).transpose()?;
    Ok(Successors { actions: next, hit, miss, base })
}
