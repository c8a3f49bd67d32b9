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
    let mut d = Device::new();
    let mut written = vec![
        d.exact_one(1, 2),
        d.entry("lpm_one", &[lpm(0x0a00_0000, 8)], 0, d.call("counted", &[3])),
        d.entry("lpm_one", &[lpm(0x0a00_0001, 32)], 0, d.call("drop", &[])),
        d.entry("lpm_one", &[None], 0, d.call("counted", &[1])),
        d.entry(
            "ternary_one",
            &[ternary(0x10, 0xf0), range(5, 9), optional(0x1ff)],
            7,
            d.call("paced", &[4]),
        ),
        d.entry("ternary_one", &[None, None, None], 1, d.call("drop", &[])),
        // the same match with another priority is another entry
        d.entry("ternary_one", &[None, None, None], 2, d.call("drop", &[])),
    ];
    written[0].metadata = b"cookie".to_vec();
    written[0].idle_timeout_ns = 5_000_000;
    for entry in &written {
        d.ok(Insert, Kind::TableEntry(entry.clone()));
    }
    let mut found = [d.table("exact_one"), d.table("lpm_one"), d.table("ternary_one")].concat();
    let order = |entry: &TableEntry| format!("{entry:?}");
    written.sort_by_key(order);
    found.sort_by_key(order);
    assert_eq!(found, written);
    for entry in written {
        d.ok(Delete, Kind::TableEntry(TableEntry { action: None, metadata: Vec::new(), ..entry }));
    }
    assert!(
        d.table("lpm_one").is_empty() && d.table("ternary_one").is_empty() && d.table("exact_one").is_empty()
    );
}

#[test]
fn leading_zeros_are_taken_and_not_given_back() {
    let mut d = Device::new();
    let mut padded = d.exact_one(1, 2);
    let canonical = padded.clone();
    for field in &mut padded.r#match {
        if let Some(FieldMatchType::Exact(m)) = &mut field.field_match_type {
            m.value.splice(0..0, [0; 5]);
        }
    }
    d.ok(Insert, Kind::TableEntry(padded.clone()));
    assert_eq!(d.table("exact_one"), [canonical]);
    assert_eq!(d.read(Kind::TableEntry(TableEntry { action: None, ..padded.clone() })).unwrap().len(), 1);
    d.refused(Insert, Kind::TableEntry(padded), Code::AlreadyExists, "MODIFY");
}

#[test]
fn an_entry_is_inserted_once_modified_and_deleted_if_it_is_there() {
    let mut d = Device::new();
    let entry = d.exact_one(1, 2);
    d.refused(Modify, Kind::TableEntry(entry.clone()), Code::NotFound, "no such entry");
    d.refused(Delete, Kind::TableEntry(entry.clone()), Code::NotFound, "no such entry");
    d.ok(Insert, Kind::TableEntry(entry.clone()));
    d.refused(Insert, Kind::TableEntry(entry.clone()), Code::AlreadyExists, "has this entry");
    let tagged = TableEntry { action: d.call("tag", &[0xbeef, 3]), ..entry.clone() };
    d.ok(Modify, Kind::TableEntry(tagged.clone()));
    assert_eq!(d.table("exact_one"), std::slice::from_ref(&tagged));
    // without an action, the action stays
    d.ok(Modify, Kind::TableEntry(TableEntry { action: None, metadata: vec![1], ..entry.clone() }));
    assert_eq!(d.table("exact_one"), [TableEntry { metadata: vec![1], ..tagged }]);
    d.ok(Delete, Kind::TableEntry(entry));
    assert!(d.table("exact_one").is_empty());
}

#[test]
fn a_full_table_refuses_entries() {
    let mut d = Device::new();
    for a in 0..4 {
        d.ok(Insert, Kind::TableEntry(d.exact_one(a, 0)));
    }
    d.refused(Insert, Kind::TableEntry(d.exact_one(4, 0)), Code::ResourceExhausted, "full");
    d.ok(Delete, Kind::TableEntry(d.exact_one(0, 0)));
    d.ok(Insert, Kind::TableEntry(d.exact_one(4, 0)));
}

