//! Multicast groups and clone sessions.

use super::device::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::replica::PortKind;
use p4runtime::p4::v1::update::Type::{self, Delete, Insert, Modify};
use p4runtime::p4::v1::*;
use weir_switch::control::{Atomicity, Batch};
use weir_switch::engine::CloneSession;

fn replica(port: u64, instance: u32) -> Replica {
    Replica { port_kind: Some(PortKind::Port(bytes(port))), instance, backup_replicas: Vec::new() }
}

#[test]
fn multicast_groups_and_clone_sessions_are_read_back_as_written() {
    let mut device = Device::new();
    let group = |id, replicas: &[Replica]| {
        let entry =
            MulticastGroupEntry { multicast_group_id: id, replicas: replicas.to_vec(), metadata: vec![9] };
        pre(Pre::MulticastGroupEntry(entry))
    };
    let request = |id| {
        pre(Pre::MulticastGroupEntry(MulticastGroupEntry { multicast_group_id: id, ..Default::default() }))
    };
    let written = group(5, &[replica(1, 0), replica(2, 1)]);
    device.expect_error(Modify, written.clone(), Code::NotFound, "no multicast group 5");
    device.apply(Insert, written.clone());
    device.expect_error(Insert, written.clone(), Code::AlreadyExists, "group 5 exists");
    assert_eq!(device.read(request(0)).unwrap(), std::slice::from_ref(&written));
    assert_eq!(device.read(request(5)).unwrap(), [written]);
    assert!(device.read(request(6)).unwrap().is_empty());
    device.apply(Modify, group(5, &[replica(3, 0)]));
    assert_eq!(device.read(request(5)).unwrap(), [group(5, &[replica(3, 0)])]);
    device.expect_error(Insert, group(0, &[]), Code::InvalidArgument, "use 1 or higher");
    device.expect_error(Insert, group(70_000, &[]), Code::InvalidArgument, "16 bits");
    device.expect_error(Insert, group(6, &[replica(1, 0), replica(1, 0)]), Code::InvalidArgument, "twice");
    device.expect_error(Insert, group(6, &[replica(512, 0)]), Code::InvalidArgument, "is not a port");
    device.expect_error(Insert, group(6, &[replica(1, 70_000)]), Code::InvalidArgument, "instance");
    device.expect_error(
        Insert,
        group(6, &[Replica::default()]),
        Code::InvalidArgument,
        "multicast group 6: a replica has no port",
    );
    let backed = Replica { backup_replicas: vec![BackupReplica::default()], ..replica(1, 0) };
    device.expect_error(Insert, group(6, &[backed]), Code::Unimplemented, "backup");
    device.apply(Delete, request(5));
    device.expect_error(Delete, request(5), Code::NotFound, "no multicast group 5");

    let session = |id, class_of_service, packet_length_bytes| {
        let replicas = vec![replica(1, 0)];
        pre(Pre::CloneSessionEntry(CloneSessionEntry {
            session_id: id,
            replicas,
            class_of_service,
            packet_length_bytes,
        }))
    };
    let request =
        |session_id| pre(Pre::CloneSessionEntry(CloneSessionEntry { session_id, ..Default::default() }));
    device.apply(Insert, session(5, 3, 128));
    device.apply(Insert, session(6, 0, 0));
    assert_eq!(device.read(request(0)).unwrap(), [session(5, 3, 128), session(6, 0, 0)]);
    device.expect_error(Insert, session(5, 0, 0), Code::AlreadyExists, "session 5 exists");
    device.expect_error(Insert, session(7, 8, 0), Code::InvalidArgument, "class of service");
    device.expect_error(
        Insert,
        session(7, 0, -1),
        Code::InvalidArgument,
        "clone session 7: packet length -1 is negative",
    );
    device.expect_error(Insert, session(0, 0, 0), Code::InvalidArgument, "use 1 or higher");
    device.apply(Delete, request(5));
    device.expect_error(Modify, session(5, 0, 0), Code::NotFound, "no clone session 5");
}

/// P4Runtime's entry of a clone session has no multicast group, which Thrift's `mirroring_add_mc` sets.
#[test]
fn p4runtime_keeps_the_multicast_group_of_a_clone_session() {
    let mut device = Device::new();
    let entry = |port| {
        let replicas = vec![replica(port, 0)];
        pre(Pre::CloneSessionEntry(CloneSessionEntry { session_id: 5, replicas, ..Default::default() }))
    };
    let update =
        |kind: Type, entity| Update { r#type: kind.into(), entity: Some(Entity { entity: Some(entity) }) };
    let to_group = CloneSession { group: Some(9), ..CloneSession::default() };
    let at = |device: &Device| device.switch.clone_sessions()[&5].clone();
    device.switch.set_clone_session(5, to_group.clone()).unwrap();

    let fails = MulticastGroupEntry { multicast_group_id: 77, ..Default::default() };
    let fails = update(Delete, pre(Pre::MulticastGroupEntry(fails)));
    for batch in [
        vec![update(Modify, entry(3)), fails.clone()],
        vec![update(Delete, entry(3)), fails.clone()],
        vec![update(Delete, entry(3)), update(Insert, entry(2)), update(Delete, entry(2)), fails],
    ] {
        let mut progress = Batch::new(batch.len(), Atomicity::RollbackOnError);
        progress.step(&mut device.control, &mut device.switch, batch.into_iter().map(Ok));
        assert_eq!(at(&device), to_group, "{:?}", progress.results());
    }
    device.apply(Modify, entry(3));
    assert_eq!((at(&device).group, at(&device).replicas.len()), (Some(9), 1));
    // A new session starts without a group.
    device.apply(Delete, entry(3));
    device.apply(Insert, entry(3));
    assert_eq!(at(&device).group, None);
}
