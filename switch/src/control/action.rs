//! Converts actions between P4Runtime (by ids) and the pipeline (by name, arguments in order).

use super::error::ControlError;
use super::value::to_width;
use crate::pipeline::ActionCall;
use p4runtime::google::rpc::Code;
use p4runtime::p4::config::v1::action_ref::Scope;
use p4runtime::p4::config::v1::{ActionProfile, ActionRef};
use p4runtime::p4::v1::Action;
use p4runtime::p4::v1::action::Param;
use p4runtime::p4info::{Index, Object};
use p4runtime::value::canonical;

/// The use of an action: in an entry, or as a table's default action.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionScope {
    Entry,
    Default,
}

/// Converts an action to the pipeline's form. `allowed` lists the actions of the table.
///
/// # Errors
///
/// The action is not one of `allowed`, is not allowed in this scope, or has other parameters in the P4Info.
pub(super) fn to_call(
    index: &Index,
    allowed: &[ActionRef],
    action: &Action,
    scope: ActionScope,
) -> Result<ActionCall, ControlError> {
    let id = action.action_id;
    let info = index
        .actions
        .id(id)
        .ok_or_else(|| ControlError::invalid(format!("there is no action {id:#010x}")))?;
    let name = &info.preamble().name;
    let action_ref = allowed
        .iter()
        .find(|action_ref| action_ref.id == id)
        .ok_or_else(|| ControlError::invalid(format!("action {name} is not one of the table's")))?;
    let forbidden = match scope {
        ActionScope::Entry => Scope::DefaultOnly,
        ActionScope::Default => Scope::TableOnly,
    };
    if action_ref.scope() == forbidden {
        return Err(ControlError::denied(format!(
            "action {name} is {} in this table",
            forbidden.as_str_name()
        )));
    }
    for (i, given) in action.params.iter().enumerate() {
        if info.param_by_id(given.param_id).is_none() {
            return Err(ControlError::invalid(format!("action {name} has no parameter {}", given.param_id)));
        }
        if action.params[..i].iter().any(|other| other.param_id == given.param_id) {
            return Err(ControlError::invalid(format!(
                "action {name}: parameter {} is given twice",
                given.param_id
            )));
        }
    }
    let args = info.params.iter().map(|param| {
        let location = format!("action {name}, parameter {}", param.name);
        let given = action.params.iter().find(|given| given.param_id == param.id);
        let given = given.ok_or_else(|| ControlError::invalid("is missing").context(&location))?;
        to_width(&given.value, param.bitwidth).map_err(|e| e.context(&location))
    });
    let args: Result<Vec<Vec<u8>>, ControlError> = args.collect();
    Ok(ActionCall::Action { name: name.clone(), args: args? })
}

/// Converts an action of the pipeline to P4Runtime's form.
///
/// # Errors
///
/// The P4Info has no such action, so it does not belong to the program.
pub(super) fn from_call(index: &Index, name: &str, args: &[Vec<u8>]) -> Result<Action, ControlError> {
    let info = index.actions.named(name).map_err(|e| {
        ControlError::new(Code::Internal, format!("the P4Info does not belong to the program's JSON: {e}"))
    })?;
    let params = info.params.iter().zip(args);
    let params = params.map(|(param, value)| Param { param_id: param.id, value: canonical(value) });
    Ok(Action { action_id: info.preamble().id, params: params.collect() })
}

/// Returns the actions that are allowed in members of a profile: the actions of its tables.
pub(super) fn profile_actions(index: &Index, profile: &ActionProfile) -> Vec<ActionRef> {
    let tables = profile.table_ids.iter().filter_map(|&id| index.tables.id(id));
    tables.flat_map(|table| table.action_refs.iter().cloned()).collect()
}
