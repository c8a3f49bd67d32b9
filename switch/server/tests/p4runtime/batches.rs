//! Writes of many updates: an error for each, and the three atomicities.

use super::bed::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime::p4::v1::write_request::Atomicity::{self, ContinueOnError, DataplaneAtomic, RollbackOnError};
use p4runtime::p4::v1::*;
use p4runtime::p4info::Object;
use std::collections::BTreeMap;

fn ports(entries: impl IntoIterator<Item = (u64, u64)>) -> BTreeMap<u64, u64> {
    entries.into_iter().collect()
}

#[tokio::test]
async fn each_update_of_a_batch_has_its_error() {
    let (_bed, mut client) = TestBed::ready().await;
    let nowhere = Kind::TableEntry(TableEntry { table_id: 7, ..TableEntry::default() });
    let batch = vec![
        update(Insert, l2(1, 1)),
        update(Insert, l2(1, 2)),
        update(Modify, l2(9, 2)),
        update(Insert, l2(2, 512)),
        update(Insert, nowhere),
        update(Insert, l2(3, 3)),
    ];
    let status = client.write_all(batch, ContinueOnError).await.unwrap_err();
    let expected = [
        Code::Ok,
        Code::AlreadyExists,
        Code::NotFound,
        Code::InvalidArgument,
        Code::InvalidArgument,
        Code::Ok,
    ];
    assert_eq!(codes(&status), expected);
    assert_eq!(
        status.message(),
        "update 2 of 6: ALREADY_EXISTS: table TheIngress.l2 has this entry; MODIFY changes its action (4 failed)"
    );
    assert!(errors(&status)[3].1.contains("0x0200 does not fit 9 bits"));
    assert_eq!(client.l2().await, ports([(1, 1), (3, 3)]));
}

/// Reads all entities.
async fn read_all(client: &mut Client) -> Vec<Kind> {
    let pre = |kind| Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(kind) });
    use packet_replication_engine_entry::Type as Pre;
    let requests = vec![
        Kind::TableEntry(TableEntry {
            counter_data: Some(CounterData::default()),
            meter_config: Some(MeterConfig::default()),
            ..TableEntry::default()
        }),
        Kind::TableEntry(TableEntry { is_default_action: true, ..TableEntry::default() }),
        Kind::ActionProfileMember(ActionProfileMember::default()),
        Kind::ActionProfileGroup(ActionProfileGroup::default()),
        Kind::CounterEntry(CounterEntry::default()),
        Kind::MeterEntry(MeterEntry::default()),
        Kind::RegisterEntry(RegisterEntry::default()),
        pre(Pre::MulticastGroupEntry(MulticastGroupEntry::default())),
        pre(Pre::CloneSessionEntry(CloneSessionEntry::default())),
        Kind::DigestEntry(DigestEntry::default()),
        Kind::ValueSetEntry(ValueSetEntry::default()),
    ];
    let mut found = client.read_messages(requests).await.unwrap().0;
    // An entry that was deleted and inserted again may have another position.
    found.sort_by_key(|entity| format!("{entity:?}"));
    found
}

fn replication(kind: packet_replication_engine_entry::Type) -> Kind {
    Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(kind) })
}

fn next_hops() -> u32 {
    INFO.action_profiles.named("next_hops").unwrap().preamble().id
}

fn member(member_id: u32, port: u64) -> Kind {
    let action = Some(action("via", &[port, 0xaa]));
    Kind::ActionProfileMember(ActionProfileMember { action_profile_id: next_hops(), member_id, action })
}

fn group(members: &[u32]) -> Kind {
    let one = |&member_id: &u32| action_profile_group::Member { member_id, weight: 1, ..Default::default() };
    let members = members.iter().map(one).collect();
    Kind::ActionProfileGroup(ActionProfileGroup {
        action_profile_id: next_hops(),
        group_id: 1,
        members,
        max_size: 8,
    })
}

