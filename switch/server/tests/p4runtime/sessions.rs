//! Client arbitration over real streams. `p4runtime::arbitration` has unit tests of all cases.

use super::bed::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::stream_message_request::Update as Request;
use p4runtime::p4::v1::update::Type::Insert;
use p4runtime::p4::v1::*;
use tonic::Code as Grpc;

#[tokio::test]
async fn the_primary_writes_until_another_takes_over_or_it_leaves() {
    let (bed, mut first) = TestBed::ready().await;
    let mut second = bed.client().await;
    second.bid(5).await;
    assert_eq!(second.arbitration().await, (Code::Ok, Some(5)));
    assert_eq!(first.arbitration().await, (Code::AlreadyExists, Some(5)));
    let error = first.write(Insert, l2(1, 1)).await.unwrap_err();
    assert_eq!(error.code(), Grpc::PermissionDenied);
    assert!(error.message().contains("Not primary: the election id is 1, and the primary is 5"), "{error:?}");
    second.write(Insert, l2(1, 1)).await.unwrap();
    // Reads need no session.
    assert_eq!(bed.client().await.l2().await.len(), 1);
    // The stream has ended: the backup is promoted and notified.
    second.leave();
    assert_eq!(first.arbitration().await, (Code::Ok, Some(1)));
    first.write(Insert, l2(2, 1)).await.unwrap();
    assert_eq!(second.write(Insert, l2(3, 1)).await.unwrap_err().code(), Grpc::PermissionDenied);
    // The client has disconnected.
    drop(first);
    let mut third = bed.client().await;
    third.bid(1).await;
    let update = third.arbitration().await;
    assert_eq!(update, (Code::Ok, Some(1)), "the election id can be used again");
}

#[tokio::test]
async fn a_rejected_bid_ends_only_its_own_stream() {
    let bed = TestBed::new().await;
    let mut primary = bed.primary(7).await;
    let bids = [
        (MasterArbitrationUpdate { device_id: 9, ..Default::default() }, Grpc::NotFound, "this is device 3"),
        (
            MasterArbitrationUpdate {
                device_id: DEVICE,
                role: Some(Role { name: "routing".into(), ..Role::default() }),
                ..Default::default()
            },
            Grpc::NotFound,
            "no role \"routing\"",
        ),
        (
            MasterArbitrationUpdate { device_id: DEVICE, election_id: primary.id, ..Default::default() },
            Grpc::InvalidArgument,
            "Election id already exists",
        ),
    ];
    for (bid, code, expected) in bids {
        let mut client = bed.client().await;
        client.send(Request::Arbitration(bid)).await;
        let end = client.next().await.unwrap_err();
        assert_eq!(end.code(), code);
        assert!(end.message().contains(expected), "{end:?}");
    }
    assert!(primary.receives_nothing().await);
    primary.bid(8).await;
    assert_eq!(primary.arbitration().await, (Code::Ok, Some(8)), "a stream can change its election id");
}

#[tokio::test]
async fn requests_need_the_device_id_and_the_default_role() {
    let (_bed, mut client) = TestBed::ready().await;
    let write = |device_id, role: &str| WriteRequest { device_id, role: role.into(), ..Default::default() };
    let id = client.id;
    for request in [write(9, ""), write(DEVICE, "routing")] {
        let request = WriteRequest { election_id: id, ..request };
        assert_eq!(client.stub.write(request).await.unwrap_err().code(), Grpc::NotFound);
    }
    let read = ReadRequest { device_id: 9, ..Default::default() };
    assert_eq!(client.stub.read(read).await.unwrap_err().code(), Grpc::NotFound);
    let get = GetForwardingPipelineConfigRequest { device_id: 9, response_type: 0 };
    assert_eq!(client.stub.get_forwarding_pipeline_config(get).await.unwrap_err().code(), Grpc::NotFound);
    let version =
        client.stub.capabilities(CapabilitiesRequest { device_id: DEVICE }).await.unwrap().into_inner();
    assert_eq!(version.p4runtime_api_version, "1.5.0");
}

#[tokio::test]
async fn a_stopped_server_ends_its_streams() {
    let bed = TestBed::new().await;
    let mut client = bed.primary(1).await;
    bed.stop().await.unwrap();
    assert_eq!(client.next().await.unwrap_err().code(), Grpc::Unavailable);
}
