//! Action profiles and selectors: members (an action with arguments), groups of members, and one-shot sets (the actions
//! of one table entry, written with the entry).
//!
//! A controller identifies members and groups by its own ids, the pipeline by handles. A one-shot set becomes
//! a group and members without controller ids.

use super::entry_write::ActionScope;
use super::error::ControlError;
use super::state::{ActionIds, Control, Group, OneShot, ProfileEntities, profile_actions};
use crate::Switch;
use crate::pipeline::{ActionCall, GroupHandle, MemberHandle, TableError};
use p4runtime::google::rpc::Code;
use p4runtime::p4::config::v1::action_profile::SelectorSizeSemantics;
use p4runtime::p4::config::v1::{ActionProfile, Table};
use p4runtime::p4::v1::action_profile_action::WatchKind as ActionWatch;
use p4runtime::p4::v1::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
use p4runtime::p4::v1::action_profile_group::member::WatchKind;
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{ActionProfileActionSet, ActionProfileGroup, ActionProfileMember};
use p4runtime::p4info::{Index, Object};
use p4runtime::value::to_u64;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The largest sum of weights of a group: the pipeline stores a member once per unit of weight.
const MAX_GROUP_WEIGHT: usize = 1 << 16;

impl Control {
    /// Returns the entities that were written to a profile, and its P4Info.
    fn profile(&self, id: u32) -> Result<(&ProfileEntities, &ActionProfile), ControlError> {
        let missing = || ControlError::invalid(format!("there is no action profile {id:#010x}"));
        let info = self.index.action_profiles.id(id).ok_or_else(missing)?;
        Ok((self.profiles.get(&id).ok_or_else(missing)?, info))
    }

    /// Returns the pipeline's form of a reference to the member with this id.
    pub(super) fn member(&self, profile: u32, id: u32) -> Result<ActionCall, ControlError> {
        let handle = self.profile(profile)?.0.members.get(&id);
        handle.map(|&handle| ActionCall::Member(handle)).ok_or_else(|| unknown_member(id))
    }

    /// Returns the pipeline's form of a reference to the group with this id.
    pub(super) fn group(&self, profile: u32, id: u32) -> Result<ActionCall, ControlError> {
        let group = self.profile(profile)?.0.groups.get(&id);
        group.map(|group| ActionCall::Group(group.handle)).ok_or_else(|| unknown_group(id))
    }

    /// Returns the controller's id of a member.
    pub(super) fn member_id(&self, profile: u32, handle: MemberHandle) -> Result<u32, ControlError> {
        let (profile, _) = self.profile(profile)?;
        let found = profile.members.iter().find(|(_, known)| **known == handle).map(|(&id, _)| id);
        found.ok_or_else(|| {
            ControlError::new(Code::Internal, format!("member {handle} was not created by P4Runtime"))
        })
    }

    /// Returns the controller's id of a group.
    pub(super) fn group_id(&self, profile: u32, handle: GroupHandle) -> Result<u32, ControlError> {
        let (profile, _) = self.profile(profile)?;
        let found = profile.groups.iter().find(|(_, known)| known.handle == handle).map(|(&id, _)| id);
        found.ok_or_else(|| {
            ControlError::new(Code::Internal, format!("group {handle} was not created by P4Runtime"))
        })
    }

