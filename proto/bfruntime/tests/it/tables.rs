//! The server's tables accept exactly the entries that bfrt.json describes.

use crate::translate::{entry_of, tables};
use bfruntime::bfrt_proto::data_field::{BoolArray, IntArray, Value};
use bfruntime::bfrt_proto::key_field::{Exact, Lpm, MatchType, Range};
use bfruntime::bfrt_proto::update::Type;
use bfruntime::bfrt_proto::{
    DataField, Entity, KeyField, TableData, TableEntry, TableKey, Update, entity, table_entry,
};
use bfruntime::server::Tables;
use p4runtime::google::rpc::Code;

fn stream(field_id: u32, value: &[u8]) -> DataField {
    DataField { field_id, value: Some(Value::Stream(value.to_vec())) }
}

fn exact(field_id: u32, value: &[u8]) -> KeyField {
    KeyField { field_id, match_type: Some(MatchType::Exact(Exact { value: value.to_vec() })) }
}

fn lpm(value: &[u8], prefix_len: i32) -> KeyField {
    KeyField { field_id: 1, match_type: Some(MatchType::Lpm(Lpm { value: value.to_vec(), prefix_len })) }
}

fn update(kind: Type, entry: TableEntry) -> Update {
    Update { r#type: kind.into(), entity: Some(Entity { entity: Some(entity::Entity::TableEntry(entry)) }) }
}

/// Tables whose entries are created by name.
struct TestTables(Tables);

impl TestTables {
    fn new() -> TestTables {
        TestTables(Tables::new(tables()))
    }

    fn entry(&self, table: &str, key: Vec<KeyField>, action: &str, fields: Vec<DataField>) -> TableEntry {
        let table = self.0.info().named(table).unwrap();
        let action_id = match action {
            "" => 0,
            _ => table.actions.iter().find(|it| it.name.ends_with(&format!(".{action}"))).unwrap().id,
        };
        TableEntry {
            table_id: table.id,
            value: (!key.is_empty()).then_some(table_entry::Value::Key(TableKey { fields: key })),
            data: Some(TableData { action_id, fields }),
            ..TableEntry::default()
        }
    }

    fn via(&self, prefix: KeyField, port: &[u8]) -> TableEntry {
        self.entry("forward", vec![prefix], "via", vec![stream(1, port)])
    }

    fn write(&mut self, kind: Type, entry: TableEntry) -> Result<(), (Code, String)> {
        let result = self.0.write(&update(kind, entry));
        result.map_err(|error| (Code::try_from(error.canonical_code).unwrap(), error.message))
    }

    fn assert_rejected(&mut self, entry: TableEntry, message: &str) {
        let (code, reason) = self.write(Type::Insert, entry).unwrap_err();
        assert!(code == Code::InvalidArgument && reason.contains(message), "{message}: {code:?} {reason}");
        assert!(self.0.is_empty());
    }
}

#[test]
fn an_entry_is_inserted_once_modified_and_deleted() {
    let mut it = TestTables::new();
    let entry = it.via(lpm(&[10, 0, 1, 0], 24), &[0, 3]);
    assert_eq!(it.write(Type::Modify, entry.clone()).unwrap_err().0, Code::NotFound);
    it.write(Type::Insert, entry.clone()).unwrap();
    assert_eq!(it.write(Type::Insert, entry.clone()).unwrap_err().0, Code::AlreadyExists);
    let other = it.via(lpm(&[10, 0, 1, 0], 24), &[1, 0xff]);
    it.write(Type::Modify, other.clone()).unwrap();
    let request =
        Entity { entity: Some(entity::Entity::TableEntry(TableEntry { data: None, ..entry.clone() })) };
    assert_eq!(it.0.read(&request).unwrap(), [Entity { entity: Some(entity::Entity::TableEntry(other)) }]);
    it.write(Type::Delete, TableEntry { data: None, ..entry.clone() }).unwrap();
    assert_eq!(it.write(Type::Delete, entry).unwrap_err().0, Code::NotFound);
    assert!(it.0.is_empty());
}

#[test]
fn keys_are_checked() {
    let mut it = TestTables::new();
    it.assert_rejected(
        it.via(lpm(&[10, 0, 1], 24), &[0, 3]),
        "dst_addr: 3 bytes; a field of 32 bits takes 4",
    );
    it.assert_rejected(it.via(lpm(&[10, 0, 1, 0], 33), &[0, 3]), "prefix length 33");
    it.assert_rejected(it.via(lpm(&[10, 0, 1, 1], 24), &[0, 3]), "bits set beyond the prefix length 24");
    it.assert_rejected(it.via(exact(1, &[10, 0, 1, 0]), &[0, 3]), "the match kind is not Lpm");
    it.assert_rejected(it.via(exact(2, &[10, 0, 1, 0]), &[0, 3]), "no field 2");
    let member = |key| it.entry("member", key, "member_port", vec![stream(1, &[0, 3])]);
    let (short, twice) =
        (member(vec![exact(1, &[0, 1])]), member(vec![exact(1, &[0, 1]), exact(1, &[0, 1])]));
    it.assert_rejected(short, "index is missing");
    it.assert_rejected(twice, "group occurs twice");
    let range = MatchType::Range(Range { low: vec![1, 0], high: vec![0, 1] });
    let range = KeyField { field_id: 2, match_type: Some(range) };
    let key = vec![exact(1, &[1]), range, exact(65_537, &[0; 4])];
    it.assert_rejected(it.entry("ecn_ramp", key, "mark_always", Vec::new()), "low is above high");
    it.assert_rejected(TableEntry { table_id: 1, ..TableEntry::default() }, "no table");
    it.assert_rejected(it.entry("forward", Vec::new(), "via", vec![stream(1, &[0, 3])]), "no key");
}

#[test]
fn data_is_checked() {
    let mut it = TestTables::new();
    let key = || vec![lpm(&[10, 0, 1, 0], 24)];
    it.assert_rejected(it.via(lpm(&[10, 0, 1, 0], 24), &[3]), "port: 1 bytes; a field of 9 bits takes 2");
    it.assert_rejected(it.via(lpm(&[10, 0, 1, 0], 24), &[2, 0]), "does not fit in 9 bits");
    it.assert_rejected(it.entry("forward", key(), "deliver", vec![stream(1, &[0, 3])]), "dst_mac is missing");
    it.assert_rejected(
        it.entry("forward", key(), "via", vec![stream(1, &[0, 3]), stream(2, &[0])]),
        "no field 2",
    );
    it.assert_rejected(it.entry("forward", key(), "", vec![]), "the entry has no action");
    it.assert_rejected(it.entry("forward", key(), "drop_no_route", vec![]), "for the default entry only");
    let mut other = it.via(lpm(&[10, 0, 1, 0], 24), &[0, 3]);
    other.data.as_mut().unwrap().action_id = it.0.info().named("member").unwrap().actions[0].id;
    it.assert_rejected(other, "no action");
    let wrong = DataField { field_id: 1, value: Some(Value::BoolVal(true)) };
    it.assert_rejected(it.entry("forward", key(), "via", vec![wrong]), "expected a value of kind Bits(9)");
    it.assert_rejected(TableEntry { data: None, ..it.via(lpm(&[10, 0, 1, 0], 24), &[0, 3]) }, "no data");
    it.assert_rejected(
        it.entry("next_hops", vec![exact(1, &[1])], "set_hops", vec![stream(1, &[1])]),
        "the entries are const",
    );
    let direction = DataField { field_id: 15, value: Some(Value::StrVal("UP".to_owned())) };
    let mut session = it.entry("$mirror.cfg", vec![exact(1, &[0, 1])], "", vec![direction]);
    session.data.as_mut().unwrap().action_id = 2;
    it.assert_rejected(session, "\"UP\" is not one of");
}

#[test]
fn default_entries_are_written_only_if_the_program_permits_it() {
    let mut it = TestTables::new();
    let default = |entry| TableEntry { is_default_entry: true, ..entry };
    let fixed = default(it.entry("forward", Vec::new(), "drop_no_route", Vec::new()));
    assert!(it.write(Type::Modify, fixed).unwrap_err().1.contains("the default action is const"));
    let identity = it.entry("switch_identity", Vec::new(), "identify", vec![stream(1, &[0, 7])]);
    assert_eq!(it.write(Type::Insert, default(identity.clone())).unwrap_err().0, Code::Unimplemented);
    assert!(it.write(Type::Insert, identity.clone()).unwrap_err().1.contains("default entry only"));
    it.write(Type::Modify, default(identity.clone())).unwrap();
    let request = TableEntry { table_id: identity.table_id, is_default_entry: true, ..TableEntry::default() };
    let request = Entity { entity: Some(entity::Entity::TableEntry(request)) };
    let read =
        |it: &TestTables| entry_of(&Update { r#type: 0, entity: it.0.read(&request).unwrap().pop() }).data;
    assert_eq!(read(&it), identity.data);
    it.write(Type::Delete, default(TableEntry { data: None, ..identity.clone() })).unwrap();
    let keep = it.0.info().named("switch_identity").unwrap().actions.last().unwrap().id;
    assert_eq!(read(&it), Some(TableData { action_id: keep, fields: Vec::new() }));
}

#[test]
fn a_full_table_rejects_entries() {
    let mut it = TestTables::new();
    let classes = it.0.info().named("escape_class").unwrap().size as u8;
    let class = |it: &TestTables, tokens| {
        it.entry("escape_class", vec![exact(1, &[tokens])], "wait_in", vec![stream(1, &[0]), stream(2, &[0])])
    };
    for tokens in 0..classes {
        let entry = class(&it, tokens);
        it.write(Type::Insert, entry).unwrap();
    }
    // A key of four bits cannot exceed a table of sixteen entries, so test the limit with a smaller one.
    let mut small = serde_json::from_slice::<serde_json::Value>(crate::info::WEIR).unwrap();
    for table in small["tables"].as_array_mut().unwrap() {
        if table["name"].as_str().unwrap().ends_with(".escape_class") {
            table["size"] = 2.into();
        }
    }
    let mut it = TestTables(Tables::new(bfruntime::BfrtInfo::parse(small.to_string().as_bytes()).unwrap()));
    let (one, two, three) = (class(&it, 1), class(&it, 2), class(&it, 3));
    it.write(Type::Insert, one.clone()).unwrap();
    it.write(Type::Insert, two).unwrap();
    assert_eq!(it.write(Type::Insert, three.clone()).unwrap_err().0, Code::ResourceExhausted);
    it.write(Type::Delete, TableEntry { data: None, ..one }).unwrap();
    it.write(Type::Insert, three).unwrap();
}

#[test]
fn a_multicast_group_needs_its_nodes() {
    let mut it = TestTables::new();
    let ports = IntArray { val: vec![1, 2] };
    let array = |field_id, val| DataField { field_id, value: Some(Value::IntArrVal(val)) };
    let fields = vec![stream(1, &[0, 0]), array(2, IntArray::default()), array(3, ports)];
    let node = it.entry("$pre.node", vec![exact(1, &[0, 0, 0, 5])], "", fields);
    let valid = DataField { field_id: 2, value: Some(Value::BoolArrVal(BoolArray { val: vec![false] })) };
    let fields = vec![array(1, IntArray { val: vec![5] }), valid, array(3, IntArray { val: vec![0] })];
    let group = it.entry("$pre.mgid", vec![exact(1, &[0, 9])], "", fields);
    it.assert_rejected(group.clone(), "no node 5");
    it.write(Type::Insert, node.clone()).unwrap();
    it.write(Type::Insert, group.clone()).unwrap();
    let bare = |entry: &TableEntry| TableEntry { data: None, ..entry.clone() };
    assert_eq!(it.write(Type::Delete, bare(&node)).unwrap_err().0, Code::FailedPrecondition);
    it.write(Type::Delete, bare(&group)).unwrap();
    it.write(Type::Delete, bare(&node)).unwrap();
}
