//! Hostile or broken clients do not affect other clients or the data plane.

use super::bed::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::stream_message_request::Update as Request;
use p4runtime::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime::p4::v1::write_request::Atomicity::ContinueOnError;
use p4runtime::p4::v1::*;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code as Grpc;

#[tokio::test]
async fn garbage_on_the_port_is_a_closed_connection() {
    let (bed, mut client) = TestBed::ready().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // The header of a frame of 16 MB without the frame, and HPACK headers that cannot be decoded.
    let frame = [preface.clone(), vec![0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat();
    let headers =
        [preface, vec![0, 0, 4, 4, 0, 0, 0, 0, 0], vec![0, 0, 8, 1, 4, 0, 0, 0, 1], vec![0xff; 8]].concat();
    for garbage in [vec![0; 4096], b"GET / HTTP/1.1\r\n\r\n".to_vec(), (0..=255).collect(), frame, headers] {
        let mut socket = TcpStream::connect(&bed.address).await.unwrap();
        // The server may close the connection before all bytes are sent.
        let _ = socket.write_all(&garbage).await;
        let mut answer = Vec::new();
        let closed = tokio::time::timeout(TIMEOUT, socket.read_to_end(&mut answer)).await;
        assert!(closed.is_ok(), "{garbage:?}");
    }
    let mut idle = Vec::new();
    for _ in 0..50 {
        idle.push(TcpStream::connect(&bed.address).await.unwrap());
    }
    client.write(Insert, l2(1, 1)).await.unwrap();
    assert_eq!(bed.client().await.l2().await.len(), 1);
}

#[tokio::test]
async fn malformed_and_oversized_requests_are_errors() {
    /// A WriteRequest whose updates cannot be decoded.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Malformed {
        #[prost(uint64, tag = "1")]
        device_id: u64,
        #[prost(bytes = "vec", tag = "4")]
        updates: Vec<u8>,
    }
    let (bed, mut client) = TestBed::ready().await;
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", bed.address)).unwrap();
    let mut raw = tonic::client::Grpc::new(endpoint.connect().await.unwrap());
    raw.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<Malformed, WriteResponse>::default();
    let malformed = Malformed { device_id: DEVICE, updates: vec![0xff; 9] };
    let path = "/p4.v1.P4Runtime/Write".parse().unwrap();
    let status = raw.unary(tonic::Request::new(malformed), path, codec).await.unwrap_err();
    assert_eq!(status.code(), Grpc::Internal, "{status:?}");

    let huge = ForwardingPipelineConfig { p4_device_config: vec![b' '; 17 << 20], ..config() };
    let set = set_forwarding_pipeline_config_request::Action::VerifyAndCommit;
    let status = client.push(set, Some(huge)).await.unwrap_err();
    assert_eq!(status.code(), Grpc::OutOfRange, "{status:?}");
    client.write(Insert, l2(1, 1)).await.unwrap();
}

#[tokio::test]
async fn contradictory_updates_are_applied_in_their_order() {
    let (_bed, mut client) = TestBed::ready().await;
    let batch = vec![
        update(Insert, l2(1, 1)),
        update(Delete, l2(1, 1)),
        update(Delete, l2(1, 1)),
        update(Insert, l2(1, 2)),
        update(Modify, l2(1, 3)),
        update(Insert, l2(1, 4)),
    ];
    let status = client.write_all(batch, ContinueOnError).await.unwrap_err();
    assert_eq!(codes(&status), [Code::Ok, Code::Ok, Code::NotFound, Code::Ok, Code::Ok, Code::AlreadyExists]);
    assert_eq!(client.l2().await, [(1, 3)].into());
}

#[tokio::test]
async fn errors_quote_long_values_truncated() {
    let (_bed, mut client) = TestBed::ready().await;
    let mut wide = entry("l2", 1, call("forward", &[1]));
    let value = vec![0xff; 1 << 20];
    wide.r#match[0].field_match_type =
        Some(field_match::FieldMatchType::Exact(field_match::Exact { value: value.clone() }));
    let status = client.write(Insert, Kind::TableEntry(wide)).await.unwrap_err();
    assert_eq!(codes(&status), [Code::InvalidArgument]);
    assert!(status.message().contains("... (1048576 bytes) does not fit 48 bits"), "{status:?}");
    let long = WriteRequest { device_id: DEVICE, role: "x".repeat(1 << 20), ..Default::default() };
    let status = client.stub.write(long).await.unwrap_err();
    assert_eq!(status.code(), Grpc::PermissionDenied, "{status:?}");
    assert!(status.message().len() < 2000);
    let padded = TableEntry { metadata: value, ..entry("l2", 2, call("forward", &[1])) };
    let status = client.write(Insert, Kind::TableEntry(padded)).await.unwrap_err();
    assert_eq!(codes(&status), [Code::ResourceExhausted]);
    let entities = vec![Entity { entity: Some(Kind::TableEntry(TableEntry::default())) }; 20_000];
    let read = ReadRequest { device_id: DEVICE, entities, ..Default::default() };
    assert_eq!(client.stub.read(read).await.unwrap_err().code(), Grpc::ResourceExhausted);
}

#[tokio::test]
async fn more_errors_than_a_header_holds_are_summarised() {
    let (_bed, mut client) = TestBed::ready().await;
    let wrong = |n: u64| update(Modify, l2(n, 1));
    let status = client.write_all((0..100).map(wrong).collect(), ContinueOnError).await.unwrap_err();
    assert_eq!(codes(&status), vec![Code::NotFound; 100]);
    let status = client.write_all((0..10_000).map(wrong).collect(), ContinueOnError).await.unwrap_err();
    assert_eq!(status.code(), Grpc::Unknown);
    assert!(status.message().contains("update 1 of 10000: NOT_FOUND"), "{status:?}");
    assert!(status.message().contains("10000 failed"), "{status:?}");
}

#[tokio::test]
async fn more_than_the_maximum_of_clients_are_rejected() {
    let bed = TestBed::new().await;
    let mut clients = Vec::new();
    for id in 1..=16 {
        let mut client = bed.client().await;
        client.bid(id).await;
        assert_eq!(client.arbitration().await, (Code::Ok, Some(id)));
        clients.push(client);
    }
    let mut late = bed.client().await;
    late.bid(99).await;
    let end = late.next().await.unwrap_err();
    assert_eq!(end.code(), Grpc::ResourceExhausted);
    // Streams that take no part in arbitration do not count as clients.
    let mut silent = Vec::new();
    for _ in 0..40 {
        let mut client = bed.client().await;
        client.send(Request::Other(Default::default())).await;
        client.next().await.unwrap();
        silent.push(client);
    }
    drop(clients.pop());
    let mut next = bed.client().await;
    // Retry until the server has noticed that the other client is gone.
    let end = Instant::now() + TIMEOUT;
    loop {
        next.leave();
        next.bid(50).await;
        if next.next().await.is_ok() {
            break;
        }
        assert!(Instant::now() < end, "the client is still counted");
    }
    assert_eq!(
        bed.client()
            .await
            .stub
            .capabilities(CapabilitiesRequest::default())
            .await
            .unwrap()
            .get_ref()
            .p4runtime_api_version,
        "1.5.0"
    );
}

/// Connects from an address of the loopback network.
async fn silent(bed: &TestBed, from: u8) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, from], 0).into()).unwrap();
    socket.connect(bed.address.parse().unwrap()).await.unwrap()
}

