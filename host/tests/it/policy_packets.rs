//! POLICY packets: which are dropped and why, and when they leave.

use std::sync::Arc;
use weir_host::policy::{
    Policy, PolicyConfig, PolicyError, PolicyKey, PolicyNode, StateError, default_trickle,
};
use weir_host::scheme::SchemeConfig;
use weir_host::schemes::Registry;
use weir_host::wire::{FrameRepr, FrameView, HEADERS_LEN, POLICY_GROUP, POLICY_GROUP_MAC};
use weir_host::{DropReason, Host, HostConfig, Transmit};
use weir_testkit::net::{BASE_RTT, addr, rebuild};
use weir_units::{Bytes, Time};

pub(crate) fn key() -> PolicyKey {
    PolicyKey::new(b"what all of them know").unwrap()
}

pub(crate) fn scheme(name: &str) -> Arc<dyn SchemeConfig> {
    Registry::builtin().get(name).unwrap()
}

pub(crate) fn with_policy(config: &mut HostConfig) {
    let seed = u32::from(config.addr).into();
    config.policy = Some(PolicyConfig::new(key(), seed, config.base_rtt));
}

pub(crate) fn lone_host(name: &str, mtu: Bytes) -> Host {
    let mut config = HostConfig::new(addr(0), weir_testkit::net::RATE, BASE_RTT, scheme(name));
    config.mtu = mtu;
    with_policy(&mut config);
    Host::new(config).unwrap()
}

pub(crate) fn imin() -> Time {
    default_trickle(BASE_RTT).imin
}

/// Returns a frame with this payload.
pub(crate) fn rebuild_bytes(repr: &FrameRepr, payload: &[u8]) -> Vec<u8> {
    let mut bytes = rebuild(&FrameRepr { payload_len: payload.len() as u32, ..*repr }, &[]).head;
    bytes.extend(payload);
    bytes
}

/// Returns a POLICY frame as another host with the key would send it.
pub(crate) fn frame_of(policy: &Policy, versions: u32) -> Vec<u8> {
    let config = PolicyConfig { epoch_ns: versions.into(), ..PolicyConfig::new(key(), 9, BASE_RTT) };
    let mut node = PolicyNode::new(&config, addr(9), usize::MAX);
    for _ in 0..versions {
        node.set(Time::ZERO, policy.clone()).unwrap();
    }
    let at = node.next_wakeup();
    node.wakeup(at);
    let mut payload = Vec::new();
    node.transmit(at, &mut payload);
    rebuild_bytes(&policy_head(), &payload)
}

pub(crate) fn policy_head() -> FrameRepr {
    let mut host = lone_host("hpcc", Bytes::new(1_518));
    let at = host.next_wakeup().unwrap();
    host.wakeup(at);
    let mut head = [0; weir_host::wire::MAX_HEADER_LEN];
    assert_eq!(host.transmit(at, 0, &mut head), Transmit::Policy { class: 0 });
    let frame = host.policy_frame();
    let repr = FrameRepr::parse(&FrameView::new(frame, 0).unwrap());
    assert_eq!((repr.destination, repr.destination_mac), (POLICY_GROUP, POLICY_GROUP_MAC));
    assert_eq!(repr.payload_len as usize + HEADERS_LEN, frame.len());
    // Once.
    assert_eq!(host.transmit(at, 0, &mut head), Transmit::Nothing);
    FrameRepr { source: addr(9), ..repr }
}

