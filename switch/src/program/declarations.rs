//! The second phase of loading: assigns an index or slots to every named object of the program. Generates no
//! code.

use super::control_slots::ControlSlots;
use super::error::LoadError;
use super::externs::{ExternArray, RegisterArray};
use super::hash::Calculation;
use super::id_vec::IdVec;
use super::json::JsonNode;
use super::layout::{Layout, SlotAllocator};
use super::op::Slot;
use super::signatures::{ActionId, ActionInfo};
use super::standard_metadata::{StandardMetadata, load_aliases};
use std::collections::HashMap;

/// The supported major version of the format; minor versions only add to it.
const MAJOR_VERSION: i64 = 2;

/// A list of fields: those that a digest sends, or those that a clone, resubmit or recirculation keeps.
#[derive(Clone, Debug)]
pub(crate) struct FieldList {
    pub name: String,
    pub id: i64,
    /// First slot and width in bits of each field.
    pub fields: Vec<(Slot, u32)>,
}

/// The declarations of a program, without code.
pub(crate) struct Declarations<'a> {
    pub layout: Layout,
    /// Number of slots that are 0 at the beginning of each packet.
    pub zeroed_slots: usize,
    pub registers: Vec<RegisterArray>,
    pub counters: Vec<ExternArray>,
    pub meters: Vec<ExternArray>,
    pub field_lists: Vec<FieldList>,
    pub learn_lists: Vec<FieldList>,
    pub actions: IdVec<ActionId, ActionInfo>,
    /// The primitives of each action.
    pub bodies: IdVec<ActionId, Vec<JsonNode<'a>>>,
    /// Actions by their id in the JSON.
    pub action_ids: HashMap<i64, ActionId>,
    /// The first slot of action parameters, which all actions share.
    pub first_param_slot: Slot,
    pub control_slots: ControlSlots,
    pub standard: StandardMetadata,
    pub calculations: Vec<Calculation>,
}

impl<'a> Declarations<'a> {
    /// Loads the declarations of a program.
    pub(crate) fn load(root: &JsonNode<'a>) -> Result<Declarations<'a>, LoadError> {
        check_version(root)?;
        let mut slots = SlotAllocator::default();
        let layout = Layout::load(root, &mut slots)?;
        let aliases = load_aliases(root, &layout)?;
        let registers = RegisterArray::load_all(root)?;
        let (counters, meters) = (ExternArray::counters(root)?, ExternArray::meters(root)?);
        let field_lists = load_lists(root, "field_lists", &layout)?;
        let learn_lists = load_lists(root, "learn_lists", &layout)?;
        if let Some(extern_node) = root.list("extern_instances")?.first() {
            return extern_node
                .err(format_args!("extern {} is not supported", extern_node.get("type")?.value));
        }
        let (mut actions, mut bodies, mut action_ids) = (IdVec::default(), IdVec::default(), HashMap::new());
        for node in root.get("actions")?.items()? {
            let mut params = Vec::new();
            for param in node.list("runtime_data")? {
                const MAX_PARAM_BITS: usize = 4096;
                params.push((param.name()?, param.get("bitwidth")?.usize_at_most(MAX_PARAM_BITS)? as u32));
            }
            let id = u16::try_from(actions.len()).map_err(|_| node.error("more than 65536 actions"))?;
            if action_ids.insert(node.get("id")?.int()?, ActionId(id)).is_some() {
                return node.err("another action has this id");
            }
            bodies.push(node.list("primitives")?);
            actions.push(ActionInfo { name: node.name()?, params });
        }
        let max_arg_words = actions.iter().map(ActionInfo::arg_words).max().unwrap_or(0);
        let max_arg_words = u16::try_from(max_arg_words)
            .map_err(|_| root.error("an action's parameters exceed 65535 slots"))?;
        let first_param_slot = slots.alloc(root, max_arg_words)?;
        let control_slots = ControlSlots::alloc(root, &mut slots)?;
        let standard = StandardMetadata::load(root, &layout, &aliases, &mut slots)?;
        let calculations = root.list("calculations")?;
        let calculations =
            calculations.iter().map(|node| Calculation::load(node, &layout)).collect::<Result<_, _>>()?;
        Ok(Declarations {
            layout,
            zeroed_slots: slots.len,
            registers,
            counters,
            meters,
            field_lists,
            learn_lists,
            actions,
            bodies,
            action_ids,
            first_param_slot,
            control_slots,
            standard,
            calculations,
        })
    }
}

/// Fails if the format has another major version. As in BMv2, JSON without a version is accepted.
fn check_version(root: &JsonNode) -> Result<(), LoadError> {
    let Some(version) = root.get_opt("__meta__").and_then(|meta| meta.get_opt("version")) else {
        return Ok(());
    };
    let [major, _minor] = version.tuple()?;
    match major.int()? {
        MAJOR_VERSION => Ok(()),
        other => version.err(format_args!(
            "version {other} of the format is not supported, only {MAJOR_VERSION}: compile with a current p4c"
        )),
    }
}

fn load_lists(root: &JsonNode, key: &str, layout: &Layout) -> Result<Vec<FieldList>, LoadError> {
    let mut lists = Vec::new();
    for node in root.list(key)? {
        let mut fields = Vec::new();
        for element in node.list("elements")? {
            let kind = element.get("type")?;
            match kind.str()? {
                "field" => {
                    let slot_ref = layout.slot_ref(&element.get("value")?)?;
                    fields.push((slot_ref.slot, slot_ref.bits));
                }
                // A clone, resubmit or recirculation restores the values of fields; a constant has none to restore.
                "hexstr" if key == "field_lists" => {}
                other => {
                    return kind.err(format_args!("a list element of type {other:?} is not supported"));
                }
            }
        }
        lists.push(FieldList { id: node.get("id")?.int()?, name: node.name()?, fields });
    }
    Ok(lists)
}
