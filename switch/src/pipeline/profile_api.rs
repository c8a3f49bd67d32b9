//! Runtime API of action profiles.

use super::api_types::{ActionCall, GroupHandle, MemberHandle, ObjectKind, TableError};
use super::table_api::index_by_name;
use super::table_state::{Member, ProfileRef};
use super::{Pipeline, values};

impl Pipeline {
    fn profile(&self, name: &str) -> Result<usize, TableError> {
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

    fn resolve_member(&self, profile: usize, action: &ActionCall) -> Result<Member, TableError> {
        let object = self.profile_label(profile);
        let (action, args) = self.resolve(&object, &self.program.profile_actions(profile), action)?;
        Ok(Member { action, args })
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
        let mut groups = self.state.profiles[profile].groups.iter().flatten();
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
            let name = self.program.action_name(member.action).to_string();
            Some((MemberHandle(handle as u32), ActionCall::Action { name, args }))
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

    /// Replaces the members of a group.
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
        self.state.profiles[profile].groups[group.0 as usize] = Some(members);
        Ok(())
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
        Ok(())
    }

    /// Returns the groups of an action profile, each with its members.
    ///
    /// # Errors
    ///
    /// Unknown profile.
    pub fn groups(&self, profile: &str) -> Result<Vec<(GroupHandle, Vec<MemberHandle>)>, TableError> {
        let profile = self.profile(profile)?;
        let groups = self.state.profiles[profile].groups.iter().enumerate();
        let list = |(handle, members): (usize, &Option<Vec<u32>>)| {
            let members = members.as_ref()?.iter().map(|member| MemberHandle(*member)).collect();
            Some((GroupHandle(handle as u32), members))
        };
        Ok(groups.filter_map(list).collect())
    }

    fn check_members(&self, profile: usize, members: &[MemberHandle]) -> Result<Vec<u32>, TableError> {
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

    fn is_referenced(&self, profile: usize, profile_ref: ProfileRef) -> bool {
        let tables = self.program.tables.iter().zip(self.state.tables.iter());
        let mut tables_of_profile =
            tables.filter(|(table, _)| table.profile.map(usize::from) == Some(profile));
        tables_of_profile.any(|(_, state)| state.extras.profile_refs.contains(&profile_ref))
    }
}

/// Stores a value at the first free index and returns the index.
fn insert<V>(slots: &mut Vec<Option<V>>, value: V) -> u32 {
    let free = slots.iter().position(Option::is_none).unwrap_or(slots.len());
    if free == slots.len() {
        slots.push(None);
    }
    slots[free] = Some(value);
    free as u32
}
