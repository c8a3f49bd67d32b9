//! SetForwardingPipelineConfig: its actions, invalid configs, and reconciliation.

use super::bed::*;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action as Set;
use p4runtime::p4::v1::update::Type::{Insert, Modify};
use p4runtime::p4::v1::write_request::Atomicity;
use p4runtime::p4::v1::*;
use p4runtime::p4info::{self, Object};
use tonic::{Code as Grpc, Status};
use weir_switch::engine::CloneSession;
use weir_switch::{Program, Switch};

const OTHER: &str = include_str!("../../../../p4src/build/hpcc.json");
const OTHER_INFO: &str = include_str!("../../../../p4src/build/hpcc.p4info.txtpb");

async fn try_get(client: &mut Client, kind: ResponseType) -> Result<ForwardingPipelineConfig, Status> {
    let request = GetForwardingPipelineConfigRequest { device_id: DEVICE, response_type: kind.into() };
    let response = client.stub.get_forwarding_pipeline_config(request).await?;
    Ok(response.into_inner().config.expect("a config"))
}

async fn get(client: &mut Client, kind: ResponseType) -> ForwardingPipelineConfig {
    try_get(client, kind).await.unwrap()
}

#[tokio::test]
async fn every_call_on_the_pipeline_needs_one() {
    let bed = TestBed::new().await;
    let mut client = bed.primary(1).await;
    for error in [
        try_get(&mut client, ResponseType::All).await.unwrap_err(),
        try_get(&mut client, ResponseType::CookieOnly).await.unwrap_err(),
        client.write(Insert, l2(1, 1)).await.unwrap_err(),
        client.write_all(Vec::new(), Atomicity::ContinueOnError).await.unwrap_err(),
        client.read(Kind::TableEntry(TableEntry::default())).await.unwrap_err(),
        client.read_messages(Vec::new()).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), Grpc::FailedPrecondition);
        assert!(error.message().starts_with("No forwarding pipeline config set"), "{error:?}");
    }
    // As in BMv2, a client that is not the primary is rejected for that reason.
    client.id = Some(Uint128 { high: 0, low: 9 });
    assert_eq!(client.write(Insert, l2(1, 1)).await.unwrap_err().code(), Grpc::PermissionDenied);
}

#[tokio::test]
async fn a_pipeline_is_returned_in_the_requested_form() {
    let (_bed, mut client) = TestBed::ready().await;
    let all = config();
    assert_eq!(get(&mut client, ResponseType::All).await, all);
    let cookie = ForwardingPipelineConfig { cookie: all.cookie, ..Default::default() };
    assert_eq!(get(&mut client, ResponseType::CookieOnly).await, cookie);
    let info = ForwardingPipelineConfig { p4_device_config: Vec::new(), ..all.clone() };
    assert_eq!(get(&mut client, ResponseType::P4infoAndCookie).await, info);
    let device = ForwardingPipelineConfig { p4info: None, ..all };
    assert_eq!(get(&mut client, ResponseType::DeviceConfigAndCookie).await, device);
}

#[tokio::test]
async fn after_a_swap_over_thrift_a_pipeline_must_be_pushed() {
    let (bed, mut client) = TestBed::ready().await;
    client.write(Insert, l2(1, 1)).await.unwrap();
    let handle = bed.dataplane.handle();
    let switch = Switch::new(Program::from_json(OTHER).unwrap(), handle.switch_config().await.unwrap(), 1);
    handle.install(Box::new(switch.unwrap())).await.unwrap();
    for error in [
        client.write(Insert, l2(2, 1)).await.unwrap_err(),
        client.read(Kind::TableEntry(TableEntry::default())).await.unwrap_err(),
        client.push(Set::ReconcileAndCommit, Some(config())).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), Grpc::FailedPrecondition);
        assert!(error.message().starts_with("another program was loaded over Thrift"), "{error:?}");
    }
    // The P4Info alone is enough.
    let info =
        ForwardingPipelineConfig { p4info: Some(p4info::parse(OTHER_INFO).unwrap()), ..Default::default() };
    client.push(Set::VerifyAndCommit, Some(info)).await.unwrap();
    client.read(Kind::TableEntry(TableEntry::default())).await.unwrap();
}

