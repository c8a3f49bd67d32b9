//! The third phase of loading: lowers parser, checksums, deparser, actions and pipelines to code. Temporaries
//! and constants are numbered, but have no slots yet.

use super::action::ActionCompiler;
use super::codegen::{CodeBuilder, UnlinkedCode};
use super::control_flow::ControlFlow;
use super::declarations::Declared;
use super::expr::NumExpr;
use super::json::JsonNode;
use super::layout::{Layout, SlotRef, VALID_SLOT};
use super::op::{Opcode, Pc, Slot};
use super::parser::Parser;
use super::table::{ActionProfile, Table, TableLoader, limbs};
use super::{ActionId, Calculation, Checksum, HeaderId, LoadError, TracePoint};

/// A program lowered to code that is not linked.
pub(crate) struct Lowered {
    pub object: UnlinkedCode,
    pub parser: Parser,
    pub checksums: Vec<Checksum>,
    /// Calculations of checksums beside those that are declared.
    pub calculations: Vec<Calculation>,
    pub deparser: Deparser,
    /// The address of each action's code.
    pub action_code: Vec<Pc>,
    pub pipelines: Pipelines,
}

impl Lowered {
    /// Lowers a declared program.
    pub fn new(root: &JsonNode, declared: &Declared) -> Result<Lowered, LoadError> {
        let mut asm = CodeBuilder::new(&declared.layout, &declared.registers);
        // Address 0 is the end of a pipeline: a null next node leads there.
        asm.emit(Opcode::End, 64, 0, 0, 0);
        let mut actions = ActionCompiler::new(declared, &mut asm);
        let parser = Parser::load(root, &mut actions)?;
        let (checksums, calculations) = load_checksums(root, &mut actions)?;
        let deparser = Deparser::load(root, &mut actions)?;
        let action_code = lower_actions(&mut actions)?;
        let pipelines = Pipelines::load(root, &mut actions)?;
        asm.check_size(root)?;
        Ok(Lowered { object: asm.object, parser, checksums, calculations, deparser, action_code, pipelines })
    }
}

/// Compiles every action, with its parameters in the slots to which an entry's arguments are copied. Returns
/// the addresses.
fn lower_actions(actions: &mut ActionCompiler) -> Result<Vec<Pc>, LoadError> {
    let (declared, mut starts) = (actions.declared, Vec::new());
    for (id, action) in (0..).map(ActionId).zip(&declared.actions) {
        let mut slot = declared.params;
        let param = |(_, bits): &(String, u32)| {
            slot += limbs(*bits) as u16;
            NumExpr::Place(SlotRef::unsigned(slot - limbs(*bits) as u16, *bits))
        };
        let params: Vec<NumExpr> = action.params.iter().map(param).collect();
        starts.push(actions.asm.bind_label());
        actions.inline_action(id, &params)?;
        actions.asm.emit(Opcode::Return, 64, 0, 0, 0);
    }
    Ok(starts)
}

/// The tables, action profiles and code of both pipelines.
pub(crate) struct Pipelines {
    pub tables: Vec<Table>,
    pub profiles: Vec<ActionProfile>,
    /// Trace points, ordered by address.
    pub marks: Vec<(Pc, TracePoint)>,
    pub ingress: Pc,
    pub egress: Pc,
}

impl Pipelines {
    fn load(root: &JsonNode, actions: &mut ActionCompiler) -> Result<Pipelines, LoadError> {
        let declared = actions.declared;
        let meters = meter_targets(root, declared)?;
        let (mut tables, mut profiles, mut marks) = (Vec::new(), Vec::new(), Vec::new());
        let (mut ingress, mut egress) = (None, None);
        for at in root.get("pipelines")?.items()? {
            ActionProfile::load_all(&at, &declared.layout, &mut profiles)?;
            let context = TableLoader { declared, meters: &meters, profiles: &profiles };
            let (first, mut definitions) = (tables.len(), Vec::new());
            for table in at.list("tables")? {
                definitions.push(context.table(&table)?);
                if first + definitions.len() >= usize::from(u16::MAX) {
                    return table.err("more than 65534 tables");
                }
            }
            let (start, own) = ControlFlow::load(&at)?.emit(actions, definitions, first, &mut marks)?;
            tables.extend(own);
            let name = at.get("name")?;
            match name.str()? {
                "ingress" => ingress = Some(start),
                "egress" => egress = Some(start),
                other => return name.err(format_args!("a pipeline named {other:?} is not supported")),
            }
        }
        let (Some(ingress), Some(egress)) = (ingress, egress) else {
            return root.get("pipelines")?.err("expected an ingress and an egress pipeline");
        };
        marks.sort_by_key(|(pc, _)| *pc);
        Ok(Pipelines { tables, profiles, marks, ingress, egress })
    }
}

