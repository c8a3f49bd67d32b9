//! Tests of a single host with hand-built frames.

use crate::net::{BASE_RTT, Frame, RATE, addr, rebuild};
use std::sync::Arc;
use weir_host::scheme::SchemeConfig;
use weir_host::wire::{Ecn, FrameRepr, FrameView, IntRecord, MAX_HEADER_LEN, PacketKind, RateCode, WeirRepr};
use weir_host::{FlowId, FlowSpec, Host, HostConfig, Transmit};
use weir_units::{Bytes, Time};

pub const PORT: u16 = 50_000;

/// Returns the host under test, host 0, whose peer is host 1.
///
/// # Panics
///
/// The configuration is invalid.
pub fn host(scheme: &Arc<dyn SchemeConfig>, tune: impl FnOnce(&mut HostConfig)) -> Host {
    let mut config = HostConfig::new(addr(0), RATE, BASE_RTT, scheme.clone());
    tune(&mut config);
    Host::new(config).expect("valid configuration")
}

/// Opens a flow to the peer.
///
/// # Panics
///
/// The message is empty, or its id is in use.
pub fn open(host: &mut Host, now: Time, message: u32, size: u64) -> FlowId {
    let spec = FlowSpec {
        peer: addr(1),
        next_hop_mac: [2; 6],
        entropy_port: PORT,
        size: Some(Bytes::new(size)),
        message,
    };
    host.open(now, spec).expect("a new message")
}

/// Returns a packet from the peer without flags, grant or ECN.
pub fn from_peer(kind: PacketKind, message: u32, seq: u32) -> FrameRepr {
    FrameRepr {
        source_mac: [3; 6],
        destination_mac: [2; 6],
        source: addr(1),
        destination: addr(0),
        dscp: 0,
        ecn: Ecn::NotEct,
        entropy_port: PORT,
        weir: WeirRepr { message, seq, ..WeirRepr::of(kind) },
        payload_len: if kind == PacketKind::Data { 1000 } else { 0 },
    }
}

pub fn deliver(host: &mut Host, now: Time, repr: &FrameRepr, records: &[u8]) {
    let frame = rebuild(repr, records);
    host.receive(now, &frame.head, frame.payload);
}

/// Returns the headers of the next frame to transmit at `now`, if any.
pub fn poll_transmit(host: &mut Host, now: Time) -> Option<FrameRepr> {
    take_frame(host, now).map(|frame| FrameRepr::parse(&frame.view()))
}

/// Returns the next frame to transmit at `now`, if any.
///
/// # Panics
///
/// The host emits a frame that it would not accept itself.
pub fn take_frame(host: &mut Host, now: Time) -> Option<Frame> {
    let mut head = vec![0; MAX_HEADER_LEN];
    match host.transmit(now, 0, &mut head) {
        Transmit::Frame { head_len, payload, .. } => {
            head.truncate(head_len);
            FrameView::new(&head, payload).expect("hosts emit valid frames");
            Some(Frame { head, payload })
        }
        Transmit::Policy { .. } => Some(Frame { head: host.policy_frame().to_vec(), payload: 0 }),
        Transmit::Nothing => None,
    }
}

/// Returns all DATA that the host sends from `now` on without further ACKs, and the time of the last packet. Runs the
/// host's wakeups, so that pacing releases packets.
pub fn drain(host: &mut Host, mut now: Time) -> (Vec<FrameRepr>, Time) {
    let mut frames = Vec::new();
    loop {
        match poll_transmit(host, now) {
            Some(frame) => frames.push(frame),
            None => match host.next_wakeup() {
                // Wakeups within 100 us are pacing releases; retransmission timeouts are later.
                Some(next) if next < now + Time::from_us(100) => {
                    now = now.max(next);
                    host.wakeup(now);
                }
                _ => return (frames, now),
            },
        }
    }
}

/// Returns one record of a port at [`RATE`], in wire format: at `at_ns` it had sent `tx` bytes and had `queue` bytes
/// queued.
///
/// # Panics
///
/// Never: [`RATE`] has a code.
pub fn record(at_ns: u64, tx: u64, queue: u64) -> Vec<u8> {
    let rate = RateCode::from_bandwidth(RATE).unwrap();
    IntRecord::from_counters(rate, at_ns, Bytes::new(tx), Bytes::new(queue)).pack().to_be_bytes().to_vec()
}
