//! All entities over gRPC. `tests/it/control` tests in process what each entity accepts.

use super::bed::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::update::Type::{Insert, Modify};
use p4runtime::p4::v1::write_request::Atomicity::ContinueOnError;
use p4runtime::p4::v1::*;
use p4runtime::p4info::Object;

/// gRPC's default limit for a message.
const MAX_MESSAGE_LEN: usize = 4 << 20;

#[tokio::test]
async fn a_large_read_comes_in_messages_below_the_limit() {
    let (_bed, mut client) = TestBed::ready().await;
    let many = |range: std::ops::Range<u64>| range.map(|n| update(Insert, l2(n, 1))).collect();
    client.write_all(many(1..30_001), ContinueOnError).await.unwrap();
    client.write_all(many(30_001..60_001), ContinueOnError).await.unwrap();
    let all =
        Kind::TableEntry(TableEntry { counter_data: Some(CounterData::default()), ..TableEntry::default() });
    let (found, messages) = client.read_messages(vec![all]).await.unwrap();
    assert_eq!(found.len(), 60_000);
    assert!(
        messages > 2,
        "{messages} messages, each below {MAX_MESSAGE_LEN} bytes, or the client would have refused it"
    );
    // One of them, by its key.
    let one = Kind::TableEntry(entry("l2", 777, None));
    assert_eq!(client.read(one).await.unwrap(), [l2(777, 1)]);
    // Without a result there is one empty message.
    let none = Kind::TableEntry(entry("l2", 99_999, None));
    assert_eq!(client.read_messages(vec![none]).await.unwrap(), (vec![], 1));
}

#[tokio::test]
async fn a_read_of_several_entities_returns_the_readable_ones_and_reports_the_others() {
    let (_bed, mut client) = TestBed::ready().await;
    client.write(Insert, l2(1, 1)).await.unwrap();
    let entity = |entity| Entity { entity };
    let entities = vec![
        entity(Some(Kind::TableEntry(TableEntry {
            table_id: table("l2").preamble().id,
            ..Default::default()
        }))),
        entity(None),
        entity(Some(Kind::CounterEntry(CounterEntry { counter_id: 5, ..Default::default() }))),
        entity(Some(Kind::DigestEntry(DigestEntry::default()))),
    ];
    let request = ReadRequest { device_id: DEVICE, entities, ..Default::default() };
    let mut stream = client.stub.read(request).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert_eq!(first.entities, [entity(Some(l2(1, 1)))]);
    let end = stream.message().await.unwrap_err();
    assert_eq!(codes(&end), [Code::Ok, Code::InvalidArgument, Code::InvalidArgument, Code::Ok]);
    assert!(end.message().starts_with("request 2 of 4: "), "{end:?}");
}

#[tokio::test]
async fn values_read_back_are_canonical() {
    let (_bed, mut client) = TestBed::ready().await;
    let mut padded = entry("l2", 1, call("forward", &[2]));
    padded.r#match[0].field_match_type =
        Some(field_match::FieldMatchType::Exact(field_match::Exact { value: vec![0, 0, 0, 0, 0, 0, 0, 1] }));
    client.write(Insert, Kind::TableEntry(padded)).await.unwrap();
    assert_eq!(client.read(Kind::TableEntry(entry("l2", 1, None))).await.unwrap(), [l2(1, 2)]);
}

#[tokio::test]
async fn cells_are_read_one_by_one_or_all() {
    let (_bed, mut client) = TestBed::ready().await;
    let register_id = INFO.registers.named("last_source").unwrap().preamble().id;
    let cell = |index: Option<i64>, value: Option<u8>| {
        let data = value.map(|value| P4Data { data: Some(p4_data::Data::Bitstring(vec![value])) });
        let index = index.map(|index| Index { index });
        Kind::RegisterEntry(RegisterEntry { register_id, index, data })
    };
    client.write(Modify, cell(Some(3), Some(7))).await.unwrap();
    assert_eq!(client.read(cell(Some(3), None)).await.unwrap(), [cell(Some(3), Some(7))]);
    let all = client.read(cell(None, None)).await.unwrap();
    assert_eq!(all.len(), 16);
    let outside = client.write(Modify, cell(Some(16), Some(7))).await.unwrap_err();
    assert_eq!(codes(&outside), [Code::OutOfRange]);
    let outside = client.read(cell(Some(16), None)).await.unwrap_err();
    assert_eq!(codes(&outside), [Code::OutOfRange]);
    let meter_id = INFO.meters.named("limits").unwrap().preamble().id;
    let meters = client.read(Kind::MeterEntry(MeterEntry { meter_id, ..Default::default() })).await.unwrap();
    assert_eq!(meters.len(), 16);
    let counters = client.read(Kind::CounterEntry(CounterEntry::default())).await.unwrap();
    assert_eq!(counters.len(), 16);
}

#[tokio::test]
async fn value_sets_are_written_whole() {
    let (_bed, mut client) = TestBed::ready().await;
    let info = INFO.value_sets.named("control_types").unwrap();
    let set = |fields: &[&[u8]]| {
        let member = |value: &&[u8]| {
            let exact = field_match::FieldMatchType::Exact(field_match::Exact { value: value.to_vec() });
            ValueSetMember { r#match: vec![FieldMatch { field_id: 1, field_match_type: Some(exact) }] }
        };
        let members = fields.iter().map(member).collect();
        Kind::ValueSetEntry(ValueSetEntry { value_set_id: info.preamble().id, members })
    };
    let all = Kind::ValueSetEntry(ValueSetEntry::default());
    assert_eq!(client.read(all.clone()).await.unwrap(), [set(&[])]);
    client.write(Modify, set(&[&[0, 0x88, 0xb5], &[8, 0]])).await.unwrap();
    assert_eq!(client.read(all.clone()).await.unwrap(), [set(&[&[0x88, 0xb5], &[8, 0]])]);
    // Packets of such a type go to the controller, whatever the tables say.
    client.send(stream_message_request::Update::Packet(through_tables(1, 2))).await;
    match client.next().await.unwrap() {
        Some(stream_message_response::Update::Packet(packet)) => assert_eq!(packet.payload, frame(1, 2)),
        other => panic!("{other:?}"),
    }
    for (kind, entity, code) in [
        (Insert, set(&[]), Code::InvalidArgument),
        (Modify, set(&[&[1], &[2], &[3], &[4], &[5]]), Code::ResourceExhausted),
        (Modify, set(&[&[1], &[0, 1]]), Code::AlreadyExists),
        (Modify, set(&[&[1, 0, 0]]), Code::InvalidArgument),
        (Modify, set(&[&[]]), Code::InvalidArgument),
    ] {
        assert_eq!(codes(&client.write(kind, entity).await.unwrap_err()), [code]);
    }
    assert_eq!(client.read(all.clone()).await.unwrap(), [set(&[&[0x88, 0xb5], &[8, 0]])]);
    client.write(Modify, set(&[])).await.unwrap();
    assert_eq!(client.read(all).await.unwrap(), [set(&[])]);
}
