//! What an ACK tells a delay-based scheme: hops and the time of sending.

use std::sync::Mutex;
use weir_host::scheme::{AckEvent, Decision, FlowParams, Needs, Scheme, Sender, SwitchProgram};
use weir_host::schemes::Registry;
use weir_host::telemetry::TelemetryCounters;
use weir_host::wire::{ETHERNET_LEN, FrameRepr, INITIAL_TTL, PacketKind, WeirRepr};
use weir_testkit::frames::{from_peer, host, open, poll_transmit};
use weir_testkit::net::rebuild;
use weir_units::Time;

weir_host::parameters! {
    /// Records what ACKs tell.
    struct Witness {}
}

impl Scheme for Witness {
    const NAME: &'static str = "witness";
    const ABOUT: &'static str = "records what ACKs tell";
    fn needs(&self) -> Needs {
        Needs::of(SwitchProgram::Ecn)
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let window = flow.nic_rate.bytes_in(flow.base_rtt);
        Box::new(WitnessSender(Decision { window, rate: flow.nic_rate, timer: None }))
    }
}

/// Hops and time of sending of each ACK.
static ACKS: Mutex<Vec<(Option<u8>, Option<Time>)>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct WitnessSender(Decision);

impl Sender for WitnessSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        ACKS.lock().expect("one test uses it").push((ack.hops, ack.sent_at()));
        self.0
    }
    fn decision(&self) -> Decision {
        self.0
    }
}

/// Sets the TTL of a frame and updates its checksum (RFC 1624).
fn set_ttl(frame: &mut [u8], ttl: u8) {
    let (at, sum_at) = (ETHERNET_LEN + 8, ETHERNET_LEN + 10);
    let old = u32::from(frame[at]) << 8;
    let sum = u32::from(!u16::from_be_bytes([frame[sum_at], frame[sum_at + 1]]));
    let sum = sum + (0xffff - old) + (u32::from(ttl) << 8);
    let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    frame[at] = ttl;
    frame[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn an_ack_tells_hops_and_time_of_sending() {
    let scheme = Registry::builtin().with::<Witness>().get("witness").expect("it is registered");
    let mut host = host(&scheme, |_| {});
    open(&mut host, Time::from_us(1), 7, 100_000);
    let sent = poll_transmit(&mut host, Time::from_ns(1_234)).expect("the window is open");
    let mut deliver = |us: u64, ttl: u8, timestamp: u32| {
        let plain = from_peer(PacketKind::Ack, 7, 1_000);
        let mut frame = rebuild(&FrameRepr { weir: WeirRepr { timestamp, ..plain.weir }, ..plain }, &[]);
        set_ttl(&mut frame.head, ttl);
        host.receive(Time::from_us(us), &frame.head, frame.payload);
    };
    deliver(10, INITIAL_TTL - 3, sent.weir.timestamp);
    // Neither a TTL above the initial one nor one that no switch decremented tells a number of switches. A timestamp from
    // before the message tells no time.
    deliver(11, INITIAL_TTL, sent.weir.timestamp);
    deliver(12, INITIAL_TTL + 1, 1);
    let sent_at = Some(Time::from_ns(1_234));
    assert_eq!(*ACKS.lock().unwrap(), [(Some(3), sent_at), (None, sent_at), (None, None)]);
    assert_eq!(host.stats().drops.total(), 0);
}
