//! The election of the primary, over real streams. (The matrix of cases is in `arbitration.rs`, beside the rules.)

use super::bed::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::stream_message_request::Update as Request;
use p4runtime::p4::v1::update::Type::Insert;
use p4runtime::p4::v1::*;
use tonic::Code as Grpc;

#[tokio::test]
async fn the_primary_writes_until_another_takes_over_or_it_leaves() {
    let (bed, mut first) = Bed::ready().await;
    let mut second = bed.client().await;
    second.bid(5).await;
    assert_eq!(second.arbitration().await, (Code::Ok, Some(5)));
    assert_eq!(first.arbitration().await, (Code::AlreadyExists, Some(5)));
    let refused = first.write(Insert, l2(1, 1)).await.unwrap_err();
    assert_eq!(refused.code(), Grpc::PermissionDenied);
    assert!(
        refused.message().contains("Not primary: the election id is 1, and the primary is 5"),
        "{refused:?}"
    );
    second.write(Insert, l2(1, 1)).await.unwrap();
    // reads need no session
    assert_eq!(bed.client().await.l2().await.len(), 1);
    // the stream is gone: the next in line is promoted, and told so
    second.leave();
    assert_eq!(first.arbitration().await, (Code::Ok, Some(1)));
    first.write(Insert, l2(2, 1)).await.unwrap();
    assert_eq!(second.write(Insert, l2(3, 1)).await.unwrap_err().code(), Grpc::PermissionDenied);
    // the whole client is gone, connection and all
    drop(first);
    let mut third = bed.client().await;
    third.bid(1).await;
    let told = third.arbitration().await;
    assert_eq!(told, (Code::Ok, Some(1)), "the same id again");
}

#[tokio::test]
async fn a_bid_that_is_refused_ends_its_stream_and_no_other() {
    let bed = Bed::new().await;
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
    for (bid, code, says) in bids {
        let mut client = bed.client().await;
        client.send(Request::Arbitration(bid)).await;
        let end = client.next().await.unwrap_err();
        assert_eq!(end.code(), code);
        assert!(end.message().contains(says), "{end:?}");
    }
    assert!(primary.hears_nothing().await);
    primary.bid(8).await;
    assert_eq!(primary.arbitration().await, (Code::Ok, Some(8)), "again, on the same stream");
}

#[tokio::test]
async fn requests_name_the_device_and_no_role() {
    let (_bed, mut client) = Bed::ready().await;
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
    let bed = Bed::new().await;
    let mut client = bed.primary(1).await;
    bed.stop().await.unwrap();
    assert_eq!(client.next().await.unwrap_err().code(), Grpc::Unavailable);
}
