//! Runtime API of action profiles: members, each with an action, and groups of members.

use super::api_types::{ActionCall, GroupHandle, MemberHandle, ObjectKind, TableError};
use super::table_read::index_by_name;
use super::table_state::{Member, ProfileRef, WatchedGroup};
use super::{Pipeline, values};
use crate::program::ActionId;
use std::collections::{BTreeMap, BTreeSet};

impl Pipeline {
    /// Returns the index of the profile with this name.
    pub(super) fn profile(&self, name: &str) -> Result<usize, TableError> {
        let names = self.program.profiles.iter().map(|profile| profile.name.as_str());
        index_by_name(names, ObjectKind::ActionProfile, name)
    }

    /// Returns how errors name a profile.
    fn profile_label(&self, profile: usize) -> String {
        format!("action profile {}", self.program.profiles[profile].name)
    }

    fn unknown_handle(&self, profile: usize, kind: ObjectKind, handle: u32) -> TableError {
        TableError::NoSuchHandle { object: self.profile_label(profile), kind, handle }
    }

    fn in_use(&self, profile: usize, kind: ObjectKind, handle: u32) -> TableError {
        TableError::InUse { object: self.profile_label(profile), kind, handle }
    }

    pub(super) fn check_member(&self, profile: u16, member: MemberHandle) -> Result<(), TableError> {
        let profile = usize::from(profile);
        match self.state.profiles[profile].members.get(member.0 as usize) {
            Some(Some(_)) => Ok(()),
            _ => Err(self.unknown_handle(profile, ObjectKind::Member, member.0)),
        }
    }

    pub(super) fn check_group(&self, profile: u16, group: GroupHandle) -> Result<(), TableError> {
        let profile = usize::from(profile);
        match self.state.profiles[profile].groups.get(group.0 as usize) {
            Some(Some(_)) => Ok(()),
            _ => Err(self.unknown_handle(profile, ObjectKind::Group, group.0)),
        }
    }

    pub(super) fn resolve_member(&self, profile: usize, action: &ActionCall) -> Result<Member, TableError> {
        let object = self.profile_label(profile);
        let (action, args) = self.resolve(&object, &self.program.profile_actions(profile), action)?;
        Ok(Member { action, args })
    }

    /// Returns the actions that members of a profile may run: those of its tables.
    ///
    /// # Errors
    ///
    /// Unknown profile.
    pub fn member_actions(&self, profile: &str) -> Result<Vec<ActionId>, TableError> {
        Ok(self.program.profile_actions(self.profile(profile)?))
    }

    /// Returns the action with this name of the tables of a profile: the full name, or a unique suffix after a dot.
    ///
    /// # Errors
    ///
    /// Unknown profile, or its tables have no such action.
    pub fn member_action_by_name(&self, profile: &str, name: &str) -> Result<ActionId, TableError> {
        let profile = self.profile(profile)?;
        self.find_action(|| self.profile_label(profile), &self.program.profile_actions(profile), name)
    }

    pub fn profiles(&self) -> Vec<&str> {
        self.program.profiles.iter().map(|profile| profile.name.as_str()).collect()
    }

    /// Adds a member to an action profile.
    ///
    /// # Errors
    ///
    /// Unknown profile, unknown action of its tables, or arguments that do not fit the action.
    pub fn member_add(&mut self, profile: &str, action: &ActionCall) -> Result<MemberHandle, TableError> {
        let profile = self.profile(profile)?;
        let member = self.resolve_member(profile, action)?;
        Ok(MemberHandle(insert(&mut self.state.profiles[profile].members, member)))
    }

    /// Changes the action of a member.
    ///
    /// # Errors
    ///
    /// Unknown profile or member, unknown action of its tables, or arguments that do not fit the action.
    pub fn member_modify(
        &mut self,
        profile: &str,
        member: MemberHandle,
        action: &ActionCall,
    ) -> Result<(), TableError> {
        let profile = self.profile(profile)?;
        self.check_member(profile as u16, member)?;
        let new_member = self.resolve_member(profile, action)?;
        self.state.profiles[profile].members[member.0 as usize] = Some(new_member);
        Ok(())
    }

