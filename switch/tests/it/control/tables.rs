//! Table entries and default actions.

use super::device::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::action::Param;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::field_match::{Exact, FieldMatchType};
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime::p4::v1::{self, TableAction, TableEntry};

#[test]
fn every_match_kind_is_read_back_as_written() {
    let mut device = Device::new();
    let mut written = vec![
        device.exact_one(1, 2),
        device.entry("lpm_one", &[lpm(0x0a00_0000, 8)], 0, device.call("counted", &[3])),
        device.entry("lpm_one", &[lpm(0x0a00_0001, 32)], 0, device.call("drop", &[])),
        device.entry("lpm_one", &[None], 0, device.call("counted", &[1])),
        device.entry(
            "ternary_one",
            &[ternary(0x10, 0xf0), range(5, 9), optional(0x1ff)],
            7,
            device.call("paced", &[4]),
        ),
        device.entry("ternary_one", &[None, None, None], 1, device.call("drop", &[])),
        // The same match with another priority is another entry.
        device.entry("ternary_one", &[None, None, None], 2, device.call("drop", &[])),
    ];
    written[0].metadata = b"cookie".to_vec();
    written[0].idle_timeout_ns = 5_000_000;
    for entry in &written {
        device.apply(Insert, Kind::TableEntry(entry.clone()));
    }
    let mut found =
        [device.table("exact_one"), device.table("lpm_one"), device.table("ternary_one")].concat();
    let order = |entry: &TableEntry| format!("{entry:?}");
    written.sort_by_key(order);
    found.sort_by_key(order);
    assert_eq!(found, written);
    for entry in written {
        device.apply(Delete, Kind::TableEntry(TableEntry { action: None, metadata: Vec::new(), ..entry }));
    }
    assert!(
        device.table("lpm_one").is_empty()
            && device.table("ternary_one").is_empty()
            && device.table("exact_one").is_empty()
    );
}

#[test]
fn leading_zeros_are_accepted_and_not_returned() {
    let mut device = Device::new();
    let mut padded = device.exact_one(1, 2);
    let canonical = padded.clone();
    for field in &mut padded.r#match {
        if let Some(FieldMatchType::Exact(m)) = &mut field.field_match_type {
            m.value.splice(0..0, [0; 5]);
        }
    }
    device.apply(Insert, Kind::TableEntry(padded.clone()));
    assert_eq!(device.table("exact_one"), [canonical]);
    assert_eq!(
        device.read(Kind::TableEntry(TableEntry { action: None, ..padded.clone() })).unwrap().len(),
        1
    );
    device.expect_error(Insert, Kind::TableEntry(padded), Code::AlreadyExists, "MODIFY");
}

#[test]
fn entries_are_inserted_modified_and_deleted() {
    let mut device = Device::new();
    let entry = device.exact_one(1, 2);
    device.expect_error(Modify, Kind::TableEntry(entry.clone()), Code::NotFound, "no such entry");
    device.expect_error(Delete, Kind::TableEntry(entry.clone()), Code::NotFound, "no such entry");
    device.apply(Insert, Kind::TableEntry(entry.clone()));
    device.expect_error(Insert, Kind::TableEntry(entry.clone()), Code::AlreadyExists, "has this entry");
    let tagged = TableEntry { action: device.call("tag", &[0xbeef, 3]), ..entry.clone() };
    device.apply(Modify, Kind::TableEntry(tagged.clone()));
    assert_eq!(device.table("exact_one"), std::slice::from_ref(&tagged));
    // An update without an action keeps the action.
    device.apply(Modify, Kind::TableEntry(TableEntry { action: None, metadata: vec![1], ..entry.clone() }));
    assert_eq!(device.table("exact_one"), [TableEntry { metadata: vec![1], ..tagged }]);
    device.apply(Delete, Kind::TableEntry(entry));
    assert!(device.table("exact_one").is_empty());
}

#[test]
fn a_full_table_refuses_entries() {
    let mut device = Device::new();
    for a in 0..4 {
        device.apply(Insert, Kind::TableEntry(device.exact_one(a, 0)));
    }
    device.expect_error(Insert, Kind::TableEntry(device.exact_one(4, 0)), Code::ResourceExhausted, "full");
    device.apply(Delete, Kind::TableEntry(device.exact_one(0, 0)));
    device.apply(Insert, Kind::TableEntry(device.exact_one(4, 0)));
}

