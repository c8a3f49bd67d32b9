//! Multicast groups and clone sessions.

use super::device::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::replica::PortKind;
use p4runtime::p4::v1::update::Type::{Delete, Insert, Modify};
use p4runtime::p4::v1::*;

fn replica(port: u64, instance: u32) -> Replica {
    Replica { port_kind: Some(PortKind::Port(bytes(port))), instance, backup_replicas: Vec::new() }
}

#[test]
fn multicast_groups_and_clone_sessions_are_kept_as_written() {
    let mut d = Device::new();
    let group = |id, replicas: &[Replica]| {
        let entry =
            MulticastGroupEntry { multicast_group_id: id, replicas: replicas.to_vec(), metadata: vec![9] };
        pre(Pre::MulticastGroupEntry(entry))
    };
    let asked = |id| {
        pre(Pre::MulticastGroupEntry(MulticastGroupEntry { multicast_group_id: id, ..Default::default() }))
    };
    let written = group(5, &[replica(1, 0), replica(2, 1)]);
    d.refused(Modify, written.clone(), Code::NotFound, "no multicast group 5");
    d.ok(Insert, written.clone());
    d.refused(Insert, written.clone(), Code::AlreadyExists, "group 5 exists");
    assert_eq!(d.read(asked(0)).unwrap(), std::slice::from_ref(&written));
    assert_eq!(d.read(asked(5)).unwrap(), [written]);
    assert!(d.read(asked(6)).unwrap().is_empty());
    d.ok(Modify, group(5, &[replica(3, 0)]));
    assert_eq!(d.read(asked(5)).unwrap(), [group(5, &[replica(3, 0)])]);
    d.refused(Insert, group(0, &[]), Code::InvalidArgument, "use 1 or higher");
    d.refused(Insert, group(70_000, &[]), Code::InvalidArgument, "16 bits");
    d.refused(Insert, group(6, &[replica(1, 0), replica(1, 0)]), Code::InvalidArgument, "twice");
    d.refused(Insert, group(6, &[replica(512, 0)]), Code::InvalidArgument, "is not a port");
    d.refused(Insert, group(6, &[replica(1, 70_000)]), Code::InvalidArgument, "instance");
    d.refused(Insert, group(6, &[Replica::default()]), Code::InvalidArgument, "has no port");
    let backed = Replica { backup_replicas: vec![BackupReplica::default()], ..replica(1, 0) };
    d.refused(Insert, group(6, &[backed]), Code::Unimplemented, "backup");
    d.ok(Delete, asked(5));
    d.refused(Delete, asked(5), Code::NotFound, "no multicast group 5");

    let session = |id, class_of_service, packet_length_bytes| {
        let replicas = vec![replica(1, 0)];
        pre(Pre::CloneSessionEntry(CloneSessionEntry {
            session_id: id,
            replicas,
            class_of_service,
            packet_length_bytes,
        }))
    };
    let asked =
        |session_id| pre(Pre::CloneSessionEntry(CloneSessionEntry { session_id, ..Default::default() }));
    d.ok(Insert, session(5, 3, 128));
    d.ok(Insert, session(6, 0, 0));
    assert_eq!(d.read(asked(0)).unwrap(), [session(5, 3, 128), session(6, 0, 0)]);
    d.refused(Insert, session(5, 0, 0), Code::AlreadyExists, "session 5 exists");
    d.refused(Insert, session(7, 8, 0), Code::InvalidArgument, "class of service");
    d.refused(Insert, session(7, 0, -1), Code::InvalidArgument, "is negative");
    d.refused(Insert, session(0, 0, 0), Code::InvalidArgument, "use 1 or higher");
    d.ok(Delete, asked(5));
    d.refused(Modify, session(5, 0, 0), Code::NotFound, "no clone session 5");
}