    /// Removes a member that no entry or group refers to.
    ///
    /// # Errors
    ///
    /// Unknown profile or member, or the member is in use.
    pub fn member_delete(&mut self, profile: &str, member: MemberHandle) -> Result<(), TableError> {
        let profile = self.profile(profile)?;
        self.check_member(profile as u16, member)?;
        let state = &self.state.profiles[profile];
        let mut groups = (0..state.groups.len() as u32).filter_map(|group| state.group_members(group));
        if groups.any(|members| members.contains(&member.0))
            || self.is_referenced(profile, ProfileRef::Member(member.0))
        {
            return Err(self.in_use(profile, ObjectKind::Member, member.0));
        }
        self.state.profiles[profile].members[member.0 as usize] = None;
        Ok(())
    }

    /// Returns the members of an action profile, each with its action.
    ///
    /// # Errors
    ///
    /// Unknown profile.
    pub fn members(&self, profile: &str) -> Result<Vec<(MemberHandle, ActionCall)>, TableError> {
        let profile = self.profile(profile)?;
        let members = self.state.profiles[profile].members.iter().enumerate();
        let call = |(handle, member): (usize, &Option<Member>)| {
            let member = member.as_ref()?;
            let args = values::split_args(&self.program, member.action, &member.args);
            Some((MemberHandle(handle as u32), ActionCall::Action { action: member.action, args }))
        };
        Ok(members.filter_map(call).collect())
    }

    /// Adds a group of members. A member that appears twice has twice the weight.
    ///
    /// # Errors
    ///
    /// Unknown profile or member, or the profile has no selector.
    pub fn group_add(&mut self, profile: &str, members: &[MemberHandle]) -> Result<GroupHandle, TableError> {
        let profile = self.profile(profile)?;
        let members = self.check_members(profile, members)?;
        Ok(GroupHandle(insert(&mut self.state.profiles[profile].groups, members)))
    }

    /// Replaces the members of a group. Members that stay keep their watch ports.
    ///
    /// # Errors
    ///
    /// Unknown profile, group or member.
    pub fn group_modify(
        &mut self,
        profile: &str,
        group: GroupHandle,
        members: &[MemberHandle],
    ) -> Result<(), TableError> {
        let profile = self.profile(profile)?;
        self.check_group(profile as u16, group)?;
        let members = self.check_members(profile, members)?;
        let state = &mut self.state.profiles[profile];
        match state.watched.get_mut(&group.0) {
            Some(watched) => {
                watched.members = members;
                self.refresh_group(profile, group.0);
            }
            None => state.groups[group.0 as usize] = Some(members),
        }
        Ok(())
    }

    /// Sets the watch ports of a group, which replace earlier ones: a packet selects a member with a watch port
    /// only while that port is up. See [`Self::set_ports_up`].
    ///
    /// # Errors
    ///
    /// Unknown profile or group.
    pub fn group_set_watch_ports(
        &mut self,
        profile: &str,
        group: GroupHandle,
        ports: &BTreeMap<MemberHandle, u32>,
    ) -> Result<(), TableError> {
        let profile = self.profile(profile)?;
        self.check_group(profile as u16, group)?;
        let state = &mut self.state.profiles[profile];
        let members = state.group_members(group.0).unwrap_or_default().to_vec();
        if ports.is_empty() {
            state.watched.remove(&group.0);
            state.groups[group.0 as usize] = Some(members);
        } else {
            let ports = ports.iter().map(|(member, &port)| (member.0, port)).collect();
            state.watched.insert(group.0, WatchedGroup { members, ports });
            self.refresh_group(profile, group.0);
        }
        Ok(())
    }

    /// Sets the ports that are up, for the watch ports of groups. `None`, the initial state, means that the port
    /// states are unknown: every port counts as up.
    pub fn set_ports_up(&mut self, ports: Option<BTreeSet<u16>>) {
        if self.state.ports_up == ports {
            return;
        }
        self.state.ports_up = ports;
        for profile in 0..self.state.profiles.len() {
            let groups: Vec<u32> = self.state.profiles[profile].watched.keys().copied().collect();
            groups.into_iter().for_each(|group| self.refresh_group(profile, group));
        }
    }

