//! The server's tables take what bfrt.json describes, and nothing else.

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

/// Tables, and entries of them by name.
struct Bench(Tables);

impl Bench {
    fn new() -> Bench {
        Bench(Tables::new(tables()))
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
        let wrote = self.0.write(&update(kind, entry));
        wrote.map_err(|error| (Code::try_from(error.canonical_code).unwrap(), error.message))
    }

    fn refused(&mut self, entry: TableEntry, words: &str) {
        let (code, reason) = self.write(Type::Insert, entry).unwrap_err();
        assert!(code == Code::InvalidArgument && reason.contains(words), "{words}: {code:?} {reason}");
        assert!(self.0.is_empty());
    }
}

#[test]
fn an_entry_is_inserted_once_changed_and_deleted() {
    let mut it = Bench::new();
    let entry = it.via(lpm(&[10, 0, 1, 0], 24), &[0, 3]);
    assert_eq!(it.write(Type::Modify, entry.clone()).unwrap_err().0, Code::NotFound);
    it.write(Type::Insert, entry.clone()).unwrap();
    assert_eq!(it.write(Type::Insert, entry.clone()).unwrap_err().0, Code::AlreadyExists);
    let other = it.via(lpm(&[10, 0, 1, 0], 24), &[1, 0xff]);
    it.write(Type::Modify, other.clone()).unwrap();
    let asked =
        Entity { entity: Some(entity::Entity::TableEntry(TableEntry { data: None, ..entry.clone() })) };
    assert_eq!(it.0.read(&asked).unwrap(), [Entity { entity: Some(entity::Entity::TableEntry(other)) }]);
    it.write(Type::Delete, TableEntry { data: None, ..entry.clone() }).unwrap();
    assert_eq!(it.write(Type::Delete, entry).unwrap_err().0, Code::NotFound);
    assert!(it.0.is_empty());
}

#[test]
fn keys_are_checked() {
    let mut it = Bench::new();
    it.refused(it.via(lpm(&[10, 0, 1], 24), &[0, 3]), "dst_addr: 3 bytes, 32 bits take 4");
    it.refused(it.via(lpm(&[10, 0, 1, 0], 33), &[0, 3]), "prefix length 33");
    it.refused(it.via(lpm(&[10, 0, 1, 1], 24), &[0, 3]), "bits behind the prefix");
    it.refused(it.via(exact(1, &[10, 0, 1, 0]), &[0, 3]), "matched Lpm");
    it.refused(it.via(exact(2, &[10, 0, 1, 0]), &[0, 3]), "no field 2");
    let member = |key| it.entry("member", key, "member_port", vec![stream(1, &[0, 3])]);
    let (short, twice) =
        (member(vec![exact(1, &[0, 1])]), member(vec![exact(1, &[0, 1]), exact(1, &[0, 1])]));
    it.refused(short, "index is missing");
    it.refused(twice, "group comes twice");
    let range = MatchType::Range(Range { low: vec![1, 0], high: vec![0, 1] });
    let range = KeyField { field_id: 2, match_type: Some(range) };
    let key = vec![exact(1, &[1]), range, exact(65_537, &[0; 4])];
    it.refused(it.entry("ecn_ramp", key, "mark_always", Vec::new()), "low is above high");
    it.refused(TableEntry { table_id: 1, ..TableEntry::default() }, "no table");
    it.refused(it.entry("forward", Vec::new(), "via", vec![stream(1, &[0, 3])]), "no key");
}

#[test]
fn data_are_checked() {
    let mut it = Bench::new();
    let key = || vec![lpm(&[10, 0, 1, 0], 24)];
    it.refused(it.via(lpm(&[10, 0, 1, 0], 24), &[3]), "port: 1 bytes, 9 bits take 2");
    it.refused(it.via(lpm(&[10, 0, 1, 0], 24), &[2, 0]), "does not fit 9 bits");
    it.refused(it.entry("forward", key(), "deliver", vec![stream(1, &[0, 3])]), "dst_mac is missing");
    it.refused(it.entry("forward", key(), "via", vec![stream(1, &[0, 3]), stream(2, &[0])]), "no field 2");
    it.refused(it.entry("forward", key(), "", vec![]), "the entry has no action");
    it.refused(it.entry("forward", key(), "drop_no_route", vec![]), "for the default entry only");
    let mut other = it.via(lpm(&[10, 0, 1, 0], 24), &[0, 3]);
    other.data.as_mut().unwrap().action_id = it.0.info().named("member").unwrap().actions[0].id;
    it.refused(other, "no action");
    let wrong = DataField { field_id: 1, value: Some(Value::BoolVal(true)) };
    it.refused(it.entry("forward", key(), "via", vec![wrong]), "another kind");
    it.refused(TableEntry { data: None, ..it.via(lpm(&[10, 0, 1, 0], 24), &[0, 3]) }, "no data");
    it.refused(
        it.entry("next_hops", vec![exact(1, &[1])], "set_hops", vec![stream(1, &[1])]),
        "the program has",
    );
    let direction = DataField { field_id: 15, value: Some(Value::StrVal("UP".to_owned())) };
    let mut session = it.entry("$mirror.cfg", vec![exact(1, &[0, 1])], "", vec![direction]);
    session.data.as_mut().unwrap().action_id = 2;
    it.refused(session, "\"UP\" is none of");
}

