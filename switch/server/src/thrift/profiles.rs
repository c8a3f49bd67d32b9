//! `bm_mt_act_prof_*`: action profiles with their members and groups.

use super::service::{CallError, CallResult, Service, check_context};
use super::structs::encode_action_data;
use super::table_error::{TableErrorCode, code, member_error};
use super::value::{Fields, Value};
use thrift::protocol::TType;
use weir_switch::pipeline::{ActionCall, GroupHandle, MemberHandle, Pipeline};

/// Maximum number of members, and of groups, per profile over Thrift. BMv2 has no limit; each costs memory.
const MAX_PROFILE_ITEMS: usize = 1 << 16;

/// Dispatches the methods of this file; `None` for any other.
pub(super) fn call(service: &mut Service, method: &str, args: &Fields) -> Option<CallResult> {
    let answer = match method.strip_prefix("bm_mt_act_prof_")? {
        "add_member" => add_member(service, args),
        "modify_member" => modify_member(service, args),
        "delete_member" => delete_member(service, args),
        "create_group" => create_group(service, args),
        "delete_group" => delete_group(service, args),
        "add_member_to_group" => change_group(service, args, |members, member| {
            if members.contains(&member) {
                return Err(TableErrorCode(code::MBR_ALREADY_IN_GRP));
            }
            members.push(member);
            Ok(())
        }),
        "remove_member_from_group" => change_group(service, args, |members, member| {
            let index = members.iter().position(|&other| other == member);
            members.remove(index.ok_or(TableErrorCode(code::MBR_NOT_IN_GRP))?);
            Ok(())
        }),
        "get_members" => get_members(service, args),
        "get_member" => get_member(service, args),
        "get_groups" => get_groups(service, args),
        "get_group" => get_group(service, args),
        _ => return None,
    };
    Some(answer)
}

/// Runs an operation on the profile named in field 2.
fn on_profile<R: Send + 'static>(
    service: &mut Service,
    args: &Fields,
    operation: impl FnOnce(&mut Pipeline, &str) -> Result<R, TableErrorCode> + Send + 'static,
) -> Result<R, CallError> {
    check_context(args)?;
    let name = args.text(2)?;
    let answer =
        service.on_program(code::INVALID_ACTION_PROFILE_NAME, move |pipeline| operation(pipeline, &name))?;
    answer.map_err(|TableErrorCode(code)| CallError::Exception(code))
}

/// Returns the name of an action, and its arguments.
fn action(args: &Fields, name_field: i16, args_field: i16) -> thrift::Result<(String, Vec<Vec<u8>>)> {
    Ok((args.text(name_field)?, args.binaries(args_field)?))
}

fn member_action(
    pipeline: &Pipeline,
    profile: &str,
    (name, args): (String, Vec<Vec<u8>>),
) -> Result<ActionCall, TableErrorCode> {
    let action = pipeline.member_action_by_name(profile, &name).map_err(member_error)?;
    Ok(ActionCall::Action { action, args })
}

fn member(args: &Fields, field: i16) -> thrift::Result<MemberHandle> {
    Ok(MemberHandle(args.i32(field)? as u32))
}

fn add_member(service: &mut Service, args: &Fields) -> CallResult {
    let action = action(args, 3, 4)?;
    on_profile(service, args, move |pipeline, profile| {
        if pipeline.members(profile)?.len() >= MAX_PROFILE_ITEMS {
            return Err(TableErrorCode(code::TABLE_FULL));
        }
        let call = member_action(pipeline, profile, action)?;
        let member = pipeline.member_add(profile, &call).map_err(member_error)?;
        Ok(Value::I32(member.0 as i32))
    })
}

fn modify_member(service: &mut Service, args: &Fields) -> CallResult {
    let (member, action) = (member(args, 3)?, action(args, 4, 5)?);
    on_profile(service, args, move |pipeline, profile| {
        let call = member_action(pipeline, profile, action)?;
        pipeline.member_modify(profile, member, &call).map_err(member_error)?;
        Ok(Value::Void)
    })
}

fn delete_member(service: &mut Service, args: &Fields) -> CallResult {
    let member = member(args, 3)?;
    on_profile(service, args, move |pipeline, profile| {
        pipeline.member_delete(profile, member)?;
        Ok(Value::Void)
    })
}

