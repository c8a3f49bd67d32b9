//! Commands for members and groups of action profiles.

use super::ast::{Command, Handle};
use super::error::PositionedError;
use super::lexer::Name;
use super::names;
use crate::pipeline::{ActionCall, GroupHandle, MemberHandle, Pipeline, TableError};
use crate::program::Program;

/// Runs a command for an action profile. Returns the command if it is not one of these.
pub(super) fn execute(
    program: &Program,
    pipeline: &mut Pipeline,
    command: Command,
) -> Result<Option<Command>, PositionedError> {
    let action = |profile: &Name, call| -> Result<(&str, ActionCall), PositionedError> {
        let (name, permitted) = names::profile(program, profile)?;
        let kind = format!("action of action profile {name}");
        Ok((name, names::action(program, &kind, &permitted, call)?))
    };
    match &command {
        Command::MemberCreate { profile, action: call } => {
            let (name, call) = action(profile, call)?;
            pipeline.member_add(name, &call).map_err(|error| (profile.position, error.to_string()))?;
        }
        Command::MemberModify { profile, member, action: call } => {
            let (name, call) = action(profile, call)?;
            locate_error(*member, pipeline.member_modify(name, MemberHandle(member.number), &call))?;
        }
        Command::MemberDelete { profile, member } => {
            let (name, _) = names::profile(program, profile)?;
            locate_error(*member, pipeline.member_delete(name, MemberHandle(member.number)))?;
        }
        Command::ProfileGroupCreate { profile } => {
            let (name, _) = names::profile(program, profile)?;
            pipeline.group_add(name, &[]).map_err(|error| (profile.position, error.to_string()))?;
        }
        Command::ProfileGroupDelete { profile, group } => {
            let (name, _) = names::profile(program, profile)?;
            locate_error(*group, pipeline.group_delete(name, GroupHandle(group.number)))?;
        }
        Command::ProfileGroupAdd { profile, member, group } => {
            let (name, mut members) = members_of_group(program, pipeline, profile, *group)?;
            members.push(MemberHandle(member.number));
            locate_error(*member, pipeline.group_modify(name, GroupHandle(group.number), &members))?;
        }
        Command::ProfileGroupRemove { profile, member, group } => {
            let (name, mut members) = members_of_group(program, pipeline, profile, *group)?;
            let Some(index) = members.iter().position(|known| known.0 == member.number) else {
                let message = format!("member {} is not in group {}", member.number, group.number);
                return Err((member.position, message));
            };
            members.remove(index);
            locate_error(*group, pipeline.group_modify(name, GroupHandle(group.number), &members))?;
        }
        _ => return Ok(Some(command)),
    }
    Ok(None)
}

/// Returns the full name of an action profile, and the members of one of its groups.
fn members_of_group<'p>(
    program: &'p Program,
    pipeline: &Pipeline,
    profile: &Name,
    group: Handle,
) -> Result<(&'p str, Vec<MemberHandle>), PositionedError> {
    let (name, _) = names::profile(program, profile)?;
    let groups = locate_error(group, pipeline.groups(name))?;
    match groups.into_iter().find(|(handle, _)| handle.0 == group.number) {
        Some((_, members)) => Ok((name, members)),
        None => {
            let message = format!(
                "action profile {name} has no group {}; act_prof_create_group creates groups, counted from 0",
                group.number
            );
            Err((group.position, message))
        }
    }
}

/// Gives an error the position of the number of a member or group.
fn locate_error<V>(handle: Handle, result: Result<V, TableError>) -> Result<V, PositionedError> {
    result.map_err(|error| (handle.position, error.to_string()))
}
