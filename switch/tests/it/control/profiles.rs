//! Action profile members, groups and one-shot sets.

use super::device::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime::p4::v1::{self, *};
use p4runtime::p4info::Object;

fn member(device: &Device, profile: &str, member_id: u32, action: Option<v1::Action>) -> Kind {
    let action_profile_id = device.index().action_profiles.named(profile).unwrap().preamble().id;
    Kind::ActionProfileMember(ActionProfileMember { action_profile_id, member_id, action })
}
fn group(device: &Device, profile: &str, group_id: u32, members: &[(u32, i32)]) -> Kind {
    let action_profile_id = device.index().action_profiles.named(profile).unwrap().preamble().id;
    let member = |&(member_id, weight)| action_profile_group::Member { member_id, weight, watch_kind: None };
    let members = members.iter().map(member).collect();
    Kind::ActionProfileGroup(ActionProfileGroup { action_profile_id, group_id, members, max_size: 0 })
}

#[test]
fn members_and_groups_are_created_and_deleted_in_order_of_reference() {
    let mut device = Device::new();
    let send = |device: &Device, port| Some(device.action("send", &[port]));
    let refers = |device: &Device, table: &str, kind| {
        Kind::TableEntry(device.entry(table, &[exact(1)], 0, Some(TableAction { r#type: Some(kind) })))
    };
    device.expect_error(
        Insert,
        refers(&device, "by_selector", ActionType::ActionProfileGroupId(9)),
        Code::NotFound,
        "no group 9",
    );
    device.expect_error(Insert, group(&device, "paths", 9, &[(1, 1)]), Code::NotFound, "no member 1");
    device.apply(Insert, member(&device, "paths", 1, send(&device, 1)));
    device.apply(Insert, member(&device, "paths", 2, send(&device, 2)));
    device.expect_error(
        Insert,
        member(&device, "paths", 1, send(&device, 1)),
        Code::AlreadyExists,
        "has member 1",
    );
    device.expect_error(
        Insert,
        member(&device, "paths", 0, send(&device, 1)),
        Code::InvalidArgument,
        "use 1 or higher",
    );
    device.expect_error(Insert, member(&device, "paths", 3, None), Code::InvalidArgument, "has no action");
    let other = Some(device.action("drop", &[]));
    device.expect_error(Insert, member(&device, "paths", 3, other), Code::InvalidArgument, "is not one of");
    device.apply(Insert, group(&device, "paths", 9, &[(1, 1), (2, 3)]));
    device.expect_error(Insert, group(&device, "paths", 9, &[(1, 1)]), Code::AlreadyExists, "has group 9");
    device.expect_error(Modify, group(&device, "paths", 8, &[(1, 1)]), Code::NotFound, "no group 8");
    device.expect_error(Modify, group(&device, "paths", 9, &[(1, 0)]), Code::InvalidArgument, "below 1");
    device.expect_error(
        Modify,
        group(&device, "paths", 9, &[(1, 1), (1, 1)]),
        Code::InvalidArgument,
        "duplicate member",
    );
    device.expect_error(
        Insert,
        group(&device, "nexthops", 9, &[]),
        Code::InvalidArgument,
        "is not an action selector",
    );
    device.expect_error(Delete, member(&device, "paths", 2, None), Code::FailedPrecondition, "is in group 9");
    let entry = refers(&device, "by_selector", ActionType::ActionProfileGroupId(9));
    device.apply(Insert, entry.clone());
    device.expect_error(
        Delete,
        group(&device, "paths", 9, &[]),
        Code::FailedPrecondition,
        "paths: group 9 is in use",
    );
    // Read back with the ids of the controller.
    assert_eq!(
        device.read(group(&device, "paths", 0, &[])).unwrap(),
        [group(&device, "paths", 9, &[(1, 1), (2, 3)])]
    );
    assert_eq!(
        device.read(member(&device, "paths", 2, None)).unwrap(),
        [member(&device, "paths", 2, send(&device, 2))]
    );
    let entries: Vec<Kind> = device.table("by_selector").into_iter().map(Kind::TableEntry).collect();
    assert_eq!(entries, std::slice::from_ref(&entry));
    device.apply(Modify, member(&device, "paths", 2, send(&device, 7)));
    assert_eq!(
        device.read(member(&device, "paths", 2, None)).unwrap(),
        [member(&device, "paths", 2, send(&device, 7))]
    );
    // Deleted in the order of references.
    device.apply(Delete, entry);
    device.apply(Modify, group(&device, "paths", 9, &[(1, 1)]));
    device.apply(Delete, member(&device, "paths", 2, None));
    device.apply(Delete, group(&device, "paths", 9, &[]));
    device.apply(Delete, member(&device, "paths", 1, None));
    device.expect_error(Delete, member(&device, "paths", 1, None), Code::NotFound, "no member 1");

    // A profile without a selector has only members, up to its size.
    for id in 1..=4 {
        device.apply(Insert, member(&device, "nexthops", id, send(&device, 1)));
    }
    device.expect_error(
        Insert,
        member(&device, "nexthops", 5, send(&device, 1)),
        Code::ResourceExhausted,
        "is full",
    );
    device.apply(Insert, refers(&device, "by_profile", ActionType::ActionProfileMemberId(3)));
    device.expect_error(
        Delete,
        member(&device, "nexthops", 3, None),
        Code::FailedPrecondition,
        "nexthops: member 3 is in use",
    );
    let direct = Kind::TableEntry(device.entry("by_profile", &[exact(2)], 0, device.call("send", &[1])));
    device.expect_error(Insert, direct, Code::InvalidArgument, "use a member or a group");
}

/// Returns the number of members of each group of `paths` that packets may select.
fn selectable(device: &Device) -> Vec<usize> {
    let pipeline = device.switch.pipeline();
    let name = &device.index().action_profiles.named("paths").unwrap().preamble().name;
    let groups = pipeline.groups(name).unwrap();
    groups.iter().map(|(group, _)| pipeline.group_selectable(name, *group).unwrap().len()).collect()
}

#[test]
fn a_member_whose_watch_port_is_down_is_not_selected() {
    use p4runtime::p4::v1::action_profile_group::member::WatchKind;
    let mut device = Device::new();
    let send = |device: &Device, port| Some(device.action("send", &[port]));
    let watched = |device: &Device, watch: &[Option<WatchKind>]| {
        let Kind::ActionProfileGroup(mut group) = group(device, "paths", 9, &[(1, 1), (2, 3)]) else {
            panic!()
        };
        group.members.iter_mut().zip(watch).for_each(|(member, kind)| member.watch_kind = kind.clone());
        Kind::ActionProfileGroup(group)
    };
    let port = |port: &[u8]| Some(WatchKind::WatchPort(port.to_vec()));
    #[allow(deprecated)]
    let legacy = |port| Some(WatchKind::Watch(port));
    let ports_up = |device: &mut Device, ports: &[u16]| {
        device.switch.pipeline_mut().set_ports_up(Some(ports.iter().copied().collect()));
    };
    device.apply(Insert, member(&device, "paths", 1, send(&device, 1)));
    device.apply(Insert, member(&device, "paths", 2, send(&device, 2)));
    let both = watched(&device, &[port(&[1]), legacy(2)]);
    device.apply(Insert, both.clone());
    assert_eq!(selectable(&device), [4], "port states are unknown");
    ports_up(&mut device, &[1]);
    assert_eq!(selectable(&device), [1]);
    ports_up(&mut device, &[2, 7]);
    assert_eq!(selectable(&device), [3]);
    ports_up(&mut device, &[]);
    assert_eq!(selectable(&device), [0]);
    // Reads return the group as written, and a member that is down is still in it.
    assert_eq!(device.read(group(&device, "paths", 9, &[])).unwrap(), std::slice::from_ref(&both));
    device.expect_error(Delete, member(&device, "paths", 1, None), Code::FailedPrecondition, "is in group 9");
    // A port that does not exist is down; port 0 exists; an empty or unset watch port watches nothing.
    let cases = [
        ([port(&[0x40, 0, 0, 1]), port(&[0])], 3),
        ([port(&[]), legacy(0)], 4),
        ([None, port(&[5])], 1),
        ([None, None], 4),
    ];
    ports_up(&mut device, &[0, 3]);
    for (watch, expected) in cases {
        device.apply(Modify, watched(&device, &watch));
        assert_eq!(selectable(&device), [expected], "{watch:?}");
    }
    for (watch, expected) in
        [(legacy(-1), "watch -1 is not a port"), (port(&[1, 0, 0, 0, 0]), "exceeds 32 bits")]
    {
        device.expect_error(Modify, watched(&device, &[watch, None]), Code::InvalidArgument, expected);
    }
    device.apply(Delete, group(&device, "paths", 9, &[]));
    device.apply(Delete, member(&device, "paths", 1, None));
    device.apply(Delete, member(&device, "paths", 2, None));

    // A one-shot set.
    let action = |weight, watch_port: &[u8]| ActionProfileAction {
        action: send(&device, 1),
        weight,
        watch_kind: Some(action_profile_action::WatchKind::WatchPort(watch_port.to_vec())),
    };
    let action_profile_actions = vec![action(1, &[3]), action(2, &[4])];
    let set = ActionProfileActionSet { action_profile_actions, ..ActionProfileActionSet::default() };
    let set = TableAction { r#type: Some(ActionType::ActionProfileActionSet(set)) };
    let entry = Kind::TableEntry(device.entry("by_selector", &[exact(1)], 0, Some(set)));
    device.apply(Insert, entry.clone());
    assert_eq!(selectable(&device), [1]);
    ports_up(&mut device, &[3, 4]);
    assert_eq!(selectable(&device), [3]);
    device.apply(Delete, entry);
}

#[test]
fn a_one_shot_set_is_read_back_and_deleted_completely() {
    let mut device = Device::new();
    let set = |device: &Device, ports: &[(u64, i32)]| {
        let action = |&(port, weight): &(u64, i32)| ActionProfileAction {
            action: Some(device.action("send", &[port])),
            weight,
            watch_kind: None,
        };
        let action_profile_actions = ports.iter().map(action).collect();
        let set = ActionProfileActionSet { action_profile_actions, ..ActionProfileActionSet::default() };
        let action = TableAction { r#type: Some(ActionType::ActionProfileActionSet(set)) };
        Kind::TableEntry(device.entry("by_selector", &[exact(1)], 0, Some(action)))
    };
    let empty = device.read_all();
    device.apply(Insert, set(&device, &[(1, 1), (2, 2), (2, 2)]));
    let first: Vec<Kind> = device.table("by_selector").into_iter().map(Kind::TableEntry).collect();
    assert_eq!(first, [set(&device, &[(1, 1), (2, 2), (2, 2)])]);
    assert!(device.read(member(&device, "paths", 0, None)).unwrap().is_empty());
    device.expect_error(
        Insert,
        member(&device, "paths", 1, Some(device.action("send", &[1]))),
        Code::InvalidArgument,
        "cannot be mixed",
    );
    device.expect_error(Modify, set(&device, &[(1, 1), (999, 1)]), Code::InvalidArgument, "does not fit");
    device.expect_error(Modify, set(&device, &[(1, 0)]), Code::InvalidArgument, "below 1");
    device.expect_error(Insert, set(&device, &[(1, 1)]), Code::AlreadyExists, "has this entry");
    device.apply(Modify, set(&device, &[(3, 1)]));
    device.apply(Delete, set(&device, &[]));
    assert_eq!(device.read_all(), empty);
    let pipeline = device.switch.pipeline();
    let name = &device.index().action_profiles.named("paths").unwrap().preamble().name;
    assert!(pipeline.members(name).unwrap().is_empty() && pipeline.groups(name).unwrap().is_empty());
    // The ids can be used again.
    device.apply(Insert, member(&device, "paths", 1, Some(device.action("send", &[1]))));
    device.expect_error(Insert, set(&device, &[(1, 1)]), Code::InvalidArgument, "cannot be mixed");
}
