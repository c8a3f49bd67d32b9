//! Converts actions between P4Runtime (by the ids of the P4Info) and the pipeline (by its own ids, arguments in order).

use super::error::ControlError;
use super::value::to_width;
use crate::pipeline::{ActionCall, Pipeline};
use crate::program::{ActionId, ActionInfo, TableInfo};
use p4runtime::google::rpc::Code;
use p4runtime::p4::config::v1::action_ref::Scope;
use p4runtime::p4::config::v1::{ActionProfile, ActionRef};
use p4runtime::p4::v1::Action;
use p4runtime::p4::v1::action::Param;
use p4runtime::p4info::{Index, Object};
use p4runtime::value::canonical;
use std::collections::BTreeMap;

/// The use of an action: in an entry, or as a table's default action.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionScope {
    Entry,
    Default,
}

/// The pipeline's ids of the actions in the P4Info.
#[derive(Clone, Debug)]
pub(super) struct ActionIds {
    /// By the P4Runtime ids of a table or action profile, and of its action.
    pipeline: BTreeMap<(u32, u32), ActionId>,
    p4runtime: BTreeMap<ActionId, u32>,
}

impl ActionIds {
    pub(super) fn new(index: &Index, pipeline: &Pipeline) -> ActionIds {
        let mut ids = BTreeMap::new();
        let mut insert = |owner: u32, refs: &[ActionRef], actions: &[ActionId]| {
            let named: BTreeMap<&str, ActionId> = actions
                .iter()
                .rev()
                .map(|&action| (pipeline.program().action_name(action), action))
                .collect();
            for &ActionRef { id, .. } in refs {
                let name = index.actions.id(id).map_or("", |info| &info.preamble().name);
                ids.extend(named.get(name).map(|&action| ((owner, id), action)));
            }
        };
        let tables: BTreeMap<&str, &TableInfo> =
            pipeline.program().tables().map(|(_, info)| (info.name.as_str(), info)).collect();
        for table in &index.tables {
            let actions = tables.get(table.preamble().name.as_str()).map_or(&[][..], |info| &info.actions);
            insert(table.preamble().id, &table.action_refs, actions);
        }
        for profile in &index.action_profiles {
            let actions = pipeline.member_actions(&profile.preamble().name).unwrap_or_default();
            insert(profile.preamble().id, &profile_actions(index, profile), &actions);
        }
        let known = |(id, info): (ActionId, &ActionInfo)| {
            Some((id, index.actions.named(&info.name).ok()?.preamble().id))
        };
        ActionIds { pipeline: ids, p4runtime: pipeline.program().actions().filter_map(known).collect() }
    }

    /// Converts an action to the pipeline's form. `owner` is the id of its table, or of the action profile of its member;
    /// `allowed` lists the actions of the table.
    ///
    /// # Errors
    ///
    /// The action is not one of `allowed`, is not allowed in this scope, or has other parameters in the P4Info.
    pub(super) fn to_call(
        &self,
        index: &Index,
        (owner, allowed): (u32, &[ActionRef]),
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
                return Err(ControlError::invalid(format!(
                    "action {name} has no parameter {}",
                    given.param_id
                )));
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
        let args = args.collect::<Result<_, ControlError>>()?;
        let unknown = || ControlError::invalid(format!("the program's JSON has no action {name} here"));
        Ok(ActionCall::Action { action: *self.pipeline.get(&(owner, id)).ok_or_else(unknown)?, args })
    }

    /// Converts an action of the pipeline to P4Runtime's form.
    ///
    /// # Errors
    ///
    /// The P4Info has no such action, so it does not belong to the program.
    pub(super) fn to_p4runtime(
        &self,
        index: &Index,
        action: ActionId,
        args: &[Vec<u8>],
    ) -> Result<Action, ControlError> {
        let info = self.p4runtime.get(&action).and_then(|&id| index.actions.id(id));
        let info = info.ok_or_else(|| {
            let number = action.0;
            let message =
                format!("the P4Info does not belong to the program's JSON: it lacks action {number}");
            ControlError::new(Code::Internal, message)
        })?;
        let params = info.params.iter().zip(args);
        let params = params.map(|(param, value)| Param { param_id: param.id, value: canonical(value) });
        Ok(Action { action_id: info.preamble().id, params: params.collect() })
    }
}

/// Returns the actions that are allowed in members of a profile: the actions of its tables.
pub(super) fn profile_actions(index: &Index, profile: &ActionProfile) -> Vec<ActionRef> {
    let tables = profile.table_ids.iter().filter_map(|&id| index.tables.id(id));
    tables.flat_map(|table| table.action_refs.iter().cloned()).collect()
}
