//! Client arbitration over real streams. `p4runtime::arbitration` has unit tests of all cases.

use super::bed::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action as Set;
use p4runtime::p4::v1::stream_message_request::Update as Request;
use p4runtime::p4::v1::stream_message_response::Update as Response;
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

/// A client that reconnects at once with the same id: the end of its first stream is handled after the new bid.
#[tokio::test]
async fn a_bid_waits_for_the_end_of_the_stream_that_had_its_election_id() {
    let bed = TestBed::new().await;
    let mut first = bed.primary(7).await;
    let mut second = bed.client().await;
    second.bid(7).await;
    assert!(second.receives_nothing().await);
    first.leave();
    assert_eq!(second.arbitration().await, (Code::Ok, Some(7)));
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
                role: Some(Role {
                    name: "routing".into(),
                    config: Some(prost_types::Any { type_url: "x/y".into(), value: vec![1] }),
                    ..Role::default()
                }),
                ..Default::default()
            },
            Grpc::InvalidArgument,
            "role.config is not supported",
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
async fn requests_need_the_device_id() {
    let (_bed, mut client) = TestBed::ready().await;
    let write = WriteRequest { device_id: 9, election_id: client.id, ..Default::default() };
    assert_eq!(client.stub.write(write).await.unwrap_err().code(), Grpc::NotFound);
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

/// Two controllers with roles of their own, and one without, beside each other.
#[tokio::test]
async fn clients_of_different_roles_do_not_evict_each_other() {
    let (bed, mut default) = TestBed::ready().await;
    let mut clients = Vec::new();
    for role in ["sdn_controller", "p4rt_app"] {
        let mut client = bed.client().await;
        client.role = role.into();
        // The same election id as in the other roles.
        client.bid(1).await;
        match client.next().await.unwrap() {
            Some(Response::Arbitration(update)) => {
                assert_eq!(update.role.unwrap().name, role);
                assert_eq!(update.status.unwrap().code, i32::from(Code::Ok));
            }
            other => panic!("{other:?}"),
        }
        clients.push(client);
    }
    assert!(default.receives_nothing().await, "it is still primary of its role");
    for (number, client) in (1..).zip(&mut clients) {
        client.write(Insert, l2(number, 1)).await.unwrap();
        assert_eq!(client.read(l2(number, 0)).await.unwrap(), [l2(number, 1)]);
    }
    clients[1].push(Set::ReconcileAndCommit, Some(config())).await.unwrap();
    assert_eq!(clients[0].l2().await.len(), 2, "all roles see the whole pipeline");
    default.write(Insert, punt(3)).await.unwrap();
    // A packet-out of one, whose packet-in goes to the primary of each role.
    clients[0].send(Request::Packet(through_tables(3, 7))).await;
    let [first, second] = &mut clients[..] else { panic!() };
    for client in [first, second, &mut default] {
        match client.next().await.unwrap() {
            Some(Response::Packet(packet)) => assert_eq!(packet.payload, frame(3, 7)),
            other => panic!("{other:?}"),
        }
    }
    // A request without the role of its client is not the primary's.
    let mut without = bed.client().await;
    without.bid(2).await;
    assert_eq!(without.arbitration().await, (Code::Ok, Some(2)));
    assert_eq!(default.arbitration().await, (Code::AlreadyExists, Some(2)));
    let [first, _] = &mut clients[..] else { panic!() };
    first.role.clear();
    let error = first.write(Insert, l2(4, 1)).await.unwrap_err();
    assert_eq!(error.code(), Grpc::PermissionDenied);
    assert!(error.message().contains("of role \"p4rt_app\", which the request must name"), "{error:?}");
}