#[test]
fn invalid_policy_packets_are_dropped_under_their_reasons() {
    let frame = frame_of(&Policy::of(&*scheme("hpcc")), 1);
    let repr = FrameRepr::parse(&FrameView::new(&frame, 0).unwrap());
    let payload = frame[HEADERS_LEN..].to_vec();
    let mut host = lone_host("hpcc", Bytes::new(1_518));
    let mut drop_reason = |repr: &FrameRepr, payload: &[u8]| {
        let before = host.stats().drops.clone();
        host.receive(Time::from_us(1), &rebuild_bytes(repr, payload), 0);
        let after = &host.stats().drops;
        after.iter().find(|(reason, n)| before.get(*reason) < *n).map(|(reason, _)| reason)
    };
    assert_eq!(
        drop_reason(&FrameRepr { destination: addr(0), ..repr }, &payload),
        Some(DropReason::PolicyUnicast)
    );
    assert_eq!(
        drop_reason(&FrameRepr { destination_mac: [2; 6], ..repr }, &payload),
        Some(DropReason::PolicyUnicast)
    );
    assert_eq!(
        drop_reason(&FrameRepr { destination: addr(7), ..repr }, &payload),
        Some(DropReason::NotForUs)
    );
    let mut data = repr;
    data.weir.kind = weir_host::wire::PacketKind::Data;
    assert_eq!(drop_reason(&data, &payload), Some(DropReason::UnexpectedKind));
    assert_eq!(
        drop_reason(&FrameRepr { source: addr(0), ..repr }, &payload),
        Some(DropReason::PolicyLoopback)
    );
    assert_eq!(drop_reason(&FrameRepr { source: addr(3), ..repr }, &payload), Some(DropReason::PolicyForged));
    assert_eq!(drop_reason(&repr, &payload[..payload.len() / 2]), Some(DropReason::PolicyMalformed));
    assert_eq!(drop_reason(&repr, &[]), Some(DropReason::PolicyMalformed));
    assert_eq!(drop_reason(&repr, &payload), None);
    assert_eq!(drop_reason(&repr, &payload), Some(DropReason::PolicyReplayed));
    // A policy must be materialised: a virtual payload is malformed.
    host.receive(Time::from_us(1), &rebuild_bytes(&repr, &payload)[..HEADERS_LEN], payload.len() as u32);
    assert_eq!(host.stats().drops.get(DropReason::PolicyMalformed), 3);
    // A host without a key.
    let mut off =
        Host::new(HostConfig::new(addr(0), weir_testkit::net::RATE, BASE_RTT, scheme("hpcc"))).unwrap();
    off.receive(Time::ZERO, &frame, 0);
    off.receive(Time::ZERO, &rebuild_bytes(&FrameRepr { destination: addr(0), ..repr }, &payload), 0);
    let drops = &off.stats().drops;
    assert_eq!((drops.get(DropReason::NotForUs), drops.get(DropReason::UnexpectedKind)), (1, 1));
    assert_eq!(off.set_policy(Time::ZERO, &[("eta", "0.9")]), Err(PolicyError::Disabled));
    assert_eq!(
        (off.policy().is_none(), off.export_policy(Time::ZERO), off.next_wakeup()),
        (true, None, None)
    );
    assert_eq!(off.restore_policy(Time::ZERO, &[], Time::ZERO), Err(StateError::Disabled));
}

#[test]
fn a_paused_class_holds_policies_back() {
    let mut head = [0; weir_host::wire::MAX_HEADER_LEN];
    // Paused at t and for a while; then up to the end of the interval.
    let mut host = lone_host("hpcc", Bytes::new(1_518));
    let at = host.next_wakeup().unwrap();
    host.wakeup(at);
    assert_eq!(host.transmit(at, 1, &mut head), Transmit::Nothing);
    assert_eq!(host.transmit(at, 0, &mut head), Transmit::Policy { class: 0 });
    let mut host = lone_host("hpcc", Bytes::new(1_518));
    host.wakeup(at);
    assert_eq!(host.transmit(imin(), 0, &mut head), Transmit::Nothing, "outside [I/2, I)");
    host.wakeup(imin());
    assert_eq!(host.transmit(imin() * 2 - Time::from_ps(1), 0, &mut head), Transmit::Nothing, "before t");
    // Or until k others have sent the same policy.
    let mut host = lone_host("hpcc", Bytes::new(1_518));
    host.wakeup(at);
    for other in [8, 9] {
        let config = PolicyConfig::new(key(), other, BASE_RTT);
        let mut node = PolicyNode::new(&config, addr(other as usize), usize::MAX);
        let at = node.next_wakeup();
        node.wakeup(at);
        let mut payload = Vec::new();
        node.transmit(at, &mut payload);
        let head = FrameRepr { source: addr(other as usize), ..policy_head() };
        host.receive(at, &rebuild_bytes(&head, &payload), 0);
    }
    assert_eq!(host.transmit(at, 0, &mut head), Transmit::Nothing);
    assert_eq!(host.policy().unwrap().node.stats().suppressed, 1);
}