#[tokio::test]
async fn an_invalid_pipeline_is_rejected_and_the_old_one_stays() {
    let (_bed, mut client) = TestBed::ready().await;
    client.write(Insert, l2(1, 1)).await.unwrap();
    let json = |text: &str| ForwardingPipelineConfig { p4_device_config: text.into(), ..config() };
    let cases = [
        (Some(json("{}")), "unsupported program"),
        (
            Some(json(&PROGRAM.replace("\"hash_slice\"", "\"x\"").replacen("\"parsers\"", "\"parse\"", 1))),
            "parsers",
        ),
        (Some(json("\u{1}binary")), "not BMv2 JSON"),
        (Some(json(OTHER)), "the P4Info is not of the switch's program"),
        (Some(ForwardingPipelineConfig { p4info: None, ..config() }), "no P4Info"),
        (
            Some(ForwardingPipelineConfig { p4info: Some(p4info::parse("tables {}").unwrap()), ..config() }),
            "invalid P4Info",
        ),
        (None, "has no config"),
    ];
    for (config, expected) in cases {
        for action in [Set::Verify, Set::VerifyAndSave, Set::VerifyAndCommit, Set::ReconcileAndCommit] {
            let error = client.push(action, config.clone()).await.unwrap_err();
            assert_eq!(error.code(), Grpc::InvalidArgument, "{error:?}");
            assert!(error.message().contains(expected), "{error:?}");
        }
    }
    assert_eq!(
        client.push(Set::Unspecified, Some(config())).await.unwrap_err().code(),
        Grpc::InvalidArgument
    );
    assert_eq!(client.push(Set::Commit, Some(config())).await.unwrap_err().code(), Grpc::InvalidArgument);
    assert_eq!(client.push(Set::Commit, None).await.unwrap_err().code(), Grpc::NotFound);
    client.id = Some(Uint128 { high: 0, low: 77 });
    assert_eq!(
        client.push(Set::VerifyAndCommit, Some(config())).await.unwrap_err().code(),
        Grpc::PermissionDenied
    );
    assert_eq!(client.l2().await.len(), 1);
}

#[tokio::test]
async fn verify_changes_nothing_and_commit_clears_all_entries() {
    let (_bed, mut client) = TestBed::ready().await;
    client.write(Insert, l2(1, 1)).await.unwrap();
    client.push(Set::Verify, Some(config())).await.unwrap();
    assert_eq!(client.l2().await.len(), 1);
    client.push(Set::VerifyAndCommit, Some(config())).await.unwrap();
    assert!(client.l2().await.is_empty());
    // Install another program, and the first one again.
    let other = ForwardingPipelineConfig {
        p4info: Some(p4info::parse(OTHER_INFO).unwrap()),
        p4_device_config: OTHER.into(),
        cookie: None,
    };
    client.push(Set::VerifyAndCommit, Some(other)).await.unwrap();
    assert_eq!(codes(&client.write(Insert, l2(1, 1)).await.unwrap_err()).len(), 1);
    client.push(Set::VerifyAndCommit, Some(config())).await.unwrap();
    client.write(Insert, l2(1, 1)).await.unwrap();
}

#[tokio::test]
async fn a_saved_pipeline_receives_writes_and_runs_after_commit() {
    let (bed, mut client) = TestBed::ready().await;
    client.write(Insert, l2(1, 1)).await.unwrap();
    client.push(Set::VerifyAndSave, Some(config())).await.unwrap();
    // From now on, writes and reads refer to the saved pipeline...
    client.write(Insert, l2(2, 2)).await.unwrap();
    assert_eq!(client.l2().await, [(2, 2)].into());
    // ... while the old one processes packets.
    let running = || {
        let count = |switch: &mut weir_switch::Switch, _| {
            let table = switch.pipeline().table_by_name("l2").unwrap();
            switch.pipeline().table_entries(table).into_iter().map(|entry| entry.key).collect::<Vec<_>>()
        };
        format!("{:?}", bed.dataplane.handle().with(count).unwrap())
    };
    assert!(running().contains("0, 1]"), "{}", running());
    client.push(Set::Commit, None).await.unwrap();
    assert!(running().contains("0, 2]"), "{}", running());
    assert_eq!(client.l2().await, [(2, 2)].into());
    assert_eq!(
        client.push(Set::Commit, None).await.unwrap_err().code(),
        Grpc::NotFound,
        "a config is committed once"
    );
}

