//! Lowers the control-flow graph of a pipeline (tables, conditions and action calls) to code.

use super::action::ActionCompiler;
use super::error::LoadError;
use super::expr::NumExpr;
use super::id_vec::IdVec;
use super::json::JsonNode;
use super::limbs::limb_count;
use super::op::{Opcode, Pc, TracePoint};
use super::signatures::{ActionId, ActionInfo, TableId};
use super::table::{Successors, Table, TableDefinition};
use std::collections::HashMap;

/// A node of the graph, with its object in the JSON.
enum Node<'a> {
    /// `index` is that of the table in the pipeline.
    Table {
        index: usize,
        node: JsonNode<'a>,
    },
    Condition(JsonNode<'a>),
    ActionCall(JsonNode<'a>),
}

/// The control-flow graph of one pipeline. Nodes are identified by their names.
pub(super) struct ControlFlow<'a> {
    nodes: HashMap<&'a str, Node<'a>>,
    start: Option<&'a str>,
}

/// The address of an `End`, at which a node without successor continues. `LoweredProgram::new` emits it first.
const END: Pc = 0;

/// The state of a node in a depth-first search.
#[derive(Clone, Copy)]
enum Visit {
    /// On the path from the start to the current node.
    OnPath,
    /// All nodes that are reachable from it have been visited.
    Done,
}

impl<'a> ControlFlow<'a> {
    /// Loads the nodes and checks that those reachable from the start form no cycle.
    pub(super) fn load(node: &JsonNode<'a>) -> Result<ControlFlow<'a>, LoadError> {
        let mut nodes = HashMap::new();
        let mut add = |node: &JsonNode<'a>, graph_node: Node<'a>| match nodes
            .insert(node.get("name")?.str()?, graph_node)
        {
            None => Ok(()),
            Some(_) => node.err("another node of the pipeline has this name"),
        };
        for (index, table) in node.list("tables")?.into_iter().enumerate() {
            add(&table.clone(), Node::Table { index, node: table })?;
        }
        for condition in node.list("conditionals")? {
            add(&condition.clone(), Node::Condition(condition))?;
        }
        for call in node.list("action_calls")? {
            add(&call.clone(), Node::ActionCall(call))?;
        }
        let start = node.get_opt("init_table").map(|start| start.str()).transpose()?;
        let flow = ControlFlow { nodes, start };
        flow.check_acyclic(node)?;
        Ok(flow)
    }

    /// Returns the names of all nodes that may follow a node.
    fn successors(&self, name: &str) -> Result<Vec<&'a str>, LoadError> {
        let mut names = Vec::new();
        let mut add = |node: Option<JsonNode<'a>>| {
            if let Some(node) = node {
                let name = node.str()?;
                if !self.nodes.contains_key(name) {
                    return node.err(format_args!("there is no node {name:?}"));
                }
                names.push(name);
            }
            Ok(())
        };
        match &self.nodes[name] {
            Node::Table { node, .. } => {
                for (_, target) in node.get("next_tables")?.entries()? {
                    add((!target.value.is_null()).then_some(target))?;
                }
                add(node.get_opt("base_default_next"))?;
            }
            Node::Condition(node) => {
                add(node.get_opt("true_next"))?;
                add(node.get_opt("false_next"))?;
            }
            Node::ActionCall(node) => add(node.get_opt("next_node"))?,
        }
        Ok(names)
    }

    /// Checks by depth-first search that no cycle is reachable from the start.
    fn check_acyclic(&self, node: &JsonNode) -> Result<(), LoadError> {
        let Some(start) = self.start else { return Ok(()) };
        if !self.nodes.contains_key(start) {
            return node.get("init_table")?.err(format_args!("there is no node {start:?}"));
        }
        let mut visits: HashMap<&str, Visit> = HashMap::new();
        // The nodes of the current path, each with the successors that have not been visited from it.
        let mut path = vec![(start, self.successors(start)?)];
        visits.insert(start, Visit::OnPath);
        while let Some((name, unvisited)) = path.last_mut() {
            let Some(next) = unvisited.pop() else {
                visits.insert(name, Visit::Done);
                path.pop();
                continue;
            };
            match visits.get(next) {
                Some(Visit::Done) => {}
                Some(Visit::OnPath) => {
                    return node.err(format_args!("the control flow has a cycle through {next:?}"));
                }
                None => {
                    visits.insert(next, Visit::OnPath);
                    path.push((next, self.successors(next)?));
                }
            }
        }
        Ok(())
    }

    /// Emits the code of the pipeline. Returns its address, and the tables with their successors. `first_table` is the
    /// index of the pipeline's first table in the program.
    pub(super) fn emit(
        &self,
        compiler: &mut ActionCompiler,
        tables: Vec<TableDefinition>,
        first_table: usize,
        trace_points: &mut Vec<(Pc, TracePoint)>,
    ) -> Result<(Pc, Vec<Table>), LoadError> {
        let mut addresses: HashMap<&str, Pc> = HashMap::new();
        // Jumps to set when all nodes have addresses: index of the jump, and name of the node to which it leads.
        let mut fixups: Vec<(usize, Option<&'a str>)> = Vec::new();
        let mut successors: HashMap<usize, Successors<Option<&'a str>>> = HashMap::new();
        let mut waiting = Vec::from_iter(self.start);
        while let Some(name) = waiting.pop() {
            let mut current = Some(name).filter(|name| !addresses.contains_key(name));
            // Follow one successor while it has no code, so that most code falls through to the next node.
            while let Some(name) = current {
                compiler.builder.begin_statement();
                addresses.insert(name, compiler.builder.bind_label());
                let next_name =
                    |node: &JsonNode<'a>, key: &str| node.get_opt(key).map(|node| node.str()).transpose();
                let (next, node) = match &self.nodes[name] {
                    Node::Condition(node) => {
                        let value = compiler.bindings.bool(&node.get("expression")?)?;
                        let (start, mut unless) = (compiler.builder.bind_label(), Vec::new());
                        compiler.builder.jump_unless(node, &value, &mut unless)?;
                        let end = compiler.builder.bind_label();
                        trace_points.push((start, TracePoint::Condition { name: node.name()?, end }));
                        let otherwise = next_name(node, "false_next")?;
                        fixups.extend(unless.into_iter().map(|jump| (jump, otherwise)));
                        waiting.extend(otherwise);
                        (next_name(node, "true_next")?, node)
                    }
                    Node::ActionCall(node) => {
                        let id = node.get("action_id")?;
                        let Some(action) = compiler.declared.action_ids.get(&id.int()?) else {
                            return id.err("there is no action with this id");
                        };
                        inline_action(compiler, node, *action, &[])?;
                        (next_name(node, "next_node")?, node)
                    }
                    Node::Table { index, node } if tables[*index].info.hidden => {
                        let table = &tables[*index];
                        let (action, args) = table.default.clone().unwrap_or_default();
                        let start = compiler.builder.bind_label();
                        trace_points.push((start, TracePoint::Table(TableId((first_table + index) as u16))));
                        inline_action(compiler, node, action, &args)?;
                        if compiler.builder.bind_label() == start {
                            // A trace point belongs to an address. Without an operation of its own, the hidden
                            // table would share the address of its successor.
                            let jump = compiler.builder.emit_jump(Opcode::Jump, 0, 0);
                            compiler.builder.patch(jump);
                        }
                        // A hidden table has no key, so it always misses.
                        let next = node.get("next_tables")?;
                        let key = if next.get_opt("__MISS__").is_some() || next.get("__MISS__").is_ok() {
                            "__MISS__"
                        } else {
                            &compiler.declared.actions[action].name
                        };
                        (next_name(&next, key)?, node)
                    }
                    Node::Table { index, node } => {
                        compiler.builder.emit(Opcode::ApplyTable, 64, 0, (first_table + index) as u16, 0);
                        let next = table_successors(&tables[*index], node, &compiler.declared.actions)?;
                        compiler.builder.check_size(node)?;
                        let all = next.actions.iter().chain(&next.hit).chain(&next.miss).chain([&next.base]);
                        waiting.extend(all.copied().flatten());
                        successors.insert(*index, next);
                        break;
                    }
                };
                compiler.builder.check_size(node)?;
                current = match next {
                    Some(next) if !addresses.contains_key(next) => Some(next),
                    next => {
                        let jump = compiler.builder.emit_jump(Opcode::Jump, 0, 0);
                        fixups.push((jump, next));
                        None
                    }
                };
            }
        }
        let address = |name: Option<&str>| name.map_or(END, |name| addresses[name]);
        for (jump, name) in fixups {
            compiler.builder.unlinked.code[jump].d = address(name);
        }
        let table = |(index, definition)| Table {
            definition,
            successors: successors.remove(&index).unwrap_or_default().map(address),
        };
        Ok((address(self.start), tables.into_iter().enumerate().map(table).collect()))
    }
}

