//! Action profile members, groups and one-shot sets.

use super::device::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime::p4::v1::{self, *};
use p4runtime::p4info::Object;

fn member(d: &Device, profile: &str, member_id: u32, action: Option<v1::Action>) -> Kind {
    let action_profile_id = d.index().action_profiles.named(profile).unwrap().preamble().id;
    Kind::ActionProfileMember(ActionProfileMember { action_profile_id, member_id, action })
}
fn group(d: &Device, profile: &str, group_id: u32, members: &[(u32, i32)]) -> Kind {
    let action_profile_id = d.index().action_profiles.named(profile).unwrap().preamble().id;
    let member = |&(member_id, weight)| action_profile_group::Member { member_id, weight, watch_kind: None };
    let members = members.iter().map(member).collect();
    Kind::ActionProfileGroup(ActionProfileGroup { action_profile_id, group_id, members, max_size: 0 })
}

#[test]
fn members_and_groups_live_in_order_of_their_references() {
    let mut d = Device::new();
    let send = |d: &Device, port| Some(d.action("send", &[port]));
    let refers = |d: &Device, table: &str, kind| {
        Kind::TableEntry(d.entry(table, &[exact(1)], 0, Some(TableAction { r#type: Some(kind) })))
    };
    d.refused(
        Insert,
        refers(&d, "by_selector", ActionType::ActionProfileGroupId(9)),
        Code::NotFound,
        "no group 9",
    );
    d.refused(Insert, group(&d, "paths", 9, &[(1, 1)]), Code::NotFound, "no member 1");
    d.ok(Insert, member(&d, "paths", 1, send(&d, 1)));
    d.ok(Insert, member(&d, "paths", 2, send(&d, 2)));
    d.refused(Insert, member(&d, "paths", 1, send(&d, 1)), Code::AlreadyExists, "has member 1");
    d.refused(Insert, member(&d, "paths", 0, send(&d, 1)), Code::InvalidArgument, "use 1 or higher");
    d.refused(Insert, member(&d, "paths", 3, None), Code::InvalidArgument, "has no action");
    let other = Some(d.action("drop", &[]));
    d.refused(Insert, member(&d, "paths", 3, other), Code::InvalidArgument, "is not one of");
    d.ok(Insert, group(&d, "paths", 9, &[(1, 1), (2, 3)]));
    d.refused(Insert, group(&d, "paths", 9, &[(1, 1)]), Code::AlreadyExists, "has group 9");
    d.refused(Modify, group(&d, "paths", 8, &[(1, 1)]), Code::NotFound, "no group 8");
    d.refused(Modify, group(&d, "paths", 9, &[(1, 0)]), Code::InvalidArgument, "below 1");
    d.refused(Modify, group(&d, "paths", 9, &[(1, 1), (1, 1)]), Code::InvalidArgument, "duplicate member");
    d.refused(Insert, group(&d, "nexthops", 9, &[]), Code::InvalidArgument, "is not an action selector");
    d.refused(Delete, member(&d, "paths", 2, None), Code::FailedPrecondition, "is in group 9");
    let entry = refers(&d, "by_selector", ActionType::ActionProfileGroupId(9));
    d.ok(Insert, entry.clone());
    d.refused(Delete, group(&d, "paths", 9, &[]), Code::FailedPrecondition, "paths: group 9 is in use");
    // read back by the controller's ids
    assert_eq!(d.read(group(&d, "paths", 0, &[])).unwrap(), [group(&d, "paths", 9, &[(1, 1), (2, 3)])]);
    assert_eq!(d.read(member(&d, "paths", 2, None)).unwrap(), [member(&d, "paths", 2, send(&d, 2))]);
    let entries: Vec<Kind> = d.table("by_selector").into_iter().map(Kind::TableEntry).collect();
    assert_eq!(entries, std::slice::from_ref(&entry));
    d.ok(Modify, member(&d, "paths", 2, send(&d, 7)));
    assert_eq!(d.read(member(&d, "paths", 2, None)).unwrap(), [member(&d, "paths", 2, send(&d, 7))]);
    // taken down in order
    d.ok(Delete, entry);
    d.ok(Modify, group(&d, "paths", 9, &[(1, 1)]));
    d.ok(Delete, member(&d, "paths", 2, None));
    d.ok(Delete, group(&d, "paths", 9, &[]));
    d.ok(Delete, member(&d, "paths", 1, None));
    d.refused(Delete, member(&d, "paths", 1, None), Code::NotFound, "no member 1");

    // a profile without selector: members only, as many as it takes
    for id in 1..=4 {
        d.ok(Insert, member(&d, "nexthops", id, send(&d, 1)));
    }
    d.refused(Insert, member(&d, "nexthops", 5, send(&d, 1)), Code::ResourceExhausted, "is full");
    d.ok(Insert, refers(&d, "by_profile", ActionType::ActionProfileMemberId(3)));
    d.refused(
        Delete,
        member(&d, "nexthops", 3, None),
        Code::FailedPrecondition,
        "nexthops: member 3 is in use",
    );
    let direct = Kind::TableEntry(d.entry("by_profile", &[exact(2)], 0, d.call("send", &[1])));
    d.refused(Insert, direct, Code::InvalidArgument, "use a member or a group");
}

#[test]
fn a_one_shot_set_is_read_back_whole_and_leaves_nothing_behind() {
    let mut d = Device::new();
    let set = |d: &Device, ports: &[(u64, i32)]| {
        let action = |&(port, weight): &(u64, i32)| ActionProfileAction {
            action: Some(d.action("send", &[port])),
            weight,
            watch_kind: None,
        };
        let action_profile_actions = ports.iter().map(action).collect();
        let set = ActionProfileActionSet { action_profile_actions, ..ActionProfileActionSet::default() };
        let action = TableAction { r#type: Some(ActionType::ActionProfileActionSet(set)) };
        Kind::TableEntry(d.entry("by_selector", &[exact(1)], 0, Some(action)))
    };
    let empty = d.everything();
    d.ok(Insert, set(&d, &[(1, 1), (2, 2), (2, 2)]));
    let first: Vec<Kind> = d.table("by_selector").into_iter().map(Kind::TableEntry).collect();
    assert_eq!(first, [set(&d, &[(1, 1), (2, 2), (2, 2)])]);
    assert!(d.read(member(&d, "paths", 0, None)).unwrap().is_empty());
    d.refused(
        Insert,
        member(&d, "paths", 1, Some(d.action("send", &[1]))),
        Code::InvalidArgument,
        "cannot be mixed",
    );
    d.refused(Modify, set(&d, &[(1, 1), (999, 1)]), Code::InvalidArgument, "does not fit");
    d.refused(Modify, set(&d, &[(1, 0)]), Code::InvalidArgument, "below 1");
    d.refused(Insert, set(&d, &[(1, 1)]), Code::AlreadyExists, "has this entry");
    d.ok(Modify, set(&d, &[(3, 1)]));
    d.ok(Delete, set(&d, &[]));
    assert_eq!(d.everything(), empty);
    let made = d.switch.pipeline();
    let name = &d.index().action_profiles.named("paths").unwrap().preamble().name;
    assert!(made.members(name).unwrap().is_empty() && made.groups(name).unwrap().is_empty());
    // and ids may be used again
    d.ok(Insert, member(&d, "paths", 1, Some(d.action("send", &[1]))));
    d.refused(Insert, set(&d, &[(1, 1)]), Code::InvalidArgument, "cannot be mixed");
}
