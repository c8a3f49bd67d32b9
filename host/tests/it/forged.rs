//! Every scheme of the registry under forged feedback, and on a path that changes.

use crate::expectations::expectations;
use crate::variants::all_variants;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;
use weir_host::FlowId;
use weir_host::scheme::SchemeConfig;
use weir_host::wire::{Flags, MAX_HOPS, PacketKind, RecordFormat};
use weir_testkit::frames::from_peer;
use weir_testkit::net::{Faults, RATE, TestNetwork, addr, rebuild};
use weir_units::{Bandwidth, Time};

const RECEIVER: usize = 2;
/// The kinds of forged feedback. No forged ACK acknowledges bytes that have not arrived: this would stall the flow, and
/// only a signature could detect it.
const FEEDBACK: [PacketKind; 5] =
    [PacketKind::Ack, PacketKind::Nack, PacketKind::Cnp, PacketKind::ProbeReply, PacketKind::Rate];

/// Milliseconds in a row with fair shares of a busy link after which a scheme has recovered.
const STEADY: usize = 5;

/// Two flows into one port.
struct Pair {
    net: TestNetwork,
    flows: [FlowId; 2],
}

impl Pair {
    fn new(scheme: &Arc<dyn SchemeConfig>) -> Pair {
        let mut net = TestNetwork::star(3, scheme);
        let flows = [0, 1].map(|host| net.open(host, RECEIVER, None));
        Pair { net, flows }
    }

    /// Injects a forged frame at one of the senders. Nine in ten have the receiver's address as source.
    fn forge(&mut self, rng: &mut Pcg64Mcg) {
        let victim = rng.random_range(0..2usize);
        let view = self.net.flow(victim, self.flows[victim]);
        let kind = FEEDBACK[rng.random_range(0..FEEDBACK.len())];
        let acked = view.acked.get() as u32;
        let seq = match rng.random_range(0..3) {
            0 => acked,
            1 => rng.random_range(0..=acked),
            // Never sent: half of the sequence space ahead.
            _ => acked.wrapping_add(1 << 30),
        };
        let mut repr = from_peer(kind, victim as u32 + 1, seq);
        repr.source = addr(if rng.random::<f64>() < 0.9 { RECEIVER } else { 1 - victim });
        repr.destination = addr(victim);
        repr.entropy_port = 49_152 + victim as u16 + 1;
        if rng.random::<f64>() < 0.1 {
            repr.weir.message = rng.next_u32();
        }
        repr.weir.flags = Flags(rng.next_u32() as u8);
        repr.weir.concurrency = [0, 1, 1000, u16::MAX][rng.random_range(0..4usize)];
        repr.weir.grant = [0, 1, 1_000_000, u32::MAX, rng.next_u32()][rng.random_range(0..5usize)];
        repr.weir.path_id = rng.next_u32() as u16 & 0xfff;
        repr.weir.timestamp = rng.next_u32();
        repr.weir.format = RecordFormat::from_bits(rng.next_u32() as u8);
        let len = rng.random_range(0..=MAX_HOPS) * repr.weir.format.record_len();
        let records: Vec<u8> = (0..len).map(|_| rng.next_u32() as u8).collect();
        self.net.inject(victim, &rebuild(&repr, &records));
    }

    fn assert_bounds(&self, name: &str) {
        for (host, flow) in self.flows.iter().enumerate() {
            let view = self.net.flow(host, *flow);
            assert!(view.window.get() >= 1, "{name}: the window is 0");
            assert!(
                view.rate > Bandwidth::ZERO && view.rate <= RATE,
                "{name}: {} on a NIC of {RATE}",
                view.rate
            );
        }
    }

    /// Runs for a millisecond and returns Jain's fairness index and the utilisation of the link in that time.
    fn run_and_measure(&mut self) -> (f64, f64) {
        let acked = |pair: &Pair| [0, 1].map(|host| pair.net.flow(host, pair.flows[host]).acked.as_f64());
        let before = acked(self);
        self.net.run_until(self.net.now + Time::from_ms(1));
        let after = acked(self);
        let [a, b] = [after[0] - before[0], after[1] - before[1]];
        let capacity = RATE.bytes_in(Time::from_ms(1)).as_f64() * 1390.0 / 1518.0;
        ((a + b) * (a + b) / (2.0 * (a * a + b * b)), (a + b) / capacity)
    }
}

/// Half a millisecond of forged feedback, one frame every two microseconds, with forged values in every field.
/// Meanwhile no window is 0 and no rate exceeds the NIC's. Afterwards every scheme recovers in the time of the slowest
/// scheme, because a forged CNP starts DCQCN's recovery also below other schemes.
#[test]
fn forged_feedback_is_survived() {
    let variants = all_variants();
    let times = variants.iter().map(|(_, scheme)| expectations(&**scheme));
    let recovery_time = times
        .map(|expectations| expectations.recovers_within + expectations.fair_within)
        .max()
        .expect("there are schemes");
    for (name, scheme) in variants {
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        let mut pair = Pair::new(&scheme);
        pair.net.run_until(Time::from_us(300));
        for _ in 0..250 {
            pair.forge(&mut rng);
            pair.assert_bounds(&name);
            pair.net.run_until(pair.net.now + Time::from_us(2));
        }
        let deadline = pair.net.now + recovery_time;
        let mut seen = Vec::new();
        let recovered = |&(jain, utilisation): &(f64, f64)| jain > 0.9 && utilisation > 0.8;
        while seen.len() < STEADY || !seen[seen.len() - STEADY..].iter().all(recovered) {
            assert!(
                pair.net.now < deadline,
                "{name}: Jain's index and utilisation of the link by millisecond: {seen:?}"
            );
            seen.push(pair.run_and_measure());
            pair.assert_bounds(&name);
        }
    }
}

/// The path changes every 50 us, as when links flap: packets and telemetry pass other switches with other counters. The
/// flows continue to share the link fairly and to fill it.
#[test]
fn a_changing_path_is_survived() {
    for (name, scheme) in all_variants() {
        let mut pair = Pair::new(&scheme);
        pair.net.run_until(expectations(&*scheme).fair_within);
        for path in 1..=10 {
            pair.net.faults = Faults { path, ..Faults::default() };
            pair.net.run_until(pair.net.now + Time::from_us(50));
            pair.assert_bounds(&name);
        }
        let (jain, utilisation) = pair.run_and_measure();
        assert!(jain > 0.9 && utilisation > 0.8, "{name}: {utilisation} of the link, Jain's index {jain}");
        let stats = pair.net.hosts[0].stats();
        assert_eq!((stats.retransmits, stats.drops.total()), (0, 0), "{name}");
    }
}
