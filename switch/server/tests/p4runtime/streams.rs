//! Packets to and from the controller, digests, idle timeouts, and errors of the stream.

use super::bed::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action as Set;
use p4runtime::p4::v1::stream_error::Details;
use p4runtime::p4::v1::stream_message_request::Update as Request;
use p4runtime::p4::v1::stream_message_response::Update as Response;
use p4runtime::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime::p4::v1::*;
use p4runtime::p4info::Object;
use p4runtime::value::to_u64;
use std::time::{Duration, Instant};

async fn packet_in(client: &mut Client) -> (Vec<(u32, u64)>, Vec<u8>) {
    match client.next().await.unwrap() {
        Some(Response::Packet(packet)) => {
            let one = |field: &PacketMetadata| (field.metadata_id, to_u64(&field.value).unwrap());
            (packet.metadata.iter().map(one).collect(), packet.payload)
        }
        other => panic!("{other:?}"),
    }
}

async fn error(client: &mut Client) -> StreamError {
    match client.next().await.unwrap() {
        Some(Response::Error(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn digest_entry(max_timeout: Duration, max_list_size: i32, ack_timeout: Duration) -> Kind {
    let ns = |time: Duration| time.as_nanos() as i64;
    let config = digest_entry::Config {
        max_timeout_ns: ns(max_timeout),
        max_list_size,
        ack_timeout_ns: ns(ack_timeout),
    };
    Kind::DigestEntry(DigestEntry { digest_id: learn_id(), config: Some(config) })
}

fn learn_id() -> u32 {
    INFO.digests.named("learn_t").unwrap().preamble().id
}

/// Returns the sources in the next digest list, and its id.
async fn digest(client: &mut Client) -> (Vec<u64>, u64) {
    match client.next().await.unwrap() {
        Some(Response::Digest(list)) => {
            assert_eq!(list.digest_id, learn_id());
            assert!(list.timestamp > 1_500_000_000_000_000_000, "nanoseconds since the epoch");
            let source = |data: &P4Data| match data.data.as_ref().unwrap() {
                p4_data::Data::Struct(fields) => match (&fields.members[0].data, &fields.members[1].data) {
                    (Some(p4_data::Data::Bitstring(source)), Some(p4_data::Data::Bitstring(port))) => {
                        assert_eq!(to_u64(port), Some(CPU_PORT.into()));
                        to_u64(source).unwrap()
                    }
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            };
            (list.data.iter().map(source).collect(), list.list_id)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn packets_go_out_through_the_tables_and_come_in_again() {
    let (_bed, mut client) = TestBed::ready().await;
    let mut backup = _bed.client().await;
    backup.bid(0).await;
    backup.arbitration().await;
    client.write(Insert, punt(1)).await.unwrap();
    client.send(Request::Packet(through_tables(1, 2))).await;
    assert_eq!(packet_in(&mut client).await, (vec![(1, u64::from(CPU_PORT)), (2, 0)], frame(1, 2)));
    // Directly to the CPU port, without the tables, and with metadata in another order.
    client.send(Request::Packet(packet_out(&[(2, 0), (1, CPU_PORT.into())], frame(9, 9)))).await;
    assert_eq!(packet_in(&mut client).await.1, frame(9, 9));
    // A copy by the clone session.
    let replicas = vec![Replica {
        port_kind: Some(replica::PortKind::Port(vec![CPU_PORT as u8])),
        ..Default::default()
    }];
    let session =
        CloneSessionEntry { session_id: 5, replicas, packet_length_bytes: 20, ..Default::default() };
    let session = PacketReplicationEngineEntry { r#type: Some(Pre::CloneSessionEntry(session)) };
    client.write(Insert, Kind::PacketReplicationEngineEntry(session)).await.unwrap();
    client.write(Insert, Kind::TableEntry(entry("l2", 3, call("mirror", &[1])))).await.unwrap();
    client.send(Request::Packet(through_tables(3, 2))).await;
    let (metadata, payload) = packet_in(&mut client).await;
    assert_eq!((metadata[1], payload.len()), ((2, 1), 18), "20 bytes with the header of 2");
    assert!(backup.receives_nothing().await, "only the primary gets packets");
}

#[tokio::test]
async fn invalid_messages_get_stream_errors() {
    let bed = TestBed::new().await;
    let mut client = bed.client().await;
    client.send(Request::Packet(through_tables(1, 2))).await;
    let error_before_arbitration = error(&mut client).await;
    assert_eq!(
        (error_before_arbitration.canonical_code, error_before_arbitration.message.as_str()),
        (Code::PermissionDenied.into(), "Not primary")
    );
    client.bid(1).await;
    client.arbitration().await;
    client.send(Request::Packet(through_tables(1, 2))).await;
    assert_eq!(error(&mut client).await.canonical_code, i32::from(Code::FailedPrecondition), "no pipeline");
    client.push(Set::VerifyAndCommit, Some(config())).await.unwrap();
    let wrong = [
        (packet_out(&[(7, 1)], vec![1]), "packet_out has no metadata 7"),
        (packet_out(&[(1, 512)], vec![1]), "egress_port: the value does not fit 9 bits"),
        (packet_out(&[(1, 5), (1, 5)], vec![1]), "given twice"),
        (packet_out(&[(1, 5)], vec![0; 1 << 17]), "longer than 65536"),
    ];
    for (packet, expected) in wrong {
        client.send(Request::Packet(packet.clone())).await;
        let error = error(&mut client).await;
        assert_eq!(error.canonical_code, i32::from(Code::InvalidArgument));
        assert!(error.message.contains(expected), "{error:?}");
        let packet_out = Some(packet).filter(|packet| packet.payload.len() < 9000);
        assert_eq!(
            error.details,
            Some(Details::PacketOut(PacketOutError { packet_out })),
            "a large packet is omitted"
        );
    }
    let ack = DigestListAck { digest_id: 5, list_id: 1 };
    client.send(Request::DigestAck(ack)).await;
    let details = Details::DigestListAck(DigestListAckError { digest_list_ack: Some(ack) });
    assert_eq!(error(&mut client).await.details, Some(details));
    client.send(Request::Other(Default::default())).await;
    assert_eq!(error(&mut client).await.canonical_code, i32::from(Code::Unimplemented));
    assert!(client.receives_nothing().await, "the stream is still open");
}

#[tokio::test]
async fn a_packet_out_without_a_cpu_port_is_refused() {
    let config = weir_switch::driver::DataplaneConfig::default();
    let dataplane = weir_switch::driver::Dataplane::start(config, None, &[]).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let config = weir_server::p4runtime::ServerConfig { device_id: DEVICE, ..Default::default() };
    let server = weir_server::p4runtime::Server::start(dataplane.handle(), config, listener).unwrap();
    let endpoint = tonic::transport::Endpoint::from_shared(address).unwrap();
    let mut client = Client::new(endpoint.connect().await.unwrap());
    client.bid(1).await;
    client.arbitration().await;
    client.push(Set::VerifyAndCommit, Some(super::bed::config())).await.unwrap();
    client.send(Request::Packet(through_tables(1, 2))).await;
    let error = error(&mut client).await;
    assert!(error.message.contains("no CPU port"), "{error:?}");
    assert!(server.is_running());
    tokio::task::spawn_blocking(|| server.stop()).await.unwrap().unwrap();
}

#[tokio::test]
async fn digests_are_sent_in_lists_and_repeated_after_acknowledgement() {
    let (_bed, mut client) = TestBed::ready().await;
    let (short, long) = (Duration::from_millis(100), Duration::from_secs(600));
    client.send(Request::Packet(through_tables(1, 1))).await;
    assert!(client.receives_nothing().await, "digests are not enabled yet");
    client.write(Insert, digest_entry(long, 2, long)).await.unwrap();
    for source in [1, 1, 2] {
        client.send(Request::Packet(through_tables(1, source))).await;
    }
    let (sources, list_id) = digest(&mut client).await;
    assert_eq!(sources, [1, 2]);
    // A message that is not acknowledged yet is not repeated.
    client.send(Request::Packet(through_tables(1, 1))).await;
    assert!(client.receives_nothing().await);
    client.send(Request::DigestAck(DigestListAck { digest_id: learn_id(), list_id })).await;
    client.send(Request::Packet(through_tables(1, 2))).await;
    client.send(Request::Packet(through_tables(1, 1))).await;
    assert_eq!(digest(&mut client).await.0, [2, 1]);
    // A list that is not full is sent after its timeout.
    client.write(Modify, digest_entry(short, 100, Duration::ZERO)).await.unwrap();
    let sent = Instant::now();
    client.send(Request::Packet(through_tables(1, 3))).await;
    assert_eq!(digest(&mut client).await.0, [3]);
    assert!(sent.elapsed() >= short);
    client.write(Delete, digest_entry(short, 100, Duration::ZERO)).await.unwrap();
    client.send(Request::Packet(through_tables(1, 4))).await;
    tokio::time::sleep(short).await;
    assert!(client.receives_nothing().await);
}

#[tokio::test]
async fn idle_entries_are_reported_until_they_are_hit_or_gone() {
    let (_bed, mut client) = TestBed::ready().await;
    let timeout = Duration::from_millis(150);
    let timed = |source, timeout: Duration| {
        let metadata = vec![source as u8];
        let idle_timeout_ns = timeout.as_nanos() as i64;
        TableEntry { idle_timeout_ns, metadata, ..entry("sources", source, call("known", &[])) }
    };
    let written = Instant::now();
    client.write(Insert, Kind::TableEntry(timed(1, timeout))).await.unwrap();
    client.write(Insert, Kind::TableEntry(timed(2, Duration::from_secs(600)))).await.unwrap();
    for times in 1..=2 {
        match client.next().await.unwrap() {
            Some(Response::IdleTimeoutNotification(notification)) => {
                let expected = TableEntry { action: None, ..timed(1, timeout) };
                assert_eq!(notification.table_entry, [expected]);
                assert!(notification.timestamp > 1_500_000_000_000_000_000);
            }
            other => panic!("{other:?}"),
        }
        assert!(written.elapsed() >= timeout * times);
    }
    let request = TableEntry {
        time_since_last_hit: Some(table_entry::IdleTimeout::default()),
        ..entry("sources", 1, None)
    };
    let found = client.read(Kind::TableEntry(request.clone())).await.unwrap();
    let elapsed = |found: &[Kind]| match found {
        [Kind::TableEntry(entry)] => {
            Duration::from_nanos(entry.time_since_last_hit.unwrap().elapsed_ns as u64)
        }
        other => panic!("{other:?}"),
    };
    let idle = elapsed(&found);
    assert!(idle >= timeout * 2 && idle <= written.elapsed() + Duration::from_millis(1), "{idle:?}");
    client.send(Request::Packet(through_tables(9, 1))).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let hit = elapsed(&client.read(Kind::TableEntry(request)).await.unwrap());
    assert!(hit < idle, "{hit:?}");
    client.write(Delete, Kind::TableEntry(timed(1, timeout))).await.unwrap();
    // Messages sent before the deletion may still come.
    while !client.receives_nothing().await {}
    tokio::time::sleep(timeout).await;
    assert!(client.receives_nothing().await);
}