#[tokio::test]
async fn reconciling_keeps_the_entries_that_the_new_program_can_hold() {
    let (bed, mut client) = TestBed::ready().await;
    let register = |value: u64| {
        let data =
            Some(P4Data { data: Some(p4_data::Data::Bitstring(p4runtime::value::from_uint(value.into()))) });
        let register_id = INFO.registers.named("last_source").unwrap().preamble().id;
        Kind::RegisterEntry(RegisterEntry { register_id, index: Some(Index { index: 3 }), data })
    };
    let default = Kind::TableEntry(TableEntry {
        table_id: table("l2").preamble().id,
        is_default_action: true,
        action: call("punt", &[]),
        ..TableEntry::default()
    });
    let counted = TableEntry {
        counter_data: Some(CounterData { packet_count: 5, byte_count: 500 }),
        ..entry("l2", 1, call("forward", &[1]))
    };
    let profile = INFO.action_profiles.named("next_hops").unwrap().preamble().id;
    let member = ActionProfileMember {
        action_profile_id: profile,
        member_id: 4,
        action: Some(action("via", &[1, 2])),
    };
    let with_member = TableEntry {
        action: Some(TableAction { r#type: Some(table_action::Type::ActionProfileMemberId(4)) }),
        ..entry("groups", 0x800, None)
    };
    client.write(Insert, Kind::TableEntry(counted.clone())).await.unwrap();
    client.write(Insert, Kind::ActionProfileMember(member)).await.unwrap();
    client.write(Insert, Kind::TableEntry(with_member.clone())).await.unwrap();
    client.write(Modify, default.clone()).await.unwrap();
    client.write(Modify, register(0xabcdef)).await.unwrap();
    // What only Thrift can create: clone session 0, and sessions with a multicast group.
    let sessions = [(0, None), (5, Some(9))]
        .map(|(id, group)| (id, CloneSession { group, replicas: vec![], priority: None, truncate: None }));
    let handle = bed.dataplane.handle();
    let thrift = sessions.clone();
    let set = move |switch: &mut Switch| {
        thrift.into_iter().for_each(|(id, session)| switch.set_clone_session(id, session).unwrap());
    };
    handle.with(move |switch, _| set(switch)).unwrap();
    // The same program with a larger table can hold all entries.
    let larger = PROGRAM.replace("\"max_size\" : 1024", "\"max_size\" : 2048");
    assert_ne!(larger, PROGRAM);
    let larger = ForwardingPipelineConfig { p4_device_config: larger.into(), ..config() };
    client.push(Set::ReconcileAndCommit, Some(larger)).await.unwrap();
    let request = TableEntry { action: None, ..counted.clone() };
    assert_eq!(client.read(Kind::TableEntry(request)).await.unwrap(), [Kind::TableEntry(counted)]);
    let request = TableEntry { action: None, ..with_member.clone() };
    assert_eq!(client.read(Kind::TableEntry(request)).await.unwrap(), [Kind::TableEntry(with_member)]);
    assert_eq!(client.read(register(0)).await.unwrap(), [register(0xabcdef)]);
    assert_eq!(client.read(default.clone()).await.unwrap(), [default]);
    assert_eq!(handle.with(|switch, _| switch.clone_sessions().clone()).unwrap(), sessions.into());
    // A program without the table cannot.
    let other = ForwardingPipelineConfig {
        p4info: Some(p4info::parse(OTHER_INFO).unwrap()),
        p4_device_config: OTHER.into(),
        cookie: None,
    };
    let error = client.push(Set::ReconcileAndCommit, Some(other)).await.unwrap_err();
    assert_eq!(error.code(), Grpc::InvalidArgument);
    assert!(error.message().contains("the switch's state cannot be preserved"), "{error:?}");
    assert_eq!(client.l2().await, [(1, 1)].into());
}

#[tokio::test]
async fn pi_s_packed_form_is_accepted_and_an_empty_config_means_the_running_one() {
    let bed = TestBed::new().await;
    let mut client = bed.primary(1).await;
    // Field 3 of p4.tmp.P4DeviceConfig, after `reassign: true`.
    let mut packed = vec![0x08, 1, 0x1a];
    let mut length = PROGRAM.len();
    while length > 0x7f {
        packed.push(length as u8 & 0x7f | 0x80);
        length >>= 7;
    }
    packed.push(length as u8);
    packed.extend_from_slice(PROGRAM.as_bytes());
    let nothing = ForwardingPipelineConfig { p4_device_config: Vec::new(), ..config() };
    let error = client.push(Set::VerifyAndCommit, Some(nothing.clone())).await.unwrap_err();
    assert!(error.message().contains("no program runs"), "{error:?}");
    let packed = ForwardingPipelineConfig { p4_device_config: packed, ..config() };
    client.push(Set::VerifyAndCommit, Some(packed)).await.unwrap();
    client.write(Insert, l2(1, 1)).await.unwrap();
    client.push(Set::VerifyAndCommit, Some(nothing)).await.unwrap();
    client.write(Insert, l2(1, 1)).await.unwrap();
}