/// Returns for each meter the field to which its colour is written; `None` if it is not direct.
fn meter_targets(root: &JsonNode, declared: &Declared) -> Result<Vec<Option<SlotRef>>, LoadError> {
    let mut targets = Vec::new();
    for (at, meter) in root.list("meter_arrays")?.iter().zip(&declared.meters) {
        let target = match meter.is_direct {
            true => Some(declared.layout.slot_ref(&at.get("result_target")?)?),
            false => None,
        };
        if target.is_some_and(|target| target.bits > 64) {
            return at.get("result_target")?.err("result_target must be at most 64 bits wide");
        }
        targets.push(target);
    }
    Ok(targets)
}

#[derive(Debug)]
pub(crate) struct Deparser {
    /// The headers in the order in which they are emitted, each with the first slot of its block.
    pub order: Vec<(HeaderId, Slot)>,
    /// The code that runs before the headers are emitted.
    pub code: Option<Pc>,
}

impl Deparser {
    fn load(root: &JsonNode, actions: &mut ActionCompiler) -> Result<Deparser, LoadError> {
        let deparsers = root.get("deparsers")?;
        let [at] = deparsers.tuple()?;
        let (layout, mut order) = (&actions.declared.layout, Vec::new());
        for header in at.get("order")?.items()? {
            let id = layout.header_id(&header)?;
            order.push((id, layout.header(id).first_slot));
        }
        let primitives = at.list("primitives")?;
        if primitives.is_empty() {
            return Ok(Deparser { order, code: None });
        }
        let start = actions.asm.bind_label();
        actions.lower_body(&primitives)?;
        actions.asm.emit(Opcode::End, 64, 0, 0, 0);
        Ok(Deparser { order, code: Some(start) })
    }
}

/// Loads the checksums, and calculations that only they have.
fn load_checksums(
    root: &JsonNode,
    actions: &mut ActionCompiler,
) -> Result<(Vec<Checksum>, Vec<Calculation>), LoadError> {
    let (declared, mut checksums, mut others) = (actions.declared, Vec::new(), Vec::new());
    let (layout, calculations) = (&declared.layout, &declared.calculations);
    for at in root.list("checksums")? {
        let (kind, target_at) = (at.get("type")?, at.get("target")?);
        let calculation = match kind.str()? {
            "generic" => {
                let known = |name: &str| calculations.iter().rposition(|known| known.name == name);
                at.get("calculation")?.find("calculation", known)?
            }
            "ipv4" => {
                others.push(ipv4_checksum(&target_at, layout)?);
                calculations.len() + others.len() - 1
            }
            _ => return kind.err(format_args!("a checksum of type {} is not supported", kind.value)),
        };
        let target = layout.slot_ref(&target_at)?;
        if target.bits > 64 {
            return target_at.err("the checksum's target must be at most 64 bits wide");
        }
        let [header, _] = target_at.tuple()?;
        let header = layout.header(layout.header_id(&header)?);
        let condition = match at.get_opt("if_cond") {
            Some(at) => {
                let value = actions.scope.bool(&at)?;
                Some(actions.asm.standalone(|asm| asm.lower_bool(&at, &value))?)
            }
            None => None,
        };
        checksums.push(Checksum {
            name: at.name()?,
            calculation: calculation as u16,
            target,
            valid: (!header.metadata).then_some(header.first_slot + VALID_SLOT),
            condition,
            verify: at.flag("verify", true)?,
            update: at.flag("update", true)?,
        });
    }
    Ok((checksums, others))
}

/// Returns the calculation of a checksum of type `ipv4`, which covers its whole header.
fn ipv4_checksum(target: &JsonNode, layout: &Layout) -> Result<Calculation, LoadError> {
    const OFFSET: u32 = 80;
    const BITS: u32 = 16;
    let (id, index) = layout.field(target)?;
    let ty = layout.header_type(id);
    let field = &ty.fields[index];
    // BMv2 takes these bytes for the checksum, whatever the target is.
    if (field.offset, field.bits) != (OFFSET, BITS) || ty.varbit.is_some_and(|varbit| varbit <= index) {
        return target.err("the target of a checksum of type \"ipv4\" must be bytes 10 and 11 of its header");
    }
    Ok(Calculation::load_header(layout, (id, index)))
}
