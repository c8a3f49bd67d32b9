//! Translation of P4Runtime entities to entries of BF Runtime tables, and back.

use crate::info::WEIR;
use bfruntime::bfrt_proto::data_field::Value;
use bfruntime::bfrt_proto::key_field::{Exact, Lpm, MatchType, Range};
use bfruntime::bfrt_proto::{Entity, TableEntry, Update, entity, table_entry, update};
use bfruntime::translate::TranslateError;
use bfruntime::{BfrtInfo, Translator};
use p4runtime::p4::v1 as p4;
use p4runtime::p4::v1::action::Param;
use p4runtime::p4::v1::entity::Entity as P4Kind;
use p4runtime::p4::v1::field_match::{self, FieldMatchType};
use p4runtime::p4::v1::update::Type;

/// The driver's fixed tables as the server of this crate describes them.
const FIXED: &[u8] = include_bytes!("../../src/server/fixed_tables.json");

pub(crate) fn tables() -> BfrtInfo {
    BfrtInfo::parse(WEIR).unwrap().merged(&BfrtInfo::parse(FIXED).unwrap()).unwrap()
}

fn exact(field_id: u32, value: &[u8]) -> p4::FieldMatch {
    let kind = FieldMatchType::Exact(field_match::Exact { value: value.to_vec() });
    p4::FieldMatch { field_id, field_match_type: Some(kind) }
}