    pub(super) fn write_member(
        &mut self,
        switch: &mut Switch,
        kind: Type,
        member: &ActionProfileMember,
    ) -> Result<(), ControlError> {
        let (profile, info) = self.profile(member.action_profile_id)?;
        let (name, id) = (info.preamble().name.clone(), member.member_id);
        if id == 0 {
            return Err(ControlError::invalid("member_id 0 is the wildcard of reads; use 1 or higher"));
        }
        let existing = profile.members.get(&id).copied();
        let action = || {
            let action =
                member.action.as_ref().ok_or_else(|| ControlError::invalid("the member has no action"))?;
            let allowed = profile_actions(&self.index, info);
            let allowed = (member.action_profile_id, allowed.as_slice());
            self.actions.to_call(&self.index, allowed, action, ActionScope::Entry)
        };
        let pipeline = switch.pipeline_mut();
        match (kind, existing) {
            (Type::Insert, Some(_)) => return Err(ControlError::exists(format!("{name} has member {id}"))),
            (Type::Insert, None) => {
                self.reject_if_one_shot(member.action_profile_id)?;
                let is_full = info.size > 0 && profile.members.len() as u64 >= info.size as u64;
                let call = action()?;
                if is_full {
                    let message = format!("{name} is full: it holds {} members", info.size);
                    return Err(ControlError::new(Code::ResourceExhausted, message));
                }
                let handle = pipeline.member_add(&name, &call)?;
                self.profiles.entry(member.action_profile_id).or_default().members.insert(id, handle);
            }
            (_, None) => return Err(unknown_member(id)),
            (Type::Modify, Some(handle)) => pipeline.member_modify(&name, handle, &action()?)?,
            (_, Some(handle)) => {
                let referrer = profile.groups.iter().find(|(_, group)| contains_member(&group.entry, id));
                if let Some((group, _)) = referrer {
                    return Err(ControlError::in_use(format!("{name}: member {id} is in group {group}")));
                }
                let in_use = in_use_error(&name, "member", id);
                pipeline.member_delete(&name, handle).map_err(in_use)?;
                self.profiles.entry(member.action_profile_id).or_default().members.remove(&id);
            }
        }
        Ok(())
    }

    pub(super) fn write_group(
        &mut self,
        switch: &mut Switch,
        kind: Type,
        group: &ActionProfileGroup,
    ) -> Result<(), ControlError> {
        let (profile, info) = self.profile(group.action_profile_id)?;
        let (name, id) = (info.preamble().name.clone(), group.group_id);
        if !info.with_selector {
            return Err(ControlError::invalid(format!(
                "{name} is not an action selector, so it has no groups"
            )));
        }
        if id == 0 {
            return Err(ControlError::invalid("group_id 0 is the wildcard of reads; use 1 or higher"));
        }
        let pipeline = switch.pipeline_mut();
        let existing = profile.groups.get(&id);
        let handle = match (kind, existing) {
            (Type::Insert, Some(_)) => return Err(ControlError::exists(format!("{name} has group {id}"))),
            (Type::Insert, None) => {
                self.reject_if_one_shot(group.action_profile_id)?;
                let (members, watch_ports) = weighted_members(profile, info, group)?;
                let handle = pipeline.group_add(&name, &members)?;
                pipeline.group_set_watch_ports(&name, handle, &watch_ports)?;
                handle
            }
            (_, None) => return Err(unknown_group(id)),
            (Type::Modify, Some(existing)) => {
                if group.max_size != existing.entry.max_size {
                    return Err(ControlError::invalid(format!(
                        "{name}: max_size of group {id} cannot change"
                    )));
                }
                let (members, watch_ports) = weighted_members(profile, info, group)?;
                pipeline.group_modify(&name, existing.handle, &members)?;
                pipeline.group_set_watch_ports(&name, existing.handle, &watch_ports)?;
                existing.handle
            }
            (_, Some(existing)) => {
                pipeline.group_delete(&name, existing.handle).map_err(in_use_error(&name, "group", id))?;
                self.profiles.entry(group.action_profile_id).or_default().groups.remove(&id);
                return Ok(());
            }
        };
        let groups = &mut self.profiles.entry(group.action_profile_id).or_default().groups;
        groups.insert(id, Group { handle, entry: group.clone() });
        Ok(())
    }

    /// Fails if the profile is programmed with one-shot sets: P4Runtime does not allow both modes in one
    /// profile (section 9.2.3).
    fn reject_if_one_shot(&self, profile: u32) -> Result<(), ControlError> {
        match self.profile(profile)? {
            (ProfileEntities { one_shots: 1.., .. }, info) => Err(mixed_modes(info)),
            _ => Ok(()),
        }
    }