#[tokio::test]
async fn silent_connections_do_not_block_others() {
    let (bed, mut primary) = TestBed::ready().await;
    for peers in [1..=1, 2..=9] {
        let mut all = Vec::new();
        for n in 0..200 {
            all.push(silent(&bed, peers.start() + n % (peers.end() - peers.start() + 1)).await);
        }
        let connected = async { bed.client().await.stub.capabilities(CapabilitiesRequest::default()).await };
        let answer = tokio::time::timeout(Duration::from_secs(2), connected).await;
        assert!(answer.expect("a connection is accepted in time").is_ok());
        // The oldest connections have been evicted.
        let closed = tokio::time::timeout(Duration::from_secs(2), all[0].read_to_end(&mut Vec::new())).await;
        assert!(closed.is_ok(), "the connection is still open");
    }
    primary.write(Insert, l2(1, 1)).await.unwrap();
    assert!(primary.receives_nothing().await, "its stream is still open");
    let (code, id) = {
        let mut second = bed.client().await;
        second.bid(9).await;
        second.arbitration().await
    };
    assert_eq!((code, id), (Code::Ok, Some(9)));
}

#[tokio::test]
async fn streams_without_a_bid_do_not_block_others() {
    let (bed, mut primary) = TestBed::ready().await;
    let mut other = bed.client().await;
    let mut streams = Vec::new();
    for _ in 0..70 {
        let mut client = bed.client().await;
        client.send(Request::Other(Default::default())).await;
        streams.push(client);
    }
    other.bid(9).await;
    assert_eq!(other.arbitration().await, (Code::Ok, Some(9)));
    assert!(
        primary.arbitration().await.0 == Code::AlreadyExists,
        "it is a backup, and its stream is still open"
    );
}