#[test]
fn keys_that_are_wrong_are_refused() {
    let mut d = Device::new();
    let send = d.call("send", &[1]);
    let drop_ = d.call("drop", &[]);
    let cases: Vec<(TableEntry, &str)> = vec![
        (d.entry("exact_one", &[exact(1)], 0, send.clone()), "an exact match field is missing"),
        (d.entry("exact_one", &[exact(1), exact(512)], 0, send.clone()), "0x0200 does not fit 9 bits"),
        (d.entry("exact_one", &[exact(1), lpm(1, 9)], 0, send.clone()), "the field is matched as EXACT"),
        (d.entry("exact_one", &[exact(1), exact(1)], 5, send.clone()), "have no priority"),
        (d.entry("lpm_one", &[lpm(0x0a00_0001, 8)], 0, drop_.clone()), "bits set beyond its prefix"),
        (d.entry("lpm_one", &[lpm(0, 0)], 0, drop_.clone()), "omit the field"),
        (d.entry("lpm_one", &[lpm(0, 33)], 0, drop_.clone()), "is not between 1 and 32"),
        (d.entry("ternary_one", &[ternary(1, 1)], 0, drop_.clone()), "need a priority"),
        (d.entry("ternary_one", &[ternary(1, 1)], -3, drop_.clone()), "need a priority"),
        (d.entry("ternary_one", &[ternary(3, 1)], 1, drop_.clone()), "bits set outside its mask"),
        (d.entry("ternary_one", &[ternary(0, 0)], 1, drop_.clone()), "omit the field"),
        (d.entry("ternary_one", &[None, range(9, 5)], 1, drop_.clone()), "low is greater than high"),
        (d.entry("ternary_one", &[None, range(0, 0xffff)], 1, drop_.clone()), "omit the field"),
        (d.entry("ternary_one", &[None, None, optional(512)], 1, drop_.clone()), "does not fit 9 bits"),
    ];
    for (entry, says) in cases {
        d.refused(Insert, Kind::TableEntry(entry), Code::InvalidArgument, says);
    }
    let mut twice = d.exact_one(1, 2);
    twice.r#match[1].field_id = 1;
    d.refused(Insert, Kind::TableEntry(twice), Code::InvalidArgument, "is given twice");
    let mut unknown = d.exact_one(1, 2);
    unknown.r#match[1].field_id = 9;
    d.refused(Insert, Kind::TableEntry(unknown), Code::InvalidArgument, "has no match field 9");
    let mut unset = d.exact_one(1, 2);
    unset.r#match[1].field_match_type = None;
    d.refused(Insert, Kind::TableEntry(unset), Code::InvalidArgument, "no match is given");
    let mut empty = d.exact_one(1, 2);
    empty.r#match[1].field_match_type = Some(FieldMatchType::Exact(Exact { value: Vec::new() }));
    d.refused(Insert, Kind::TableEntry(empty), Code::InvalidArgument, "empty byte string");
    let nowhere = TableEntry { table_id: 77, ..d.exact_one(1, 2) };
    d.refused(Insert, Kind::TableEntry(nowhere), Code::InvalidArgument, "there is no table 0x0000004d");
}

