//! Control flow: lays tables, conditions and action calls of a pipeline out as code.

use super::LoadError;
use super::action::Actions;
use super::json::At;
use super::op::{Code, Pc};
use super::table::Table;
use std::collections::HashMap;

/// A node of a pipeline's control flow.
enum Node<'a> {
    Table(usize, At<'a>),
    Condition(At<'a>),
    Call(At<'a>),
}

/// The control flow of one pipeline.
pub(super) struct Flow<'a> {
    nodes: HashMap<&'a str, Node<'a>>,
    start: Option<&'a str>,
}

/// A jump whose target is a node.
enum Fixup {
    Op(usize),
    Action(usize, usize),
    Hit(usize),
    Miss(usize),
    Base(usize),
}

/// Code address 0 holds `End`: where a null next node leads.
pub(super) const END: Pc = 0;

impl<'a> Flow<'a> {
    /// Collects the nodes and checks that they form no cycle. Tables are numbered from `first`.
    pub fn load(at: &At<'a>, first: usize) -> Result<Flow<'a>, LoadError> {
        let mut nodes = HashMap::new();
        let mut add = |at: &At<'a>, node: Node<'a>| match nodes.insert(at.get("name")?.str()?, node) {
            None => Ok(()),
            Some(_) => at.fail("another node of the pipeline has this name"),
        };
        for (index, table) in at.list("tables")?.into_iter().enumerate() {
            add(&table.clone(), Node::Table(first + index, table))?;
        }
        for condition in at.list("conditionals")? {
            add(&condition.clone(), Node::Condition(condition))?;
        }
        for call in at.list("action_calls")? {
            add(&call.clone(), Node::Call(call))?;
        }
        let start = at.opt("init_table").map(|start| start.str()).transpose()?;
        let flow = Flow { nodes, start };
        flow.check(at)?;
        Ok(flow)
    }

    fn successors(&self, name: &str) -> Result<Vec<&'a str>, LoadError> {
        let mut next = Vec::new();
        let mut add = |at: Option<At<'a>>| {
            if let Some(at) = at {
                let name = at.str()?;
                if !self.nodes.contains_key(name) {
                    return at.fail(format_args!("there is no node {name:?}"));
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
                add(at.opt("base_default_next"))?;
            }
            Node::Condition(at) => {
                add(at.opt("true_next"))?;
                add(at.opt("false_next"))?;
            }
            Node::Call(at) => add(at.opt("next_node"))?,
        }
        Ok(next)
    }

    /// Every path must come to an end.
    fn check(&self, at: &At) -> Result<(), LoadError> {
        let Some(start) = self.start else { return Ok(()) };
        if !self.nodes.contains_key(start) {
            return at.get("init_table")?.fail(format_args!("there is no node {start:?}"));
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
                    return at.fail(format_args!("the control flow runs in a circle through {next:?}"));
                }
                None => {
                    done.insert(next, false);
                    path.push((next, self.successors(next)?));
                }
            }
        }
        Ok(())
    }

    /// Emits the code; returns where it starts. `inline` compiles the body of an action with constant arguments
    /// where it stands and tells whether it may `exit`.
    pub fn emit(
        &self,
        actions: &mut Actions,
        tables: &mut [Table],
        names: &[String],
        mut inline: impl FnMut(&mut Actions, &At, u16, &[u64]) -> Result<bool, LoadError>,
        call: impl Fn(&At) -> Result<u16, LoadError>,
        marks: &mut Vec<(Pc, super::Mark)>,
    ) -> Result<Pc, LoadError> {
        let Some(start) = self.start else { return Ok(END) };
        let mut placed: HashMap<&str, Pc> = HashMap::new();
        let mut fixups: Vec<(Fixup, Option<&'a str>)> = Vec::new();
        let mut waiting = vec![start];
        while let Some(name) = waiting.pop() {
            let mut node = Some(name).filter(|name| !placed.contains_key(name));
            // Follow one way as far as it is new, so that code mostly falls through.
            while let Some(name) = node {
                actions.asm.statement();
                placed.insert(name, actions.asm.here());
                let target = |at: &At<'a>, key: &str| at.opt(key).map(|at| at.str()).transpose();
                let (next, at) = match &self.nodes[name] {
                    Node::Condition(at) => {
                        let value = actions.scope.bool(&at.get("expression")?)?;
                        let (start, mut jumps) = (actions.asm.here(), Vec::new());
                        actions.asm.jump_unless(at, &value, &mut jumps)?;
                        let end = actions.asm.here();
                        marks.push((start, super::Mark::Condition { name: at.name()?, end }));
                        let otherwise = target(at, "false_next")?;
                        fixups.extend(jumps.into_iter().map(|jump| (Fixup::Op(jump), otherwise)));
                        waiting.extend(otherwise);
                        (target(at, "true_next")?, at)
                    }
                    Node::Call(at) => {
                        let action = call(&at.get("action_id")?)?;
                        if inline(actions, at, action, &[])? {
                            actions.asm.emit(Code::EndIfExit, 64, 0, actions.state.exit, 0);
                        }
                        (target(at, "next_node")?, at)
                    }
                    Node::Table(index, at) if tables[*index].info.hidden => {
                        let table = &tables[*index];
                        let (action, args) = table.default.clone().unwrap_or_default();
                        let here = actions.asm.here();
                        marks.push((here, super::Mark::Table(*index as u16)));
                        if inline(actions, at, action.0, &args)? {
                            actions.asm.emit(Code::EndIfExit, 64, 0, actions.state.exit, 0);
                        }
                        if actions.asm.here() == here {
                            // Something must stand where the table is, or it could not be told from what follows.
                            let jump = actions.asm.emit_jump(Code::Jump, 0, 0);
                            actions.asm.patch(jump);
                        }
                        let next = at.get("next_tables")?;
                        let key = if next.opt("__MISS__").is_some() || next.get("__MISS__").is_ok() {
                            "__MISS__"
                        } else {
                            names[usize::from(action.0)].as_str()
                        };
                        (target(&next, key)?, at)
                    }
                    Node::Table(index, at) => {
                        actions.asm.emit(Code::Table, 64, 0, *index as u16, 0);
                        let next = table_fixups(*index, &tables[*index], at, names, &mut fixups)?;
                        actions.asm.check_size(at)?;
                        waiting.extend(&next);
                        break;
                    }
                };
                actions.asm.check_size(at)?;
                node = match next {
                    Some(next) if !placed.contains_key(next) => Some(next),
                    next => {
                        let jump = actions.asm.emit_jump(Code::Jump, 0, 0);
                        fixups.push((Fixup::Op(jump), next));
                        None
                    }
                };
            }
        }
        for (fixup, name) in fixups {
            let pc = name.map_or(END, |name| placed[name]);
            match fixup {
                Fixup::Op(op) => actions.asm.code[op].d = pc,
                Fixup::Action(table, action) => tables[table].actions[action].next = pc,
                Fixup::Hit(table) => tables[table].hit = Some(pc),
                Fixup::Miss(table) => tables[table].miss = Some(pc),
                Fixup::Base(table) => tables[table].base = pc,
            }
        }
        Ok(placed[start])
    }
}