fn action(info: &BfrtInfo, table: &str, action: &str, params: &[(u32, &[u8])]) -> Option<p4::TableAction> {
    let table = info.named(table).unwrap();
    let action_id = match table.actions.iter().find(|it| it.name.ends_with(&format!(".{action}"))) {
        Some(action) => action.id,
        None => table.id,
    };
    let params = params.iter().map(|&(param_id, value)| Param { param_id, value: value.to_vec() });
    let action = p4::Action { action_id, params: params.collect() };
    Some(p4::TableAction { r#type: Some(p4::table_action::Type::Action(action)) })
}

fn insert(entry: p4::TableEntry) -> p4::Update {
    let entity = Some(p4::Entity { entity: Some(P4Kind::TableEntry(entry)) });
    p4::Update { r#type: Type::Insert.into(), entity }
}

pub(crate) fn entry_of(update: &Update) -> TableEntry {
    match update.entity.clone().unwrap().entity.unwrap() {
        entity::Entity::TableEntry(entry) => entry,
        other => panic!("{other:?}"),
    }
}

fn key_of(entry: &TableEntry) -> Vec<MatchType> {
    let Some(table_entry::Value::Key(key)) = &entry.value else { panic!("no key: {entry:?}") };
    key.fields.iter().map(|field| field.match_type.clone().unwrap()).collect()
}

/// Translates an update to BF Runtime and back. Returns the BF Runtime entries.
fn round_trip(info: &BfrtInfo, update: &p4::Update) -> Vec<TableEntry> {
    let updates = Translator::new(info).update(update).unwrap();
    let entries: Vec<TableEntry> = updates.iter().map(entry_of).collect();
    assert_eq!(Translator::new(info).entities(&entries), [update.entity.clone().unwrap()]);
    entries
}

#[test]
fn values_have_the_width_of_the_field_and_empty_prefixes_are_written() {
    let info = tables();
    let forward = info.named("forward").unwrap();
    let via = action(&info, "forward", "via", &[(1, &[5])]);
    let lpm = FieldMatchType::Lpm(field_match::Lpm { value: vec![10, 0, 1, 0], prefix_len: 24 });
    let mut entry = p4::TableEntry {
        table_id: forward.id,
        r#match: vec![p4::FieldMatch { field_id: 1, field_match_type: Some(lpm) }],
        action: via,
        ..Default::default()
    };
    let entries = round_trip(&info, &insert(entry.clone()));
    assert_eq!(key_of(&entries[0]), [MatchType::Lpm(Lpm { value: vec![10, 0, 1, 0], prefix_len: 24 })]);
    // 9 bits are two bytes.
    assert_eq!(entries[0].data.as_ref().unwrap().fields[0].value, Some(Value::Stream(vec![0, 5])));
    entry.r#match.clear();
    let entries = round_trip(&info, &insert(entry));
    assert_eq!(key_of(&entries[0]), [MatchType::Lpm(Lpm { value: vec![0; 4], prefix_len: 0 })]);
}

#[test]
fn the_highest_priority_becomes_the_lowest_number() {
    let info = tables();
    let range = |low: &[u8], high: &[u8]| {
        FieldMatchType::Range(field_match::Range { low: low.to_vec(), high: high.to_vec() })
    };
    let mut entry = p4::TableEntry {
        table_id: info.named("ecn_ramp").unwrap().id,
        r#match: vec![
            exact(1, &[3]),
            p4::FieldMatch { field_id: 2, field_match_type: Some(range(&[16], &[1, 0])) },
        ],
        action: action(&info, "ecn_ramp", "mark_with", &[(1, &[1, 2])]),
        priority: 7,
        ..Default::default()
    };
    let entries = round_trip(&info, &insert(entry.clone()));
    assert_eq!(
        key_of(&entries[0]),
        [
            MatchType::Exact(Exact { value: vec![3] }),
            MatchType::Range(Range { low: vec![0, 16], high: vec![1, 0] }),
            MatchType::Exact(Exact { value: vec![0, 0xff, 0xff, 0xf8] }),
        ]
    );
    entry.r#match.pop();
    let entries = round_trip(&info, &insert(entry));
    assert_eq!(key_of(&entries[0])[1], MatchType::Range(Range { low: vec![0, 0], high: vec![0xff, 0xff] }));
}

#[test]
fn meters_count_kilobits_and_register_parameters_are_default_entries() {
    let info = tables();
    let meter = |bytes| p4::MeterConfig {
        cir: bytes,
        cburst: 2_500,
        pir: bytes,
        pburst: 2_500,
        ..Default::default()
    };
    let mut flood = p4::TableEntry {
        table_id: info.named("policy_flood").unwrap().id,
        r#match: vec![exact(1, &[1, 0x2c])],
        action: action(&info, "policy_flood", "flood", &[(1, &[9])]),
        meter_config: Some(meter(125_000)),
        ..Default::default()
    };
    let entries = round_trip(&info, &insert(flood.clone()));
    let values: Vec<_> = entries[0].data.as_ref().unwrap().fields.iter().map(|it| it.value.clone()).collect();
    assert_eq!(values[1], Some(Value::Stream(1_000u64.to_be_bytes().to_vec())));
    assert_eq!(values[3], Some(Value::Stream(20u64.to_be_bytes().to_vec())));
    flood.meter_config = Some(meter(126));
    let error = Translator::new(&info).update(&insert(flood)).unwrap_err().to_string();
    assert!(error.contains("$METER_SPEC_CIR_KBPS: not a multiple of 1 kbit"), "{error}");

    let lifetime = p4::TableEntry {
        table_id: info.named("lifetime").unwrap().id,
        action: action(&info, "lifetime", "set", &[(1, &[0x98, 0x96, 0x80])]),
        is_default_action: true,
        ..Default::default()
    };
    let entries = round_trip(&info, &insert(lifetime));
    assert_eq!((entries[0].is_default_entry, entries[0].data.as_ref().unwrap().action_id), (true, 0));
}

#[expect(deprecated)]
fn replicas(ports: &[u32]) -> Vec<p4::Replica> {
    use p4::replica::PortKind;
    let replica = |&port| p4::Replica { port_kind: Some(PortKind::EgressPort(port)), ..Default::default() };
    ports.iter().map(replica).collect()
}

fn replication(kind: Type, entity: p4::packet_replication_engine_entry::Type) -> p4::Update {
    let entry = p4::PacketReplicationEngineEntry { r#type: Some(entity) };
    let entity = Some(p4::Entity { entity: Some(P4Kind::PacketReplicationEngineEntry(entry)) });
    p4::Update { r#type: kind.into(), entity }
}

#[test]
fn a_multicast_group_becomes_a_node_and_a_group() {
    use p4::packet_replication_engine_entry::Type as Pre;
    let info = tables();
    let group = p4::MulticastGroupEntry {
        multicast_group_id: 300,
        replicas: replicas(&[4, 135]),
        ..Default::default()
    };
    let names = |updates: &[Update]| -> Vec<_> {
        let name = |it: &Update| (it.r#type(), info.id(entry_of(it).table_id).unwrap().name.clone());
        updates.iter().map(name).collect()
    };
    let translated = |kind| {
        let update = replication(kind, Pre::MulticastGroupEntry(group.clone()));
        names(&Translator::new(&info).update(&update).unwrap())
    };
    let (node, mgid) = ("$pre.node".to_owned(), "$pre.mgid".to_owned());
    use update::Type as To;
    assert_eq!(translated(Type::Insert), [(To::Insert, node.clone()), (To::Insert, mgid.clone())]);
    assert_eq!(translated(Type::Modify), [(To::Modify, node.clone())]);
    assert_eq!(translated(Type::Delete), [(To::Delete, mgid), (To::Delete, node)]);
    round_trip(&info, &replication(Type::Insert, Pre::MulticastGroupEntry(group)));

    let session = p4::CloneSessionEntry {
        session_id: 1,
        replicas: replicas(&[6]),
        packet_length_bytes: 64,
        class_of_service: 0,
    };
    round_trip(&info, &replication(Type::Insert, Pre::CloneSessionEntry(session.clone())));
    let two = p4::CloneSessionEntry { replicas: replicas(&[6, 7]), ..session };
    let two = replication(Type::Insert, Pre::CloneSessionEntry(two));
    assert!(matches!(Translator::new(&info).update(&two), Err(TranslateError::Unsupported(_))));
}

#[test]
fn entities_that_do_not_match_the_tables_are_rejected() {
    let info = tables();
    let error =
        |entry: p4::TableEntry| Translator::new(&info).update(&insert(entry)).unwrap_err().to_string();
    assert!(error(p4::TableEntry { table_id: 5, ..Default::default() }).contains("no table 0x00000005"));
    let table_id = info.named("member").unwrap().id;
    let member = |fields: Vec<p4::FieldMatch>, params: &[(u32, &[u8])]| p4::TableEntry {
        table_id,
        r#match: fields,
        action: action(&info, "member", "member_port", params),
        ..Default::default()
    };
    assert!(error(member(vec![exact(1, &[1])], &[(1, &[1])])).contains("index: no value"));
    assert!(error(member(vec![exact(1, &[1, 0, 0]), exact(2, &[1])], &[])).contains("group: too wide"));
    let key = || vec![exact(1, &[1]), exact(2, &[1])];
    assert!(error(member(key(), &[(1, &[2, 0])])).contains("port: too wide"));
    assert!(error(member(key(), &[(9, &[2])])).contains("no field 9"));
    assert!(error(member(vec![exact(1, &[1]), exact(2, &[1]), exact(3, &[1])], &[])).contains("no field 3"));
}

/// The read requests cover all tables with entries, the default entries that may be written, and the fixed tables.
#[test]
fn everything_that_can_be_written_is_read() {
    let info = tables();
    let requests = Translator::new(&info).read_all_entities();
    let names: Vec<String> = requests
        .iter()
        .map(|Entity { entity }| match entity {
            Some(entity::Entity::TableEntry(it)) => {
                let name = &info.id(it.table_id).unwrap().name;
                format!("{}{}", name.rsplit('.').next().unwrap(), if it.is_default_entry { "=" } else { "" })
            }
            other => panic!("{other:?}"),
        })
        .collect();
    for name in ["forward", "ecn_ramp", "switch_identity=", "report=", "lifetime=", "node", "mgid", "cfg"] {
        assert!(names.iter().any(|it| it == name), "{name} is not among {names:?}");
    }
    for name in ["next_hops", "forward=", "switch_identity", "lifetime", "events"] {
        assert!(names.iter().all(|it| it != name), "{name} is among {names:?}");
    }
}