#[test]
fn actions_that_are_wrong_are_refused() {
    let mut d = Device::new();
    let with = |d: &Device, action: Option<TableAction>| {
        Kind::TableEntry(TableEntry { action, ..d.exact_one(1, 2) })
    };
    d.refused(Insert, with(&d, None), Code::InvalidArgument, "no action");
    d.refused(Insert, with(&d, d.call("counted", &[1])), Code::InvalidArgument, "is not one of the table's");
    d.refused(Insert, with(&d, d.call("NoAction", &[])), Code::PermissionDenied, "DEFAULT_ONLY");
    d.refused(Insert, with(&d, d.call("send", &[])), Code::InvalidArgument, "parameter port: is missing");
    d.refused(Insert, with(&d, d.call("send", &[512])), Code::InvalidArgument, "does not fit 9 bits");
    d.refused(Insert, with(&d, Some(TableAction { r#type: None })), Code::InvalidArgument, "not set");
    let member = TableAction { r#type: Some(ActionType::ActionProfileMemberId(1)) };
    d.refused(Insert, with(&d, Some(member)), Code::InvalidArgument, "has no action profile");
    let mut extra = d.action("send", &[1]);
    extra.params.push(Param { param_id: 9, value: vec![1] });
    let extra = TableAction { r#type: Some(ActionType::Action(extra)) };
    d.refused(Insert, with(&d, Some(extra)), Code::InvalidArgument, "has no parameter 9");
    let mut twice = d.action("send", &[1]);
    twice.params.push(twice.params[0].clone());
    let twice = TableAction { r#type: Some(ActionType::Action(twice)) };
    d.refused(Insert, with(&d, Some(twice)), Code::InvalidArgument, "is given twice");
    let unknown = v1::Action { action_id: 99, params: Vec::new() };
    let unknown = TableAction { r#type: Some(ActionType::Action(unknown)) };
    d.refused(Insert, with(&d, Some(unknown)), Code::InvalidArgument, "there is no action 0x00000063");
}

#[test]
fn const_entries_stay() {
    let mut d = Device::new();
    let entries = d.table("const_one");
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().all(|entry| entry.is_const));
    let one = d.entry("const_one", &[exact(1)], 0, d.call("send", &[3]));
    let new = d.entry("const_one", &[exact(9)], 0, d.call("send", &[3]));
    for (kind, entry) in [(Insert, &new), (Modify, &one), (Delete, &one)] {
        d.refused(kind, Kind::TableEntry(entry.clone()), Code::PermissionDenied, "const");
    }
    let marked = TableEntry { is_const: true, ..d.exact_one(1, 2) };
    d.refused(Insert, Kind::TableEntry(marked), Code::InvalidArgument, "is_const");
}

#[test]
fn default_actions_are_modified_and_reset() {
    let mut d = Device::new();
    let default = |d: &Device, table: &str, action| {
        Kind::TableEntry(TableEntry { is_default_action: true, ..d.entry(table, &[], 0, action) })
    };
    let now = |d: &Device, table: &str| d.read(default(d, table, None)).unwrap();
    let original = now(&d, "keyless");
    let send = default(&d, "keyless", d.call("send", &[4]));
    d.ok(Modify, send.clone());
    assert_eq!(now(&d, "keyless"), std::slice::from_ref(&send));
    d.ok(Modify, default(&d, "keyless", None));
    assert_eq!(now(&d, "keyless"), original);
    d.refused(Insert, send.clone(), Code::InvalidArgument, "can only be modified");
    d.refused(Delete, send, Code::InvalidArgument, "can only be modified");
    d.refused(Modify, default(&d, "lpm_one", d.call("drop", &[])), Code::PermissionDenied, "is const");
    d.refused(Modify, default(&d, "exact_one", d.call("drop", &[])), Code::PermissionDenied, "TABLE_ONLY");
    d.refused(Modify, default(&d, "by_profile", d.call("NoAction", &[])), Code::PermissionDenied, "is const");
    let matched = TableEntry { is_default_action: true, ..d.exact_one(1, 2) };
    d.refused(Modify, Kind::TableEntry(matched), Code::InvalidArgument, "neither match nor priority");
    let keyed = d.entry("keyless", &[], 0, d.call("send", &[1]));
    d.refused(Insert, Kind::TableEntry(keyed), Code::InvalidArgument, "has no key");
}

#[test]
fn idle_timeouts_need_a_table_that_has_them() {
    let mut d = Device::new();
    let timed = |entry: TableEntry, ns| Kind::TableEntry(TableEntry { idle_timeout_ns: ns, ..entry });
    d.ok(Insert, timed(d.exact_one(1, 2), 1_000_000));
    d.refused(Insert, timed(d.exact_one(2, 2), -1), Code::InvalidArgument, "negative");
    let lpm = d.entry("lpm_one", &[lpm(0, 1)], 0, d.call("drop", &[]));
    d.refused(Insert, timed(lpm, 5), Code::InvalidArgument, "has no idle timeout");
}

#[test]
fn reads_filter_by_the_fields_that_are_set() {
    let mut d = Device::new();
    for priority in 1..=3 {
        let entry = d.entry("ternary_one", &[ternary(priority, 0xff)], priority as i32, d.call("drop", &[]));
        d.ok(Insert, Kind::TableEntry(TableEntry { metadata: vec![priority as u8], ..entry }));
    }
    let base = d.entry("ternary_one", &[], 0, None);
    let count = |request: TableEntry| d.read(Kind::TableEntry(request)).unwrap().len();
    assert_eq!(count(base.clone()), 3);
    assert_eq!(count(TableEntry { priority: 2, ..base.clone() }), 1);
    assert_eq!(count(TableEntry { metadata: vec![3], ..base.clone() }), 1);
    assert_eq!(count(TableEntry { action: d.call("drop", &[]), ..base.clone() }), 3);
    assert_eq!(count(TableEntry { action: d.call("paced", &[]), ..base.clone() }), 0);
    assert_eq!(count(d.entry("ternary_one", &[ternary(2, 0xff)], 2, None)), 1);
    assert_eq!(count(d.entry("ternary_one", &[ternary(2, 0xff)], 3, None)), 0);
    // all tables: these three and the two const entries
    assert_eq!(count(TableEntry::default()), 5);
    let mixed = d.read(Kind::TableEntry(TableEntry { priority: 1, ..TableEntry::default() })).unwrap_err();
    assert_eq!(mixed.code, Code::InvalidArgument);
    let unknown = d.read(Kind::TableEntry(TableEntry { table_id: 5, ..TableEntry::default() })).unwrap_err();
    assert_eq!(unknown.code, Code::InvalidArgument);
}