#[tokio::test]
async fn a_primary_that_reads_nothing_loses_packets_and_then_its_stream() {
    let (bed, mut primary) = TestBed::ready().await;
    primary.write(Insert, punt(1)).await.unwrap();
    // It sends packets until some are dropped, and reads nothing.
    let payload = vec![0; 4000];
    let end = Instant::now() + TIMEOUT;
    while bed.lost.packet_in.load(Ordering::Relaxed) < 100 {
        assert!(Instant::now() < end, "no packet is dropped");
        let frame = [frame(1, 2), payload.clone()].concat();
        primary.send(Request::Packet(packet_out(&[(1, 0), (2, 1)], frame))).await;
    }
    // The data plane and other calls still work.
    let start = Instant::now();
    primary.write(Insert, l2(2, 2)).await.unwrap();
    assert!(bed.dataplane.handle().stats().wait().unwrap().packet_out > 100);
    assert!(start.elapsed() < TIMEOUT, "{:?}", start.elapsed());
    // A new primary: the silent client cannot be notified, so it is disconnected.
    let mut second = bed.client().await;
    second.bid(9).await;
    assert_eq!(second.arbitration().await, (Code::Ok, Some(9)));
    second.write(Insert, l2(3, 3)).await.unwrap();
    let mut received = 0;
    while let Ok(Some(_)) = primary.next().await {
        received += 1;
    }
    assert!(received > 100, "it received the {received} queued messages before the end");
}

#[tokio::test]
async fn a_read_whose_client_stops_reading_blocks_no_other_client() {
    let (bed, mut client) = TestBed::ready().await;
    let many = (1..40_000).map(|n| update(Insert, l2(n, 1))).collect();
    client.write_all(many, ContinueOnError).await.unwrap();
    let all = Entity { entity: Some(Kind::TableEntry(TableEntry::default())) };
    let mut silent = bed.client().await;
    let mut ignored = Vec::new();
    for _ in 0..8 {
        let request = ReadRequest { device_id: DEVICE, entities: vec![all.clone()], ..Default::default() };
        ignored.push(silent.stub.read(request).await.unwrap());
    }
    let start = Instant::now();
    client.write(Insert, l2(50_000, 1)).await.unwrap();
    assert_eq!(client.read(l2(50_000, 0)).await.unwrap(), [l2(50_000, 1)]);
    // Eight reads of 40,000 entries come first, which takes seconds on a busy machine. Waiting for the silent client
    // would take forever.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// A connection that reads no results holds all shared read permits; every other connection has a permit of its own.
#[tokio::test]
async fn unread_results_do_not_block_other_connections() {
    let (bed, mut client) = TestBed::ready().await;
    let many = (1..9_000).map(|n| update(Insert, l2(n, 1))).collect();
    client.write_all(many, ContinueOnError).await.unwrap();
    let all = Entity { entity: Some(Kind::TableEntry(TableEntry::default())) };
    let mut silent = bed.client().await;
    let mut ignored = Vec::new();
    for _ in 0..40 {
        // More than the buffers of a connection hold.
        let entities = vec![all.clone(); 8];
        let request = ReadRequest { device_id: DEVICE, entities, ..Default::default() };
        ignored.push(silent.stub.read(request).await.unwrap());
    }
    // Wait until the data plane has collected all results.
    tokio::time::sleep(Duration::from_secs(5)).await;
    for _ in 0..3 {
        // Waiting for the silent client would take 20 s, the timeout for a message of a read.
        let start = Instant::now();
        assert_eq!(client.read(l2(5, 0)).await.unwrap(), [l2(5, 1)]);
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert_eq!(bed.client().await.l2().await.len(), 8_999);
    }
}