#[test]
fn invalid_keys_are_rejected() {
    let mut device = Device::new();
    let send = device.call("send", &[1]);
    let drop_ = device.call("drop", &[]);
    let cases: Vec<(TableEntry, &str)> = vec![
        (device.entry("exact_one", &[exact(1)], 0, send.clone()), "an exact match field is missing"),
        (device.entry("exact_one", &[exact(1), exact(512)], 0, send.clone()), "0x0200 does not fit 9 bits"),
        (
            device.entry("exact_one", &[exact(1), lpm(1, 9)], 0, send.clone()),
            "the field has match kind EXACT",
        ),
        (device.entry("exact_one", &[exact(1), exact(1)], 5, send.clone()), "have no priority"),
        (device.entry("lpm_one", &[lpm(0x0a00_0001, 8)], 0, drop_.clone()), "bits set beyond its prefix"),
        (device.entry("lpm_one", &[lpm(0, 0)], 0, drop_.clone()), "omit the field"),
        (device.entry("lpm_one", &[lpm(0, 33)], 0, drop_.clone()), "is not between 1 and 32"),
        (device.entry("ternary_one", &[ternary(1, 1)], 0, drop_.clone()), "need a priority"),
        (device.entry("ternary_one", &[ternary(1, 1)], -3, drop_.clone()), "need a priority"),
        (device.entry("ternary_one", &[ternary(3, 1)], 1, drop_.clone()), "bits set outside its mask"),
        (device.entry("ternary_one", &[ternary(0, 0)], 1, drop_.clone()), "omit the field"),
        (device.entry("ternary_one", &[None, range(9, 5)], 1, drop_.clone()), "low is greater than high"),
        (device.entry("ternary_one", &[None, range(0, 0xffff)], 1, drop_.clone()), "omit the field"),
        (device.entry("ternary_one", &[None, None, optional(512)], 1, drop_.clone()), "does not fit 9 bits"),
    ];
    for (entry, message) in cases {
        device.expect_error(Insert, Kind::TableEntry(entry), Code::InvalidArgument, message);
    }
    let mut twice = device.exact_one(1, 2);
    twice.r#match[1].field_id = 1;
    device.expect_error(Insert, Kind::TableEntry(twice), Code::InvalidArgument, "is given twice");
    let mut unknown = device.exact_one(1, 2);
    unknown.r#match[1].field_id = 9;
    device.expect_error(Insert, Kind::TableEntry(unknown), Code::InvalidArgument, "has no match field 9");
    let mut unset = device.exact_one(1, 2);
    unset.r#match[1].field_match_type = None;
    device.expect_error(Insert, Kind::TableEntry(unset), Code::InvalidArgument, "no match is given");
    let mut empty = device.exact_one(1, 2);
    empty.r#match[1].field_match_type = Some(FieldMatchType::Exact(Exact { value: Vec::new() }));
    device.expect_error(Insert, Kind::TableEntry(empty), Code::InvalidArgument, "empty byte string");
    let nowhere = TableEntry { table_id: 77, ..device.exact_one(1, 2) };
    device.expect_error(
        Insert,
        Kind::TableEntry(nowhere),
        Code::InvalidArgument,
        "there is no table 0x0000004d",
    );
}