    /// Recomputes which members of a group packets may select, after its members or the port states have changed.
    fn refresh_group(&mut self, profile: usize, group: u32) {
        let ports_up = self.state.ports_up.as_ref();
        let is_up =
            |port: u32| ports_up.is_none_or(|up| u16::try_from(port).is_ok_and(|port| up.contains(&port)));
        let state = &mut self.state.profiles[profile];
        let Some(WatchedGroup { members, ports }) = state.watched.get(&group) else { return };
        let is_selectable = |member: &u32| ports.get(member).is_none_or(|&port| is_up(port));
        state.groups[group as usize] = Some(members.iter().copied().filter(is_selectable).collect());
    }

    /// Removes a group that no entry refers to.
    ///
    /// # Errors
    ///
    /// Unknown profile or group, or an entry refers to the group.
    pub fn group_delete(&mut self, profile: &str, group: GroupHandle) -> Result<(), TableError> {
        let profile = self.profile(profile)?;
        self.check_group(profile as u16, group)?;
        if self.is_referenced(profile, ProfileRef::Group(group.0)) {
            return Err(self.in_use(profile, ObjectKind::Group, group.0));
        }
        self.state.profiles[profile].groups[group.0 as usize] = None;
        self.state.profiles[profile].watched.remove(&group.0);
        Ok(())
    }

    /// Returns the groups of an action profile, each with its members.
    ///
    /// # Errors
    ///
    /// Unknown profile.
    pub fn groups(&self, profile: &str) -> Result<Vec<(GroupHandle, Vec<MemberHandle>)>, TableError> {
        let state = &self.state.profiles[self.profile(profile)?];
        let list = |group: u32| {
            let members = state.group_members(group)?.iter().map(|member| MemberHandle(*member)).collect();
            Some((GroupHandle(group), members))
        };
        Ok((0..state.groups.len() as u32).filter_map(list).collect())
    }

    /// Returns the members of a group that packets may select: those without a watch port, or whose port is up.
    ///
    /// # Errors
    ///
    /// Unknown profile or group.
    pub fn group_selectable(
        &self,
        profile: &str,
        group: GroupHandle,
    ) -> Result<Vec<MemberHandle>, TableError> {
        let profile = self.profile(profile)?;
        self.check_group(profile as u16, group)?;
        let members = self.state.profiles[profile].groups[group.0 as usize].iter().flatten();
        Ok(members.map(|member| MemberHandle(*member)).collect())
    }

    /// Checks that the profile has a selector and all these members. Returns them in ascending order, as BMv2 keeps
    /// them.
    pub(super) fn check_members(
        &self,
        profile: usize,
        members: &[MemberHandle],
    ) -> Result<Vec<u32>, TableError> {
        if self.program.profiles[profile].selector.is_none() {
            return Err(TableError::NoSelector { profile: self.program.profiles[profile].name.clone() });
        }
        for member in members {
            self.check_member(profile as u16, *member)?;
        }
        let mut members: Vec<u32> = members.iter().map(|member| member.0).collect();
        members.sort_unstable();
        Ok(members)
    }

    /// Returns whether a table entry refers to this member or group.
    fn is_referenced(&self, profile: usize, profile_ref: ProfileRef) -> bool {
        let tables = self.program.tables.iter().zip(self.state.tables.iter());
        let mut tables_of_profile =
            tables.filter(|(table, _)| table.profile.map(usize::from) == Some(profile));
        tables_of_profile.any(|(_, state)| state.extras.profile_refs.contains(&profile_ref))
    }
}

/// Stores a value at the first free index and returns the index.
fn insert<V>(values: &mut Vec<Option<V>>, value: V) -> u32 {
    let free = values.iter().position(Option::is_none).unwrap_or(values.len());
    if free == values.len() {
        values.push(None);
    }
    values[free] = Some(value);
    free as u32
}