fn to_group(id: u32) -> Kind {
    let action = TableAction { r#type: Some(table_action::Type::ActionProfileGroupId(id)) };
    Kind::TableEntry(entry("groups", 0x800, Some(action)))
}

fn counter(packet_count: i64) -> Kind {
    let counter_id = INFO.counters.named("types").unwrap().preamble().id;
    let data = Some(CounterData { packet_count, byte_count: 10 });
    Kind::CounterEntry(CounterEntry { counter_id, index: Some(Index { index: 2 }), data })
}

fn all_meters(config: MeterConfig) -> Kind {
    let meter_id = INFO.meters.named("limits").unwrap().preamble().id;
    Kind::MeterEntry(MeterEntry { meter_id, config: Some(config), ..Default::default() })
}

fn register(value: u8) -> Kind {
    let register_id = INFO.registers.named("last_source").unwrap().preamble().id;
    let data = Some(P4Data { data: Some(p4_data::Data::Bitstring(vec![value])) });
    Kind::RegisterEntry(RegisterEntry { register_id, index: None, data })
}

fn replicas(ports: &[u8]) -> Vec<Replica> {
    let one =
        |&port: &u8| Replica { port_kind: Some(replica::PortKind::Port(vec![port])), ..Default::default() };
    ports.iter().map(one).collect()
}

fn multicast(ports: &[u8]) -> Kind {
    replication(packet_replication_engine_entry::Type::MulticastGroupEntry(MulticastGroupEntry {
        multicast_group_id: 9,
        replicas: replicas(ports),
        metadata: vec![1],
    }))
}

fn session(ports: &[u8]) -> Kind {
    let replicas = replicas(ports);
    let session = CloneSessionEntry { session_id: 5, replicas, ..Default::default() };
    replication(packet_replication_engine_entry::Type::CloneSessionEntry(session))
}

fn digest(max_list_size: i32) -> Kind {
    let config = Some(digest_entry::Config { max_list_size, ..Default::default() });
    Kind::DigestEntry(DigestEntry { digest_id: INFO.digests.named("learn_t").unwrap().preamble().id, config })
}

fn value_set(types: &[u16]) -> Kind {
    let member = |&kind: &u16| {
        let exact = field_match::Exact { value: p4runtime::value::from_uint(kind.into()) };
        let exact = Some(field_match::FieldMatchType::Exact(exact));
        ValueSetMember { r#match: vec![FieldMatch { field_id: 1, field_match_type: exact }] }
    };
    let value_set_id = INFO.value_sets.named("control_types").unwrap().preamble().id;
    Kind::ValueSetEntry(ValueSetEntry { value_set_id, members: types.iter().map(member).collect() })
}

fn route(destination: u64, prefix_len: i32, port: u64) -> Kind {
    let value = p4runtime::value::from_uint(destination.into());
    let lpm = field_match::FieldMatchType::Lpm(field_match::Lpm { value, prefix_len });
    let match_all = FieldMatch { field_id: 1, field_match_type: Some(lpm) };
    let mut entry = entry("routes", 0, call("via", &[port, 7]));
    entry.r#match = if prefix_len == 0 { Vec::new() } else { vec![match_all] };
    Kind::TableEntry(entry)
}

fn default_action(action: Option<TableAction>) -> Kind {
    let table_id = table("l2").preamble().id;
    Kind::TableEntry(TableEntry { table_id, is_default_action: true, action, ..Default::default() })
}

fn counted(destination: u64, packet_count: i64) -> Kind {
    let counter_data = Some(CounterData { packet_count, byte_count: 1 });
    Kind::TableEntry(TableEntry { counter_data, ..entry("l2", destination, call("forward", &[1])) })
}

fn direct(destination: u64, packet_count: i64) -> Kind {
    let table_entry = Some(TableEntry { action: None, ..entry("l2", destination, None) });
    let data = Some(CounterData { packet_count, byte_count: 2 });
    Kind::DirectCounterEntry(DirectCounterEntry { table_entry, data })
}

fn timed(idle_timeout_ns: i64) -> Kind {
    let entry = entry("sources", 5, call("known", &[]));
    Kind::TableEntry(TableEntry { idle_timeout_ns, metadata: vec![7; 3], ..entry })
}

/// Returns updates that set up one entity of every kind, and updates of every type that change them.
fn changes() -> (Vec<Update>, Vec<Update>) {
    let before = vec![
        update(Insert, l2(1, 1)),
        update(Insert, counted(2, 50)),
        update(Insert, counted(3, 60)),
        update(Insert, route(0, 0, 1)),
        update(Insert, route(0x1000_0000_0000, 8, 2)),
        update(Insert, timed(1 << 40)),
        update(Insert, member(1, 1)),
        update(Insert, member(2, 2)),
        update(Insert, group(&[1, 2])),
        update(Insert, to_group(1)),
        update(Modify, counter(3)),
        update(Modify, register(4)),
        update(Insert, multicast(&[1, 2])),
        update(Insert, session(&[1])),
        update(Insert, digest(3)),
        update(Modify, value_set(&[0x800, 0x806])),
    ];
    let changes = vec![
        update(Modify, l2(1, 4)),
        update(Delete, counted(2, 0)),
        update(Modify, counted(3, 61)),
        update(Modify, direct(3, 99)),
        update(Insert, l2(10, 1)),
        update(Modify, route(0, 0, 5)),
        update(Delete, route(0, 0, 5)),
        update(Delete, route(0x1000_0000_0000, 8, 2)),
        update(Modify, timed(5)),
        update(Delete, timed(0)),
        update(Modify, default_action(call("punt", &[]))),
        update(Delete, to_group(1)),
        update(Modify, group(&[2])),
        update(Delete, group(&[])),
        update(Modify, member(1, 9)),
        update(Delete, member(1, 9)),
        update(Insert, member(3, 3)),
        update(Modify, counter(7)),
        update(Modify, all_meters(MeterConfig { cir: 1, cburst: 2, pir: 3, pburst: 4, eburst: 0 })),
        update(Modify, register(9)),
        update(Modify, multicast(&[3])),
        update(Delete, multicast(&[])),
        update(Modify, session(&[2, 3])),
        update(Delete, session(&[])),
        update(Modify, digest(5)),
        update(Delete, digest(0)),
        update(Modify, value_set(&[0x806])),
    ];
    (before, changes)
}

async fn is_rolled_back(atomicity: Atomicity) {
    let (_bed, mut client) = TestBed::ready().await;
    let (before, changes) = changes();
    client.write_all(before, ContinueOnError).await.unwrap();
    let state = read_all(&mut client).await;
    let mut failing = changes.clone();
    failing.push(update(Insert, l2(1, 1)));
    failing.push(update(Insert, l2(77, 1)));
    let status = client.write_all(failing, atomicity).await.unwrap_err();
    let mut expected = vec![Code::Aborted; changes.len()];
    expected.extend([Code::AlreadyExists, Code::Aborted]);
    assert_eq!(codes(&status), expected, "{status:?}");
    let number = changes.len() + 1;
    assert!(
        status.message().starts_with(&format!("update {number} of {}: ALREADY_EXISTS", number + 1)),
        "{status:?}"
    );
    assert_eq!(read_all(&mut client).await, state);
    client.write_all(changes, atomicity).await.unwrap();
    assert_ne!(read_all(&mut client).await, state);
}

#[tokio::test]
async fn rollback_on_error_restores_the_state() {
    is_rolled_back(RollbackOnError).await;
}

#[tokio::test]
async fn dataplane_atomic_restores_the_state() {
    is_rolled_back(DataplaneAtomic).await;
}

/// While atomic batches change hundreds of entries back and forth, no packet sees a partial change: exactly one of two
/// destinations is punted.
#[tokio::test]
async fn packets_see_all_or_none_of_an_atomic_batch() {
    let (bed, mut client) = TestBed::ready().await;
    let swap = |from: u64, to: u64| {
        let filler = (0..400).map(|n| update(Modify, l2(1000 + n, from)));
        let mut batch = vec![update(Delete, punt(from))];
        batch.extend(filler);
        batch.push(update(Insert, punt(to)));
        batch
    };
    let initial = (0..400).map(|n| update(Insert, l2(1000 + n, 1))).chain([update(Insert, punt(1))]);
    client.write_all(initial.collect(), ContinueOnError).await.unwrap();
    let handle = bed.dataplane.handle();
    let is_running = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let keep_reading = std::sync::Arc::clone(&is_running);
    // Reads what a packet would see, once per command of the data plane.
    let reader = std::thread::spawn(move || {
        let mut seen = [0u32; 3];
        while keep_reading.load(std::sync::atomic::Ordering::Relaxed) {
            let punted = handle.with(|switch, _| {
                let table = switch.pipeline().table_by_name("l2").unwrap();
                let is_punted = |destination: u8| {
                    let key = [weir_switch::pipeline::KeyMatch::Exact(vec![destination])];
                    switch.pipeline().table_find(table, &key, 0).unwrap().is_some()
                };
                usize::from(is_punted(1)) + usize::from(is_punted(2))
            });
            seen[punted.unwrap()] += 1;
        }
        seen
    });
    for _ in 0..20 {
        client.write_all(swap(1, 2), DataplaneAtomic).await.unwrap();
        client.write_all(swap(2, 1), DataplaneAtomic).await.unwrap();
    }
    is_running.store(false, std::sync::atomic::Ordering::Relaxed);
    let seen = reader.join().unwrap();
    assert!(seen[1] > 20, "{seen:?}");
    assert_eq!([seen[0], seen[2]], [0, 0]);
}

#[tokio::test]
async fn an_unknown_atomicity_or_type_is_refused() {
    let (_bed, mut client) = TestBed::ready().await;
    let request =
        WriteRequest { device_id: DEVICE, election_id: client.id, atomicity: 9, ..Default::default() };
    let error = client.stub.write(request).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::InvalidArgument);
    client.write_all(Vec::new(), DataplaneAtomic).await.unwrap();
    let nothing = Update { r#type: 9, entity: None };
    let status = client.write_all(vec![nothing, Update::default()], ContinueOnError).await.unwrap_err();
    assert_eq!(codes(&status), [Code::InvalidArgument, Code::InvalidArgument]);
}