    /// Creates the members and the group of a one-shot set.
    pub(super) fn create_one_shot(
        &mut self,
        switch: &mut Switch,
        table: &Table,
        set: &ActionProfileActionSet,
    ) -> Result<OneShot, ControlError> {
        let index = Arc::clone(&self.index);
        let (profile, info) = self.profile(table.implementation_id)?;
        if !profile.members.is_empty() || !profile.groups.is_empty() {
            return Err(mixed_modes(info));
        }
        let (name, id) = (info.preamble().name.clone(), info.preamble().id);
        let calls = check_one_shot(&index, &self.actions, table, info, set)?;
        let pipeline = switch.pipeline_mut();
        let mut members = Vec::new();
        let mut create = || -> Result<GroupHandle, TableError> {
            let (mut handles, mut watch_ports) = (Vec::new(), BTreeMap::new());
            for OneShotAction { call, weight, watch_port } in &calls {
                let member = pipeline.member_add(&name, call)?;
                members.push(member);
                handles.extend(std::iter::repeat_n(member, *weight));
                watch_ports.extend(watch_port.map(|port| (member, port)));
            }
            let group = pipeline.group_add(&name, &handles)?;
            pipeline.group_set_watch_ports(&name, group, &watch_ports)?;
            Ok(group)
        };
        match create() {
            Ok(group) => {
                self.profiles.entry(id).or_default().one_shots += 1;
                Ok(OneShot { set: set.clone(), group, members })
            }
            Err(error) => {
                // These members were added above and are not referenced, so this cannot fail.
                for member in members {
                    let _ = pipeline.member_delete(&name, member);
                }
                Err(error.into())
            }
        }
    }

    /// Removes the group and members of a one-shot set to which no entry refers any more.
    pub(super) fn delete_one_shot(
        &mut self,
        switch: &mut Switch,
        profile: u32,
        one_shot: Option<OneShot>,
    ) -> Result<(), ControlError> {
        let Some(one_shot) = one_shot else { return Ok(()) };
        let name = self.profile(profile)?.1.preamble().name.clone();
        let pipeline = switch.pipeline_mut();
        pipeline.group_delete(&name, one_shot.group)?;
        for member in one_shot.members {
            pipeline.member_delete(&name, member)?;
        }
        self.profiles.entry(profile).or_default().one_shots -= 1;
        Ok(())
    }

    pub(super) fn read_members(
        &self,
        switch: &Switch,
        request: &ActionProfileMember,
    ) -> Result<Vec<ActionProfileMember>, ControlError> {
        let mut found = Vec::new();
        for profile_id in self.profile_ids(request.action_profile_id)? {
            let (profile, info) = self.profile(profile_id)?;
            let calls: BTreeMap<_, _> =
                switch.pipeline().members(&info.preamble().name)?.into_iter().collect();
            for (&member_id, handle) in &profile.members {
                let Some(ActionCall::Action { action, args }) = calls.get(handle) else { continue };
                if request.member_id == 0 || request.member_id == member_id {
                    let action = Some(self.actions.to_p4runtime(&self.index, *action, args)?);
                    found.push(ActionProfileMember { action_profile_id: profile_id, member_id, action });
                }
            }
        }
        Ok(found)
    }

    pub(super) fn read_groups(
        &self,
        request: &ActionProfileGroup,
    ) -> Result<Vec<ActionProfileGroup>, ControlError> {
        let mut found = Vec::new();
        for profile in self.profile_ids(request.action_profile_id)? {
            let groups = self.profile(profile)?.0.groups.values();
            found.extend(groups.map(|group| group.entry.clone()));
        }
        found.retain(|group| request.group_id == 0 || request.group_id == group.group_id);
        Ok(found)
    }

