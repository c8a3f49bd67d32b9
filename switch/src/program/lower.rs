//! The third phase of loading: lowers parser, checksums, deparser, actions and pipelines to bytecode. Its operands that
//! are temporaries or constants have numbers, but no slots yet (see [`UnlinkedCode`]).

use super::action::ActionCompiler;
use super::codegen::{CodeBuilder, UnlinkedCode};
use super::control_flow::ControlFlow;
use super::declarations::Declarations;
use super::error::LoadError;
use super::expr::NumExpr;
use super::hash::{Calculation, Checksum};
use super::id_vec::IdVec;
use super::json::JsonNode;
use super::layout::{HeaderId, Layout, SlotRef, VALID_SLOT};
use super::limbs::limb_count;
use super::op::{Opcode, Pc, Slot, TracePoint};
use super::parser::Parser;
use super::signatures::{ActionId, TableId};
use super::table::{ActionProfile, Table, TableLoader};

/// A program lowered to code that is not linked.
pub(crate) struct LoweredProgram {
    pub unlinked: UnlinkedCode,
    pub parser: Parser,
    pub checksums: Vec<Checksum>,
    /// Additional calculations that only checksums use.
    pub calculations: Vec<Calculation>,
    pub deparser: Deparser,
    /// The address of each action's code.
    pub action_code: IdVec<ActionId, Pc>,
    pub pipelines: Pipelines,
}

impl LoweredProgram {
    /// Lowers a declared program.
    pub(super) fn new(root: &JsonNode, declared: &Declarations) -> Result<LoweredProgram, LoadError> {
        let mut builder = CodeBuilder::new(&declared.layout, &declared.registers);
        // `control_flow` expects an `End` at address 0: it is the successor of the last node of a pipeline.
        builder.emit(Opcode::End, 64, 0, 0, 0);
        let mut compiler = ActionCompiler::new(declared, &mut builder, "the parser");
        let parser = Parser::load(root, &mut compiler)?;
        let (checksums, calculations) = load_checksums(root, &mut compiler)?;
        compiler.context = "the deparser";
        let deparser = Deparser::load(root, &mut compiler)?;
        let action_code = lower_actions(&mut compiler)?;
        let pipelines = Pipelines::load(root, &mut compiler)?;
        builder.check_size(root)?;
        Ok(LoweredProgram {
            unlinked: builder.unlinked,
            parser,
            checksums,
            calculations,
            deparser,
            action_code,
            pipelines,
        })
    }
}

/// Compiles every action and returns the addresses. The parameters of an action are in consecutive slots from
/// `first_param_slot` on; when a table runs an action, the entry's arguments are copied there.
fn lower_actions(compiler: &mut ActionCompiler) -> Result<IdVec<ActionId, Pc>, LoadError> {
    let (declared, mut starts) = (compiler.declared, IdVec::default());
    for (id, action) in declared.actions.enumerated() {
        let mut slot = declared.first_param_slot;
        let param = |(_, bits): &(String, u32)| {
            slot += limb_count(*bits) as u16;
            NumExpr::Slot(SlotRef::unsigned(slot - limb_count(*bits) as u16, *bits))
        };
        let params: Vec<NumExpr> = action.params.iter().map(param).collect();
        starts.push(compiler.builder.bind_label());
        compiler.inline_action(id, &params)?;
        compiler.builder.emit(Opcode::Return, 64, 0, 0, 0);
    }
    Ok(starts)
}

/// The tables, action profiles and code of both pipelines.
pub(crate) struct Pipelines {
    pub tables: IdVec<TableId, Table>,
    pub profiles: Vec<ActionProfile>,
    /// Ordered by address.
    pub trace_points: Vec<(Pc, TracePoint)>,
    pub ingress: Pc,
    pub egress: Pc,
}

impl Pipelines {
    fn load(root: &JsonNode, compiler: &mut ActionCompiler) -> Result<Pipelines, LoadError> {
        let declared = compiler.declared;
        let meters = meter_targets(root, declared)?;
        let (mut tables, mut profiles, mut trace_points) = (IdVec::default(), Vec::new(), Vec::new());
        let (mut ingress, mut egress) = (None, None);
        for node in root.get("pipelines")?.items()? {
            ActionProfile::load_all(&node, &declared.layout, &mut profiles)?;
            let loader = TableLoader { declared, meters: &meters, profiles: &profiles };
            let (first, mut definitions) = (tables.len(), Vec::new());
            for table in node.list("tables")? {
                definitions.push(loader.table(&table)?);
                if first + definitions.len() >= usize::from(u16::MAX) {
                    return table.err("more than 65534 tables");
                }
            }
            let (start, pipeline_tables) =
                ControlFlow::load(&node)?.emit(compiler, definitions, first, &mut trace_points)?;
            tables.extend(pipeline_tables);
            let name = node.get("name")?;
            match name.str()? {
                "ingress" => ingress = Some(start),
                "egress" => egress = Some(start),
                other => return name.err(format_args!("a pipeline named {other:?} is not supported")),
            }
        }
        let (Some(ingress), Some(egress)) = (ingress, egress) else {
            return root.get("pipelines")?.err("expected an ingress and an egress pipeline");
        };
        trace_points.sort_by_key(|(pc, _)| *pc);
        Ok(Pipelines { tables, profiles, trace_points, ingress, egress })
    }
}