fn table_fixups<'a>(
    index: usize,
    table: &Table,
    at: &At<'a>,
    names: &[String],
    fixups: &mut Vec<(Fixup, Option<&'a str>)>,
) -> Result<Vec<&'a str>, LoadError> {
    let next_at = at.get("next_tables")?;
    let targets = next_at.entries()?;
    let find = |key: &str| match targets.iter().find(|(name, _)| *name == key) {
        Some((_, target)) if target.value.is_null() => Ok(None),
        Some((_, target)) => target.str().map(Some),
        None => next_at.fail(format_args!("{key:?} is missing")),
    };
    let mut waiting = Vec::new();
    let mut add = |fixup, target: Option<&'a str>| {
        waiting.extend(target);
        fixups.push((fixup, target));
    };
    if targets.iter().any(|(name, _)| *name == "__HIT__" || *name == "__MISS__") {
        add(Fixup::Hit(index), find("__HIT__")?);
        add(Fixup::Miss(index), find("__MISS__")?);
    } else {
        for (number, action) in table.actions.iter().enumerate() {
            add(Fixup::Action(index, number), find(&names[usize::from(action.id.0)])?);
        }
    }
    add(Fixup::Base(index), at.opt("base_default_next").map(|at| at.str()).transpose()?);
    Ok(waiting)
}