    /// Returns the id of the requested profile, or the ids of all profiles for 0.
    fn profile_ids(&self, profile: u32) -> Result<Vec<u32>, ControlError> {
        match profile {
            0 => Ok(self.profiles.keys().copied().collect()),
            id => self.profile(id).map(|_| vec![id]),
        }
    }
}

fn unknown_member(id: u32) -> ControlError {
    ControlError::not_found(format!("there is no member {id}"))
}

fn unknown_group(id: u32) -> ControlError {
    ControlError::not_found(format!("there is no group {id}"))
}

/// Returns a function that converts the pipeline's errors. An in-use error then names the member or group by its
/// controller id; the pipeline knows only its handle.
fn in_use_error(profile: &str, what: &str, id: u32) -> impl Fn(TableError) -> ControlError {
    move |error| match error {
        TableError::InUse { .. } => {
            ControlError::in_use(format!("{profile}: {what} {id} is in use by a table entry"))
        }
        error => error.into(),
    }
}

/// Returns the error for a profile with both one-shot sets and members with ids.
fn mixed_modes(info: &ActionProfile) -> ControlError {
    let name = &info.preamble().name;
    ControlError::invalid(format!("{name}: one-shot sets and members by id cannot be mixed"))
}

fn contains_member(group: &ActionProfileGroup, member: u32) -> bool {
    group.members.iter().any(|other| other.member_id == member)
}

/// Checks a group and returns the handles of its members, each repeated by its weight, and their watch ports.
fn weighted_members(
    profile: &ProfileEntities,
    info: &ActionProfile,
    group: &ActionProfileGroup,
) -> Result<(Vec<MemberHandle>, BTreeMap<MemberHandle, u32>), ControlError> {
    let (max, max_size) = (info.max_group_size, group.max_size);
    if max_size < 0 || (max > 0 && !(1..=max).contains(&max_size)) {
        let name = &info.preamble().name;
        return Err(ControlError::invalid(format!("{name}: max_size {max_size} is not between 1 and {max}")));
    }
    let mut seen = BTreeSet::new();
    let mut weights = Vec::new();
    for member in &group.members {
        if !seen.insert(member.member_id) {
            return Err(ControlError::invalid(format!(
                "duplicate member {}; use its weight instead",
                member.member_id
            )));
        }
        weights.push(member.weight);
    }
    let weights = check_weights(info, &weights, max_size)?;
    let (mut handles, mut watch_ports) = (Vec::new(), BTreeMap::new());
    for (member, weight) in group.members.iter().zip(weights) {
        let handle =
            profile.members.get(&member.member_id).ok_or_else(|| unknown_member(member.member_id))?;
        handles.extend(std::iter::repeat_n(*handle, weight));
        #[allow(deprecated)] // older clients still send it
        let watch_port = match &member.watch_kind {
            Some(WatchKind::Watch(port)) => port_from_number(*port)?,
            Some(WatchKind::WatchPort(port)) => port_from_bytes(port)?,
            None => None,
        };
        watch_ports.extend(watch_port.map(|port| (*handle, port)));
    }
    Ok((handles, watch_ports))
}

/// An action of a one-shot set.
struct OneShotAction {
    call: ActionCall,
    weight: usize,
    watch_port: Option<u32>,
}

