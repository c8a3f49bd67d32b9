//! Measures the cost of a packet between ingress and egress: one enqueue and one dequeue, for each PFC mode.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use weir_switch::tm::{EnqueueRequest, PfcConfig, PfcPort, PortConfig, TmConfig, TrafficManager};
use weir_units::{Bytes, Time};

const PORTS: u16 = 64;
/// Packets queued at each port.
const DEPTH: u16 = 16;

fn manager(pfc: Option<PfcConfig>) -> TrafficManager<Box<u64>> {
    let share = pfc.map(|_| PfcPort { headroom: Bytes::from_kb(40), alpha_shift: 3, ..PfcPort::default() });
    let ports = (0..PORTS).map(|port| PortConfig { pfc: share, ..PortConfig::new(port) }).collect();
    let config = TmConfig { ports, priorities: 8, weights: Vec::new(), buffer: Bytes::new(32 << 20), pfc };
    let mut manager = TrafficManager::new(&config).unwrap();
    for n in 0..PORTS * DEPTH {
        manager.enqueue(Time::ZERO, arrival(n), Box::new(u64::from(n))).unwrap();
    }
    manager
}

fn arrival(n: u16) -> EnqueueRequest {
    let priority = (n / PORTS % 2) as u8;
    EnqueueRequest {
        ingress: (n + 1) % PORTS,
        ingress_priority: priority,
        egress: n % PORTS,
        priority,
        len: 1_500,
    }
}

fn queues(criterion: &mut Criterion) {
    let modes = [
        ("no pfc", None),
        ("fixed", Some(PfcConfig::fixed(Bytes::from_kb(500)))),
        ("dynamic", Some(PfcConfig::dynamic())),
    ];
    for (name, pfc) in modes {
        let mut manager = manager(pfc);
        let mut n = 0u16;
        criterion.bench_function(&format!("enqueue and dequeue, {name}"), |bencher| {
            bencher.iter(|| {
                n = n.wrapping_add(1);
                let departure = manager.dequeue(Time::ZERO, black_box(n % PORTS), |_| ()).unwrap();
                let admission = manager.enqueue(Time::ZERO, arrival(n), departure.item);
                black_box(admission.is_ok())
            });
        });
    }
}

criterion_group!(benches, queues);
criterion_main!(benches);