#[test]
fn invalid_actions_are_rejected() {
    let mut device = Device::new();
    let with = |device: &Device, action: Option<TableAction>| {
        Kind::TableEntry(TableEntry { action, ..device.exact_one(1, 2) })
    };
    device.expect_error(Insert, with(&device, None), Code::InvalidArgument, "no action");
    device.expect_error(
        Insert,
        with(&device, device.call("counted", &[1])),
        Code::InvalidArgument,
        "is not one of the table's",
    );
    device.expect_error(
        Insert,
        with(&device, device.call("NoAction", &[])),
        Code::PermissionDenied,
        "DEFAULT_ONLY",
    );
    device.expect_error(
        Insert,
        with(&device, device.call("send", &[])),
        Code::InvalidArgument,
        "parameter port: is missing",
    );
    device.expect_error(
        Insert,
        with(&device, device.call("send", &[512])),
        Code::InvalidArgument,
        "does not fit 9 bits",
    );
    device.expect_error(
        Insert,
        with(&device, Some(TableAction { r#type: None })),
        Code::InvalidArgument,
        "not set",
    );
    let member = TableAction { r#type: Some(ActionType::ActionProfileMemberId(1)) };
    device.expect_error(Insert, with(&device, Some(member)), Code::InvalidArgument, "has no action profile");
    let mut extra = device.action("send", &[1]);
    extra.params.push(Param { param_id: 9, value: vec![1] });
    let extra = TableAction { r#type: Some(ActionType::Action(extra)) };
    device.expect_error(Insert, with(&device, Some(extra)), Code::InvalidArgument, "has no parameter 9");
    let mut twice = device.action("send", &[1]);
    twice.params.push(twice.params[0].clone());
    let twice = TableAction { r#type: Some(ActionType::Action(twice)) };
    device.expect_error(Insert, with(&device, Some(twice)), Code::InvalidArgument, "is given twice");
    let unknown = v1::Action { action_id: 99, params: Vec::new() };
    let unknown = TableAction { r#type: Some(ActionType::Action(unknown)) };
    device.expect_error(
        Insert,
        with(&device, Some(unknown)),
        Code::InvalidArgument,
        "there is no action 0x00000063",
    );
}

#[test]
fn const_entries_cannot_be_changed() {
    let mut device = Device::new();
    let entries = device.table("const_one");
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().all(|entry| entry.is_const));
    let one = device.entry("const_one", &[exact(1)], 0, device.call("send", &[3]));
    let new = device.entry("const_one", &[exact(9)], 0, device.call("send", &[3]));
    for (kind, entry) in [(Insert, &new), (Modify, &one), (Delete, &one)] {
        device.expect_error(kind, Kind::TableEntry(entry.clone()), Code::PermissionDenied, "const");
    }
    let marked = TableEntry { is_const: true, ..device.exact_one(1, 2) };
    device.expect_error(Insert, Kind::TableEntry(marked), Code::InvalidArgument, "is_const");
}

#[test]
fn default_actions_are_modified_and_reset() {
    let mut device = Device::new();
    let default = |device: &Device, table: &str, action| {
        Kind::TableEntry(TableEntry { is_default_action: true, ..device.entry(table, &[], 0, action) })
    };
    let current = |device: &Device, table: &str| device.read(default(device, table, None)).unwrap();
    let original = current(&device, "keyless");
    let send = default(&device, "keyless", device.call("send", &[4]));
    device.apply(Modify, send.clone());
    assert_eq!(current(&device, "keyless"), std::slice::from_ref(&send));
    device.apply(Modify, default(&device, "keyless", None));
    assert_eq!(current(&device, "keyless"), original);
    device.expect_error(Insert, send.clone(), Code::InvalidArgument, "can only be modified");
    device.expect_error(Delete, send, Code::InvalidArgument, "can only be modified");
    device.expect_error(
        Modify,
        default(&device, "lpm_one", device.call("drop", &[])),
        Code::PermissionDenied,
        "is const",
    );
    device.expect_error(
        Modify,
        default(&device, "exact_one", device.call("drop", &[])),
        Code::PermissionDenied,
        "TABLE_ONLY",
    );
    device.expect_error(
        Modify,
        default(&device, "by_profile", device.call("NoAction", &[])),
        Code::PermissionDenied,
        "is const",
    );
    let matched = TableEntry { is_default_action: true, ..device.exact_one(1, 2) };
    device.expect_error(
        Modify,
        Kind::TableEntry(matched),
        Code::InvalidArgument,
        "neither match nor priority",
    );
    let keyed = device.entry("keyless", &[], 0, device.call("send", &[1]));
    device.expect_error(Insert, Kind::TableEntry(keyed), Code::InvalidArgument, "has no key");
}

#[test]
fn idle_timeouts_need_a_table_that_supports_them() {
    let mut device = Device::new();
    let timed = |entry: TableEntry, ns| Kind::TableEntry(TableEntry { idle_timeout_ns: ns, ..entry });
    device.apply(Insert, timed(device.exact_one(1, 2), 1_000_000));
    device.expect_error(Insert, timed(device.exact_one(2, 2), -1), Code::InvalidArgument, "negative");
    let lpm = device.entry("lpm_one", &[lpm(0, 1)], 0, device.call("drop", &[]));
    device.expect_error(Insert, timed(lpm, 5), Code::InvalidArgument, "has no idle timeout");
}

#[test]
fn reads_filter_by_the_fields_that_are_set() {
    let mut device = Device::new();
    for priority in 1..=3 {
        let entry = device.entry(
            "ternary_one",
            &[ternary(priority, 0xff)],
            priority as i32,
            device.call("drop", &[]),
        );
        device.apply(Insert, Kind::TableEntry(TableEntry { metadata: vec![priority as u8], ..entry }));
    }
    let base = device.entry("ternary_one", &[], 0, None);
    let count = |request: TableEntry| device.read(Kind::TableEntry(request)).unwrap().len();
    assert_eq!(count(base.clone()), 3);
    assert_eq!(count(TableEntry { priority: 2, ..base.clone() }), 1);
    assert_eq!(count(TableEntry { metadata: vec![3], ..base.clone() }), 1);
    assert_eq!(count(TableEntry { action: device.call("drop", &[]), ..base.clone() }), 3);
    assert_eq!(count(TableEntry { action: device.call("paced", &[]), ..base.clone() }), 0);
    assert_eq!(count(device.entry("ternary_one", &[ternary(2, 0xff)], 2, None)), 1);
    assert_eq!(count(device.entry("ternary_one", &[ternary(2, 0xff)], 3, None)), 0);
    // All tables: these three and the two const entries.
    assert_eq!(count(TableEntry::default()), 5);
    let mixed =
        device.read(Kind::TableEntry(TableEntry { priority: 1, ..TableEntry::default() })).unwrap_err();
    assert_eq!(mixed.code, Code::InvalidArgument);
    let unknown =
        device.read(Kind::TableEntry(TableEntry { table_id: 5, ..TableEntry::default() })).unwrap_err();
    assert_eq!(unknown.code, Code::InvalidArgument);
}