fn create_group(service: &mut Service, args: &Fields) -> CallResult {
    on_profile(service, args, |pipeline, profile| {
        if pipeline.groups(profile)?.len() >= MAX_PROFILE_ITEMS {
            return Err(TableErrorCode(code::TABLE_FULL));
        }
        let group = pipeline.group_add(profile, &[])?;
        Ok(Value::I32(group.0 as i32))
    })
}

fn delete_group(service: &mut Service, args: &Fields) -> CallResult {
    let group = GroupHandle(args.i32(3)? as u32);
    on_profile(service, args, move |pipeline, profile| {
        pipeline.group_delete(profile, group)?;
        Ok(Value::Void)
    })
}

fn members_of(
    pipeline: &Pipeline,
    profile: &str,
    group: GroupHandle,
) -> Result<Vec<MemberHandle>, TableErrorCode> {
    let groups = pipeline.groups(profile)?;
    let found = groups.into_iter().find(|(handle, _)| *handle == group);
    found.map(|(_, members)| members).ok_or(TableErrorCode(code::INVALID_GRP_HANDLE))
}

/// Replaces the members of the group in field 4 by those that `change` makes of them and the member in field 3.
fn change_group(
    service: &mut Service,
    args: &Fields,
    change: fn(&mut Vec<MemberHandle>, MemberHandle) -> Result<(), TableErrorCode>,
) -> CallResult {
    let (member, group) = (member(args, 3)?, GroupHandle(args.i32(4)? as u32));
    on_profile(service, args, move |pipeline, profile| {
        if !pipeline.members(profile)?.iter().any(|(handle, _)| *handle == member) {
            return Err(TableErrorCode(code::INVALID_MBR_HANDLE));
        }
        let mut members = members_of(pipeline, profile, group)?;
        change(&mut members, member)?;
        pipeline.group_modify(profile, group, &members)?;
        Ok(Value::Void)
    })
}

/// Encodes `BmMtActProfMember`.
fn encode_member(pipeline: &Pipeline, (handle, action): &(MemberHandle, ActionCall)) -> Value {
    let (name, args) = match action {
        ActionCall::Action { action, args } => (pipeline.program().action_name(*action), args.as_slice()),
        // Not reached: a member always has an action.
        ActionCall::Member(_) | ActionCall::Group(_) => ("", &[][..]),
    };
    Value::structure([
        (1, Value::I32(handle.0 as i32)),
        (2, Value::text(name)),
        (3, encode_action_data(args)),
    ])
}

/// Encodes `BmMtActProfGroup`.
fn encode_group(handle: GroupHandle, members: &[MemberHandle]) -> Value {
    let members = members.iter().map(|member| Value::I32(member.0 as i32)).collect();
    Value::structure([(1, Value::I32(handle.0 as i32)), (2, Value::List(TType::I32, members))])
}

fn get_members(service: &mut Service, args: &Fields) -> CallResult {
    on_profile(service, args, |pipeline, profile| {
        let members = pipeline.members(profile)?;
        Ok(Value::List(TType::Struct, members.iter().map(|member| encode_member(pipeline, member)).collect()))
    })
}

fn get_member(service: &mut Service, args: &Fields) -> CallResult {
    let wanted = member(args, 3)?;
    on_profile(service, args, move |pipeline, profile| {
        let members = pipeline.members(profile)?;
        let member = members.iter().find(|(handle, _)| *handle == wanted);
        Ok(encode_member(pipeline, member.ok_or(TableErrorCode(code::INVALID_MBR_HANDLE))?))
    })
}

fn get_groups(service: &mut Service, args: &Fields) -> CallResult {
    on_profile(service, args, |pipeline, profile| {
        let groups = pipeline.groups(profile)?;
        let groups = groups.iter().map(|(handle, members)| encode_group(*handle, members));
        Ok(Value::List(TType::Struct, groups.collect()))
    })
}

fn get_group(service: &mut Service, args: &Fields) -> CallResult {
    let group = GroupHandle(args.i32(3)? as u32);
    on_profile(service, args, move |pipeline, profile| {
        Ok(encode_group(group, &members_of(pipeline, profile, group)?))
    })
}