#[test]
fn default_entries_are_set_only_where_the_program_lets_them() {
    let mut it = Bench::new();
    let default = |entry| TableEntry { is_default_entry: true, ..entry };
    let fixed = default(it.entry("forward", Vec::new(), "drop_no_route", Vec::new()));
    assert!(it.write(Type::Modify, fixed).unwrap_err().1.contains("fixes its default action"));
    let identity = it.entry("switch_identity", Vec::new(), "identify", vec![stream(1, &[0, 7])]);
    assert_eq!(it.write(Type::Insert, default(identity.clone())).unwrap_err().0, Code::Unimplemented);
    assert!(it.write(Type::Insert, identity.clone()).unwrap_err().1.contains("default entry only"));
    it.write(Type::Modify, default(identity.clone())).unwrap();
    let asked = TableEntry { table_id: identity.table_id, is_default_entry: true, ..TableEntry::default() };
    let asked = Entity { entity: Some(entity::Entity::TableEntry(asked)) };
    let read = |it: &Bench| entry_of(&Update { r#type: 0, entity: it.0.read(&asked).unwrap().pop() }).data;
    assert_eq!(read(&it), identity.data);
    it.write(Type::Delete, default(TableEntry { data: None, ..identity.clone() })).unwrap();
    let keep = it.0.info().named("switch_identity").unwrap().actions.last().unwrap().id;
    assert_eq!(read(&it), Some(TableData { action_id: keep, fields: Vec::new() }));
}

#[test]
fn a_full_table_takes_no_more() {
    let mut it = Bench::new();
    let classes = it.0.info().named("escape_class").unwrap().size as u8;
    let class = |it: &Bench, tokens| {
        it.entry("escape_class", vec![exact(1, &[tokens])], "wait_in", vec![stream(1, &[0]), stream(2, &[0])])
    };
    for tokens in 0..classes {
        let entry = class(&it, tokens);
        it.write(Type::Insert, entry).unwrap();
    }
    // The sixteen values of four bits fill a table of sixteen; a smaller one shows the limit.
    let mut small = serde_json::from_slice::<serde_json::Value>(crate::info::WEIR).unwrap();
    for table in small["tables"].as_array_mut().unwrap() {
        if table["name"].as_str().unwrap().ends_with(".escape_class") {
            table["size"] = 2.into();
        }
    }
    let mut it = Bench(Tables::new(bfruntime::BfrtInfo::parse(small.to_string().as_bytes()).unwrap()));
    let (one, two, three) = (class(&it, 1), class(&it, 2), class(&it, 3));
    it.write(Type::Insert, one.clone()).unwrap();
    it.write(Type::Insert, two).unwrap();
    assert_eq!(it.write(Type::Insert, three.clone()).unwrap_err().0, Code::ResourceExhausted);
    it.write(Type::Delete, TableEntry { data: None, ..one }).unwrap();
    it.write(Type::Insert, three).unwrap();
}

#[test]
fn a_multicast_group_needs_its_nodes() {
    let mut it = Bench::new();
    let ports = IntArray { val: vec![1, 2] };
    let array = |field_id, val| DataField { field_id, value: Some(Value::IntArrVal(val)) };
    let fields = vec![stream(1, &[0, 0]), array(2, IntArray::default()), array(3, ports)];
    let node = it.entry("$pre.node", vec![exact(1, &[0, 0, 0, 5])], "", fields);
    let valid = DataField { field_id: 2, value: Some(Value::BoolArrVal(BoolArray { val: vec![false] })) };
    let fields = vec![array(1, IntArray { val: vec![5] }), valid, array(3, IntArray { val: vec![0] })];
    let group = it.entry("$pre.mgid", vec![exact(1, &[0, 9])], "", fields);
    it.refused(group.clone(), "there is no node 5");
    it.write(Type::Insert, node.clone()).unwrap();
    it.write(Type::Insert, group.clone()).unwrap();
    let bare = |entry: &TableEntry| TableEntry { data: None, ..entry.clone() };
    assert_eq!(it.write(Type::Delete, bare(&node)).unwrap_err().0, Code::FailedPrecondition);
    it.write(Type::Delete, bare(&group)).unwrap();
    it.write(Type::Delete, bare(&node)).unwrap();
}