/// Checks a one-shot set and returns its actions.
fn check_one_shot(
    index: &Index,
    actions: &ActionIds,
    table: &Table,
    info: &ActionProfile,
    set: &ActionProfileActionSet,
) -> Result<Vec<OneShotAction>, ControlError> {
    if !info.with_selector {
        return Err(ControlError::invalid(format!(
            "{} is not an action selector, so it has no groups",
            info.preamble().name
        )));
    }
    let has_default_settings = set.action_selection_mode()
        == ActionSelectionMode::DefaultModeDeterminedByActionSelector
        && set.size_semantics() == SizeSemantics::DefaultSizeDeterminedByActionSelector;
    if !has_default_settings || set.group_action.is_some() {
        return Err(ControlError::unimplemented(
            "settings of a single group and group actions are not supported",
        ));
    }
    let weights: Vec<i32> = set.action_profile_actions.iter().map(|action| action.weight).collect();
    let weights = check_weights(info, &weights, info.max_group_size)?;
    let calls = set.action_profile_actions.iter().zip(weights).map(|(weighted, weight)| {
        #[allow(deprecated)] // older clients still send it
        let watch_port = match &weighted.watch_kind {
            Some(ActionWatch::Watch(port)) => port_from_number(*port)?,
            Some(ActionWatch::WatchPort(port)) => port_from_bytes(port)?,
            None => None,
        };
        let action = weighted
            .action
            .as_ref()
            .ok_or_else(|| ControlError::invalid("an action of the set is missing"))?;
        let allowed = (info.preamble().id, table.action_refs.as_slice());
        let call = actions.to_call(index, allowed, action, ActionScope::Entry)?;
        Ok(OneShotAction { call, weight, watch_port })
    });
    calls.collect()
}

/// Returns the port in the deprecated field `watch`; `None` for 0, which means that it is unset.
fn port_from_number(watch: i32) -> Result<Option<u32>, ControlError> {
    match u32::try_from(watch) {
        Ok(0) => Ok(None),
        Ok(port) => Ok(Some(port)),
        Err(_) => Err(ControlError::invalid(format!("watch {watch} is not a port; use 1 or higher"))),
    }
}

/// Returns the port in the field `watch_port`; `None` if it is empty. A port that the switch lacks is valid, as in
/// BMv2, and down.
fn port_from_bytes(watch_port: &[u8]) -> Result<Option<u32>, ControlError> {
    if watch_port.is_empty() {
        return Ok(None);
    }
    let port = to_u64(watch_port).and_then(|port| u32::try_from(port).ok());
    port.map(Some).ok_or_else(|| ControlError::invalid("watch_port is not a port: it exceeds 32 bits"))
}

/// Checks weights against the selector's limits and returns how often each member is repeated. A `max_size`,
/// `max_group_size` or `max_member_weight` of 0 means no limit.
fn check_weights(info: &ActionProfile, weights: &[i32], max_size: i32) -> Result<Vec<usize>, ControlError> {
    let name = &info.preamble().name;
    let invalid = |message: String| Err(ControlError::invalid(format!("{name}: {message}")));
    if info.weights_disallowed {
        if weights.iter().any(|&weight| weight != 0) {
            return invalid("this selector does not allow weights; omit them".into());
        }
        return Ok(vec![1; weights.len()]);
    }
    if let Some(weight) = weights.iter().find(|&&weight| weight < 1) {
        return invalid(format!("weight {weight} is below 1"));
    }
    let sum: i64 = weights.iter().map(|&weight| i64::from(weight)).sum();
    // Size of the group as `max_size` counts it: members, or by default the sum of their weights.
    let size = match &info.selector_size_semantics {
        Some(SelectorSizeSemantics::SumOfMembers(limits)) => {
            let max = limits.max_member_weight;
            if let Some(weight) = weights.iter().find(|&&weight| max > 0 && weight > max) {
                return invalid(format!("weight {weight} exceeds the maximum of {max}"));
            }
            weights.len() as i64
        }
        _ => sum,
    };
    if max_size > 0 && size > i64::from(max_size) {
        return invalid(format!("the group has size {size}; the maximum is {max_size}"));
    }
    if sum > MAX_GROUP_WEIGHT as i64 {
        let message =
            format!("{name}: the weights of a group add up to {sum}; the maximum is {MAX_GROUP_WEIGHT}");
        return Err(ControlError::new(Code::ResourceExhausted, message));
    }
    Ok(weights.iter().map(|&weight| weight as usize).collect())
}