/// Compiles an action inline with constant arguments, as limbs.
fn inline_action(
    compiler: &mut ActionCompiler,
    node: &JsonNode,
    action: ActionId,
    args: &[u64],
) -> Result<(), LoadError> {
    let (mut remaining, mut params) = (args, Vec::new());
    for (_, bits) in &compiler.declared.actions[action].params {
        let Some((value, rest)) = remaining.split_at_checked(limb_count(*bits)) else {
            return node.err("the action has parameters, but is called without arguments");
        };
        params.push(NumExpr::from_limbs(value));
        remaining = rest;
    }
    compiler.inline_action(action, &params)
}

/// Returns the names of the nodes that may follow a table, from its `next_tables` and `base_default_next`.
fn table_successors<'a>(
    table: &TableDefinition,
    node: &JsonNode<'a>,
    actions: &IdVec<ActionId, ActionInfo>,
) -> Result<Successors<Option<&'a str>>, LoadError> {
    let next_node = node.get("next_tables")?;
    let targets = next_node.entries()?;
    let find = |key: &str| match targets.iter().find(|(name, _)| *name == key) {
        Some((_, target)) if target.value.is_null() => Ok(None),
        Some((_, target)) => target.str().map(Some),
        None => next_node.err(format_args!("{key:?} is missing")),
    };
    let is_by_action = targets.iter().all(|(name, _)| *name != "__HIT__" && *name != "__MISS__");
    let (hit, miss, next) = match is_by_action {
        true => {
            let name = |action: &ActionId| find(&actions[*action].name);
            (None, None, table.info.actions.iter().map(name).collect::<Result<_, _>>()?)
        }
        false => (Some(find("__HIT__")?), Some(find("__MISS__")?), Vec::new()),
    };
    let base = node.get_opt("base_default_next").map(|node| node.str()).transpose()?;
    Ok(Successors { actions: next, hit, miss, base })
}