/// Returns for each meter the field to which its colour is written; `None` for meters that are not direct.
fn meter_targets(root: &JsonNode, declared: &Declarations) -> Result<Vec<Option<SlotRef>>, LoadError> {
    let mut targets = Vec::new();
    for (node, meter) in root.list("meter_arrays")?.iter().zip(&declared.meters) {
        let target = match meter.is_direct {
            true => Some(declared.layout.slot_ref(&node.get("result_target")?)?),
            false => None,
        };
        if target.is_some_and(|target| target.bits > 64) {
            return node.get("result_target")?.err("result_target must be at most 64 bits wide");
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
    fn load(root: &JsonNode, compiler: &mut ActionCompiler) -> Result<Deparser, LoadError> {
        let deparsers = root.get("deparsers")?;
        let [node] = deparsers.tuple()?;
        let (layout, mut order) = (&compiler.declared.layout, Vec::new());
        for header in node.get("order")?.items()? {
            let id = layout.header_id(&header)?;
            order.push((id, layout.header(id).first_slot));
        }
        let primitives = node.list("primitives")?;
        if primitives.is_empty() {
            return Ok(Deparser { order, code: None });
        }
        let start = compiler.builder.bind_label();
        compiler.lower_body(&primitives)?;
        compiler.builder.emit(Opcode::End, 64, 0, 0, 0);
        Ok(Deparser { order, code: Some(start) })
    }
}

/// Loads the checksums, and the calculations that only they use.
fn load_checksums(
    root: &JsonNode,
    compiler: &mut ActionCompiler,
) -> Result<(Vec<Checksum>, Vec<Calculation>), LoadError> {
    // Calculations that no action uses; their indices follow those of the declared calculations.
    let (declared, mut checksums, mut own_calculations) = (compiler.declared, Vec::new(), Vec::new());
    let (layout, calculations) = (&declared.layout, &declared.calculations);
    for node in root.list("checksums")? {
        let (kind, target_node) = (node.get("type")?, node.get("target")?);
        let calculation = match kind.str()? {
            "generic" => {
                let known = |name: &str| calculations.iter().rposition(|known| known.name == name);
                node.get("calculation")?.find("calculation", known)?
            }
            "ipv4" => {
                own_calculations.push(ipv4_checksum(&target_node, layout)?);
                calculations.len() + own_calculations.len() - 1
            }
            _ => return kind.err(format_args!("a checksum of type {} is not supported", kind.value)),
        };
        let target = layout.slot_ref(&target_node)?;
        if target.bits > 64 {
            return target_node.err("the checksum's target must be at most 64 bits wide");
        }
        let [header, _field] = target_node.tuple()?;
        let header = layout.header(layout.header_id(&header)?);
        let condition = match node.get_opt("if_cond") {
            Some(node) => {
                let value = compiler.bindings.bool(&node)?;
                Some(compiler.builder.standalone(|builder| builder.lower_bool(&node, &value))?)
            }
            None => None,
        };
        checksums.push(Checksum {
            name: node.name()?,
            calculation: calculation as u16,
            target,
            valid: (!header.is_metadata).then_some(header.first_slot + VALID_SLOT),
            condition,
            is_verified: node.flag("verify", true)?,
            is_updated: node.flag("update", true)?,
        });
    }
    Ok((checksums, own_calculations))
}

/// Returns the calculation of a checksum of type `ipv4`, which covers its whole header.
fn ipv4_checksum(target: &JsonNode, layout: &Layout) -> Result<Calculation, LoadError> {
    const CHECKSUM_OFFSET_BITS: u32 = 80;
    const CHECKSUM_BITS: u32 = 16;
    let (id, index) = layout.field(target)?;
    let ty = layout.header_type(id);
    let field = &ty.fields[index];
    // BMv2 always uses these bytes as the checksum, regardless of the target.
    if (field.offset, field.bits) != (CHECKSUM_OFFSET_BITS, CHECKSUM_BITS)
        || ty.varbit_index.is_some_and(|varbit| varbit <= index)
    {
        return target.err("the target of a checksum of type \"ipv4\" must be bytes 10 and 11 of its header");
    }
    Ok(Calculation::for_header(layout, (id, index)))
}
